"""One run of a sync: look at what there is, replace what differs, delete what is gone."""

from __future__ import annotations

import logging
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, Document
from llama_index.core.utils import get_tqdm_iterable
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.options import is_whole
from llama_index_chunking_plus.core.plan import Call
from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations, hash_document
from llama_index_chunking_plus.ingestion.ledger import (
    UNFINISHED,
    Ledger,
    Record,
    exclusive,
    load_docstore,
    to_directory,
)
from llama_index_chunking_plus.ingestion.rows import NodesByDocument, RowBook, stored_length
from llama_index_chunking_plus.ingestion.steps import add_rows, delete_unlisted, put_rows, transform
from llama_index_chunking_plus.node_parser.options import checked_documents
from llama_index_chunking_plus.storage.stores import (
    can_replace,
    delete_rows,
    ids_of_documents,
    max_batch_size,
    pages,
    rows_by_document,
    settle,
)

logger = logging.getLogger(__name__)

Steps = Generator[Call, Any, None]

_BATCH_DOCUMENTS = 256
_BATCH_CHARS = 200_000
_MEDIA = ("image_resource", "audio_resource", "video_resource")


class State(Enum):
    """How a document stands against what is recorded and stored."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REPAIRED = "repaired"
    DELETED = "deleted"


@dataclass(frozen=True)
class Survey:
    """What was found before anything was changed."""

    records: dict[str, Record]
    recipe: str  # digest of the transformations
    contents: dict[str, str]  # digest of each document
    held: dict[str, list[str]] | None  # ids of each document's rows; None if the store cannot tell


@dataclass
class SyncRun:
    """What a sync was given, what it found, and the steps it takes.

    The arguments are those of `sync_documents`; ``unwanted`` are the ids of documents to delete, recorded or not.
    """

    documents: Sequence[Document]
    pipeline: IngestionPipeline
    persist_dir: str | Path | None
    delete_missing: bool
    batch_size: int | None
    show_progress: bool
    on_progress: Callable[[int, int], None] | None
    unwanted: Sequence[str] = ()
    states: dict[str, State] = field(init=False, default_factory=dict)
    nodes_written: int = field(init=False, default=0)
    removed: Counter[str] = field(init=False, default_factory=Counter)
    _ledger: Ledger = field(init=False)
    _found: Survey = field(init=False)
    _rows: RowBook = field(init=False)
    _done: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        _check_documents(self.documents)
        self._check_options()
        if not isinstance(self.pipeline, IngestionPipeline):
            raise OptionError(
                f"pipeline={reprlib.repr(self.pipeline)} is no IngestionPipeline; pass "
                "IngestionPipeline(transformations=[parser, embedding model], vector_store=...)"
            )
        if self.pipeline.docstore is None and self.persist_dir is None:
            raise OptionError("the pipeline has no docstore: pass persist_dir=..., or IngestionPipeline(docstore=...)")
        self._dir = None if self.persist_dir is None else to_directory(self.persist_dir)

    def _check_options(self) -> None:
        size, progress = self.batch_size, self.on_progress
        if size is not None and not is_whole(size, least=1):
            raise OptionError(f"batch_size={size!r} is no whole number from 1; leave it out for {_BATCH_DOCUMENTS}")
        if progress is not None and not callable(progress):
            raise OptionError(f"on_progress={progress!r} cannot be called; pass a function of (done, total), or None")
        for name in ("delete_missing", "show_progress"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r} is neither True nor False; pass one of them")

    @contextmanager
    def session(self) -> Iterator[None]:
        """Hold ``persist_dir``; if the run fails, save what it has completed."""
        with exclusive(self._dir):
            try:
                yield
            except BaseException:
                if hasattr(self, "_ledger"):
                    self._ledger.save()
                raise

    def plan(self) -> Steps:
        """All steps of the run."""
        yield Call(self._survey)
        work = [document for document in self.documents if self.states[document.id_] is not State.UNCHANGED]
        self._progress(len(self.documents) - len(work))
        digests = self._digests() if work else []
        batches = list(_batches(work) if self.batch_size is None else pages(work, self.batch_size))
        for batch in get_tqdm_iterable(batches, self.show_progress, "Syncing documents"):
            yield from self._replace(batch)
        gone = [document_id for document_id, state in self.states.items() if state is State.DELETED]
        for page in pages(gone, _BATCH_DOCUMENTS):
            yield from self._delete(page)
        yield Call(self._ledger.save)
        if work:
            self._warn_of_changes(digests)

    def _survey(self) -> None:
        docstore = self.pipeline.docstore
        if docstore is None:
            docstore = load_docstore(self._dir or "")  # there is a docstore or a directory
        self._ledger = Ledger(docstore, self.pipeline.name, self._dir)
        records = self._ledger.open()
        contents = {document.id_: hash_document(document) for document in self.documents}
        missing = [document_id for document_id in records if document_id not in contents] if self.delete_missing else []
        owners = {row: document_id for document_id, record in records.items() for row in record.rows}
        store = self.pipeline.vector_store
        if store is not None and UNFINISHED in records.values():
            settle(store)
        if self.delete_missing and store is not None:  # also what no record knows
            missing += [
                each for each in ids_of_documents(store, owners) or [] if each not in contents and each not in records
            ]
        gone = [*missing, *self.unwanted]
        self._found = Survey(
            records=records,
            recipe=fingerprint_transformations(self.pipeline.transformations),
            contents=contents,
            held=None if store is None else _rows_held(store, [*contents, *gone], owners, records),
        )
        self.states = {document_id: self._judge(document_id) for document_id in contents}
        self.states.update({document_id: State.DELETED for document_id in gone if self._is_stored(document_id)})
        length = stored_length(store, lambda owner: self.states.get(owner) in {None, State.UNCHANGED})
        self._rows = RowBook(store, owners, length)

    def _is_stored(self, document_id: str) -> bool:
        """Whether any store has, or may have, something of the document."""
        rows = True if self._found.held is None else self._found.held[document_id]
        return bool(rows) or document_id in self._found.records or self._ledger.has_entries(document_id)

    def _judge(self, document_id: str) -> State:
        found, record = self._found, self._found.records.get(document_id)
        rows = None if found.held is None else set(found.held[document_id])
        known = self._ledger.has_text(document_id)
        if record is None:
            return State.REPAIRED if rows or known else State.ADDED
        if record == UNFINISHED or not known:
            return State.REPAIRED
        if (record.content, record.recipe) != (found.contents[document_id], found.recipe):
            return State.UPDATED
        return State.UNCHANGED if rows is None or rows == set(record.rows) else State.REPAIRED

    def _replace(self, batch: Sequence[Document]) -> Steps:
        """Replace the documents; if one cannot be transformed, those ahead of it are replaced all the same."""
        try:
            nodes = yield from self._transform(batch)
        except Exception as error:
            if len(batch) == 1:
                note = f"Document {batch[0].id_!r} cannot be transformed; what is stored of it stays."
                logger.warning(note)
                _add_note(error, note)
                raise
        else:
            yield from self._write(batch, nodes)
            return
        for half in pages(batch, -(-len(batch) // 2)):
            yield from self._replace(half)

    def _transform(self, batch: Sequence[Document]) -> Generator[Call, Any, list[BaseNode]]:
        nodes: list[BaseNode] = [document.model_copy(deep=True) for document in batch if not _is_blank(document)]
        for transformation in self.pipeline.transformations:
            if nodes:
                nodes = list((yield transform(transformation, nodes)) or [])
        return nodes

    def _write(self, batch: Sequence[Document], nodes: Sequence[BaseNode]) -> Steps:
        """Replace the documents; if the store cannot take a node of one, only those ahead of it."""
        rows = self._rows.assign([document.id_ for document in batch], nodes)
        sound, error = yield Call(partial(self._rows.split_at_fault, rows))
        if sound:
            yield from self._exchange(batch[: len(sound)], sound)
        if error:
            raise error

    def _exchange(self, batch: Sequence[Document], rows: NodesByDocument) -> Steps:
        """Swap the rows of these documents for the nodes, between a mark that says so and the record that ends it."""
        yield Call(partial(self._ledger.begin, list(rows)))
        yield from self._swap(list(rows), [node for nodes in rows.values() for node in nodes])
        records = {
            document_id: Record(
                self._found.contents[document_id], self._found.recipe, tuple(node.node_id for node in nodes)
            )
            for document_id, nodes in rows.items()
        }
        yield Call(partial(self._ledger.finish, batch, records))
        yield Call(self._ledger.save_if_due)
        self._progress(len(batch))

    def _swap(self, document_ids: Sequence[str], nodes: Sequence[BaseNode]) -> Steps:
        """New rows, then those that replace a row of the same id, then away with the old: a refusal leaves these."""
        store, held = self.pipeline.vector_store, self._found.held
        if store is None or held is None:
            yield from self._delete_rows(document_ids)
            yield from self._add(nodes)
            return
        old = {row_id for document_id in document_ids for row_id in held[document_id]}
        same = [node for node in nodes if node.node_id in old]
        yield from self._add([node for node in nodes if node.node_id not in old])
        if can_replace(store):
            yield from self._add(same, put_rows)
            yield from self._delete_rows(document_ids, keep={node.node_id for node in same})
        else:
            yield from self._delete_rows(document_ids)
            yield from self._add(same)

    def _add(self, nodes: Sequence[BaseNode], put: Callable[..., Call] = add_rows) -> Steps:
        store = self.pipeline.vector_store
        if store is None:
            return
        for page in pages(nodes, max_batch_size(store)):
            yield put(store, page)
            self.nodes_written += len(page)

    def _delete_rows(self, document_ids: Sequence[str], keep: Collection[str] = ()) -> Steps:
        store, held = self.pipeline.vector_store, self._found.held
        if store is not None and held is not None:
            rows = [row for document_id in document_ids for row in held[document_id] if row not in keep]
            yield Call(partial(delete_rows, store, rows))
        elif store is not None:
            for document_id in document_ids:
                yield from self._delete_unlisted(store, document_id)

    def _delete_unlisted(self, store: BasePydanticVectorStore, document_id: str) -> Steps:
        try:
            yield delete_unlisted(store, document_id)
        except Exception as error:
            if document_id in self._found.records:
                raise
            logger.debug("No rows of new document %r to delete, perhaps no collection yet: %s", document_id, error)

    def _rows_of(self, document_id: str) -> Sequence[str]:
        """The rows that the document had; where the store cannot tell, those that were recorded."""
        if self._found.held is not None:
            return self._found.held[document_id]
        return self._found.records.get(document_id, UNFINISHED).rows

    def _delete(self, document_ids: Sequence[str]) -> Steps:
        yield Call(partial(self._ledger.begin, document_ids))
        yield from self._delete_rows(document_ids)
        self.removed += yield Call(partial(self._ledger.forget, document_ids))
        self.removed["rows"] += sum(len(self._rows_of(document_id)) for document_id in document_ids)
        self.removed["records"] += sum(document_id in self._found.records for document_id in document_ids)
        yield Call(self._ledger.save_if_due)

    def _digests(self) -> list[str]:
        return [fingerprint_transformations([transformation]) for transformation in self.pipeline.transformations]

    def _warn_of_changes(self, before: Sequence[str]) -> None:
        """Warn of transformations whose options are not what they were ahead of the run."""
        pairs = zip(self.pipeline.transformations, before, self._digests(), strict=False)
        changed = dict.fromkeys(type(each).__name__ for each, old, new in pairs if old != new)
        if changed:
            warnings.warn(
                f"The options of {', '.join(changed)} changed while the documents were transformed, and every sync "
                "that finds other options makes all documents again. Keep counters and caches in a PrivateAttr.",
                ChunkingPlusWarning,
                stacklevel=2,
            )

    def _progress(self, documents: int) -> None:
        self._done += documents
        if self.on_progress is not None:
            self.on_progress(self._done, len(self.documents))


def listed(documents: Iterable[Document]) -> list[Document]:
    """The documents as a list; each must be a document with an id.

    Raises:
        OptionError: no list of documents, or a document has no usable id.
    """
    every = checked_documents(documents)
    for position, document in enumerate(every):
        if not is_id(document.id_):
            raise OptionError(
                f"documents[{position}] has the id {document.id_!r}, under which it can be neither found nor deleted; "
                "give it a text that is the same in every run: Document(id_=..., text=...)"
            )
        check_characters(f"documents[{position}].id_", document.id_)
    return every


def _add_note(error: Exception, note: str) -> None:
    """As ``add_note`` of Python 3.11; 3.10 keeps the note, and leaves it out of tracebacks."""
    error.__dict__["__notes__"] = [*getattr(error, "__notes__", ()), note]


def is_id(value: object) -> bool:
    """Whether every store can find a document under this id."""
    return isinstance(value, str) and bool(value)


def check_characters(name: str, document_id: str) -> None:
    """Refuse an id that no store can encode.

    Raises:
        OptionError: it holds a lone surrogate, as the name of a file does that is not UTF-8.
    """
    if not _is_encodable(document_id):
        raise OptionError(
            f"{name}={document_id!r} holds a lone surrogate, as names of files that are not UTF-8 do, and stores take "
            "valid Unicode; use another id, such as the name of the file after it was renamed to UTF-8"
        )


def _is_encodable(document_id: str) -> bool:
    return replace_surrogates(document_id) == document_id


def _rows_held(
    store: BasePydanticVectorStore,
    document_ids: Sequence[str],
    owners: Mapping[str, str],
    records: Mapping[str, Record],
) -> dict[str, list[str]] | None:
    """The rows of each document; of ids that stores refuse to look for, as older records may name, those recorded."""
    held = rows_by_document(store, list(filter(_is_encodable, document_ids)), owners)
    if held is None:
        return None
    return {each: held[each] if each in held else list(records.get(each, UNFINISHED).rows) for each in document_ids}


def _check_documents(documents: Sequence[Document]) -> None:
    """Refuse documents that cannot be told apart or be replaced.

    Raises:
        OptionError: an id comes twice, or a document is a piece of another one.
    """
    seen: set[str] = set()
    for document in documents:
        if document.id_ in seen:
            raise OptionError(f"two documents have the id {document.id_!r}; give each its own")
        if document.ref_doc_id is not None:
            raise OptionError(f"{document.id_!r} is a piece of {document.ref_doc_id!r}; pass whole documents")
        seen.add(document.id_)


def _batches(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """The documents in order, not many more at a time, nor characters, than are worth a batch."""
    batch: list[Document] = []
    chars = 0
    for document in documents:
        size = len(document.get_content())
        if batch and (len(batch) == _BATCH_DOCUMENTS or chars + size > _BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(document)
        chars += size
    if batch:
        yield batch


def _is_blank(document: Document) -> bool:
    return not document.get_content().strip() and not any(getattr(document, name, None) for name in _MEDIA)
