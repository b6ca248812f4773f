"""Milvus, and Milvus Lite in a file: the adapter cuts batches itself, and keeps metadata in a dynamic field.

No row takes the place of another one: a server keeps both if a row is inserted under an id that is taken, and Milvus
Lite's "upsert" keeps the old metadata beside the new. A row takes up to 65,535 bytes of text and as many of metadata.

After a restart Milvus Lite answers nothing from a collection until it is loaded, which its adapter does not do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

from llama_index_chunking_plus.errors import OptionError
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

_ID = "id"  # the adapter's primary key
_MAX_RETURNED = 16_384  # rows that one query returns
_ABSENT, _LOADED = "NotExist", "Loaded"  # states of a collection


def _exists(store: Any) -> bool:
    """Whether there is a collection; if so, it is ready to be asked."""
    state = store.client.get_load_state(store.collection_name)["state"].name
    if state not in {_ABSENT, _LOADED}:
        store.client.load_collection(store.collection_name)
    return bool(state != _ABSENT)


def _ready(store: Any) -> Any:
    """The client, once its collection is ready to be asked."""
    _exists(store)
    return store.client


def _rows(store: Any, expression: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All rows that pass: by one query if they fit into it, which Milvus Lite likes better than its iterator."""
    asked = {"filter": expression, "output_fields": list(fields)}
    client = _ready(store)
    first = client.query(store.collection_name, limit=_MAX_RETURNED, **asked)
    if len(first) < _MAX_RETURNED:
        yield from first
        return
    iterator = client.query_iterator(store.collection_name, batch_size=PAGE, **asked)
    try:
        while page := iterator.next():
            yield from page
    finally:
        iterator.close()


def _fields_of(store: Any, row_ids: Sequence[str], field: str) -> dict[str, Any]:
    """One field of each of these rows, by row id."""
    return {
        row[_ID]: row[field]
        for page in pages(row_ids, MAX_ASKED)
        for row in _ready(store).query(store.collection_name, ids=list(page), output_fields=[_ID, field])
    }


def _document_row_ids(store: Any, document_id: str) -> list[str]:
    return [row[_ID] for row in _rows(store, f"{store.doc_id_field} == {_literal(document_id)}", [_ID])]


def _dimension(store: Any) -> int | None:
    fields = store.client.describe_collection(store.collection_name)["fields"]
    return next((field["params"].get("dim") for field in fields if field["name"] == store.embedding_field), None)


def _rows_where(store: Any, filters: MetadataFilters) -> Sequence[BaseNode]:
    """By id: the adapter's `get_nodes` returns no more than 16,384 rows, and does not escape what it compares with."""
    row_ids = [row[_ID] for row in _rows(store, _expression(filters), [_ID])]
    return [node for page in pages(row_ids, MAX_ASKED) for node in store.get_nodes(node_ids=list(page))]


# --- scores: as Milvus gives them; its L2 is the square of the distance ---

_METRICS = {
    "COSINE": Metric(float, is_cosine=True),
    "IP": Metric(float),
    "L2": Metric(lambda score: 1 - score / 2, is_distance=True),
}


def _metric(store: Any) -> Metric | None:
    """The index decides: the adapter's own ``similarity_metric`` says nothing of a collection that was there before."""
    client, name = store.client, store.collection_name
    indexes = client.list_indexes(name, field_name=store.embedding_field)
    return _METRICS.get(client.describe_index(name, indexes[0])["metric_type"]) if indexes else None


# --- filters: the adapter takes Milvus' own expressions; its translation knows no "not", and does not escape ---

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_OPPOSITES = {
    FilterOperator.EQ: "!=",
    FilterOperator.IN: "not in",
    FilterOperator.GT: "<=",
    FilterOperator.GTE: "<",
    FilterOperator.LT: ">=",
    FilterOperator.LTE: ">",
}


def _restrict(_: Any, filters: MetadataFilters) -> Restriction:
    return Restriction({}, {"string_expr": _expression(filters)})


def _expression(filters: MetadataFilters) -> str:
    return fold(filters, _comparison, _group)


def _group(is_any: bool, parts: Sequence[str]) -> str:
    return "(" + (" or " if is_any else " and ").join(parts) + ")"


def _comparison(one: MetadataFilter, negated: bool) -> str:
    """A comparison; a row without the key passes no comparison of Milvus, so "not" must name it."""
    if one.operator not in _OPPOSITES:
        known = ", ".join([*(each.value for each in _OPPOSITES), "!=", "nin"])
        raise OptionError(f"filter on {one.key!r}: {one.operator.value!r} cannot be asked of Milvus here; use {known}")
    field = one.key if _NAME.fullmatch(one.key) else f"$meta[{_literal(one.key)}]"
    value = _literal(one.value)
    if negated:
        return f"({field} is null or {field} {_OPPOSITES[one.operator]} {value})"
    return f"{field} {one.operator.value} {value}"


def _literal(value: object) -> str:
    """A text, a number or a list of them, as Milvus reads it: it knows fewer escapes than Python or JSON."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return f'"{value.translate(_ESCAPES)}"' if isinstance(value, str) else str(value)


FACTS = StoreFacts(
    max_batch_size=lambda _: DEFAULT_BATCH_SIZE,
    row_ids=lambda store: [row[_ID] for row in _rows(store, "", [_ID])],
    owners=lambda store, row_ids: _fields_of(store, row_ids, store.doc_id_field),
    document_row_ids=_document_row_ids,
    dimension=_dimension,
    vectors=lambda store, row_ids: _fields_of(store, row_ids, store.embedding_field),
    metric=_metric,
    restrict=_restrict,
    rows_where=_rows_where,
    exists=_exists,
    has_async=False,  # its async client only works in the event loop that it was first used in
)
