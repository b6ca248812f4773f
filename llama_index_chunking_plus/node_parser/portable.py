"""Copies that can be pickled, so that a worker process gets the same parser and the live one stays whole.

LlamaIndex's components, when pickled, delete from the live object whatever refuses, and come back with defaults in its
place. Here a component is copied first, a foreign parser is rebuilt from the arguments of its constructor, and what
cannot be pickled is an error.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser

from llama_index_chunking_plus.node_parser.fingerprints import fingerprint
from llama_index_chunking_plus.node_parser.tokenizers import encoding_of, load_tokenizer


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
    """Its fields, and what its constructor takes besides them and keeps as a private attribute of the same name.

    Raises:
        PicklingError: an argument cannot be pickled; names parser, argument and remedy.
    """
    arguments = {name: value for name, value in vars(parser).items() if name != "callback_manager"}
    private = parser.__pydantic_private__ or {}
    defaults = type(parser)(**arguments).__pydantic_private__ or {}
    for name in inspect.signature(type(parser)).parameters:
        value = private.get(f"_{name}")
        if name not in arguments and value is not None and fingerprint(value) != fingerprint(defaults.get(f"_{name}")):
            arguments[name] = value
    return {name: _portable_argument(parser, name, value) for name, value in arguments.items()}


def _portable_argument(parser: NodeParser, name: str, value: Any) -> Any:
    """The argument, if it pickles; tokenizers of tiktoken by name, as they pickle themselves as a download."""
    encoding = encoding_of(value) if callable(value) else None
    stand_in = portable(value) if encoding is None else _NamedTokenizer(encoding)
    try:
        pickle.dumps(stand_in)
    except Exception as error:
        raise pickle.PicklingError(
            f"{type(parser).__name__}({name}={value!r}) cannot be pickled ({error}); use a function of a module"
        ) from error
    return stand_in


class _NamedTokenizer:
    """Pickles as the tokenizer of that name."""

    def __init__(self, specification: str) -> None:
        self._specification = specification

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return load_tokenizer, (self._specification,)
