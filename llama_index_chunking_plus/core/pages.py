"""On which pages of its document a chunk stands.

A document that was joined from pages says where each begins in one string, "1:0,2:1530,3:2911": label, offset. A chunk
says the labels of its first and last page; one of several pages keeps their part of the map as well, so that what is
made of it later can be told apart.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

MAP_KEY = "page_map"
PAGE_KEYS = (MAP_KEY, "page_start", "page_end")

_MAP = re.compile(r"[^:,]*:[0-9]{1,12}(?:,[^:,]*:[0-9]{1,12})*")


@dataclass(frozen=True)
class PageMap:
    """Where the pages of a document begin.

    Args:
        labels: what each page is called.
        starts: the offset in the document at which each begins, ascending.

    Example:
        >>> pages = PageMap.from_metadata({"page_map": "1:0,2:30,3:60"})
        >>> pages.describe("一句话。", 40)
        {'page_start': '2', 'page_end': '2'}
        >>> pages.describe("一句话。", 58)
        {'page_start': '2', 'page_end': '3', 'page_map': '2:30,3:60'}
    """

    labels: tuple[str, ...]
    starts: tuple[int, ...]

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> PageMap | None:
        """The map that the metadata holds; None if it holds none, or something else under that key."""
        value = metadata.get(MAP_KEY)
        if not isinstance(value, str) or not _MAP.fullmatch(value):
            return None
        labels, starts = zip(*(page.split(":") for page in value.split(",")), strict=True)
        pages = cls(tuple(map(unquote, labels)), tuple(map(int, starts)))
        return pages if all(a <= b for a, b in pairwise(pages.starts)) else None

    def to_metadata(self) -> dict[str, str]:
        """The map as one flat value, which every vector store takes."""
        pages = zip(map(_quote, self.labels), self.starts, strict=True)
        return {MAP_KEY: ",".join(f"{label}:{start}" for label, start in pages)}

    def describe(self, text: str, start: int) -> dict[str, str]:
        """What the metadata of a chunk says of its pages; white space around it counts for nothing.

        Args:
            text: the chunk, not blank.
            start: where it begins in the document.
        """
        first = self._page_at(start + len(text) - len(text.lstrip()))
        last = self._page_at(start + len(text.rstrip()) - 1)
        told = {"page_start": self.labels[first], "page_end": self.labels[last]}
        if first == last:
            return told
        return {**told, **PageMap(self.labels[first : last + 1], self.starts[first : last + 1]).to_metadata()}

    def _page_at(self, position: int) -> int:
        return max(0, bisect_right(self.starts, position) - 1)


def without_pages(keys: Iterable[str]) -> list[str]:
    """The keys but for those that tell of pages."""
    return [key for key in keys if key not in PAGE_KEYS]


def _quote(label: str) -> str:
    return re.sub("[%:,]", lambda match: f"%{ord(match[0]):02X}", label)
