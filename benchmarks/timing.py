"""What all benchmarks share: the texts, how time is taken, and how memory is."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from llama_index_chunking_plus.samples import sample_paths

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Skipped(Exception):  # noqa: N818  no error: something optional is not there
    """Why a job cannot run here."""


class Paired(NamedTuple):
    """Median seconds of each, and the median of how many times as fast ours was at the same turn."""

    ours: float
    theirs: float
    ratio: float


def repeated(paths: Iterable[Path], n_bytes: float) -> str:
    """The files one after another, as often as it takes; at least once."""
    once = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    return once * max(1, round(n_bytes / len(once.encode())))


def corpus(megabytes: float) -> str:
    """The bundled documents, repeated."""
    return repeated(sample_paths(), megabytes * 1e6)


def distinct(megabytes: float) -> str:
    """The bundled documents, repeated, with a number in each sentence: few sentences stand there twice."""
    numbers = count()
    pieces = corpus(megabytes).split("。")
    return "".join(f"{piece}{next(numbers)}。" for piece in pieces)


def seconds(work: Callable[[], Any], tidy: bool = True) -> float:
    """How long it takes; ``tidy`` collects garbage first, which takes a while itself among many objects."""
    if tidy:
        gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_seconds(work: Callable[[], Any], repeats: int, tidy: bool = True) -> float:
    return median(seconds(work, tidy) for _ in range(repeats))


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> Paired:
    """The two take turns, so that a busy machine slows both."""
    turns = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    mine, others = zip(*turns, strict=True)
    return Paired(median(mine), median(others), median(other / own for own, other in turns))


def peak_megabytes(prepare: Callable[..., Callable[[], Any]], *options: Any) -> float:
    """How far a process of its own grows while it does the work that ``prepare(*options)`` returns.

    Raises:
        Skipped: the system does not tell the peak of a process.
    """
    if not _CLEAR.exists():
        raise Skipped("peak memory is read from /proc, which only Linux has")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_growth, prepare, *options).result()


def _growth(prepare: Callable[..., Callable[[], Any]], *options: Any) -> float:
    work = prepare(*options)
    gc.collect()
    _CLEAR.write_text("5", encoding="ascii")  # forget the peak so far
    before = resident_megabytes("VmRSS")
    kept = work()
    peak = resident_megabytes("VmHWM")
    del kept
    return peak - before


def resident_megabytes(kind: str) -> float:
    """ "VmRSS" is what this process holds in memory now, "VmHWM" the most it held."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024
