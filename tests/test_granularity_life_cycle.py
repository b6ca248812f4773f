"""Several levels through the life of a corpus: after every step what is found is the current text, and all of it."""

from __future__ import annotations

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.vector_stores.chroma")
pytest.importorskip("bm25s")


from level_worlds import LevelPlace, LevelWorld, corpus, sync_until_killed

KILLS = 10  # of each kind of Chroma
PRELOADED = [
    "chromadb",
    "llama_index.vector_stores.chroma",
    "llama_index.core.ingestion",
    "llama_index_chunking_plus.retrievers",
    "bm25s",
    "jieba",
]
# while rows are missing, levels are passed over, children are stale, and all that is told
pytestmark = pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
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
def place(request, tmp_path) -> LevelPlace:
    chroma = request.getfixturevalue("server") if request.param == "served" else str(tmp_path / "chroma")
    return LevelPlace(chroma, tmp_path / "state", collection=uuid.uuid4().hex)


TWO = ("coarse", "fine", "sentence")


@pytest.mark.parametrize("levels, is_async", [(None, False), (None, True), (TWO, False), (TWO, True)])
def test_one_step_after_another_each_after_a_restart(place, levels, is_async):
    place = replace(place, store_levels=levels, is_async=is_async)
    first, second = corpus(1), corpus(2)
    assert len(LevelWorld(place).sync(first).added) == len(first)
    LevelWorld(place).assert_holds(first)
    assert not LevelWorld(place).sync(first).changed
    report = LevelWorld(place).sync(second)
    assert report.added == ("once0",)
    assert report.deleted == ("once1",)
    LevelWorld(place).assert_holds(second)
    LevelWorld(place).delete("long0")
    LevelWorld(place).assert_holds([document for document in second if document.id_ != "long0"])
    LevelWorld(place).sync(first)  # back again: ids that were there before
    LevelWorld(place).assert_holds(first)
    LevelWorld(place).sync([])
    LevelWorld(place).assert_holds([])


def test_other_levels_in_the_store_make_everything_anew(place):
    documents = corpus(1)
    for levels in (None, TWO, ("coarse", "medium", "fine"), None):
        world = LevelWorld(replace(place, store_levels=levels))
        assert set(world.sync(documents).changed) >= {"long0", "short", "tiny"}
        world.assert_holds(documents)


@pytest.mark.parametrize("levels", [None, TWO], ids=["all", "two"])
def test_two_readers_never_see_a_wrong_text_while_a_writer_works(server, tmp_path, levels):
    place = LevelPlace(server, tmp_path / "state", levels, collection=uuid.uuid4().hex)
    LevelWorld(place).sync(corpus(0))
    seen, failures = [], []
    writer = threading.Thread(target=lambda: [LevelWorld(place).sync(corpus(version)) for version in range(1, 5)])

    def read(world: LevelWorld) -> None:
        try:
            while writer.is_alive():
                seen.append(world.assert_never_wrong(range(5)))
        except BaseException as error:  # noqa: BLE001  seen by the main thread
            failures.append(error)

    readers = [threading.Thread(target=read, args=(LevelWorld(place),)) for _ in range(2)]
    for thread in (writer, *readers):
        thread.start()
    for thread in (writer, *readers):
        thread.join()
    assert not failures
    assert sum(seen) > 0
    LevelWorld(place).assert_holds(corpus(4))


# --- processes killed at random points ---


def _start(place: LevelPlace, version: int) -> tuple[Any, Any]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=sync_until_killed, args=(place, version, there))
    process.start()
    there.close()
    return process, here


def _run_and_kill(place: LevelPlace, version: int, delay: float) -> bool:
    """Whether the process died in the middle of its work."""
    process, started = _start(place, version)
    assert started.recv()
    time.sleep(delay)
    with suppress(ProcessLookupError):
        process.kill()
    process.join(30)
    started.close()
    return process.exitcode == -signal.SIGKILL


def _time_of_a_run(place: LevelPlace) -> float:
    process, started = _start(place, 0)
    assert started.recv()
    begun = time.monotonic()
    assert started.recv()
    process.join(30)
    return time.monotonic() - begun


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_at_any_moment_and_made_good(place):
    levels = TWO if isinstance(place.chroma, str) else None
    place, chance = replace(place, store_levels=levels), random.Random(3)
    took = _time_of_a_run(place)
    killed, version, before = 0, 0, 0
    while killed < KILLS:
        version += 1
        assert version < 4 * KILLS, "the processes are too fast to be killed"
        killed += _run_and_kill(place, version, chance.uniform(0, took))
        LevelWorld(place).assert_never_wrong(range(before, version + 1))
        if chance.random() < 0.6:  # otherwise the next one begins where this one was killed
            before = chance.choice([before, version])
            LevelWorld(place).sync(corpus(before))
            LevelWorld(place).assert_holds(corpus(before))
    LevelWorld(place).sync(corpus(before))
    LevelWorld(place).assert_holds(corpus(before))
