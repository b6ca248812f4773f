"""Small to big: hits in, their parents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from llama_index_chunking_plus.core.parents import ParentRef
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.ranking import Aggregate, ParentHits, by_parent, hit_share
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.postprocessor.passages import Candidate, PassagePostprocessor, hit_of, text_of
from llama_index_chunking_plus.storage.parents import Found, ParentLookup


class ParentExpansionPostprocessor(PassagePostprocessor):
    """Returns the parents of the hits: each once, whole, current, with the score that its children give it.

    The parent is a new node with its exact range; ``child_hits`` in its metadata, shown to no model, lists the hits
    that it stands for. Nodes without parent information keep their place. A child whose parent is not found, or
    not current, is returned itself; one whose own text is gone from its document is dropped. Whatever stands whole in
    a parent that is returned is not returned beside it.

    Args:
        lookup: finds the parents. Of several, each is asked for what those before it know nothing of;
            several docstores are better chained by ``SourceSliceLookup(docstore, fallback=...)``.
        max_parents: how many parents are returned at most, before neighbours are merged.
        aggregate: the score of a parent: the "max", "mean" or "sum" of its children's scores, each child once; or
            "count", the highest raised by a tenth of its magnitude for each doubling of the children hit.
        promote: "always"; or "ratio", which puts a parent in the place of its children only where at least
            ``min_ratio`` of its characters was hit. The other children are returned themselves, however many.
        min_ratio: a share, above 0 and up to 1.
        merge_adjacent: parents of one document that touch or overlap become one passage with the best score. It has the
            metadata of its best parent, and an id of its own.
        max_tokens, tokenizer, order: see `PassagePostprocessor`.

    Raises:
        ValueError: an option is out of its range, or ``lookup`` is no lookup.

    Example:
        >>> from llama_index.core import Document
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index_chunking_plus.core.parents import text_hash
        >>> from llama_index_chunking_plus.storage.slices import SourceSliceLookup
        >>> docstore = SimpleDocumentStore()
        >>> docstore.add_documents([Document(id_="a", text="今天下雨。我们不去了。")])
        >>> source = {"1": {"node_id": "a"}}  # NodeRelationship.SOURCE
        >>> parent = ParentRef("p", Span(0, 11), text_hash("今天下雨。我们不去了。")).to_metadata()
        >>> child = TextNode(text="今天下雨。", start_char_idx=0, end_char_idx=5, metadata=parent, relationships=source)
        >>> expansion = ParentExpansionPostprocessor(lookup=SourceSliceLookup(docstore))
        >>> expansion.postprocess_nodes([NodeWithScore(node=child, score=0.9)])[0].text
        '今天下雨。我们不去了。'
    """

    lookup: tuple[Any, ...] = Field(exclude=True, frozen=True, description="Finds the parents: one lookup or several.")
    max_parents: int = Field(default=4, ge=1, frozen=True, description="Parents returned at most.")
    aggregate: Aggregate = Field(default="max", frozen=True, description="From children's scores to a parent's.")
    promote: Literal["always", "ratio"] = Field(default="always", frozen=True, description="When parents come in.")
    min_ratio: float = Field(default=0.5, gt=0, le=1, frozen=True, description='Share hit, for promote="ratio".')
    merge_adjacent: bool = Field(default=True, frozen=True, description="Whether touching parents become one.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the postprocessor is serialised."""
        return "ChunkingPlusParentExpansionPostprocessor"

    @field_validator("lookup", mode="before")
    @classmethod
    def _check_lookup(cls, value: Any) -> Any:
        lookups = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if not lookups or not all(isinstance(each, ParentLookup) for each in lookups):
            raise ValueError(f"lookup={value!r} is no lookup of parents; pass SourceSliceLookup(docstore), say")
        return lookups

    def plan(self, nodes: Sequence[NodeWithScore]) -> Plan[list[NodeWithScore]]:
        """What is returned for these nodes: one fetch, and a second one only where stale hits left room."""
        refs = [ParentRef.from_metadata(scored.node.metadata) for scored in nodes]
        hits = [hit_of(nodes[rank], rank, ref.parent_id) for rank, ref in enumerate(refs) if ref]
        families, parents = yield from self._find(by_parent(hits, self.aggregate), nodes)
        promoted, others = self._promoted(families, parents, refs)

        alone = [hit.rank for family in others for hit in family.hits]
        alone += [rank for rank, ref in enumerate(refs) if ref is None]
        candidates = {rank: Candidate.unchanged(nodes[rank], rank) for rank in alone}
        for family in promoted:
            candidates[min(hit.rank for hit in family.hits)] = _candidate(family, parents[family.parent_id])
        return self._assemble([candidates[rank] for rank in sorted(candidates)], merge=self.merge_adjacent)

    def _find(
        self, families: Sequence[ParentHits], nodes: Sequence[NodeWithScore]
    ) -> Plan[tuple[list[ParentHits], Mapping[str, TextNode]]]:
        """The families that are to be returned, without stale children, and their parents."""
        wanted = self.max_parents if self.promote == "always" else len(families)
        alive: list[ParentHits] = []
        found = Found()
        for batch in (families[:wanted], families[wanted:]):
            if batch and len(alive) < wanted:
                children = [nodes[hit.rank].node for family in batch for hit in family.hits]
                found |= yield from self._look_up(children)
                current = (hit for family in batch for hit in family.hits if hit.node_id not in found.stale)
                alive += by_parent(current, self.aggregate)
        return alive[:wanted], found.parents

    def _look_up(self, children: Sequence[BaseNode]) -> Plan[Found]:
        found = Found()
        for lookup in self.lookup:
            is_first = not (found.parents or found.stale or found.alone)
            missing = children if is_first else [child for child in children if not _is_settled(child, found)]
            if missing:
                found |= yield from lookup.plan(missing)
        return found

    def _promoted(
        self,
        families: Sequence[ParentHits],
        parents: Mapping[str, TextNode],
        refs: Sequence[ParentRef | None],
    ) -> tuple[list[ParentHits], list[ParentHits]]:
        """The families that become their parents, and those whose children stand for themselves."""
        promoted: list[ParentHits] = []
        others: list[ParentHits] = []
        for family in families:
            ref = refs[family.hits[0].rank]
            enough = self.promote == "always" or (ref and _share(family, ref.span) >= self.min_ratio)
            (promoted if enough and family.parent_id in parents else others).append(family)
        return promoted[: self.max_parents], others


def _share(family: ParentHits, parent: Span) -> float:
    """The share of the parent that its children hit; children of unknown range do not count."""
    return hit_share([hit.span for hit in family.hits if hit.span], parent)


def _is_settled(child: BaseNode, found: Found) -> bool:
    ref = ParentRef.from_metadata(child.metadata)
    return child.node_id in found.stale | found.alone or (ref is not None and ref.parent_id in found.parents)


def _candidate(family: ParentHits, parent: TextNode) -> Candidate:
    return Candidate(parent, text_of(parent), parent.start_char_idx, family.score, family.hits)
