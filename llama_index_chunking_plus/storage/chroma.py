"""Chroma: its client knows the batch limit (the adapter's is larger); an empty collection keeps its dimension."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery

from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.storage.facts import (
    DEFAULT_BATCH_SIZE,
    PAGE,
    WAITS_SECONDS,
    Metric,
    Restriction,
    StoreFacts,
    pages,
)
from llama_index_chunking_plus.storage.filters import fold

_EVERY_ROW = 2**31 - 1
_IS_BEING_WRITTEN = ("Nothing found on disk", "Error finding id")  # what a Chroma server says then
_NO_ROW = "chunking-plus/no-such-row"


def _max_batch_size(store: Any) -> int:
    client = getattr(store.client, "_client", None)
    limit = getattr(client, "get_max_batch_size", None)
    return int(limit()) if limit else DEFAULT_BATCH_SIZE


def _ids(store: Any, where: dict[str, str] | None) -> list[str]:
    ids: list[str] = []
    while True:
        page = store.client.get(where=where, include=[], limit=PAGE, offset=len(ids))["ids"]
        ids.extend(page)
        if len(page) < PAGE:
            return ids


def _owners(store: Any, row_ids: Sequence[str]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for page in pages(row_ids, PAGE):
        found = store.client.get(ids=list(page), include=["metadatas"])
        for row_id, metadata in zip(found["ids"], found["metadatas"], strict=True):
            owners[row_id] = str((metadata or {}).get("document_id", ""))
    return owners


def _rows_where(store: Any, filters: MetadataFilters) -> Sequence[BaseNode]:
    """Without a vector its `query` is a plain get; `get_nodes` with a filter and no ids fails in old adapters."""
    where = _restrict(store, filters).arguments
    return store.query(VectorStoreQuery(similarity_top_k=_EVERY_ROW), **where).nodes or []


class _InPlace:
    """A Chroma collection whose `add` replaces: the adapter only knows `add`, which keeps the old row of an id."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def add(self, **rows: Any) -> None:
        """Put these rows in the place of those with their ids, and send no vector again that did not change.

        Chroma links a point anew when its vector is sent. Where many rows have the same vector, that cuts its graph
        into pieces, and queries miss rows, or find none, for good.
        """
        olds, columns = self._olds(rows["ids"]), list(rows)
        kept: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        fresh: list[dict[str, Any]] = []
        for values in zip(*rows.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            old = olds.get(row["ids"])
            if old is None:
                fresh.append(row)
                continue
            row["metadatas"] = {**dict.fromkeys(old["metadatas"] or {}), **row["metadatas"]}  # else old keys would stay
            (kept if _same_vector_and_text(row, old) else moved).append(row)
        _send(self._collection.update, kept, ["ids", "metadatas"])
        _send(self._collection.update, moved, columns)
        _send(self._collection.add, fresh, columns)

    def _olds(self, row_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        columns = ["embeddings", "documents", "metadatas"]
        found = _with_vectors(self._collection, columns, ids=list(row_ids))
        return {
            row_id: {column: found[column][position] for column in columns}
            for position, row_id in enumerate(found["ids"])
        }


def _with_vectors(collection: Any, columns: Sequence[str], **which: Any) -> Mapping[str, Any]:
    """Rows with their vectors; asked again where a server is just writing for someone else, see `_passes`."""
    for wait_seconds in WAITS_SECONDS:
        try:
            return dict(collection.get(include=list(columns), **which))
        except Exception as error:
            if not _passes(error):
                raise
        time.sleep(wait_seconds)
    return dict(collection.get(include=list(columns), **which))


def _passes(error: Exception) -> bool:
    """Whether a server failed only because it was being written to (chromadb 1.5.9).

    "Nothing found on disk": the first file of its index is not there yet. "Error finding id": a filter let a row pass
    whose vector was gone from the index a moment later.
    """
    return any(message in str(error) for message in _IS_BEING_WRITTEN)


def _same_vector_and_text(row: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return row["documents"] == old["documents"] and np.allclose(row["embeddings"], old["embeddings"], atol=1e-7)


def _send(call: Callable[..., Any], rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if rows:
        call(**{column: [row[column] for row in rows] for column in columns})


def _replace_rows(store: Any, nodes: Sequence[BaseNode]) -> None:
    type(store)(chroma_collection=_InPlace(store.client)).add(list(nodes))


def _settle(store: Any) -> None:
    """A write, of nothing: a server that noted a dead client's write acts on it no earlier than at the next one."""
    store.client.delete(ids=[_NO_ROW])


def _dimension(store: Any) -> int | None:
    embeddings = _with_vectors(store.client, ["embeddings"], limit=1)["embeddings"]
    return len(embeddings[0]) if len(embeddings) else None


def _vectors(store: Any, row_ids: Sequence[str]) -> dict[str, Any]:
    found = _with_vectors(store.client, ["embeddings"], ids=list(row_ids))
    return dict(zip(found["ids"], found["embeddings"], strict=True))


# --- scores: the adapter's is exp(-distance); the distance is 1 - cosine, 1 - product, or the *squared* length ---

_METRICS = {
    "cosine": Metric(lambda score: 1 - _distance(score), is_cosine=True),
    "ip": Metric(lambda score: 1 - _distance(score)),
    "l2": Metric(lambda score: 1 - _distance(score) / 2),
}


def _distance(score: float) -> float:
    return -math.log(score) if score > 0 else math.inf  # exp of a long distance is 0


def _metric(store: Any) -> Metric | None:
    """The space stands in the collection's configuration; before Chroma 1.0 only in its metadata, l2 if nowhere."""
    configuration = getattr(store.client, "configuration_json", None) or {}
    index = configuration.get("hnsw") or configuration.get("spann") or {}
    space = index.get("space") or (store.client.metadata or {}).get("hnsw:space", "l2")
    return _METRICS.get(space)


# --- filters: the adapter takes Chroma's own; its translation knows no "not", and once knew no groups in groups ---

_OPERATORS = {
    (FilterOperator.EQ, False): "$eq",
    (FilterOperator.EQ, True): "$ne",
    (FilterOperator.IN, False): "$in",
    (FilterOperator.IN, True): "$nin",
    (FilterOperator.GT, False): "$gt",
    (FilterOperator.GTE, False): "$gte",
    (FilterOperator.LT, False): "$lt",
    (FilterOperator.LTE, False): "$lte",
}


def _restrict(_: Any, filters: MetadataFilters) -> Restriction:
    return Restriction({}, {"where": fold(filters, _comparison, _group)})


def _group(is_any: bool, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"$or" if is_any else "$and": list(parts)}


def _comparison(one: MetadataFilter, negated: bool) -> dict[str, Any]:
    operator = _OPERATORS.get((one.operator, negated))
    if operator is None:
        raise OptionError(
            f"filter on {one.key!r}: Chroma cannot ask for {'not ' * negated}{one.operator.value!r}; "
            "it knows ==, !=, in, nin, >, >=, <, <=, and 'not' of ==, !=, in and nin"
        )
    return {one.key: {operator: one.value}}


FACTS = StoreFacts(
    max_batch_size=_max_batch_size,
    row_ids=lambda store: _ids(store, None),
    owners=_owners,
    document_row_ids=lambda store, document_id: _ids(store, {"document_id": document_id}),
    dimension=_dimension,
    vectors=_vectors,
    metric=_metric,
    restrict=_restrict,
    rows_where=_rows_where,
    replace_rows=_replace_rows,
    settle=_settle,
    passes=_passes,
)
