"""What is known about each document that was ingested, and how that survives a kill at any moment.

Records stand in the docstore beside its documents, in a collection of their own, so that they live and are persisted
together and a stock pipeline never takes them for documents. A docstore in memory is saved to a file from time to time;
between two saves a second, tiny file names the documents whose rows are being replaced. After a kill these count as
unfinished, whatever the older saved records say of them.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import TypeAdapter
from llama_index.core.ingestion.cache import DEFAULT_CACHE_NAME, IngestionCache
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.types import DEFAULT_PERSIST_FNAME, BaseDocumentStore
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_chunking_plus.core.options import folder_flaw
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError, StoreBusyError

logger = logging.getLogger(__name__)

_COLLECTION = "chunking_plus/sync"
_UNFINISHED_FILE = "sync.unfinished"
_LOCK_FILE = "sync.lock"
_as_json = partial(TypeAdapter(Any).dump_python, mode="json")  # dates in metadata and the like, as rows have them
_SAVING_SHARE = 10  # a save waits until work has taken ten times as long as the last save did


@dataclass(frozen=True)
class Record:
    """What a document was made into: digests of its content and of the transformations, and the ids of its rows."""

    content: str
    recipe: str
    rows: tuple[str, ...]


UNFINISHED = Record("", "", ())


class Ledger:
    """The records of one pipeline's documents.

    Args:
        docstore: holds documents and records; must be a key-value docstore.
        pipeline_name: keeps apart the records of several pipelines that share a docstore.
        persist_dir: where a docstore in memory is saved; None if nothing is to be saved.

    Raises:
        OptionError: the docstore has no key-value store for the records.
    """

    def __init__(self, docstore: BaseDocumentStore, pipeline_name: str, persist_dir: Path | None) -> None:
        store = getattr(docstore, "_kvstore", None)
        if not isinstance(store, BaseKVStore):
            raise OptionError(
                f"docstore {type(docstore).__name__} keeps no key-value store for the records of a sync; "
                "use a KVDocumentStore, such as SimpleDocumentStore"
            )
        self._docstore = docstore
        self._store = store
        self._collection = f"{_COLLECTION}/{pipeline_name}"
        self._dir = persist_dir
        self._unsaved = False
        self._saved_at = 0.0
        self._save_took = 0.0

    def open(self) -> dict[str, Record]:
        """All records; those of documents that a killed run left in between are `UNFINISHED`."""
        if self._dir is not None:
            _fill_if_empty(self._docstore, self._store, self._dir)
            for collection, document_id in _read_unfinished(self._dir / _UNFINISHED_FILE):
                self._store.put(document_id, asdict(UNFINISHED), collection=collection)
        saved = self._store.get_all(collection=self._collection)
        return {document_id: _to_record(row) for document_id, row in saved.items()}

    def has_text(self, document_id: str) -> bool:
        """Whether the docstore still knows the document."""
        return self._docstore.get_document_hash(document_id) is not None

    def begin(self, document_ids: Sequence[str]) -> None:
        """Note, before anything is replaced, that these documents are about to be."""
        self._unsaved = True
        if self._dir is not None:
            line = json.dumps({"collection": self._collection, "documents": list(document_ids)})
            with (self._dir / _UNFINISHED_FILE).open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")  # a line that a kill cut short stays a line of its own
                file.flush()
                os.fsync(file.fileno())
        self._put((document_id, UNFINISHED) for document_id in document_ids)

    def finish(self, documents: Sequence[BaseNode], records: Mapping[str, Record]) -> None:
        """Store the documents' texts and core's hashes, then the records that say that all is well."""
        for document in documents:
            self._docstore.delete_ref_doc(document.id_, raise_error=False)  # nodes kept there by others
        self._docstore.add_documents(documents)
        self._put(records.items())

    def has_entries(self, document_id: str) -> bool:
        """Whether the docstore holds anything of the document: text, hash, or nodes kept there by others."""
        return bool(docstore_entries(self._docstore, document_id).total())

    def forget(self, document_ids: Sequence[str]) -> Counter[str]:
        """Remove documents, core's hashes and records; how many texts and hashes there were."""
        removed: Counter[str] = Counter()
        for document_id in document_ids:
            removed += remove_entries(self._docstore, document_id)
            self._store.delete(document_id, collection=self._collection)
        return removed

    def save_if_due(self) -> None:
        """Save, unless that would take more than a tenth of the time since the last save."""
        if time.monotonic() - self._saved_at >= _SAVING_SHARE * self._save_took:
            self.save()

    def save(self) -> None:
        """Write the docstore to its file, if it changed and lives in memory; the file is old or new, never half."""
        if self._dir is None or not (self._unsaved or not (self._dir / DEFAULT_PERSIST_FNAME).exists()):
            return
        started = time.monotonic()
        _write_docstore(self._docstore, self._dir)
        (self._dir / _UNFINISHED_FILE).unlink(missing_ok=True)
        self._unsaved = False
        self._saved_at = time.monotonic()
        self._save_took = self._saved_at - started

    def _put(self, records: Iterable[tuple[str, Record]]) -> None:
        self._store.put_all([(key, asdict(record)) for key, record in records], collection=self._collection)


def docstore_entries(docstore: BaseDocumentStore, document_id: str) -> Counter[str]:
    """How many ``texts`` and ``hashes`` a docstore holds of a document, those of the nodes kept with it included."""
    info = docstore.get_ref_doc_info(document_id)
    ids = {document_id, *(info.node_ids if info else ())}
    return Counter(
        texts=sum(docstore.document_exists(each) for each in ids),
        hashes=sum(docstore.get_document_hash(each) is not None for each in ids),
    )


def remove_entries(docstore: BaseDocumentStore, document_id: str) -> Counter[str]:
    """Remove all that a docstore holds of a document; how many ``texts`` and ``hashes`` that were."""
    removed = docstore_entries(docstore, document_id)
    docstore.delete_ref_doc(document_id, raise_error=False)
    docstore.delete_document(document_id, raise_error=False)
    return removed


def load_docstore(persist_dir: str | Path) -> SimpleDocumentStore:
    """The docstore that `sync_documents` saved in this directory; an empty one if there is none yet.

    Without such a directory, a warning names it: the docstore is as empty as that of a path with a slip in it.
    A file that cannot be read is set aside as ``docstore.json.unreadable`` and counts as absent: the next
    `sync_documents` compares documents and vector store, and ingests again what no record vouches for.

    Raises:
        OptionError: persist_dir is no path.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index.core import Document
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index_chunking_plus.ingestion import sync_documents
        >>> pipeline = IngestionPipeline(transformations=[])
        >>> with TemporaryDirectory() as folder:
        ...     _ = sync_documents([Document(id_="a", text="你好。")], pipeline, persist_dir=folder)
        ...     load_docstore(folder).get_document("a").text
        '你好。'
    """
    folder = to_directory(persist_dir)
    path = folder / DEFAULT_PERSIST_FNAME
    if not folder.is_dir():
        warnings.warn(
            f"{str(folder)!r} is no directory, so the docstore is empty. Pass the persist_dir that was synced to.",
            ChunkingPlusWarning,
            stacklevel=2,
        )
    if not path.exists():
        return SimpleDocumentStore()
    try:
        return _read_docstore(path)
    except ValueError as error:
        aside = path.with_name(path.name + ".unreadable")
        logger.warning("%s cannot be read (%s); it is set aside as %s and rebuilt.", path, error, aside.name)
        path.replace(aside)
        return SimpleDocumentStore()


def to_directory(persist_dir: str | Path) -> Path:
    """The path of a directory, which need not exist.

    Raises:
        OptionError: no path, or an empty one, which would be whatever directory the program was started in.
    """
    if not isinstance(persist_dir, str | os.PathLike) or not os.fspath(persist_dir):
        raise OptionError(f"persist_dir={persist_dir!r} is no path of a directory; pass one, such as 'storage', or '.'")
    return Path(persist_dir)


@contextmanager
def exclusive(persist_dir: Path | None) -> Iterator[None]:
    """Hold the directory against other syncs; the operating system lets go of it if the process is killed.

    Raises:
        OptionError: there is no such directory to write to, and none can be made.
        StoreBusyError: another sync, in this process or another one, holds it.
    """
    if persist_dir is None:
        yield
        return
    _make_directory(persist_dir)
    lock = sqlite3.connect(persist_dir / _LOCK_FILE, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        try:
            lock.execute("BEGIN EXCLUSIVE")  # the portable file lock of the standard library: nothing is ever stored
        except sqlite3.OperationalError as error:
            raise StoreBusyError(f"another sync is writing to {str(persist_dir)!r}; wait until it is done") from error
        except sqlite3.DatabaseError as error:
            raise StoreBusyError(f"{str(persist_dir / _LOCK_FILE)!r} is damaged ({error}); delete that file") from error
        yield
    finally:
        lock.close()


def _make_directory(persist_dir: Path) -> None:
    flaw = folder_flaw(persist_dir)
    try:
        if not flaw:
            persist_dir.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # no room, a name that is too long, a folder that takes no others, NUL
        flaw = str(error)
    if flaw:
        raise OptionError(f"persist_dir={str(persist_dir)!r} cannot keep anything: {flaw}; choose another folder")


def _to_record(row: Mapping[str, Any]) -> Record:
    """The record of a stored row; one that cannot be understood vouches for nothing."""
    try:
        return Record(row["content"], row["recipe"], tuple(row["rows"]))
    except (KeyError, TypeError):
        return UNFINISHED


def _fill_if_empty(docstore: BaseDocumentStore, store: BaseKVStore, persist_dir: Path) -> None:
    """Give a docstore in memory that holds nothing what an earlier run saved."""
    if isinstance(docstore, SimpleDocumentStore) and not any(docstore.to_dict().values()):
        for collection, rows in load_docstore(persist_dir).to_dict().items():
            store.put_all(list(rows.items()), collection=collection)


def _read_docstore(path: Path) -> SimpleDocumentStore:
    """The docstore of a file.

    Raises:
        ValueError: the file is not the JSON of a docstore.
    """
    data: Any = json.loads(path.read_bytes())
    if not isinstance(data, dict) or not all(isinstance(rows, dict) for rows in data.values()):
        raise ValueError("not the JSON of a docstore")
    docstore = SimpleDocumentStore.from_dict(data)
    try:
        docstore.get_all_document_hashes()
        docstore.get_all_ref_doc_info()
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"rows of another shape than a docstore's: {error}") from error
    return docstore


def _write_docstore(docstore: BaseDocumentStore, persist_dir: Path) -> None:
    path = persist_dir / DEFAULT_PERSIST_FNAME
    fresh = path.with_name(path.name + ".new")
    if isinstance(docstore, SimpleDocumentStore):  # its own `persist` escapes every Chinese character: twice the bytes
        text = json.dumps(docstore.to_dict(), ensure_ascii=False, default=_as_json)
        fresh.write_bytes(text.encode("utf-8", "surrogatepass"))  # as `json.loads` decodes
    else:
        docstore.persist(str(fresh))
    if fresh.exists():  # docstores that live in a database write no file
        with fresh.open("rb+") as file:
            os.fsync(file.fileno())
        fresh.replace(path)
    cache = persist_dir / DEFAULT_CACHE_NAME
    if not cache.exists():  # `pipeline.load` wants one
        IngestionCache().persist(str(cache))


def _read_unfinished(path: Path) -> Iterator[tuple[str, str]]:
    """Collection and id of each document named in the file; a last line cut short was followed by no other act."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(KeyError, TypeError, ValueError):
            entry = json.loads(line)
            names = [(entry["collection"], document_id) for document_id in entry["documents"]]
            yield from ((str(collection), str(document_id)) for collection, document_id in names)
