"""Small-to-big through the life of a corpus: after every step each parent is the current text, and nothing is left over."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document

from llama_index_chunking_plus.core.parents import text_hash
from llama_index_chunking_plus.errors import ChunkingPlusWarning, StoreBusyError
from llama_index_chunking_plus.ingestion import DeleteReport, SyncReport

pytest.importorskip("llama_index.vector_stores.chroma")
pytest.register_assert_rewrite("worlds")

from chromadb.api.models.Collection import Collection  # noqa: E402  not everywhere
from worlds import HIDDEN, Place, World, corpus, sync_until_killed, text_of  # noqa: E402  asserts rewritten first

KILLS = 16  # of each kind of Chroma
PRELOADED = [
    "chromadb",
    "llama_index.vector_stores.chroma",
    "llama_index.core.ingestion",
    "llama_index_chunking_plus.ingestion",
    "llama_index_chunking_plus.node_parser",
    "jieba",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[int]:
    """The port on this machine where Chroma is served."""
    command = shutil.which("chroma", path=str(Path(sys.executable).parent)) or shutil.which("chroma")
    if command is None:
        pytest.skip("chromadb came without its server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    where = ["--path", str(tmp_path_factory.mktemp("served")), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen([command, "run", *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail("the Chroma server did not start")


@pytest.fixture(params=["persistent", "served"])
def place(request, tmp_path) -> Place:
    served = request.param == "served"
    chroma = request.getfixturevalue("server") if served else str(tmp_path / "chroma")
    return Place(chroma, tmp_path / "state", collection=uuid.uuid4().hex)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def either_way(request, place) -> Place:
    return replace(place, is_async=request.param)


def by_id(documents: list[Document]) -> dict[str, Document]:
    return {document.id_: document for document in documents}


# --- one step after another, each in a world opened anew ---


def test_changed_vanished_and_unchanged_documents(either_way):
    first, second = corpus(1), corpus(2)
    assert len(World(either_way).sync(first).added) == len(first)
    World(either_way).assert_holds(first)
    for _ in range(3):
        world = World(either_way)
        assert not world.sync(first).changed
        assert world.embedding.asked == []
    World(either_way).assert_holds(first)
    report = World(either_way).sync(second)
    assert report.added == ("once0",)
    assert report.deleted == ("once1",)
    assert set(report.updated) == {
        d.id_ for d in second if d.id_ in by_id(first) and d.text != by_id(first)[d.id_].text
    }
    World(either_way).assert_holds(second)
    World(either_way).sync(first)  # back again: ids that were there before
    World(either_way).assert_holds(first)
    World(either_way).sync([])
    World(either_way).assert_holds([])


def test_a_deleted_document_leaves_nothing(either_way):
    documents = corpus(1)
    World(either_way).sync(documents)
    n_rows = len(World(either_way).parser.get_nodes_from_documents(documents[:1]))
    assert World(either_way).delete("d0") == DeleteReport("d0", rows=n_rows, texts=1, hashes=1, records=1)
    World(either_way).assert_holds(documents[1:])
    assert World(either_way).delete("d0") == DeleteReport("d0")
    assert World(either_way).sync(documents).added == ("d0",)
    World(either_way).assert_holds(documents)


def test_a_step_that_fails_in_the_middle_of_an_update(either_way):
    old, new = corpus(1), by_id(corpus(2))
    World(either_way).sync(old)
    wanted = [new.get(document.id_, document) for document in old]
    poisoned = [
        *wanted[:4],
        Document(id_=wanted[4].id_, text="这句是坏的。", metadata={"title": "x"}, **HIDDEN),
        *wanted[5:],
    ]
    for _ in range(2):
        with pytest.raises(TimeoutError):
            World(either_way).sync(poisoned)
        World(either_way).assert_holds([*wanted[:4], *old[4:]])
    assert World(either_way).sync(wanted).changed
    World(either_way).assert_holds(wanted)


def test_changed_options_of_the_parser_make_everything_anew(either_way):
    documents = corpus(1)
    World(either_way).sync(documents)
    for options in ({"child_size": 8}, {"parent_size": 60, "child_size": 12}, {"emit": "children"}):
        other = either_way.with_parser(**options)
        report = World(other).sync(documents)
        assert set(report.updated) == set(by_id(documents))
        World(other).assert_holds(documents)
    assert World(other).sync(documents) == SyncReport(unchanged=tuple(by_id(documents)))


# --- others at work at the same time ---


def test_two_writers_of_one_directory_take_turns(place):
    World(place).sync(corpus(0))
    busy, failures = [], []

    def write(version: int) -> None:
        for turn in range(3):
            try:
                World(place).sync(corpus(version + turn))
            except StoreBusyError:
                busy.append(version)
            except Exception as error:  # noqa: BLE001  seen by the main thread
                failures.append(error)

    threads = [threading.Thread(target=write, args=(version,)) for version in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(busy) < 6
    World(place).sync(corpus(9))
    World(place).assert_holds(corpus(9))


def test_two_processes_write_to_one_directory(place):
    World(place).sync(corpus(0))
    runs = [_start(place, version) for version in (1, 2)]
    for process, _ in runs:
        process.join(60)
    assert 0 in [process.exitcode for process, _ in runs]
    World(place).sync(corpus(3))
    World(place).assert_holds(corpus(3))


def test_two_corpora_in_one_collection_do_not_touch_each_other(server, tmp_path):
    places = [Place(server, tmp_path / name, collection=uuid.uuid4().hex) for name in "ab"]
    places[1] = replace(places[1], collection=places[0].collection)
    corpora = [corpus(1), [Document(id_=f"other-{d.id_}", text=d.text) for d in corpus(2)]]
    work = [
        threading.Thread(target=World(place).sync, args=(documents,))
        for place, documents in zip(places, corpora, strict=True)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    world = World(places[0])
    expected = [node.node_id for documents in corpora for node in world.parser.get_nodes_from_documents(documents)]
    assert sorted(row.node_id for row in world.rows()) == sorted(expected)


def test_a_reader_never_sees_a_wrong_parent_while_a_writer_works(server, tmp_path):
    place = Place(server, tmp_path / "state", collection=uuid.uuid4().hex)
    World(place).sync(corpus(0))
    writer = threading.Thread(target=lambda: [World(place).sync(corpus(version)) for version in range(1, 5)])
    reader = World(place)
    writer.start()
    seen = 0
    while writer.is_alive():
        seen += _assert_never_wrong(reader, range(5))
    writer.join()
    assert seen > 0
    World(place).assert_holds(corpus(4))


def _assert_never_wrong(world: World, versions: range) -> int:
    """Whatever state the stores are in, a parent that is found says what a version of its document says there."""
    children = [row for row in world.rows() if "parent_id" in row.metadata]
    hashes = {child.metadata["parent_id"]: child.metadata["parent_hash"] for child in children}
    texts = {version: {document.id_: document.text for document in corpus(version)} for version in versions}
    seen = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChunkingPlusWarning)
        for lookup in world.lookups().values():
            for key, parent in world.find(lookup, children).parents.items():
                start, end = parent.start_char_idx, parent.end_char_idx
                assert text_hash(parent.text) == hashes[key]
                assert any(texts[v].get(parent.ref_doc_id, "")[start:end] == parent.text for v in versions)
                seen += 1
    return seen


# --- what Chroma does with the writes of a sync ---


@pytest.mark.parametrize("in_place", [False, True])
def test_metadata_that_is_gone_is_found_no_more_and_no_vector_is_sent_again(place, monkeypatch, in_place):
    """Only where the metadata is a part of what is embedded does the vector change."""
    hidden = ["title", "draft"] if in_place else []
    before, after = (
        [
            Document(id_=str(i), text=text_of("文", i), metadata=metadata, excluded_embed_metadata_keys=hidden)
            for i in range(3)
        ]
        for metadata in ({"title": "旧", "draft": "是"}, {"title": "新"})
    )
    place = place.with_parser(parent_size=160, child_size=40)
    World(place).sync(before)
    World(place).assert_holds(before)
    sent = []
    update = Collection.update
    monkeypatch.setattr(Collection, "update", lambda self, **rows: sent.append(set(rows)) or update(self, **rows))
    World(place).sync(after)
    World(place).assert_holds(after)
    world = World(place)
    assert world.store.client.get(where={"draft": "是"})["ids"] == []
    assert all(("embeddings" in columns) != in_place for columns in sent)
    assert sent


def _half_a_request(collection: Collection, port: int, rows: dict[str, Any]) -> None:
    """Send an `add` to the server and hang up before it is answered, as a process does that is killed."""
    body = json.dumps({key: rows[key] for key in ("ids", "embeddings", "metadatas", "documents")}).encode()
    where = f"/api/v2/tenants/default_tenant/databases/default_database/collections/{collection.id}/add"
    head = f"POST {where} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        time.sleep(0.005)  # Chroma has noted it by then, and has not acted on it
    time.sleep(0.2)


def test_the_write_of_a_client_that_died_does_not_show_up_after_it_was_made_good(server, tmp_path, monkeypatch):
    """Chroma notes such a write in its log, and acts on it at the next write: after the sync has looked what is there."""
    place = Place(server, tmp_path / "state", collection=uuid.uuid4().hex)
    World(place).sync(corpus(0))
    for version in range(1, 6):
        with monkeypatch.context() as patch:
            patch.setattr(Collection, "add", lambda self, **rows: _half_a_request(self, server, rows) or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                World(place).sync(corpus(version))
        World(place).sync(corpus(0))
        World(place).assert_holds(corpus(0))


# --- processes killed at random points ---


def _start(place: Place, version: int) -> tuple[Any, Any]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=sync_until_killed, args=(place, version, there))
    process.start()
    there.close()
    return process, here


def _run_and_kill(place: Place, version: int, delay: float) -> bool:
    """Whether the process died in the middle of its work."""
    process, started = _start(place, version)
    assert started.recv()
    time.sleep(delay)
    with suppress(ProcessLookupError):
        process.kill()
    process.join(30)
    started.close()
    return process.exitcode == -signal.SIGKILL


def _time_of_a_run(place: Place) -> float:
    process, started = _start(place, 0)
    assert started.recv()
    begun = time.monotonic()
    assert started.recv()
    process.join(30)
    return time.monotonic() - begun


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_at_any_moment_and_made_good(place):
    chance = random.Random(3)
    took = _time_of_a_run(place)
    killed, version, before = 0, 0, 0
    while killed < KILLS:
        version += 1
        assert version < 4 * KILLS, "the processes are too fast to be killed"
        killed += _run_and_kill(place, version, chance.uniform(0, took))
        _assert_never_wrong(World(place), range(before, version + 1))  # no client may live on while another one writes
        if chance.random() < 0.6:  # otherwise the next one begins where this one was killed
            before = chance.choice([before, version])
            World(place).sync(corpus(before))
            World(place).assert_holds(corpus(before))
    World(place).sync(corpus(before))
    World(place).assert_holds(corpus(before))
