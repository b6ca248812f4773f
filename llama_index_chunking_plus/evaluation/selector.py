"""From figures to one strategy, and a sentence that says why.

report -> limits: who breaks one is out -> the highest figure -> ties with it -> the cheapest of these
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser

from llama_index_chunking_plus.core.options import is_filled_text, is_number, is_whole
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.results import (
    EvaluationReport,
    Figure,
    QuestionResult,
    Route,
    RowStatus,
    Selection,
    SelectionRow,
    StrategyResult,
)
from llama_index_chunking_plus.evaluation.routing import RoutingNodeParser
from llama_index_chunking_plus.evaluation.significance import paired_test
from llama_index_chunking_plus.evaluation.strategies import Strategy
from llama_index_chunking_plus.evaluation.summary import LEAST_FOR_INTERVAL, figure
from llama_index_chunking_plus.evaluation.trial import measure_infos

_ORDER: dict[RowStatus, int] = {"selected": 0, "tied": 1, "worse": 2, "eliminated": 3, "failed": 4}
_ROUNDING = 1e-9
_WORSE = {True: "worse, and hardly by chance", False: "further behind than the tolerance"}
_WORTH = 0.05  # share of tokens that a tie must save


@dataclass(frozen=True)
class StrategySelector:
    """Chooses the strategy with the best figure among those within the limits, ties to the cheapest.

    A strategy ties with the best if its figure is at most ``tolerance``, or one question, below, and a paired test does
    not tell the two apart. A tie wins if it shows at least 5 % fewer tokens to a question than the best; or about as
    many, with 5 % fewer in the store. Of several the cheapest wins, then the one with the fewest chunks. A strategy
    breaks no limit of something that is not known of it, as the inflation of a retriever. Where the best figure is 0,
    none is selected.

    Args:
        measure: a measure of questions, by its name in the report: "recall", or "recall_budget" at an equal number of
            tokens.
        max_inflation: tokens of all chunks by tokens of the documents, from 1 up; None: any.
        min_chunk_tokens: what the median chunk has at least, from 0; None: any.
        max_chunk_tokens: what the largest chunk has at most, from 1; None: any.
        max_chunks: how many chunks there are at most, from 1; None: any.
        max_context_tokens: tokens of what a question gets, on average, from 1; None: any.
        tolerance: what a tie may be below the best, from 0 up.
        confidence: how sure a difference must be to be none by chance, between 0 and 1.
        per: "section" or "tag": the winner of each kind as well; where a kind has fewer than five questions, that of
            all.

    Raises:
        OptionError: an option is out of its range, or there is no such measure of questions.

    Example:
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> failed = StrategyResult("mine", "parser", "failed", "ValueError: no")
        >>> selection = StrategySelector().select(EvaluationReport(run, (), (), (failed,), ()))
        >>> selection.selected_strategy, selection.reason
        (None, "No strategy is selected: 1 failed. 'mine': ValueError: no")
    """

    measure: str = "recall"
    max_inflation: float | None = 1.5
    min_chunk_tokens: float | None = None
    max_chunk_tokens: float | None = None
    max_chunks: int | None = None
    max_context_tokens: float | None = None
    tolerance: float = 0.05
    confidence: float = 0.95
    per: Literal["section", "tag"] | None = None

    def __post_init__(self) -> None:
        if not is_filled_text(self.measure):
            raise OptionError(f"measure={self.measure!r} is no name of a measure; recall is usual")
        _check_measure(self.measure, [info.name for info in measure_infos(1, 1) if info.of == "question"])
        if self.per not in (None, "section", "tag"):
            raise OptionError(f"per={self.per!r} is none of None, 'section', 'tag'")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value >= least):
                raise OptionError(f"{name}={value!r}; it must be a number from {least}, or None for no limit")
        if self.max_chunks is not None and not is_whole(self.max_chunks, least=1):
            raise OptionError(f"max_chunks={self.max_chunks!r}; it must be a whole number from 1, or None for no limit")
        if not (is_number(self.tolerance) and self.tolerance >= 0):
            raise OptionError(f"tolerance={self.tolerance!r}; it must be a number from 0; 0.05 is usual")
        if not (is_number(self.confidence) and 0 < self.confidence < 1):
            raise OptionError(f"confidence={self.confidence!r}; it must lie between 0 and 1, 0.95 say")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, and the tolerance, by name."""
        values = {name: getattr(self, name) for name in _LEAST}
        return {**{name: value for name, value in values.items() if value is not None}, "tolerance": self.tolerance}

    def select(self, report: EvaluationReport) -> Selection:
        """The winner over all questions, and with ``per`` that of each kind.

        Raises:
            OptionError: the report has no such measure of questions.
        """
        label, sign = self._measure_of(report)
        judge = _Judge(self, label, sign)
        rows = judge.rows(report.strategies, report.questions)
        winner = next((row.name for row in rows if row.status == "selected"), None)
        return Selection(
            winner,
            judge.reason(rows),
            self.measure,
            label,
            self.limits,
            self.confidence,
            rows,
            tuple(row.name for row in rows if row.status == "tied"),
            self.per,
            tuple(self._routes(report, judge, winner)) if self.per else (),
        )

    def _measure_of(self, report: EvaluationReport) -> tuple[str, int]:
        """What tables call the measure, and 1 if more is better, else -1."""
        known = {info.name: info for info in report.measures if info.of == "question"}
        if known:
            _check_measure(self.measure, list(known))
        info = known.get(self.measure)
        return (info.label, 1 if info.higher_is_better else -1) if info else (self.measure, 1)

    def _routes(self, report: EvaluationReport, judge: _Judge, overall: str | None) -> Iterator[Route]:
        for kind, questions in self._kinds(report.questions).items():
            rows = judge.rows(report.strategies, questions)
            winner = next((row.name for row in rows if row.status == "selected"), None)
            reason = judge.reason(rows)
            if len(questions) < LEAST_FOR_INTERVAL:
                winner = overall
                n_asked = _counted(len(questions), "question is", "questions are")
                reason = f"{n_asked} too few to choose by; the winner over all questions is taken."
            yield Route(kind, len(questions), winner, reason, rows)

    def _kinds(self, questions: Iterable[QuestionResult]) -> dict[str, list[QuestionResult]]:
        kinds: dict[str, list[QuestionResult]] = {}
        for question in questions:
            own = question.tags if self.per == "tag" else (question.section,)
            for kind in dict.fromkeys(own):
                if kind:
                    kinds.setdefault(kind, []).append(question)
        return kinds


@dataclass(frozen=True)
class SelectedChunk:
    """A chunk of the winner.

    Args:
        chunk_id: the id of its node.
        doc_id: the document.
        text: its text.
        metadata: that of its node.
    """

    chunk_id: str
    doc_id: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class SelectionResult:
    """The winner with what it makes of the documents; made by `ChunkingEvaluator.select`.

    Args:
        report: the figures, and the selection in them.
        selection: the winner and the reasons.
        chunks: what the winner, or with ``per`` the winner of each kind, makes of the documents; empty if none is
            selected, or the winner is a retriever.
        strategies: the winner and the winners of kinds, by name.
    """

    report: EvaluationReport
    selection: Selection
    chunks: tuple[SelectedChunk, ...]
    strategies: dict[str, Strategy] = field(default_factory=dict)

    @property
    def selected_strategy(self) -> str | None:
        """The name of the winner; None if every strategy is eliminated or failed."""
        return self.selection.selected_strategy

    @property
    def reason(self) -> str:
        """A sentence with the numbers."""
        return self.selection.reason

    @property
    def table(self) -> tuple[SelectionRow, ...]:
        """One row for each strategy, the winner first."""
        return self.selection.rows

    @property
    def used(self) -> tuple[Strategy, ...]:
        """The strategies that `make_parser` needs, the winner first; those of kinds only if they are parsers."""
        names = dict.fromkeys([self.selected_strategy, *(route.strategy for route in self.selection.routes)])
        chosen = [self.strategies[name] for name in names if name in self.strategies]
        return tuple(each for i, each in enumerate(chosen) if not i or each.kind == "parser")

    def make_parser(self, embed_model: BaseEmbedding) -> NodeParser:
        """The winner's parser; with ``per`` one that cuts each kind with the winner of the kind.

        Args:
            embed_model: for parsers that need one.

        Raises:
            OptionError: no strategy is selected, or the winner is a retriever.
        """
        if self.selected_strategy is None:
            raise OptionError(f"there is no parser: {self.reason}")
        parsers = {each.name: each.make_parser(embed_model) for each in self.used}
        routes = {route.kind: parsers[route.strategy] for route in self.selection.routes if route.strategy in parsers}
        default = parsers[self.selected_strategy]
        if not routes:
            return default
        return RoutingNodeParser(routes=routes, default=default, key=_KEYS[self.selection.per or "section"])


_KEYS = {"section": "section", "tag": "tags"}
_LEAST = {"max_inflation": 1, "min_chunk_tokens": 0, "max_chunk_tokens": 1, "max_chunks": 1, "max_context_tokens": 1}


class _Judge:
    """Compares strategies on some questions."""

    def __init__(self, selector: StrategySelector, label: str, sign: int) -> None:
        self._selector = selector
        self._label = label
        self._sign = sign

    def rows(
        self, strategies: Sequence[StrategyResult], questions: Sequence[QuestionResult]
    ) -> tuple[SelectionRow, ...]:
        """One row for each strategy: the winner, ties, worse ones, eliminated, failed; each best first."""
        values = {each.name: self._values(each.name, questions) for each in strategies}
        standing = {
            each.name: each for each in strategies if values[each.name] and not self._out_of_limits(each, values)
        }
        compared = self._compared(values, standing)
        made = [self._row(each, values[each.name], compared) for each in strategies]
        return tuple(
            sorted(made, key=lambda row: (_ORDER[row.status], -self._sign * (row.value.mean if row.value else 0)))
        )

    def _values(self, name: str, questions: Iterable[QuestionResult]) -> list[float]:
        """The measure of each question; nothing if the strategy has none for one of them."""
        answers = [question.answers.get(name) for question in questions]
        found = [answer.measures.get(self._selector.measure) for answer in answers if answer is not None]
        known = [value for value in found if value is not None]
        return known if len(known) == len(answers) else []

    def _out_of_limits(self, strategy: StrategyResult, values: Mapping[str, Sequence[float]]) -> str:
        """The limits that a strategy breaks, with the numbers; empty if none."""
        if not values[strategy.name]:
            return ""
        broken = [
            _broken(name, self._selector.limits[name], strategy) for name in _FOUND if name in self._selector.limits
        ]
        return "; ".join(each for each in broken if each)

    def _compared(
        self, values: Mapping[str, Sequence[float]], standing: Mapping[str, StrategyResult]
    ) -> dict[str, SelectionRow]:
        """The rows of the strategies within the limits."""
        if not standing:
            return {}
        means = {name: figure(values[name], self._selector.confidence) for name in standing}
        best = max(standing, key=lambda name: (self._sign * means[name].mean, *map(_negated, _cost(standing[name]))))
        if self._sign * means[best].mean == 0 < self._sign:
            nothing = f"It found nothing: {self._label} is 0."
            return {name: _row_of(standing[name], "eliminated", nothing, means[name]) for name in standing}
        rows = {name: self._against(name, best, values, means, standing[name]) for name in standing}
        ties = [name for name, row in rows.items() if row.status == "tied" and _is_cheaper(row, rows[best])]
        winner = min(ties or [best], key=lambda name: (*_cost(standing[name]), -self._sign * means[name].mean))
        rows[winner] = replace(rows[winner], status="selected", reason=self._won(winner, best, rows))
        if winner != best:
            rows[best] = replace(rows[best], reason=f"{self._label} is the highest; {winner!r} ties and is cheaper.")
        return rows

    def _against(
        self,
        name: str,
        best: str,
        values: Mapping[str, Sequence[float]],
        means: Mapping[str, Figure],
        strategy: StrategyResult,
    ) -> SelectionRow:
        """A strategy against the best one."""
        if name == best:
            return _row_of(strategy, "tied", f"{self._label} is the highest.", means[name])
        test = paired_test(values[name], values[best], confidence=self._selector.confidence)
        behind = -self._sign * test.difference.mean
        near = behind <= max(self._selector.tolerance, 1 / test.n_questions) + _ROUNDING
        is_sure = test.p_value <= 1 - self._selector.confidence
        is_tie = near and not is_sure
        verdict = "no worse as far as can be told" if is_tie else _WORSE[is_sure]
        apart = f"{behind:.3f} behind" if behind >= 0.0005 else "level with"  # noqa: PLR2004  half of the last digit
        known = f"{self._label} is {means[name].mean:.3f}, {apart} {best!r} (p = {test.p_value:.3f})"
        row = _row_of(strategy, "tied" if is_tie else "worse", f"{known}: {verdict}.", means[name])
        return replace(row, difference=Figure(*test.difference, test.n_questions), p_value=test.p_value)

    def _won(self, winner: str, best: str, rows: Mapping[str, SelectionRow]) -> str:
        own, top = rows[winner], rows[best]
        if winner == best:
            n_ties = sum(row.status == "tied" for row in rows.values()) - 1
            return f"{self._label} is the highest" + (f", and none of {n_ties} ties is cheaper." if n_ties else ".")
        return (
            f"{self._label} ties with the highest ({_shown(own.value)} against {_shown(top.value)} of {best!r}, "
            f"p = {own.p_value or 0:.3f}), and it is cheaper: {_tokens(own, top)}."
        )

    def _row(
        self, strategy: StrategyResult, values: Sequence[float], compared: Mapping[str, SelectionRow]
    ) -> SelectionRow:
        if strategy.name in compared:
            return compared[strategy.name]
        if not values:
            reason = strategy.reason or f"It has no {self._label}."
            return _row_of(strategy, "failed", reason, None)
        broken = self._out_of_limits(strategy, {strategy.name: values})
        return _row_of(strategy, "eliminated", f"{broken}.", figure(values, self._selector.confidence))

    def reason(self, rows: Sequence[SelectionRow]) -> str:
        """A sentence with the numbers that says why the winner won, or why there is none."""
        n_out, n_failed = (sum(row.status == status for row in rows) for status in ("eliminated", "failed"))
        out = " and ".join([f"{n_out} eliminated"] * bool(n_out) + [f"{n_failed} failed"] * bool(n_failed))
        winner = next((row for row in rows if row.status == "selected"), None)
        if winner is None or winner.value is None:
            details = " ".join(f"{row.name!r}: {row.reason}" for row in rows)
            found_nothing = "no strategy found anything; " if self._found_nothing(rows) else ""
            return f"No strategy is selected: {found_nothing}{out or 'there is none'}. {details}".strip()
        return (
            f"{winner.name!r} is selected, with {self._label} {_with_interval(winner.value)} over "
            f"{_counted(winner.value.n, 'question', 'questions')}: {winner.reason.rstrip('.')}"
            f"{self._inflation(winner)}; of {_counted(len(rows), 'strategy', 'strategies')} "
            f"{out or 'none is eliminated'}."
        )

    def _found_nothing(self, rows: Sequence[SelectionRow]) -> bool:
        means = [row.value.mean for row in rows if row.value]
        return self._sign > 0 and bool(means) and not any(means)

    def _inflation(self, winner: SelectionRow) -> str:
        if winner.inflation is None:
            return ""
        limit = self._selector.max_inflation
        return f"; inflation is {winner.inflation:.2f}" + ("" if limit is None else f", within {limit:g}")


# ------------------------------------------------------------------------------------------------ limits and costs

_FOUND: dict[str, Callable[[StrategyResult], float | None]] = {
    "max_inflation": lambda each: each.inflation,
    "min_chunk_tokens": lambda each: each.sizes.median if each.sizes else None,
    "max_chunk_tokens": lambda each: each.sizes.largest if each.sizes else None,
    "max_chunks": lambda each: each.sizes.n_chunks if each.sizes else None,
    "max_context_tokens": lambda each: each.cost.context_tokens if each.cost else None,
}
_SAID = {
    "max_inflation": "Inflation is {found:.2f}, above the limit of {limit:g}",
    "min_chunk_tokens": "The median chunk has {found:,.0f} tokens, below the limit of {limit:,g}",
    "max_chunk_tokens": "The largest chunk has {found:,.0f} tokens, above the limit of {limit:,g}",
    "max_chunks": "There are {found:,.0f} chunks, above the limit of {limit:,g}",
    "max_context_tokens": "A question gets {found:,.0f} tokens, above the limit of {limit:,g}",
}


def _broken(name: str, limit: float, strategy: StrategyResult) -> str:
    """What is wrong if the strategy breaks the limit."""
    found = _FOUND[name](strategy)
    if found is None:
        return ""
    is_broken = found < limit if name.startswith("min") else found > limit + _ROUNDING
    return _SAID[name].format(found=found, limit=limit) if is_broken else ""


def _cost(strategy: StrategyResult) -> tuple[float, float, float]:
    """What decides between ties, less is better: tokens of a question, of the store, chunks."""
    cost, sizes = strategy.cost, strategy.sizes
    return (
        round(cost.context_tokens) if cost else math.inf,
        cost.index_tokens if cost and cost.index_tokens is not None else math.inf,
        sizes.n_chunks if sizes else math.inf,
    )


def _is_cheaper(row: SelectionRow, best: SelectionRow) -> bool:
    """Whether a tie costs so much less than the best that it is worth having."""
    own, top = row.context_tokens, best.context_tokens
    if own is not None and top is not None and abs(own - top) > _WORTH * top:
        return own < top
    return None not in (row.index_tokens, best.index_tokens) and (row.index_tokens or 0) < (1 - _WORTH) * (
        best.index_tokens or 0
    )


def _check_measure(name: str, known: Sequence[str]) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"measure={name!r} is none of {', '.join(known)}{meant}")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _negated(value: float) -> float:
    return -value


def _row_of(strategy: StrategyResult, status: RowStatus, reason: str, value: Figure | None) -> SelectionRow:
    cost, sizes = strategy.cost, strategy.sizes
    return SelectionRow(
        strategy.name,
        status,
        reason,
        value,
        strategy.inflation,
        cost.index_tokens if cost else None,
        sizes.n_chunks if sizes else None,
        context_tokens=cost.context_tokens if cost else None,
    )


def _shown(value: Figure | None) -> str:
    return f"{value.mean:.3f}" if value else "unknown"


def _with_interval(value: Figure) -> str:
    if value.low is None or value.high is None:
        return _shown(value)
    return f"{_shown(value)} ({value.low:.3f} to {value.high:.3f})"


def _tokens(row: SelectionRow, best: SelectionRow) -> str:
    """What a cheaper tie saves."""
    if (row.context_tokens or 0) < (1 - _WORTH) * (best.context_tokens or 0):
        return f"{row.context_tokens or 0:,.0f} tokens a question against {best.context_tokens or 0:,.0f}"
    return f"{row.index_tokens or 0:,} tokens in the store against {best.index_tokens or 0:,}"
