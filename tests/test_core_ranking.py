"""Ranking against sets of integers, and its promises about scores."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.ranking import (
    Hit,
    Passage,
    aggregate,
    best_first,
    best_score,
    by_document,
    by_parent,
    drop_repeats,
    fill_budget,
    hit_share,
    merge_touching,
    reach,
)
from llama_index_chunking_plus.core.spans import Span

TEXTS = {document: "".join(chr(base + i) for i in range(40)) for document, base in (("a", 0x4E00), ("b", 0x5E00))}
SCORES = st.none() | st.floats(-5, 5)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    start = draw(st.integers(0, 39))
    return Span(start, draw(st.integers(start + 1, 40)))


@st.composite
def placed(draw: st.DrawFn) -> list[Passage]:
    found = draw(st.lists(st.tuples(st.sampled_from("ab"), spans(), SCORES), max_size=8))
    return [Passage(span.of(TEXTS[d]), score, (i,), d, span.start) for i, (d, span, score) in enumerate(found)]


def characters(passage: Passage) -> set[tuple[Hashable, int]]:
    assert passage.span
    return {(passage.doc_id, i) for i in range(*passage.span)}


def union(passages: list[Passage]) -> set[tuple[Hashable, int]]:
    return set().union(*map(characters, passages))


# --- scores ---


@pytest.mark.parametrize(
    "how, scores, expected",
    [
        ("max", [0.2, 0.9, None], 0.9),
        ("mean", [0.2, 0.4, None], 0.3),
        ("sum", [0.2, 0.4, -0.1], 0.5),
        ("count", [0.8], 0.8),
        ("count", [0.8, 0.1], 0.88),
        ("count", [0.8, 0.1, None], 0.88),
        ("count", [-2.0, -9.0], -1.8),
        ("max", [0.0, -1.0], 0.0),
        ("sum", [0.0], 0.0),
        ("mean", [None, None], None),
        ("max", [], None),
    ],
)
def test_the_score_of_a_parent(how: str, scores: list[float | None], expected: float | None) -> None:
    assert aggregate(scores, how) == (expected if expected is None else pytest.approx(expected))  # type: ignore[arg-type]


@given(st.lists(st.floats(-5, 5), min_size=1), st.floats(-5, 5))
def test_counting_never_lowers_a_score_and_one_more_child_never_hurts(scores: list[float], more: float) -> None:
    assert max(scores) <= aggregate(scores, "count") <= aggregate([*scores, more], "count") + 1e-12  # type: ignore[operator]


@given(st.lists(SCORES))
def test_best_first_is_stable_and_keeps_what_nobody_judged_for_the_end(scores: list[float | None]) -> None:
    hits = [Hit(str(i), score, i) for i, score in enumerate(scores)]
    ranked = best_first(hits)
    assert sorted(ranked, key=lambda hit: hit.rank) == hits
    for before, after in pairwise(ranked):
        if before.score is None or before.score == after.score:
            assert after.score is None or before.score is not None
            assert before.score != after.score or before.rank < after.rank
        else:
            assert after.score is None or before.score > after.score
    assert best_score(hits) == (ranked[0].score if ranked else None)


def test_a_child_counts_once_at_its_best() -> None:
    hits = [
        Hit("x", 0.2, 0, "p"),
        Hit("y", 0.5, 1, "q"),
        Hit("x", 0.7, 2, "p"),
        Hit("x", None, 3, "p"),
        Hit("z", 0.9, 4),
    ]
    (p, q) = by_parent(hits, "sum")
    assert (p.parent_id, p.score, p.hits) == ("p", 0.7, (hits[2],))
    assert (q.parent_id, q.score) == ("q", 0.5)


# --- ranges against sets ---


@given(st.lists(spans()), spans())
def test_hit_share_is_a_share_of_a_set(children: list[Span], parent: Span) -> None:
    inside = {i for child in children for i in range(*child)} & set(range(*parent))
    assert hit_share(children, parent) == len(inside) / (parent.end - parent.start)


@given(placed())
def test_merged_passages_are_the_connected_parts_of_the_union(passages: list[Passage]) -> None:
    merged = merge_touching(passages)
    assert union(merged) == union(passages)
    assert [p.rank for p in merged] == sorted(p.rank for p in merged)
    assert sorted(part for p in merged for part in p.parts) == list(range(len(passages)))
    for passage in merged:
        assert passage.text == passage.span.of(TEXTS[passage.doc_id])  # type: ignore[union-attr,index]
        assert passage.score == best_score(passages[part] for part in passage.parts)
        assert passages[passage.parts[0]].start == passage.start
        others = union([other for other in merged if other is not passage])
        assert not others & {(d, i + step) for d, i in characters(passage) for step in (-1, 0, 1)}  # type: ignore[operator]


@given(placed(), st.integers(1, 40))
def test_a_bounded_merge_says_everything_once(passages: list[Passage], limit: int) -> None:
    limit = max([limit, *(len(passage.text) for passage in passages)])
    merged = merge_touching(passages, lambda text: len(text) <= limit)
    assert union(merged) == union(passages)
    assert sum(len(p.text) for p in merged) == len(union(passages))
    assert all(len(p.text) <= limit and p.text == p.span.of(TEXTS[p.doc_id]) for p in merged)  # type: ignore[union-attr,index]
    assert sorted(part for p in merged for part in p.parts) == list(range(len(passages)))


@given(placed(), st.integers(4, 40), st.integers(0, 8), st.data())
def test_a_bounded_merge_shows_every_heart(
    passages: list[Passage], limit: int, n_growing: int, data: st.DataObject
) -> None:
    grid = [replace(p, start=(p.start or 0) // 4 * 4) for p in passages]  # hearts of 4 characters tile the documents
    grid = [replace(p, text=TEXTS[str(p.doc_id)][p.start or 0 :][: max(4, len(p.text) // 4 * 4)]) for p in grid]
    hearts = [4 * data.draw(st.integers((p.start or 0) // 4, ((p.start or 0) + len(p.text)) // 4 - 1)) for p in grid]
    hit = [replace(p, heart=Span(at, at + 4)) for p, at in zip(grid, hearts, strict=True)]
    limit = max([limit, *(len(passage.text) for passage in hit)])
    merged = merge_touching(hit, lambda text: len(text) <= limit, n_growing)
    shown = union(merged)
    assert {(p.doc_id, i) for p in hit for i in range(*(p.heart or (0, 0)))} <= shown <= union(hit)
    assert sum(len(p.text) for p in merged) == len(shown)
    assert all(len(p.text) <= limit and p.text == p.span.of(TEXTS[p.doc_id]) for p in merged)  # type: ignore[union-attr,index]
    assert sorted(part for p in merged for part in p.parts) == list(range(len(hit)))


def test_late_arrivals_do_not_lengthen_what_shows_them() -> None:
    text = TEXTS["a"]
    best, late = (
        Passage(text[start : start + 12], score, (i,), "a", start, heart=Span(start + 4, start + 8))
        for i, (start, score) in enumerate([(8, 0.9), (4, 0.5)])
    )
    far = Passage(text[30:34], 0.4, (2,), "a", 30, heart=Span(30, 34))
    lengthened, *_ = merge_touching([best, late, far], lambda _: True)
    assert (lengthened.start, lengthened.text, lengthened.parts) == (4, text[4:20], (1, 0))
    kept, other = merge_touching([best, late, far], lambda _: True, 1)
    assert (kept.start, kept.text, kept.parts, kept.score) == (8, text[8:20], (1, 0), 0.9)
    assert other == far


@pytest.mark.parametrize(
    "home, limit, expected", [(0, 2, (0, 1)), (1, 6, (0, 2)), (1, 9, (0, 3)), (2, 7, (1, 3)), (1, 0, (1, 2))]
)
def test_neighbours_are_reached_in_turn_as_far_as_they_fit(home: int, limit: int, expected: tuple[int, int]) -> None:
    assert reach(["甲。", "乙乙。", "丙丙丙。"], home, home + 1, lambda text: len(text) <= limit) == expected


@given(placed(), st.floats(0, 1))
def test_what_is_dropped_as_a_repeat_stood_in_the_others(passages: list[Passage], max_overlap: float) -> None:
    kept = drop_repeats(passages, max_overlap)
    assert [p.rank for p in kept] == sorted(p.rank for p in kept)
    assert best_score(kept) == best_score(passages)
    for one in kept:
        assert one.text == passages[one.parts[0]].text
        assert not any(characters(one) <= characters(other) for other in kept if other is not one)
    for out in (p for i, p in enumerate(passages) if i not in {one.parts[0] for one in kept}):
        shown = len(characters(out) & union(passages[: out.rank] + passages[out.rank + 1 :])) / len(out.text)
        assert shown > max_overlap or shown == 1


@given(placed(), st.integers(1, 60))
def test_a_budget_is_kept_but_for_the_first(passages: list[Passage], limit: int) -> None:
    taken = fill_budget(passages, limit, lambda some: len(union(some)))
    assert [p for p in passages if p in taken] == taken
    assert taken[:1] == passages[:1]
    assert len(taken) < 2 or len(union(taken)) <= limit  # the first may be above the limit, alone or with what it holds
    for left in (p for p in passages if p not in taken):
        assert len(union([*(p for p in taken if p.rank < left.rank), left])) > limit


@given(placed())
def test_by_document_keeps_documents_together_and_in_order(passages: list[Passage]) -> None:
    ordered = by_document(passages)
    assert sorted(ordered, key=lambda p: p.rank) == passages
    documents = [p.doc_id for p in ordered]
    assert list(dict.fromkeys(documents)) == list(dict.fromkeys(p.doc_id for p in passages))
    for before, after in pairwise(ordered):
        assert before.doc_id != after.doc_id or (before.start or 0) <= (after.start or 0)
        assert before.doc_id == after.doc_id or after.doc_id not in documents[: ordered.index(before) + 1]


# --- passages without a range, or without agreement ---


def test_without_a_range_only_equal_texts_of_one_document_are_merged() -> None:
    texts = [("甲。", 0.1, "a"), ("甲。", 0.7, "a"), ("甲。", 0.9, "b"), ("甲。乙。", 0.2, "a")]
    merged = merge_touching(Passage(text, score, (i,), doc) for i, (text, score, doc) in enumerate(texts))
    assert [(p.text, p.score, p.parts) for p in merged] == [
        ("甲。", 0.7, (0, 1)),
        ("甲。", 0.9, (2,)),
        ("甲。乙。", 0.2, (3,)),
    ]


def test_a_document_that_says_two_things_at_one_place_is_not_merged() -> None:
    passages = [Passage("今天下雨", 0.5, (0,), "a", 0), Passage("不下雨了", 0.9, (1,), "a", 2)]
    assert merge_touching(passages) == passages
    assert drop_repeats(passages, 0.1) == passages


def test_fixed_passages_stay_as_they_are() -> None:
    passages = [Passage("今天", 0.5, (0,), "a", 0, fixed=True), Passage("下雨", 0.9, (1,), "a", 2)]
    assert merge_touching(passages) == passages


def test_the_whole_takes_the_place_and_the_score_of_its_best_piece() -> None:
    passages = [
        Passage("下雨", 0.9, (0,), "a", 2),
        Passage("别的", 0.8, (1,), "b", 0),
        Passage("今天下雨，明天也下。", 0.3, (2,), "a", 0),
    ]
    whole, other = drop_repeats(passages, 0.5)
    assert (whole.text, whole.score, whole.parts) == ("今天下雨，明天也下。", 0.9, (2, 0))
    assert other == passages[1]


@pytest.mark.parametrize(
    "better, worse, kept",
    [
        (Passage("甲乙丙", 0.9, (0,), "a"), Passage("甲乙", 0.8, (1,), "a"), 1),
        (Passage("甲乙丙", 0.9, (0,), "a"), Passage("甲乙", 0.8, (1,), "b"), 2),
        (Passage("甲乙丙", 0.9, (0,), "a"), Passage("甲丙", 0.8, (1,), "a"), 2),
        (Passage("甲乙丙", 0.9, (0,), "a", 7), Passage("甲乙", 0.8, (1,), "a"), 1),
        (Passage("甲乙丙", 0.9, (0,), "a"), Passage("甲乙", 0.8, (1,), "a", 7), 1),
        (Passage("", 0.9, (0,), "a"), Passage("", 0.8, (1,), "a"), 2),
        (Passage("甲", None, (0,)), Passage("甲", None, (1,)), 1),
    ],
)
def test_passages_without_a_range_repeat_by_text(better: Passage, worse: Passage, kept: int) -> None:
    assert len(drop_repeats([better, worse], 0.5)) == kept


def test_exactly_the_largest_share_is_still_allowed() -> None:
    passages = [Passage("一二三四", 0.9, (0,), "a", 0), Passage("三四五六", 0.8, (1,), "a", 2)]
    assert drop_repeats(passages, 0.5) == passages
    assert drop_repeats(passages, 0.49) == passages[:1]
    assert math.isclose(hit_share([Span(0, 4)], Span(2, 6)), 0.5)


# --- repeats, against every pair ---


def drop_repeats_by_pairs(passages: list[Passage], max_overlap: float) -> list[Passage]:
    """What drop_repeats is to give, by comparing each passage with all that are kept."""
    kept: list[Passage] = []
    for passage in best_first(passages):
        share = shown_share(passage, kept)
        if share < 1 and share <= max_overlap:
            inside = [other for other in kept if shown_share(other, [passage]) == 1]
            kept = [other for other in kept if other not in inside]
            parts = dict.fromkeys(part for each in [passage, *inside] for part in each.parts)
            kept.append(replace(passage, score=best_score([passage, *inside]), parts=tuple(parts)))
    return sorted(kept, key=lambda passage: passage.rank)


def shown_share(passage: Passage, others: list[Passage]) -> float:
    siblings = [other for other in others if other.doc_id == passage.doc_id]
    if not passage.text:
        return 0.0
    if passage.span is None:
        return float(any(passage.text in other.text for other in siblings))
    return hit_share([shared for other in siblings if (shared := shared_range(passage, other))], passage.span)


def shared_range(passage: Passage, other: Passage) -> Span | None:
    if passage.span is None or other.span is None:
        return passage.span if passage.text in other.text else None
    shared = Span(max(passage.span.start, other.span.start), min(passage.span.end, other.span.end))
    if shared.start >= shared.end:
        return None
    texts = [shared.shift(-each.span.start).of(each.text) for each in (passage, other) if each.span]
    return shared if texts[0] == texts[1] else None


@st.composite
def repeating(draw: st.DrawFn) -> list[Passage]:
    """Passages with and without range, of few letters, from documents that say different things at one place."""
    made = []
    for rank in range(draw(st.integers(0, 14))):
        text = draw(st.text("甲乙", max_size=6) | spans().map(lambda span: span.of("甲乙乙甲丙" * 20)))
        start = draw(st.none() | st.integers(0, 12))
        if draw(st.booleans()) and start is not None:
            text = ("甲乙乙甲丙" * 20)[start:][: len(text)]
        made.append(Passage(text, draw(SCORES), (rank,), draw(st.sampled_from(["a", "b", None])), start))
    return made


@given(repeating(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_repeats_are_those_found_by_comparing_every_pair(passages: list[Passage], max_overlap: float) -> None:
    assert drop_repeats(passages, max_overlap) == drop_repeats_by_pairs(passages, max_overlap)


@given(st.lists(st.tuples(st.integers(0, 250), st.integers(1, 150), st.booleans()), max_size=12), st.floats(0, 1))
def test_long_texts_that_hold_one_another_are_found(cuts: list[tuple[int, int, bool]], max_overlap: float) -> None:
    text = "".join(chr(0x4E00 + i * i % 97) for i in range(400))
    passages = [
        Passage(text[start : start + length], 1 / (i + 1), (i,), "a", start if has_range else None)
        for i, (start, length, has_range) in enumerate(cuts)
    ]
    assert drop_repeats(passages, max_overlap) == drop_repeats_by_pairs(passages, max_overlap)


def sliding(n: int, step: int, size: int, *, has_ranges: bool) -> list[Passage]:
    text = "".join(map(chr, random.Random(7).choices(range(0x4E00, 0x5E00), k=n * step + size)))
    return [
        Passage(text[at : at + size], (i * 7919 % n) / n, (i,), "a", at if has_ranges else None)
        for i, at in enumerate(range(0, n * step, step))
    ]


@pytest.mark.timeout(30)  # about 0.1 s; every pair takes minutes
@pytest.mark.parametrize(
    "passages",
    [
        sliding(4_000, 100, 200, has_ranges=True),
        sliding(4_000, 20, 200, has_ranges=True),
        sliding(4_000, 20, 200, has_ranges=False),
        sliding(2_000, 100, 200, has_ranges=True) + sliding(2_000, 100, 200, has_ranges=False),
        sliding(3_600, 50, 50, has_ranges=True) + sliding(400, 450, 450, has_ranges=True),
    ],
    ids=["half in common", "nearly all in common", "without ranges", "both", "two levels"],
)
def test_four_thousand_hits_of_one_document_are_not_compared_pair_by_pair(passages: list[Passage]) -> None:
    assert 0 < len(drop_repeats(passages, 0.5)) <= len(passages)
