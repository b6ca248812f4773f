"""What a parser waits for: vectors from an embedding model, nodes from another parser."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence

import numpy as np
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document
from llama_index.core.utils import get_tqdm_iterable
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError

BLANK_ROW = -1  # of the vectors: NaN, for texts that there is nothing to embed of

_CONCURRENT_BATCHES = 16

Vectors = NDArray[np.float32]

_TAKEN: Vectors = np.empty((0, 0), dtype=np.float32)


class EmbedTexts:
    """Asks for the vectors of texts, shape ``(n_texts + 1, dim)``, in batches of the model's own size.

    A batch that fails, or whose vectors do not have the dimension of the others, gives rows of NaN. One warning for the
    whole request counts these, rows that are not finite, and those of batches of nothing but zeros. `BLANK_ROW` is one
    row more, NaN as well. Async, as many batches wait for the model at a time as its ``num_workers`` says, or 16.

    Raises:
        EmbeddingError: not one batch succeeded.
    """

    def __init__(self, model: BaseEmbedding, texts: Sequence[str], show_progress: bool) -> None:
        size = model.embed_batch_size
        self._model = model
        self._batches = [list(texts[i : i + size]) for i in range(0, len(texts), size)]
        self._show_progress = show_progress

    def run(self) -> Vectors:
        """The vectors, batch after batch."""
        batches = get_tqdm_iterable(self._batches, self._show_progress, "Embedding sentences")
        return self._collect([self._embed(batch) for batch in batches])

    async def arun(self) -> Vectors:
        """The vectors, several batches at a time."""
        free = asyncio.Semaphore(self._model.num_workers or _CONCURRENT_BATCHES)

        async def embed(batch: list[str]) -> Vectors | Exception:
            async with free:
                try:
                    return _matrix(await self._model.aget_text_embedding_batch(batch), batch)
                except Exception as error:  # noqa: BLE001  one failing batch must not lose the others
                    return error

        return self._collect(list(await asyncio.gather(*map(embed, self._batches))))

    def _embed(self, batch: list[str]) -> Vectors | Exception:
        try:
            return _matrix(self._model.get_text_embedding_batch(batch), batch)
        except Exception as error:  # noqa: BLE001  one failing batch must not lose the others
            return error

    def _collect(self, answers: list[Vectors | Exception]) -> Vectors:
        dims = [answer.shape[1] for answer in answers if not isinstance(answer, Exception)]
        if not dims:
            errors = [answer for answer in answers if isinstance(answer, Exception)]
            if not errors:
                return _nan_rows(1, 1)
            raise EmbeddingError(
                f"the embedding model failed on every batch; the first failure: {errors[0]!r}"
            ) from errors[0]
        dim = max(set(dims), key=dims.count)
        vectors = _nan_rows(sum(map(len, self._batches)) + 1, dim)
        failed, end = 0, 0
        for i, batch in enumerate(self._batches):
            answer, answers[i] = answers[i], _TAKEN  # each is let go as it is copied
            rows, end = slice(end, end + len(batch)), end + len(batch)
            if not isinstance(answer, Exception) and answer.shape[1] == dim:
                vectors[rows] = answer
            usable = np.isfinite(vectors[rows]).all(axis=1)
            failed += int((~usable).sum()) if vectors[rows].any() else len(batch)
        self._warn_about(failed)
        return vectors

    def _warn_about(self, failed: int) -> None:
        if failed:
            warnings.warn(
                f"The embedding model failed on, or gave no usable vectors for, {failed} of "
                f"{sum(map(len, self._batches))} sentences; there, chunks are cut by size instead of meaning. Parse "
                "again when it works.",
                ChunkingPlusWarning,
                stacklevel=2,
            )


def _matrix(vectors: list[list[float]], batch: list[str]) -> Vectors:
    with np.errstate(over="ignore"):  # what is too large for it becomes infinite, and counts as no vector
        try:
            matrix = np.asarray(vectors, dtype=np.float32)
        except ValueError:
            matrix = np.asarray(_of_usual_length(vectors), dtype=np.float32)
    if matrix.ndim != 2 or len(matrix) != len(batch):  # noqa: PLR2004  rows and columns
        raise EmbeddingError(f"the embedding model answered {len(batch)} texts with vectors of shape {matrix.shape}")
    return matrix


def _of_usual_length(vectors: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The vectors, those of another length than most replaced by NaN."""
    lengths = [len(vector) for vector in vectors]
    usual = max(set(lengths), key=lengths.count)
    return [vector if len(vector) == usual else [np.nan] * usual for vector in vectors]


def _nan_rows(n_rows: int, dim: int) -> Vectors:
    return np.full((n_rows, dim), np.nan, dtype=np.float32)


class ParseDocuments:
    """Asks another parser for the nodes of each document, one call a document, so that every node has an owner."""

    def __init__(self, parser: NodeParser, documents: Sequence[Document], show_progress: bool) -> None:
        self._parser = parser
        self._documents = documents
        self._show_progress = show_progress

    def run(self) -> list[list[BaseNode]]:
        """The nodes of each document."""
        documents = get_tqdm_iterable(self._documents, self._show_progress, "Parsing nodes")
        return [self._parser.get_nodes_from_documents([document]) for document in documents]

    async def arun(self) -> list[list[BaseNode]]:
        """The nodes of each document, from a thread."""
        return await asyncio.to_thread(self.run)  # not its own async form, which gives other nodes in some parsers
