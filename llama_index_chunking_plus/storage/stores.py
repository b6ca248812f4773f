"""What vector stores can take and tell, whatever kind they are.

LlamaIndex's own interface can neither say how many rows a store takes at once nor which rows it holds. Both decide
whether an ingestion can be trusted, so each kind of store has an entry (`StoreFacts`) in a module of its own, and the
table stands here. A store without an entry works too: it gets small batches, and nobody can check what it holds. Rows
are read by LlamaIndex's own `get_nodes`, where it works.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from llama_index_chunking_plus.core.plan import Call, Plan, arun, overrides, run
from llama_index_chunking_plus.storage import chroma, milvus, qdrant, simple
from llama_index_chunking_plus.storage.facts import (
    DEFAULT_BATCH_SIZE,
    MAX_ASKED,
    WAITS_SECONDS,
    Metric,
    Restriction,
    StoreFacts,
    pages,
)

__all__ = ["DEFAULT_BATCH_SIZE", "MAX_ASKED", "Metric", "Restriction", "StoreFacts", "pages"]

_FEW_DOCUMENTS = 16  # up to here one query per document is cheaper than the list of all rows
_FACTS = {
    "ChromaVectorStore": chroma.FACTS,
    "MilvusVectorStore": milvus.FACTS,
    "QdrantVectorStore": qdrant.FACTS,
    "SimpleVectorStore": simple.FACTS,
}

T = TypeVar("T")


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


def own_async(vector_store: BasePydanticVectorStore, method: str) -> bool:
    """Whether the store has a method of its own under this name that can be awaited; LlamaIndex's defaults block."""
    facts = _facts(vector_store)
    return (facts is None or facts.has_async) and overrides(vector_store, method, BasePydanticVectorStore)


def rows_by_id(vector_store: BasePydanticVectorStore, row_ids: Sequence[str]) -> Call:
    """Asks for these rows, in any order; unknown ids are left out. At least one id, none twice, at most `MAX_ASKED`."""
    question, facts = _get_nodes(vector_store, node_ids=list(row_ids)), _facts(vector_store)
    return as_call(partial(_ask_if_there, vector_store, question)) if facts and facts.exists else question


def rows_with(vector_store: BasePydanticVectorStore, key: str, values: Sequence[str]) -> Call:
    """Asks for the rows whose metadata has one of the values under the key: at least one, at most `MAX_ASKED`."""
    one_of = MetadataFilter(key=key, operator=FilterOperator.IN, value=list(values))
    filters, facts = MetadataFilters(filters=[one_of]), _facts(vector_store)
    if facts and facts.rows_where and not own_async(vector_store, "aget_nodes"):
        return Call(partial(facts.rows_where, vector_store, filters))
    return _get_nodes(vector_store, node_ids=None, filters=filters)


def stored_vectors(vector_store: BasePydanticVectorStore, row_ids: Sequence[str]) -> Mapping[str, Any] | None:
    """The vectors of these rows, by row id, as far as there are any; None if the store cannot be asked for them."""
    facts = _facts(vector_store)
    return facts.vectors(vector_store, row_ids) if facts else None


def metric_of(vector_store: BasePydanticVectorStore) -> Metric | None:
    """What the store's scores mean; None if that is not known."""
    facts = _facts(vector_store)
    return facts.metric(vector_store) if facts else None


def restriction_of(vector_store: BasePydanticVectorStore, filters: MetadataFilters) -> Restriction:
    """How the store's adapter is told the filter; as it is, if the store is not in the table.

    Raises:
        OptionError: the store does not know an operator.
    """
    facts = _facts(vector_store)
    return facts.restrict(vector_store, filters) if facts else Restriction({"filters": filters}, {})


def patient(vector_store: BasePydanticVectorStore, question: Call) -> Call:
    """The question, asked again where the store's failure passes by itself."""
    facts = _facts(vector_store)
    return as_call(partial(_ask_again, question, facts.passes)) if facts and facts.passes else question


def has_collection(vector_store: BasePydanticVectorStore) -> bool:
    """Whether there is anything to ask; a store that makes its collection with the first row fails before that."""
    facts = _facts(vector_store)
    return facts is None or facts.exists is None or facts.exists(vector_store)


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


def as_call(plan: Callable[[], Plan[T]]) -> Call:
    """A plan as one request of another one."""
    return Call(lambda: run(plan()), lambda: arun(plan()))


def _ask_if_there(vector_store: BasePydanticVectorStore, question: Call) -> Plan[Sequence[BaseNode]]:
    there: bool = yield Call(partial(has_collection, vector_store))
    rows: Sequence[BaseNode] = (yield question) if there else []
    return rows


def _ask_again(question: Call, passes: Callable[[Exception], bool]) -> Plan[Any]:
    for wait_seconds in WAITS_SECONDS:
        try:
            return (yield question)
        except Exception as error:
            if not passes(error):
                raise
        yield Call(partial(time.sleep, wait_seconds), partial(asyncio.sleep, wait_seconds))
    return (yield question)


def _get_nodes(vector_store: BasePydanticVectorStore, **question: Any) -> Call:
    own = own_async(vector_store, "aget_nodes")
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


def _facts(vector_store: BasePydanticVectorStore) -> StoreFacts | None:
    facts = _FACTS.get(vector_store.class_name())
    return None if facts and facts.needs_client and vector_store.client is None else facts
