"""HybridNodeParser: any two parsers, and nothing of the document lost on the way."""

from __future__ import annotations

import pickle
import re

import pytest
from embedders import LetterEmbedding
from llama_index.core import Document
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    MarkdownNodeParser,
    NodeParser,
    SemanticSplitterNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    TokenTextSplitter,
)
from llama_index.core.schema import MetadataMode, TextNode
from parsers import usual_recipe
from texts import PROSE

from llama_index_chunking_plus import (
    ChunkingPlusWarning,
    HybridNodeParser,
    SlidingWindowNodeParser,
    chinese_sentence_tokenizer,
)
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

count_tokens = resolve_sizer("tokens", None).size


def naive_sentences(text: str) -> list[str]:
    """The plain-function splitter of the usual recipe; it drops line ends."""
    return re.findall(r"[^。！？…\n]+[。！？…\n]?", text)


class Fixed(NodeParser):
    """A foreign parser that returns given texts, for one document."""

    texts: list[str]

    @classmethod
    def class_name(cls) -> str:
        return "FixedTestParser"

    def _parse_nodes(self, nodes, show_progress=False, **kwargs):  # noqa: ARG002
        return [TextNode(text=text) for text in self.texts]


def sentence_of(tokens: int, start: str) -> str:
    """A sentence of exactly so many tokens."""
    text = start
    while count_tokens(text + "。") < tokens:
        text += "一"
    assert count_tokens(text + "。") == tokens
    return text + "。"


def test_the_worked_example_of_the_recipe() -> None:
    """Two semantic segments of 254 and 327 tokens, at most 300: the first untouched, the second in two that overlap."""
    first = "".join(sentence_of(n, "甲") for n in (100, 100, 54))
    second = "".join(sentence_of(n, "乙") for n in (40, 40, 40, 40, 40, 40, 40, 47))
    assert (count_tokens(first), count_tokens(second)) == (254, 327)
    parser = HybridNodeParser(
        primary_parser=Fixed(texts=[first, second]),
        secondary_parser=SentenceSplitter(
            chunk_size=256, chunk_overlap=50, chunking_tokenizer_fn=chinese_sentence_tokenizer
        ),
        max_chunk_size=300,
    )
    nodes = parser.get_nodes_from_documents([Document(text=first + second)])
    assert nodes[0].text == first
    assert len(nodes) == 3
    assert nodes[1].end_char_idx > nodes[2].start_char_idx
    assert nodes[1].start_char_idx == len(first)
    assert nodes[2].end_char_idx == len(first + second)


@pytest.mark.parametrize("splitter", [chinese_sentence_tokenizer, naive_sentences])
def test_the_usual_recipe_keeps_offsets_ids_metadata_and_links(splitter, sample_documents: list[Document]) -> None:
    parser = HybridNodeParser(
        primary_parser=SemanticSplitterNodeParser(
            embed_model=LetterEmbedding(), sentence_splitter=splitter, breakpoint_percentile_threshold=95
        ),
        secondary_parser=SentenceSplitter(chunk_size=256, chunk_overlap=50, chunking_tokenizer_fn=splitter),
        max_chunk_size=300,
    )
    nodes = parser.get_nodes_from_documents(sample_documents)
    for document in sample_documents:
        own = [node for node in nodes if node.ref_doc_id == document.node_id]
        assert own
        for node in own:
            assert document.text[node.start_char_idx : node.end_char_idx] == node.text
            assert node.metadata == document.metadata
            assert count_tokens(node.text) <= 300
        assert [node.next_node.node_id for node in own[:-1]] == [node.node_id for node in own[1:]]
        kept = {i for node in own for i in range(node.start_char_idx, node.end_char_idx)}
        assert not "".join(c for i, c in enumerate(document.text) if i not in kept).strip()


def test_small_nodes_of_the_primary_parser_are_untouched(sample_documents: list[Document]) -> None:
    parser = usual_recipe()
    document = sample_documents[0]
    primary = [node.text for node in parser.primary_parser.get_nodes_from_documents([document])]
    small = [text for text in primary if count_tokens(text) <= 300]
    assert small
    assert set(small) <= {node.text for node in parser.get_nodes_from_documents([document])}


def test_chunks_that_do_not_stand_in_the_document_are_kept_counted_and_have_no_offsets() -> None:
    parser = HybridNodeParser(
        primary_parser=Fixed(texts=["第一段。", "被改写的一段。", "第三段。", "又一个改写。"]),
        secondary_parser=SentenceSplitter(),
        max_chunk_size=100,
    )
    with pytest.warns(ChunkingPlusWarning, match=r"2 of 4 chunks of Fixed") as caught:
        nodes = parser.get_nodes_from_documents([Document(id_="d", text="第一段。第二段。第三段。")])
    assert len(caught) == 1
    assert [(node.text, node.start_char_idx) for node in nodes] == [
        ("第一段。", 0),
        ("被改写的一段。", None),
        ("第三段。", 8),
        ("又一个改写。", None),
    ]
    assert {node.ref_doc_id for node in nodes} == {"d"}


@pytest.mark.parametrize("kept", [[], ["一楼是大厅。"], ["三楼是餐厅。", "一楼是大厅。"]])
def test_text_that_a_foreign_parser_drops_comes_back_with_one_warning(kept: list[str]) -> None:
    text = "一楼是大厅。二楼是展厅。\n\n三楼是餐厅。"
    for parsers in (
        {"primary_parser": Fixed(texts=kept), "secondary_parser": SlidingWindowNodeParser()},
        {"primary_parser": SlidingWindowNodeParser(), "secondary_parser": Fixed(texts=kept)},
    ):
        parser = HybridNodeParser(**parsers, max_chunk_size=16)
        with pytest.warns(ChunkingPlusWarning, match=r"Fixed left out \d+ characters") as caught:
            nodes = parser.get_nodes_from_documents([Document(text=text)])
        assert len(caught) == 1
        assert all(text[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)
        seen = {i for node in nodes for i in range(node.start_char_idx, node.end_char_idx)}
        assert not "".join(c for i, c in enumerate(text) if i not in seen).strip()


def levels(*sizes: int) -> HierarchicalNodeParser:
    """LlamaIndex's levels, with a sentence splitter that needs no download in old cores."""
    splitters = {
        str(size): SentenceSplitter(chunk_size=size, chunk_overlap=20, chunking_tokenizer_fn=chinese_sentence_tokenizer)
        for size in sizes
    }
    return HierarchicalNodeParser.from_defaults(node_parser_ids=list(splitters), node_parser_map=splitters)


def test_levels_one_after_another_keep_their_offsets() -> None:
    document = Document(text=PROSE * 4)
    parser = HybridNodeParser(
        primary_parser=levels(400, 200, 100),
        secondary_parser=SlidingWindowNodeParser(chunk_size=80),
        max_chunk_size=80,
    )
    for node in parser.get_nodes_from_documents([document]):
        assert document.text[node.start_char_idx : node.end_char_idx] == node.text


async def test_foreign_parsers_give_the_same_nodes_in_async() -> None:
    parser = HybridNodeParser(
        primary_parser=levels(400, 200),
        secondary_parser=SlidingWindowNodeParser(chunk_size=80),
        max_chunk_size=80,
    )
    documents = [Document(id_="d", text=PROSE * 4)]
    nodes = await parser.aget_nodes_from_documents(documents)
    assert [node.node_id for node in nodes] == [node.node_id for node in parser.get_nodes_from_documents(documents)]


def test_stock_parsers_with_their_own_defaults_can_be_pickled() -> None:
    parser = HybridNodeParser(
        primary_parser=SentenceSplitter(),
        secondary_parser=TokenTextSplitter(chunk_size=64, chunk_overlap=8),
        max_chunk_size=80,
    )
    copy = pickle.loads(pickle.dumps(parser))
    documents = [Document(id_="d", text=PROSE * 4)]
    expected = [node.text for node in parser.get_nodes_from_documents(documents)]
    assert [node.text for node in copy.get_nodes_from_documents(documents)] == expected
    assert copy.to_dict() == parser.to_dict()


def test_the_maximum_holds_even_if_the_secondary_parser_does_not_keep_it() -> None:
    parser = HybridNodeParser(
        primary_parser=SentenceSplitter(chunk_size=1024, chunking_tokenizer_fn=chinese_sentence_tokenizer),
        secondary_parser=TokenTextSplitter(chunk_size=512, chunk_overlap=0),
        max_chunk_size=100,
    )
    document = Document(text=PROSE * 10)
    nodes = parser.get_nodes_from_documents([document])
    assert max(count_tokens(node.text) for node in nodes) <= 100
    assert all(document.text[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)


def test_what_a_foreign_parser_adds_survives() -> None:
    parser = HybridNodeParser(
        primary_parser=SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer, window_size=1),
        secondary_parser=SlidingWindowNodeParser(chunk_size=20, chunk_overlap=0),
        max_chunk_size=30,
    )
    nodes = parser.get_nodes_from_documents([Document(text=PROSE, metadata={"file": "a"})])
    assert all(set(node.metadata) == {"file", "window", "original_text"} for node in nodes)
    assert all("window" not in node.get_content(MetadataMode.EMBED) for node in nodes)
    assert max(count_tokens(node.text) for node in nodes) <= 30


def test_headings_then_windows() -> None:
    text = "# 一\n\n" + "甲乙丙。" * 50 + "\n\n## 二\n\n丁。\n"
    parser = HybridNodeParser(
        primary_parser=MarkdownNodeParser(),
        secondary_parser=SlidingWindowNodeParser(chunk_size=60, chunk_overlap=10),
        max_chunk_size=80,
    )
    nodes = parser.get_nodes_from_documents([Document(text=text)])
    assert {node.metadata["header_path"] for node in nodes} == {"/", "/一/"}
    assert all(text[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)


def test_chained_behind_another_parser_offsets_stay_in_the_root_document() -> None:
    document = Document(id_="root", text=PROSE * 6)
    sections = SlidingWindowNodeParser(chunk_size=200, chunk_overlap=0).get_nodes_from_documents([document])
    nodes = usual_recipe()(sections)
    assert {node.ref_doc_id for node in nodes} == {"root"}
    assert all(document.text[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)


def test_ids_do_not_depend_on_the_random_ids_of_foreign_parsers() -> None:
    ids = [
        [node.node_id for node in usual_recipe().get_nodes_from_documents([Document(id_="d", text=PROSE * 4)])]
        for _ in "ab"
    ]
    assert ids[0] == ids[1]


def test_dumps_tell_foreign_parsers_apart_by_what_they_do() -> None:
    dumps = {
        str(usual_recipe(**options).to_dict())
        for options in (
            {},
            {"secondary_parser": SentenceSplitter(chunk_size=256, chunk_overlap=50)},
            {
                "secondary_parser": SentenceSplitter(
                    chunk_size=256, chunk_overlap=50, chunking_tokenizer_fn=naive_sentences
                )
            },
            {"secondary_parser": SentenceSplitter(chunk_size=256, chunk_overlap=51)},
            {"secondary_parser": SentenceSplitter(chunk_size=256, chunk_overlap=50, tokenizer=str.split)},
            {
                "secondary_parser": SentenceSplitter(
                    chunk_size=256, chunk_overlap=50, tokenizer=lambda text: text.split("。")
                )
            },
            {
                "secondary_parser": SentenceSplitter(
                    chunk_size=256, chunk_overlap=50, tokenizer=lambda text: text.split("，")
                )
            },
        )
    }
    assert len(dumps) == 7
    assert usual_recipe().to_dict() == usual_recipe().to_dict()


def test_pickles_bring_back_foreign_parsers_with_their_callables() -> None:
    parser = usual_recipe()
    expected = [node.text for node in parser.get_nodes_from_documents([Document(text=PROSE * 4)])]
    copy = pickle.loads(pickle.dumps(parser))
    assert copy.to_dict() == parser.to_dict()
    for each in (copy, parser):
        assert [node.text for node in each.get_nodes_from_documents([Document(text=PROSE * 4)])] == expected


def test_a_foreign_parser_with_a_lambda_refuses_to_be_pickled_and_stays_whole() -> None:
    parser = usual_recipe(secondary_parser=SentenceSplitter(chunk_size=256, chunking_tokenizer_fn=lambda text: [text]))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(parser)
    assert parser.get_nodes_from_documents([Document(text=PROSE * 4)])


def test_foreign_parsers_must_be_passed_again_to_from_dict() -> None:
    with pytest.raises(ValueError, match=r"SemanticSplitterNodeParser was dumped by its fingerprint.*primary_parser="):
        HybridNodeParser.from_dict(usual_recipe().to_dict())


def test_defaults_are_validated_and_described() -> None:
    with pytest.raises(ValueError, match="max_chunk_size=3 is no whole number of 4 or more"):
        HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=3)
    with pytest.raises(ValueError, match="max_chunk_size=1 is below 4"):
        usual_recipe(max_chunk_size=1)
    parser = HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=410, unit="chars")
    assert (parser.primary_parser.target_size, parser.primary_parser.max_size) == (256, 410)
    assert HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=960).primary_parser.target_size == 600
    assert parser.secondary_parser.chunk_overlap == 51
    assert parser.primary_parser.unit == parser.secondary_parser.unit == parser.unit == "chars"
