"""The fused ranking: against a scan of all rows in numpy, the same in every store, and in step with what changes."""

from __future__ import annotations

import asyncio
import math
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from granularities import (
    PairEmbedding,
    assert_same,
    corpus,
    embedded,
    explained,
    index_of,
    level_of,
    nodes_of,
    pair_vector,
    parser,
    text_of,
    told,
    where,
)
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilters
from vector_stores import Stores, opened_anew

from llama_index_chunking_plus.core.lexical import search_words
from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError, OptionError, StoreBusyError
from llama_index_chunking_plus.ingestion import ParentVectorFusion, delete_document, sync_documents
from llama_index_chunking_plus.retrievers import CoarseToFineRetriever, FusedGranularityRetriever, FusionWeights

pytest.importorskip("bm25s")
from llama_index_chunking_plus.storage import LexicalIndex

KINDS = ["chroma-l2", "chroma-cosine", "milvus", "milvus-cosine", "qdrant"]
QUESTIONS = ["周一年假要申请几次？", "月底合同", "春节班车要查询几次？"]
ALL = 1_000  # more candidates than there are rows


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.closing:
        yield made


@pytest.fixture(scope="module")
def nodes() -> list[BaseNode]:
    return embedded(corpus(), sentences=True)


@pytest.fixture(scope="module")
def simple(nodes: list[BaseNode]) -> VectorStoreIndex:
    return index_of(SimpleVectorStore(), nodes)


# --- a scan of all rows, in plain arithmetic ---

Parts = dict[str, dict[str, float]]


def bm25(nodes: Sequence[BaseNode], question: str) -> dict[str, float]:
    words = {node.node_id: search_words(node.get_content()) for node in nodes}
    mean = sum(map(len, words.values())) / len(words)
    scores = dict.fromkeys(words, 0.0)
    for word in set(search_words(question)):
        having = [name for name in words if word in words[name]]
        for name in having:
            count, size = words[name].count(word), len(words[name])
            idf = math.log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
            scores[name] += idf * count / (count + 1.2 * (1 - 0.75 + 0.75 * size / mean))
    return scores


def parts_of(nodes: Sequence[BaseNode], question: str, passes: Callable[[BaseNode], bool]) -> Parts:
    """Each component of each fine chunk that passes; nodes hold all levels."""
    query = np.array(pair_vector(question))
    near = {node.node_id: float(np.array(node.embedding) @ query) for node in nodes}
    lexical = bm25(nodes, question)
    fine = [node for node in nodes if level_of(node) == "fine" and passes(node)]
    above = {node.node_id: node.metadata.get("parent_id", node.node_id) for node in fine}
    sentences: dict[str, list[float]] = {}
    for node in nodes:
        if level_of(node) == "sentence":
            sentences.setdefault(node.metadata["parent_id"], []).append(near[node.node_id])
    return {
        "own": {name: near[name] for name in above},
        "sentence": {name: max(sentences[name]) for name in above},
        "parent": {name: near[parent] for name, parent in above.items()},
        "lexical": {name: lexical[name] for name in above},
        "parent_lexical": {name: lexical[parent] for name, parent in above.items()},
    }


def even(scores: Mapping[str, float]) -> dict[str, float]:
    values = np.array([*scores.values()])
    spread = values.std() or 1.0
    return {name: (score - values.mean()) / spread for name, score in scores.items()}


def rank_of(scores: Mapping[str, float], name: str) -> int:
    return sorted(scores, key=lambda each: (-scores[each], each)).index(name) + 1


def total_of(parts: Parts, fusion: str | None, weights: FusionWeights) -> dict[str, float]:
    dense_weights = {"own": weights.own, "sentence": weights.sentence, "parent": weights.parent}
    total = sum(dense_weights.values())
    dense = {
        name: sum(weight * parts[part][name] for part, weight in dense_weights.items()) / total for name in parts["own"]
    }
    if fusion is None:
        return dense
    words = {"lexical": weights.lexical, "parent_lexical": weights.parent_lexical}
    if fusion == "standardised":
        scaled = {part: even(parts[part]) for part in words}
        return {
            name: score + sum(weight * scaled[part][name] for part, weight in words.items())
            for name, score in even(dense).items()
        }
    found = {part: {name: score for name, score in parts[part].items() if score > 0} for part in words if words[part]}
    rankings = [dense, *found.values()]
    return {name: sum(1 / (60 + rank_of(each, name)) for each in rankings if name in each) for name in dense}


FILTERS: dict[str, tuple[MetadataFilters | None, Callable[[BaseNode], bool]]] = {
    "none": (None, lambda _: True),
    "tenant": (where("tenant", "甲"), lambda node: node.metadata["tenant"] == "甲"),
    "versions": (where("version", [0, 3, 6], FilterOperator.IN), lambda node: node.metadata["version"] in {0, 3, 6}),
    "not": (where("version", 2, FilterOperator.NE), lambda node: node.metadata["version"] != 2),
    "document": (where("doc_id", "long1"), lambda node: node.ref_doc_id == "long1"),
}
WEIGHTS = [FusionWeights(), FusionWeights(0.2, 0.5, 0.1, 1.3, 0.0), FusionWeights(own=0, sentence=1, parent=0)]


@pytest.mark.parametrize("weights", WEIGHTS, ids=["default", "others", "sentences"])
@pytest.mark.parametrize("fusion", [None, "standardised", "reciprocal_rank"])
@pytest.mark.parametrize("filters", FILTERS)
def test_with_all_rows_as_candidates_the_ranking_is_that_of_a_scan(nodes, simple, filters, fusion, weights):
    given, passes = FILTERS[filters]
    options: dict[str, Any] = {"lexical": LexicalIndex(), "fusion": fusion} if fusion else {}
    retriever = FusedGranularityRetriever(simple, 12, candidates=ALL, filters=given, weights=weights, **options)
    for question in QUESTIONS:
        parts = parts_of(nodes, question, passes)
        expected = total_of(parts, fusion, weights)
        found = retriever.retrieve(question)
        assert dict(told(found)) == pytest.approx({hit.node_id: expected[hit.node_id] for hit in found}, abs=1e-3)
        best = sorted(expected.values(), reverse=True)[:12]
        assert [hit.score for hit in found] == pytest.approx(best, abs=1e-3)
        for hit in found:
            for part, score in explained(hit)["scores"].items():
                assert score == pytest.approx(parts[part][hit.node_id], abs=1e-3)


def test_every_hit_explains_itself(simple, nodes):
    by_id = {node.node_id: node for node in nodes}
    for hit in FusedGranularityRetriever(simple, 40, lexical=LexicalIndex(), candidates=ALL).retrieve(QUESTIONS[0]):
        node = by_id[hit.node_id]
        expected = [node.metadata.get("parent_id"), node.metadata["coarse_id"]]
        assert explained(hit)["level"] == "fine"
        assert explained(hit)["parents"] == [*dict.fromkeys(name for name in expected if name and name != node.node_id)]
        assert {*explained(hit)["scores"]} == {"own", "sentence", "parent", "lexical", "parent_lexical"}
        assert "explanation" not in hit.node.get_content("llm") + hit.node.get_content("embed")


# --- the same everywhere, with few candidates too ---


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_store_gives_the_same(opened, nodes, simple, kind, filters):
    index = index_of(opened.make(kind), nodes)
    for options in ({}, {"lexical": True}, {"lexical": True, "fusion": "reciprocal_rank", "candidates": 20}):
        given = {**options, "filters": FILTERS[filters][0]}
        pair = [
            FusedGranularityRetriever(each, 8, **{**given, **({"lexical": LexicalIndex()} if options else {})})
            for each in (index, simple)
        ]
        for question in QUESTIONS:
            found, expected = (retriever.retrieve(question) for retriever in pair)
            assert_same(found, expected, within=2e-3)
            assert found
            assert all(FILTERS[filters][1](hit.node) for hit in found)


def test_what_only_words_find_passes_the_filters(opened, nodes):
    """One candidate by vectors: the rest come by words."""
    wanted = next(node for node in nodes if level_of(node) == "fine" and node.ref_doc_id == "long1")
    question = wanted.get_content() * 2
    far = QueryBundle(question, embedding=[-each for each in pair_vector(question)])
    for kind in ("simple", "chroma-l2", "qdrant"):
        index = index_of(opened.make(kind), nodes)
        for tenant, document in (("甲", "long1"), ("乙", None)):
            filters = where("tenant", tenant)
            retriever = FusedGranularityRetriever(index, 1, LexicalIndex(), filters=filters, candidates=8)
            pool = FusedGranularityRetriever(index, 8, LexicalIndex(), filters=filters, candidates=8).retrieve(far)
            assert {hit.metadata["tenant"] for hit in pool} == {tenant}
            assert (wanted.node_id in told_ids(pool)) == (document == "long1")
            assert (retriever.retrieve(far)[0].node_id == wanted.node_id) == (document == "long1")


def told_ids(hits: Sequence[NodeWithScore]) -> set[str]:
    return {hit.node_id for hit in hits}


# --- levels that are not stored ---


def test_without_sentences_and_without_parents(nodes):
    query = np.array(pair_vector(QUESTIONS[0]))
    for missing, kept in (
        (("sentence",), {"own", "parent"}),
        (("medium", "coarse"), {"own", "sentence"}),
        (("sentence", "medium", "coarse"), {"own"}),
    ):
        rows = [n for n in nodes if level_of(n) not in missing and n.ref_doc_id.startswith("long")]
        retriever = FusedGranularityRetriever(index_of(SimpleVectorStore(), rows), 90, candidates=ALL)
        found = retriever.retrieve(QUESTIONS[0])
        assert {frozenset(explained(hit)["scores"]) for hit in found} == {frozenset(kept)}
        if kept == {"own"}:
            near = {n.node_id: float(np.array(n.embedding) @ query) for n in rows}
            assert dict(told(found)) == pytest.approx(near, abs=1e-5)


def test_the_smallest_chunk_around_that_is_stored_stands_for_the_parent(nodes):
    fused = ParentVectorFusion(medium=0, fine=0, store_levels=("coarse", "fine"))(nodes)
    by_id = {node.node_id: node for node in nodes}
    query = np.array(pair_vector(QUESTIONS[0]))
    retriever = FusedGranularityRetriever(index_of(SimpleVectorStore(), fused), 99, LexicalIndex(), candidates=ALL)
    lexical = bm25(fused, QUESTIONS[0])
    found = retriever.retrieve(QUESTIONS[0])
    assert {hit.node.ref_doc_id for hit in found} == {document.id_ for document in corpus()}
    for hit in found:
        above = by_id[hit.metadata["coarse_id"]]
        assert explained(hit)["scores"]["parent"] == pytest.approx(float(np.array(above.embedding) @ query), abs=1e-5)
        assert explained(hit)["scores"]["parent_lexical"] == pytest.approx(lexical[above.node_id], abs=1e-3)


def test_weights_of_what_is_not_stored_leave_the_chunks_own(nodes):
    rows = [n for n in nodes if level_of(n) != "sentence"]
    weights = FusionWeights(own=0, sentence=1, parent=0)
    found = FusedGranularityRetriever(index_of(SimpleVectorStore(), rows), 5, weights=weights).retrieve("年假")
    assert [hit.score for hit in found] == pytest.approx([explained(hit)["scores"]["own"] for hit in found], abs=1e-5)
    assert len(found) == 5


# --- what the store is asked ---


class Asked:
    """Counts the questions to a store, and the rows that they ask for at most."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: list[int] = []
        self.rows = 0
        kind = type(store)
        query, get_nodes = kind.query, kind.get_nodes
        collection = type(store.client)
        get = collection.get

        def counted_query(this: Any, question: Any, **options: Any) -> Any:
            self.queries.append(question.similarity_top_k)
            return query(this, question, **options)

        def counted_nodes(this: Any, node_ids: Any = None, filters: Any = None) -> Any:
            assert filters is None
            self.rows += len(node_ids)
            return get_nodes(this, node_ids, filters)

        def counted_get(this: Any, ids: Any = None, **options: Any) -> Any:
            assert ids is not None
            self.rows += len(ids)
            return get(this, ids, **options)

        monkeypatch.setattr(kind, "query", counted_query)
        monkeypatch.setattr(kind, "get_nodes", counted_nodes)
        monkeypatch.setattr(collection, "get", counted_get)


def many(count: int) -> list[BaseNode]:
    documents = [Document(id_=f"d{i}", text=text_of(i, 30)) for i in range(count)]
    return embedded(documents, sentences=True)


def test_the_rows_that_are_asked_for_do_not_grow_with_the_store(opened, monkeypatch):
    asked = []
    for count in (8, 40):
        store = opened.make("chroma-l2")
        nodes = many(count)
        index = index_of(store, nodes)
        retriever = FusedGranularityRetriever(index, 5, LexicalIndex(), candidates=10, filters=None)
        retriever.retrieve("年假")  # the words of all rows are read once
        with monkeypatch.context() as patch:
            seen = Asked(store, patch)
            for question in QUESTIONS:
                retriever.retrieve(question)
        asked.append((seen, len(nodes)))
    for seen, _ in asked:
        assert seen.queries == [10, 20, 2, 12] * 3
        assert seen.rows / 3 <= 2 * (20 + 40) + 4 * 62  # sentences' chunks and rows of words, read twice; chunks around
    assert asked[1][0].rows < asked[1][1] * 3 / 4


def test_components_without_a_weight_are_not_asked_for(opened, nodes, monkeypatch):
    store = opened.make("chroma-l2")
    index = index_of(store, nodes)
    for weights, expected in (
        (FusionWeights(own=1, sentence=0, parent=0), [20]),
        (FusionWeights(own=1, sentence=1, parent=0), [20, 40]),
        (FusionWeights(own=1, sentence=0, parent=1), [20, 4, 24]),
    ):
        with monkeypatch.context() as patch:
            seen = Asked(store, patch)
            found = FusedGranularityRetriever(index, 5, weights=weights, candidates=20).retrieve("年假")
        assert seen.queries == expected
        assert {*explained(found[0])["scores"]} == {"own", "sentence", "parent"} - {
            name for name in ("sentence", "parent") if not getattr(weights, name)
        }


# --- the lexical index in step with the store ---


def synced(store: Any, documents: Sequence[Document], tmp_path: Any) -> Any:
    steps = [parser(sentences=True), PairEmbedding()]
    pipeline = IngestionPipeline(transformations=steps, vector_store=store)
    return sync_documents(documents, pipeline, persist_dir=tmp_path / "state", delete_missing=True)


def coded(name: str, code: str) -> Document:
    return Document(id_=name, text=f"{text_of(name, 6)}报错{code}要重启。{text_of(name + '尾', 6)}")


def codes(retriever: FusedGranularityRetriever, code: str) -> list[str]:
    """The hits that hold the code; their vectors point elsewhere."""
    query = QueryBundle(code, embedding=[-each for each in pair_vector(code)])
    return [hit.text for hit in retriever.retrieve(query) if code in hit.text]


@pytest.mark.parametrize("kind", ["chroma-l2", "milvus", "qdrant"])
def test_words_follow_what_is_added_changed_and_deleted(opened, tmp_path, kind):
    store = opened.make(kind)
    index = VectorStoreIndex.from_vector_store(store, embed_model=PairEmbedding())
    folder = tmp_path / "words"
    retriever = FusedGranularityRetriever(index, 3, LexicalIndex(folder), candidates=3)
    documents = [*corpus(), coded("甲", "ERR-4012")]
    synced(store, documents, tmp_path)
    assert codes(retriever, "ERR-4012")

    report = synced(store, [*documents[:-1], coded("甲", "ERR-5555"), coded("乙", "ERR-6666")], tmp_path)
    assert codes(retriever, "ERR-4012") == []  # the rows are gone, whatever the words say
    assert codes(FusedGranularityRetriever(index, 3, LexicalIndex(folder), candidates=3), "ERR-6666")
    retriever.sync_lexical(report.changed)
    assert codes(retriever, "ERR-5555")
    assert codes(retriever, "ERR-6666")

    pipeline = IngestionPipeline(transformations=[parser(sentences=True), PairEmbedding()], vector_store=store)
    delete_document("乙", pipeline, persist_dir=tmp_path / "state")
    assert codes(retriever, "ERR-6666") == []
    retriever.sync_lexical()
    assert LexicalIndex(folder).search("6666", 5) == []
    assert codes(retriever, "ERR-5555")


def test_without_a_list_of_rows_the_words_are_the_users(nodes):
    class Unlisted(SimpleVectorStore):
        @classmethod
        def class_name(cls) -> str:
            return "Unlisted"

    lexical = LexicalIndex()
    lexical.sync(nodes)
    index = index_of(Unlisted(), nodes)
    retriever = FusedGranularityRetriever(index, 5, lexical, candidates=ALL)
    with pytest.warns(ChunkingPlusWarning, match="scores are taken as cosines"):
        found = retriever.retrieve(QUESTIONS[0])
    assert "lexical" in explained(found[0])["scores"]


# --- sync, async, many at once, and within LlamaIndex ---


def test_sync_is_async_is_32_at_once(opened, nodes, tmp_path):
    index = index_of(opened.make("chroma-l2"), nodes)
    questions = [f"{QUESTIONS[i % 3]}{i}" for i in range(32)]
    one = FusedGranularityRetriever(index, 5, LexicalIndex(tmp_path / "words"))
    expected = [one.retrieve(question) for question in questions]

    async def ask(retriever: FusedGranularityRetriever) -> list[list[NodeWithScore]]:
        return await asyncio.gather(*(retriever.aretrieve(question) for question in questions))

    fresh = [FusedGranularityRetriever(index, 5, LexicalIndex(tmp_path / name)) for name in ("by threads", "awaited")]
    with ThreadPoolExecutor(16) as pool:
        by_threads = list(pool.map(fresh[0].retrieve, questions))
    for found in (by_threads, asyncio.run(ask(fresh[1]))):
        for mine, its in zip(found, expected, strict=True):
            assert_same(mine, its, within=1e-9)


def test_words_are_read_once_however_many_ask_first(simple, monkeypatch):
    calls: list[int] = []
    plain = LexicalIndex.sync_with_store
    monkeypatch.setattr(
        LexicalIndex,
        "sync_with_store",
        lambda *args, **given: calls.append(threading.get_ident()) or plain(*args, **given),
    )
    retriever = FusedGranularityRetriever(simple, 5, LexicalIndex())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(retriever.retrieve, QUESTIONS * 5))
    assert len(calls) == 1


def test_hits_are_copies(simple):
    retriever = FusedGranularityRetriever(simple, lexical=LexicalIndex())
    first = retriever.retrieve("年假")
    before = [hit.to_dict() for hit in first]
    for hit in first:
        hit.node.metadata.clear()
        hit.node.relationships.clear()
        hit.node.set_content("别的")
    assert [hit.to_dict() for hit in retriever.retrieve("年假")] == before


def test_in_a_query_engine_over_a_store_that_was_opened_again(tmp_path, nodes):
    chromadb = pytest.importorskip("chromadb")
    adapter = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore
    client = chromadb.PersistentClient(str(tmp_path / "rows"))
    lexical = LexicalIndex(tmp_path / "words")
    index = index_of(adapter(chroma_collection=client.create_collection("rows")), nodes)
    expected = FusedGranularityRetriever(index, lexical=lexical).retrieve("年假")
    client.close()
    client = chromadb.PersistentClient(str(tmp_path / "rows"))
    store = adapter(chroma_collection=client.get_collection("rows"))
    index = VectorStoreIndex.from_vector_store(store, embed_model=PairEmbedding())
    retriever = FusedGranularityRetriever(index, lexical=pickle.loads(pickle.dumps(lexical)))
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("年假")
    assert_same(answer.source_nodes, expected)
    assert expected[0].text in str(answer)
    client.close()


# --- what goes wrong ---


def test_nothing_stored_nothing_found(opened):
    for kind in ("simple", *KINDS):
        index = index_of(opened.make(kind), [])
        for lexical in (None, LexicalIndex()):
            assert FusedGranularityRetriever(index, lexical=lexical).retrieve("年假") == []


@pytest.mark.parametrize("query", ["", " \n", QueryBundle(" ")])
def test_a_blank_query_is_refused(simple, query):
    retriever = FusedGranularityRetriever(simple, lexical=LexicalIndex())
    with pytest.raises(OptionError, match="is blank; ask for something, or pass QueryBundle"):
        retriever.retrieve(query)
    with pytest.raises(OptionError, match="is blank"):
        asyncio.run(retriever.aretrieve(query))


@pytest.mark.parametrize("fusion", ["standardised", "reciprocal_rank"])
def test_a_query_of_a_vector_needs_no_words(simple, fusion):
    retriever = FusedGranularityRetriever(simple, lexical=LexicalIndex(), fusion=fusion)
    assert retriever.retrieve(QueryBundle("", embedding=pair_vector("年假")))


@pytest.mark.parametrize("kind", ["simple", "chroma-l2", "milvus", "qdrant"])
def test_levels_of_other_names_are_told(opened, nodes, kind):
    index = index_of(opened.make(kind), nodes)
    message = r"store has the levels \['coarse', 'medium', 'fine', 'sentence'\], and none of \['small'\].*level=... and"
    for lexical in (None, LexicalIndex()):
        with pytest.warns(ChunkingPlusWarning, match=message):
            assert FusedGranularityRetriever(index, lexical=lexical, level="small").retrieve("年假") == []
    assert FusedGranularityRetriever(index, filters=where("tenant", "丙")).retrieve("年假") == []


def sync_again(store: Any, _: Any, folder: Any) -> Any:
    assert not synced(store, corpus(), folder).changed


def match_words_again(store: Any, _: Any, folder: Any) -> Any:
    changes = LexicalIndex(folder / "words").sync_with_store(store)
    assert changes.kept > 100
    assert not changes.indexed + changes.removed


def fuse_again(_: Any, index: VectorStoreIndex, folder: Any) -> Any:
    return FusedGranularityRetriever(index, 5, LexicalIndex(folder / "words")).retrieve(QUESTIONS[0])


def descend_again(_: Any, index: VectorStoreIndex, __: Any) -> Any:
    return CoarseToFineRetriever(index).retrieve(QUESTIONS[0])


@pytest.mark.parametrize("kind", ["chroma", "milvus", "qdrant"])
@pytest.mark.parametrize("first", [sync_again, match_words_again, fuse_again, descend_again])
def test_all_goes_on_after_a_restart_whatever_comes_first(tmp_path, kind, first):
    before = []
    steps = [first, sync_again, match_words_again, fuse_again, descend_again]
    for is_restarted in (False, True):
        store, stop = opened_anew(kind, tmp_path)
        try:
            if not is_restarted:
                assert synced(store, corpus(), tmp_path).added
                LexicalIndex(tmp_path / "words").sync_with_store(store)
            index = VectorStoreIndex.from_vector_store(store, embed_model=PairEmbedding())
            found = [step(store, index, tmp_path) for step in steps]
            for now, then in zip(found, before, strict=is_restarted):
                if then:
                    assert_same(now, then, within=2e-3)
            before = found
        finally:
            stop()


def test_an_index_that_another_process_changes_meanwhile_is_read_again(simple, tmp_path):
    """Readers in two processes bring the words in step at the same time, while rows come and go."""
    one, other = LexicalIndex(tmp_path), LexicalIndex(tmp_path)
    one.sync_with_store(simple.vector_store, simple.docstore)
    other.delete(["tiny0"])

    class Disturbed(SimpleDocumentStore):
        """Whenever rows are read, another process drops those of a document from the words."""

        def get_nodes(self, node_ids: Any, raise_error: bool = True) -> Any:
            other.delete(dropped[:1])
            dropped[:1] = []
            return simple.docstore.get_nodes(node_ids, raise_error=raise_error)

    dropped = ["long0", "long1"]
    one.sync_with_store(simple.vector_store, Disturbed(), changed=())
    assert not one.stale_against(simple.docstore.docs)

    other.delete(["tiny0"])
    dropped = ["long0", "long1", "long2", "short0", "short1"]
    with pytest.raises(StoreBusyError, match="meanwhile; do it again"):
        one.sync_with_store(simple.vector_store, Disturbed(), changed=())


def test_vectors_that_are_none(simple):
    for vector in ([math.nan] * 8, [0.0] * 8):
        with pytest.raises(EmbeddingError, match="zero or not finite"):
            FusedGranularityRetriever(simple).retrieve(QueryBundle("年假", embedding=vector))


def test_rows_of_which_only_some_are_fused_are_told(nodes):
    mixed = [*nodes[::2], *ParentVectorFusion()(nodes)[1::2]]
    with pytest.warns(ChunkingPlusWarning, match="several ways"):
        FusedGranularityRetriever(index_of(SimpleVectorStore(), mixed)).retrieve("年假")


def test_a_store_that_fails_is_heard_and_works_again(nodes, monkeypatch):
    retriever = FusedGranularityRetriever(index_of(SimpleVectorStore(), nodes), lexical=LexicalIndex())
    for method in ("sync_with_store", "search"):
        with monkeypatch.context() as patch:
            patch.setattr(LexicalIndex, method, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                retriever.retrieve("年假")
    with monkeypatch.context() as patch:
        patch.setattr(SimpleVectorStore, "query", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(retriever.aretrieve("年假"))
    assert "lexical" in explained(retriever.retrieve("年假")[0])["scores"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"similarity_top_k": 0}, "similarity_top_k=0 is no whole number from 1"),
        ({"candidates": True}, "candidates=True is no whole number"),
        ({"lexical": "words"}, "lexical='words' is no LexicalIndex; pass"),
        ({"weights": {"own": 1}}, "are no FusionWeights; pass"),
        ({"fusion": "sum"}, "neither 'standardised' nor 'reciprocal_rank'"),
        ({"filters": {"tenant": "甲"}}, "are no MetadataFilters; pass"),
        ({"filters": where("granularity", "fine")}, r"filters on \['granularity'\] .*by level=, parent_level= and"),
        ({"level": ""}, "level='' names no level; pass the name"),
        ({"parent_level": None}, "parent_level=None names no level"),
    ],
)
def test_options_that_are_refused(simple, options, message):
    with pytest.raises(OptionError, match=message):
        FusedGranularityRetriever(simple, **options)


@pytest.mark.parametrize(
    "weights",
    [
        {"own": -1},
        {"parent": math.nan},
        {"lexical": math.inf},
        {"sentence": True},
        {"parent_lexical": "1"},
        {"own": 0, "sentence": 0, "parent": 0},
    ],
)
def test_weights_that_are_refused(weights):
    with pytest.raises(OptionError, match=r"must be numbers|leaves no vectors"):
        FusionWeights(**weights)


def test_an_index_that_is_none():
    with pytest.raises(OptionError, match="is no VectorStoreIndex"):
        FusedGranularityRetriever(SimpleVectorStore())


def test_nodes_of_one_document_and_level(opened):
    index = index_of(
        opened.make("chroma-l2"), nodes_of([Document(id_="a", text="年假有五天。")], parser(), PairEmbedding())
    )
    (hit,) = FusedGranularityRetriever(index, lexical=LexicalIndex()).retrieve("年假")
    assert explained(hit)["level"] == "fine"
    assert explained(hit)["parents"] == []
