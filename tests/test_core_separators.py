"""Separators by priority: what each kind of separator cuts, and that nothing else is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.separators import SeparatorCutter, check_separators
from llama_index_chunking_plus.core.sizing import CharacterSizer
from llama_index_chunking_plus.core.words import Vocabulary, last_character_end
from llama_index_chunking_plus.errors import OptionError

USUAL = ("\n## ", "\n\n", "```", "\n", "。", "；", "，", "")


def pieces(text: str, separators: tuple[str, ...], limit: int, overlap: int = 0, **vocabulary: object) -> list[str]:
    cutter = SeparatorCutter(separators, limit, overlap, Vocabulary(**vocabulary))
    bounds = [0, *cutter.ends(text, CharacterSizer().ruler(text))]
    return [text[start:end] for start, end in pairwise(bounds)]


def test_only_what_is_too_large_is_cut_and_at_the_first_separator_that_occurs_in_it() -> None:
    text = "一。二。\n\n三，三。四四四四四四，五。"
    assert pieces(text, ("\n\n", "。", "，"), 100) == [text]
    assert pieces(text, ("\n\n", "。", "，"), 10) == ["一。二。\n\n", "三，三。", "四四四四四四，五。"]
    assert pieces(text, ("\n\n", "。", "，"), 8) == ["一。二。\n\n", "三，三。", "四四四四四四，", "五。"]
    assert pieces(text, ("，", "\n\n", "。"), 9) == ["一。二。\n\n三，", "三。四四四四四四，", "五。"]


def test_a_separator_at_the_end_of_a_piece_does_not_occur_in_it() -> None:
    assert pieces("甲甲甲，甲甲。", ("。", "，"), 5) == ["甲甲甲，", "甲甲。"]


@pytest.mark.parametrize(
    "separator, expected",
    [
        ("。", ["“好。”", "坏。"]),
        ("\n## ", ["“好。”坏。"]),
    ],
)
def test_quotes_that_close_behind_a_mark_go_with_it(separator: str, expected: list[str]) -> None:
    assert pieces("“好。”坏。", (separator,), 4) == expected


@pytest.mark.parametrize(
    "separator, text, expected",
    [
        ("\n## ", "序\n## 甲\n乙\n### 丙\n## 丁", ["序\n", "## 甲\n乙\n### 丙\n", "## 丁"]),
        ("\n## ", "序\r\n## 甲", ["序\r\n", "## 甲"]),
        ("\n第", "总则\n第一条\n第二条", ["总则\n", "第一条\n", "第二条"]),
        ("\n\n第", "总则\n\n第一条\n第二条", ["总则\n\n", "第一条\n第二条"]),
        ("\n\tdef ", "a\n\tdef f\n\tdef g", ["a\n", "\tdef f\n", "\tdef g"]),
        ("\n***\n", "甲\n***\n乙", ["甲\n", "***\n乙"]),
    ],
)
def test_a_heading_begins_the_next_piece(separator: str, text: str, expected: list[str]) -> None:
    assert pieces(text, (separator,), 1) == expected


def test_newlines_match_crlf_and_take_all_that_follow() -> None:
    assert pieces("甲\r\n\r\n\r\n乙\r\n丙", ("\n\n",), 1) == ["甲\r\n\r\n\r\n", "乙\r\n丙"]
    assert pieces("甲\n\n\n乙\n丙", ("\n",), 1) == ["甲\n\n\n", "乙\n", "丙"]
    assert pieces("甲\r\n乙", ("\r",), 1) == ["甲\r\n", "乙"]


CODE = "先看：\n```python\nx = 1\n```\n后面。\n\n~~~\ny\n~~~\n"


def test_a_fence_begins_the_piece_that_it_opens_and_ends_the_one_that_it_closes() -> None:
    assert pieces(CODE, ("```",), 5) == ["先看：\n", "```python\nx = 1\n```\n", "后面。\n\n~~~\ny\n~~~\n"]
    assert pieces(CODE, ("\n~~~",), 5)[1:] == ["~~~\ny\n~~~\n"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("说```x```的是\n```\n码\n```", ["说```x```的是\n", "```\n码\n```"]),
        ("````\n```\n````\n后", ["````\n```\n````\n", "后"]),
        ("前\n```\n没有完", ["前\n", "```\n没有完"]),
        ("前\r\n```\r\n码\r\n```\r\n后", ["前\r\n", "```\r\n码\r\n```\r\n", "后"]),
        ("~~~\n```\n~~~\n后", ["~~~\n```\n~~~\n后"]),
    ],
    ids=["in a line", "a longer one", "open", "crlf", "of the other kind"],
)
def test_fences_are_those_of_markdown(text: str, expected: list[str]) -> None:
    assert pieces(text, ("```",), 2) == expected


def test_nothing_cuts_between_words_and_between_characters_where_there_are_none() -> None:
    assert pieces("我们明天去人民大会堂", ("",), 5) == ["我们", "明天", "去", "人民大会堂"]
    assert pieces("abcdefgh", ("",), 4, overlap=2) == list("abcdefgh")
    assert pieces("see the long-lived one", ("",), 20, overlap=8) == ["see", " ", "the", " ", "long-lived", " ", "one"]
    assert "".join(pieces("甲" * 9_000, ("",), 100, overlap=20)) == "甲" * 9_000


def test_no_character_and_no_protected_term_is_torn() -> None:
    for unit in ("e\u0301", "👨‍👩‍👧", "🇨🇳", "。\ufe00"):
        for piece in pieces(unit * 9, ("。", ""), 4, overlap=2):
            assert piece == unit * (len(piece) // len(unit))
    assert pieces("公司叫好。家。它很大。", ("。",), 4, protected_terms=("好。家",)) == ["公司叫好。家。", "它很大。"]
    assert pieces("甲-乙-丙-丁", ("-", ""), 2, protected_terms=("乙-丙",)) == ["甲-", "乙-丙", "-", "丁"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["\n## ", "\r\n", "\n", "```", "。", "”", "，", "甲乙", "word ", "e\u0301", "😀", "🇨🇳"])
    ).map("".join),
    st.integers(1, 30),
    st.integers(0, 10),
)
def test_pieces_tile_the_text_whole_characters_each(text: str, limit: int, overlap: int) -> None:
    found = pieces(text, USUAL, limit, overlap)
    assert "".join(found) == text
    assert all(found) or not text
    cut = 0
    for piece in found:
        cut += len(piece)
        assert last_character_end(text, -1, cut) == cut


@pytest.mark.parametrize("unit", ["a", "\n", "，", "```\n", "`", " ", "\r\n"])
def test_a_long_run_of_anything_comes_to_an_end(unit: str) -> None:
    text = unit * (500_000 // len(unit))
    assert "".join(pieces(text, USUAL, 800, 120)) == text  # a second; hours where work grows with the square


@pytest.mark.parametrize(
    "separators, message",
    [
        ([], r"separators=\[\] is empty; give some"),
        ("。", r"separators='。' is no list"),
        (7, r"separators=7 is no list"),
        ({"。"}, r"is no list"),
        (["。", 7], r"separators\[1\]=7 is no string"),
        ([None], r"separators\[0\]=None is no string"),
        (["", "。"], r'holds "" before its end; "" cuts between any two characters.*put it last'),
        (["。", "，", "。"], r"holds '。' twice"),
        (["", ""], r"holds '' twice"),
    ],
)
def test_a_wrong_list_is_explained(separators: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_separators(separators)


def test_a_good_list_is_a_tuple() -> None:
    assert check_separators(list(USUAL)) == USUAL
