"""Two parsers in a row: what the first one leaves too large, the second one cuts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import DEFAULT_TEXT_NODE_TMPL, BaseNode, Document, MetadataMode
from typing_extensions import Self

from llama_index_chunking_plus.core.align import align, left_out
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.node_parser.base import Draft, Source, SpanNodeParser
from llama_index_chunking_plus.node_parser.nested import NestedParser, NestingNodeParser
from llama_index_chunking_plus.node_parser.requests import ParseDocuments
from llama_index_chunking_plus.node_parser.semantic import SemanticNodeParser
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE, SizedNodeParser
from llama_index_chunking_plus.node_parser.sliding import SlidingWindowNodeParser

_MAX_TO_TARGET = 1.6  # largest over mean segment: a mean of 256 goes with a maximum of 410, 600 with 960


class HybridNodeParser(NestingNodeParser):
    """Chunks of the primary parser where they are small enough, of the secondary parser where they are not.

    Both may be any LlamaIndex node parser. Nodes keep exact offsets in the root document, its id, metadata, exclusions
    and templates, deterministic ids, and links through the whole document, whatever the two parsers do with theirs. A
    chunk of a foreign parser becomes the slice of the document that covers it; one that does not stand in the document
    keeps its text, has offsets None, and is counted in one warning; text that a parser drops comes back as chunks. No
    chunk is above ``max_chunk_size``: what even the secondary parser leaves larger is cut between sentences.

    Args:
        primary_parser: segments the document, e.g. by meaning or by headings.
        secondary_parser: cuts what is larger than ``max_chunk_size``, e.g. a sliding window.
        max_chunk_size: the largest size of a chunk, in ``unit``, metadata not counted.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: max_chunk_size is below 4, or a parser was dumped as data and not passed again.

    Example:
        >>> from llama_index.core import Document
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> parser = HybridNodeParser(
        ...     primary_parser=SentenceSplitter(chunk_size=1024),
        ...     secondary_parser=SlidingWindowNodeParser(chunk_size=20, chunk_overlap=0),
        ...     max_chunk_size=20,
        ... )
        >>> [n.text for n in parser.get_nodes_from_documents([Document(text="一楼是大厅。二楼是展厅。三楼是餐厅。")])]
        ['一楼是大厅。二楼是展厅。', '三楼是餐厅。']
    """

    primary_parser: NestedParser = Field(frozen=True, description="Segments the document.")
    secondary_parser: NestedParser = Field(frozen=True, description="Cuts what is larger than max_chunk_size.")
    max_chunk_size: int = Field(default=1024, frozen=True, description="Largest size of a chunk, in unit.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusHybridNodeParser"

    @classmethod
    def from_defaults(cls, embed_model: BaseEmbedding, max_chunk_size: int = 1024, **options: Any) -> Self:
        """Segments by meaning of a mean size of ``max_chunk_size / 1.6``; what is still too large slides.

        Args:
            embed_model: gives the sentence vectors.
            max_chunk_size: the largest size of a chunk; 410 aims at chunks of 256, 960 at chunks of 600.
            options: unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: given to
                both parsers as well. include_metadata, include_prev_next_rel, callback_manager and id_func: given to
                the hybrid parser.
        """
        if not isinstance(max_chunk_size, int) or max_chunk_size < MIN_CHUNK_SIZE:
            raise OptionError(f"max_chunk_size={max_chunk_size!r} is no whole number of {MIN_CHUNK_SIZE} or more")
        shared = {name: value for name, value in options.items() if name in SizedNodeParser.model_fields}
        target = round(max_chunk_size / _MAX_TO_TARGET)
        primary = SemanticNodeParser(embed_model=embed_model, target_size=target, max_size=max_chunk_size, **shared)
        secondary = SlidingWindowNodeParser(chunk_size=max_chunk_size, **shared)
        return cls(primary_parser=primary, secondary_parser=secondary, max_chunk_size=max_chunk_size, **options)

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if self.max_chunk_size < MIN_CHUNK_SIZE:
            raise ValueError(f"max_chunk_size={self.max_chunk_size} is below {MIN_CHUNK_SIZE}; choose a larger one")
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        segments = yield from _chunks(self.primary_parser, sources, show_progress)
        sized = [[(draft, self._is_small(draft.text)) for draft in drafts] for drafts in segments]
        large = [
            _piece(source, draft)
            for source, drafts in zip(sources, sized, strict=True)
            for draft, small in drafts
            if not small
        ]
        windows = iter((yield from _chunks(self.secondary_parser, large, show_progress)))
        return [
            [part for draft, small in drafts for part in ([draft] if small else self._bounded(draft, next(windows)))]
            for drafts in sized
        ]

    def _is_small(self, text: str) -> bool:
        return self._sizer.size(text) <= self._room(self.max_chunk_size)

    def _bounded(self, draft: Draft, windows: Sequence[Draft]) -> list[Draft]:
        """The windows in the place of the draft that they cut; a window that is still too large is cut by sentences."""
        limit = self._room(self.max_chunk_size)
        return [
            window.part(part).inside(draft)
            for window in windows
            for part in self._units(window.text, limit).within(Span(0, len(window.text)), limit)
        ]


def _chunks(parser: NodeParser, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
    """The drafts of each source: our parsers' as they plan them, other parsers' found again in the text."""
    if isinstance(parser, SpanNodeParser):
        return (yield from parser._plan(sources, show_progress))  # noqa: SLF001  parsers here are one family
    filled = [source for source in sources if source.text.strip()]
    documents = [_as_document(index, source) for index, source in enumerate(filled)]
    nodes = yield ParseDocuments(parser, documents, show_progress)
    found = [_place(source, each) for source, each in zip(filled, nodes, strict=True)]
    _warn_about_losses(parser, [draft for drafts in found for draft in drafts])
    drafts = iter(found)
    return [next(drafts) if source.text.strip() else [] for source in sources]


def _as_document(index: int, source: Source) -> Document:
    """The source as a document of its own; its id is unique in the call whatever the caller's ids are."""
    node = source.node
    return Document(
        id_=f"{source.root.node_id}#{index}",
        text=replace_surrogates(source.text),  # core cannot hash them; the length stays
        metadata=dict(node.metadata),
        excluded_embed_metadata_keys=list(node.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=list(node.excluded_llm_metadata_keys),
        metadata_template=node.metadata_template,
        metadata_separator=node.metadata_separator,
        text_template=getattr(node, "text_template", DEFAULT_TEXT_NODE_TMPL),
    )


def _place(source: Source, nodes: Sequence[BaseNode]) -> list[Draft]:
    """The chunks as slices of the source, and what they leave out.

    A chunk that stands where its forerunner stands already says nothing new. Where every chunk was found, the text that
    none of them holds was dropped: it becomes chunks of its own. Where one was rewritten, nobody can tell.
    """
    texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
    spans = align(replace_surrogates(source.text), texts)
    drafts = [
        Draft(span, text if span is None else span.of(source.text), _own_metadata(source, node), node)
        for span, previous, text, node in zip(spans, [None, *spans], texts, nodes, strict=False)
        if (span is None and text.strip()) or (span is not None and span != previous)
    ]
    placed = [draft.span for draft in drafts if draft.span is not None]
    dropped = left_out(source.text, placed) if len(placed) == len(drafts) else []
    if not dropped:
        return drafts
    return sorted([*drafts, *(Draft.of(source, span) for span in dropped)], key=lambda draft: draft.span or Span(0, 0))


def _own_metadata(source: Source, node: BaseNode) -> dict[str, Any]:
    """What the parser added to the metadata of its input."""
    given = source.node.metadata
    return {key: value for key, value in node.metadata.items() if key not in given or given[key] != value}


def _piece(source: Source, draft: Draft) -> Source:
    return Source(draft.like or source.node, draft.text, source.root, None)


def _warn_about_losses(parser: NodeParser, drafts: Sequence[Draft]) -> None:
    """One warning for all chunks that a foreign parser rewrote, and all text that it dropped."""
    rewritten = sum(draft.span is None for draft in drafts)
    dropped = sum(len(draft.text) for draft in drafts if draft.like is None)
    name = type(parser).__name__
    losses = []
    if rewritten:
        losses.append(
            f"{rewritten} of {len(drafts)} chunks of {name} do not stand in their document; they keep their text and "
            "have no offsets"
        )
    if dropped:
        losses.append(f"{name} left out {dropped} characters; they became chunks of their own")
    if losses:
        warnings.warn(
            "; ".join(losses) + ". Use a parser that keeps the text as it is.", ChunkingPlusWarning, stacklevel=2
        )
