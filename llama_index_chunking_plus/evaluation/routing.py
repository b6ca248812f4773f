"""Each kind of document, or of section, to the parser that won on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode
from typing_extensions import Self

from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.node_parser import HybridNodeParser, SlidingWindowNodeParser, SpanNodeParser
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nested import NestedParser, _revive

_WITHOUT_LIMIT = 1_000_000_000


class RoutingNodeParser(SpanNodeParser):
    """Cuts each input with the parser of its kind, which its metadata names.

    Inputs are documents, or pieces of them such as the sections that another parser made: what is cut keeps its exact
    range in the document. Nodes of foreign parsers are found again in the text, as `HybridNodeParser` does it.

    Args:
        routes: by kind the parser.
        default: cuts inputs of no kind, or of one without a route.
        key: the metadata that names the kind: a string, or a list of which the first with a route counts.

    Raises:
        ValueError: ``key`` is empty, or a parser was dumped as data and not passed again.

    Example:
        >>> from llama_index.core import Document
        >>> parser = RoutingNodeParser(
        ...     routes={"faq": SlidingWindowNodeParser(chunk_size=80, chunk_overlap=0, unit="chars")},
        ...     default=SlidingWindowNodeParser(),
        ... )
        >>> text = "一楼是大厅。二楼是展厅。" * 10
        >>> documents = [Document(id_="a", text=text, metadata={"section": "faq"}), Document(id_="b", text=text)]
        >>> [node.ref_doc_id for node in parser.get_nodes_from_documents(documents)]
        ['a', 'a', 'b']
    """

    routes: dict[str, NestedParser] = Field(default_factory=dict, frozen=True, description="By kind the parser.")
    default: NestedParser = Field(frozen=True, description="Cuts inputs without a route.")
    key: str = Field(default="section", frozen=True, description="The metadata that names the kind.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusRoutingNodeParser"

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: str) -> str:
        if not key.strip():
            raise ValueError(f"key={key!r} is empty; name the metadata that says of what kind an input is")
        return key

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The parser that `to_dict` dumped.

        Args:
            data: what was dumped.
            kwargs: ``embed_model`` for parsers that need one; ``routes`` or ``default``, where one is a foreign parser.
        """
        embed_model = {"embed_model": kwargs.pop("embed_model")} if "embed_model" in kwargs else {}
        routes = {kind: _revive(parser, embed_model) for kind, parser in data.get("routes", {}).items()}
        revived = {**data, "routes": routes, "default": _revive(data.get("default"), embed_model)}
        return super().from_dict(revived, **kwargs)

    def parser_for(self, node: BaseNode) -> NodeParser:
        """The parser that cuts this input."""
        named = node.metadata.get(self.key)
        kinds = named if isinstance(named, (list, tuple)) else [named]
        return next(
            (self.routes[kind] for kind in kinds if isinstance(kind, str) and kind in self.routes), self.default
        )

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        parsers = [self.parser_for(source.node) for source in sources]
        drafts: list[list[Draft]] = [[] for _ in sources]
        for parser in {id(parser): parser for parser in parsers}.values():
            own = [i for i, each in enumerate(parsers) if each is parser]
            made = yield from _as_ours(parser)._plan([sources[i] for i in own], show_progress)  # noqa: SLF001
            for i, chunks in zip(own, made, strict=True):
                drafts[i] = chunks
        return drafts


def _as_ours(parser: NodeParser) -> SpanNodeParser:
    """The parser as one that knows where its chunks stand."""
    if isinstance(parser, SpanNodeParser):
        return parser
    rest = SlidingWindowNodeParser(chunk_size=_WITHOUT_LIMIT, chunk_overlap=0)
    return HybridNodeParser(primary_parser=parser, secondary_parser=rest, max_chunk_size=_WITHOUT_LIMIT)
