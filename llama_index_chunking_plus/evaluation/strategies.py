"""What is compared: parsers, with or without what expands their hits, or whole retrievers, each by a name.

Strategy        one of them
as_strategies   whatever a user gives -> strategies
grid            a parser at several sizes and overlaps
five_ways       the five strategies of the literature
own_ways        those of this package
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

from llama_index.core import Document
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import (
    NodeParser,
    SemanticSplitterNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    TokenTextSplitter,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.storage.docstore.types import BaseDocumentStore

from llama_index_chunking_plus.core.options import is_filled_text, is_whole
from llama_index_chunking_plus.core.sentences import chinese_sentence_tokenizer
from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser import (
    ChineseSentenceWindowNodeParser,
    HybridNodeParser,
    MultiGranularityNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    SpanNodeParser,
    StructuredMarkdownNodeParser,
)
from llama_index_chunking_plus.postprocessor import ParentExpansionPostprocessor, SentenceWindowPostprocessor
from llama_index_chunking_plus.postprocessor.granularity_fusion import GranularityFusionPostprocessor
from llama_index_chunking_plus.storage import SourceSliceLookup

ParserFactory: TypeAlias = Callable[[BaseEmbedding], NodeParser]
RetrieverFactory: TypeAlias = Callable[[Sequence[Document], BaseEmbedding], BaseRetriever]
Expansion = Literal["none", "parents", "windows", "window_metadata", "levels"]

_CHILDREN_PER_PARENT = 6  # as the parser's own defaults have it
_LEVELS = 3
_SIZES = (256, 384, 512)
_OVERLAPS = (0.1, 0.2)  # shares of the size
_MOST = 1_000  # strategies of one grid
_ALL_PARENTS = 1_000  # of one question; how many are shown is the evaluator's matter


@dataclass(frozen=True)
class Strategy:
    """One way to cut documents and to find answers in them.

    Args:
        name: what reports call it.
        parser: a node parser; or a function from an embedding model to one, for parsers that ask for vectors: these
            then come from the cache.
        retriever: instead of a parser, a whole retriever: a ready one, or a function from documents and an embedding
            model to one.
        expansion: what a hit of the parser's nodes is returned as. "none", itself; "parents", what it is a part of;
            "windows", the sentences around it; "window_metadata", the same as LlamaIndex's own
            ``MetadataReplacementPostProcessor`` does it; "levels", hits of several granularities, each place once.
        hits_per_result: how many nodes are found for each result that is wanted, from 1: several children become one
            parent.

    Raises:
        OptionError: there is no name, not exactly one of parser and retriever, or an option does not fit.

    Example:
        >>> Strategy("windows", parser=SlidingWindowNodeParser(chunk_size=256)).kind
        'parser'
    """

    name: str
    parser: NodeParser | ParserFactory | None = None
    retriever: BaseRetriever | RetrieverFactory | None = None
    expansion: Expansion = "none"
    hits_per_result: int = 1

    def __post_init__(self) -> None:
        if not is_filled_text(self.name):
            raise OptionError(f"name={self.name!r} of a strategy must be a text that is not empty")
        if replace_surrogates(self.name) != self.name:
            raise OptionError(
                f"name={self.name!r} of a strategy holds half of a character; write it whole, or leave it out"
            )
        for option, value, kind in (("parser", self.parser, NodeParser), ("retriever", self.retriever, BaseRetriever)):
            if value is not None and not isinstance(value, kind) and not callable(value):
                raise OptionError(
                    f"{option}={value!r} of strategy {self.name!r} is neither a {kind.__name__} nor a function to one"
                )
        if (self.parser is None) == (self.retriever is None):
            raise OptionError(f"strategy {self.name!r} needs a parser or a retriever, and not both")
        if self.expansion not in tuple(_EXPANSIONS):
            raise OptionError(f"expansion={self.expansion!r} is none of {', '.join(_EXPANSIONS)}")
        if self.retriever is not None and self.expansion != "none":
            raise OptionError(f"strategy {self.name!r} is a retriever; it expands its hits itself, leave expansion out")
        if not is_whole(self.hits_per_result, least=1):
            raise OptionError(f"hits_per_result={self.hits_per_result!r}; it must be a whole number from 1")

    @property
    def kind(self) -> Literal["parser", "retriever"]:
        """Whether the chunks are known, or only what is retrieved."""
        return "parser" if self.retriever is None else "retriever"

    def make_parser(self, embed_model: BaseEmbedding) -> NodeParser:
        """The parser, made with this model if it needs one.

        Raises:
            OptionError: the strategy is a retriever, or its function gave no parser.
        """
        if self.parser is None:
            raise OptionError(f"strategy {self.name!r} is a retriever and has no parser")
        parser = self.parser if isinstance(self.parser, NodeParser) else self.parser(embed_model)
        if not isinstance(parser, NodeParser):
            raise OptionError(f"strategy {self.name!r} gave {parser!r}, which is no node parser; return one")
        return parser

    def make_retriever(self, documents: Sequence[Document], embed_model: BaseEmbedding) -> BaseRetriever:
        """The retriever over these documents.

        Raises:
            OptionError: the strategy is a parser, or its function gave no retriever.
        """
        made = self.retriever
        if not isinstance(made, BaseRetriever) and made is not None:
            made = made(documents, embed_model)
        if not isinstance(made, BaseRetriever):
            raise OptionError(f"strategy {self.name!r} gave {made!r}, which is no retriever; return one")
        return made

    def make_postprocessors(self, docstore: BaseDocumentStore) -> list[BaseNodePostprocessor]:
        """What expands the hits, over a docstore that holds the documents."""
        return expansion_postprocessors(self.expansion, docstore)


def expansion_postprocessors(expansion: Expansion, docstore: BaseDocumentStore) -> list[BaseNodePostprocessor]:
    """What an expansion puts behind a retriever.

    Args:
        expansion: see `Strategy`.
        docstore: holds the documents.
    """
    make = _EXPANSIONS[expansion]
    return [] if make is None else [make(docstore)]


def _parents(docstore: BaseDocumentStore) -> BaseNodePostprocessor:
    lookup = SourceSliceLookup(docstore)
    return ParentExpansionPostprocessor(lookup=lookup, max_parents=_ALL_PARENTS, merge_adjacent=False)


_EXPANSIONS: dict[str, Callable[[BaseDocumentStore], BaseNodePostprocessor] | None] = {
    "none": None,
    "parents": _parents,
    "windows": lambda docstore: SentenceWindowPostprocessor(docstore=docstore),
    "window_metadata": lambda _: MetadataReplacementPostProcessor(target_metadata_key="window"),
    "levels": lambda _: GranularityFusionPostprocessor(),
}

StrategyLike: TypeAlias = Strategy | NodeParser | BaseRetriever | ParserFactory | RetrieverFactory


def as_strategies(given: Mapping[str, StrategyLike] | Iterable[Strategy]) -> tuple[Strategy, ...]:
    """Strategies from parsers, retrievers and functions by name, or from strategies.

    A function of one argument makes a parser of an embedding model; one of two makes a retriever of documents and an
    embedding model.

    Raises:
        OptionError: something is none of these.

    Example:
        >>> [each.name for each in as_strategies({"sentences": SentenceSplitter(), "mine": lambda model: ...})]
        ['sentences', 'mine']
    """
    if isinstance(given, Mapping):
        return tuple(_as_strategy(name, value) for name, value in given.items())
    if isinstance(given, (str, NodeParser, BaseRetriever)) or not isinstance(given, Iterable):
        raise OptionError(
            f"strategies={given!r}; give a mapping from names to parsers or retrievers, or Strategy(...)s"
        )
    strategies = tuple(given)
    for each in strategies:
        if not isinstance(each, Strategy):
            raise OptionError(f"{each!r} has no name; give Strategy(name, parser=...), or a mapping from names")
    return strategies


def _as_strategy(name: str, value: StrategyLike) -> Strategy:
    if isinstance(value, Strategy):
        return Strategy(name, value.parser, value.retriever, value.expansion, value.hits_per_result)
    if isinstance(value, NodeParser):
        return Strategy(name, parser=value)
    if isinstance(value, BaseRetriever):
        return Strategy(name, retriever=value)
    n_arguments = _n_arguments(value) if callable(value) else 0
    if n_arguments == 1:
        return Strategy(name, parser=value)  # type: ignore[arg-type]
    if n_arguments == 2:  # noqa: PLR2004  documents and model
        return Strategy(name, retriever=value)  # type: ignore[arg-type]
    raise OptionError(
        f"strategy {name!r} is {value!r}; give a node parser, a retriever, a function of an embedding model that makes "
        "a parser, or a function of documents and an embedding model that makes a retriever"
    )


def _n_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a function must be given by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return sum(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)


# ------------------------------------------------------------------------------------------------ a grid


def grid(parser: NodeParser | Callable[..., NodeParser], name: str | None = None, **options: Any) -> list[Strategy]:
    """A parser with every combination of these options, named by them.

    Without any option: 256, 384 and 512 tokens, with 10 and 20 % of them as overlap.

    Args:
        parser: a class, or any function that takes the options; or a parser, of which copies with the options are made.
        name: what the names begin with; None: the name of the class.
        options: for each option a list of values, or one value. ``chunk_overlap`` below 1 is a share of
            ``chunk_size``.

    Raises:
        OptionError: ``parser`` is none and makes none, a combination makes no parser, an option has no value, or there
            are more than 1,000.

    Example:
        >>> [each.name for each in grid(SlidingWindowNodeParser, chunk_size=[128, 256], chunk_overlap=[0, 0.125])]
        ['SlidingWindow 128/0', 'SlidingWindow 128/16', 'SlidingWindow 256/0', 'SlidingWindow 256/32']
    """
    if not callable(parser) and not isinstance(parser, NodeParser):
        raise OptionError(
            f"parser={parser!r} of the grid is neither a node parser nor a class or function that makes one"
        )
    if name is not None and not is_filled_text(name):
        raise OptionError(f"name={name!r} of the grid must be a text that is not empty, or None for that of the class")
    given = options or {"chunk_size": _SIZES, "chunk_overlap": _OVERLAPS}
    axes = {option: list(_values(option, value)) for option, value in given.items()}
    combinations = [_resolved(dict(zip(axes, values, strict=True))) for values in product(*axes.values())]
    if len(combinations) > _MOST:
        raise OptionError(f"the grid has {len(combinations)} strategies, above {_MOST}; give fewer values")
    start = name or _short_name(parser)
    made = {f"{start} {_label(each)}".strip(): each for each in combinations}
    return [Strategy(label, parser=_made(parser, each)) for label, each in made.items()]


def _values(option: str, value: Any) -> Iterable[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return [value]
    values = list(value)
    if not values:
        raise OptionError(f"{option}=[] of the grid has no value; give at least one")
    return values


def _resolved(options: dict[str, Any]) -> dict[str, Any]:
    """The options with an overlap that is a share as a size."""
    size, overlap = options.get("chunk_size"), options.get("chunk_overlap")
    if isinstance(size, int) and isinstance(overlap, float) and 0 <= overlap < 1:
        return {**options, "chunk_overlap": round(size * overlap)}
    return options


def _short_name(parser: NodeParser | Callable[..., NodeParser]) -> str:
    function = parser.func if isinstance(parser, partial) else parser
    name = type(function).__name__ if isinstance(function, NodeParser) else getattr(function, "__name__", "parser")
    return str(name).removesuffix("NodeParser")


def _label(options: Mapping[str, Any]) -> str:
    sizes = [str(options[name]) for name in ("chunk_size", "chunk_overlap") if name in options]
    others = [f"{key}={value}" for key, value in options.items() if key not in {"chunk_size", "chunk_overlap"}]
    return " ".join(["/".join(sizes), *others]).strip()


def _made(parser: NodeParser | Callable[..., NodeParser], options: Mapping[str, Any]) -> NodeParser:
    shown = ", ".join(f"{key}={value!r}" for key, value in options.items())
    try:
        made = _copied(parser, options) if isinstance(parser, NodeParser) else parser(**options)
    except (TypeError, ValueError) as error:
        reason = "; ".join(each["msg"] for each in error.errors()) if isinstance(error, ValidationError) else str(error)
        raise OptionError(f"the grid has no parser with {shown}: {reason}") from error
    if not isinstance(made, NodeParser):
        raise OptionError(f"the grid's {parser!r} gave {made!r} for {shown}, which is no node parser")
    return made


def _copied(parser: NodeParser, options: Mapping[str, Any]) -> NodeParser:
    """The parser with other options, checked; core's own parsers keep functions out of their fields."""
    unknown = sorted(options.keys() - type(parser).model_fields.keys())
    if unknown:
        raise ValueError(f"{type(parser).__name__} has no option {', '.join(unknown)}")
    values = {name: getattr(parser, name) for name in type(parser).model_fields}
    checked = type(parser)(**{**values, **options})
    return checked if isinstance(parser, SpanNodeParser) else parser.model_copy(update=dict(options))


# ------------------------------------------------------------------------------------------------ presets


def five_ways(embed_model: BaseEmbedding | None = None, chunk_size: int = 256) -> list[Strategy]:
    """The five strategies that the literature compares, about equal in size: LlamaIndex's parsers, and one of ours.

    "token", "sentence", "sentence window", "semantic" are LlamaIndex's, with Chinese sentences where they take a
    function for them; it has no "hybrid" parser, so that is `HybridNodeParser`.

    Args:
        embed_model: gives sentence vectors; None: the evaluator's, whose vectors are cached.
        chunk_size: tokens, from 64; an eighth of it overlaps.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 64:  # noqa: PLR2004
        raise OptionError(f"chunk_size={chunk_size!r} of the five ways must be a whole number from 64; 256 is usual")
    sizes: dict[str, Any] = {"chunk_size": chunk_size, "chunk_overlap": chunk_size // 8}
    sentences: dict[str, Any] = {"sentence_splitter": chinese_sentence_tokenizer}

    def semantic(model: BaseEmbedding) -> NodeParser:
        return SemanticSplitterNodeParser.from_defaults(embed_model=embed_model or model, **sentences)

    def hybrid(model: BaseEmbedding) -> NodeParser:
        return HybridNodeParser.from_defaults(embed_model or model, max_chunk_size=round(chunk_size * 1.6))

    window = SentenceWindowNodeParser.from_defaults(window_size=3, **sentences)
    return [
        Strategy("token", TokenTextSplitter(**sizes)),
        Strategy("sentence", SentenceSplitter(**sizes, chunking_tokenizer_fn=chinese_sentence_tokenizer)),
        Strategy("sentence window", window, expansion="window_metadata"),
        Strategy("semantic", semantic),
        Strategy("hybrid", hybrid),
    ]


def own_ways(embed_model: BaseEmbedding | None = None) -> list[Strategy]:
    """The parsers of this package at their defaults, with what belongs behind them.

    Args:
        embed_model: gives sentence vectors; None: the evaluator's, whose vectors are cached.
    """

    def meaning(model: BaseEmbedding) -> NodeParser:
        return SemanticNodeParser(embed_model=embed_model or model)

    windows = ChineseSentenceWindowNodeParser(store="span")
    return [
        Strategy("sliding window", SlidingWindowNodeParser()),
        Strategy("by meaning", meaning),
        Strategy("structured", StructuredMarkdownNodeParser()),
        Strategy("small to big", SmallToBigNodeParser(), None, "parents", _CHILDREN_PER_PARENT),
        Strategy("sentence window, expanded", windows, expansion="windows"),
        Strategy("multi-granularity", MultiGranularityNodeParser(), None, "levels", _LEVELS),
    ]
