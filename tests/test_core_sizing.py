"""Every ruler answers as its sizer would for the piece by itself, and reads the text once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import HOSTILE_UNITS, ODD_TEXTS, PROSE

from llama_index_chunking_plus.core.sizing import BytePairSizer, CallableSizer, CharacterSizer, Sizer
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

SIZERS: dict[str, Sizer] = {
    "characters": CharacterSizer(),
    "tokens": resolve_sizer("tokens", None),
    "words": CallableSizer(lambda text: text.split()),
    "marked": CallableSizer(lambda text: len(text.encode("utf-8", "replace")) + 2),
}
ALPHABET = [
    "甲",
    "，",
    "。\n",
    "  ",
    " a",
    "the ",
    "123",
    "\r\n",
    "e\u0301",
    "😀",
    "\ud800",
    "\x00",
    "'s",
    "……",
    "<|endoftext|>",
    "\n\n",
]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=60).map("".join)


@pytest.mark.parametrize("name", SIZERS)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS, cuts=st.tuples(st.integers(0, 200), st.integers(0, 200)), limit=st.integers(1, 60))
def test_what_fits_is_within_the_limit_and_what_does_not_is_not_far_below(
    name: str, text: str, cuts: tuple[int, int], limit: int
) -> None:
    start, end = sorted(min(cut, len(text)) for cut in cuts)
    sizer = SIZERS[name]
    size = sizer.size(text[start:end])
    if sizer.ruler(text).fits(start, end, limit):
        assert size <= limit
    else:
        assert size > limit - (0 if name != "tokens" else 4)


@pytest.mark.parametrize("name", SIZERS)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS.filter(bool), start=st.integers(0, 100), limit=st.integers(1, 60))
def test_reach_moves_forward_and_stays_inside(name: str, text: str, start: int, limit: int) -> None:
    start = min(start, len(text) - 1)
    assert start < SIZERS[name].ruler(text).reach(start, limit) <= len(text)


@pytest.mark.parametrize("name", SIZERS)
def test_marks_ascend_from_nothing_to_the_whole(name: str) -> None:
    ruler = SIZERS[name].ruler(PROSE)
    marks = ruler.marks(range(len(PROSE) + 1))
    assert marks.ended == sorted(marks.ended)
    assert marks.begun == sorted(marks.begun)
    assert marks.ended[0] == 0
    assert abs(marks.begun[-1] - SIZERS[name].size(PROSE)) <= 2


@pytest.mark.parametrize("text", [*ODD_TEXTS.values(), *(unit * 400 for unit in HOSTILE_UNITS.values())])
def test_token_marks_are_the_tokens_of_the_whole_text(text: str) -> None:
    marks = SIZERS["tokens"].ruler(text).marks([0, len(text)])
    assert marks.begun == marks.ended == [0, SIZERS["tokens"].size(text)]


def test_tokens_are_counted_once_however_many_sizes_are_tried() -> None:
    read: list[int] = []

    def encode(text: str) -> list[int]:
        read.append(len(text))
        return [0] * len(text)

    text = "甲乙丙。" * 5_000
    ruler = BytePairSizer(encode, np.array([3], dtype=np.int32)).ruler(text)
    ruler.marks(range(0, len(text), 4))
    for start in range(0, len(text) - 2_000, 100):
        assert ruler.fits(start, start + 500, 512)
        assert not ruler.fits(start, start + 2000, 512)
    assert sum(read) == len(text)


def test_long_texts_are_encoded_in_blocks_and_counted_the_same() -> None:
    text = PROSE * 1_500
    sizer = SIZERS["tokens"]
    assert len(text) > 400_000
    assert abs(sizer.ruler(text).marks([len(text)]).ended[0] - sizer.size(text)) <= 2


def test_a_callable_may_return_a_number_or_tokens() -> None:
    assert CallableSizer(len).size("甲乙") == 2
    assert CallableSizer(partial(str.split, sep="。")).size("甲。乙。丙") == 3
