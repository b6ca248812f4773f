"""The words that BM25 counts: what a question and its answer have in common."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.keywords import STOP_WORDS
from llama_index_chunking_plus.core.lexical import search_words
from llama_index_chunking_plus.core.words import Vocabulary
from llama_index_chunking_plus.samples import sample_paths

MIXED = st.text(
    st.sampled_from("检索系统的变频器，。、（）：ＡＢ１２abAB019-._/%+#@'  \n\0\ud800\U0001f600ｶéß々〇Ⅳ½"), max_size=60
)


@pytest.mark.parametrize(
    "text,words",
    [
        ("ERR-4012", ["err-4012", "err", "4012"]),
        ("v2.3.1", ["v2.3.1", "2.3.1"]),
        ("A380", ["a380", "380"]),
        ("3.5%", ["3.5%", "3.5"]),
        ("C++和C#与C", ["c++", "c#", "c"]),
        ("GB/T 7714-2015", ["gb/t", "gb", "7714-2015", "7714", "2015"]),
        ("192.168.1.1:8080", ["192.168.1.1:8080", "192.168.1.1", "8080"]),
        ("1,000,000元", ["1000000", "元"]),
        ("12,34", ["12", "34"]),
        ("max_tokens", ["max_tokens", "max", "tokens"]),
        ("LlamaIndex", ["llamaindex", "llama", "index"]),
        ("GPUs", ["gpus"]),
        ("The IT of it", ["it"]),
        ("第3步", ["3", "步"]),
        ("Straße ÉTÉ Привет", ["strasse", "été", "привет"]),
        ("データ", ["データ"]),
    ],
)
def test_names_codes_and_numbers(text, words):
    assert search_words(text) == words


def test_long_words_come_with_the_words_in_them():
    assert search_words("中华人民共和国") == ["中华", "华人", "人民", "共和", "共和国", "中华人民共和国"]


def test_names_that_no_dictionary_has_are_found_by_their_characters_wherever_they_stand():
    for text in ("由龚翯铖负责", "龚翯铖", "请找龚翯铖谈谈"):
        assert [word for word in search_words(text) if word in "龚翯铖"] == ["龚", "翯", "铖"]


@pytest.mark.parametrize("text", ["", " \n", "的", "，。！？", "如何是什么呢？", "the of and", "-._/", "\0\ud800", "a"])
def test_what_says_nothing_has_no_words(text):
    assert search_words(text) == []


@pytest.mark.parametrize(
    "wide,narrow",
    [
        ("ＥＲＲ－４０１２", "ERR-4012"),
        ("ｖ２．３．１", "v2.3.1"),
        ("３．５％", "3.5%"),
        ("ｶﾀﾛｸﾞ", "カタログ"),
        ("Ⅳ", "IV"),
    ],
)
def test_width_does_not_matter(wide, narrow):
    assert search_words(f"见{wide}。") == search_words(f"见{narrow}。")


def test_wide_colons_and_commas_part_what_they_stand_between():
    assert search_words("显卡：GPU：A100，L40") == [*search_words("显卡"), "gpu", "a100", "100", "l40", "40"]


def test_capitals_do_not_matter():
    assert search_words("gpu MEMORY") == search_words("GPU memory")


def test_a_user_dictionary_adds_words(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("龚翯铖 10 nr\nGPU显存\n", encoding="utf-8")
    vocabulary = Vocabulary(user_dictionary=str(path))
    assert search_words("由龚翯铖负责", vocabulary) == ["龚翯铖", "负责"]
    assert search_words("查看gpu显存", vocabulary)[-1] == "gpu显存"
    assert "龚翯铖" not in search_words("由龚翯铖负责"), "the dictionary is the caller's alone"


def test_protected_terms_come_whole_beside_their_words():
    vocabulary = Vocabulary(("检索增强", "检索增强生成", "GPU 显存", "检索", "什么"))
    assert search_words("什么是检索增强生成，要gpu 显存", vocabulary) == [
        *search_words("检索增强生成，gpu 显存"),
        "什么",
        "检索增强生成",
        "gpu 显存",
    ]


def test_a_protected_term_that_is_a_word_anyway_counts_once():
    assert search_words("检索", Vocabulary(("检索",))) == ["检索"]


@given(MIXED)
def test_any_text_gives_short_words_of_it(text):
    words = search_words(text)
    assert words == search_words(text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    for word in words:
        assert 1 <= len(word) <= 64
        assert word == word.casefold()
        assert word in folded.replace(",", "")


@given(MIXED, MIXED)
def test_a_break_between_texts_parts_their_words(left, right):
    assert search_words(f"{left}\n{right}") == [*search_words(left), *search_words(right)]


def test_every_free_standing_word_and_number_of_the_samples_can_be_found():
    for path in sample_paths():
        text = path.read_text(encoding="utf-8")
        alone = {word.lower() for word in re.findall(r"(?<![!-~])(?:[A-Za-z]{2,64}|\d{2,64})(?![!-~])", text)}
        assert alone - STOP_WORDS <= set(search_words(text))


def test_ten_megabytes_without_a_break():
    for text in ("a" * 10_000_000, "-" * 10_000_000):
        assert search_words(text) == []
    assert len(search_words("ab-" * 1_000_000)) > 1
    assert len(search_words("变频器" * 100_000)) > 100_000


def test_another_process_finds_the_same_words():
    text = "检索系统ERR-4012的中华人民共和国"
    code = (
        "import sys; from llama_index_chunking_plus.core.lexical import search_words;"
        f"sys.stdout.buffer.write(' '.join(search_words({text!r})).encode())"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)  # noqa: S603
    assert there.stdout.decode().split() == search_words(text)
