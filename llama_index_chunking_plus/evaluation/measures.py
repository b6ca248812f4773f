"""Measures of retrieval and of chunks, each a function of ranges that answers from 0 to 1 (inflation: from 0).

    question, ranked ranges, k -> recall, complete, hit rate, precision, MRR, nDCG; characters: recall, precision, IoU
    question, chunks           -> semantic completeness, precision omega
    text, chunks as shown      -> keyword integrity and the others of `structure`
    boundaries                 -> those of `boundaries`
    sizes                      -> inflation

Only ranges count, never the ids of nodes. A range that comes twice counts once, at its best rank; where nothing comes,
the measure is 0. For figures at an equal number of tokens, `within_budget` cuts a ranking and the same measures judge
it with ``k=None``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion
from llama_index_chunking_plus.evaluation.intervals import common, holds, length, union, without

Needs = Literal["ranking", "chunks", "document", "boundaries", "sizes"]
F = TypeVar("F", bound=Callable[..., float])

_ENOUGH = 0.5  # of the shorter of chunk and gold, for a chunk to be relevant


@dataclass(frozen=True)
class Measure:
    """A measure with what must be known to use it.

    Args:
        name: its key in `MEASURES`.
        label: what tables call it; ``{k}`` stands for the number of results.
        needs: its arguments. "ranking": question, ranked ranges and k; "chunks": question and the ranges of its
            document's chunks; "document": the text and its chunks as shown; "boundaries": true and found boundaries,
            and where sentences end; "sizes": those of chunks and of documents.
        higher_is_better: whether more is better.
        compute: the function.

    Example:
        >>> MEASURES["recall"].label.format(k=5), MEASURES["recall"].higher_is_better
        ('Recall@5', True)
    """

    name: str
    label: str
    needs: Needs
    higher_is_better: bool
    compute: Callable[..., float]


MEASURES: dict[str, Measure] = {}
"""Every measure by its name; those of a module are there once it is imported."""


def measure(name: str, label: str, needs: Needs, *, higher_is_better: bool = True) -> Callable[[F], F]:
    """Make a function known as a measure; the arguments are those of `Measure`.

    Raises:
        OptionError: another measure has the name.
    """

    def register(compute: F) -> F:
        if name in MEASURES:
            raise OptionError(f"there is a measure named {name!r} already; give this one a name of its own")
        MEASURES[name] = Measure(name, label, needs, higher_is_better, compute)
        return compute

    return register


class Located(NamedTuple):
    """A range of a document: what was retrieved, whatever node it came from."""

    document_id: str
    span: Span


# ------------------------------------------------------------------------------------------------ a question's ranking


@measure("recall", "Recall@{k}", "ranking")
def recall_at_k(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """The share of gold ranges of which every character stands in one of the first k results.

    Args:
        question: with its gold.
        ranked: what was retrieved, best first.
        k: how many results count; None: all.

    Example:
        >>> question = EvaluationQuestion("q", "?", "a", gold=((2, 6), (20, 22)))
        >>> recall_at_k(question, [Located("a", Span(0, 4)), Located("a", Span(4, 9)), Located("b", Span(20, 22))], 3)
        0.5
    """
    shown = union(_of_document(question, ranked, k))
    return sum(holds(shown, span) for span in _gold(question)) / len(question.gold)


@measure("complete", "Complete@{k}", "ranking")
def complete_at_k(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """1 if the first k results show every gold range whole, else 0; the arguments are those of `recall_at_k`."""
    return float(recall_at_k(question, ranked, k) == 1)


@measure("hit_rate", "Hit rate@{k}", "ranking")
def hit_rate_at_k(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """1 if one of the first k results is relevant, else 0; the arguments are those of `recall_at_k`.

    A result is relevant if it shares at least half of the shorter of the two with a gold range: half of the answer, or
    half of the result (the overlap coefficient of Szymkiewicz, 1934, and Simpson, 1943).
    """
    return float(any(_relevances(question, ranked, k)))


@measure("precision", "Precision@{k}", "ranking")
def precision_at_k(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """The share of the first k results that are relevant, as `hit_rate_at_k` has it; fewer than k count as they are."""
    relevances = _relevances(question, ranked, k)
    return sum(relevances) / len(relevances) if relevances else 0.0


@measure("mrr", "MRR@{k}", "ranking")
def reciprocal_rank(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """One by the rank of the first relevant result, as `hit_rate_at_k` has it; 0 if none of the first k is.

    Source:
        Voorhees (1999), The TREC-8 Question Answering Track Report.
    """
    relevances = _relevances(question, ranked, k)
    return 1 / (relevances.index(True) + 1) if True in relevances else 0.0


@measure("ndcg", "nDCG@{k}", "ranking")
def ndcg_at_k(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """How early the first k results show the gold: each new character of it counts 1 / log2(rank + 1).

    The gain of a result is the share of the gold that no better result shows. The ideal, of which this is the share,
    is all gold in the first result; it does not depend on how documents are cut, so strategies can be compared.

    Source:
        Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques.
    """
    gold = union(_gold(question))
    shown: list[Span] = []
    gained, total = 0, 0.0
    for rank, (document_id, span) in enumerate(_top(ranked, k), 1):
        if document_id == question.document_id:
            shown = union([*shown, span])
            now = common(shown, gold)
            total += (now - gained) / math.log2(rank + 1)
            gained = now
    return total / length(gold)


@measure("character_recall", "Character recall@{k}", "ranking")
def character_recall(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """The share of the gold's characters that the first k results show.

    Source:
        Smith and Troynikov (2024), Evaluating Chunking Strategies for Retrieval; there over tokens.
    """
    gold = union(_gold(question))
    return common(union(_of_document(question, ranked, k)), gold) / length(gold)


@measure("character_precision", "Character precision@{k}", "ranking")
def character_precision(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """The share of the characters of the first k results that belong to the question's context, or else its gold.

    What overlapping results both show counts once as relevant, and as often as it is shown as retrieved: repeating it
    costs room.

    Source:
        Smith and Troynikov (2024), Evaluating Chunking Strategies for Retrieval; there over tokens.
    """
    retrieved, found = length(span for _, span in _top(ranked, k)), _relevant_characters(question, ranked, k)
    return found / retrieved if retrieved else 0.0


@measure("iou", "IoU@{k}", "ranking")
def intersection_over_union(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None = None) -> float:
    """Relevant characters retrieved, by all that are relevant or retrieved; counted as in `character_precision`.

    Source:
        Smith and Troynikov (2024), Evaluating Chunking Strategies for Retrieval; there over tokens.
    """
    retrieved, found = length(span for _, span in _top(ranked, k)), _relevant_characters(question, ranked, k)
    return found / (retrieved + length(union(question.relevant)) - found)


def _top(ranked: Iterable[Located], k: int | None) -> list[Located]:
    """The first k results, each once, without those that are empty."""
    if k is not None and (isinstance(k, bool) or k < 1):
        raise OptionError(f"k={k!r}; it must be a whole number from 1, or None for all results")
    return [each for each in dict.fromkeys(ranked) if each.span.start < each.span.end][:k]


def _of_document(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None) -> list[Span]:
    return [span for document_id, span in _top(ranked, k) if document_id == question.document_id]


def _relevances(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None) -> list[bool]:
    gold_spans = _gold(question)
    return [
        document_id == question.document_id and any(_is_relevant(span, gold) for gold in gold_spans)
        for document_id, span in _top(ranked, k)
    ]


def _is_relevant(span: Span, gold: Span) -> bool:
    shared = min(span.end, gold.end) - max(span.start, gold.start)
    return shared >= _ENOUGH * min(span.end - span.start, gold.end - gold.start)


def _relevant_characters(question: EvaluationQuestion, ranked: Sequence[Located], k: int | None) -> int:
    return common(union(_of_document(question, ranked, k)), union(question.context or _gold(question)))


def _gold(question: EvaluationQuestion) -> tuple[Span, ...]:
    """The gold, all of it known."""
    if not question.is_resolved:
        raise OptionError(f"question {question.question_id!r} has quotes without ranges; resolve its set first")
    return question.gold


# ------------------------------------------------------------------------------------------------ an equal budget


class TokenCounts:
    """The sizes of ranges of documents; every stretch is counted once.

    Args:
        texts: the text of each document by its id.
        count: the size of a text, in tokens say.

    Example:
        >>> counts = TokenCounts({"a": "甲乙丙丁"}, len)
        >>> counts.size("a", [Span(0, 1), Span(2, 4)])
        3
    """

    def __init__(self, texts: Mapping[str, str], count: Callable[[str], int]) -> None:
        self._texts = texts
        self._count = count
        self._known: dict[tuple[str, tuple[Span, ...]], int] = {}

    def size(self, document_id: str, spans: Sequence[Span]) -> int:
        """The size of these ranges of a document, put together."""
        key = document_id, tuple(spans)
        if key not in self._known:
            text = self._texts[document_id]
            self._known[key] = self._count("".join(span.of(text) for span in spans)) if spans else 0
        return self._known[key]


def within_budget(ranked: Iterable[Located], budget: int, counts: TokenCounts) -> list[Located]:
    """The results, best first, until so many tokens of new text are spent; of the last one, as much as there is room.

    Text that a better result shows is free. The measures judge what comes out with ``k=None``; so small and large
    chunks are compared at the same price.

    Args:
        ranked: what was retrieved, best first.
        budget: the most tokens that may be spent, from 1.
        counts: the sizes of ranges.

    Raises:
        OptionError: ``budget`` is not positive.

    Example:
        >>> counts = TokenCounts({"a": "甲乙丙丁戊己庚辛"}, len)
        >>> within_budget([Located("a", Span(0, 3)), Located("a", Span(2, 8))], 5, counts)
        [Located(document_id='a', span=Span(start=0, end=3)), Located(document_id='a', span=Span(start=2, end=5))]
    """
    if budget < 1:
        raise OptionError(f"budget={budget}; it must be at least 1 token")
    shown: defaultdict[str, list[Span]] = defaultdict(list)
    taken: list[Located] = []
    left = budget
    for document_id, span in _top(ranked, None):
        fresh = without(span, shown[document_id])
        size = counts.size(document_id, fresh)
        end = span.end if size <= left else _reached(fresh, int(length(fresh) * left / size))
        if end > span.start:
            taken.append(Located(document_id, Span(span.start, end)))
            shown[document_id] = union([*shown[document_id], taken[-1].span])
        left -= size
        if left <= 0:
            break
    return taken


def _reached(fresh: Iterable[Span], n_characters: int) -> int:
    """Where the first so many characters of these ranges end; 0 for none."""
    end = 0
    for span in fresh:
        if n_characters <= 0:
            break
        end = min(span.end, span.start + n_characters)
        n_characters -= end - span.start
    return end


# ------------------------------------------------------------------------------------------------ a document's chunks


@measure("semantic_completeness", "Semantic completeness", "chunks")
def semantic_completeness(question: EvaluationQuestion, chunks: Iterable[tuple[int, int]]) -> float:
    """The share of gold ranges that stand whole in one chunk.

    Args:
        question: with its gold, the facts that must not be torn.
        chunks: the ranges of all chunks of its document.

    Example:
        >>> question = EvaluationQuestion("q", "?", "a", gold=((2, 6), (20, 22)))
        >>> semantic_completeness(question, [(0, 4), (3, 20), (18, 30)])
        0.5
    """
    spans = [Span(*chunk) for chunk in chunks]
    return sum(holds(spans, span) for span in _gold(question)) / len(question.gold)


@measure("precision_omega", "Precision Ω", "chunks")
def precision_omega(question: EvaluationQuestion, chunks: Iterable[tuple[int, int]]) -> float:
    """The precision that a perfect retriever would have, which finds every chunk that holds some of the gold.

    That is the share of these chunks' characters that belong to the question's context, or else its gold; what chunks
    share counts once. It judges the chunks, not the embedding model.

    Args:
        question: with its gold.
        chunks: the ranges of all chunks of its document.

    Source:
        Smith and Troynikov (2024), Evaluating Chunking Strategies for Retrieval, with the unions of their program.
    """
    gold = union(_gold(question))
    found = union(chunk for chunk in chunks if common([Span(*chunk)], gold))
    return common(found, union(question.context) or gold) / length(found) if found else 0.0


@measure("inflation", "Inflation", "sizes", higher_is_better=False)
def inflation(chunk_sizes: Iterable[float], document_sizes: Iterable[float]) -> float:
    """How much larger the chunks are than the documents: 1 without overlap; 0 where there are no documents.

    Args:
        chunk_sizes: of all chunks, in tokens or characters.
        document_sizes: of all documents, likewise.

    Example:
        >>> inflation([6, 6], [10])
        1.2
    """
    before = sum(document_sizes)
    return sum(chunk_sizes) / before if before else 0.0


class SizeStatistics(NamedTuple):
    """How large chunks are, in the unit in which they were measured.

    Args:
        n_chunks: how many there are.
        p95: what 95 % of them do not exceed, interpolated between neighbours.
        cv: the coefficient of variation: standard deviation (of all chunks, not a sample) by mean.
    """

    n_chunks: int
    mean: float
    median: float
    p95: float
    largest: float
    cv: float


def size_statistics(sizes: Iterable[float]) -> SizeStatistics:
    """The statistics of these sizes; all 0 where there are none.

    Example:
        >>> size_statistics([2, 4, 6])
        SizeStatistics(n_chunks=3, mean=4.0, median=4.0, p95=5.8, largest=6.0, cv=0.408248290463863)
    """
    values = np.asarray(list(sizes), dtype=float)
    if not values.size:
        return SizeStatistics(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean, median, p95 = (float(each) for each in (values.mean(), np.median(values), np.percentile(values, 95)))
    return SizeStatistics(
        values.size, mean, median, p95, float(values.max()), float(values.std() / mean) if mean else 0.0
    )
