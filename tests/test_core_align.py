"""Foreign chunks are found again in order; what is not in the text is said not to be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.align import align, left_out
from llama_index_chunking_plus.core.spans import Span


def slices(text: str, chunks: list[str]) -> list[str | None]:
    return [span and span.of(text) for span in align(text, chunks)]


@given(st.lists(st.text(alphabet="甲乙 。\n", min_size=1, max_size=6), max_size=12))
def test_a_partition_comes_back_as_itself(chunks: list[str]) -> None:
    text, cursor = "".join(chunks), 0
    for span, chunk in zip(align(text, chunks), chunks, strict=True):
        if chunk.strip():
            assert span is not None
            assert "".join(span.of(text).split()) == "".join(chunk.split())
            assert span.start >= cursor
            cursor = span.start
        else:
            assert span is None


def test_repeated_text_is_placed_in_order() -> None:
    assert align("好的。好的。走。", ["好的。", "好的。", "走。"]) == [Span(0, 3), Span(3, 6), Span(6, 8)]


def test_overlapping_chunks_are_placed_behind_the_start_of_the_one_before() -> None:
    assert align("甲乙丙丁戊", ["甲乙丙", "乙丙丁", "丁戊"]) == [Span(0, 3), Span(1, 4), Span(3, 5)]


def test_in_periodic_text_chunks_leave_no_gap_and_stay_inside() -> None:
    assert align("。" * 10, ["。" * 4] * 5) == [Span(0, 4), Span(4, 8), Span(6, 10), Span(6, 10), Span(6, 10)]
    assert slices("一二" * 4, ["一二一", "二一二", "一二一", "二"]) == ["一二一", "二一二", "一二一", "二"]


@given(st.text(alphabet="一二", min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 8))
def test_windows_over_any_text_are_all_placed_and_leave_no_gap(text: str, width: int, overlap: int) -> None:
    step = max(1, width - overlap)
    windows = [text[i : i + width] for i in range(0, max(1, len(text) - width + step), step)]
    spans = align(text, windows)
    assert None not in spans
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    assert {i for span in spans for i in range(*span)} == set(range(len(text)))


def test_white_space_may_differ() -> None:
    text = "第一行。\n\n  第二 行。\u3000末。"
    assert slices(text, ["第一行。 第二行。", "末。"]) == ["第一行。\n\n  第二 行。", "末。"]


def test_white_space_that_the_chunk_really_has_is_kept() -> None:
    assert slices("甲。\n\n乙。\n", ["甲。\n\n", "乙。\n"]) == ["甲。\n\n", "乙。\n"]


def test_an_altered_chunk_is_lost_alone() -> None:
    assert slices("甲甲。乙乙。丙丙。", ["甲甲。", "XX。", "丙丙。"]) == ["甲甲。", None, "丙丙。"]


def test_marks_that_a_splitter_drops_do_not_lose_the_chunk() -> None:
    text = "他走了……没有回头！？我们等着。\n——完——"
    assert slices(text, ["他走了…没有回头！", "我们等着。", "完"]) == ["他走了……没有回头！？", "我们等着。\n——", "完——"]
    assert slices("甲*乙*丙。丁。", ["甲乙丙。", "丁。"]) == ["甲*乙*丙。", "丁。"]


def test_nothing_is_found_in_nothing() -> None:
    assert align("", ["甲"]) == [None]
    assert align("甲", []) == []
    assert align(" \n", [" "]) == [None]


def test_marks_between_two_chunks_go_with_the_first() -> None:
    assert slices("走了……\n\n回来？！", ["走了…", "回来？"]) == ["走了……", "回来？！"]
    assert slices("甲。乙。丙。", ["甲。", "丙。"]) == ["甲。", "丙。"]


def test_chunks_out_of_order_are_placed_wherever_they_stand() -> None:
    text = "一行甲。\n二行乙。\n三行丙。\n"
    assert slices(text, ["三行丙。", "二行乙。", "一行甲。"]) == ["三行丙。", "二行乙。", "一行甲。"]
    levels = [text, "一行甲。\n二行乙。", "三行丙。", "一行甲。", "二行乙。", "三行丙。"]
    assert slices(text, levels) == levels


@given(
    st.text(alphabet="甲乙。 ", max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5)
)
def test_what_is_left_out_is_every_letter_in_no_span(text: str, pairs: list[tuple[int, int]]) -> None:
    spans = [Span(min(pair), min(max(pair), len(text))) for pair in pairs if min(pair) < min(max(pair), len(text))]
    covered = {i for span in spans for i in range(*span)}
    found = {i for span in left_out(text, spans) for i in range(*span)}
    assert not found & covered
    assert {i for i, c in enumerate(text) if c in "甲乙"} <= found | covered
