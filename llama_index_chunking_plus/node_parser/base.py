"""The one place where chunks become LlamaIndex nodes.

A parser says where the chunks are; this module says what a node is: exact offsets in the root document, a deterministic
id, the root as SOURCE, its neighbours, and the metadata, exclusions and templates of its input.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from typing_extensions import Self

from llama_index_chunking_plus.core.pages import PageMap, without_pages
from llama_index_chunking_plus.core.parents import ParentRef, text_hash
from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.fingerprints import callable_specification, load_callable
from llama_index_chunking_plus.node_parser.nodes import (
    IdMaker,
    NodeMould,
    Relationships,
    collection_paused,
    hash_of,
    relative,
)
from llama_index_chunking_plus.node_parser.options import CheckedOptions, checked_documents
from llama_index_chunking_plus.node_parser.portable import portable

IdFunc = Callable[[int, BaseNode], str]

_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_INHERITED = (*_EXCLUSIONS, "metadata_separator", "metadata_template", "text_template")
_IMAGE = ("image", "image_path", "image_url", "image_mimetype")


@dataclass(frozen=True)
class Source:
    """One input of a parser: its text, and where that text stands in the root document."""

    node: BaseNode
    text: str
    root: RelatedNodeInfo
    offset: int | None  # None: a piece of a document that does not say where it begins

    @classmethod
    def of(cls, node: BaseNode) -> Source:
        """The input as a source; a node that has a SOURCE itself is a piece of that root document."""
        parent = node.source_node
        if parent is None:
            root = RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type(), hash=hash_of(node))
            offset: int | None = 0
        else:
            root = RelatedNodeInfo(node_id=parent.node_id, node_type=parent.node_type, hash=parent.hash)
            offset = getattr(node, "start_char_idx", None)
        return cls(node, node.get_content(metadata_mode=MetadataMode.NONE), root, offset)

    def place(self, span: Span | None) -> tuple[int | None, int | None]:
        """Start and end of a span in the root document, where both are known."""
        if span is None or self.offset is None:
            return None, None
        return span.start + self.offset, span.end + self.offset

    def continues(self, previous: Source) -> bool:
        """Whether both are pieces of one root document; two documents never are, even of the same id."""
        return self.node.source_node is not None and self.root.node_id == previous.root.node_id


@dataclass(eq=False)  # never changed; frozen, each would take three times as long to make
class Draft:
    """A chunk on its way to being a node."""

    span: Span | None  # in the source's text; None: a foreign chunk that could not be placed
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    like: BaseNode | None = None  # whose exclusions and templates it takes; None: those of the source
    hidden: Mapping[str, Any] = field(default_factory=dict)  # metadata that neither embedder nor model is shown
    level: str = ""  # nodes of one level are linked to each other; "": those that are searched
    parent: Draft | None = None  # the chunk, of a higher level, that this one is a part of

    @classmethod
    def of(cls, source: Source, span: Span) -> Draft:
        """The chunk that is exactly this slice of the source."""
        return cls(span, span.of(source.text))

    def part(self, span: Span) -> Draft:
        """The chunk that is this slice of the chunk's own text."""
        return Draft(span, span.of(self.text), self.metadata, self.like, self.hidden).inside(self)

    def inside(self, whole: Draft) -> Draft:
        """The same chunk, found in the text of ``whole``, in the frame of the source of ``whole``."""
        return Draft(
            span=self.span.shift(whole.span.start) if self.span is not None and whole.span is not None else None,
            text=self.text,
            metadata={**whole.metadata, **self.metadata},
            like=self.like or whole.like,
            hidden={**whole.hidden, **self.hidden},
        )


class SpanNodeParser(CheckedOptions, NodeParser, ABC):
    """Base of all parsers here: subclasses say where chunks are, this class makes the nodes.

    Every node satisfies ``root.text[node.start_char_idx : node.end_char_idx] == node.text``, however many parsers are
    chained; its id is a UUID made of document id, parser, span and text; SOURCE is the root document, PREVIOUS and NEXT
    run through the whole document, each level of chunks by itself. Chunks that hold nothing but white space are left
    out. Inputs are not changed. Chunks of a document that `PageJoiner` joined say in ``page_start`` and ``page_end``,
    hidden from embedder and model, on which pages they stand; where their place is not known, they say nothing.

    Args:
        id_func: gives the id of the i-th chunk of an input, instead of the deterministic UUID; parents keep theirs.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _names_all_levels: ClassVar[bool] = False  # whether id_func names those too that are not searched

    id_func: IdFunc | None = Field(  # type: ignore[assignment]  # core's own type demands a __name__
        default=None, description="Gives the id of the i-th chunk of an input, instead of the deterministic UUID."
    )

    @abstractmethod
    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        """The chunks of each source, in document order; yields a request wherever a model or parser must answer."""

    @field_validator("id_func", mode="before")
    @classmethod
    def _load_id_func(cls, value: Any) -> Any:
        return load_callable(value, "id_func") if isinstance(value, str) else value

    @field_serializer("id_func")
    def _dump_id_func(self, value: IdFunc | None) -> str | None:
        return None if value is None else callable_specification(value)

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The parser that `to_dict` dumped; models and callables that no import path leads to are passed as kwargs."""
        fields = {name: value for name, value in data.items() if name in cls.model_fields}
        return super().from_dict(fields, **kwargs)

    def __getstate__(self) -> dict[Any, Any]:
        """A state of copies: LlamaIndex's own components drop what cannot be pickled from the live object."""
        state = BaseModel.__getstate__(self)
        fields = {name: portable(value) for name, value in state["__dict__"].items() if name != "callback_manager"}
        return {**state, "__dict__": fields}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields = {"callback_manager": CallbackManager([]), **state["__dict__"]}
        BaseModel.__setstate__(self, {**state, "__dict__": fields})

    def get_nodes_from_documents(
        self, documents: Sequence[Document], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """The nodes of the documents, or of nodes that another parser made.

        Raises:
            OptionError: ``documents`` is no list of documents or nodes.
        """
        return super().get_nodes_from_documents(checked_documents(documents), show_progress, **kwargs)

    async def aget_nodes_from_documents(
        self, documents: Sequence[Document], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """The same, awaited."""
        return await super().aget_nodes_from_documents(checked_documents(documents), show_progress, **kwargs)

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:
        sources = [Source.of(node) for node in nodes]
        with self._chunking_event(sources) as chunked:
            return chunked(self._build(sources, run(self._plan(sources, show_progress))))

    async def _aparse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:
        sources = [Source.of(node) for node in nodes]
        with self._chunking_event(sources) as chunked:
            return chunked(self._build(sources, await arun(self._plan(sources, show_progress))))

    def _postprocess_parsed_nodes(self, nodes: list[BaseNode], _: dict[str, Document]) -> list[BaseNode]:
        return nodes  # they are complete; core would search for their text again

    @contextmanager
    def _chunking_event(self, sources: Sequence[Source]) -> Iterator[Callable[[list[TextNode]], list[BaseNode]]]:
        payload: dict[str, Any] = {EventPayload.CHUNKS: [source.text for source in sources]}
        with self.callback_manager.event(CBEventType.CHUNKING, payload=payload) as event:

            def chunked(nodes: list[TextNode]) -> list[BaseNode]:
                event.on_end({EventPayload.CHUNKS: [node.text for node in nodes]})
                return list(nodes)

            yield chunked

    @collection_paused()
    def _build(self, sources: Sequence[Source], drafts: Sequence[Sequence[Draft]]) -> list[TextNode]:
        ids = IdMaker(self.class_name())
        nodes: list[TextNode] = []
        chains: dict[str, list[TextNode]] = {}
        for index, (source, chunks) in enumerate(zip(sources, drafts, strict=True)):
            if index and not source.continues(sources[index - 1]):
                self._link(chains)
                chains = {}
            kept = [draft for draft in chunks if draft.text.strip()]
            made = self._make_nodes(source, kept, ids)
            for draft, node in zip(kept, made, strict=True):
                chains.setdefault(draft.level, []).append(node)
            if any(draft.parent is not None for draft in kept):
                _link_children(kept, made)
            nodes.extend(made)
        self._link(chains)
        return nodes

    def _make_nodes(self, source: Source, drafts: Sequence[Draft], ids: IdMaker) -> list[TextNode]:
        node_class, shared = _node_template(source.node)
        inherited, pages = _metadata_and_pages(source) if self.include_metadata else ({}, None)
        nested = {key: value for key, value in inherited.items() if isinstance(value, (dict, list, set))}
        id_of = self._ids(source, drafts, ids)
        by_root: Relationships = {NodeRelationship.SOURCE: source.root}
        lineages: dict[Draft | None, tuple[Relationships, dict[str, Any]]] = {None: (by_root, {})}
        for whole in dict.fromkeys(draft.parent for draft in drafts if draft.parent is not None):
            parent, reference = _lineage(source, whole, id_of[whole], node_class)
            lineages[whole] = {**by_root, **parent}, reference
        moulds: dict[tuple[Any, ...], NodeMould] = {}
        nodes = []
        for draft in drafts:
            start, end = source.place(draft.span)
            relationships, reference = lineages[draft.parent]
            pages_told = {} if pages is None or start is None else pages.describe(draft.text, start)
            hidden = {**draft.hidden, **reference, **pages_told} if reference or pages_told else draft.hidden
            look = (id(draft.like), *hidden)
            if look not in moulds:
                moulds[look] = NodeMould(node_class(**_appearance(shared, draft.like, hidden)))
            metadata = {**inherited, **(copy.deepcopy(nested) if nested else {}), **draft.metadata, **hidden}
            nodes.append(moulds[look].cast(id_of[draft], draft.text, (start, end), metadata, relationships))
        return nodes

    def _ids(self, source: Source, drafts: Sequence[Draft], ids: IdMaker) -> dict[Draft, str]:
        """The ids of the drafts and of their parents; ``id_func`` names those that are searched."""
        number = count()
        id_of: dict[Draft, str] = {}

        def make(draft: Draft) -> str:
            return ids.make(source.root.node_id, draft.level, source.place(draft.span), draft.text)

        for draft in drafts:
            if draft.parent is not None and draft.parent not in id_of:
                id_of[draft.parent] = make(draft.parent)
            if draft not in id_of:
                is_named = self.id_func is not None and (self._names_all_levels or not draft.level)
                id_of[draft] = self._named(next(number), source) if is_named else make(draft)
        return id_of

    def _named(self, index: int, source: Source) -> str:
        name = self.id_func(index, source.node) if self.id_func else ""
        if not isinstance(name, str) or not name:
            raise OptionError(
                f"id_func gave {name!r} for chunk {index} of {source.node.node_id!r}; it must give a string"
            )
        return name

    def _link(self, chains: Mapping[str, Sequence[TextNode]]) -> None:
        """PREVIOUS and NEXT within each level by id, without copies of the neighbour's metadata."""
        if not self.include_prev_next_rel:
            return
        for chain in chains.values():
            relatives = [relative(node) for node in chain]
            for node, previous in zip(chain[1:], relatives, strict=False):
                node.relationships[NodeRelationship.PREVIOUS] = previous
            for node, following in zip(chain, relatives[1:], strict=False):
                node.relationships[NodeRelationship.NEXT] = following


def _metadata_and_pages(source: Source) -> tuple[Mapping[str, Any], PageMap | None]:
    """What chunks take over as it is; and the map of the pages, if there is one, of which each chunk says its own."""
    metadata = source.node.metadata
    pages = PageMap.from_metadata(metadata)
    return metadata if pages is None else {key: metadata[key] for key in without_pages(metadata)}, pages


def _link_children(drafts: Sequence[Draft], nodes: Sequence[TextNode]) -> None:
    """CHILD, as a list, on each node that others are parts of."""
    children: dict[Draft, list[RelatedNodeInfo]] = {}
    for draft, node in zip(drafts, nodes, strict=True):
        if draft.parent is not None:
            children.setdefault(draft.parent, []).append(relative(node))
    for draft, node in zip(drafts, nodes, strict=True):
        if draft in children:
            node.relationships[NodeRelationship.CHILD] = children[draft]


def _lineage(
    source: Source, whole: Draft, whole_id: str, node_class: type[TextNode]
) -> tuple[Relationships, dict[str, Any]]:
    """What the parts of ``whole`` carry of it: the PARENT relationship and, where its range is known, the metadata."""
    digest = text_hash(whole.text)
    info = RelatedNodeInfo(node_id=whole_id, node_type=node_class.get_type(), hash=digest)
    start, end = source.place(whole.span)
    if start is None or end is None:
        return {NodeRelationship.PARENT: info}, {}
    return {NodeRelationship.PARENT: info}, ParentRef(whole_id, Span(start, end), digest).to_metadata()


def _appearance(shared: dict[str, Any], like: BaseNode | None, hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The exclusions and templates of a node, its own hidden metadata excluded as well."""
    appearance = shared if like is None else {**shared, **_inherited(like)}
    if not hidden:
        return appearance
    return {**appearance, **{name: [*dict.fromkeys((*appearance[name], *hidden))] for name in _EXCLUSIONS}}


def _node_template(node: BaseNode) -> tuple[type[TextNode], dict[str, Any]]:
    """The class of the nodes made from an input, and the arguments that they all share; its embedding is not one."""
    shared = _inherited(node)
    if isinstance(node, (ImageDocument, ImageNode)):
        return ImageNode, {**shared, **{name: getattr(node, name) for name in _IMAGE}}
    if isinstance(node, IndexNode):
        return IndexNode, {**shared, "index_id": node.index_id, "obj": node.obj}
    return TextNode, shared


def _inherited(node: BaseNode) -> dict[str, Any]:
    return {name: getattr(node, name) for name in _INHERITED if hasattr(node, name)}
