"""Segments from sentence vectors: bounds, the optimum against brute force, known topics, and rows that say nothing."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core import semantic
from llama_index_chunking_plus.core.semantic import optimal_segments, percentile_segments
from llama_index_chunking_plus.errors import OptionError

NO_BOUND = 10**9


def topics(lengths, *, dim=64, noise=0.7, seed=0, common=2.0):
    """Rows around one random direction per topic, plus one direction that all rows share; (sum of lengths, dim)."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((len(lengths), dim)) / np.sqrt(dim)
    rows = np.repeat(centres, lengths, axis=0)
    return rows + noise * rng.standard_normal(rows.shape) / np.sqrt(dim) + common * np.eye(dim)[0]


def ends_of(lengths):
    return np.cumsum(lengths).tolist()


def segment_sizes(ends, sizes):
    assert ends == sorted(set(ends))
    assert ends[-1] == len(sizes)
    assert ends[0] > 0
    return np.add.reduceat(np.asarray(sizes), [0, *ends[:-1]])


def segmentations(n):
    for cuts in range(n):
        for inner in combinations(range(1, n), cuts):
            yield [*inner, n]


def shortfall(ends, sizes, max_size, min_size):
    """How many segments are below the minimum; None if one of several sentences is above the maximum."""
    totals = segment_sizes(ends, sizes)
    counts = np.diff([0, *ends])
    if ((totals > max_size) & (counts > 1)).any():
        return None
    return int((totals < min_size).sum())


def least_shortfall(sizes, max_size, min_size):
    found = (shortfall(ends, sizes, max_size, min_size) for ends in segmentations(len(sizes)))
    return min(short for short in found if short is not None)


RULES = [
    pytest.param(optimal_segments, id="topics"),
    pytest.param(lambda v, s, max_size, **k: optimal_segments(v, s, max_size=max_size, target_size=max(1, max_size * 2 // 3), **k), id="target"),
    pytest.param(lambda v, s, **k: percentile_segments(v, s, percentile=60, **k), id="percentile"),
]  # fmt: skip


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", RULES)
@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=9),
    max_size=st.integers(1, 120),
    min_size=st.integers(0, 60),
    seed=st.integers(0, 99),
    unknown=st.sets(st.integers(0, 8)),
)
@example(sizes=[30, 5, 30], max_size=40, min_size=20, seed=0, unknown=set())
def test_bounds_hold_and_as_few_segments_as_possible_are_short(segment, sizes, max_size, min_size, seed, unknown):
    vectors = topics([len(sizes)], noise=2.0, seed=seed)
    vectors[[i for i in unknown if i < len(sizes)]] = np.nan
    ends = segment(vectors, sizes, max_size=max_size, min_size=min_size)
    short = shortfall(ends, sizes, max_size, min_size)
    assert short is not None
    assert short == least_shortfall(sizes, max_size, min_size)


@pytest.mark.parametrize("segment", RULES)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 999))
def test_bounds_hold_in_documents_longer_than_a_block(segment, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, 30)
    sizes = rng.integers(1, 41, lengths.sum())
    totals = segment_sizes(segment(topics(lengths, seed=seed), sizes, max_size=300, min_size=100), sizes)
    assert totals.max() <= 300
    assert totals.min() >= 100


@pytest.mark.parametrize("segment", RULES)
def test_an_oversized_sentence_stands_alone(segment):
    sizes = [10, 10, 500, 10, 10]
    ends = segment(topics([5]), sizes, max_size=100)
    assert {2, 3} <= set(ends)


@pytest.mark.parametrize("segment", RULES)
def test_a_document_below_the_minimum_stays_whole(segment):
    assert segment(topics([3, 3]), [5] * 6, max_size=100, min_size=50) == [6]


@pytest.mark.parametrize("segment", RULES)
def test_the_maximum_wins_over_the_minimum(segment):
    assert segment(topics([4]), [60] * 4, max_size=100, min_size=90) == [1, 2, 3, 4]


@pytest.mark.parametrize("segment", RULES)
def test_no_sentence_and_one_sentence(segment):
    assert segment(np.zeros((0, 8)), [], max_size=100) == []
    assert segment([], [], max_size=100) == []
    assert segment(topics([1]), [7], max_size=100) == [1]
    assert segment(topics([1]), [700], max_size=100) == [1]


# --- the optimum ------------------------------------------------------------------------------------------------------


def directions_one_by_one(vectors):
    units = [row / np.linalg.norm(row) for row in vectors]
    mean = sum(units) / len(units)
    return [(unit - mean) / np.linalg.norm(unit - mean) for unit in units]


def value_pair_by_pair(rows, size, unit, ideal, pull):
    pairs = 2 * sum(float(a @ b) for a, b in combinations(rows, 2))
    return np.sqrt(max(pairs, 0.0)) - pull * (size / unit - ideal) ** 2


def score(ends, rows, sizes, penalty, **shape):
    starts = [0, *ends[:-1]]
    values = (value_pair_by_pair(rows[a:b], sum(sizes[a:b]), **shape) for a, b in zip(starts, ends, strict=True))
    return sum(values) - penalty * len(ends)


@pytest.mark.parametrize("seed", range(12))
def test_topics_are_the_best_of_all_segmentations(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, penalty = int(rng.integers(2, 11)), float(rng.uniform(0.05, 1.5))
    vectors, sizes = topics([n], noise=1.5, seed=seed), rng.integers(5, 30, n).tolist()
    monkeypatch.setattr(semantic, "_chance_penalty", lambda _: penalty)
    max_size, rows = 60, directions_one_by_one(vectors)
    shape = {"unit": max_size, "ideal": 0.0, "pull": semantic.EVENNESS}
    allowed = [e for e in segmentations(n) if shortfall(e, sizes, max_size, 10) == least_shortfall(sizes, max_size, 10)]
    best = max(allowed, key=lambda ends: score(ends, rows, sizes, penalty, **shape))
    assert optimal_segments(vectors, sizes, max_size=max_size, min_size=10) == best


@pytest.mark.parametrize("seed", range(12))
def test_on_target_no_segmentation_of_as_many_segments_is_better(seed):
    rng = np.random.default_rng(seed)
    vectors, sizes = topics([5, 5], noise=1.5, seed=seed), rng.integers(5, 30, 10).tolist()
    ends, rows = (
        optimal_segments(vectors, sizes, max_size=100, target_size=50, min_size=0),
        directions_one_by_one(vectors),
    )
    shape = {"unit": 50, "ideal": 1.0, "pull": semantic.TARGET_PULL}
    rivals = [e for e in segmentations(10) if len(e) == len(ends) and shortfall(e, sizes, 100, 0) == 0]
    assert ends == max(rivals, key=lambda e: score(e, rows, sizes, 0.0, **shape))


@pytest.mark.parametrize("target", [60, 150, 400])
def test_the_mean_size_meets_the_target(target):
    sizes = np.random.default_rng(1).integers(5, 40, 600)
    totals = segment_sizes(optimal_segments(topics([20] * 30), sizes, max_size=2 * target, target_size=target), sizes)
    assert totals.mean() == pytest.approx(target, rel=0.1)
    assert totals.min() >= target // 3


def test_a_long_document_meets_the_target_from_samples():
    lengths = np.random.default_rng(2).integers(5, 30, 300)
    sizes = np.random.default_rng(3).integers(5, 40, lengths.sum())
    assert len(sizes) > semantic.SAMPLES * semantic.SAMPLE_ROWS
    totals = segment_sizes(optimal_segments(topics(lengths), sizes, max_size=480, target_size=300), sizes)
    assert totals.mean() == pytest.approx(300, rel=0.12)


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[3, 3], [8, 12, 7, 10], [5] * 12, [30, 4, 30], [12] * 60], ids=str)
def test_topics_are_found_without_a_size(lengths):
    vectors = topics(lengths, noise=0.5)
    assert optimal_segments(vectors, [20] * len(vectors), max_size=NO_BOUND) == ends_of(lengths)


def test_sentences_without_order_are_no_topics():
    vectors = topics([1] * 200)
    assert len(optimal_segments(vectors, [20] * 200, max_size=NO_BOUND)) <= 200 / 20


def test_scale_and_a_shared_direction_do_not_matter():
    lengths = [9, 6, 11]
    plain, sizes = topics(lengths, common=0.0), [20] * 26
    compressed = topics(lengths, common=30.0).astype(np.float32)
    expected = optimal_segments(plain, sizes, max_size=NO_BOUND)
    assert expected == ends_of(lengths)
    assert optimal_segments(1e-4 * plain, sizes, max_size=NO_BOUND) == expected
    assert optimal_segments(compressed, sizes, max_size=NO_BOUND) == expected


def test_a_topic_above_the_maximum_is_cut_inside_and_nowhere_else():
    ends = optimal_segments(topics([10, 30, 10], noise=0.3), [20] * 50, max_size=400)
    assert {10, 40} <= set(ends)
    assert len(ends) == 4


def test_the_target_cuts_at_topics():
    lengths = [9, 11, 10, 8, 12]
    assert optimal_segments(topics(lengths), [20] * 50, max_size=320, target_size=200) == ends_of(lengths)


# --- the percentile rule ----------------------------------------------------------------------------------------------


def test_three_and_three_part_in_the_middle():
    assert percentile_segments(topics([3, 3], noise=0.4), [20] * 6, percentile=95, max_size=NO_BOUND) == [3, 6]


def test_as_many_boundaries_as_the_percentile_leaves():
    lengths = [10] * 11
    ends = percentile_segments(
        topics(lengths, noise=0.4), [20] * 110, percentile=100 * (1 - 10 / 109), max_size=NO_BOUND
    )
    assert ends == ends_of(lengths)


def test_of_two_boundaries_too_close_the_weaker_goes():
    vectors = np.array([[1, 0, 0]] * 6 + [[0, 1, 0]] + [[0, 0.9, 0.1]] * 7, dtype=float)
    assert percentile_segments(vectors, [10] * 14, percentile=80, max_size=NO_BOUND, min_size=40) == [6, 14]


def test_what_exceeds_the_maximum_is_cut_at_its_widest_gap():
    lengths = [8, 6, 5, 8]
    vectors = topics(lengths, noise=0.2)
    vectors[14:19] += vectors[8:14].mean(axis=0)  # the lesser change
    sizes = [10] * 27
    assert percentile_segments(vectors, sizes, percentile=95, max_size=110) == [8, 19, 27]
    assert percentile_segments(vectors, sizes, percentile=95, max_size=80) == ends_of(lengths)


def test_distances_follow_the_formula():
    vectors, sizes = topics([100], dim=8, noise=2.0), np.random.default_rng(4).integers(1, 60, 100)
    weighted = [row / np.linalg.norm(row) * size**0.5 for row, size in zip(vectors, sizes, strict=True)]
    expected = []
    for gap in range(1, 100):
        before, after = sum(weighted[max(0, gap - 3) : gap]), sum(weighted[gap : gap + 3])
        expected.append(1 - before @ after / np.linalg.norm(before) / np.linalg.norm(after))
    found = semantic._gap_distances(semantic._Document.checked(vectors, sizes))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_two_sentences():
    assert percentile_segments(np.eye(2), [9, 9], percentile=95, max_size=NO_BOUND) == [1, 2]
    assert percentile_segments(np.ones((2, 2)), [9, 9], percentile=95, max_size=NO_BOUND) == [2]


# --- rows that say nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", RULES)
@pytest.mark.parametrize(
    "vectors", [np.zeros((12, 8)), np.full((12, 8), np.nan), np.full((12, 8), 0.1, dtype=np.float32)]
)
def test_without_information_segments_are_few_and_even(segment, vectors):
    ends = segment(vectors, [10] * 12, max_size=45)
    assert segment_sizes(ends, [10] * 12).tolist() in ([40] * 3, [30] * 4)


@pytest.mark.parametrize("vectors", [np.zeros((12, 8)), np.ones((12, 8))])
def test_without_information_a_document_that_fits_stays_whole(vectors):
    assert optimal_segments(vectors, [10] * 12, max_size=NO_BOUND) == [12]
    assert percentile_segments(vectors, [10] * 12, percentile=50, max_size=NO_BOUND) == [12]


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("at", [4, 13])
def test_an_unknown_row_hides_no_topic(hole, at):
    vectors = topics([10, 10, 10], noise=0.4)
    vectors[at] = hole
    sizes = [20] * 30
    assert optimal_segments(vectors, sizes, max_size=NO_BOUND) == [10, 20, 30]
    assert percentile_segments(vectors, sizes, percentile=94, max_size=NO_BOUND) == [10, 20, 30]


# --- determinism ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", RULES)
def test_the_same_input_gives_the_same_ends_and_stays_as_it_was(segment):
    vectors, sizes = topics([9] * 30, noise=1.5).astype(np.float32), np.full(270, 20)
    before = vectors.copy()
    np.random.seed(5)  # noqa: NPY002  # the global generator must neither matter nor move
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    first = segment(vectors, sizes, max_size=400, min_size=60)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
    np.random.seed(99)  # noqa: NPY002
    assert segment(vectors.copy(), sizes.tolist(), max_size=400, min_size=60) == first
    assert (vectors == before).all()


def test_the_shuffle_is_the_same_everywhere():
    assert semantic._shuffled(8, np.random.PCG64(1)).tolist() == [2, 4, 7, 5, 0, 6, 3, 1]


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", RULES)
def test_wrong_sentences_are_refused(segment):
    with pytest.raises(OptionError, match=r"3 vectors for 2 sizes; pass one"):
        segment(np.ones((3, 4)), [1, 2], max_size=10)
    with pytest.raises(OptionError, match=r"sizes\[1\] is 0; .* 1 or more"):
        segment(np.ones((3, 4)), [1, 0, 2], max_size=10)
    with pytest.raises(OptionError, match=r"shape \(3,\); pass \(n_sentences, dim\)"):
        segment(np.ones(3), [1, 1, 2], max_size=10)
    with pytest.raises(ValueError, match=r"min_size=-1 is below 0; pass 0 or more"):
        segment(np.ones((1, 4)), [1], max_size=10, min_size=-1)


def test_wrong_bounds_are_refused():
    vectors, sizes = np.ones((2, 4)), [1, 1]
    with pytest.raises(OptionError, match="max_size=0 is below 1"):
        optimal_segments(vectors, sizes, max_size=0)
    with pytest.raises(OptionError, match="target_size=0 is below 1"):
        optimal_segments(vectors, sizes, max_size=9, target_size=0)
    with pytest.raises(OptionError, match="target_size=10 exceeds max_size=9; raise max_size"):
        optimal_segments(vectors, sizes, max_size=9, target_size=10)


@pytest.mark.parametrize("percentile", [0, 100, -5, float("nan")])
def test_a_percentile_outside_is_refused(percentile):
    with pytest.raises(OptionError, match="is outside"):
        percentile_segments(np.ones((2, 4)), [1, 1], percentile=percentile, max_size=9)
