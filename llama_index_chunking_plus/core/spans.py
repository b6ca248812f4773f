"""Half-open character ranges, and the two promises made about lists of them: partition and cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """The characters ``text[start:end]`` of the root document, counted in code points.

    Example:
        >>> text = "你好。再见。"
        >>> Span(3, 6).of(text)
        '再见。'
    """

    start: int
    end: int

    def of(self, text: str) -> str:
        """The slice of ``text`` that this span names."""
        return text[self.start : self.end]

    def shift(self, offset: int) -> Span:
        """The same span in a frame that begins ``offset`` characters earlier."""
        return Span(self.start + offset, self.end + offset)


def spans_between(ends: Sequence[int], start: int = 0) -> list[Span]:
    """The consecutive spans that begin at ``start`` and stop at each of ``ends``."""
    return [Span(*pair) for pair in zip([start, *ends], ends, strict=False)]


def is_partition(spans: Iterable[Span], length: int) -> bool:
    """Whether the spans tile ``[0, length)``: in order, none empty, no gap and no overlap."""
    cursor = 0
    for start, end in spans:
        if start != cursor or end <= start:
            return False
        cursor = end
    return cursor == length


def is_cover(spans: Iterable[Span], length: int) -> bool:
    """Whether the spans, both ends ascending, leave no character of ``[0, length)`` out; overlap is allowed."""
    last_start, cursor = -1, 0
    for start, end in spans:
        if start <= last_start or start > cursor or end <= max(start, cursor):
            return False
        last_start, cursor = start, end
    return cursor == length
