"""BM25 against a plain implementation of the formula; the file against kills, damage, other processes and threads."""

from __future__ import annotations

import asyncio
import logging
import math
import multiprocessing
import os
import pickle
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")

import chromadb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus.core.lexical import search_words
from llama_index_chunking_plus.errors import (
    ChunkingPlusWarning,
    MissingExtraError,
    OptionError,
    StoreBusyError,
    StoreMismatchError,
)
from llama_index_chunking_plus.ingestion import ContextHeaderTransform
from llama_index_chunking_plus.node_parser import SlidingWindowNodeParser
from llama_index_chunking_plus.samples import questions
from llama_index_chunking_plus.storage.lexical import LexicalChanges, LexicalIndex

KILLS = 12
PRELOADED = ["chromadb", "llama_index.vector_stores.chroma", "llama_index_chunking_plus.storage.lexical"]
FILE = "lexical.sqlite"
QUERIES = ("变频器报警ERR-4012", "散热风扇 风扇", "v2.3.1", "GPU", "没有的词语zzz", "", "的")


def node(name: str, text: str, document: str = "d", **metadata: Any) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(id_=name, text=text, metadata=metadata, relationships=source, embedding=[1.0, 2.0])


def corpus(version: int, size: int = 40) -> list[BaseNode]:
    """Nodes of which some change, come and go with the version."""
    rows = random.Random(version)
    things = ["变频器", "散热风扇", "GPU", "ERR-4012", "v2.3.1", "报警", "清洁", f"版本{version}"]
    return [
        node(f"n{i}", "，".join(rows.choices(things, k=5)) if (i + version) % 3 else f"第{i}条清洁风扇", f"d{i % 7}")
        for i in range(size)
        if (i * version) % 11 != 1
    ]


def bm25(texts: Mapping[str, str], query: str, k1: float = 1.2, b: float = 0.75) -> dict[str, float]:
    """The formula as it stands in Kamphuis et al. (2020), "Lucene (accurate)"."""
    bags = {name: Counter(search_words(text)) for name, text in texts.items()}
    average = sum(bag.total() for bag in bags.values()) / max(1, len(bags))
    scores = dict.fromkeys(bags, 0.0)
    for word in set(search_words(query)):
        n = sum(word in bag for bag in bags.values())
        weight = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
        for name, bag in bags.items():
            if bag[word]:
                scores[name] += weight * bag[word] / (bag[word] + k1 * (1 - b + b * bag.total() / average))
    return scores


def texts_of(nodes: Iterable[BaseNode]) -> dict[str, str]:
    return {each.node_id: each.get_content() for each in nodes}


def answers(index: LexicalIndex) -> list[list[tuple[str, float]]]:
    return [index.search(query, 50) for query in QUERIES]


def fresh(nodes: Sequence[BaseNode], **options: Any) -> LexicalIndex:
    index = LexicalIndex(**options)
    index.sync(nodes)
    return index


def assert_holds(index: LexicalIndex, nodes: Sequence[BaseNode]) -> None:
    assert not index.stale_against([each.node_id for each in nodes])
    assert answers(index) == answers(fresh(nodes))


# --- scores ---


@pytest.mark.parametrize("k1,b", [(1.2, 0.75), (0, 0.5), (2, 0), (0.5, 1)])
def test_scores_are_those_of_the_formula(k1, b):
    nodes = corpus(1)
    index = fresh(nodes, k1=k1, b=b)
    for query in QUERIES:
        expected = bm25(texts_of(nodes), query, k1, b)
        assert index.scores(query, expected) == pytest.approx(expected, abs=1e-4)


TEXTS = st.text(st.sampled_from("风扇报警gGpPuU12-，\n"), max_size=20)


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), TEXTS, max_size=12),
    TEXTS,
    st.integers(1, 6),
    st.floats(0, 3),
    st.floats(0, 1),
    st.none() | st.sets(st.text("abcx", min_size=1, max_size=2)),
)
def test_search_is_what_sorting_all_scores_gives(texts, query, top_k, k1, b, allowed):
    index = fresh([node(name, text) for name, text in texts.items()], k1=k1, b=b)
    expected = bm25(texts, query, k1, b)
    scores = index.scores(query, [*texts, "unknown"])
    assert scores == pytest.approx(expected, abs=1e-4)
    hits = [name for name in scores if scores[name] > 0 and (allowed is None or name in allowed)]
    best = sorted(hits, key=lambda name: (-scores[name], name))[:top_k]
    assert index.search(query, top_k, allowed) == [(name, scores[name]) for name in best]
    assert {name for name, score in scores.items() if score > 0} == {name for name in texts if expected[name] > 0}


def test_equal_scores_come_in_the_order_of_the_ids():
    names = [f"{i:03}" for i in range(500)]
    index = fresh([node(name, "散热风扇") for name in random.Random(1).sample(names, 500)])
    assert [name for name, _ in index.search("风扇", 40)] == names[:40]
    assert [name for name, _ in index.search("风扇", 900, names[::-3])] == sorted(names[::-3])


def test_repeated_words_of_a_query_count_once():
    index = fresh(corpus(1))
    assert index.search("风扇 风扇 风扇", 5) == index.search("风扇", 5)


def test_right_samples_come_first(sample_documents):
    nodes = SlidingWindowNodeParser(chunk_size=300, chunk_overlap=30).get_nodes_from_documents(sample_documents)
    index, by_id = fresh(nodes), {each.node_id: each for each in nodes}
    asked = questions()
    found = [[by_id[name].ref_doc_id for name, _ in index.search(each.question, 3)] for each in asked]
    assert sum(each.file in files for each, files in zip(asked, found, strict=True)) / len(asked) > 0.9


# --- which text ---


def test_the_header_can_be_found_or_not():
    (headed,) = ContextHeaderTransform()([node("a", "每半年清洁一次。", title="变频器手册", author="龚翯铖")])
    found = {
        kind: bool(fresh([headed], indexed_text=kind).search("变频器", 1)) for kind in ("header", "plain", "embed")
    }
    assert found == {"header": True, "plain": False, "embed": True}
    other = node("a", "每半年清洁一次。", author="龚翯铖")
    kinds = {kind: bool(fresh([other], indexed_text=kind).search("龚翯铖", 1)) for kind in ("header", "plain", "embed")}
    assert kinds == {"header": False, "plain": False, "embed": True}


def test_protected_terms_and_a_user_dictionary(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("龚翯铖\n", encoding="utf-8")
    nodes = [node("a", "找龚翯铖。"), node("b", "龚先生，翯铖。"), node("c", "什么")]
    assert len(fresh(nodes).search("龚翯铖", 5)) == 2
    index = fresh(nodes, user_dictionary=str(path), protected_terms=["什么"])
    assert [name for name, _ in index.search("龚翯铖", 5)] == ["a"]
    assert [name for name, _ in index.search("什么", 5)] == ["c"]


# --- changes ---


@pytest.mark.parametrize("on_disk", [True, False])
def test_update_and_delete_leave_what_a_fresh_index_has(on_disk, tmp_path: Path):
    index = LexicalIndex(tmp_path if on_disk else None)
    held: dict[str, list[BaseNode]] = {}
    chance = random.Random(5)
    for version in range(1, 12):
        new: dict[str, list[BaseNode]] = {}
        for each in corpus(version):
            if chance.random() < 0.5:
                new.setdefault(each.ref_doc_id or "", []).append(each)
        index.update(new)
        held.update(new)
        gone = chance.sample(sorted(held), 2)
        index.delete([*gone, "unknown"])
        held = {key: nodes for key, nodes in held.items() if key not in gone}
        nodes = [each for own in held.values() for each in own]
        assert_holds(index, nodes)
    if on_disk:
        assert_holds(LexicalIndex(str(tmp_path)), nodes)


def test_only_changed_texts_are_cut_into_words(tmp_path: Path, monkeypatch):
    nodes = corpus(1)
    assert LexicalIndex(tmp_path).sync(nodes) == LexicalChanges(indexed=len(nodes))
    seen: list[str] = []

    def counting(text: str, *rest: Any) -> list[str]:
        seen.append(text)
        return search_words(text, *rest)

    monkeypatch.setattr("llama_index_chunking_plus.storage.lexical.search_words", counting)
    changed = [nodes[0].model_copy(update={"text": "换了"}), *nodes[2:]]
    index = LexicalIndex(tmp_path)
    assert index.sync(changed) == LexicalChanges(indexed=1, removed=1, kept=len(nodes) - 2)
    assert seen == ["换了"]
    assert_holds(index, changed)


def test_nothing_to_do_is_not_written(tmp_path: Path):
    index = fresh(corpus(1), persist_dir=tmp_path)
    index.search("风扇", 1)
    before = (tmp_path / FILE).read_bytes()
    index.sync(corpus(1))
    index.delete(["unknown"])
    assert (tmp_path / FILE).read_bytes() == before


def test_asking_makes_no_folder(tmp_path: Path):
    index = LexicalIndex(tmp_path / "none")
    assert index.search("风扇", 3) == []
    assert index.scores("风扇", ["a"]) == {}
    assert index.delete(["d"]) == LexicalChanges()
    assert not index.stale_against([])
    assert index.stale_against(["a"])
    assert not (tmp_path / "none").exists()


def test_what_is_passed_in_stays_as_it_is():
    nodes = corpus(1)
    before = [each.model_dump() for each in nodes]
    fresh(nodes)
    assert [each.model_dump() for each in nodes] == before


def test_texts_of_any_kind():
    texts = {"empty": "", "nul": "\0风扇", "half": "\ud800风扇", "blank": " \n", "long": "风扇" * 10_000}
    index = fresh([node(name, text) for name, text in texts.items()])
    assert {name for name, _ in index.search("风扇", 9)} == {"nul", "half", "long"}
    assert fresh([node("empty", "")]).search("风扇", 1) == []


# --- the file ---


def test_the_matrix_is_left_to_the_next_process(tmp_path: Path, monkeypatch):
    expected = answers(fresh(corpus(1), persist_dir=tmp_path))
    monkeypatch.setattr("llama_index_chunking_plus.storage.lexical._unpacked", lambda _: 1 / 0)
    assert answers(LexicalIndex(tmp_path)) == expected


def test_k1_and_b_are_free_to_change(tmp_path: Path):
    answers(fresh(corpus(1), persist_dir=tmp_path))
    assert answers(LexicalIndex(tmp_path, k1=2, b=0.1)) == answers(fresh(corpus(1), k1=2, b=0.1))
    assert answers(LexicalIndex(tmp_path)) == answers(fresh(corpus(1)))


def test_other_options_are_refused_until_synced(tmp_path: Path):
    nodes = corpus(1)
    fresh(nodes, persist_dir=tmp_path)
    other = LexicalIndex(tmp_path, protected_terms=["ERR"])
    for act in (lambda: other.search("a", 1), lambda: other.scores("a", []), lambda: other.update({"d": nodes[:1]})):
        with pytest.raises(StoreMismatchError, match="sync_with_store"):
            act()
    assert other.stale_against(texts_of(nodes))
    assert other.delete(["d1"]).removed > 0
    assert other.sync(nodes) == LexicalChanges(len(nodes), removed=0)
    assert answers(other) == answers(fresh(nodes, protected_terms=["ERR"]))
    with pytest.raises(StoreMismatchError):
        LexicalIndex(tmp_path).search("a", 1)


def test_a_dictionary_that_changes_is_another_option(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("龚翯铖\n", encoding="utf-8")
    fresh(corpus(1), persist_dir=tmp_path, user_dictionary=str(path))
    path.write_text("翯铖\n", encoding="utf-8")
    with pytest.raises(StoreMismatchError):
        LexicalIndex(tmp_path, user_dictionary=str(path)).search("a", 1)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.9])
def test_a_torn_file_is_noticed_and_made_anew(share, tmp_path: Path, caplog):
    nodes = corpus(1, 400)
    answers(fresh(nodes, persist_dir=tmp_path))
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    index = LexicalIndex(tmp_path)
    assert index.stale_against(texts_of(nodes))
    if share:
        with pytest.raises(StoreMismatchError, match="damaged"):
            index.search("风扇", 1)
    index.sync(nodes)
    assert_holds(index, nodes)
    assert bool(caplog.records) == bool(share)


def test_a_damaged_matrix_is_made_anew(tmp_path: Path):
    index = fresh(corpus(1), persist_dir=tmp_path)
    expected = answers(index)
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("UPDATE matrix SET value = zeroblob(length(value))")
    connection.commit()
    connection.close()
    assert answers(LexicalIndex(tmp_path)) == expected


def test_bytes_that_turned_are_noticed_or_do_not_matter(tmp_path: Path):
    nodes = corpus(1, 120)
    answers(fresh(nodes, persist_dir=tmp_path))
    path, chance = tmp_path / FILE, random.Random(7)
    whole = path.read_bytes()
    expected = answers(fresh(nodes))
    for _ in range(40):
        torn = bytearray(whole)
        start = chance.randrange(len(torn))
        torn[start : start + 200] = bytes(chance.randrange(256) for _ in torn[start : start + 200])
        path.write_bytes(torn)
        index = LexicalIndex(tmp_path)
        index.sync(nodes)
        assert answers(index) == expected


def test_a_file_of_another_kind_or_version(tmp_path: Path):
    nodes = corpus(1)
    (tmp_path / FILE).write_text("no database")
    with pytest.raises(StoreMismatchError):
        LexicalIndex(tmp_path).update({"d": nodes})
    fresh(nodes, persist_dir=tmp_path)
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    index = LexicalIndex(tmp_path)
    with pytest.raises(StoreMismatchError, match="another version"):
        index.search("风扇", 1)
    index.sync(nodes)
    assert_holds(index, nodes)


def test_a_file_that_goes_away_is_empty_until_synced(tmp_path: Path):
    index = fresh(corpus(1), persist_dir=tmp_path)
    assert index.search("风扇", 1)
    (tmp_path / FILE).unlink()
    assert index.search("风扇", 1) == []
    index.sync(corpus(2))
    assert_holds(index, corpus(2))


def test_a_failing_change_changes_nothing(tmp_path: Path):
    nodes = corpus(1)
    index = fresh(nodes, persist_dir=tmp_path)
    with pytest.raises(UnicodeEncodeError):
        index.sync([node("x", "风扇"), node("\ud800", "风扇")])
    with pytest.raises(OptionError, match="two nodes"):
        index.update({"d1": [node("x", "风扇")], "d2": [node("x", "风扇")]})
    assert_holds(index, nodes)


# --- several at once ---


def test_threads_find_what_one_finds(tmp_path: Path):
    nodes = corpus(1)
    expected = answers(fresh(nodes, persist_dir=tmp_path))
    index = LexicalIndex(tmp_path)
    with ThreadPoolExecutor(32) as threads:
        results = list(threads.map(lambda _: answers(index), range(128)))
    assert all(each == expected for each in results)


@pytest.mark.parametrize("on_disk", [True, False])
def test_readers_see_each_change_as_a_whole(on_disk, tmp_path: Path):
    folder = tmp_path if on_disk else None
    states = [corpus(version) for version in range(4)]
    expected = {tuple(fresh(state).search("清洁 变频器", 50)) for state in states}
    writer = fresh(states[0], persist_dir=folder)
    reader = LexicalIndex(folder) if on_disk else writer
    with ThreadPoolExecutor(8) as threads:
        reading = [threads.submit(lambda: tuple(reader.search("清洁 变频器", 50))) for _ in range(200)]
        for round_ in range(20):
            writer.sync(states[round_ % 4])
        assert {each.result() for each in reading} <= expected


def test_another_process_is_seen_at_once(tmp_path: Path):
    reader, writer = LexicalIndex(tmp_path), LexicalIndex(tmp_path)
    for version in range(4):
        writer.sync(corpus(version))
        assert_holds(reader, corpus(version))


def test_writers_of_different_documents_do_not_disturb_each_other(tmp_path: Path):
    nodes = {f"d{i}": [node(f"n{i}", f"风扇{i}", f"d{i}")] for i in range(24)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: LexicalIndex(tmp_path).update({key: nodes[key]}), nodes))
    assert_holds(LexicalIndex(tmp_path), [each for own in nodes.values() for each in own])


def test_a_writer_that_keeps_on_writing(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("llama_index_chunking_plus.storage.lexical._Database.wait_seconds", 0.1)
    index = fresh(corpus(1), persist_dir=tmp_path)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError, match="another process"):
        index.sync(corpus(2))
    assert_holds(index, corpus(1))
    other.close()
    index.sync(corpus(2))
    assert_holds(index, corpus(2))


def test_rows_that_another_process_took_away_meanwhile(tmp_path: Path, monkeypatch):
    nodes = corpus(1)
    index = fresh(nodes, persist_dir=tmp_path)
    known = LexicalIndex._known_or_anew

    def and_then_deletes(self: LexicalIndex, recipe: str) -> Any:
        try:
            return known(self, recipe)
        finally:
            monkeypatch.undo()
            LexicalIndex(tmp_path).delete(["d1"])

    monkeypatch.setattr(LexicalIndex, "_known_or_anew", and_then_deletes)
    with pytest.raises(StoreBusyError, match="again"):
        index.sync(nodes)
    index.sync(nodes)
    assert_holds(index, nodes)


def write_until_killed(folder: Path, seed: int, started: Any) -> None:
    index = LexicalIndex(folder)
    search_words("变频器")
    started.send(True)
    for round_ in range(10_000):
        index.sync(corpus((seed + round_) % KILLS))
        index.search("风扇", 3)


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_at_any_moment_and_made_good(tmp_path: Path):
    chance, context = random.Random(11), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    states = [[], *(corpus(version) for version in range(KILLS))]
    for seed in range(KILLS):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=write_until_killed, args=(tmp_path, seed, there))
        process.start()
        assert here.recv()
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
        here.close()
        there.close()
        index = LexicalIndex(tmp_path)
        held = [nodes for nodes in states if not index.stale_against(texts_of(nodes))]
        assert any(answers(index) == answers(fresh(nodes)) for nodes in held), "neither before nor after"
        index.sync(corpus(seed))
        assert_holds(index, corpus(seed))


# --- beside a vector store ---


def chroma(name: str) -> ChromaVectorStore:
    client = chromadb.EphemeralClient()
    if name in {each.name for each in client.list_collections()}:
        client.delete_collection(name)
    return ChromaVectorStore(chroma_collection=client.create_collection(name))


@pytest.mark.parametrize("changed", [None, ()])
def test_in_step_with_a_store_through_its_life(changed, tmp_path: Path):
    store = chroma("life")
    store.add(corpus(1))
    assert LexicalIndex(tmp_path).sync_with_store(store, changed=changed).indexed == len(corpus(1))
    assert_holds(LexicalIndex(tmp_path), corpus(1))
    store.delete("d2")
    store.add([node("new", "新来的散热风扇", "e")])
    rows = [*(each for each in corpus(1) if each.ref_doc_id != "d2"), node("new", "新来的散热风扇", "e")]
    index = LexicalIndex(tmp_path)
    assert index.stale_against(texts_of(rows))
    assert index.sync_with_store(store, changed=changed) == LexicalChanges(
        indexed=1, removed=len(corpus(1)) + 1 - len(rows), kept=len(rows) - 1
    )
    assert_holds(index, rows)
    index.delete(["e"])
    assert index.stale_against(texts_of(rows))
    asyncio.run(index.async_sync_with_store(store, changed=changed))
    assert_holds(LexicalIndex(tmp_path), rows)


def test_a_header_that_changes_under_its_id():
    store, index = chroma("headers"), LexicalIndex()
    old = [node("a", "清洁风扇", "d", context_header="旧手册"), node("b", "清洁风扇", "e", context_header="旧手册")]
    store.add(old)
    index.sync_with_store(store)
    store.delete_nodes(["a", "b"])
    new = [each.model_copy(update={"metadata": {"context_header": "新指南"}}) for each in old]
    store.add(new)
    assert index.sync_with_store(store, changed=()).indexed == 0
    assert index.search("指南", 2) == []
    assert index.sync_with_store(store, changed=["d"]).indexed == 1
    assert [name for name, _ in index.search("指南", 2)] == ["a"]
    assert index.sync_with_store(store).indexed == 1
    assert len(index.search("指南", 2)) == 2


def test_many_documents_and_more_rows_than_one_question_may_ask(tmp_path: Path):
    nodes = [node(f"n{i:05}", f"风扇编号{i}", f"d{i % 30}") for i in range(2_300)]
    store = chroma("many")
    store.add(nodes)
    index = LexicalIndex(tmp_path)
    assert index.sync_with_store(store).indexed == 2_300
    assert_holds(index, nodes)


def test_a_store_without_texts_needs_a_docstore():
    nodes, store, docstore = corpus(1), SimpleVectorStore(), SimpleDocumentStore()
    store.add(nodes)
    index = LexicalIndex()
    with pytest.raises(OptionError, match="docstore"):
        index.sync_with_store(store)
    docstore.add_documents(nodes)
    index.sync_with_store(store, docstore)
    assert_holds(index, nodes)
    docstore.delete_document(nodes[0].node_id)
    with pytest.warns(ChunkingPlusWarning, match="1 rows"):
        index.sync_with_store(store, docstore)
    assert_holds(index, nodes[1:])


def test_other_options_or_damage_are_made_good_from_the_store(tmp_path: Path):
    store = chroma("again")
    store.add(corpus(1))
    LexicalIndex(tmp_path, indexed_text="plain").sync_with_store(store)
    index = LexicalIndex(tmp_path)
    assert index.sync_with_store(store, changed=()).indexed == len(corpus(1))
    (tmp_path / FILE).write_bytes(b"x" * 5000)
    assert index.sync_with_store(store, changed=()).indexed == len(corpus(1))
    assert_holds(index, corpus(1))


class Unlisted(SimpleVectorStore):
    @classmethod
    def class_name(cls) -> str:
        return "Unlisted"


def test_a_store_that_cannot_list_its_rows():
    with pytest.raises(OptionError, match="sync\\(nodes\\)"):
        LexicalIndex().sync_with_store(Unlisted(), SimpleDocumentStore())


# --- options ---


@pytest.mark.parametrize(
    "options,message",
    [
        ({"k1": -1}, "k1=-1"),
        ({"k1": math.inf}, "k1=inf"),
        ({"k1": "1"}, "k1='1'"),
        ({"b": 1.1}, "b=1.1"),
        ({"b": math.nan}, "b=nan"),
        ({"b": True}, "b=True"),
        ({"indexed_text": "all"}, "'header', 'plain', 'embed'"),
        ({"protected_terms": "检索"}, "one string"),
        ({"protected_terms": [""]}, "empty"),
        ({"protected_terms": [3]}, r"protected_terms=\(3,\) holds what is no text"),
        ({"protected_terms": {"检索": 1}}, "are no terms; pass a list"),
        ({"user_dictionary": "none.txt"}, "none.txt"),
        ({"persist_dir": ""}, "persist_dir=''"),
        ({"persist_dir": 3}, "persist_dir=3"),
        ({"persist_dir": __file__}, "is a file"),
    ],
)
def test_wrong_options_fail_at_once(options, message):
    with pytest.raises(OptionError, match=message):
        LexicalIndex(**options)


def test_wrong_arguments_say_so():
    index, store = fresh(corpus(1)), SimpleVectorStore()
    for call in (
        lambda: index.search("a", 0),
        lambda: index.search("a", 1.5),  # type: ignore[arg-type]
        lambda: index.search(None, 1),  # type: ignore[arg-type]
        lambda: index.search("a", 1, "n1"),
        lambda: index.delete("d1"),
        lambda: index.update(corpus(1)),  # type: ignore[arg-type]
        lambda: index.sync_with_store(store, SimpleDocumentStore(), "d1"),
    ):
        with pytest.raises(OptionError):
            call()


def test_without_bm25s_the_message_has_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtraError, match=r"llama-index-chunking-plus\[lexical\]"):
        LexicalIndex()


def test_copies_by_pickle(tmp_path: Path):
    index = fresh(corpus(1), persist_dir=tmp_path)
    copy = pickle.loads(pickle.dumps(index))
    assert copy == index
    assert answers(copy) == answers(index)
    with pytest.raises(TypeError, match="persist_dir"):
        pickle.dumps(LexicalIndex())


def test_bm25s_keeps_quiet(caplog, capsys):
    with caplog.at_level(logging.INFO):
        answers(fresh(corpus(1)))
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_documents_are_nodes_too():
    index = LexicalIndex()
    index.update({"whole": [Document(id_="whole", text="散热风扇")]})
    assert [name for name, _ in index.search("散热", 1)] == ["whole"]
