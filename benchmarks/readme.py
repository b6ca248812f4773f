"""Tables of figures in the READMEs: what stands between two marks is replaced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def replace_table(path: Path, name: str, lines: Iterable[str]) -> None:
    """Put the lines between ``<!-- name -->`` and the next ``<!-- end -->`` of the file."""
    begin, end = f"<!-- {name} -->", "<!-- end -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path} has no {begin} … {end} to put the table into")
    path.write_text("\n".join([before + begin, *lines, end + after]), encoding="utf-8")
