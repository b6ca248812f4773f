"""The one place where chunks become LlamaIndex nodes.

A parser says where the chunks are; this module says what a node is: exact offsets in the root document, a deterministic
id, the root as SOURCE, its neighbours, and the metadata, exclusions and templates of its input.
"""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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

from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.node_parser.fingerprints import callable_specification, load_callable
from llama_index_chunking_plus.node_parser.portable import portable

IdFunc = Callable[[int, BaseNode], str]

_INHERITED = (
    "excluded_embed_metadata_keys",
    "excluded_llm_metadata_keys",
    "metadata_separator",
    "metadata_template",
    "text_template",
)
_IMAGE = ("image", "image_path", "image_url", "image_mimetype")
_ID_NAMESPACE = uuid.UUID("6f1f0d3c-6a52-5c0b-9a0e-6f0d2b8c4e71").bytes


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
            root = RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type(), hash=_hash(node))
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


@dataclass(frozen=True)
class Draft:
    """A chunk on its way to being a node."""

    span: Span | None  # in the source's text; None: a foreign chunk that could not be placed
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    like: BaseNode | None = None  # whose exclusions and templates it takes; None: those of the source

    @classmethod
    def of(cls, source: Source, span: Span) -> Draft:
        """The chunk that is exactly this slice of the source."""
        return cls(span, span.of(source.text))


class SpanNodeParser(NodeParser, ABC):
    """Base of all parsers here: subclasses say where chunks are, this class makes the nodes.

    Every node satisfies ``root.text[node.start_char_idx : node.end_char_idx] == node.text``, however many parsers are
    chained; its id is a UUID made of document id, parser, span and text; SOURCE is the root document, PREVIOUS and
    NEXT run through the whole document. Chunks that hold nothing but white space are left out. Inputs are not changed.

    Args:
        id_func: gives the id of the i-th chunk of an input, instead of the deterministic UUID.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

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
    def _chunking_event(self, sources: Sequence[Source]) -> Iterator[Callable[[list[BaseNode]], list[BaseNode]]]:
        payload: dict[str, Any] = {EventPayload.CHUNKS: [source.text for source in sources]}
        with self.callback_manager.event(CBEventType.CHUNKING, payload=payload) as event:

            def chunked(nodes: list[BaseNode]) -> list[BaseNode]:
                event.on_end({EventPayload.CHUNKS: [node.get_content(MetadataMode.NONE) for node in nodes]})
                return nodes

            yield chunked

    def _build(self, sources: Sequence[Source], drafts: Sequence[Sequence[Draft]]) -> list[BaseNode]:
        ids = _IdMaker(self.class_name())
        nodes: list[BaseNode] = []
        chain: list[TextNode] = []
        for index, (source, chunks) in enumerate(zip(sources, drafts, strict=True)):
            if index and not source.continues(sources[index - 1]):
                self._link(chain)
                chain = []
            made = self._make_nodes(source, [draft for draft in chunks if draft.text.strip()], ids)
            chain.extend(made)
            nodes.extend(made)
        self._link(chain)
        return nodes

    def _make_nodes(self, source: Source, drafts: Sequence[Draft], ids: _IdMaker) -> list[TextNode]:
        node_class, shared = _node_template(source.node)
        inherited = source.node.metadata if self.include_metadata else {}
        nodes = []
        for index, draft in enumerate(drafts):
            start, end = source.place(draft.span)
            node = node_class(
                id_=self.id_func(index, source.node)
                if self.id_func
                else ids.make(source.root.node_id, start, end, draft),
                text=draft.text,
                start_char_idx=start,
                end_char_idx=end,
                metadata={**inherited, **draft.metadata},
                relationships={NodeRelationship.SOURCE: source.root},
                **(shared if draft.like is None else {**shared, **_inherited(draft.like)}),
            )
            nodes.append(node)
        return nodes

    def _link(self, chain: Sequence[TextNode]) -> None:
        """PREVIOUS and NEXT by id, without copies of the neighbour's metadata."""
        if not self.include_prev_next_rel:
            return
        infos = [RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type(), hash=node.hash) for node in chain]
        for index, node in enumerate(chain):
            if index > 0:
                node.relationships[NodeRelationship.PREVIOUS] = infos[index - 1]
            if index + 1 < len(chain):
                node.relationships[NodeRelationship.NEXT] = infos[index + 1]


def _hash(node: BaseNode) -> str:
    """The node's own hash; core cannot give one for a document with lone surrogates."""
    try:
        return node.hash
    except UnicodeEncodeError:
        content = node.get_content(metadata_mode=MetadataMode.ALL)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


class _IdMaker:
    """Deterministic ids, unique within a call: UUID version 5 (RFC 9562) of where a chunk stands and what it says."""

    def __init__(self, parser: str) -> None:
        self._parser = parser
        self._issued: Counter[str] = Counter()

    def make(self, document_id: str, start: int | None, end: int | None, draft: Draft) -> str:
        name = "\0".join((document_id, self._parser, f"{start}:{end}", draft.text))
        self._issued[name] += 1
        if self._issued[name] > 1:  # the same document twice, or overlapping inputs of a chained parser
            name = f"{name}\0{self._issued[name]}"
        digest = hashlib.sha1(_ID_NAMESPACE + name.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
        return _uuid5(digest)


def _uuid5(digest: bytes) -> str:
    """The text of a UUID of version 5 and the RFC's variant."""
    digits = digest[:16].hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


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
