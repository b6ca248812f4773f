"""What importing adds to llama_index.core, each time in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from timing import Skipped

RUNS = 10
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as after pip
MEASURE = """
import time
import llama_index.core
def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
before, begin = resident(), time.perf_counter()
{statement}
print(1000 * (time.perf_counter() - begin), resident() - before)
"""
STATEMENTS = {
    "the package": "import llama_index_chunking_plus",
    "one parser": "from llama_index_chunking_plus import SlidingWindowNodeParser",
    "all parsers": "from llama_index_chunking_plus.node_parser import *",
    "all public names": "import llama_index_chunking_plus as all; [getattr(all, name) for name in all.__all__]",
}


def added(statement: str) -> tuple[float, float]:
    """Milliseconds, and megabytes."""
    command = [sys.executable, "-c", MEASURE.format(statement=statement)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=COMPILED)  # noqa: S603
    ms, megabytes = ran.stdout.split()
    return float(ms), float(megabytes)


def imports() -> dict[str, float]:
    if not Path("/proc/self/status").exists():
        raise Skipped("memory is read from /proc, which only Linux has")
    figures = {}
    for name, statement in STATEMENTS.items():
        added(statement)  # writes the byte code
        runs = [added(statement) for _ in range(RUNS)]
        figures[f"ms of {name}"] = median(ms for ms, _ in runs)
        figures[f"MB of {name}"] = median(megabytes for _, megabytes in runs)
    return figures
