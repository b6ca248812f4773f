"""What parsing costs in calls: each token is counted once, and each distinct sentence is embedded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from embedders import LetterEmbedding
from llama_index.core import Document
from llama_index.core.node_parser import NodeParser
from parsers import multi_granularity, semantic, semantic_percentile, small_to_big, structured_by_meaning

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    HybridNodeParser,
    MultiGranularityNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    StructuredMarkdownNodeParser,
    chinese_sentence_tokenizer,
)
from llama_index_chunking_plus.node_parser import tokenizers

SENTENCES = [f"第{i}天，店主在门口{'慢慢' * (i % 5)}扫雪，路上走过{i % 7}个人。" for i in range(600)]
TEXT = "".join(f"## 第{i // 20}节\n\n{''.join(SENTENCES[i : i + 20])}\n\n" for i in range(0, len(SENTENCES), 20))

ONE_PASS: dict[str, Callable[..., NodeParser]] = {
    "sliding": SlidingWindowNodeParser,
    "sliding without overlap": partial(SlidingWindowNodeParser, chunk_size=200, chunk_overlap=0),
    "sentence windows": partial(ChineseSentenceWindowNodeParser, unit="tokens"),
    "small to big": partial(SmallToBigNodeParser, unit="tokens", parent_size=1200, child_size=256),
    "structured": partial(StructuredMarkdownNodeParser, unit="tokens", chunk_size=800, chunk_overlap=0),
    "structured with overlap": partial(StructuredMarkdownNodeParser, unit="tokens", chunk_size=400, chunk_overlap=60),
    "several granularities": partial(MultiGranularityNodeParser.from_preset, unit="tokens"),
    "semantic": partial(SemanticNodeParser, embed_model=LetterEmbedding()),
}


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the encoding was given, as they come."""
    given: list[str] = []
    sizer = tokenizers.resolve_sizer("tokens", "tiktoken:cl100k_base")

    def encode(text: str) -> np.ndarray:
        given.append(text)
        return sizer.encode(text)

    monkeypatch.setattr(tokenizers, "_byte_pair_sizer", lambda _: replace(sizer, encode=encode))
    return given


@pytest.mark.parametrize("name", ONE_PASS)
def test_every_token_is_counted_once_but_for_chunks_at_the_limit(name: str, encoded: list[str]) -> None:
    parser = ONE_PASS[name]()
    encoded.clear()
    nodes = parser.get_nodes_from_documents([Document(text=TEXT)])
    assert len(nodes) > 5
    assert encoded[0] == TEXT
    assert sum(map(len, encoded)) <= 1.1 * len(TEXT)


# How often a callable reads each character, as `CallableSizer` documents it.
READ_BY_CALLABLE = {
    "sliding": 5,
    "sliding without overlap": 5,
    "sentence windows": 2,
    "small to big": 7,
    "structured": 5.5,
    "structured with overlap": 5.5,
    "several granularities": 17,
    "semantic": 3,
}


@pytest.mark.parametrize("name", ONE_PASS)
def test_a_callable_reads_the_text_as_often_as_documented_and_no_piece_twice(name: str) -> None:
    given: list[str] = []

    def count(text: str) -> int:
        given.append(text)
        return len(text) * 2 // 3

    parser = ONE_PASS[name](tokenizer=count)
    given.clear()
    assert len(parser.get_nodes_from_documents([Document(text=TEXT)])) > 5
    assert 2 <= sum(map(len, given)) / len(TEXT) <= READ_BY_CALLABLE[name]
    assert sum(map(len, given)) <= 1.01 * sum(map(len, set(given)))


BY_MEANING: dict[str, Callable[[LetterEmbedding], NodeParser]] = {
    "optimal": lambda model: semantic(embed_model=model),
    "percentile": lambda model: semantic_percentile(embed_model=model),
    "hybrid": lambda model: HybridNodeParser.from_defaults(model, max_chunk_size=160),
    "small to big": lambda model: small_to_big(parent_parser=semantic(embed_model=model, max_size=400)),
    "structured": lambda model: structured_by_meaning(secondary_parser=semantic(embed_model=model, max_size=60)),
    "several granularities": lambda model: multi_granularity(embed_model=model),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", BY_MEANING)
async def test_every_distinct_sentence_is_embedded_once(name: str, is_async: bool) -> None:
    model = LetterEmbedding(embed_batch_size=16)
    parser = BY_MEANING[name](model)
    documents = [Document(text=TEXT[:3_000]), Document(text=TEXT[:3_000]), Document(text=TEXT[-2_000:])]
    await parser.acall(documents) if is_async else parser(documents)
    assert max(Counter(model.asked).values()) == 1


@pytest.mark.parametrize("name", ["optimal", "percentile", "hybrid"])
def test_no_more_characters_are_embedded_than_the_document_has(name: str) -> None:
    model = LetterEmbedding()
    BY_MEANING[name](model)([Document(text=TEXT)])
    expected = Counter({each.strip() for each in chinese_sentence_tokenizer(TEXT) if each.strip()})
    assert Counter(model.asked) == expected
    assert sum(map(len, model.asked)) <= len(TEXT)
