"""The page in a real browser, from disk: what is on it, what it does, and that nothing else happens."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from reports import HOSTILE, hostile_report, large_report
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.evaluation.probes import completeness_probes, probe_completeness
from llama_index_chunking_plus.evaluation.report import html_report, probe_data
from llama_index_chunking_plus.evaluation.results import DocumentText, EvaluationReport, RunInfo
from llama_index_chunking_plus.evaluation.selector import StrategySelector

SAMPLE = Path(__file__).parent / "data" / "evaluation" / "report_sample.json"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)

pytestmark = pytest.mark.skipif(
    (CHROMIUM is None or DRIVER is None) and not os.environ.get("CI"), reason="chromium and chromedriver are not here"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    assert CHROMIUM, "install chromium"
    assert DRIVER, "install chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """A report that is open."""

    def __init__(self, driver: WebDriver, path: Path) -> None:
        self.driver = driver
        self.path = path

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text, also of what is not in view."""
        return str(self.one(selector).get_property("textContent"))

    def click(self, element: WebElement | str) -> None:
        found = self.one(element) if isinstance(element, str) else element
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def choose(self, selector: str, name: str) -> None:
        Select(self.one(selector)).select_by_visible_text(name)

    def column(self, selector: str) -> list[str]:
        return [str(each.get_property("textContent")) for each in self.all(selector)]

    def ids(self) -> list[str]:
        """The questions on the page."""
        return self.column("#questions tr.question .chips span:first-child")

    def style(self, selector: str, name: str) -> str:
        return self.one(selector).value_of_css_property(name)


Open = Callable[..., Page]


@pytest.fixture
def open_page(chromium: WebDriver, tmp_path: Path) -> Iterator[Open]:
    """Opens a report; at the end nothing may have been said in the console, nor asked of the network."""
    addresses = set()

    def opened(report: EvaluationReport, **options) -> Page:
        path = tmp_path / f"报告 {len(addresses)}.html"
        path.write_text(html_report(report, **options), encoding="utf-8")
        chromium.get(path.as_uri())
        addresses.add(path.as_uri())
        return Page(chromium, path)

    chromium.get("about:blank")
    chromium.get_log("browser"), chromium.get_log("performance")
    yield opened
    assert chromium.get_log("browser") == []
    events = [json.loads(each["message"])["message"] for each in chromium.get_log("performance")]
    asked = {each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"}
    assert asked <= addresses | {"about:blank"}
    assert asked


@pytest.fixture(scope="module")
def sample() -> EvaluationReport:
    return EvaluationReport.load(SAMPLE)


# ------------------------------------------------------------------------------------------------ what is there


def test_the_page_shows_the_winner_every_strategy_and_why(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    selection = sample.selection
    assert selection is not None
    assert page.text("#winner .name") == selection.selected_strategy
    assert page.text("#winner .why") == selection.reason
    assert page.column("#strategies .label") == [row.name for row in selection.rows]
    assert page.column("#strategies th .reason:nth-of-type(3)") == [row.reason for row in selection.rows]
    first = page.text("#strategies tbody td.number")
    assert first == f"{sample.strategy(selection.rows[0].name).measures['recall'].mean:.3f}"
    assert [part.kind for part in selection.routes] == page.column("#winner tbody th")


def test_signals_notes_and_circumstances_are_there(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    assert page.column("#signals .card > p:nth-of-type(2)") == [signal.message for signal in sample.signals]
    assert page.column("#signals .remedy") == [f"What to try: {signal.remedy}" for signal in sample.signals]
    assert all(note.message in page.text("#notes") for note in sample.notes)
    method = page.text("#method")
    assert all(fact in method for fact in (sample.run.embed_model, sample.run.date, *sample.run.versions.values()))


def test_the_chart_has_a_labelled_point_for_each_strategy(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    drawn = {each.name for each in sample.strategies if each.inflation is not None}
    assert set(page.column("svg .name")) == drawn
    assert len(page.all("svg .point")) == len(drawn)
    assert page.column("svg .selected .name") == [sample.selection.selected_strategy if sample.selection else None]
    assert page.text("svg .limit-label") == "limit 1.5"
    places = {each.get_property("textContent"): each for each in page.all("svg .name")}
    boxes = [page.driver.execute_script("return arguments[0].getBBox()", each) for each in places.values()]
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert apart or abs(one["y"] - other["y"]) > 8


BOXES = """
const box = (each, margin = 0) => { const { x, y, width, height } = each.getBBox(); return [x - margin, y - margin, x + width + margin, y + height + margin]; };
return [[...document.querySelectorAll("svg .name")].map((each) => [each.textContent, ...box(each)]),
        [...document.querySelectorAll("svg .point, svg .whisker")].map((each) => box(each))];
"""


def crowded_report() -> EvaluationReport:
    """Twelve strategies with next to the same figures."""
    report = large_report(3, 40, 12)
    strategies = tuple(replace(each, inflation=1.0 + 0.001 * i) for i, each in enumerate(report.strategies))
    return replace(report, strategies=strategies)


def test_names_in_the_chart_hide_no_point_and_no_name(open_page: Open) -> None:
    page = open_page(crowded_report(), language="en")
    names, drawn = page.driver.execute_script(BOXES)
    assert len(names) == 12
    for name, *box in names:
        others = [other for also, *other in names if also != name]
        touched = [
            each
            for each in (*others, *drawn)
            if min(box[2], each[2]) - max(box[0], each[0]) > 1 and min(box[3], each[3]) - max(box[1], each[1]) > 4
        ]
        assert touched == [], name


def test_a_tie_with_a_higher_figure_is_said_beside_the_winner(open_page: Open, sample: EvaluationReport) -> None:
    tied = StrategySelector(tolerance=0.5, max_inflation=None).select(sample)
    won, best = tied.rows[0], next(row for row in tied.rows if row.status == "tied" and row.difference is None)
    assert won.value is not None
    assert best.value is not None
    assert won.value.mean < best.value.mean
    page = open_page(sample.with_selection(tied), language="zh")
    assert page.text("#winner .tie").startswith(
        f"并列：{best.name} 的召回率@5更好（{best.value.mean:.3f} 对 {won.value.mean:.3f}）"
    )
    page.click("#language")
    assert page.text("#winner").count(f"{best.value.mean:.3f}") == 1, "the headline says it, so nothing else does"
    assert open_page(sample, language="zh").all("#winner .tie") == []


def test_the_heat_map_has_the_figures_of_the_chosen_measure_and_parts(
    open_page: Open, sample: EvaluationReport
) -> None:
    page = open_page(sample, language="en")
    page.choose("#heat-measure", "MRR@5")
    page.choose("#heat-by", "Tags")
    rows = sample.selection.rows if sample.selection else ()
    strategies = [sample.strategy(row.name) for row in rows if row.status != "failed"]
    tags = [group.name for group in strategies[0].by_tag]
    assert page.column("#heatmap thead th") == [each.name for each in strategies]
    for i, tag in enumerate(tags, start=2):
        means = [next(g for g in each.by_tag if g.name == tag).measures["mrr"].mean for each in strategies]
        assert page.column(f"#heatmap tbody tr:nth-child({i}) td") == [f"{mean:.2f}" for mean in means]


def test_columns_sort(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    heads = page.column("#strategies thead th")
    head = f"#strategies thead th:nth-child({heads.index('Chunks') + 1}) button"
    page.click(head)
    cells = page.column(f"#strategies tbody td:nth-child({heads.index('Chunks') + 1})")
    known = [int(cell.replace(",", "")) for cell in cells if cell]
    assert known == sorted(known, reverse=True)
    assert cells[len(known) :] == [""] * (len(cells) - len(known))
    page.click(head)
    assert page.all("#strategies [aria-sort='ascending']")


def test_probes_show_scores_and_the_worst_cuts(open_page: Open, sample: EvaluationReport) -> None:
    probes = completeness_probes({each.document_id: each.text for each in sample.documents})
    found = [
        probe_completeness({part.document_id: part.spans for part in each.chunks}, probes, strategy=each.name)
        for each in sample.strategies
        if each.chunks
    ]
    page = open_page(sample.with_probes(probe_data(found)), language="en")
    scores = dict(zip(page.column("#probes tbody th"), page.column("#probes td:nth-child(2)"), strict=True))
    assert scores == {each.strategy: f"{each.score:.2f}" for each in found}
    worst = next(each for each in found if each.strategy == "sliding 40").cuts[0]
    card = next(each for each in page.all("#probes .card") if "sliding 40" in each.text)
    assert worst.how in card.get_property("textContent")
    assert worst.places[0].before + " ✂ " + worst.places[0].after in card.get_property("textContent")


# ------------------------------------------------------------------------------------------------ questions


def test_filters_of_questions(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    assert page.ids() == [question.question_id for question in sample.questions]

    def expected(keep) -> list[str]:
        return [question.question_id for question in sample.questions if keep(question)]

    page.choose("#question-strategy", "sliding 40")
    page.click("#question-failed")
    fails = expected(lambda question: question.answers["sliding 40"].measures["recall"] < 1)
    assert page.ids() == fails
    assert page.text("#question-count") == f"{len(fails)} of {len(sample.questions)} questions"
    page.click("#question-cut")
    assert page.ids() == [each for each in fails if each in expected(lambda q: q.answers["sliding 40"].cuts)]
    page.click("#question-failed")
    page.click("#question-cut")
    page.choose("#question-section", "code")
    assert page.ids() == expected(lambda question: question.section == "code")
    page.choose("#question-section", "any")
    page.choose("#question-tag", "long")
    assert page.ids() == expected(lambda question: "long" in question.tags)
    page.choose("#question-tag", "any")
    page.one("#question-search").send_keys("E4102")
    assert page.ids() == expected(lambda question: "E4102" in question.text)
    page.one("#question-search").send_keys(" nothing has this")
    assert page.ids() == []
    assert "No question fits" in page.text("#question-list")


def test_a_question_shows_what_was_retrieved_and_where_gold_was_cut(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    place, question = next((i, each) for i, each in enumerate(sample.questions) if each.answers["sliding 40"].cuts)
    opener = page.all("#questions .opener")[place]
    page.click(opener)
    assert opener.get_attribute("aria-expanded") == "true"
    text = next(each.text for each in sample.documents if each.document_id == question.document_id)
    assert page.column(".gold-text") == [span.of(text) for span in question.gold]
    card = next(each for each in page.all(".detail .card") if each.text.startswith("sliding 40"))
    answer = question.answers["sliding 40"]
    assert f"gold cut at {', '.join(str(at) for cut in answer.cuts for at in cut.at)}" in card.text
    hits = [each.text for each in card.find_elements(By.CSS_SELECTOR, ".hits li")]
    for rank, (hit, shown) in enumerate(zip(answer.hits, hits, strict=True), start=1):
        assert hit.span is not None
        assert shown.startswith(f"{rank}. {hit.document_id} {hit.span.start}–{hit.span.end}")
        same = hit.document_id == question.document_id
        whole = same and any(hit.span.start <= each.start and each.end <= hit.span.end for each in question.gold)
        part = same and any(hit.span.start < each.end and each.start < hit.span.end for each in question.gold)
        assert ("gold whole" in shown, "part of the gold" in shown) == (whole, part and not whole)
    page.click(opener)
    assert not page.all(".detail:not([hidden])")


def test_a_question_leads_to_its_document(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    question = sample.questions[0]
    page.click(page.all("#questions .opener")[0])
    card = next(each for each in page.all(".detail .card") if each.text.startswith("sliding 40"))
    page.click(card.find_element(By.TAG_NAME, "button"))
    assert Select(page.one("#viewer-document")).first_selected_option.text == question.document_id
    assert Select(page.one("#viewer-left")).first_selected_option.text == "sliding 40"
    text = next(each.text for each in sample.documents if each.document_id == question.document_id)
    assert "".join(page.column(".pane:first-child mark")) == "".join(span.of(text) for span in question.gold)
    assert page.all(".pane:first-child .text mark")[0].is_displayed()


# ------------------------------------------------------------------------------------------------ the chunk viewer


def seen(page: Page, side: int) -> list[tuple[int, str, str]]:
    """Place, class and text of the pieces of a pane."""
    pieces = page.all(f".pane:nth-child({side + 1}) [data-at]")
    return [
        (
            int(each.get_attribute("data-at") or 0),
            each.get_attribute("class") or "",
            str(each.get_property("textContent")),
        )
        for each in pieces
    ]


@pytest.mark.parametrize("name", ["sliding 40", "sliding 200/150"])
def test_the_viewer_shows_the_text_with_its_chunks_and_overlaps(
    open_page: Open, sample: EvaluationReport, name: str
) -> None:
    page = open_page(sample, language="en")
    document = sample.documents[0]
    page.choose("#viewer-document", document.title)
    page.choose("#viewer-left", name)
    pieces = seen(page, 0)
    spans = next(each.spans for each in sample.strategy(name).chunks if each.document_id == document.document_id)
    for at, kind, text in pieces:
        assert document.text[at:].startswith(text)
        covering = {sum(span.start <= i < span.end for span in spans) for i in range(at, at + len(text))}
        assert len(covering) == 1
        count = covering.pop()
        assert kind == ("overlap" if count > 1 else "one" if count else "none" if text.strip() else "")
    assert all(one[0] + len(one[2]) == other[0] for one, other in pairwise(pieces))
    ticks = page.column(".pane:first-child .tick")
    assert len(ticks) == len({span.start for span in spans if span.start < pieces[-1][0] + len(pieces[-1][2])})


def test_the_pages_of_the_viewer_are_the_whole_document(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    document = max(sample.documents, key=lambda each: len(each.text))
    page.choose("#viewer-document", document.title)
    text = ""
    while True:
        text += "".join(each for _, _, each in seen(page, 0))
        onward = page.all("#viewer .pager button")
        if not onward or not onward[1].is_enabled():
            break
        page.click(onward[1])
    assert text == document.text


def test_two_strategies_stand_side_by_side_with_their_cuts(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    document = sample.documents[0]
    page.choose("#viewer-document", document.title)
    page.choose("#viewer-left", "structured")
    page.choose("#viewer-right", "sliding 40")
    left, right = page.all(".pane")
    assert abs(left.rect["y"] - right.rect["y"]) < 1
    asked = [each for each in sample.questions if each.document_id == document.document_id]
    cuts = {at for each in asked for cut in each.answers["sliding 40"].cuts for at in cut.at}
    assert cuts
    marks = [int((each.get_attribute("title") or "").split()[-1]) for each in page.all(".pane:last-child .cut")]
    end = seen(page, 1)[-1]
    assert marks == sorted(at for at in cuts if at < end[0] + len(end[2]))
    assert page.all(".pane:first-child .cut") == []
    buttons = [each.find_element(By.TAG_NAME, "button") for each in (left, right)]
    assert [each.is_enabled() for each in buttons] == [False, True]
    page.click(buttons[1])
    box, cut = page.one(".pane:last-child .text").rect, page.one(".pane:last-child .cut.current").rect
    assert box["y"] <= cut["y"] <= box["y"] + box["height"] - cut["height"]
    page.choose("#viewer-right", "(none)")
    assert len(page.all(".pane")) == 1


def test_ranges_count_code_points(open_page: Open) -> None:
    report = hostile_report()
    page = open_page(report, language="en")
    text = report.documents[0].text.replace("\ud83d", "\ufffd")
    assert "".join(each for _, _, each in seen(page, 0)) == text
    starts = [at for at, _, _ in seen(page, 0)]
    assert {30, 35, 40, 45} <= set(starts)
    piece = next(each for at, _, each in seen(page, 0) if at == 35)
    assert piece == text[35 : 35 + len(piece)]


# ------------------------------------------------------------------------------------------------ language, theme, reach


def test_the_language_can_be_changed(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample)
    assert page.one("html").get_attribute("lang") == "zh"
    chinese = page.text("body > #page")
    assert "选中的策略" in chinese
    assert not re.search(r"Recall|Selected|Failed:|\{\w+\}", page.text("#winner") + page.text("#strategies thead"))
    page.one("#question-search").send_keys("E4102")
    page.click("#language")
    assert page.one("html").get_attribute("lang") == "en"
    assert page.driver.title == "Chunking report"
    assert len(page.ids()) == 1, "filters stay"
    own = page.text("#winner") + page.text("#strategies thead") + page.text("#method") + page.text("nav")
    assert not re.search(r"[\u4e00-\u9fff]|\{\w+\}", own)
    page.click("#language")
    assert page.text("#winner .eyebrow") == "选中的策略"


def luminance(colour: str) -> float:
    """Of WCAG 2.1."""
    red, green, blue = (int(each) / 255 for each in re.findall(r"\d+", colour)[:3])
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (colour, below = "rgb(0 0 0)") => {
  for (const each of [below, colour]) { canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1); }
  return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)].join(" ");
};
const ground = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return rgb(colour);
  }
  return rgb("white");
};
const texts = [...document.querySelectorAll("main *, header *")].filter((each) =>
  !each.closest("svg, button:disabled, .text, option") && [...each.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
return texts.map((each) => [each.textContent.slice(0, 40), rgb(getComputedStyle(each).color), ground(each)]);
"""


@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_both_themes_follow_the_system_can_be_changed_and_are_readable(
    open_page: Open, sample: EvaluationReport, chromium: WebDriver, preferred: str
) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": preferred}]}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    page = open_page(sample)
    is_dark = luminance(page.style("body", "background-color")) < 0.1
    assert is_dark == (preferred == "dark")
    page.click("#questions .opener")
    for _ in range(2):
        texts = page.driver.execute_script(CONTRASTS)
        assert len(texts) > 200
        assert [each for each in texts if contrast(each[1], each[2]) < 4.5] == []
        page.click("#theme")
    assert (luminance(page.style("body", "background-color")) < 0.1) == is_dark
    page.click("#theme")
    assert (luminance(page.style("body", "background-color")) < 0.1) != is_dark


def test_the_keyboard_reaches_and_works_everything(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    body = page.one("body")
    body.send_keys(Keys.TAB)
    assert page.driver.switch_to.active_element.get_attribute("class") == "skip"
    page.one("#questions .opener").send_keys(Keys.ENTER)
    assert page.all(".detail:not([hidden])")
    page.one("#language").send_keys(Keys.SPACE)
    assert page.driver.switch_to.active_element.get_attribute("id") == "language"
    unnamed = page.driver.execute_script(
        "return [...document.querySelectorAll('button, select, input')].filter((each) => !(each.textContent.trim() || each.labels?.length)).length"
    )
    assert unnamed == 0
    assert (
        page.driver.execute_script("return [...document.querySelectorAll('th')].filter((th) => !th.scope).length") == 0
    )


def test_a_narrow_window_does_not_scroll_sideways(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample)
    page.driver.set_window_size(500, 900)
    width, room = page.driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    page.driver.set_window_size(1280, 900)
    assert width <= room


# ------------------------------------------------------------------------------------------------ hostile, large, empty


def test_hostile_text_is_shown_and_does_not_run(open_page: Open) -> None:
    page = open_page(hostile_report(), language="en")
    shown = [each.replace("\ud83d", "\ufffd") for each in HOSTILE]
    assert page.column("#strategies .label") == shown
    for opener in page.all("#questions .opener"):
        page.click(opener)
    page.click("#language")
    page.click("#language")
    assert page.column("#questions .opener") == shown
    assert page.driver.title == "Chunking report"
    assert page.all("main script, main img, main iframe") == []
    assert len(page.all("script")) == 3
    assert "49" not in page.text("#questions .opener")


def test_what_is_not_the_page_s_own_script_does_not_run(chromium: WebDriver, tmp_path: Path) -> None:
    page = html_report(
        EvaluationReport(RunInfo("2025-01-01T00:00:00Z", 1, "", {}, "", 5, "dense", 9, 0.95, 0, 0), (), (), (), ())
    )
    broken = page.replace(
        "</body>",
        "<script>document.title='run'</script><img src='http://127.0.0.1:9/' onerror=\"document.title='run'\"></body>",
    )
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    chromium.get((tmp_path / "broken.html").as_uri())
    assert chromium.title == "Chunking report"
    assert "Content Security Policy" in str(chromium.get_log("browser"))


def test_a_large_report_draws_only_what_is_looked_at(open_page: Open) -> None:
    report = large_report()
    page = open_page(report)
    assert len(page.ids()) == 20
    assert page.driver.execute_script("return document.querySelectorAll('*').length") < 5000
    page.one("#question-search").send_keys("第599个")
    assert page.ids() == ["q599"]
    last = report.documents[-1]
    page.choose("#viewer-document", last.title)
    assert "".join(each for _, _, each in seen(page, 0))[:100] == last.text[:100]


def test_documents_without_text_are_said_to_be_so(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en", max_characters=len(sample.documents[0].text) + 10)
    assert page.text("#capped").startswith("To stay small, the page holds the text of 1 of 3 documents")
    assert [each.text for each in Select(page.one("#viewer-document")).options] == [sample.documents[0].title]
    page.click("#questions .opener")
    assert "does not hold the text" in page.text(".detail")
    hit = next(iter(sample.questions[0].answers.values())).hits[0]
    assert hit.document_id in page.text(".detail .hits")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reports_with_parts_missing_are_drawn(open_page: Open, sample: EvaluationReport, language: str) -> None:
    without = replace(sample, selection=None, signals=(), notes=())
    empty = replace(without, measures=(), documents=(), strategies=(), questions=())
    failed = replace(sample, strategies=(sample.strategy("broken"),), selection=None)
    retriever = replace(sample.strategies[0], kind="retriever", inflation=None, sizes=None, alignment=None, chunks=())
    retrieved = replace(without, strategies=(retriever,))
    unselected = replace(sample, selection=sample.selection and replace(sample.selection, selected_strategy=None))
    for report in (without, empty, failed, retrieved, unselected):
        page = open_page(report, language=language)
        assert page.all("#method dd")
        page.driver.execute_script("for (const each of document.querySelectorAll('pre')) each.remove()")  # options
        assert not re.search(r"undefined|NaN|\[object|null", page.text("main"))


def test_ranges_that_are_returned_can_be_shown(open_page: Open, sample: EvaluationReport) -> None:
    page = open_page(sample, language="en")
    expanding = next(each for each in sample.strategies if any(part.returned for part in each.chunks))
    part = next(each for each in expanding.chunks if each.returned)
    title = next(each.title for each in sample.documents if each.document_id == part.document_id)
    page.choose("#viewer-document", title)
    page.choose("#viewer-left", expanding.name)
    assert f"{len(part.spans)} chunks" in page.text(".pane-head")
    page.click("#viewer-returned")
    assert f"{len(set(part.returned))} chunks" in page.text(".pane-head")
    assert all(isinstance(span, Span) for span in part.returned)


# ------------------------------------------------------------------------------------------------ chunks without questions


def chunks_alone(sample: EvaluationReport, *documents: DocumentText) -> EvaluationReport:
    """What `view` and `probe` show: chunks and probes of the documents, and nothing that was asked."""
    probes = completeness_probes({each.document_id: each.text for each in documents})
    names = {each.document_id for each in documents}
    strategies = tuple(
        replace(each, chunks=tuple(part for part in each.chunks if part.document_id in names), measures={})
        for each in (sample.strategy("structured"), sample.strategy("sliding 40"))
    )
    found = [
        probe_completeness({part.document_id: part.spans for part in each.chunks}, probes, strategy=each.name)
        for each in strategies
    ]
    report = EvaluationReport(sample.run, (), documents, strategies, ())
    return report.with_probes(probe_data(found, probes=probes))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_document_alone_is_its_name_its_chunks_and_its_probes(
    open_page: Open, sample: EvaluationReport, language: str
) -> None:
    document = sample.documents[0]
    report = chunks_alone(sample, document)
    page = open_page(report, language=language)
    assert page.driver.title == page.text("h1") == document.title
    assert [each.get_attribute("id") for each in page.all("main section")] == ["summary", "viewer", "probes"]
    assert page.one(".panes").rect["y"] < 600, "the chunks are seen without scrolling"
    assert "".join(text for _, _, text in seen(page, 1)) == document.text[: sum(len(each[2]) for each in seen(page, 1))]
    assert not re.search(r"undefined|NaN|\[object|null|[Gg]old|标准答案|\{\w+\}", page.text("main"))
    assert len(page.all(".pane")) == 2


def test_probes_lead_to_their_place_in_their_document(open_page: Open, sample: EvaluationReport) -> None:
    report = chunks_alone(sample, *sample.documents)
    page = open_page(report, language="en")
    assert page.driver.title == "Completeness probes"
    assert [each.get_attribute("id") for each in page.all("main section")] == ["summary", "probes", "viewer"]
    assert report.probes is not None
    probes = report.probes["probes"]
    assert page.column(".probe-list .opener") == [each["question"] for each in probes][:20]
    marks = [["✂" if name in each["cuts"] else "●" for name in ("structured", "sliding 40")] for each in probes[:20]]
    cells = [str(each)[0] for each in page.column(".probe-list td")]
    assert cells == [mark for row in marks for mark in row]
    place = next(i for i, each in enumerate(probes) if "sliding 40" in each["cuts"])
    page.click(page.all(".probe-list .opener")[place])
    document = next(each for each in sample.documents if each.document_id == probes[place]["document_id"])
    assert Select(page.one("#viewer-document")).first_selected_option.text == document.title
    gold = "".join(document.text[start:end] for start, end in probes[place]["gold"])
    assert "".join(page.column(".pane:first-child mark")) == gold
    assert len(page.all(".cut")) >= 1


def test_chunks_alone_are_readable_in_both_themes_and_fit_a_narrow_window(
    open_page: Open, sample: EvaluationReport
) -> None:
    page = open_page(chunks_alone(sample, *sample.documents), language="en")
    for _ in range(2):
        texts = page.driver.execute_script(CONTRASTS)
        assert len(texts) > 50
        assert [each for each in texts if contrast(each[1], each[2]) < 4.5] == []
        page.click("#theme")
    page.driver.set_window_size(500, 900)
    width, room = page.driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    page.driver.set_window_size(1280, 900)
    assert width <= room


def test_an_empty_document_is_said_to_be_empty(open_page: Open, sample: EvaluationReport) -> None:
    empty = DocumentText("空.md", " \n", "空.md", 0)
    page = open_page(chunks_alone(sample, empty), language="en")
    assert "The document is empty." in page.text("#viewer")
    assert [each.get_attribute("id") for each in page.all("main section")] == ["viewer"]
