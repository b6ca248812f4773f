"""The one list of parsers: a parser that stands here is held to every contract of ours.

A new parser is one `Case`. What a case may be excused from is written in it, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from embedders import LetterEmbedding
from llama_index.core.node_parser import NodeParser, SemanticSplitterNodeParser, SentenceSplitter

from llama_index_chunking_plus import (
    ChineseSentenceTokenizer,
    ChineseSentenceWindowNodeParser,
    Granularity,
    HybridNodeParser,
    MultiGranularityNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    StructuredMarkdownNodeParser,
    chinese_sentence_tokenizer,
)


def count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def number_ids(index: int, document: Any) -> str:
    return f"{document.node_id}-{index}"


GRANULARITY_KEYS = ("granularity", "granularity_depth", "coarse_id", "span_start", "span_end")
STRUCTURE_KEYS = ("header_titles", "heading_level", "block_kinds", "line_start", "line_end")


@dataclass(frozen=True)
class Case:
    """A parser, what bounds its chunks, and other values for each of its options."""

    name: str
    make: Callable[..., NodeParser]
    limit: int
    unit: str = "tokens"
    least: int = 0
    smallest: int = 0  # the least of several largest sizes
    covers: bool = True  # False: a foreign parser inside drops white space
    own_keys: tuple[str, ...] = ()  # metadata that the parser adds, hidden from embedder and model
    some_keys: tuple[str, ...] = ()  # the same, but not to every chunk
    other_options: dict[str, Any] = field(default_factory=dict)
    revive: Callable[[], dict[str, Any]] = dict

    def __str__(self) -> str:
        return self.name


def usual_recipe(**options: Any) -> HybridNodeParser:
    """LlamaIndex's own parsers as people combine them: semantic splits at the 95th percentile, then windows."""
    arguments = {
        "primary_parser": SemanticSplitterNodeParser(
            embed_model=LetterEmbedding(),
            sentence_splitter=chinese_sentence_tokenizer,
            breakpoint_percentile_threshold=95,
        ),
        "secondary_parser": SentenceSplitter(
            chunk_size=256, chunk_overlap=50, chunking_tokenizer_fn=chinese_sentence_tokenizer
        ),
        "max_chunk_size": 300,
    }
    return HybridNodeParser(**{**arguments, **options})


def sliding(**options: Any) -> SlidingWindowNodeParser:
    return SlidingWindowNodeParser(**{"chunk_size": 128, "chunk_overlap": 24, **options})


def sliding_characters(**options: Any) -> SlidingWindowNodeParser:
    return SlidingWindowNodeParser(**{"chunk_size": 90, "chunk_overlap": 0, "unit": "chars", **options})


def sliding_separators(**options: Any) -> SlidingWindowNodeParser:
    separators = ("\n## ", "\n\n", "```", "\n", "。", "；", "，", "")
    return SlidingWindowNodeParser(**{"chunk_size": 90, "separators": separators, **options})


def sliding_callable(**options: Any) -> SlidingWindowNodeParser:
    return SlidingWindowNodeParser(**{"chunk_size": 400, "chunk_overlap": 80, "tokenizer": count_bytes, **options})


def structured(**options: Any) -> StructuredMarkdownNodeParser:
    return StructuredMarkdownNodeParser(**{"chunk_size": 120, "chunk_overlap": 15, **options})


def structured_by_meaning(**options: Any) -> StructuredMarkdownNodeParser:
    arguments = {"chunk_size": 90, "unit": "tokens", "secondary_parser": semantic(max_size=60)}
    return StructuredMarkdownNodeParser(**{**arguments, **options})


def semantic(**options: Any) -> SemanticNodeParser:
    return SemanticNodeParser(**{"embed_model": LetterEmbedding(), "max_size": 200, **options})


def semantic_target(**options: Any) -> SemanticNodeParser:
    return semantic(**{"target_size": 100, **options})


def semantic_percentile(**options: Any) -> SemanticNodeParser:
    return semantic(**{"rule": "percentile", "percentile": 90.0, "min_size": 20, **options})


def hybrid(**options: Any) -> HybridNodeParser:
    default = HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=160)
    parsers = {"primary_parser": default.primary_parser, "secondary_parser": default.secondary_parser}
    return HybridNodeParser(**{**parsers, "max_chunk_size": 160, **options})


def small_to_big(**options: Any) -> SmallToBigNodeParser:
    return SmallToBigNodeParser(**{"parent_size": 400, "child_size": 80, "child_overlap": 12, **options})


def small_to_big_tokens(**options: Any) -> SmallToBigNodeParser:
    return small_to_big(**{"unit": "tokens", "parent_size": 480, "child_size": 96, **options})


def small_to_big_by_meaning(**options: Any) -> SmallToBigNodeParser:
    return small_to_big(**{"parent_parser": semantic(max_size=400), **options})


def small_to_big_of_two_parsers(**options: Any) -> SmallToBigNodeParser:
    return small_to_big(**{"parent_parser": hybrid(), "child_parser": sliding_characters(), **options})


def small_to_big_of_sections(**options: Any) -> SmallToBigNodeParser:
    return small_to_big(**{"parent_parser": structured(chunk_size=400), **options})


def sentence_window(**options: Any) -> ChineseSentenceWindowNodeParser:
    return ChineseSentenceWindowNodeParser(**{"max_sentence_size": 60, **options})


def sentence_window_spans(**options: Any) -> ChineseSentenceWindowNodeParser:
    return sentence_window(**{"store": "span", "unit": "tokens", **options})


PARENT_KEYS = ("parent_id", "parent_start", "parent_end", "parent_hash")
LEVELS = (Granularity("coarse", 60, 160), Granularity("medium", 30, 80), Granularity("fine", 10, 40))
SENTENCES = Granularity("sentence", 0, 40, each_sentence=True)


def multi_granularity(**options: Any) -> MultiGranularityNodeParser:
    return MultiGranularityNodeParser(**{"levels": LEVELS, **options})


def multi_granularity_by_meaning(**options: Any) -> MultiGranularityNodeParser:
    arguments = {"levels": (*LEVELS, SENTENCES), "embed_model": LetterEmbedding(), "unit": "tokens"}
    return MultiGranularityNodeParser(**{**arguments, **options})


SHARED = {
    "unit": "chars",
    "tokenizer": count_bytes,
    "sentence_tokenizer": ChineseSentenceTokenizer(quotes="keep"),
    "protected_terms": ("旧书店",),
    "reserve_header": 7,
    "include_metadata": False,
    "include_prev_next_rel": False,
    "id_func": number_ids,
}
SEMANTIC = {
    **SHARED,
    "max_size": 150,
    "min_size": 10,
    "rule": "percentile",
    "embed_model": LetterEmbedding(model_name="other"),
}


def model() -> dict[str, Any]:
    return {"embed_model": LetterEmbedding()}


CASES = [
    Case(
        "sliding", sliding, 128, other_options={**SHARED, "chunk_size": 100, "chunk_overlap": 0, "separators": ("\n",)}
    ),
    Case("sliding characters", sliding_characters, 90, unit="chars"),
    Case(
        "sliding separators",
        sliding_separators,
        90,
        unit="chars",
        other_options={"unit": "tokens", "separators": ("\n\n", "\n"), "chunk_overlap": 0},
    ),
    Case("sliding callable", sliding_callable, 400, unit="bytes"),
    Case("semantic", semantic, 200, other_options={**SEMANTIC, "target_size": 50}, revive=model),
    Case("semantic target", semantic_target, 200, least=33, revive=model),
    Case(
        "semantic percentile",
        semantic_percentile,
        200,
        least=20,
        other_options={"percentile": 80.0, "rule": "optimal"},
        revive=model,
    ),
    Case(
        "hybrid",
        hybrid,
        160,
        other_options={**SHARED, "max_chunk_size": 150, "primary_parser": sliding(), "secondary_parser": sliding()},
        revive=model,
    ),
    Case(
        "usual recipe",
        usual_recipe,
        300,
        covers=False,
        other_options={
            **SHARED,
            "max_chunk_size": 280,
            "primary_parser": SentenceSplitter(chunk_size=512),
            "secondary_parser": SentenceSplitter(chunk_size=256, chunk_overlap=50),
        },
        revive=lambda: {
            "primary_parser": usual_recipe().primary_parser,
            "secondary_parser": usual_recipe().secondary_parser,
        },
    ),
    Case(
        "small to big",
        small_to_big,
        80,
        unit="chars",
        own_keys=PARENT_KEYS,
        other_options={
            **SHARED,
            "unit": "tokens",
            "parent_size": 420,
            "child_size": 72,
            "child_overlap": 8,
            "parent_parser": sliding(),
            "child_parser": sliding(),
            "emit": "both",
        },
    ),
    Case(
        "small to big tokens",
        small_to_big_tokens,
        96,
        own_keys=PARENT_KEYS,
        other_options={"tokenizer": count_bytes},
    ),
    Case("small to big by meaning", small_to_big_by_meaning, 80, unit="chars", own_keys=PARENT_KEYS, revive=model),
    Case(
        "small to big of two parsers",
        small_to_big_of_two_parsers,
        90,
        unit="chars",
        own_keys=PARENT_KEYS,
        revive=model,
    ),
    Case(
        "small to big of sections",
        small_to_big_of_sections,
        80,
        unit="chars",
        own_keys=(*STRUCTURE_KEYS, *PARENT_KEYS),
    ),
    Case(
        "structured",
        structured,
        120,
        unit="chars",
        own_keys=STRUCTURE_KEYS,
        other_options={
            **SHARED,
            "unit": "tokens",
            "chunk_size": 100,
            "chunk_overlap": 8,
            "structure": "numbered",
            "oversized": "keep",
            "protected_patterns": ("第.条",),
            "secondary_parser": sliding(chunk_size=60, chunk_overlap=0),
            "header_path_separator": " > ",
        },
    ),
    Case(
        "structured by meaning",
        structured_by_meaning,
        90,
        own_keys=STRUCTURE_KEYS,
        other_options={"tokenizer": count_bytes},
        revive=model,
    ),
    Case(
        "sentence window",
        sentence_window,
        60,
        unit="chars",
        own_keys=("window", "original_text"),
        other_options={
            **SHARED,
            "unit": "tokens",
            "window_sentences": 1,
            "store": "span",
            "max_sentence_size": 50,
            "window_metadata_key": "context",
            "original_text_metadata_key": "sentence",
        },
    ),
    Case(
        "sentence window spans",
        sentence_window_spans,
        60,
        own_keys=("window_span",),
        other_options={"tokenizer": count_bytes},
    ),
    Case(
        "multi granularity",
        multi_granularity,
        160,
        smallest=40,
        unit="chars",
        own_keys=(*STRUCTURE_KEYS, *GRANULARITY_KEYS),
        some_keys=PARENT_KEYS,
        other_options={
            **SHARED,
            "unit": "tokens",
            "levels": LEVELS[1:],
            "embed_model": LetterEmbedding(),
            "structure": "numbered",
            "protected_patterns": ("第.条",),
            "header_path_separator": " > ",
            "adapt_to_length": False,
        },
    ),
    Case(
        "multi granularity by meaning",
        multi_granularity_by_meaning,
        160,
        smallest=40,
        own_keys=(*STRUCTURE_KEYS, *GRANULARITY_KEYS),
        some_keys=PARENT_KEYS,
        other_options={"tokenizer": count_bytes},
        revive=model,
    ),
]
