"""Documents of all lengths in chunks of several levels, and indexes of them in every kind of store."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from vector_stores import DIMENSION

from llama_index_chunking_plus.core.hierarchy import SENTENCE, Granularity
from llama_index_chunking_plus.node_parser import MultiGranularityNodeParser

LEVELS = (Granularity("coarse", 120, 260), Granularity("medium", 40, 80), Granularity("fine", 12, 32))
SENTENCES = Granularity(SENTENCE, 0, 32, each_sentence=True)

_NOUNS = [
    "年假",
    "病假",
    "工资",
    "奖金",
    "合同",
    "门禁",
    "仓库",
    "发票",
    "会议",
    "电梯",
    "食堂",
    "班车",
    "考勤",
    "培训",
    "加班",
    "出差",
    "报销",
    "保险",
    "宿舍",
    "电脑",
]
_VERBS = ["申请", "登记", "审批", "变更", "取消", "查询", "补交", "延期", "上报", "核对"]
_TIMES = ["周一", "周三", "月初", "月底", "年初", "每天", "午后", "清晨", "春节", "节后"]


@cache
def _direction(pair: str) -> np.ndarray:
    seed = hashlib.blake2b(pair.encode("utf-8", "replace"), digest_size=4).digest()
    return np.random.default_rng(int.from_bytes(seed, "big")).normal(size=DIMENSION)


def pair_vector(text: str) -> list[float]:
    """A sum of random directions, one for each pair of characters: texts that share words are near."""
    vector = 1e-3 + sum((_direction(left + right) for left, right in pairwise(text)), np.zeros(DIMENSION))
    return (vector / np.linalg.norm(vector)).tolist()


class PairEmbedding(BaseEmbedding):
    """Counts the queries and the texts that it is asked for."""

    scale: float = 1.0  # the length of its vectors

    _queries: list[str] = PrivateAttr(default_factory=list)
    _texts: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "PairEmbedding"

    @property
    def queries(self) -> list[str]:
        return self._queries

    @property
    def texts(self) -> list[str]:
        return self._texts

    def _scaled(self, text: str) -> list[float]:
        return [self.scale * each for each in pair_vector(text)]

    def _get_text_embedding(self, text: str) -> list[float]:
        self._texts.append(text)
        return self._scaled(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        self._queries.append(query)
        return self._scaled(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def sentence(chance: random.Random) -> str:
    return f"{chance.choice(_TIMES)}{chance.choice(_NOUNS)}要{chance.choice(_VERBS)}{chance.randint(2, 999)}次。"


def text_of(seed: object, n_sentences: int, heading_every: int = 0) -> str:
    chance = random.Random(str(seed))
    lines = []
    for i in range(n_sentences):
        if heading_every and i % heading_every == 0:
            lines.append(f"\n\n## {chance.choice(_NOUNS)}{i}\n\n")
        lines.append(sentence(chance))
    return "".join(lines).lstrip()


def corpus(version: int = 0, *, shown: bool = False) -> list[Document]:
    """Documents of 30 sentences, with headings and without, of 8, which have no coarse chunks, and of 1 and 2.

    Args:
        version: another one has other texts.
        shown: whether the embedding model reads the metadata.
    """
    sizes = {"long0": 30, "long1": 30, "long2": 40, "short0": 8, "short1": 7, "tiny0": 2, "tiny1": 1}
    return [
        Document(
            id_=name,
            text=text_of((name, version), size, 6 if name in {"long1", "short1"} else 0),
            metadata={"tenant": "甲" if i % 2 else "乙", "version": i},
            excluded_embed_metadata_keys=[] if shown else ["tenant", "version"],
            excluded_llm_metadata_keys=["version"],
        )
        for i, (name, size) in enumerate(sizes.items())
    ]


def parser(*, sentences: bool = False, **options: Any) -> MultiGranularityNodeParser:
    levels = (*LEVELS, SENTENCES) if sentences else LEVELS
    return MultiGranularityNodeParser(**{"levels": levels, **options})


def nodes_of(documents: Sequence[Document], *steps: Any) -> list[BaseNode]:
    return list(IngestionPipeline(transformations=[*steps], disable_cache=True).run(documents=list(documents)))


def embedded(documents: Sequence[Document], *, sentences: bool = False) -> list[BaseNode]:
    return nodes_of(documents, parser(sentences=sentences), PairEmbedding())


def index_of(
    store: BasePydanticVectorStore, nodes: Sequence[BaseNode], model: BaseEmbedding | None = None
) -> VectorStoreIndex:
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(list(nodes), storage_context=context, embed_model=model or PairEmbedding())


def where(key: str, value: Any, operator: FilterOperator = FilterOperator.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def level_of(node: BaseNode) -> str:
    return str(node.metadata["granularity"])


def docstore_of(documents: Sequence[Document]) -> SimpleDocumentStore:
    docstore = SimpleDocumentStore()
    docstore.add_documents(list(documents))
    return docstore


def told(hits: Sequence[NodeWithScore]) -> list[tuple[str, float]]:
    return [(hit.node_id, hit.score or 0.0) for hit in hits]


def explained(hit: NodeWithScore) -> dict[str, Any]:
    explanation: dict[str, Any] = hit.metadata["explanation"]
    return explanation


def assert_same(found: Sequence[NodeWithScore], expected: Sequence[NodeWithScore], within: float = 1e-4) -> None:
    """The same hits in the same order with the same scores and explanations, but for rounding and notes."""
    assert [hit.node_id for hit in found] == [hit.node_id for hit in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=within)
        mine, its = explained(one), explained(other)
        assert (mine["level"], mine["parents"]) == (its["level"], its["parents"])
        assert mine["scores"] == pytest.approx(its["scores"], abs=within)
