"""The frozen retriever: every strategy is searched with the same model, in the same way, and embeds nothing twice.

texts -> the cache, by model and text -> the model, for what is not there -> vectors
vectors of chunks and questions -> exact cosine, BM25, or both fused by reciprocal ranks -> ranked chunks
"""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr, SerializeAsAny
from llama_index.core.schema import BaseNode
from llama_index.core.utils import get_tqdm_iterable
from numpy.typing import NDArray

from llama_index_chunking_plus.core.fusion import reciprocal_rank
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import ChunkingPlusError, ChunkingPlusWarning, EmbeddingError
from llama_index_chunking_plus.evaluation.results import SearchMode
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations
from llama_index_chunking_plus.storage.lexical import LexicalIndex

Vectors = NDArray[np.float32]
Kind = Literal["text", "query"]

_BLOCK = 16_000_000  # scores held at a time
_ASKED = 500  # keys in one statement; SQLite takes 999 at least
_WAIT_SECONDS = 60.0
_TABLE = """CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, digest)) WITHOUT ROWID"""


# ------------------------------------------------------------------------------------------------ vectors on disk


class VectorCache:
    """Vectors by model and text, in one SQLite file, or in memory.

    Every `put` is one transaction: after a kill the file is as it was before or after. Processes may share it. A file
    that is damaged is set aside, with a warning, and begun anew: all that it holds can be made again.

    Args:
        path: the file, made if need be; None: in memory.

    Example:
        >>> cache = VectorCache()
        >>> cache.put("model", {"text": np.ones(2, dtype=np.float32)})
        >>> {text: vector.tolist() for text, vector in cache.get("model", ["text", "other"]).items()}
        {'text': [1.0, 1.0]}
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory: dict[tuple[str, bytes], Vectors] = {}
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)

    def get(self, model: str, texts: Sequence[str]) -> dict[str, Vectors]:
        """The vectors that are known, by text."""
        keys = {_digest(text): text for text in texts}
        if self._path is None:
            return {text: self._memory[model, key] for key, text in keys.items() if (model, key) in self._memory}
        with self._sound() as connection:
            rows = [row for some in _batches(list(keys), _ASKED) for row in _select(connection, model, some)]
        return {keys[digest]: np.frombuffer(vector, dtype=np.float32) for digest, vector in rows}

    def put(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        """Keep these vectors by their texts; all of them, or none."""
        rows = [(model, _digest(text), np.asarray(vector, dtype=np.float32)) for text, vector in vectors.items()]
        if self._path is None:
            self._memory.update({(model, digest): vector for _, digest, vector in rows})
            return
        blobs = [(model, digest, vector.tobytes()) for _, digest, vector in rows]
        with self._sound() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", blobs)

    @contextmanager
    def _sound(self) -> Iterator[sqlite3.Connection]:
        """A connection to the file; to a new one if this one is damaged."""
        path = Path(self._path or "")
        try:
            connection = _opened(path)
        except sqlite3.OperationalError:
            raise  # busy, full or not allowed: nothing is wrong with the file
        except sqlite3.DatabaseError as error:
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            warnings.warn(
                f"{path} is damaged ({error}); it was moved to {aside.name}, and its vectors are made again.",
                ChunkingPlusWarning,
                stacklevel=4,
            )
            connection = _opened(path)
        with closing(connection):
            yield connection


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS)
    try:
        with connection:
            connection.execute(_TABLE)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _select(connection: sqlite3.Connection, model: str, digests: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    marks = ",".join("?" * len(digests))
    query = f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})"  # noqa: S608  marks only
    return connection.execute(query, (model, *digests)).fetchall()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


# ------------------------------------------------------------------------------------------------ a model with a memory


class FrozenEmbedding(BaseEmbedding):
    """An embedding model that looks into the cache first; strategies that need a model are given this one.

    Args:
        model: makes what the cache does not have.

    Raises:
        EmbeddingError: the model failed, or gave a vector that is empty, not finite, all zeros or of another length.

    Example:
        >>> from llama_index.core import MockEmbedding
        >>> frozen = FrozenEmbedding.of(MockEmbedding(embed_dim=2), VectorCache())
        >>> _ = frozen.get_text_embedding("甲"), frozen.get_text_embedding("甲")
        >>> frozen.n_embedded, frozen.n_cached
        (1, 1)
    """

    model: SerializeAsAny[BaseEmbedding] = Field(description="Makes what the cache does not have.")
    _cache: VectorCache = PrivateAttr(default_factory=VectorCache)
    _identity: str = PrivateAttr(default="")
    _counts: dict[str, int] = PrivateAttr(default_factory=lambda: {"embedded": 0, "cached": 0})

    @classmethod
    def of(cls, model: BaseEmbedding, cache: VectorCache) -> FrozenEmbedding:
        """The model with this cache."""
        frozen = cls(model=model, model_name=model.model_name, embed_batch_size=model.embed_batch_size)
        frozen._cache = cache
        frozen._identity = model_identity(model)
        return frozen

    @classmethod
    def class_name(cls) -> str:
        """The name under which the embedding is serialised."""
        return "ChunkingPlusFrozenEmbedding"

    @property
    def n_embedded(self) -> int:
        """How many texts the model was given."""
        return self._counts["embedded"]

    @property
    def n_cached(self) -> int:
        """How many texts the cache had."""
        return self._counts["cached"]

    def plan(self, texts: Sequence[str], kind: Kind = "text", show_progress: bool = False) -> Plan[Vectors]:
        """The vectors of the texts, shape ``(n_texts, dim)``; each different text is embedded once, and then kept."""
        wanted = list(dict.fromkeys(texts))
        name = f"{kind}:{self._identity}"
        known = yield Call(partial(self._cache.get, name, wanted))
        missing = sorted((text for text in wanted if text not in known), key=len)  # alike in length: less to pad
        self._counts["cached"] += len(known)
        batches = list(_batches(missing, self.model.embed_batch_size if kind == "text" else 1))
        for batch in get_tqdm_iterable(batches, show_progress and bool(batches), "Embedding"):
            try:
                answer = yield self._request(batch, kind)
            except ChunkingPlusError:
                raise  # it says by itself what to do
            except Exception as error:
                raise EmbeddingError(
                    f"the embedding model failed on {len(batch)} texts, {batch[0][:40]!r} the first: {error!r}"
                ) from error
            fresh = dict(zip(batch, _checked(answer, batch), strict=True))
            yield Call(partial(self._cache.put, name, fresh))
            self._counts["embedded"] += len(fresh)
            known.update(fresh)
        if len({vector.size for vector in known.values()}) > 1:
            raise EmbeddingError("the embedding model gave vectors of several lengths; use one model for all texts")
        return np.stack([known[text] for text in texts]) if texts else np.empty((0, 1), dtype=np.float32)

    def _request(self, batch: Sequence[str], kind: Kind) -> Call:
        texts = list(batch)
        if kind == "text":
            batched = partial(self.model.get_text_embedding_batch, texts)
            return Call(batched, partial(self.model.aget_text_embedding_batch, texts))
        ask = partial(self.model.get_query_embedding, texts[0])

        async def aask() -> list[Embedding]:
            return [await self.model.aget_query_embedding(texts[0])]

        return Call(lambda: [ask()], aask)

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return run(self.plan(texts)).tolist()  # type: ignore[no-any-return]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        return run(self.plan([query], "query"))[0].tolist()  # type: ignore[no-any-return]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return (await arun(self.plan(texts))).tolist()  # type: ignore[no-any-return]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return (await arun(self.plan([query], "query")))[0].tolist()  # type: ignore[no-any-return]


def model_identity(model: BaseEmbedding) -> str:
    """A digest of the model's class and of every option that decides its vectors."""
    return fingerprint_transformations([model])


def _checked(answer: Any, batch: Sequence[str]) -> list[Vectors]:
    """The model's answer as vectors that can be compared."""
    if len(answer) != len(batch):
        raise EmbeddingError(f"the embedding model answered {len(batch)} texts with {len(answer)} vectors")
    vectors = [np.asarray(vector, dtype=np.float32) for vector in answer]
    for text, vector in zip(batch, vectors, strict=True):
        if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
            raise EmbeddingError(
                f"the embedding model gave {text[:40]!r} a vector that is empty, not finite or all zeros; nothing can "
                "be found by it"
            )
    return vectors


# ------------------------------------------------------------------------------------------------ search


class Ranked(NamedTuple):
    """What a question found: positions of nodes, best first, and their scores."""

    positions: list[int]
    scores: list[float]


@dataclass(frozen=True)
class FrozenIndex:
    """The nodes of one strategy, and what searches them.

    Args:
        nodes: what is searched.
        vectors: of the nodes, shape ``(n_nodes, dim)``; None for lexical search.
        mode: "dense", the cosine; "lexical", BM25; "fused", the reciprocal ranks of both.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> index = FrozenIndex([TextNode(text="甲"), TextNode(text="乙")], np.eye(2, dtype=np.float32), "dense")
        >>> index.search(["?"], np.array([[0.1, 0.9]], dtype=np.float32), depth=1)[0].positions
        [1]
    """

    nodes: Sequence[BaseNode]
    vectors: Vectors | None
    mode: SearchMode

    def search(self, questions: Sequence[str], vectors: Vectors | None, depth: int) -> list[Ranked]:
        """The best nodes for each question, at most ``depth``; equal scores in the order of the nodes."""
        if not self.nodes:
            return [Ranked([], []) for _ in questions]
        dense = self._dense(vectors, depth) if vectors is not None and self.mode != "lexical" else []
        if self.mode == "dense":
            return dense
        lexical = self._lexical(questions, depth)
        return lexical if self.mode == "lexical" else list(map(_fused, dense, lexical, [depth] * len(lexical)))

    def _dense(self, questions: Vectors, depth: int) -> list[Ranked]:
        chunks = unit(np.empty((0, 1), dtype=np.float32) if self.vectors is None else self.vectors)
        asked = unit(questions)
        if chunks.shape[1] != asked.shape[1]:
            raise EmbeddingError(
                f"the embedding model gave texts vectors of length {chunks.shape[1]}, and questions vectors of length "
                f"{asked.shape[1]}; use one model for both"
            )
        rows = max(1, _BLOCK // len(chunks))
        blocks = (asked[start : start + rows] for start in range(0, len(asked), rows))
        return [_best(scores, depth) for block in blocks for scores in block @ chunks.T]

    def _lexical(self, questions: Sequence[str], depth: int) -> list[Ranked]:
        index = LexicalIndex()
        named = [node.model_copy(update={"id_": f"{i:09d}"}) for i, node in enumerate(self.nodes)]
        index.update({"": named})
        found = [index.search(question, depth) for question in questions]
        return [Ranked([int(name) for name, _ in hits], [score for _, score in hits]) for hits in found]


def unit(vectors: Vectors) -> Vectors:
    """The vectors at length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def _best(scores: Vectors, depth: int) -> Ranked:
    """The positions of the highest scores, equal ones in order."""
    if depth < len(scores):
        least = np.partition(scores, -depth)[-depth]
        kept = np.flatnonzero(scores >= least)
    else:
        kept = np.arange(len(scores))
    best = kept[np.argsort(-scores[kept], kind="stable")][:depth]
    return Ranked(best.tolist(), scores[best].tolist())


def _fused(dense: Ranked, lexical: Ranked, depth: int) -> Ranked:
    total = reciprocal_rank([[f"{position:09d}" for position in each.positions] for each in (dense, lexical)])
    best = list(total.items())[:depth]
    return Ranked([int(name) for name, _ in best], [score for _, score in best])
