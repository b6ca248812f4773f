"""Intervals and tests against exact enumeration and known laws."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation import significance
from llama_index_chunking_plus.evaluation.significance import bootstrap_interval, paired_test

FIGURES = st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=1, max_size=9)


def test_an_interval_of_many_values_is_that_of_the_normal_law() -> None:
    values = np.random.default_rng(3).normal(0.6, 0.2, size=900)
    mean, low, high = bootstrap_interval(values, n_resamples=5000)
    half = 1.96 * values.std() / math.sqrt(900)
    assert mean == pytest.approx(values.mean())
    assert (mean - low, high - mean) == (pytest.approx(half, rel=0.08), pytest.approx(half, rel=0.08))


def test_an_interval_of_two_values_is_that_of_its_four_samples() -> None:
    assert bootstrap_interval([0, 1], confidence=0.4) == (0.5, 0.5 - 0, 0.5)  # half of the samples have the mean 0.5
    assert bootstrap_interval([0, 1], confidence=0.9) == (0.5, 0, 1)


@given(FIGURES)
@settings(max_examples=30)
def test_an_interval_holds_its_mean_lies_in_the_range_and_grows_with_confidence(values: list[float]) -> None:
    wide, narrow = (bootstrap_interval(values, confidence=c, n_resamples=400) for c in (0.99, 0.5))
    slack = 1e-9
    assert min(values) - slack <= wide.low <= narrow.low <= narrow.high <= wide.high <= max(values) + slack
    assert wide.mean == pytest.approx(math.fsum(values) / len(values))


def test_the_same_seed_gives_the_same_figures_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ([math.sin(i + j) for i in range(30)] for j in (0, 1))
    expected = bootstrap_interval(first), paired_test(first, second)
    assert (bootstrap_interval(first), paired_test(first, second)) == expected
    assert bootstrap_interval(first, seed=1) != expected[0]
    monkeypatch.setattr(significance, "_CELLS", 7)
    assert bootstrap_interval(first) == expected[0]


@given(FIGURES, st.integers(0, 99))
@settings(max_examples=40)
def test_the_p_value_of_few_questions_counts_all_signs(differences: list[float], seed: int) -> None:
    observed = abs(math.fsum(differences))
    sums = [
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    expected = sum(total >= observed - 1e-9 for total in sums) / len(sums)
    test = paired_test(differences, [0.0] * len(differences), seed=seed)
    assert test.p_value == pytest.approx(expected)
    assert test.n_questions == len(differences)


def test_the_p_value_of_many_questions_is_that_of_the_binomial_law() -> None:
    ups, downs = 34, 18
    differences = [1.0] * ups + [-1.0] * downs + [0.0] * 100
    n = ups + downs
    expected = 2 * sum(math.comb(n, i) for i in range(ups, n + 1)) / 2**n
    found = paired_test(differences, [0.0] * len(differences), n_resamples=20_000)
    assert found.p_value == pytest.approx(expected, abs=0.005)
    assert found.difference.mean == pytest.approx((ups - downs) / 152)


def test_what_does_not_differ_is_not_significant_and_what_always_does_is() -> None:
    values = [0.1 * i for i in range(40)]
    assert paired_test(values, values).p_value == 1
    assert paired_test(values, values).difference == (0, 0, 0)
    better = paired_test([x + 1 for x in values], values)
    assert better.p_value == pytest.approx(1 / 2001)  # never 0
    assert better.difference == pytest.approx((1, 1, 1))
    worse = paired_test(values, [x + 1 for x in values])
    assert (worse.p_value, worse.difference.mean) == (better.p_value, pytest.approx(-1))


def test_under_the_null_p_values_are_even() -> None:
    random = np.random.default_rng(5)
    values = [paired_test(random.normal(size=25), random.normal(size=25), n_resamples=200).p_value for _ in range(300)]
    assert np.mean(np.asarray(values) <= 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(values) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bootstrap_interval([]), "there are no figures"),
        (lambda: bootstrap_interval([1, math.nan]), "not finite"),
        (lambda: bootstrap_interval([[1, 2]]), "one for each question"),
        (lambda: bootstrap_interval([1], confidence=1), "confidence=1; it must lie between 0 and 1"),
        (lambda: bootstrap_interval([1], n_resamples=0), "n_resamples=0"),
        (lambda: paired_test([1, 2], [1]), "2 and 1 figures"),
        (lambda: paired_test([1], [1], n_resamples=0), "n_resamples=0"),
    ],
)
def test_wrong_input_is_an_error(call, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        call()
