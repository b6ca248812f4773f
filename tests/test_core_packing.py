"""Packing and sliding: covers, bounds, overlap in whole sentences, and where an oversized sentence is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.sizing import CharacterSizer
from llama_index_chunking_plus.core.spans import is_cover, is_partition, spans_between
from llama_index_chunking_plus.core.words import Vocabulary, last_character_end
from llama_index_chunking_plus.errors import OptionError

CHARACTERS = CharacterSizer()
PLAIN = Vocabulary()


def after_full_stops(text: str) -> list[int]:
    ends = [i + 1 for i, character in enumerate(text) if character == "。"]
    return ends if not text or text.endswith("。") else [*ends, len(text)]


def units(text: str, limit: int, vocabulary: Vocabulary = PLAIN) -> Units:
    return units_that_fit(text, after_full_stops(text), CHARACTERS.ruler(text), limit, vocabulary)


def pieces(text: str, limit: int, overlap: int = 0, vocabulary: Vocabulary = PLAIN) -> list[str]:
    return [span.of(text) for span in units(text, limit, vocabulary).slide(limit, overlap)]


TEXTS = st.lists(
    st.sampled_from(["甲", "乙丙", "，", "。", " ", "word ", "\r\n", "e\u0301", "😀", "第三方检测"]), min_size=1
).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(4, 30))
def test_without_overlap_windows_tile_the_text_within_the_limit(text: str, limit: int) -> None:
    spans = units(text, limit).slide(limit)
    assert is_partition(spans, len(text))
    assert all(end - start <= limit for start, end in spans)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(4, 30), st.integers(1, 15))
def test_with_overlap_windows_cover_the_text_and_share_whole_units(text: str, limit: int, overlap: int) -> None:
    overlap = min(overlap, limit - 1)
    cut = units(text, limit)
    spans = cut.slide(limit, overlap)
    assert is_cover(spans, len(text))
    assert all(end - start <= limit for start, end in spans)
    for (_, end), (start, _) in pairwise(spans):
        assert 0 <= end - start <= overlap
        assert start in cut.bounds


def test_neighbours_share_as_many_whole_sentences_as_fit() -> None:
    text = "一一。二二。三三。四四。五五。"
    assert pieces(text, 9, 6) == ["一一。二二。三三。", "二二。三三。四四。", "三三。四四。五五。"]
    assert pieces(text, 9, 5) == ["一一。二二。三三。", "三三。四四。五五。"]
    assert pieces(text, 9, 2) == ["一一。二二。三三。", "四四。五五。"]


def test_overlap_gives_way_to_a_sentence_that_needs_the_room() -> None:
    assert pieces("一一。二二。三三三三三三三三。", 9, 6) == ["一一。二二。", "三三三三三三三三。"]


def test_an_oversized_sentence_is_cut_after_its_last_clause_that_fits() -> None:
    assert pieces("前面一段话，中间一段话，后面一段话。", 14) == ["前面一段话，中间一段话，", "后面一段话。"]


def test_a_comma_inside_a_number_is_no_clause() -> None:
    assert pieces("总金额一共是1,234,567元整。", 12)[0] == "总金额一共是"


def test_without_a_clause_it_is_cut_between_words() -> None:
    assert pieces("我们明天去人民大会堂参加会议", 9) == ["我们明天去", "人民大会堂参加会议"]


def test_without_words_it_is_cut_between_characters() -> None:
    assert pieces("x" * 10, 4) == ["xxxx", "xxxx", "xx"]


@pytest.mark.parametrize(
    "unit, limit",
    [("e\u0301", 5), ("👨‍👩‍👧", 12), ("🇨🇳", 5), ("👍🏽", 5), ("\r\n", 5), ("\ud83d\ude00", 5), ("葛\U000e0100", 5)],
    ids=["combining", "joined", "flags", "skin tone", "crlf", "surrogates", "variation"],
)
def test_what_a_reader_sees_as_one_character_is_never_cut(unit: str, limit: int) -> None:
    text = unit * 12
    for piece in pieces(text, limit):
        assert piece == unit * (len(piece) // len(unit))


def test_a_run_of_joined_characters_beyond_the_limit_is_cut_all_the_same() -> None:
    text = "e" + "\u0301" * 500
    assert max(map(len, pieces(text, 50))) == 50
    assert last_character_end(text, 0, 200) == 200


def test_protected_terms_move_the_cut_before_them() -> None:
    terms = Vocabulary(protected_terms=("检索增强生成技术",))
    assert pieces("这里介绍检索增强生成技术的用法", 10, vocabulary=terms) == ["这里介绍", "检索增强生成技术的", "用法"]


def test_protected_terms_hold_sentence_marks() -> None:
    text = "公司叫好。家。它很大。"
    assert pieces(text, 6) != pieces(text, 6, vocabulary=Vocabulary(protected_terms=("好。家",)))
    assert pieces(text, 8, vocabulary=Vocabulary(protected_terms=("好。家",)))[0] == "公司叫好。家。"


def test_a_protected_term_that_cannot_fit_is_cut() -> None:
    terms = Vocabulary(protected_terms=("甲" * 30,))
    assert max(map(len, pieces("甲" * 30, 10, vocabulary=terms))) <= 10


def test_overlapping_protected_terms_stay_whole_together() -> None:
    terms = Vocabulary(protected_terms=("乙丙丁", "丁戊己"))
    assert pieces("甲甲甲乙丙丁戊己庚庚庚", 7, vocabulary=terms)[0] == "甲甲甲"


def test_words_of_a_user_dictionary_are_protected(tmp_path) -> None:
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("量子鲱鱼 10 n\n\n长江上游段\n", encoding="utf-8")
    vocabulary = Vocabulary(user_dictionary=str(dictionary))
    assert pieces("我看见了量子鲱鱼群", 6, vocabulary=vocabulary) == ["我看见了", "量子鲱鱼群"]


def test_a_vocabulary_checks_itself() -> None:
    with pytest.raises(OptionError, match="protected_terms"):
        Vocabulary(protected_terms=("",))
    with pytest.raises(OptionError, match="user_dictionary='/nowhere'"):
        Vocabulary(user_dictionary="/nowhere")


def test_within_gives_the_span_itself_where_it_fits() -> None:
    cut = units("一一。二二。三三。", 6)
    whole = spans_between([9])[0]
    assert cut.within(whole, 9) == [whole]
    assert [end for _, end in cut.within(whole, 6)] == [6, 9]
