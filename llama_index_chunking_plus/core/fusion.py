"""Scores of several searches as one: what was measured on different scales is made comparable, and added.

    scores -> standardised, min_max        on one scale
    rankings -> reciprocal_rank            where scores cannot be compared at all
    components -> weighted_sum             one score for each id, and what it is made of

Nothing here depends on the order in which ids or components are given: sums are exact, and equal scores are in the
order of their ids.

Sources:
    Reciprocal rank fusion: Cormack, Clarke and Büttcher (2009), Reciprocal Rank Fusion outperforms Condorcet and
        individual Rank Learning Methods.
    Standardised and scaled scores: Fox and Shaw (1994), Combination of Multiple Searches; Montague and Aslam (2001),
        Relevance Score Normalization for Metasearch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llama_index_chunking_plus.errors import OptionError

Scores = NDArray[np.float64]

_RANK_CONSTANT = 60  # of the paper


@dataclass(frozen=True)
class Fused:
    """A score, and what it is made of: the sum of each component's score times its weight.

    Args:
        score: the sum.
        components: the score in each component that counts, before it is weighted.
        missing: the components that had no score; the lowest one of the component stands in for it.
    """

    score: float
    components: Mapping[str, float]
    missing: tuple[str, ...] = ()


def standardised(scores: ArrayLike) -> Scores:
    """The scores as distances from their mean, in standard deviations (of the population).

    Scores that are all the same, a single one too, are 0. NaN means not scored: it stays NaN and changes no other.
    Infinite scores count as the highest and the lowest finite one.

    Args:
        scores: one row of numbers.

    Example:
        >>> standardised([1, 2, 3]).round(2).tolist(), standardised([0.7]).tolist()
        ([-1.22, 0.0, 1.22], [0.0])
    """
    scaled, is_constant = _scaled(scores)
    known = scaled[~np.isnan(scaled)]
    if is_constant or not known.size:
        return scaled
    deviations: Scores = (scaled - known.mean()) / known.std()
    return deviations


def min_max(scores: ArrayLike) -> Scores:
    """The scores between 0, the lowest, and 1, the highest.

    Scores that are all the same, a single one too, are 1: none is worse than the best. NaN stays NaN and changes no
    other. Infinite scores count as the highest and the lowest finite one.

    Args:
        scores: one row of numbers.

    Example:
        >>> min_max([10, 30, 20]).tolist(), min_max([7]).tolist()
        ([0.0, 1.0, 0.5], [1.0])
    """
    scaled, is_constant = _scaled(scores)
    return scaled + 1 if is_constant else scaled


def reciprocal_rank(rankings: Iterable[Sequence[str]], k: float = _RANK_CONSTANT) -> dict[str, float]:
    """For each id the sum of ``1 / (k + rank)`` over the rankings that have it, ranks from 1; best first.

    An id that stands in a ranking twice counts there once, at its better place, and the later one is no place at all.

    Args:
        rankings: ids, best first.
        k: how little the first places count more than the others, 0 or above.

    Raises:
        OptionError: k is below 0, or no number.

    Example:
        >>> reciprocal_rank([["a", "b"], ["b"]], k=1)
        {'b': 0.8333333333333333, 'a': 0.5}
    """
    if not (math.isfinite(k) and k >= 0):
        raise OptionError(f"k={k!r} must be a number, 0 or above; the default is {_RANK_CONSTANT}.")
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        for rank, name in enumerate(dict.fromkeys(ranking), 1):
            shares[name].append(1 / (k + rank))
    totals = {name: math.fsum(parts) for name, parts in shares.items()}
    return {name: totals[name] for name in sorted(totals, key=lambda name: (-totals[name], name))}


def weighted_sum(
    components: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, float],
    floors: Mapping[str, float] | None = None,
) -> dict[str, Fused]:
    """The sum of the components' scores times their weights, for each id that a component scored; best first.

    An id that a component did not score gets that component's floor, its lowest score: not found is not better than
    found last, and 0 may be a good score. A component with the weight 0, or without any score, is as if it was not
    there.

    Args:
        components: by name the scores by id, on comparable scales (`standardised`, `min_max`); NaN: not scored.
        weights: by name, 0 or above.
        floors: by name, instead of the lowest score: 0 for `reciprocal_rank`, say.

    Raises:
        OptionError: a component has no weight, or a weight is below 0 or no number.

    Example:
        >>> fused = weighted_sum({"words": {"a": 1.0, "b": 0.2}, "vectors": {"b": 0.5}}, {"words": 1, "vectors": 2})
        >>> [(name, one.score, one.missing) for name, one in fused.items()]
        [('a', 2.0, ('vectors',)), ('b', 1.2, ())]
    """
    _check_weights(components, weights)
    scored = {
        name: {key: float(score) for key, score in components[name].items() if not math.isnan(score)}
        for name in sorted(components)
        if weights[name]
    }
    scored = {name: scores for name, scores in scored.items() if scores}
    lowest = {name: min(scores.values()) for name, scores in scored.items()} | dict(floors or {})
    fused = {key: _fused(key, scored, weights, lowest) for key in {key for scores in scored.values() for key in scores}}
    return dict(sorted(fused.items(), key=lambda item: (-item[1].score, item[0])))


def _fused(
    key: str, scored: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], floors: Mapping[str, float]
) -> Fused:
    components = {name: scores.get(key, floors[name]) for name, scores in scored.items()}
    total = math.fsum(weights[name] * score for name, score in components.items())
    return Fused(total, components, tuple(name for name, scores in scored.items() if key not in scores))


def _check_weights(components: Mapping[str, object], weights: Mapping[str, float]) -> None:
    lacking = sorted(components.keys() - weights.keys())
    if lacking:
        raise OptionError(f"weights={dict(weights)} has none for {lacking}; give one for each, 0 to leave it out.")
    wrong = {name: weight for name, weight in weights.items() if not (math.isfinite(weight) and weight >= 0)}
    if wrong:
        raise OptionError(f"weights of {wrong} must be numbers, 0 or above; 0 leaves a component out.")


def _scaled(scores: ArrayLike) -> tuple[Scores, bool]:
    """The scores from 0 to 1, and whether all are the same, which makes all of them 0."""
    values = np.array(scores, dtype=np.float64).reshape(-1)
    finite = values[np.isfinite(values)]
    if finite.size:
        values = values.clip(finite.min(), finite.max())
    elif not np.isnan(values).all():
        values = np.sign(values)  # only infinite ones
    known = values[~np.isnan(values)]
    _, bits = np.frexp(np.abs(known).max(initial=0.0))
    values, known = np.ldexp(values, -bits), np.ldexp(known, -bits)  # within 1, so that their range is finite
    low, width = known.min(initial=np.inf), np.ptp(known) if known.size else 0.0
    if width == 0:
        return np.where(np.isnan(values), values, 0.0), True
    return (values - low) / width, False
