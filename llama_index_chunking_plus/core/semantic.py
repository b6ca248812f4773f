"""Sentence vectors in, segment ends out: where the topic of a document changes, inside hard size bounds.

Directions. Each sentence vector is scaled to unit length, the mean of the document is taken away (what all its
sentences share says nothing about where they differ) and the rest is scaled to unit length again: ``y_1 ... y_n``.
A row that is zero, NaN or infinite is *unknown*: it stays zero, so it speaks for no segment and against none.

Value of a segment ``(i, j]``: the length of the sum of its directions, less what unrelated sentences reach by chance::

    value(i, j) = sqrt(max(0, |y_i+1 + ... + y_j|^2 - known(i, j)))        known = rows that are not zero

``|S|^2 - known`` is the sum of all similarities between *different* sentences of the segment: zero on average for
unrelated ones, however many they are, and ``m^2 - m`` for ``m`` equal ones.

Optimal segments maximise, over all segmentations inside the bounds::

    sum of value(i, j) - penalty - pull(size(i, j))

by dynamic programming over the sentence ends, ``best(j) = max_i best(i) + value(i, j) - ...`` (Utiyama and Isahara, "A
statistical model for domain-independent text segmentation", ACL 2001; the objective here is our own).

- With a target size the pull is ``((size - target) / target)^2 / 2``, and the penalty is bisected until the mean size
  is the target.
- Without one the document sets the penalty itself. Its sentences are shuffled and cut into short windows; the best
  single split of each window gains something by chance alone. A split in the true order has to gain more than 70 % of
  those did.

Percentile segments compare the three sentences before a gap with the three after it (blocks that do not overlap, as in
TextTiling: Hearst, "TextTiling: Segmenting text into multi-paragraph subtopic passages", Computational Linguistics
23(1), 1997), each sentence weighted by the square root of its size::

    distance(gap) = 1 - cos(sum of the rows before, sum of the rows after)

and cut where the distance reaches the percentile. The same dynamic programming then settles the size bounds.

Everything runs in blocks of sentences: time grows with sentences times the sentences that fit into ``max_size``, and
memory with the sentences alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Candidates = tuple[int, Floats]
"""The segments that could end at one sentence end: the first start, and one value for each start from there on."""

BLOCK_ROWS = 128
"""Sentences handled by one matrix product: small enough for the cache, large enough for BLAS."""
MAX_WINDOW = 512
"""Sentences of mean size that a segment may hold when ``max_size`` allows more; bounds the time on endless topics."""
SAMPLE_ROWS = 512
SAMPLES = 8
"""A longer document finds its penalty on this many stretches, spread evenly, of ``SAMPLE_ROWS`` sentences each."""
SHUFFLED_WINDOW = 16
SHUFFLED_ROWS = 512
SHUFFLES = 6
SHUFFLE_SEED = 20010706
CHANCE_QUANTILE = 0.7
"""How the penalty is found from shuffled sentences: windows of 16, six shuffles of at most 512 sentences."""
TARGET_PULL = 0.5
"""Price of a segment that is off its target by the size of the target."""
LEAST_PENALTY = 0.05
EVENNESS = 0.01
"""Where vectors say nothing: as few segments as possible, and those of even size."""
SHORT_PRICE = 1e9
"""Price of a segment below the minimum: beyond any value, so that such segments are as few as possible."""
GAP_BLOCK = 3
"""Sentences compared on each side of a gap."""
BOUNDARY_REWARD = 8.0
"""For keeping a boundary, and the price of a cut elsewhere: no distance (at most 2) outweighs it."""
BISECTIONS = 14
TARGET_TOLERANCE = 0.08
PENALTY_LIMIT = 1024.0
DISTANCE_DIGITS = 6


def optimal_segments(
    vectors: NDArray[np.floating[Any]] | Sequence[Sequence[float]],
    sizes: NDArray[np.integer[Any]] | Sequence[int],
    *,
    max_size: int,
    min_size: int | None = None,
    target_size: int | None = None,
) -> list[int]:
    """Sentence ends of the segmentation with the greatest coherence inside the bounds, ascending; the last is ``n``.

    No segment exceeds ``max_size``, unless it is one sentence that does. Every segment reaches ``min_size`` if some
    segmentation allows it; if none does, as few as possible fall short. Same input, same ends.

    Args:
        vectors: Sentence vectors, (n_sentences, dim); zero, NaN and infinite rows carry no information.
        sizes: Size of each sentence, (n_sentences,), positive, in the unit of the bounds.
        max_size: Hard maximum of a segment. Beyond that, no segment is longer than 512 sentences of mean size.
        min_size: Minimum of a segment; None is a third of the target, or no minimum when there is no target.
        target_size: Wanted mean size; the mean comes out at the target or as little above it as the document allows.
            None lets the document decide how many topics it has.

    Raises:
        OptionError: The lengths differ, a size is not positive, or a bound is out of range.
    """
    text = _Sentences.checked(vectors, sizes)
    _check_at_least(1, max_size=max_size, min_size=min_size, target_size=target_size)
    if target_size is not None and target_size > max_size:
        raise OptionError(f"target_size={target_size} exceeds max_size={max_size}; raise max_size or lower the target")
    if min_size is None:
        min_size = target_size // 3 if target_size else 0
    bounds = _Bounds(text.offsets, max_size, min_size).with_short_windows()
    if not len(text):
        return []
    if target_size is None:
        scorer = _Coherence(text, bounds, size_unit=max_size, ideal=0.0, pull=EVENNESS)
        return _best_ends(scorer.candidates(0, len(text)), len(text), _chance_penalty(text))
    scorer = _Coherence(text, bounds, size_unit=target_size, ideal=1.0, pull=TARGET_PULL)
    return _ends_on_target(scorer, target_size)


def percentile_segments(
    vectors: NDArray[np.floating[Any]] | Sequence[Sequence[float]],
    sizes: NDArray[np.integer[Any]] | Sequence[int],
    *,
    percentile: float,
    max_size: int,
    min_size: int | None = None,
) -> list[int]:
    """Sentence ends where the distance across the gap reaches the percentile, inside the bounds; the last is ``n``.

    Bounds as in ``optimal_segments``: where boundaries lie closer than ``min_size`` the weaker ones go, and what is
    larger than ``max_size`` is cut at its widest gaps into even parts, as few as possible. Gaps that all look the same
    (equal or unknown sentences) are no boundaries.

    Args:
        vectors: Sentence vectors, (n_sentences, dim); zero, NaN and infinite rows carry no information.
        sizes: Size of each sentence, (n_sentences,), positive, in the unit of the bounds.
        percentile: Share of the document's gaps, in percent, that lie below a boundary; between 0 and 100.
        max_size: Hard maximum of a segment.
        min_size: Minimum of a segment; None is no minimum.

    Raises:
        OptionError: The lengths differ, a size is not positive, or an option is out of range.
    """
    text = _Sentences.checked(vectors, sizes)
    _check_at_least(1, max_size=max_size, min_size=min_size)
    if not 0 < percentile < 100:  # noqa: PLR2004
        raise OptionError(f"percentile={percentile} lies outside (0, 100); 95 cuts at the widest twentieth of the gaps")
    if not len(text):
        return []
    distances = _gap_distances(text)
    is_boundary = distances >= max(np.percentile(distances, percentile), 10.0**-DISTANCE_DIGITS) if len(text) > 1 else distances > 0
    bounds = _Bounds(text.offsets, max_size, min_size or 0)
    return _best_ends(_gap_candidates(distances, is_boundary, bounds), len(text), 0.0)


@dataclass(frozen=True)
class _Sentences:
    """The vectors of a document as they came, (n, dim), and its sizes summed up, (n + 1,)."""

    vectors: NDArray[np.floating[Any]]
    offsets: Ints

    @classmethod
    def checked(
        cls,
        vectors: NDArray[np.floating[Any]] | Sequence[Sequence[float]],
        sizes: NDArray[np.integer[Any]] | Sequence[int],
    ) -> _Sentences:
        rows, counts = np.asarray(vectors), np.asarray(sizes, dtype=np.int64)
        if len(rows) != len(counts):
            raise OptionError(f"{len(rows)} vectors for {len(counts)} sizes; pass one vector and one size per sentence")
        if len(rows) and rows.ndim != 2:  # noqa: PLR2004
            raise OptionError(f"vectors of shape {rows.shape}; pass one row per sentence, (n_sentences, dim)")
        if len(rows) and counts.min() < 1:
            raise OptionError(f"size {counts.min()} at sentence {counts.argmin()}; sizes must be 1 or more")
        return cls(rows, np.concatenate([[0], np.cumsum(counts)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def directions(self, rows: slice | Ints) -> Floats:
        """Unit vectors of the rows, centred on the document, (n_rows, dim); unknown rows are zero."""
        units = _unit_rows(self.vectors[rows])
        return _unit_rows(np.where(units.any(axis=1, keepdims=True), units - self._mean, 0.0))

    @cached_property
    def _mean(self) -> Floats:
        """Mean of the known unit vectors, (dim,)."""
        total, known = np.zeros(self.vectors.shape[1]), 0
        for block in _blocks(0, len(self), SAMPLE_ROWS):
            units = _unit_rows(self.vectors[block])
            total += units.sum(axis=0)
            known += int(units.any(axis=1).sum())
        return total / max(known, 1)


@dataclass(frozen=True)
class _Bounds:
    """Hard bounds of a segment's size over the summed sizes, (n + 1,)."""

    offsets: Ints
    max_size: int
    min_size: int

    def with_short_windows(self) -> _Bounds:
        """The same bounds with a maximum of at most ``MAX_WINDOW`` mean sentences, as far as the minimum allows."""
        sizes = np.diff(self.offsets)
        if not len(sizes):
            return self
        always_feasible = 2 * self.min_size + int(sizes.max())
        return _Bounds(self.offsets, min(self.max_size, max(always_feasible, int(MAX_WINDOW * sizes.mean()))), self.min_size)

    def first_starts(self, start: int, stop: int) -> Ints:
        """For each sentence end in ``(start, stop]``: the first start that keeps to the maximum; (stop - start,)."""
        ends = np.arange(start + 1, stop + 1)
        return np.minimum(np.searchsorted(self.offsets, self.offsets[ends] - self.max_size), ends - 1)

    def short_price(self, sizes: Ints) -> Floats:
        """What segments of these sizes pay for being shorter than the minimum; same shape."""
        return np.where(sizes < self.min_size, SHORT_PRICE, 0.0)


@dataclass(frozen=True)
class _Coherence:
    """Values of candidate segments: coherence, less the pull of their size towards ``ideal * size_unit``."""

    text: _Sentences
    bounds: _Bounds
    size_unit: int
    ideal: float
    pull: float

    def candidates(self, start: int, stop: int) -> Iterator[Candidates]:
        """The candidates of each sentence end in ``(start, stop]``, no segment reaching before ``start``."""
        for block in _blocks(start, stop, BLOCK_ROWS):
            firsts = np.maximum(self.bounds.first_starts(block.start, block.stop), start)
            origin = int(firsts[0])
            values = self._values(origin, block)
            for row, (first, end) in enumerate(zip(firsts.tolist(), range(block.start + 1, block.stop + 1), strict=True)):
                yield first - start, values[row, first - origin : end - origin]

    def _values(self, origin: int, ends: slice) -> Floats:
        """Values of the segments from each start in ``[origin, ends.stop)`` to each end; (n_ends, n_starts)."""
        rows = self.text.directions(slice(origin, ends.stop))
        sums, known = _running(rows), np.append(0, np.cumsum(rows.any(axis=1)))
        squares = np.einsum("ij,ij->i", sums, sums)
        here = slice(ends.start + 1 - origin, None)
        between = squares[here, None] + squares[:-1] - 2 * (sums[here] @ sums[:-1].T)
        chance = known[here, None] - known[:-1]
        sizes = self.text.offsets[ends.start + 1 : ends.stop + 1, None] - self.text.offsets[origin : ends.stop]
        strain = self.pull * (sizes / self.size_unit - self.ideal) ** 2
        return np.sqrt(np.maximum(between - chance, 0)) - strain - self.bounds.short_price(sizes)


def _unit_rows(vectors: NDArray[np.floating[Any]]) -> Floats:
    """The rows at unit length, (n, dim); rows that are zero, NaN or infinite become zero."""
    rows = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    known = np.isfinite(lengths) & (lengths > 1e-6)
    rows[~known] = 0.0
    return rows / np.where(known, lengths, 1.0)[:, None]


def _running(rows: Floats) -> Floats:
    """Sums of the first 0, 1, ..., n rows; (n + 1, ...)."""
    sums = np.zeros((len(rows) + 1, *rows.shape[1:]))
    for before, row, after in zip(sums, rows, sums[1:], strict=False):  # six times faster than np.cumsum on rows
        np.add(before, row, out=after)
    return sums


def _check_at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < least:
            raise OptionError(f"{name}={value} is below {least}; pass {least} or more")


def _blocks(start: int, stop: int, length: int) -> Iterator[slice]:
    return (slice(at, min(at + length, stop)) for at in range(start, stop, length))


def _best_ends(candidates: Iterable[Candidates], length: int, penalty: float) -> list[int]:
    """Dynamic programming: the ends of the segments whose values, less a penalty for each, add up to most."""
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


def _ends_on_target(scorer: _Coherence, target_size: int) -> list[int]:
    """Best ends under the least penalty that brings the mean size up to the target."""
    length, offsets = len(scorer.text), scorer.text.offsets
    stretches = _stretches(length)
    prepared = [list(scorer.candidates(part.start, part.stop)) for part in stretches]
    total = sum(int(offsets[part.stop] - offsets[part.start]) for part in stretches)
    penalty = _penalty_for(
        lambda price: sum(len(_best_ends(part, len(part), price)) for part in prepared),
        _counts_on_target(total / target_size),
        _chance_penalty(scorer.text),
    )
    whole = prepared[0] if len(prepared) == 1 else scorer.candidates(0, length)
    return _best_ends(whole, length, penalty)


def _stretches(length: int) -> list[slice]:
    """The whole document, or evenly spread samples of a long one."""
    if length <= SAMPLES * SAMPLE_ROWS:
        return [slice(0, length)]
    starts = np.linspace(0, length - SAMPLE_ROWS, SAMPLES).astype(int).tolist()
    return [slice(start, start + SAMPLE_ROWS) for start in starts]


def _counts_on_target(wanted: float) -> tuple[int, int]:
    """Fewest and most segments whose mean size is on target: within the tolerance, else the nearest count."""
    fewest, most = int(np.ceil(wanted / (1 + TARGET_TOLERANCE))), int(wanted / (1 - TARGET_TOLERANCE))
    nearest = max(1, round(wanted))
    return min(fewest, nearest), max(most, nearest)


def _penalty_for(count: Callable[[float], int], limits: tuple[int, int], preferred: float) -> float:
    """The penalty nearest to the preferred one under which ``count(penalty)`` lies inside the limits."""
    found = count(preferred)
    wanted = min(max(found, limits[0]), limits[1])
    if found == wanted:
        return preferred
    step = 1.0 if found > wanted else -1.0
    near, far = preferred, preferred + step
    while abs(far) < PENALTY_LIMIT and (count(far) - wanted) * step > 0:
        near, far = far, far + 3 * (far - near)
    for _ in range(BISECTIONS):
        middle = (near + far) / 2
        excess = (count(middle) - wanted) * step
        if excess == 0:
            return middle
        near, far = (middle, far) if excess > 0 else (near, middle)
    return far


def _chance_penalty(text: _Sentences) -> float:
    """Penalty that lets a split pass if it gains more than most splits among the shuffled sentences do."""
    length, width = len(text), min(SHUFFLED_WINDOW, len(text))
    if length < 2:  # noqa: PLR2004
        return LEAST_PENALTY
    bits = np.random.PCG64(SHUFFLE_SEED)  # raw bits: the same in every version of numpy
    rows = text.directions(_shuffled(length, bits)[:SHUFFLED_ROWS]).astype(np.float32)
    similarities = rows @ rows.T
    gains = [_best_split_gains(similarities, _shuffled(len(rows), bits), width) for _ in range(SHUFFLES)]
    return max(LEAST_PENALTY, float(np.quantile(np.concatenate(gains), CHANCE_QUANTILE)))


def _shuffled(length: int, bits: np.random.PCG64) -> Ints:
    return np.argsort(bits.random_raw(length), kind="stable")


def _best_split_gains(similarities: NDArray[np.float32], order: Ints, width: int) -> NDArray[np.float32]:
    """What the best split of each ``width`` sentences in this order gains over leaving them whole; (n_windows,)."""
    windows = order[: len(order) // width * width].reshape(-1, width)
    inside = similarities[windows[:, :, None], windows[:, None, :]]
    with_earlier = 2 * np.tril(inside, -1).sum(axis=2)
    with_later = 2 * np.triu(inside, 1).sum(axis=2)
    left = np.sqrt(np.maximum(np.cumsum(with_earlier, axis=1), 0))
    right = np.sqrt(np.maximum(np.cumsum(with_later[:, ::-1], axis=1), 0))[:, ::-1]
    gains: NDArray[np.float32] = (left[:, :-1] + right[:, 1:]).max(axis=1) - left[:, -1]
    return gains


def _gap_distances(text: _Sentences) -> Floats:
    """Distance across the gap after each sentence but the last, (n - 1,); 0 where a side is unknown."""
    weights = np.sqrt(np.diff(text.offsets))[:, None]
    distances = np.zeros(len(text) - 1)
    for gaps in _blocks(0, len(distances), BLOCK_ROWS):
        origin, stop = max(0, gaps.start + 1 - GAP_BLOCK), min(len(text), gaps.stop + GAP_BLOCK)
        sums = _running(_unit_rows(text.vectors[origin:stop]) * weights[origin:stop])
        gap = np.arange(gaps.start + 1, gaps.stop + 1) - origin
        left = _unit_rows(sums[gap] - sums[np.maximum(gap - GAP_BLOCK, 0)])
        right = _unit_rows(sums[np.minimum(gap + GAP_BLOCK, stop - origin)] - sums[gap])
        known = left.any(axis=1) & right.any(axis=1)
        distances[gaps] = np.where(known, 1 - np.einsum("ij,ij->i", left, right), 0.0)
    return np.round(distances, DISTANCE_DIGITS)


def _gap_candidates(distances: Floats, is_boundary: NDArray[np.bool_], bounds: _Bounds) -> Iterator[Candidates]:
    """Candidates that keep every boundary they can, and cut elsewhere only when the maximum asks for it."""
    rewards = np.append(distances + np.where(is_boundary, BOUNDARY_REWARD, -BOUNDARY_REWARD), 0.0)
    firsts = np.maximum(bounds.first_starts(0, len(rewards)), _starts_near_boundary(is_boundary, bounds))
    too_late = np.searchsorted(bounds.offsets, bounds.offsets[1:] - bounds.min_size, side="right")
    shares = bounds.offsets / bounds.max_size
    for end, (first, short) in enumerate(zip(firsts.tolist(), too_late.tolist(), strict=True), start=1):
        values = rewards[end - 1] - (shares[end] - shares[first:end]) ** 2
        values[max(short - first, 0) :] -= SHORT_PRICE
        yield first, values


def _starts_near_boundary(is_boundary: NDArray[np.bool_], bounds: _Bounds) -> Ints:
    """For each sentence end: a start before which a segment would hold a boundary that could cut it; (n,)."""
    offsets, least = bounds.offsets, max(bounds.min_size, 1)
    cuts = np.append(0, np.flatnonzero(is_boundary) + 1)
    last_cut = cuts[np.maximum(np.searchsorted(offsets[cuts], offsets[1:] - least, side="right") - 1, 0)]
    return np.maximum(np.searchsorted(offsets, offsets[last_cut] - least, side="right") - 1, 0)
