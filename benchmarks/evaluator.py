"""Chunking strategies on a retrieval set, by `ChunkingEvaluator`; and how long a large evaluation takes.

usage: python benchmarks/evaluator.py FOLDER [--only NAME ...] [--k 5] [--budget 1000] [--work DIR] [--json FILE]
                                             [--plain-search] [--markdown FILE]
       python benchmarks/evaluator.py FOLDER --speed [--work DIR]

FOLDER holds docs.jsonl (doc_id, text, boundaries) and questions.jsonl (qid, question, doc_id, sent_start, sent_end,
passage_start, passage_end, kind); multi.jsonl, with two evidence ranges a question, is read if it is there. The gold is
the sentence that answers; what is no waste is its passage. Peers whose chunks are no slices of the text are aligned
with it; --plain-search drops those that `str.find` does not find, as simpler scorers do, so that figures can be
compared with theirs. --markdown replaces the table between the two marks in a file, the README say.
--speed makes 300 documents of about 3,500 characters out of them, and measures 12 strategies on 600 questions, twice.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import (
    LangchainNodeParser,
    NodeParser,
    SemanticSplitterNodeParser,
    SentenceSplitter,
    TokenTextSplitter,
)
from llama_index.core.schema import BaseNode, NodeRelationship, TextNode
from llama_index.core.utils import get_tokenizer
from readme import replace_table

from llama_index_chunking_plus import OfflineEmbedding, SlidingWindowNodeParser
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion
from llama_index_chunking_plus.evaluation.evaluator import ChunkingEvaluator
from llama_index_chunking_plus.evaluation.results import EvaluationReport
from llama_index_chunking_plus.evaluation.selector import StrategySelector
from llama_index_chunking_plus.evaluation.strategies import Strategy, five_ways, grid, own_ways

Row = dict[str, Any]

N_DOCUMENTS, N_QUESTIONS, LENGTH = 300, 600, 3_500
COLUMNS = {
    "R@k": "recall",
    "R@B": "recall_budget",
    "P@k": "character_precision",
    "IoU": "iou",
    "SC": "semantic_completeness",
    "bF1": "boundary_f1",
    "Pk": "pk",
    "WD": "window_diff",
}


def naive_sentences(text: str) -> list[str]:
    return re.findall(r"[^。！？…\n]+[。！？…\n]?", text)


def semantic(percentile: int) -> Any:
    def make(model: BaseEmbedding) -> NodeParser:
        options = {"sentence_splitter": naive_sentences, "breakpoint_percentile_threshold": percentile}
        return SemanticSplitterNodeParser.from_defaults(embed_model=model, **options)

    return make


def langchain(_: BaseEmbedding) -> NodeParser:
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415  only if it is installed

    count = get_tokenizer()
    separators = ["\n\n", "\n", "。", "！", "？", "；", "，", ""]
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=256,
        chunk_overlap=50,
        length_function=lambda text: len(count(text)),
        separators=separators,
        keep_separator="end",
    )
    return LangchainNodeParser(splitter)


class PlainSearch(NodeParser):
    """Another parser's nodes where the text has them, one after another; what is not found is lost."""

    inner: NodeParser

    @classmethod
    def class_name(cls) -> str:
        return "PlainSearch"

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:
        return [found for document in nodes for found in self._found(document, show_progress)]

    def _found(self, document: BaseNode, show_progress: bool) -> Iterator[BaseNode]:
        text, cursor = document.get_content(), 0
        for node in self.inner.get_nodes_from_documents([document], show_progress=show_progress):
            bare = node.get_content().strip()
            start = text.find(bare, cursor)
            if start >= 0:
                cursor = start + 1
                yield TextNode(
                    text=bare,
                    start_char_idx=start,
                    end_char_idx=start + len(bare),
                    relationships={NodeRelationship.SOURCE: document.as_related_node_info()},
                )


def searched_plainly(strategy: Strategy) -> Strategy:
    return replace(strategy, parser=lambda model: PlainSearch(inner=strategy.make_parser(model)))


def peers() -> list[Strategy]:
    long = SentenceSplitter(chunk_size=512, chunk_overlap=100, chunking_tokenizer_fn=naive_sentences)
    return [
        Strategy("sentence_256", SentenceSplitter(chunk_size=256, chunk_overlap=0)),
        Strategy("sentence_512_100_zh", long),
        Strategy("sentence_default", SentenceSplitter()),
        Strategy("token_256", TokenTextSplitter(chunk_size=256, chunk_overlap=20)),
        Strategy("semantic_95", semantic(95)),
        Strategy("semantic_80", semantic(80)),
        Strategy("langchain_recursive_256", langchain),
    ]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def single(row: Row) -> EvaluationQuestion:
    gold = (row["sent_start"], row["sent_end"])
    passage = (row["passage_start"], row["passage_end"])
    about = {"section": row["kind"], "tags": ("one fact",)}
    return EvaluationQuestion(row["qid"], row["question"], row["doc_id"], gold=(gold,), context=(passage,), **about)


def double(row: Row) -> EvaluationQuestion:
    gold = tuple((each["sent_start"], each["sent_end"]) for each in row["evidence"])
    context = tuple((each["passage_start"], each["passage_end"]) for each in row["evidence"])
    about = {"section": row["kind"], "tags": ("two facts",)}
    return EvaluationQuestion(row["qid"], row["question"], row["doc_id"], gold=gold, context=context, **about)


def large(documents: dict[str, str], questions: list[EvaluationQuestion]) -> tuple[dict[str, str], Any]:
    """As many documents as the goal names, no two alike: sentences of the set in another order, and marked."""
    sentences = [each for text in documents.values() for each in naive_sentences(text) if len(each) > 8]
    texts: dict[str, str] = {}
    asked: list[EvaluationQuestion] = []
    supply = cycle(range(len(sentences)))
    for number in range(N_DOCUMENTS):
        text = f"第{number}份文件。"
        while len(text) < LENGTH:
            text += sentences[next(supply)].rstrip("\n") + (f"（{number}）" if len(text) % 3 else "")
        texts[f"d{number}"] = text
    for i, question in enumerate(islice(cycle(questions), N_QUESTIONS)):
        name = f"d{i % N_DOCUMENTS}"
        start = 200 + 37 * i % 3_000
        asked.append(EvaluationQuestion(f"q{i}", f"{question.text}（{i}）", name, gold=((start, start + 40),)))
    return texts, asked


def shown(report: EvaluationReport) -> Iterator[str]:
    yield f"{report.run.date[:10]}, {report.run.machine}, {report.run.versions}, {report.run.embed_model}"
    yield (
        f"{'':28}{'chunks':>7}{'mean':>7}{'infl':>7}{'ctx':>7}" + "".join(f"{name:>7}" for name in COLUMNS) + " both@B"
    )
    for each in report.strategies:
        if each.status == "failed" or each.cost is None:
            yield f"{each.name:28} {each.reason}"
            continue
        by_tag = {group.name: group.measures for group in each.by_tag}
        own = {**each.measures, **by_tag.get("one fact", {})}
        figures = [f"{own[name].mean:7.3f}" if name in own else f"{'':7}" for name in COLUMNS.values()]
        both = by_tag["two facts"]["complete_budget"].mean if "two facts" in by_tag else float("nan")
        sizes = f"{each.sizes.n_chunks:7}{each.sizes.mean:7.0f}{each.inflation:7.3f}" if each.sizes else f"{'':21}"
        yield f"{each.name:28}{sizes}{each.cost.context_tokens:7.0f}" + "".join(figures) + f"{both:7.3f}"


def markdown(report: EvaluationReport) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in report.run.versions.items())
    yield f"{report.run.date[:10]}, {report.run.machine}, {versions}; by `python benchmarks/evaluator.py`:"
    yield ""
    yield f"| strategy | mean tokens | inflation | tokens of {report.run.k} | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (4 + len(COLUMNS)) + "|"
    for each in report.strategies:
        own = {
            **each.measures,
            **{n: v for group in each.by_tag if group.name == "one fact" for n, v in group.measures.items()},
        }
        figures = [f"{own[name].mean:.3f}".lstrip("0") if name in own else "" for name in COLUMNS.values()]
        if each.sizes and each.cost:
            sizes = (f"{each.sizes.mean:.0f}", f"{each.inflation:.2f}", f"{each.cost.context_tokens:,.0f}")
            yield f"| {each.name} | " + " | ".join([*sizes, *figures]) + " |"


def compare(options: argparse.Namespace) -> None:
    documents = rows(options.folder / "docs.jsonl")
    questions = [*map(single, rows(options.folder / "questions.jsonl"))]
    questions += map(double, rows(options.folder / "multi.jsonl"))
    evaluator = ChunkingEvaluator(
        {row["doc_id"]: row["text"] for row in documents},
        questions,
        OfflineEmbedding(),
        options.k,
        budget=options.budget,
        boundaries={row["doc_id"]: row["boundaries"] for row in documents if row.get("boundaries")},
        work_dir=options.work,
        show_progress=True,
    )
    theirs = [*map(searched_plainly, peers())] if options.plain_search else peers()
    strategies = [*theirs, *own_ways(), *grid(SlidingWindowNodeParser, chunk_size=[128, 256])]
    if options.only:
        strategies = [each for each in strategies if each.name in options.only]
    report = evaluator.evaluate(strategies)
    report = report.with_selection(StrategySelector().select(report))
    print("\n".join(shown(report)))
    print(report.selection.reason if report.selection else "")
    if options.json:
        report.save(options.json)
    if options.markdown:
        replace_table(options.markdown, "evaluator", markdown(report))


def speed(options: argparse.Namespace) -> None:
    documents = {row["doc_id"]: row["text"] for row in rows(options.folder / "docs.jsonl")}
    texts, questions = large(documents, [*map(single, rows(options.folder / "questions.jsonl"))])
    strategies = [*five_ways(), *own_ways(), *grid(SlidingWindowNodeParser, chunk_size=300)]
    print(f"{len(texts)} documents, {sum(map(len, texts.values())):,} characters, {len(questions)} questions")
    with tempfile.TemporaryDirectory() as folder:
        for run in ("first", "second"):
            began, cpu = time.perf_counter(), time.process_time()
            evaluator = ChunkingEvaluator(
                texts, questions, OfflineEmbedding(), work_dir=options.work or folder, show_progress=True
            )
            report = evaluator.evaluate(strategies)
            counts = f"{report.run.n_embedded} embedded, {report.run.n_cached} from the cache"
            took = f"{time.perf_counter() - began:.1f} s, {time.process_time() - cpu:.1f} s of processors"
            print(f"{run} run of {len(report.strategies)} strategies: {took}; {counts}")
    print("\n".join(shown(report)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plain-search", action="store_true")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    (speed if options.speed else compare)(options)


if __name__ == "__main__":
    main()
