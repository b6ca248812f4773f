"""Copies that can be pickled, so that a worker process gets the same parser and the live one stays whole.

LlamaIndex's components, when pickled, delete from the live object whatever refuses, and come back with defaults in its
place. Here a component is copied first, a foreign parser is rebuilt from the arguments of its constructor, and what
cannot be pickled is an error.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser

from llama_index_chunking_plus.node_parser.tokenizers import check_tokenizer, load_tokenizer


def portable(value: Any) -> Any:
    """A stand-in for a field's value that pickles without touching the original."""
    if isinstance(value, NodeParser):
        return value if hasattr(value, "_plan") else _ForeignParser(value)
    if isinstance(value, BaseEmbedding):
        return copy.copy(value)
    return value


class _ForeignParser:
    """Pickles as the parser that its constructor makes again."""

    def __init__(self, parser: NodeParser) -> None:
        self._parser = parser

    def __reduce__(self) -> tuple[Callable[..., NodeParser], tuple[Any, ...]]:
        return _construct, (type(self._parser), _constructor_arguments(self._parser))


def _construct(parser_class: type[NodeParser], arguments: dict[str, Any]) -> NodeParser:
    return parser_class(**arguments)


def _constructor_arguments(parser: NodeParser) -> dict[str, Any]:
    """Its fields, and what its constructor takes besides them and keeps as a private attribute of the same name."""
    arguments = {name: value for name, value in vars(parser).items() if name != "callback_manager"}
    private = parser.__pydantic_private__ or {}
    for name in inspect.signature(type(parser)).parameters:
        if name not in arguments and f"_{name}" in private:
            arguments[name] = private[f"_{name}"]
    return {name: _portable_argument(value) for name, value in arguments.items()}


def _portable_argument(value: Any) -> Any:
    """Tokenizers of tiktoken by name: they pickle themselves as a download."""
    encoding = check_tokenizer(value) if callable(value) else None
    return _NamedTokenizer(encoding) if isinstance(encoding, str) else portable(value)


class _NamedTokenizer:
    """Pickles as the tokenizer of that name."""

    def __init__(self, specification: str) -> None:
        self._specification = specification

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return load_tokenizer, (self._specification,)
