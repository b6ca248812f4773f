"""Windows in the place of sentences, and results that say nothing twice."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_chunking_plus.core.parents import WindowRef, text_hash
from llama_index_chunking_plus.core.sentences import chinese_sentence_tokenizer
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.sentence_window import ChineseSentenceWindowNodeParser
from llama_index_chunking_plus.node_parser.sliding import SlidingWindowNodeParser
from llama_index_chunking_plus.postprocessor import SentenceWindowPostprocessor, SpanDedupPostprocessor

TEXTS = {
    "a": "".join(f"第{i}节说的第{i}件事。" for i in range(10, 40)),  # 30 sentences of 12 characters
    "b": "Rain is expected. 明天下雨。 We stay at home.\n后天再说！Dr. Wang left at 5.30 p.m. He was late.\n\n再见。",
}
STORES = ("text", "span")


@pytest.fixture(scope="module")
def docstore() -> SimpleDocumentStore:
    store = SimpleDocumentStore()
    store.add_documents([Document(id_=name, text=text, metadata={"file": name}) for name, text in TEXTS.items()])
    return store


@cache  # nothing may change them
def windows(name: str, store: str = "text", around: int = 1) -> list[BaseNode]:
    parser = ChineseSentenceWindowNodeParser(window_sentences=around, store=store)  # type: ignore[arg-type]
    return parser.get_nodes_from_documents([Document(id_=name, text=TEXTS[name], metadata={"file": name})])


def pick(nodes: list[BaseNode], **scores: float | None) -> list[NodeWithScore]:
    """``_3=0.5`` picks the fourth node."""
    return [NodeWithScore(node=nodes[int(key[1:])], score=score) for key, score in scores.items()]


def postprocess(postprocessor: Any, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
    """The result, sync and async; inputs are as before."""
    before = [each.model_dump_json() for each in nodes]
    found = postprocessor.postprocess_nodes(nodes)
    assert [each.to_dict() for each in asyncio.run(postprocessor.apostprocess_nodes(nodes))] == [
        each.to_dict() for each in found
    ]
    assert [each.model_dump_json() for each in nodes] == before
    return found


def told(found: list[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(each.text, each.score) for each in found]


def ranges(found: list[NodeWithScore]) -> list[tuple[Any, Any]]:
    return [(each.node.start_char_idx, each.node.end_char_idx) for each in found]  # type: ignore[attr-defined]


def english_sentences(text: str) -> list[str]:
    """As NLTK splits for LlamaIndex: with the space that follows."""
    return re.findall(r"[^.]+\.\s*|[^.]+$", text)


# --- windows ---


@pytest.mark.parametrize("store", STORES)
def test_windows_that_touch_or_overlap_are_one_passage(store: str, docstore: SimpleDocumentStore) -> None:
    nodes = pick(windows("a", store), _20=0.7, _4=0.6, _2=0.9, _7=0.1)
    found = postprocess(SentenceWindowPostprocessor(docstore=docstore), nodes)
    assert told(found) == [(TEXTS["a"][12:108], 0.9), (TEXTS["a"][228:264], 0.7)]
    assert ranges(found) == [(12, 108), (228, 264)]
    joined, single = (each.node for each in found)
    assert joined.metadata["original_text"] == nodes[2].text
    assert [each["node_id"] for each in joined.metadata["child_hits"]] == [nodes[i].node_id for i in (2, 1, 3)]
    assert single.node_id == nodes[0].node_id
    assert joined.node_id not in {each.node_id for each in nodes}
    assert {each.ref_doc_id for each in (joined, single)} == {"a"}
    json.dumps(joined.metadata)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert joined.get_content(mode) == f"file: a\n\n{joined.text}"  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 29), st.none() | st.floats(-2, 2)), max_size=7),
    st.sampled_from(STORES),
    st.integers(0, 4),
    st.none() | st.integers(20, 120),
)
def test_passages_are_slices_that_say_all_windows_once(
    picks: list[tuple[str, int, float | None]], store: str, around: int, bound: int | None
) -> None:
    parsed = {name: windows(name, store, around) for name in TEXTS}
    nodes = [NodeWithScore(node=parsed[n][i % len(parsed[n])], score=score) for n, i, score in picks]
    documents = SimpleDocumentStore()
    documents.add_documents([Document(id_=name, text=text) for name, text in TEXTS.items()])
    found = SentenceWindowPostprocessor(
        docstore=documents, max_tokens_per_passage=bound, tokenizer=list
    ).postprocess_nodes(nodes)
    shown = [(each.node.ref_doc_id, i) for each, (s, e) in zip(found, ranges(found), strict=True) for i in range(s, e)]
    sentences = [
        (each.node.ref_doc_id, i) for each, (s, e) in zip(nodes, ranges(nodes), strict=True) for i in range(s, e)
    ]
    assert len(shown) == len(set(shown))
    assert set(sentences) <= set(shown)
    for each, (start, end) in zip(found, ranges(found), strict=True):
        assert each.text == TEXTS[each.node.ref_doc_id or ""][start:end]
        assert bound is None or len(each.text) <= max(bound, *(len(node.text) for node in nodes))
    if nodes:
        known = [each.score for each in nodes if each.score is not None]
        assert found[0].score == (max(known) if known else None)


def test_the_same_sentence_twice_keeps_its_id_and_counts_once() -> None:
    node = windows("a")[2]
    twice = [NodeWithScore(node=node, score=0.2), NodeWithScore(node=node, score=0.9)]
    (found,) = postprocess(SentenceWindowPostprocessor(), twice)
    assert (found.node_id, found.score, len(found.metadata["child_hits"])) == (node.node_id, 0.9, 1)


def test_budgets_of_a_passage_and_in_total() -> None:
    nodes = pick(windows("a"), _2=0.9, _4=0.6, _20=0.7)
    options: dict[str, Any] = {"tokenizer": list}
    assert [len(t) for t, _ in told(postprocess(SentenceWindowPostprocessor(max_tokens=96, **options), nodes))] == [
        60,
        36,
    ]
    assert [len(t) for t, _ in told(postprocess(SentenceWindowPostprocessor(max_tokens=95, **options), nodes))] == [
        36,
        36,
    ]
    assert [len(t) for t, _ in told(postprocess(SentenceWindowPostprocessor(max_tokens=1, **options), nodes))] == [36]
    pieces = postprocess(SentenceWindowPostprocessor(max_tokens_per_passage=40, order="document", **options), nodes)
    assert ranges(pieces) == [(12, 48), (48, 72), (228, 264)]
    narrowed = postprocess(SentenceWindowPostprocessor(max_tokens_per_passage=35, **options), nodes)
    assert ranges(narrowed) == [(12, 36), (228, 252), (36, 60)]
    sentences = postprocess(SentenceWindowPostprocessor(max_tokens_per_passage=23, **options), nodes)
    assert told(sentences) == [(each.text, each.score) for each in (nodes[0], nodes[2], nodes[1])]


@pytest.mark.parametrize("store", STORES)
def test_a_long_window_is_narrowed_to_the_sentences_nearest_to_the_hit(
    store: str, docstore: SimpleDocumentStore
) -> None:
    nodes = pick(windows("a", store, around=4), _10=0.9, _0=0.5)
    options: dict[str, Any] = {"tokenizer": list, "docstore": docstore}
    found = postprocess(SentenceWindowPostprocessor(max_tokens_per_window=40, **options), nodes)
    assert [end - start for start, end in ranges(found)] == [36, 36]
    assert nodes[0].text in found[0].text
    assert found[1].text.startswith(nodes[1].text)
    assert [found[i].text for i in (0, 1)] == [TEXTS["a"][slice(*where)] for where in ranges(found)]
    wide = postprocess(SentenceWindowPostprocessor(max_tokens_per_window=None, **options), nodes)
    assert [end - start for start, end in ranges(wide)] == [9 * 12, 5 * 12]


def test_without_bounds_all_that_touch_are_one() -> None:
    nodes = [each for i in range(0, 30, 3) for each in pick(windows("a"), **{f"_{i}": 1 - i / 100})]
    (found,) = postprocess(
        SentenceWindowPostprocessor(max_tokens_per_window=None, max_tokens_per_passage=None, tokenizer=list), nodes
    )
    assert found.text == TEXTS["a"][found.node.start_char_idx : found.node.end_char_idx]  # type: ignore[attr-defined]
    assert len(found.metadata["child_hits"]) == len(nodes)


def test_in_the_order_of_reading() -> None:
    nodes = [*pick(windows("a"), _20=0.9), *pick(windows("b"), _0=0.8), *pick(windows("a"), _2=0.1)]
    found = postprocess(SentenceWindowPostprocessor(order="document"), nodes)
    assert ranges(found)[:2] == [(12, 48), (228, 264)]


@pytest.mark.parametrize("score", [None, 0.0, -1.5])
def test_any_score_survives(score: float | None) -> None:
    (found,) = postprocess(SentenceWindowPostprocessor(), pick(windows("a"), _2=score))
    assert found.score == score


def test_a_window_kept_as_text_has_a_range_only_where_it_is_sure() -> None:
    text = "是的。好。是的。不好。是的。"
    nodes = ChineseSentenceWindowNodeParser(window_sentences=2).get_nodes_from_documents([Document(id_="c", text=text)])
    sure, repeated = pick(nodes, _3=0.9, _2=0.8)
    assert ranges(postprocess(SentenceWindowPostprocessor(), [sure])) == [(3, 14)]
    assert ranges(postprocess(SentenceWindowPostprocessor(), [repeated])) == [(0, len(text))]
    untold = repeated.node.model_copy()
    untold.metadata = {key: value for key, value in untold.metadata.items() if key != "window_span"}
    assert ranges(postprocess(SentenceWindowPostprocessor(), pick([untold], _0=0.8))) == [(None, None)]
    told_where = repeated.node.model_copy()
    told_where.metadata = {**told_where.metadata, "window": text}
    told_where.metadata = {**told_where.metadata, **WindowRef(Span(0, len(text)), text_hash(text)).to_metadata()}
    assert ranges(postprocess(SentenceWindowPostprocessor(), pick([told_where], _0=0.8))) == [(0, len(text))]


def test_a_window_kept_as_text_is_compared_with_its_document() -> None:
    old, new = "保修期是一年。人为损坏不保。滤芯不保。甲可退货。", "保修期是三年。人为损坏不保。滤芯不保。甲可退货。"
    nodes = ChineseSentenceWindowNodeParser(window_sentences=1).get_nodes_from_documents([Document(id_="m", text=old)])
    documents = SimpleDocumentStore()
    documents.add_documents([Document(id_="m", text=new)])
    hits = pick(nodes, _0=0.9, _1=0.8, _3=0.7)
    with pytest.warns(ChunkingPlusWarning, match="1 of 3 hits .* 1 are dropped"):
        found = SentenceWindowPostprocessor(docstore=documents).postprocess_nodes(hits)
    assert told(found) == [("人为损坏不保。", 0.8), ("滤芯不保。甲可退货。", 0.7)]
    assert told(SentenceWindowPostprocessor().postprocess_nodes(hits))[0] == (old, 0.9)


@pytest.mark.parametrize("keys", [{"window_metadata_key": ""}, {"original_text_metadata_key": "window"}])
def test_the_two_keys_are_two(keys: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="empty or the same"):
        SentenceWindowPostprocessor(**keys)  # type: ignore[arg-type]


def test_a_hit_without_a_window_is_returned_itself_with_one_warning(docstore: SimpleDocumentStore) -> None:
    plain = TextNode(text="没有窗口。")
    elsewhere = ChineseSentenceWindowNodeParser(store="span").get_nodes_from_documents(
        [Document(id_="z", text="在别处。")]
    )
    nodes = [*pick([plain, *elsewhere], _0=0.9, _1=0.8), *pick(windows("a", "span"), _2=0.7)]
    with pytest.warns(ChunkingPlusWarning, match="2 of 3 hits are returned without a window") as seen:
        found = SentenceWindowPostprocessor(docstore=docstore).postprocess_nodes(nodes)
    assert len(seen) == 1
    assert found[:2] == nodes[:2]
    assert found[2].text == TEXTS["a"][12:48]
    with pytest.warns(ChunkingPlusWarning, match="3 of 3"):
        assert SentenceWindowPostprocessor().postprocess_nodes(nodes) == nodes


def test_when_the_document_changed_a_sentence_stands_or_is_dropped() -> None:
    nodes = pick(windows("a", "span"), _1=0.9, _20=0.8)
    documents = SimpleDocumentStore()
    documents.add_documents([Document(id_="a", text=TEXTS["a"][:24] + "这里全都变了。")])
    with pytest.warns(ChunkingPlusWarning, match=r"1 of 2 hits .* 1 are dropped"):
        assert SentenceWindowPostprocessor(docstore=documents).postprocess_nodes(nodes) == nodes[:1]


def test_a_second_pass_changes_nothing_and_does_not_warn() -> None:
    once = SentenceWindowPostprocessor().postprocess_nodes(pick(windows("a"), _2=0.9, _4=0.6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SentenceWindowPostprocessor().postprocess_nodes(once) == once


@pytest.mark.parametrize("splitter", [english_sentences, chinese_sentence_tokenizer])
@pytest.mark.parametrize("text", [TEXTS["a"], "One is here. Two is there. Three is away. Four is near. Five is far."])
def test_windows_of_llama_index_are_merged_only_if_equal(splitter: Any, text: str) -> None:
    parser = SentenceWindowNodeParser.from_defaults(sentence_splitter=splitter, window_size=1)
    parsed = parser.get_nodes_from_documents([Document(id_="a", text=text)])
    nodes = [NodeWithScore(node=node, score=1 - i / 100) for i, node in enumerate([*parsed, parsed[0]])]
    found = postprocess(SentenceWindowPostprocessor(), nodes)
    assert [each.text for each in found] == [node.metadata["window"] for node in parsed]
    assert [each.metadata["original_text"] for each in found] == [node.text for node in parsed]  # type: ignore[attr-defined]
    if len(parsed) > 1:
        assert set(ranges(found)) == {(None, None)}


def test_own_keys() -> None:
    parser = ChineseSentenceWindowNodeParser(
        window_sentences=1, window_metadata_key="around", original_text_metadata_key="said"
    )
    nodes = parser.get_nodes_from_documents([Document(id_="a", text=TEXTS["a"])])
    own = SentenceWindowPostprocessor(window_metadata_key="around", original_text_metadata_key="said")
    (found,) = postprocess(own, pick(nodes, _2=0.9))
    assert (found.text, found.metadata["said"], "around" in found.metadata) == (TEXTS["a"][12:48], nodes[2].text, False)  # type: ignore[attr-defined]


def test_llama_indexs_own_postprocessor_works_on_our_windows() -> None:
    (found,) = MetadataReplacementPostProcessor("window").postprocess_nodes(pick(windows("a"), _2=0.9))
    assert found.text == TEXTS["a"][12:48]


def test_one_line_in_a_stock_query_engine() -> None:
    index = VectorStoreIndex(windows("a"), embed_model=MockEmbedding(embed_dim=4))
    for postprocessor in (SentenceWindowPostprocessor(), SpanDedupPostprocessor()):
        engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=3, node_postprocessors=[postprocessor])
        response = engine.query("第几件事？")
        assert response.source_nodes[0].text in str(response)
        assert [each.text for each in asyncio.run(engine.aquery("第几件事？")).source_nodes] == [
            each.text for each in response.source_nodes
        ]


# --- nothing twice ---


def span_node(text: str, start: int | None, document: str | None = "a") -> TextNode:
    return TextNode(
        text=text,
        start_char_idx=start,
        end_char_idx=None if start is None else start + len(text),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)} if document else {},
    )


def test_across_parsers_and_levels_nothing_is_said_twice() -> None:
    document = Document(id_="a", text=TEXTS["a"])
    levels = [
        SlidingWindowNodeParser(chunk_size=size, chunk_overlap=0, unit="chars").get_nodes_from_documents([document])
        for size in (12, 60, 120)
    ]
    nodes = [NodeWithScore(node=node, score=1 / (i + 1)) for level in levels for i, node in enumerate(level)]
    found = postprocess(SpanDedupPostprocessor(), nodes)
    assert {each.node_id for each in found} == {node.node_id for node in levels[2]}
    assert found[0].score == 1
    some = postprocess(SpanDedupPostprocessor(), [*pick(levels[0], _0=0.9, _20=0.8), *pick(levels[1], _0=0.7)])
    assert [(each.text, each.score) for each in some] == [(TEXTS["a"][:60], 0.9), (TEXTS["a"][240:252], 0.8)]


@pytest.mark.parametrize(
    "other, kept",
    [
        (span_node(TEXTS["a"][30:90], 30), 1),
        (span_node(TEXTS["a"][30:92], 30), 2),
        (span_node(TEXTS["a"][10:20], 10), 1),
        (span_node(TEXTS["a"][10:20], 10, "b"), 2),
        (span_node(TEXTS["a"][10:20], None), 1),
        (span_node(TEXTS["a"][10:20], None, None), 2),
        (span_node("同一个地方说了别的话", 10), 2),
    ],
)
def test_when_a_worse_result_is_a_repeat(other: TextNode, kept: int) -> None:
    nodes = pick([span_node(TEXTS["a"][:60], 0), other], _0=0.9, _1=0.8)
    assert postprocess(SpanDedupPostprocessor(max_overlap=0.49), nodes) == nodes[:kept]


def test_a_range_that_cannot_be_right_is_not_believed() -> None:
    window = span_node("不在这里的一段很长的话，被放在句子的位置上。", 0)
    window.end_char_idx = 12  # as MetadataReplacementPostProcessor leaves it
    nodes = pick([span_node(TEXTS["a"][:60], 0), window], _0=0.9, _1=0.8)
    assert postprocess(SpanDedupPostprocessor(max_overlap=0), nodes) == nodes


def test_pictures_are_no_repeats() -> None:
    nodes = pick([ImageNode(image_url="x"), ImageNode(image_url="y")], _0=0.9, _1=None)
    assert postprocess(SpanDedupPostprocessor(), nodes) == nodes


@pytest.mark.parametrize(
    "make",
    [
        lambda: SpanDedupPostprocessor(max_overlap=1.5),
        lambda: SpanDedupPostprocessor(max_overlap=-0.1),
        lambda: SpanDedupPostprocessor(overlap=0.1),
        lambda: SentenceWindowPostprocessor(max_tokens_per_passage=0),
        lambda: SentenceWindowPostprocessor(max_tokens=0),
        lambda: SentenceWindowPostprocessor(docstore="documents"),
        lambda: SentenceWindowPostprocessor(tokenizer="tiktoken:none"),
    ],
)
def test_wrong_options_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"max_|overlap|docstore|tiktoken"):
        make()


@pytest.mark.parametrize(
    "postprocessor",
    [
        SentenceWindowPostprocessor(max_tokens=9, docstore=SimpleDocumentStore()),
        SpanDedupPostprocessor(max_overlap=0.2),
    ],
)
def test_options_are_dumped_and_loaded(postprocessor: Any) -> None:
    dump = postprocessor.to_dict()
    assert dump["class_name"] == f"ChunkingPlus{type(postprocessor).__name__}"
    json.dumps(dump)
    assert type(postprocessor).from_dict(dump).to_dict() == dump
