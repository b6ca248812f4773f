"""Scores on one scale, stored vectors and filtered queries: the same in every store, with the stores themselves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from vector_stores import DIMENSION, FAMILIES, Stores, filled, new_name, row, row_id, unit

from llama_index_chunking_plus.core.plan import Call, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.storage.filters import all_of
from llama_index_chunking_plus.storage.similarity import cosine_scale, query_rows, vectors_of


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.closing:
        yield made


COSINE = ["simple", "chroma-cosine", "milvus-cosine", "qdrant", "qdrant-cosine"]
OTHERS = ["chroma", "chroma-l2", "chroma-ip", "milvus", "milvus-ip", "milvus-l2", "qdrant-dot", "qdrant-euclid"]


RANDOM = np.random.default_rng(7)
VECTORS = RANDOM.normal(size=(40, DIMENSION))
QUERY = unit(RANDOM.normal(size=DIMENSION))
COSINES = {row_id(str(each)): float(vector @ QUERY) for each, vector in enumerate(unit(VECTORS))}
ORDER = sorted(COSINES, key=COSINES.__getitem__, reverse=True)


# --- scores ---


def cosines_by(store: BasePydanticVectorStore, query: Any, **options: Any) -> dict[str, float]:
    result = query_rows(store, list(query), len(VECTORS)).run()
    scale = cosine_scale(store, **options)
    return {id_: scale(score) for id_, score in zip(result.ids, result.similarities, strict=True)}


@pytest.mark.parametrize("kind", COSINE + OTHERS)
def test_unit_vectors_have_the_same_cosines_and_order_in_every_store(opened, kind):
    found = cosines_by(filled(opened.make(kind), unit(VECTORS)), QUERY)
    assert list(found) == ORDER
    assert found == pytest.approx(COSINES, abs=1e-4)


@pytest.mark.parametrize("kind", COSINE)
def test_stores_of_cosines_have_a_scale_for_vectors_of_any_length(opened, kind):
    found = cosines_by(filled(opened.make(kind), VECTORS), 3 * QUERY, unit_vectors=False)
    assert list(found) == ORDER
    assert found == pytest.approx(COSINES, abs=1e-4)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_metrics_have_no_scale_for_vectors_of_any_length(opened, kind):
    assert cosine_scale(filled(opened.make(kind), VECTORS), unit_vectors=False) is None


def test_the_same_and_the_opposite_vector_are_the_ends_of_the_scale(opened):
    for kind in COSINE + OTHERS:
        found = cosines_by(filled(opened.make(kind), [QUERY, -QUERY]), QUERY)
        assert [*found.values()] == pytest.approx([1, -1], abs=1e-4), kind


def test_scores_of_a_store_in_memory_only_have_a_scale_too(opened):
    chromadb = pytest.importorskip("chromadb")
    qdrant_client = pytest.importorskip("qdrant_client")
    adapter = pytest.importorskip("llama_index.vector_stores.qdrant")
    with Stores(opened.folder).closing as closing:
        ephemeral = Stores(opened.folder)
        closing.callback(ephemeral.closing.close)
        chroma = ephemeral.chroma("ip", client=chromadb.EphemeralClient)
        client = ephemeral.client("qdrant", lambda: qdrant_client.QdrantClient(":memory:"))
        for store in (chroma, adapter.QdrantVectorStore(new_name(), client=client, index_doc_id=False)):
            assert cosines_by(filled(store, unit(VECTORS)), QUERY) == pytest.approx(COSINES, abs=1e-4)


def test_the_collection_says_what_it_measures_not_the_adapter(opened):
    store = filled(opened.make("milvus-l2"), unit(VECTORS))
    again = type(store)(
        uri=str(opened.folder / "milvus.db"),
        collection_name=store.collection_name,
        dim=DIMENSION,
        similarity_metric="COSINE",
        use_async_client=False,
    )
    assert again.similarity_metric == "COSINE"
    assert cosines_by(again, QUERY) == pytest.approx(COSINES, abs=1e-4)


def test_a_space_in_the_configuration_of_a_chroma_collection_counts(opened):
    store = opened.make("chroma")
    client = opened.client("chroma", lambda: None)
    collection = client.create_collection(new_name(), configuration={"hnsw": {"space": "cosine"}})
    assert cosines_by(filled(type(store)(chroma_collection=collection), VECTORS), QUERY, unit_vectors=False) == (
        pytest.approx(COSINES, abs=1e-4)
    )


def test_a_collection_of_a_chroma_that_has_no_configurations_says_it_in_its_metadata():
    adapter = pytest.importorskip("llama_index.vector_stores.chroma")

    class Old:
        """A collection as before Chroma 1.0."""

        metadata: dict[str, str] | None = None

    store = adapter.ChromaVectorStore(chroma_collection=Old())
    assert cosine_scale(store, unit_vectors=False) is None
    assert cosine_scale(store)(math.exp(-0.5)) == pytest.approx(0.75)  # l2: 1 - 0.5 / 2
    Old.metadata = {"hnsw:space": "cosine"}
    assert cosine_scale(store, unit_vectors=False)(math.exp(-0.5)) == pytest.approx(0.5)


def test_a_score_of_zero_is_no_error():
    """exp of a long distance is 0: vectors that were no unit vectors."""
    adapter = pytest.importorskip("llama_index.vector_stores.chroma")

    class Collection:
        metadata = None

    assert cosine_scale(adapter.ChromaVectorStore(chroma_collection=Collection()))(0.0) == -math.inf


def test_where_nothing_is_known_there_is_no_scale(opened):
    assert cosine_scale(Unlisted()) is None
    assert cosine_scale(filled(opened.make("qdrant-manhattan"), VECTORS)) is None
    assert cosine_scale(opened.make("qdrant")) is None  # no collection yet


class Unlisted(SimpleVectorStore):
    """A store that nobody knows."""

    @classmethod
    def class_name(cls) -> str:
        return "Unlisted"


# --- vectors ---


@pytest.mark.parametrize("kind", [*FAMILIES, "milvus-l2", "qdrant-dot"])
async def test_vectors_come_back_as_they_are_stored(opened, kind, monkeypatch):
    monkeypatch.setattr("llama_index_chunking_plus.storage.similarity.MAX_ASKED", 7)
    store = filled(opened.make(kind), VECTORS)
    asked = [*reversed(ORDER), row_id("unknown"), ORDER[0]]
    vectors = vectors_of(store, asked).run()
    again = await vectors_of(store, asked).arun()
    assert set(vectors) == set(again) == set(ORDER)
    expected = unit(VECTORS) if kind == "qdrant" else VECTORS
    for each, vector in enumerate(expected):
        assert vectors[row_id(str(each))].dtype == np.float32
        assert np.allclose(vectors[row_id(str(each))], vector, atol=1e-6)
        assert np.array_equal(again[row_id(str(each))], vectors[row_id(str(each))])


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_rows_have_no_vectors(opened, kind):
    assert vectors_of(opened.make(kind), [row_id("unknown")]).run() == {}
    assert vectors_of(opened.make(kind), []).run() == {}


def test_vectors_of_a_store_that_is_not_known_cannot_be_read():
    assert vectors_of(filled(Unlisted(), VECTORS), ORDER).run() is None


# --- queries with filters ---

LANGUAGES = ["zh", "en", 'de"', "it's \\ x", "100%", "。\n\r\t\u200b\x01😀"]
ROWS = [
    {
        "granularity": ["section", "sentence"][each % 2],
        "parent_id": row_id(f"parent {each // 4}"),
        "page": each // 3,
        "weight": each / 8,
        **({"lang": LANGUAGES[each % len(LANGUAGES)]} if each % 3 else {}),
    }
    for each in range(len(VECTORS))
]


@pytest.fixture(scope="module")
def libraries(opened) -> dict[str, BasePydanticVectorStore]:
    """The same rows in a store of every kind that is installed."""
    made = {}
    for kind in FAMILIES:
        try:
            made[kind] = opened.make(kind)
        except pytest.skip.Exception:
            continue
        made[kind].add([row(str(each), vector, **ROWS[each]) for each, vector in enumerate(unit(VECTORS))])
    return made


def ids(store: BasePydanticVectorStore, filters: MetadataFilters | None = None, top_k: int = 99, **more: Any) -> Any:
    return query_rows(store, list(QUERY), top_k, filters, **more).run().ids


def passing(test: Callable[[dict[str, Any]], bool]) -> list[str]:
    """The ids that should come, the nearest first."""
    right = {row_id(str(each)) for each, metadata in enumerate(ROWS) if test(metadata)}
    return [each for each in ORDER if each in right]


def is_(key: str, operator: str, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, operator=FilterOperator(operator), value=value)


def group(condition: str, *filters: MetadataFilter | MetadataFilters) -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=FilterCondition(condition))


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda held, value: held is not None and held == value,
    "!=": lambda held, value: held is None or held != value,
    "in": lambda held, value: held is not None and held in value,
    "nin": lambda held, value: held is None or held not in value,
    ">": lambda held, value: held is not None and held > value,
    ">=": lambda held, value: held is not None and held >= value,
    "<": lambda held, value: held is not None and held < value,
    "<=": lambda held, value: held is not None and held <= value,
}


def passes(filters: MetadataFilter | MetadataFilters, metadata: dict[str, Any]) -> bool:
    """What a filter means, said once more."""
    if isinstance(filters, MetadataFilter):
        return TESTS[filters.operator.value](metadata.get(filters.key), filters.value)
    results = [passes(each, metadata) for each in filters.filters]
    return {"and": all(results), "or": any(results), "not": not any(results)}[filters.condition.value]


def test_all_parts_of_a_question_count(libraries):
    parents = [row_id(f"parent {each}") for each in (1, 5, 6, 77)]
    user = group("or", is_("lang", "==", "zh"), group("and", is_("page", ">", 1), is_("lang", "!=", "en")))
    expected = passing(
        lambda metadata: (
            metadata["granularity"] == "sentence" and metadata["parent_id"] in parents and passes(user, metadata)
        )
    )
    assert len(expected) > 2
    for kind, store in libraries.items():
        found = ids(store, user, equal={"granularity": "sentence"}, one_of=("parent_id", parents))
        assert found == expected, kind
        best = ids(store, user, 2, equal={"granularity": "sentence"}, one_of=("parent_id", parents))
        assert best == expected[:2], kind


def test_without_filters_the_nearest_rows_come(libraries):
    for kind, store in libraries.items():
        assert ids(store, top_k=5) == ORDER[:5], kind
        assert ids(store, group("and"), top_k=5) == ORDER[:5], kind
        assert ids(store, group("not", group("or")), top_k=5) == ORDER[:5], kind


async def test_awaited_it_is_the_same(libraries):
    for kind, store in libraries.items():
        found = await query_rows(store, list(QUERY), 9, equal={"granularity": "section"}).arun()
        assert found.ids == passing(lambda metadata: metadata["granularity"] == "section")[:9], kind


def test_nodes_come_with_text_and_metadata_where_the_store_keeps_them(libraries):
    for kind, store in libraries.items():
        result = query_rows(store, list(QUERY), 3, equal={"granularity": "section"}).run()
        if kind == "simple":
            assert result.nodes is None
            continue
        assert [node.node_id for node in result.nodes] == result.ids
        assert {node.node_id: node.text for node in result.nodes}.items() <= {
            row_id(str(each)): f"第{each}行" for each in range(len(ROWS))
        }.items(), kind
        assert all(node.metadata["granularity"] == "section" for node in result.nodes)


@pytest.mark.parametrize("kind", [*FAMILIES, "milvus-l2", "qdrant-euclid", "qdrant-manhattan"])
def test_more_values_than_a_question_takes_are_asked_for_in_several(opened, kind, monkeypatch):
    monkeypatch.setattr("llama_index_chunking_plus.storage.similarity.MAX_ASKED", 3)
    store = opened.make(kind)
    store.add([row(str(each), vector, **ROWS[each]) for each, vector in enumerate(unit(VECTORS))])
    parents = [row_id(f"parent {each}") for each in range(8)]
    result = query_rows(store, list(QUERY), 6, one_of=("parent_id", [*parents, *parents])).run()
    whole = [each for each in ids(store) if each in passing(lambda metadata: metadata["parent_id"] in parents)]
    assert result.ids == whole[:6]
    assert len(result.similarities) == 6
    assert result.nodes is None or [node.node_id for node in result.nodes] == whole[:6]


class NeverAsked(SimpleVectorStore):
    def query(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("it was asked")


def test_without_values_nothing_passes_and_no_store_is_asked(libraries):
    assert ids(filled(NeverAsked(), VECTORS), one_of=("parent_id", [])) == []
    assert query_rows(NeverAsked(), list(QUERY), 3, one_of=("parent_id", [])).run().nodes is None
    for store in libraries.values():
        assert ids(store, one_of=("parent_id", [])) == []


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_empty_store_has_an_empty_answer(opened, kind):
    result = query_rows(opened.make(kind), list(QUERY), 3, equal={"granularity": "section"}).run()
    assert (result.ids, result.similarities) == ([], [])


def test_a_store_that_is_not_known_is_told_the_filters_flat():
    """Its own filters know no groups in groups; where all must pass, none are needed."""
    store = Unlisted()
    store.add([row(str(each), vector, **ROWS[each]) for each, vector in enumerate(unit(VECTORS))])
    user = group("and", is_("lang", "==", "en"), group("and", is_("page", ">", 1)), group("or"))
    expected = passing(
        lambda metadata: metadata["granularity"] == "sentence" and metadata.get("lang") == "en" and metadata["page"] > 1
    )
    assert len(expected) > 1
    assert ids(store, user, equal={"granularity": "sentence"}) == expected


class OwnAsync(Unlisted):
    """Has an async form of its own."""

    async def aquery(self, query: Any, **kwargs: Any) -> Any:
        result = self.query(query, **kwargs)
        result.ids = [f"awaited {each}" for each in result.ids]
        return result


async def test_an_async_form_of_the_stores_own_is_used():
    store = filled(OwnAsync(), VECTORS)
    assert (await query_rows(store, list(QUERY), 1).arun()).ids == [f"awaited {ORDER[0]}"]
    assert ids(store, top_k=1) == ORDER[:1]


def test_it_is_one_request_of_a_plan():
    def plan():
        result = yield query_rows(store, list(QUERY), 2)
        vectors = yield vectors_of(store, result.ids)
        return list(vectors)

    store = filled(SimpleVectorStore(), VECTORS)
    assert isinstance(query_rows(store, list(QUERY), 2), Call)
    assert run(plan()) == ORDER[:2]


def test_what_a_store_cannot_ask_is_refused_with_what_it_can(libraries):
    for kind, filters, message in [
        ("chroma", group("not", is_("page", ">", 1)), "Chroma cannot ask for not '>'"),
        ("chroma", group("and", is_("lang", "text_match", "z")), "Chroma cannot ask for 'text_match'"),
        ("milvus", group("and", is_("lang", "text_match", "z")), "'text_match' cannot be asked of Milvus here"),
    ]:
        if kind in libraries:
            with pytest.raises(OptionError, match=message):
                ids(libraries[kind], filters)


def test_filters_are_not_changed(libraries):
    filters = group("not", is_("lang", "!=", "zh"), group("and", is_("page", "in", [1, 2])))
    before = filters.model_copy(deep=True)
    for store in libraries.values():
        ids(store, filters)
    assert filters == before


# --- any filters ---

COMPARISONS = st.one_of(
    st.builds(is_, st.just("lang"), st.sampled_from(["==", "!="]), st.sampled_from(LANGUAGES)),
    st.builds(
        is_,
        st.just("lang"),
        st.sampled_from(["in", "nin"]),
        st.lists(st.sampled_from(LANGUAGES), min_size=1, max_size=3),
    ),
    st.builds(is_, st.just("page"), st.sampled_from(["==", "!=", ">", ">=", "<", "<="]), st.integers(0, 14)),
    st.builds(
        is_, st.just("page"), st.sampled_from(["in", "nin"]), st.lists(st.integers(0, 14), min_size=1, max_size=3)
    ),
    st.builds(
        is_,
        st.just("weight"),
        st.sampled_from(["==", "!=", ">", ">=", "<", "<="]),
        st.integers(0, 40).map(lambda each: each / 8),
    ),
    st.builds(
        is_,
        st.just("weight"),
        st.sampled_from(["in", "nin"]),
        st.lists(st.integers(0, 40).map(lambda each: each / 8), min_size=1, max_size=3),
    ),
    st.builds(is_, st.just("没有"), st.sampled_from(["==", "!="]), st.just("x")),
)


def groups(conditions: list[str], least: int) -> st.SearchStrategy[MetadataFilters]:
    inside = st.recursive(
        COMPARISONS,
        lambda part: st.builds(
            lambda condition, parts: group(condition, *parts),
            st.sampled_from(conditions),
            st.lists(part, min_size=least, max_size=3),
        ),
        max_leaves=6,
    )
    return st.lists(inside, min_size=1, max_size=3).map(lambda parts: group("and", *parts))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters=groups(["and", "or", "not"], least=1))
def test_any_filters_mean_the_same_in_every_store(libraries, filters):
    expected = passing(lambda metadata: passes(filters, metadata))
    for kind, store in libraries.items():
        try:
            assert ids(store, filters) == expected, kind
        except OptionError:
            assert kind == "chroma"  # it cannot ask for rows that are not above a number


@given(filters=groups(["and", "or", "not"], least=1))
def test_parts_put_together_mean_what_all_of_them_mean(filters):
    other = is_("granularity", "==", "section")
    whole = all_of(other, None, filters)
    for metadata in ROWS:
        assert passes(whole, metadata) == (passes(other, metadata) and passes(filters, metadata))


@given(filters=groups(["and", "or", "not"], least=0))
def test_empty_groups_are_left_out_and_groups_of_and_are_taken_apart(filters):
    whole = all_of(filters)
    for each in walk(whole):
        assert each.filters
    if whole is not None:
        assert not any(isinstance(part, MetadataFilters) and part.condition == "and" for part in whole.filters)


def walk(filters: MetadataFilters | None) -> Iterator[MetadataFilters]:
    if filters is not None:
        yield filters
        inner = [each for each in filters.filters if isinstance(each, MetadataFilters)]
        yield from itertools.chain.from_iterable(map(walk, inner))
