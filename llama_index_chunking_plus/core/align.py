"""Where do another splitter's chunks stand in the text? Found in order, white space aside; nothing is guessed.

Splitters that pass strings around strip, join and re-space them. Their chunks are compared with the text without any
white space, and a chunk becomes the slice of the text that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.core.spans import Span

_BLANK = re.compile(r"\s+")


def align(text: str, chunks: Sequence[str]) -> list[Span | None]:
    """The span of each chunk, in order; None for a chunk that is blank or does not stand in the text.

    A chunk is placed as late as it can be without leaving a gap behind the one before it, and early enough that those
    after it still have a place; so overlapping chunks and repeated text come out in order.

    Args:
        text: the text that was split.
        chunks: the pieces, in document order; they may overlap and differ from the text in white space.

    Example:
        >>> align("甲 乙。\n\n丙。", ["甲乙。", "丙。", "丁"])
        [Span(start=0, end=4), Span(start=6, end=8), None]
    """
    inked = "".join(text.split())
    inks = ["".join(chunk.split()) for chunk in chunks]
    places = _ink_places(text)
    spans: list[Span | None] = []
    start, end = 0, 0
    for chunk, ink, latest in zip(chunks, inks, _latest_starts(inked, inks), strict=True):
        if latest < 0:
            spans.append(None)
            continue
        start = _start(inked, ink, start, min(end, latest))
        end = start + len(ink)
        spans.append(_with_own_blanks(text, chunk, int(places[start]), int(places[end - 1]) + 1))
    return spans


def _start(inked: str, ink: str, previous_start: int, furthest: int) -> int:
    touching = inked.rfind(ink, previous_start, furthest + len(ink))
    return touching if touching >= 0 else inked.find(ink, furthest)


def _latest_starts(inked: str, inks: Sequence[str]) -> list[int]:
    """For each chunk the last place that leaves one for all that follow; -1 where there is none."""
    starts: list[int] = []
    following = len(inked)
    for ink in reversed(inks):
        found = inked.rfind(ink, 0, following + len(ink)) if ink else -1
        starts.append(found)
        following = found if found >= 0 else following
    return starts[::-1]


def _with_own_blanks(text: str, chunk: str, start: int, end: int) -> Span:
    """The slice with the white space around it that the chunk really has."""
    before = len(chunk) - len(chunk.lstrip())
    after = len(chunk) - len(chunk.rstrip())
    if before <= start and text[start - before : end + after] == chunk:
        return Span(start - before, end + after)
    return Span(start, end)


def _ink_places(text: str) -> NDArray[np.int64]:
    """The position of every character that is no white space, shape ``(n_inked,)``."""
    inked = np.ones(len(text), dtype=bool)
    for match in _BLANK.finditer(text):
        inked[match.start() : match.end()] = False
    return np.flatnonzero(inked)
