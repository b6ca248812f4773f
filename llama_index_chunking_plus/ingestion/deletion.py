"""All of a document out of every store, and a report of what that was."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.ingestion.ledger import remove_entries
from llama_index_chunking_plus.ingestion.run import SyncRun, check_characters, is_id
from llama_index_chunking_plus.storage.stores import delete_document_rows, rows_by_document

Store = BaseDocumentStore | BasePydanticVectorStore


@dataclass(frozen=True)
class DeleteReport:
    """What was removed of a document; all zeros if no store knew it.

    Args:
        document_id: the document.
        rows: rows of vector stores, of every level; where a store cannot list its rows, those that were recorded.
        texts: texts in docstores: the document's own, and those of the nodes kept with it.
        hashes: hashes in docstores, by which LlamaIndex knows what it has ingested.
        records: what `sync_documents` knew of it.
    """

    document_id: str
    rows: int = 0
    texts: int = 0
    hashes: int = 0
    records: int = 0

    @property
    def found(self) -> bool:
        """Whether there was anything to remove."""
        return any((self.rows, self.texts, self.hashes, self.records))


def delete_document(
    doc_id: str,
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    other_stores: Sequence[Store] = (),
) -> DeleteReport:
    """Remove everything of a document: rows, text, hashes and sync records; whatever else is stored stays as it is.

    An unknown id is no error: the report says zero everywhere. A call that failed, or was killed, can be repeated.
    What the pipeline's cache remembers of the document's text is not touched.

    Args:
        doc_id: the ``id_`` of the document.
        pipeline: its vector store, docstore and name are used, nothing else.
        persist_dir: as in `sync_documents`: where a docstore in memory is saved.
        other_stores: docstores and vector stores beside the pipeline's that hold something of it, such as parent nodes.

    Raises:
        OptionError: an argument of another kind; an empty id, or one with a lone surrogate; no docstore and no
            ``persist_dir``; no folder can be made there.
        StoreBusyError: a sync writes to ``persist_dir``.
        Exception: whatever a store raises.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> from llama_index_chunking_plus.ingestion import delete_document, sync_documents
        >>> pipeline = IngestionPipeline(
        ...     transformations=[SentenceSplitter(), MockEmbedding(embed_dim=8)],
        ...     docstore=SimpleDocumentStore(),
        ...     vector_store=SimpleVectorStore(),
        ... )
        >>> sync_documents([Document(id_="a", text="一。"), Document(id_="b", text="二。")], pipeline).added
        ('a', 'b')
        >>> delete_document("a", pipeline)
        DeleteReport(document_id='a', rows=1, texts=1, hashes=1, records=1)
        >>> delete_document("a", pipeline).found
        False
    """
    deletion = _deletion(doc_id, pipeline, persist_dir, other_stores)
    with deletion.session():
        return run(_plan(doc_id, deletion, other_stores))


async def async_delete_document(
    doc_id: str,
    pipeline: IngestionPipeline,
    *,
    persist_dir: str | Path | None = None,
    other_stores: Sequence[Store] = (),
) -> DeleteReport:
    """`delete_document`, awaited; the event loop stays free."""
    deletion = _deletion(doc_id, pipeline, persist_dir, other_stores)
    with deletion.session():
        return await arun(_plan(doc_id, deletion, other_stores))


def _deletion(
    doc_id: str, pipeline: IngestionPipeline, persist_dir: str | Path | None, other_stores: Sequence[Store]
) -> SyncRun:
    """A sync of no documents that has one to delete.

    Raises:
        OptionError: no id of a document, no list of stores, or what a sync would refuse.
    """
    if not is_id(doc_id):
        raise OptionError(f"doc_id={reprlib.repr(doc_id)} is no id of a document; pass one id_, a text, for each call")
    check_characters("doc_id", doc_id)
    stores = other_stores if isinstance(other_stores, list | tuple) else [None]
    if not all(isinstance(store, BaseDocumentStore | BasePydanticVectorStore) for store in stores):
        raise OptionError(
            f"other_stores={reprlib.repr(other_stores)} is no list of docstores and vector stores; pass a list: [store]"
        )
    return SyncRun([], pipeline, persist_dir, False, None, False, None, unwanted=[doc_id])


def _plan(doc_id: str, deletion: SyncRun, other_stores: Sequence[Store]) -> Plan[DeleteReport]:
    removed: Counter[str] = Counter()
    for store in other_stores:  # first: until the record is gone too, a repeated call knows that there is work left
        removed += yield Call(partial(_clear, store, doc_id))
    yield from deletion.plan()
    return DeleteReport(doc_id, **(removed + deletion.removed))


def _clear(store: Store, doc_id: str) -> Counter[str]:
    if isinstance(store, BaseDocumentStore):
        return remove_entries(store, doc_id)
    rows = rows_by_document(store, [doc_id]) or {doc_id: []}
    delete_document_rows(store, doc_id)
    return Counter(rows=len(rows[doc_id]))
