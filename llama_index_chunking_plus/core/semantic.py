"""Sentence vectors in, segment ends out: where the topic of a document changes, inside hard size bounds.

Directions. Each sentence vector is scaled to unit length, the mean of the document is taken away (what all sentences
share says nothing about where they differ) and the rest is scaled to unit length again: ``y_1 ... y_n``. A row that is
zero, NaN or infinite is *unknown*: it stays zero and speaks neither for a segment nor against it.

Value of a segment ``(i, j]``: the length of the sum of its directions, less what unrelated sentences reach by chance::

    value(i, j) = sqrt(max(0, |y_i+1 + ... + y_j|^2 - (known rows in the segment)))

Under the root stands the sum of the similarities between *different* sentences: about zero for unrelated ones, however
many they are, and ``m * (m - 1)`` for ``m`` equal ones.

Optimal segments maximise, over all segmentations inside the bounds::

    sum of value(i, j) - penalty - pull(size(i, j))

by dynamic programming over the sentence ends (Utiyama and Isahara, "A statistical model for domain-independent text
segmentation", ACL 2001; the objective is our own). The penalty for each segment sets how many there are:

- Without a target size the document sets it. Its sentences are shuffled and cut into short windows, and the best split
  of each window gains something by mere chance; the penalty is what 70 % of those gains do not exceed.
- With a target size that penalty is changed no further than it takes to bring the mean size to the target, and the
  pull, ``((size - target) / target)^2 / 2``, evens the sizes out.

Percentile segments compare the three sentences before a gap with the three after it: blocks that do not overlap, as in
TextTiling (Hearst, "TextTiling: segmenting text into multi-paragraph subtopic passages", Computational Linguistics
23(1), 1997). Each sentence weighs the square root of its size::

    distance(gap) = 1 - cos(weighted sum before, weighted sum after)

A distance that reaches the percentile is a boundary; the same dynamic programming then settles the size bounds.

Vectors are read in blocks: time grows with the number of sentences times those that fit into ``max_size``, and memory
beyond the input with the number of sentences alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Vectors: TypeAlias = NDArray[np.floating[Any]] | Sequence[Sequence[float]]
Sizes: TypeAlias = NDArray[np.integer[Any]] | Sequence[int]
Candidates: TypeAlias = tuple[int, Floats]
"""The segments that may end at one sentence end: the first start, and a value for each start from there on."""

BLOCK_ROWS = 64
"""Sentences in one matrix product, or as many as a segment may hold: few enough for the cache, enough for BLAS."""
MAX_WINDOW = 512
"""Sentences of mean size that an optimal segment may hold at most, so that no bound at all stays affordable."""
SAMPLES, SAMPLE_ROWS = 8, 512
"""Stretches, and sentences in each, on which a longer document tries out the penalty for its target size."""
SHUFFLES, SHUFFLED_ROWS, SHUFFLED_WINDOW, SHUFFLE_SEED = 6, 512, 16, 1
"""Shuffled orders, sentences in each at most, and sentences in a window: where the gains of chance are seen."""
CHANCE_QUANTILE = 0.7
"""Share of the gains of chance that the penalty takes away."""
TARGET_PULL = 0.5
"""Price of a segment that is off the target by the whole target."""
TARGET_TOLERANCE = 0.08
"""How far the mean size may stay off the target, as a share of it, where the document's own topics ask for it."""
PENALTY_LIMIT, PENALTY_TRIALS = 1024.0, 12
"""Bounds on the search for the penalty that meets a target size."""
LEAST_PENALTY, EVENNESS = 0.05, 0.01
"""For sentences that tell nothing apart: as few segments as possible, and those of even size."""
SHORT_PRICE = 1e9
"""Price of a segment below the minimum: beyond any sum of values, so there are as few of them as possible."""
GAP_ROWS = 3
"""Sentences compared on each side of a gap."""
BOUNDARY_REWARD = 8.0
"""What a boundary is worth, and a cut elsewhere costs, in distances: more than two whole ones can outweigh."""
DISTANCE_DIGITS = 6
"""Decimals of a distance that count: equal sentences must not differ by rounding."""
ONE_THREAD = 2**18
"""Multiplications up to which OpenBLAS, which numpy comes with, uses one thread."""
TINY = 1e-6
"""Length below which a difference of unit vectors is rounding."""


def optimal_segments(
    vectors: Vectors, sizes: Sizes, *, max_size: int, min_size: int | None = None, target_size: int | None = None
) -> list[int]:
    """Sentence ends of the most coherent segmentation inside the bounds, ascending; the last is ``n_sentences``.

    No segment exceeds ``max_size``, unless it is a single sentence that does. Every segment reaches ``min_size`` if any
    segmentation allows that; if none does, as few as possible fall short. The same input gives the same ends.

    Args:
        vectors: Sentence vectors, (n_sentences, dim); zero, NaN and infinite rows carry no information.
        sizes: Size of each sentence, (n_sentences,), positive, in the unit of the bounds.
        max_size: Hard maximum of a segment. Where it allows more, 512 sentences of mean size are the maximum.
        min_size: Minimum of a segment; None is a third of the target, and no minimum without one.
        target_size: Mean size to come out, within 8 % where whole segments allow it; None lets the document decide.

    Raises:
        OptionError: The lengths differ, a size is not positive, or a bound is out of range.
    """
    document = _Document.checked(vectors, sizes)
    _check_at_least(1, max_size=max_size, target_size=target_size)
    _check_at_least(0, min_size=min_size)
    if target_size is not None and target_size > max_size:
        raise OptionError(f"target_size={target_size} exceeds max_size={max_size}; raise max_size or lower the target")
    if not len(document):
        return []
    if min_size is None:
        min_size = target_size // 3 if target_size else 0
    bounds = _Bounds(document.offsets, max_size, min_size).narrowed()
    if target_size is None:
        scorer = _Coherence(document, bounds, unit=max_size, ideal=0.0, pull=EVENNESS)
        return _best_ends(scorer.candidates(0, len(document)), len(document), _chance_penalty(document))
    return _ends_on_target(_Coherence(document, bounds, unit=target_size, ideal=1.0, pull=TARGET_PULL))


def percentile_segments(
    vectors: Vectors, sizes: Sizes, *, percentile: float, max_size: int, min_size: int | None = None
) -> list[int]:
    """Sentence ends where the distance across the gap reaches the percentile, inside the bounds; the last is ``n``.

    The bounds hold as in ``optimal_segments``: of boundaries closer together than ``min_size`` the lesser ones go, and
    what exceeds ``max_size`` is cut at its widest gaps into few and even parts. A gap between equal or unknown
    sentences is never a boundary.

    Args:
        vectors: Sentence vectors, (n_sentences, dim); zero, NaN and infinite rows carry no information.
        sizes: Size of each sentence, (n_sentences,), positive, in the unit of the bounds.
        percentile: Percentage of the document's gaps that lie below a boundary, between 0 and 100.
        max_size: Hard maximum of a segment.
        min_size: Minimum of a segment; None is no minimum.

    Raises:
        OptionError: The lengths differ, a size is not positive, or an option is out of range.
    """
    document = _Document.checked(vectors, sizes)
    _check_at_least(1, max_size=max_size)
    _check_at_least(0, min_size=min_size)
    if not 0 < percentile < 100:  # noqa: PLR2004  # it is a percentage
        raise OptionError(f"percentile={percentile} is outside (0, 100); 95 cuts at the widest twentieth of the gaps")
    if not len(document):
        return []
    distances = _gap_distances(document)
    bounds = _Bounds(document.offsets, max_size, min_size or 0)
    return _best_ends(_gap_candidates(distances, _boundaries(distances, percentile), bounds), len(document), 0.0)


@dataclass(frozen=True)
class _Document:
    """Sentence vectors as they came, (n, dim), and the sums of the first 0, 1, ..., n sizes, (n + 1,)."""

    vectors: NDArray[np.floating[Any]]
    offsets: Ints

    @classmethod
    def checked(cls, vectors: Vectors, sizes: Sizes) -> _Document:
        rows, counts = np.asarray(vectors), np.asarray(sizes, dtype=np.int64)
        if len(rows) != len(counts):
            raise OptionError(f"{len(rows)} vectors for {len(counts)} sizes; pass one of each per sentence")
        if len(rows) and rows.ndim != 2:  # noqa: PLR2004  # a matrix
            raise OptionError(f"vectors have the shape {rows.shape}; pass (n_sentences, dim)")
        if len(rows) and counts.min() < 1:
            raise OptionError(f"sizes[{counts.argmin()}] is {counts.min()}; every sentence needs a size of 1 or more")
        return cls(rows, np.append(0, np.cumsum(counts)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def directions(self, rows: slice | Ints) -> Floats:
        """Unit vectors of the rows, centred on the document, (n_rows, dim); zero where there is nothing to tell."""
        units, known = _unit_rows(self.vectors[rows])
        units -= self._mean
        units[~known] = 0.0
        return _unit_rows(units, least=TINY)[0]

    @cached_property
    def _mean(self) -> Floats:
        """Mean of the known unit vectors, (dim,)."""
        total, known = np.zeros(self.vectors.shape[1]), 0
        for block in _blocks(0, len(self)):
            units, are_known = _unit_rows(self.vectors[block])
            total += units.sum(axis=0)
            known += int(are_known.sum())
        return total / max(known, 1)


@dataclass(frozen=True)
class _Bounds:
    """Bounds on the size of a segment, over the summed sizes, (n + 1,)."""

    offsets: Ints
    max_size: int
    min_size: int

    def narrowed(self) -> _Bounds:
        """The same bounds with at most ``MAX_WINDOW`` mean sentences, or more if the minimum could not be met so."""
        sizes = np.diff(self.offsets)
        needed = 2 * self.min_size + int(sizes.max())
        return replace(self, max_size=min(self.max_size, max(needed, int(MAX_WINDOW * sizes.mean()))))

    @property
    def window(self) -> int:
        """Sentences of mean size in a segment of the maximum size."""
        return int(self.max_size * (len(self.offsets) - 1) / self.offsets[-1])

    def first_starts(self, ends: slice) -> Ints:
        """For each sentence that may end a segment, the first start that keeps to the maximum; (n_ends,)."""
        last = np.arange(ends.start, ends.stop)
        firsts: Ints = np.minimum(np.searchsorted(self.offsets, self.offsets[last + 1] - self.max_size), last)
        return firsts


@dataclass(frozen=True)
class _Coherence:
    """Values of segments: their coherence less ``pull * (size / unit - ideal)^2``."""

    document: _Document
    bounds: _Bounds
    unit: int
    ideal: float
    pull: float

    def candidates(self, start: int, stop: int) -> Iterator[Candidates]:
        """For each sentence end of a stretch, the segments that may end there, counted from ``start``."""
        for block in _blocks(start, stop, max(BLOCK_ROWS, self.bounds.window)):
            firsts = np.maximum(self.bounds.first_starts(block), start)
            origin = int(firsts[0])
            for last, (first, values) in enumerate(zip(firsts.tolist(), self._values(origin, block), strict=True)):
                yield first - start, values[first - origin : block.start + last + 1 - origin]

    def _values(self, origin: int, ends: slice) -> Floats:
        """Values of the segments from each start in ``[origin, ends.stop)`` to each end, (n_ends, n_starts)."""
        rows = self.document.directions(slice(origin, ends.stop))
        sums, known = _running_sums(rows), np.append(0, np.cumsum(np.round(_squares(rows))))
        squares = _squares(sums)
        here = slice(ends.start + 1 - origin, None)
        pairs = (squares - known)[here, None] + (squares + known)[:-1] - 2 * _products(sums[here], sums[:-1])
        sizes = self.bounds.offsets[ends.start + 1 : ends.stop + 1, None] - self.bounds.offsets[origin : ends.stop]
        price = self.pull * (sizes / self.unit - self.ideal) ** 2 + SHORT_PRICE * (sizes < self.bounds.min_size)
        values: Floats = np.sqrt(np.maximum(pairs, 0)) - price
        return values


def _unit_rows(vectors: NDArray[np.floating[Any]], least: float = 0.0) -> tuple[Floats, Flags]:
    """The rows at unit length, (n, dim), and which are known, (n,): not finite or no longer than ``least`` is zero."""
    rows = vectors.astype(np.float64)
    lengths = np.sqrt(_squares(rows))
    known = np.isfinite(lengths) & (lengths > least)
    rows[~known] = 0.0
    rows /= np.where(known, lengths, 1.0)[:, None]
    return rows, known


def _squares(rows: Floats) -> Floats:
    """Squared length of each row, (n,)."""
    squares: Floats = np.einsum("ij,ij->i", rows, rows)
    return squares


def _products(rows: Floats, others: Floats) -> Floats:
    """Inner products of all rows with all others, (n_rows, n_others).

    Tiles are so small that BLAS leaves them to one thread: on busy cores several threads wait for each other, and a
    product takes ten times as long.
    """
    products = np.empty((len(rows), len(others)))
    tile = max(1, math.isqrt(ONE_THREAD // max(1, rows.shape[1])))
    for block in _blocks(0, len(rows), tile):
        for other in _blocks(0, len(others), tile):
            products[block, other] = rows[block] @ others[other].T
    return products


def _running_sums(rows: Floats) -> Floats:
    """Sums of the first 0, 1, ..., n rows, (n + 1, dim)."""
    sums = np.empty((len(rows) + 1, rows.shape[1]))
    sums[0] = 0.0
    for before, row, after in zip(sums[:-1], rows, sums[1:], strict=True):  # several times faster than np.cumsum
        np.add(before, row, out=after)
    return sums


def _blocks(start: int, stop: int, rows: int = BLOCK_ROWS) -> Iterator[slice]:
    return (slice(at, min(at + rows, stop)) for at in range(start, stop, rows))


def _check_at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < least:
            raise OptionError(f"{name}={value} is below {least}; pass {least} or more")


def _best_ends(candidates: Iterable[Candidates], length: int, penalty: float) -> list[int]:
    """Ends of the segments whose values, less a penalty for each, add up to most: ``best(j) = max_i best(i) + ...``."""
    best, came_from = np.zeros(length + 1), [0] * (length + 1)
    for end, (first, values) in enumerate(candidates, start=1):
        totals = best[first:end] + values
        choice = int(totals.argmax())
        best[end] = totals[choice] - penalty
        came_from[end] = first + choice
    ends = [length]
    while came_from[ends[-1]]:
        ends.append(came_from[ends[-1]])
    return ends[::-1]


def _ends_on_target(scorer: _Coherence) -> list[int]:
    """Best ends under the penalty that brings the mean size to the scorer's unit."""
    length, offsets = len(scorer.document), scorer.bounds.offsets
    stretches = _stretches(length)
    prepared = [list(scorer.candidates(start, stop)) for start, stop in stretches]
    wanted = sum(int(offsets[stop] - offsets[start]) for start, stop in stretches) / scorer.unit

    def count(penalty: float) -> int:
        return sum(len(_best_ends(candidates, len(candidates), penalty)) for candidates in prepared)

    penalty = _nearest_penalty(count, _counts_on_target(wanted), _chance_penalty(scorer.document))
    whole = prepared[0] if len(prepared) == 1 else scorer.candidates(0, length)
    return _best_ends(whole, length, penalty)


def _stretches(length: int) -> list[tuple[int, int]]:
    """Start and stop of the whole document, or of evenly spread samples of a long one."""
    if length <= SAMPLES * SAMPLE_ROWS:
        return [(0, length)]
    starts = np.linspace(0, length - SAMPLE_ROWS, SAMPLES).astype(int).tolist()
    return [(start, start + SAMPLE_ROWS) for start in starts]


def _counts_on_target(wanted: float) -> tuple[int, int]:
    """Fewest and most segments that meet the target within the tolerance; the nearest count if none does."""
    nearest = max(1, round(wanted))
    return (
        min(nearest, math.ceil(wanted / (1 + TARGET_TOLERANCE))),
        max(nearest, math.floor(wanted / (1 - TARGET_TOLERANCE))),
    )


def _nearest_penalty(count: Callable[[float], int], limits: tuple[int, int], preferred: float) -> float:
    """A penalty under which ``count(penalty)``, which falls as it rises, is inside the limits; the preferred if so."""
    found = count(preferred)
    wanted = min(max(found, limits[0]), limits[1])
    if found == wanted:
        return preferred
    sign = 1 if found > wanted else -1
    near, above = preferred, sign * (found - wanted)
    far, below = preferred + sign, 0
    while (below := sign * (count(far) - wanted)) > 0 and abs(far) < PENALTY_LIMIT:
        near, far, above = far, far + 3 * (far - near), below
    for _ in range(PENALTY_TRIALS if below < 0 else 0):
        middle = near + (far - near) * min(max(above / (above - below), 0.2), 0.8)
        excess = sign * (count(middle) - wanted)
        if excess == 0:
            return middle
        if excess > 0:
            near, above = middle, excess
        else:
            far, below = middle, excess
    return far


def _chance_penalty(document: _Document) -> float:
    """What most of the best splits among the shuffled sentences gain at most; never less than ``LEAST_PENALTY``."""
    if len(document) == 1:
        return LEAST_PENALTY
    bits = np.random.PCG64(SHUFFLE_SEED)  # raw bits are the same in every version of numpy; permutations need not be
    rows = document.directions(_shuffled(len(document), bits)[:SHUFFLED_ROWS]).astype(np.float32)
    similarities = rows @ rows.T
    width = min(SHUFFLED_WINDOW, len(rows))
    orders = np.stack([_shuffled(len(rows), bits)[: len(rows) // width * width] for _ in range(SHUFFLES)])
    gains = _best_split_gains(similarities, orders.reshape(-1, width))
    return max(LEAST_PENALTY, float(np.quantile(gains, CHANCE_QUANTILE)))


def _shuffled(length: int, bits: np.random.PCG64) -> Ints:
    return np.argsort(bits.random_raw(length), kind="stable")


def _best_split_gains(similarities: NDArray[np.float32], windows: Ints) -> NDArray[np.float32]:
    """What the best split of each window, (n_windows, width) sentences, gains over the window whole; (n_windows,)."""
    inside = similarities[windows[:, :, None], windows[:, None, :]]
    with_earlier = 2 * np.tril(inside, -1).sum(axis=2)
    with_later = 2 * np.triu(inside, 1).sum(axis=2)
    left = np.sqrt(np.maximum(np.cumsum(with_earlier, axis=1), 0))
    right = np.sqrt(np.maximum(np.cumsum(with_later[:, ::-1], axis=1), 0))[:, ::-1]
    gains: NDArray[np.float32] = (left[:, :-1] + right[:, 1:]).max(axis=1) - left[:, -1]
    return gains


def _gap_distances(document: _Document) -> Floats:
    """Distance across the gap after each sentence but the last, (n - 1,); 0 where a side is unknown."""
    weights = np.sqrt(np.diff(document.offsets))[:, None]
    distances = np.zeros(len(document) - 1)
    for gaps in _blocks(0, len(distances)):
        near = slice(max(0, gaps.start + 1 - GAP_ROWS), gaps.stop + GAP_ROWS)
        sums = _running_sums(_unit_rows(document.vectors[near])[0] * weights[near])
        gap = np.arange(gaps.start, gaps.stop) + 1 - near.start
        before, known_before = _unit_rows(sums[gap] - sums[np.maximum(gap - GAP_ROWS, 0)], least=TINY)
        after, known_after = _unit_rows(sums[np.minimum(gap + GAP_ROWS, len(sums) - 1)] - sums[gap], least=TINY)
        distances[gaps] = np.where(known_before & known_after, 1 - np.einsum("ij,ij->i", before, after), 0.0)
    return np.round(distances, DISTANCE_DIGITS)


def _boundaries(distances: Floats, percentile: float) -> Flags:
    """Which gaps are boundaries, (n - 1,)."""
    if not len(distances):
        return np.zeros(0, dtype=np.bool_)
    return (distances > 0) & (distances >= np.percentile(distances, percentile))


def _gap_candidates(distances: Floats, is_boundary: Flags, bounds: _Bounds) -> Iterator[Candidates]:
    """Candidates that keep every boundary they can and cut elsewhere only where the maximum asks for it."""
    rewards = np.append(distances + np.where(is_boundary, BOUNDARY_REWARD, -BOUNDARY_REWARD), 0.0)
    firsts = np.maximum(bounds.first_starts(slice(0, len(rewards))), _useful_starts(is_boundary, bounds))
    shorts = np.searchsorted(bounds.offsets, bounds.offsets[1:] - bounds.min_size, side="right")
    shares = bounds.offsets / bounds.max_size
    for last, (first, short) in enumerate(zip(firsts.tolist(), shorts.tolist(), strict=True)):
        values = rewards[last] - (shares[last + 1] - shares[first : last + 1]) ** 2
        values[max(short - first, 0) :] -= SHORT_PRICE
        yield first, values


def _useful_starts(is_boundary: Flags, bounds: _Bounds) -> Ints:
    """For each sentence end, the first start worth trying: from earlier ones a boundary would cut the segment; (n,)."""
    offsets, least = bounds.offsets, max(bounds.min_size, 1)
    cuts = np.append(0, np.flatnonzero(is_boundary) + 1)
    last_cuts = cuts[np.maximum(np.searchsorted(offsets[cuts], offsets[1:] - least, side="right") - 1, 0)]
    firsts: Ints = np.maximum(np.searchsorted(offsets, offsets[last_cuts] - least, side="right") - 1, 0)
    return firsts
