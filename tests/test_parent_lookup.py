"""Lookups: the parent that a child names is returned as it stands today, or not at all."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from embedders import LetterEmbedding, letter_vector
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery

from llama_index_chunking_plus.core.parents import PARENT_KEYS, ParentRef, text_hash
from llama_index_chunking_plus.core.plan import run
from llama_index_chunking_plus.core.sections import SECTION_KEYS
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError, StaleChildError
from llama_index_chunking_plus.node_parser import SmallToBigNodeParser, StructuredMarkdownNodeParser
from llama_index_chunking_plus.retrievers import SmallToBigRetriever
from llama_index_chunking_plus.storage import Found, ParentLookup, SiblingLookup, SourceSliceLookup, StoredParentLookup
from llama_index_chunking_plus.storage import rows as rows_module

chromadb = pytest.importorskip("chromadb")
ChromaVectorStore = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore

PARENT, CHILD, STEP = 20, 8, 6  # characters; children overlap by two


def article(id_: str, n_sentences: int = 12, **options: Any) -> Document:
    text = "".join(f"{id_}第{i}句。" for i in range(n_sentences))
    return Document(id_=id_, text=text, metadata={"title": f"文章{id_}", "tags": {"a": [1]}}, **options)


def parent_of(document: Document, start: int) -> tuple[ParentRef, Span]:
    span = Span(start, min(start + PARENT, len(document.text)))
    digest = text_hash(span.of(document.text))
    return ParentRef(f"{document.id_}:{start}:{digest[:8]}", span, digest), span


def children_of(document: Document) -> list[TextNode]:
    """Children that cover their parents, which tile the document: what a small-to-big parser gives."""
    nodes = []
    for start in range(0, len(document.text), PARENT):
        ref, parent = parent_of(document, start)
        for at in range(start, parent.end, STEP):
            end = min(at + CHILD, parent.end)
            nodes.append(
                TextNode(
                    id_=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{ref.parent_id}/{at}")),
                    text=document.text[at:end],
                    start_char_idx=at,
                    end_char_idx=end,
                    metadata={"title": document.metadata["title"], "at": at, **ref.to_metadata()},
                    excluded_embed_metadata_keys=[*PARENT_KEYS, "title"],
                    excluded_llm_metadata_keys=list(PARENT_KEYS),
                    text_template="{content}<{metadata_str}",
                    embedding=[1.0, float(at)],
                    relationships={
                        NodeRelationship.SOURCE: RelatedNodeInfo(
                            node_id=document.id_, node_type=ObjectType.DOCUMENT, hash="h", metadata={"fat": 1}
                        ),
                        NodeRelationship.PARENT: RelatedNodeInfo(node_id=ref.parent_id),
                    },
                )
            )
    return nodes


def parents_of(document: Document) -> dict[str, str]:
    refs = [parent_of(document, start) for start in range(0, len(document.text), PARENT)]
    return {ref.parent_id: span.of(document.text) for ref, span in refs}


def parent_nodes(document: Document) -> list[TextNode]:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document.id_)}
    return [
        TextNode(id_=key, text=text, metadata={"level": "parent"}, relationships=source, embedding=[0.0, 0.0])
        for key, text in parents_of(document).items()
    ]


A, B = article("甲"), article("乙")
CHILDREN = [*children_of(A), *children_of(B)]
TEXTS = {**parents_of(A), **parents_of(B)}


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Any:
    return chromadb.PersistentClient(str(tmp_path_factory.mktemp("chroma")))


@pytest.fixture
def chroma(client) -> Any:
    return ChromaVectorStore(chroma_collection=client.create_collection(uuid.uuid4().hex))


def docstore_of(*nodes: BaseNode) -> SimpleDocumentStore:
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    return docstore


def filled(chroma: Any, nodes: Sequence[BaseNode] = CHILDREN) -> Any:
    chroma.add(list(nodes))
    return chroma


def simple_with(nodes: Sequence[BaseNode] = CHILDREN) -> SiblingLookup:
    vectors = SimpleVectorStore()
    vectors.add(nodes)
    return SiblingLookup(vectors, docstore_of(*nodes))


LOOKUPS = {
    "slices": lambda _: SourceSliceLookup(docstore_of(A, B)),
    "siblings in Chroma": lambda chroma: SiblingLookup(filled(chroma)),
    "siblings in memory": lambda _: simple_with(),
    "stored in a docstore": lambda _: StoredParentLookup(docstore_of(*parent_nodes(A), *parent_nodes(B))),
    "stored in Chroma": lambda chroma: StoredParentLookup(filled(chroma, [*parent_nodes(A), *parent_nodes(B)])),
}


@pytest.fixture(params=LOOKUPS.values(), ids=LOOKUPS.keys())
def lookup(request, chroma) -> ParentLookup:
    return request.param(chroma)


def texts(found: Found) -> dict[str, str]:
    return {key: parent.text for key, parent in found.parents.items()}


# --- what every lookup does ---


def test_every_parent_is_found_exactly(lookup):
    found = lookup.find(CHILDREN)
    assert texts(found) == TEXTS
    assert (found.stale, found.outdated) == (frozenset(), 0)
    documents = {A.id_: A.text, B.id_: B.text}
    for key, parent in found.parents.items():
        assert type(parent) is TextNode
        assert parent.node_id == key
        assert documents[parent.ref_doc_id][parent.start_char_idx : parent.end_char_idx] == parent.text
        assert parent.source_node.metadata == {}
        assert set(parent.relationships) == {NodeRelationship.SOURCE}
        assert not set(PARENT_KEYS) & set(parent.metadata)


def test_only_the_parents_asked_for_come_back(lookup):
    child = CHILDREN[5]
    assert list(lookup.find([child]).parents) == [child.metadata["parent_id"]]


def test_sync_and_async_agree(lookup):
    assert asyncio.run(lookup.afind(CHILDREN)) == lookup.find(CHILDREN) == run(lookup.plan(CHILDREN))


def test_it_is_a_lookup_and_a_frozen_value(lookup):
    assert isinstance(lookup, ParentLookup)
    with pytest.raises(AttributeError):
        lookup.anything = 1


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [TextNode(text="no parent")],
        [TextNode(text="x", metadata=CHILDREN[0].metadata)],
        [TextNode(text="x", metadata={**CHILDREN[0].metadata, "parent_start": "0"})],
        [ImageNode(text="x")],
    ],
    ids=["nothing", "no parent", "no document", "nonsense", "an image"],
)
def test_nodes_without_parent_information_pass_by_and_ask_no_store(lookup, nodes, monkeypatch):
    monkeypatch.setattr(SimpleDocumentStore, "get_nodes", None)
    monkeypatch.setattr(ChromaVectorStore, "_get", None)
    assert lookup.find(nodes) == Found()


def test_inputs_are_not_changed_and_results_may_be(lookup):
    before = [child.to_dict() for child in CHILDREN]
    first = lookup.find(CHILDREN)
    for parent in first.parents.values():
        parent.metadata.get("tags", {}).clear()
        parent.metadata["spoilt"] = True
        parent.excluded_llm_metadata_keys.append("spoilt")
        parent.set_content("spoilt")
    assert [child.to_dict() for child in CHILDREN] == before
    again = lookup.find(CHILDREN)
    assert texts(again) == TEXTS
    assert all("spoilt" not in str(parent.to_dict()) for parent in again.parents.values())
    assert all(parent.metadata.get("tags", {"a": [1]}) == {"a": [1]} for parent in again.parents.values())


def test_a_parent_that_nobody_has_is_left_out(lookup):
    ref = ParentRef("nowhere", Span(0, 5), text_hash("12345"))
    stranger = CHILDREN[0].model_copy(update={"metadata": ref.to_metadata(), "id_": "stranger"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChunkingPlusWarning)
        assert texts(lookup.find([stranger, *CHILDREN[-1:]])) == {
            key: text for key, text in TEXTS.items() if key == CHILDREN[-1].metadata["parent_id"]
        }


async def test_many_at_once(lookup):
    samples = [CHILDREN[i % 7 :: 1 + i % 5] for i in range(32)]
    expected = [lookup.find(sample) for sample in samples]
    assert await asyncio.gather(*map(lookup.afind, samples)) == expected


def test_many_threads_at_once(lookup):
    results: list[Found] = []
    threads = [threading.Thread(target=lambda: results.append(lookup.find(CHILDREN))) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 32
    assert all(texts(found) == TEXTS for found in results)


class Counted:
    """Counts the calls that reach a store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *targets: tuple[type, str]) -> None:
        self.calls: list[tuple[str, Any, Any]] = []
        for owner, name in targets:
            monkeypatch.setattr(owner, name, self._around(name, getattr(owner, name)))

    def _around(self, name: str, act: Any) -> Any:
        def counted(owner: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return act(owner, *args, **kwargs)

        return counted


def test_one_fetch_for_all(lookup, monkeypatch):
    counted = Counted(monkeypatch, (SimpleDocumentStore, "get_nodes"), (ChromaVectorStore, "_get"))
    lookup.find(CHILDREN)
    assert len(counted.calls) == 1


def test_only_the_documents_that_are_needed_each_once(monkeypatch):
    others = [article(str(i)) for i in range(50)]
    lookup = SourceSliceLookup(docstore_of(A, B, *others))
    counted = Counted(
        monkeypatch, (SimpleDocumentStore, "get_document"), (SimpleDocumentStore, "get_all_document_hashes")
    )
    lookup.find(CHILDREN)
    assert [args[0] for _, args, _ in counted.calls] == [A.id_, B.id_]


@pytest.mark.parametrize("make", [LOOKUPS["siblings in Chroma"], LOOKUPS["stored in Chroma"]])
def test_large_questions_are_asked_in_pages(chroma, make, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_ASKED", 3)
    lookup = make(chroma)
    counted = Counted(monkeypatch, (ChromaVectorStore, "_get"))
    assert texts(lookup.find(CHILDREN)) == TEXTS
    assert len(counted.calls) == -(-len(TEXTS) // 3)


async def test_a_slow_store_leaves_the_event_loop_free(lookup, monkeypatch):
    def slow(act: Any) -> Any:
        def slowly(*args: Any, **kwargs: Any) -> Any:
            time.sleep(0.2)
            return act(*args, **kwargs)

        return slowly

    monkeypatch.setattr(SimpleDocumentStore, "get_nodes", slow(SimpleDocumentStore.get_nodes))
    monkeypatch.setattr(ChromaVectorStore, "_get", slow(ChromaVectorStore._get))
    work = asyncio.ensure_future(lookup.afind(CHILDREN))
    beats = 0
    while not work.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert beats > 8
    assert texts(await work) == TEXTS


# --- slices ---


def test_a_slice_has_the_documents_metadata_exclusions_and_templates():
    document = article(
        "丙", excluded_embed_metadata_keys=["tags"], excluded_llm_metadata_keys=["title"], text_template="{content}!"
    )
    parent = next(iter(SourceSliceLookup(docstore_of(document)).find(children_of(document)).parents.values()))
    assert parent.metadata == document.metadata
    assert parent.excluded_embed_metadata_keys == ["tags"]
    assert parent.excluded_llm_metadata_keys == ["title"]
    assert parent.text_template == "{content}!"
    assert parent.source_node.hash == "h"


def changed(document: Document, old: str, new: str) -> Document:
    assert old in document.text
    return Document(id_=document.id_, text=document.text.replace(old, new), metadata=document.metadata)


CHANGE = changed(A, "第4句", "第X句")  # same length: all else stays where it was
PARENT_HIT = next(c for c in children_of(A) if "4" in c.text).metadata["parent_id"]


def test_a_changed_parent_is_never_returned_and_its_children_are_judged_one_by_one():
    children = children_of(A)
    with pytest.warns(ChunkingPlusWarning, match="no longer agree") as caught:
        found = SourceSliceLookup(docstore_of(CHANGE)).find(children)
    assert len(caught) == 1
    assert texts(found) == {key: text for key, text in parents_of(A).items() if key != PARENT_HIT}
    gone = {c.node_id for c in children if CHANGE.text[c.start_char_idx : c.end_char_idx] != c.text}
    assert gone
    assert found.stale == gone
    assert found.outdated == sum(c.metadata["parent_id"] == PARENT_HIT for c in children) > len(gone)


def test_stale_children_can_be_kept():
    with pytest.warns(ChunkingPlusWarning, match="kept as they are") as caught:
        found = SourceSliceLookup(docstore_of(CHANGE), stale="child").find(children_of(A))
    assert len(caught) == 1
    assert (found.stale, found.outdated) == (frozenset(), 4)
    assert PARENT_HIT not in found.parents


def test_stale_children_can_be_an_error():
    lookup = SourceSliceLookup(docstore_of(CHANGE), stale="error")
    with pytest.raises(
        StaleChildError, match=r"the text of \d of \d+ children is gone from its place .* run sync_documents"
    ):
        lookup.find(children_of(A))
    standing = [c for c in children_of(A) if CHANGE.text[c.start_char_idx : c.end_char_idx] == c.text]
    with pytest.warns(ChunkingPlusWarning, match="0 whose text is gone from its place"):
        assert lookup.find(standing).outdated == 4 - (len(children_of(A)) - len(standing))


@pytest.mark.parametrize(
    "now",
    ["", "短。", "前" + A.text, A.text[1:], A.text[::-1]],
    ids=["emptied", "shortened", "moved down", "moved up", "turned round"],
)
def test_whatever_the_document_says_now_no_parent_is_wrong(now):
    document = Document(id_=A.id_, text=now)
    with pytest.warns(ChunkingPlusWarning):
        found = SourceSliceLookup(docstore_of(document)).find(children_of(A))
    assert all(now[p.start_char_idx : p.end_char_idx] == p.text for p in found.parents.values())
    for child in children_of(A):
        kept = child.metadata["parent_id"] in found.parents or child.node_id not in found.stale
        assert not kept or now[child.start_char_idx : child.end_char_idx] == child.text


def test_old_and_new_children_side_by_side():
    old, new = children_of(A), children_of(CHANGE)
    with pytest.warns(ChunkingPlusWarning):
        found = SourceSliceLookup(docstore_of(CHANGE)).find([*old, *new])
    assert texts(found) == parents_of(CHANGE)


def test_a_child_that_does_not_say_where_it_stands_is_stale_when_its_parent_changed():
    child = next(c for c in children_of(A) if c.metadata["parent_id"] == PARENT_HIT)
    nowhere = child.model_copy(update={"start_char_idx": None, "end_char_idx": None})
    with pytest.warns(ChunkingPlusWarning, match="1 whose text is gone from its place"):
        assert SourceSliceLookup(docstore_of(CHANGE)).find([nowhere]).stale == {child.node_id}


def test_a_deleted_document_leaves_stale_children():
    lookup = SourceSliceLookup(docstore_of(B))
    for children in (CHILDREN, children_of(A)):  # with a witness, and without one
        with pytest.warns(ChunkingPlusWarning, match="whose text is gone from its place are dropped") as caught:
            found = lookup.find(children)
        assert len(caught) == 1
        assert found.stale == {child.node_id for child in children_of(A)}
        assert not set(parents_of(A)) & set(found.parents)
    with pytest.raises(StaleChildError):
        SourceSliceLookup(docstore_of(B), stale="error").find(CHILDREN)


def ingested(nodes: Sequence[BaseNode], **options: Any) -> SimpleDocumentStore:
    docstore = SimpleDocumentStore()
    transformations = [SentenceSplitter(), MockEmbedding(2)]
    pipeline = IngestionPipeline(
        transformations=transformations, docstore=docstore, vector_store=SimpleVectorStore(), disable_cache=True
    )
    pipeline.run(nodes=nodes, **options)
    return docstore


def hashes() -> SimpleDocumentStore:
    docstore = SimpleDocumentStore()
    docstore.set_document_hashes({A.id_: A.hash, B.id_: B.hash, "other": "h"})
    return docstore


TEXTLESS = {
    "from_documents": lambda: VectorStoreIndex.from_documents([A, B], embed_model=MockEmbedding(2)).docstore,
    "from_documents, a store with text": hashes,
    "store_doc_text=False": lambda: ingested([A, B], store_doc_text=False),
    "split before": lambda: ingested(CHILDREN),
    "never loaded": SimpleDocumentStore,
}


@pytest.mark.parametrize("make", TEXTLESS.values(), ids=TEXTLESS.keys())
def test_a_docstore_without_text_says_what_to_do_and_asks_the_next(make, chroma):
    docstore = make()
    with pytest.warns(ChunkingPlusWarning, match=r"holds no text .* stand for themselves.*SiblingLookup") as caught:
        assert SourceSliceLookup(docstore).find(CHILDREN) == Found()
    assert len(caught) == 1
    with pytest.warns(ChunkingPlusWarning, match="left to the fallback") as caught:
        found = SourceSliceLookup(docstore, fallback=SiblingLookup(filled(chroma))).find(CHILDREN)
    assert len(caught) == 1
    assert texts(found) == TEXTS


async def test_several_docstores_make_a_chain():
    lookup = SourceSliceLookup(docstore_of(A), fallback=SourceSliceLookup(docstore_of(B)))
    assert texts(lookup.find(CHILDREN)) == TEXTS
    assert await lookup.afind(CHILDREN) == lookup.find(CHILDREN)
    orphan = children_of(article("丁"))
    with pytest.warns(ChunkingPlusWarning, match="whose text is gone from its place are dropped"):
        found = lookup.find([*orphan, *CHILDREN])
    assert texts(found) == TEXTS
    assert found.stale == {child.node_id for child in orphan}


# --- siblings ---


def test_a_parent_of_siblings_has_what_they_agree_on():
    parent = simple_with().find(CHILDREN[:1]).parents[CHILDREN[0].metadata["parent_id"]]
    assert parent.metadata == {"title": A.metadata["title"]}
    assert parent.excluded_embed_metadata_keys == ["title"]
    assert parent.excluded_llm_metadata_keys == []
    assert parent.text_template == CHILDREN[0].text_template


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["first", "middle", "last"])
def test_an_incomplete_family_gives_no_parent(chroma, missing):
    lookup = SiblingLookup(filled(chroma))
    family = [c for c in CHILDREN if c.metadata["parent_id"] == CHILDREN[0].metadata["parent_id"]]
    chroma.delete_nodes([family[missing].node_id])
    found = lookup.find(CHILDREN)
    assert texts(found) == {k: v for k, v in TEXTS.items() if k != CHILDREN[0].metadata["parent_id"]}
    assert found.stale == frozenset()


def test_a_family_with_a_changed_member_gives_no_parent(chroma):
    nodes = [c.model_copy(deep=True) for c in CHILDREN]
    nodes[1].set_content("被改过的文本哦")
    assert CHILDREN[1].metadata["parent_id"] not in SiblingLookup(filled(chroma, nodes)).find(CHILDREN).parents


def test_doubles_and_members_without_place_do_not_hinder(chroma):
    double = CHILDREN[0].model_copy(update={"id_": "double"})
    lost = CHILDREN[1].model_copy(update={"id_": "lost", "start_char_idx": None})
    assert texts(SiblingLookup(filled(chroma, [*CHILDREN, double, lost])).find(CHILDREN)) == TEXTS


def test_families_of_two_documents_are_not_mixed_under_one_id(chroma):
    twin = Document(id_="双", text=A.text, metadata=A.metadata)
    strangers = children_of(twin)
    for mine, other in zip(children_of(A), strangers, strict=True):
        other.metadata["parent_id"] = mine.metadata["parent_id"]
    filled(chroma, [*children_of(A)[1:], strangers[0]])
    assert children_of(A)[1].metadata["parent_id"] not in SiblingLookup(chroma).find(children_of(A)[1:2]).parents


class Unsearchable(SimpleVectorStore):
    """Cannot be asked for anything but neighbours."""

    stores_text: bool = True
    get_nodes = BasePydanticVectorStore.get_nodes

    @classmethod
    def class_name(cls) -> str:
        return "Unsearchable"


class OwnAsync(ChromaVectorStore):
    """Has an async form of its own."""

    async def aget_nodes(self, node_ids: Any = None, filters: Any = None) -> list[BaseNode]:  # noqa: ARG002  core's names
        assert threading.current_thread() is threading.main_thread()
        return self.query(VectorStoreQuery(filters=filters, similarity_top_k=100)).nodes


async def test_an_async_form_of_the_stores_own_is_used(client):
    store = OwnAsync(chroma_collection=client.create_collection(uuid.uuid4().hex))
    assert texts(await SiblingLookup(filled(store)).afind(CHILDREN)) == TEXTS


# --- refusals ---

REFUSALS = {
    "no docstore": (lambda: SourceSliceLookup(SimpleVectorStore()), "is no docstore; pass index.docstore"),
    "no such rule": (
        lambda: SourceSliceLookup(SimpleDocumentStore(), stale="keep"),
        "none of 'drop', 'child', 'error'",
    ),
    "no lookup": (lambda: SourceSliceLookup(SimpleDocumentStore(), fallback=1), "fallback=1 is no lookup"),
    "no vector store": (lambda: SiblingLookup(SimpleDocumentStore()), "is no vector store"),
    "no texts": (lambda: SiblingLookup(SimpleVectorStore()), "keeps no texts; pass docstore=index.docstore"),
    "no filter": (lambda: SiblingLookup(Unsearchable()), "cannot be asked for rows .* use SourceSliceLookup"),
    "texts from nowhere": (lambda: SiblingLookup(SimpleVectorStore(), 1), "docstore=1 is no docstore"),
    "no store": (lambda: StoredParentLookup(None), "None is no vector store"),
    "no rows": (lambda: StoredParentLookup(SimpleVectorStore()), "returns no rows; keep the parents in a docstore"),
}


@pytest.mark.parametrize("make,message", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_name_the_remedy(make, message):
    with pytest.raises(OptionError, match=message):
        make()


# --- stored parents ---


def test_a_stored_parent_that_changed_is_not_returned():
    parents = parent_nodes(A)
    parents[0].set_content(parents[0].text + "。")
    found = StoredParentLookup(docstore_of(*parents)).find(children_of(A))
    assert texts(found) == {key: text for key, text in parents_of(A).items() if key != parents[0].node_id}


def test_a_stored_parent_keeps_what_it_was_stored_with():
    grandparent = ParentRef("g", Span(0, 30), "h").to_metadata()
    parents = parent_nodes(A)
    parents[0].metadata.update(grandparent)
    found = StoredParentLookup(docstore_of(*parents)).find(children_of(A))
    assert found.parents[parents[0].node_id].metadata == {"level": "parent", **grandparent}


def test_an_index_of_documents_gives_parents_without_any_docstore(chroma):
    context = StorageContext.from_defaults(vector_store=chroma)
    nodes = [child.model_copy(update={"embedding": None}) for child in CHILDREN]
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(2))
    hits = [hit.node for hit in index.as_retriever(similarity_top_k=5).retrieve("问题")]
    assert len(hits) == 5
    found = SiblingLookup(index.vector_store).find(hits)
    assert set(found.parents) == {hit.metadata["parent_id"] for hit in hits}
    assert texts(found).items() <= TEXTS.items()


# ------------------------------------------------------------------------------------------------ parents that are sections

HEADER = "| 名 | 取值 | 说明 |\n|---|---|---|\n"
ROWS = "".join(f"| 参数{i} | 值{i * 7} | 第 {i} 行 |\n" for i in range(1, 301))
CODE = "".join(f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(60))
GUIDE = Document(
    id_="指南",
    text=f"# 指南\n\n## 参数/表\n\n{HEADER}{ROWS}\n## 代码\n\n```python\n{CODE}```\n\n### 附\n\n完。\n",
    metadata={"file_name": "a.md"},
)


def small_to_big(**options: Any) -> SmallToBigNodeParser:
    parents = StructuredMarkdownNodeParser(chunk_size=600)
    return SmallToBigNodeParser(**{"parent_parser": parents, "child_size": 150, **options})


def section_lookups(parser: SmallToBigNodeParser, children: list[BaseNode], chroma: Any) -> dict[str, ParentLookup]:
    for child in children:
        child.embedding = letter_vector(child.get_content(MetadataMode.EMBED))
    return {
        "slices": SourceSliceLookup(docstore_of(GUIDE)),
        "siblings in Chroma": SiblingLookup(filled(chroma, children)),
        "stored": StoredParentLookup(docstore_of(*parser.parent_nodes([GUIDE]))),
    }


@pytest.mark.parametrize(
    "options",
    [{}, {"child_parser": StructuredMarkdownNodeParser(chunk_size=150)}],
    ids=["windows", "structured children"],
)
def test_every_lookup_gives_sections_with_their_headings_their_lead_and_closed_fences(chroma, options) -> None:
    parser = small_to_big(**options)
    expected = {node.node_id: node for node in parser.parent_nodes([GUIDE])}
    children = parser.get_nodes_from_documents([GUIDE])
    for name, lookup in section_lookups(parser, children, chroma).items():
        for asked in (children, children[::9]):
            found = run(lookup.plan(asked)).parents
            assert found, name
            for parent_id, parent in found.items():
                like = expected[parent_id]
                for mode in (MetadataMode.EMBED, MetadataMode.LLM):
                    assert parent.get_content(mode) == like.get_content(mode), name
                assert {key: parent.metadata.get(key) for key in SECTION_KEYS} == {
                    key: like.metadata.get(key) for key in SECTION_KEYS
                }, name


def test_a_row_far_down_a_long_table_is_found_with_its_header_alone_and_through_its_parent(chroma) -> None:
    alone = StructuredMarkdownNodeParser(chunk_size=300).get_nodes_from_documents([GUIDE])
    through = small_to_big()
    index = VectorStoreIndex(
        through.get_nodes_from_documents([GUIDE]),
        storage_context=StorageContext.from_defaults(vector_store=chroma),
        embed_model=LetterEmbedding(),
    )
    retriever = SmallToBigRetriever(
        index.as_retriever(similarity_top_k=500),
        SourceSliceLookup(docstore_of(GUIDE)),
        max_parents=100,
        merge_adjacent=False,
    )
    for row in (3, 150, 300):
        line = f"| 参数{row} | 值{row * 7} | 第 {row} 行 |"
        (chunk,) = [node for node in alone if line in node.text]
        hits = [hit.node for hit in retriever.retrieve(line) if line in hit.node.get_content(MetadataMode.NONE)]
        for node in [chunk, *hits]:
            assert HEADER.strip() in node.get_content(MetadataMode.LLM)
            assert "header_path: /指南/参数/表/" in node.get_content(MetadataMode.LLM)
        assert len(hits) == 1


def test_a_parent_has_of_its_section_only_what_all_its_children_say() -> None:
    text = "甲。乙。"
    ref = ParentRef("p", Span(0, 4), text_hash(text))
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d")}
    children = [
        TextNode(
            text=text[at : at + 2],
            start_char_idx=at,
            end_char_idx=at + 2,
            metadata={"heading_level": 0, "lead": f"{at}", **ref.to_metadata()},
            excluded_llm_metadata_keys=["heading_level"],
            relationships=source,
        )
        for at in (0, 2)
    ]
    found = run(SourceSliceLookup(docstore_of(Document(id_="d", text=text, metadata={"a": 1}))).plan(children))
    assert found.parents["p"].metadata == {"a": 1, "heading_level": 0}
    assert found.parents["p"].get_content(MetadataMode.LLM) == f"a: 1\n\n{text}"
