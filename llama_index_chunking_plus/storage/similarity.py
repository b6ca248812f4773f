"""Scores of different stores on one scale, and the vectors themselves where no scale will do.

For the same vectors, one store reports a cosine, the next one a distance, a third one the exponential of a negative
distance. Scores can only be compared, or held against a threshold, once they are the same thing: the cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from numpy.typing import NDArray

from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.storage.filters import all_of
from llama_index_chunking_plus.storage.stores import (
    MAX_ASKED,
    Metric,
    as_call,
    has_collection,
    metric_of,
    own_async,
    pages,
    patient,
    restriction_of,
    stored_vectors,
)

Scale = Callable[[float], float]


def cosine_scale(vector_store: BasePydanticVectorStore, *, unit_vectors: bool = True) -> Scale | None:
    """From what the store calls a similarity to the cosine; None if that cannot be known.

    Where there is no scale, read the vectors (`vectors_of`) and compute the cosine from them. The scores are:

    - Chroma: ``exp(-distance)``, which is 1 - cosine, 1 - inner product, or the squared distance (``l2``, the default);
    - Milvus: the cosine, the inner product (the default), or the squared distance;
    - Qdrant: the cosine (the default), the inner product, the distance, or the Manhattan distance, which has no scale;
    - SimpleVectorStore: the cosine.

    Args:
        vector_store: asked what it measures, so call this when you query: a store of Qdrant that has no rows yet has
            no scale, and none has any that is not among these four.
        unit_vectors: whether all rows and the query have length 1. If not, only stores that measure the cosine have a
            scale: products and distances then say nothing of the angle.

    Returns:
        A function from score to cosine, exact but for rounding: a result can be just beyond 1 or -1.

    Example:
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> cosine_scale(SimpleVectorStore())(0.5)
        0.5
    """
    metric = metric_of(vector_store)
    return metric.to_cosine if metric and (unit_vectors or metric.is_cosine) else None


def vectors_of(vector_store: BasePydanticVectorStore, row_ids: Sequence[str]) -> Call:
    """Asks for the stored vectors: ``dict[str, NDArray[np.float32]]`` by row id, or None if the store cannot tell.

    Unknown ids are left out. A store may keep other lengths than it was given (Qdrant keeps unit vectors where it
    measures the cosine), so compute cosines, not inner products.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> store = SimpleVectorStore()
        >>> _ = store.add([TextNode(id_="a", text="x", embedding=[0.5, 1.0])])
        >>> vectors_of(store, ["a", "b"]).run()
        {'a': array([0.5, 1. ], dtype=float32)}
    """
    return as_call(partial(_vectors, vector_store, list(dict.fromkeys(row_ids))))


def query_rows(
    vector_store: BasePydanticVectorStore,
    embedding: Sequence[float],
    top_k: int,
    filters: MetadataFilters | None = None,
    *,
    equal: Mapping[str, str | int | float] | None = None,
    one_of: tuple[str, Sequence[str]] | None = None,
) -> Call:
    """Asks for the rows nearest to a vector that pass all filters: a `VectorStoreQueryResult`, the best ones first.

    Its ``similarities`` are on the store's own scale (`cosine_scale`). ``nodes`` is None where the store keeps no
    texts, as `SimpleVectorStore`: ``ids`` say which they are.

    Args:
        vector_store: need not hold any rows yet.
        embedding: the vector of the query.
        top_k: most rows that come back, at least 1.
        filters: the user's, groups in groups included.
        equal: values that the metadata must have, by key.
        one_of: a key, and the values of which the metadata must have one: any number of them. Without values nothing
            passes, and the store is not asked.

    Raises:
        OptionError: the store does not know an operator of a filter; raised when the call is run.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> rows = {"a": ("section", [1.0, 0.0]), "b": ("sentence", [0.8, 0.6]), "c": ("sentence", [0.6, 0.8])}
        >>> store = SimpleVectorStore()
        >>> _ = store.add([
        ...     TextNode(id_=id_, text="x", metadata={"granularity": granularity}, embedding=vector)
        ...     for id_, (granularity, vector) in rows.items()
        ... ])
        >>> query_rows(store, [1.0, 0.0], 1, equal={"granularity": "sentence"}).run().ids
        ['b']
    """
    wanted = [MetadataFilter(key=key, value=value) for key, value in (equal or {}).items()]
    questions = [all_of(*wanted, each, filters) for each in _lists(one_of)]
    return as_call(partial(_query_all, vector_store, list(embedding), top_k, questions))


def _lists(one_of: tuple[str, Sequence[str]] | None) -> list[MetadataFilter | None]:
    """The list of values in pieces that a store takes, one question each."""
    if one_of is None:
        return [None]
    key, values = one_of
    return [
        MetadataFilter(key=key, operator=FilterOperator.IN, value=list(page))
        for page in pages(list(dict.fromkeys(values)), MAX_ASKED)
    ]


def _query_all(
    vector_store: BasePydanticVectorStore,
    embedding: list[float],
    top_k: int,
    questions: Sequence[MetadataFilters | None],
) -> Plan[VectorStoreQueryResult]:
    results: list[VectorStoreQueryResult] = []
    if questions and (yield Call(partial(has_collection, vector_store))):
        for filters in questions:
            query = yield Call(partial(_question, vector_store, embedding, top_k, filters))
            if query is not None:
                results.append((yield query))
    if len(results) == 1:
        return results[0]
    if not results:
        return VectorStoreQueryResult(nodes=[] if vector_store.stores_text else None, similarities=[], ids=[])
    metric: Metric | None = yield Call(partial(metric_of, vector_store))
    return _best(results, top_k, is_distance=metric is not None and metric.is_distance)


def _question(
    vector_store: BasePydanticVectorStore, embedding: list[float], top_k: int, filters: MetadataFilters | None
) -> Call | None:
    """The call of the adapter's query; None if it is known already that no row passes."""
    fields: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    if filters is not None:
        restriction = restriction_of(vector_store, filters)
        fields, arguments = restriction.fields, restriction.arguments
    if fields.get("node_ids") == []:
        return None
    query = VectorStoreQuery(query_embedding=embedding, similarity_top_k=top_k, **fields)
    awaited = partial(vector_store.aquery, query, **arguments) if own_async(vector_store, "aquery") else None
    return patient(vector_store, Call(partial(vector_store.query, query, **arguments), awaited))


def _best(results: Sequence[VectorStoreQueryResult], top_k: int, *, is_distance: bool) -> VectorStoreQueryResult:
    """The best of several answers, of which no two have a row in common."""
    rows = [
        (score, row_id, position, result)
        for result in results
        for position, (score, row_id) in enumerate(zip(result.similarities or [], result.ids or [], strict=True))
    ]
    best = sorted(rows, key=lambda row: row[0], reverse=not is_distance)[:top_k]
    has_nodes = all(result.nodes is not None for result in results)
    return VectorStoreQueryResult(
        nodes=[result.nodes[position] for *_, position, result in best if result.nodes] if has_nodes else None,
        similarities=[score for score, *_ in best],
        ids=[row_id for _, row_id, *_ in best],
    )


def _vectors(
    vector_store: BasePydanticVectorStore, row_ids: Sequence[str]
) -> Plan[dict[str, NDArray[np.float32]] | None]:
    vectors: dict[str, NDArray[np.float32]] = {}
    for page in pages(row_ids, MAX_ASKED):
        found = yield Call(partial(stored_vectors, vector_store, page))
        if found is None:
            return None
        vectors.update((row_id, np.asarray(vector, dtype=np.float32)) for row_id, vector in found.items())
    return vectors
