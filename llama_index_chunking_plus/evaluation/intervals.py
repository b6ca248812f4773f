"""Arithmetic on lists of ranges: what they cover together, and what they share."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index_chunking_plus.core.spans import Span


def union(spans: Iterable[tuple[int, int]]) -> list[Span]:
    """What the ranges cover, in order, as few ranges as possible: none empty, none touching another.

    Example:
        >>> union([(4, 6), (0, 3), (2, 4), (8, 8)])
        [Span(start=0, end=6)]
    """
    covered: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if covered and start <= covered[-1].end:
            covered[-1] = Span(covered[-1].start, max(covered[-1].end, end))
        else:
            covered.append(Span(start, end))
    return covered


def length(covered: Iterable[Span]) -> int:
    """How many characters the ranges have in all, those that stand in several counted as often."""
    return sum(span.end - span.start for span in covered)


def common(left: Iterable[Span], right: Iterable[Span]) -> int:
    """How many characters two unions share; each is counted once, as no range of a union touches another.

    Example:
        >>> common([Span(0, 4)], [Span(2, 3), Span(3, 9)])
        2
    """
    right = list(right)
    return sum(max(0, min(a.end, b.end) - max(a.start, b.start)) for a in left for b in right)


def without(span: Span, covered: Iterable[Span]) -> list[Span]:
    """The parts of a range that a union leaves out, in order.

    Example:
        >>> without(Span(0, 9), [Span(2, 3), Span(7, 12)])
        [Span(start=0, end=2), Span(start=3, end=7)]
    """
    parts, cursor = [], span.start
    for start, end in covered:
        if start >= span.end:
            break
        if start > cursor:
            parts.append(Span(cursor, start))
        cursor = max(cursor, end)
    return [*parts, Span(cursor, span.end)] if cursor < span.end else parts


def holds(covered: Iterable[Span], span: Span) -> bool:
    """Whether one range of a union, or of any ranges, holds the whole of this one."""
    return any(start <= span.start and span.end <= end for start, end in covered)
