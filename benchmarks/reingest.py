"""One of 2,000 documents changed: sync_documents against IngestionPipeline, with its cache and with a docstore.

A cache is keyed by the whole batch, so all is done again. A docstore tells which document changed, by hashes of the
documents alone: whether the rows are there, and whether the transformations are the same, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from statistics import median
from typing import Any

from llama_index.core import Document, MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from timing import distinct, seconds

from llama_index_chunking_plus import sync_documents

N_DOCUMENTS = 2_000
SIZES = (400, 900, 1_500, 2_600)  # characters


def documents() -> list[Document]:
    """1 to 8 kB each."""
    text = distinct(0.5)
    made = []
    for i in range(N_DOCUMENTS):
        start = i * 7_919 % (len(text) - max(SIZES))
        made.append(Document(id_=f"d{i}", text=f"第{i}份。" + text[start : start + SIZES[i % len(SIZES)]]))
    return made


def pipeline(**options: Any) -> IngestionPipeline:
    steps = [SentenceSplitter(chunk_size=512, chunk_overlap=64), MockEmbedding(embed_dim=64)]
    return IngestionPipeline(transformations=steps, vector_store=SimpleVectorStore(), **options)


def changed() -> dict[str, float]:
    """The three take turns; at each turn all were run on what then changes."""
    synced = pipeline(docstore=SimpleDocumentStore(), disable_cache=True)
    cached, stored = pipeline(), pipeline(docstore=SimpleDocumentStore())
    ways: dict[str, Callable[[Sequence[Document]], Any]] = {
        "ours": lambda given: sync_documents(given, synced),
        "cache": lambda given: cached.run(documents=given),
        "docstore": lambda given: stored.run(documents=given),
    }
    given, numbers = documents(), count()
    for way in ways.values():
        way(given)
    turns = []
    for _ in range(5):
        i = next(numbers) * 397
        given[i] = Document(id_=f"d{i}", text=f"{given[i].text}改过了。")
        turns.append([seconds(lambda: way(given)) for way in ways.values()])  # noqa: B023
    return {
        "ms": 1000 * median(own for own, _, _ in turns),
        "times as fast as a pipeline with a cache": median(cache / own for own, cache, _ in turns),
        "times as fast as a pipeline with a docstore": median(docstore / own for own, _, docstore in turns),
    }
