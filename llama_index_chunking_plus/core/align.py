"""Where do another splitter's chunks stand in the text? Found, in order where there is one; nothing is guessed.

Splitters that pass strings around strip, join and re-space them, and some drop a mark here and there. Their chunks are
compared with the text without any white space, and those that are not found by their letters and digits alone. A chunk
becomes the slice of the text that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.core.spans import Span

_BLANK = re.compile(r"\s+")
_NO_LETTER = re.compile(r"[\W_]+")


def align(text: str, chunks: Sequence[str]) -> list[Span | None]:
    """The span of each chunk, in order; None for a chunk that is blank or does not stand in the text.

    A chunk is placed as late as it can be without leaving a gap behind the one before it, and early enough that those
    after it still have a place; so overlapping chunks and repeated text come out in order. A chunk that has no place in
    this order (levels one after another, say) is placed wherever it stands. Marks that stand between two chunks and in
    neither go with the first.

    Args:
        text: the text that was split.
        chunks: the pieces, in document order; they may overlap, and differ from the text in white space and marks.

    Example:
        >>> align("甲 乙。\\n\\n丙！？", ["甲乙。", "丙！", "丁"])
        [Span(start=0, end=4), Span(start=6, end=9), None]
    """
    spans = [span and _with_own_blanks(text, chunk, span) for chunk, span in _placed(text, chunks, _BLANK)]
    if any(span is None and chunk.strip() for span, chunk in zip(spans, chunks, strict=True)):
        by_letters = [span and _with_own_marks(text, chunk, span) for chunk, span in _placed(text, chunks, _NO_LETTER)]
        spans = [span or by_letter for span, by_letter in zip(spans, by_letters, strict=True)]
    return _with_dropped_marks(text, spans)


def left_out(text: str, spans: Sequence[Span]) -> list[Span]:
    """The stretches of the text in none of the spans, without the white space around them, if they hold a letter.

    Example:
        >>> left_out("甲乙。丙丁。戊", [Span(0, 3), Span(6, 7)])
        [Span(start=3, end=6)]
    """
    stretches = []
    cursor = 0
    for start, end in [*sorted(spans), Span(len(text), len(text))]:
        gap = text[cursor:start]
        if not _NO_LETTER.fullmatch(gap) and gap:
            stretches.append(Span(start - len(gap.lstrip()), cursor + len(gap.rstrip())))
        cursor = max(cursor, end)
    return stretches


def _placed(text: str, chunks: Sequence[str], ignored: re.Pattern[str]) -> Iterator[tuple[str, Span | None]]:
    """Each chunk with the span from its first to its last character that is not ignored."""
    kept = ignored.sub("", text)
    positions = _kept_positions(text, ignored)
    needles = [ignored.sub("", chunk) for chunk in chunks]
    start, end = 0, 0
    for chunk, needle, latest in zip(chunks, needles, _latest_starts(kept, needles), strict=True):
        if latest >= 0:
            place = _start(kept, needle, start, min(end, latest))
        else:
            place = max(kept.find(needle, start), kept.find(needle)) if needle else -1
        if place < 0:
            yield chunk, None
            continue
        start, end = place, place + len(needle)
        yield chunk, Span(int(positions[start]), int(positions[end - 1]) + 1)


def _start(kept: str, needle: str, previous_start: int, furthest: int) -> int:
    touching = kept.rfind(needle, previous_start, furthest + len(needle))
    return touching if touching >= 0 else kept.find(needle, furthest)


def _latest_starts(kept: str, needles: Sequence[str]) -> list[int]:
    """For each needle the last place that leaves one for all that follow; -1 where there is none."""
    starts: list[int] = []
    following = len(kept)
    for needle in reversed(needles):
        found = kept.rfind(needle, 0, following + len(needle)) if needle else -1
        starts.append(found)
        following = found if found >= 0 else following
    return starts[::-1]


def _kept_positions(text: str, ignored: re.Pattern[str]) -> NDArray[np.int64]:
    """The position of every character that is not ignored, shape ``(n_kept,)``."""
    kept = np.ones(len(text), dtype=bool)
    for match in ignored.finditer(text):
        kept[match.start() : match.end()] = False
    return np.flatnonzero(kept)


def _with_own_blanks(text: str, chunk: str, span: Span) -> Span:
    """The span with the white space around it that the chunk really has."""
    before = len(chunk) - len(chunk.lstrip())
    after = len(chunk) - len(chunk.rstrip())
    if before <= span.start and text[span.start - before : span.end + after] == chunk:
        return Span(span.start - before, span.end + after)
    return span


def _with_own_marks(text: str, chunk: str, span: Span) -> Span:
    """The span with the marks around it that the chunk has too, repeated ones included."""
    letters = [match.span() for match in re.finditer(r"[^\W_]", chunk)]
    before, after = set(chunk[: letters[0][0]]), set(chunk[letters[-1][1] :])
    start, end = span
    while start > 0 and text[start - 1] in before:
        start -= 1
    while end < len(text) and text[end] in after:
        end += 1
    return Span(start, end)


def _with_dropped_marks(text: str, spans: Sequence[Span | None]) -> list[Span | None]:
    """The spans, each up to the last mark before the next one, where only marks and white space lie between them."""
    extended: list[Span | None] = []
    next_start = len(text)
    for span in reversed(spans):
        if span is not None:
            gap = text[span.end : next_start]
            if _NO_LETTER.fullmatch(gap):
                span = Span(span.start, span.end + len(gap.rstrip()))  # noqa: PLW2901  the same span, longer
            next_start = span.start
        extended.append(span)
    return extended[::-1]
