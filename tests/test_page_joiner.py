"""Pages to documents, and the pages of chunks."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, ImageDocument, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from parsers import CASES, Case
from texts import PROSE

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    PageJoiner,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    SourceSliceLookup,
    sync_documents,
)
from llama_index_chunking_plus.core.pages import PageMap
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.ingestion.page_joiner import join_pages

ROWS = "| 名 | 数 |\n|---|---|\n| 甲 | 1 |"


def page(text: str, label: object = "1", **metadata: object) -> Document:
    return Document(text=text, metadata={"page_label": label, "file_name": "a.pdf", **metadata})


def pages(*texts: str, **metadata: object) -> list[Document]:
    return [page(text, str(number), **metadata) for number, text in enumerate(texts, 1)]


def joined(*texts: str) -> str:
    (document,) = PageJoiner().join(pages(*texts))
    return document.text


# -- the text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ("我们今天\n", "去公园。", "我们今天去公园。"),
        ("我们今天，", "去公园。", "我们今天，去公园。"),
        ("他说：“走吧。", "”然后走了。", "他说：“走吧。”然后走了。"),
        ("今天下雨。\n", "\n我们不去。", "今天下雨。\n我们不去。"),
        ("今天下雨。”", "我们不去。", "今天下雨。”\n我们不去。"),
        ("the rain \n", "in Spain", "the rain in Spain"),
        ("It rained.", "We stayed.", "It rained.\nWe stayed."),
        ("signed by Dr.", "Smith", "signed by Dr. Smith"),
        ("the long-", "lived one", "the long-lived one"),
        ("我们使用", "Python 语言", "我们使用Python 语言"),
        ("이것은", "문장이다", "이것은 문장이다"),
        ("没有句号", "　　新的一段", "没有句号\n　　新的一段"),
        ("没有句号", "# 标题", "没有句号\n# 标题"),
        ("# 标题", "正文。", "# 标题\n正文。"),
        ("包括：", "- 甲", "包括：\n- 甲"),
        ("包括：", "（一）甲；", "包括：\n（一）甲；"),
        ("总则", "第三条 甲方", "总则\n第三条 甲方"),
        ("按照合同", "第三条的规定", "按照合同第三条的规定"),
        ("我们今天\n- 3 -", "去公园", "我们今天\n- 3 -\n去公园"),
        ("我们今天\n第 3 页 共 9 页", "去公园", "我们今天\n第 3 页 共 9 页\n去公园"),
        ("```python\nx = f(1)", "    y = 2\n```\n", "```python\nx = f(1)\n    y = 2\n```\n"),
        ("```\nx\n```", "正文", "```\nx\n```\n正文"),
        ("我们今天\r\n", "\r\n去公园。\r\n", "我们今天去公园。\r\n"),
        ("今天下雨。\r\n", "我们不去。\r\n", "今天下雨。\r\n我们不去。\r\n"),
        ("今天\f", "下雨", "今天下雨"),
        ("  前", "后  ", "  前后  "),
    ],
)
def test_what_joins_two_pages(left: str, right: str, expected: str) -> None:
    assert joined(left, right) == expected


@pytest.mark.parametrize(
    "right, expected",
    [
        ("| 乙 | 2 |\n", f"{ROWS}\n| 乙 | 2 |\n"),
        ("\n\n| 乙 | 2 |", f"{ROWS}\n| 乙 | 2 |"),
        ("| 名 | 数 |\n| 乙 | 2 |", f"{ROWS}\n| 名 | 数 |\n| 乙 | 2 |"),
        ("|名|数|\n|:--|--|\n| 乙 | 2 |", f"{ROWS}\n|名|数|\n| 乙 | 2 |"),
        ("| 国 | 城 |\n|---|---|\n| 乙 | 2 |", f"{ROWS}\n\n| 国 | 城 |\n|---|---|\n| 乙 | 2 |"),
        ("正文。", f"{ROWS}\n\n正文。"),
    ],
    ids=["rows", "after blank lines", "header", "header and dashes", "another table", "prose"],
)
def test_a_table_goes_on_over_the_page(right: str, expected: str) -> None:
    assert joined(ROWS + "\n\n", right) == expected


def test_a_table_may_go_on_for_many_pages() -> None:
    again = "| 名 | 数 |\n|---|---|\n| 乙 | 2 |"
    assert joined("前文，", ROWS, "| 丙 | 3 |", again, "| 丁 | 4 |", "后文") == (
        f"前文，\n\n{ROWS}\n| 丙 | 3 |\n| 名 | 数 |\n| 乙 | 2 |\n| 丁 | 4 |\n\n后文"
    )
    assert joined("| 名 | 数 |", "|---|---|\n| 甲 | 1 |") == ROWS
    assert joined(f"{ROWS}\n\n| 国 |\n|---|\n| 中 |", "| 国 |\n|---|\n| 美 |").endswith(
        "| 国 |\n|---|\n| 中 |\n| 国 |\n| 美 |"
    )
    crlf = ROWS.replace("\n", "\r\n")
    assert joined(crlf, crlf) == f"{crlf}\r\n| 名 | 数 |\r\n| 甲 | 1 |"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["甲", "。", " ", "\n", "\r\n", "a b", "| x |\n", "```\n", "1"])).map("".join))
)
def test_each_page_begins_where_the_map_says(texts: list[str]) -> None:
    text, starts = join_pages(texts)
    filled = [(each.strip(), start) for each, start in zip(texts, starts, strict=True) if each.strip()]
    assert [start for start in starts if start is not None] == [start for _, start in filled]
    for each, start in filled:
        assert text[start:].lstrip().startswith(each)
    assert "".join(text.split()) == "".join("".join(texts).split())


@pytest.mark.timeout(100)  # a second; minutes where work grows with the square
def test_many_pages_are_joined() -> None:
    assert len(joined(*(["| 甲 | 乙 |\n" * 50] * 2_000))) > 900_000


# -- the document -------------------------------------------------------------------------------------------------------


def test_pages_become_one_document_with_a_map_that_nobody_is_shown() -> None:
    inputs = pages("今天下雨，我们", "不去公园。", title="日记", file_path="/x/a.pdf", tags=["一"])
    inputs[1].metadata["width"] = 7
    inputs[0].excluded_llm_metadata_keys = ["title"]
    inputs[0].text_template = "{content}"
    before = copy.deepcopy([each.model_dump() for each in inputs])
    (document,) = PageJoiner().join(inputs)
    assert document.id_ == "/x/a.pdf"
    assert document.metadata == {
        "file_name": "a.pdf",
        "title": "日记",
        "file_path": "/x/a.pdf",
        "tags": ["一"],
        "page_map": "1:0,2:7",
    }
    assert document.excluded_llm_metadata_keys == ["title", "page_map"]
    assert document.excluded_embed_metadata_keys == ["page_map"]
    assert document.text_template == "{content}"
    assert "page_map" not in document.get_content(MetadataMode.EMBED)
    document.metadata["tags"].append("二")
    assert [each.model_dump() for each in inputs] == before


def test_what_is_no_page_passes_through_in_its_place() -> None:
    others = [
        Document(text="x", metadata={"file_name": "a.pdf"}),
        Document(text="x", metadata={"page_label": "1"}),
        Document(text="x", metadata={"page_label": " ", "file_name": "a.pdf"}),
        ImageDocument(text="x", image="aGVsbG8=", metadata={"page_label": "1", "file_name": "a.pdf"}),
        TextNode(text="x", metadata={"page_label": "1", "file_name": "a.pdf"}),
        Document(
            text="x",
            metadata={"page_label": "1", "file_name": "a.pdf"},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="root")},
        ),
    ]
    first, second = pages("一", "二")
    result = PageJoiner()([others[0], first, *others[1:], second])
    assert [each for each in result if each.id_ != "a.pdf"] == others
    assert all(a is b for a, b in zip([result[0], *result[2:]], others, strict=True))
    assert result[1].text == "一二"
    assert PageJoiner()([]) == []


@pytest.mark.parametrize(
    "labels, expected",
    [
        (["2", "10", "1"], "1:0,2:1,10:2"),
        ([2, 10, 1], "1:0,2:1,10:2"),
        (["ii", "i", "1"], "ii:0,i:1,1:2"),
        (["2", "1", "2"], "2:0,1:1,2:2"),
        (["A:1", "B,2", "C%3A"], "A%3A1:0,B%2C2:1,C%253A:2"),
    ],
)
def test_the_order_of_pages(labels: list[object], expected: str) -> None:
    (document,) = PageJoiner().join([page("甲", label) for label in labels])
    assert document.metadata["page_map"] == expected
    assert sorted(PageMap.from_metadata(document.metadata).labels) == sorted(map(str, labels))


def test_pages_without_text() -> None:
    (document,) = PageJoiner().join(pages("今天", " \n", "", "下雨。"))
    assert (document.text, document.metadata["page_map"]) == ("今天下雨。", "1:0,4:2")
    (blank,) = PageJoiner().join(pages("", " "))
    assert (blank.text, blank.metadata) == ("", {"file_name": "a.pdf"})
    (single,) = PageJoiner().join(pages(" 一页。\n"))
    assert (single.text, single.metadata["page_map"]) == (" 一页。\n", "1:0")


def test_files_are_told_apart_by_the_first_key_that_they_have() -> None:
    inputs = [*pages("一", "二", file_path="/x/a.pdf"), *pages("三", "四", file_path="/y/a.pdf"), *pages("五")]
    interleaved = inputs[::2] + inputs[1::2]
    assert [(each.id_, each.text) for each in PageJoiner().join(interleaved)] == [
        ("/x/a.pdf", "一二"),
        ("/y/a.pdf", "三四"),
        ("a.pdf", "五"),
    ]
    assert [each.id_ for each in PageJoiner(key="file_name").join(inputs)] == ["a.pdf"]
    pymupdf = [Document(text=text, metadata={"source": str(n), "book": "b"}) for n, text in enumerate("一二")]
    (document,) = PageJoiner(key=["book"], page_key="source").join(pymupdf)
    assert document.metadata == {"book": "b", "page_map": "0:0,1:1"}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"key": ()}, r"key=\(\) is empty"),
        ({"key": ""}, r"key=.* holds an empty name"),
        ({"page_key": ""}, r"page_key='' is empty"),
        ({"key": 3}, r"key=3 is no name; give"),
        ({"key": ["a", 3]}, r"key=.* is no name; give"),
        ({"page_label": "x"}, r"page_label"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PageJoiner(**options)


@pytest.mark.parametrize("wrong", ["abc", 3])
def test_what_is_no_document_is_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match=f"{wrong!r} is no document; give Documents"):
        PageJoiner().join([Document(text="一"), wrong])


def test_a_joiner_dumps_and_pickles() -> None:
    joiner = PageJoiner(key="book", page_key="source")
    assert PageJoiner.from_dict(json.loads(json.dumps(joiner.to_dict()))) == joiner
    assert pickle.loads(pickle.dumps(joiner)) == joiner
    assert joiner.to_dict() != PageJoiner().to_dict()


def test_joined_documents_can_be_synced(tmp_path) -> None:
    pipeline = IngestionPipeline(transformations=[SlidingWindowNodeParser()], docstore=SimpleDocumentStore())
    first = sync_documents(PageJoiner().join(pages("今天下雨，", "不去。")), pipeline, persist_dir=tmp_path)
    again = sync_documents(PageJoiner().join(pages("今天下雨，", "不去。")), pipeline, persist_dir=tmp_path)
    changed = sync_documents(PageJoiner().join(pages("今天下雨，", "要去。")), pipeline, persist_dir=tmp_path)
    assert (first.added, again.unchanged, changed.updated) == (("a.pdf",),) * 3


# -- the pages of chunks ------------------------------------------------------------------------------------------------


def book() -> Document:
    texts = [PROSE[i : i + 90] for i in range(0, len(PROSE), 90)] * 3
    (document,) = PageJoiner().join(pages(*texts, author="林"))
    return document


def assert_on_their_pages(document: Document, nodes: list[BaseNode]) -> None:
    whole = PageMap.from_metadata(document.metadata)
    for node in nodes:
        inked = [i for i in range(node.start_char_idx, node.end_char_idx) if document.text[i].strip()]
        labels = [max(label for label, start in enumerate(whole.starts, 1) if start <= i) for i in inked]
        assert (node.metadata["page_start"], node.metadata["page_end"]) == (str(labels[0]), str(labels[-1]))
        assert ("page_map" in node.metadata) == (labels[0] != labels[-1])
        assert len(node.metadata.get("page_map", "")) < len(document.metadata["page_map"])
        hidden = {"page_start", "page_end", "page_map"} & set(node.metadata)
        assert hidden <= set(node.excluded_embed_metadata_keys) & set(node.excluded_llm_metadata_keys)
        assert node.metadata["author"] == "林"


@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_chunks_of_every_parser_know_their_pages(case: Case) -> None:
    document = book()
    nodes = case.make().get_nodes_from_documents([document])
    assert_on_their_pages(document, nodes)
    assert len({node.metadata["page_start"] for node in nodes}) > 2


def test_chained_parsers_keep_the_pages_right() -> None:
    document = book()
    large = SlidingWindowNodeParser(chunk_size=500, chunk_overlap=50, unit="chars")([document])
    small = SlidingWindowNodeParser(chunk_size=100, chunk_overlap=20, unit="chars")(large)
    smallest = ChineseSentenceWindowNodeParser()(small)
    assert all(node.metadata["page_start"] != node.metadata["page_end"] for node in large)
    assert_on_their_pages(document, small)
    assert_on_their_pages(document, smallest)
    assert any(node.metadata["page_start"] == node.metadata["page_end"] for node in smallest)


def test_parents_and_children_know_their_own_pages() -> None:
    document = book()
    parser = SmallToBigNodeParser(parent_size=400, child_size=80, emit="both")
    assert_on_their_pages(document, parser.get_nodes_from_documents([document]))


def test_a_chunk_whose_place_is_not_known_says_nothing_of_pages() -> None:
    (chunk,) = SlidingWindowNodeParser()([page_document := book()])[:1]
    assert "page_map" in chunk.metadata
    chunk.start_char_idx = None
    for node in ChineseSentenceWindowNodeParser()([chunk]):
        assert not {"page_start", "page_end", "page_map"} & set(node.metadata)
    for node in SlidingWindowNodeParser(include_metadata=False)([page_document]):
        assert node.metadata == {}


@pytest.mark.parametrize("value", ["a map", "", 7, None, "1:5,2:3", "1:0,2", "1:-1", {"1": 0}])
def test_other_values_under_that_key_are_metadata_like_any(value: object) -> None:
    document = Document(text="今天下雨。", metadata={"page_map": value, "page_start": "x"})
    (node,) = SlidingWindowNodeParser()([document])
    assert node.metadata == document.metadata


def test_parents_say_their_own_pages() -> None:
    pages = [
        Document(text=f"第{n}页的第一句。第{n}页的第二句。", metadata={"file_name": "a.pdf", "page_label": str(n)})
        for n in range(1, 7)
    ]
    (joined,) = PageJoiner().join(pages)
    children = SmallToBigNodeParser(parent_size=40, child_size=10, child_overlap=1).get_nodes_from_documents([joined])
    docstore = SimpleDocumentStore()
    docstore.add_documents([joined])
    found = SourceSliceLookup(docstore).find(children).parents.values()
    assert [(each.metadata["page_start"], each.metadata["page_end"]) for each in found] == [
        ("1", "2"),
        ("3", "4"),
        ("5", "6"),
    ]
    for each in found:
        assert len(each.metadata["page_map"]) < len(joined.metadata["page_map"])
        assert "page" not in each.get_content(MetadataMode.LLM).replace(each.text, "")
