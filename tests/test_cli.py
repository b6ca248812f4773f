"""The command line as a person uses it: separate processes, real Chroma, the real offline model."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import Any

import chromadb
import pytest
from chromadb.errors import InternalError
from llama_index.core.schema import TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus import InputFileError, OfflineEmbedding
from llama_index_chunking_plus.cli import main
from llama_index_chunking_plus.cli import store as store_module
from llama_index_chunking_plus.cli.app import _above, _title
from llama_index_chunking_plus.cli.files import decode, find_files, read_document
from llama_index_chunking_plus.cli.options import ParserChoice, make_parser, make_steps
from llama_index_chunking_plus.cli.store import CorpusStore
from llama_index_chunking_plus.ingestion.ledger import exclusive, load_docstore
from llama_index_chunking_plus.samples import sample_paths

TEXTS = {
    "书店.md": "# 旧书店\n\n店主姓林。周末有学生来看书。看完要放回原处！\n",
    "股市.txt": "股市周三收跌百分之一。成交额为一千亿元。\n",
    "deep/天气.md": "今天下大雨。学校停课一天。\n",
}
FAST = ["--parser", "sliding", "--chunk-size", "64"]
SMALL_TO_BIG = ["--parser", "small-to-big", "--unit", "chars", "--chunk-size", "16", "--parent-size", "80"]
WINDOW = ["--parser", "window", "--window-sentences", "1"]
STRUCTURED = ["--parser", "structured", "--unit", "chars", "--chunk-size", "160"]
QUESTION = "哪天学校不上课？"
HEADER = "| 代码 | 含义 | 处理方法 |\n|---|---|---|"
MANUAL = (
    "# 水泵手册\n\n## 故障代码\n\n"
    f"{HEADER}\n"
    + "".join(f"| F{i:02} | 第{i}号传感器断线 | 更换第{i}号线缆后重启 |\n" for i in range(1, 21))
    + "\n## 检查\n\n```bash\npump --status\n```\n"
)
RULES = "第一章　总则\n\n第一条　本规定适用于全体职工。\n\n第二章　值班\n\n第二条　值班人员不得离开岗位。\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name, text in TEXTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def run(*arguments: object, code: int = 0) -> str:
    """What the command prints, stderr if it fails."""
    out, err = run_both(*arguments, code=code)
    return err if code else out


def run_both(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Stdout and stderr of a command; in this process, as a new one takes seconds to import."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["chunking-plus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert (stop.value.code or 0) == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


def run_process(*arguments: object, **environment: str) -> str:
    command = [sys.executable, "-c", "from llama_index_chunking_plus.cli import main; main()", *map(str, arguments)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ingest(docs: Path, store: Path, *options: object) -> dict[str, Any]:
    return json.loads(run("ingest", docs, "--store", store, "--json", *options))


def query(store: Path, *options: object, question: str = QUESTION) -> list[dict[str, Any]]:
    return json.loads(run("query", question, "--store", store, "--json", *options))["passages"]


def test_ingest_and_query_give_file_and_exact_range(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert ingest(docs, store, *FAST)["added"] == 3
    found = query(store, "-k", 2)
    assert found[0]["file"] == "天气.md"
    assert len(found) == 2
    for passage in found:
        text = read_document(Path(passage["path"])).text
        assert text[passage["start"] : passage["end"]] == passage["text"]
    shown = run("query", QUESTION, "--store", store, "-k", 1)
    assert "1. 天气.md" in shown
    assert "学校停课一天。" in shown


def test_a_second_ingest_writes_nothing_a_changed_size_everything(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    assert ingest(docs, store) == {
        "added": 0, "updated": 0, "unchanged": 3, "repaired": 0, "deleted": 0, "chunks_written": 0,
        "without_chunks": [],
    }  # fmt: skip
    assert ingest(docs, store, "--chunk-size", 12)["updated"] == 3
    assert ingest(docs, store)["unchanged"] == 3
    (docs / "股市.txt").write_text("股市周四上涨。\n", encoding="utf-8")
    changed = ingest(docs, store)
    assert (changed["updated"], changed["unchanged"]) == (1, 2)


@pytest.mark.parametrize("options", [FAST, SMALL_TO_BIG, WINDOW, STRUCTURED], ids=lambda options: options[1])
def test_files_without_text_are_named_each_time(options: list[str], docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    blank = [docs / "deep" / "空.txt", docs / "空白.md"]
    blank[0].write_bytes(b"")
    blank[1].write_text("\ufeff \n\u3000\n", encoding="utf-8")
    (docs / "线.md").write_text("---\n", encoding="utf-8")
    names = [str(path.resolve()) for path in blank]
    line = f"no chunks, as there is no text in: {names[0]}, {names[1]}\n"
    for command in (
        ("ingest", docs, "--store", store, "--json", *options),
        ("ingest", docs, "--store", store, "--json"),
    ):
        out, err = run_both(*command)
        assert json.loads(out)["without_chunks"] == names
        assert err.endswith(line)
    held = CorpusStore(store).index().vector_store.client.get(include=["metadatas"])["metadatas"]
    assert {row["file_name"] for row in held} == {"书店.md", "股市.txt", "天气.md", "线.md"}
    for path in blank:
        path.unlink()
    out, err = run_both("ingest", docs, "--store", store, "--json", "--sync")
    assert (json.loads(out)["without_chunks"], json.loads(out)["deleted"]) == ([], 2)
    assert "no chunks" not in err


def test_of_many_files_without_text_the_first_are_named(docs: Path, tmp_path: Path) -> None:
    for i in range(12):
        (docs / f"{i:02}.txt").write_text("\n", encoding="utf-8")
    out, err = run_both("ingest", docs, "--store", tmp_path / "store", *FAST)
    assert "15 added" in out
    assert "no chunks, as there is no text in: " in err
    assert "09.txt and 2 more" in err
    assert "10.txt" not in err


def test_sync_removes_what_is_gone_and_plain_ingest_does_not(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    (docs / "股市.txt").unlink()
    assert ingest(docs, store)["deleted"] == 0
    assert ingest(docs, store, "--sync")["deleted"] == 1
    found = json.loads(run("query", "股市", "--store", store, "--json"))["passages"]
    assert {passage["file"] for passage in found} == {"书店.md", "天气.md"}


def test_query_returns_each_parent_once_whole_and_says_which_chunks_hit(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *SMALL_TO_BIG)
    parents = query(store)
    assert sorted(parent["text"] for parent in parents) == sorted(TEXTS.values())
    assert parents[0]["file"] == "天气.md"
    for parent in parents:
        text = read_document(Path(parent["path"])).text
        assert (parent["start"], parent["end"]) == (0, len(text))
        assert all(0 <= hit["start"] < hit["end"] <= len(text) for hit in parent["hits"])
    shop = next(parent for parent in parents if parent["file"] == "书店.md")
    assert len(shop["hits"]) == len({hit["start"] for hit in shop["hits"]}) > 1
    assert [len(query(store, "-k", k)) for k in (1, 2)] == [1, 2]
    shown = run("query", "店主姓什么？", "--store", store, "-k", 1)
    assert f"1. 书店.md characters 0–{len(TEXTS['书店.md'])}" in shown
    assert f"{len(shop['hits'])} chunks hit" in shown


def test_parents_side_by_side_stay_apart(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    text = "".join(f"第{i}户住在三楼东边。" for i in range(40))
    (docs / "住户.txt").write_text(text, encoding="utf-8")
    ingest(docs, store, *SMALL_TO_BIG)
    found = query(store, "-k", 20, question="谁住在三楼？")
    parents = sorted((hit for hit in found if hit["file"] == "住户.txt"), key=lambda hit: hit["start"])
    assert "".join(parent["text"] for parent in parents) == text
    assert len(parents) > 3


def test_query_returns_windows_that_do_not_overlap(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *WINDOW)
    window = query(store, "-k", 1, question="周末谁来看书？")[0]
    assert window["text"] == "店主姓林。周末有学生来看书。看完要放回原处！\n"
    assert TEXTS["书店.md"][window["start"] : window["end"]] == window["text"]
    assert [hit["start"] for hit in window["hits"]] == [TEXTS["书店.md"].index("周末")]
    files = [passage["file"] for passage in query(store, "-k", 9)]
    assert sorted(files) == ["书店.md", "天气.md", "股市.txt"]
    assert "1 chunk hit" in run("query", "周末谁来看书？", "--store", store, "-k", 1)


@pytest.mark.parametrize("options", [SMALL_TO_BIG, WINDOW])
def test_expand_none_shows_the_chunks_themselves(options: list[str], docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *options)
    found = query(store, "-k", 2, "--expand", "none")
    assert len(found) == 2
    assert found[0]["text"] in TEXTS["deep/天气.md"]
    assert all("hits" not in passage and len(passage["text"]) <= 16 for passage in found)


@pytest.mark.parametrize("options", [SMALL_TO_BIG, WINDOW])
def test_a_changed_file_is_shown_as_it_is_now_a_removed_one_not_at_all(
    options: list[str], docs: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *options)
    weather = docs / "deep" / "天气.md"
    weather.write_text("今天放晴。学校照常上课。放学后有球赛。\n", encoding="utf-8")
    assert ingest(docs, store)["updated"] == 1
    found = query(store, "-k", 9)
    assert [passage["text"] for passage in found if passage["file"] == "天气.md"] == [weather.read_text("utf-8")]
    weather.unlink()
    assert ingest(docs, store, "--sync")["deleted"] == 1
    assert {passage["file"] for passage in query(store, "-k", 9)} == {"书店.md", "股市.txt"}


@pytest.mark.parametrize(
    "options, expand, message",
    [
        (FAST, "parent", "parser 'sliding', whose chunks have no parent; leave --expand out, or ingest with --parser small-to-big into a new --store"),
        (FAST, "window", "parser 'sliding', whose chunks have no window; leave --expand out, or ingest with --parser window into a new --store"),
        (SMALL_TO_BIG, "window", "parser 'small-to-big', whose chunks have no window"),
        (WINDOW, "parent", "parser 'window', whose chunks have no parent"),
        (WINDOW, "page", "--expand 'page' is not one of parent, window, none"),
    ],
)  # fmt: skip
def test_an_expansion_that_the_store_cannot_give_is_an_error(
    options: list[str], expand: str, message: str, docs: Path, tmp_path: Path
) -> None:
    ingest(docs, tmp_path / "store", *options)
    assert message in run("query", QUESTION, "--store", tmp_path / "store", "--expand", expand, code=1)


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_chunk_whose_text_is_gone_is_not_shown(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *SMALL_TO_BIG)
    documents = load_docstore(store / "documents")
    documents.delete_document(str((docs / "deep" / "天气.md").resolve()))
    documents.persist(str(store / "documents" / "docstore.json"))  # as if it had been left half written
    out, err = run_both("query", QUESTION, "--store", store)
    assert "天气.md" not in out
    assert "书店.md" in out
    assert err.startswith("warning: 1 of 6 children no longer agree with their documents: ")
    assert err.endswith(" stand for themselves. Ingest the files again.\n")
    ingest(docs, store)
    out, err = run_both("query", QUESTION, "--store", store)
    assert "天气.md" in out
    assert not err


@pytest.mark.filterwarnings("always::UserWarning")
@pytest.mark.parametrize("options", [SMALL_TO_BIG, WINDOW])
def test_what_a_lost_docstore_leads_to_names_the_command_that_mends_it(
    options: list[str], docs: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *options)
    (store / "documents" / "docstore.json").unlink()
    out, err = run_both("query", QUESTION, "--store", store)
    assert "天气.md" in out
    assert err.startswith("warning: ")
    assert err.endswith(". Ingest the files again.\n")
    assert "sync_documents" not in err
    ingest(docs, store)
    assert not run_both("query", QUESTION, "--store", store)[1]


def test_a_killed_ingest_is_completed_without_duplicates(tmp_path: Path) -> None:
    docs, store = tmp_path / "docs", tmp_path / "store"
    docs.mkdir()
    for i in range(1_000):
        text = f"# 第{i}页\n\n" + "".join(f"这是第{i}页的第{j}句话，内容各不相同。" for j in range(12))
        (docs / f"{i:03}.md").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", "from llama_index_chunking_plus.cli import main; main()"]
    victim = subprocess.Popen(  # noqa: S603
        [*command, "ingest", str(docs), "--store", str(store), *FAST],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rows = store / "chroma" / "chroma.sqlite3"
    deadline = time.monotonic() + 60
    while (
        not (rows.exists() and rows.stat().st_size > 400_000) and time.monotonic() < deadline and victim.poll() is None
    ):
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert victim.returncode == -signal.SIGKILL, "the ingest was over before it could be killed"
    counts = ingest(docs, store)
    assert counts["chunks_written"] > 0
    assert sum(counts[name] for name in ("added", "updated", "unchanged", "repaired")) == 1_000
    assert ingest(docs, store)["unchanged"] == 1_000
    passages = json.loads(run("query", "第7页", "--store", store, "-k", 9000, "--json"))["passages"]
    places = [(passage["file"], passage["start"]) for passage in passages]
    assert len(set(places)) == len(places)
    assert len({file for file, _ in places}) == 1_000


def test_split_shows_and_dumps_chunks(docs: Path) -> None:
    shown = run("split", docs, *FAST)
    assert "书店.md" in shown
    assert "0–" in shown
    chunks = json.loads(run("split", docs / "书店.md", "--json", "--parser", "semantic"))["chunks"]
    assert "".join(chunk["text"] for chunk in chunks) == TEXTS["书店.md"]
    assert all(chunk["tokens"] > 0 and chunk["end"] - chunk["start"] == len(chunk["text"]) for chunk in chunks)


@pytest.mark.parametrize("options, name", [(SMALL_TO_BIG, "parent"), (WINDOW, "window")])
def test_split_shows_what_a_chunk_is_read_in(options: list[str], name: str, docs: Path) -> None:
    chunks = json.loads(run("split", docs, "--json", *options))["chunks"]
    for chunk in chunks:
        start, end = chunk[name]
        assert 0 <= start <= chunk["start"] < chunk["end"] <= end
    assert name in run("split", docs, *options).splitlines()[1]


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    path = tmp_path / "manual" / "水泵.md"
    path.parent.mkdir()
    path.write_text(MANUAL, encoding="utf-8")
    (path.parent / "规定.txt").write_text(RULES, encoding="utf-8")
    return path.parent


def test_split_says_what_a_structured_chunk_holds(manual: Path) -> None:
    chunks = json.loads(run("split", manual / "水泵.md", "--json", *STRUCTURED))["chunks"]
    assert "".join(chunk["text"] for chunk in chunks) == MANUAL
    assert [chunk["kinds"] for chunk in chunks] == [
        ["heading", "table"],
        *[["table"]] * (len(chunks) - 2),
        ["heading", "code"],
    ]
    assert all(chunk["headings"] == ["水泵手册", "故障代码"] for chunk in chunks[:-1])
    assert [chunk["lead"] for chunk in chunks] == ["", *[HEADER] * (len(chunks) - 2), ""]
    assert chunks[0]["lines"][0] == 1
    assert all(after["lines"][0] == before["lines"][1] + 1 for before, after in pairwise(chunks))
    shown = run("split", manual / "水泵.md", *STRUCTURED)
    for part in (
        "kinds",
        "heading, table",
        "水泵手册 › 故障代码",
        "[| 代码 | 含义 | 处理方法 | |---|---|---|]",
        "heading, code",
    ):
        assert part in shown
    assert f"{len(chunks)} chunks of 1 files (parser=structured" in shown


def test_split_of_other_parsers_says_nothing_of_structure(docs: Path) -> None:
    chunks = json.loads(run("split", docs, "--json", *FAST))["chunks"]
    assert set(chunks[0]) == {"file", "path", "start", "end", "tokens", "text"}
    assert "kinds" not in run("split", docs, *FAST)


@pytest.mark.parametrize(
    "structure, headings",
    [
        ("auto", [["第一章 总则"], ["第二章 值班"]]),
        ("numbered", [["第一章 总则"], ["第二章 值班"]]),
        ("markdown", [[]]),
        ("none", [[]]),
    ],
)
def test_what_structure_is_told_by(structure: str, headings: list[list[str]], manual: Path) -> None:
    options = ["--parser", "structured", "--unit", "chars", "--chunk-size", "60", "--structure", structure]
    chunks = json.loads(run("split", manual / "规定.txt", "--json", *options))["chunks"]
    assert [chunk["headings"][:1] for chunk in chunks] == headings
    assert "".join(chunk["text"] for chunk in chunks) == RULES


def test_a_store_of_structured_chunks_shows_headings_and_header_rows(manual: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert ingest(manual, store, *STRUCTURED)["added"] == 2
    question = "F17 怎么处理？"
    rows = query(store, "-k", 1, question=question)[0]
    assert MANUAL[rows["start"] : rows["end"]] == rows["text"]
    assert (rows["kinds"], rows["lead"]) == (["table"], HEADER)
    shown = run("query", question, "--store", store, "-k", 1)
    assert f"水泵手册 › 故障代码\n{HEADER}\n{rows['text'].strip()}" in shown
    assert ingest(manual, store)["unchanged"] == 2
    assert ingest(manual, store, "--structure", "none")["updated"] == 2
    assert all(passage["headings"] == [] for passage in query(store, question=question))


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    for path in sample_paths():
        if path.name in {"leave_policy_v1.md", "leave_policy_v2.md"}:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


CARRY_OVER = "年休假最多可以结转多少天？"
VERSIONED = [
    FAST,
    ["--parser", "structured", "--header"],
    ["--parser", "small-to-big", "--unit", "chars", "--header"],
    ["--parser", "window", "--header"],
]


@pytest.mark.parametrize("options", VERSIONED, ids=" ".join)
def test_a_query_answers_from_the_newest_version_or_the_pinned_one(
    options: list[str], policies: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ingest(policies, store, *options)
    wanted = {
        (): {"leave_policy_v1.md", "leave_policy_v2.md"},
        ("--latest-version",): {"leave_policy_v2.md"},
        ("--pin-version", "v1.0.0"): {"leave_policy_v1.md"},
    }
    for restriction, files in wanted.items():
        found = query(store, "-k", 4, *restriction, question=CARRY_OVER)
        assert 0 < len(found) <= 4
        assert {passage["file"] for passage in found} == files
        for passage in found:
            text = read_document(Path(passage["path"])).text
            assert text[passage["start"] : passage["end"]] == passage["text"]
            version = passage["file"].removesuffix(".md")[-1]
            header = f"栖原生物科技员工休假制度.*（v{version}.0，更新于 20"
            assert bool(re.match(header, passage.get("header", ""))) == ("--header" in options)


def test_the_newest_version_is_the_newest_that_is_in_the_store(policies: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(policies, store, *FAST)
    (policies / "leave_policy_v2.md").unlink()
    ingest(policies, store, "--sync")
    found = query(store, "--latest-version", question=CARRY_OVER)
    assert {passage["file"] for passage in found} == {"leave_policy_v1.md"}
    assert "holds no document of version '2.0'; its newest versions are 1.0" in run(
        "query", CARRY_OVER, "--store", store, "--pin-version", "2.0", code=1
    )


@pytest.mark.filterwarnings("always::UserWarning")
def test_documents_without_versions_are_all_searched(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    out, err = run_both("query", QUESTION, "--store", store, "--latest-version")
    assert err.startswith("warning: None of 3 documents")
    assert all(name in out for name in ("书店.md", "天气.md", "股市.txt"))
    message = run("query", QUESTION, "--store", store, "--pin-version", "2.0", code=1)
    assert "holds no document of version '2.0'; its documents name none" in message


def test_a_hit_is_shown_with_its_header(manual: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(manual, store, *STRUCTURED, "--chunk-size", 240, "--header")
    passage = query(store, "-k", 1, question="F17 怎么处理？")[0]
    assert passage["header"] == "水泵手册 > 故障代码"
    shown = run("query", "F17 怎么处理？", "--store", store, "-k", 1)
    assert f"水泵手册 > 故障代码\n{HEADER}\n{passage['text'].strip()}" in shown
    assert "水泵手册 ›" not in shown


def test_headers_are_remembered_and_a_change_of_them_ingests_again(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert ingest(docs, store, *FAST, "--header")["added"] == 3
    assert ingest(docs, store)["unchanged"] == 3
    assert query(store, "-k", 1)[0]["header"] == "天气"
    assert ingest(docs, store, "--no-header")["updated"] == 3
    assert "header" not in query(store, "-k", 1)[0]
    assert ingest(docs, store)["unchanged"] == 3
    assert ingest(docs, store, "--header")["updated"] == 3
    assert [passage["header"] for passage in query(store, "-k", 1)] == ["天气"]


@pytest.mark.parametrize("size", [16, 64, 512])
@pytest.mark.parametrize("parser", ["hybrid", "semantic", "sliding", "small-to-big", "window", "structured"])
def test_header_and_text_stay_within_the_size_of_a_chunk(parser: str, size: int, policies: Path) -> None:
    choice = ParserChoice(parser, chunk_size=size, unit="chars", header=True)
    *steps, _ = make_steps(choice, OfflineEmbedding())
    nodes = [read_document(path) for path in find_files([policies])]
    for step in steps:
        nodes = step(nodes)
    shown = [f"{node.metadata['context_header']}\n\n{node.text}" for node in nodes]
    assert all("lead" in node.metadata or len(each) <= size for node, each in zip(nodes, shown, strict=True))


def test_a_parent_is_six_chunks_large_if_only_one_size_is_given() -> None:
    def sizes(**given: int) -> tuple[int, int, int]:
        parser = make_parser(ParserChoice("small-to-big", **given), OfflineEmbedding)
        return parser.parent_size, parser.child_size, parser.child_overlap

    assert sizes() == (2400, 400, 60)
    assert sizes(chunk_size=100) == (600, 100, 15)
    assert sizes(parent_size=1000, chunk_overlap=20) == (1000, 167, 20)
    assert sizes(parent_size=1000, chunk_size=200) == (1000, 200, 30)


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_warning_is_one_line_in_the_words_of_the_command_line(docs: Path) -> None:
    out, err = run_both("split", docs, "--parser", "small-to-big", "--chunk-size", "20", "--parent-size", "800")
    assert "chunks of 3 files" in out
    assert err.startswith("warning: --parent-size 800 is 40.0 times --chunk-size 20")
    assert len(err.splitlines()) == 1


def test_a_store_refuses_another_parser_or_model_and_names_both(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    assert "made with the parser 'sliding', not 'hybrid'" in run(
        "ingest", docs, "--store", store, "--parser", "hybrid", code=1
    )
    for command in (["ingest", docs], ["query", "天气"]):
        message = run(*command, "--store", store, "--embed-model", "BAAI/bge-small-zh", code=1)
        assert "made with the embedding model 'offline', not 'BAAI/bge-small-zh'" in message
    (store / "chunking-plus.json").write_text("{", encoding="utf-8")
    assert "cannot be read" in run("query", "天气", "--store", store, code=1)


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["query", "天气", "--store", "nowhere"], 1, "nowhere is no store"),
        (["query", "  ", "--store", "nowhere"], 2, "blank"),
        (["query", "天气", "--store", "nowhere", "-k", "0"], 2, "greater than or equal to 1"),
        (["ingest", "nowhere", "--store", "s"], 1, "nowhere: no such file or folder"),
        (["ingest", ".", "--store", "s"], 1, ".txt file below ."),
        (["split", "picture.png"], 1, "picture.png"),
        (
            ["split", "a.md", "--parser", "magic"],
            1,
            "not one of hybrid, semantic, sliding, small-to-big, window, structured",
        ),
        (
            ["split", "a.md", "--parser", "small-to-big", "--chunk-size", "2"],
            1,
            "--chunk-size 2 is outside [4, --parent",
        ),
        (["split", "a.md", "--parser", "small-to-big", "--chunk-overlap", "-1"], 1, "--chunk-overlap -1 is outside"),
        (["split", "a.md", "--parser", "window", "--window-sentences", "-1"], 1, "--window-sentences -1 is below 0"),
        (["split", "a.md", "--parser", "window", "--chunk-size", "1"], 1, "--chunk-size 1 is below 4"),
        (["split", "a.md", "--parser", "window", "--parent-size", "9"], 1, "--parent-size has no meaning"),
        (["split", "a.md", "--window-sentences", "2"], 1, "--window-sentences has no meaning for --parser hybrid"),
        (["split", "a.md", "--parser", "sliding", "--chunk-size", "2"], 1, "--chunk-size 2 is below 4"),
        (["split", "a.md", "--chunk-size", "0"], 1, "--chunk-size 0 is no whole number of 4 or more"),
        (
            ["ingest", "a.md", "--store", "s", "--parser", "semantic", "--chunk-size", "1"],
            1,
            "--chunk-size 1 is below 4",
        ),
        (["split", "a.md", "--parser", "sliding", "--target-size", "9"], 1, "--target-size has no meaning"),
        (["split", "a.md", "--parser", "sliding", "--unit", "pages"], 1, "--unit 'pages' is neither tokens nor chars"),
        (
            ["split", "a.md", "--parser", "structured", "--structure", "html"],
            1,
            "--structure 'html' is not one of auto, markdown, numbered, none",
        ),
        (["split", "a.md", "--parser", "structured", "--chunk-size", "3"], 1, "--chunk-size 3 is below 4"),
        (
            ["split", "a.md", "--parser", "structured", "--chunk-overlap", "-1"],
            1,
            "--chunk-overlap -1 is outside [0, --chunk-size 800)",
        ),
        (["split", "a.md", "--parser", "structured", "--target-size", "9"], 1, "--target-size has no meaning"),
        (["split", "a.md", "--structure", "none"], 1, "--structure has no meaning for --parser hybrid"),
        (["query", "天气", "--store", "s", "--latest-version", "--pin-version", "1"], 2, "leave out --latest-version"),
        (["query", "天气", "--store", "s", "--pin-version", " "], 2, "--pin-version is blank"),
        (
            ["ingest", "a.md", "--store", "s", "--parser", "sliding", "--chunk-size", "6", "--header"],
            1,
            "--header 3 leaves less than 4 of --chunk-size 6",
        ),
        (
            ["ingest", "a.md", "--store", "file"],
            1,
            "error: --store file cannot be the folder: file is no folder; give another one\n",
        ),
        (
            ["ingest", "a.md", "--store", "file/deep"],
            1,
            "error: --store file/deep cannot be the folder: file is no folder; give another one\n",
        ),
        (
            ["demo", "--store", "file"],
            1,
            "error: --store file cannot be the folder: file is no folder; give another one\n",
        ),
        (
            ["query", "天气", "--store", "file"],
            1,
            "file is no store: file is no folder; give --store the folder of one",
        ),
        (["view", "a.md", "--out", "."], 1, "--out . cannot be the file: . is a folder; give another one"),
        (
            ["view", "a.md", "--out", "file/view.html"],
            1,
            "--out file/view.html cannot be the file: file is no folder; give another one",
        ),
        (["probe", "a.md", "--out", "file"], 1, "--out file cannot be the folder: file is no folder"),
        (["fly"], 2, "No such command"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "a.md" in arguments:
        (tmp_path / "a.md").write_text("好。", encoding="utf-8")
    if any(argument.startswith("file") for argument in arguments):
        (tmp_path / "file").write_text("")
    if "picture.png" in arguments:
        (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert message in run(*arguments, code=code)


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_store_from_before_parents_and_windows_opens(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    manifest = json.loads((store / "chunking-plus.json").read_text(encoding="utf-8"))
    for name in ("parent_size", "window_sentences", "structure", "header"):
        del manifest["parser"][name]
    (store / "chunking-plus.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert query(store, "-k", 1)[0]["file"] == "天气.md"
    out, err = run_both("query", QUESTION, "--store", store, "-k", 1, "--latest-version")
    assert err.startswith("warning: None of 3 documents")
    assert "天气.md" in out
    assert ingest(docs, store)["unchanged"] == 3


def test_a_refused_ingest_does_not_change_what_the_store_remembers(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    before = (store / "chunking-plus.json").read_text(encoding="utf-8")
    with exclusive(store / "documents"):
        assert "another sync is writing" in run("ingest", docs, "--store", store, "--chunk-size", 12, code=1)
    assert (store / "chunking-plus.json").read_text(encoding="utf-8") == before


def test_a_damaged_store_is_named(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "damaged"
    run_process("ingest", docs, "--store", store, *FAST)  # Chroma keeps a folder open as long as the process lives
    rmtree(store / "chroma")
    (store / "chroma").mkdir()
    (store / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 500)
    message = run("ingest", docs, "--store", store, *FAST, code=1)
    assert f"{store / 'chroma'} cannot be opened" in message


@pytest.mark.parametrize(
    "lost", [("chunking-plus.json",), ("chunking-plus.json", "documents"), ("chunking-plus.json", "chroma")]
)
def test_a_store_whose_manifest_is_gone_is_refused_by_all_and_stays_as_it_is(
    lost: tuple[str, ...], docs: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    manifest = (store / lost[0]).read_text(encoding="utf-8")
    for name in lost:
        rmtree(store / name) if (store / name).is_dir() else (store / name).unlink()
    rest = " and ".join(name for name in ("chroma", "documents/docstore.json") if (store / name).exists())
    for command in (["ingest", docs, "--parser", "window"], ["ingest", docs], ["demo"], ["query", QUESTION]):
        (told,) = run(*command, "--store", store, code=1).strip().splitlines()
        assert told == (
            f"error: {store / 'chunking-plus.json'} is missing, which says what parser and model made {rest} in that "
            "folder; put it back or ingest into a new --store; if the folder holds nothing else, you can also delete it "
            "and ingest again"
        )
        assert not (store / "chunking-plus.json").exists()
    (store / "chunking-plus.json").write_text(manifest, encoding="utf-8")
    if len(lost) == 1:
        assert ingest(docs, store)["unchanged"] == 3


@pytest.mark.parametrize(
    "killed_at",
    [(CorpusStore, "_remember"), (os, "replace"), (CorpusStore, "_vector_store"), (store_module, "sync_documents")],
)
def test_a_first_ingest_that_is_killed_before_or_just_after_its_manifest_can_be_run_again(
    killed_at: tuple[object, str], docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Nothing runs after it, as after kill -9."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    store = tmp_path / "store"
    documents = [read_document(path) for path in find_files([docs])]
    corpus = CorpusStore(store)
    manifest = corpus.settle(None, "sliding")
    with monkeypatch.context() as patch:
        patch.setattr(*killed_at, die)
        with pytest.raises(Killed):
            corpus.ingest(documents, manifest, delete_missing=False)
    assert store.exists()
    assert ingest(docs, store, *FAST)["added"] == 3


def test_a_chroma_folder_that_is_removed_during_an_ingest_is_one_sentence_and_the_next_run_completes(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    add = ChromaVectorStore.add

    def remove_and_add(self: ChromaVectorStore, nodes: list[Any], **options: Any) -> list[str]:
        rmtree(store / "chroma")
        return add(self, nodes, **options)

    monkeypatch.setattr(ChromaVectorStore, "add", remove_and_add)
    (told,) = run("ingest", docs, "--store", store, *FAST, code=1).strip().splitlines()
    assert re.fullmatch(
        r"error: the vector store failed \(InternalError: .*readonly database.*\); "
        "run the same command again: what was completed is kept",
        told,
    )
    monkeypatch.undo()
    again = json.loads(run_process("ingest", docs, "--store", store, *FAST, "--json"))
    assert again["chunks_written"] == 3
    assert json.loads(run_process("query", QUESTION, "--store", store, "--json"))["passages"][0]["file"] == "天气.md"


def test_a_collection_that_is_deleted_under_a_query_is_one_sentence(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    search = ChromaVectorStore.query

    def delete_and_search(self: ChromaVectorStore, *arguments: Any, **options: Any) -> Any:
        chromadb.PersistentClient(str(store / "chroma"), self.client._client.get_settings()).delete_collection("chunks")
        return search(self, *arguments, **options)

    monkeypatch.setattr(ChromaVectorStore, "query", delete_and_search)
    (told,) = run("query", QUESTION, "--store", store, code=1).strip().splitlines()
    assert told.startswith("error: the vector store failed (NotFoundError: ")
    assert told.endswith("); run the same command again: what was completed is kept")


def test_an_error_of_our_own_making_keeps_its_traceback(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def err(*_: object) -> None:
        raise KeyError("a mistake in the program")

    monkeypatch.setattr("llama_index_chunking_plus.cli.app.make_parser", err)
    monkeypatch.setattr(sys, "argv", ["chunking-plus", "split", str(docs)])
    with pytest.raises(KeyError, match="a mistake in the program"):
        main()


def test_a_store_that_is_read_only_is_to_be_made_writable_and_never_deleted(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    cause = "error returned from database: (code: 8) attempt to write a readonly database"

    def refuse(*_: object) -> None:
        raise InternalError(cause)  # as Chroma does where the permissions hold; they do not for root

    monkeypatch.setattr(chromadb, "PersistentClient", refuse)
    (told,) = run("query", QUESTION, "--store", store, code=1).splitlines()
    assert told == (
        f"error: {store / 'chroma'} cannot be written to, which Chroma needs even for queries ({cause}); make it and "
        f"all that is in it writable, or copy {store} to where you can write and give --store the copy"
    )


@pytest.mark.parametrize("shut", ["chroma", "chroma/chroma.sqlite3"])
def test_a_store_that_may_not_be_opened_is_not_taken_for_damaged(
    shut: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)

    def refuse(*_: object) -> None:
        raise InternalError("(code: 14) unable to open database file")

    monkeypatch.setattr(chromadb, "PersistentClient", refuse)
    assert "if it is damaged, delete that folder" in run("query", QUESTION, "--store", store, code=1)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != store / shut)
    message = run("query", QUESTION, "--store", store, code=1)
    assert "cannot be written to, which Chroma needs even for queries ((code: 14)" in message
    assert "delete" not in message


def test_an_error_of_the_system_names_the_path_and_has_no_number(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, target: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(target))

    monkeypatch.setattr(os, "replace", refuse)
    (told,) = run("ingest", docs, "--store", tmp_path / "store", *FAST, code=1).strip().splitlines()
    file = tmp_path / "store" / "chunking-plus.json"
    assert told == f"error: {file} cannot be used: Permission denied; mend that, or give another path"


def test_titles_that_a_chunk_begins_with_are_shown_once(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "m.md").write_text("# 水泵手册\n\n## 故障代码\n\n传感器断线时更换线缆后重启。\n", encoding="utf-8")
    (docs / "n.txt").write_text(RULES, encoding="utf-8")
    hits = {
        "plain": ["水泵手册\n## 故障代码\n\n传感器断线", "0–8 score\n# 水泵手册", "25–49 score\n第二章　值班"],
        "header": ["水泵手册\n## 故障代码\n\n传感器断线", "0–8 score\n# 水泵手册", "25–49 score\nn\n第二章　值班"],
    }
    for name, options in {"plain": [60], "header": [120, "--header"]}.items():
        store = tmp_path / name
        ingest(docs, store, "--parser", "structured", "--unit", "chars", "--chunk-size", *options)
        shown = re.sub(r" +score -?[\d.]+", " score", run("query", "传感器断线", "--store", store, "-k", 9))
        assert all(hit in shown for hit in hits[name]), shown
        headings = {passage["start"]: passage["headings"] for passage in query(store, "-k", 9, question="传感器断线")}
        assert headings[8] == ["水泵手册", "故障代码"]  # JSON has them all


@pytest.mark.parametrize(
    "titles, text, above",
    [
        (["甲", "乙"], "## 乙\n\n丙。", ["甲"]),
        (["甲", "乙"], "# 甲\n\n## 乙\n丙。", []),
        (["甲", "乙"], "# 甲\n丙。", ["甲", "乙"]),  # the text begins above its last title
        (["甲", "乙"], "丙。\n\n## 乙", ["甲", "乙"]),
        (["Pump"], "Pump pressure is high.", ["Pump"]),
        (["第一章 总则", "第二条"], "\n第二条　值班。", ["第一章 总则"]),
        ([], "甲", []),
        (["甲"], "", ["甲"]),
    ],
)
def test_titles_above_a_text(titles: list[str], text: str, above: list[str]) -> None:
    assert _above(titles, text) == above


@pytest.mark.parametrize(
    "header, title",
    [
        ("手册 > 总则", "手册"),
        ("手册 > 总则（v2.0，更新于 2025-03-01）", "手册（v2.0，更新于 2025-03-01）"),
        ("手册 > 附则（v2.0）", "手册 > 附则（v2.0）"),
        ("总则", ""),
        ("总则（试行）", "总则（试行）"),
    ],
)
def test_a_header_without_the_title_that_the_text_begins_with(header: str, title: str) -> None:
    node = TextNode(text="# 总则\n\n本规定适用于全体职工。", metadata={"context_header": header})
    assert _title(node) == title


def test_markup_in_texts_and_names_is_shown_as_it_is(tmp_path: Path) -> None:
    docs, store = tmp_path / "[red]", tmp_path / "st[x]"
    docs.mkdir()
    (docs / "x[bold]y.md").write_text("接口 [/api/v1/users] 返回 [note] 说明 :smile:。", encoding="utf-8")
    for shown in (
        run("split", docs, "--parser", "sliding"),
        run("ingest", docs, "--store", store, *FAST) + run("query", "接口", "--store", store),
    ):
        assert "x[bold]y.md" in shown or "st[x]" in shown
        assert "[/api/v1/users] 返回 [note] 说明" in shown


def test_a_terminal_without_chinese_still_shows_the_rest(docs: Path) -> None:
    assert ".md" in run_process("split", docs, *FAST, PYTHONIOENCODING="ascii")


def test_an_unreadable_file_is_named_and_nothing_is_ingested(docs: Path, tmp_path: Path) -> None:
    (docs / "坏.txt").write_bytes("這是大五碼的文章，不是國標碼。今天天氣很好，我們去公園散步。".encode("big5"))
    message = run("ingest", docs, "--store", tmp_path / "store", *FAST, code=1)
    assert "坏.txt: looks like big5" in message
    assert not (tmp_path / "store").exists()


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="all names of files are Unicode there")
@pytest.mark.parametrize("command", ["split", "ingest", "view"])
def test_a_name_that_is_not_utf8_is_one_line_that_every_console_can_print(command: str, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode("资料.txt".encode("gbk"))
    path.write_text("甲。", encoding="utf-8")
    store = ["--store", tmp_path / "store"] if command == "ingest" else []
    (told,) = run(command, tmp_path, *store, code=1).splitlines()
    assert told.encode("ascii").startswith(
        b"error: %s/%s: not valid UTF-8" % (bytes(tmp_path), rb"\xd7\xca\xc1\xcf.txt")
    )
    assert [*tmp_path.iterdir()] == [path]


CHINESE = "编码测试：今天下雨，学校停课。明天照常上课！\r\n第二行。"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030"])
def test_encodings_that_are_read(encoding: str) -> None:
    assert decode(CHINESE.encode(encoding), "x") == CHINESE


@pytest.mark.parametrize(
    "encoding, text",
    [
        ("big5", "今天下雨，學校停課。明天照常上課！" * 3),
        ("shift_jis", "今日は雨です。学校は休みです。" * 3),
        ("euc_kr", "오늘은 비가 옵니다. 학교는 쉽니다." * 3),
    ],
)
def test_encodings_that_are_refused(encoding: str, text: str) -> None:
    with pytest.raises(InputFileError, match=r"x\.txt: (looks like|no known)"):
        decode(text.encode(encoding), "x.txt")


def test_broken_files_are_named() -> None:
    with pytest.raises(InputFileError, match=r"x\.txt: UTF-8 that stops in the middle"):
        decode("今天下雨。".encode()[:-1], "x.txt")
    with pytest.raises(InputFileError, match=r"x\.txt: broken utf-16"):
        decode(b"\xff\xfe\x00\xd8\x41", "x.txt")
    with pytest.raises(InputFileError, match=r"x\.txt"):
        decode(bytes(range(256)) * 8, "x.txt")
    assert decode(b"", "x.txt") == ""


def test_files_are_found_once_whatever_way_they_are_named(docs: Path) -> None:
    found = find_files([docs, docs / "书店.md", docs / "deep"])
    assert [path.name for path in found] == sorted(path.name for path in found) or len(found) == 3
    assert len(found) == len(set(found)) == 3


def test_the_demo_answers_from_the_bundled_documents() -> None:
    shown = run_process("demo")
    assert "passages are exactly the slice of their file" in shown
    answered, asked = shown.split(" questions: the whole answer")[0].split("\n")[-1].split(" of ")
    assert int(answered) >= 0.7 * int(asked)
