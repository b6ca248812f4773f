"""Spans against sets of integers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.spans import Span, is_cover, is_partition, spans_between

SPANS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: Span(*pair)), max_size=6)


@given(SPANS, st.integers(0, 8))
def test_partition_is_every_character_exactly_once_in_order(spans: list[Span], length: int) -> None:
    characters = [i for start, end in spans for i in range(start, end)]
    expected = characters == list(range(length)) and all(start < end for start, end in spans)
    assert is_partition(spans, length) == expected


@given(SPANS, st.integers(0, 8))
def test_cover_is_every_character_at_least_once_with_both_ends_ascending(spans: list[Span], length: int) -> None:
    starts, ends = [s for s, _ in spans], [e for _, e in spans]
    ascending = all(a < b for side in (starts, ends) for a, b in pairwise(side))
    filled = all(start < end for start, end in spans)
    characters = {i for start, end in spans for i in range(start, end)}
    assert is_cover(spans, length) == (ascending and filled and characters == set(range(length)))


def test_spans_between_ends_tile_the_text() -> None:
    assert spans_between([2, 5]) == [Span(0, 2), Span(2, 5)]
    assert spans_between([], start=3) == []
    assert spans_between([7], start=3) == [Span(3, 7)]


def test_a_span_is_a_value() -> None:
    assert Span(1, 3).of("甲乙丙丁") == "乙丙"
    assert Span(1, 3).shift(4) == Span(5, 7)
    assert sorted([Span(2, 3), Span(1, 9)]) == [Span(1, 9), Span(2, 3)]
    with pytest.raises(AttributeError):
        Span(0, 1).start = 2  # type: ignore[misc]
