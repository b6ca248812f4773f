"""Embedding models for tests: deterministic, counting, failing. Module-level, so that worker processes can load them."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding


def letter_vector(text: str) -> list[float]:
    """A bag of hashed character pairs: texts that share words are near."""
    vector = np.full(32, 1e-3)
    for left, right in pairwise(text):
        digest = hashlib.blake2b((left + right).encode("utf-8", "replace"), digest_size=2).digest()
        vector[digest[0] % 32] += 1 if digest[1] % 2 else -1
    return (vector / np.linalg.norm(vector)).tolist()


class LetterEmbedding(BaseEmbedding):
    """Counts what it is asked."""

    _asked: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "LetterEmbedding"

    @property
    def asked(self) -> list[str]:
        return self._asked

    def _vector(self, text: str) -> list[float]:
        self._asked.append(text)
        return letter_vector(text)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return letter_vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return letter_vector(query)


class FaultyEmbedding(LetterEmbedding):
    """Fails, or answers nonsense, for the texts that hold a given word."""

    word: str = "坏"
    fault: str = "raise"

    @classmethod
    def class_name(cls) -> str:
        return "FaultyEmbedding"

    def _get_text_embedding(self, text: str) -> list[float]:
        if self.word not in text:
            return self._vector(text)
        answers: dict[str, Any] = {
            "nan": [float("nan")] * 32,
            "infinite": [float("inf")] * 32,
            "huge": [1e308] * 32,
            "zero": [0.0] * 32,
            "dimension": [1.0] * 7,
        }
        if self.fault == "raise":
            raise TimeoutError("the model did not answer")
        return answers[self.fault]
