"""What every form of a report shows first: the strategies in their order, and the measure that decided."""

from __future__ import annotations

from typing import NamedTuple

from llama_index_chunking_plus.evaluation.results import (
    EvaluationReport,
    MeasureInfo,
    RowStatus,
    StrategyResult,
    StrategyStatus,
)

_FIRST = ("recall", "complete", "mrr", "character_precision", "semantic_completeness", "inflation")


class OverviewRow(NamedTuple):
    """A strategy as a table shows it.

    Args:
        strategy: the strategy.
        status: what the selection says of it; without a selection "ok" or "failed".
        reason: why; empty if there is nothing to say.
    """

    strategy: StrategyResult
    status: RowStatus | StrategyStatus
    reason: str


def overview(report: EvaluationReport) -> list[OverviewRow]:
    """All strategies in the order of the selection, the winner first; what it does not name comes last.

    Example:
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> failed = StrategyResult("mine", "parser", "failed", "ValueError: no")
        >>> [(row.strategy.name, row.status) for row in overview(EvaluationReport(run, (), (), (failed,), ()))]
        [('mine', 'failed')]
    """
    judged = report.selection.rows if report.selection else ()
    places = {row.name: place for place, row in enumerate(judged)}
    ordered = sorted(report.strategies, key=lambda each: places.get(each.name, len(places)))
    return [
        OverviewRow(each, judged[places[each.name]].status, judged[places[each.name]].reason)
        if each.name in places
        else OverviewRow(each, each.status, each.reason)
        for each in ordered
    ]


def deciding_measure(report: EvaluationReport) -> MeasureInfo | None:
    """The measure of questions that the selection maximised; without one the first; None if nothing was measured."""
    of_questions = [info for info in report.measures if info.of == "question"]
    wanted = report.selection.measure if report.selection else ""
    return next((info for info in of_questions if info.name == wanted), next(iter(of_questions), None))


def main_measures(report: EvaluationReport) -> list[MeasureInfo]:
    """The few measures that a table has room for, the deciding one first; inflation is left to a column of its own."""
    deciding = deciding_measure(report)
    first = (deciding.name if deciding else "", *_FIRST)
    known = {info.name: info for info in report.measures if info.name != "inflation"}
    return [known[name] for name in dict.fromkeys(first) if name in known]


def is_evaluation(report: EvaluationReport) -> bool:
    """Whether questions were asked; else the report shows chunks and probes of documents alone."""
    return bool(report.measures or report.questions or report.selection or not report.documents)


def headline(report: EvaluationReport) -> str:
    """One sentence: the winner and why, or that none was selected; without questions, how many chunks there are."""
    if report.selection is not None:
        return report.selection.reason
    if not is_evaluation(report):
        return "; ".join(map(_chunks, report.strategies)) + "."
    n_ok = sum(each.status == "ok" for each in report.strategies)
    return f"No selection was made among {n_ok} strategies that worked."


def _chunks(strategy: StrategyResult) -> str:
    sizes = strategy.sizes
    if sizes is None:
        return f"{strategy.name}: chunks are not known"
    return f"{strategy.name}: {sizes.n_chunks:,} chunks of {sizes.mean:,.0f} tokens, the largest {sizes.largest:,.0f}"
