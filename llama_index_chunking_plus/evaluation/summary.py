"""From the values of single questions and documents to figures, groups and signals of what goes wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median

from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion
from llama_index_chunking_plus.evaluation.results import (
    FailureSignal,
    Figure,
    Group,
    StrategyAnswer,
    StrategyResult,
)
from llama_index_chunking_plus.evaluation.significance import bootstrap_interval
from llama_index_chunking_plus.evaluation.trial import Outcome

LEAST_FOR_INTERVAL = 5  # values; of fewer an interval says nothing

_WHOLE = 0.8  # share of gold ranges that should stand whole in a chunk
_MUCH_BETTER = 0.15  # by which the hit rate is above it, so that single results look fine
_INFLATED = 1.6
_FAR_BELOW = 0.2  # of a section's recall below that of all others
_LOST = 0.01  # share of the text that stands in no chunk

Values = Mapping[str, float]


def figure(values: Sequence[float], confidence: float) -> Figure:
    """The mean of the values, with its interval if there are at least five.

    Example:
        >>> figure([1.0, 0.0], 0.95)
        Figure(mean=0.5, low=None, high=None, n=2)
    """
    if len(values) < LEAST_FOR_INTERVAL:
        return Figure(fmean(values), None, None, len(values))
    interval = bootstrap_interval(values, confidence=confidence)
    return Figure(interval.mean, interval.low, interval.high, len(values))


def figures(rows: Iterable[Values], confidence: float) -> dict[str, Figure]:
    """The figure of every measure that the rows have values of."""
    columns: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    return {name: figure(values, confidence) for name, values in columns.items()}


def summarised(
    name: str, outcome: Outcome, questions: Sequence[EvaluationQuestion], confidence: float
) -> StrategyResult:
    """What a report says of a strategy that worked."""
    answers = outcome.answers

    def groups(labels: Callable[[EvaluationQuestion], Iterable[str]]) -> tuple[Group, ...]:
        return tuple(_groups(questions, labels, answers, confidence))

    overall = figures((answers[each.question_id].measures for each in questions), confidence)
    return StrategyResult(
        name,
        outcome.kind,
        "ok",
        "",
        outcome.configuration,
        {**overall, **figures(outcome.document_values.values(), confidence)},
        groups(lambda question: [question.section] if question.section else []),
        groups(lambda question: question.tags),
        groups(lambda question: [question.document_id]),
        outcome.inflation,
        outcome.sizes,
        outcome.alignment,
        outcome.cost,
        outcome.chunks,
    )


def _groups(
    questions: Iterable[EvaluationQuestion],
    labels: Callable[[EvaluationQuestion], Iterable[str]],
    answers: Mapping[str, StrategyAnswer],
    confidence: float,
) -> Iterator[Group]:
    members: defaultdict[str, list[Values]] = defaultdict(list)
    for question in questions:
        for label in dict.fromkeys(labels(question)):
            members[label].append(answers[question.question_id].measures)
    for label, rows in members.items():
        yield Group(label, len(rows), figures(rows, confidence))


# ------------------------------------------------------------------------------------------------ signals


def failure_signals(results: Sequence[StrategyResult]) -> tuple[FailureSignal, ...]:
    """What looks wrong with the strategies that worked, and what to do about it."""
    worked = [result for result in results if result.status == "ok" and result.measures]
    slim = [
        result.measures["character_precision"].mean
        for result in worked
        if result.inflation is not None and result.inflation <= _INFLATED
    ]
    usual = median(slim) if slim else None
    return tuple(signal for result in worked for signal in _signals(result, usual))


def _signals(result: StrategyResult, usual_precision: float | None) -> Iterator[FailureSignal]:
    yield from _facts_torn(result)
    yield from _inflated(result, usual_precision)
    yield from _weak_sections(result)
    yield from _text_lost(result)


def _facts_torn(result: StrategyResult) -> Iterator[FailureSignal]:
    whole, hits = result.measures.get("semantic_completeness"), result.measures["hit_rate"]
    if whole is None or whole.mean >= _WHOLE or hits.mean - whole.mean < _MUCH_BETTER:
        return
    yield FailureSignal(
        "facts_torn",
        result.name,
        f"Only {whole.mean:.0%} of the gold ranges stand whole in one chunk, while {hits.mean:.0%} of the questions "
        "find a chunk with a part of theirs: single results look fine, and do not say all.",
        "Take larger chunks or more overlap, cut between sentences, or return parents or windows of what is found.",
        {"semantic_completeness": whole.mean, "hit_rate": hits.mean},
    )


def _inflated(result: StrategyResult, usual_precision: float | None) -> Iterator[FailureSignal]:
    precision = result.measures["character_precision"].mean
    if usual_precision is None or result.inflation is None or result.inflation <= _INFLATED:
        return
    if precision < usual_precision:
        yield FailureSignal(
            "inflated",
            result.name,
            f"The chunks have {result.inflation:.2f} times the tokens of the documents, and {precision:.1%} of what is "
            f"retrieved is relevant; strategies up to {_INFLATED} have {usual_precision:.1%}.",
            "Take less overlap, or fewer levels; what repeats crowds other results out.",
            {"inflation": result.inflation, "character_precision": precision, "usual": usual_precision},
        )


def _weak_sections(result: StrategyResult) -> Iterator[FailureSignal]:
    sizes = {group.name: group.n_questions for group in result.by_section}
    recalls = {group.name: group.measures["recall"].mean for group in result.by_section}
    for name, recall in recalls.items():
        n_others = sum(sizes.values()) - sizes[name]
        if sizes[name] < LEAST_FOR_INTERVAL or not n_others:
            continue
        others = sum(recalls[other] * sizes[other] for other in sizes if other != name) / n_others
        if others - recall >= _FAR_BELOW:
            yield FailureSignal(
                "weak_section",
                result.name,
                f"In the section {name!r} recall is {recall:.2f}, in all others {others:.2f}.",
                "Look at where its gold is cut; give this kind of section a strategy of its own: "
                'StrategySelector(per="section").',
                {"recall": recall, "others": others, "n_questions": sizes[name]},
                name,
            )


def _text_lost(result: StrategyResult) -> Iterator[FailureSignal]:
    alignment = result.alignment
    covered = sum(span.end - span.start for chunks in result.chunks for span in chunks.spans)
    if alignment is None or not (alignment.lost or alignment.characters_left_out > _LOST * max(1, covered)):
        return
    n_lost, n_left = alignment.lost, alignment.characters_left_out
    yield FailureSignal(
        "text_lost",
        result.name,
        f"{n_lost} {'chunk stands' if n_lost == 1 else 'chunks stand'} nowhere in the documents, and {n_left} "
        f"{'character' if n_left == 1 else 'characters'} of the documents {'stands' if n_left == 1 else 'stand'} in no "
        "chunk.",
        "Take a parser that keeps the words as they are: a chunk with others counts as nothing when it is found, and "
        "what is dropped cannot be found.",
        {"lost": float(alignment.lost), "characters_left_out": float(alignment.characters_left_out)},
    )
