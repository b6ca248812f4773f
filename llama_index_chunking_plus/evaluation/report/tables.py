"""An evaluation as CSV: strategies, questions, and what each strategy did with each question."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.report.overview import OverviewRow, deciding_measure, overview
from llama_index_chunking_plus.evaluation.results import EvaluationReport, MeasureInfo, QuestionResult

Cell: TypeAlias = str | float | int | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def strategies_csv(report: EvaluationReport) -> str:
    """One row for each strategy: status and reason, every figure with its interval, sizes, alignment and cost.

    Empty cells are unknown. As in all tables of this module, a text that a spreadsheet would run as a formula
    (``=``, ``+``, ``-``, ``@`` ahead) gets an apostrophe ahead of it.

    Example:
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo, StrategyResult
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> failed = StrategyResult("mine", "parser", "failed", "ValueError: no")
        >>> strategies_csv(EvaluationReport(run, (), (), (failed,), ())).splitlines()[1][:32]
        'mine,parser,failed,ValueError: n'
    """
    infos = [info for info in report.measures if info.name != "inflation"]
    header = ["strategy", "kind", "status", "reason"]
    header += [
        name + suffix for info in infos for name, suffix in ((info.name, each) for each in ("", "_low", "_high"))
    ]
    header += ["inflation", "chunks", "tokens_mean", "tokens_median", "tokens_p95", "tokens_largest", "tokens_cv"]
    header += ["exact", "recovered", "lost", "characters_left_out"]
    header += ["chunking_seconds", "index_tokens", "context_tokens"]
    return _csv(header, (_strategy_cells(row, infos) for row in overview(report)))


def _strategy_cells(row: OverviewRow, infos: Sequence[MeasureInfo]) -> list[Cell]:
    each = row.strategy
    cells: list[Cell] = [each.name, each.kind, row.status, row.reason]
    for info in infos:
        value = each.measures.get(info.name)
        cells += [value.mean, value.low, value.high] if value else [None] * 3
    sizes, alignment, cost = each.sizes, each.alignment, each.cost
    cells.append(each.inflation)
    cells += [sizes.n_chunks, sizes.mean, sizes.median, sizes.p95, sizes.largest, sizes.cv] if sizes else [None] * 6
    cells += (
        [alignment.exact, alignment.recovered, alignment.lost, alignment.characters_left_out]
        if alignment
        else [None] * 4
    )
    cells += [cost.chunking_seconds, cost.index_tokens, cost.context_tokens] if cost else [None] * 3
    return cells


def questions_csv(report: EvaluationReport, measure: str | None = None) -> str:
    """One row for each question, with the value that each strategy has of one measure.

    Args:
        report: the report.
        measure: a measure of questions, by its name in the report; None: the one that the selection maximised.

    Raises:
        OptionError: the report has no such measure.
    """
    known = [info.name for info in report.measures if info.of == "question"]
    deciding = deciding_measure(report)
    name = measure if measure is not None else deciding.name if deciding else ""
    if measure is not None and measure not in known:
        raise OptionError(f"measure={measure!r} is none of {', '.join(known)}")
    strategies = [row.strategy.name for row in overview(report)]
    rows = (
        [*_question_cells(question), *(_value(question, strategy, name) for strategy in strategies)]
        for question in report.questions
    )
    return _csv([*_QUESTION, *strategies], rows)


def answers_csv(report: EvaluationReport) -> str:
    """One row for each question and strategy: every measure, how many gold ranges are cut, and what was retrieved."""
    names = [info.name for info in report.measures if info.of == "question"]
    rows = (
        [
            *_question_cells(question),
            strategy,
            *(answer.measures.get(name) for name in names),
            len(answer.cuts),
            " ".join(f"{hit.document_id}:{hit.span.start}-{hit.span.end}" if hit.span else "?" for hit in answer.hits),
        ]
        for question in report.questions
        for strategy, answer in question.answers.items()
    )
    return _csv([*_QUESTION, "strategy", *names, "gold_cut", "retrieved"], rows)


_QUESTION = ("question_id", "question", "document_id", "section", "tags", "gold")


def _question_cells(question: QuestionResult) -> list[Cell]:
    gold = " ".join(f"{span.start}-{span.end}" for span in question.gold)
    tags = " ".join(question.tags)
    return [question.question_id, question.text, question.document_id, question.section, tags, gold]


def _value(question: QuestionResult, strategy: str, measure: str) -> float | None:
    answer = question.answers.get(strategy)
    return answer.measures.get(measure) if answer else None


def _csv(header: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(_inert, header))
    writer.writerows(map(_inert, row) for row in rows)
    return stream.getvalue()


def _inert(cell: Cell) -> Cell:
    """The cell, told apart from a formula; without NUL, which no spreadsheet takes, nor Python 3.10."""
    if not isinstance(cell, str):
        return cell
    readable = cell.replace("\0", "\ufffd")
    return f"'{readable}" if readable.startswith(_FORMULA) else readable
