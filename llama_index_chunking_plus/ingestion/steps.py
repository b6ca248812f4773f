"""What a sync waits for: transformations, stores, files. Each call is answered at once or awaited (`core.plan`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.plan import Call, overrides
from llama_index_chunking_plus.storage.stores import own_async, replace_rows


def transform(transformation: TransformComponent, nodes: Sequence[BaseNode]) -> Call:
    """What the transformation makes of the nodes.

    Core's default async forms call the sync one inside the event loop, or (`HierarchicalNodeParser`) do nothing at all:
    only an async form that the class defines itself is used.
    """
    call = partial(transformation, nodes)
    own = overrides(transformation, "acall", TransformComponent)
    if isinstance(transformation, NodeParser):
        own = overrides(transformation, "acall", NodeParser) or overrides(transformation, "_aparse_nodes", NodeParser)
    return Call(call, partial(transformation.acall, nodes) if own else None)


def add_rows(vector_store: BasePydanticVectorStore, nodes: Sequence[BaseNode]) -> Call:
    """Put these nodes into the vector store."""
    own = own_async(vector_store, "async_add")
    return Call(partial(vector_store.add, nodes), partial(vector_store.async_add, nodes) if own else None)


def put_rows(vector_store: BasePydanticVectorStore, nodes: Sequence[BaseNode]) -> Call:
    """Put these nodes into the vector store, in the place of the rows with their ids."""
    return Call(partial(replace_rows, vector_store, nodes))


def delete_unlisted(vector_store: BasePydanticVectorStore, document_id: str) -> Call:
    """Delete whatever rows the vector store has of the document."""
    own = own_async(vector_store, "adelete")
    async_call = partial(vector_store.adelete, document_id) if own else None
    return Call(partial(vector_store.delete, document_id), async_call)
