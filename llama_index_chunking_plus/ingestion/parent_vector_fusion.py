"""Vectors of small chunks that know what they are a part of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
from typing_extensions import Self

from llama_index_chunking_plus.core.hierarchy import GRANULARITY_KEY
from llama_index_chunking_plus.core.vectors import Vectors, fused_with_parents
from llama_index_chunking_plus.errors import EmbeddingError, OptionError

FUSION_KEY = "vector_fusion"  # what a node's vector was fused with
RAW_KEY = "raw_embedding"  # the vector before that, where it is kept
ABOVE_KEYS = ("parent_embed_prefix", "parent_embed_suffix")  # what was embedded of a parent around its text

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_SHOWN = 3


class ParentVectorFusion(TransformComponent):
    """Behind the embedding model: each vector moved towards that of the chunk it is a part of, from coarse to fine.

    ``vector = unit(own + weight * parent's)``: a fine chunk then also says what its section is about, at no cost at
    query time. Own and parent's vectors count at length 1, the parent's as it was fused itself; all vectors come out
    with length 1. Each node says in its hidden metadata ``vector_fusion`` how it was fused, so a store remembers, and
    a second pass changes nothing. The nodes are new ones.

    Args:
        medium, fine: how much of the parent's vector is added on these levels.
        weights: the same for levels of other names; those named nowhere keep their vectors, at length 1.
        store_levels: the levels whose nodes come out, such as ("coarse", "fine"); the others have then served their
            purpose, and `CoarseToFineRetriever` makes them again from the documents. None: all.
        keep_raw: whether nodes keep their own vector, as a list in their hidden metadata ``raw_embedding``. Not every
            store takes lists in metadata; Chroma does not.

    Raises:
        ValueError: a weight is below 0 or no number, or ``store_levels`` is empty.
        OptionError: at a call: nodes without an embedding, or without the chunks that they are parts of; vectors that
            were fused otherwise before.
        EmbeddingError: at a call: vectors of different lengths, or one that is zero or not finite.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index_chunking_plus.core.hierarchy import Granularity
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> parser = MultiGranularityNodeParser(levels=(Granularity("medium", 8, 24), Granularity("fine", 4, 8)))
        >>> steps = [parser, MockEmbedding(embed_dim=2), ParentVectorFusion()]
        >>> nodes = IngestionPipeline(transformations=steps).run(documents=[Document(text="一楼是大厅。二楼是展厅。")])
        >>> [(node.metadata["granularity"], node.metadata["vector_fusion"]) for node in nodes]
        [('medium', 'fine=0.3,medium=0.2'), ('fine', 'fine=0.3,medium=0.2'), ('fine', 'fine=0.3,medium=0.2')]
    """

    medium: float = Field(default=0.2, frozen=True, description="How much of the parent's vector medium chunks get.")
    fine: float = Field(default=0.3, frozen=True, description="How much of the parent's vector fine chunks get.")
    weights: dict[str, float] = Field(default_factory=dict, frozen=True, description="The same for other levels.")
    store_levels: tuple[str, ...] | None = Field(default=None, frozen=True, description="The levels that come out.")
    keep_raw: bool = Field(default=False, frozen=True, description="Whether nodes keep their own vector in metadata.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the component is serialised."""
        return "ChunkingPlusParentVectorFusion"

    @model_validator(mode="after")
    def _check(self) -> Self:
        wrong = {name: weight for name, weight in self._shares.items() if not (math.isfinite(weight) and weight >= 0)}
        if wrong:
            raise ValueError(f"weights of {wrong} must be numbers, 0 or above; 0.1 to 0.5 are usual")
        if self.store_levels is not None and not self.store_levels:
            raise ValueError("store_levels=() would store nothing; name levels, or leave it out for all")
        return self

    @property
    def _shares(self) -> dict[str, float]:
        return {"medium": self.medium, "fine": self.fine, **self.weights}

    @property
    def _mark(self) -> str:
        return ",".join(f"{name}={weight:g}" for name, weight in sorted(self._shares.items()))

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """The nodes with fused vectors, in order, those of levels that are not stored left out."""
        nodes = list(nodes)
        self._check_marks(nodes)
        fresh = [node for node in nodes if FUSION_KEY not in node.metadata]
        vectors = dict(zip((node.node_id for node in fresh), self._fused(fresh), strict=True))
        by_id = {node.node_id: node for node in nodes}
        return [
            self._with_vector(node, vectors[node.node_id], by_id) if node.node_id in vectors else node
            for node in nodes
            if self._is_stored(node)
        ]

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """The same, for pipelines that await."""
        return self(nodes, **kwargs)

    def _is_stored(self, node: BaseNode) -> bool:
        level = node.metadata.get(GRANULARITY_KEY)
        return self.store_levels is None or level is None or level in self.store_levels

    def _check_marks(self, nodes: Sequence[BaseNode]) -> None:
        others = {node.metadata[FUSION_KEY] for node in nodes if FUSION_KEY in node.metadata} - {self._mark}
        if others:
            raise OptionError(
                f"these vectors were fused with {min(others)!r} before, not with {self._mark!r}; parse and embed "
                "the documents again"
            )

    def _fused(self, nodes: Sequence[BaseNode]) -> Vectors:
        """The vectors of nodes that stand in any order, shape ``(n_nodes, dim)``."""
        if not nodes:
            return np.empty((0, 1), dtype=np.float32)
        vectors = _matrix(nodes)
        row_of = {node.node_id: row for row, node in enumerate(nodes)}
        missing = [node.node_id for node in nodes if _parent_id(node) not in {None, *row_of}]
        if missing:
            raise OptionError(
                f"{len(missing)} nodes are parts of chunks that are not among the nodes, the first is {missing[0]!r}; "
                "fuse right behind parser and embedding model, before levels are left out"
            )
        order = _parents_first(nodes, row_of)
        place = {row: i for i, row in enumerate(order)}
        parents = [place[row_of[parent]] if (parent := _parent_id(nodes[row])) else -1 for row in order]
        shares = [self._shares.get(str(nodes[row].metadata.get(GRANULARITY_KEY)), 0.0) for row in order]
        fused = np.empty_like(vectors)
        fused[order] = fused_with_parents(vectors[order], parents, shares)
        return fused

    def _with_vector(self, node: BaseNode, vector: Any, by_id: Mapping[str, BaseNode]) -> BaseNode:
        added: dict[str, Any] = {FUSION_KEY: self._mark}
        if self.keep_raw:
            added[RAW_KEY] = list(node.embedding or ())
        parent = by_id.get(_parent_id(node) or "")
        if parent is not None and not self._is_stored(parent):
            added |= _embedded_around(parent, node)
        hidden = {name: [*dict.fromkeys([*getattr(node, name), *added])] for name in _EXCLUSIONS}
        return node.model_copy(
            update={
                "embedding": vector.tolist(),
                "metadata": {**node.metadata, **added},
                "relationships": dict(node.relationships),
                **hidden,
            }
        )


def embedded_around(node: BaseNode) -> tuple[str, str]:
    """What stands ahead of and behind the text of a node where the embedding model reads it.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> embedded_around(TextNode(text="三楼", metadata={"file": "a"}))
        ('file: a\\n\\n', '')
    """
    text, shown = node.get_content(MetadataMode.NONE), node.get_content(MetadataMode.EMBED)
    ahead, _, behind = shown.rpartition(text) if text else (shown, "", "")
    return ahead, behind


def _embedded_around(parent: BaseNode, child: BaseNode) -> dict[str, str]:
    """The same of a parent that is not stored, as far as it differs from the child's."""
    pairs = zip(ABOVE_KEYS, embedded_around(parent), embedded_around(child), strict=True)
    return {key: above for key, above, own in pairs if above != own}


def _parent_id(node: BaseNode) -> str | None:
    parent = node.parent_node
    return parent.node_id if parent is not None else None


def _parents_first(nodes: Sequence[BaseNode], row_of: Mapping[str, int]) -> list[int]:
    """The rows, each behind that of its parent."""
    order: dict[int, None] = {}
    for row in range(len(nodes)):
        line = []
        at: int | None = row
        while at is not None and at not in order and at not in line:
            line.append(at)
            parent = _parent_id(nodes[at])
            at = None if parent is None else row_of[parent]
        order.update(dict.fromkeys(reversed(line)))
    return list(order)


def _matrix(nodes: Sequence[BaseNode]) -> Vectors:
    bare = [node.node_id for node in nodes if node.embedding is None]
    if bare:
        raise OptionError(
            f"{len(bare)} of {len(nodes)} nodes have no embedding, the first is {bare[0]!r}; put the embedding model "
            "ahead of ParentVectorFusion in the pipeline"
        )
    lengths = {len(node.embedding or ()) for node in nodes}
    if len(lengths) > 1:
        raise EmbeddingError(
            f"vectors of lengths {sorted(lengths)} cannot be fused; embed all levels with one model, or fuse each "
            "model's levels by themselves"
        )
    vectors = np.asarray([node.embedding for node in nodes], dtype=np.float32)
    wrong = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if wrong.any():
        names = [nodes[row].node_id for row in np.flatnonzero(wrong)[:_SHOWN]]
        raise EmbeddingError(f"{int(wrong.sum())} vectors are zero or not finite, of {names}; embed these nodes again")
    return vectors
