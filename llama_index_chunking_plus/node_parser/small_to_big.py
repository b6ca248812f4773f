"""Small chunks to search in, each a part of a large one to read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.schema import BaseNode, Document, NodeRelationship
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.sections import PARENT_PREFIX, SECTION_KEYS
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nested import NestedSpanParser, NestingNodeParser
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_PARENT = "parent"  # the level of what is read
_RATIOS = (4, 6)  # parent to child
_OVERLAPS = (10, 15)  # per cent of a child


class SmallToBigNodeParser(NestingNodeParser):
    """Children, small enough to be found; each says which parent, large enough to be understood, it is a part of.

    A child names its parent twice: as its PARENT relationship, and in its metadata as ``parent_id``, ``parent_start``,
    ``parent_end`` (characters of the root document) and ``parent_hash`` (of the parent's text), which neither embedder
    nor model sees. With these a parent is read off the document, and need not be stored. Children lie inside their
    parent and cover it, white space that fills a whole child aside. A document of one short piece is parent and child
    in one. Where an input does not say where it begins in its document, the metadata is left out.

    Args:
        parent_size: the largest size of a parent, in ``unit``, metadata not counted. Parents are whole sentences, side
            by side, as full as they get.
        child_size: the largest size of a child, in ``unit``; metadata that embedder or model see is charged to it, down
            to a floor of 50 (or ``child_size``, if that is less) for the text.
        child_overlap: the largest size that neighbours in one parent share, in whole sentences. If it is not given,
            15 % of ``child_size``.
        parent_parser: makes the parents instead, at sizes of its own; any parser of this package. Where its chunks
            overlap, each is cut into children of its own.
        child_parser: cuts each parent into children instead, at sizes of its own; any parser of this package.
        emit: "children", or "both": each parent, with CHILD relationships, ahead of its children.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: child_size is below 4 or above parent_size, child_overlap is negative or not below child_size, or a
            parser was dumped as data and not passed again.

    Warns:
        ChunkingPlusWarning: a parent is less than 4 or more than 6 children large, or the overlap outside 10 to 15 %.

    Example:
        >>> from llama_index.core import Document
        >>> parser = SmallToBigNodeParser(parent_size=40, child_size=10)
        >>> document = Document(text="一楼是大厅。二楼是展厅。三楼是餐厅。")
        >>> [node.text for node in parser.get_nodes_from_documents([document])]
        ['一楼是大厅。', '二楼是展厅。', '三楼是餐厅。']
        >>> [node.text for node in parser.parent_nodes([document])]
        ['一楼是大厅。二楼是展厅。三楼是餐厅。']
    """

    unit: Literal["tokens", "chars"] = Field(default="chars", frozen=True, description="What sizes are counted in.")
    parent_size: int = Field(default=2400, frozen=True, description="Largest size of a parent, in unit.")
    child_size: int = Field(default=400, frozen=True, description="Largest size of a child, in unit.")
    child_overlap: int = Field(default=60, frozen=True, description="Largest size that children share, in unit.")
    parent_parser: NestedSpanParser | None = Field(default=None, frozen=True, description="Makes the parents instead.")
    child_parser: NestedSpanParser | None = Field(default=None, frozen=True, description="Cuts the parents instead.")
    emit: Literal["children", "both"] = Field(default="children", frozen=True, description="Which nodes come out.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusSmallToBigNodeParser"

    @model_validator(mode="before")
    @classmethod
    def _default_overlap(cls, options: Any) -> Any:
        size = options.get("child_size") if isinstance(options, dict) else None
        if isinstance(size, int) and "child_overlap" not in options:
            return {**options, "child_overlap": max(0, size * _OVERLAPS[1] // 100)}
        return options

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if not MIN_CHUNK_SIZE <= self.child_size <= self.parent_size:
            raise ValueError(
                f"child_size={self.child_size} is outside [{MIN_CHUNK_SIZE}, parent_size={self.parent_size}]; "
                "a quarter to a sixth of parent_size is usual"
            )
        if not 0 <= self.child_overlap < self.child_size:
            raise ValueError(
                f"child_overlap={self.child_overlap} is outside [0, child_size={self.child_size}); 10 to 15 % are usual"
            )
        unusual = list(self._unusual_sizes())
        if unusual:
            warnings.warn("; ".join(unusual), ChunkingPlusWarning, stacklevel=3)
        return self

    def _unusual_sizes(self) -> Iterator[str]:
        """What to say of sizes that work, and are seldom wanted; those that another parser decides do not count."""
        if self.child_parser is not None:
            return
        ratio, least = self.parent_size / self.child_size, self.child_size * _OVERLAPS[0] // 100
        if self.parent_parser is None and not _RATIOS[0] <= ratio <= _RATIOS[1]:
            yield (
                f"parent_size={self.parent_size} is {ratio:.1f} times child_size={self.child_size}, outside 4 to 6: "
                "smaller parents add little to their children, larger ones bury the answer in other text"
            )
        if not least <= self.child_overlap <= math.ceil(self.child_size * _OVERLAPS[1] / 100):
            yield (
                f"child_overlap={self.child_overlap} is {self.child_overlap / self.child_size:.0%} of "
                f"child_size={self.child_size}, outside 10 to 15 %: less may part a sentence from the one before, "
                "more stores and finds the same text twice"
            )

    def parent_nodes(self, documents: Sequence[Document], show_progress: bool = False) -> list[BaseNode]:
        """The parents of the children that the documents give, as nodes with the ids that the children name.

        Args:
            documents: what the children are made of, or will be.
            show_progress: whether to show progress bars.
        """
        return _with_children(self._with_parents.get_nodes_from_documents(documents, show_progress))

    async def aparent_nodes(self, documents: Sequence[Document], show_progress: bool = False) -> list[BaseNode]:
        """The same as `parent_nodes`, awaited."""
        return _with_children(await self._with_parents.aget_nodes_from_documents(documents, show_progress))

    @property
    def _with_parents(self) -> Self:
        return self.model_copy(update={"emit": "both"})

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        only_parsers = self.parent_parser is not None and self.child_parser is not None
        work = [] if only_parsers else get_tqdm_iterable(list(sources), show_progress, "Parsing nodes")
        units = [self._units(source.text, self._room(self.parent_size)) for source in work]
        parents = yield from self._parents(sources, units, show_progress)
        children = yield from self._children(sources, units, parents, show_progress)
        return [
            [node for parent in drafts for node in ([parent] if self.emit == "both" else []) + next(children)]
            for drafts in parents
        ]

    def _parents(
        self, sources: Sequence[Source], units: Sequence[Units], show_progress: bool
    ) -> Plan[list[list[Draft]]]:
        if self.parent_parser is not None:
            chunks = yield from self._reserving(self.parent_parser)._plan(sources, show_progress)  # noqa: SLF001  one family
        else:
            chunks = [
                [Draft.of(source, span) for span in each.slide(self._room(self.parent_size))]
                for source, each in zip(sources, units, strict=True)
            ]
        return [[replace(draft, level=_PARENT, parent=None) for draft in drafts] for drafts in chunks]

    def _children(
        self, sources: Sequence[Source], units: Sequence[Units], parents: Sequence[Sequence[Draft]], show_progress: bool
    ) -> Plan[Iterator[list[Draft]]]:
        """The children of each parent, one document after another."""
        if self.child_parser is None:
            limits = self._text_limits(sources, "child_size")
            work = zip(sources, units, parents, limits, strict=True)
            return (children for each in work for children in self._windows(*each))
        families = [(source, parent) for source, drafts in zip(sources, parents, strict=True) for parent in drafts]
        pieces = [_piece(source, parent) for source, parent in families]
        chunks = yield from self._reserving(self.child_parser)._plan(pieces, show_progress)  # noqa: SLF001  one family
        return (
            [_inside(child, parent) for child in drafts] for (_, parent), drafts in zip(families, chunks, strict=True)
        )

    def _windows(self, source: Source, units: Units, parents: Sequence[Draft], limit: int) -> Iterator[list[Draft]]:
        """The children of each parent of a document, made of its sentences, which may also end where a parent does."""
        edges = (edge for parent in parents if parent.span is not None for edge in parent.span)
        ends = sorted({*units.bounds, *edges})[1:]
        rooms = [self._room_in(parent, limit) for parent in parents]
        pieces = units_that_fit(source.text, ends, units.ruler, min(rooms, default=limit), self._vocabulary)
        for parent, room in zip(parents, rooms, strict=True):
            overlap = min(self.child_overlap, room // 2)
            if parent.span is None:
                spans = self._units(parent.text, room).slide(room, overlap)
                yield [_child(parent, None, span.of(parent.text)) for span in spans]
            else:
                spans = pieces.inside(parent.span).slide(room, overlap)
                yield [_child(parent, span, span.of(source.text)) for span in spans]

    def _room_in(self, parent: Draft, limit: int) -> int:
        """What the metadata that a parent gives to its children leaves of the limit, at least half of it."""
        shown = "".join(f"{key}: {value}\n" for key, value in parent.metadata.items())
        return max(limit // 2, limit - self._sizer.size(shown)) if shown else limit


def _child(parent: Draft, span: Span | None, text: str) -> Draft:
    return Draft(span, text, parent.metadata, parent.like, parent.hidden, parent=parent)


def _piece(source: Source, parent: Draft) -> Source:
    """A parent as the input of a parser, with the metadata that it gives to its children."""
    start, _ = source.place(parent.span)
    node = parent.like or source.node
    if parent.metadata or parent.hidden:
        hidden = {name: [*dict.fromkeys([*getattr(node, name), *parent.hidden])] for name in _EXCLUSIONS}
        node = node.model_copy(
            update={"metadata": {**source.node.metadata, **parent.metadata, **parent.hidden}, **hidden}
        )
    return Source(node, parent.text, source.root, start)


def _inside(child: Draft, parent: Draft) -> Draft:
    """The child of a parent; where both say something of their sections, what the parent says is kept as well."""
    own, above = {**child.metadata, **child.hidden}, {**parent.metadata, **parent.hidden}
    differing = (key for key in SECTION_KEYS if key in own and own[key] != above.get(key))
    kept = {f"{PARENT_PREFIX}{key}": above.get(key, "") for key in differing} if above else {}
    inside = child.inside(parent)
    return replace(inside, parent=parent, hidden={**inside.hidden, **kept})


def _with_children(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    return [node for node in nodes if NodeRelationship.CHILD in node.relationships]
