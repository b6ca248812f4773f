"""From candidates to returned nodes: one choice, one merge, one way to build a node, for all that replace hits."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from llama_index.core.bridge.pydantic import BaseModel, ConfigDict, Field
from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, QueryBundle, TextNode

from llama_index_chunking_plus.core.headers import HEADER_KEY
from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.core.ranking import (
    Hit,
    Passage,
    best_first,
    by_document,
    fill_budget,
    merge_touching,
    take_in_shown,
)
from llama_index_chunking_plus.core.sections import LEAD_KEY, SECTION_KEYS, TAIL_KEY, closing_template
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.node_parser.options import CheckedOptions
from llama_index_chunking_plus.node_parser.tokenizers import (
    TokenizerOption,
    portable_tokenizer,
    resolve_sizer,
)

HITS_KEY = "child_hits"  # metadata of a returned passage: the hits that it stands for, best first

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_GROWING_HITS = 5  # of a bounded passage: what is ranked below adds nothing to a passage that shows it already
_ID_NAMESPACE = uuid.UUID("0b6b1c1e-5d0e-5d6f-8a55-3f4d1a6f7c20")


@dataclass(frozen=True)
class Candidate:
    """A node that may be returned, and the hits that speak for it.

    Args:
        node: gives id, metadata, exclusions and templates; never changed.
        text: what is returned of it.
        start: where ``text`` begins in the document, if known.
        given: the input, where it is to be returned as it is.
    """

    node: BaseNode
    text: str
    start: int | None
    score: float | None
    hits: tuple[Hit, ...] = ()
    given: NodeWithScore | None = None

    @classmethod
    def unchanged(cls, given: NodeWithScore, rank: int) -> Candidate:
        """A node that is returned as it came, unless another passage shows it whole."""
        hit = hit_of(given, rank)
        return cls(given.node, text_of(given.node), hit.span and hit.span.start, given.score, (hit,), given)


class PassagePostprocessor(CheckedOptions, BaseNodePostprocessor, ABC):
    """Base of the postprocessors that return passages in place of hits: sync and async, one plan.

    Args:
        max_tokens: how many tokens the returned texts may have together; what does not fit is left out whole, but the
            best passage is always returned. Metadata that a template adds is not counted.
        tokenizer: counts tokens; None is LlamaIndex's global tokenizer. A callable from text to token ids or to a
            number, "tiktoken:<encoding>" or "import:<module>:<name>".
        order: "score", best first (equal scores in order of arrival, unscored ones last); or "document", the order of
            reading, the document with the best passage first.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=1, frozen=True, description="Tokens of all texts together.")
    tokenizer: TokenizerOption = Field(
        default=None, frozen=True, description="Counts tokens; None: LlamaIndex's global one."
    )
    order: Literal["score", "document"] = Field(default="score", frozen=True, description="Order of the passages.")

    @abstractmethod
    def plan(self, nodes: Sequence[NodeWithScore]) -> Plan[list[NodeWithScore]]:
        """What is returned for these nodes; yields a request wherever a store must answer."""

    def __getstate__(self) -> dict[Any, Any]:
        """A state of copies: LlamaIndex's own components drop what cannot be pickled from the live object."""
        state = BaseModel.__getstate__(self)
        fields = {name: value for name, value in state["__dict__"].items() if name != "callback_manager"}
        return {**state, "__dict__": {**fields, "tokenizer": portable_tokenizer(self.tokenizer)}}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields = {"callback_manager": CallbackManager([]), **state["__dict__"]}
        BaseModel.__setstate__(self, {**state, "__dict__": fields})

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002  scores say what the query had to say
    ) -> list[NodeWithScore]:
        return run(self.plan(nodes))

    async def _apostprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002  scores say what the query had to say
    ) -> list[NodeWithScore]:
        return await arun(self.plan(nodes))

    def _size(self, text: str) -> int:
        return resolve_sizer("tokens", self.tokenizer).size(text)

    def _assemble(
        self, candidates: Sequence[Candidate], merge: bool = True, max_passage: int | None = None
    ) -> list[NodeWithScore]:
        """The candidates, given in order of arrival, that fit the budget, merged and in order."""
        size = cache(self._size)
        fits = None if max_passage is None else lambda text: size(text) <= max_passage

        def joined(passages: Iterable[Passage]) -> list[Passage]:
            merged = merge_touching(passages, fits, _GROWING_HITS if fits else None) if merge else passages
            return take_in_shown(merged)

        chosen = best_first(_passage(candidate, position) for position, candidate in enumerate(candidates))
        if self.max_tokens is not None:
            chosen = fill_budget(chosen, self.max_tokens, lambda some: sum(size(each.text) for each in joined(some)))
        passages = best_first(joined(chosen))
        if self.order == "document":
            passages = by_document(passages)
        return [_returned(passage, [candidates[part] for part in passage.parts]) for passage in passages]


def text_of(node: BaseNode) -> str:
    """The node's text, without metadata."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def span_of(node: BaseNode) -> Span | None:
    """The node's range in its document; None if it has none, or one that cannot be that of its text."""
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if start is None or end is None or start < 0:
        return None
    text = node.text if isinstance(node, TextNode) else text_of(node)
    if end - start != len(text):
        return None
    return Span(start, end)


def hit_of(scored: NodeWithScore, rank: int, parent_id: str | None = None) -> Hit:
    """The record of the node that was retrieved at this position."""
    return Hit(scored.node_id, scored.score, rank, parent_id, span_of(scored.node))


def with_hidden(node: BaseNode, metadata: Mapping[str, Any], key: str, **fields: Any) -> BaseNode:
    """A copy of the node with this metadata, of which embedding model and language model are not shown ``key``.

    All fields are set at once: core's nodes check themselves as a whole whenever one of their fields is set.
    """
    hidden = {name: [*dict.fromkeys([*getattr(node, name), key])] for name in _EXCLUSIONS}
    return node.model_copy(update={"metadata": dict(metadata), **hidden, **fields})


def _document_version(node: BaseNode) -> Hashable:
    """Equal for nodes of one version of one document; None if the node does not say."""
    source = node.source_node
    return None if source is None else (source.node_id, source.hash)


def _passage(candidate: Candidate, position: int) -> Passage:
    return Passage(
        text=candidate.text,
        score=candidate.score,
        parts=(position,),
        doc_id=_document_version(candidate.node),
        source=candidate.node.ref_doc_id,
        start=candidate.start,
        fixed=candidate.given is not None,
        heart=candidate.hits[0].span if candidate.start is not None and len(candidate.hits) == 1 else None,
    )


def _returned(passage: Passage, parts: Sequence[Candidate]) -> NodeWithScore:
    """The passage as a new node, made after its best part; what it was made of stays as it is."""
    own = [part for part in parts if part.given is None]  # what it took in does not say what it is
    if not own:
        return best_first(parts)[0].given or NodeWithScore(node=parts[0].node, score=passage.score)
    best = best_first(own)[0]
    hits = {hit.node_id: hit for hit in reversed(best_first(hit for part in parts for hit in part.hits))}
    told = _told(best_first(hits.values()))
    part_ids = sorted({part.node.node_id for part in own})
    fields: dict[str, Any] = {"embedding": None}
    if len(part_ids) > 1 or passage.text != text_of(best.node):
        fields |= _said(best.node, passage)
    if len(part_ids) > 1:
        fields["id_"] = str(uuid.uuid5(_ID_NAMESPACE, f"{passage.start}{part_ids}"))
        fields |= _closed(best.node, passage, own)
    metadata = {**(best.node.metadata if len(part_ids) == 1 else _in_common(best.node, own)), HITS_KEY: told}
    node = with_hidden(best.node, metadata, HITS_KEY, **fields)
    if "relationships" in fields and not isinstance(node, TextNode):
        node.set_content(passage.text)
    return NodeWithScore(node=node, score=passage.score)


def _said(node: BaseNode, passage: Passage) -> dict[str, Any]:
    """Text and range of the passage as fields of a new node; of its relationships only SOURCE still holds."""
    source = {key: value for key, value in node.relationships.items() if key == NodeRelationship.SOURCE}
    if not isinstance(node, TextNode):
        return {"relationships": source}
    start = passage.start
    end = None if start is None else start + len(passage.text)
    return {"relationships": source, "text": passage.text, "start_char_idx": start, "end_char_idx": end}


def _in_common(best: BaseNode, parts: Sequence[Candidate]) -> dict[str, Any]:
    """The metadata of the best part; of what it says of its section, what all say, and the lead of the first part."""
    nodes = [part.node for part in sorted(parts, key=lambda part: part.start or 0)]
    told = {**best.metadata, LEAD_KEY: nodes[0].metadata.get(LEAD_KEY), TAIL_KEY: nodes[-1].metadata.get(TAIL_KEY)}
    of_one = {*SECTION_KEYS, HEADER_KEY} - {LEAD_KEY, TAIL_KEY}
    differing = {key for key in of_one if any(node.metadata.get(key) != best.metadata.get(key) for node in nodes)}
    return {key: value for key, value in told.items() if key not in differing and value is not None}


def _closed(node: BaseNode, passage: Passage, parts: Sequence[Candidate]) -> dict[str, Any]:
    """The template of a passage of several parts: it closes the fence that the last part leaves open."""
    if not isinstance(node, TextNode):
        return {}
    last = max(parts, key=lambda part: (part.start or 0) + len(part.text))
    tail = str(last.node.metadata.get(TAIL_KEY, ""))
    return {"text_template": closing_template(node.text_template, passage.text, tail)}


def _told(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    """The hits as metadata that JSON can hold."""
    spans = ((hit, hit.span or (None, None)) for hit in hits)
    return [{"node_id": hit.node_id, "score": hit.score, "start": start, "end": end} for hit, (start, end) in spans]
