"""Sentences in, chunks out: packed side by side or sliding with overlap, never above the limit.

A sentence that is itself above the limit is cut at its last clause mark that fits, else between two words, else between
two characters. All positions are boundaries in the text; chunks are made of what lies between them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from llama_index_chunking_plus.core.sizing import Marks, Ruler
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.core.words import Vocabulary, last_character_end

_CLAUSE_END = re.compile(
    r"[；;：，、…—]+[”’」』）)\]】》〉]*"  # full-width marks and the closers that follow them
    r"|[,:.!?](?=\s)"  # ASCII marks end a clause only before a space
    r"|\s+"
)
_SENTENCE_MARKS = "。！？!?…\n.;；：:"


@dataclass(frozen=True)
class Units:
    """A text in pieces that each fit: the boundaries between them, from 0 to the end of the text."""

    bounds: list[int]
    ruler: Ruler

    def slide(self, limit: int, overlap: int = 0) -> list[Span]:
        """Windows of whole units, as many as fit into ``limit``; each begins with up to ``overlap`` of the one before.

        Args:
            limit: the largest size of a window.
            overlap: the largest size that two neighbours share; 0 gives a partition.
        """
        windows: list[Span] = []
        first, last, count = 0, 0, len(self.bounds) - 1
        while last < count:
            first = self._rewind(first, last, limit, overlap) if windows and overlap else last
            last = self._furthest(first, last, limit)
            windows.append(Span(self.bounds[first], self.bounds[last]))
        return windows

    def within(self, span: Span, limit: int) -> list[Span]:
        """The span itself if it fits into ``limit``, else the fewest windows of its units that do."""
        if self.ruler.fits(span.start, span.end, limit):
            return [span]
        return self.inside(span).slide(limit)

    def inside(self, span: Span) -> Units:
        """The units of a part of the text; one that reaches over its edge is cut there."""
        first, last = bisect_right(self.bounds, span.start), bisect_left(self.bounds, span.end)
        return Units([span.start, *self.bounds[first:last], span.end], self.ruler)

    @cached_property
    def marks(self) -> Marks:
        """Sizes up to each boundary."""
        return self.ruler.marks(self.bounds)

    def _fits(self, i: int, j: int, limit: int) -> bool:
        """Whether the units from ``i`` to ``j`` fit; where only measuring could tell, a unit less is cheaper."""
        known = self.marks.fits(i, j, limit)
        if known is None and (self.marks.are_estimates or j - i == 1 or j == len(self.bounds) - 1):
            return self.ruler.fits(self.bounds[i], self.bounds[j], limit)
        return bool(known)

    def _furthest(self, first: int, last: int, limit: int) -> int:
        """The last boundary up to which the window from ``first`` fits; at least one unit beyond ``last``."""
        furthest = min(bisect_right(self.marks.begun, self.marks.ended[first] + limit), len(self.bounds) - 1)
        while furthest > last + 1 and not self._fits(first, furthest, limit):
            furthest -= 1
        return max(furthest, last + 1)

    def _rewind(self, first: int, last: int, limit: int, overlap: int) -> int:
        """Where the window that follows begins: whole units within ``overlap`` that leave room for a new one."""
        begun, ended = self.marks.begun, self.marks.ended
        start = max(first + 1, bisect_left(ended, begun[last] - overlap), bisect_left(ended, begun[last + 1] - limit))
        while start < last and not (self._fits(start, last, overlap) and self._fits(start, last + 1, limit)):
            start += 1
        return min(start, last)


def units_that_fit(
    text: str, ends: Sequence[int], ruler: Ruler, limit: int, vocabulary: Vocabulary, piece_limit: int | None = None
) -> Units:
    """Sentences as units, those above ``limit`` cut up; a boundary inside a protected term is dropped.

    Args:
        text: the text.
        ends: the end of each sentence, ascending, the last at the end of the text.
        ruler: measures pieces of ``text``.
        limit: the largest size of a unit; one character may be larger, and then stands alone.
        vocabulary: what is not to be cut while it fits.
        piece_limit: the largest size of what a sentence above ``limit`` is cut into; None: ``limit``.
    """
    ends = _outside_terms(text, ends, vocabulary)
    bounds = [0, *ends]
    marks = ruler.marks(bounds)
    too_large = [i for i in marks.doubtful(limit) if not ruler.fits(bounds[i], bounds[i + 1], limit)]
    cuts = [
        cut
        for i in too_large
        for cut in _cuts(text, Span(bounds[i], bounds[i + 1]), ruler, piece_limit or limit, vocabulary)
    ]
    return Units(sorted([*bounds, *cuts]), ruler)


def _outside_terms(text: str, ends: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    if not vocabulary.holds_any_of(_SENTENCE_MARKS):
        return list(ends)
    return [end for end in ends if end == len(text) or vocabulary.straddling(text, end) is None]


def _cuts(text: str, sentence: Span, ruler: Ruler, limit: int, vocabulary: Vocabulary) -> Iterator[int]:
    """Positions inside an oversized sentence at which it falls into pieces that fit."""
    start, end = sentence
    while not ruler.fits(start, end, limit):
        stop = min(ruler.reach(start, limit), end - 1)
        cut = _best_cut(text, start, stop, vocabulary)
        while cut > start + 1 and not ruler.fits(start, cut, limit):
            stop = min(cut, stop) - 1
            cut = _best_cut(text, start, stop, vocabulary)
        if cut >= end:
            return
        yield cut
        start = cut


def _best_cut(text: str, start: int, stop: int, vocabulary: Vocabulary) -> int:
    """The best position in ``(start, stop]``: after a clause, between words, between characters."""
    if stop <= start + 1:
        return start + 1
    cut = _last_clause_end(text, start, stop) or vocabulary.last_word_end(text, start, stop) or stop
    return last_character_end(text, start, _beside_terms(text, start, cut, stop, vocabulary))


def _beside_terms(text: str, start: int, cut: int, stop: int, vocabulary: Vocabulary) -> int:
    """The cut, moved off the protected terms that it would tear: before them, else behind, where that fits."""
    torn = vocabulary.straddling(text, cut)
    while torn is not None:
        if torn.start <= start:
            return torn.end if torn.end <= stop else cut
        cut = torn.start
        torn = vocabulary.straddling(text, cut)
    return cut


def _last_clause_end(text: str, start: int, stop: int) -> int | None:
    """The last clause end in the second half of the range: a clause that leaves the chunk half empty is no gain."""
    begin = start + (stop - start) // 2
    last = None
    for match in _CLAUSE_END.finditer(text, begin, stop):
        last = match.end()
    return last if last is not None and last > start else None
