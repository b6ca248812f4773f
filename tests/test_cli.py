"""The command line as a person uses it: separate processes, real Chroma, the real offline model."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from llama_index_chunking_plus import InputFileError
from llama_index_chunking_plus.cli import main
from llama_index_chunking_plus.cli.files import decode, find_files, read_document
from llama_index_chunking_plus.ingestion.ledger import exclusive

TEXTS = {
    "书店.md": "# 旧书店\n\n店主姓林。周末有学生来看书。看完要放回原处！\n",
    "股市.txt": "股市周三收跌百分之一。成交额为一千亿元。\n",
    "deep/天气.md": "今天下大雨。学校停课一天。\n",
}
FAST = ["--parser", "sliding", "--chunk-size", "64"]


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
    """What the command prints, stderr if it fails; in this process, as a new one takes seconds to import."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["chunking-plus", *map(str, arguments)])
        patch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            main()
    assert (stop.value.code or 0) == code, out.getvalue() + err.getvalue()
    return err.getvalue() if code else out.getvalue()


def run_process(*arguments: object, **environment: str) -> str:
    command = [sys.executable, "-c", "from llama_index_chunking_plus.cli import main; main()", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "200", **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ingest(docs: Path, store: Path, *options: object) -> dict[str, int]:
    return json.loads(run("ingest", docs, "--store", store, "--json", *options))


def test_ingest_and_query_give_file_and_exact_range(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert ingest(docs, store, *FAST)["added"] == 3
    found = json.loads(run("query", "哪天学校不上课？", "--store", store, "-k", 2, "--json"))["passages"]
    assert found[0]["file"] == "天气.md"
    assert len(found) == 2
    for passage in found:
        text = read_document(Path(passage["path"])).text
        assert text[passage["start"] : passage["end"]] == passage["text"]
    shown = run("query", "哪天学校不上课？", "--store", store, "-k", 1)
    assert "1. 天气.md" in shown
    assert "学校停课一天。" in shown


def test_a_second_ingest_writes_nothing_a_changed_size_everything(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    assert ingest(docs, store) == {
        "added": 0, "updated": 0, "unchanged": 3, "repaired": 0, "deleted": 0, "chunks_written": 0,
    }  # fmt: skip
    assert ingest(docs, store, "--chunk-size", 12)["updated"] == 3
    assert ingest(docs, store)["unchanged"] == 3
    (docs / "股市.txt").write_text("股市周四上涨。\n", encoding="utf-8")
    changed = ingest(docs, store)
    assert (changed["updated"], changed["unchanged"]) == (1, 2)


def test_sync_removes_what_is_gone_and_plain_ingest_does_not(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    (docs / "股市.txt").unlink()
    assert ingest(docs, store)["deleted"] == 0
    assert ingest(docs, store, "--sync")["deleted"] == 1
    found = json.loads(run("query", "股市", "--store", store, "--json"))["passages"]
    assert {passage["file"] for passage in found} == {"书店.md", "天气.md"}


def test_a_killed_ingest_is_completed_without_duplicates(tmp_path: Path) -> None:
    docs, store = tmp_path / "docs", tmp_path / "store"
    docs.mkdir()
    for i in range(400):
        text = f"# 第{i}页\n\n" + "".join(f"这是第{i}页的第{j}句话，内容各不相同。" for j in range(60))
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
    assert sum(counts[name] for name in ("added", "updated", "unchanged", "repaired")) == 400
    assert ingest(docs, store)["unchanged"] == 400
    passages = json.loads(run("query", "第7页", "--store", store, "-k", 9000, "--json"))["passages"]
    places = [(passage["file"], passage["start"]) for passage in passages]
    assert len(set(places)) == len(places)
    assert len({file for file, _ in places}) == 400


def test_split_shows_and_dumps_chunks(docs: Path) -> None:
    shown = run("split", docs, *FAST)
    assert "书店.md" in shown
    assert "0–" in shown
    chunks = json.loads(run("split", docs / "书店.md", "--json", "--parser", "semantic"))["chunks"]
    assert "".join(chunk["text"] for chunk in chunks) == TEXTS["书店.md"]
    assert all(chunk["tokens"] > 0 and chunk["end"] - chunk["start"] == len(chunk["text"]) for chunk in chunks)


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
        (["ingest", ".", "--store", "s"], 1, "no .markdown, .md, .txt file below ."),
        (["split", "picture.png"], 1, "picture.png"),
        (["split", "a.md", "--parser", "magic"], 1, "--parser 'magic' is not one of hybrid, semantic, sliding"),
        (["split", "a.md", "--parser", "sliding", "--chunk-size", "2"], 1, "--chunk-size 2 is below 4"),
        (["split", "a.md", "--chunk-size", "0"], 1, "--chunk-size 0 is no whole number of 4 or more"),
        (
            ["ingest", "a.md", "--store", "s", "--parser", "semantic", "--chunk-size", "1"],
            1,
            "--chunk-size 1 is below 4",
        ),
        (["split", "a.md", "--parser", "sliding", "--target-size", "9"], 1, "--target-size has no meaning"),
        (["split", "a.md", "--parser", "sliding", "--unit", "pages"], 1, "--unit 'pages' is neither tokens nor chars"),
        (["fly"], 2, "No such command"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "a.md" in arguments:
        (tmp_path / "a.md").write_text("好。", encoding="utf-8")
    if "picture.png" in arguments:
        (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert message in run(*arguments, code=code)


def test_a_refused_ingest_does_not_change_what_the_store_remembers(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *FAST)
    before = (store / "chunking-plus.json").read_text(encoding="utf-8")
    with exclusive(store / "documents"):
        assert "another sync is writing" in run("ingest", docs, "--store", store, "--chunk-size", 12, code=1)
    assert (store / "chunking-plus.json").read_text(encoding="utf-8") == before


def test_a_damaged_store_is_named(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "damaged"
    (store / "chroma").mkdir(parents=True)
    (store / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 500)
    message = run("ingest", docs, "--store", store, *FAST, code=1)
    assert f"{store / 'chroma'} cannot be opened" in message


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
