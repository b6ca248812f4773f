"""sync_documents: whatever happens in between, the stores end up holding exactly what the documents say."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
import zlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import HierarchicalNodeParser, NodeParser, SentenceSplitter
from llama_index.core.node_parser.node_utils import build_nodes_from_splits
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.vector_stores import SimpleVectorStore

from llama_index_chunking_plus import SlidingWindowNodeParser
from llama_index_chunking_plus.errors import (
    ChunkingPlusWarning,
    EmbeddingError,
    OptionError,
    StoreBusyError,
    StoreMismatchError,
)
from llama_index_chunking_plus.ingestion import SyncReport, async_sync_documents, load_docstore, steps, sync_documents
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations, hash_document
from llama_index_chunking_plus.ingestion.ledger import Ledger, exclusive
from llama_index_chunking_plus.storage import can_list, max_batch_size, rows_by_document, stores

chromadb = pytest.importorskip("chromadb")
ChromaVectorStore = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore

# --- the pieces of a pipeline, counted ---


def split_at_full_stops(text: str) -> list[str]:
    return [sentence + "。" for sentence in text.split("。") if sentence]


def vector(text: str) -> tuple[float, float]:
    """A vector that says what was embedded, exact in 32 bits."""
    return float(len(text)), float(zlib.crc32(text.encode()) % 99_991)


class TellingEmbedding(MockEmbedding):
    """Vectors that tell texts apart; counts the texts it is given."""

    embed_dim: int = 2
    poison: str = "POISON"
    _texts: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"embed_dim": 2, **kwargs})

    @classmethod
    def class_name(cls) -> str:
        return "TellingEmbedding"

    @property
    def texts(self) -> list[str]:
        return self._texts

    def _get_text_embedding(self, text: str) -> list[float]:
        self._texts.append(text)
        if self.poison in text:
            raise RuntimeError("the model chokes")
        return list(vector(text))[: self.embed_dim] + [0.0] * (self.embed_dim - 2)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embedding(text)


class LineParser(NodeParser):
    """One node a line; ids without content, the hardest case for a store that keeps what it has under an id."""

    prefix: str = ""
    _parsed: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "LineParser"

    @property
    def parsed(self) -> list[str]:
        return self._parsed

    def _parse_nodes(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        made: list[BaseNode] = []
        for node in nodes:
            self._parsed.append(node.node_id)
            lines = [self.prefix + line for line in node.get_content(MetadataMode.NONE).split("\n") if line.strip()]
            made.extend(build_nodes_from_splits(lines, node, id_func=lambda i, d: f"{d.node_id}-{i}"))
        return made


class UnlistedVectorStore(SimpleVectorStore):
    """A store that nobody knows: it cannot be asked what it holds, and knows no row to delete by its id."""

    @classmethod
    def class_name(cls) -> str:
        return "UnlistedVectorStore"

    def delete_nodes(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError


@cache
def shared_chroma() -> Any:
    """One real, persistent Chroma for all tests of this process: making one takes as long as ten syncs."""
    directory = tempfile.TemporaryDirectory(prefix="chroma", ignore_cleanup_errors=True)
    atexit.register(directory.cleanup)
    return chromadb.PersistentClient(directory.name)


class World:
    """Stores that outlive the process, and pipelines that do not."""

    def __init__(self, kind: str, path: Path, client: Any = None) -> None:
        self.kind, self.dir = kind, path / "state"
        self.collection = "rows" if client else uuid.uuid4().hex
        self.embedding, self.parser = TellingEmbedding(), LineParser()
        if kind == "chroma":
            self.client = client or shared_chroma()
            self.store: Any = ChromaVectorStore(chroma_collection=self.client.get_or_create_collection(self.collection))
        else:
            self.store = SimpleVectorStore() if kind == "simple" else UnlistedVectorStore()

    def pipeline(self, **options: Any) -> IngestionPipeline:
        """A pipeline as a new process would make it."""
        options = {"transformations": [self.parser, self.embedding], "vector_store": self.store, **options}
        return IngestionPipeline(**options)

    def sync(self, documents: Sequence[Document], docstore: Any = None, **options: Any) -> SyncReport:
        return sync_documents(documents, self.pipeline(docstore=docstore), persist_dir=self.dir, **options)

    def empty_store(self) -> None:
        if self.kind == "chroma":
            self.client.delete_collection(self.collection)
            self.store = ChromaVectorStore(chroma_collection=self.client.get_or_create_collection(self.collection))
        else:
            self.store.clear()

    def rows(self) -> dict[str, list[tuple[float, ...]]]:
        """The vectors that the store holds, by document."""
        found: dict[str, list[tuple[float, ...]]] = {}
        if self.kind == "chroma":
            held = self.store.client.get(include=["metadatas", "embeddings"])
            pairs = zip([row["document_id"] for row in held["metadatas"]], held["embeddings"], strict=True)
        else:
            data = self.store.data
            pairs = ((data.text_id_to_ref_doc_id[row], vector) for row, vector in data.embedding_dict.items())
        for owner, embedding in pairs:
            found.setdefault(owner, []).append(tuple(float(x) for x in embedding))
        return {owner: sorted(vectors) for owner, vectors in found.items()}

    def assert_holds(self, documents: Sequence[Document]) -> None:
        expected = {d.id_: sorted(vector(line) for line in d.text.split("\n") if line.strip()) for d in documents}
        assert self.rows() == {owner: rows for owner, rows in expected.items() if rows}
        docstore = load_docstore(self.dir)
        assert {id_: node.get_content(MetadataMode.NONE) for id_, node in docstore.docs.items()} == {
            d.id_: d.text for d in documents
        }
        assert set(docstore.get_all_document_hashes()) == {d.hash for d in documents}


def doc(id_: str, text: str, **options: Any) -> Document:
    return Document(id_=id_, text=text, **options)


FIRST = [doc("a", "a1\na2\na3"), doc("b", "b1"), doc("c", "c1\nc2"), doc("blank", " \n ")]
SECOND = [doc("a", "a1\nchanged"), doc("b", "b1"), doc("c", ""), doc("blank", "no longer\nblank\nat all")]


@pytest.fixture(params=["chroma", "simple", "unlisted"])
def world(request, tmp_path) -> World:
    return World(request.param, tmp_path)


@pytest.fixture(params=["chroma", "simple"])
def listed(request, tmp_path) -> World:
    return World(request.param, tmp_path)


@pytest.fixture
def simple(tmp_path) -> World:
    return World("simple", tmp_path)


# --- what a run does ---


def test_adds_updates_and_leaves_alone(world):
    assert world.sync(FIRST) == SyncReport(added=("a", "b", "c", "blank"), nodes_written=6)
    world.assert_holds(FIRST)
    report = world.sync(SECOND)
    assert report == SyncReport(updated=("a", "c", "blank"), unchanged=("b",), nodes_written=5)
    assert report.changed == ("a", "c", "blank")
    world.assert_holds(SECOND)


def test_unchanged_documents_are_neither_parsed_nor_embedded_nor_saved(world):
    world.sync(FIRST)
    world.embedding.texts.clear()
    world.parser.parsed.clear()
    saved = (world.dir / "docstore.json").stat().st_mtime_ns
    report = world.sync(FIRST)
    assert report == SyncReport(unchanged=("a", "b", "c", "blank"))
    assert not report.changed
    assert (world.embedding.texts, world.parser.parsed) == ([], [])
    assert (world.dir / "docstore.json").stat().st_mtime_ns == saved


def test_one_changed_document_of_many_is_the_only_work(listed):
    many = [doc(f"d{i}", f"text {i}\nmore {i}") for i in range(600)]
    assert len(listed.sync(many).added) == 600
    listed.embedding.texts.clear()
    listed.parser.parsed.clear()
    report = listed.sync([*many[:300], doc("d300", "new"), *many[301:]])
    assert (report.updated, report.nodes_written) == (("d300",), 1)
    assert (listed.embedding.texts, listed.parser.parsed) == (["new"], ["d300"])


def test_small_documents_are_embedded_together(simple):
    calls = []

    class Batching(TellingEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            calls.append(len(texts))
            return super()._get_text_embeddings(texts)

    pipeline = simple.pipeline(transformations=[simple.parser, Batching(embed_batch_size=100)])
    sync_documents([doc(str(i), f"t{i}") for i in range(500)], pipeline, persist_dir=simple.dir)
    assert calls == [100, 100, 56, 100, 100, 44]


async def test_async_does_what_sync_does(listed, tmp_path):
    twin = World(listed.kind, tmp_path / "twin")
    for documents in (FIRST, SECOND, SECOND):
        expected = twin.sync(documents)
        assert await async_sync_documents(documents, listed.pipeline(), persist_dir=listed.dir) == expected
        listed.assert_holds(documents)
    assert await async_sync_documents(
        SECOND[:1], listed.pipeline(), persist_dir=listed.dir, delete_missing=True
    ) == SyncReport(unchanged=("a",), deleted=("b", "c", "blank"))


async def test_async_leaves_the_event_loop_free(simple):
    class Slow(TransformComponent):
        def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
            time.sleep(0.3)
            return nodes

    pipeline = simple.pipeline(transformations=[simple.parser, Slow(), simple.embedding])
    work = asyncio.ensure_future(async_sync_documents(FIRST, pipeline, persist_dir=simple.dir))
    beats = 0
    while not work.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert beats > 15
    await work
    simple.assert_holds(FIRST)


async def test_async_uses_parsers_whose_own_async_form_does_nothing(simple):
    levels = {
        str(size): SentenceSplitter(chunk_size=size, chunk_overlap=0, chunking_tokenizer_fn=split_at_full_stops)
        for size in (64, 32)
    }
    parser = HierarchicalNodeParser(node_parser_ids=["64", "32"], node_parser_map=levels)
    text = "一句话站在这里。" * 40
    pipeline = simple.pipeline(transformations=[parser, simple.embedding])
    report = await async_sync_documents([doc("a", text)], pipeline, persist_dir=simple.dir)
    assert report.nodes_written > 10
    assert set(simple.rows()) == {"a"}


async def test_a_cancelled_sync_waits_for_its_thread_saves_and_can_be_repeated(simple):
    begun, done = [], []

    class Slow(TransformComponent):
        def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
            begun.append(1)
            time.sleep(0.2)
            done.append(1)
            return nodes

    pipeline = simple.pipeline(transformations=[simple.parser, simple.embedding, Slow()])
    work = asyncio.ensure_future(async_sync_documents(FIRST, pipeline, persist_dir=simple.dir, batch_size=1))
    while len(begun) < 2:  # noqa: ASYNC110  set in a thread
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(begun) == len(done) == 2
    assert simple.sync(FIRST).changed
    simple.assert_holds(FIRST)


def test_progress_counts_documents(simple):
    simple.sync(FIRST[:1])
    seen = []
    simple.sync(FIRST, batch_size=2, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (3, 4), (4, 4)]


def test_batches_are_bounded_by_characters_unless_their_size_is_given(simple):
    long = [doc(name, "很长。" * 40_000) for name in "abc"]

    def batches(**options: Any) -> list[int]:
        seen: list[int] = []

        class Noting(TransformComponent):
            def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
                seen.append(len(nodes))
                return nodes

        pipeline = simple.pipeline(transformations=[Noting(), simple.parser, simple.embedding])
        sync_documents(long, pipeline, persist_dir=f"{simple.dir}{options}", **options)
        return seen

    assert batches() == [1, 1, 1]
    assert batches(batch_size=3) == [3]
    assert batches(batch_size=2) == [2, 1]


def test_progress_bar_does_not_disturb(simple, capsys):
    simple.sync(FIRST, show_progress=True)
    simple.assert_holds(FIRST)
    assert "Syncing documents" in capsys.readouterr().err


# --- documents and their ids ---


def test_equal_texts_keep_their_own_rows(world):
    twins = [doc("a", "same\ntext"), doc("b", "same\ntext")]
    world.sync(twins)
    assert world.rows() == dict.fromkeys(["a", "b"], sorted(map(vector, ["same", "text"])))
    world.sync([twins[0], doc("b", "other")])
    assert world.rows() == {"a": sorted(map(vector, ["same", "text"])), "b": [vector("other")]}


def test_a_vanished_document_stays_by_default_and_goes_on_request(world):
    world.sync(FIRST)
    assert world.sync(FIRST[:1]) == SyncReport(unchanged=("a",))
    world.assert_holds(FIRST)
    assert world.sync(FIRST[:1], delete_missing=True) == SyncReport(unchanged=("a",), deleted=("b", "c", "blank"))
    world.assert_holds(FIRST[:1])
    assert world.sync(FIRST[:1], delete_missing=True) == SyncReport(unchanged=("a",))
    assert world.sync(FIRST).added == ("b", "c", "blank")


def test_no_documents_at_all(world):
    assert world.sync([]) == SyncReport()
    world.sync(FIRST)
    assert world.sync([]) == SyncReport()
    assert world.sync([], delete_missing=True).deleted == ("a", "b", "c", "blank")
    world.assert_holds([])


def test_random_node_ids_are_fine(listed):
    pipeline = partial(listed.pipeline, transformations=[SentenceSplitter(), listed.embedding])
    sync_documents([doc("a", "one")], pipeline(), persist_dir=listed.dir)
    sync_documents([doc("a", "two")], pipeline(), persist_dir=listed.dir)
    assert listed.rows() == {"a": [vector("two")]}
    assert sync_documents([doc("a", "two")], pipeline(), persist_dir=listed.dir).unchanged == ("a",)


def test_inputs_are_not_changed(simple):
    class Labels(TransformComponent):
        def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
            for node in nodes:
                node.metadata["label"] = "x"
            return nodes

    document = doc("a", "a1", metadata={"k": [1]})
    pipeline = simple.pipeline(transformations=[Labels(), simple.parser, simple.embedding])
    before, transformations = document.to_dict(), list(pipeline.transformations)
    for expected in ("added", "unchanged", "unchanged"):
        assert getattr(sync_documents([document], pipeline, persist_dir=simple.dir), expected) == ("a",)
    assert document.to_dict() == before
    assert pipeline.transformations == transformations
    assert pipeline.docstore is None
    assert load_docstore(simple.dir).get_document("a").metadata == {"k": [1]}


def test_whole_documents_can_be_rows(world):
    pipeline = partial(world.pipeline, transformations=[world.embedding])
    sync_documents([doc("a", "one"), doc("b", "two")], pipeline(), persist_dir=world.dir)
    assert world.rows() == {"a": [vector("one")], "b": [vector("two")]}
    sync_documents([doc("a", "new"), doc("b", "two")], pipeline(), persist_dir=world.dir)
    assert world.rows() == {"a": [vector("new")], "b": [vector("two")]}


def test_without_vector_store_documents_are_recorded(simple):
    pipeline = IngestionPipeline(transformations=[simple.parser], docstore=SimpleDocumentStore())
    assert sync_documents(FIRST, pipeline) == SyncReport(added=("a", "b", "c", "blank"))
    assert sync_documents(SECOND, pipeline).updated == ("a", "c", "blank")
    assert pipeline.docstore.get_document("a").get_content(MetadataMode.NONE) == "a1\nchanged"
    assert sync_documents(SECOND, pipeline).unchanged == ("a", "b", "c", "blank")


# --- what counts as a change ---

CHANGES = {
    "text": {"text": "other"},
    "metadata value": {"metadata": {"a": 1, "b": 3}},
    "metadata key": {"metadata": {"a": 1, "c": 2}},
    "a key that sounds like an option": {"metadata": {"a": 1, "b": 2, "device": "phone"}},
    "excluded from embedding": {"excluded_embed_metadata_keys": ["a"]},
    "excluded from the model": {"excluded_llm_metadata_keys": ["a"]},
    "text template": {"text_template": "{content}|{metadata_str}"},
    "metadata template": {"metadata_template": "{key}={value}"},
    "metadata separator": {"metadata_separator": "; "},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_part_of_a_document_counts(simple, change):
    plain = {"id_": "a", "text": "t", "metadata": {"a": 1, "b": 2}}
    simple.sync([Document(**plain)])
    assert simple.sync([Document(**{**plain, **change})]).updated == ("a",)


def test_the_order_of_metadata_does_not_count():
    one = doc("a", "t", metadata={"a": 1, "b": {"x": 1, "y": (2, 3)}}, excluded_embed_metadata_keys=["a", "b"])
    two = doc("b", "t", metadata={"b": {"y": (2, 3), "x": 1}, "a": 1}, excluded_embed_metadata_keys=["b", "a"])
    assert hash_document(one) == hash_document(two)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: setattr(w, "parser", LineParser(prefix="> ")),
        lambda w: setattr(w, "embedding", TellingEmbedding(model_name="other")),
        lambda w: setattr(w, "embedding", type("Renamed", (TellingEmbedding,), {})()),
    ],
    ids=["parser option", "model name", "model class"],
)
def test_changed_transformations_ingest_everything_again(listed, change):
    listed.sync(FIRST)
    change(listed)
    assert listed.sync(FIRST).updated == ("a", "b", "c", "blank")
    assert listed.sync(FIRST).unchanged == ("a", "b", "c", "blank")
    expected = {vector(listed.parser.prefix + line) for d in FIRST for line in d.text.split("\n") if line.strip()}
    assert {row for rows in listed.rows().values() for row in rows} == expected


def test_the_fingerprint_sees_what_dumps_hide():
    def nested(size: int) -> HierarchicalNodeParser:
        return HierarchicalNodeParser.from_defaults(chunk_sizes=[512, size])

    different = [
        [SentenceSplitter()],
        [SentenceSplitter(chunk_size=300)],
        [SentenceSplitter(chunking_tokenizer_fn=split_at_full_stops)],
        [SentenceSplitter(tokenizer=split_at_full_stops)],
        [SentenceSplitter(id_func=partial(lambda i, d: f"{d.id_}{i}"))],
        [SentenceSplitter(), TellingEmbedding()],
        [TellingEmbedding(), SentenceSplitter()],
        [nested(128)],
        [nested(64)],
    ]
    assert len({fingerprint_transformations(each) for each in different}) == len(different)


def test_the_fingerprint_ignores_secrets_speed_and_use():
    class Remote(TellingEmbedding):
        api_key: str = ""
        timeout: float = 1.0

    one, two = Remote(api_key="secret"), Remote(api_key="other", timeout=9.0, embed_batch_size=3, num_workers=2)
    assert fingerprint_transformations([one]) == fingerprint_transformations([two])
    splitter = SentenceSplitter()
    before = fingerprint_transformations([splitter, one])
    splitter.get_nodes_from_documents([doc("a", "One. Two.")])
    assert fingerprint_transformations([splitter, one]) == before


def test_the_fingerprint_is_the_same_in_every_process():
    program = """
        from llama_index.core.node_parser import SentenceSplitter, HierarchicalNodeParser
        from llama_index.core import MockEmbedding
        from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations
        print(fingerprint_transformations([SentenceSplitter(), HierarchicalNodeParser.from_defaults(), MockEmbedding(3)]))
    """
    here = fingerprint_transformations([SentenceSplitter(), HierarchicalNodeParser.from_defaults(), MockEmbedding(3)])
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)  # noqa: S603  our own program
    assert done.stdout.strip() == here


# --- failures ---


def test_a_failing_transformation_leaves_its_document_as_it_was(world, caplog):
    world.sync(FIRST)
    hash_before = load_docstore(world.dir).get_document_hash("c")
    bad = [doc("a", "new a"), doc("b", "new b"), doc("c", "POISON\nline"), doc("d", "never reached")]
    with pytest.raises(RuntimeError, match="chokes"), caplog.at_level(logging.WARNING):
        world.sync(bad)
    assert "'c' cannot be transformed" in caplog.text
    rows = world.rows()
    assert (rows["a"], rows["b"]) == ([vector("new a")], [vector("new b")])
    assert rows["c"] == sorted(map(vector, ["c1", "c2"]))
    docstore = load_docstore(world.dir)
    assert docstore.get_document_hash("c") == hash_before
    assert docstore.get_document("a").get_content(MetadataMode.NONE) == "new a"
    world.embedding = TellingEmbedding(poison="none")  # an option of the model, so everything is made again
    assert world.sync(bad).added == ("d",)
    world.assert_holds([*bad, FIRST[3]])


def test_a_failed_document_is_tried_again_and_only_that(world):
    good, bad = doc("a", "fine"), doc("b", "POISON")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="chokes"):
            world.sync([good, bad])
    world.embedding.texts.clear()
    assert world.sync([good, doc("b", "cured")]) == SyncReport(added=("b",), unchanged=("a",), nodes_written=1)
    assert world.embedding.texts == ["cured"]


def test_rows_that_the_store_refuses_leave_the_old_ones(tmp_path):
    world = World("chroma", tmp_path)
    with_content = SentenceSplitter(id_func=lambda i, d: f"{d.id_}-{i}-{zlib.crc32(d.text.encode())}")
    pipeline = partial(world.pipeline, transformations=[with_content, world.embedding])
    sync_documents([doc("a", "old")], pipeline(), persist_dir=world.dir)
    reserved = doc("a", "new", metadata={"chroma:document": "x"}, excluded_embed_metadata_keys=["chroma:document"])
    with pytest.raises(ValueError, match="reserved key"):
        sync_documents([reserved], pipeline(), persist_dir=world.dir)
    assert world.rows() == {"a": [vector("old")]}
    assert sync_documents([doc("a", "new")], pipeline(), persist_dir=world.dir).repaired == ("a",)
    assert world.rows() == {"a": [vector("new")]}


def test_what_was_complete_is_saved_when_a_run_fails(simple, monkeypatch):
    monkeypatch.setattr(Ledger, "save_if_due", lambda _: None)
    with pytest.raises(RuntimeError, match="chokes"):
        simple.sync([doc("a", "fine"), doc("b", "POISON")])
    assert list(load_docstore(simple.dir).docs) == ["a"]


class Killed(BaseException):
    """The process is gone: nothing that comes after happens."""


class Saboteur:
    """Interrupts the n-th act upon a store or a file, half done; after a kill nothing else happens either."""

    def __init__(self, monkeypatch, world: World, moment: int, interruption: type[BaseException]) -> None:
        self.acts_left, self.interruption = moment, interruption
        self.happened = False
        targets: list[tuple[Any, str]] = [(type(world.store), name) for name in ("add", "delete", "delete_nodes")]
        targets += [(SimpleDocumentStore, name) for name in ("add_documents", "delete_ref_doc", "delete_document")]
        targets += [(SimpleKVStore, name) for name in ("put_all", "put", "delete")]
        targets += [(Path, name) for name in ("replace", "unlink", "open", "write_bytes")]
        for owner, name in targets:
            monkeypatch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, act: Any) -> Any:
        def sabotaged(owner: Any, *args: Any, **kwargs: Any) -> Any:
            self.acts_left -= 1
            if self.acts_left == -1:
                self.acts_left = 10**9  # for the acts inside this one
                self._half(act, owner, *args, **kwargs)
                self.acts_left, self.happened = -2, True
                raise self.interruption
            if self.happened and self.interruption is Killed:
                raise Killed
            return act(owner, *args, **kwargs)

        return sabotaged

    def _half(self, act: Any, owner: Any, first: Any = None, *args: Any, **kwargs: Any) -> None:
        if isinstance(first, list | bytes):
            act(owner, first[: len(first) // 2], *args, **kwargs)


def sabotage(kind: str, final: str, interruption: type[BaseException], tmp_path: Path, monkeypatch) -> int:
    """Interrupt an update at every act in turn; a second run goes on to the new version, or back to the old one.

    The old one is harder: what was recorded of it looks right.
    """
    old, new = [*FIRST, doc("same ids", "s1\ns2\ns3")], [*SECOND, doc("same ids", "s1\nother\ns3")]
    wanted = new if final == "new" else old
    for moment in range(0, 1_000, 3 if kind == "chroma" else 1):  # Chroma takes its time
        world = World(kind, tmp_path / str(moment))
        docstore = SimpleDocumentStore()
        world.sync(old, docstore)
        with monkeypatch.context() as patch:
            saboteur = Saboteur(patch, world, moment, interruption)
            with suppress(interruption):
                world.sync(new[1:], docstore, batch_size=2, delete_missing=True)
        world.sync(wanted, None if interruption is Killed else docstore, delete_missing=True)
        world.assert_holds(wanted)
        assert not (world.dir / "docstore.json.unreadable").exists(), "a file was half written"
        if not saboteur.happened:
            return moment
    raise AssertionError("never finished")


@pytest.mark.parametrize("kind,final", [("chroma", "old"), ("simple", "new"), ("simple", "old"), ("unlisted", "old")])
def test_a_kill_at_any_moment_is_made_good(kind, final, tmp_path, monkeypatch):
    assert sabotage(kind, final, Killed, tmp_path, monkeypatch) > 20


@pytest.mark.parametrize("kind,final", [("simple", "old"), ("unlisted", "new")])
def test_an_error_at_any_moment_is_made_good_in_the_same_process(kind, final, tmp_path, monkeypatch):
    assert sabotage(kind, final, OSError, tmp_path, monkeypatch) > 20


KILLED_PROGRAM = """
    import sys, time
    import chromadb
    from llama_index.core import Document
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import TransformComponent
    from llama_index.vector_stores.chroma import ChromaVectorStore
    sys.path.insert(0, {tests!r})
    from test_sync import LineParser, TellingEmbedding
    from llama_index_chunking_plus.ingestion import sync_documents

    client = chromadb.PersistentClient({chroma!r})
    store = ChromaVectorStore(chroma_collection=client.get_or_create_collection("rows"))
    pipeline = IngestionPipeline(transformations=[LineParser(), TellingEmbedding()], vector_store=store)
    documents = [Document(id_=f"d{{i}}", text=f"{{i}} first\\nversion\\nof three") for i in range(200)]
    sync_documents(documents, pipeline, persist_dir={dir!r})
    documents = [Document(id_=f"d{{i}}", text=f"{{i}} second\\nversion") for i in range(5000)]
    sync_documents(documents, pipeline, persist_dir={dir!r}, batch_size=10, on_progress=lambda *_: print("done", flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_killed_process_is_made_good(tmp_path):
    program = textwrap.dedent(KILLED_PROGRAM).format(
        tests=str(Path(__file__).parent), chroma=str(tmp_path / "chroma"), dir=str(tmp_path / "state")
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603  our own program
        for _ in range(6):
            assert process.stdout is not None
            assert process.stdout.readline() == b"done\n"
        time.sleep(0.02)
        with pytest.raises(StoreBusyError, match="another sync"):
            sync_documents([], IngestionPipeline(transformations=[LineParser()]), persist_dir=tmp_path / "state")
        process.send_signal(signal.SIGKILL)
    world = World("chroma", tmp_path, chromadb.PersistentClient(str(tmp_path / "chroma")))
    second = [doc(f"d{i}", f"{i} second\nversion") for i in range(200)]
    report = world.sync(second, delete_missing=True)
    assert report.unchanged, "nothing of the killed run was kept"
    assert report.changed, "the run was not killed in the middle"
    world.assert_holds(second)


# --- stores that lost something ---


def test_an_emptied_store_is_filled_again(listed):
    listed.sync(FIRST)
    listed.empty_store()
    assert listed.sync(FIRST).repaired == ("a", "b", "c")
    listed.assert_holds(FIRST)


def test_only_the_document_that_lost_a_row_is_made_again(listed):
    listed.sync(FIRST)
    listed.store.delete_nodes(["a-1"])
    listed.embedding.texts.clear()
    assert listed.sync(FIRST) == SyncReport(repaired=("a",), unchanged=("b", "c", "blank"), nodes_written=3)
    assert listed.embedding.texts == ["a1", "a2", "a3"]
    listed.assert_holds(FIRST)


@pytest.mark.parametrize("count", [4, 40], ids=["few documents", "many documents"])
def test_stray_rows_of_a_document_are_removed_and_those_of_strangers_are_not(listed, count):
    documents = [*FIRST, *(doc(f"x{i}", "x") for i in range(count - 4))]
    listed.sync(documents)
    for id_, owner in (("stray", "a"), ("foreign", "somebody else's")):
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=owner)}
        listed.store.add([TextNode(id_=id_, text="x", embedding=[1.0, 2.0], relationships=source)])
    assert listed.sync(documents).repaired == ("a",)
    assert listed.rows().pop("somebody else's") == [(1.0, 2.0)]
    assert listed.rows()["a"] == sorted(map(vector, ["a1", "a2", "a3"]))


def test_a_lost_docstore_is_rebuilt_without_duplicates(world):
    world.sync(FIRST)
    (world.dir / "docstore.json").unlink()
    report = world.sync(FIRST)
    assert report.repaired == (() if world.kind == "unlisted" else ("a", "b", "c"))
    world.assert_holds(FIRST)


@pytest.mark.parametrize("rubbish", ["", '{"docstore/data": {"a": {"__da', "[1, 2]", "\x00\xff"])
def test_a_broken_docstore_file_is_set_aside_and_rebuilt(simple, rubbish, caplog):
    simple.sync(FIRST)
    (simple.dir / "docstore.json").write_text(rubbish, encoding="latin-1")
    with caplog.at_level(logging.WARNING):
        assert set(simple.sync(SECOND).changed) == {"a", "b", "c", "blank"}
    assert "set aside" in caplog.text
    assert (simple.dir / "docstore.json.unreadable").exists()
    simple.assert_holds(SECOND)


def test_a_record_that_nobody_understands_vouches_for_nothing(simple):
    simple.sync(FIRST)
    path = simple.dir / "docstore.json"
    data = json.loads(path.read_text())
    data["chunking_plus/sync/default"]["a"] = {"format": 99}
    path.write_text(json.dumps(data))
    assert simple.sync(FIRST).repaired == ("a",)


def test_a_mark_cut_short_by_a_kill_hides_no_other(simple):
    simple.sync(FIRST)
    (simple.dir / "sync.unfinished").write_text('{"collection": "chun')
    assert simple.sync(FIRST).unchanged == ("a", "b", "c", "blank")
    Ledger(SimpleDocumentStore(), "default", simple.dir).begin(["b"])
    assert simple.sync(FIRST).repaired == ("b",)
    assert not (simple.dir / "sync.unfinished").exists()


def test_a_document_that_the_docstore_lost_is_stored_again(simple):
    simple.sync(FIRST)
    docstore = load_docstore(simple.dir)
    docstore.delete_document("b")
    pipeline = simple.pipeline(docstore=docstore)
    assert sync_documents(FIRST, pipeline, persist_dir=simple.dir).repaired == ("b",)
    simple.assert_holds(FIRST)


# --- stores with limits ---


def test_ten_thousand_rows_in_one_document_of_chroma(tmp_path):
    world = World("chroma", tmp_path)
    limit = max_batch_size(world.store)
    assert limit < 10_001, "the test needs more rows"
    large, small = doc("x", "\n".join(f"line {i}" for i in range(10_001))), doc("x", "line 1\nline 3")
    assert world.sync([large]).nodes_written == 10_001
    assert rows_by_document(world.store, ["x"]) == {"x": [f"x-{i}" for i in range(10_001)]}
    world.assert_holds([large])
    assert world.sync([small]).nodes_written == 2
    world.assert_holds([small])


def test_a_store_that_nobody_knows_gets_small_batches(tmp_path, monkeypatch):
    world, sizes = World("unlisted", tmp_path), []
    add = UnlistedVectorStore.add
    monkeypatch.setattr(UnlistedVectorStore, "add", lambda self, nodes: sizes.append(len(nodes)) or add(self, nodes))
    world.sync([doc("x", "\n".join(f"line {i}" for i in range(2_500)))])
    assert sizes == [1_000, 1_000, 500]
    assert rows_by_document(world.store, ["x"]) is None
    assert not can_list(world.store)


def test_vectors_of_another_length_are_refused_before_anything_is_lost(tmp_path):
    world = World("chroma", tmp_path)
    world.sync(FIRST)
    world.embedding = TellingEmbedding(embed_dim=3)
    with pytest.raises(StoreMismatchError, match=r"length 2.*gives 3"):
        world.sync(FIRST)
    world.assert_holds(FIRST)


# --- standard parts stay usable ---


def test_the_pipeline_loads_what_was_saved_and_goes_on(listed):
    listed.sync(FIRST)
    pipeline = listed.pipeline()
    pipeline.load(str(listed.dir))
    assert pipeline.docstore.get_document("a").get_content(MetadataMode.NONE) == "a1\na2\na3"
    assert pipeline.docstore.get_document_hash("a") == FIRST[0].hash
    assert sync_documents(FIRST, pipeline, persist_dir=listed.dir).unchanged == ("a", "b", "c", "blank")


def test_an_empty_docstore_in_memory_is_filled_from_the_directory(simple):
    simple.sync(FIRST)
    pipeline = simple.pipeline(docstore=SimpleDocumentStore())
    assert sync_documents(FIRST, pipeline, persist_dir=simple.dir).unchanged == ("a", "b", "c", "blank")
    assert pipeline.docstore.get_document("b").get_content(MetadataMode.NONE) == "b1"


def test_a_stock_pipeline_takes_no_record_for_a_document(simple):
    docstore = SimpleDocumentStore()
    sync_documents(FIRST, simple.pipeline(docstore=docstore))
    stock = simple.pipeline(docstore=docstore, docstore_strategy="upserts_and_delete", disable_cache=True)
    assert stock.run(documents=FIRST) == []
    assert stock.run(documents=FIRST[:3]) == []
    assert set(docstore.docs) == {"a", "b", "c"}


def test_pipelines_of_different_names_share_a_docstore(simple):
    docstore, other = SimpleDocumentStore(), SimpleVectorStore()
    parts = {
        "docstore": docstore,
        "vector_store": other,
        "transformations": [LineParser(prefix="> "), simple.embedding],
    }
    for expected in ("added", "unchanged"):
        assert len(getattr(sync_documents(FIRST, simple.pipeline(docstore=docstore)), expected)) == 4
        reports = sync_documents(FIRST, simple.pipeline(name="other", **parts))
        assert len(reports.unchanged) == (0 if expected == "added" else 4)


def test_nodes_kept_in_the_docstore_go_with_their_document(simple):
    docstore = SimpleDocumentStore()
    sync_documents(FIRST, simple.pipeline(docstore=docstore))
    parent = TextNode(id_="p", text="x", relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")})
    docstore.add_documents([parent])
    sync_documents(FIRST, simple.pipeline(docstore=docstore))
    assert docstore.document_exists("p")
    sync_documents(SECOND, simple.pipeline(docstore=docstore))
    assert not docstore.document_exists("p")
    assert docstore.get_document("a").get_content(MetadataMode.NONE) == "a1\nchanged"


# --- vectors that cannot be used ---


class FailingEmbedding(TellingEmbedding):
    """Answers as it should, but for texts with BAD in them, while the model is ill; no option changes with its health."""

    _answer: Any = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        return "FailingEmbedding"

    def fail_with(self, answer: Any) -> None:
        self._answer = answer

    def _get_text_embedding(self, text: str) -> list[float]:
        healthy = super()._get_text_embedding(text)
        return healthy if self._answer is None or "BAD" not in text else self._answer


UNUSABLE = {
    "NaN": ([math.nan, 1.0], "holds NaN or infinity"),
    "infinity": ([1.0, -math.inf], "holds NaN or infinity"),
    "too large for 32 bits": ([1e300, 1.0], "holds NaN or infinity"),
    "empty": ([], "without any numbers"),
    "zeros": ([0.0, 0.0], "of nothing but zeros"),
    "longer": ([1.0, 2.0, 3.0], "of length 3, where others have 2"),
    "shorter": ([1.0], "of length 1, where others have 2"),
}
GOOD_THEN_BAD = [doc("a", "a1\na2"), doc("b", "b1\nBAD\nb3"), doc("c", "c1")]


@pytest.mark.parametrize("answer, message", UNUSABLE.values(), ids=UNUSABLE.keys())
@pytest.mark.parametrize("before", [[], [doc("a", "old"), doc("b", "old\nrows")]], ids=["new", "old"])
def test_a_vector_that_cannot_be_used_is_refused_and_the_next_run_repairs_it(world, before, answer, message):
    world.embedding = FailingEmbedding()
    world.sync(before)
    held = world.rows().get("b")
    world.embedding.fail_with(answer)
    for _ in range(2):
        with pytest.raises(EmbeddingError, match=f"document 'b' a vector .*{message}.*[Ss]ync again"):
            world.sync(GOOD_THEN_BAD)
        assert world.rows().get("b") == held
        assert world.rows()["a"] == sorted(map(vector, ["a1", "a2"])), "what stood ahead is complete"
        assert "a" in load_docstore(world.dir).docs
    world.embedding.fail_with(None)
    report = world.sync(GOOD_THEN_BAD)
    assert (report.unchanged, set(report.changed)) == (("a",), {"b", "c"})
    world.assert_holds(GOOD_THEN_BAD)


async def test_a_vector_that_cannot_be_used_is_refused_by_the_async_form_too(simple):
    simple.embedding = FailingEmbedding()
    simple.embedding.fail_with([0.0, 0.0])
    with pytest.raises(EmbeddingError, match="document 'b'"):
        await async_sync_documents(GOOD_THEN_BAD, simple.pipeline(), persist_dir=simple.dir)
    assert simple.rows().keys() == {"a"}


def test_the_documents_ahead_of_a_bad_vector_are_not_embedded_again(simple):
    simple.embedding = FailingEmbedding()
    simple.embedding.fail_with([math.nan])
    with pytest.raises(EmbeddingError):
        simple.sync(GOOD_THEN_BAD)
    assert simple.embedding.texts == ["a1", "a2", "b1", "BAD", "b3", "c1"]


def test_the_length_that_most_vectors_have_counts_in_a_new_store(world):
    world.embedding = FailingEmbedding()
    world.embedding.fail_with([1.0, 2.0, 3.0])
    with pytest.raises(EmbeddingError, match=r"'first' .*of length 3, where others have 2"):
        world.sync([doc("first", "BAD"), *GOOD_THEN_BAD])


def test_a_vector_of_another_length_is_noticed_batches_later(world):
    world.embedding = FailingEmbedding()
    world.embedding.fail_with([1.0, 2.0, 3.0])
    with pytest.raises(EmbeddingError, match=r"'b' .*of length 3, where others have 2"):
        world.sync([*GOOD_THEN_BAD[:1], doc("b", "BAD")], batch_size=1)


def test_rows_that_stay_decide_the_length_where_the_store_takes_any(simple):
    simple.sync(FIRST)
    simple.embedding = TellingEmbedding(embed_dim=3)
    with pytest.raises(StoreMismatchError, match=r"length 2.*gives 3 \(document 'new'\)"):
        simple.sync([doc("new", "row")])
    simple.assert_holds(FIRST)
    assert simple.sync(FIRST).updated == ("a", "b", "c", "blank"), "a new model may replace all rows"
    assert simple.sync([doc("new", "row")]).added == ("new",)


def test_stores_that_make_their_own_vectors_need_none(simple):
    class Embedding(SimpleVectorStore):
        is_embedding_query: bool = False

        def add(self, nodes: list[BaseNode], **_: Any) -> list[str]:
            return [node.node_id for node in nodes]

    pipeline = simple.pipeline(transformations=[simple.parser], vector_store=Embedding())
    assert sync_documents(FIRST[:1], pipeline, persist_dir=simple.dir).nodes_written == 3


# --- metadata that the store cannot take ---


class Annotate(TransformComponent):
    """Gives the nodes whose text has BAD in it this metadata, and their sources too if it is told so."""

    metadata: dict[str, Any]
    sources: bool = False

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        for node in nodes:
            if "BAD" in node.get_content(MetadataMode.NONE):
                (node.source_node if self.sources else node).metadata.update(self.metadata)
        return nodes


REFUSED = {
    "list": ({"tags": ["x"]}, r"'tags' .*type list, \['x'\], .*flatten it"),
    "tuple": ({"tags": ("x",)}, "'tags' .*type tuple.*flatten it"),
    "mapping": ({"more": {}}, "'more' .*type dict.*flatten it"),
    "half a character": (
        {"path": "\udcff.txt"},
        r"'path' .*type str, '\\udcff.txt', with a lone surrogate; replace it",
    ),
    "half a character in a key": ({"\udcff": 1}, r"'\\udcff' .*type int, 1, with a lone surrogate"),
    "no JSON": ({"of": object()}, "'of' .*type object.* no JSON; make it a text"),
}
TAKES_NESTED = {"half a character within": ({"tags": {"x": ["\udcff"]}}, "'tags' .*type dict.*with a lone surrogate")}


def described(metadata: dict[str, Any]) -> list[Document]:
    """Three documents, of which the second has this metadata; no vector tells of it."""
    hidden = {"excluded_embed_metadata_keys": list(metadata), "excluded_llm_metadata_keys": list(metadata)}
    return [doc("a", "a1\na2"), doc("b", "b1\nBAD\nb3", metadata=metadata, **hidden), doc("c", "c1")]


def assert_refused_and_mended(world: World, documents: Sequence[Document], message: str) -> None:
    """Each run names the document and leaves it; what stood ahead is complete, and mending is all that is left to do."""
    held = world.rows().get("b")
    for _ in range(2):
        with pytest.raises(OptionError, match=f"document 'b' .*{message}.*or leave the key out"):
            world.sync(documents)
        assert world.rows().get("b") == held
        assert world.rows()["a"] == sorted(map(vector, ["a1", "a2"])), "what stood ahead is complete"
        assert "a" in load_docstore(world.dir).docs


@pytest.mark.parametrize("metadata, message", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("before", [[], [doc("a", "old"), doc("b", "old\nrows")]], ids=["new", "old"])
def test_metadata_that_chroma_refuses_is_named_ahead_of_any_write(tmp_path, before, metadata, message):
    world = World("chroma", tmp_path)
    world.sync(before)
    assert_refused_and_mended(world, described(metadata), message)
    report = world.sync(described({}))
    assert (report.unchanged, report.repaired, set(report.changed)) == (("a",), (), {"b", "c"})
    world.assert_holds(described({}))


@pytest.mark.parametrize(
    "metadata, message",
    [TAKES_NESTED["half a character within"], REFUSED["half a character"], REFUSED["no JSON"]],
    ids=["within", "text", "no JSON"],
)
def test_what_no_store_can_encode_is_refused_by_all(world, metadata, message):
    message = "flatten it" if world.kind == "chroma" and "tags" in metadata else message
    assert_refused_and_mended(world, described(metadata), message)
    world.sync(described({}))
    world.assert_holds(described({}))


def test_stores_that_take_nested_metadata_get_it(tmp_path):
    for kind in ("simple", "unlisted"):
        world = World(kind, tmp_path / kind)
        nested = described({"tags": ["x"], "more": {"y": [1]}})
        world.sync(nested)
        world.assert_holds(nested)


def test_flat_metadata_is_what_llama_index_takes_for_it(listed):
    flat = {
        "text": "、",
        "yes": True,
        "one": 1,
        "half": 0.5,
        "none": None,
        "day": date(2024, 5, 1),
        "file": Path("a.md"),
    }
    assert listed.sync(described(flat)).added == ("a", "b", "c")
    listed.assert_holds(described(flat))
    assert listed.sync(described(flat)).changed == ()


def test_an_update_that_is_refused_costs_no_vector_of_the_old_texts(listed):
    old = described({})
    listed.sync(old)
    world = listed
    faulty = [
        doc("a", "new"),
        doc("b", "new", metadata={"path": "\udcff"}, excluded_embed_metadata_keys=["path"]),
        old[2],
    ]
    with pytest.raises(OptionError, match="document 'b'"):
        world.sync(faulty)
    world.embedding.texts.clear()
    mended = [faulty[0], *old[1:]]
    assert world.sync(mended) == SyncReport(unchanged=("a", "b", "c"))
    assert world.embedding.texts == []
    world.assert_holds(mended)


@pytest.mark.parametrize("sources, whose", [(False, "metadata has"), (True, "metadata of a related node has")])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_metadata_that_transformations_add_counts(listed, sources, whose, is_async):
    annotate = Annotate(metadata={"path": "\udcff"}, sources=sources)
    pipeline = listed.pipeline(transformations=[listed.parser, listed.embedding, annotate])
    arguments = {"documents": described({}), "pipeline": pipeline, "persist_dir": listed.dir}
    with pytest.raises(OptionError, match=f"document 'b' .*{whose} under the key 'path'"):
        asyncio.run(async_sync_documents(**arguments)) if is_async else sync_documents(**arguments)
    assert listed.rows().keys() == {"a"}


def test_the_first_fault_counts_be_it_of_vectors_or_metadata(simple):
    simple.embedding = FailingEmbedding()
    simple.embedding.fail_with([0.0, 0.0])
    late = doc("z", "text", metadata={"path": "\udcff"}, excluded_embed_metadata_keys=["path"])
    with pytest.raises(EmbeddingError, match="document 'b'"):
        simple.sync([*GOOD_THEN_BAD, late])
    with pytest.raises(OptionError, match="document 'z'"):
        simple.sync([late, *GOOD_THEN_BAD])
    assert simple.rows().keys() == {"a"}


# --- options that change by themselves ---


class CountingEmbedding(TellingEmbedding):
    calls: int = 0

    def _get_text_embedding(self, text: str) -> list[float]:
        self.calls += 1
        return super()._get_text_embedding(text)


def test_a_component_whose_options_change_while_it_runs_is_warned_of(simple):
    simple.embedding = CountingEmbedding()
    with pytest.warns(ChunkingPlusWarning, match="options of CountingEmbedding changed.*PrivateAttr") as caught:
        simple.sync(FIRST)
    assert len(caught) == 1
    simple.assert_holds(FIRST)
    with pytest.warns(ChunkingPlusWarning, match="CountingEmbedding"):
        assert simple.sync(FIRST).updated == ("a", "b", "c", "blank")


# --- the saved docstore ---


@pytest.mark.parametrize("name", ["typo", "file"])
def test_loading_from_no_directory_warns_once_and_names_it(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.warns(ChunkingPlusWarning, match=f"{name}' is no directory") as caught:
        assert not load_docstore(tmp_path / name).docs
    assert len(caught) == 1


def test_loading_from_a_directory_without_docstore_does_not_warn(tmp_path):
    assert not load_docstore(tmp_path).docs


@pytest.mark.parametrize("path", [3, "", None, b"x"])
def test_loading_from_what_is_no_path_is_refused(path):
    with pytest.raises(OptionError, match="is no path of a directory; pass one"):
        load_docstore(path)


# --- refusals ---


@pytest.mark.parametrize(
    "documents", [iter(FIRST), (d for d in FIRST), tuple(FIRST), {d.id_: d for d in FIRST}.values()]
)
def test_documents_may_come_from_any_iterable(simple, documents):
    assert sync_documents(documents, simple.pipeline(), persist_dir=simple.dir).added == ("a", "b", "c", "blank")


def renamed(id_: Any) -> Document:
    return doc("a", "text").model_copy(update={"id_": id_})


WRONG = {
    "one document": ({"documents": FIRST[0]}, "no list of documents; pass a list"),
    "a text": ({"documents": "abc"}, "documents='abc' is no list of documents; pass a list"),
    "nothing": ({"documents": None}, "documents=None is no list of documents"),
    "a list of texts": ({"documents": ["abc"]}, r"documents\[0\]='abc' is no document; pass Document\("),
    "an empty id": ({"documents": [FIRST[0], doc("", "text")]}, r"documents\[1\] has the id ''.*Document\(id_="),
    "an id that is no text": ({"documents": [renamed(7)]}, r"documents\[0\] has the id 7"),
    "no id": ({"documents": [renamed(None)]}, r"documents\[0\] has the id None"),
    "half a character": (
        {"documents": [FIRST[0], doc("\udcff.txt", "text")]},
        r"documents\[1\].id_='\\udcff.txt' holds a lone surrogate.*valid Unicode.*renamed to UTF-8",
    ),
    "no pipeline": ({"pipeline": None}, "pipeline=None is no IngestionPipeline; pass IngestionPipeline"),
    "a store as pipeline": ({"pipeline": SimpleVectorStore()}, "is no IngestionPipeline"),
    "progress": ({"on_progress": 3}, "on_progress=3 cannot be called; pass a function"),
    "a number as directory": ({"persist_dir": 3}, "persist_dir=3 is no path of a directory; pass one"),
    "an empty directory": ({"persist_dir": ""}, "persist_dir='' is no path of a directory; pass one"),
    "a text for a switch": ({"delete_missing": "no"}, "delete_missing='no' is neither True nor False"),
}


@pytest.mark.parametrize("wrong, message", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_arguments_of_another_kind_are_refused_with_the_remedy(simple, wrong, message, is_async, monkeypatch):
    monkeypatch.chdir(simple.dir.parent)
    options = {"documents": FIRST, "pipeline": simple.pipeline(), "persist_dir": simple.dir, **wrong}
    with pytest.raises(OptionError, match=message):
        asyncio.run(async_sync_documents(**options)) if is_async else sync_documents(**options)
    assert not list(simple.dir.parent.iterdir())
    assert simple.rows() == {}


@pytest.mark.parametrize("count", [1, 40], ids=["few documents", "many documents"])
def test_an_id_that_no_store_can_encode_changes_nothing(world, count):
    named = [doc(f"d{i}", f"text {i}") for i in range(count)]
    world.sync(named)
    with pytest.raises(OptionError, match=r"'\\udcff.txt' holds a lone surrogate"):
        world.sync([doc("d0", "changed"), doc("\udcff.txt", "text")], delete_missing=True)
    assert world.sync(named).unchanged == tuple(each.id_ for each in named)


def test_the_mark_that_older_versions_left_of_such_an_id_goes_with_what_is_missing(listed):
    listed.sync(FIRST)
    docstore = load_docstore(listed.dir)
    ledger = Ledger(docstore, listed.pipeline().name, listed.dir)
    ledger.begin(["\udcff.txt"])
    ledger.save()
    assert listed.sync(FIRST, delete_missing=True).deleted == ("\udcff.txt",)
    assert listed.sync(FIRST, delete_missing=True).changed == ()
    listed.assert_holds(FIRST)


NO_FOLDER = {
    "a file": ("file", "is no folder"),
    "below a file": ("file/deep/state", "is no folder"),
    "a name that is too long": ("x" * 300, "too long"),
    "NUL": ("a\0b", "null"),
}


@pytest.mark.parametrize("name, why", NO_FOLDER.values(), ids=NO_FOLDER.keys())
def test_where_there_can_be_no_folder_is_refused(simple, tmp_path, name, why):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=f"persist_dir='.*' cannot keep anything: .*{why}.*; choose another folder"):
        sync_documents(FIRST, simple.pipeline(), persist_dir=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (simple.rows(), simple.embedding.texts) == ({}, [])


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="has no folder that takes no other, whoever asks")
def test_a_folder_that_takes_no_other_is_refused(simple):
    with pytest.raises(OptionError, match=r"persist_dir='/proc/foo' cannot keep anything: .*; choose another folder"):
        sync_documents(FIRST, simple.pipeline(), persist_dir="/proc/foo")


def test_two_syncs_of_one_directory_do_not_meet(simple):
    with exclusive(simple.dir), pytest.raises(StoreBusyError, match="another sync"):
        simple.sync(FIRST)
    assert simple.sync(FIRST).added


class Orphans(TransformComponent):
    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        return [TextNode(text="x", embedding=[1.0, 2.0]) for _ in nodes]


class SharedIds(TransformComponent):
    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        for node in nodes:
            node.id_ = "same"
        return nodes


REFUSALS = {
    "id twice": (lambda w: w.sync([doc("a", "1"), doc("a", "2")]), "'a'; give each its own"),
    "batch size": (lambda w: w.sync(FIRST, batch_size=0), "batch_size=0 is no whole number from 1"),
    "half a batch": (lambda w: w.sync(FIRST, batch_size=2.5), "batch_size=2.5 is no whole number"),
    "a batch of yes": (lambda w: w.sync(FIRST, batch_size=True), "batch_size=True is no whole number"),
    "half a character": (lambda w: w.sync([doc("a", "x\ud800")]), "'a' holds the lone surrogate"),
    "a piece": (
        lambda w: w.sync([doc("a", "1", relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="r")})]),
        "'a' is a piece of 'r'",
    ),
    "no docstore": (lambda w: sync_documents(FIRST, w.pipeline()), "pass persist_dir"),
    "no embedding": (
        lambda w: sync_documents(FIRST, w.pipeline(transformations=[w.parser]), persist_dir=w.dir),
        "end the pipeline's transformations with an embedding model",
    ),
    "no document": (
        lambda w: sync_documents(FIRST, w.pipeline(transformations=[Orphans()]), persist_dir=w.dir),
        "keep the SOURCE relationship",
    ),
    "shared node ids": (
        lambda w: sync_documents(
            FIRST, w.pipeline(transformations=[w.parser, w.embedding, SharedIds()]), persist_dir=w.dir
        ),
        "'same', which is taken",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_name_the_remedy_and_change_nothing(simple, refusal):
    act, message = refusal
    with pytest.raises(OptionError, match=message):
        act(simple)
    assert simple.rows() == {}
    simple.sync(FIRST)
    simple.assert_holds(FIRST)


def test_a_docstore_without_key_value_store_is_refused(simple):
    class Foreign(SimpleDocumentStore):
        def __init__(self) -> None:
            self._other = None

    with pytest.raises(OptionError, match="use a KVDocumentStore"):
        sync_documents(FIRST, simple.pipeline(docstore=Foreign()))


# -- found by trying to break it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chroma", "simple"])
def test_rows_that_keep_their_ids_are_replaced_in_place(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New metadata, same text: same ids. A store that fails on the way must not have lost the old rows by then."""
    store = _new_store(kind, tmp_path)
    pipeline = IngestionPipeline(
        transformations=[SlidingWindowNodeParser(), MockEmbedding(embed_dim=4)], vector_store=store
    )
    old = [Document(id_=str(i), text=f"第{i}篇文章。" * 5) for i in range(4)]
    sync_documents(old, pipeline, persist_dir=tmp_path / "docs")
    before = _row_ids(store)
    new = [
        Document(id_=d.id_, text=d.text, metadata={"author": "林"}, excluded_embed_metadata_keys=["author"])
        for d in old
    ]
    with monkeypatch.context() as patch:
        patch.setattr(steps, "replace_rows", _raise_disk_full)
        with pytest.raises(RuntimeError, match="disk full"):
            sync_documents(new, pipeline, persist_dir=tmp_path / "docs")
    assert _row_ids(store) == before
    sync_documents(new, pipeline, persist_dir=tmp_path / "docs")
    assert _row_ids(store) == before
    if kind == "chroma":
        assert {node.metadata.get("author") for node in store.get_nodes(node_ids=sorted(before))} == {"林"}
    assert sync_documents(new, pipeline, persist_dir=tmp_path / "docs").nodes_written == 0


@pytest.mark.parametrize("kind", ["chroma", "simple"])
def test_delete_missing_also_removes_what_no_record_knows(kind: str, tmp_path: Path) -> None:
    store = _new_store(kind, tmp_path)
    pipeline = IngestionPipeline(
        transformations=[SlidingWindowNodeParser(), MockEmbedding(embed_dim=4)], vector_store=store
    )
    documents = [Document(id_=str(i), text=f"第{i}篇文章。") for i in range(4)]
    sync_documents(documents, pipeline, persist_dir=tmp_path / "docs")
    report = sync_documents(documents[:2], pipeline, persist_dir=tmp_path / "lost", delete_missing=True)
    assert sorted(report.deleted) == ["2", "3"]
    assert len(_row_ids(store)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"docstore.json": '{"docstore/metadata":{"0":7}}'},
        {"docstore.json": '{"docstore/ref_doc_info":{"0":7}}'},
        {"sync.unfinished": '{"collection":1,"documents":[1,null,{}]}'},
    ],
    ids=str,
)
def test_damaged_files_are_rebuilt(damage: dict[str, str], tmp_path: Path) -> None:
    store = _new_store("simple", tmp_path)
    pipeline = IngestionPipeline(
        transformations=[SlidingWindowNodeParser(), MockEmbedding(embed_dim=4)], vector_store=store
    )
    documents = [Document(id_=str(i), text=f"第{i}篇文章。") for i in range(3)]
    sync_documents(documents, pipeline, persist_dir=tmp_path / "docs")
    for name, text in damage.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    sync_documents(documents, pipeline, persist_dir=tmp_path / "docs")
    assert len(_row_ids(store)) == 3
    assert sync_documents(documents, pipeline, persist_dir=tmp_path / "docs").nodes_written == 0


def test_a_damaged_lock_is_named(tmp_path: Path) -> None:
    pipeline = IngestionPipeline(transformations=[SlidingWindowNodeParser()])
    (tmp_path / "sync.lock").write_text("no lock" * 200, encoding="utf-8")
    with pytest.raises(StoreBusyError, match=r"sync\.lock' is damaged"):
        sync_documents([Document(id_="a", text="好。")], pipeline, persist_dir=tmp_path)


def _new_store(kind: str, tmp_path: Path):
    if kind == "simple":
        return SimpleVectorStore()
    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    return ChromaVectorStore(chroma_collection=client.get_or_create_collection("rows"))


def _row_ids(store) -> set[str]:
    return set(stores._facts(store).row_ids(store))


def _raise_disk_full(*_: object) -> None:
    raise RuntimeError("disk full")
