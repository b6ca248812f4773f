"""Parsers and embedding models by the names and sizes that the command line takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import TransformComponent

from llama_index_chunking_plus.core.hierarchy import PRESETS
from llama_index_chunking_plus.embeddings import OfflineEmbedding
from llama_index_chunking_plus.errors import MissingExtraError, OptionError
from llama_index_chunking_plus.ingestion import ContextHeaderTransform, DocumentMetadataTransform, ParentVectorFusion
from llama_index_chunking_plus.node_parser import (
    ChineseSentenceWindowNodeParser,
    HybridNodeParser,
    MultiGranularityNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    StructuredMarkdownNodeParser,
)

OFFLINE = "offline"
LEVELLED = "multi-granularity"
EXPANSIONS = {"parent": "small-to-big", "window": "window", "none": None}  # what chunks are read in, and who makes it
_FLAGS = {
    "(?:max_chunk_size|max_sentence_size|max_size|chunk_size|child_size)": "--chunk-size",
    "(?:chunk_overlap|child_overlap)": "--chunk-overlap",
    "target_size": "--target-size",
    "parent_size": "--parent-size",
    "window_sentences": "--window-sentences",
    "reserve_header": "--header",
}
_STRUCTURES = ("auto", "markdown", "numbered", "none")
_REMEDY = re.compile(r"(?:(?<=\. )|^)(?:(?!\. ).)*\bsync_documents\b.*")  # the last sentence of a library warning
_KEYS = re.compile(r", or name other metadata: version_key=, date_key=")  # what the command line cannot do
_CHILDREN_PER_PARENT = 6  # as the parser's own defaults have it
_LARGEST_HEADER = 80
_PRESET = "balanced"


@dataclass(frozen=True)
class ParserChoice:
    """What a store remembers of its parser; None: the parser's own default."""

    parser: str = "hybrid"
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    target_size: int | None = None
    unit: str = "tokens"
    parent_size: int | None = None
    window_sentences: int | None = None
    structure: str | None = None
    header: bool | None = None
    preset: str | None = None
    sentences: bool | None = None
    by_meaning: bool | None = None
    fuse_parents: bool | None = None

    @property
    def header_size(self) -> int:
        """What a header may take of each chunk, in ``unit``: up to 80, and of a small chunk up to half."""
        if not self.header:
            return 0
        size = self.chunk_size
        if size is None and self.parent_size is not None:
            size = math.ceil(self.parent_size / _CHILDREN_PER_PARENT)
        if self.has_levels:
            size = PRESETS[self.preset or _PRESET][self.unit][-1].max_size
        return _LARGEST_HEADER if size is None else min(_LARGEST_HEADER, size // 2)

    @property
    def expansion(self) -> str:
        """What a chunk of this parser is there to be read in: its parent, its window, or nothing but itself."""
        return next((name for name, parser in EXPANSIONS.items() if parser == self.parser), "none")

    @property
    def expansions(self) -> set[str]:
        """All that it can be read in."""
        return {"none", self.expansion, *(["parent"] if self.has_levels else [])}

    @property
    def has_levels(self) -> bool:
        """Whether its chunks are of several levels."""
        return self.parser == LEVELLED

    def changed_by(self, **given: Any) -> ParserChoice:
        """The choice with every option that was given on the command line."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def describe(self) -> str:
        """One line for people."""
        return ", ".join(f"{name}={value}" for name, value in asdict(self).items() if value is not None)


def _shared(choice: ParserChoice) -> dict[str, Any]:
    return {"unit": choice.unit, "reserve_header": choice.header_size}


def _sliding(choice: ParserChoice, _: Callable[[], BaseEmbedding]) -> NodeParser:
    sizes = _given(chunk_size=choice.chunk_size, chunk_overlap=choice.chunk_overlap)
    return SlidingWindowNodeParser(**_shared(choice), **sizes)


def _semantic(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    sizes = _given(max_size=choice.chunk_size, target_size=choice.target_size)
    return SemanticNodeParser(embed_model=model(), **_shared(choice), **sizes)


def _hybrid(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    size = {"max_chunk_size": 410 if choice.chunk_size is None else choice.chunk_size}
    return HybridNodeParser.from_defaults(model(), **_shared(choice), **size)


def _small_to_big(choice: ParserChoice, _: Callable[[], BaseEmbedding]) -> NodeParser:
    child, parent = choice.chunk_size, choice.parent_size
    if parent is None and child is not None:
        parent = child * _CHILDREN_PER_PARENT
    elif child is None and parent is not None:
        child = math.ceil(parent / _CHILDREN_PER_PARENT)
    sizes = _given(parent_size=parent, child_size=child, child_overlap=choice.chunk_overlap)
    return SmallToBigNodeParser(**_shared(choice), **sizes)


def _structured(choice: ParserChoice, _: Callable[[], BaseEmbedding]) -> NodeParser:
    given = _given(chunk_size=choice.chunk_size, chunk_overlap=choice.chunk_overlap, structure=choice.structure)
    return StructuredMarkdownNodeParser(**_shared(choice), **given)


def _window(choice: ParserChoice, _: Callable[[], BaseEmbedding]) -> NodeParser:
    sizes = _given(max_sentence_size=choice.chunk_size, window_sentences=choice.window_sentences)
    return ChineseSentenceWindowNodeParser(**_shared(choice), store="span", **sizes)


def _multi_granularity(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    given = _given(structure=choice.structure, embed_model=model() if choice.by_meaning else None)
    sentences = choice.sentences is not False
    preset: Any = choice.preset or _PRESET
    return MultiGranularityNodeParser.from_preset(preset, sentences=sentences, **_shared(choice), **given)


_PARSERS: dict[str, tuple[Callable[[ParserChoice, Callable[[], BaseEmbedding]], NodeParser], set[str]]] = {
    "hybrid": (_hybrid, {"chunk_size"}),
    "semantic": (_semantic, {"chunk_size", "target_size"}),
    "sliding": (_sliding, {"chunk_size", "chunk_overlap"}),
    "small-to-big": (_small_to_big, {"chunk_size", "chunk_overlap", "parent_size"}),
    "window": (_window, {"chunk_size", "window_sentences"}),
    "structured": (_structured, {"chunk_size", "chunk_overlap", "structure"}),
    LEVELLED: (_multi_granularity, {"preset", "sentences", "by_meaning", "fuse_parents", "structure"}),
}  # how it is made, and the options that not every parser has
_OWN_OPTIONS = sorted({name for _, names in _PARSERS.values() for name in names})


def make_parser(choice: ParserChoice, model: Callable[[], BaseEmbedding]) -> NodeParser:
    """The parser of a choice; ``model`` is called where it needs an embedding model.

    Raises:
        OptionError: there is no parser of that name, or an option does not suit it or is out of range.
    """
    if choice.parser not in _PARSERS:
        raise OptionError(f"--parser {choice.parser!r} is not one of {', '.join(_PARSERS)}")
    if choice.unit not in {"tokens", "chars"}:
        raise OptionError(f"--unit {choice.unit!r} is neither tokens nor chars")
    if choice.structure not in {None, *_STRUCTURES}:
        raise OptionError(f"--structure {choice.structure!r} is not one of {', '.join(_STRUCTURES)}")
    if choice.preset not in {None, *PRESETS}:
        raise OptionError(f"--preset {choice.preset!r} is not one of {', '.join(PRESETS)}")
    make, own_options = _PARSERS[choice.parser]
    for name in _OWN_OPTIONS:
        if name not in own_options and getattr(choice, name) is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} has no meaning for --parser {choice.parser}; leave it out"
                f"{', a --preset decides the sizes' if choice.has_levels else ''}"
            )
    try:
        return make(choice, model)
    except ValidationError as error:
        raise OptionError(as_flags("; ".join(each["msg"] for each in error.errors()))) from error
    except ValueError as error:
        raise OptionError(as_flags(str(error))) from error


def make_steps(choice: ParserChoice, model: BaseEmbedding) -> list[TransformComponent]:
    """What a pipeline does with documents: parser and model, and what belongs to headers and fused vectors if wanted.

    Raises:
        OptionError: see `make_parser`.
    """
    parser = make_parser(choice, lambda: model)
    fusion = [ParentVectorFusion()] if choice.fuse_parents else []
    if not choice.header:
        return [parser, model, *fusion]
    header = ContextHeaderTransform(max_size=choice.header_size, unit=choice.unit)
    return [DocumentMetadataTransform(), parser, header, model, *fusion]


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


def as_flags(message: str) -> str:
    """The message of the library in the words of the command line."""
    message = _KEYS.sub("", _REMEDY.sub("Ingest the files again.", message))
    for option, flag in _FLAGS.items():
        message = re.sub(rf"\b{option}=", f"{flag} ", message)
    return message.replace("Value error, ", "")


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; a parser has its own default for the others."""
    return {name: value for name, value in options.items() if value is not None}
