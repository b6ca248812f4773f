"""Documents parsed and embedded by two local Ray workers, into Chroma, safe to repeat.

usage: pip install 'llama-index-chunking-plus[chroma,local,ray]' && python ray_ingestion.py [--store DIR | --port PORT]

`RayIngestionPipeline` transforms; which documents changed, and what is stored of them, is the part of `sync_documents`.
The docstore of `RayIngestionPipeline` itself (0.3.0) ends in a TypeError after the rows are written.
"""  # noqa: INP001  a script

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import chromadb
import ray
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import run_transformations
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.ingestion.ray import RayIngestionPipeline, RayTransformComponent
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus import HybridNodeParser, OfflineEmbedding, sync_documents
from llama_index_chunking_plus.samples import sample_paths


class InOrder(TransformComponent):
    """Several transformations as one, so that one worker takes a document all the way from text to vectors."""

    transformations: list[TransformComponent]

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Apply them here, one after another."""
        return run_transformations(nodes, self.transformations)


class OnRay(InOrder):
    """The same in Ray workers. `sync_documents` sees every option of the transformations, and not how many workers."""

    num_workers: int = 2

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Apply them there, to whole documents; a worker that is free takes the next ones."""
        # workers of a run that failed live on until its traceback is forgotten: they must not hold the processors
        workers = {"compute": ray.data.ActorPoolStrategy(size=self.num_workers), "num_cpus": 0, "batch_size": None}
        step = RayTransformComponent(InOrder, transformations=self.transformations, map_batches_kwargs=workers)
        return RayIngestionPipeline(transformations=[step]).run(nodes=nodes)


def start_ray(**options: Any) -> None:
    """A quiet Ray on this machine, whose results come in the order of the documents."""
    local = {"num_cpus": 2, "object_store_memory": 200_000_000, "include_dashboard": False}
    ray.init(**{**local, "logging_level": "error", "log_to_driver": False, **options})
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False


def main() -> None:
    """Ingest the bundled documents twice, and ask one question."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "ray-store")
    arguments.add_argument("--port", type=int, help="of a Chroma served on this machine: chroma run --port 8000")
    options = arguments.parse_args()
    client = chromadb.HttpClient(port=options.port) if options.port else chromadb.PersistentClient(options.store)
    store = ChromaVectorStore(chroma_collection=client.get_or_create_collection("chunks"))
    model = OfflineEmbedding()
    parser = HybridNodeParser.from_defaults(model, max_chunk_size=410)
    pipeline = IngestionPipeline(transformations=[OnRay(transformations=[parser, model])], vector_store=store)
    documents = [Document(id_=path.name, text=path.read_text(encoding="utf-8")) for path in sample_paths()]
    start_ray()
    try:
        for _ in range(2):
            report = sync_documents(
                documents,
                pipeline,
                persist_dir=options.store / "documents",
                delete_missing=True,
                batch_size=10_000,  # workers start with every batch
            )
            print(len(report.changed), "documents changed,", report.nodes_written, "rows written")  # noqa: T201
    finally:
        ray.shutdown()
    retriever = VectorStoreIndex.from_vector_store(store, embed_model=model).as_retriever(similarity_top_k=3)
    for hit in retriever.retrieve("病假工资怎么发？"):
        print(hit.node.ref_doc_id, hit.node.start_char_idx, hit.node.end_char_idx, f"{hit.score:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
