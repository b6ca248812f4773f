"""Empty vector stores of every kind that is installed, and rows for them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

DIMENSION = 8
# a client of Milvus pings each 10 seconds; to the server of Milvus Lite these are too many, and after some it hangs up
SELDOM_PINGED = {"grpc.keepalive_time_ms": 3_600_000}
FAMILIES = ["simple", "chroma", "milvus", "qdrant"]


class Stores:
    """Makes empty stores of every kind; what it opened is closed with it."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.closing = folder, ExitStack()
        self._clients: dict[str, Any] = {}

    def client(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._clients:
            self._clients[name] = make()
            self.closing.callback(self._clients[name].close)
        return self._clients[name]

    def make(self, kind: str) -> BasePydanticVectorStore:
        family, _, metric = kind.partition("-")
        return getattr(self, family)(metric)

    def simple(self, _: str) -> BasePydanticVectorStore:
        return SimpleVectorStore()

    def chroma(self, space: str, *, client: Callable[[], Any] | None = None) -> BasePydanticVectorStore:
        chromadb = pytest.importorskip("chromadb")
        adapter = pytest.importorskip("llama_index.vector_stores.chroma")
        path = str(self.folder / "chroma")
        opened = self.client("chroma", client or partial(chromadb.PersistentClient, path))
        metadata = {"hnsw:space": space} if space else None
        return adapter.ChromaVectorStore(chroma_collection=opened.create_collection(new_name(), metadata=metadata))

    def milvus(self, metric: str) -> BasePydanticVectorStore:
        pytest.importorskip("milvus_lite")
        adapter = pytest.importorskip("llama_index.vector_stores.milvus")
        store = adapter.MilvusVectorStore(
            uri=str(self.folder / "milvus.db"),
            collection_name=new_name(),
            dim=DIMENSION,
            use_async_client=False,
            grpc_options=SELDOM_PINGED,
            **({"similarity_metric": metric.upper()} if metric else {}),
        )
        self.client("milvus", lambda: store.client)  # pymilvus shares one connection among them
        return store

    def qdrant(self, distance: str) -> BasePydanticVectorStore:
        qdrant_client = pytest.importorskip("qdrant_client")
        adapter = pytest.importorskip("llama_index.vector_stores.qdrant")
        client = self.client("qdrant", lambda: qdrant_client.QdrantClient(path=str(self.folder / "qdrant")))
        models = qdrant_client.models
        config = distance and models.VectorParams(size=DIMENSION, distance=models.Distance(distance.capitalize()))
        # its local mode warns that it makes no use of an index of documents
        return adapter.QdrantVectorStore(new_name(), client=client, index_doc_id=False, dense_config=config or None)


def opened_anew(kind: str, folder: Any) -> tuple[BasePydanticVectorStore, Callable[[], None]]:
    """The store in the folder as a new process finds it, and what ends that process."""
    if kind == "chroma":
        chromadb = pytest.importorskip("chromadb")
        client = chromadb.PersistentClient(str(folder))
        adapter = pytest.importorskip("llama_index.vector_stores.chroma")
        return adapter.ChromaVectorStore(chroma_collection=client.get_or_create_collection("rows")), client.close
    if kind == "milvus":
        pytest.importorskip("milvus_lite")
        adapter = pytest.importorskip("llama_index.vector_stores.milvus")
        options = {"dim": DIMENSION, "collection_name": "rows", "use_async_client": False}
        store = adapter.MilvusVectorStore(uri=str(folder / "milvus.db"), grpc_options=SELDOM_PINGED, **options)
        return store, partial(stop_milvus, store, folder / "milvus.db")
    qdrant_client = pytest.importorskip("qdrant_client")
    client = qdrant_client.QdrantClient(path=str(folder))
    adapter = pytest.importorskip("llama_index.vector_stores.qdrant")
    return adapter.QdrantVectorStore("rows", client=client, index_doc_id=False), client.close


def stop_milvus(store: Any, path: Any) -> None:
    """Close the client, and stop the server of Milvus Lite, a thread, as the end of the process does."""
    store.client.close()
    pytest.importorskip("milvus_lite.server_manager").server_manager_instance.release_server(str(path))


def new_name() -> str:
    return f"rows{uuid.uuid4().hex}"


def row_id(name: str) -> str:
    """Qdrant takes nothing but UUIDs."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def unit(vectors: Any) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def row(name: str, vector: Any, *, document: str = "文档", **metadata: Any) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(
        id_=row_id(name),
        text=f"第{name}行",
        embedding=list(map(float, vector)),
        metadata=metadata,
        relationships=source,
    )


def filled(store: BasePydanticVectorStore, vectors: Any) -> BasePydanticVectorStore:
    store.add([row(str(each), vector) for each, vector in enumerate(vectors)])
    return store
