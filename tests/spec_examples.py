"""CommonMark's own examples, out of the source distribution of markdown-it-py; they are not part of this repository."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

MEMBER = "tests/test_cmark_spec/commonmark.json"


def spec_examples(folder: Path) -> list[dict[str, str]]:
    """Each with "markdown", "html" and "section"; downloaded into the folder unless they are there.

    Raises:
        RuntimeError: pip cannot fetch them.
    """
    name = f"markdown-it-py=={version('markdown-it-py')}"
    kept = folder / f"{name}.json"
    if not kept.exists():
        kept.write_bytes(_member(_download(folder, name)))
    examples: list[dict[str, str]] = json.loads(kept.read_text(encoding="utf-8"))
    return examples


def _download(folder: Path, name: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "markdown-it-py"]
    done = subprocess.run(  # noqa: S603  fixed arguments
        [*command, "--dest", str(folder), name], capture_output=True, text=True, check=False
    )
    archives = sorted(folder.glob(f"markdown[-_]it[-_]py-{version('markdown-it-py')}.tar.gz"))
    if done.returncode or not archives:
        raise RuntimeError(
            f"pip could not download the source distribution of {name}, which has CommonMark's examples; "
            f"without a network set CHUNKING_PLUS_OFFLINE=1 to leave this test out. pip says: {done.stderr.strip()}"
        )
    return archives[-1]


def _member(archive: Path) -> bytes:
    with tarfile.open(archive) as files:
        for each in files:
            found = files.extractfile(each) if each.name.endswith(MEMBER) else None
            if found is not None:
                return found.read()
    raise RuntimeError(f"{archive.name} has no {MEMBER}: the test needs the examples' new place")
