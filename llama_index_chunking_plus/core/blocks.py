"""What a document is made of: blocks that tile it, and what may be done with each when it is too large."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from llama_index_chunking_plus.core.spans import Span


class BlockKind(str, Enum):
    """The kinds of block; the value is what metadata says."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    FORMULA = "formula"
    QUOTE = "quote"
    HTML = "html"
    HTML_TABLE = "html_table"
    COMMENT = "comment"
    FOOTNOTE = "footnote"
    FRONT_MATTER = "front_matter"
    BREAK = "break"  # a thematic break
    PROTECTED = "protected"  # matched by a user's pattern

    __hash__ = str.__hash__  # that of Enum is written in Python, and blocks ask for it often


ATOMIC = frozenset(
    {BlockKind.TABLE, BlockKind.CODE, BlockKind.FORMULA, BlockKind.HTML_TABLE, BlockKind.PROTECTED}
)  # never cut unless larger than the hard maximum


class Block(NamedTuple):
    """A range of the text that is one thing; the blocks of a text tile it, blank lines belong to the block before.

    Args:
        span: the range, from the first character of its first line to where the next block begins.
        kind: what it is.
        level: 1 to 6 (numbered structure: any depth) for a heading, 0 for all others.
        title: a heading's own text without marks; "" for all others.
        lead: what must be shown ahead of each piece if the block is cut: a table's header rows, a fence's info line,
            the sentence before a list that introduces it (the only one that stands in the block before).
        cuts: where it may be cut, ascending, inside the span; the best places first, as groups: between a code's
            top-level definitions, then at its blank lines, then between its lines.
        info: the language that a fence names; "" for all others.
        inner: what must stay whole inside a list, quote or footnote while it fits: its fences, tables and formulas; in
            an HTML table, rows that a cell spans.
        introduction: what introduces it, at the end of the block before: a sentence that ends in a colon, or a caption.
    """

    span: Span
    kind: BlockKind
    level: int = 0
    title: str = ""
    lead: tuple[Span, ...] = ()
    cuts: tuple[tuple[int, ...], ...] = ()
    info: str = ""
    inner: tuple[Span, ...] = ()
    introduction: tuple[Span, ...] = ()

    @property
    def is_atomic(self) -> bool:
        """Whether it stays whole as long as it fits."""
        return self.kind in ATOMIC
