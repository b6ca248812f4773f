"""The tables in a piece of HTML: where each begins and ends, its rows, and how many of them are its header."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class _Row:
    """Where a row of an HTML table begins, and what its cells are."""

    start: int
    in_head: bool
    cells: set[str] = field(default_factory=set)
    reach: int = 1  # how many rows its tallest cell spans


_TALLEST = 65534  # rows that a cell spans, as browsers have it; rowspan="0" means all that follow
_MANY_ROWS = 4  # of which the first is taken for a header though no row says so


@dataclass
class HtmlTable:
    """A table that stands in no other one."""

    start: int
    end: int = -1
    rows: list[_Row] = field(default_factory=list)

    def header(self) -> int:
        """How many rows at the top are its header: those of <thead>, else those of <th> alone; of many, the first."""
        is_header = [row.in_head for row in self.rows]
        if not any(is_header):
            is_header = [row.cells == {"th"} for row in self.rows]
        if len(self.rows) >= _MANY_ROWS and not any("th" in row.cells or row.in_head for row in self.rows):
            return 1  # as word processors write tables
        count = [*is_header, False].index(False)
        return count if count < len(self.rows) else min(count, 1)

    def depths(self) -> list[int]:
        """For each row, how many rows above it have a cell that reaches into it, 2 at most.

        None reaches out of the header.
        """
        depths: list[int] = []
        ends: list[int] = []  # those of the two cells that reach furthest
        header = self.header()
        for number, row in enumerate(self.rows):
            ends = ends if number != header else []
            depths.append(sum(end > number for end in ends))
            ends = sorted([*ends, number + row.reach])[-2:]
        return depths


class TableReader(HTMLParser):
    """Reads HTML for its tables; ``tables`` has offsets in what was read in one go, ``lines`` is true in any case.

    Args:
        until: the line in which, or after which, the end of the last open table means that the reader is done.
    """

    def __init__(self, until: int = 0) -> None:
        super().__init__(convert_charrefs=False)
        self.until, self.is_done = until, False
        self.lines: dict[int, int] = {}  # the line of <table to that of </table>
        self.tables: list[HtmlTable] = []
        self._open: list[int] = []
        self._starts = [0]
        self._text = ""
        self._head = -1

    @property
    def level(self) -> int:
        """How many tables are open."""
        return len(self._open)

    def read(self, text: str) -> None:
        """Read a part of the text; what the parser cannot make sense of has no tables."""
        self._text = text
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
        with suppress(AssertionError):  # some versions raise it at <![
            self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note tables, and the rows and cells of the outermost."""
        if tag == "table":
            self._open.append(self._line())
        if self.level != 1:
            return
        if tag == "table":
            self.tables.append(HtmlTable(self._offset()))
            self._head = -1
        elif tag == "thead":
            self._head = self._offset()
        elif tag == "tr":
            self._begin_row()
        elif tag in {"th", "td"} and self.tables[-1].rows:
            row = self.tables[-1].rows[-1]
            row.cells.add(tag)
            row.reach = max(row.reach, _rows_spanned(attrs))

    def handle_endtag(self, tag: str) -> None:
        """Close tables and their heads."""
        if tag == "thead" and self.level == 1:
            self._head = -1
        if tag != "table" or not self._open:
            return
        self.lines[self._open.pop()] = self._line()
        if not self._open:
            self.tables[-1].end = self._text.find(">", self._offset()) + 1
            self.is_done = self.is_done or self._line() >= self.until

    def _begin_row(self) -> None:
        rows = self.tables[-1].rows
        is_first = not rows or not rows[-1].in_head
        rows.append(_Row(self._head if self._head >= 0 and is_first else self._offset(), self._head >= 0))

    def _line(self) -> int:
        return self.getpos()[0] - 1

    def _offset(self) -> int:
        line, column = self.getpos()
        return self._starts[min(line, len(self._starts)) - 1] + column


def _rows_spanned(attributes: list[tuple[str, str | None]]) -> int:
    """How many rows a cell spans."""
    value = (dict(attributes).get("rowspan") or "1").strip()
    number = int(value) if value.isascii() and value.isdecimal() and len(value) <= len(str(_TALLEST)) else 1
    return min(number or _TALLEST, _TALLEST)
