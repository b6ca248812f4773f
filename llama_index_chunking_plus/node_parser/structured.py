"""Chunks that follow the document's own structure: sections, tables, code, formulas, procedures."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, field_validator, model_validator
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.blocks import Block
from llama_index_chunking_plus.core.markdown import markdown_blocks
from llama_index_chunking_plus.core.numbered import numbered_blocks, paragraph_blocks, structure_of
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.sections import Chunk, Layout, Limits
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nested import NestedSpanParser, NestingNodeParser
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE

LEAD_KEY = "lead"
PATH_KEY = "header_path"

_OVERLAP_PER_CENT = 15
_READERS = {"markdown": markdown_blocks, "numbered": numbered_blocks, "none": paragraph_blocks}


class StructuredMarkdownNodeParser(NestingNodeParser):
    """Chunks of whole sections, as many as fit; tables, code, formulas, procedures and answers are not torn.

    A section that is too large is cut at its subsections, then between its blocks; a heading never ends a chunk, and no
    chunk reaches over a heading above its own. A block is cut only if it is itself too large: a table between rows,
    code between definitions, a list between items, running text between sentences. What such a piece needs to be
    understood (the table's header rows, the fence's first line, the sentence that introduces the list) is its ``lead``
    in the metadata, which embedder and model are shown ahead of the text; the text itself stays an exact slice.

    Metadata of each chunk: ``header_path``, the headings above all of it as LlamaIndex's ``MarkdownNodeParser`` writes
    them, but with its own; ``header_titles``, the same as a JSON list, whatever the titles hold; ``heading_level``;
    ``block_kinds``; ``line_start`` and ``line_end`` from 1, where the input begins its document. Embedder and model
    are shown ``header_path`` and ``lead`` only.

    Args:
        chunk_size: the largest size of a chunk, in ``unit``; heading path, lead and the metadata of the document are
            charged to it, down to a floor of half of it for the text.
        chunk_overlap: the largest size that pieces of one paragraph share, in whole sentences. If it is not given, 15 %
            of ``chunk_size``.
        structure: "markdown"; "numbered" for plain text with numbered headings (第三章, 一、, 3.1, Chapter 3); "none"
            for paragraphs; "auto" decides for each document.
        oversized: "split" cuts a table, code or formula that is larger than ``chunk_size``; "keep" keeps it whole, with
            one warning.
        protected_patterns: regular expressions; what they match is not cut while it fits.
        secondary_parser: cuts running text that is too large, instead of sentences; any parser of this package.
        header_path_separator: stands between the titles of ``header_path``.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary: see `SizedNodeParser`.

    Raises:
        ValueError: chunk_size is below 4, chunk_overlap is negative or not below chunk_size, or a pattern is none.

    Example:
        >>> from llama_index.core import Document
        >>> parser = StructuredMarkdownNodeParser(chunk_size=40)
        >>> document = Document(text="# 参数\\n\\n| 名 | 值 |\\n|---|---|\\n| 重试 | 3 |\\n\\n# 用法\\n\\n先打开，再连接。")
        >>> [(node.metadata["header_path"], node.metadata["block_kinds"]) for node in parser([document])]
        [('/参数/', 'heading,table'), ('/用法/', 'heading,paragraph')]
    """

    unit: Literal["tokens", "chars"] = Field(default="chars", frozen=True, description="What sizes are counted in.")
    chunk_size: int = Field(default=800, frozen=True, description="Largest size of a chunk, in unit.")
    chunk_overlap: int = Field(default=120, frozen=True, description="Largest size that pieces share, in unit.")
    structure: Literal["auto", "markdown", "numbered", "none"] = Field(
        default="auto", frozen=True, description="What the structure is told by."
    )
    oversized: Literal["split", "keep"] = Field(default="split", frozen=True, description="If a block is too large.")
    protected_patterns: tuple[str, ...] = Field(
        default=(), frozen=True, description="Regular expressions whose matches are not cut."
    )
    secondary_parser: NestedSpanParser | None = Field(
        default=None, frozen=True, description="Cuts running text that is too large."
    )
    header_path_separator: str = Field(default="/", frozen=True, description="Between the titles of header_path.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusStructuredMarkdownNodeParser"

    @field_validator("protected_patterns")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"protected_patterns holds {pattern!r}, no regular expression: {error}") from error
        return patterns

    @model_validator(mode="before")
    @classmethod
    def _default_overlap(cls, options: Any) -> Any:
        size = options.get("chunk_size") if isinstance(options, dict) else None
        if isinstance(size, int) and "chunk_overlap" not in options:
            return {**options, "chunk_overlap": max(0, size * _OVERLAP_PER_CENT // 100)}
        return options

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.chunk_size < MIN_CHUNK_SIZE:
            raise ValueError(f"chunk_size={self.chunk_size} is below {MIN_CHUNK_SIZE}; choose a larger one")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise ValueError(
                f"chunk_overlap={self.chunk_overlap} is outside [0, chunk_size={self.chunk_size}); 10 to 20 % are usual"
            )
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        limits = self._text_limits(sources, "chunk_size")
        work = get_tqdm_iterable(list(zip(sources, limits, strict=True)), show_progress, "Parsing nodes")
        layouts = [self._layout(source.text, limit) for source, limit in work]
        self._warn_about(sum(len(layout.kept()) for layout in layouts))
        segments = yield from self._segments(sources, layouts, show_progress)
        return [
            [self._draft(source, chunk, lines) for chunk in layout.chunks(starts)]
            for source, layout, starts in zip(sources, layouts, segments, strict=True)
            for lines in [_Lines(source.text)]
        ]

    def _layout(self, text: str, limit: int) -> Layout:
        structure = structure_of(text) if self.structure == "auto" else self.structure
        return Layout(
            text=text,
            blocks=_READERS[structure](text),
            sizer=self._sizer,
            limits=Limits(limit, min(self.chunk_overlap, limit // 2), self.oversized == "keep", self._path_size),
            protected=list(self._protected(text)),
            bounds=lambda piece, room: self._units(piece, room).bounds,
        )

    def _protected(self, text: str) -> Iterator[Span]:
        if self.protected_patterns:
            pattern = re.compile("|".join(f"(?:{each})" for each in self.protected_patterns))
            yield from (Span(*match.span()) for match in pattern.finditer(text) if match.end() > match.start())

    def _segments(
        self, sources: Sequence[Source], layouts: Sequence[Layout], show_progress: bool
    ) -> Plan[list[list[int]]]:
        """Where the secondary parser cuts the running text of each document that is too large."""
        if self.secondary_parser is None:
            return [[] for _ in layouts]
        prose = [(i, span) for i, layout in enumerate(layouts) for span in layout.prose()]
        pieces = [_piece(sources[i], span) for i, span in prose]
        found = yield from self.secondary_parser._plan(pieces, show_progress)  # noqa: SLF001  one family
        starts: list[list[int]] = [[] for _ in layouts]
        for (i, span), drafts in zip(prose, found, strict=True):
            starts[i] += [span.start + draft.span.start for draft in drafts if draft.span and draft.span.start > 0]
        return starts

    def _draft(self, source: Source, chunk: Chunk, lines: _Lines) -> Draft:
        shown = {PATH_KEY: self._header_path(chunk.path)} if chunk.path else {}
        if chunk.lead:
            shown[LEAD_KEY] = "".join(span.of(source.text) for span in chunk.lead).strip("\r\n")
        hidden: dict[str, Any] = {
            "header_titles": json.dumps([block.title for block in chunk.path], ensure_ascii=False),
            "heading_level": chunk.path[-1].level if chunk.path else 0,
            "block_kinds": ",".join(kind.value for kind in chunk.kinds),
        }
        if source.offset == 0:
            hidden |= {"line_start": lines.number(chunk.span.start), "line_end": lines.number(chunk.span.end - 1)}
        return Draft(chunk.span, chunk.span.of(source.text), shown, hidden=hidden)

    def _header_path(self, path: Sequence[Block]) -> str:
        separator = self.header_path_separator
        return separator + "".join(block.title + separator for block in path)

    def _path_size(self, path: tuple[Block, ...]) -> int:
        return self._sizer.size(f"{PATH_KEY}: {self._header_path(path)}\n") if path else 0

    def _warn_about(self, n_kept: int) -> None:
        if n_kept:
            warnings.warn(
                f"{n_kept} tables, code samples or formulas are larger than chunk_size={self.chunk_size} {self.unit} "
                "and are kept whole. Raise chunk_size, or pass oversized='split'.",
                ChunkingPlusWarning,
                stacklevel=2,
            )


class _Lines:
    """The numbers of the lines of a text, asked in ascending order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reached = 0
        self._number = 1

    def number(self, position: int) -> int:
        """The number, from 1, of the line that holds the character at this position."""
        if position < self._reached:  # chunks may overlap
            self._number -= self._newlines(position, self._reached)
        else:
            self._number += self._newlines(self._reached, position)
        self._reached = position
        return self._number

    def _newlines(self, start: int, end: int) -> int:
        return self._text.count("\n", start, end)


def _piece(source: Source, span: Span) -> Source:
    """Running text as the input of a parser."""
    start, _ = source.place(span)
    return Source(source.node, span.of(source.text), source.root, start)
