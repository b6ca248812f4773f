"""What stores can tell and take, with the stores themselves: rows, vectors, replacing, deleting, and syncing to them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult
from vector_stores import DIMENSION, FAMILIES, Stores, filled, row, row_id, stop_milvus, unit

from llama_index_chunking_plus import SlidingWindowNodeParser, SmallToBigNodeParser
from llama_index_chunking_plus.core.plan import Call
from llama_index_chunking_plus.errors import StoreMismatchError
from llama_index_chunking_plus.ingestion import SyncReport, delete_document, sync_documents
from llama_index_chunking_plus.storage import (
    SiblingLookup,
    StoredParentLookup,
    can_list,
    delete_document_rows,
    delete_rows,
    max_batch_size,
    rows_by_document,
    vector_dimension,
)
from llama_index_chunking_plus.storage import chroma as chroma_module
from llama_index_chunking_plus.storage import milvus as milvus_module
from llama_index_chunking_plus.storage import qdrant as qdrant_module
from llama_index_chunking_plus.storage import stores as stores_module
from llama_index_chunking_plus.storage.similarity import query_rows, vectors_of
from llama_index_chunking_plus.storage.stores import (
    can_replace,
    ids_of_documents,
    own_async,
    replace_rows,
    returns_rows,
    rows_by_id,
    rows_with,
)

LISTED = ["chroma", "milvus", "qdrant"]  # keep texts
VECTORS = unit(np.random.default_rng(3).normal(size=(30, DIMENSION)))
ODD = ["a", "it's", 'a "b"', "back\\slash", "两\n行\u200b", "%", ""]


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.closing:
        yield made


def library(opened: Stores, kind: str) -> BasePydanticVectorStore:
    """Thirty rows of six documents and ten parents."""
    store = opened.make(kind)
    store.add(
        [
            row(str(each), vector, document=ODD[each % 6], parent_id=ODD[each % 6] + str(each % 10))
            for each, vector in enumerate(VECTORS)
        ]
    )
    return store


def held(store: BasePydanticVectorStore, names: Sequence[int]) -> dict[str, TextNode]:
    return {node.node_id: node for node in rows_by_id(store, [row_id(str(name)) for name in names]).run()}


def every_row(store: BasePydanticVectorStore, documents: Sequence[str]) -> list[str]:
    return list(chain.from_iterable(rows_by_document(store, documents).values()))


# --- what a store tells ---


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_empty_store_tells_that_it_is_empty(opened, kind):
    store = opened.make(kind)
    assert can_list(store)
    assert can_replace(store) == (kind != "milvus")
    assert rows_by_document(store, ["a"]) == {"a": []}
    assert rows_by_document(store, [str(each) for each in range(20)]) == {str(each): [] for each in range(20)}
    assert ids_of_documents(store) == []
    assert max_batch_size(store) >= 1_000
    delete_document_rows(store, "a")
    if returns_rows(store):
        assert rows_by_id(store, [row_id("a")]).run() == []
        assert rows_with(store, "parent_id", ["a"]).run() == []


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("asked", [ODD, [*ODD, *map(str, range(20))]], ids=["few", "many"])
def test_rows_are_listed_by_document(opened, kind, asked):
    store = library(opened, kind)
    rows = rows_by_document(store, asked)
    assert list(rows) == asked
    for each, document in enumerate(ODD[:6]):
        assert sorted(rows[document]) == sorted(row_id(str(number)) for number in range(each, 30, 6))
    assert not any(rows[document] for document in asked if document not in ODD[:6])
    assert sorted(ids_of_documents(store)) == sorted(ODD[:6])


@pytest.mark.parametrize("kind", FAMILIES)
def test_owners_that_are_known_are_believed(opened, kind):
    asked = [*ODD, *map(str, range(20))]
    rows = rows_by_document(library(opened, kind), asked, {row_id("0"): "19"})
    assert rows["19"] == [row_id("0")]
    assert sum(map(len, rows.values())) == 30


@pytest.mark.parametrize("kind", LISTED)
def test_all_rows_are_listed_however_many_come_at_once(opened, kind, monkeypatch):
    for module in (chroma_module, milvus_module, qdrant_module):
        monkeypatch.setattr(module, "PAGE", 4)
        monkeypatch.setattr(module, "MAX_ASKED", 4, raising=False)
    monkeypatch.setattr(milvus_module, "_MAX_RETURNED", 4)
    store = library(opened, kind)
    assert sum(map(len, rows_by_document(store, [*ODD, *map(str, range(20))]).values())) == 30
    assert [len(rows) for rows in rows_by_document(store, ODD).values()] == [5] * 6 + [0]
    assert len(rows_with(store, "parent_id", [f"a{each}" for each in range(10)]).run()) == 5


@pytest.mark.parametrize("kind", LISTED)
def test_rows_come_by_id_and_by_metadata(opened, kind):
    store = library(opened, kind)
    found = rows_by_id(store, [row_id("3"), row_id("nowhere"), row_id("5")]).run()
    assert {node.node_id: (node.text, node.ref_doc_id) for node in found} == {
        row_id("3"): ("第3行", ODD[3]),
        row_id("5"): ("第5行", ODD[5]),
    }
    wanted = [ODD[each % 6] + str(each % 10) for each in (1, 2, 3, 4, 5)]
    found = rows_with(store, "parent_id", [*wanted, "nowhere"]).run()
    assert sorted(node.node_id for node in found) == sorted(row_id(str(each)) for each in (1, 2, 3, 4, 5))


@pytest.mark.parametrize("kind", LISTED)
def test_rows_can_be_awaited_in_one_event_loop_after_the_other(opened, kind):
    store = library(opened, kind)

    async def ask() -> tuple[int, int, int, int]:
        rows = await rows_by_id(store, [row_id("3")]).arun()
        more = await rows_with(store, "parent_id", ["a0"]).arun()
        vectors = await vectors_of(store, [row_id("3")]).arun()
        hits = await query_rows(store, list(VECTORS[0]), 2).arun()
        return len(rows), len(more), len(vectors), len(hits.ids)

    assert asyncio.run(ask()) == asyncio.run(ask()) == (1, 1, 1, 2)


@pytest.mark.parametrize("kind,before", [("simple", None), ("chroma", None), ("milvus", DIMENSION), ("qdrant", None)])
def test_the_length_of_vectors_is_told_once_it_is_fixed(opened, kind, before):
    store = opened.make(kind)
    assert vector_dimension(store) == before
    filled(store, VECTORS[:2])
    assert vector_dimension(store) == (None if kind == "simple" else DIMENSION)


# --- what a store takes ---


@pytest.mark.parametrize("kind", ["simple", "chroma", "qdrant"])
def test_a_row_takes_the_place_of_the_old_one(opened, kind):
    store = library(opened, kind)
    new = row("3", VECTORS[0], document="b", lang="zh")
    new.set_content("新的一行")
    before = new.model_copy(deep=True)
    replace_rows(store, [new, row("new", VECTORS[1], document="b")])
    assert new == before
    rows = rows_by_document(store, [*ODD, "b"])
    assert sorted(rows.pop("b")) == sorted([row_id("3"), row_id("new")])
    assert Counter(len(each) for each in rows.values()) == {5: 5, 4: 1, 0: 1}
    assert np.allclose(vectors_of(store, [row_id("3")]).run()[row_id("3")], VECTORS[0], atol=1e-6)
    assert query_rows(store, list(VECTORS[3]), 30, one_of=("parent_id", ["back\\slash3"])).run().ids == []
    assert query_rows(store, list(VECTORS[3]), 30, equal={"lang": "zh"}).run().ids == [row_id("3")]
    if returns_rows(store):
        node = held(store, [3])[row_id("3")]
        assert (node.text, node.metadata, node.ref_doc_id) == ("新的一行", {"lang": "zh"}, "b")


@pytest.mark.parametrize("kind", FAMILIES)
def test_rows_are_deleted_in_batches(opened, kind, monkeypatch):
    monkeypatch.setattr("llama_index_chunking_plus.storage.stores.max_batch_size", lambda _: 4)
    store = library(opened, kind)
    delete_rows(store, [*(row_id(str(each)) for each in range(25)), row_id("unknown")])
    left = [row_id(str(each)) for each in range(25, 30)]
    assert sorted(every_row(store, ODD)) == sorted(left)
    delete_rows(store, [])
    delete_document_rows(store, ODD[29 % 6])
    assert sorted(every_row(store, ODD)) == sorted(left[:-1])


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_document_with_an_odd_name_is_deleted_alone(opened, kind):
    for document in ODD[:6]:
        store = library(opened, kind)
        delete_document_rows(store, document)
        assert {name: len(rows) for name, rows in rows_by_document(store, ODD[:6]).items()} == {
            name: 0 if name == document else 5 for name in ODD[:6]
        }


def test_a_store_of_qdrant_without_a_sync_client_counts_as_unknown():
    qdrant_client = pytest.importorskip("qdrant_client")
    adapter = pytest.importorskip("llama_index.vector_stores.qdrant")

    async def ask() -> tuple[bool, bool, list[str]]:
        client = qdrant_client.AsyncQdrantClient(":memory:")
        store = adapter.QdrantVectorStore("rows", aclient=client, index_doc_id=False)
        await store.async_add([row(str(each), vector) for each, vector in enumerate(VECTORS)])
        hits = await query_rows(store, list(VECTORS[2]), 1).arun()
        await client.close()
        return can_list(store), own_async(store, "aquery"), hits.ids

    assert asyncio.run(ask()) == (False, True, [row_id("2")])


def test_no_database_is_imported_before_there_is_a_store_of_it():
    code = (
        "import sys, llama_index_chunking_plus.storage.similarity as similarity\n"
        "from llama_index.core.vector_stores import SimpleVectorStore\n"
        "similarity.query_rows(SimpleVectorStore(), [1.0], 1).run()\n"
        "print({'chromadb', 'pymilvus', 'milvus_lite', 'qdrant_client'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603  our own line
    assert shown.stdout.strip() == "set()"


class Busy(SimpleVectorStore):
    """Fails some times with what a Chroma server says while another client writes."""

    failures: int = 0
    message: str = ""

    @classmethod
    def of(cls, failures: int, message: str = "Error executing plan: Internal error: Error finding id") -> Busy:
        store = cls()
        store.failures, store.message = failures, message
        return store

    @classmethod
    def class_name(cls) -> str:
        return "ChromaVectorStore"

    @property
    def client(self) -> Any:
        return self

    def query(self, *_: Any, **__: Any) -> VectorStoreQueryResult:
        self.failures -= 1
        if self.failures >= 0:
            raise RuntimeError(self.message)
        return VectorStoreQueryResult(nodes=[], similarities=[0.5], ids=["a"])


@pytest.mark.parametrize("ask", [Call.run, lambda call: asyncio.run(call.arun())], ids=["sync", "async"])
def test_a_question_that_a_write_disturbs_is_asked_again(monkeypatch, ask):
    monkeypatch.setattr(stores_module, "WAITS_SECONDS", (0.0,) * 3)
    assert ask(query_rows(Busy.of(3), [1.0], 5)).ids == ["a"]
    for store in (Busy.of(4), Busy.of(1, "no such collection")):
        with pytest.raises(RuntimeError, match=store.message):
            ask(query_rows(store, [1.0], 5))
    assert store.failures == 0  # asked once


class Flushing:
    """A served collection that another client has just begun to fill."""

    def __init__(
        self, failures: int, message: str = "Error creating hnsw segment reader: Nothing found on disk"
    ) -> None:
        self.failures, self.message, self.asked = failures, message, 0

    def get(self, **_: Any) -> dict[str, Any]:
        self.asked += 1
        if self.asked <= self.failures:
            raise RuntimeError(self.message)
        return {"ids": ["a"], "embeddings": [[1.0, 0.0]]}


def test_a_server_that_is_writing_its_first_file_is_asked_again(monkeypatch):
    monkeypatch.setattr(chroma_module, "WAITS_SECONDS", (0.0,) * 3)
    assert chroma_module._with_vectors(Flushing(3), ["embeddings"])["embeddings"] == [[1.0, 0.0]]
    for collection in (Flushing(4), Flushing(1, "no such collection")):
        with pytest.raises(RuntimeError, match=collection.message):
            chroma_module._with_vectors(collection, ["embeddings"])
    assert collection.asked == 1


# --- syncing to them ---


class Letters(MockEmbedding):
    """Vectors that tell texts apart; counts the texts it is given."""

    embed_dim: int = DIMENSION
    _texts: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"embed_dim": DIMENSION, **kwargs})

    @classmethod
    def class_name(cls) -> str:
        return "Letters"

    def _get_text_embedding(self, text: str) -> list[float]:
        self._texts.append(text)
        return vector_of(text, self.embed_dim)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embedding(text)


def vector_of(text: str, dimension: int = DIMENSION) -> list[float]:
    return unit(np.random.default_rng(zlib.crc32(text.encode())).normal(size=dimension)).tolist()


class World:
    """A store, documents in it, and pipelines as new processes would make them."""

    def __init__(self, store: BasePydanticVectorStore, state: Any) -> None:
        self.store, self.state, self.embedding = store, state, Letters()
        self.parser: Any = SlidingWindowNodeParser(chunk_size=20, chunk_overlap=0)

    def sync(self, documents: Sequence[Document], **options: Any) -> SyncReport:
        self.embedding._texts.clear()
        pipeline = IngestionPipeline(transformations=[self.parser, self.embedding], vector_store=self.store)
        return sync_documents(documents, pipeline, persist_dir=self.state, **options)

    def assert_holds(self, documents: Sequence[Document]) -> None:
        """Its rows are those of these documents: ids, texts, owners and vectors."""
        nodes = {node.node_id: node for node in self.parser.get_nodes_from_documents(documents)}
        rows = rows_by_document(self.store, [*ids_of_documents(self.store), *(each.id_ for each in documents)])
        assert sorted(chain.from_iterable(rows.values())) == sorted(nodes)
        assert {each: owner for owner, ids in rows.items() for each in ids} == {
            each: node.ref_doc_id for each, node in nodes.items()
        }
        vectors = vectors_of(self.store, list(nodes)).run()
        for each, node in nodes.items():
            assert np.allclose(vectors[each], vector_of(node.get_content(MetadataMode.EMBED)), atol=1e-6)
        if returns_rows(self.store):
            found = {node.node_id: node.text for node in rows_by_id(self.store, list(nodes)).run()}
            assert found == {each: node.text for each, node in nodes.items()}


@pytest.fixture(params=FAMILIES)
def world(request, opened, tmp_path) -> World:
    return World(opened.make(request.param), tmp_path)


def doc(name: str, text: str) -> Document:
    return Document(id_=name, text=text, metadata={"file_name": f"{name}.md"})


FIRST = [
    doc("甲", "年假从入职当天开始计算。满十年的员工有十五天。"),
    doc('it\'s "b"', "报销须在三十天内提交。"),
    doc("c\\d", "第三条。" * 12),
]
SECOND = [FIRST[0], doc('it\'s "b"', "报销须在二十天内提交。逾期不予受理,由本人承担。"), doc("丁", "新的一篇。")]


def test_a_store_follows_its_documents(world):
    assert world.sync(FIRST).added == tuple(each.id_ for each in FIRST)
    world.assert_holds(FIRST)
    assert world.sync(FIRST) == SyncReport(unchanged=tuple(each.id_ for each in FIRST))
    assert world.embedding._texts == []
    report = world.sync(SECOND, delete_missing=True)
    assert (report.added, report.updated, report.unchanged, report.deleted) == (
        ("丁",),
        ('it\'s "b"',),
        ("甲",),
        ("c\\d",),
    )
    world.assert_holds(SECOND)
    assert world.sync(SECOND, delete_missing=True) == SyncReport(unchanged=tuple(each.id_ for each in SECOND))


def test_another_option_of_the_parser_makes_all_rows_again(world):
    world.sync(FIRST)
    world.parser = SlidingWindowNodeParser(chunk_size=12, chunk_overlap=0)
    assert world.sync(FIRST).updated == tuple(each.id_ for each in FIRST)
    world.assert_holds(FIRST)
    assert not world.sync(FIRST).changed


def test_metadata_that_changed_replaces_rows_of_the_same_text(world):
    world.sync(FIRST)
    renamed = [Document(id_=each.id_, text=each.text, metadata={"owner": "财务"}) for each in FIRST]
    assert world.sync(renamed).updated == tuple(each.id_ for each in FIRST)
    world.assert_holds(renamed)
    assert query_rows(world.store, vector_of("x"), 99, equal={"file_name": "甲.md"}).run().ids == []
    found = query_rows(world.store, vector_of("x"), 99, equal={"owner": "财务"}).run()
    assert len(found.ids) == len(world.parser.get_nodes_from_documents(renamed))


def test_rows_that_went_missing_or_are_strange_are_noticed(world):
    world.sync(FIRST)
    lost = rows_by_document(world.store, ["甲"])["甲"][0]
    delete_rows(world.store, [lost])
    world.store.add([row("strange", VECTORS[0], document="c\\d")])
    assert world.sync(FIRST).repaired == ("甲", "c\\d")
    world.assert_holds(FIRST)


def test_a_deleted_document_is_gone(world):
    world.sync(FIRST)
    pipeline = IngestionPipeline(transformations=[world.parser, world.embedding], vector_store=world.store)
    report = delete_document("c\\d", pipeline, persist_dir=world.state)
    assert report.rows == len(world.parser.get_nodes_from_documents(FIRST[2:]))
    world.assert_holds(FIRST[:2])


@pytest.mark.parametrize("kind", LISTED)
def test_vectors_of_another_length_end_the_run_before_anything_changes(opened, kind, tmp_path):
    world = World(opened.make(kind), tmp_path)
    world.sync(FIRST)
    world.embedding = Letters(embed_dim=DIMENSION + 1)
    with pytest.raises(StoreMismatchError, match=f"vectors of length {DIMENSION}, the embedding model gives"):
        world.sync(FIRST)
    world.assert_holds(FIRST)


@pytest.mark.parametrize("kind", LISTED)
def test_parents_are_found_in_the_store(opened, kind, tmp_path):
    world = World(opened.make(kind), tmp_path)
    world.parser = SmallToBigNodeParser(parent_size=40, child_size=10, emit="both")
    world.sync(FIRST)
    parents = {node.node_id: node.text for node in world.parser.parent_nodes(FIRST)}
    rows = rows_by_id(world.store, every_row(world.store, ["甲", "c\\d"])).run()
    children = [node for node in rows if "parent_id" in node.metadata]
    assert len(children) > 3
    for lookup in (SiblingLookup(world.store), StoredParentLookup(world.store)):
        found = lookup.find(children).parents
        assert {each: node.text for each, node in found.items()} == {
            each: parents[each] for each in {child.metadata["parent_id"] for child in children}
        }


def test_a_store_of_milvus_lite_is_there_after_a_restart(tmp_path):
    pytest.importorskip("milvus_lite")
    adapter = pytest.importorskip("llama_index.vector_stores.milvus")

    def opened_anew() -> World:
        path = str(tmp_path / "milvus.db")
        return World(adapter.MilvusVectorStore(uri=path, dim=DIMENSION, use_async_client=False), tmp_path / "state")

    for documents, changed in ((FIRST, 3), (FIRST, 0), (SECOND, 3)):
        world = opened_anew()
        assert len(world.sync(documents, delete_missing=True).changed) == changed
        world.assert_holds(documents)
        stop_milvus(world.store, tmp_path / "milvus.db")


def test_a_local_store_of_qdrant_is_there_after_a_restart(tmp_path):
    qdrant_client = pytest.importorskip("qdrant_client")
    adapter = pytest.importorskip("llama_index.vector_stores.qdrant")
    for documents, changed in ((FIRST, 3), (FIRST, 0), (SECOND, 3)):
        client = qdrant_client.QdrantClient(path=str(tmp_path / "qdrant"))
        world = World(adapter.QdrantVectorStore("rows", client=client, index_doc_id=False), tmp_path / "state")
        assert len(world.sync(documents, delete_missing=True).changed) == changed
        world.assert_holds(documents)
        client.close()
