"""Stores of several levels on the command line: how they are split, ingested, kept in step and searched."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_cli import ingest, query, run, run_both

from llama_index_chunking_plus import LexicalIndex, OfflineEmbedding, SpanNodeParser
from llama_index_chunking_plus.cli.files import find_files, read_document
from llama_index_chunking_plus.cli.options import ParserChoice, make_steps
from llama_index_chunking_plus.cli.store import CorpusStore

LEVELS = ["--parser", "multi-granularity", "--unit", "chars", "--preset", "manual"]
QUESTION = "E17报警是什么原因？"
ALARMS = "".join(
    f"### E{i:02} 报警\n\nE{i:02}报警表示第{i}号传感器断线。请先断电，更换第{i}号线缆，然后重启水泵并观察十分钟。"
    f"如果第{i}号传感器仍然没有读数，请联系第{i}服务站，并告诉他们设备的编号。\n\n"
    for i in range(1, 31)
)
MANUAL = (
    f"# 水泵手册\n\n## 报警\n\n{ALARMS}## 保养\n\n" + "".join(f"第{i}个月检查密封圈。" for i in range(1, 13)) + "\n"
)
CANTEEN = "食堂中午开放。周末休息。\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "水泵.md").write_text(MANUAL, encoding="utf-8")
    (folder / "食堂.md").write_text(CANTEEN, encoding="utf-8")
    return folder


def rows_of(store: Path) -> dict[str, dict[str, Any]]:
    """The metadata of all rows by id, as Chroma has them."""
    held = CorpusStore(store).index().vector_store.client.get(include=["metadatas"])
    return dict(zip(held["ids"], held["metadatas"], strict=True))


def assert_words_in_step(store: Path) -> None:
    rows = rows_of(store)
    assert rows
    assert not LexicalIndex(store / "words").stale_against(rows)


def exact(passage: dict[str, Any]) -> bool:
    return read_document(Path(passage["path"])).text[passage["start"] : passage["end"]] == passage["text"]


def test_split_shows_level_parent_and_sizes(docs: Path) -> None:
    chunks = json.loads(run("split", docs / "水泵.md", "--json", *LEVELS))["chunks"]
    by_level: dict[str, list[dict[str, Any]]] = {}
    for chunk in chunks:
        by_level.setdefault(chunk["level"], []).append(chunk)
    assert list(by_level) == ["coarse", "medium", "fine", "sentence"]
    for level, larger in (("medium", "coarse"), ("fine", "medium"), ("sentence", "fine")):
        ranges = [[chunk["start"], chunk["end"]] for chunk in by_level[larger]]
        for chunk in by_level[level]:
            assert chunk["parent"] in ranges
            assert chunk["parent"][0] <= chunk["start"] < chunk["end"] <= chunk["parent"][1]
    assert all("parent" not in chunk for chunk in by_level["coarse"])
    shown = run("split", docs / "水泵.md", *LEVELS)
    head = shown.splitlines()[1]
    assert all(name in head for name in ("level", "characters", "parent", "tokens", "kinds"))
    for level, held in by_level.items():
        tokens = [chunk["tokens"] for chunk in held]
        assert f"{level}: {len(tokens)} chunks of {min(tokens)}–{max(tokens)} tokens" in shown


def test_options_decide_levels_and_sizes(docs: Path) -> None:
    def levels(*options: object) -> Counter[str]:
        chunks = json.loads(run("split", docs / "水泵.md", "--json", *LEVELS, *options))["chunks"]
        return Counter(chunk["level"] for chunk in chunks)

    manual, coarser = levels(), levels("--preset", "narrative")
    assert coarser["fine"] < manual["fine"]
    assert levels("--no-sentences").keys() == {"coarse", "medium", "fine"}
    assert levels("--by-meaning").keys() == manual.keys()


def test_topics_are_found_with_the_model_only_if_asked_for() -> None:
    def parser(**options: Any) -> SpanNodeParser:
        return make_steps(ParserChoice("multi-granularity", **options), OfflineEmbedding())[0]  # type: ignore[return-value]

    assert parser().embed_model is None
    assert isinstance(parser(by_meaning=True).embed_model, OfflineEmbedding)


@pytest.mark.parametrize("unit", ["tokens", "chars"])
@pytest.mark.parametrize("preset", ["balanced", "manual", "narrative"])
def test_a_header_leaves_at_least_half_of_a_fine_chunk(preset: str, unit: str) -> None:
    choice = ParserChoice("multi-granularity", preset=preset, unit=unit, header=True)
    parser = make_steps(choice, OfflineEmbedding())[1]
    assert 0 < choice.header_size <= min(level.max_size for level in parser.levels) / 2


def test_a_store_is_searched_fused_and_each_hit_explains_itself(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    report = ingest(docs, store, *LEVELS)
    assert report["added"] == 2
    assert report["lexical"] == {"indexed": report["chunks_written"], "removed": 0, "kept": 0}
    assert_words_in_step(store)
    found = query(store, "-k", 3, question=QUESTION)
    assert len(found) == 3
    assert "E17报警表示第17号传感器断线" in found[0]["text"]
    assert found[0]["headings"] == ["水泵手册", "报警", "E17 报警"]
    assert found == query(store, "-k", 3, "--retriever", "fused", "--return-level", "fine", question=QUESTION)
    rows = rows_of(store)
    for passage in found:
        assert exact(passage)
        told = passage["explanation"]
        assert told["level"] == "fine"
        assert [rows[parent]["granularity"] for parent in told["parents"]] == ["medium", "coarse"]
        assert {"own", "sentence", "parent", "lexical", "parent_lexical"} >= told["scores"].keys() > {"own", "lexical"}
    shown = run("query", QUESTION, "--store", store, "-k", 1)
    first = found[0]
    assert f"1. 水泵.md characters {first['start']}–{first['end']}  score {first['score']:.3f}  fine\n" in shown
    assert f"own {first['explanation']['scores']['own']:.3f}, " in shown
    assert "水泵手册 › 报警\n### E17 报警\n" in shown


@pytest.mark.parametrize("retriever", ["fused", "coarse-to-fine"])
def test_the_level_that_is_shown(retriever: str, docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    levels = {row["granularity"]: 0 for row in rows_of(store).values()}
    assert levels.keys() == {"coarse", "medium", "fine", "sentence"}
    last = 0
    for level in ("fine", "medium", "coarse"):
        found = query(store, "-k", 4, "--retriever", retriever, "--return-level", level, question=QUESTION)
        places = [(passage["file"], passage["start"]) for passage in found]
        assert 0 < len(places) == len(set(places)) <= 4
        assert all(exact(passage) for passage in found)
        pump = [passage for passage in found if passage["file"] == "水泵.md"]
        assert {passage["explanation"]["level"] for passage in pump} == {level}
        assert len(pump[0]["text"]) > last
        last = len(pump[0]["text"])
        if retriever == "fused":
            assert "E17报警表示第17号传感器断线" in found[0]["text"]


@pytest.mark.parametrize("retriever", ["fused", "coarse-to-fine"])
def test_a_document_without_the_level_is_shown_in_its_largest_chunk(retriever: str, docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    options = ["-k", 3, "--retriever", retriever, "--return-level", "coarse"]
    canteen = [one for one in query(store, *options, question="食堂周末开放吗？") if one["file"] == "食堂.md"]
    assert [one["text"] for one in canteen] == [CANTEEN]
    assert canteen[0]["explanation"]["notes"][-1].endswith("its document is too short for 'coarse' ones")


@pytest.mark.parametrize("retriever", ["fused", "coarse-to-fine"])
@pytest.mark.parametrize("question, level", [("E17表示什么？", "fine"), ("总结一下水泵有哪些报警", "coarse")])
def test_auto_chooses_the_level_and_says_why(
    question: str, level: str, retriever: str, docs: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    options = ["-k", 1, "--retriever", retriever, "--return-level", "auto"]
    told = query(store, *options, question=question)[0]["explanation"]
    assert told["level"] == level
    reason = f"'{level}' was chosen: It asks for "
    assert told["notes"][-1].startswith(reason)
    assert reason in run("query", question, "--store", store, *options)


def test_expand_parent_reads_fine_chunks_in_their_medium_one(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    medium = {(row["span_start"], row["span_end"]) for row in rows_of(store).values() if row["granularity"] == "medium"}
    found = query(store, "-k", 2, "--expand", "parent", question=QUESTION)
    assert len(found) == 2
    assert "E17报警表示第17号传感器断线" in found[0]["text"]
    for passage in found:
        assert exact(passage)
        assert (passage["start"], passage["end"]) in medium
        assert passage["hits"]
        assert "own" in passage["explanation"]["scores"]
    assert "chunks hit" in run("query", QUESTION, "--store", store, "-k", 1, "--expand", "parent")
    message = run("query", QUESTION, "--store", store, "--expand", "window", code=1)
    assert "parser 'multi-granularity', whose chunks have no window; leave --expand out" in message


@pytest.mark.parametrize("retriever", ["fused", "coarse-to-fine"])
@pytest.mark.parametrize("level", ["coarse", "medium", "auto"])
def test_parents_and_a_larger_level_at_once_are_refused(level: str, retriever: str, docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    options = ["-k", 1, "--retriever", retriever, "--return-level"]
    message = run("query", QUESTION, "--store", store, "--expand", "parent", *options, level, code=1)
    assert (
        "--expand parent shows fine chunks in what is around them; leave --return-level out, or leave --expand out"
        in message
    )
    assert query(store, "--expand", "none", *options, level, question=QUESTION)
    assert query(store, "--expand", "parent", *options, "fine", question=QUESTION)[0]["hits"]


def test_a_blank_file_has_no_chunks_and_no_words(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (docs / "空.md").write_text(" \n", encoding="utf-8")
    report = ingest(docs, store, *LEVELS)
    assert report["without_chunks"] == [str((docs / "空.md").resolve())]
    assert report["added"] == 3
    assert {row["file_name"] for row in rows_of(store).values()} == {"水泵.md", "食堂.md"}
    assert_words_in_step(store)


def test_a_second_ingest_embeds_nothing_a_changed_option_everything(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS, "--fuse-parents", "--by-meaning")
    rows = rows_of(store)
    assert all("vector_fusion" in row for row in rows.values())
    with monkeypatch.context() as patch:
        patch.setattr(OfflineEmbedding, "_get_text_embeddings", lambda *_: pytest.fail("embeds"))
        again = ingest(docs, store)
    assert (again["unchanged"], again["chunks_written"]) == (2, 0)
    assert again["lexical"] == {"indexed": 0, "removed": 0, "kept": len(rows)}
    assert ingest(docs, store, "--no-fuse-parents")["updated"] == 2
    assert all("vector_fusion" not in row for row in rows_of(store).values())
    assert ingest(docs, store, "--no-sentences")["updated"] == 2
    assert "sentence" not in {row["granularity"] for row in rows_of(store).values()}
    assert ingest(docs, store)["unchanged"] == 2
    assert_words_in_step(store)
    manifest = json.loads((store / "chunking-plus.json").read_text(encoding="utf-8"))["parser"]
    remembered = {name: manifest[name] for name in ("preset", "sentences", "by_meaning", "fuse_parents")}
    assert remembered == {"preset": "manual", "sentences": False, "by_meaning": True, "fuse_parents": False}


def test_words_follow_a_changed_and_a_removed_file(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    (docs / "食堂.md").write_text("食堂停用。请去ZX-9餐厅。\n", encoding="utf-8")
    changed = ingest(docs, store)
    assert (changed["updated"], changed["unchanged"]) == (1, 1)
    assert changed["lexical"]["indexed"] == changed["chunks_written"]
    assert_words_in_step(store)
    assert LexicalIndex(store / "words").search("ZX-9", 5)
    best = query(store, "-k", 1, question="ZX-9")[0]
    assert best["file"] == "食堂.md"
    assert best["explanation"]["scores"]["lexical"] > 0
    (docs / "食堂.md").unlink()
    assert ingest(docs, store)["lexical"]["removed"] == 0
    assert ingest(docs, store, "--sync")["lexical"]["removed"] > 0
    assert_words_in_step(store)
    assert not LexicalIndex(store / "words").search("ZX-9", 5)
    assert {passage["file"] for passage in query(store, "-k", 9, question="ZX-9")} == {"水泵.md"}


def test_words_that_an_ingest_was_stopped_ahead_of_are_made_good(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    with monkeypatch.context() as patch:
        patch.setattr(LexicalIndex, "sync_with_store", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
        assert "disk full" in run("ingest", docs, "--store", store, "--header", code=1)
    mended = ingest(docs, store)
    assert (mended["unchanged"], mended["chunks_written"]) == (2, 0)
    assert mended["lexical"]["indexed"] > 0
    title = LexicalIndex(store / "words").scores("食堂", rows_of(store))
    held = {key for key, row in rows_of(store).items() if row["file_name"] == "食堂.md"}
    assert {key for key, score in title.items() if score > 0} == held, "headers are not among the words"
    assert ingest(docs, store)["lexical"]["indexed"] == 0


def test_damaged_words_are_made_again(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(docs, store, *LEVELS)
    before = query(store, "-k", 3, question=QUESTION)
    (file,) = (store / "words").glob("*.sqlite")
    file.write_bytes(b"no database" * 500)
    assert query(store, "-k", 3, question=QUESTION) == before
    assert_words_in_step(store)


@pytest.mark.filterwarnings("always::UserWarning")
def test_without_the_extra_vectors_are_searched_and_one_line_says_so(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    line = (
        "warning: Only vectors are searched, not words: bm25s is not installed; it comes with the extra 'lexical': "
        "pip install 'llama-index-chunking-plus[lexical]'\n"
    )
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "bm25s", None)
        out, err = run_both("ingest", docs, "--store", store, "--json", *LEVELS)
        assert json.loads(out)["lexical"] is None
        assert err.strip() == line.strip()
        out, err = run_both("query", QUESTION, "--store", store, "--json", "-k", 1)
        assert err == line
        told = json.loads(out)["passages"][0]["explanation"]
        assert told["scores"].keys() == {"own", "sentence", "parent"}
        assert run_both("query", QUESTION, "--store", store, "--retriever", "coarse-to-fine")[1] == ""
    later = query(store, "-k", 1, question=QUESTION)[0]["explanation"]
    assert later["scores"]["lexical"] > 0
    assert ingest(docs, store)["lexical"]["kept"] == len(rows_of(store))


@pytest.mark.parametrize("retriever", ["fused", "coarse-to-fine"])
@pytest.mark.parametrize("header", [[], ["--header", "--fuse-parents"]], ids=" ".join)
def test_the_newest_version_or_the_pinned_one(header: list[str], retriever: str, tmp_path: Path) -> None:
    store, policies = tmp_path / "store", tmp_path / "policies"
    policies.mkdir()
    for path in find_files([Path(sys.modules["llama_index_chunking_plus"].__file__ or "").parent / "samples"]):
        if path.name in {"leave_policy_v1.md", "leave_policy_v2.md"}:
            (policies / path.name).write_bytes(path.read_bytes())
    ingest(policies, store, *LEVELS, *header)
    wanted = {
        (): {"leave_policy_v1.md", "leave_policy_v2.md"},
        ("--latest-version",): {"leave_policy_v2.md"},
        ("--pin-version", "v1.0.0"): {"leave_policy_v1.md"},
    }
    for restriction, files in wanted.items():
        options = ["-k", 4, "--retriever", retriever, *restriction]
        found = query(store, *options, question="年休假最多可以结转多少天？")
        assert 0 < len(found) <= 4
        assert {passage["file"] for passage in found} == files
        for passage in found:
            assert exact(passage)
            assert passage.get("header", "").startswith("栖原生物科技员工休假制度") == bool(header)


def test_a_store_without_levels_refuses_what_searches_levels(docs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert "lexical" not in ingest(docs, store, "--parser", "sliding", "--chunk-size", "64")
    assert not [*store.glob("words*")]
    for options, named in (
        (["--retriever", "fused"], "--retriever"),
        (["--return-level", "auto"], "--return-level"),
        (["--retriever", "fused", "--return-level", "fine"], "--retriever and --return-level"),
    ):
        assert (
            f"made with the parser 'sliding', whose chunks have no levels; leave {named} out, or ingest with --parser "
            "multi-granularity into a new --store"
        ) in run("query", QUESTION, "--store", store, *options, code=1)
    message = run("ingest", docs, "--store", store, "--parser", "multi-granularity", code=1)
    assert "made with the parser 'sliding', not 'multi-granularity'; leave --parser out" in message


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["split", "--parser", "multi-granularity", "--preset", "novel"], "--preset 'novel' is not one of balanced, manual, narrative, law"),
        (["split", "--parser", "multi-granularity", "--chunk-size", "99"], "--chunk-size has no meaning for --parser multi-granularity; leave it out, a --preset decides the sizes"),
        (["split", "--parser", "multi-granularity", "--unit", "pages"], "--unit 'pages' is neither tokens nor chars"),
        (["split", "--parser", "multi-granularity", "--structure", "html"], "--structure 'html' is not one of"),
        (["split", "--preset", "law"], "--preset has no meaning for --parser hybrid; leave it out"),
        (["split", "--parser", "sliding", "--no-sentences"], "--sentences has no meaning for --parser sliding"),
        (["split", "--parser", "window", "--by-meaning"], "--by-meaning has no meaning for --parser window"),
        (["ingest", "--store", "s", "--parser", "structured", "--fuse-parents"], "--fuse-parents has no meaning for --parser structured"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], message: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run(arguments[0], docs, *arguments[1:], code=1)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--retriever", "dense"], "--retriever 'dense' is not one of fused, coarse-to-fine"),
        (["--return-level", "page"], "--return-level 'page' is not one of coarse, medium, fine, auto"),
    ],
)
def test_ways_of_searching_that_do_not_exist_are_refused(
    options: list[str], message: str, docs: Path, tmp_path: Path
) -> None:
    ingest(docs, tmp_path / "store", *LEVELS, "--no-sentences")
    assert message in run("query", QUESTION, "--store", tmp_path / "store", *options, code=1)
