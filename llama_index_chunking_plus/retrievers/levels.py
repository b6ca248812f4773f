"""What retrievers over several levels share: nearest rows, scores as cosines, hits that explain themselves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.simple import SimpleVectorStoreData
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQueryResult,
)

from llama_index_chunking_plus.core.granularity import GranularityDecision, in_order
from llama_index_chunking_plus.core.hierarchy import COARSE_KEY, DEPTH_KEY, GRANULARITY_KEY
from llama_index_chunking_plus.core.options import is_filled_text
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.core.vectors import cosines
from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError, OptionError
from llama_index_chunking_plus.ingestion.parent_vector_fusion import FUSION_KEY
from llama_index_chunking_plus.node_parser.options import checked_callback_manager
from llama_index_chunking_plus.storage.filters import all_of
from llama_index_chunking_plus.storage.similarity import Scale, cosine_scale, query_rows, vectors_of
from llama_index_chunking_plus.storage.stores import MAX_ASKED, can_list, pages, restriction_of, rows_by_id

EXPLANATION_KEY = "explanation"

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_DOCUMENT_KEYS = ("document_id", "doc_id", "ref_doc_id")  # what LlamaIndex stores beside the metadata
_UNIT = 1e-3  # how far a length may be from 1
_LOOKED_AT = 50  # rows that are asked which level they are of


@dataclass(frozen=True)
class LevelHit:
    """A row that was found, and how near it is.

    Args:
        node: the row.
        cosine: with the query.
        scores: what spoke for it, by name.
    """

    node: BaseNode
    cosine: float
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def level(self) -> str:
        """The name of its level; "" for a node of another parser."""
        return str(self.node.metadata.get(GRANULARITY_KEY, ""))

    @property
    def parent_id(self) -> str | None:
        """The id of the chunk one level up; None for the largest ones."""
        if self.node.metadata.get(DEPTH_KEY) == 0:
            return None
        parent_id = self.node.metadata.get("parent_id")
        return parent_id if isinstance(parent_id, str) else None

    @property
    def coarse_id(self) -> str:
        """The id of the largest chunk that it is in, or its own."""
        return str(self.node.metadata.get(COARSE_KEY, self.node.node_id))

    def instead_of(self, wanted: str, levels: Sequence[str]) -> list[str]:
        """A note on why a hit is not of the level that was wanted; nothing if it is.

        Args:
            wanted: a level.
            levels: all that there are, coarse to fine.
        """
        if self.level == wanted:
            return []
        if self.level not in levels[levels.index(wanted) :]:
            return [f"this is a {self.level!r} chunk: no {wanted!r} chunk in it was found"]
        if self.node.metadata.get(DEPTH_KEY) == 0:
            return [f"this is a {self.level!r} chunk: its document is too short for {wanted!r} ones"]
        return [f"this is a {self.level!r} chunk: the {wanted!r} one around it is not stored"]

    def scored(self, **scores: float) -> LevelHit:
        """The hit with further scores."""
        return replace(self, scores={**self.scores, **scores})

    def explained(self, score: float, notes: Sequence[str] = ()) -> NodeWithScore:
        """What is returned: a copy of the node whose hidden metadata says level, parents and scores."""
        parents = [*dict.fromkeys(name for name in (self.parent_id, self.coarse_id) if name)]
        explanation = {
            "level": self.level,
            "parents": [name for name in parents if name != self.node.node_id],
            "scores": {name: round(value, 6) for name, value in self.scores.items()},
            **({"notes": list(notes)} if notes else {}),
        }
        hidden = {name: [*dict.fromkeys([*getattr(self.node, name), EXPLANATION_KEY])] for name in _EXCLUSIONS}
        metadata = {**self.node.metadata, EXPLANATION_KEY: explanation}
        copied = self.node.model_copy(
            update={"metadata": metadata, "relationships": dict(self.node.relationships), **hidden}
        )
        return NodeWithScore(node=copied, score=score)


class LevelStore:
    """The vector store, embedding model and docstore of an index, asked by plans.

    Args:
        index: any `VectorStoreIndex`; its docstore has the nodes where its vector store keeps no texts.

    Raises:
        OptionError: it is none.
    """

    def __init__(self, index: VectorStoreIndex) -> None:
        if not isinstance(index, VectorStoreIndex):
            raise OptionError(
                f"index={index!r} is no VectorStoreIndex; pass VectorStoreIndex.from_vector_store(...), say"
            )
        self.vector_store = index.vector_store
        self.embed_model = index._embed_model  # noqa: SLF001  core has no other way to it
        self._index = index
        self._scales: dict[bool, Scale] = {}
        self._has_warned = False

    @property
    def docstore(self) -> BaseDocumentStore | None:
        """Where the nodes are, if the vector store keeps no texts."""
        return None if self.vector_store.stores_text else self._index.docstore

    def embed(self, query: QueryBundle) -> Plan[list[float]]:
        """The vector of the query, its own if it has one.

        Raises:
            EmbeddingError: it is zero or not finite.
        """
        vector = query.embedding
        if vector is None:
            model, texts = self.embed_model, query.embedding_strs
            vector = yield Call(
                partial(model.get_agg_embedding_from_queries, texts),
                partial(model.aget_agg_embedding_from_queries, texts),
            )
        if vector is None or not (np.isfinite(vector).all() and np.any(vector)):
            raise EmbeddingError(
                "the vector of the query is zero or not finite; see what the embedding model makes of this query, or "
                "pass QueryBundle(query, embedding=...)"
            )
        return list(vector)

    def nearest(
        self,
        vector: Sequence[float],
        top_k: int,
        filters: MetadataFilters | None,
        *,
        equal: Mapping[str, str | int | float] | None = None,
        one_of: tuple[str, Sequence[str]] | None = None,
    ) -> Plan[list[LevelHit]]:
        """The nearest rows that pass all filters, best first, with their cosines; see `query_rows`."""
        if top_k < 1:
            return []
        found: VectorStoreQueryResult = yield query_rows(
            self.vector_store, vector, top_k, filters, equal=equal, one_of=one_of
        )
        ids = list(found.ids or [])
        if not ids:
            return []
        near = yield from self._as_cosines(vector, ids, list(found.similarities or []))
        nodes = {node.node_id: node for node in found.nodes or ()} or (yield from self.rows(ids))
        self._compare_marks(nodes.values())
        hits = [LevelHit(nodes[key], near[key]) for key in ids if key in nodes and key in near]
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.node.node_id))

    def levels(self, vector: Sequence[float]) -> Plan[tuple[str, ...] | None]:
        """The names of the levels that the store has rows of, coarse to fine as far as rows tell; None: it has no rows.

        One question for each level, and two more; of a store that is not in the table of `storage.stores`, whose
        filters are not known, only the nearest rows are asked.
        """
        found = yield from self.nearest(vector, _LOOKED_AT, None)
        if not found:
            return None
        depths: dict[str, int] = {}
        while fresh := {hit.level: hit for hit in found if hit.level and hit.level not in depths}:
            depths.update({level: int(hit.node.metadata.get(DEPTH_KEY, 0)) for level, hit in fresh.items()})
            if can_list(self.vector_store):
                found = yield from self.nearest(vector, _LOOKED_AT, _of_other_levels([*depths]))
        return in_order(sorted(depths, key=depths.__getitem__))

    def known(self, vector: Sequence[float], row_ids: Sequence[str]) -> Plan[dict[str, LevelHit]]:
        """The rows with these ids and their cosines, by id, as far as the store has both."""
        rows = yield from self.rows(row_ids)
        near = yield from self.cosines(vector, [*rows])
        return {key: LevelHit(row, near[key]) for key, row in rows.items() if key in near}

    def rows(self, row_ids: Sequence[str]) -> Plan[dict[str, BaseNode]]:
        """The rows with these ids, as far as there are any."""
        wanted = list(dict.fromkeys(row_ids))
        if not self.vector_store.stores_text:
            nodes: Sequence[BaseNode] = yield Call(partial(self._index.docstore.get_nodes, wanted, raise_error=False))
            return {node.node_id: node for node in nodes}
        found: dict[str, BaseNode] = {}
        for page in pages(wanted, MAX_ASKED):
            nodes = yield rows_by_id(self.vector_store, page)
            found.update({node.node_id: node for node in nodes})
        return found

    def cosines(self, vector: Sequence[float], row_ids: Sequence[str]) -> Plan[dict[str, float]]:
        """The cosines of the query with these rows, from their vectors, as far as the store has them."""
        found = (yield vectors_of(self.vector_store, row_ids)) if row_ids else {}
        if not found:
            return {}
        similar = cosines(np.asarray(vector), np.stack(list(found.values())))
        return dict(zip(found, similar.tolist(), strict=True))

    def _as_cosines(self, vector: Sequence[float], ids: Sequence[str], scores: list[float]) -> Plan[dict[str, float]]:
        """The store's scores as cosines; where they cannot be, the cosines of its vectors."""
        is_unit = abs(math.sqrt(math.fsum(x * x for x in vector)) - 1) < _UNIT
        scale = self._scales.get(is_unit) or (
            yield Call(partial(cosine_scale, self.vector_store, unit_vectors=is_unit))
        )
        if scale is not None:
            self._scales[is_unit] = scale
            return {key: float(np.clip(scale(score), -1, 1)) for key, score in zip(ids, scores, strict=True)}
        near: dict[str, float] = yield from self.cosines(vector, ids)
        if near:
            return near
        warn(
            f"What the scores of {type(self.vector_store).__name__} mean is not known, and it does not tell its "
            "vectors; its scores are taken as cosines."
        )
        return dict(zip(ids, scores, strict=True))

    def _compare_marks(self, nodes: Iterable[BaseNode]) -> None:
        """Warn, once, of vectors that cannot be compared: fused with those of their parents, and not or otherwise."""
        marks = {str(node.metadata.get(FUSION_KEY, "none")) for node in nodes}
        if len(marks) > 1 and not self._has_warned:
            self._has_warned = True
            warn(
                f"Vectors of the store were fused in several ways ({', '.join(sorted(marks))}), so their scores "
                "do not compare. Ingest all documents with the same ParentVectorFusion, or all without."
            )


def warn(message: str) -> None:
    """One warning of a documented fallback."""
    warnings.warn(message, ChunkingPlusWarning, stacklevel=3)


def chosen(decision: GranularityDecision) -> str:
    """A note on the level that a router chose."""
    return f"{decision.level!r} was chosen: {decision.reason}"


def misfit(asked: Sequence[str], stored: Sequence[str] | None, options: str) -> str:
    """How the names of levels must change, in a sentence, if the store has no rows of the last one; else "".

    Args:
        asked: names of levels, coarse to fine.
        stored: those of the store; None: it has no rows at all, and there is nothing to say.
        options: what names levels.

    Example:
        >>> misfit(["medium", "fine"], ["section", "line"], "level=...")
        "The store has the levels ['section', 'line'], and none of ['medium', 'fine']; name its levels by level=..."
    """
    if stored is None or asked[-1] in stored:
        return ""
    if not stored:
        return "The nodes of the store name no levels; make them with MultiGranularityNodeParser."
    missing = [name for name in asked if name not in stored]
    return f"The store has the levels {[*stored]}, and none of {missing}; name its levels by {options}"


def checked_query(query: QueryBundle) -> None:
    """Refuse a blank query, the same in all retrievers of this package.

    A query that brings its own vector, texts to embed or an image need have no words.

    Raises:
        OptionError: it is blank.
    """
    said = (query.query_str, *(query.custom_embedding_strs or ()))
    if query.embedding is None and query.image_path is None and not any(is_filled_text(text) for text in said):
        raise OptionError(
            f"query={query.query_str!r} is blank; ask for something, or pass QueryBundle('', embedding=[...])"
        )


def checked_base(callback_manager: CallbackManager | None, verbose: bool) -> dict[str, Any]:
    """The options of LlamaIndex's ``BaseRetriever``, which takes any value for them.

    Raises:
        OptionError: one is of another kind.
    """
    if not isinstance(verbose, bool):
        raise OptionError(f"verbose={verbose!r} is neither True nor False; pass one of them")
    return {"callback_manager": checked_callback_manager(callback_manager), "verbose": verbose}


def checked_top_k(**options: int) -> None:
    """Refuse numbers of hits that are no whole numbers from 1.

    Raises:
        OptionError: one is not.
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{name}={value!r} is no whole number from 1")


def checked_filters(filters: MetadataFilters | None, levels_by: str) -> MetadataFilters | None:
    """The filters, if they are some that hold for all levels.

    Args:
        filters: of the user.
        levels_by: the options that choose levels, as the message names them.

    Raises:
        OptionError: they are of another kind, or choose levels.
    """
    if filters is None:
        return None
    if not isinstance(filters, MetadataFilters):
        raise OptionError(f"filters={filters!r} are no MetadataFilters; pass MetadataFilters(filters=[...])")
    of_levels = {*_keys_of(filters)} & {GRANULARITY_KEY, DEPTH_KEY}
    if of_levels:
        raise OptionError(
            f"filters on {sorted(of_levels)} would hide levels that this retriever has to see, as filters hold for all "
            f"of them; leave that out, and choose levels by {levels_by}"
        )
    return filters


def _of_other_levels(seen: Sequence[str]) -> MetadataFilters:
    return MetadataFilters(
        filters=[
            MetadataFilter(key=DEPTH_KEY, value=0, operator=FilterOperator.GTE),  # rows without levels do not pass
            MetadataFilter(key=GRANULARITY_KEY, value=[*seen], operator=FilterOperator.NIN),
        ]
    )


def _keys_of(filters: MetadataFilters) -> Iterator[str]:
    for each in filters.filters:
        if isinstance(each, MetadataFilters):
            yield from _keys_of(each)
        else:
            yield each.key


def passing(nodes: Iterable[BaseNode], filters: MetadataFilters | None) -> set[str]:
    """The ids of the nodes that pass the filters, as `query_rows` has them of a store.

    Raises:
        OptionError: LlamaIndex does not know an operator in memory.
    """
    told = {node.node_id: {**node.metadata, **dict.fromkeys(_DOCUMENT_KEYS, node.ref_doc_id)} for node in nodes}
    wanted = all_of(filters)
    if wanted is None or not told:
        return {*told}
    store = SimpleVectorStore(data=SimpleVectorStoreData(metadata_dict=told))
    return {*restriction_of(store, wanted).fields["node_ids"]}
