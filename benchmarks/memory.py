"""How far a process grows while a parser reads one large document, its nodes included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core import Document
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    NodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
)
from timing import corpus, peak_megabytes

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    MultiGranularityNodeParser,
    SlidingWindowNodeParser,
    StructuredMarkdownNodeParser,
    chinese_sentence_tokenizer,
)

PARSERS: dict[str, Callable[[], NodeParser]] = {
    "sliding window": SlidingWindowNodeParser,
    "SentenceSplitter(512/64)": lambda: SentenceSplitter(chunk_size=512, chunk_overlap=64),
    "sentence windows": ChineseSentenceWindowNodeParser,
    "sentence windows, span": lambda: ChineseSentenceWindowNodeParser(store="span"),
    "SentenceWindowNodeParser": lambda: SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer),
    "multi-granularity": MultiGranularityNodeParser,
    "HierarchicalNodeParser": lambda: HierarchicalNodeParser.from_defaults(chunk_sizes=[2048, 512, 128]),
    "structure": StructuredMarkdownNodeParser,
}
OURS = ("sliding window", "sentence windows", "multi-granularity", "structure")


def prepared(name: str, megabytes: float) -> Callable[[], Any]:
    parser, documents = PARSERS[name](), [Document(text=corpus(megabytes))]
    parser([Document(text="先装好所有的部件。再来。")])
    return lambda: parser(documents)


def memory() -> dict[str, float]:
    figures = {f"peak MB for 20 MB, {name}": peak_megabytes(prepared, name, 20) for name in PARSERS}
    for name in OURS:
        small = peak_megabytes(prepared, name, 5)
        figures[f"{name}, 20 MB over 5 MB"] = figures[f"peak MB for 20 MB, {name}"] / small
    return figures
