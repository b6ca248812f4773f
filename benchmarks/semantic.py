"""SemanticNodeParser against SemanticSplitterNodeParser with the same sentences: time, embedded characters, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llama_index.core import Document
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser, SemanticSplitterNodeParser
from timing import distinct, paired, peak_megabytes

from llama_index_chunking_plus import OfflineEmbedding, SemanticNodeParser, chinese_sentence_tokenizer
from llama_index_chunking_plus.samples import sample_paths

DIMENSIONS = 384
REQUEST = 0.02  # seconds


class FreeEmbedding(BaseEmbedding):
    """Gives vectors, as lists, that cost next to nothing, and notes how many characters it was given."""

    _vectors: Any = PrivateAttr()
    _given: int = PrivateAttr(default=0)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._vectors = np.random.default_rng(0).normal(size=(997, DIMENSIONS))

    @property
    def given(self) -> int:
        return self._given

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        """All of a batch at once: LlamaIndex's tracing of single texts would take longer than anything else."""
        self._given += sum(map(len, texts))
        return self._vectors[[len(text) % len(self._vectors) for text in texts]].tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class RemoteEmbedding(FreeEmbedding):
    """One request for each batch, which takes a while to be answered."""

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(REQUEST)
        return self._get_text_embeddings(texts)


def ours(model: BaseEmbedding) -> NodeParser:
    return SemanticNodeParser(embed_model=model)


def by_percentile(model: BaseEmbedding) -> NodeParser:
    """The rule of LlamaIndex's parser; "optimal", our default, compares all segmentations."""
    return SemanticNodeParser(embed_model=model, rule="percentile")


def theirs(model: BaseEmbedding) -> NodeParser:
    return SemanticSplitterNodeParser(embed_model=model, sentence_splitter=chinese_sentence_tokenizer)


def bundled() -> list[Document]:
    return [Document(text=path.read_text(encoding="utf-8")) for path in sample_paths()]


def real() -> dict[str, float]:
    model, documents = OfflineEmbedding(), bundled()
    model.get_text_embedding("warm")
    times = paired(lambda: ours(model)(documents), lambda: theirs(model)(documents), 3)
    return {
        "seconds for the bundled documents": times.ours,
        "times as fast as SemanticSplitterNodeParser": times.ratio,
        "embedded characters for one of the document": embedded(ours, documents),
        "embedded characters for one of the document, SemanticSplitterNodeParser": embedded(theirs, documents),
    }


def embedded(make: Callable[[BaseEmbedding], NodeParser], documents: Sequence[Document]) -> float:
    model = FreeEmbedding()
    make(model)(documents)
    return model.given / sum(len(document.text) for document in documents)


def free() -> dict[str, float]:
    """What remains of the time when vectors cost nothing."""
    model, documents = FreeEmbedding(embed_batch_size=256), [Document(text=distinct(1))]
    figures = {}
    for rule, make in (("optimal", ours), ("percentile", by_percentile)):
        times = paired(lambda: make(model)(documents), lambda: theirs(model)(documents), 3)  # noqa: B023
        figures[f"seconds for 1 MB, {rule}"] = times.ours
        figures[f"times as fast as SemanticSplitterNodeParser, {rule}"] = times.ratio
    return figures


def prepared(make: Callable[[BaseEmbedding], NodeParser], megabytes: float) -> Callable[[], Any]:
    parser, documents = make(FreeEmbedding(embed_batch_size=256)), [Document(text=distinct(megabytes))]
    make(FreeEmbedding())([Document(text="先装好所有的部件。再来。")])
    return lambda: parser(documents)


def memory() -> dict[str, float]:
    own, other = (peak_megabytes(prepared, make, 2) for make in (ours, theirs))
    return {
        "peak MB for 2 MB": own,
        "peak MB for 2 MB, SemanticSplitterNodeParser": other,
        "peak, of SemanticSplitterNodeParser's": own / other,
    }


def waiting() -> dict[str, float]:
    """Fifty short documents of 1,000 characters; both send ten sentences at once, by LlamaIndex's default."""
    text = distinct(0.2)
    documents = [Document(text=text[at : at + 1_000]) for at in range(0, 50_000, 1_000)]
    model = RemoteEmbedding()
    times = paired(
        lambda: asyncio.run(ours(model).acall(documents)), lambda: asyncio.run(theirs(model).acall(documents)), 3
    )
    return {"seconds for 50 documents": times.ours, "times as fast as SemanticSplitterNodeParser": times.ratio}
