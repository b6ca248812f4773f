"""What all benchmarks share: the text, and how time is taken."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from llama_index_chunking_plus.samples import sample_paths


def repeated(paths: Iterable[Path], n_bytes: float) -> str:
    """The files one after another, as often as it takes; at least once."""
    once = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    return once * max(1, round(n_bytes / len(once.encode())))


def corpus(megabytes: float) -> str:
    """The bundled documents, repeated."""
    return repeated(sample_paths(), megabytes * 1e6)


def seconds(work: Callable[[], Any], tidy: bool = True) -> float:
    """How long it takes; ``tidy`` collects garbage first, which takes a while itself among many objects."""
    if tidy:
        gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def best_seconds(work: Callable[[], Any], repeats: int, tidy: bool = True) -> float:
    return min(seconds(work, tidy) for _ in range(repeats))


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Best seconds of each; the two take turns, so that a busy machine slows both."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    return min(mine for mine, _ in pairs), min(other for _, other in pairs)
