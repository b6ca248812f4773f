"""Chunks that follow the structure of a document: sections, tables, code, formulas, procedures, questions and answers."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from embedders import LetterEmbedding
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from parsers import count_bytes
from structured_checks import flaws, unclosed_fences

from llama_index_chunking_plus import (
    ChunkingPlusWarning,
    HybridNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    StructuredMarkdownNodeParser,
)
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer
from llama_index_chunking_plus.samples import sample_paths

PROSE = "山下有一座旧书店，店主姓林。每到周末，附近的学生都来看书。店里的规矩只有一条：看完要放回原处！"
ROWS = "".join(f"| 参数{i} | 值{i} | 第{i}行的说明 |\n" for i in range(1, 301))
HEADER = "| 名 | 取值 | 说明 |\n|---|---|---|\n"
CODE = "".join(f"def f{i}(x):\n    y = x + {i}\n\n    return y\n\n\n" for i in range(20))


def parse(text: str, **options: Any) -> list[BaseNode]:
    return StructuredMarkdownNodeParser(**{"chunk_size": 120, **options}).get_nodes_from_documents(
        [Document(text=text)]
    )


def texts(text: str, **options: Any) -> list[str]:
    return [node.text for node in parse(text, **options)]


def shown(node: BaseNode) -> list[str]:
    return [node.get_content(mode) for mode in (MetadataMode.EMBED, MetadataMode.LLM)]


# ------------------------------------------------------------------------------------------------ any document

WORD = st.text("山下有一座旧书店主姓林今年", min_size=1, max_size=60)
COUNT = st.integers(1, 24)


def lines(pattern: str) -> Any:
    return st.lists(WORD, min_size=1, max_size=24).map(
        lambda words: "".join(pattern.format(word, i + 1) for i, word in enumerate(words))
    )


PIECES = st.one_of(
    st.builds(
        "{} {}\n\n".format, st.sampled_from(["#", "##", "###", "####"]), st.text("甲乙丙丁/", min_size=1, max_size=6)
    ),
    lines("{0}。").map("{}\n\n".format),
    lines("| {0} | {1} |\n").map("| 名 | 值 |\n|---|---|\n{}\n".format),
    lines("def f{1}(x):\n    return '{0}'\n\n").map("```python\n{}```\n\n".format),
    lines("{0}\n").map("~~~~\n{}~~~~\n".format),
    lines("x_{1} = {1}\n").map("$$\n{}$$\n\n".format),
    lines("<tr><td>{0}</td></tr>\n").map("<table>\n<tr><th>名</th></tr>\n{}</table>\n\n".format),
    lines("{1}. {0}\n").map("准备。做法如下：\n\n{}\n".format),
    lines("  let a{1} = '{0}';\n").map("- 项目：\n\n  ```js\n{}  ```\n- 乙\n\n".format),
    lines("> {0}\n").map("> 引用\n>\n> ```\n{}> ```\n\n".format),
    lines("步骤{1}：{0}。\n\n"),
    lines("问：{0}？\n\n答：{0}。{0}。\n\n"),
    lines("问：{0}？\n答：{0}。{0}。\n").map("{}\n".format),
    lines('    <tr><td rowspan="2">{0}</td><td>{1}</td></tr>\n    <tr><td>乙</td></tr>\n').map(
        "<table>\n  <thead>\n    <tr><th>名</th><th>值</th></tr>\n  </thead>\n  <tbody>\n{}  </tbody>\n</table>\n\n".format
    ),
    lines("x_{1} = {1}\n").map("记作某数。它的取值如下：\n\n$$\n{}$$\n\n例如，甲。又如乙。\n\n".format),
    lines("run {1} {0}\n").map("先安装。然后运行：\n\n```\n{}```\n\n".format),
    lines("| {0} | {1} |\n").map("表 3 限值\n\n| 名 | 值 |\n|---|---|\n{}\n".format),
    st.sampled_from(["<!-- 注 -->\n\n", "---\n\n", "甲是一种书。\n\n例如，乙。\n\n"]),
    st.builds("{}\n\n".format, st.text("山下有一座", min_size=1, max_size=500)),
    st.builds(
        "| a | b |\n|---|---|\n| {} | b |\n| 1 | 2 |\n\n".format, st.text("山下有一座", min_size=1, max_size=300)
    ),
)


@settings(max_examples=250, deadline=None)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=10),
    size=st.sampled_from([("chars", 80), ("chars", 120), ("chars", 300), ("tokens", 100), ("tokens", 256)]),
    newline=st.sampled_from(["\n", "\n", "\r\n"]),
    metadata=st.sampled_from([{}, {"file_name": "a.md"}]),
)
def test_nothing_is_wrong_with_the_chunks_of_any_markdown(pieces, size, newline, metadata) -> None:
    parser = StructuredMarkdownNodeParser(unit=size[0], chunk_size=size[1], structure="markdown")
    document = Document(text="".join(pieces).replace("\n", newline), metadata=metadata)
    assert flaws(parser, document) == []


@pytest.mark.parametrize("size", [("chars", 200), ("chars", 400), ("chars", 800), ("tokens", 256)], ids=str)
@pytest.mark.parametrize("path", [path for path in sample_paths() if path.suffix == ".md"], ids=lambda path: path.name)
def test_nothing_is_wrong_with_the_chunks_of_the_bundled_documents(path: Path, size) -> None:
    parser = StructuredMarkdownNodeParser(unit=size[0], chunk_size=size[1])
    assert flaws(parser, Document(text=path.read_text(encoding="utf-8"), metadata={"file_name": path.name})) == []


UNITS: dict[str, dict[str, Any]] = {
    "chars": {"unit": "chars"},
    "tokens": {"unit": "tokens"},
    "bytes": {"unit": "tokens", "tokenizer": count_bytes},
}


def too_large(parser: StructuredMarkdownNodeParser, text: str) -> list[BaseNode]:
    """The nodes that are embedded with more than chunk_size; where headings and lead take half, the text keeps half."""
    size = resolve_sizer(parser.unit, parser.tokenizer).size
    nodes = parser([Document(text=text)])
    embedded = ((node, size(node.get_content(MetadataMode.EMBED)), size(node.text)) for node in nodes)
    half = parser.chunk_size - parser.chunk_size // 2
    return [node for node, whole, own in embedded if whole > parser.chunk_size and own > half]


@pytest.mark.parametrize("limit", [60, 61, 80, 100, 101, 200, 400, 800])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("path", sample_paths(), ids=lambda path: path.name)
def test_what_is_embedded_of_the_bundled_documents_keeps_the_size(path: Path, unit: str, limit: int) -> None:
    parser = StructuredMarkdownNodeParser(**UNITS[unit], chunk_size=limit)
    assert too_large(parser, path.read_text(encoding="utf-8")) == []


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=6),
    limit=st.integers(40, 160),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_embedded_of_any_markdown_keeps_the_size(pieces, limit, newline) -> None:
    parser = StructuredMarkdownNodeParser(chunk_size=limit, structure="markdown")
    assert too_large(parser, "".join(pieces).replace("\n", newline)) == []


def test_the_blank_line_between_headings_and_text_is_counted() -> None:
    rent = "月租金为人民币6500元；乙方应于每月5日前支付；逾期支付的，每日按欠付金额的千分之一支付违约金。"
    text = f"第一条 房屋\n甲方出租房屋。\n第二条 期限\n租期一年。\n第三条 租金\n{rent}\n第四条 押金\n押金两月。\n"
    nodes = parse(text, chunk_size=60, chunk_overlap=0)
    assert "".join(node.text for node in nodes) == text
    assert max(len(node.get_content(MetadataMode.EMBED)) for node in nodes) <= 60


def test_a_lead_or_a_fence_without_headings_is_counted_with_its_blank_line() -> None:
    for limit in range(40, 140):
        parser = StructuredMarkdownNodeParser(chunk_size=limit, structure="markdown")
        assert too_large(parser, f"{HEADER}| 甲 | {'字' * 300} | 乙 |\n{ROWS[:300]}") == []
        assert too_large(parser, f"甲。\n\n```\n{'字' * 300}\n{CODE[:300]}```\n") == []


@pytest.mark.parametrize("size", [4, 60, 100, 800, 2000])
def test_an_overlap_that_is_left_out_follows_the_size(size: int) -> None:
    assert StructuredMarkdownNodeParser(chunk_size=size).chunk_overlap == int(size * 0.15)
    with pytest.raises(ValueError, match=rf"chunk_overlap={size} is outside \[0, chunk_size={size}\); 10 to 20 %"):
        StructuredMarkdownNodeParser(chunk_size=size, chunk_overlap=size)


# ------------------------------------------------------------------------------------------------ what is cut


def test_each_piece_of_a_table_shows_its_header_rows() -> None:
    nodes = parse(f"# 参数\n\n{HEADER}{ROWS}", chunk_size=300)
    assert len(nodes) > 20
    assert "".join(node.text for node in nodes) == f"# 参数\n\n{HEADER}{ROWS}"
    for node in nodes[1:]:
        assert node.metadata["lead"] == f"\n{HEADER.strip()}"
        assert all(HEADER.strip() in each for each in shown(node))
        assert all(line.startswith("| 参数") for line in node.text.splitlines())


def test_code_is_cut_between_its_functions_and_each_piece_is_a_whole_fence_to_its_reader() -> None:
    nodes = parse(f"# 例\n\n```python\n{CODE}```\n\n完。", chunk_size=250)
    assert len(nodes) > 3
    for node in nodes:
        assert [unclosed_fences(each) for each in shown(node)] == [0, 0]
    for node in nodes[1:-1]:
        assert node.text.startswith("def f")
        assert "\n```python\n" in shown(node)[0]
        assert shown(node)[0].endswith("```")
        assert "```" not in node.text


@pytest.mark.parametrize("opening", ["```", "~~~~", "   ```py title=a.py"])
def test_a_piece_of_code_is_closed_even_where_no_other_metadata_is_shown(opening: str) -> None:
    marks = opening.strip().split("py")[0].strip()
    nodes = parse(f"{opening}\n{CODE}{marks}\n", chunk_size=200)
    assert len(nodes) > 3
    assert all([unclosed_fences(each) for each in shown(node)] == [0, 0] for node in nodes)


def test_a_fence_that_its_document_leaves_open_is_closed_for_the_reader() -> None:
    nodes = parse(f"```\n{CODE}", chunk_size=200)
    assert all([unclosed_fences(each) for each in shown(node)] == [0, 0] for node in nodes)


def test_the_template_of_the_document_is_kept_around_the_closing_mark() -> None:
    document = Document(text=f"```\n{CODE}```\n", metadata={"a": "b"}, text_template="<{metadata_str}>{content}</>")
    (first, *_) = StructuredMarkdownNodeParser(chunk_size=200)([document])
    assert first.text_template == "<{metadata_str}>{content}```</>"
    assert document.text_template == "<{metadata_str}>{content}</>"


def test_a_list_is_cut_between_items_and_carries_the_sentence_that_introduces_it() -> None:
    items = "".join(f"- 第{i}项要带上的东西和用处\n" for i in range(20))
    first, *others = parse(f"先看天气。出门前要准备的有：\n\n{items}", chunk_size=120)
    assert first.text.startswith("先看天气。出门前要准备的有：\n\n- 第0项")
    assert len(others) > 2
    assert {node.metadata["lead"] for node in others} == {"\n出门前要准备的有："}
    assert all(line.startswith("- ") for node in others for line in node.text.splitlines())
    chunks = texts(f"{PROSE * 2}出门前要准备的有：\n\n{items[:60]}", chunk_size=120, chunk_overlap=0)
    assert chunks[-1].startswith("出门前要准备的有：\n\n- 第0项")


def test_an_oversized_block_is_kept_whole_with_one_warning() -> None:
    text = f"# 参数\n\n{HEADER}{ROWS}\n# 例\n\n```python\n{CODE}```\n\n{PROSE * 5}"
    with pytest.warns(ChunkingPlusWarning, match="2 tables") as caught:
        nodes = parse(text, oversized="keep")
    assert len(caught) == 1
    assert [node.text for node in nodes if len(node.text) > 120] == [
        f"# 参数\n\n{HEADER}{ROWS}\n",
        f"# 例\n\n```python\n{CODE}```\n\n",
    ]


def test_what_a_pattern_protects_is_not_cut_while_it_fits() -> None:
    clause = "编号甲。编号乙二。编号丙三。编号丁。"
    documents = [PROSE[:n] + clause + PROSE + clause + PROSE for n in range(0, 48, 5)]
    cut = [chunks for text in documents for chunks in texts(text, chunk_size=60, chunk_overlap=0)]
    assert sum(each.count(clause) for each in cut) < 20
    kept = [parse(text, chunk_size=60, chunk_overlap=0, protected_patterns=["编号甲.*?丁。"]) for text in documents]
    assert [sum(node.text.count(clause) for node in nodes) for nodes in kept] == [2] * 10
    assert "paragraph,protected" in {node.metadata["block_kinds"] for node in kept[0]}


def test_a_protected_range_that_is_too_large_is_kept_on_demand() -> None:
    clause = f"【{'甲方应当。' * 30}】"
    with pytest.warns(ChunkingPlusWarning, match="kept whole"):
        chunks = texts(PROSE + clause + PROSE, chunk_size=60, oversized="keep", protected_patterns=["【.*?】"])
    assert sum(clause in each for each in chunks) == 1


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"protected_patterns holds '\(', no regular expression"):
        StructuredMarkdownNodeParser(protected_patterns=["("])


# ------------------------------------------------------------------------------------------------ what stays together


@pytest.mark.parametrize(
    "unit",
    [
        "步骤1：打开电源。\n\n步骤2：按下按钮。\n\n步骤3：等待一分钟。\n\n",
        "第一步：打开电源。\n\n第二步：按下按钮。\n\n第三步：等待一分钟。\n\n",
        "1. 打开电源。\n2. 按下按钮。\n3. 等待一分钟。\n\n",
        "问：怎样重置密码？\n\n答：打开设置，选择“重置”，按提示操作即可。\n\n",
        "Q: How do I reset it?\n\nA: Open the settings and choose reset.\n\n",
        "句柄是一种引用。它指向资源。\n\n例如，文件句柄指向打开的文件。\n\n",
        "句柄是一种引用。它指向资源。\n\n示例：文件句柄。\n\n",
    ],
)
@pytest.mark.parametrize("before", [0, 17, 43, 70, 95])
def test_what_belongs_together_is_in_one_chunk(unit: str, before: int) -> None:
    text = f"# 说明\n\n{(PROSE * 3)[:before]}。\n\n{unit}{PROSE}\n"
    assert any(unit.strip() in each for each in texts(text, chunk_size=130, chunk_overlap=0))


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_the_end_of_an_answer_is_not_in_a_chunk_with_the_next_question(gap: str) -> None:
    long, short = f"答：{PROSE * 5}", "答：是的。"
    text = f"# 问答\n\n问：甲在哪里？{gap}{long}{gap}问：乙好吗？{gap}{short}{gap}问：丙呢？{gap}"
    chunks = texts(text, chunk_overlap=0)
    assert any(each.startswith("问：乙好吗？") and "答：是的。" in each for each in chunks)
    text = f"# 问答\n\n问：甲在哪里？{gap}{long}{gap}问：丙呢？{gap}"
    assert any(each.startswith("问：丙呢？") for each in texts(text, chunk_overlap=0))


@pytest.mark.parametrize("size", range(200, 340, 20))
def test_what_cannot_be_with_a_whole_paragraph_is_with_its_last_sentence(size: int) -> None:
    code = "```bash\n" + "pip install yanshu\n" * 6 + "```\n"
    last = "默认不安装，启用的命令如下："
    nodes = parse(f"# 雁书\n\n## 安装\n\n{PROSE}{last}\n\n{code}\n{PROSE}\n", chunk_size=size, chunk_overlap=0)
    assert any(f"{last}\n\n{code}" in node.text for node in nodes)


def test_a_table_that_is_cut_begins_with_its_caption() -> None:
    for size in range(90, 200, 10):
        nodes = parse(f"# 参数\n\n{PROSE}\n\n表 3 各参数的取值\n\n{HEADER}{ROWS[:900]}", chunk_size=size)
        assert any(f"表 3 各参数的取值\n\n{HEADER}| 参数1 " in node.text for node in nodes)


def test_every_piece_of_an_html_table_shows_its_header_however_it_is_laid_out() -> None:
    head = "<tr><th>油品</th><th>首次</th></tr>"
    rows = "".join(f"    <tr><td>半合成油{i}</td><td>500 小时</td></tr>\n" for i in range(9))
    text = f"# 周期\n\n<table>\n  <thead>\n    {head}\n  </thead>\n  <tbody>\n{rows}  </tbody>\n</table>\n"
    for size in range(110, 300, 10):
        nodes = parse(text, chunk_size=size, chunk_overlap=0)
        assert all(head in each for node in nodes for each in shown(node))


# ------------------------------------------------------------------------------------------------ sections


def test_sections_are_packed_below_their_heading_and_say_what_they_are_in() -> None:
    text = "# 甲\n\n## 乙/丙\n\n一。\n\n## 丁\n\n二。\n\n# 戊\n\n三。\n"
    nodes = parse(text, chunk_size=80)
    assert [node.text for node in nodes] == ["# 甲\n\n## 乙/丙\n\n一。\n\n## 丁\n\n二。\n\n", "# 戊\n\n三。\n"] or len(
        nodes
    ) == 1
    nodes = parse(text, chunk_size=40)
    assert [json.loads(node.metadata["header_titles"]) for node in nodes] == [["甲", "乙/丙"], ["甲", "丁"], ["戊"]]
    assert [node.metadata["header_path"] for node in nodes] == ["/甲/乙/丙/", "/甲/丁/", "/戊/"]
    assert [node.metadata["heading_level"] for node in nodes] == [2, 2, 1]
    assert [(node.metadata["line_start"], node.metadata["line_end"]) for node in nodes] == [(1, 6), (7, 10), (11, 13)]


def test_a_subsection_is_not_in_a_chunk_with_a_section_above_it_even_if_the_document_fits() -> None:
    assert texts("## 乙\n\n一。\n\n# 甲\n\n二。\n", chunk_size=800) == ["## 乙\n\n一。\n\n", "# 甲\n\n二。\n"]


def test_a_document_of_headings_alone_is_packed() -> None:
    chunks = texts("".join(f"# {i}\n\n" for i in range(200)))
    assert len(chunks) < 30
    assert max(map(len, chunks)) <= 120


def test_lines_are_counted_as_markdown_counts_them() -> None:
    text = f"# 甲\r\n\r\n{PROSE}\r\n\r\n# 乙\r{PROSE}\r\n"
    assert [(node.metadata["line_start"], node.metadata["line_end"]) for node in parse(text, chunk_size=90)] == [
        (1, 4),
        (5, 6),
    ]


def test_a_piece_of_a_document_is_below_the_headings_that_its_metadata_names() -> None:
    document = Document(id_="a", text=f"# 甲\n\n## 乙\n\n{PROSE}\n\n### 丙\n\n{PROSE}\n\n# 丁\n\n{PROSE}\n")
    sections = StructuredMarkdownNodeParser(chunk_size=300)([document])
    nodes = StructuredMarkdownNodeParser(chunk_size=100, chunk_overlap=0)(sections)
    assert list(dict.fromkeys(node.metadata["header_path"] for node in nodes)) == ["/甲/乙/", "/甲/乙/丙/", "/丁/"]
    theirs = StructuredMarkdownNodeParser(chunk_size=150)(MarkdownNodeParser()([document]))
    assert list(dict.fromkeys(node.metadata["header_path"] for node in theirs))[-2:] == ["/甲/乙/丙/", "/丁/"]


@pytest.mark.parametrize(
    "secondary",
    [
        SemanticNodeParser(embed_model=LetterEmbedding(), unit="chars", max_size=90),
        HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=90),
        SlidingWindowNodeParser(chunk_size=60, chunk_overlap=0, unit="chars"),
    ],
    ids=["semantic", "hybrid", "sliding"],
)
def test_running_text_that_is_too_large_goes_through_the_secondary_parser(secondary) -> None:
    text = f"# 甲\n\n{PROSE * 6}\n\n{HEADER}{ROWS[:300]}"
    parser = StructuredMarkdownNodeParser(chunk_size=120, secondary_parser=secondary)
    assert flaws(parser, Document(text=text)) == []
    assert [node.text for node in parser([Document(text=text)])] != texts(text)


def test_pieces_of_a_paragraph_overlap_by_whole_sentences() -> None:
    nodes = parse(PROSE * 6, chunk_size=120, chunk_overlap=40)
    for before, after in pairwise(nodes):
        shared = before.end_char_idx - after.start_char_idx
        assert 0 < shared <= 40
        assert before.text[-shared - 1] in "。！"


def test_html_tables_make_a_document_markdown() -> None:
    rows = "".join(f"<tr><td>{i}</td><td>值</td></tr>\n" for i in range(30))
    nodes = parse(f"说明。\n\n<table>\n<tr><th>名</th><th>值</th></tr>\n{rows}</table>\n", chunk_size=200)
    assert all("<th>名</th>" in node.text + node.metadata.get("lead", "") for node in nodes if "<td>" in node.text)


# ------------------------------------------------------------------------------------------------ time

HOSTILE = {
    "table": lambda n: HEADER + "| 甲 | 乙 | 丙 |\n" * (n // 14),
    "fence": lambda n: "```python\n" + "x = 1\ny = f(x)\n" * (n // 15) + "```\n",
    "headings": lambda n: "".join(f"# h{i}\n\n" for i in range(n // 9)),
    "hashes": lambda n: "#" * n,
    "nested list": lambda n: "".join("  " * (i % 400) + "- 项目\n" for i in range(n // 50)),
    "one line": lambda n: "字" * n,
    "HTML table": lambda n: "<table>\n<tr><th>a</th></tr>\n" + "<tr><td>甲</td></tr>\n" * (n // 20) + "</table>\n",
    "HTML in one line": lambda n: "<table><tr><th>a</th></tr>" + "<tr><td>甲</td></tr>" * (n // 20) + "</table>\n",
    "spanned rows": lambda n: (
        "<table>\n<tr><th>a</th></tr>\n" + "<tr><td rowspan=0>甲</td></tr>\n" * (n // 31) + "</table>\n"
    ),
    "introduced code": lambda n: "甲是书。用法如下：\n\n```\na\n```\n\n" * (n // 25),
    "list of fences": lambda n: "- 项目：\n\n  ```\n  a\n  b\n  ```\n" * (n // 30),
    "questions": lambda n: "问：怎样？\n\n答：这样。\n\n" * (n // 14),
}


@pytest.mark.timeout(100)  # a second or two; minutes where work grows with the square
@pytest.mark.parametrize("name", HOSTILE)
def test_large_hostile_documents_come_to_an_end(name: str) -> None:
    text = HOSTILE[name](500_000)
    nodes = StructuredMarkdownNodeParser(chunk_size=800)([Document(text=text)])
    assert "".join(node.text for node in nodes) == text


def test_no_warning_without_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse("") == []
        assert [type(node) for node in parse("甲。")] == [TextNode]


def test_front_matter_stays_with_what_follows_it() -> None:
    text = "---\ntitle: T\n---\n\n# T\n\n## a\n\n正文。\n"
    assert [node.text for node in StructuredMarkdownNodeParser(chunk_size=800)([Document(text=text)])] == [text]


def test_a_table_as_word_processors_write_it_shows_its_first_row() -> None:
    rows = "".join(f"<tr><td>T{i}</td><td>v{i}</td></tr>" for i in range(60))
    text = f"# A\n\n<table><tr><td>型号</td><td>值</td></tr>{rows}</table>\n"
    first, *others = StructuredMarkdownNodeParser(chunk_size=300)([Document(text=text)])
    assert "型号" in first.text
    assert all("型号" in node.metadata["lead"] for node in others)


def test_a_sentence_that_fits_below_its_heading_is_not_cut() -> None:
    sentences = [
        "员工因病不能上班的，应在当天上班后 1 小时内告知直接主管。",
        "病假一天的，可以凭挂号记录或购药凭证申请；两天以上的，须提供二级以上医院出具的病假单。",
        "病假单应在返岗后 3 个工作日内上传，逾期未交的，按事假处理。",
    ]
    text = f"### 2.1 手续\n\n{''.join(sentences)}\n"
    nodes = StructuredMarkdownNodeParser(chunk_size=90, chunk_overlap=0)([Document(text=text)])
    assert all(sum(sentence in node.text for node in nodes) == 1 for sentence in sentences)


@pytest.mark.parametrize("patterns", ["GW-[0-9]+", [""], ["[", "a"]])
def test_patterns_are_a_list_of_patterns(patterns) -> None:
    with pytest.raises(ValueError, match=r"pass a list|no regular expression"):
        StructuredMarkdownNodeParser(protected_patterns=patterns)


def test_a_heading_a_page_long_is_not_said_whole_by_every_chunk() -> None:
    nodes = StructuredMarkdownNodeParser(chunk_size=800)([Document(text=f"# {'长' * 5000}\n\n正文。\n")])
    assert {len(json.loads(node.metadata["header_titles"])[0]) for node in nodes} == {300}
