"""From coarse to fine: against a cascade in numpy, the same in every store, and what happens when something is missing."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from embedders import LetterEmbedding
from granularities import (
    LEVELS,
    PairEmbedding,
    assert_same,
    corpus,
    docstore_of,
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
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilters, VectorStoreQuery
from vector_stores import Stores

from llama_index_chunking_plus.core.hierarchy import Granularity
from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError, OptionError
from llama_index_chunking_plus.ingestion import ContextHeaderTransform, ParentVectorFusion
from llama_index_chunking_plus.retrievers import CoarseToFineRetriever, GranularityRouter
from llama_index_chunking_plus.retrievers.levels import LevelStore
from llama_index_chunking_plus.storage import SourceSliceLookup

KINDS = ["chroma-l2", "chroma-cosine", "milvus", "milvus-cosine", "qdrant"]
QUESTIONS = ["周一年假要申请几次？", "月底合同", "春节班车要查询几次？"]
TOP_K = {"coarse": 3, "medium": 5, "fine": 10}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.closing:
        yield made


@pytest.fixture(scope="module")
def nodes() -> list[BaseNode]:
    return embedded(corpus())


@pytest.fixture(scope="module")
def simple(nodes: list[BaseNode]) -> VectorStoreIndex:
    return index_of(SimpleVectorStore(), nodes)


def without(nodes: Sequence[BaseNode], *levels: str) -> list[BaseNode]:
    return [node for node in nodes if level_of(node) not in levels]


# --- the cascade as plain arithmetic ---


def expected_of(nodes: Sequence[BaseNode], question: str, probe: int, weight: float = 0.4) -> list[tuple[str, float]]:
    query = np.array(pair_vector(question))
    near = {node.node_id: float(np.array(node.embedding) @ query) for node in nodes}
    parent = {node.node_id: node.metadata.get("parent_id") for node in nodes}
    coarse = {node.node_id: node.metadata["coarse_id"] for node in nodes}
    level = {node.node_id: level_of(node) for node in nodes}

    def best(names: Any, merit: Any, count: int) -> list[str]:
        return sorted(names, key=lambda name: (-merit(name), name))[:count]

    probed = best([name for name in near if level[name] == "fine"], near.get, probe)

    def merit(name: str) -> float:
        parts = [near[each] for each in probed if name in (parent[each], coarse[each])]
        return max([near[name], *parts])

    largest = best([name for name in near if not parent[name]], merit, TOP_K["coarse"])
    mediums = [name for name in near if level[name] == "medium" and coarse[name] in largest]
    inside = best(mediums, merit, TOP_K["medium"])
    fine = [name for name in near if level[name] == "fine" and (parent[name] in inside or name in largest)]
    hits = best(fine, near.get, TOP_K["fine"])
    scores = {name: (1 - weight) * near[name] + weight * near[parent[name] or name] for name in hits}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


@pytest.mark.parametrize("probe", [0, 5, 50, 1_000])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_cascade_is_what_numpy_says(nodes, simple, question, probe):
    found = told(CoarseToFineRetriever(simple, probe=probe).retrieve(question))
    expected = expected_of(nodes, question, probe)
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_weight_of_the_parent(nodes, simple, weight):
    found = told(CoarseToFineRetriever(simple, parent_weight=weight).retrieve(QUESTIONS[0]))
    assert dict(found) == pytest.approx(dict(expected_of(nodes, QUESTIONS[0], 50, weight)), abs=1e-5)


# --- the same everywhere ---

FILTERS = {
    "none": None,
    "tenant": where("tenant", "甲"),
    "versions": where("version", [0, 3, 4, 6], FilterOperator.IN),
    "nested": MetadataFilters(
        filters=[where("tenant", "乙"), where("version", 1), where("version", 2)], condition="or"
    ),
}


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_store_gives_the_same(opened, nodes, simple, kind, filters):
    index = index_of(opened.make(kind), nodes)
    for options in ({}, {"probe": 0}, {"return_level": "medium"}, {"return_level": "coarse"}):
        pair = [CoarseToFineRetriever(each, filters=FILTERS[filters], **options) for each in (index, simple)]
        for question in QUESTIONS:
            found, expected = (retriever.retrieve(question) for retriever in pair)
            assert_same(found, expected)
            assert found


def test_the_users_filters_hold_for_all_stages(simple):
    for level in TOP_K:
        for hit in CoarseToFineRetriever(simple, filters=where("tenant", "甲"), return_level=level).retrieve("年假"):
            assert hit.metadata["tenant"] == "甲"
    assert CoarseToFineRetriever(simple, filters=where("tenant", "丙")).retrieve("年假") == []


def test_each_stage_asks_the_store_for_level_and_parents(opened, nodes, monkeypatch):
    store = opened.make("chroma-l2")
    index = index_of(store, nodes)
    asked: list[dict[str, Any]] = []
    plain = type(store).query

    def recorded(self, query: VectorStoreQuery, **options: Any) -> Any:
        flat = {key: value for part in options["where"]["$and"] for key, value in part.items()}
        asked.append(
            {**{key: next(iter(value.values())) for key, value in flat.items()}, "top_k": query.similarity_top_k}
        )
        return plain(self, query, **options)

    monkeypatch.setattr(type(store), "query", recorded)
    retriever = CoarseToFineRetriever(
        index, {"coarse": 1, "medium": 2, "fine": 4}, filters=where("tenant", "乙"), probe=9
    )
    hits = retriever.retrieve(text_of(("long2", 0), 3))
    (coarse,) = {hit.metadata["coarse_id"] for hit in hits}
    parents = {hit.metadata["parent_id"] for hit in hits}
    assert [sorted(each) for each in asked] == [
        ["granularity", "tenant", "top_k"],
        ["granularity_depth", "tenant", "top_k"],
        ["coarse_id", "granularity", "tenant", "top_k"],
        ["granularity", "parent_id", "tenant", "top_k"],
    ]
    assert [each["top_k"] for each in asked] == [9, 1, 2, 4]
    assert {each["tenant"] for each in asked} == {"乙"}
    assert asked[2]["coarse_id"] == [coarse]
    assert (asked[2]["granularity"], asked[3]["granularity"]) == ("medium", "fine")
    assert parents <= {*asked[3]["parent_id"]}
    assert len(asked[3]["parent_id"]) == 2


def test_the_query_is_embedded_once(nodes):
    model = PairEmbedding()
    CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes, model)).retrieve("年假")
    assert (model.queries, model.texts) == (["年假"], [])


def test_a_query_that_brings_its_vector_is_not_embedded(nodes):
    model = PairEmbedding()
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes, model))
    expected = retriever.retrieve("年假")
    assert_same(retriever.retrieve(QueryBundle("别的", embedding=pair_vector("年假"))), expected)
    assert model.queries == ["年假"]


# --- documents of all lengths, levels of all numbers ---


@pytest.mark.parametrize("probe", [0, 50])
@pytest.mark.parametrize("name", [document.id_ for document in corpus()])
def test_documents_of_every_length_are_found(simple, nodes, name, probe):
    for node in nodes:
        if node.ref_doc_id == name and level_of(node) == "fine" and (probe or node.metadata["granularity_depth"] == 0):
            query = QueryBundle("", embedding=node.embedding)
            found = CoarseToFineRetriever(simple, probe=probe, parent_weight=0.0).retrieve(query)
            assert found[0].score == pytest.approx(1)
    if probe == 0:
        text = next(document.text for document in corpus() if document.id_ == name)
        assert name in {hit.node.ref_doc_id for hit in CoarseToFineRetriever(simple, probe=0).retrieve(text)}


def test_short_documents_alone_need_no_warning(opened):
    documents = [document for document in corpus() if not document.id_.startswith("long")]
    index = index_of(opened.make("chroma-l2"), embedded(documents))
    for options in ({}, {"probe": 0}):
        found = CoarseToFineRetriever(index, {"coarse": 9, "medium": 9, "fine": 90}, **options).retrieve("年假")
        assert {hit.node.ref_doc_id for hit in found} == {document.id_ for document in documents}
        assert "notes" not in explained(found[0])


TWO = (Granularity("chapter", 60, 200), Granularity("passage", 12, 32))
FOUR = (Granularity("book", 300, 600), *LEVELS)


@pytest.mark.parametrize("levels", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize("probe", [0, 50])
def test_levels_of_the_user(opened, levels, probe):
    nodes = nodes_of(corpus(), parser(levels=levels), PairEmbedding())
    names, by_id = [level.name for level in levels], {node.node_id: node for node in nodes}
    top_k = {name: 2 * i + 2 for i, name in enumerate(names)}
    indexes = [index_of(opened.make(kind), nodes) for kind in ("simple", "chroma-l2")]
    for wanted in names:
        pair = [CoarseToFineRetriever(each, top_k, return_level=wanted, probe=probe) for each in indexes]
        found, others = (retriever.retrieve(text_of(("long1", 0), 4)) for retriever in pair)
        assert_same(found, others)
        assert 0 < len(found) <= top_k[wanted]
        for hit in found:
            depth_of_last = hit.metadata["granularity_depth"] == 0
            assert hit.metadata["granularity"] == wanted or depth_of_last
            assert all(name in by_id for name in explained(hit)["parents"])


def test_four_levels_find_documents_of_every_length():
    nodes = nodes_of(corpus(), parser(levels=FOUR), PairEmbedding())
    top_k = {"book": 3, "coarse": 4, "medium": 5, "fine": 10}
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes), top_k, "fine", parent_weight=0.0)
    for node in without(nodes, "book", "coarse", "medium"):
        assert retriever.retrieve(QueryBundle("", embedding=node.embedding))[0].score == pytest.approx(1)


def test_a_level_of_the_index_may_be_left_out_behind_the_first(simple):
    found = CoarseToFineRetriever(simple, {"coarse": 2, "fine": 30}, parent_weight=0.0).retrieve("年假")
    assert len({hit.metadata["coarse_id"] for hit in found}) == 2
    assert {level_of(hit.node) for hit in found} == {"fine"}


# --- which level comes out ---


@pytest.mark.parametrize("level", ["medium", "coarse"])
def test_a_larger_level_is_what_the_best_hits_are_in(simple, nodes, level):
    fine = CoarseToFineRetriever(simple).retrieve(QUESTIONS[0])
    found = CoarseToFineRetriever(simple, return_level=level).retrieve(QUESTIONS[0])
    key = {"medium": "parent_id", "coarse": "coarse_id"}[level]
    best: dict[str, float] = {}
    for hit in fine:
        best.setdefault(hit.metadata.get(key, hit.node_id), hit.score)
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[: TOP_K[level]]
    assert [name for name, _ in told(found)] == [name for name, _ in expected]
    assert dict(told(found)) == pytest.approx(dict(expected))
    by_id = {node.node_id: node for node in nodes}
    for hit in found:
        assert hit.text == by_id[hit.node_id].get_content()
        assert {*explained(hit)["scores"]} == {"own", "parent"}
        assert explained(hit)["level"] == level_of(by_id[hit.node_id])


@pytest.mark.parametrize(
    "question, level", [("年假有几天？", "fine"), ("怎么申请年假？", "medium"), ("年假和病假有什么区别？", "coarse")]
)
def test_auto_is_decided_by_the_question(simple, question, level):
    found = CoarseToFineRetriever(simple, return_level="auto").retrieve(question)
    expected = CoarseToFineRetriever(simple, return_level=level).retrieve(question)
    assert_same(found, expected)
    for hit in found:
        assert explained(hit)["notes"][0].startswith(f"{level!r} was chosen: It ")


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("level", ["medium", "coarse"])
def test_a_hit_of_another_level_says_why(simple, level, auto):
    router = GranularityRouter(classifier=lambda _: level) if auto else None
    options = {"return_level": "auto", "router": router} if auto else {"return_level": level}
    found = CoarseToFineRetriever(
        simple, TOP_K | {"coarse": 9, "medium": 9}, **options, filters=where("version", 3, FilterOperator.GTE)
    ).retrieve("年假")
    expected = {"short": "medium", "tiny": "fine"}
    assert {hit.node.ref_doc_id[:-1] for hit in found} == {*expected}
    for hit in found:
        own = expected[hit.node.ref_doc_id[:-1]]
        note = f"this is a {own!r} chunk: its document is too short for {level!r} ones"
        assert explained(hit)["level"] == own
        assert [one for one in explained(hit).get("notes", []) if one.startswith("this is")] == [note] * (own != level)


def test_a_hit_says_that_the_level_around_it_is_not_stored(nodes):
    long = [node for node in nodes if node.ref_doc_id.startswith("long")]
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), without(long, "medium")), return_level="medium")
    with pytest.warns(ChunkingPlusWarning, match="passed over. Store the level, pass lookup=.*, or name in top_k="):
        found = retriever.retrieve(QUESTIONS[0])
    assert found
    assert {explained(hit)["notes"][-1] for hit in found} == {
        "this is a 'fine' chunk: the 'medium' one around it is not stored"
    }


def test_a_router_of_the_user(simple):
    router = GranularityRouter(classifier=lambda _: "coarse")
    found = CoarseToFineRetriever(simple, return_level="auto", router=router).retrieve("年假有几天？")
    assert_same(found, CoarseToFineRetriever(simple, return_level="coarse").retrieve("年假有几天？"))


# --- what does not match ---


def test_hits_whose_parents_are_far_are_dropped(simple):
    everything = CoarseToFineRetriever(simple).retrieve(QUESTIONS[0])
    parents = sorted({explained(hit)["scores"]["parent"] for hit in everything if hit.metadata.get("parent_id")})
    least = (parents[1] + parents[2]) / 2
    found = CoarseToFineRetriever(simple, min_parent_similarity=least).retrieve(QUESTIONS[0])
    kept = [
        hit for hit in everything if explained(hit)["scores"]["parent"] >= least or not hit.metadata.get("parent_id")
    ]
    assert told(found) == told(kept)
    assert 0 < len(found) < len(everything)


def test_hits_whose_parents_are_far_are_demoted_by_their_share(simple):
    everything = CoarseToFineRetriever(simple).retrieve(QUESTIONS[0])
    least = max(explained(hit)["scores"]["parent"] for hit in everything)
    found = CoarseToFineRetriever(simple, min_parent_similarity=least, on_mismatch="demote").retrieve(QUESTIONS[0])
    share = {
        hit.node_id: max(explained(hit)["scores"]["parent"], 0) / least if hit.metadata.get("parent_id") else 1.0
        for hit in everything
    }
    expected = {hit.node_id: min(hit.score, hit.score * share[hit.node_id]) for hit in everything}
    assert dict(told(found)) == pytest.approx(expected, abs=1e-5)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize("least", [-0.5, 0.0])
def test_thresholds_that_are_not_above_0(simple, least):
    for on_mismatch in ("drop", "demote"):
        options = {"min_parent_similarity": least, "on_mismatch": on_mismatch}
        found = CoarseToFineRetriever(simple, **options).retrieve(QUESTIONS[0])
        assert all(math.isfinite(hit.score) for hit in found)


class DeafStore(SimpleVectorStore):
    """Returns all rows, whatever it is asked."""

    def query(self, query: VectorStoreQuery, **options: Any) -> Any:
        return super().query(dataclasses.replace(query, node_ids=None, similarity_top_k=10_000), **options)


def test_rows_that_a_store_returns_in_spite_of_its_filter_are_left_out(simple, nodes):
    index = index_of(DeafStore(), nodes)
    for on_mismatch in ("drop", "demote"):
        found = CoarseToFineRetriever(index, probe=0, on_mismatch=on_mismatch).retrieve(QUESTIONS[0])
        assert_same(found, CoarseToFineRetriever(simple, probe=0).retrieve(QUESTIONS[0]))


# --- levels that are not stored ---


def noted(hits: Sequence[NodeWithScore]) -> str:
    """The notes on the search, which all hits carry, without those on the level of one hit."""
    (notes,) = {
        "; ".join(note for note in explained(hit).get("notes", []) if not note.startswith("this is")) for hit in hits
    }
    return notes


@pytest.mark.parametrize("probe", [0, 50])
def test_a_missing_medium_level_is_passed_over(nodes, probe):
    long = [node for node in nodes if node.ref_doc_id.startswith("long")]
    index = index_of(SimpleVectorStore(), without(long, "medium"))
    with pytest.warns(ChunkingPlusWarning, match="no 'medium' chunks.*lookup"):
        found = CoarseToFineRetriever(index, probe=probe, parent_weight=0.0).retrieve(QUESTIONS[0])
    assert "no 'medium' chunks inside of what was chosen" in noted(found)
    coarse = {hit.metadata["coarse_id"] for hit in found}
    assert len(coarse) <= 3
    query = np.array(pair_vector(QUESTIONS[0]))
    inside = [n for n in nodes if level_of(n) == "fine" and n.metadata["coarse_id"] in coarse]
    ranked = sorted(inside, key=lambda node: -float(np.array(node.embedding) @ query))
    assert [hit.node_id for hit in found] == [node.node_id for node in ranked[:10]]


def test_a_missing_medium_level_of_some_documents_does_not_hide_them(nodes):
    """The mediums of short documents are stored, since they are their largest chunks."""
    kept = [n for n in nodes if level_of(n) != "medium" or n.metadata["granularity_depth"] == 0]
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), kept), {"coarse": 9, "medium": 5, "fine": 99})
    with pytest.warns(ChunkingPlusWarning, match="no 'medium' chunks"):
        found = retriever.retrieve(QUESTIONS[0])
    assert {hit.node.ref_doc_id for hit in found} >= {"long0", "long1", "long2", "short0", "short1", "tiny0", "tiny1"}


def test_a_missing_fine_level_falls_back_to_medium(nodes):
    long = [node for node in nodes if node.ref_doc_id.startswith("long")]
    index = index_of(SimpleVectorStore(), without(long, "fine"))
    with pytest.warns(ChunkingPlusWarning, match="no 'fine' chunks"):
        found = CoarseToFineRetriever(index).retrieve(QUESTIONS[0])
    assert {level_of(hit.node) for hit in found} == {"medium"}
    assert len(found) == 5
    index = index_of(SimpleVectorStore(), without(long, "fine", "medium"))
    with pytest.warns(ChunkingPlusWarning, match="no 'medium' chunks.*no 'fine' chunks"):
        assert {level_of(hit.node) for hit in CoarseToFineRetriever(index).retrieve("年假")} == {"coarse"}


def test_a_missing_coarse_level_is_told_by_what_is_below(nodes, simple):
    index = index_of(SimpleVectorStore(), without(nodes, "coarse"))
    with pytest.warns(ChunkingPlusWarning, match="'coarse' are not stored"):
        found = CoarseToFineRetriever(index, parent_weight=0.0).retrieve(QUESTIONS[0])
    assert found[0].node_id == CoarseToFineRetriever(simple, parent_weight=0.0).retrieve(QUESTIONS[0])[0].node_id
    assert "'coarse' are not stored" in noted(found)
    long = [node for node in nodes if node.ref_doc_id.startswith("long")]
    index = index_of(SimpleVectorStore(), without(long, "coarse"))
    with pytest.warns(ChunkingPlusWarning, match="'coarse' are not stored"):
        assert len(CoarseToFineRetriever(index, probe=0).retrieve(QUESTIONS[0])) == 10


HEADER = ContextHeaderTransform(template="{tenant} > {sections}")


@pytest.mark.parametrize("kind", ["simple", "chroma-l2", "chroma-cosine", "milvus", "qdrant"])
@pytest.mark.parametrize("steps", [(), (HEADER,)], ids=["plain", "header"])
@pytest.mark.parametrize("fusion", [{"medium": 0.0, "fine": 0.0}, {}, {"medium": 0.37, "fine": 0.91}])
def test_a_level_that_is_made_again_is_what_it_was(opened, kind, steps, fusion):
    if kind not in {"simple", "chroma-l2"} and not (steps and fusion):
        pytest.skip("enough of these")
    documents = corpus(shown=True)
    levels = [None, ("coarse", "fine")]
    three, two = (
        index_of(
            opened.make(kind),
            nodes_of(documents, parser(), *steps, PairEmbedding(), ParentVectorFusion(**fusion, store_levels=stored)),
        )
        for stored in levels
    )
    lookup = SourceSliceLookup(docstore_of(documents))
    for probe in (0, 50):
        for level in TOP_K:
            for question in QUESTIONS:
                expected = CoarseToFineRetriever(three, probe=probe, return_level=level).retrieve(question)
                found = CoarseToFineRetriever(two, probe=probe, return_level=level, lookup=lookup).retrieve(question)
                assert_same(found, expected)
                assert "made again" in noted(found) or all(hit.metadata["version"] > 2 for hit in found)


def test_vectors_of_unfused_rows_without_any_mark_are_made_again_too(nodes):
    kept = [n for n in nodes if level_of(n) != "medium" or n.metadata["granularity_depth"] == 0]
    lookup = SourceSliceLookup(docstore_of(corpus()))
    found = CoarseToFineRetriever(index_of(SimpleVectorStore(), kept), lookup=lookup).retrieve(QUESTIONS[0])
    assert_same(found, CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes)).retrieve(QUESTIONS[0]))


def test_rows_of_which_only_some_are_fused_are_told_once(nodes):
    mixed = [*nodes[::2], *(ParentVectorFusion()(embedded(corpus())))[1::2]]
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), mixed))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for question in QUESTIONS:
            retriever.retrieve(question)
    assert sum("several ways" in str(each.message) for each in caught) == 1


# --- a model and a store for each level ---


def test_models_and_stores_of_their_own():
    documents = corpus()
    models = {"coarse": LetterEmbedding(), "medium": PairEmbedding(), "fine": PairEmbedding(scale=3.0)}
    parsed = parser()(documents)
    indexes = {
        level: index_of(
            SimpleVectorStore(), models[level]([n.model_copy() for n in parsed if level_of(n) == level]), models[level]
        )
        for level in models
    }
    retriever = CoarseToFineRetriever(indexes, parent_weight=0.0)
    for node in parsed:
        if level_of(node) == "fine":
            found = retriever.retrieve(QueryBundle(node.get_content(MetadataMode.EMBED), embedding=[1.0]))
            assert found[0].score == pytest.approx(1)
    for level in ("medium", "coarse"):
        found = CoarseToFineRetriever(indexes, return_level=level).retrieve(QUESTIONS[0])
        assert level in {level_of(hit.node) for hit in found}
    del models["fine"].queries[:]
    retriever.retrieve("年假")
    assert models["fine"].queries == ["年假"]


# --- sync, async, many at once, and within LlamaIndex ---


def test_sync_is_async_is_32_at_once(opened, nodes):
    retriever = CoarseToFineRetriever(index_of(opened.make("chroma-l2"), nodes), return_level="medium")
    questions = [f"{QUESTIONS[i % 3]}{i}" for i in range(32)]
    expected = [retriever.retrieve(question) for question in questions]
    with ThreadPoolExecutor(16) as pool:
        by_threads = list(pool.map(retriever.retrieve, questions))

    async def ask() -> list[list[NodeWithScore]]:
        return await asyncio.gather(*(retriever.aretrieve(question) for question in questions))

    for found in (by_threads, asyncio.run(ask())):
        for mine, its in zip(found, expected, strict=True):
            assert_same(mine, its, within=1e-9)


def test_hits_are_copies(simple):
    retriever = CoarseToFineRetriever(simple)
    first = retriever.retrieve("年假")
    before = [hit.to_dict() for hit in first]
    for hit in first:
        hit.node.metadata.clear()
        hit.node.excluded_embed_metadata_keys.clear()
        hit.node.relationships.clear()
        hit.node.set_content("别的")
    assert [hit.to_dict() for hit in retriever.retrieve("年假")] == before


def test_explanations_are_hidden_from_models(simple):
    (hit, *_) = CoarseToFineRetriever(simple).retrieve("年假")
    for mode in ("embed", "llm"):
        assert "explanation" not in hit.node.get_content(mode)


def test_in_a_query_engine_over_a_store_that_was_opened_again(tmp_path, nodes):
    chromadb = pytest.importorskip("chromadb")
    adapter = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore
    client = chromadb.PersistentClient(str(tmp_path))
    expected = CoarseToFineRetriever(
        index_of(adapter(chroma_collection=client.create_collection("rows")), nodes)
    ).retrieve("年假")
    client.close()
    client = chromadb.PersistentClient(str(tmp_path))
    store = adapter(chroma_collection=client.get_collection("rows"))
    retriever = CoarseToFineRetriever(VectorStoreIndex.from_vector_store(store, embed_model=PairEmbedding()))
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("年假")
    assert_same(answer.source_nodes, expected)
    assert expected[0].text in str(answer)
    client.close()


# --- what goes wrong ---


def test_nothing_stored_nothing_found(opened):
    for kind in ("simple", *KINDS):
        index = index_of(opened.make(kind), [])
        for options in ({}, {"probe": 0}, {"return_level": "coarse"}):
            assert CoarseToFineRetriever(index, **options).retrieve("年假") == []


def test_nodes_of_another_parser_are_no_levels():
    index = VectorStoreIndex.from_documents([Document(text="年假有五天。")], embed_model=PairEmbedding())
    with pytest.warns(ChunkingPlusWarning, match="name no levels; make them with MultiGranularityNodeParser"):
        assert CoarseToFineRetriever(index).retrieve("年假") == []


@pytest.mark.parametrize("kind", ["simple", "chroma-l2", "milvus", "qdrant"])
def test_levels_of_other_names_are_told(opened, nodes, kind):
    index = index_of(opened.make(kind), nodes)
    message = r"store has the levels \['coarse', 'medium', 'fine'\], and none of \['section', 'small'\].*top_k="
    retriever = CoarseToFineRetriever(index, {"section": 3, "small": 9})
    for ask in (retriever.retrieve, lambda query: asyncio.run(retriever.aretrieve(query))):
        with pytest.warns(ChunkingPlusWarning, match=message) as caught:
            assert ask("年假") == []
        assert len(caught) == 1


def test_a_wrong_name_of_the_last_level_is_told_though_larger_ones_come_out(simple):
    message = (
        r"no 'small' chunks .* passed over. The store has the levels .*, and none of \['small'\]; name its levels by"
    )
    with pytest.warns(ChunkingPlusWarning, match=message):
        assert CoarseToFineRetriever(simple, {"coarse": 3, "medium": 3, "small": 9}).retrieve("年假")


def test_levels_of_other_names_are_told_of_an_index_for_each(simple, nodes):
    coarse = index_of(SimpleVectorStore(), [node for node in nodes if level_of(node) == "coarse"])
    with pytest.warns(ChunkingPlusWarning, match=r"the levels \['coarse', 'medium', 'fine'\], and none of \['b'\]"):
        assert CoarseToFineRetriever({"coarse": coarse, "b": simple}, {"coarse": 1, "b": 2}, probe=0).retrieve("年假")


def test_nothing_that_passes_the_filters_is_no_matter_of_names(simple):
    assert CoarseToFineRetriever(simple, filters=where("tenant", "丙")).retrieve("年假") == []


def test_levels_of_the_user_are_returned_in_the_last_one():
    levels = (Granularity("section", 40, 80), Granularity("line", 12, 32))
    index = index_of(SimpleVectorStore(), nodes_of(corpus(), parser(levels=levels), PairEmbedding()))
    found = CoarseToFineRetriever(index, {"section": 3, "line": 5}).retrieve("年假")
    assert {level_of(hit.node) for hit in found} == {"line"}


@pytest.mark.parametrize("query", ["", " \n", QueryBundle(""), QueryBundle("", custom_embedding_strs=[" "])])
def test_a_blank_query_is_refused(simple, query):
    retriever = CoarseToFineRetriever(simple)
    with pytest.raises(OptionError, match="is blank; ask for something, or pass QueryBundle"):
        retriever.retrieve(query)
    with pytest.raises(OptionError, match="is blank"):
        asyncio.run(retriever.aretrieve(query))


def test_a_query_of_a_vector_needs_no_words(simple):
    vector = PairEmbedding().get_query_embedding("年假")
    assert_same(
        CoarseToFineRetriever(simple).retrieve(QueryBundle("", embedding=vector)),
        CoarseToFineRetriever(simple).retrieve("年假"),
    )


@pytest.mark.parametrize("vector", [[math.nan] * 8, [0.0] * 8, [math.inf] * 8, []])
def test_vectors_that_are_none(simple, vector):
    with pytest.raises(EmbeddingError, match="zero or not finite"):
        CoarseToFineRetriever(simple).retrieve(QueryBundle("年假", embedding=vector))


def test_a_model_or_a_store_that_fails_is_heard(nodes, monkeypatch):
    index = index_of(SimpleVectorStore(), nodes)
    retriever = CoarseToFineRetriever(index)
    with monkeypatch.context() as patch:
        patch.setattr(SimpleVectorStore, "query", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retriever.retrieve("年假")
        with pytest.raises(ZeroDivisionError):
            asyncio.run(retriever.aretrieve("年假"))
    monkeypatch.setattr(PairEmbedding, "_get_query_embedding", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        retriever.retrieve("年假")


def test_a_row_that_vanishes_between_two_questions_is_left_out(nodes, monkeypatch):
    """As while a sync works: the store found the row, and has no vector of it any more."""
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes))
    best = retriever.retrieve("年假")[0].node_id
    plain = LevelStore.cosines

    def cosines(self: LevelStore, vector: Sequence[float], row_ids: Sequence[str]) -> Any:
        return (yield from plain(self, vector, [each for each in row_ids if each != best]))

    monkeypatch.setattr("llama_index_chunking_plus.retrievers.levels.cosine_scale", lambda *_, **__: None)
    monkeypatch.setattr(LevelStore, "cosines", cosines)
    retriever = CoarseToFineRetriever(index_of(SimpleVectorStore(), nodes))
    found = retriever.retrieve("年假")
    assert found
    assert best not in {hit.node_id for hit in found}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"top_k": {}}, "names fewer than 2 levels"),
        ({"top_k": {"fine": 3}}, r"as_retriever\(filters"),
        ({"top_k": {"coarse": 0, "fine": 3}}, r"top_k\['coarse'\]=0 is no whole number from 1"),
        ({"top_k": {"coarse": 2.5, "fine": 3}}, r"2\.5 is no whole number"),
        ({"return_level": "sentence"}, r"return_level='sentence' is none of \['coarse', 'medium', 'fine', 'auto'\]"),
        ({"return_level": []}, r"return_level=\[\] is none of"),
        (
            {"top_k": {"a": 1, "b": 2}, "return_level": "fine"},
            r"\['a', 'b', 'auto'\]; name one, or leave it out for 'b'",
        ),
        ({"top_k": {1: 1, " ": 2}}, "has a key that names no level"),
        ({"router": 3}, r"router=3 is none for the levels \['coarse', 'medium', 'fine'\]; pass GranularityRouter"),
        (
            {"filters": where("granularity", "fine")},
            r"filters on \['granularity'\] would hide .*by top_k= and return_level=",
        ),
        (
            {"filters": MetadataFilters(filters=[where("tenant", "甲"), where("granularity_depth", 0)])},
            r"filters on \['granularity_depth'\]",
        ),
        ({"probe": -1}, "probe=-1 is no whole number from 0"),
        ({"probe": True}, "probe=True"),
        ({"parent_weight": 1.5}, r"parent_weight=1\.5 is outside \[0, 1\]"),
        ({"parent_weight": math.nan}, "parent_weight=nan"),
        ({"min_parent_similarity": 2}, r"min_parent_similarity=2 is outside \[-1, 1\]"),
        ({"on_mismatch": "keep"}, "neither 'drop' nor 'demote'"),
        ({"lookup": 3}, "lookup=3 is no lookup"),
        ({"filters": {"tenant": "甲"}}, "are no MetadataFilters; pass"),
        (
            {"return_level": "auto", "router": GranularityRouter(levels=("book", "page"), default="page")},
            "is none for the levels",
        ),
        ({"return_level": "auto", "top_k": {"fine": 3, "coarse": 3}}, "from coarse to fine"),
    ],
)
def test_options_that_are_refused(simple, options, message):
    with pytest.raises(OptionError, match=message):
        CoarseToFineRetriever(simple, **options)


def test_indexes_that_are_refused(simple):
    with pytest.raises(OptionError, match="is no VectorStoreIndex"):
        CoarseToFineRetriever(SimpleVectorStore())
    with pytest.raises(OptionError, match=r"none for the levels \['medium'\]"):
        CoarseToFineRetriever({"coarse": simple, "fine": simple})
