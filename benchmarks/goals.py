"""What the figures ought to reach, by job and figure; a figure that is not listed has no goal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    bound: float
    is_lower: bool  # whether the figure must not be below the bound; else it must not be above
    is_aim: bool = False  # whether it is wished for only

    def is_reached(self, figure: float) -> bool:
        return figure >= self.bound if self.is_lower else figure <= self.bound

    def __str__(self) -> str:
        return f"{'aim: ' if self.is_aim else ''}at {'least' if self.is_lower else 'most'} {self.bound:g}"


def at_least(bound: float) -> Goal:
    return Goal(bound, is_lower=True)


def aim_at(bound: float) -> Goal:
    return Goal(bound, is_lower=True, is_aim=True)


def at_most(bound: float) -> Goal:
    return Goal(bound, is_lower=False)


GOALS: dict[str, dict[str, Goal]] = {
    "sentence tokenizer": {"million characters a second": at_least(8)},
    "sentence tokenizer, hostile texts": {"time per character, 8 times as long, the worst": at_most(1.5)},
    "sentence tokenizer and pysbd": {"times as fast as pysbd": at_least(50)},
    "sentence tokenizer and punkt": {"times as fast as punkt": aim_at(15)},
    "sliding window": {
        "times as fast as SentenceSplitter(512/64)": at_least(5),
        "tokenizer passes": at_most(1.6),
    },
    "sliding window, growth": {
        "tokenizer passes at 20 MB over those at 0.5 MB": at_most(1.3),
    },
    "sliding window, tokenizer": {"characters counted for one of the document": at_most(1.1)},
    "node building": {"times as fast as build_nodes_from_splits": at_least(6)},
    "sentence windows": {
        "times as fast as SentenceWindowNodeParser": at_least(3.5),
        "bytes in Chroma, text, of SentenceWindowNodeParser's": at_most(0.70),
        "bytes in Chroma, span, of SentenceWindowNodeParser's": at_most(0.33),
    },
    "multi-granularity, parsing": {
        "times as fast as HierarchicalNodeParser, chars": at_least(7),
        "times as fast as HierarchicalNodeParser, tokens": at_least(7),
    },
    "structure, 1 MB": {"times as fast as MarkdownNodeParser": at_least(50)},
    "structure, 2 MB": {"times as fast as MarkdownNodeParser": at_least(100)},
    "structure, a heading each 300 bytes": {
        "times as fast as MarkdownNodeParser, 1 MB": at_least(50),
        "times as fast as MarkdownNodeParser, 2 MB": at_least(100),
    },
    "semantic": {
        "times as fast as SemanticSplitterNodeParser": at_least(2.5),
        "embedded characters for one of the document": at_most(1.0),
    },
    "semantic, a free model": {
        "times as fast as SemanticSplitterNodeParser, optimal": at_least(4),
        "times as fast as SemanticSplitterNodeParser, percentile": at_least(4),
    },
    "semantic, memory": {"peak, of SemanticSplitterNodeParser's": at_most(0.25)},
    "semantic, async": {"times as fast as SemanticSplitterNodeParser": at_least(2.5)},
    "small to big, 10,000 children": {
        "ms that parents add to it": at_most(0.3),
        "times as fast as AutoMergingRetriever": at_least(1.3),
    },
    "small to big, 100,000 children": {
        "ms that parents add to it": at_most(0.3),
        "times as fast as AutoMergingRetriever": at_least(1.3),
    },
    "re-ingest": {
        "times as fast as a pipeline with a cache": at_least(20),
    },
    "imports": {
        "ms of one parser": at_most(30),
        "MB of one parser": at_most(5),
    },
    "memory": {"sliding window, 20 MB over 5 MB": at_most(4.4)},
}
