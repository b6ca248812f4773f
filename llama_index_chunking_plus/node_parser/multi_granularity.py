"""Chunks of several sizes of the same document, each a part of a larger one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_validator, model_validator
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.hierarchy import (
    COARSE_KEY,
    DEPTH_KEY,
    GRANULARITY_KEY,
    PRESETS,
    SENTENCE,
    SPAN_KEYS,
    Granularity,
    levels_of,
)
from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.sections import Chunk, Layout
from llama_index_chunking_plus.core.semantic import optimal_segments
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nodes import IdMaker, collection_paused
from llama_index_chunking_plus.node_parser.requests import BLANK_ROW, EmbedTexts, Vectors
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE, SizedNodeParser
from llama_index_chunking_plus.node_parser.structured import Reading, SectionWriter, StructuredMarkdownNodeParser

Preset = Literal["balanced", "manual", "law", "narrative"]

_MAX_TO_TARGET = 1.6  # of the smallest chunks; larger ones are as large as their topics


class MultiGranularityNodeParser(SizedNodeParser):
    """Coarse, medium and fine chunks of one document: every fine one lies in one medium one, that in one coarse one.

    Each level is cut at headings, then, with an ``embed_model``, where the topic changes, then between blocks and
    sentences, as `StructuredMarkdownNodeParser` does; never over the end of a larger chunk, so that all levels nest.
    Tables, code and formulas stay whole on each level, as long as they fit the level above it. A document that is too
    short for the coarse level has medium and fine chunks, a very short one fine chunks only.

    Nodes come in document order, each ahead of its parts, with PARENT and CHILD relationships. Metadata that neither
    embedder nor model is shown: ``granularity``, the level; ``granularity_depth``, 0 for the largest chunks of a
    document; ``parent_id`` with ``parent_start``, ``parent_end`` and ``parent_hash``, where there is a parent;
    ``coarse_id``, the largest chunk that the node is in, itself if it is one; ``span_start`` and ``span_end`` in the
    root document, where they are known; and what `StructuredMarkdownNodeParser` says of sections.

    Args:
        levels: coarse first, each smaller than the one before. None: 2,000-5,000, 500-1,000 and 100-300 characters, or
            1,200-3,000, 240-720 and 60-205 tokens. See `from_preset` for others.
        embed_model: gives sentence vectors, by which sections that are too large are cut into topics; each sentence is
            embedded once, for all levels. None: sections are cut between paragraphs.
        structure: what structure is told by; see `StructuredMarkdownNodeParser`.
        protected_patterns: regular expressions whose matches are not cut; see `StructuredMarkdownNodeParser`.
        header_path_separator: stands between the titles of ``header_path``.
        adapt_to_length: whether short documents do without the levels that they do not fill.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.
        id_func: gives the id of the i-th node of an input, whatever its level.

    Raises:
        ValueError: no level, two of one name, one not smaller than the one before, or an option out of its range.
        EmbeddingError: the embedding model failed on every batch.

    Example:
        >>> from llama_index.core import Document
        >>> levels = (Granularity("medium", 10, 24), Granularity("fine", 4, 8))
        >>> parser = MultiGranularityNodeParser(levels=levels)
        >>> nodes = parser([Document(text="一楼是大厅。二楼是展厅。三楼是餐厅。四楼是办公室。")])
        >>> for node in nodes[:3]:
        ...     print(node.metadata["granularity"], node.text)
        medium 一楼是大厅。二楼是展厅。
        fine 一楼是大厅。
        fine 二楼是展厅。
    """

    _names_all_levels: ClassVar[bool] = True

    unit: Literal["tokens", "chars"] = Field(default="chars", frozen=True, description="What sizes are counted in.")
    levels: tuple[Granularity, ...] = Field(default=(), frozen=True, description="The levels, coarse first.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(
        default=None, frozen=True, description="Gives the sentence vectors that topics are found by."
    )
    structure: Literal["auto", "markdown", "numbered", "none"] = Field(
        default="auto", frozen=True, description="What the structure is told by."
    )
    protected_patterns: tuple[str, ...] = Field(
        default=(), frozen=True, description="Regular expressions whose matches are not cut."
    )
    header_path_separator: str = Field(default="/", frozen=True, description="Between the titles of header_path.")
    adapt_to_length: bool = Field(default=True, frozen=True, description="Whether short documents have fewer levels.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusMultiGranularityNodeParser"

    @classmethod
    def from_preset(cls, preset: Preset = "balanced", *, sentences: bool = False, **options: Any) -> Self:
        """A parser with levels for a kind of text.

        Args:
            preset: "balanced"; "manual" or "law", finer; "narrative", coarser.
            sentences: whether each sentence is a node as well, below the fine level, for `FusedGranularityRetriever`.
            options: those of the parser, but for ``levels``; ``unit`` decides the sizes.

        Raises:
            OptionError: there is no such preset, or ``levels`` are given as well.
        """
        if not isinstance(preset, str) or preset not in PRESETS:
            raise OptionError(f"preset={preset!r} is none of {', '.join(PRESETS)}")
        if "levels" in options:
            raise OptionError(
                f"levels={options['levels']!r} beside preset={preset!r}, which has levels of its own; pass "
                "MultiGranularityNodeParser(levels=...) without a preset, or leave levels out"
            )
        levels = _levels_in(preset, options.get("unit", "chars"))
        below = [Granularity(SENTENCE, 0, finest.max_size, each_sentence=True) for finest in levels[-1:] if sentences]
        return cls(levels=(*levels, *below), **options)

    @field_validator("embed_model", mode="before")
    @classmethod
    def _demand_model(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError(  # noqa: TRY004  pydantic reports ValueErrors
                "embed_model was dumped as data; pass the model: from_dict(data, embed_model=...)"
            )
        return value

    @field_validator("protected_patterns", mode="before")
    @classmethod
    def _demand_list(cls, patterns: Any) -> Any:
        return StructuredMarkdownNodeParser._demand_list(patterns)  # noqa: SLF001  one family

    @model_validator(mode="before")
    @classmethod
    def _default_levels(cls, options: Any) -> Any:
        if isinstance(options, dict) and options.get("levels") is None:
            return {**options, "levels": _levels_in("balanced", options.get("unit", "chars"))}
        return options

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        names = [level.name for level in self.levels]
        if not names:
            raise ValueError("levels=() names no level; pass one or more, or leave it out for coarse, medium and fine")
        if len({*names}) < len(names):
            raise ValueError(f"levels={names} names a level twice; give each a name of its own")
        for level, finer in zip(self.levels, self.levels[1:], strict=False):
            if level.each_sentence:
                raise ValueError(f"level {level.name!r} has each_sentence=True and is not the last; put it last")
            if finer.max_size >= level.max_size and not finer.each_sentence:
                raise ValueError(
                    f"max_size={finer.max_size} of {finer.name!r} is not below max_size={level.max_size} of "
                    f"{level.name!r}; levels go from coarse to fine"
                )
        smallest = min(self.levels, key=lambda level: level.max_size)
        if smallest.max_size - self.reserve_header < MIN_CHUNK_SIZE:
            raise ValueError(
                f"reserve_header={self.reserve_header} leaves less than {MIN_CHUNK_SIZE} of "
                f"levels[{smallest.name!r}].max_size={smallest.max_size}; choose a smaller reserve, or a larger size"
            )
        if self.levels[0].each_sentence:
            raise ValueError("levels has sentences only; put a level of larger chunks ahead of them")
        _ = self._cutter(self.levels[0])
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        cutters = {level.name: self._cutter(level) for level in self.levels}
        limits = {
            level.name: self._text_limits(sources, f"levels[{level.name!r}].max_size", level.max_size)
            for level in self.levels
        }
        readings = [cutters[self.levels[0].name]._read(source.text) for source in sources]  # noqa: SLF001  one family
        finest = [level for level in self.levels if not level.each_sentence][-1]
        meanings = yield from self._meanings(sources, readings, show_progress)
        work = get_tqdm_iterable(list(zip(sources, readings, meanings, strict=True)), show_progress, "Parsing nodes")
        return [
            self._drafts(
                _Tower(source, reading, meaning, cutters, {name: sizes[i] for name, sizes in limits.items()}, finest)
            )
            for i, (source, reading, meaning) in enumerate(work)
        ]

    def _cutter(self, level: Granularity) -> StructuredMarkdownNodeParser:
        """The parser that cuts one level."""
        names = (*SizedNodeParser.model_fields, "structure", "protected_patterns", "header_path_separator")
        options = {name: getattr(self, name) for name in names if name != "id_func"}
        return StructuredMarkdownNodeParser(chunk_size=level.max_size, chunk_overlap=level.overlap, **options)

    def _meanings(
        self, sources: Sequence[Source], readings: Sequence[Reading], show_progress: bool
    ) -> Plan[list[_Meaning | None]]:
        """The sentences of each document with their vectors, every distinct one embedded once."""
        if self.embed_model is None:
            return [None for _ in sources]
        limit = self._room(min(level.max_size for level in self.levels))
        texts = [source.text for source in sources]
        units = [
            units_that_fit(text, self._ends(text), read.ruler, limit, self._vocabulary, max(MIN_CHUNK_SIZE, limit // 4))
            for text, read in zip(texts, readings, strict=True)
        ]
        spans = [[Span(*pair) for pair in zip(each.bounds, each.bounds[1:], strict=False)] for each in units]
        said = [[span.of(text).strip() for span in each] for text, each in zip(texts, spans, strict=True)]
        row_of = {text: row for row, text in enumerate(dict.fromkeys(text for each in said for text in each if text))}
        vectors: Vectors = yield EmbedTexts(self.embed_model, list(row_of), show_progress)
        return [
            _Meaning(each, vectors[[row_of.get(text, BLANK_ROW) for text in own]])
            for each, own in zip(units, said, strict=True)
        ]

    @collection_paused()
    def _drafts(self, tower: _Tower) -> list[Draft]:
        """The chunks of a document, each ahead of its parts."""
        size = tower.size if self.adapt_to_length else self.levels[0].max_size
        writer = SectionWriter(
            tower.source,
            self.header_path_separator,
            tower.cutters[self.levels[0].name]._titles_above(tower.source),  # noqa: SLF001
        )
        roots: list[Draft] = []
        parts: dict[Draft, list[Draft]] = {}
        above: list[Draft] = []
        for depth, (level, chunks) in enumerate(tower.floors(levels_of(size, self.levels))):
            ends = [draft.span.end for draft in above if draft.span]
            drafts = [writer.draft(chunk) for chunk in chunks]
            for draft, chunk in zip(drafts, chunks, strict=True):
                draft.level = level.name
                place = tower.source.place(draft.span)
                span = {} if None in place else dict(zip(SPAN_KEYS, place, strict=True))
                draft.hidden = {**draft.hidden, GRANULARITY_KEY: level.name, DEPTH_KEY: depth, COARSE_KEY: "", **span}
                draft.parent = above[bisect_left(ends, chunk.span.end)] if above else None
                (parts.setdefault(draft.parent, []) if draft.parent else roots).append(draft)
            above = drafts
        return [draft for root in roots for draft in _descend(root, parts)]

    def _make_nodes(self, source: Source, drafts: Sequence[Draft], ids: IdMaker) -> list[TextNode]:
        """The nodes, each told which largest chunk it is in."""
        nodes = super()._make_nodes(source, drafts, ids)
        coarse_ids: dict[Draft, str] = {}
        for draft, node in zip(drafts, nodes, strict=True):
            coarse_ids[draft] = coarse_ids.get(draft.parent, node.id_) if draft.parent else node.id_
            node.metadata[COARSE_KEY] = coarse_ids[draft]
        return nodes


def _levels_in(preset: str, unit: object) -> tuple[Granularity, ...]:
    """The levels of a preset; none in a unit that there is not, which is refused by itself."""
    return PRESETS[preset].get(unit, ()) if isinstance(unit, str) else ()


@dataclass(frozen=True)
class _Meaning:
    """The sentences of a document, and what they mean."""

    units: Units
    vectors: Vectors

    @cached_property
    def _sizes(self) -> Any:
        return np.maximum(1, np.diff(self.units.marks.ended)).astype(np.int64)

    def topics(self, span: Span, limit: int, least: int, target: int | None) -> list[int]:
        """Where the topics of a part of the document begin, its own beginning left out."""
        bounds = self.units.bounds
        first, last = bisect_left(bounds, span.start), bisect_left(bounds, span.end)
        if last - first < 2:  # noqa: PLR2004  one sentence
            return []
        ends = optimal_segments(
            self.vectors[first:last],
            self._sizes[first:last],
            max_size=limit,
            min_size=min(least, target or limit),
            target_size=target,
        )
        return [bounds[first + end] for end in ends[:-1]]


@dataclass(frozen=True)
class _Tower:
    """A document on its way to chunks of several levels."""

    source: Source
    reading: Reading
    meaning: _Meaning | None
    cutters: dict[str, StructuredMarkdownNodeParser]
    limits: dict[str, int]
    finest: Granularity  # but for single sentences

    @property
    def size(self) -> int:
        """The size of the document, from what is known of its parts."""
        marks = self.reading.ruler.marks((0, len(self.source.text)))
        return marks.begun[1] - marks.ended[0]

    def floors(self, levels: Sequence[Granularity]) -> Iterator[tuple[Granularity, list[Chunk]]]:
        """The chunks of each level, coarse first; none reaches over the end of one above it."""
        edges: list[int] = []
        kept = 0
        layout: Layout | None = None
        for level in levels:
            layout = self._layout(level, edges, kept, layout)
            chunks = layout.sentences() if level.each_sentence else self._chunks(layout, level)
            yield level, chunks
            edges, kept = [chunk.span.end for chunk in chunks[:-1]], level.max_size

    def _layout(self, level: Granularity, edges: Sequence[int], kept: int, coarser: Layout | None) -> Layout:
        limit = self.limits[level.name]
        cutter = self.cutters[level.name]
        return cutter._layout(  # noqa: SLF001  one family
            self.source, limit, self.reading, edges, min(level.min_size, limit), kept, coarser
        )

    def _chunks(self, layout: Layout, level: Granularity) -> list[Chunk]:
        if self.meaning is None:
            return layout.chunks()
        limit = self.limits[level.name]
        target = round(limit / _MAX_TO_TARGET) if level is self.finest else None
        sections = layout.large_sections()
        return layout.chunks(
            topics=[at for span in sections for at in self.meaning.topics(span, limit, level.min_size, target)]
        )


def _descend(draft: Draft, parts: dict[Draft, list[Draft]]) -> Iterator[Draft]:
    yield draft
    for part in parts.get(draft, ()):
        yield from _descend(part, parts)
