"""BM25 beside a vector store: it finds codes, names and rare words, which vectors are vague about.

    rows of the store -> words of each, in one SQLite file -> matrix of scores (bm25s) -> what a question finds

Only rows that are new or changed are cut into words. Every change is one transaction of SQLite: after a kill the file
is what it was before or after, and whoever reads meanwhile sees one of both. Scores depend on all rows, so that the
first search after a change makes the matrix anew, and leaves it in the file.

Sources:
    BM25: Robertson and Zaragoza (2009), The Probabilistic Relevance Framework: BM25 and Beyond, in the form that Lucene
        gives it, which never weighs a word negatively: Kamphuis, de Vries, Boytsov and Lin (2020), Which BM25 Do You
        Mean?, ECIR, "Lucene (accurate)".
    Scores made ahead of the search: Lù (2024), BM25S: Orders of Magnitude Faster Lexical Search via Eager Sparse
        Scoring.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import reprlib
import sqlite3
import uuid
import warnings
import weakref
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any, Literal, get_args

import numpy as np
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from numpy.typing import NDArray

from llama_index_chunking_plus.core.headers import HEADER_KEY
from llama_index_chunking_plus.core.lexical import WORDS_VERSION, search_words
from llama_index_chunking_plus.core.options import is_collection, is_number, is_path
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.core.words import Vocabulary
from llama_index_chunking_plus.errors import (
    ChunkingPlusWarning,
    MissingExtraError,
    OptionError,
    StoreBusyError,
    StoreMismatchError,
)
from llama_index_chunking_plus.storage.stores import (
    MAX_ASKED,
    ids_of_documents,
    pages,
    returns_rows,
    rows_by_document,
    rows_by_id,
)

logger = logging.getLogger(__name__)

IndexedText = Literal["header", "plain", "embed"]

_FILE = "lexical.sqlite"
_FORMAT = 1
_FASTEST = 1  # of zlib's levels
_ATTEMPTS = 5  # at following a store, while other processes do the same
_TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS rows (
        node_id TEXT PRIMARY KEY, document_id TEXT NOT NULL, digest BLOB NOT NULL, words BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS rows_of_document ON rows (document_id)",
    "CREATE TABLE IF NOT EXISTS matrix (made_of TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
)


@dataclass(frozen=True)
class LexicalChanges:
    """What a change did to the index.

    Attributes:
        indexed: rows that were cut into words, because they are new or their text is another one.
        removed: rows that are gone.
        kept: rows, of those that were looked at, that stay as they were.
    """

    indexed: int = 0
    removed: int = 0
    kept: int = 0


@dataclass(frozen=True)
class LexicalIndex:
    """BM25 over the searched nodes of a store, kept in step with it and on disk.

    `sync_with_store` makes the index right after any update, delete, kill or restart; `update` and `delete` are for
    those who know what changed. Threads may share an index. Processes may share its folder: a reader sees each change
    as a whole, one writer waits for the other up to 30 seconds.

    The score of a node is the sum, over the different words of the query, of ln(1 + (N - n + 0.5) / (n + 0.5)) times
    f / (f + k1 (1 - b + b L / A)): N nodes, n of them with the word, f times in this one, L words in it, A on average.

    Args:
        persist_dir: the folder of the index, made if need be, beside the vector store's; None: in memory.
        user_dictionary: path of a dictionary in jieba's format, for words that jieba does not know.
        protected_terms: are words as they stand, whatever they hold.
        k1: how much the repetition of a word counts, 0 (not at all) and up.
        b: how much longer nodes are held back, 0 (not at all) to 1.
        indexed_text: "header", the plain text and what `ContextHeaderTransform` put ahead of it; "plain", the text
            alone; "embed", what an embedding model is shown of the node.

    Raises:
        OptionError: an option is out of range.
        MissingExtraError: bm25s is not installed.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> index = LexicalIndex()
        >>> nodes = [TextNode(id_="a", text="报错ERR-4012：内存不足"), TextNode(id_="b", text="如何重启")]
        >>> index.update({"手册": nodes})
        LexicalChanges(indexed=2, removed=0, kept=0)
        >>> [node_id for node_id, score in index.search("ERR-4012是什么？", top_k=5)]
        ['a']
        >>> index.stale_against(["a", "b", "c"])
        True
    """

    persist_dir: str | Path | None = None
    user_dictionary: str | None = None
    protected_terms: Sequence[str] = ()
    k1: float = 1.2
    b: float = 0.75
    indexed_text: IndexedText = "header"
    _file: _Database = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_options(self)
        object.__setattr__(self, "protected_terms", tuple(self.protected_terms))
        object.__setattr__(self, "_file", _Database(None if self.persist_dir is None else Path(self.persist_dir)))
        _ = self._vocabulary  # refuses what it cannot use
        if find_spec("bm25s") is None:
            raise MissingExtraError("bm25s", "lexical")

    def __reduce__(self) -> tuple[Any, ...]:
        if self.persist_dir is None:
            raise TypeError("a LexicalIndex in memory cannot be copied to another process; give it a persist_dir")
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)

    # -------------------------------------------------------------------------------------------- what changes it

    def update(self, documents: Mapping[str, Sequence[BaseNode]]) -> LexicalChanges:
        """Hold exactly these nodes of each of these documents; all at once, or nothing.

        Args:
            documents: the searched nodes by document id; a document without nodes is dropped. Pass many at once: every
                change makes the next search build the matrix of all rows.

        Raises:
            OptionError: two nodes have the same id.
            StoreMismatchError: the folder was made with other options, or is damaged.
            StoreBusyError: another process is writing to the folder.
        """
        if not isinstance(documents, Mapping):
            raise OptionError(f"documents={reprlib.repr(documents)} is no mapping; pass {{document_id: its nodes}}")
        recipe = self._recipe()
        known = self._known(recipe, list(documents))
        owned = ((document_id, node) for document_id, nodes in documents.items() for node in nodes)
        return self._replace(recipe, list(documents), self._rows(owned, known))

    def delete(self, document_ids: Iterable[str]) -> LexicalChanges:
        """Drop all nodes of these documents; unknown ones do not matter. Works whatever options made the folder.

        Raises:
            StoreMismatchError: the folder is damaged.
            StoreBusyError: another process is writing to the folder.
        """
        if isinstance(document_ids, str):
            raise OptionError(f"document_ids={document_ids!r} is one string; pass a list of ids")
        asked = list(document_ids)
        with self._file.reading() as connection:
            if not _digests(connection, asked):
                return LexicalChanges()
        with self._file.writing() as connection:
            gone = _digests(connection, asked)
            _delete(connection, gone)
        return LexicalChanges(removed=len(gone))

    def sync(self, nodes: Iterable[BaseNode]) -> LexicalChanges:
        """Hold exactly these nodes, whatever was there before: a folder of other options, or damaged, is made anew.

        Raises:
            OptionError: two nodes have the same id.
            StoreBusyError: another process is writing to the folder.
        """
        recipe = self._recipe()
        known = self._known_or_anew(recipe)
        return self._replace(recipe, None, self._rows(((node.ref_doc_id or "", node) for node in nodes), known))

    def sync_with_store(
        self,
        vector_store: BasePydanticVectorStore,
        docstore: BaseDocumentStore | None = None,
        changed: Collection[str] | None = None,
    ) -> LexicalChanges:
        """Hold exactly the rows that the store holds: right after any update, delete, kill or restart.

        A folder of other options, or damaged, is made anew. Where rows keep their ids while their texts or headers
        change, only reading them tells.

        Args:
            vector_store: a store that can list its rows, such as Chroma or `SimpleVectorStore`.
            docstore: has the nodes of a store that keeps no texts, as `index.docstore` has for `SimpleVectorStore`.
            changed: None: every row of the store is read, and cut into words only if its text changed. Otherwise, only
                rows that the index does not know are read, and those of these documents.

        Raises:
            OptionError: the store cannot list its rows, or keeps no texts and there is no docstore.
            StoreBusyError: another process is writing to the folder, or has changed it again and again meanwhile.
        """
        return run(self._store_plan(vector_store, docstore, changed))

    async def async_sync_with_store(
        self,
        vector_store: BasePydanticVectorStore,
        docstore: BaseDocumentStore | None = None,
        changed: Collection[str] | None = None,
    ) -> LexicalChanges:
        """`sync_with_store` without blocking the event loop."""
        return await arun(self._store_plan(vector_store, docstore, changed))

    # -------------------------------------------------------------------------------------------- what asks it

    def search(self, query: str, top_k: int, allowed: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The ids of the nodes with the highest scores, and these, best first; equal scores in the order of the ids.

        Args:
            query: a question or words; each different word counts once.
            top_k: how many at most, 1 and up. Nodes without any word of the query are never among them.
            allowed: only nodes of these ids; None: all. Weights of words are those of the whole index.

        Raises:
            OptionError: top_k is below 1, or an argument of another kind.
            StoreMismatchError: the folder was made with other options, or is damaged.
        """
        if not isinstance(top_k, int) or top_k < 1:
            raise OptionError(f"top_k={top_k!r} is no whole number from 1; pass how many nodes you want at most")
        if isinstance(allowed, str):
            raise OptionError(f"allowed={allowed!r} is one string; pass a list of node ids")
        snapshot = self._snapshot()
        scores = snapshot.scores(self._words_of(query))
        positions = np.flatnonzero(scores) if allowed is None else snapshot.positions_of(allowed)
        best = _best(positions[scores[positions] > 0], scores, top_k)
        return [(snapshot.node_ids[position], float(scores[position])) for position in best]

    def scores(self, query: str, node_ids: Iterable[str]) -> dict[str, float]:
        """The scores of these nodes: 0.0 for those without any word of the query; unknown ids are left out.

        Raises:
            StoreMismatchError: the folder was made with other options, or is damaged.
        """
        snapshot = self._snapshot()
        scores = snapshot.scores(self._words_of(query))
        known = (node_id for node_id in node_ids if node_id in snapshot.positions)
        return {node_id: float(scores[snapshot.positions[node_id]]) for node_id in known}

    def stale_against(self, row_ids: Iterable[str]) -> bool:
        """Whether the index covers other rows than these, was made with other options or is damaged.

        It looks at ids alone: a text or header that changed under its id is for `sync_with_store` to find.
        """
        try:
            return self._snapshot().positions.keys() != set(row_ids)
        except StoreMismatchError:
            return True

    # -------------------------------------------------------------------------------------------- inside

    @property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(tuple(self.protected_terms), self.user_dictionary)

    def _words_of(self, query: str) -> list[str]:
        if not isinstance(query, str):
            raise OptionError(f"query={query!r} is no string")
        return search_words(query, self._vocabulary)

    def _recipe(self) -> str:
        """Another string whenever the same node may have other words."""
        terms, dictionary = sorted(set(self.protected_terms)), self._vocabulary.digest
        return json.dumps([WORDS_VERSION, version("jieba"), self.indexed_text, terms, dictionary])

    def _text(self, node: BaseNode) -> str:
        if self.indexed_text == "embed":
            return node.get_content(metadata_mode=MetadataMode.EMBED)
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        header = node.metadata.get(HEADER_KEY) if self.indexed_text == "header" else None
        return f"{header}\n{text}" if header else text

    def _rows(self, owned: Iterable[tuple[str, BaseNode]], known: Mapping[str, bytes]) -> dict[str, _Row]:
        """A row for each document id and node, with words only where those of its text are not known.

        Raises:
            OptionError: two nodes have the same id.
        """
        rows: dict[str, _Row] = {}
        for document_id, node in owned:
            if node.node_id in rows:
                raise OptionError(f"two nodes have the id {node.node_id!r}; a row of a store has an id of its own")
            text = self._text(node)
            digest = hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
            is_known = known.get(node.node_id) == digest
            words = None if is_known else _packed(search_words(text, self._vocabulary))
            rows[node.node_id] = _Row(document_id, digest, words)
        return rows

    def _known(self, recipe: str, document_ids: Sequence[str]) -> dict[str, bytes]:
        """The digests of the texts whose words are known, of these documents.

        Raises:
            StoreMismatchError: the folder was made with other options, or is damaged.
        """
        with self._file.reading() as connection:
            self._check_recipe(connection, recipe)
            return _digests(connection, document_ids)

    def _known_or_anew(self, recipe: str) -> dict[str, bytes]:
        """The digests of all texts whose words are known and can be read; a damaged file is set aside."""
        try:
            with self._file.reading() as connection:
                return _sound_digests(connection) if _fact(connection, "recipe") == recipe else {}
        except StoreMismatchError as error:
            aside = self._file.set_aside()
            logger.warning("%s That is done now; the old file is kept as %s.", error, aside)
            return {}

    def _documents(self) -> dict[str, str]:
        """The document of each row."""
        with self._file.reading() as connection:
            return dict(connection.execute("SELECT node_id, document_id FROM rows"))

    def _check_recipe(self, connection: sqlite3.Connection, recipe: str) -> None:
        if _fact(connection, "recipe") not in {None, recipe}:
            raise StoreMismatchError(
                f"the lexical index in {str(self.persist_dir)!r} was made with another user_dictionary, "
                "protected_terms or indexed_text, or by another version; use the options it was made with, or call "
                "sync_with_store(vector_store) or sync(nodes), which make it anew"
            )

    def _replace(self, recipe: str, document_ids: Sequence[str] | None, rows: Mapping[str, _Row]) -> LexicalChanges:
        """Put the rows in the place of those of the documents, or of all rows; those without words must be there."""
        kept = [node_id for node_id, row in rows.items() if row.words is None]
        with self._file.writing() as connection:
            if document_ids is not None:
                self._check_recipe(connection, recipe)
            held = _digests(connection, document_ids)
            known = held if _fact(connection, "recipe") == recipe else {}
            if any(known.get(node_id) != rows[node_id].digest for node_id in kept):
                raise _ChangedMeanwhileError(
                    f"another process changed the lexical index in {str(self.persist_dir)!r} meanwhile; do it again"
                )
            gone = held.keys() - rows.keys()
            _delete(connection, gone)
            _put(connection, recipe, rows)
        return LexicalChanges(len(rows) - len(kept), len(gone), len(kept))

    def _store_plan(
        self,
        vector_store: BasePydanticVectorStore,
        docstore: BaseDocumentStore | None,
        changed: Collection[str] | None,
    ) -> Plan[LexicalChanges]:
        """The rows of the store, read again where another process changed the index meanwhile."""
        if isinstance(changed, str):
            raise OptionError(f"changed={changed!r} is one string; pass a list of document ids")
        for _ in range(_ATTEMPTS - 1):
            with suppress(_ChangedMeanwhileError):
                return (yield from self._attempt(vector_store, docstore, changed))
        return (yield from self._attempt(vector_store, docstore, changed))

    def _attempt(
        self,
        vector_store: BasePydanticVectorStore,
        docstore: BaseDocumentStore | None,
        changed: Collection[str] | None,
    ) -> Plan[LexicalChanges]:
        fetch = _fetching(vector_store, docstore)
        recipe = self._recipe()
        known: dict[str, bytes] = yield Call(partial(self._known_or_anew, recipe))
        believed: dict[str, str] = {} if changed is None else (yield Call(self._documents))
        owners: dict[str, str] = yield Call(partial(_owners_in, vector_store, believed))
        rows = {
            row_id: _Row(owner, known[row_id], None)
            for row_id, owner in owners.items()
            if changed is not None and row_id in known and owner not in changed
        }
        asked = [row_id for row_id in owners if row_id not in rows]
        for page in pages(asked, MAX_ASKED):
            nodes: Sequence[BaseNode] = yield fetch(page)
            owned = [(owners[node.node_id], node) for node in nodes if node.node_id in owners]
            rows.update((yield Call(partial(self._rows, owned, known))))
        if not returns_rows(vector_store):
            _warn_of_textless(len(owners) - len(rows))
        changes: LexicalChanges = yield Call(partial(self._replace, recipe, None, rows))
        return changes

    def _snapshot(self) -> _Snapshot:
        """The index as it is on disk now."""
        with self._file.lock, _faults_told(self.persist_dir):
            with self._file.reading() as connection:
                generation = _fact(connection, "generation")
                held = self._file.snapshot
                if held is not None and held.generation == generation:
                    return held
                self._check_recipe(connection, self._recipe())
                node_ids = [node_id for (node_id,) in connection.execute("SELECT node_id FROM rows ORDER BY node_id")]
                matrix = _stored_matrix(connection, self._made_of(generation))
                packed = [] if matrix else list(connection.execute("SELECT words FROM rows ORDER BY node_id"))
            if matrix is None:
                matrix = _Matrix.of((_unpacked(words) for (words,) in packed), self.k1, self.b)
                self._keep(generation, matrix)
            self._file.snapshot = _Snapshot(generation, node_ids, matrix)
            return self._file.snapshot

    def _made_of(self, generation: str | None) -> str:
        return json.dumps([generation, self.k1, self.b])

    def _keep(self, generation: str | None, matrix: _Matrix) -> None:
        """Leave the matrix to the next process; not if someone is writing, or nobody may."""
        if self.persist_dir is None or generation is None:
            return
        with suppress(StoreBusyError, sqlite3.OperationalError), self._file.writing(wait_seconds=0) as connection:
            if _fact(connection, "generation") == generation:
                connection.execute("DELETE FROM matrix")
                value = matrix.to_bytes()
                row = (self._made_of(generation), value, zlib.crc32(value))
                connection.execute("INSERT INTO matrix VALUES (?, ?, ?)", row)


class _ChangedMeanwhileError(StoreBusyError):
    """Rows whose words were to stay are gone: another process changed the index after it was read."""


def _check_options(index: LexicalIndex) -> None:
    if isinstance(index.protected_terms, str):
        raise OptionError(f"protected_terms={index.protected_terms!r} is one string; pass a list of terms")
    if not is_collection(index.protected_terms):
        raise OptionError(f"protected_terms={reprlib.repr(index.protected_terms)} are no terms; pass a list of them")
    if index.user_dictionary is not None and not is_path(index.user_dictionary):
        raise OptionError(f"user_dictionary={index.user_dictionary!r} is no path; pass that of a jieba dictionary")
    if not is_number(index.k1) or not 0 <= index.k1 < math.inf:
        raise OptionError(f"k1={index.k1!r} is no number from 0; 1.2 is usual")
    if not is_number(index.b) or not 0 <= index.b <= 1:
        raise OptionError(f"b={index.b!r} is no number from 0 to 1; 0.75 is usual")
    if index.indexed_text not in get_args(IndexedText):
        raise OptionError(f"indexed_text={index.indexed_text!r} is unknown; use one of {get_args(IndexedText)}")
    if index.persist_dir is None:
        return
    if not is_path(index.persist_dir):
        raise OptionError(f"persist_dir={index.persist_dir!r} is no path of a directory; pass one, or None for memory")
    if Path(index.persist_dir).exists() and not Path(index.persist_dir).is_dir():
        raise OptionError(f"persist_dir={str(index.persist_dir)!r} is a file; pass a directory")


# ------------------------------------------------------------------------------------------------ the vector store


def _owners_in(vector_store: BasePydanticVectorStore, known_owners: Mapping[str, str]) -> dict[str, str]:
    """The document of each row of the store; not asked for where it is known.

    Raises:
        OptionError: the store cannot list its rows.
    """
    document_ids = ids_of_documents(vector_store, known_owners)
    rows = None if document_ids is None else rows_by_document(vector_store, document_ids, known_owners)
    if rows is None:
        raise OptionError(f"{type(vector_store).__name__} cannot list its rows; call sync(nodes) with its nodes")
    return {row_id: document_id for document_id, row_ids in rows.items() for row_id in row_ids}


def _fetching(
    vector_store: BasePydanticVectorStore, docstore: BaseDocumentStore | None
) -> Callable[[Sequence[str]], Call]:
    """What asks for the nodes of row ids: of the store, or where it keeps no texts, of the docstore.

    Raises:
        OptionError: the store keeps no texts, and there is no docstore.
    """
    if returns_rows(vector_store):
        return partial(rows_by_id, vector_store)
    if docstore is None:
        raise OptionError(
            f"{type(vector_store).__name__} keeps no texts; pass docstore=index.docstore, or call sync(nodes)"
        )
    return lambda row_ids: Call(partial(docstore.get_nodes, list(row_ids), raise_error=False))


def _warn_of_textless(count: int) -> None:
    if count:
        warnings.warn(
            f"{count} rows of the vector store have no text in it or in the docstore, so no word finds them. Pass the "
            "docstore that holds the nodes, or call sync(nodes).",
            ChunkingPlusWarning,
            stacklevel=2,
        )


# ------------------------------------------------------------------------------------------------ scores


@dataclass(frozen=True)
class _Matrix:
    """What each word adds to the score of each row, as bm25s makes it: one column per word."""

    vocabulary: Mapping[str, int]
    data: NDArray[np.float32]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]], k1: float, b: float) -> _Matrix:
        vocabulary: dict[str, int] = {}
        numbered = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in rows]
        if not vocabulary:
            return cls({}, np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64))
        made = _bm25s().BM25(k1=k1, b=b, method="lucene")
        made.index((numbered, vocabulary), create_empty_token=False, show_progress=False)
        return cls(vocabulary, made.scores["data"], made.scores["indices"], made.scores["indptr"])

    @classmethod
    def from_bytes(cls, value: bytes) -> _Matrix:
        with np.load(io.BytesIO(value), allow_pickle=False) as arrays:
            words = json.loads(arrays["words"].tobytes().decode("utf-8", "surrogatepass"))
            vocabulary = {word: number for number, word in enumerate(words)}
            return cls(vocabulary, arrays["data"], arrays["indices"], arrays["indptr"])

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        words = json.dumps(list(self.vocabulary), ensure_ascii=False).encode("utf-8", "surrogatepass")
        file = io.BytesIO()
        arrays = {"data": self.data, "indices": self.indices, "indptr": self.indptr}
        np.savez(file, words=np.frombuffer(words, np.uint8), **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def scorer(self, n_rows: int) -> Any:
        """Bm25s, ready to search."""
        made = _bm25s().BM25(method="lucene")
        made.scores = {"data": self.data, "indices": self.indices, "indptr": self.indptr, "num_docs": n_rows}
        made.nonoccurrence_array = None
        return made


class _Snapshot:
    """The index at one moment; never changed."""

    def __init__(self, generation: str | None, node_ids: Sequence[str], matrix: _Matrix) -> None:
        self.generation = generation
        self.node_ids = node_ids
        self.positions = {node_id: position for position, node_id in enumerate(node_ids)}
        self._vocabulary = matrix.vocabulary
        self._scorer = matrix.scorer(len(node_ids))

    def scores(self, words: Iterable[str]) -> NDArray[np.float32]:
        """The score of each row; each different word counts once."""
        known = [self._vocabulary[word] for word in dict.fromkeys(words) if word in self._vocabulary]
        if not known:
            return np.zeros(len(self.node_ids), np.float32)
        scores: NDArray[np.float32] = self._scorer.get_scores_from_ids(known)
        return scores

    def positions_of(self, node_ids: Iterable[str]) -> NDArray[np.intp]:
        """Where the known ones of these nodes stand, each once."""
        return np.array(sorted({self.positions[each] for each in node_ids if each in self.positions}), np.intp)


def _best(positions: NDArray[np.intp], scores: NDArray[np.float32], top_k: int) -> NDArray[np.intp]:
    """The positions with the highest scores, best first, of equal ones the first."""
    found = scores[positions]
    if len(positions) > top_k:
        least = np.partition(found, -top_k)[-top_k]
        positions = positions[found >= least]
    order = np.lexsort((positions, -scores[positions]))
    return positions[order][:top_k]


@lru_cache(maxsize=1)
def _bm25s() -> Any:
    """The package, imported by the first search; its logger is made to listen to the program's settings."""
    package = import_module("bm25s")
    logging.getLogger("bm25s").setLevel(logging.NOTSET)
    return package


# ------------------------------------------------------------------------------------------------ the file


@dataclass(frozen=True)
class _Row:
    """What is kept of a node.

    Attributes:
        document_id: the document it belongs to.
        digest: a hash of the text that its words were taken from.
        words: packed; None: those that are stored.
    """

    document_id: str
    digest: bytes
    words: bytes | None


class _Database:
    """Rows, words and matrix in an SQLite file, or in memory; the lock holds threads apart.

    Attributes:
        wait_seconds: how long to wait for another process.

    Args:
        folder: where the file is, made by the first write; None: in memory.
    """

    wait_seconds = 30.0

    def __init__(self, folder: Path | None) -> None:
        self.lock = RLock()
        self.snapshot: _Snapshot | None = None
        self._folder = folder
        self._path = (folder or Path()) / _FILE
        self._memory: sqlite3.Connection | None = None
        if folder is None:
            self._memory = _in_memory()
            weakref.finalize(self, self._memory.close)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The file as it is now, whatever is written meanwhile; without a file, one without rows.

        Raises:
            StoreMismatchError: the file is damaged, or of a newer version.
            StoreBusyError: another process is just writing.
        """
        with self.lock, _faults_told(self._folder), self._connected("rw") as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                _roll_back(connection)

    @contextmanager
    def writing(self, wait_seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """All that is done to the file, or nothing of it.

        Raises:
            StoreMismatchError: the file is damaged, or of a newer version.
            StoreBusyError: another process is writing, or reading, for longer than ``wait_seconds``.
        """
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        with self.lock, _faults_told(self._folder), self._connected("rwc", wait_seconds) as connection:
            connection.execute("PRAGMA cache_spill = OFF")  # readers wait for the commit alone
            connection.execute("BEGIN IMMEDIATE")
            try:
                _make_tables(connection)
                yield connection
                connection.execute("COMMIT")
            finally:
                _roll_back(connection)

    def set_aside(self) -> Path | None:
        """Rename a damaged file; where it is now."""
        if not self._path.exists():
            return None
        self._path.with_name(f"{_FILE}-journal").unlink(missing_ok=True)
        return self._path.replace(self._path.with_name(f"{_FILE}.unreadable"))

    @contextmanager
    def _connected(self, mode: str, wait_seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        wait = self.wait_seconds if wait_seconds is None else wait_seconds
        with closing(_opened(self._path, mode, wait)) as connection:
            yield connection


def _roll_back(connection: sqlite3.Connection) -> None:
    """Undo what was not committed."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _make_tables(connection)
    return connection


def _opened(path: Path, mode: str, wait_seconds: float) -> sqlite3.Connection:
    """A connection to the file; without one, or without tables in it, a reader gets an empty one."""
    if mode == "rw" and not path.exists():
        return _in_memory()
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=wait_seconds, uri=True, isolation_level=None, check_same_thread=False)
    try:
        (made_as,) = connection.execute("PRAGMA user_version").fetchone()
    except BaseException:
        connection.close()
        raise
    if made_as == _FORMAT or (mode == "rwc" and made_as == 0):
        return connection
    connection.close()
    if made_as == 0:
        return _in_memory()
    raise StoreMismatchError(
        f"{str(path)!r} was made by another version of this package ({made_as}, this one makes {_FORMAT}); call "
        "sync_with_store(vector_store) or sync(nodes), which make it anew."
    )


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone() != (_FORMAT,):
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA user_version = {_FORMAT}")


@contextmanager
def _faults_told(folder: str | Path | None) -> Iterator[None]:
    """What is wrong with a file, as an error that says what to do about it.

    Raises:
        StoreMismatchError: it is damaged.
        StoreBusyError: another process holds it.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        raise StoreBusyError(f"another process is writing to the lexical index in {str(folder)!r}; wait") from error
    except (sqlite3.DatabaseError, zlib.error, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreMismatchError(
            f"the lexical index in {str(folder)!r} is damaged ({error}); call sync_with_store(vector_store) or "
            "sync(nodes), which make it anew."
        ) from error


def _fact(connection: sqlite3.Connection, name: str) -> str | None:
    found = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if found is None else str(found[0])


def _digests(connection: sqlite3.Connection, document_ids: Sequence[str] | None) -> dict[str, bytes]:
    """The digest of each row of these documents, or of all."""
    if document_ids is None:
        return dict(connection.execute("SELECT node_id, digest FROM rows"))
    held: dict[str, bytes] = {}
    for document_id in document_ids:
        held.update(connection.execute("SELECT node_id, digest FROM rows WHERE document_id = ?", (document_id,)))
    return held


def _sound_digests(connection: sqlite3.Connection) -> dict[str, bytes]:
    """The digest of each row whose words are intact, of a file that is not damaged otherwise."""
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(state)
    sound: dict[str, bytes] = {}
    for node_id, digest, words in connection.execute("SELECT node_id, digest, words FROM rows"):
        with suppress(zlib.error):
            zlib.decompress(words)
            sound[node_id] = digest
    return sound


def _delete(connection: sqlite3.Connection, node_ids: Collection[str]) -> None:
    if node_ids:
        connection.executemany("DELETE FROM rows WHERE node_id = ?", ((node_id,) for node_id in node_ids))
        _touch(connection)


def _put(connection: sqlite3.Connection, recipe: str, rows: Mapping[str, _Row]) -> None:
    before = connection.total_changes
    connection.executemany(
        "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)",
        ((key, row.document_id, row.digest, row.words) for key, row in rows.items() if row.words is not None),
    )
    connection.executemany(
        "UPDATE rows SET document_id = ? WHERE node_id = ? AND document_id <> ?",
        ((row.document_id, key, row.document_id) for key, row in rows.items() if row.words is None),
    )
    if _fact(connection, "recipe") != recipe:
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('recipe', ?)", (recipe,))
    if connection.total_changes != before:
        _touch(connection)


def _touch(connection: sqlite3.Connection) -> None:
    """Tell readers that there is something new."""
    connection.execute("DELETE FROM matrix")
    connection.execute("INSERT OR REPLACE INTO facts VALUES ('generation', ?)", (uuid.uuid4().hex,))


def _stored_matrix(connection: sqlite3.Connection, made_of: str) -> _Matrix | None:
    """The matrix of this making; None if there is none, or it is damaged."""
    found = connection.execute("SELECT value, checksum FROM matrix WHERE made_of = ?", (made_of,)).fetchone()
    return _Matrix.from_bytes(found[0]) if found and zlib.crc32(found[0]) == found[1] else None


def _packed(words: Sequence[str]) -> bytes:
    """The words in few bytes, which tell when they are damaged."""
    return zlib.compress(json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogatepass"), _FASTEST)


def _unpacked(packed: bytes) -> list[str]:
    words: list[str] = json.loads(zlib.decompress(packed).decode("utf-8", "surrogatepass"))
    return words
