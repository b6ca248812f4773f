"""Vectors moved towards their parents': against tables made by hand, in pipelines, and through every store."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from granularities import PairEmbedding, corpus, index_of, level_of, nodes_of, parser
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from pydantic import ValidationError
from vector_stores import Stores, new_name

from llama_index_chunking_plus.errors import ChunkingPlusWarning, EmbeddingError, OptionError
from llama_index_chunking_plus.ingestion import ParentVectorFusion, sync_documents
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations
from llama_index_chunking_plus.ingestion.parent_vector_fusion import (
    ABOVE_KEYS,
    FUSION_KEY,
    RAW_KEY,
    embedded_around,
    raw_embedding,
)
from llama_index_chunking_plus.storage.similarity import vectors_of
from llama_index_chunking_plus.storage.stores import rows_by_id

ROOT_2 = math.sqrt(2)


def node(name: str, level: str | None, vector: Sequence[float] | None, parent: str | None = None) -> TextNode:
    relationships = {NodeRelationship.PARENT: RelatedNodeInfo(node_id=parent)} if parent else {}
    metadata: dict[str, Any] = {"granularity": level, "granularity_depth": int(parent is not None)} if level else {}
    return TextNode(id_=name, text=f"第{name}段", embedding=vector, metadata=metadata, relationships=relationships)


def family() -> list[TextNode]:
    """A coarse chunk, a medium one in it, a fine one in that, and a sentence below; vectors at right angles."""
    return [
        node("c", "coarse", [2.0, 0.0, 0.0, 0.0]),
        node("m", "medium", [0.0, 3.0, 0.0, 0.0], "c"),
        node("f", "fine", [0.0, 0.0, 0.5, 0.0], "m"),
        node("s", "sentence", [0.0, 0.0, 0.0, 9.0], "f"),
    ]


def unit(*vector: float) -> list[float]:
    return (np.array(vector) / np.linalg.norm(vector)).tolist()


def vectors(nodes: Sequence[BaseNode]) -> dict[str, list[float]]:
    return {each.node_id: each.get_embedding() for each in nodes}


# --- the arithmetic ---


def test_a_table_by_hand():
    fused = vectors(ParentVectorFusion()(family()))
    medium = unit(0.2, 1.0, 0.0, 0.0)
    fine = unit(0.3 * medium[0], 0.3 * medium[1], 1.0, 0.0)
    assert fused["c"] == [1.0, 0.0, 0.0, 0.0]
    assert fused["m"] == pytest.approx(medium, abs=1e-6)
    assert fused["f"] == pytest.approx(fine, abs=1e-6)
    assert fused["s"] == [0.0, 0.0, 0.0, 1.0]


def test_weights_of_the_user():
    fused = vectors(ParentVectorFusion(medium=1.0, fine=0.0, weights={"sentence": 1.0})(family()))
    assert fused["m"] == pytest.approx([1 / ROOT_2, 1 / ROOT_2, 0, 0], abs=1e-6)
    assert fused["f"] == [0.0, 0.0, 1.0, 0.0]
    assert fused["s"] == pytest.approx([0, 0, 1 / ROOT_2, 1 / ROOT_2], abs=1e-6)


def test_above_1_the_parent_counts_for_more_than_the_chunk():
    fused = vectors(ParentVectorFusion(weights={"medium": 2})(family()))
    assert fused["m"] == pytest.approx(unit(2.0, 1.0, 0.0, 0.0), abs=1e-6)


def test_any_order_gives_the_same():
    nodes = nodes_of(corpus(), parser(sentences=True), PairEmbedding())
    expected = vectors(ParentVectorFusion()(nodes))
    shuffled = random.Random(2).sample(nodes, len(nodes))
    fused = ParentVectorFusion()(shuffled)
    assert [each.node_id for each in fused] == [each.node_id for each in shuffled]
    found = vectors(fused)
    assert all(np.allclose(found[name], vector, atol=1e-6) for name, vector in expected.items())
    assert np.linalg.norm([*found.values()], axis=1) == pytest.approx(np.ones(len(nodes)), abs=1e-6)


def test_a_second_pass_changes_nothing():
    for options in ({}, {"store_levels": ("coarse", "fine")}, {"keep_raw": True}):
        fusion = ParentVectorFusion(**options)
        once = fusion(family())
        twice = fusion(once)
        assert [each.to_dict() for each in twice] == [each.to_dict() for each in once]


def test_new_nodes_beside_fused_ones_are_fused_with_them():
    whole = vectors(ParentVectorFusion()(family()))
    first = ParentVectorFusion()(family()[:2])
    found = vectors(ParentVectorFusion()([*family()[2:], *first]))
    assert all(found[name] == pytest.approx(whole[name], abs=1e-6) for name in whole)


def test_nodes_without_levels_and_parents_get_length_1():
    (plain,) = ParentVectorFusion()([node("x", None, [3.0, 4.0])])
    assert plain.get_embedding() == pytest.approx([0.6, 0.8])


def test_what_goes_in_stays_as_it_is_and_nothing_gives_nothing():
    nodes = family()
    before = [each.to_dict() for each in nodes]
    fused = ParentVectorFusion(keep_raw=True, store_levels=("fine",))(nodes)
    assert [each.to_dict() for each in nodes] == before
    for each in fused:
        each.metadata.clear()
        each.relationships.clear()
        each.excluded_llm_metadata_keys.clear()
    assert [each.to_dict() for each in nodes] == before
    assert ParentVectorFusion()([]) == []


def test_async_is_sync():
    awaited = asyncio.run(ParentVectorFusion().acall(family()))
    assert [each.to_dict() for each in awaited] == [each.to_dict() for each in ParentVectorFusion()(family())]


# --- what nodes say ---


def test_the_mark_says_how_and_is_hidden():
    fusion = ParentVectorFusion(medium=0.123456789, weights={"a,b=c": 1})
    odd = node("o", "a,b=c", [1.0, 1.0, 0.0, 0.0])
    for each in fusion([*family(), odd]):
        assert json.loads(each.metadata[FUSION_KEY]) == {"medium": 0.123456789, "fine": 0.3, "a,b=c": 1.0}
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert FUSION_KEY not in each.get_content(mode)


def test_the_raw_vector_can_be_read_back():
    raw = {each.node_id: each.embedding for each in family()}
    for each in ParentVectorFusion(keep_raw=True)(family()):
        assert raw_embedding(each) == pytest.approx(raw[each.node_id])
        assert isinstance(each.metadata[RAW_KEY], str)
        assert RAW_KEY not in each.get_content(MetadataMode.LLM)
    assert raw_embedding(ParentVectorFusion()(family())[0]) is None


def test_levels_that_are_not_stored_leave_their_ids():
    fused = ParentVectorFusion(store_levels=("coarse", "fine"))(family())
    assert [each.node_id for each in fused] == ["c", "f"]
    assert fused[1].parent_node is not None
    assert fused[1].parent_node.node_id == "m"
    assert vectors(fused)["f"] == pytest.approx(vectors(ParentVectorFusion()(family()))["f"])


def test_the_largest_chunk_of_a_document_is_always_stored():
    nodes = nodes_of(corpus(), parser(sentences=True), PairEmbedding())
    fused = ParentVectorFusion(store_levels=("coarse", "fine"))(nodes)
    kept = {each.node_id for each in fused}
    assert kept == {
        each.node_id
        for each in nodes
        if level_of(each) in {"coarse", "fine"} or each.metadata["granularity_depth"] == 0
    }
    assert {level_of(each) for each in fused if each.ref_doc_id == "short0"} == {"medium", "fine"}


# --- what surrounds a text where it is embedded ---


@pytest.mark.parametrize("text", ["三楼", "三楼\n\n", "  三楼", "a: b\n\na: b", "\n"])
@pytest.mark.parametrize("template", ["{metadata_str}\n\n{content}", "{content}\n[{metadata_str}]", "{content}"])
@pytest.mark.parametrize("metadata", [{}, {"a": "b"}, {"a": "三楼"}])
def test_what_surrounds_a_text_makes_what_was_embedded(text, template, metadata):
    each = TextNode(text=text, metadata=metadata, text_template=template)
    ahead, behind = embedded_around(each)
    made = f"{ahead}{text}{behind}"
    assert (made.strip() if ahead or behind else made).strip() == each.get_content(MetadataMode.EMBED).strip()
    if metadata and template != "{content}":
        assert made.strip() == each.get_content(MetadataMode.EMBED)
    if not metadata:
        assert (ahead, made) == ("", text)


def test_parts_remember_what_was_embedded_around_a_parent_that_is_not_stored():
    nodes = family()
    nodes[1].metadata["title"], nodes[2].metadata["title"] = "仓库", "门禁"
    fine = ParentVectorFusion(store_levels=("coarse", "fine"))(nodes)[-1]
    parent = nodes[1].get_content(MetadataMode.EMBED)
    assert f"{fine.metadata[ABOVE_KEYS[0]]}第m段" == parent
    assert ABOVE_KEYS[1] not in fine.metadata
    assert ABOVE_KEYS[0] not in fine.get_content(MetadataMode.EMBED)


# --- what goes wrong ---


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            lambda nodes: nodes[1:],
            OptionError,
            "1 nodes are parts of chunks that are not among the nodes, the first is 'm'",
        ),
        (
            lambda nodes: [*nodes, node("x", "fine", None)],
            OptionError,
            "1 of 5 nodes have no embedding, the first is 'x'",
        ),
        (lambda nodes: [*nodes, node("x", "fine", [1.0])], EmbeddingError, r"lengths \[1, 4\] cannot be fused"),
        (
            lambda nodes: [*nodes, node("x", "fine", [0.0] * 4)],
            EmbeddingError,
            r"1 vectors are zero or not finite, of \['x'\]",
        ),
        (lambda nodes: [*nodes, node("x", "fine", [math.nan] * 4)], EmbeddingError, "zero or not finite"),
        (lambda nodes: [*nodes, node("x", "fine", [1e300] * 4)], EmbeddingError, "zero or not finite"),
        (lambda nodes: [*nodes, node("x", "fine", [1.0] * 4, "x")], OptionError, "in a circle"),
        (
            ParentVectorFusion(fine=0.5),
            OptionError,
            r'fused with .*"fine": 0.5.* before, not with',
        ),
    ],
)
def test_nodes_that_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        ParentVectorFusion()(change(family()))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"medium": -0.1}, r"weights of \{'medium': -0.1\} must be numbers, 0 or above; 0.1 to 0.5 are usual"),
        ({"fine": math.nan}, "must be numbers"),
        ({"weights": {"sentence": math.inf}}, "must be numbers"),
        ({"weights": {"sentence": True}}, "valid number"),
        ({"weights": {"sentence": "0.5"}}, "valid number"),
        ({"weights": {" ": 0.1}}, r"weights=\{' ': 0.1\} has a blank level"),
        ({"store_levels": ()}, "would store nothing; name levels"),
        ({"store_levels": ("fine", "")}, r"store_levels=\('fine', ''\) has a blank level"),
        ({"store_levels": [b"fine"]}, "valid string"),
        ({"mediun": 0.1}, "mediun"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        ParentVectorFusion(**options)


# --- as a component ---

CHANGES: list[dict[str, Any]] = [
    {"medium": 0.1},
    {"fine": 0.1},
    {"weights": {"sentence": 0.1}},
    {"store_levels": ("coarse", "fine")},
    {"keep_raw": True},
]


def test_every_option_is_dumped_and_counts():
    assert {name for change in CHANGES for name in change} == set(ParentVectorFusion.model_fields) - {"class_name"}
    nodes = family()
    hashes = {
        get_transformation_hash(nodes, each)
        for each in (ParentVectorFusion(), *(ParentVectorFusion(**c) for c in CHANGES))
    }
    prints = {
        fingerprint_transformations([each])
        for each in (ParentVectorFusion(), *(ParentVectorFusion(**c) for c in CHANGES))
    }
    assert len(hashes) == len(prints) == len(CHANGES) + 1
    for change in CHANGES:
        fusion = ParentVectorFusion(**change)
        for again in (ParentVectorFusion.from_dict(fusion.to_dict()), pickle.loads(pickle.dumps(fusion))):
            assert again == fusion
            assert [each.to_dict() for each in again(family())] == [each.to_dict() for each in fusion(family())]
        with pytest.raises(ValidationError):
            fusion.medium = 1.0


# --- through pipelines and stores ---

KINDS = ["simple", "chroma-l2", "chroma-cosine", "milvus", "qdrant"]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.closing:
        yield made


@pytest.mark.parametrize("by_sync", [False, True], ids=["pipeline", "sync"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_store_takes_and_remembers_them(opened, tmp_path, kind, by_sync):
    steps = [
        parser(sentences=True),
        PairEmbedding(),
        ParentVectorFusion(keep_raw=True, store_levels=("coarse", "fine")),
    ]
    expected = {each.node_id: each for each in nodes_of(corpus(), *steps)}
    store = opened.make(kind)
    pipeline = IngestionPipeline(transformations=steps, vector_store=store)
    if by_sync:
        assert sync_documents(corpus(), pipeline, persist_dir=tmp_path).nodes_written == len(expected)
        assert not sync_documents(corpus(), pipeline, persist_dir=tmp_path).changed
    else:
        pipeline.run(documents=corpus())
    stored = vectors_of(store, [*expected]).run()
    assert stored.keys() == expected.keys()
    assert all(np.allclose(stored[name], each.embedding, atol=1e-5) for name, each in expected.items())
    if store.stores_text:
        for row in rows_by_id(store, [*expected]).run():
            each = expected[row.node_id]
            assert row.metadata[FUSION_KEY] == each.metadata[FUSION_KEY]
            assert raw_embedding(row) == pytest.approx(raw_embedding(each), abs=1e-6)
            assert row.parent_node == each.parent_node or row.parent_node.node_id == each.parent_node.node_id
            assert row.get_content(MetadataMode.EMBED) == each.get_content(MetadataMode.EMBED)


@pytest.mark.parametrize(
    "options, strange",
    [
        ({"store_levels": ("corse", "fine")}, r"\['corse'\]"),
        ({"weights": {"smal": 0.3}}, r"\['smal'\]"),
        ({"weights": {"a": 0.3}, "store_levels": ("a", "b", "medium")}, r"\['a', 'b'\]"),
    ],
)
def test_names_that_no_node_has_are_told_once(options, strange):
    fusion = ParentVectorFusion(**options)
    message = rf"name {strange}, and the nodes are of the levels \['coarse', 'fine', 'medium', 'sentence'\]"
    with pytest.warns(ChunkingPlusWarning, match=message):
        fusion(family())
    fusion(family())


def test_usual_names_beside_levels_of_other_names_are_told():
    nodes = [node("b", "big", [1.0, 0.0]), node("s", "small", [0.0, 1.0], "b")]
    with pytest.warns(ChunkingPlusWarning, match=r"name \['coarse', 'fine'\], and .*levels \['big', 'small'\]"):
        ParentVectorFusion(store_levels=("coarse", "fine"))(nodes)
    assert len(ParentVectorFusion(weights={"small": 0.3}, store_levels=("big", "small"))(nodes)) == 2


@pytest.mark.parametrize(
    "nodes",
    [
        [node("f", "fine", [1.0, 0.0])],
        [node("m", "medium", [1.0, 0.0]), node("f", "fine", [0.0, 1.0], "m")],
        [node("x", None, [1.0, 0.0])],
        [],
    ],
)
def test_short_documents_may_lack_levels(nodes):
    fusion = ParentVectorFusion(weights={"coarse": 0.1, "sentence": 0.2}, store_levels=("coarse", "fine"))
    assert len(fusion(nodes)) == len(nodes)


def test_another_weight_makes_all_rows_anew(opened, tmp_path):
    store = opened.make("chroma-l2")
    for fine in (0.3, 0.6):
        steps = [parser(), PairEmbedding(), ParentVectorFusion(fine=fine)]
        report = sync_documents(
            corpus(), IngestionPipeline(transformations=steps, vector_store=store), persist_dir=tmp_path
        )
        assert len(report.changed) == len(corpus())
        (row,) = store.query(VectorStoreQuery(query_embedding=[1.0] * 8, similarity_top_k=1)).nodes
        assert json.loads(row.metadata[FUSION_KEY])["fine"] == fine


def test_a_store_that_is_opened_again_knows_how_it_was_fused(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    adapter = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore
    name = new_name()
    client = chromadb.PersistentClient(str(tmp_path))
    nodes = nodes_of(corpus(), parser(), PairEmbedding(), ParentVectorFusion())
    index_of(adapter(chroma_collection=client.create_collection(name)), nodes)
    client.close()
    client = chromadb.PersistentClient(str(tmp_path))
    store = adapter(chroma_collection=client.get_collection(name))
    rows = rows_by_id(store, [each.node_id for each in nodes]).run()
    assert {row.metadata[FUSION_KEY] for row in rows} == {'{"fine": 0.3, "medium": 0.2}'}
    client.close()
