"""Scores of several searches as one: against the statistics module, and what the formulas promise."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.fusion import Fused, min_max, reciprocal_rank, standardised, weighted_sum
from llama_index_chunking_plus.errors import OptionError

NAN, INF = math.nan, math.inf
NUMBERS = st.floats(-1000, 1000).map(lambda x: round(x, 3))
ROWS = st.lists(NUMBERS, min_size=1, max_size=20)
IDS = st.sampled_from("abcdef")
COMPONENT = st.dictionaries(IDS, NUMBERS, max_size=6)
COMPONENTS = st.dictionaries(st.sampled_from(["words", "vectors", "titles"]), COMPONENT, max_size=3)
WEIGHTS = st.fixed_dictionaries(dict.fromkeys(("words", "vectors", "titles"), st.sampled_from([0, 0.25, 0.5, 1, 3])))


def varies(row: list[float]) -> bool:
    return len({*row}) > 1


# --- one scale ---


@given(ROWS)
def test_standardised_scores_are_those_of_the_statistics_module(row: list[float]) -> None:
    assume(varies(row))
    mean, deviation = statistics.fmean(row), statistics.pstdev(row)
    assert standardised(row) == pytest.approx([(x - mean) / deviation for x in row], abs=1e-6)


@given(ROWS, st.floats(0.001, 1000), st.floats(-1000, 1000))
def test_standardised_scores_do_not_know_unit_and_zero(row: list[float], scale: float, shift: float) -> None:
    assume(varies(row))
    assert standardised([x * scale + shift for x in row]) == pytest.approx(standardised(row), abs=1e-4)


@given(ROWS)
def test_scaled_scores_lie_between_0_and_1_and_keep_their_order(row: list[float]) -> None:
    scaled = min_max(row).tolist()
    assert max(scaled) == 1
    assert min(scaled) == (0 if varies(row) else 1)
    for function in (min_max, standardised):
        ranked = function(sorted(row)).tolist()
        assert all(one <= two for one, two in pairwise(ranked))


@pytest.mark.parametrize(
    "row, standard, scaled",
    [
        ([], [], []),
        ([0.7], [0], [1]),
        ([0.1, 0.1, 0.1], [0, 0, 0], [1, 1, 1]),
        ([-3, -3], [0, 0], [1, 1]),
        ([0, 0], [0, 0], [1, 1]),
        ([1, NAN, 3], [-1, NAN, 1], [0, NAN, 1]),
        ([NAN, 5], [NAN, 0], [NAN, 1]),
        ([NAN], [NAN], [NAN]),
        ([INF, 1, 3], [0.5**0.5, -(2**0.5), 0.5**0.5], [1, 0, 1]),
        ([-INF, 1, 3], [-(0.5**0.5), -(0.5**0.5), 2**0.5], [0, 0, 1]),
        ([INF, -INF], [1, -1], [1, 0]),
        ([INF], [0], [1]),
        ([1.7e308, -1.7e308], [1, -1], [1, 0]),
        ([0, 5e-324], [-1, 1], [0, 1]),
    ],
)
def test_rows_that_need_care(row: list[float], standard: list[float], scaled: list[float]) -> None:
    given_row = np.array(row, dtype=float)
    assert standardised(given_row).tolist() == pytest.approx(standard, nan_ok=True)
    assert min_max(given_row).tolist() == pytest.approx(scaled, nan_ok=True)
    assert given_row.tolist() == pytest.approx(row, nan_ok=True)  # as it was


@given(ROWS, st.lists(st.integers(0, 20), max_size=4))
def test_what_is_not_scored_changes_no_other(row: list[float], places: list[int]) -> None:
    holes = list(row)
    for place in places:
        holes.insert(place % (len(holes) + 1), NAN)
    for function in (standardised, min_max):
        kept = [x for x in function(holes).tolist() if not math.isnan(x)]
        assert kept == pytest.approx(function(row).tolist())
        assert np.isnan(function(holes)).tolist() == [math.isnan(x) for x in holes]


# --- ranks ---


@given(st.lists(st.permutations("abcdef").map(lambda ids: ids[:4]), max_size=5), st.integers(0, 100))
def test_reciprocal_ranks_in_fractions(rankings: list[list[str]], k: int) -> None:
    found = reciprocal_rank(rankings, k)
    exact = {
        name: sum(Fraction(1, k + ranking.index(name) + 1) for ranking in rankings if name in ranking)
        for name in {name for ranking in rankings for name in ranking}
    }
    assert found == pytest.approx({name: float(total) for name, total in exact.items()})
    assert found == reciprocal_rank(rankings[::-1], k)
    assert [*found] == sorted(found, key=lambda name: (-found[name], name))


def test_the_constant_of_the_paper_and_an_id_that_stands_twice() -> None:
    assert reciprocal_rank([["a", "b"]]) == {"a": 1 / 61, "b": 1 / 62}
    assert reciprocal_rank([["a", "a", "b"]]) == reciprocal_rank([["a", "b"]])
    assert [*reciprocal_rank([["b"], ["a"]])] == ["a", "b"]
    assert reciprocal_rank([]) == {}


@pytest.mark.parametrize("k", [-1, NAN, INF])
def test_a_rank_constant_is_a_number_that_is_not_negative(k: float) -> None:
    with pytest.raises(OptionError, match="k="):
        reciprocal_rank([["a"]], k)


# --- sums ---


def test_each_result_says_what_it_is_made_of() -> None:
    components = {"vectors": {"a": 0.9, "b": 0.4}, "words": {"b": 2.0, "c": -1.0}}
    fused = weighted_sum(components, {"vectors": 10, "words": 1})
    assert fused == {
        "a": Fused(pytest.approx(8.0), {"vectors": 0.9, "words": -1.0}, ("words",)),
        "b": Fused(pytest.approx(6.0), {"vectors": 0.4, "words": 2.0}),
        "c": Fused(pytest.approx(3.0), {"vectors": 0.4, "words": -1.0}, ("vectors",)),
    }
    assert [*fused] == ["a", "b", "c"]


def test_floors_may_be_given() -> None:
    fused = weighted_sum({"x": {"a": 2.0}, "y": {"b": 1.0}}, {"x": 1, "y": 1}, floors={"x": 0})
    assert {key: one.score for key, one in fused.items()} == {"a": 3.0, "b": 1.0}


def test_nan_is_as_good_as_missing() -> None:
    with_nan = weighted_sum({"x": {"a": 2.0, "b": NAN}, "y": {"b": 1.0}, "z": {"c": NAN}}, dict.fromkeys("xyz", 1))
    assert with_nan == weighted_sum({"x": {"a": 2.0}, "y": {"b": 1.0}}, {"x": 1, "y": 1})


@given(COMPONENTS, WEIGHTS)
def test_the_sum_is_the_sum_of_what_is_told(components: dict[str, dict[str, float]], weights: dict[str, float]) -> None:
    fused = weighted_sum(components, weights)
    counting = {name: scores for name, scores in components.items() if weights[name] and scores}
    assert {*fused} == {key for scores in counting.values() for key in scores}
    for key, one in fused.items():
        assert one.score == pytest.approx(sum(weights[name] * score for name, score in one.components.items()))
        assert one.components == {name: scores.get(key, min(scores.values())) for name, scores in counting.items()}
        assert {*one.missing} == {name for name, scores in counting.items() if key not in scores}
    assert [*fused] == sorted(fused, key=lambda key: (-fused[key].score, key))


@given(COMPONENTS, WEIGHTS, st.randoms())
def test_no_order_matters(
    components: dict[str, dict[str, float]], weights: dict[str, float], shuffler: random.Random
) -> None:
    def shuffled(mapping: dict[str, object]) -> dict[str, object]:
        return dict(shuffler.sample([*mapping.items()], len(mapping)))

    other = shuffled({name: shuffled(scores) for name, scores in components.items()})  # type: ignore[arg-type]
    one, two = weighted_sum(components, weights), weighted_sum(other, shuffled(weights))  # type: ignore[arg-type]
    assert [*one.items()] == [*two.items()]


@given(COMPONENTS, WEIGHTS, COMPONENT)
def test_the_weight_0_is_no_component(
    components: dict[str, dict[str, float]], weights: dict[str, float], more: dict[str, float]
) -> None:
    assert weighted_sum({**components, "more": more}, {**weights, "more": 0}) == weighted_sum(components, weights)


@given(COMPONENTS, WEIGHTS, IDS, st.floats(0, 100))
def test_a_better_score_never_costs_a_place(
    components: dict[str, dict[str, float]], weights: dict[str, float], key: str, more: float
) -> None:
    before = weighted_sum(components, weights)
    assume(key in before)
    raised = {
        name: {**scores, key: scores[key] + more} if key in scores else scores for name, scores in components.items()
    }
    after = weighted_sum(raised, weights)
    for other in before:
        gained = (after[key].score - after[other].score) - (before[key].score - before[other].score)
        assert gained >= -1e-6


@pytest.mark.parametrize("weights", [{}, {"x": -1}, {"x": NAN}, {"x": INF}, {"y": 1}])
def test_weights_that_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="weights"):
        weighted_sum({"x": {"a": 1.0}}, weights)


def test_weights_may_name_what_found_nothing() -> None:
    assert [*weighted_sum({"x": {"a": 1.0}}, {"x": 1, "y": 1})] == ["a"]
    assert weighted_sum({}, {}) == {}
