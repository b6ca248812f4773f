"""A corpus in several levels on Chroma, opened anew like after a restart. Importable, so that processes can be killed in it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from granularities import PairEmbedding, assert_same, index_of, nodes_of, parser, text_of
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore
from worlds import closing_client

from llama_index_chunking_plus.ingestion import (
    DeleteReport,
    ParentVectorFusion,
    SyncReport,
    async_delete_document,
    async_sync_documents,
    delete_document,
    load_docstore,
    sync_documents,
)
from llama_index_chunking_plus.retrievers import CoarseToFineRetriever, FusedGranularityRetriever
from llama_index_chunking_plus.storage import LexicalIndex, SourceSliceLookup

QUESTIONS = ["周一年假要申请几次？", "月底合同", "春节班车要查询几次？"]


def corpus(version: int) -> list[Document]:
    """Documents of all lengths, of which two thirds differ from the version before; one comes and goes."""
    sizes = {"long0": 24, "long1": 18, "short": 6, "tiny": 1}
    own = {name: version if (i + version) % 3 else 0 for i, name in enumerate(sizes)}
    texts = {name: text_of((name, own[name]), size) for name, size in sizes.items()}
    texts |= {f"once{version % 2}": text_of(("once", version), 5), "blank": " \n"}
    hidden = {"excluded_embed_metadata_keys": ["title"], "excluded_llm_metadata_keys": ["title"]}
    return [Document(id_=name, text=text, metadata={"title": name}, **hidden) for name, text in texts.items()]


@dataclass(frozen=True)
class LevelPlace:
    """Where a world is, and how it is made; all that outlives a process."""

    chroma: str | int  # a directory, or a port on this machine
    state: Path
    store_levels: tuple[str, ...] | None = None
    is_async: bool = False
    collection: str = "rows"

    @property
    def steps(self) -> list[Any]:
        return [parser(sentences=True), PairEmbedding(), ParentVectorFusion(store_levels=self.store_levels)]


class LevelWorld:
    """The stores as a new process finds them."""

    def __init__(self, place: LevelPlace) -> None:
        self.client = closing_client(self, place.chroma)
        self.place = place
        self.store = ChromaVectorStore(chroma_collection=self.client.get_or_create_collection(place.collection))

    def pipeline(self) -> IngestionPipeline:
        return IngestionPipeline(transformations=self.place.steps, vector_store=self.store)

    def sync(self, documents: Sequence[Document]) -> SyncReport:
        options = {"persist_dir": self.place.state, "delete_missing": True, "batch_size": 2}
        if self.place.is_async:
            return asyncio.run(async_sync_documents(documents, self.pipeline(), **options))
        return sync_documents(documents, self.pipeline(), **options)

    def delete(self, document_id: str) -> DeleteReport:
        if self.place.is_async:
            return asyncio.run(async_delete_document(document_id, self.pipeline(), persist_dir=self.place.state))
        return delete_document(document_id, self.pipeline(), persist_dir=self.place.state)

    def retrievers(self, store: ChromaVectorStore | None = None) -> list[BaseRetriever]:
        index = VectorStoreIndex.from_vector_store(store or self.store, embed_model=PairEmbedding())
        lookup = SourceSliceLookup(load_docstore(self.place.state))
        words = LexicalIndex(self.place.state / "words")
        return [CoarseToFineRetriever(index, lookup=lookup), FusedGranularityRetriever(index, 8, words)]

    def hits(self, retriever: BaseRetriever, question: str) -> list[Any]:
        if self.place.is_async:
            return asyncio.run(retriever.aretrieve(question))
        return retriever.retrieve(question)

    def assert_holds(self, documents: Sequence[Document]) -> None:
        """Rows, vectors and hits are those of these documents, and there is nothing else."""
        nodes = {node.node_id: node for node in nodes_of(documents, *self.place.steps)}
        stored = self.store.client.get(include=["embeddings", "metadatas", "documents"])
        assert sorted(stored["ids"]) == sorted(nodes)
        for name, text, vector in zip(stored["ids"], stored["documents"], stored["embeddings"], strict=True):
            assert text == nodes[name].get_content(MetadataMode.NONE)
            assert np.allclose(vector, nodes[name].embedding, atol=1e-5)
        self._assert_hits(list(nodes.values()), documents)

    def _assert_hits(self, nodes: Sequence[BaseNode], documents: Sequence[Document]) -> None:
        """What is found is what is found in memory; where Chroma's graph is broken (see `worlds`), in a copy."""
        index = index_of(SimpleVectorStore(), nodes)
        lookup = SourceSliceLookup(load_docstore(self.place.state))
        fresh = [CoarseToFineRetriever(index, lookup=lookup), FusedGranularityRetriever(index, 8, LexicalIndex())]
        texts = {document.id_: document.text for document in documents}
        for mine, its in zip(self.retrievers(), fresh, strict=True):
            for question in QUESTIONS:
                found, expected = self.hits(mine, question), its.retrieve(question)
                if [hit.node_id for hit in found] != [hit.node_id for hit in expected]:
                    found = self._hits_of_a_copy(type(mine), question)
                assert_same(found, expected, within=2e-3)
                assert all(hit.text in texts[hit.node.ref_doc_id] for hit in found)

    def _hits_of_a_copy(self, kind: type, question: str) -> list[Any]:
        columns = ["embeddings", "documents", "metadatas"]
        stored = self.store.client.get(include=columns)
        copy = self.client.create_collection(uuid.uuid4().hex)
        copy.add(ids=stored["ids"], **{column: stored[column] for column in columns})
        try:
            (retriever,) = (e for e in self.retrievers(ChromaVectorStore(chroma_collection=copy)) if type(e) is kind)
            return retriever.retrieve(question)
        finally:
            self.client.delete_collection(copy.name)

    def assert_never_wrong(self, versions: range) -> int:
        """Whatever state the stores are in, each hit says what a version of its document says."""
        texts: dict[str, list[str]] = {}
        for version in versions:
            for document in corpus(version):
                texts.setdefault(document.id_, []).append(document.text)
        seen = 0
        for retriever in self.retrievers():
            for question in QUESTIONS:
                for hit in self.hits(retriever, question):
                    assert any(hit.text in text for text in texts[hit.node.ref_doc_id])
                    seen += 1
        return seen


def sync_until_killed(place: LevelPlace, version: int, started: Any) -> None:
    """What a process does that is about to die."""
    world = LevelWorld(place)
    started.send(True)
    world.sync(corpus(version))
    world.retrievers()[1].retrieve(QUESTIONS[0])  # which reads the words of new rows
    started.send(True)
