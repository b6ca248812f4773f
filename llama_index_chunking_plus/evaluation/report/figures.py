"""Figures for notebooks: matplotlib ``Figure`` objects, returned and never shown, with no state kept anywhere else.

The module needs matplotlib. Labels in Chinese take a font that has the characters; where none is installed, numbers
stand for the labels, and a warning says what each stands for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from math import isnan
from typing import Literal

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, MissingExtraError, OptionError
from llama_index_chunking_plus.evaluation.report.overview import deciding_measure, overview
from llama_index_chunking_plus.evaluation.results import EvaluationReport, Group, MeasureInfo, StrategyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
    from matplotlib.ft2font import FT2Font
except ImportError as error:
    raise MissingExtraError("matplotlib", "report") from error

_FONTS = (  # that have Chinese; a collection is known by its first font, often the Japanese one
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Microsoft YaHei",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Hiragino Sans GB",
    "Heiti TC",
    "Heiti SC",
    "STHeiti",
    "SimHei",
    "SimSun",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "AR PL UMing CN",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Noto Serif CJK SC",
    "Noto Serif CJK JP",
)
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # told apart with any colour vision (Okabe and Ito, 2008)
_GOLD, _GREY = "#d55e00", "#6b7280"
_DARK = 0.75  # from which white is easier to read than black
_MOST_LANES = 4  # of overlapping chunks; the rest share the last one


def recall_against_inflation(report: EvaluationReport, measure: str | None = None) -> Figure:
    """What each strategy finds against the tokens that it takes: the winner filled, the limit as a dashed line.

    Strategies that failed or whose inflation is not known, retrievers, are left out.

    Args:
        report: what an evaluation found.
        measure: the vertical axis, by its name in the report; None: the measure that the selection maximised.

    Raises:
        OptionError: the report has no such measure.
    """
    info = _measure(report, measure)
    rows = [
        row for row in overview(report) if row.strategy.inflation is not None and info.name in row.strategy.measures
    ]
    names = _Labels([row.strategy.name for row in rows])
    axes = _axes(7.2, 4.6)
    for row in rows:
        _point(axes, row.strategy, info.name, row.status == "selected", names)
    limit = report.selection.limits.get("max_inflation") if report.selection else None
    if limit is not None:
        axes.axvline(limit, color=_GREY, linestyle="--", linewidth=1)
        axes.annotate(
            f"limit {limit:g}", (limit, 0.02), (4, 0), ("data", "axes fraction"), "offset points", color=_GREY
        )
    axes.margins(x=0.18, y=0.12)
    axes.set_xlabel("Inflation (tokens of all chunks / tokens of the documents)")
    axes.set_ylabel(info.label)
    return _finished(axes, names)


def _point(axes: Axes, strategy: StrategyResult, measure: str, is_winner: bool, names: _Labels) -> None:
    """A strategy with its interval; the winner's name stands above its point, the others below theirs."""
    value, x = strategy.measures[measure], strategy.inflation or 0.0
    colour = _COLOURS[0] if is_winner else _GREY
    if value.low is not None and value.high is not None:
        axes.plot([x, x], [value.low, value.high], color=colour, linewidth=1, alpha=0.5)
    axes.scatter([x], [value.mean], s=70 if is_winner else 36, color=colour if is_winner else "white", edgecolor=colour)
    axes.annotate(
        names[strategy.name],
        (x, value.mean),
        xytext=(7, 5 if is_winner else -12),
        textcoords="offset points",
        fontproperties=names.font,
        color=colour if is_winner else "black",
    )


def section_heat_map(
    report: EvaluationReport, measure: str | None = None, *, by: Literal["section", "tag", "document"] = "section"
) -> Figure:
    """A measure for each strategy and each part of the questions; darker is more.

    Args:
        report: what an evaluation found.
        measure: by its name in the report; None: the measure that the selection maximised.
        by: what divides the questions.

    Raises:
        OptionError: the report has no such measure, or ``by`` is something else.
    """
    info = _measure(report, measure)
    if by not in {"section", "tag", "document"}:
        raise OptionError(f'by={by!r}; it must be "section", "tag" or "document"')
    strategies = [row.strategy for row in overview(report) if row.strategy.status == "ok"]
    groups = [{group.name: group for group in getattr(each, f"by_{by}")} for each in strategies]
    parts = list(dict.fromkeys(name for each in groups for name in each))
    values = [[_mean(each, part, info.name) for part in parts] for each in groups]
    names, columns = _Labels([each.name for each in strategies]), _Labels(parts)
    axes = _axes(2.6 + 1.1 * max(1, len(parts)), 1.4 + 0.42 * max(1, len(strategies)))
    if values and parts:
        image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.figure.colorbar(image, ax=axes, label=info.label)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if not isnan(value):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > _DARK else "black")
    _ticks(axes, columns, names)
    return _finished(axes, names, columns)


def _mean(groups: dict[str, Group], part: str, measure: str) -> float:
    figure = groups[part].measures.get(measure) if part in groups else None
    return figure.mean if figure else float("nan")


def chunk_map(report: EvaluationReport, document_id: str, strategies: Sequence[str] | None = None) -> Figure:
    """The chunks of one document as bars over its characters, a row for each strategy; gold ranges as bands behind.

    Chunks that overlap stand in lanes under one another.

    Args:
        report: what an evaluation found.
        document_id: the document.
        strategies: the rows, by name; None: all whose chunks are known.

    Raises:
        OptionError: the report does not know the document or a strategy, or not its chunks.
    """
    document = next((each for each in report.documents if each.document_id == document_id), None)
    if document is None:
        known = ", ".join(repr(each.document_id) for each in report.documents[:5])
        raise OptionError(f"document_id={document_id!r} is none of the report's documents: {known}, …")
    chosen = _mapped(report, strategies)
    names = _Labels([each.name for each in chosen])
    axes = _axes(9.0, 1.0 + 0.6 * max(1, len(chosen)))
    for question in report.questions:
        for span in question.gold if question.document_id == document_id else ():
            axes.axvspan(span.start, span.end, color=_GOLD, alpha=0.25, linewidth=0)
    for row, strategy in enumerate(chosen):
        spans = [span for each in strategy.chunks if each.document_id == document_id for span in each.spans]
        _bars(axes, row, spans)
    axes.set_yticks(range(len(chosen)), names.shown, fontproperties=names.font)
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    axes.set_xlim(0, max(1, len(document.text)))
    axes.set_xlabel("Characters; gold ranges are the bands")
    return _finished(axes, names)


def _mapped(report: EvaluationReport, names: Sequence[str] | None) -> list[StrategyResult]:
    """The strategies with chunks, those of the names in their order."""
    known = {row.strategy.name: row.strategy for row in overview(report) if row.strategy.chunks}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise OptionError(f"strategies={unknown!r}: chunks are known of {', '.join(map(repr, known))} only")
    return list(known.values()) if names is None else [known[name] for name in names]


def _bars(axes: Axes, row: int, spans: Iterable[Span]) -> None:
    """The chunks of a strategy, each in the first lane that is free."""
    ends: list[int] = []
    placed: list[tuple[int, Span]] = []
    for span in sorted(spans):
        lane = next((i for i, end in enumerate(ends) if end <= span.start), min(len(ends), _MOST_LANES - 1))
        ends[lane : lane + 1] = [span.end]
        placed.append((lane, span))
    height = 0.7 / max(1, len(ends))
    for place, (lane, span) in enumerate(placed):
        bar = [(span.start, span.end - span.start)]
        colour = _COLOURS[place % len(_COLOURS)]
        axes.broken_barh(
            bar, (row - 0.35 + lane * height, height * 0.9), color=colour, edgecolor="white", linewidth=0.4
        )


# ------------------------------------------------------------------------------------------------ shared


def _measure(report: EvaluationReport, name: str | None) -> MeasureInfo:
    known = {info.name: info for info in report.measures if info.name != "inflation"}
    info = deciding_measure(report) if name is None else known.get(name)
    if info is None:
        raise OptionError(f"measure={name!r} is none of {', '.join(known) or 'the measures, of which there are none'}")
    return info


def _axes(width: float, height: float) -> Axes:
    """Axes of a new figure that nothing else holds, sizes in inches."""
    axes = Figure(figsize=(width, height), layout="constrained").add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _ticks(axes: Axes, columns: _Labels, rows: _Labels) -> None:
    axes.set_xticks(range(len(columns.shown)), columns.shown, fontproperties=columns.font, rotation=30, ha="right")
    axes.set_yticks(range(len(rows.shown)), rows.shown, fontproperties=rows.font)


def _finished(axes: Axes, *labels: _Labels) -> Figure:
    """The figure, with one warning for all labels that no font can show."""
    stands_for = "; ".join(each.legend for each in labels if each.legend)
    if stands_for:
        axes.set_title("Numbers stand for names that no installed font can show", fontsize="small", color=_GREY)
        warnings.warn(
            f"no installed font has all characters of the labels, so numbers stand for them: {stands_for}. Install a "
            "font with Chinese, such as Noto Sans CJK.",
            ChunkingPlusWarning,
            stacklevel=3,
        )
    figure = axes.get_figure()
    if not isinstance(figure, Figure):  # of another one, that is; these axes are of their own
        raise TypeError
    return figure


class _Labels:
    """Names as a figure can show them, and the font that can."""

    def __init__(self, names: Sequence[str]) -> None:
        font = _font_with("".join(names))
        self._shown = {name: str(i) if font is None else name for i, name in enumerate(names, start=1)}
        self.font = FontProperties(fname=font or _USUAL)
        self.legend = ", ".join(f"{i} = {name}" for name, i in self._shown.items()) if font is None else ""

    def __getitem__(self, name: str) -> str:
        return self._shown[name].replace("$", r"\$")  # no formula

    @property
    def shown(self) -> list[str]:
        """All of them, in order."""
        return [self[name] for name in self._shown]


_USUAL = findfont("DejaVu Sans")  # comes with matplotlib


def _font_with(text: str) -> str | None:
    """The file of a font that has all characters of a text; None if there is none."""
    wanted = {ord(char) for char in text if char.isprintable()}
    fonts = (_USUAL,) if wanted <= _characters(_USUAL) else _chinese_fonts()
    return next((font for font in fonts if wanted <= _characters(font)), None)


@cache
def _chinese_fonts() -> tuple[str, ...]:
    """The files of fonts with Chinese, the best first; also of those installed since matplotlib last looked."""
    regular = 400
    known = [(each.name, each.fname) for each in fontManager.ttflist if each.weight in {regular, "normal", "regular"}]
    found = [*known, *_unseen({each.fname for each in fontManager.ttflist})]
    return tuple(file for name in _FONTS for family, file in found if family == name)


def _unseen(known: set[str]) -> Iterator[tuple[str, str]]:
    """Family and file of the fonts on this computer that matplotlib's list lacks."""
    for file in sorted(set(findSystemFonts()) - known):
        with suppress(OSError, RuntimeError):  # no font that matplotlib reads
            font = FT2Font(file)
            if font.style_name == "Regular":
                yield font.family_name, file


@cache
def _characters(file: str) -> frozenset[int]:
    return frozenset(FT2Font(file).get_charmap())
