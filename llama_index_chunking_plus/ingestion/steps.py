"""What a sync waits for: transformations, stores, files. Each request is answered at once or awaited (`core.plan`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.vector_stores.types import BasePydanticVectorStore


@dataclass(frozen=True)
class Request:
    """A call, and its own async form if it has one; without one it is awaited in a thread."""

    call: Callable[[], Any]
    async_call: Callable[[], Awaitable[Any]] | None = None

    def run(self) -> Any:
        """Answer at once."""
        return self.call()

    async def arun(self) -> Any:
        """Answer without blocking the event loop."""
        return await (_in_thread(self.call) if self.async_call is None else self.async_call())


def transform(transformation: TransformComponent, nodes: Sequence[BaseNode]) -> Request:
    """What the transformation makes of the nodes.

    Core's default async forms call the sync one inside the event loop, or (`HierarchicalNodeParser`) do nothing at all:
    only an async form that the class defines itself is used.
    """
    call = partial(transformation, nodes)
    own = _overrides(transformation, "acall", TransformComponent)
    if isinstance(transformation, NodeParser):
        own = _overrides(transformation, "acall", NodeParser) or _overrides(transformation, "_aparse_nodes", NodeParser)
    return Request(call, partial(transformation.acall, nodes) if own else None)


def add_rows(vector_store: BasePydanticVectorStore, nodes: Sequence[BaseNode]) -> Request:
    """Put these nodes into the vector store."""
    own = _overrides(vector_store, "async_add", BasePydanticVectorStore)
    return Request(partial(vector_store.add, nodes), partial(vector_store.async_add, nodes) if own else None)


def delete_document(vector_store: BasePydanticVectorStore, document_id: str) -> Request:
    """Delete whatever rows the vector store has of the document."""
    own = _overrides(vector_store, "adelete", BasePydanticVectorStore)
    async_call = partial(vector_store.adelete, document_id) if own else None
    return Request(partial(vector_store.delete, document_id), async_call)


def _overrides(component: object, method: str, base: type) -> bool:
    return getattr(type(component), method) is not getattr(base, method)


async def _in_thread(call: Callable[[], Any]) -> Any:
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # a thread cannot be stopped: its writing must be over before anyone goes on
        await asyncio.gather(task, return_exceptions=True)
        raise
