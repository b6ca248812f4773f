"""A corpus on persistent or served Chroma, opened anew like after a restart. Importable, so that processes can be killed in it."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")

import chromadb
import numpy as np
from embedders import FaultyEmbedding, letter_vector
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus.ingestion import (
    DeleteReport,
    SyncReport,
    async_delete_document,
    async_sync_documents,
    delete_document,
    load_docstore,
    sync_documents,
)
from llama_index_chunking_plus.node_parser import SmallToBigNodeParser
from llama_index_chunking_plus.storage import Found, SiblingLookup, SourceSliceLookup, StoredParentLookup

HIDDEN = {"excluded_embed_metadata_keys": ["title"], "excluded_llm_metadata_keys": ["title"]}


def text_of(name: str, version: int, n_sentences: int = 10) -> str:
    """Sentences of which some change with the version, some repeat, and some move."""
    return "".join(
        f"{name}第{i}条是旧的。" if i % 3 else f"{name}改到{version + i}版了。{'都一样。' * (version % 3)}"
        for i in range(n_sentences)
    )


def corpus(version: int, size: int = 7) -> list[Document]:
    """Documents of which two thirds differ from the version before; one comes and goes, one is blank, one is short."""
    texts = {f"d{i}": text_of(f"文{i}", version if (i + version) % 3 else 0) for i in range(size)}
    texts |= {f"once{version % 2}": text_of("来去", version), "short": f"问？答{version}。", "blank": " \n"}
    return [Document(id_=key, text=text, metadata={"title": key}, **HIDDEN) for key, text in texts.items()]


@dataclass(frozen=True)
class Place:
    """Where a world is, and how it is made; all that outlives a process."""

    chroma: str | int  # a directory, or a port on this machine
    state: Path
    is_async: bool = False
    parser: tuple[tuple[str, Any], ...] = (("parent_size", 40), ("child_size", 10), ("emit", "both"))
    collection: str = "rows"

    def with_parser(self, **options: Any) -> Place:
        return replace(self, parser=tuple({**dict(self.parser), **options}.items()))


# Chroma counts the clients of a directory without a lock: one thread takes what another has not started yet, or just
# stopped (`SharedSystemClient._create_system_if_not_exists`). Opening and closing clients is the part of its user.
_ONE_AT_A_TIME = threading.RLock()


def _open(chroma: str | int) -> Any:
    with _ONE_AT_A_TIME:
        if isinstance(chroma, int):
            return chromadb.HttpClient(host="127.0.0.1", port=chroma)
        return chromadb.PersistentClient(chroma)


def _close(client: Any) -> None:
    servers = [client._server, client._admin_client._server]
    with _ONE_AT_A_TIME:
        client.close()
    for server in servers:
        if hasattr(server, "_session"):  # Chroma leaves its connections open
            server._session.close()


def closing_client(owner: object, chroma: str | int) -> Any:
    """A client of Chroma that lives as long as its owner: the next one of this place opens it anew."""
    client = _open(chroma)
    weakref.finalize(owner, _close, client)
    return client


class World:
    """The stores as a new process finds them."""

    def __init__(self, place: Place) -> None:
        self.client = closing_client(self, place.chroma)
        self.place = place
        self.store = ChromaVectorStore(chroma_collection=self.client.get_or_create_collection(place.collection))
        self.parser = SmallToBigNodeParser(**dict(place.parser))
        self.embedding = FaultyEmbedding()

    def pipeline(self) -> IngestionPipeline:
        return IngestionPipeline(transformations=[self.parser, self.embedding], vector_store=self.store)

    def sync(self, documents: Sequence[Document], **options: Any) -> SyncReport:
        options = {"persist_dir": self.place.state, "delete_missing": True, "batch_size": 3, **options}
        if self.place.is_async:
            return asyncio.run(async_sync_documents(documents, self.pipeline(), **options))
        return sync_documents(documents, self.pipeline(), **options)

    def delete(self, document_id: str) -> DeleteReport:
        if self.place.is_async:
            return asyncio.run(async_delete_document(document_id, self.pipeline(), persist_dir=self.place.state))
        return delete_document(document_id, self.pipeline(), persist_dir=self.place.state)

    def lookups(self) -> dict[str, Any]:
        return {
            "slices": SourceSliceLookup(load_docstore(self.place.state)),
            "siblings": SiblingLookup(self.store),
            "stored": StoredParentLookup(self.store),
        }

    def find(self, lookup: Any, nodes: Sequence[BaseNode]) -> Found:
        return asyncio.run(lookup.afind(nodes)) if self.place.is_async else lookup.find(nodes)

    def rows(self) -> list[BaseNode]:
        return self.store.query(VectorStoreQuery(similarity_top_k=10_000)).nodes

    def assert_holds(self, documents: Sequence[Document]) -> None:
        """Rows, texts, parents and hits are those of these documents, and there is nothing else."""
        nodes = self.parser.get_nodes_from_documents(documents)
        expected = {node.node_id: node.get_content() for node in nodes}
        rows = self.rows()
        assert sorted(row.node_id for row in rows) == sorted(expected)
        assert {row.node_id: row.get_content() for row in rows} == expected
        assert self.store.client.count() == len(expected)
        self._assert_vectors(nodes)
        docstore = load_docstore(self.place.state)
        texts = {key: node.get_content(MetadataMode.NONE) for key, node in docstore.docs.items()}
        assert texts == {document.id_: document.text for document in documents}
        assert set(docstore.get_all_document_hashes().values()) <= set(texts)
        parents = {node.node_id: node.get_content() for node in self.parser.parent_nodes(documents)}
        self._assert_parents([row for row in rows if "parent_id" in row.metadata], parents)
        for text in list(texts.values())[:3]:
            self._assert_hits(text, expected, parents)

    def _assert_parents(self, children: Sequence[BaseNode], parents: dict[str, str]) -> None:
        wanted = {child.metadata["parent_id"] for child in children}
        assert wanted <= set(parents)
        for name, lookup in self.lookups().items():
            found = self.find(lookup, children)
            stored = name != "stored" or self.parser.emit == "both"
            assert {key: node.text for key, node in found.parents.items()} == {
                key: parents[key] for key in wanted if stored
            }, name
            assert (found.stale, found.outdated) == (frozenset(), 0), name

    def _assert_vectors(self, nodes: Sequence[BaseNode]) -> None:
        stored = self.store.client.get(include=["embeddings"])
        vectors = dict(zip(stored["ids"], stored["embeddings"], strict=True))
        for node in nodes:
            expected = letter_vector(node.get_content(MetadataMode.EMBED))
            assert np.allclose(vectors[node.node_id], expected, atol=1e-6)

    def _assert_hits(self, question: str, expected: dict[str, str], parents: dict[str, str]) -> None:
        """What is found is right, and enough of it; where Chroma's graph is broken, in a copy of the same rows."""
        hits, enough = _query(self.store, question), min(5, len(expected))
        if len(hits) < enough:
            hits = self._query_a_copy(question)
        assert len(hits) == enough
        assert len({hit.node_id for hit in hits}) == len(hits)
        assert all(expected[hit.node_id] == hit.get_content(MetadataMode.NONE) for hit in hits)
        self._assert_parents([hit for hit in hits if "parent_id" in hit.metadata], parents)

    def _query_a_copy(self, question: str) -> Sequence[BaseNode]:
        """The answer of the same rows and vectors in a collection of their own.

        Chroma's HNSW graph keeps deleted points. Where more than ``2 * max_neighbors`` of its points have the same
        vector, deleted ones counted, it can fall into pieces: `get` has all rows, and a query finds few of them, or
        none. Plain Chroma does so with nothing but `add` and `delete` of three vectors, or one `upsert` of 140 rows.
        """
        columns = ["embeddings", "documents", "metadatas"]
        stored = self.store.client.get(include=columns)
        copy = self.client.create_collection(uuid.uuid4().hex)
        copy.add(ids=stored["ids"], **{column: stored[column] for column in columns})
        try:
            return _query(ChromaVectorStore(chroma_collection=copy), question)
        finally:
            self.client.delete_collection(copy.name)


def _query(store: ChromaVectorStore, question: str) -> Sequence[BaseNode]:
    return store.query(VectorStoreQuery(query_embedding=letter_vector(question), similarity_top_k=5)).nodes


def sync_until_killed(place: Place, version: int, started: Any) -> None:
    """What a process does that is about to die."""
    world = World(place)
    started.send(True)
    world.sync(corpus(version))
    started.send(True)
