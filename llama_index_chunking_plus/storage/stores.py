"""What each kind of vector store can take and tell, in one table.

LlamaIndex's own interface can neither say how many rows a store takes at once nor which rows it holds. Both decide
whether an ingestion can be trusted, so they stand here, one entry per store. A store without an entry works too: it
gets small batches, and nobody can check what it holds. Rows are read by LlamaIndex's own `get_nodes`, where it works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from llama_index_chunking_plus.core.plan import Call, overrides

DEFAULT_BATCH_SIZE = 1_000
MAX_ASKED = 1_000  # ids or values in one question to a store: far below every limit known, far above one query's need
_PAGE = 5_000  # rows asked for at once
_EVERY_ROW = 2**31 - 1
_IS_BEING_WRITTEN = "Nothing found on disk"  # what a Chroma server says then
_WAITS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
_NO_ROW = "chunking-plus/no-such-row"
_FEW_DOCUMENTS = 16  # up to here one query per document is cheaper than the list of all rows

T = TypeVar("T")


@dataclass(frozen=True)
class StoreFacts:
    """What one kind of store can take and tell; every function gets the vector store as its first argument.

    Args:
        max_batch_size: how many rows it takes in one call.
        row_ids: the ids of all its rows.
        owners: the document id of each of the given rows.
        document_row_ids: the ids of one document's rows.
        dimension: the length of its vectors, None if it takes any.
        ids_with: the ids of the rows whose metadata has one of the values under the key; for a store that keeps no
            texts, and so has no rows to return.
        rows_where: the rows that pass a filter; for a store whose `get_nodes` does not take a filter alone.
        replace_rows: puts nodes in the place of the rows with their ids, never leaving an id without a row.
        settle: makes the store act on what a caller that died has left with it; for a store that can be late.
    """

    max_batch_size: Callable[[Any], int]
    row_ids: Callable[[Any], list[str]]
    owners: Callable[[Any, Sequence[str]], dict[str, str]]
    document_row_ids: Callable[[Any, str], list[str]]
    dimension: Callable[[Any], int | None]
    ids_with: Callable[[Any, str, Sequence[str]], list[str]] | None = None
    rows_where: Callable[[Any, MetadataFilters], Sequence[BaseNode]] | None = None
    replace_rows: Callable[[Any, Sequence[BaseNode]], None] | None = None
    settle: Callable[[Any], None] | None = None


def max_batch_size(vector_store: BasePydanticVectorStore) -> int:
    """How many rows the store takes in one call; 1,000 for a store that is not in the table."""
    facts = _facts(vector_store)
    return facts.max_batch_size(vector_store) if facts else DEFAULT_BATCH_SIZE


def can_list(vector_store: BasePydanticVectorStore) -> bool:
    """Whether the store can tell which rows it holds; if not, nobody can check it for missing or stale rows."""
    return _facts(vector_store) is not None


def vector_dimension(vector_store: BasePydanticVectorStore) -> int | None:
    """The only length of vectors that the store still takes; None if it takes any, or if that is not known."""
    facts = _facts(vector_store)
    return facts.dimension(vector_store) if facts else None


def rows_by_document(
    vector_store: BasePydanticVectorStore, document_ids: Sequence[str], known_owners: Mapping[str, str] | None = None
) -> dict[str, list[str]] | None:
    """The row ids that the store holds for each of the documents; None if it cannot list its rows.

    Args:
        vector_store: the store to look into.
        document_ids: the documents asked for; each is a key of the result.
        known_owners: document id by row id, as far as known; spares reading the metadata of these rows.

    Example:
        >>> from llama_index.core.schema import TextNode, RelatedNodeInfo, NodeRelationship
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> store = SimpleVectorStore()
        >>> source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")}
        >>> store.add([TextNode(id_="a-0", text="x", embedding=[1.0], relationships=source)])
        ['a-0']
        >>> rows_by_document(store, ["a", "b"])
        {'a': ['a-0'], 'b': []}
    """
    facts = _facts(vector_store)
    if facts is None:
        return None
    if len(document_ids) <= _FEW_DOCUMENTS:
        return {document_id: facts.document_row_ids(vector_store, document_id) for document_id in document_ids}
    rows: dict[str, list[str]] = {document_id: [] for document_id in document_ids}
    for row_id, document_id in _owners_of_all(vector_store, facts, known_owners or {}):
        if document_id in rows:
            rows[document_id].append(row_id)
    return rows


def ids_of_documents(
    vector_store: BasePydanticVectorStore, known_owners: Mapping[str, str] | None = None
) -> list[str] | None:
    """The ids of all documents that the store has rows of, each once; None if it cannot list its rows."""
    facts = _facts(vector_store)
    if facts is None:
        return None
    owners = (owner for _, owner in _owners_of_all(vector_store, facts, known_owners or {}))
    return [owner for owner in dict.fromkeys(owners) if owner]


def can_replace(vector_store: BasePydanticVectorStore) -> bool:
    """Whether the store takes a new row under the id of an old one, in place of it."""
    facts = _facts(vector_store)
    return facts is not None and facts.replace_rows is not None


def replace_rows(vector_store: BasePydanticVectorStore, nodes: Sequence[BaseNode]) -> None:
    """Put these nodes in the place of the rows with their ids; only where `can_replace`."""
    facts = _facts(vector_store)
    if facts and facts.replace_rows:
        facts.replace_rows(vector_store, nodes)


def settle(vector_store: BasePydanticVectorStore) -> None:
    """Have the store act on writes whose caller died before they were answered; afterwards its rows can be trusted."""
    facts = _facts(vector_store)
    if facts and facts.settle:
        facts.settle(vector_store)


def returns_rows(vector_store: BasePydanticVectorStore) -> bool:
    """Whether the store keeps the rows' texts and can be asked for rows."""
    return vector_store.stores_text and overrides(vector_store, "get_nodes", BasePydanticVectorStore)


def finds_ids(vector_store: BasePydanticVectorStore) -> bool:
    """Whether a store that keeps no texts can at least tell the ids of rows by their metadata."""
    facts = _facts(vector_store)
    return facts is not None and facts.ids_with is not None


def rows_by_id(vector_store: BasePydanticVectorStore, row_ids: Sequence[str]) -> Call:
    """Asks for these rows, in any order; unknown ids are left out. At least one id, none twice, at most `MAX_ASKED`."""
    return _get_nodes(vector_store, node_ids=list(row_ids))


def rows_with(vector_store: BasePydanticVectorStore, key: str, values: Sequence[str]) -> Call:
    """Asks for the rows whose metadata has one of the values under the key: at least one, at most `MAX_ASKED`."""
    one_of = MetadataFilter(key=key, operator=FilterOperator.IN, value=list(values))
    filters, facts = MetadataFilters(filters=[one_of]), _facts(vector_store)
    if facts and facts.rows_where and not overrides(vector_store, "aget_nodes", BasePydanticVectorStore):
        return Call(partial(facts.rows_where, vector_store, filters))
    return _get_nodes(vector_store, node_ids=None, filters=filters)


def ids_with(vector_store: BasePydanticVectorStore, key: str, values: Sequence[str]) -> list[str]:
    """The ids of the rows whose metadata has one of the values under the key; only where `finds_ids`."""
    facts = _facts(vector_store)
    return facts.ids_with(vector_store, key, values) if facts and facts.ids_with else []


def delete_rows(vector_store: BasePydanticVectorStore, row_ids: Sequence[str]) -> None:
    """Delete these rows, in batches that the store takes."""
    for page in pages(row_ids, max_batch_size(vector_store)):
        vector_store.delete_nodes(list(page))


def delete_document_rows(vector_store: BasePydanticVectorStore, document_id: str) -> None:
    """Delete all rows of one document, whether the store can list them or not."""
    rows = rows_by_document(vector_store, [document_id])
    if rows is None:
        vector_store.delete(document_id)
    else:
        delete_rows(vector_store, rows[document_id])


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, at most ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _get_nodes(vector_store: BasePydanticVectorStore, **question: Any) -> Call:
    own = overrides(vector_store, "aget_nodes", BasePydanticVectorStore)  # the default blocks the event loop
    return Call(
        partial(vector_store.get_nodes, **question), partial(vector_store.aget_nodes, **question) if own else None
    )


def _owners_of_all(
    vector_store: BasePydanticVectorStore, facts: StoreFacts, known_owners: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    row_ids = facts.row_ids(vector_store)
    strangers = [row_id for row_id in row_ids if row_id not in known_owners]
    owners = {**known_owners, **facts.owners(vector_store, strangers)}
    return ((row_id, owners.get(row_id, "")) for row_id in row_ids)


# --- Chroma: its client knows the limit (the adapter's constant is larger); an empty collection keeps its dimension ---


def _chroma_max_batch_size(store: Any) -> int:
    client = getattr(store.client, "_client", None)
    limit = getattr(client, "get_max_batch_size", None)
    return int(limit()) if limit else DEFAULT_BATCH_SIZE


def _chroma_ids(store: Any, where: dict[str, str] | None) -> list[str]:
    ids: list[str] = []
    while True:
        page = store.client.get(where=where, include=[], limit=_PAGE, offset=len(ids))["ids"]
        ids.extend(page)
        if len(page) < _PAGE:
            return ids


def _chroma_owners(store: Any, row_ids: Sequence[str]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for page in pages(row_ids, _PAGE):
        found = store.client.get(ids=list(page), include=["metadatas"])
        for row_id, metadata in zip(found["ids"], found["metadatas"], strict=True):
            owners[row_id] = str((metadata or {}).get("document_id", ""))
    return owners


def _chroma_rows_where(store: Any, filters: MetadataFilters) -> Sequence[BaseNode]:
    """Without a vector its `query` is a plain get; `get_nodes` with a filter and no ids fails in old adapters."""
    return store.query(VectorStoreQuery(filters=filters, similarity_top_k=_EVERY_ROW)).nodes or []


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
    """Rows with their vectors; asked again where a server is just writing the first file of its index for someone else.

    Until the file is there the server answers with an error, "Nothing found on disk" (chromadb 1.5.9).
    """
    for wait_seconds in _WAITS_SECONDS:
        try:
            return dict(collection.get(include=list(columns), **which))
        except Exception as error:
            if _IS_BEING_WRITTEN not in str(error):
                raise
        time.sleep(wait_seconds)
    return dict(collection.get(include=list(columns), **which))


def _same_vector_and_text(row: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return row["documents"] == old["documents"] and np.allclose(row["embeddings"], old["embeddings"], atol=1e-7)


def _send(call: Callable[..., Any], rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if rows:
        call(**{column: [row[column] for row in rows] for column in columns})


def _chroma_replace_rows(store: Any, nodes: Sequence[BaseNode]) -> None:
    type(store)(chroma_collection=_InPlace(store.client)).add(list(nodes))


def _chroma_settle(store: Any) -> None:
    """A write, of nothing: a server that noted a dead client's write acts on it no earlier than at the next one."""
    store.client.delete(ids=[_NO_ROW])


def _chroma_dimension(store: Any) -> int | None:
    embeddings = _with_vectors(store.client, ["embeddings"], limit=1)["embeddings"]
    return len(embeddings[0]) if len(embeddings) else None


# --- LlamaIndex's in-memory store ---


def _simple_owners(store: Any, row_ids: Sequence[str]) -> dict[str, str]:
    owners = store.data.text_id_to_ref_doc_id
    return {row_id: owners[row_id] for row_id in row_ids}


def _simple_document_row_ids(store: Any, document_id: str) -> list[str]:
    return [row_id for row_id, owner in store.data.text_id_to_ref_doc_id.items() if owner == document_id]


def _simple_ids_with(store: Any, key: str, values: Sequence[str]) -> list[str]:
    wanted = set(values)
    return [row_id for row_id, metadata in list(store.data.metadata_dict.items()) if metadata.get(key) in wanted]


_FACTS: dict[str, StoreFacts] = {
    "ChromaVectorStore": StoreFacts(
        max_batch_size=_chroma_max_batch_size,
        row_ids=lambda store: _chroma_ids(store, None),
        owners=_chroma_owners,
        document_row_ids=lambda store, document_id: _chroma_ids(store, {"document_id": document_id}),
        dimension=_chroma_dimension,
        rows_where=_chroma_rows_where,
        replace_rows=_chroma_replace_rows,
        settle=_chroma_settle,
    ),
    "SimpleVectorStore": StoreFacts(
        max_batch_size=lambda _: 10_000,
        row_ids=lambda store: list(store.data.text_id_to_ref_doc_id),
        owners=_simple_owners,
        document_row_ids=_simple_document_row_ids,
        dimension=lambda _: None,
        ids_with=_simple_ids_with,
        replace_rows=lambda store, nodes: store.add(list(nodes)),
    ),
}


def _facts(vector_store: BasePydanticVectorStore) -> StoreFacts | None:
    return _FACTS.get(vector_store.class_name())
