"""How sure a figure is: bootstrap intervals, and a paired test of two strategies on the same questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

_CELLS = 4_000_000  # of a matrix of random numbers held at a time


class Interval(NamedTuple):
    """A mean and the range in which it lies with the given confidence."""

    mean: float
    low: float
    high: float


class PairedTest(NamedTuple):
    """What two strategies differ by on the same questions.

    Args:
        difference: the mean of first minus second, with its interval.
        p_value: how likely a difference at least that large, of either sign, is by chance.
        n_questions: how many questions both have.
    """

    difference: Interval
    p_value: float
    n_questions: int


def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean over questions and its percentile interval.

    Args:
        values: one figure for each question.
        confidence: of the interval, between 0 and 1.
        n_resamples: how often as many questions are drawn, with replacement; from 1.
        seed: the same seed gives the same interval.

    Raises:
        OptionError: there is no value, one is no finite number, or an option is out of its range.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.

    Example:
        >>> bootstrap_interval([1.0, 1.0, 1.0])
        Interval(mean=1.0, low=1.0, high=1.0)
    """
    figures = _figures(values)
    if not 0 < confidence < 1:
        raise OptionError(f"confidence={confidence}; it must lie between 0 and 1, 0.95 say")
    means = np.concatenate(list(_resampled_means(figures, _checked(n_resamples), np.random.default_rng(seed))))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(figures.mean()), float(low), float(high))


def paired_test(
    first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> PairedTest:
    """Whether two strategies differ on the same questions: the sign-flip permutation test, two-sided.

    If both were alike, each question's difference might as well have the other sign. Where few questions differ, all
    combinations of signs are counted; else ``n_resamples`` are drawn, and the observed one counts among them, so that
    the p-value is never 0.

    Args:
        first: one figure for each question.
        second: one for each question, in the same order.
        confidence: of the interval of the difference, between 0 and 1.
        n_resamples: how many combinations of signs are drawn, from 1.
        seed: the same seed gives the same figures.

    Raises:
        OptionError: the two have different lengths or none, a value is no finite number, or an option is out of range.

    Source:
        Fisher (1935), The Design of Experiments; recommended for retrieval by Smucker, Allan and Carterette (2007), A
        comparison of statistical significance tests for information retrieval evaluation. The observed one among those
        drawn: Phipson and Smyth (2010), Permutation p-values should never be zero.

    Example:
        >>> paired_test([1, 1, 1, 1, 0.5], [0, 0, 0, 0, 0.5]).p_value
        0.125
    """
    if len(first) != len(second):
        raise OptionError(f"{len(first)} and {len(second)} figures; a paired test needs both for the same questions")
    differences = _figures(first) - _figures(second)
    interval = bootstrap_interval(differences.tolist(), confidence=confidence, n_resamples=n_resamples, seed=seed)
    return PairedTest(interval, _sign_flip(differences, n_resamples, seed), len(differences))


def _figures(values: Sequence[float]) -> NDArray[np.float64]:
    figures = np.asarray(values, dtype=np.float64)
    if figures.ndim != 1 or not figures.size:
        raise OptionError("there are no figures; give one for each question")
    if not np.isfinite(figures).all():
        raise OptionError("a figure is not finite; leave out the questions that have none, or count them as 0")
    return figures


def _checked(n_resamples: int) -> int:
    if n_resamples < 1:
        raise OptionError(f"n_resamples={n_resamples}; it must be at least 1, and 1000 or more to be of use")
    return n_resamples


def _batches(n_rows: int, n_columns: int) -> Iterator[int]:
    """Numbers of rows that add up, each few enough to be held at a time."""
    most = max(1, _CELLS // n_columns)
    yield from (min(most, n_rows - done) for done in range(0, n_rows, most))


def _resampled_means(
    figures: NDArray[np.float64], n_resamples: int, random: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    for n_rows in _batches(n_resamples, figures.size):
        yield figures[random.integers(figures.size, size=(n_rows, figures.size))].mean(axis=1)


def _sign_flip(differences: NDArray[np.float64], n_resamples: int, seed: int) -> float:
    moved = differences[differences != 0]
    observed = abs(moved.sum()) - 1e-12 * np.abs(moved).sum()  # sums in another order are not quite equal
    if 2 ** min(moved.size, 63) <= n_resamples:
        numbers = np.arange(2**moved.size)[:, np.newaxis]
        signs = 1 - 2 * (numbers >> np.arange(moved.size) & 1)
        return float(np.mean(np.abs(signs @ moved) >= observed))
    random = np.random.default_rng(seed)
    extreme = 0
    for n_rows in _batches(n_resamples, moved.size):
        signs = 1 - 2 * random.integers(2, size=(n_rows, moved.size), dtype=np.int8)
        extreme += int(np.count_nonzero(np.abs(signs @ moved) >= observed))
    return (extreme + 1) / (n_resamples + 1)
