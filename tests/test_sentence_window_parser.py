"""ChineseSentenceWindowNodeParser: what only it promises."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from parsers import sentence_window
from texts import PROSE

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    SlidingWindowNodeParser,
    chinese_sentence_tokenizer,
)
from llama_index_chunking_plus.core.parents import text_hash

TEXT = "一楼是大厅。二楼是展厅。\n\n三楼是餐厅。四楼是仓库。五楼是天台。"
SENTENCES = ["一楼是大厅。", "二楼是展厅。\n\n", "三楼是餐厅。", "四楼是仓库。", "五楼是天台。"]


def parse(text: str = TEXT, **options: object) -> list[TextNode]:
    return ChineseSentenceWindowNodeParser(**options).get_nodes_from_documents([Document(id_="d", text=text)])


@pytest.mark.parametrize("around", [0, 1, 2, 3, 9])
def test_each_sentence_is_a_node_with_the_slice_around_it(around: int) -> None:
    nodes = parse(window_sentences=around)
    assert [node.text for node in nodes] == [node.metadata["original_text"] for node in nodes] == SENTENCES
    assert [node.metadata["window"] for node in nodes] == [
        "".join(SENTENCES[max(0, i - around) : i + around + 1]) for i in range(len(SENTENCES))
    ]


def test_the_sentences_are_those_that_llama_index_finds_with_the_same_tokenizer() -> None:
    theirs = SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer, window_size=3)
    document = Document(text=PROSE * 3)
    ours = ChineseSentenceWindowNodeParser().get_nodes_from_documents([document])
    for own, other in zip(ours, theirs.get_nodes_from_documents([document]), strict=True):
        assert own.text == other.text
        assert list(own.metadata) == list(other.metadata)
        assert own.excluded_embed_metadata_keys == other.excluded_embed_metadata_keys
        assert own.excluded_llm_metadata_keys == other.excluded_llm_metadata_keys
        assert "".join(own.metadata["window"].split()) == "".join(other.metadata["window"].split())


@pytest.mark.parametrize("key", ["window", "上下文"])
def test_the_postprocessor_of_llama_index_puts_the_window_in_place(key: str) -> None:
    nodes = parse(window_sentences=1, window_metadata_key=key)
    hits = [NodeWithScore(node=nodes[2], score=0.5)]
    (hit,) = MetadataReplacementPostProcessor(target_metadata_key=key).postprocess_nodes(hits)
    assert hit.node.get_content(MetadataMode.LLM) == "二楼是展厅。\n\n三楼是餐厅。四楼是仓库。"


def test_spans_name_the_window_that_texts_hold() -> None:
    texts, spans = parse(store="text"), parse(store="span")
    for text, span in zip(texts, spans, strict=True):
        start, end, digest = span.metadata["window_span"].split(":")
        assert TEXT[int(start) : int(end)] == text.metadata["window"]
        assert digest == text_hash(text.metadata["window"])
        assert span.node_id == text.node_id
        assert TEXT not in span.to_json()


def test_chained_windows_stay_in_their_input_and_in_the_frame_of_the_root() -> None:
    sections = SlidingWindowNodeParser(chunk_size=14, chunk_overlap=0, unit="chars").get_nodes_from_documents(
        [Document(text=TEXT)]
    )
    assert len(sections) == 3
    ranges = [
        (node.start_char_idx, node.end_char_idx) for node in sections for _ in chinese_sentence_tokenizer(node.text)
    ]
    nodes = ChineseSentenceWindowNodeParser(store="span")(sections)
    assert [node.metadata["window_span"].rsplit(":", 1)[0] for node in nodes] == [f"{s}:{e}" for s, e in ranges]


def test_where_offsets_are_unknown_spans_are_not_written_and_texts_are() -> None:
    piece = TextNode(text=TEXT, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="root")})
    assert all(node.metadata == {} for node in ChineseSentenceWindowNodeParser(store="span")([piece]))
    assert [node.metadata["original_text"] for node in ChineseSentenceWindowNodeParser()([piece])] == SENTENCES


def test_a_long_sentence_is_cut_and_blank_ones_are_no_sentences() -> None:
    text = "短句。" + " " * 40 + "，".join(["很长的一句话没有句号"] * 9) + "。末句。"
    nodes = parse(text, max_sentence_size=30, window_sentences=1)
    assert max(len(node.text) for node in nodes) <= 30
    assert all(node.text.strip() for node in nodes)
    assert nodes[0].metadata["window"] == text[: nodes[1].end_char_idx]


def test_the_windows_own_keys_join_the_exclusions_of_the_document_once() -> None:
    document = Document(text=TEXT, excluded_embed_metadata_keys=["window", "tags"])
    node = ChineseSentenceWindowNodeParser().get_nodes_from_documents([document])[0]
    assert node.excluded_embed_metadata_keys == ["window", "tags", "original_text"]
    assert node.excluded_llm_metadata_keys == ["window", "original_text"]
    assert document.excluded_llm_metadata_keys == []


def stored_bytes(nodes: list[TextNode]) -> int:
    return sum(len(node.to_json().encode()) + len(str(node.metadata).encode()) for node in nodes)


def test_nodes_are_smaller_than_those_of_llama_index(sample_documents: list[Document]) -> None:
    theirs = SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer, window_size=3)
    bulk = stored_bytes(theirs.get_nodes_from_documents(sample_documents))
    for store, share in (("text", 0.70), ("span", 0.33)):
        nodes = ChineseSentenceWindowNodeParser(store=store).get_nodes_from_documents(sample_documents)
        assert stored_bytes(nodes) <= share * bulk, store


@pytest.mark.parametrize(
    "options, message",
    [
        ({"window_sentences": -1}, r"window_sentences=-1 is below 0"),
        ({"window_sentences": 1.5}, r"window_sentences"),
        ({"max_sentence_size": 3}, r"max_sentence_size=3 is below 4"),
        ({"store": "both"}, r"'text' or 'span'"),
        ({"window_metadata_key": ""}, r"window_metadata_key='' and .* are empty or the same"),
        ({"window_metadata_key": "original_text"}, r"are empty or the same"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sentence_window(**options)
