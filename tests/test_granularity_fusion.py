"""Hits of several levels as one list: weights, what stays, and what is told of the rest."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
from llama_index_chunking_plus.postprocessor.granularity_fusion import (
    GRANULARITY_HITS_KEY,
    GranularityFusionPostprocessor,
)

TEXT = "".join(f"第{i}节说的第{i}件事。" for i in range(10, 40))  # 30 sentences of 12 characters
NAN = math.nan
EQUAL = dict.fromkeys(("fine", "medium", "coarse"), 1.0)


def hit(
    start: int | None,
    size: int,
    level: Any = "fine",
    score: float | None = 0.5,
    document: str | None = "a",
    text: str = TEXT,
) -> NodeWithScore:
    """A slice of the text, or, without a start, its first characters without a range."""
    first = start or 0
    placed = {} if start is None else {"start_char_idx": first, "end_char_idx": first + size}
    node = TextNode(
        id_=f"{level}-{document}-{start}-{size}",
        text=text[first : first + size],
        metadata={} if level is None else {"granularity": level},
        relationships={} if document is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)},
        **placed,  # type: ignore[arg-type]
    )
    return NodeWithScore(node=node, score=score)


def fused(nodes: list[NodeWithScore], **options: Any) -> list[NodeWithScore]:
    """The result, sync and async; inputs are as before, and results can be JSON."""
    postprocessor = GranularityFusionPostprocessor(**options)
    before = [each.model_dump_json() for each in nodes]
    found = postprocessor.postprocess_nodes(nodes)
    again = asyncio.run(postprocessor.apostprocess_nodes(nodes))
    assert [repr(each.to_dict()) for each in again] == [repr(each.to_dict()) for each in found]
    assert [each.model_dump_json() for each in nodes] == before
    json.dumps([each.node.metadata for each in found], allow_nan=False)
    return found


def told(found: list[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(each.node_id, None if each.score is None else round(each.score, 9)) for each in found]


def levels(scored: NodeWithScore) -> list[str]:
    return [one["granularity"] for one in scored.node.metadata[GRANULARITY_HITS_KEY]]


# --- weights ---


@pytest.mark.parametrize(
    "level, score, expected",
    [
        ("fine", 0.5, 0.6),
        ("medium", 0.5, 0.4),
        ("coarse", 0.5, 0.3),
        ("chapter", 0.5, 0.5),
        ("fine", -0.6, -0.5),  # a higher weight is better for negative scores too
        ("coarse", -0.6, -1.0),
        ("fine", 0.0, 0.0),
        ("fine", None, None),
        ("fine", NAN, None),
        ("fine", math.inf, math.inf),
    ],
)
def test_a_score_times_the_weight_of_its_level(level: str, score: float | None, expected: float | None) -> None:
    nodes = [hit(0, 12, level, score)]
    if score == math.inf:
        assert GranularityFusionPostprocessor().postprocess_nodes(nodes)[0].score == expected
        return
    (one,) = fused(nodes)
    assert one.score == (expected if expected is None else pytest.approx(expected))


@given(st.floats(-10, 10), st.floats(0.1, 5), st.floats(0.1, 5))
def test_a_higher_weight_is_never_worse_and_no_sign_changes(score: float, one: float, two: float) -> None:
    low, high = (
        GranularityFusionPostprocessor(weights={"fine": weight}).postprocess_nodes([hit(0, 12, score=score)])[0].score
        for weight in sorted([one, two])
    )
    assert low is not None
    assert high is not None
    assert low <= high
    assert (low > 0) == (high > 0) == (score > 0)


def test_given_weights_replace_the_default_ones_and_0_leaves_out() -> None:
    nodes = [hit(0, 12, "fine", 0.5), hit(24, 12, "medium", 0.4), hit(48, 12, "coarse", -0.1)]
    assert told(fused(nodes, weights={"medium": 2})) == [
        ("medium-a-24-12", 0.8),
        ("fine-a-0-12", 0.5),
        ("coarse-a-48-12", -0.1),
    ]
    inside = [*nodes, hit(24, 6, "coarse", 0.9)]
    assert told(fused(inside, weights={"coarse": 0})) == [("fine-a-0-12", 0.5), ("medium-a-24-12", 0.4)]


# --- what stays ---

NESTED = [hit(0, 60, "coarse", 0.5), hit(0, 24, "medium", 0.9), hit(12, 12, "fine", 0.7), hit(36, 12, "fine", 0.4)]


@pytest.mark.parametrize(
    "prefer, expected",
    [
        # the fine hit at 36 is not in the medium one, and the coarse one has gone when its turn comes
        ("score", [("medium-a-0-24", 0.9), ("fine-a-36-12", 0.4)]),
        ("fine", [("fine-a-12-12", 0.9), ("fine-a-36-12", 0.5)]),
        ("coarse", [("coarse-a-0-60", 0.9)]),
    ],
)
def test_which_of_nested_hits_stays(prefer: str, expected: list[tuple[str, float]]) -> None:
    for nodes in (NESTED, NESTED[::-1]):
        assert told(fused(nodes, weights=EQUAL, prefer=prefer)) == expected


def test_all_that_a_node_stands_for_is_told_best_first() -> None:
    (one,) = fused(NESTED, prefer="coarse")
    assert one.node.metadata[GRANULARITY_HITS_KEY] == [
        {"node_id": "fine-a-12-12", "granularity": "fine", "score": 0.7, "weighted_score": pytest.approx(0.84)},
        {"node_id": "medium-a-0-24", "granularity": "medium", "score": 0.9, "weighted_score": pytest.approx(0.72)},
        {"node_id": "fine-a-36-12", "granularity": "fine", "score": 0.4, "weighted_score": pytest.approx(0.48)},
        {"node_id": "coarse-a-0-60", "granularity": "coarse", "score": 0.5, "weighted_score": pytest.approx(0.3)},
    ]
    assert one.score == pytest.approx(0.84)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert GRANULARITY_HITS_KEY not in one.node.get_content(mode)


def test_what_loses_to_several_is_told_by_each() -> None:
    nodes = [hit(0, 60, "coarse", 0.1), hit(0, 12, "fine", 0.9), hit(24, 12, "fine", 0.8), hit(72, 12, "fine", 0.7)]
    assert [levels(each) for each in fused(nodes)] == [["fine", "coarse"], ["fine", "coarse"], ["fine"]]


def test_one_text_once() -> None:
    again = hit(0, 12, "medium", 0.9)
    assert [levels(each) for each in fused([hit(0, 12), again])] == [["medium", "fine"]]
    twice = "再见。" * 2
    same = [hit(0, 3, "fine", 0.5, text=twice), hit(3, 3, "fine", 0.4, text=twice)]
    assert told(fused(same, weights=EQUAL)) == [("fine-a-0-3", 0.5)]  # at another place of the document
    unplaced = [hit(None, 12, "fine", 0.5), hit(0, 12, "medium", 0.5), hit(None, 24, "coarse", 0.5)]
    assert told(fused(unplaced)) == [("fine-a-None-12", 0.6), ("coarse-a-None-24", 0.3)]
    unowned = [hit(0, 12, "fine", 0.5, None), hit(0, 12, "medium", 0.5, None), hit(0, 24, "coarse", 0.5, None)]
    assert told(fused(unowned)) == [("fine-None-0-12", 0.6), ("coarse-None-0-24", 0.3)]


@pytest.mark.parametrize(
    "other",
    [
        hit(0, 60, "coarse", 0.4, "b"),  # another document
        hit(6, 12, "medium", 0.4),  # overlaps
        hit(12, 12, "medium", 0.4),  # touches
        hit(0, 60, "coarse", 0.4, text=TEXT.replace("10", "99")),  # another version of the document
        hit(0, 0, "medium", 0.4),  # an image, say
    ],
)
def test_what_says_something_else_stays(other: NodeWithScore) -> None:
    assert len(fused([hit(0, 12), other])) == 2


def test_nodes_without_a_level_pass_through() -> None:
    plain = [hit(0, 60, None, 0.55), hit(12, 12, None, -0.2), hit(12, 12, None, None), hit(12, 12, 7, 0.1)]
    found = fused([*plain, hit(12, 12, "fine", 0.5), hit(12, 12, "", 0.9)])
    assert [each.score for each in found] == [0.9, 0.6, 0.55, 0.1, -0.2, None]
    assert found[2:] == [plain[0], plain[3], plain[1], plain[2]]
    assert all(one is two for one, two in zip(found[2:], [plain[0], plain[3], plain[1], plain[2]], strict=True))


def test_order_and_number() -> None:
    nodes = [hit(i * 12, 12, "fine", score) for i, score in enumerate([None, 0.5, -1.0, 0.5, 0.9, None])]
    ids = [f"fine-a-{i * 12}-12" for i in (4, 1, 3, 2, 0, 5)]
    assert [each.node_id for each in fused(nodes)] == ids
    assert [each.node_id for each in fused(nodes, top_k=2)] == ids[:2]
    assert [each.node_id for each in fused(nodes, top_k=9)] == ids
    assert fused([]) == []


def test_a_scored_hit_lends_its_score_to_one_that_has_none() -> None:
    (one,) = fused([hit(0, 12, "fine", None), hit(0, 60, "coarse", -0.6)], prefer="fine")
    assert (one.node_id, one.score) == ("fine-a-0-12", pytest.approx(-1.0))


LEVELS = st.sampled_from([("fine", 12), ("medium", 24), ("coarse", 60)])
HITS = st.lists(
    st.tuples(st.integers(0, 20), LEVELS, st.none() | st.sampled_from([-0.5, 0.0, 0.2, 0.4, 0.9])), max_size=9
)


@given(HITS, st.sampled_from(["score", "fine", "coarse"]))
def test_nothing_is_said_twice_and_no_hit_is_forgotten(
    drawn: list[tuple[int, tuple[str, int], float | None]], prefer: str
) -> None:
    nodes = [hit(at * 12, size, level, score) for at, (level, size), score in drawn]
    found = GranularityFusionPostprocessor(prefer=prefer).postprocess_nodes(nodes)  # type: ignore[arg-type]
    ranges = [{*range(each.node.start_char_idx, each.node.end_char_idx)} for each in found]  # type: ignore[attr-defined]
    assert not any(one <= two for i, one in enumerate(ranges) for j, two in enumerate(ranges) if i != j)
    mentioned = [one for each in found for one in each.node.metadata[GRANULARITY_HITS_KEY]]
    assert {one["node_id"] for one in mentioned} == {node.node_id for node in nodes}
    for each in found:
        known = [one["weighted_score"] for one in each.node.metadata[GRANULARITY_HITS_KEY]]
        assert each.score == max((score for score in known if score is not None), default=None)
    if prefer == "coarse":
        assert set().union(*ranges) == {i for at, (_, size), _ in drawn for i in range(at * 12, at * 12 + size)}


def test_with_the_parser_every_place_is_returned_once() -> None:
    nodes = MultiGranularityNodeParser()([Document(id_="a", text=TEXT * 20)])
    hits = [NodeWithScore(node=node, score=0.5) for node in nodes]
    by_level = {
        prefer: {levels(each)[0] for each in fused(hits, prefer=prefer)} for prefer in ("score", "fine", "coarse")
    }
    kept = {prefer: fused(hits, prefer=prefer, weights=EQUAL) for prefer in ("fine", "coarse")}
    assert by_level["score"] == {"fine"}
    assert {each.node.metadata["granularity"] for each in kept["fine"]} == {"fine"}
    assert {each.node.metadata["granularity"] for each in kept["coarse"]} == {"coarse"}
    assert "".join(each.text for each in kept["coarse"]) == TEXT * 20


# --- options ---


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights": {"fine": -1}}, r"weights\['fine'\]=-1.0 must be a finite number"),
        ({"weights": {"fine": NAN}}, r"weights\['fine'\]=nan must be a finite number"),
        ({"weights": {"fine": math.inf}}, "finite number"),
        ({"weights": {" ": 1}}, "blank"),
        ({"weights": {"fine": "heavy"}}, "weights"),
        ({"weights": {"fine": True}}, "valid number"),
        ({"weights": {b"fine": 1}}, "valid string"),
        ({"weights": None}, "weights"),
        ({"prefer": "longest"}, "prefer"),
        ({"top_k": 0}, "top_k"),
        ({"topk": 1}, "topk"),
    ],
)
def test_wrong_options_fail_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GranularityFusionPostprocessor(**options)


def test_options_are_frozen_copied_and_portable() -> None:
    weights = {"fine": 2.0}
    one = GranularityFusionPostprocessor(weights=weights, prefer="fine", top_k=3)
    weights["fine"] = -1.0
    assert one.weights == {"fine": 2.0}
    for name, value in (("weights", {}), ("prefer", "score"), ("top_k", None)):
        with pytest.raises(ValueError, match="frozen"):
            setattr(one, name, value)
    for same in (pickle.loads(pickle.dumps(one)), GranularityFusionPostprocessor.from_dict(one.to_dict())):
        assert (same.weights, same.prefer, same.top_k) == (one.weights, one.prefer, one.top_k)
    assert one.to_dict()["class_name"] == "ChunkingPlusGranularityFusionPostprocessor"
