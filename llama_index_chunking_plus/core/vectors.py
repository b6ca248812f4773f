"""Arithmetic of vectors: lengths, cosines, and a chunk's vector moved towards those of the larger chunks it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

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
        vectors: shape ``(n, dim)``; rows of any length, in any order.
        parents: for each row the row of its parent; -1: it has none.
        weights: for each row how much of its parent's vector is added, 0 or above.

    Raises:
        OptionError: rows are parents of each other.

    Example:
        >>> fused_with_parents(np.eye(2), [-1, 0], [0.0, 1.0]).round(3).tolist()
        [[1.0, 0.0], [0.7070000171661377, 0.7070000171661377]]
    """
    above, share = np.asarray(parents, dtype=np.int64), np.asarray(weights, dtype=np.float32)
    fused, depths = unit_rows(vectors), _depths(above)
    for depth in range(1, depths.max(initial=0) + 1):
        rows = np.flatnonzero(depths == depth)
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


def _depths(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows stand above each one.

    Raises:
        OptionError: some stand above themselves.
    """
    depths, above = np.zeros_like(parents), parents
    for _ in parents:
        is_below = above >= 0
        if not is_below.any():
            break
        depths += is_below
        above = np.where(is_below, parents[above], -1)
    if (above >= 0).any():
        raise OptionError("chunks are parts of each other in a circle; parse the documents again")
    return depths
