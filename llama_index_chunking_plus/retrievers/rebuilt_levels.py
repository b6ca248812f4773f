"""Chunks of a level that is not stored, made again from the documents, with the vectors that they had."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.hierarchy import COARSE_KEY, DEPTH_KEY, GRANULARITY_KEY
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.core.vectors import Vectors, cosines, unit_rows
from llama_index_chunking_plus.ingestion.parent_vector_fusion import ABOVE_KEYS, FUSION_KEY, embedded_around
from llama_index_chunking_plus.retrievers.levels import LevelHit, LevelStore
from llama_index_chunking_plus.storage.parents import ParentLookup
from llama_index_chunking_plus.storage.similarity import vectors_of

_MOST_PARTS = 1_000  # small chunks inside of the few large ones that a query chooses


def rebuilt(
    level: str,
    below: str,
    vector: Sequence[float],
    stores: tuple[LevelStore, LevelStore],
    coarse_ids: Sequence[str],
    filters: MetadataFilters | None,
    lookup: ParentLookup,
) -> Plan[list[LevelHit]]:
    """The chunks of the second level inside of some of the first, best first: cut out of the documents, embedded again.

    Text, embedded text and, where the vectors of the store were fused, fusion are those of the chunks that were left
    out; so the cosines are the same.

    Args:
        level: which is not stored.
        below: the level under it, which is stored, and whose chunks name their parents.
        vector: of the query.
        stores: of the two levels.
        coarse_ids: the large chunks.
        filters: of the user.
        lookup: finds the text of parents.
    """
    store, parts_store = stores
    parts = yield from parts_store.nearest(
        vector, _MOST_PARTS, filters, equal={GRANULARITY_KEY: below}, one_of=(COARSE_KEY, list(coarse_ids))
    )
    first = {hit.parent_id: hit.node for hit in sorted(parts, key=_start, reverse=True) if hit.parent_id}
    found = yield from lookup.plan(list(first.values()))
    nodes = {name: _dressed(node, first[name], level) for name, node in found.parents.items() if name in first}
    if not nodes:
        return []
    texts = [_embedded_text(node, first[name]) for name, node in nodes.items()]
    model = store.embed_model
    answer = yield Call(partial(model.get_text_embedding_batch, texts), partial(model.aget_text_embedding_batch, texts))
    vectors = yield from _fused(store, level, unit_rows(np.asarray(answer)), [first[name] for name in nodes])
    near = cosines(np.asarray(vector), vectors).tolist()
    hits = [LevelHit(node, cosine) for node, cosine in zip(nodes.values(), near, strict=True)]
    return sorted(hits, key=lambda hit: (-hit.cosine, hit.node.node_id))


def _start(hit: LevelHit) -> int:
    return getattr(hit.node, "start_char_idx", None) or 0


def _dressed(parent: TextNode, child: BaseNode, level: str) -> TextNode:
    """The parent with what the metadata of its level says of place and kin."""
    said = {
        GRANULARITY_KEY: level,
        DEPTH_KEY: max(0, int(child.metadata.get(DEPTH_KEY, 1)) - 1),
        COARSE_KEY: child.metadata.get(COARSE_KEY, parent.node_id),
    }
    hidden = {
        name: [*dict.fromkeys([*getattr(parent, name), *said])]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return parent.model_copy(update={"metadata": {**parent.metadata, **said}, **hidden})


def _embedded_text(parent: TextNode, child: BaseNode) -> str:
    """What the embedding model read of the parent: its text with what stood around it, as its part remembers."""
    own = embedded_around(child)
    ahead, behind = (str(child.metadata.get(key, around)) for key, around in zip(ABOVE_KEYS, own, strict=True))
    text = f"{ahead}{parent.get_content(MetadataMode.NONE)}{behind}"
    return text.strip() if ahead or behind else text  # as LlamaIndex does with metadata, and without


def _fused(store: LevelStore, level: str, vectors: Vectors, children: Sequence[BaseNode]) -> Plan[Vectors]:
    """The vectors moved towards those of the large chunks, where the store's are."""
    shares = [_share(child, level) for child in children]
    if not any(shares):
        return vectors
    coarse = [str(child.metadata.get(COARSE_KEY)) for child in children]
    above: Mapping[str, Vectors] = (yield vectors_of(store.vector_store, coarse)) or {}
    moved = [
        vector + share * unit_rows(above[name][None])[0] if name in above else vector
        for vector, share, name in zip(vectors, shares, coarse, strict=True)
    ]
    return unit_rows(np.stack(moved))


def _share(child: BaseNode, level: str) -> float:
    """How much of its parent's vector the level was given, as the mark of the fusion says."""
    return float(json.loads(child.metadata.get(FUSION_KEY, "{}")).get(level, 0.0))
