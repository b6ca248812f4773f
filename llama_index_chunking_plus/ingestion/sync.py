"""Ingestion that can be trusted: the stores hold exactly what the documents say, or the next run sees to it.

A document goes through the transformations first and is replaced afterwards. Before its rows are touched it is marked
as unfinished; only when they all stand in the vector store is it recorded: digest of its content, digest of the
transformations, ids of its rows. The next run compares these three with what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document

from llama_index_chunking_plus.core.plan import arun, run
from llama_index_chunking_plus.ingestion.run import State, SyncRun, listed


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
    documents: Iterable[Document],
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    delete_missing: bool = False,
    batch_size: int | None = None,
    show_progress: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> SyncReport:
    """Make docstore and vector store hold exactly what these documents say, whatever happened before.

    Documents are told apart by ``id_``, which must be the same in every run (LlamaIndex makes up a new one where none
    is given). The rows of these documents in the vector store are owned by the sync: what it did not write is removed.
    The pipeline's transformations, stores and name are used; its cache, strategy, readers and own documents are not.
    Without a vector store the documents are transformed and recorded, and the nodes are not kept. A vector store in
    memory is the caller's to persist; one that comes back empty is filled again.

    Every option of the transformations counts: if one changed since the last run, all documents are made again. What
    changes while a component works, such as a counter, belongs in a ``PrivateAttr``; else a warning names it. A vector
    that is empty, not finite, all zeros or of another length than the rest ends the run before its document is changed;
    so does metadata that the vector store cannot take. Those ahead of that document are stored.

    Args:
        documents: all documents, or some, listed once; blank ones are recorded and have no rows.
        pipeline: ends in an embedding model if it has a vector store. Its docstore holds documents and records.
        persist_dir: where a docstore in memory is saved as it goes, and read from if the pipeline's is empty or None.
        delete_missing: delete the recorded documents that are not among ``documents``.
        batch_size: how many documents are transformed and written together, however long they are; by default as many
            as have 200,000 characters, at most 256. A batch is held in memory; a run that is killed loses that much.
        show_progress: show a progress bar over the batches.
        on_progress: called with the number of documents done, and of all.

    Raises:
        OptionError: an argument of another kind; no docstore and no ``persist_dir``; no folder can be made there; an
            empty id, one twice, or one with a lone surrogate; a piece of a document; nodes without embedding or
            document; node ids that two documents share; metadata that the vector store cannot take.
        StoreBusyError: another sync writes to ``persist_dir``.
        EmbeddingError: the embedding model gave a vector that cannot be used.
        StoreMismatchError: the vector store holds vectors of another length.
        Exception: whatever a transformation or a store raises, after what is complete was saved. If it is a document
            that cannot be transformed, the error's ``__notes__`` and the log name it: those ahead of it are stored.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> stores = {"docstore": SimpleDocumentStore(), "vector_store": SimpleVectorStore()}
        >>> pipeline = IngestionPipeline(transformations=[SentenceSplitter(), MockEmbedding(embed_dim=8)], **stores)
        >>> sync_documents([Document(id_="a", text="一。"), Document(id_="b", text="二。")], pipeline).added
        ('a', 'b')
        >>> sync_documents([Document(id_="a", text="一!"), Document(id_="b", text="二。")], pipeline)
        SyncReport(added=(), updated=('a',), unchanged=('b',), repaired=(), deleted=(), nodes_written=1)
    """
    sync = SyncRun(listed(documents), pipeline, persist_dir, delete_missing, batch_size, show_progress, on_progress)
    with sync.session():
        run(sync.plan())
    return _report(sync)


async def async_sync_documents(
    documents: Iterable[Document],
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    delete_missing: bool = False,
    batch_size: int | None = None,
    show_progress: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> SyncReport:
    """`sync_documents`, awaited; what has no async form of its own runs in a thread, so the event loop stays free."""
    sync = SyncRun(listed(documents), pipeline, persist_dir, delete_missing, batch_size, show_progress, on_progress)
    with sync.session():
        await arun(sync.plan())
    return _report(sync)


def _report(sync: SyncRun) -> SyncReport:
    by_state = {
        state.value: tuple(document_id for document_id, its in sync.states.items() if its is state) for state in State
    }
    return SyncReport(**by_state, nodes_written=sync.nodes_written)
