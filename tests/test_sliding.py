"""SlidingWindowNodeParser: what only it promises."""

from __future__ import annotations

import logging
from itertools import pairwise

import llama_index.core
import numpy as np
import pytest
from llama_index.core import Document
from llama_index.core.schema import MetadataMode
from parsers import count_bytes
from texts import PROSE

from llama_index_chunking_plus import SlidingWindowNodeParser
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

count_tokens = resolve_sizer("tokens", None).size
TEXT = PROSE * 8


def texts(parser: SlidingWindowNodeParser, text: str, **document: object) -> list[str]:
    return [node.text for node in parser.get_nodes_from_documents([Document(text=text, **document)])]


def test_chunks_are_as_full_as_sentences_let_them_be() -> None:
    sizes = [count_tokens(text) for text in texts(SlidingWindowNodeParser(chunk_size=256, chunk_overlap=0), TEXT)]
    assert sum(sizes[:-1]) / len(sizes[:-1]) > 225


def test_neighbours_overlap_in_whole_sentences_within_the_overlap() -> None:
    parser = SlidingWindowNodeParser(chunk_size=128, chunk_overlap=40)
    nodes = parser.get_nodes_from_documents([Document(text=TEXT)])
    ends = {0, *parser.sentence_tokenizer.ends(TEXT)}
    shared = [(right.start_char_idx, left.end_char_idx) for left, right in pairwise(nodes)]
    assert all(start in ends and end in ends for start, end in shared)
    sizes = [count_tokens(TEXT[start:end]) for start, end in shared]
    assert max(sizes) <= 40
    assert sum(size > 0 for size in sizes) > len(sizes) / 2


def test_metadata_is_charged_to_the_chunk_as_the_longer_of_the_two_that_are_shown() -> None:
    metadata = {"title": "旧书店的故事" * 3, "secret": "不给模型看" * 20}
    parser = SlidingWindowNodeParser(chunk_size=200, chunk_overlap=0)
    nodes = parser.get_nodes_from_documents(
        [
            Document(
                text=TEXT,
                metadata=metadata,
                excluded_llm_metadata_keys=["secret"],
                excluded_embed_metadata_keys=["secret"],
            )
        ]
    )
    for node in nodes:
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert count_tokens(node.get_content(mode)) <= 201  # one for the blank line of the template
    plain = SlidingWindowNodeParser(chunk_size=200, chunk_overlap=0, include_metadata=False)
    assert len(texts(plain, TEXT, metadata=metadata)) < len(nodes)


def test_metadata_larger_than_the_chunk_leaves_a_floor_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    parser = SlidingWindowNodeParser(chunk_size=128, chunk_overlap=16)
    bulky = {"abstract": "摘要很长。" * 200}
    documents = [Document(text=TEXT, metadata=bulky), Document(text=TEXT), Document(text=TEXT, metadata=bulky)]
    with caplog.at_level(logging.WARNING):
        nodes = parser.get_nodes_from_documents(documents)
    assert [record.name for record in caplog.records] == ["llama_index_chunking_plus.node_parser.sliding"]
    assert "2 of 3 inputs" in caplog.text
    squeezed = [count_tokens(node.text) for node in nodes if node.ref_doc_id == documents[0].node_id]
    assert max(squeezed) <= 50
    assert "".join(dict.fromkeys(node.text for node in nodes if node.ref_doc_id == documents[0].node_id))


def test_tokenizers_may_answer_as_numpy_or_huggingface_do() -> None:
    plain = texts(SlidingWindowNodeParser(chunk_size=60, tokenizer=list), TEXT)
    for tokenizer in (
        lambda text: np.int64(len(text)),
        lambda text: np.zeros(len(text)),
        lambda text: {"input_ids": list(text), "mask": [1]},
    ):
        assert texts(SlidingWindowNodeParser(chunk_size=60, tokenizer=tokenizer), TEXT) == plain


def test_a_changed_dictionary_changes_the_dump(tmp_path) -> None:
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("检索增强生成平台\n", encoding="utf-8")
    parser = SlidingWindowNodeParser(user_dictionary=str(dictionary))
    before = parser.to_dict()
    assert SlidingWindowNodeParser.from_dict(before).to_dict() == before
    dictionary.write_text("量子鲱鱼\n", encoding="utf-8")
    assert parser.to_dict() != before


def test_the_overlap_follows_the_size_unless_it_is_given() -> None:
    assert [SlidingWindowNodeParser(chunk_size=size).chunk_overlap for size in (512, 256, 7)] == [64, 32, 0]
    assert SlidingWindowNodeParser().chunk_overlap == 64
    assert SlidingWindowNodeParser(chunk_size=256, chunk_overlap=9).chunk_overlap == 9


SEPARATORS = ("\n## ", "\n\n", "```", "\n", "。", "；", "，", "")


def test_separators_are_tried_in_order_and_their_pieces_packed() -> None:
    parser = SlidingWindowNodeParser(chunk_size=8, chunk_overlap=0, separators=("\n第", "。", "，"))
    assert texts(parser, "一。二，三\n第四，五六七。八，九，十\n第十一") == [
        "一。二，三\n",
        "第四，五六七。",
        "八，九，十\n",
        "第十一",
    ]


def test_neighbours_share_whole_pieces_between_separators() -> None:
    parser = SlidingWindowNodeParser(chunk_size=9, chunk_overlap=6, separators=["、"])
    assert texts(parser, "一一、二二、三三、四四、五五、") == [
        "一一、二二、三三、",
        "二二、三三、四四、",
        "三三、四四、五五、",
    ]
    long_run = SlidingWindowNodeParser(chunk_size=10, chunk_overlap=3, separators=[""])
    assert texts(long_run, "abcdefghijklmnop") == ["abcdefghij", "hijklmnop"]


def test_separators_bring_defaults_of_their_own() -> None:
    def sizes(**options: object) -> tuple[int, int, str]:
        parser = SlidingWindowNodeParser(separators=SEPARATORS, **options)
        return parser.chunk_size, parser.chunk_overlap, parser.unit

    assert sizes() == (800, 120, "chars")
    assert sizes(chunk_size=400) == (400, 60, "chars")
    assert sizes(chunk_overlap=7) == (800, 7, "chars")
    assert sizes(unit="tokens") == (800, 120, "tokens")
    assert sizes(tokenizer=count_bytes) == (800, 120, "tokens")
    assert SlidingWindowNodeParser(separators=None).chunk_size == 512


@pytest.mark.parametrize("separators", [SEPARATORS, SEPARATORS[:-1], ("#",)])
@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_no_chunk_is_above_the_maximum_whatever_the_separators(separators: tuple[str, ...], unit: str) -> None:
    parser = SlidingWindowNodeParser(chunk_size=60, chunk_overlap=12, unit=unit, separators=separators)
    size = len if unit == "chars" else count_tokens
    for text in (TEXT, "没有标点的一段很长的话" * 50, "a" * 500, "👨‍👩‍👧" * 50):
        chunks = texts(parser, text)
        assert max(map(size, chunks)) <= 60
        assert len(chunks) > 1
        assert not any(chunk.startswith("\u200d") for chunk in chunks)


def test_separators_and_a_callable_tokenizer() -> None:
    parser = SlidingWindowNodeParser(chunk_size=200, separators=SEPARATORS, tokenizer=count_bytes)
    assert max(map(count_bytes, texts(parser, TEXT))) <= 200


def test_metadata_is_charged_to_pieces_as_well() -> None:
    parser = SlidingWindowNodeParser(chunk_size=100, chunk_overlap=40, separators=SEPARATORS)
    assert max(map(len, texts(parser, TEXT, metadata={"title": "旧" * 30}))) <= 64
    assert max(map(len, texts(parser, TEXT, metadata={"title": "旧" * 300}))) <= 50


def test_a_dictionary_that_was_written_again_counts_as_it_is(tmp_path) -> None:
    words = tmp_path / "words.txt"
    text = "甲乙丙丁戊己庚辛" * 3
    for word in ("丙丁戊己", "乙丙丁戊己庚"):
        words.write_text(word + "\n", encoding="utf-8")
        parser = SlidingWindowNodeParser(chunk_size=6, chunk_overlap=0, unit="chars", user_dictionary=str(words))
        nodes = parser.get_nodes_from_documents([Document(text=text)])
        assert sum(node.text.count(word) for node in nodes) == 3


def test_protected_terms_are_not_cut_and_a_dictionary_counts_as_such(tmp_path) -> None:
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("检索增强生成平台\n", encoding="utf-8")
    text = "我们公司内部在用检索增强生成平台做问答"
    plain = SlidingWindowNodeParser(chunk_size=12, chunk_overlap=0, unit="chars")
    assert not any("检索增强生成平台" in piece for piece in texts(plain, text))
    for options in ({"protected_terms": ("检索增强生成平台",)}, {"user_dictionary": str(dictionary)}):
        parser = SlidingWindowNodeParser(chunk_size=12, chunk_overlap=0, unit="chars", **options)
        assert any("检索增强生成平台" in piece for piece in texts(parser, text))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"chunk_size": 3, "chunk_overlap": 0}, r"chunk_size=3 is below 4"),
        ({"chunk_size": 0, "chunk_overlap": 0}, r"chunk_size=0"),
        ({"chunk_size": 64, "chunk_overlap": 64}, r"chunk_overlap=64 is outside \[0, chunk_size=64\)"),
        ({"chunk_overlap": -1}, r"chunk_overlap=-1"),
        ({"chunk_size": 10.5}, r"chunk_size"),
        ({"chunk_size": "large"}, r"chunk_size"),
        ({"unit": "words"}, r"'tokens' or 'chars'"),
        ({"separators": ("", "。")}, r'separators=.* holds "" before its end'),
        ({"separators": ("。", "。")}, r"separators=.* holds '。' twice"),
        ({"separators": ()}, r"separators=\(\) is empty"),
        ({"separators": ["。", 5]}, r"separators\[1\]=5 is no string"),
        ({"separators": "。"}, r"separators='。' is no list"),
        ({"protected_terms": ("",)}, r"protected_terms holds an empty string"),
        ({"user_dictionary": "/no/such/file"}, r"/no/such/file.* is no file"),
        ({"tokenizer": 5}, r"tokenizer=5 is not callable"),
        ({"tokenizer": lambda _: None}, r"cannot count a text: tokenizer answers None"),
        ({"tokenizer": lambda _: -1}, r"tokenizer answers -1"),
        ({"tokenizer": lambda _: True}, r"tokenizer answers True"),
        ({"tokenizer": lambda _: 1 / 0}, r"cannot count a text: division by zero"),
        ({"tokenizer": "tiktoken:nonsense"}, r"knows no encoding 'nonsense'"),
        ({"tokenizer": "import:no.such:thing"}, r"leads to nothing"),
        ({"tokenizer": "import:os:sep"}, r"is not callable"),
        ({"tokenizer": "gpt-4"}, r"names no importable callable"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SlidingWindowNodeParser(**options)


def test_tokenizers_by_name_path_and_callable_agree() -> None:
    size = {"chunk_size": 100, "chunk_overlap": 10}
    by_default = texts(SlidingWindowNodeParser(**size), TEXT)
    assert texts(SlidingWindowNodeParser(tokenizer="tiktoken:cl100k_base", **size), TEXT) == by_default
    by_path = SlidingWindowNodeParser(tokenizer="import:parsers:count_bytes", **size)
    assert texts(by_path, TEXT) == texts(SlidingWindowNodeParser(tokenizer=count_bytes, **size), TEXT)


def test_the_global_tokenizer_is_looked_up_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = SlidingWindowNodeParser(chunk_size=100, chunk_overlap=0)
    before, dump = texts(parser, TEXT), parser.to_dict()
    monkeypatch.setattr(llama_index.core, "global_tokenizer", list)
    assert max(map(len, texts(parser, TEXT))) <= 100
    assert texts(parser, TEXT) != before
    assert parser.to_dict() != dump
    assert texts(SlidingWindowNodeParser.from_dict(dump), TEXT) == before
