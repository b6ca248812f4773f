"""An evaluation for the terminal; the module needs rich."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index_chunking_plus.errors import MissingExtraError
from llama_index_chunking_plus.evaluation.report.overview import OverviewRow, headline, main_measures, overview
from llama_index_chunking_plus.evaluation.results import EvaluationReport, Figure, MeasureInfo

try:
    from rich import box
    from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingExtraError("rich", "report") from error

_OTHERS = 56  # what the columns need that are always there, but for the names
_LONGEST_NAME = 24  # that is not folded to make room for a measure
_PADDING = 3  # of a column
_WORST, _MOST_PLACES = 3, 3  # cuts that are shown, and places of each
_STYLES = {
    "selected": "bold green",
    "tied": "green",
    "ok": "",
    "worse": "",
    "eliminated": "yellow",
    "failed": "red",
}


def text_report(report: EvaluationReport) -> Group:
    """What a rich ``Console`` prints: the winner, the strategies, signals, and what was left out.

    Names and messages are shown as they are: square brackets in them are no markup.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo, StrategyResult
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> failed = StrategyResult("mine", "parser", "failed", "ValueError: no")
        >>> console = Console(width=80, file=io.StringIO())
        >>> console.print(text_report(EvaluationReport(run, (), (), (failed,), ())))
        >>> "failed mine: ValueError: no" in console.file.getvalue()
        True
    """
    return Group(*_parts(report))


def _parts(report: EvaluationReport) -> Iterator[RenderableType]:
    yield Text(headline(report), style="bold")
    yield _Strategies(report)
    for row in overview(report):
        if row.status in {"eliminated", "failed"}:
            yield Text.assemble((row.status, _STYLES[row.status]), f" {row.strategy.name}: {row.reason}")
    yield from _routes(report)
    for signal in report.signals:
        yield Text.assemble(("! ", "yellow"), (signal.strategy, "bold"), f": {signal.message} {signal.remedy}")
    for note in report.notes:
        if note.about != "strategy":  # said above
            yield Text(f"- {note.about} {note.name}: {note.message}", style="dim")
    run = report.run
    yield Text(
        f"{_number(run.n_documents, 'document')}, {_number(run.n_questions, 'question')}, {run.search} search with "
        f"k = {run.k}, {run.embed_model}; intervals of {run.confidence:.0%}; {run.date}, {run.seconds:,.1f} s",
        style="dim",
    )


class _Strategies:
    """The table of strategies, with as many measures as there is room for."""

    def __init__(self, report: EvaluationReport) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table for this width."""
        rows = overview(self._report)
        longest = max((len(row.strategy.name) for row in rows), default=0)
        room = options.max_width - _OTHERS - min(longest, _LONGEST_NAME)
        infos = _that_fit(main_measures(self._report), room)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("strategy", overflow="fold")
        table.add_column("status", overflow="fold", no_wrap=room > 0)
        for label in (*(info.label for info in infos), "inflation", "chunks", "tokens a question"):
            table.add_column(Text(label), justify="right", overflow="fold")
        for row in rows:
            _add_strategy(table, row, infos)
        yield table


def _that_fit(infos: Sequence[MeasureInfo], room: int) -> list[MeasureInfo]:
    """The first measure, and of the others those that still have room."""
    fitting = list(infos[:1])
    for info in infos[1:]:
        room -= max(map(len, info.label.split())) + _PADDING
        if room >= 0:
            fitting.append(info)
    return fitting


def _add_strategy(table: Table, row: OverviewRow, infos: Sequence[MeasureInfo]) -> None:
    each, style = row.strategy, _STYLES[row.status]
    cells = [
        *(_shown(each.measures.get(info.name), with_interval=not i) for i, info in enumerate(infos)),
        "" if each.inflation is None else f"{each.inflation:.2f}",
        "" if each.sizes is None else f"{each.sizes.n_chunks:,}",
        "" if each.cost is None else f"{each.cost.context_tokens:,.0f}",
    ]
    table.add_row(Text(each.name, style=style), Text(row.status, style=style), *map(Text, cells))


def text_probes(report: EvaluationReport) -> Group:
    """What a rich ``Console`` prints of completeness probes: all strategies, the best first, and the three worst cuts.

    Cuts are those of strategies below 0.8, each probe once.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> console = Console(width=80, file=io.StringIO())
        >>> console.print(text_probes(EvaluationReport(run, (), (), (), (), probes={"strategies": []})))
        >>> console.file.getvalue().startswith("Nothing in 0 documents could be asked for")
        True
    """
    return Group(*_probe_parts(report, report.probes or {"strategies": []}))


def _probe_parts(report: EvaluationReport, probes: Mapping[str, Any]) -> Iterator[RenderableType]:
    judged = [each for each in probes["strategies"] if each["total"]]
    if not judged:
        yield Text(
            f"Nothing in {_number(len(report.documents), 'document')} could be asked for: there is no table with a "
            "header, closed code sample, definition with example, procedure, answer or exception of sufficient length. "
            "This says nothing about the chunks; use questions of your own."
        )
        return
    yield _probe_table(report, sorted(judged, key=lambda each: -each["score"]))
    broken = [each for each in judged if each["score"] < probes["good_enough"]]
    cuts = {(cut["document_id"], str(cut["gold"])): (each["strategy"], cut) for each in broken for cut in each["cuts"]}
    if cuts:
        yield Text("The worst cuts:", style="bold")
    titles = {each.document_id: each.title for each in report.documents}
    for strategy, cut in sorted(cuts.values(), key=lambda each: (each[1]["partial"], -each[1]["pieces"]))[:_WORST]:
        yield from _cut_lines(strategy, cut, titles[cut["document_id"]])


def _probe_table(report: EvaluationReport, judged: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("strategy", overflow="fold")
    for label in ("completeness", "whole", "chunks", "mean tokens"):
        table.add_column(label, justify="right", overflow="fold")
    table.add_column("cut", overflow="fold")
    for each in judged:
        sizes = report.strategy(each["strategy"]).sizes
        broken = [(kind["kind"], kind["total"] - kind["whole"]) for kind in each["kinds"]]
        cells = [
            each["strategy"],
            f"{each['score']:.2f}",
            f"{each['whole']} of {each['total']}",
            "" if sizes is None else f"{sizes.n_chunks:,}",
            "" if sizes is None else f"{sizes.mean:,.0f}",
            ", ".join(f"{kind} {n}" for kind, n in broken if n),
        ]
        table.add_row(*map(Text, cells))
    return table


def _cut_lines(strategy: str, cut: Mapping[str, Any], title: str) -> Iterator[Text]:
    pieces = f"{cut['pieces']} piece{'' if cut['pieces'] == 1 else 's'}"
    yield Text(f"  {title}: {cut['question']}")
    yield Text(f"    {strategy}: {cut['how']}; {pieces}, the best shows {cut['partial']:.0%}", style="dim")
    for place in cut["places"][:_MOST_PLACES]:
        before, after = ("⏎".join(place[side].splitlines()) for side in ("before", "after"))
        yield Text(f"    at {place['position']}: {before} ✂ {after}")


def _number(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def _routes(report: EvaluationReport) -> Iterator[Text]:
    """The winner of each kind, in a line."""
    selection = report.selection
    for route in selection.routes if selection else ():
        value = next((row.value for row in route.rows if row.name == route.strategy), None)
        found = f", {value.mean:.3f} over {_number(route.n_questions, 'question')}" if value else ""
        yield Text(f"{selection.per if selection else ''} {route.kind}: {route.strategy or route.reason}{found}")


def _shown(value: Figure | None, *, with_interval: bool = True) -> str:
    if value is None:
        return ""
    if not with_interval or value.low is None or value.high is None:
        return f"{value.mean:.3f}"
    return f"{value.mean:.3f} {value.low:.2f}–{value.high:.2f}"
