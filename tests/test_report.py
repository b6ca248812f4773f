"""The forms of a report: text, CSV, page data, figures. The page in a browser: test_report_browser.py."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing
from reports import HOSTILE, hostile_report, large_report
from rich.console import Console

from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.evaluation.probes import completeness_probes, probe_completeness
from llama_index_chunking_plus.evaluation.report import (
    answers_csv,
    chunk_map,
    figures,
    html_report,
    probe_data,
    questions_csv,
    recall_against_inflation,
    section_heat_map,
    strategies_csv,
    text_report,
    write_report,
)
from llama_index_chunking_plus.evaluation.report.overview import overview
from llama_index_chunking_plus.evaluation.results import (
    DocumentText,
    EvaluationReport,
    MeasureInfo,
    RunInfo,
    StrategyResult,
)

SAMPLE = Path(__file__).parent / "data" / "evaluation" / "report_sample.json"
RUN = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
EMPTY = EvaluationReport(RUN, (), (), (), ())
FAILED = replace(EMPTY, strategies=(StrategyResult("mine", "parser", "failed", "ValueError: no"),))


@pytest.fixture(scope="module")
def sample() -> EvaluationReport:
    return EvaluationReport.load(SAMPLE)


def shown(report: EvaluationReport, width: int = 160) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(text_report(report))
    return console.export_text()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


class Elements(HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")
            self._in_script = True

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


def data_of(page: str) -> dict:
    return json.loads(Elements(page).scripts[0])


# ------------------------------------------------------------------------------------------------ text and tables


def test_the_terminal_shows_winner_strategies_reasons_and_signals(sample: EvaluationReport) -> None:
    text = shown(sample)
    assert sample.selection is not None
    assert " ".join(text.split()).startswith(sample.selection.reason)
    for row in sample.selection.rows:
        assert row.name in text
    eliminated = next(row for row in sample.selection.rows if row.status == "eliminated")
    assert f"eliminated {eliminated.name}: {eliminated.reason}" in text
    assert all(signal.message[:40] in text for signal in sample.signals)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_cuts_no_figure_off(sample: EvaluationReport, width: int) -> None:
    text = shown(sample, width)
    for strategy in sample.strategies:
        if strategy.cost:
            assert f"{strategy.cost.context_tokens:,.0f}" in text


def test_square_brackets_are_no_markup() -> None:
    assert "[red]no markup[/red]" in shown(hostile_report())


@pytest.mark.parametrize("report", [EMPTY, FAILED], ids=["empty", "failed"])
def test_reports_of_next_to_nothing_have_every_form(report: EvaluationReport, tmp_path: Path) -> None:
    assert "No selection" in shown(report)
    assert len(rows_of(strategies_csv(report))) == len(report.strategies)
    assert rows_of(questions_csv(report)) == rows_of(answers_csv(report)) == []
    assert [each.exists() for each in write_report(report, tmp_path / "new")] == [True] * 5


def test_strategies_as_csv_hold_every_figure(sample: EvaluationReport) -> None:
    rows = {row["strategy"]: row for row in rows_of(strategies_csv(sample))}
    assert list(rows) == [row.strategy.name for row in overview(sample)]
    for strategy in sample.strategies:
        row = rows[strategy.name]
        for name, value in strategy.measures.items():
            assert float(row[name]) == value.mean
            assert row[f"{name}_low"] == ("" if value.low is None else str(value.low))
        assert row["chunks"] == (str(strategy.sizes.n_chunks) if strategy.sizes else "")
    assert "ZeroDivisionError" in rows["broken"]["reason"]


def test_questions_as_csv_have_a_column_for_each_strategy(sample: EvaluationReport) -> None:
    rows = rows_of(questions_csv(sample, "mrr"))
    assert [row["question_id"] for row in rows] == [question.question_id for question in sample.questions]
    for row, question in zip(rows, sample.questions, strict=True):
        assert row["question"] == question.text
        assert {name: float(row[name]) for name in question.answers} == {
            name: answer.measures["mrr"] for name, answer in question.answers.items()
        }


def test_questions_as_csv_have_the_measure_of_the_selection(sample: EvaluationReport) -> None:
    assert questions_csv(sample) == questions_csv(sample, "recall")
    with pytest.raises(OptionError, match="'nothing' is none of recall"):
        questions_csv(sample, "nothing")


def test_answers_as_csv_have_a_row_for_each_question_and_strategy(sample: EvaluationReport) -> None:
    rows = rows_of(answers_csv(sample))
    assert len(rows) == sum(len(question.answers) for question in sample.questions)
    first, name = sample.questions[0], next(iter(sample.questions[0].answers))
    hit = first.answers[name].hits[0]
    assert hit.span is not None
    assert rows[0]["strategy"] == name
    assert rows[0]["retrieved"].split()[0] == f"{hit.document_id}:{hit.span.start}-{hit.span.end}"


@pytest.mark.parametrize("table", [strategies_csv, questions_csv, answers_csv])
def test_no_cell_is_a_formula_or_holds_nul(table) -> None:
    written = table(hostile_report())
    assert "\0" not in written
    for row in csv.reader(io.StringIO(written)):
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_files_are_written_as_told(sample: EvaluationReport, tmp_path: Path) -> None:
    paths = write_report(sample, tmp_path)
    assert [path.name for path in paths] == [
        "report.html",
        "report.json",
        "strategies.csv",
        "questions.csv",
        "answers.csv",
    ]
    assert EvaluationReport.load(paths[1]) == sample
    assert paths[2].read_bytes().startswith(b"\xef\xbb\xbfstrategy,")
    assert paths[0].read_text(encoding="utf-8") == html_report(sample)


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_holds_nothing_but_its_own_elements() -> None:
    plain, hostile = Elements(html_report(EMPTY)), Elements(html_report(hostile_report()))
    assert [tag for tag in hostile.tags if tag not in {"tr", "th", "td"}] == [
        tag for tag in plain.tags if tag not in {"tr", "th", "td"}
    ]
    assert len(hostile.scripts) == 3
    assert not [value for name, value in hostile.attributes if name.startswith("on") or name in {"src", "href"}]


def test_hostile_text_comes_back_as_it_was() -> None:
    data = data_of(html_report(hostile_report()))
    expected = [each.replace("\ud83d", "\ufffd") for each in HOSTILE]
    assert [each["id"] for each in data["documents"]] == expected
    assert [each["text"] for each in data["questions"]] == expected


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_text_comes_back_from_the_page(text: str) -> None:
    page = html_report(replace(EMPTY, documents=(DocumentText("a", text, text, 1),)))
    page.encode()
    kept = re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert data_of(page)["documents"][0]["text"] == kept
    assert len(kept) == len(text)


def test_the_page_names_nothing_outside_of_itself(sample: EvaluationReport) -> None:
    page = html_report(sample)
    for own in Elements(page).scripts[2], page[page.index("<style>") : page.index("</style>")]:
        assert set(re.findall(r"https?://[^\"'\s)]+", own)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|innerHTML|insertAdjacentHTML|eval\(", own)


def test_language_follows_the_documents(sample: EvaluationReport) -> None:
    assert '<html lang="zh">' in html_report(sample)
    latin = replace(EMPTY, documents=(DocumentText("a", "An English text about 北京.", "a", 9),))
    assert '<html lang="en">' in html_report(latin)
    assert '<html lang="zh">' in html_report(latin, language="zh")


def test_every_word_of_the_page_is_there_in_both_languages() -> None:
    labels = json.loads(Elements(html_report(EMPTY)).scripts[1])
    script = Elements(html_report(EMPTY)).scripts[2]
    assert {name for name, each in labels.items() if not each["zh"]} == set()
    only_chinese = ("reason.", "headline", "measure.", "how.", "signal.")  # the evaluation's own sentences are English
    assert {name for name, each in labels.items() if not each["en"] and not name.startswith(only_chinese)} == set()
    used = set(re.findall(r'\b(?:t|words)\("([^"$]+)"', script))
    assert used <= set(labels), used - set(labels)
    holes = re.compile(r"\{\w+%?\}")
    for name, each in labels.items():
        if each["en"]:
            assert set(holes.findall(each["en"])) == set(holes.findall(each["zh"])), name


def test_documents_beyond_the_limit_are_named_without_text(sample: EvaluationReport) -> None:
    sizes = [len(each.text) for each in sample.documents]
    data = data_of(html_report(sample, max_characters=sizes[0] + 10))
    assert [each["text"] is not None for each in data["documents"]] == [True, False, False]
    assert [each["characters"] for each in data["documents"]] == sizes
    assert {place for strategy in data["strategies"] for place in strategy["chunks"]} == {"0"}
    assert len(data["questions"]) == len(sample.questions)


def test_documents_with_questions_come_first(sample: EvaluationReport) -> None:
    unasked = DocumentText("unasked.md", sample.documents[0].text, "unasked.md", 1)
    report = replace(sample, documents=(unasked, *sample.documents))
    data = data_of(html_report(report, max_characters=len(unasked.text)))
    assert [each["id"] for each in data["documents"] if each["text"] is not None] == [sample.documents[0].document_id]


def test_a_large_report_makes_a_page_that_can_be_mailed() -> None:
    page = html_report(large_report())
    assert len(page.encode()) < 8_000_000


@pytest.mark.parametrize("options", [{"language": "fr"}, {"max_characters": -1}])
def test_wrong_options_of_the_page(options: dict) -> None:
    with pytest.raises(OptionError, match=r"en|at least 0"):
        html_report(EMPTY, **options)


def test_what_is_no_number_does_not_break_the_page() -> None:
    strategy = StrategyResult(
        "a", "parser", "ok", configuration={"x": float("nan"), "y": object()}, inflation=float("inf")
    )
    report = replace(EMPTY, strategies=(strategy,), measures=(MeasureInfo("recall", "Recall", True, "question"),))
    kept = data_of(html_report(report))["strategies"][0]
    assert kept["inflation"] is None
    assert kept["configuration"]["x"] is None


def test_probes_as_data_are_what_the_probe_report_says() -> None:
    text = "# 连接\n\n| 参数 | 默认值 |\n|--|--|\n| 重试次数 | 三次，每次间隔两秒 |\n| 超时 | 三十秒 |\n"
    probes = completeness_probes({"guide.md": text}, min_length=20)
    cut = text.index("| 超时")
    report = probe_completeness({"guide.md": [(0, cut), (cut, len(text))]}, probes, strategy="mine")
    data = json.loads(json.dumps(probe_data([report], worst=1)))
    (told,) = data["strategies"]
    assert (told["strategy"], told["score"], told["whole"], told["total"]) == ("mine", 0.5, 1, 2)
    assert told["kinds"][0]["score"] == 0.5
    (worst,) = told["cuts"]
    assert worst["how"] == "header row and data row in different chunks"
    place = worst["places"][0]
    assert text[place["position"] :].startswith(place["after"])
    assert EvaluationReport.from_json(EMPTY.with_probes(data).to_json()).probes == data


# ------------------------------------------------------------------------------------------------ figures


def labels(figure: Drawing) -> set[str]:
    texts = figure.findobj(match=lambda artist: hasattr(artist, "get_text"))
    return {text.get_text() for text in texts if text.get_text()}


def test_recall_against_inflation_has_a_point_for_each_strategy(sample: EvaluationReport) -> None:
    figure = recall_against_inflation(sample)
    drawn = {each.name for each in sample.strategies if each.inflation is not None}
    assert drawn | {"limit 1.5", "Recall@5"} <= labels(figure)
    points = {tuple(each.get_offsets()[0].tolist()) for each in figure.axes[0].collections}
    assert points == {(each.inflation, each.measures["recall"].mean) for each in sample.strategies if each.inflation}


@pytest.mark.parametrize("by", ["section", "tag", "document"])
def test_heat_map_has_a_cell_for_each_strategy_and_part(sample: EvaluationReport, by: str) -> None:
    figure = section_heat_map(sample, by=by)
    strategies = [row.strategy for row in overview(sample) if row.strategy.status == "ok"]
    expected = [[group.measures["recall"].mean for group in getattr(each, f"by_{by}")] for each in strategies]
    names = [group.name for group in getattr(strategies[0], f"by_{by}")]
    assert [[group.name for group in getattr(each, f"by_{by}")] for each in strategies] == [names] * len(strategies)
    assert figure.axes[0].images[0].get_array().tolist() == expected


def test_chunk_map_has_a_bar_for_each_chunk(sample: EvaluationReport) -> None:
    document = sample.documents[1].document_id
    figure = chunk_map(sample, document, ["structured"])
    spans = next(each.spans for each in sample.strategy("structured").chunks if each.document_id == document)
    bars = [path.get_extents() for each in figure.axes[0].collections for path in each.get_paths()]
    assert sorted((int(bar.x0), int(bar.x1)) for bar in bars) == sorted(spans)


def test_chunks_that_overlap_are_drawn_in_different_lanes() -> None:
    report = large_report(1, 1, 1)
    figure = chunk_map(report, "doc-000.md")
    bars = [path.get_extents() for each in figure.axes[0].collections for path in each.get_paths()]
    for one in bars:
        for other in bars:
            if one is not other:
                across = min(one.x1, other.x1) - max(one.x0, other.x0)
                along = min(one.y1, other.y1) - max(one.y0, other.y0)
                assert across <= 0 or along <= 0


def chinese(report: EvaluationReport) -> EvaluationReport:
    """The report with Chinese names."""
    strategies = tuple(replace(each, name=f"滑动窗口 {each.name}") for each in report.strategies)
    return replace(report, strategies=strategies, selection=None)


def test_names_no_font_can_show_become_numbers_with_one_warning(sample: EvaluationReport, monkeypatch) -> None:
    monkeypatch.setattr(figures, "_chinese_fonts", tuple)
    with pytest.warns(ChunkingPlusWarning, match="1 = 滑动窗口 sliding 120, 2 = ") as caught:
        figure = section_heat_map(chinese(sample))
    assert len(caught) == 1
    assert {"1", "2"} <= labels(figure)
    assert not [text for text in labels(figure) if "滑" in text]
    figure.canvas.draw()  # warns of every glyph that is missing, and warnings are errors


@pytest.mark.skipif(not figures._chinese_fonts(), reason="no font with Chinese is installed")
def test_names_are_shown_in_a_font_that_has_them(sample: EvaluationReport) -> None:
    for figure in (
        section_heat_map(chinese(sample)),
        chunk_map(chinese(sample), "contract.md"),
        recall_against_inflation(chinese(sample)),
    ):
        assert [text for text in labels(figure) if "滑动窗口" in text]
        figure.canvas.draw()  # warns of every glyph that is missing, and warnings are errors


def test_figures_leave_nothing_behind(sample: EvaluationReport) -> None:
    before = dict(mpl.rcParams)
    chunk_map(sample, "contract.md")
    section_heat_map(sample)
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    "wrong,said",
    [
        (lambda report: recall_against_inflation(report, "nothing"), "'nothing' is none of recall"),
        (lambda report: section_heat_map(report, by="page"), "by='page'; it must be \"section\""),
        (lambda report: chunk_map(report, "missing.md"), "'missing.md' is none of the report's documents"),
        (lambda report: chunk_map(report, "contract.md", ["broken"]), r"\['broken'\]: chunks are known of"),
        (lambda _: recall_against_inflation(EMPTY), "of which there are none"),
    ],
)
def test_wrong_options_of_figures(sample: EvaluationReport, wrong, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        wrong(sample)


@pytest.mark.parametrize("name", HOSTILE[:6])
def test_formulas_in_names_are_text(sample: EvaluationReport, name: str) -> None:
    strategies = tuple(replace(each, name=f"$\\frac${name}{each.name}") for each in sample.strategies)
    recall_against_inflation(replace(sample, strategies=strategies, selection=None)).canvas.draw()


def test_a_document_without_chunks_can_be_mapped() -> None:
    report = replace(large_report(1, 1, 1), questions=())
    strategies = tuple(replace(each, chunks=(replace(each.chunks[0], spans=()),)) for each in report.strategies)
    chunk_map(replace(report, strategies=strategies), "doc-000.md").canvas.draw()
