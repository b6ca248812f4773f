"""Qdrant, a server or its local mode: row ids must be UUIDs; the collection is made with the first row.

It keeps unit vectors where it measures the cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from llama_index_chunking_plus.storage.facts import (
    DEFAULT_BATCH_SIZE,
    MAX_ASKED,
    PAGE,
    Metric,
    Restriction,
    StoreFacts,
    pages,
)
from llama_index_chunking_plus.storage.filters import fold

_DOCUMENT_ID = "doc_id"  # where the adapter keeps it


def _exists(store: Any) -> bool:
    return bool(store.client.collection_exists(store.collection_name))


def _points(store: Any, filters: MetadataFilters | None, **columns: Any) -> Iterator[Any]:
    """All points that pass the filters."""
    offset, query_filter = None, filters and store._build_query_filter(VectorStoreQuery(filters=filters))  # noqa: SLF001
    while _exists(store):
        page, offset = store.client.scroll(
            store.collection_name, scroll_filter=query_filter, limit=PAGE, offset=offset, **columns
        )
        yield from page
        if offset is None:
            return


def _points_by_id(store: Any, row_ids: Sequence[str], **columns: Any) -> Iterator[Any]:
    if _exists(store):
        for page in pages(row_ids, MAX_ASKED):
            yield from store.client.retrieve(store.collection_name, ids=list(page), **columns)


def _row_ids(store: Any, filters: MetadataFilters | None = None) -> list[str]:
    return [str(point.id) for point in _points(store, filters, with_payload=False)]


def _document_row_ids(store: Any, document_id: str) -> list[str]:
    return _row_ids(store, MetadataFilters(filters=[MetadataFilter(key=_DOCUMENT_ID, value=document_id)]))


def _owners(store: Any, row_ids: Sequence[str]) -> dict[str, str]:
    points = _points_by_id(store, row_ids, with_payload=[_DOCUMENT_ID])
    return {str(point.id): str((point.payload or {}).get(_DOCUMENT_ID, "")) for point in points}


def _vectors(store: Any, row_ids: Sequence[str]) -> dict[str, Any]:
    points = _points_by_id(store, row_ids, with_payload=False, with_vectors=True)
    named = {str(point.id): point.vector for point in points}
    return {
        row_id: vector[store.dense_vector_name] if isinstance(vector, dict) else vector
        for row_id, vector in named.items()
    }


def _rows_where(store: Any, filters: MetadataFilters) -> Sequence[BaseNode]:
    """The adapter's `get_nodes` returns no more than 9,999 rows."""
    points = _points(store, _restrict(store, filters).fields["filters"], with_payload=True, with_vectors=True)
    return store.parse_to_query_result(list(points)).nodes or []


def _config(store: Any) -> Any:
    """How the collection keeps its dense vectors; None if there is none yet."""
    if not _exists(store):
        return None
    vectors = store.client.get_collection(store.collection_name).config.params.vectors
    return vectors.get(store.dense_vector_name) if isinstance(vectors, dict) else vectors


def _dimension(store: Any) -> int | None:
    config = _config(store)
    return None if config is None else int(config.size)


# --- scores: as Qdrant gives them ---

_METRICS = {
    "Cosine": Metric(float, is_cosine=True),
    "Dot": Metric(float),
    "Euclid": Metric(lambda score: 1 - score * score / 2, is_distance=True),
    "Manhattan": Metric(None, is_distance=True),
}


def _metric(store: Any) -> Metric | None:
    config = _config(store)
    return None if config is None else _METRICS.get(config.distance.value)


# --- filters: the adapter knows groups; its "!=" and "nin" do not pass rows without the key, its "in" no fractions ---


def _restrict(_: Any, filters: MetadataFilters) -> Restriction:
    made = fold(filters, _comparison, _group)
    return Restriction({"filters": made if isinstance(made, MetadataFilters) else MetadataFilters(filters=[made])}, {})


def _group(is_any: bool, parts: Sequence[MetadataFilter | MetadataFilters]) -> MetadataFilters:
    return MetadataFilters(filters=list(parts), condition=FilterCondition.OR if is_any else FilterCondition.AND)


def _comparison(one: MetadataFilter, negated: bool) -> MetadataFilter | MetadataFilters:
    parts: list[MetadataFilter | MetadataFilters] = [one]
    if one.operator == FilterOperator.IN and isinstance(one.value, list) and _has_fraction(one.value):
        parts = [MetadataFilter(key=one.key, value=float(value)) for value in one.value]
    if negated:
        return MetadataFilters(filters=parts, condition=FilterCondition.NOT)
    return parts[0] if len(parts) == 1 else _group(True, parts)


def _has_fraction(values: Sequence[object]) -> bool:
    return any(isinstance(value, float) for value in values)


FACTS = StoreFacts(
    max_batch_size=lambda _: DEFAULT_BATCH_SIZE,
    row_ids=_row_ids,
    owners=_owners,
    document_row_ids=_document_row_ids,
    dimension=_dimension,
    vectors=_vectors,
    metric=_metric,
    restrict=_restrict,
    rows_where=_rows_where,
    replace_rows=lambda store, nodes: store.add(list(nodes)),  # its own "upsert"
    exists=_exists,
    has_async=False,  # its async client is often not there, and a local one has rows of its own
)
