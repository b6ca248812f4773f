"""Vectors of small chunks that know what they are a part of."""

from __future__ import annotations

import base64
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, StrictFloat, StrictStr, model_validator
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
from typing_extensions import Self

from llama_index_chunking_plus.core.granularity import KNOWN_LEVELS
from llama_index_chunking_plus.core.hierarchy import DEPTH_KEY, GRANULARITY_KEY
from llama_index_chunking_plus.core.options import is_filled_text
from llama_index_chunking_plus.core.vectors import Vectors, fused_with_parents
from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError, OptionError
from llama_index_chunking_plus.node_parser.options import CheckedOptions

FUSION_KEY = "vector_fusion"  # what a node's vector was fused with
RAW_KEY = "raw_embedding"  # the vector before that, where it is kept
ABOVE_KEYS = ("parent_embed_prefix", "parent_embed_suffix")  # what was embedded of a parent around its text

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_SHOWN = 3
_PLACE = "\ufffc"  # stands for a text in what is shown of it


class ParentVectorFusion(CheckedOptions, TransformComponent):
    """Behind the embedding model: each vector moved towards that of the chunk it is a part of, from coarse to fine.

    ``vector = unit(own + weight * parent's)``: a fine chunk then also says what its section is about, at no cost at
    query time. Own and parent's vectors count at length 1, the parent's as it was fused itself; all vectors come out
    with length 1. Each node says in its hidden metadata ``vector_fusion`` how it was fused, so a store remembers, and
    a second pass changes nothing. The nodes are new ones.

    Args:
        medium, fine: how much of the parent's vector is added on these levels, 0 or above; 0.1 to 0.5 are usual, and
            above 1 the parent counts for more than the chunk itself.
        weights: the same for levels of other names; those named nowhere keep their vectors, at length 1.
        store_levels: the levels whose nodes come out, such as ("coarse", "fine"); the others have then served their
            purpose, and `CoarseToFineRetriever` makes them again from the documents. The largest chunks of a document
            always come out, whatever their level: a short document is found by them. None: all.
        keep_raw: whether nodes keep their own vector in their hidden metadata ``raw_embedding``, as a string, which
            every store takes, of 16 characters for 3 numbers; `raw_embedding` reads it.

    Raises:
        ValueError: a weight is below 0 or no number, a level is blank, or ``store_levels`` is empty.
        OptionError: at a call: nodes without an embedding, or without the chunks that they are parts of; vectors that
            were fused otherwise before.
        EmbeddingError: at a call: vectors of different lengths, or one that is zero or not finite.

    Warns:
        ChunkingPlusWarning: at a call, once: ``weights`` or ``store_levels`` name levels that no node is of. Of coarse,
            medium, fine and sentence none need be there while all nodes are of these: documents can be too short.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index_chunking_plus.core.hierarchy import Granularity
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> parser = MultiGranularityNodeParser(levels=(Granularity("medium", 8, 24), Granularity("fine", 4, 8)))
        >>> steps = [parser, MockEmbedding(embed_dim=2), ParentVectorFusion()]
        >>> nodes = IngestionPipeline(transformations=steps).run(documents=[Document(text="一楼是大厅。二楼是展厅。")])
        >>> [node.metadata["granularity"] for node in nodes], nodes[0].metadata["vector_fusion"]
        (['medium', 'fine', 'fine'], '{"fine": 0.3, "medium": 0.2}')

        Only two of three levels are stored; the medium chunks are made again for each question, from the documents:

        >>> from llama_index.core import VectorStoreIndex
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index_chunking_plus.retrievers import CoarseToFineRetriever
        >>> from llama_index_chunking_plus.storage import SourceSliceLookup
        >>> levels = (Granularity("coarse", 20, 48), Granularity("medium", 8, 24), Granularity("fine", 4, 8))
        >>> model, docstore = MockEmbedding(embed_dim=2), SimpleDocumentStore()
        >>> docstore.add_documents([Document(id_="a", text="一楼是大厅。二楼是展厅。三楼是餐厅。四楼是办公室。")])
        >>> fusion = ParentVectorFusion(store_levels=["coarse", "fine"])
        >>> steps = [MultiGranularityNodeParser(levels=levels), model, fusion]
        >>> nodes = IngestionPipeline(transformations=steps).run(documents=[*docstore.docs.values()])
        >>> sorted({node.metadata["granularity"] for node in nodes})
        ['coarse', 'fine']
        >>> index = VectorStoreIndex(nodes, embed_model=model)
        >>> retriever = CoarseToFineRetriever(index, return_level="medium", lookup=SourceSliceLookup(docstore))
        >>> sorted(hit.text for hit in retriever.retrieve("展厅在几楼？"))
        ['一楼是大厅。二楼是展厅。', '三楼是餐厅。四楼是办公室。']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    medium: float = Field(default=0.2, frozen=True, description="How much of the parent's vector medium chunks get.")
    fine: float = Field(default=0.3, frozen=True, description="How much of the parent's vector fine chunks get.")
    weights: dict[StrictStr, StrictFloat] = Field(
        default_factory=dict, frozen=True, description="The same for other levels."
    )
    store_levels: tuple[StrictStr, ...] | None = Field(
        default=None, frozen=True, description="The levels that come out."
    )
    keep_raw: bool = Field(default=False, frozen=True, description="Whether nodes keep their own vector in metadata.")

    _has_warned: bool = PrivateAttr(default=False)

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
        for option, names in (("weights", self.weights), ("store_levels", self.store_levels or ())):
            if not all(is_filled_text(name) for name in names):
                raise ValueError(f"{option}={getattr(self, option)!r} has a blank level; name it")
        return self

    @property
    def _shares(self) -> dict[str, float]:
        return {"medium": self.medium, "fine": self.fine, **self.weights}

    @property
    def _mark(self) -> str:
        return json.dumps(self._shares, ensure_ascii=False, sort_keys=True)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """The nodes with fused vectors, in order, those of levels that are not stored left out."""
        self._check_marks(nodes)
        if all(_is_fused(node) for node in nodes):
            return [node for node in nodes if self._is_stored(node)]
        self._check_names(nodes)
        by_id = {node.node_id: node for node in nodes}
        return [
            node if _is_fused(node) else self._with_vector(node, vector.tolist(), by_id)
            for node, vector in zip(nodes, self._fused(nodes), strict=True)
            if self._is_stored(node)
        ]

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """The same, for pipelines that await."""
        return self(nodes, **kwargs)

    def _is_stored(self, node: BaseNode) -> bool:
        level = node.metadata.get(GRANULARITY_KEY)
        is_largest = node.metadata.get(DEPTH_KEY, 0) == 0
        return self.store_levels is None or is_largest or level in self.store_levels

    def _check_marks(self, nodes: Sequence[BaseNode]) -> None:
        others = {node.metadata[FUSION_KEY] for node in nodes if _is_fused(node)} - {self._mark}
        if others:
            raise OptionError(
                f"these vectors were fused with {min(others)!r} before, not with {self._mark!r}; parse and embed "
                "the documents again"
            )

    def _check_names(self, nodes: Sequence[BaseNode]) -> None:
        """Warn, once, of levels that were named and are not among the nodes; documents are too short for usual ones."""
        seen = {str(node.metadata[GRANULARITY_KEY]) for node in nodes if GRANULARITY_KEY in node.metadata}
        usual = set(KNOWN_LEVELS) if seen <= set(KNOWN_LEVELS) else set()
        strange = [name for name in (*self.weights, *(self.store_levels or ())) if name not in seen | usual]
        if not seen or not strange or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"weights or store_levels name {list(dict.fromkeys(strange))}, and the nodes are of the levels "
            f"{sorted(seen)}. Use the names of the parser's levels; if all documents of this call are too short for a "
            "level, that is all right.",
            ChunkingPlusWarning,
            stacklevel=3,
        )

    def _fused(self, nodes: Sequence[BaseNode]) -> Vectors:
        """The vectors, shape ``(n_nodes, dim)``; those that are fused already stay."""
        vectors = _matrix(nodes)
        row_of: dict[str | None, int] = {node.node_id: row for row, node in enumerate(nodes)}
        above = [None if _is_fused(node) else _parent_id(node) for node in nodes]
        missing = [node.node_id for node, parent in zip(nodes, above, strict=True) if parent not in {None, *row_of}]
        if missing:
            raise OptionError(
                f"{len(missing)} nodes are parts of chunks that are not among the nodes, the first is {missing[0]!r}; "
                "fuse right behind parser and embedding model, before levels are left out"
            )
        shares = [self._shares.get(str(node.metadata.get(GRANULARITY_KEY)), 0.0) for node in nodes]
        return fused_with_parents(vectors, [row_of.get(parent, -1) for parent in above], shares)

    def _with_vector(self, node: BaseNode, vector: list[float], by_id: Mapping[str, BaseNode]) -> BaseNode:
        added: dict[str, Any] = {FUSION_KEY: self._mark}
        if self.keep_raw:
            added[RAW_KEY] = base64.b64encode(np.asarray(node.embedding, dtype="<f4").tobytes()).decode()
        parent = by_id.get(_parent_id(node) or "")
        if parent is not None and not self._is_stored(parent):
            added |= _embedded_around(parent, node)
        hidden = {name: [*dict.fromkeys([*getattr(node, name), *added])] for name in _EXCLUSIONS}
        metadata, relationships = {**node.metadata, **added}, dict(node.relationships)
        return node.model_copy(
            update={"embedding": vector, "metadata": metadata, "relationships": relationships, **hidden}
        )


def raw_embedding(node: BaseNode) -> list[float] | None:
    """The vector that a node had before `ParentVectorFusion`, in single precision; None if it was not kept.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> fused = ParentVectorFusion(keep_raw=True)([TextNode(text="三楼", embedding=[0.0, 2.0])])
        >>> fused[0].embedding, raw_embedding(fused[0])
        ([0.0, 1.0], [0.0, 2.0])
    """
    kept = node.metadata.get(RAW_KEY)
    return None if kept is None else np.frombuffer(base64.b64decode(kept), dtype="<f4").tolist()


def embedded_around(node: BaseNode) -> tuple[str, str]:
    """What stands ahead of and behind the text of a node where the embedding model reads it.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> embedded_around(TextNode(text="三楼", metadata={"file": "a"}))
        ('file: a\\n\\n', '')
    """
    placed = node.model_copy(update={"text": _PLACE})
    ahead, _, behind = placed.get_content(MetadataMode.EMBED).rpartition(_PLACE)
    return ahead, behind


def _embedded_around(parent: BaseNode, child: BaseNode) -> dict[str, str]:
    """The same of a parent that is not stored, as far as it differs from the child's."""
    pairs = zip(ABOVE_KEYS, embedded_around(parent), embedded_around(child), strict=True)
    return {key: above for key, above, own in pairs if above != own}


def _parent_id(node: BaseNode) -> str | None:
    parent = node.parent_node
    return parent.node_id if parent is not None else None


def _is_fused(node: BaseNode) -> bool:
    return FUSION_KEY in node.metadata


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
    with np.errstate(over="ignore"):  # what is too large for single precision is refused below
        vectors = np.asarray([node.embedding for node in nodes], dtype=np.float32)
    wrong = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if wrong.any():
        names = [nodes[row].node_id for row in np.flatnonzero(wrong)[:_SHOWN]]
        raise EmbeddingError(f"{int(wrong.sum())} vectors are zero or not finite, of {names}; embed these nodes again")
    return vectors
