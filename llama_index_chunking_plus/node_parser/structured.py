"""Chunks that follow the document's own structure: sections, tables, code, formulas, procedures."""

from __future__ import annotations

import json
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, NamedTuple

from llama_index.core.bridge.pydantic import Field, field_validator, model_validator
from llama_index.core.schema import DEFAULT_TEXT_NODE_TMPL, BaseNode, TextNode
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.markdown import introduced, line_starts, markdown_blocks
from llama_index_chunking_plus.core.numbered import numbered_blocks, paragraph_blocks, structure_of
from llama_index_chunking_plus.core.packing import units_that_fit
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.sections import (
    GOES_ON_KEY,
    LEAD_KEY,
    PATH_KEY,
    TAIL_KEY,
    Chunk,
    Layout,
    Limits,
    closing_template,
)
from llama_index_chunking_plus.core.sizing import Ruler
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nested import NestedSpanParser, NestingNodeParser
from llama_index_chunking_plus.node_parser.nodes import collection_paused
from llama_index_chunking_plus.node_parser.sized import check_window

TITLES_KEY = "header_titles"

_OVERLAP_PER_CENT = 15
_LONGEST_TITLE = 300  # characters of a heading that metadata says
_BLANK_LINE = "\n\n"  # between what is shown ahead of a text and the text, in LlamaIndex's own template of a node
_AS_JSON = json.JSONEncoder(ensure_ascii=False).encode
_LOOKS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys", "metadata_separator", "metadata_template")
_READERS = {"markdown": markdown_blocks, "numbered": numbered_blocks, "none": paragraph_blocks}


class Reading(NamedTuple):
    """What a text is measured with, and what it is made of."""

    ruler: Ruler
    blocks: list[Block]


class StructuredMarkdownNodeParser(NestingNodeParser):
    """Chunks of whole sections, as many as fit; tables, code, formulas, procedures and answers are not torn.

    A section that is too large is cut at its subsections, then between its blocks; a heading never ends a chunk, and no
    chunk reaches over a heading above its own. A block is cut only if it is itself too large: a table between rows
    (last of all between those that a cell spans), code between definitions, a list between items, running text between
    sentences. The sentence or caption that introduces a block is in one chunk with its beginning. What a piece needs to
    be understood (the table's header rows, the fence's first line, the sentence before the list) is its ``lead``
    in the metadata, which embedder and model are shown ahead of the text; the text itself stays an exact slice. A piece
    that ends inside of a fence ``goes_on``, and the template of its node closes the fence behind the text.

    Metadata of each chunk: ``header_path``, the headings above all of it, if there are any, as LlamaIndex's
    ``MarkdownNodeParser`` writes them, but with its own; ``header_titles``, the same as a JSON list, whatever the
    titles hold; ``heading_level``; ``block_kinds``; ``line_start`` and ``line_end`` from 1, where the input begins its
    document. Embedder and model
    are shown ``header_path``, ``lead`` and ``goes_on`` only. Of a piece of a document whose metadata names headings, by
    this parser or ``MarkdownNodeParser``, the chunks are below those.

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
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: chunk_size is below 4, chunk_overlap is negative or not below chunk_size, or a pattern is none.

    Example:
        >>> from llama_index.core import Document
        >>> parser = StructuredMarkdownNodeParser(chunk_size=60)
        >>> table = "| 名 | 值 |\\n|---|---|\\n| 重试 | 3 |"
        >>> document = Document(text=f"# 参数\\n\\n{table}\\n\\n# 用法\\n\\n先打开，再连接。")
        >>> [(node.metadata["header_path"], node.metadata["block_kinds"]) for node in parser([document])]
        [('/参数/', 'heading,table'), ('/用法/', 'heading,paragraph')]
    """

    unit: Literal["tokens", "chars"] = Field(default="chars", frozen=True, description="What sizes are counted in.")
    chunk_size: int = Field(default=800, frozen=True, description="Largest size of a chunk, in unit.")
    chunk_overlap: int = Field(
        default=120, frozen=True, description="Largest size that pieces share, in unit; not given: 15 % of chunk_size."
    )
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

    @field_validator("protected_patterns", mode="before")
    @classmethod
    def _demand_list(cls, patterns: Any) -> Any:
        if isinstance(patterns, str) or (isinstance(patterns, (list, tuple)) and not all(patterns)):
            raise ValueError(
                f"protected_patterns={patterns!r} is one string, or holds an empty one; pass a list of patterns"
            )
        return patterns

    @field_validator("protected_patterns")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        wrong = {pattern: error for pattern in patterns if (error := _error_in(pattern))}
        for pattern, error in wrong.items():
            raise ValueError(f"protected_patterns holds {pattern!r}, no regular expression: {error}")
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
        check_window(self.chunk_size, self.chunk_overlap)
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        limits = self._text_limits(sources, "chunk_size")
        work = get_tqdm_iterable(list(zip(sources, limits, strict=True)), show_progress, "Parsing nodes")
        layouts = [self._layout(source, limit) for source, limit in work]
        self._warn_about(sum(len(layout.kept) for layout in layouts))
        segments = yield from self._segments(sources, layouts, show_progress)
        return [self._drafts(*each) for each in zip(sources, layouts, segments, strict=True)]

    @collection_paused()
    def _drafts(self, source: Source, layout: Layout, segments: Sequence[int]) -> list[Draft]:
        writer = SectionWriter(source, self.header_path_separator, self._titles_above(source))
        return [writer.draft(chunk) for chunk in layout.chunks(segments)]

    @collection_paused()
    def _layout(
        self,
        source: Source,
        limit: int,
        reading: Reading | None = None,
        edges: Sequence[int] = (),
        least: int = 0,
        kept: int = 0,
        coarser: Layout | None = None,
    ) -> Layout:
        """The document with the positions where it may be cut; for the last four see `Layout` and its `Limits`."""
        sizer, vocabulary, above = self._sizer, self._vocabulary, self._titles_above(source)
        ruler, blocks = reading or self._read(source.text)

        def path_size(path: tuple[Block, ...]) -> int:
            titles = _titles(above, path)
            shown = f"{PATH_KEY}: {_header_path(titles, self.header_path_separator)}"
            return sizer.size(shown + _BLANK_LINE) if titles else 0

        return Layout(
            text=source.text,
            blocks=blocks,
            ruler=ruler,
            limits=Limits(
                limit,
                min(self.chunk_overlap, limit // 2),
                least=least,
                kept=sys.maxsize if self.oversized == "keep" else kept,
                path_size=path_size,
                lead_size=lambda lead: sizer.size(f"{LEAD_KEY}: {_shown_lead(lead)}{_BLANK_LINE}"),
                tail_size=lambda tail: sizer.size(f"{GOES_ON_KEY}: {BlockKind.CODE.value}{_BLANK_LINE}\n{tail}"),
            ),
            protected=list(self._protected(source.text)),
            units=lambda piece, part, room: units_that_fit(piece, self._ends(piece), part, room, vocabulary),
            edges=edges,
            coarser=coarser,
        )

    @collection_paused()
    def _read(self, text: str) -> Reading:
        ruler = self._sizer.ruler(text)  # first: it counts the tokens of a long text in the background
        return Reading(ruler, self._blocks(text))

    def _blocks(self, text: str) -> list[Block]:
        structure = structure_of(text) if self.structure == "auto" else self.structure
        blocks = _READERS[structure](text)
        return blocks if structure == "markdown" else introduced(text, blocks)

    def _titles_above(self, source: Source) -> list[str]:
        """The titles of the headings above a piece of a document, as the parser says that made the piece."""
        metadata = source.node.metadata
        if TITLES_KEY in metadata:
            with suppress(ValueError, TypeError):
                return [str(title) for title in json.loads(metadata[TITLES_KEY])]
        if source.node.source_node is None:
            return []
        return [title for title in str(metadata.get(PATH_KEY, "")).split(self.header_path_separator) if title]

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

    def _warn_about(self, n_kept: int) -> None:
        if n_kept:
            warnings.warn(
                f"{n_kept} tables, code samples or formulas are larger than chunk_size={self.chunk_size} {self.unit} "
                "and are kept whole. Raise chunk_size, or pass oversized='split'.",
                ChunkingPlusWarning,
                stacklevel=2,
            )


class SectionWriter:
    """Makes drafts of the chunks of one input."""

    def __init__(self, source: Source, separator: str, above: Sequence[str]) -> None:
        self._source = source
        self._separator = separator
        self._above = above
        self._closed: dict[str, BaseNode] = {}

    def draft(self, chunk: Chunk) -> Draft:
        """The chunk with its metadata; one that ends inside of a fence has a template that closes it."""
        text, titles = chunk.span.of(self._source.text), _titles(self._above, chunk.path)
        shown = {PATH_KEY: _header_path(titles, self._separator)} if titles else {}
        if chunk.tail:
            shown[GOES_ON_KEY] = BlockKind.CODE.value
        if chunk.lead:
            shown[LEAD_KEY] = _shown_lead("".join(span.of(self._source.text) for span in chunk.lead))
        hidden: dict[str, Any] = {
            TITLES_KEY: _AS_JSON(titles),
            "heading_level": chunk.path[-1].level if chunk.path else 0,
            "block_kinds": ",".join(kind.value for kind in chunk.kinds),
        }
        if self._source.offset == 0:
            first, last = (bisect_right(self._line_starts, at) for at in (chunk.span.start, chunk.span.end - 1))
            hidden |= {"line_start": first, "line_end": last}
        if chunk.tail:
            hidden[TAIL_KEY] = chunk.tail
        return Draft(chunk.span, text, shown, self._closing(text, chunk.tail) if chunk.tail else None, hidden)

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self._source.text)

    def _closing(self, text: str, tail: str) -> BaseNode:
        """A node like the input, but what its template shows is followed by this tail."""
        node = self._source.node
        template = closing_template(getattr(node, "text_template", DEFAULT_TEXT_NODE_TMPL), text, tail)
        if template not in self._closed:
            looks = {name: getattr(node, name) for name in _LOOKS if hasattr(node, name)}
            self._closed[template] = TextNode(**looks, text_template=template)
        return self._closed[template]


def _titles(above: Sequence[str], path: Sequence[Block]) -> list[str]:
    """The titles of a path, below those above the whole input; those that are in both count once."""
    own = [_short(block.title) for block in path]
    if not above:
        return own
    shared = next((n for n in range(min(len(own), len(above)), 0, -1) if list(above[-n:]) == own[:n]), 0)
    return [*above, *own[shared:]]


def _short(title: str) -> str:
    """The title; of one that is a page long, its beginning: every chunk below it says it."""
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…"


def _header_path(titles: Sequence[str], separator: str) -> str:
    return separator.join(["", *titles, ""])


def _shown_lead(lead: str) -> str:
    """A lead as a value of metadata, on lines of its own: behind the key, a fence would be none."""
    return "\n" + lead.lstrip("\r\n").rstrip()


def _error_in(pattern: str) -> re.error | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return error
    return None


def _piece(source: Source, span: Span) -> Source:
    """Running text as the input of a parser."""
    start, _ = source.place(span)
    return Source(source.node, span.of(source.text), source.root, start)
