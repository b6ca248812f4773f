"""Sentence vectors in, segment ends out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROWS = 128
_SAMPLE = 2048


class _Row(NamedTuple):
    """The candidate segments that end at one sentence end: they start at ``first``, ``first + 1``, ..."""

    first: int
    values: Floats


def optimal_segments(
    vectors: NDArray[np.floating],
    sizes: NDArray[np.integer],
    *,
    max_size: int,
    min_size: int | None = None,
    target_size: int | None = None,
) -> list[int]:
    """Sentence ends of the best segments."""
    cum = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
    n = len(cum) - 1
    if n == 0:
        return []
    units = _centred(np.asarray(vectors))
    rows = list(_rows(units, cum, max_size, min_size or 0, target_size))
    if target_size is None:
        return _best(rows, 1.0)
    lo, hi = -4.0, 8.0
    want = max(1, round(cum[-1] / target_size))
    for _ in range(12):
        mid = (lo + hi) / 2
        ends = _best(rows, mid)
        if len(ends) == want:
            break
        lo, hi = (mid, hi) if len(ends) > want else (lo, mid)
    return ends


def percentile_segments(
    vectors: NDArray[np.floating],
    sizes: NDArray[np.integer],
    *,
    percentile: float,
    max_size: int,
    min_size: int | None = None,
) -> list[int]:
    """Sentence ends of the segments between the largest gaps."""
    if percentile <= 0:
        raise OptionError("percentile")
    return optimal_segments(vectors, sizes, max_size=max_size, min_size=min_size, target_size=max_size // 2)


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 1e-6)


def _centred(vectors: NDArray[np.floating]) -> Floats:
    rows = vectors.astype(np.float64)
    rows[~np.isfinite(rows).all(axis=1)] = 0
    rows = _unit(rows)
    known = rows.any(axis=1)
    rows[known] -= rows[known].mean(axis=0) if known.any() else 0
    return _unit(rows)


def _rows(units: Floats, cum: Ints, max_size: int, min_size: int, target: int | None) -> Iterator[_Row]:
    n = len(cum) - 1
    firsts = np.minimum(np.searchsorted(cum, cum[1:] - max_size), np.arange(n))
    for start in range(0, n, _ROWS):
        stop = min(n, start + _ROWS)
        first = int(firsts[start])
        prefix = np.concatenate([np.zeros((1, units.shape[1])), np.cumsum(units[first:stop], axis=0)])
        squares = np.einsum("ij,ij->i", prefix, prefix)
        ends, ahead = prefix[start + 1 - first :], prefix[:-1]
        norms = squares[start + 1 - first :, None] + squares[None, :-1] - 2 * ends @ ahead.T
        values = np.sqrt(np.maximum(norms, 0))
        lengths = cum[start + 1 : stop + 1, None] - cum[None, first:stop]
        values = values - 1e6 * (lengths < min_size)
        if target:
            values -= ((lengths - target) / target) ** 2
        for end in range(start, stop):
            lo = int(firsts[end])
            yield _Row(lo, values[end - start, lo - first : end + 1 - first])


def _best(rows: list[_Row], penalty: float) -> list[int]:
    best = np.zeros(len(rows) + 1)
    back = np.zeros(len(rows) + 1, dtype=np.int64)
    for end, (first, values) in enumerate(rows, start=1):
        totals = best[first:end] + values
        choice = int(totals.argmax())
        best[end] = totals[choice] - penalty
        back[end] = first + choice
    ends = [len(rows)]
    while back[ends[-1]]:
        ends.append(int(back[ends[-1]]))
    return ends[::-1]
