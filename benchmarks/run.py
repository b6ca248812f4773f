"""Our parts against LlamaIndex's own, same text, same process, in turns; medians of several runs.

usage: python benchmarks/run.py [--only NAME ...] [--json benchmarks/results.json] [--readme FILE ...]

The text is the bundled documents, repeated. Times differ from machine to machine; the ratios are what to look at. Each
figure is set against its goal, if goals.py has one. With --only, the other jobs of the file stay as they are. A job
that needs what is not installed is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from goals import GOALS
from readme import replace_table
from rich.console import Console
from rich.table import Table
from timing import Skipped

Job = Callable[[], dict[str, float]]
Record = dict[str, Any]

PACKAGES = ("llama-index-chunking-plus", "llama-index-core", "numpy", "tiktoken", "chromadb", "pysbd", "nltk")


def job(module: str, function: str, *options: Any) -> Job:
    """The function, whose module is imported only when it runs: it may need what is not installed."""
    return lambda: getattr(import_module(module), function)(*options)


JOBS: dict[str, Job] = {
    "sentence tokenizer": job("sentences", "speed"),
    "sentence tokenizer and pysbd": job("sentences", "against_pysbd"),
    "sentence tokenizer and punkt": job("sentences", "against_punkt"),
    "sentence tokenizer, hostile texts": job("sentences", "hostile"),
    "sliding window": job("windows", "speed"),
    "sliding window, tokenizer": job("windows", "tokenizer"),
    "sliding window, growth": job("windows", "growth"),
    "node building": job("nodes", "building"),
    "sentence windows": job("small_to_big", "windows"),
    "structure, files": job("structure", "files"),
    "structure, 1 MB": job("structure", "sections", 1),
    "structure, 2 MB": job("structure", "sections", 2),
    "structure, a heading each 300 bytes": job("structure", "many_headings"),
    "semantic": job("semantic", "real"),
    "semantic, a free model": job("semantic", "free"),
    "semantic, memory": job("semantic", "memory"),
    "semantic, async": job("semantic", "waiting"),
    "small to big, 10,000 children": job("small_to_big", "added", 10_000),
    "small to big, 100,000 children": job("small_to_big", "added", 100_000),
    "multi-granularity, parsing": job("multi_granularity", "parsing"),
    "multi-granularity, bytes": job("multi_granularity", "stored"),
    "multi-granularity, 10,000 fine chunks": job("multi_granularity", "narrowed", 10_000),
    "multi-granularity, 100,000 fine chunks": job("multi_granularity", "narrowed", 100_000),
    "re-ingest": job("reingest", "changed"),
    "imports": job("imports", "imports"),
    "memory": job("memory", "memory"),
    "context headers": job("context_headers", "context_headers"),
    "multi-granularity, quality": job("multi_granularity", "quality"),
    "strategies, quality": job("quality", "strategies"),
    "distribution": job("distribution", "speed"),
}


def environment() -> Record:
    python = f"Python {platform.python_version()}"
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {python}",
        "versions": {name: installed for name in PACKAGES if (installed := installed_version(name))},
    }


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def measured(name: str) -> Record:
    """The figures of a job with their goals, or why there are none."""
    record: Record = {"date": datetime.now(timezone.utc).date().isoformat()}
    begin = time.perf_counter()
    try:
        figures = JOBS[name]()
    except Skipped as reason:
        return {**record, "skipped": str(reason)}
    except ModuleNotFoundError as error:
        return {**record, "skipped": f"{error.name} is not installed"}
    told = {figure: against_goal(name, figure, value) for figure, value in figures.items()}
    return {**record, "seconds": round(time.perf_counter() - begin, 1), "figures": told}


def against_goal(name: str, figure: str, value: float) -> Record:
    told: Record = {"figure": float(f"{value:.3g}") if abs(value) < 1000 else round(value)}
    goal = GOALS.get(name, {}).get(figure)
    return told if goal is None else {**told, "goal": str(goal), "reached": goal.is_reached(value)}


def table(name: str, record: Record) -> Table:
    made = Table("figure", "value", "goal", "", title=f"{name} ({record.get('seconds', 0)} s)", title_justify="left")
    for figure, told in record.get("figures", {}).items():
        verdict = {True: "[green]reached", False: "[red]not reached"}.get(told.get("reached"), "")
        made.add_row(figure, f"{told['figure']:,}", told.get("goal", ""), verdict)
    if "skipped" in record:
        made.add_row(f"skipped: {record['skipped']}", "", "", "")
    return made


def kept(path: Path, here: Record) -> Record:
    """The jobs of the file, if they ran where these do."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {**here, "jobs": {}}
    if {name: before.get(name) for name in here} != here:
        raise SystemExit(f"{path} was measured on another machine or with other versions; run all jobs")
    return before["jobs"]


def run(names: Sequence[str], path: Path, *, is_part: bool) -> None:
    here, console = environment(), Console()
    jobs = kept(path, here) if is_part else {}
    console.print(here)
    for name in names:
        jobs[name] = measured(name)
        console.print(table(name, jobs[name]))
    missed = [
        name for name in names if any(told.get("reached") is False for told in jobs[name].get("figures", {}).values())
    ]
    console.print(f"goals not reached: {'; '.join(missed) or 'none'}")
    ordered = {name: jobs[name] for name in JOBS if name in jobs}
    path.write_text(json.dumps({**here, "jobs": ordered}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def markdown(path: Path) -> Iterator[str]:
    """What has a goal, as a table, with the day and the versions."""
    results = json.loads(path.read_text(encoding="utf-8"))
    dates = sorted({record["date"] for record in results["jobs"].values()})
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    yield f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, {results['machine']}, {versions}:"
    yield from ("", "| job | figure | value | goal | reached |", "|---|---|---|---|---|")
    for name, record in results["jobs"].items():
        for figure, told in record.get("figures", {}).items():
            if "goal" in told:
                verdict = "yes" if told["reached"] else "no"
                yield f"| {name} | {figure} | {told['figure']:,} | {told['goal']} | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=JOBS, metavar="NAME", help=f"one of: {'; '.join(JOBS)}")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("--readme", nargs="+", type=Path, help="only put the figures of the JSON into these files")
    given = parser.parse_args()
    if given.readme is None:
        run(given.only or list(JOBS), given.json, is_part=bool(given.only))
    for path in given.readme or ():
        replace_table(path, "bench", markdown(given.json))


if __name__ == "__main__":
    main()
