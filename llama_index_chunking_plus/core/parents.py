"""How a child knows its parent, and a sentence its window: a span of their document, and a hash of what stood there.

A parent is never stored for the child's sake. Its text is the slice of the document that the span names, and it counts
only while that slice has the hash that the child carries: so a parent is current, or it is not returned.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llama_index_chunking_plus.core.spans import Span

WINDOW_KEY = "window_span"  # what a sentence knows of its window
PARENT_KEYS = ("parent_id", "parent_start", "parent_end", "parent_hash")

_WINDOW = re.compile(r"([0-9]{1,12}):([0-9]{1,12}):([0-9a-f]{16})")


def text_hash(text: str) -> str:
    """The first 16 digits of the text's SHA-256: every child stores it twice. A lone surrogate counts as itself."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ParentRef(NamedTuple):
    """What a child's metadata says of its parent.

    Example:
        >>> ref = ParentRef("p", Span(0, 3), text_hash("你好。"))
        >>> ParentRef.from_metadata(ref.to_metadata()) == ref
        True
        >>> ref.is_slice_of("你好。再见。"), ref.is_slice_of("您好。再见。")
        (True, False)
    """

    parent_id: str
    span: Span
    hash: str

    def to_metadata(self) -> dict[str, str | int]:
        """The four keys that a child carries; flat, as every vector store takes them."""
        return dict(zip(PARENT_KEYS, (self.parent_id, *self.span, self.hash), strict=True))

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> ParentRef | None:
        """The parent that the metadata names; None if a key is missing or makes no sense."""
        get = metadata.get
        parent_id, digest, start, end = get("parent_id"), get("parent_hash"), get("parent_start"), get("parent_end")
        if not (isinstance(parent_id, str) and isinstance(digest, str)):
            return None
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end):
            return None
        return cls(parent_id, Span(start, end), digest)

    def is_slice_of(self, text: str) -> bool:
        """Whether the document still says at this span what it said when the child was made."""
        return text_hash(self.span.of(text)) == self.hash


@dataclass(frozen=True)
class WindowRef:
    """What a sentence's metadata says of its window, in one string: a sentence has little else to store.

    Example:
        >>> ref = WindowRef(Span(0, 6), text_hash("你好。再见。"))
        >>> WindowRef.from_metadata(ref.to_metadata()) == ref, ref.is_slice_of("你好。再见。")
        (True, True)
    """

    span: Span
    hash: str

    def to_metadata(self) -> dict[str, str]:
        """The key that a sentence carries: start, end and hash."""
        return {WINDOW_KEY: f"{self.span.start}:{self.span.end}:{self.hash}"}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> WindowRef | None:
        """The window that the metadata names; None if it names none, or makes no sense."""
        found = _WINDOW.fullmatch(str(metadata.get(WINDOW_KEY)))
        if found is None or int(found[1]) >= int(found[2]):
            return None
        return cls(Span(int(found[1]), int(found[2])), found[3])

    def is_slice_of(self, text: str) -> bool:
        """Whether the document still says at this span what it said when the sentence was made."""
        return text_hash(self.span.of(text)) == self.hash
