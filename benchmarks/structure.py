"""StructuredMarkdownNodeParser against MarkdownNodeParser, alone and with SentenceSplitter after it, on mixed Markdown.

Sizes are 800 and 120 tokens for both where both cut by size. The text is the bundled Markdown documents: tables, code,
formulas, lists, questions and answers, with 1.8 headings for each kilobyte (manuals and READMEs mostly have 0.5 to 2;
the more headings, the longer MarkdownNodeParser takes, as it hashes the whole document for each). Files of a size come
as a folder of five, each of which begins with another of the documents, and the time is that for one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from timing import Paired, paired, repeated, seconds

from llama_index_chunking_plus import StructuredMarkdownNodeParser
from llama_index_chunking_plus.samples import sample_paths

SIZES: dict[str, Any] = {"chunk_size": 800, "chunk_overlap": 120}
FILES = (20_000, 50_000, 100_000)  # bytes
N_FILES = 5  # of each size


def markdown(n_bytes: int, first: int = 0) -> Document:
    """Mixed Markdown of about this size, cut off at the end of a line, beginning with this one of the documents."""
    paths = [path for path in sample_paths() if path.suffix == ".md"]
    first %= len(paths)
    text = repeated([*paths[first:], *paths[:first]], 2 * n_bytes).encode()[:n_bytes].decode(errors="ignore")
    return Document(text=text[: text.rindex("\n") + 1])


def headed(n_bytes: int) -> Document:
    """The paragraphs of the documents with a heading each 300 bytes, as a reference of an interface has them."""
    text, pieces, size = repeated(sample_paths(), n_bytes).replace("#", ""), [], 100
    for number, at in enumerate(range(0, len(text), size)):
        pieces.append(f"\n\n{'#' * (number % 3 + 1)} 方法 {number}\n\n{text[at : at + size].strip()}\n")
    return Document(text="".join(pieces).encode()[:n_bytes].decode(errors="ignore"))


def against_headings(document: Document) -> Paired:
    """Once each: theirs hashes the whole document for each section, which may take minutes."""
    ours, theirs = StructuredMarkdownNodeParser(), MarkdownNodeParser()
    ours([markdown(FILES[0])])
    return paired(lambda: ours([document]), lambda: theirs([document]), 1)


def sections(megabytes: int) -> dict[str, float]:
    times = against_headings(markdown(megabytes * 1_000_000))
    return {f"seconds for {megabytes} MB": times.ours, "times as fast as MarkdownNodeParser": times.ratio}


def many_headings() -> dict[str, float]:
    figures = {}
    for megabytes in (1, 2):
        times = against_headings(headed(megabytes * 1_000_000))
        figures[f"seconds for {megabytes} MB"] = times.ours
        figures[f"times as fast as MarkdownNodeParser, {megabytes} MB"] = times.ratio
    return figures


def files() -> dict[str, float]:
    """Files of a usual size: the median of the ratios, and our best milliseconds."""
    in_tokens, in_chars = StructuredMarkdownNodeParser(unit="tokens", **SIZES), StructuredMarkdownNodeParser(**SIZES)
    headings, sizes = MarkdownNodeParser(), SentenceSplitter(**SIZES)
    figures = {}
    for n_bytes in FILES:
        documents = [markdown(n_bytes, first) for first in range(N_FILES)]
        runs = [
            (
                seconds(lambda: in_tokens(documents)),  # noqa: B023
                seconds(lambda: in_chars(documents)),  # noqa: B023
                seconds(lambda: sizes(headings(documents))),  # noqa: B023
            )
            for _ in range(9)
        ]
        tokens, chars, theirs = np.array(runs).T
        name = f"{n_bytes // 1000} kB"
        figures[f"ms for {name}"] = 1000 * float(chars.min()) / N_FILES
        figures[f"times as fast as MarkdownNodeParser and SentenceSplitter, {name}"] = float(np.median(theirs / chars))
        figures[f"the same, counted in tokens, {name}"] = float(np.median(theirs / tokens))
    return figures
