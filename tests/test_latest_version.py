"""The newest version of each document: among hits, and in what a store is asked."""

from __future__ import annotations

import asyncio
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import chromadb
import pytest
from embedders import LetterEmbedding
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus import DocumentMetadataTransform, load_docstore, sync_documents
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser import SlidingWindowNodeParser
from llama_index_chunking_plus.postprocessor import LatestVersionPostprocessor, latest_version_filters


def hit(name: str | None = None, version: Any = None, score: float | None = 0.5, **metadata: Any) -> NodeWithScore:
    said = {"document": name, "version": version, **metadata}
    said = {key: value for key, value in said.items() if value is not None}
    return NodeWithScore(node=TextNode(text=f"{name} {version}", metadata=said), score=score)


def postprocess(postprocessor: BaseNodePostprocessor, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
    """The result, sync and async; inputs are as before."""
    before = [each.model_dump_json() for each in nodes]
    found = postprocessor.postprocess_nodes(nodes)
    awaited = asyncio.run(postprocessor.apostprocess_nodes(nodes))
    assert [each.to_dict() for each in awaited] == [each.to_dict() for each in found]
    assert [each.model_dump_json() for each in nodes] == before
    return found


def told(found: list[NodeWithScore]) -> list[tuple[str, float | None, Any]]:
    return [(each.text, each.score, each.node.metadata.get("hidden_versions")) for each in found]


def test_of_each_document_only_the_newest_version_is_returned_in_the_old_order_with_what_was_hidden() -> None:
    nodes = [
        hit("手册", "1.9", 0.9),
        hit("合同", "第三版", -0.2),
        hit("手册", "v1.10", 0),
        hit("通知", None, None),
        hit("手册", "1.9-rc1", 0.8),
        hit("手册", None, 0.7),
        hit("合同", "第二版", 0.6),
        hit("手册", "1.10.0", None),
    ]
    found = postprocess(LatestVersionPostprocessor(), nodes)
    assert told(found) == [
        ("合同 第三版", -0.2, ["第二版"]),
        ("手册 v1.10", 0, ["1.9", "1.9-rc1", ""]),
        ("通知 None", None, None),
        ("手册 1.10.0", None, ["1.9", "1.9-rc1", ""]),
    ]
    assert found[2] is nodes[3]
    assert found[0].node.node_id == nodes[1].node.node_id
    json.dumps(found[0].node.metadata)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert "hidden_versions" not in found[0].node.get_content(mode)
        assert found[0].node.get_content(mode) == nodes[1].node.get_content(mode)


def test_a_pinned_version_is_matched_however_it_is_written() -> None:
    nodes = [hit("a", "2.0"), hit("a", "3.0"), hit("b", "v2.0.0"), hit("c", 2.0), hit("d", "1"), hit("e")]
    for pinned in ("2.0", "V2", "第二版"):
        found = postprocess(LatestVersionPostprocessor(version=pinned), nodes)
        assert [each.text for each in found] == ["a 2.0", "b v2.0.0", "c 2.0", "e None"]
        assert found[0].node.metadata["hidden_versions"] == ["3.0"]


def test_documents_of_no_name_are_documents_of_their_own_told_apart_by_their_id() -> None:
    nodes = [hit(None, "1"), hit(None, "2"), hit(None, "3")]
    for each in nodes[:2]:
        each.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="x")
    assert [each.text for each in postprocess(LatestVersionPostprocessor(), nodes)] == ["None 2", "None 3"]


def test_the_date_decides_where_there_is_no_version_or_where_it_is_told_to() -> None:
    nodes = [
        hit("a", "2", date="2023年5月"),
        hit("a", "1", date="2024-01-31"),
        hit("b", updated_at="2024"),
        hit("b", updated_at="20250101"),
    ]
    assert [each.text for each in postprocess(LatestVersionPostprocessor(), nodes)] == ["a 2", "b None"]
    by_date = postprocess(LatestVersionPostprocessor(order_by="date"), nodes)
    assert told(by_date) == [("a 1", 0.5, ["2023年5月"]), ("b None", 0.5, ["2024"])]
    assert len(postprocess(LatestVersionPostprocessor(order_by="version"), nodes)) == 3


def test_other_keys_and_file_names_can_tell_document_and_version() -> None:
    nodes = [hit(group="a", 版本="1"), hit(group="a", 版本="2")]
    found = postprocess(LatestVersionPostprocessor(document_key="group", version_key=["版本"]), nodes)
    assert [each.node.metadata["版本"] for each in found] == ["2"]
    files = [hit(None, file_name=name) for name in ("手册_v1.9.md", "手册_v1.10.md", "faq.md")]
    found = postprocess(LatestVersionPostprocessor(file_pattern=r"(?P<document>.+)_v(?P<version>[\d.]+)\.md"), files)
    assert [each.node.metadata["file_name"] for each in found] == ["手册_v1.10.md", "faq.md"]


def test_unreadable_versions_are_below_the_others_and_named_in_one_warning() -> None:
    nodes = [hit("a", "企业版"), hit("a", "0.1"), hit("b", "build 9"), hit("b", "build 10"), hit("c", "最新")]
    with pytest.warns(
        ChunkingPlusWarning, match="3 versions cannot be read .* '企业版', 'build 9', 'build 10'"
    ) as caught:
        found = LatestVersionPostprocessor().postprocess_nodes(nodes)
    assert [each.text for each in found] == ["a 0.1", "b build 10", "c 最新"]
    assert len(caught) == 1


def test_what_was_hidden_before_is_still_told_after_a_second_time() -> None:
    first = postprocess(LatestVersionPostprocessor(), [hit("a", "1"), hit("a", "2")])
    second = postprocess(LatestVersionPostprocessor(), [*first, hit("a", "1.5")])
    assert told(second) == [("a 2", 0.5, ["1", "1.5"])]
    assert postprocess(LatestVersionPostprocessor(), second) == second
    assert postprocess(LatestVersionPostprocessor(), []) == []


VERSIONS = st.none() | st.sampled_from(["1", "1.0", "1.9", "1.10", "2-rc1", "2", "第2版"])


@given(
    st.lists(st.tuples(st.none() | st.sampled_from("ab"), VERSIONS, st.none() | st.floats(-1, 1)), max_size=8),
    st.none() | st.sampled_from(["2", "v1.9", "7"]),
)
def test_filters_and_postprocessor_agree_and_a_second_pass_changes_nothing(
    drawn: list[tuple[str | None, str | None, float | None]], pinned: str | None
) -> None:
    nodes = [hit(*each) for each in drawn]
    postprocessor = LatestVersionPostprocessor(version=pinned)
    found = postprocessor.postprocess_nodes(nodes)
    ids = [each.node.node_id for each in found]
    assert ids == [each.node.node_id for each in nodes if each.node.node_id in set(ids)]
    assert postprocessor.postprocess_nodes(found) == found
    corpus = [each.node for each in nodes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChunkingPlusWarning)  # of versions that none has
        allowed = latest_version_filters(corpus, version=pinned).filters[0].value  # type: ignore[union-attr]
        refused = latest_version_filters(corpus, version=pinned, exclude=True).filters[0].value  # type: ignore[union-attr]
    assert [each.node_id for each in corpus if each.node_id in allowed] == ids
    assert [each.node_id for each in corpus if each.node_id not in refused] == ids


@pytest.mark.parametrize(
    "options",
    [
        {"document_key": ()},
        {"version_key": ""},
        {"file_pattern": "("},
        {"file_pattern": "v(.+)"},
        {"order_by": "size"},
        {"versions": "1"},
        {"version": ""},
        {"version": "latest"},
        {"version": 2.0},
    ],
    ids=str,
)
def test_a_wrong_option_fails_at_construction(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        LatestVersionPostprocessor(**options)
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        latest_version_filters([], **options)


def test_it_survives_a_dump_a_pickle_and_cannot_be_changed() -> None:
    postprocessor = LatestVersionPostprocessor(
        version="2", order_by="date", document_key="name", file_pattern="(?P<document>.)"
    )
    for copy in (
        LatestVersionPostprocessor.from_dict(postprocessor.to_dict()),
        pickle.loads(pickle.dumps(postprocessor)),
    ):
        assert copy.to_dict() == postprocessor.to_dict()
        assert told(copy.postprocess_nodes([hit()])) == told([hit()])
    with pytest.raises(ValueError, match="frozen"):
        postprocessor.version = "3"


# --- filters, on stores ---

DOCUMENTS = [
    Document(
        id_=f"{name}-{version}.md",
        text=f"{name}的保修期是{number}年。",
        metadata={"title": name, "version": version, "lang": lang},
    )
    for number, (name, version, lang) in enumerate(
        [
            ("变频器", "1.9", "zh"),
            ("变频器", "1.10", "zh"),
            ("变频器", "2.0-beta1", "en"),
            ("水泵", "v2.0", "zh"),
            ("水泵", "3", "en"),
        ]
    )
]
NEWEST = {"变频器-2.0-beta1.md", "水泵-3.md"}


@pytest.fixture(params=["simple", "chroma"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> VectorStoreIndex:
    store: Any = SimpleVectorStore()
    if request.param == "chroma":
        collection = chromadb.PersistentClient(str(tmp_path)).create_collection("rows")
        store = ChromaVectorStore(chroma_collection=collection)
    return VectorStoreIndex.from_documents(
        DOCUMENTS,
        transformations=[SlidingWindowNodeParser(chunk_size=64, chunk_overlap=0)],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=LetterEmbedding(),
    )


def retrieve(index: VectorStoreIndex, filters: MetadataFilters | None) -> set[str | None]:
    found = index.as_retriever(similarity_top_k=9, filters=filters).retrieve("保修期多长？")
    return {each.node.ref_doc_id for each in found}


def test_filters_let_stores_find_the_newest_or_pinned_version_only(index: VectorStoreIndex) -> None:
    assert retrieve(index, None) == {document.id_ for document in DOCUMENTS}
    assert retrieve(index, latest_version_filters(DOCUMENTS)) == NEWEST
    assert retrieve(index, latest_version_filters(DOCUMENTS, exclude=True)) == NEWEST
    assert retrieve(index, latest_version_filters(DOCUMENTS, version="2")) == {"水泵-v2.0.md"}
    with pytest.warns(ChunkingPlusWarning, match="version '7'; the newest versions are 3, v2.0, 2.0-beta1, 1.10, 1.9"):
        nothing = latest_version_filters(DOCUMENTS, version="7")
    assert retrieve(index, nothing) == set()
    assert retrieve(index, latest_version_filters([])) == set()
    assert retrieve(index, latest_version_filters([], exclude=True)) == {document.id_ for document in DOCUMENTS}
    assert retrieve(index, latest_version_filters(DOCUMENTS[:2], exclude=True)) == {
        document.id_ for document in DOCUMENTS[1:]
    }


def test_filters_of_ones_own_hold_as_well_and_are_not_changed(index: VectorStoreIndex) -> None:
    chinese, english = (MetadataFilter(key="lang", value=value) for value in ("zh", "en"))
    pump = MetadataFilter(key="title", value="水泵")
    own = MetadataFilters(filters=[english, pump])
    assert retrieve(index, latest_version_filters(DOCUMENTS, own)) == {"水泵-3.md"}
    assert len(own.filters) == 2
    assert (
        retrieve(index, latest_version_filters(DOCUMENTS, MetadataFilters(filters=[chinese], condition="or"))) == set()
    )
    assert retrieve(index, latest_version_filters(DOCUMENTS, MetadataFilters(filters=[]))) == NEWEST
    either = latest_version_filters(DOCUMENTS, MetadataFilters(filters=[chinese, pump], condition="or"))
    if isinstance(index.vector_store, ChromaVectorStore):
        assert retrieve(index, either) == {"水泵-3.md"}
    else:
        with pytest.raises(ValueError, match="Nested"):
            retrieve(index, either)


def test_a_docstore_or_nodes_will_do_for_the_corpus(tmp_path: Path) -> None:
    store = ChromaVectorStore(chroma_collection=chromadb.EphemeralClient().get_or_create_collection("latest-version"))
    parser = SlidingWindowNodeParser(chunk_size=64, chunk_overlap=0)
    pipeline = IngestionPipeline(transformations=[parser, LetterEmbedding()], vector_store=store)
    sync_documents(DOCUMENTS, pipeline, persist_dir=tmp_path)
    docstore = SimpleDocumentStore()
    docstore.add_documents(parser.get_nodes_from_documents(DOCUMENTS))
    nodes: list[BaseNode] = [*docstore.docs.values()]
    for corpus in (load_docstore(tmp_path), docstore, nodes, iter(DOCUMENTS)):
        (condition,) = latest_version_filters(corpus).filters
        assert isinstance(condition, MetadataFilter)
        assert (condition.key, condition.operator, {*condition.value}) == ("doc_id", FilterOperator.IN, NEWEST)  # type: ignore[misc]


def test_filters_warn_of_unreadable_versions_once() -> None:
    documents = [Document(text="", metadata={"title": "a", "version": version}) for version in ("x", "y", "1")]
    with pytest.warns(ChunkingPlusWarning, match="2 versions") as caught:
        latest_version_filters(documents)
    assert len(caught) == 1


def current_ids(documents: Any, **options: Any) -> list[str]:
    (condition,) = latest_version_filters(documents, **options).filters
    assert isinstance(condition, MetadataFilter)
    assert isinstance(condition.value, list)
    return [str(each) for each in condition.value]


def test_what_documents_say_of_themselves_is_read(tmp_path: Path) -> None:
    documents = [
        Document(id_=f"k{number}.md", text=f'---\ntitle: 甲\nversion: "{number}"\n---\n正文。') for number in (1, 2)
    ]
    before = [each.to_dict() for each in documents]
    pipeline = IngestionPipeline(
        transformations=[SlidingWindowNodeParser(), LetterEmbedding()], vector_store=SimpleVectorStore()
    )
    sync_documents(documents, pipeline, persist_dir=tmp_path)
    for corpus in (documents, load_docstore(tmp_path)):
        assert current_ids(corpus) == ["k2.md"]
    assert current_ids(documents, version="1.0") == ["k1.md"]
    assert [each.to_dict() for each in documents] == before
    said = [Document(id_=each.id_, text=each.text, metadata={"document": "甲", "version": 9}) for each in documents]
    assert current_ids(said) == ["k1.md", "k2.md"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("差旅制度_v1.txt", "差旅制度_v2.txt"),
        ("考勤手册 v1.9.md", "考勤手册 v1.10.md"),
        ("手册第1版.md", "手册第2版.md"),
        ("规范（V2.0-beta1）.md", "规范（V2.0版）.md"),
    ],
)
def test_a_version_in_the_title_is_no_part_of_the_name(old: str, new: str) -> None:
    by_name = [Document(id_=name, text="正文。") for name in (new, old)]
    by_heading = [Document(id_=name, text=f"# {name.rsplit('.', 1)[0]}\n\n正文。") for name in (new, old)]
    for documents in (by_name, by_heading):
        assert current_ids(documents) == [new]
    hits = [NodeWithScore(node=each) for each in DocumentMetadataTransform()(by_name)]
    assert [each.node.node_id for each in LatestVersionPostprocessor().postprocess_nodes(hits)] == [new]


def test_a_corpus_without_any_version_or_date_is_warned_of_once() -> None:
    with pytest.warns(ChunkingPlusWarning, match="None of 2 documents has a version or date") as caught:
        assert current_ids([Document(id_=name, text="正文。") for name in "ab"], version="2") == ["a", "b"]
    assert len(caught) == 1


def test_it_stands_in_a_stock_query_engine(index: VectorStoreIndex) -> None:
    postprocessor = LatestVersionPostprocessor(version="2.0")
    engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=9, node_postprocessors=[postprocessor])
    assert [each.node.ref_doc_id for each in engine.query("保修期多长？").source_nodes] == ["水泵-v2.0.md"]
