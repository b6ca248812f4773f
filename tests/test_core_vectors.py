"""Arithmetic of vectors against tables made by hand and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.vectors import cosines, fused_with_parents, unit_rows
from llama_index_chunking_plus.errors import OptionError

ROOT_2 = math.sqrt(2)


def test_rows_have_length_one_and_zero_rows_stay():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]])
    assert unit_rows(rows).tolist() == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]))
    assert rows.tolist() == [[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]]


def test_cosines_by_hand():
    rows = np.array([[5.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0]])
    assert cosines(np.array([0.1, 0.0]), rows).tolist() == pytest.approx([1.0, 1 / ROOT_2, -1.0, 0.0])
    assert cosines(np.zeros(2), rows).tolist() == [0.0] * 4


def test_each_row_is_moved_towards_its_fused_parent():
    """Row 0 is the root, 1 its part with all of it, 2 a part of 1 with half of it."""
    fused = fused_with_parents([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]], [-1, 0, 1], [9.0, 1.0, 0.5])
    half = 0.5 / ROOT_2  # the fused parent is (1, 1, 0) / root 2
    length = math.sqrt(2 * half**2 + 1)
    expected = [[1.0, 0.0, 0.0], [1 / ROOT_2, 1 / ROOT_2, 0.0], [half / length, half / length, 1 / length]]
    assert fused == pytest.approx(np.array(expected), abs=1e-6)


def test_weight_0_and_no_parent_leave_the_direction():
    assert fused_with_parents([[0.0, 2.0], [1.0, 0.0]], [-1, 0], [1.0, 0.0]).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_nothing_in_nothing_out():
    assert fused_with_parents(np.empty((0, 3)), [], []).shape == (0, 3)


@pytest.mark.parametrize("parents", [[0], [1, 0], [-1, 2, 3, 1]])
def test_a_circle_is_refused(parents):
    with pytest.raises(OptionError, match="circle"):
        fused_with_parents(np.ones((len(parents), 2)), parents, [0.1] * len(parents))


def by_recursion(vectors, parents, weights, row):
    own = np.array(vectors[row], dtype=float) / np.linalg.norm(vectors[row])
    if parents[row] < 0:
        return own
    moved = own + weights[row] * by_recursion(vectors, parents, weights, parents[row])
    return moved / np.linalg.norm(moved)


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.data())
def test_any_forest_in_any_order_agrees_with_recursion(count, seed, data):
    parents = [data.draw(st.integers(-1, row - 1)) for row in range(count)]
    order = data.draw(st.permutations(range(count)))
    random = np.random.default_rng(seed)
    vectors, weights = random.normal(size=(count, 5)), random.uniform(0, 0.9, count)
    place = {row: i for i, row in enumerate(order)}
    shuffled = [place[parents[row]] if parents[row] >= 0 else -1 for row in order]
    fused = fused_with_parents(vectors[list(order)], shuffled, weights[list(order)])
    expected = [by_recursion(vectors, parents, weights, row) for row in order]
    assert fused == pytest.approx(np.array(expected), abs=1e-5)
