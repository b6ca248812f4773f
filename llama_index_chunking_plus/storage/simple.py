"""LlamaIndex's own store in memory: it keeps vectors and metadata, no texts, and measures the cosine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.vector_stores import simple
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from llama_index_chunking_plus.storage.facts import Metric, Restriction, StoreFacts
from llama_index_chunking_plus.storage.filters import fold

_Passes = Callable[[str], bool]


def _owners(store: Any, row_ids: Sequence[str]) -> dict[str, str]:
    owners = store.data.text_id_to_ref_doc_id
    return {row_id: owners[row_id] for row_id in row_ids}


def _document_row_ids(store: Any, document_id: str) -> list[str]:
    return [row_id for row_id, owner in store.data.text_id_to_ref_doc_id.items() if owner == document_id]


def _ids_with(store: Any, key: str, values: Sequence[str]) -> list[str]:
    wanted = set(values)
    return [row_id for row_id, metadata in list(store.data.metadata_dict.items()) if metadata.get(key) in wanted]


def _vectors(store: Any, row_ids: Sequence[str]) -> dict[str, list[float]]:
    vectors = store.data.embedding_dict
    return {row_id: vectors[row_id] for row_id in row_ids if row_id in vectors}


def _restrict(store: Any, filters: MetadataFilters) -> Restriction:
    """The ids of the rows that pass: its own filters know no groups in groups."""
    metadata = store.data.metadata_dict
    if store.data.embedding_dict and not metadata:  # it was saved without, and refuses filters
        return Restriction({"filters": filters}, {})
    passes = fold(filters, lambda one, negated: _comparison(metadata, one, negated), _group)
    return Restriction({"node_ids": [row_id for row_id in list(metadata) if passes(row_id)]}, {})


def _group(is_any: bool, parts: Sequence[_Passes]) -> _Passes:
    of_all = any if is_any else all
    return lambda row_id: of_all(passes(row_id) for passes in parts)


def _comparison(metadata: Mapping[str, Any], one: MetadataFilter, negated: bool) -> _Passes:
    passes: _Passes = _FILTER_FUNCTION(lambda row_id: metadata[row_id], MetadataFilters(filters=[one]))
    return (lambda row_id: not passes(row_id)) if negated else passes


_FILTER_FUNCTION: Any = getattr(simple, "build_metadata_filter_fn", None) or simple._build_metadata_filter_fn  # type: ignore[attr-defined]  # noqa: SLF001  its name up to core 0.13


FACTS = StoreFacts(
    max_batch_size=lambda _: 10_000,
    row_ids=lambda store: list(store.data.text_id_to_ref_doc_id),
    owners=_owners,
    document_row_ids=_document_row_ids,
    dimension=lambda _: None,
    vectors=_vectors,
    metric=lambda _: Metric(float, is_cosine=True),
    restrict=_restrict,
    ids_with=_ids_with,
    replace_rows=lambda store, nodes: store.add(list(nodes)),
    needs_client=False,
)
