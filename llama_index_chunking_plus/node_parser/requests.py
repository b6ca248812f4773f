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

_CONCURRENT_BATCHES = 8

Vectors = NDArray[np.float32]


class EmbedTexts:
    """Asks for the vectors of texts, shape ``(n_texts, dim)``, in batches of the model's own size.

    A batch that fails, or whose vectors do not have the dimension of the others, gives rows of NaN. One warning for the
    whole request counts these and the batches that hold NaN, or nothing but zeros.

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

        return self._collect(await asyncio.gather(*map(embed, self._batches)))

    def _embed(self, batch: list[str]) -> Vectors | Exception:
        try:
            return _matrix(self._model.get_text_embedding_batch(batch), batch)
        except Exception as error:  # noqa: BLE001  one failing batch must not lose the others
            return error

    def _collect(self, answers: Sequence[Vectors | Exception]) -> Vectors:
        dims = [answer.shape[1] for answer in answers if not isinstance(answer, Exception)]
        if not dims:
            errors = [answer for answer in answers if isinstance(answer, Exception)]
            if not errors:
                return np.empty((0, 1), dtype=np.float32)
            raise EmbeddingError(
                f"the embedding model failed on every batch; the first failure: {errors[0]!r}"
            ) from errors[0]
        dim = max(set(dims), key=dims.count)
        kept = [_rows_or_nan(answer, len(batch), dim) for answer, batch in zip(answers, self._batches, strict=True)]
        self._warn_about(sum(not np.isfinite(rows).all() or not rows.any() for rows in kept))
        return np.concatenate(kept)

    def _warn_about(self, failed: int) -> None:
        if failed:
            warnings.warn(
                f"The embedding model failed on, or gave no usable vectors for, {failed} of {len(self._batches)} "
                "batches of sentences; there, chunks are cut by size instead of meaning. Parse again when it works.",
                ChunkingPlusWarning,
                stacklevel=2,
            )


def _matrix(vectors: list[list[float]], batch: list[str]) -> Vectors:
    matrix = np.asarray(vectors, dtype=np.float32)
    if matrix.ndim != 2 or len(matrix) != len(batch):  # noqa: PLR2004  rows and columns
        raise EmbeddingError(f"the embedding model answered {len(batch)} texts with vectors of shape {matrix.shape}")
    return matrix


def _rows_or_nan(answer: Vectors | Exception, n_rows: int, dim: int) -> Vectors:
    if isinstance(answer, Exception) or answer.shape[1] != dim:
        return np.full((n_rows, dim), np.nan, dtype=np.float32)
    return answer


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
