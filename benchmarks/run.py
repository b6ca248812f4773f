"""Speed of our parts against LlamaIndex's own, same text, same process, best of several runs each.

usage: python benchmarks/run.py [--json benchmarks/results.json]

The text is the bundled documents, repeated. Times differ from machine to machine; the ratios are what to look at.
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import context_headers
import multi_granularity
import small_to_big
import structure
from llama_index.core import Document
from llama_index.core.node_parser import SemanticSplitterNodeParser, SentenceSplitter
from llama_index.core.utils import get_tokenizer
from timing import best_seconds, corpus, paired

from llama_index_chunking_plus import (
    OfflineEmbedding,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    chinese_sentence_tokenizer,
)
from llama_index_chunking_plus.samples import sample_paths


def sentences() -> dict[str, float]:
    text = corpus(2)
    return {"million characters a second": len(text) / best_seconds(lambda: chinese_sentence_tokenizer(text), 5) / 1e6}


def windows() -> dict[str, float]:
    text = corpus(2)
    parser, peer = SlidingWindowNodeParser(), SentenceSplitter(chunk_size=512, chunk_overlap=64)
    document = Document(text=text)
    ours, theirs = paired(
        lambda: parser.get_nodes_from_documents([document]), lambda: peer.get_nodes_from_documents([document]), 3
    )
    return {"seconds for 2 MB": ours, "times as fast as SentenceSplitter(512/64)": theirs / ours}


def growth() -> dict[str, float]:
    tokenize, parser = get_tokenizer(), SlidingWindowNodeParser()
    figures = {}
    for megabytes in (0.5, 20):
        text = corpus(megabytes)
        document = Document(text=text)
        ours, pass_once = paired(lambda: parser.get_nodes_from_documents([document]), lambda: tokenize(text), 3)  # noqa: B023
        figures[f"tokenizer passes at {megabytes} MB"] = ours / pass_once
    return figures


def meaning() -> dict[str, float]:
    model = OfflineEmbedding()
    model.get_text_embedding("warm")
    documents = [Document(text=path.read_text(encoding="utf-8")) for path in sample_paths()]
    parser = SemanticNodeParser(embed_model=model)
    peer = SemanticSplitterNodeParser(embed_model=model, sentence_splitter=chinese_sentence_tokenizer)
    ours, theirs = paired(
        lambda: parser.get_nodes_from_documents(documents), lambda: peer.get_nodes_from_documents(documents), 2
    )
    return {"seconds for the bundled documents": ours, "times as fast as SemanticSplitterNodeParser": theirs / ours}


JOBS = {
    "sentence tokenizer": sentences,
    "sliding window": windows,
    "growth": growth,
    "semantic": meaning,
    "structure, files": structure.files,
    "structure, 1 MB": structure.sections,
    "small to big, 10,000 children": lambda: small_to_big.added(10_000),
    "small to big, 100,000 children": lambda: small_to_big.added(100_000),
    "sentence windows": lambda: {**small_to_big.window_bytes(), **small_to_big.window_speed()},
    "context headers": context_headers.context_headers,
    "multi-granularity, quality": multi_granularity.quality,
    "multi-granularity, bytes": multi_granularity.stored,
    "multi-granularity, 10,000 fine chunks": lambda: multi_granularity.narrowed(10_000),
    "multi-granularity, 100,000 fine chunks": lambda: multi_granularity.narrowed(100_000),
    "multi-granularity, parsing": multi_granularity.parsing,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, default=Path(__file__).with_name("results.json"))
    path = options.parse_args().json
    packages = ("llama-index-chunking-plus", "llama-index-core", "numpy", "tiktoken")
    results: dict[str, Any] = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in packages},
    }
    for name, job in JOBS.items():
        results[name] = {figure: round(value, 2) for figure, value in job().items()}
        print(name, results[name])
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
