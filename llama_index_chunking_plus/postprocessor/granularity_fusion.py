"""Hits of several levels of granularity as one list."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from llama_index.core.bridge.pydantic import ConfigDict, Field, StrictFloat, StrictStr, field_validator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_chunking_plus.core.granularity import COARSE, FINE, MEDIUM
from llama_index_chunking_plus.core.hierarchy import GRANULARITY_KEY
from llama_index_chunking_plus.core.ranking import Passage, Score, best_first, best_score
from llama_index_chunking_plus.node_parser.options import CheckedOptions
from llama_index_chunking_plus.postprocessor.passages import span_of, text_of, with_hidden

logger = logging.getLogger(__name__)

GRANULARITY_HITS_KEY = "granularity_hits"  # metadata of a returned node: the hits that it stands for, best first

_UNKNOWN = 1.0  # the weight of a level that has none


class GranularityFusionPostprocessor(CheckedOptions, BaseNodePostprocessor):
    """Weighs the hits of several levels by their level and returns each place of a document once, best first.

    A hit's score is multiplied by the weight of its level; a negative one is divided by it, so that a higher weight is
    better for every score. Of two hits of one document one goes if they have the same text, or if the range of one
    lies in that of the other and the texts agree there. The one that stays takes the better score of both, and its
    metadata lists in ``granularity_hits`` all that it stands for, best first, with node id, level, score and weighted
    score; embedder and model do not see it. What goes may lose to several, and each of them lists it.

    Nodes that name no level are returned as they came, at the place of their score: neither weighed nor compared.
    Hits without a score, or with NaN, have none and come last; equal scores stay in the order given. Weights are
    applied at each call, so one of these in a chain is enough.

    Args:
        weights: by level, above 0; 0 leaves out the hits of the level. A level that has none has 1. Given ones replace
            all of the default: 1.2 for "fine", 0.8 for "medium", 0.6 for "coarse".
        prefer: which of two hits stays: the one with the better weighted "score", the shorter ("fine") or the longer
            ("coarse") one. "score" trusts the weights; "fine" wastes no tokens, and `ParentExpansionPostprocessor` may
            follow; with "coarse" nothing that was hit is lost.
        top_k: how many nodes are returned at most; None is all.

    Raises:
        ValueError: a weight is negative or no finite number, a level is blank, top_k below 1.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> def hit(text, level, score):
        ...     about = {"metadata": {"granularity": level}, "relationships": {"1": {"node_id": "a"}}}  # SOURCE
        ...     node = TextNode(text=text, start_char_idx=0, end_char_idx=len(text), **about)
        ...     return NodeWithScore(node=node, score=score)
        >>> hits = [hit("今天下雨。我们不去了。", "coarse", 0.9), hit("今天下雨。", "fine", 0.5)]
        >>> fused, = GranularityFusionPostprocessor().postprocess_nodes(hits)
        >>> fused.text, fused.score, [one["granularity"] for one in fused.metadata["granularity_hits"]]
        ('今天下雨。', 0.6, ['fine', 'coarse'])
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    weights: dict[StrictStr, StrictFloat] = Field(
        default_factory=lambda: {FINE: 1.2, MEDIUM: 0.8, COARSE: 0.6},
        frozen=True,
        description="What a level's scores are multiplied by.",
    )
    prefer: Literal["score", "fine", "coarse"] = Field(
        default="score", frozen=True, description="Which of two hits at one place stays."
    )
    top_k: int | None = Field(default=None, ge=1, frozen=True, description="Nodes returned at most.")

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        for level, weight in weights.items():
            if not level.strip():
                raise ValueError(f"weights={weights} has a blank level; name it.")
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(
                    f"weights[{level!r}]={weight} must be a finite number, 0 or above; 0 leaves out the level's hits."
                )
        return weights

    @classmethod
    def class_name(cls) -> str:
        """The name under which the postprocessor is serialised."""
        return "ChunkingPlusGranularityFusionPostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002  scores say what the query had to say
    ) -> list[NodeWithScore]:
        hits = [hit for position, scored in enumerate(nodes) if (hit := self._hit(scored, position)) is not None]
        families: defaultdict[str | None, list[_Hit]] = defaultdict(list)
        for hit in hits:
            families[hit.given.node.ref_doc_id].append(hit)
        kept = [group for family in families.values() for group in self._fused(family)]
        logger.debug("%d of %d hits stand for all.", len(kept), len(nodes))
        in_place = sorted(kept, key=lambda group: group.own.position)
        return [group.returned() for group in best_first(in_place)[: self.top_k]]

    def _hit(self, scored: NodeWithScore, position: int) -> _Hit | None:
        """The hit with its weighted score; None if its level is left out."""
        named = scored.node.metadata.get(GRANULARITY_KEY)
        level = named if isinstance(named, str) and named else None
        weight = _UNKNOWN if level is None else self.weights.get(level, _UNKNOWN)
        return _Hit(scored, position, level, _weighted(scored.score, weight)) if weight else None

    def _fused(self, family: Iterable[_Hit]) -> list[_Group]:
        """The hits of one document that stay; each of the others is with all that it has its place in common with."""
        groups: list[_Group] = []
        for hit in sorted(best_first(family), key=self._precedence):
            homes = [group for group in groups if group.own.repeats(hit)]
            for home in homes:
                home.hits.append(hit)
            if not homes:
                groups.append(_Group(hit, [hit]))
        return groups

    def _precedence(self, hit: _Hit) -> int:
        return {"score": 0, "fine": len(hit.passage.text), "coarse": -len(hit.passage.text)}[self.prefer]


@dataclass(frozen=True)
class _Hit:
    """A node that was given; level is None if it names none, score is weighted."""

    given: NodeWithScore
    position: int
    level: str | None
    score: Score
    passage: Passage = field(init=False)

    def __post_init__(self) -> None:
        node, span = self.given.node, span_of(self.given.node)
        passage = Passage(text_of(node), self.score, (self.position,), node.ref_doc_id, span and span.start)
        object.__setattr__(self, "passage", passage)

    def repeats(self, other: _Hit) -> bool:
        """Whether one of both, of one document, says at its place all that the other says there."""
        if self.level is None or other.level is None:
            return False
        one, two = sorted((self.passage, other.passage), key=lambda passage: len(passage.text))
        if not one.text or one.span is None or two.span is None:
            return bool(one.text) and one.text == two.text
        offset = two.distance(one)
        return one.text == two.text or (offset >= 0 and two.text.startswith(one.text, offset))

    def told(self) -> dict[str, Any]:
        """The hit as metadata that JSON can hold."""
        return {
            "node_id": self.given.node_id,
            GRANULARITY_KEY: self.level,
            "score": _known(self.given.score),
            "weighted_score": self.score,
        }


@dataclass(frozen=True)
class _Group:
    """A hit that stays, and all hits that it stands for."""

    own: _Hit
    hits: list[_Hit]

    @property
    def score(self) -> Score:
        return best_score(self.hits)

    def returned(self) -> NodeWithScore:
        if self.own.level is None:
            return self.own.given
        node = self.own.given.node
        told = [hit.told() for hit in best_first(sorted(self.hits, key=lambda hit: hit.position))]
        metadata = {**node.metadata, GRANULARITY_HITS_KEY: told}
        return NodeWithScore(node=with_hidden(node, metadata, GRANULARITY_HITS_KEY), score=self.score)


def _weighted(score: Score, weight: float) -> Score:
    known = _known(score)
    if known is None:
        return None
    return known * weight if known >= 0 else known / weight


def _known(score: Score) -> Score:
    return None if score is None or math.isnan(score) else score
