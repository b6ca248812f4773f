"""Parsers and embedding models by the names and sizes that the command line takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser

from llama_index_chunking_plus.embeddings import OfflineEmbedding
from llama_index_chunking_plus.errors import MissingExtraError, OptionError
from llama_index_chunking_plus.node_parser import HybridNodeParser, SemanticNodeParser, SlidingWindowNodeParser

OFFLINE = "offline"
_FLAGS = {
    "(?:max_chunk_size|max_size|chunk_size)": "--chunk-size",
    "chunk_overlap": "--chunk-overlap",
    "target_size": "--target-size",
}


@dataclass(frozen=True)
class ParserChoice:
    """What a store remembers of its parser; None: the parser's own default."""

    parser: str = "hybrid"
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    target_size: int | None = None
    unit: str = "tokens"

    def changed_by(self, **given: Any) -> ParserChoice:
        """The choice with every option that was given on the command line."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def describe(self) -> str:
        """One line for people."""
        return ", ".join(f"{name}={value}" for name, value in asdict(self).items() if value is not None)


def _sliding(choice: ParserChoice, _: Callable[[], BaseEmbedding]) -> NodeParser:
    _refuse(choice, "target_size")
    given = {"chunk_size": choice.chunk_size, "chunk_overlap": choice.chunk_overlap}
    sizes: dict[str, Any] = {name: size for name, size in given.items() if size is not None}
    return SlidingWindowNodeParser(unit=choice.unit, **sizes)


def _semantic(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    _refuse(choice, "chunk_overlap")
    size = {} if choice.chunk_size is None else {"max_size": choice.chunk_size}
    return SemanticNodeParser(
        embed_model=model(),
        unit=choice.unit,
        target_size=choice.target_size,
        **size,
    )


def _hybrid(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    _refuse(choice, "chunk_overlap", "target_size")
    size = {"max_chunk_size": 410 if choice.chunk_size is None else choice.chunk_size}
    return HybridNodeParser.from_defaults(model(), unit=choice.unit, **size)


_PARSERS: dict[str, Callable[[ParserChoice, Callable[[], BaseEmbedding]], NodeParser]] = {
    "hybrid": _hybrid,
    "semantic": _semantic,
    "sliding": _sliding,
}


def make_parser(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    """The parser of a choice; ``model`` is called where it needs an embedding model.

    Raises:
        OptionError: there is no parser of that name, or an option does not suit it or is out of range.
    """
    if choice.parser not in _PARSERS:
        raise OptionError(f"--parser {choice.parser!r} is not one of {', '.join(_PARSERS)}")
    if choice.unit not in {"tokens", "chars"}:
        raise OptionError(f"--unit {choice.unit!r} is neither tokens nor chars")
    try:
        return _PARSERS[choice.parser](choice, model)
    except ValidationError as error:
        raise OptionError(_as_flags("; ".join(each["msg"] for each in error.errors()))) from error
    except ValueError as error:
        raise OptionError(_as_flags(str(error))) from error


def make_model(name: str) -> BaseEmbedding:
    """The embedding model of a name: "offline", or the id or folder of a HuggingFace model.

    Raises:
        MissingExtraError: the HuggingFace integration is not installed.
        OptionError: the model cannot be loaded.
    """
    if name == OFFLINE:
        return OfflineEmbedding()
    try:
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError("llama-index-embeddings-huggingface", "huggingface") from error
    try:
        return HuggingFaceEmbedding(model_name=name)  # type: ignore[no-any-return]
    except Exception as error:
        raise OptionError(
            f"--embed-model {name!r} cannot be loaded ({error}); give 'offline', or the id or folder of a model"
        ) from error


def _as_flags(message: str) -> str:
    """The message of a parser in the words of the command line."""
    for option, flag in _FLAGS.items():
        message = re.sub(rf"\b{option}=", f"{flag} ", message)
    return message.replace("Value error, ", "")


def _refuse(choice: ParserChoice, *names: str) -> None:
    for name in names:
        if getattr(choice, name) is not None:
            raise OptionError(f"--{name.replace('_', '-')} has no meaning for --parser {choice.parser}; leave it out")
