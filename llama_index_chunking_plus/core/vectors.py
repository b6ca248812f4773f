"""Arithmetic of vectors: lengths, cosines, and a chunk's vector moved towards those of the larger chunks it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def unit_rows(vectors: NDArray[Any]) -> Vectors:
    """The rows at length 1, shape ``(n, dim)``; zero rows stay zero.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def fused_with_parents(vectors: NDArray[Any], parents: Sequence[int], weights: Sequence[float]) -> Vectors:
    """Each row moved towards its parent's: ``unit(unit(own) + weight * fused parent)``, from the top down.

    Args:
        vectors: shape ``(n, dim)``; rows of any length.
        parents: for each row the row of its parent, which stands before it; -1: it has none.
        weights: for each row how much of its parent's vector is added, 0 or above.

    Example:
        >>> fused_with_parents(np.eye(2), [-1, 0], [0.0, 1.0]).round(3).tolist()
        [[1.0, 0.0], [0.7070000171661377, 0.7070000171661377]]
    """
    fused = unit_rows(vectors)
    depths = _depths(parents)
    above, share = np.asarray(parents, dtype=np.int64), np.asarray(weights, dtype=np.float32)
    for depth in range(1, max(depths, default=0) + 1):
        rows = np.flatnonzero(np.equal(depths, depth))
        fused[rows] = unit_rows(fused[rows] + share[rows, None] * fused[above[rows]])
    return fused


def cosines(query: NDArray[Any], vectors: NDArray[Any]) -> NDArray[np.float64]:
    """The cosine of the query, shape ``(dim,)``, with each row, shape ``(n, dim)``; 0 where one of them is zero.

    Example:
        >>> cosines(np.array([2.0, 0.0]), np.array([[1.0, 0.0], [0.0, 5.0]])).tolist()
        [1.0, 0.0]
    """
    similar: NDArray[np.float64] = (unit_rows(vectors) @ unit_rows(np.asarray(query)[None])[0]).astype(np.float64)
    return similar


def _depths(parents: Sequence[int]) -> list[int]:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return depths
