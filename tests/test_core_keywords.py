"""Keywords against jieba's own analysis, and words torn by cuts against brute force."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document

from llama_index_chunking_plus.core.keywords import (
    STOP_WORDS,
    cut_terms,
    jieba_words,
    keyword_integrity,
    top_keywords,
    without_markup,
)
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError

TEXT = "变频器的散热风扇每半年清洁一次。变频器报警时先看散热风扇，再看 Cooling fan。cooling 不足时变频器降容运行，Cooling 恢复后复位。"


@pytest.fixture(scope="module")
def analyse() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba.analyse  # noqa: PLC0415

    jieba.setLogLevel("WARNING")
    return jieba.analyse


def chinese_words(text: str, tagged: bool = False) -> Iterator[tuple[str, str]]:
    """Without Latin letters, of which jieba counts large and small ones apart."""
    return ((word, tag) for word, tag in jieba_words(text, None, tagged) if not any(map(str.isascii, word)))


# --- keywords ---


def test_tf_idf_is_that_of_jieba(analyse: Any, sample_documents: list[Document]) -> None:
    for document in sample_documents:
        expected = [word for word in analyse.extract_tags(document.text, topK=None) if not any(map(str.isascii, word))]
        expected = [word for word in expected if any(map(str.isalpha, word))]
        assert top_keywords(chinese_words(document.text), top_k=10**6, stop_words=()) == expected


def test_text_rank_is_that_of_jieba(analyse: Any, sample_documents: list[Document]) -> None:
    tags = ("n", "ns", "vn", "v")
    for document in sample_documents[:4]:
        expected = analyse.textrank(document.text, topK=None, allowPOS=tags, withWeight=True)
        found = top_keywords(
            jieba_words(document.text, None, tagged=True),
            method="textrank",
            top_k=len(expected),
            stop_words=(),
            allowed_pos=tags,
        )
        weight = dict(expected)
        ranks = [weight[word] for word in found if word in weight]
        assert len(ranks) > 0.97 * len(expected)  # words without neighbours are no nodes of jieba's graph
        assert ranks == sorted(ranks, reverse=True) or max(b - a for a, b in pairwise(ranks)) < 1e-9
        assert set(found[:10]) == {word for word, _ in expected[:10]}


def test_english_counts_in_any_case_and_is_shown_as_mostly_written() -> None:
    found = top_keywords(jieba_words(TEXT), top_k=3)
    assert found[:2] == ["Cooling", "变频器"]
    assert top_keywords([("gpu", ""), ("GPU", "")]) == ["gpu"]  # the first of equals


@pytest.mark.parametrize("method", ["tfidf", "textrank"])
def test_no_keyword_is_short_a_number_a_stop_word_or_data(method: Any) -> None:
    words = "的 我们 the The 2024 3.5 …… — 水 a 因为 显卡 x86 AKIA" + "x" * 61
    assert sorted(top_keywords([(word, "") for word in words.split()], method=method)) == ["x86", "显卡"]
    assert top_keywords([], method=method) == []


def test_only_allowed_parts_of_speech_count_and_unknown_ones_always_do() -> None:
    words = [("变频器", "n"), ("清洁", "v"), ("散热风扇", "")]
    assert set(top_keywords(words, allowed_pos=("n",))) == {"变频器", "散热风扇"}
    assert len(top_keywords(words)) == 3


def test_words_make_up_the_text_and_those_of_the_user_dictionary_are_known(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("检索增强生成 10 nz\n", encoding="utf-8")
    text = "检索增强生成系统\r\n很快 \ud800👍🏽。RAG-like"
    for tagged in (False, True):
        assert "".join(word for word, _ in jieba_words(text, None, tagged)) == text
        assert next(jieba_words(text, str(path), tagged)) == ("检索增强生成", "")


def test_stop_words_are_in_small_letters_and_of_two_characters_or_english() -> None:
    assert all(word == word.casefold() for word in STOP_WORDS)
    assert len(STOP_WORDS) < 600


def test_markup_is_no_text() -> None:
    assert without_markup("<tr><td class='a'>1</td><br/></tr>\\frac{a}{b}&nbsp;见https://x.cn/a?b=1。").split() == [
        "1",
        "{a}{b}",
        "见",
        "。",
    ]
    plain = "vector<string> a < b > c，5 > 3，<变量>，x&y"
    assert without_markup(plain) == plain


def test_jieba_is_loaded_lazily_once_and_without_a_word() -> None:
    code = (
        "import sys, logging\n"
        "from llama_index_chunking_plus.core.keywords import jieba_words, top_keywords\n"
        "assert 'jieba' not in sys.modules\n"
        "for tagged in (False, True):\n"
        "    top_keywords(jieba_words('检索系统很快', None, tagged))\n"
        "    assert ('jieba.posseg' in sys.modules) == tagged\n"
        "assert 'jieba.analyse' not in sys.modules and not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- what cuts tear ---


def brute_force(text: str, spans: list[tuple[int, int]], terms: list[str]) -> list[tuple[int, int]]:
    """Every range of the text that is a term, and every chunk, one by one."""
    return sorted(
        (start, end)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
        if text[start:end] in terms and not any(low <= start and end <= high for low, high in spans)
    )


SPANS = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=6)


@given(st.text("ab检索", max_size=14), SPANS, st.lists(st.text("ab检索", min_size=1, max_size=4), max_size=4))
def test_torn_terms_are_those_that_brute_force_finds(text: str, spans: list[tuple[int, int]], terms: list[str]) -> None:
    torn = brute_force(text, spans, terms)
    everything = brute_force(text, [], terms)
    assert cut_terms(text, spans, terms) == torn
    expected = (len(everything) - len(torn)) / len(everything) if everything else 1.0
    assert keyword_integrity(text, spans, terms) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=8, unique=True))
def test_torn_words_are_those_with_a_cut_inside(cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(TEXT)]
    spans = list(zip([0, *ends], ends, strict=False))
    position, expected, words = 0, [], 0
    for word, _ in jieba_words(TEXT):
        start, position = position, position + len(word)
        if len(word) > 1 and word.isalnum():
            words += 1
            if any(start < cut < position for cut in cuts):
                expected.append(Span(start, position))
    assert cut_terms(TEXT, spans) == expected
    assert keyword_integrity(TEXT, spans) == pytest.approx(1 - len(expected) / words)


def test_overlap_heals_a_cut_and_a_gap_is_one() -> None:
    text = "检索增强生成"
    assert keyword_integrity(text, [(0, 3), (3, 6)], ["增强"]) == 0
    assert keyword_integrity(text, [(2, 6), (0, 3)], ["增强"]) == 1
    assert keyword_integrity(text, [(0, 2), (4, 6)], ["检索", "增强", "生成", "检"]) == 0.75
    assert cut_terms(text, [], ["生成"]) == [Span(4, 6)]
    assert keyword_integrity("啊啊啊啊", [(0, 2), (2, 4)], ["啊啊", "啊啊"]) == pytest.approx(2 / 3)


def test_where_there_is_nothing_to_tear_nothing_is_torn() -> None:
    assert (
        keyword_integrity("", []) == keyword_integrity("，。 \n", []) == keyword_integrity("检索", [], ["生成"]) == 1.0
    )
    with pytest.raises(OptionError, match="empty"):
        keyword_integrity("检索", [], ["检索", ""])


def test_the_user_dictionary_makes_words(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("检索增强生成\n", encoding="utf-8")
    text = "检索增强生成很好"
    assert [span.of(text) for span in cut_terms(text, [(0, 4), (4, 8)], user_dictionary=str(path))] == ["检索增强生成"]
    assert cut_terms(text, [(0, 4), (4, 8)]) == []


@pytest.mark.timeout(100)  # seconds; hours where work grows with the square
def test_integrity_of_a_long_text_with_many_chunks() -> None:
    text = TEXT * 20_000
    spans = [(start, start + 9) for start in range(0, len(text), 7)]
    assert 0 < keyword_integrity(text, spans, ["变频器", "散热", "Cooling", "热风"]) < 1
