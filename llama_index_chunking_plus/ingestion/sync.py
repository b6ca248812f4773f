"""Ingestion that can be trusted: after every run the stores hold exactly what the documents say, or the next run sees to it.

A document goes through the transformations first and is replaced afterwards. Before its rows are touched it is marked as
unfinished; only when they all stand in the vector store is it recorded: digest of its content, digest of the
transformations, ids of its rows. The next run compares these three with what it finds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, NodeRelationship, RelatedNodeInfo, TransformComponent
from llama_index.core.utils import get_tqdm_iterable
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.errors import OptionError, StoreMismatchError
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations, hash_document
from llama_index_chunking_plus.ingestion.ledger import UNFINISHED, Ledger, Record, exclusive, load_docstore
from llama_index_chunking_plus.storage.stores import (
    delete_rows,
    max_batch_size,
    pages,
    rows_by_document,
    vector_dimension,
)

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]

_BATCH_DOCUMENTS = 256
_BATCH_CHARS = 200_000
_MEDIA = ("image_resource", "audio_resource", "video_resource")


@dataclass(frozen=True)
class SyncReport:
    """What a sync did to each document, by document id in the order of the call.

    Args:
        added: seen for the first time.
        updated: its content or the transformations changed.
        unchanged: nothing was parsed, embedded or written.
        repaired: unchanged, but its rows or records were incomplete, and made again.
        deleted: no longer among the documents (only with ``delete_missing``).
        nodes_written: rows added to the vector store.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    nodes_written: int = 0

    @property
    def changed(self) -> tuple[str, ...]:
        """Every document that was written or deleted; empty if the stores were left as they were."""
        return self.added + self.updated + self.repaired + self.deleted


def sync_documents(
    documents: Sequence[Document],
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    delete_missing: bool = False,
    batch_size: int | None = None,
    show_progress: bool = False,
    on_progress: Progress | None = None,
) -> SyncReport:
    """Make docstore and vector store hold exactly what these documents say, whatever happened before.

    Documents are told apart by ``id_``, which must be the same in every run (LlamaIndex makes up a new one where none is
    given). Rows in the vector store that belong to one of these documents are owned by the sync: strays are replaced.
    The pipeline's transformations, stores and name are used; its cache, its strategy and its own documents are not. Without
    a vector store the documents are transformed and recorded, and the nodes are not kept.

    Args:
        documents: all documents, or some; blank ones are recorded and have no rows.
        pipeline: ends in an embedding model if it has a vector store. Its docstore holds documents and records.
        persist_dir: where a docstore in memory is saved as it goes, and read from if the pipeline's is empty or None.
        delete_missing: delete the recorded documents that are not among ``documents``.
        batch_size: most documents that are transformed and written together; by default 256, and 200,000 characters.
        show_progress: show a progress bar over the batches.
        on_progress: called with the number of documents done, and of all.

    Raises:
        OptionError: no docstore and no ``persist_dir``; an id twice; a document that is a piece of another one; nodes
            without embedding or without document; node ids that two documents share.
        StoreBusyError: another sync writes to ``persist_dir``.
        StoreMismatchError: the vector store takes vectors of another length only.
        Exception: whatever a transformation or a store raises, after what is complete was saved.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> from llama_index_chunking_plus.ingestion import sync_documents
        >>> pipeline = IngestionPipeline(
        ...     transformations=[SentenceSplitter(), MockEmbedding(embed_dim=8)],
        ...     docstore=SimpleDocumentStore(),
        ...     vector_store=SimpleVectorStore(),
        ... )
        >>> sync_documents([Document(id_="a", text="一。"), Document(id_="b", text="二。")], pipeline).added
        ('a', 'b')
        >>> sync_documents([Document(id_="a", text="一!"), Document(id_="b", text="二。")], pipeline)
        SyncReport(added=(), updated=('a',), unchanged=('b',), repaired=(), deleted=(), nodes_written=1)
    """
    sync = _Sync(documents, pipeline, persist_dir, delete_missing, batch_size, show_progress, on_progress)
    with sync.session():
        return run(sync.plan())


async def async_sync_documents(
    documents: Sequence[Document],
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    delete_missing: bool = False,
    batch_size: int | None = None,
    show_progress: bool = False,
    on_progress: Progress | None = None,
) -> SyncReport:
    """`sync_documents`, awaited; what has no async form of its own runs in a thread, so the event loop stays free."""
    sync = _Sync(documents, pipeline, persist_dir, delete_missing, batch_size, show_progress, on_progress)
    with sync.session():
        return await arun(sync.plan())


@dataclass(frozen=True)
class _Request:
    """A call that the plan waits for."""

    call: Callable[[], Any]
    async_call: Callable[[], Awaitable[Any]] | None = None

    def run(self) -> Any:
        return self.call()

    async def arun(self) -> Any:
        if self.async_call is not None:
            return await self.async_call()
        task = asyncio.ensure_future(asyncio.to_thread(self.call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])  # a thread cannot be stopped: its writing must be over before anyone goes on
            raise


_Steps = Generator[_Request, Any, Any]


class _Sync:
    """One run: what it was given, what it found, and the steps it takes."""

    def __init__(
        self,
        documents: Sequence[Document],
        pipeline: IngestionPipeline,
        persist_dir: str | Path | None,
        delete_missing: bool,
        batch_size: int | None,
        show_progress: bool,
        on_progress: Progress | None,
    ) -> None:
        _check_documents(documents)
        if pipeline.docstore is None and persist_dir is None:
            raise OptionError("the pipeline has no docstore: pass persist_dir=..., or IngestionPipeline(docstore=...)")
        if batch_size is not None and batch_size < 1:
            raise OptionError(f"batch_size={batch_size} is below 1; leave it out for batches of {_BATCH_DOCUMENTS}")
        self._documents = {document.id_: document for document in documents}
        self._pipeline = pipeline
        self._dir = None if persist_dir is None else Path(persist_dir)
        self._delete_missing = delete_missing
        self._batch_size = batch_size or _BATCH_DOCUMENTS
        self._show_progress = show_progress
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._ledger: Ledger | None = None
        self._nodes_written = 0

    @contextmanager
    def session(self) -> Iterator[None]:
        """Hold ``persist_dir``; if the run fails, save what it has completed."""
        with exclusive(self._dir):
            try:
                yield
            except BaseException:
                if self._ledger is not None:
                    self._ledger.save()
                raise
