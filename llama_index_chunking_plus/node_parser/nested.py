"""Parsers as options of other parsers: what is dumped of them, and how a dump becomes a parser again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from llama_index.core.bridge.pydantic import BeforeValidator, PlainSerializer, ValidationInfo
from llama_index.core.node_parser import NodeParser
from typing_extensions import Self

from llama_index_chunking_plus.node_parser.base import SpanNodeParser
from llama_index_chunking_plus.node_parser.fingerprints import fingerprint
from llama_index_chunking_plus.node_parser.sized import SizedNodeParser


def _demand_parser(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, dict):
        raise ValueError(  # noqa: TRY004  pydantic reports ValueErrors
            f"{value.get('class_name')} was dumped by its fingerprint; pass the parser again: "
            f"from_dict(data, {info.field_name}=...)"
        )
    return value


def _dump_parser(parser: NodeParser) -> dict[str, Any]:
    if isinstance(parser, SpanNodeParser):
        return parser.to_dict()
    return {"class_name": parser.class_name(), "fingerprint": fingerprint(parser)}


NestedParser = Annotated[NodeParser, BeforeValidator(_demand_parser), PlainSerializer(_dump_parser)]
NestedSpanParser = Annotated[SpanNodeParser, BeforeValidator(_demand_parser), PlainSerializer(_dump_parser)]


class NestingNodeParser(SizedNodeParser):
    """Base of the parsers that hold other parsers as options, of the types `NestedParser` and `NestedSpanParser`."""

    def _reserving(self, parser: SpanNodeParser) -> SpanNodeParser:
        """The nested parser; if it counts as this one does, it leaves as much free for a header at least."""
        if not isinstance(parser, SizedNodeParser) or parser.reserve_header >= self.reserve_header:
            return parser
        if parser.unit != self.unit or (self.unit == "tokens" and parser.tokenizer != self.tokenizer):
            return parser
        return parser.model_copy(update={"reserve_header": self.reserve_header})

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The parser that `to_dict` dumped.

        Args:
            data: what was dumped.
            kwargs: ``embed_model`` for a nested parser that needs one; a nested parser itself, by the name of its
                option, where it is a foreign one.
        """
        embed_model = {"embed_model": kwargs.pop("embed_model")} if "embed_model" in kwargs else {}
        return super().from_dict({name: _revive(value, embed_model) for name, value in data.items()}, **kwargs)


def _revive(data: Any, embed_model: dict[str, Any]) -> Any:
    """One of our own parsers from its dump; anything else as it is."""
    family: type[Any] = SpanNodeParser
    for parser in _subclasses(family):
        if isinstance(data, dict) and data.get("class_name") == parser.class_name():
            takes_model = "embed_model" in parser.model_fields or issubclass(parser, NestingNodeParser)
            return parser.from_dict(data, **(embed_model if takes_model else {}))
    return data


def _subclasses(parser: type[Any]) -> Iterator[type[Any]]:
    for child in parser.__subclasses__():
        yield child
        yield from _subclasses(child)
