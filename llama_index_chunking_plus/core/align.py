"""Where do another splitter's chunks stand in the text? Found in order, white space aside; nothing is guessed.

Splitters that pass strings around strip, join and re-space them. Their chunks are compared with the text without any
white space, and a chunk becomes the slice of the text that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.core.spans import Span

_BLANK = re.compile(r"\s+")


def align(text: str, chunks: Iterable[str]) -> list[Span | None]:
    """The span of each chunk, in order; None for a chunk that is blank or does not stand in the text after its forerunner.

    A chunk is looked for where the one before it ended, then from behind the start of the one before it, so that
    overlapping chunks and repeated text are placed in order. What cannot be placed does not move the search on.

    Args:
        text: the text that was split.
        chunks: the pieces, in document order; they may overlap and differ from the text in white space.

    Example:
        >>> align("甲 乙。\\n\\n丙。", ["甲乙。", "丙。", "丁"])
        [Span(start=0, end=4), Span(start=6, end=8), None]
    """
    inked = "".join(text.split())
    places = _ink_places(text)
    spans: list[Span | None] = []
    previous_start, previous_end = -1, 0
    for chunk in chunks:
        ink = "".join(chunk.split())
        start = _find(inked, ink, previous_start, previous_end)
        if start < 0:
            spans.append(None)
            continue
        previous_start, previous_end = start, start + len(ink)
        spans.append(_with_own_blanks(text, chunk, int(places[start]), int(places[previous_end - 1]) + 1))
    return spans


def _find(inked: str, ink: str, previous_start: int, previous_end: int) -> int:
    if not ink:
        return -1
    if inked.startswith(ink, previous_end):
        return previous_end
    return inked.find(ink, previous_start + 1)


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
