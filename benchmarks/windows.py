"""SlidingWindowNodeParser against SentenceSplitter of the same sizes: time, growth, and what the tokenizer is given."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any
from unittest.mock import patch

from llama_index.core import Document
from llama_index.core.node_parser import NodeParser, SentenceSplitter
from llama_index.core.utils import get_tokenizer
from tiktoken import Encoding, get_encoding
from timing import corpus, paired

from llama_index_chunking_plus import SlidingWindowNodeParser
from llama_index_chunking_plus.node_parser import tokenizers

SIZES: dict[str, Any] = {"chunk_size": 512, "chunk_overlap": 64}
ENCODERS = ("encode", "encode_ordinary", "encode_to_numpy")


def speed() -> dict[str, float]:
    text = corpus(2)
    parser, peer, tokenize = SlidingWindowNodeParser(**SIZES), SentenceSplitter(**SIZES), get_tokenizer()
    documents = [Document(text=text)]
    times = paired(lambda: parser(documents), lambda: peer(documents), 7)
    passes = paired(lambda: tokenize(text), lambda: parser(documents), 7)
    return {
        "seconds for 2 MB": times.ours,
        "times as fast as SentenceSplitter(512/64)": times.ratio,
        "tokenizer passes": passes.ratio,
    }


def growth() -> dict[str, float]:
    """Our time in passes of the tokenizer over the same text."""
    tokenize, parser = get_tokenizer(), SlidingWindowNodeParser(**SIZES)
    figures = {}
    for megabytes, repeats in ((0.5, 9), (20, 3)):
        text = corpus(megabytes)
        documents = [Document(text=text)]
        passes = paired(lambda: tokenize(text), lambda: parser(documents), repeats)  # noqa: B023
        figures[f"tokenizer passes at {megabytes} MB"] = passes.ratio
    small, large = figures.values()
    return {**figures, "tokenizer passes at 20 MB over those at 0.5 MB": large / small}


class Counted:
    """A tokenizer that notes how many characters it was given."""

    def __init__(self) -> None:
        self.characters = 0

    def __call__(self, text: str) -> list[int]:
        self.characters += len(text)
        return list(text.encode())


def in_encoding(make: type[NodeParser], text: str) -> float:
    """What tiktoken itself is given, whoever calls it and however."""
    given = 0

    def noted(original: Any, encoding: Encoding, text: str, **options: Any) -> Any:
        nonlocal given
        given += len(text)
        return original(encoding, text, **options)

    originals = {name: getattr(Encoding, name) for name in ENCODERS if hasattr(Encoding, name)}
    tokenizers._byte_pair_sizer.cache_clear()  # noqa: SLF001  it holds the methods that are to be counted
    with patch.multiple(Encoding, **{name: _method(noted, original) for name, original in originals.items()}):
        encode = partial(_cl100k().encode, allowed_special="all")
        make(tokenizer=encode, **SIZES)([Document(text=text)])
    tokenizers._byte_pair_sizer.cache_clear()  # noqa: SLF001
    return given / len(text)


def _method(noted: Any, original: Any) -> Any:
    @wraps(original)  # by its name it is known as an encoding's
    def method(encoding: Encoding, text: str, **options: Any) -> Any:
        return noted(original, encoding, text, **options)

    return method


def _cl100k() -> Encoding:
    get_tokenizer()("")  # LlamaIndex's own copy, which needs no network
    with tokenizers._bundled_encodings():  # noqa: SLF001
        return get_encoding("cl100k_base")


def in_callable(make: type[NodeParser], text: str) -> float:
    """What a callable is given that counts bytes."""
    counted = Counted()
    make(tokenizer=counted, chunk_size=1536, chunk_overlap=192)([Document(text=text)])
    return counted.characters / len(text)


def tokenizer() -> dict[str, float]:
    """A byte-pair encoding tells the size of every piece after one pass; a callable is asked about each."""
    text = corpus(0.5)
    return {
        "characters counted for one of the document": in_encoding(SlidingWindowNodeParser, text),
        "characters counted for one of the document, SentenceSplitter": in_encoding(SentenceSplitter, text),
        "characters counted by a callable for one of the document": in_callable(SlidingWindowNodeParser, text),
        "characters counted by a callable for one of the document, SentenceSplitter": in_callable(
            SentenceSplitter, text
        ),
    }
