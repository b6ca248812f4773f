"""Levels of granularity as data."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.hierarchy import PRESETS, Granularity, levels_of
from llama_index_chunking_plus.errors import OptionError

COARSE, MEDIUM, FINE = PRESETS["balanced"]["chars"]
SENTENCE = Granularity("sentence", 0, 300, each_sentence=True)


@pytest.mark.parametrize(
    "options, message",
    [
        (("", 0, 10), r"name='' is blank, or no text; name the level"),
        ((" \t", 0, 10), r"name=' \\t' is blank"),
        ((7, 0, 10), r"name=7 is blank"),
        (("fine", -1, 10), r"min_size=-1 of 'fine' is no whole number from 0"),
        (("fine", 11, 10), r"min_size=11 of 'fine' is outside \[0, max_size=10\]"),
        (("fine", 0, 10, -1), r"overlap=-1 of 'fine' is no whole number in \[0, 5\]; 0 to 15 % are usual"),
        (("fine", 0, 10, 6), r"overlap=6 of 'fine' is no whole number in \[0, 5\]"),
    ],
)
def test_a_level_that_cannot_be_is_refused(options: tuple, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Granularity(*options)


def test_the_bounds_themselves_are_taken() -> None:
    assert Granularity("fine", 10, 10, 5).overlap == 5
    assert Granularity("fine", 0, 1).max_size == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (("a", "1", "10"), r"min_size='1' of 'a' is no whole number from 0; as in Granularity"),
        (("a", 1, "10"), r"max_size='10' of 'a' is no whole number from 1"),
        (("a", 1.5, 10), r"min_size=1\.5 of 'a' is no whole number"),
        (("a", True, 10), r"min_size=True of 'a' is no whole number"),
        (("a", 0, 0), r"max_size=0 of 'a' is no whole number from 1"),
        (("a", 0, 10, 2.5), r"overlap=2\.5 of 'a' is no whole number in \[0, 5\]"),
        (("a", 0, 10, 0, "yes"), r"each_sentence='yes' of 'a' is neither True nor False"),
        ((3, 0, 10), r"name=3 is blank, or no text; name the level"),
    ],
)
def test_a_value_of_another_kind_is_refused(options: tuple, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Granularity(*options)


@pytest.mark.parametrize(
    "size, names",
    [
        (0, ["fine"]),
        (99, ["fine"]),
        (100, ["fine"]),
        (499, ["fine"]),
        (500, ["medium", "fine"]),
        (1999, ["medium", "fine"]),
        (2000, ["coarse", "medium", "fine"]),
        (10**6, ["coarse", "medium", "fine"]),
    ],
)
@pytest.mark.parametrize("below", [(), (SENTENCE,)], ids=["", "sentences"])
def test_a_document_does_without_the_levels_that_it_does_not_fill(size: int, names: list[str], below: tuple) -> None:
    found = levels_of(size, (COARSE, MEDIUM, FINE, *below))
    assert [level.name for level in found] == [*names, *(level.name for level in below)]


@given(st.integers(0, 10**5), st.lists(st.integers(0, 10**4), min_size=1, max_size=5))
def test_the_levels_of_a_document_are_the_last_ones(size: int, least: list[int]) -> None:
    levels = [Granularity(f"level {i}", minimum, 10**4) for i, minimum in enumerate(least)]
    found = levels_of(size, levels)
    assert found
    assert list(found) == levels[-len(found) :]
    assert len(found) == 1 or found[0].min_size <= size


@pytest.mark.parametrize("unit", ["chars", "tokens"])
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_go_from_coarse_to_fine(preset: str, unit: str) -> None:
    levels = PRESETS[preset][unit]
    assert [level.name for level in levels] == ["coarse", "medium", "fine"]
    for level, finer in pairwise(levels):
        assert finer.max_size < level.max_size
        assert finer.max_size <= level.min_size  # so that a chunk of each level has more than one part
    assert all(level.min_size * 2 <= level.max_size for level in levels)
    assert all(level.overlap == 0 for level in levels)


@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_law_and_manuals_are_cut_finer_and_narratives_coarser(unit: str) -> None:
    assert PRESETS["law"] == PRESETS["manual"]
    for finer, usual, coarser in zip(*(PRESETS[name][unit] for name in ("law", "balanced", "narrative")), strict=True):
        assert finer.max_size < usual.max_size < coarser.max_size
        assert finer.min_size < usual.min_size < coarser.min_size
