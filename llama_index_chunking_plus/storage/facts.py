"""What is known of a kind of vector store: the form of an entry. The entries stand in a module per store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import MetadataFilters

DEFAULT_BATCH_SIZE = 1_000
MAX_ASKED = 1_000  # ids or values in one question to a store: far below every limit known, far above one query's need
PAGE = 5_000  # rows asked for at once
WAITS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)  # before a question is asked again whose failure passes by itself

T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """What the scores of a store mean.

    Args:
        to_cosine: from a score to the cosine, exact for vectors of length 1; None if none can be read from it.
        is_cosine: whether the store divides by the lengths itself, so that ``to_cosine`` holds for all vectors.
        is_distance: whether a smaller score is a better one.
    """

    to_cosine: Callable[[float], float] | None
    is_cosine: bool = False
    is_distance: bool = False


@dataclass(frozen=True)
class Restriction:
    """How an adapter is told that only some rows are asked for.

    Args:
        fields: fields of the `VectorStoreQuery`.
        arguments: further arguments of the adapter's ``query``.
    """

    fields: Mapping[str, Any]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class StoreFacts:
    """What one kind of store can take and tell; every function gets the vector store as its first argument.

    Args:
        max_batch_size: how many rows it takes in one call.
        row_ids: the ids of all its rows.
        owners: the document id of each of the given rows.
        document_row_ids: the ids of one document's rows.
        dimension: the length of its vectors, None if it takes any.
        vectors: the vectors of the given rows, as far as it has them, by row id.
        metric: what its scores mean; None if that is not known.
        restrict: says a filter in the words of its adapter, groups in groups included.
        ids_with: the ids of the rows whose metadata has one of the values under the key; for a store that keeps no
            texts, and so has no rows to return.
        rows_where: the rows that pass a filter; for a store whose `get_nodes` does not take a filter alone, or leaves
            rows out.
        replace_rows: puts nodes in the place of the rows with their ids, never leaving an id without a row.
        settle: makes the store act on what a caller that died has left with it; for a store that can be late.
        exists: whether there is a collection yet, and if so, makes it ready to be asked; for a store that makes it with
            its first row, and fails without, or that must load it.
        passes: whether an error of a question passes by itself, so that it is worth while to ask again.
        has_async: whether the adapter's own async methods can be relied on.
        needs_client: whether nothing is known of it without its sync client.
    """

    max_batch_size: Callable[[Any], int]
    row_ids: Callable[[Any], list[str]]
    owners: Callable[[Any, Sequence[str]], dict[str, str]]
    document_row_ids: Callable[[Any, str], list[str]]
    dimension: Callable[[Any], int | None]
    vectors: Callable[[Any, Sequence[str]], Mapping[str, Any]]
    metric: Callable[[Any], Metric | None]
    restrict: Callable[[Any, MetadataFilters], Restriction]
    ids_with: Callable[[Any, str, Sequence[str]], list[str]] | None = None
    rows_where: Callable[[Any, MetadataFilters], Sequence[BaseNode]] | None = None
    replace_rows: Callable[[Any, Sequence[BaseNode]], None] | None = None
    settle: Callable[[Any], None] | None = None
    exists: Callable[[Any], bool] | None = None
    passes: Callable[[Exception], bool] | None = None
    has_async: bool = True
    needs_client: bool = True


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, at most ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
