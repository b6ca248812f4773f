"""What small-to-big adds to its own vector query, and AutoMergingRetriever on the same store; bytes of windows."""

from __future__ import annotations

import hashlib
import tempfile
import uuid

import chromadb
import numpy as np
from llama_index.core import Document, MockEmbedding, QueryBundle, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import NodeParser, SentenceWindowNodeParser
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import NodeRelationship
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.chroma import ChromaVectorStore
from timing import median_seconds, seconds

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    ParentExpansionPostprocessor,
    SmallToBigNodeParser,
    SmallToBigRetriever,
    SourceSliceLookup,
    chinese_sentence_tokenizer,
)
from llama_index_chunking_plus.samples import sample_paths

K = 50
DIMENSIONS = 64


def vector(text: str) -> list[float]:
    """A direction that depends on the text and on nothing else."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).normal(size=DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).tolist()


def corpus(children: int) -> list[Document]:
    """Documents of about fifty children each, no two alike."""
    once = "".join(path.read_text(encoding="utf-8") for path in sample_paths())
    size = 50 * 320
    starts = ((i * 7919) % (len(once) - size) for i in range(children // 50 + 1))
    return [Document(id_=f"d{i}", text=f"第{i}份。" + once[at : at + size]) for i, at in enumerate(starts)]


class Store:
    """Children in Chroma; their documents, and for AutoMergingRetriever all nodes, in docstores."""

    def __init__(self, n_children: int, folder: str) -> None:
        documents = corpus(n_children)
        nodes = SmallToBigNodeParser(emit="both").get_nodes_from_documents(documents)
        self.children = [node for node in nodes if NodeRelationship.CHILD not in node.relationships][:n_children]
        for node in self.children:
            about = node.relationships[NodeRelationship.PARENT].node_id  # children of one parent speak of one thing
            node.embedding = np.add(vector(about), np.multiply(0.7, vector(node.get_content()))).tolist()
        self.documents, every_node = SimpleDocumentStore(), SimpleDocumentStore()
        self.documents.add_documents(documents)
        every_node.add_documents(nodes)
        collection = chromadb.PersistentClient(folder).create_collection("children")
        store = ChromaVectorStore(chroma_collection=collection)
        for at in range(0, len(self.children), 1000):
            store.add(self.children[at : at + 1000])
        context = StorageContext.from_defaults(vector_store=store, docstore=every_node)
        index = VectorStoreIndex(nodes=[], storage_context=context, embed_model=MockEmbedding(embed_dim=DIMENSIONS))
        self.flat = index.as_retriever(similarity_top_k=K)
        self.ours = SmallToBigRetriever(self.flat, SourceSliceLookup(self.documents))
        self.expansion = ParentExpansionPostprocessor(lookup=SourceSliceLookup(self.documents))
        self.theirs = AutoMergingRetriever(self.flat, context, verbose=False)

    def queries(self, count: int) -> list[QueryBundle]:
        """Near the vectors of children that lie all over the store."""
        step = max(1, len(self.children) // count)
        drawn = np.random.default_rng(0).normal(size=(count, DIMENSIONS)) * 0.05
        asked = (node.embedding or [] for node in self.children[::step])
        return [QueryBundle("", embedding=(np.add(one, by)).tolist()) for one, by in zip(asked, drawn, strict=False)]


def added(n_children: int) -> dict[str, float]:
    """Medians over the queries; what is compared takes turns at each query, and its median of three counts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = Store(n_children, folder)
        queries = store.queries(60)
        hits = [store.flat.retrieve(query) for query in queries]
        runs = [
            (
                median_seconds(lambda: store.flat.retrieve(query), 3, tidy=False),  # noqa: B023
                median_seconds(lambda: store.expansion.postprocess_nodes(found), 3, tidy=False),  # noqa: B023
                median_seconds(lambda: store.ours.retrieve(query), 3, tidy=False),  # noqa: B023
                median_seconds(lambda: store.theirs.retrieve(query), 3, tidy=False),  # noqa: B023
            )
            for query, found in zip(queries, hits, strict=True)
        ]
    flat, expansion, ours, theirs = np.array(runs).T
    return {
        f"ms for a vector query, {K} of {n_children} children": 1000 * float(np.median(flat)),
        "ms that parents add to it": 1000 * float(np.median(expansion)),
        "times as fast as AutoMergingRetriever": float(np.median(theirs / ours)),
    }


def bytes_in_chroma(parser: NodeParser) -> int:
    """All that Chroma keeps of the bundled documents' nodes but their vectors: metadata and texts."""
    documents = [Document(id_=path.name, text=path.read_text(encoding="utf-8")) for path in sample_paths()]
    nodes = parser.get_nodes_from_documents(documents)
    for node in nodes:
        node.embedding = [1.0, 0.0]
    collection = chromadb.EphemeralClient().create_collection(f"bytes-{uuid.uuid4().hex}")
    store = ChromaVectorStore(chroma_collection=collection)
    for at in range(0, len(nodes), 1000):
        store.add(nodes[at : at + 1000])
    kept = collection.get(include=["metadatas", "documents"])
    metadata = sum(len(f"{key}{value}".encode()) for row in kept["metadatas"] or () for key, value in row.items())
    return metadata + sum(len(text.encode()) for text in kept["documents"] or ())


def window_bytes() -> dict[str, float]:
    peer = bytes_in_chroma(SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer, window_size=3))
    ours = {store: bytes_in_chroma(ChineseSentenceWindowNodeParser(store=store)) for store in ("text", "span")}
    return {f"bytes in Chroma, {store}, of SentenceWindowNodeParser's": size / peer for store, size in ours.items()}


def window_speed() -> dict[str, float]:
    documents = [Document(text="\n\n".join(path.read_text(encoding="utf-8") for path in sample_paths()) * 10)]
    ours, peer = (
        ChineseSentenceWindowNodeParser(),
        SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer),
    )
    pairs = [(seconds(lambda: peer(documents)), seconds(lambda: ours(documents))) for _ in range(5)]
    return {"times as fast as SentenceWindowNodeParser": float(np.median([theirs / mine for theirs, mine in pairs]))}


def windows() -> dict[str, float]:
    return {**window_bytes(), **window_speed()}
