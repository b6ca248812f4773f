"""Chunk boundaries against known topic boundaries, counted in sentences.

A text of n sentences has n - 1 gaps; a boundary is a gap. What is given in characters goes to the nearest end of a
sentence. The beginning and the end of the text are no boundaries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.measures import measure

_SHORTEST_WINDOW = 2  # sentences


def chunk_boundaries(chunks: Iterable[tuple[int, int]]) -> list[int]:
    """Where chunks end, in order, but for the last: the boundaries that a parser found.

    Example:
        >>> chunk_boundaries([(0, 5), (4, 9), (4, 9), (8, 12)])
        [5, 9]
    """
    return sorted({end for _, end in chunks})[:-1]


@measure("boundary_f1", "Boundary F1", "boundaries")
def boundary_f1(true: Iterable[int], found: Iterable[int], sentence_ends: Sequence[int], tolerance: int = 1) -> float:
    """The harmonic mean of precision and recall of the found boundaries, 1 if both are none.

    Each boundary is matched with at most one, as many as can be.

    Args:
        true: where topics end, in characters.
        found: where chunks end.
        sentence_ends: where sentences end, ascending.
        tolerance: how many sentences a boundary may be off, from 0.

    Example:
        >>> boundary_f1([20], [10, 28], sentence_ends=[10, 20, 30, 40], tolerance=0)
        0.0
        >>> round(boundary_f1([20], [10, 28], sentence_ends=[10, 20, 30, 40]), 3)
        0.667
    """
    if tolerance < 0:
        raise OptionError(f"tolerance={tolerance}; it must be a number of sentences from 0")
    wanted, given = sorted(_gaps(true, sentence_ends)), sorted(_gaps(found, sentence_ends))
    if not wanted and not given:
        return 1.0
    return 2 * _matches(wanted, given, tolerance) / (len(wanted) + len(given))


@measure("pk", "Pk", "boundaries", higher_is_better=False)
def pk(true: Iterable[int], found: Iterable[int], sentence_ends: Sequence[int], window: int | None = None) -> float:
    """How often two sentences a window apart are wrongly said to be of one topic, or of two; 0 is best.

    Args:
        true: where topics end, in characters.
        found: where chunks end.
        sentence_ends: where sentences end, ascending.
        window: the distance in sentences, from 1; None: half of the mean length of a topic, at least 2.

    Source:
        Beeferman, Berger and Lafferty (1999), Statistical models for text segmentation.

    Example:
        >>> pk([20], [30], sentence_ends=[10, 20, 30, 40, 50], window=2)
        0.6666666666666666
    """
    wanted, given = _in_windows(true, found, sentence_ends, window)
    return float(np.mean((wanted > 0) != (given > 0))) if wanted.size else 0.0


@measure("window_diff", "WindowDiff", "boundaries", higher_is_better=False)
def window_diff(
    true: Iterable[int], found: Iterable[int], sentence_ends: Sequence[int], window: int | None = None
) -> float:
    """How often a window holds another number of boundaries than it should; 0 is best. The arguments are those of `pk`.

    Source:
        Pevzner and Hearst (2002), A critique and improvement of an evaluation metric for text segmentation.

    Example:
        >>> window_diff([20], [10, 20], sentence_ends=[10, 20, 30, 40, 50], window=2)
        0.3333333333333333
    """
    wanted, given = _in_windows(true, found, sentence_ends, window)
    return float(np.mean(wanted != given)) if wanted.size else 0.0


def _gaps(boundaries: Iterable[int], sentence_ends: Sequence[int]) -> set[int]:
    """The boundaries as gaps between sentences, numbered from 0."""
    last = len(sentence_ends) - 1
    return {_nearest(at, sentence_ends) for at in boundaries if last > 0 and at > 0}.difference([last])


def _nearest(position: int, ends: Sequence[int]) -> int:
    after = bisect_left(ends, position)
    if after == len(ends):
        return after - 1
    return after - 1 if after and position - ends[after - 1] <= ends[after] - position else after


def _matches(wanted: Sequence[int], given: Sequence[int], tolerance: int) -> int:
    """The most pairs that are no further apart; both ascend, so the first that can be matched are."""
    count = i = j = 0
    while i < len(wanted) and j < len(given):
        if abs(wanted[i] - given[j]) <= tolerance:
            count, i, j = count + 1, i + 1, j + 1
        elif wanted[i] < given[j]:
            i += 1
        else:
            j += 1
    return count


def _in_windows(
    true: Iterable[int], found: Iterable[int], sentence_ends: Sequence[int], window: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of true and of found boundaries in each window."""
    n_gaps = len(sentence_ends) - 1
    wanted, given = _gaps(true, sentence_ends), _gaps(found, sentence_ends)
    if window is not None and window < 1:
        raise OptionError(f"window={window}; it must be a number of sentences from 1, or None")
    if n_gaps < 1:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    usual = max(_SHORTEST_WINDOW, round(len(sentence_ends) / (len(wanted) + 1) / 2))
    width = min(window or usual, n_gaps)
    return _counted(wanted, n_gaps, width), _counted(given, n_gaps, width)


def _counted(gaps: Iterable[int], n_gaps: int, width: int) -> NDArray[np.int64]:
    marks = np.zeros(n_gaps, dtype=np.int64)
    marks[list(gaps)] = 1
    return np.convolve(marks, np.ones(width, dtype=np.int64), "valid")
