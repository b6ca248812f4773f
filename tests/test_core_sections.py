"""From blocks to chunks, without LlamaIndex: where a document is cut, and what is shown around a piece."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.markdown import markdown_blocks
from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.sections import Chunk, Layout, Limits, closing_template
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.sizing import CallableSizer, CharacterSizer, Ruler, Sizer
from llama_index_chunking_plus.core.spans import Span, is_partition
from llama_index_chunking_plus.core.words import Vocabulary

FREE = {"path_size": lambda _: 0, "lead_size": lambda _: 0, "tail_size": lambda _: 0}


def units(piece: str, ruler: Ruler, limit: int) -> Units:
    return units_that_fit(piece, ChineseSentenceTokenizer().ends(piece), ruler, limit, Vocabulary())


def layout(text: str, size: int, overlap: int = 0, sizer: Sizer | None = None, **options: Any) -> Layout:
    protected, edges = options.pop("protected", []), options.pop("edges", [])
    ruler = (sizer or CharacterSizer()).ruler(text)
    limits = Limits(size, overlap, **{**FREE, **options})
    return Layout(text, markdown_blocks(text), ruler, limits, protected, units, edges)


def cut(text: str, size: int, **options: Any) -> list[str]:
    return [chunk.span.of(text) for chunk in layout(text, size, **options).chunks()]


def lead(text: str, chunk: Chunk) -> str:
    return "".join(span.of(text) for span in chunk.lead)


@pytest.mark.parametrize(
    "text,size,expected",
    [
        pytest.param("", 9, [], id="nothing"),
        pytest.param("# 甲\n一。\n# 乙\n二。\n", 20, ["# 甲\n一。\n# 乙\n二。\n"], id="all fits"),
        pytest.param("# 甲\n一。\n# 乙\n二。\n", 8, ["# 甲\n一。\n", "# 乙\n二。\n"], id="at headings"),
        pytest.param("## 甲\n一。\n# 乙\n二。\n", 20, ["## 甲\n一。\n", "# 乙\n二。\n"], id="at a higher heading"),
        pytest.param(
            "# 甲\n## 乙\n一。\n## 丙\n二。\n", 13, ["# 甲\n## 乙\n一。\n", "## 丙\n二。\n"], id="subsections"
        ),
        pytest.param("一。\n\n---\n\n# 甲\n二。\n", 14, ["一。\n\n", "---\n\n# 甲\n二。\n"], id="a rule"),
        pytest.param("一。\n\n# 甲\n", 9, ["一。\n\n# 甲\n"], id="a heading above nothing"),
    ],
)
def test_where_a_document_is_cut(text: str, size: int, expected: list[str]) -> None:
    assert cut(text, size) == expected


def test_what_is_cut_off_a_table_or_a_fence_has_a_lead_and_a_tail() -> None:
    text = "| a |\n|---|\n" + "| 一 |\n" * 9 + "\n```py\n" + "x = 1\n" * 9 + "```\n"
    chunks = layout(text, 30).chunks()
    assert is_partition([chunk.span for chunk in chunks], len(text))
    assert {lead(text, chunk) for chunk in chunks if chunk.span.of(text).startswith("| 一")} == {"| a |\n|---|\n"}
    assert {lead(text, chunk) for chunk in chunks if chunk.span.of(text).startswith("x")} == {"```py\n"}
    code = [chunk for chunk in chunks if "x =" in chunk.span.of(text)]
    assert [chunk.tail for chunk in code] == ["```"] * (len(code) - 1) + [""]
    assert [chunk.span.of(text) for chunk in code][-1].endswith("```\n")


def test_a_line_of_code_is_never_parted_from_its_closing_fence() -> None:
    for size in range(20, 40):
        assert not any(chunk.strip() == "```" for chunk in cut("```\n" + "abcdef\n" * 9 + "```\n\n完。\n", size))


def test_a_lead_that_takes_half_of_the_chunk_is_left_out_and_of_a_long_fence_its_mark_stays() -> None:
    table = "| 一二三四五六七八九十 |\n|---|\n" + "| 一 |\n" * 9
    assert {lead(table, chunk) for chunk in layout(table, 30, lead_size=len).chunks()} == {""}
    code = "```python title=一二三四五六七八九十\n" + "x = 1\n" * 9 + "```\n"
    chunks = layout(code, 40, lead_size=len).chunks()
    assert {lead(code, chunk) for chunk in chunks[1:]} == {"```"}


@pytest.mark.parametrize("before", ["- 甲\n\n  ", "> "])
def test_a_fence_and_a_table_inside_of_a_list_or_a_quote_have_leads(before: str) -> None:
    indent = "> " if before == "> " else "  "
    code = f"{before}```\n" + f"{indent}x = 1\n" * 20 + f"{indent}```\n"
    table = f"{before}| a |\n{indent}|---|\n" + f"{indent}| 一 |\n" * 20
    for text, opening in ((code, "```"), (table, "|---|")):
        chunks = layout(text, 60).chunks()
        assert len(chunks) > 2
        assert all(opening in lead(text, chunk) for chunk in chunks[1:])
    tails = [chunk.tail for chunk in layout(code, 60).chunks()]
    assert tails == [f"{indent}```"] * (len(tails) - 1) + [""]


def test_no_cut_parts_a_carriage_return_from_its_newline() -> None:
    text = "- 甲\r\n\r\n  ```\r\n" + "  x = 1\r\n" * 9 + "  ```\r\n"
    for size in range(12, 60):
        assert not any(chunk.startswith("\n") for chunk in cut(text, size))


def test_what_is_kept_is_known_before_the_document_is_cut() -> None:
    text = "一。\n\n| a |\n|---|\n" + "| 一 |\n" * 9 + "\n二。\n"
    kept = layout(text, 20, kept=10**6)
    assert [span.of(text).count("一") for span in kept.kept] == [9]
    assert sum("| a |" in chunk.span.of(text) and chunk.span.of(text).count("一") >= 9 for chunk in kept.chunks()) == 1
    assert layout(text, 20).kept == []


def test_the_range_of_running_text_is_cut_where_another_parser_wants_it_but_not_in_what_stays_whole() -> None:
    text = "# 甲\n\n" + "一二三四五。" * 6 + "\n\n二。\n"
    parts = layout(text, 30)
    assert [span.of(text) for span in parts.prose()] == ["一二三四五。" * 6 + "\n\n"]
    assert [chunk.span.start for chunk in parts.chunks([11, 23])][:3] == [0, 11, 23]
    guarded = layout(text, 30, protected=[Span(8, 20)])
    assert 11 not in [chunk.span.start for chunk in guarded.chunks([11, 23])]


def test_links_code_and_formulas_in_a_line_are_not_cut() -> None:
    atom = "`一。二。三。`"
    for n in range(20):
        text = "甲。" * n + atom + "乙。" * 9
        assert sum(atom in chunk for chunk in cut(text, 20)) == 1


def test_a_template_takes_over_no_tail_of_another_one() -> None:
    closed = closing_template("{metadata_str}\n\n{content}", "x = 1\n", "```")
    assert closed == "{metadata_str}\n\n{content}```"
    assert closing_template(closed, "x", "~~~~") == "{metadata_str}\n\n{content}\n~~~~"
    assert closing_template(closed, "x", "") == "{metadata_str}\n\n{content}"


HEAD = "  <thead>\n    <tr><th>油品</th><th>首次</th></tr>\n  </thead>\n  <tbody>\n"
BARE = "<tr><th>油品</th><th>首次</th></tr>"
END = "  </tbody>\n</table>\n"


def test_of_a_header_that_takes_too_much_room_the_rows_alone_are_shown() -> None:
    rows = "".join(f"    <tr><td>半合成油{i}</td><td>500 小时</td></tr>\n" for i in range(6))
    text = f"<table>\n{HEAD}{rows}{END}"
    for size in range(2 * len(BARE), 240):
        chunks = layout(text, size, lead_size=len).chunks()
        shown = {lead(text, chunk) for chunk in chunks if "<td>" in chunk.span.of(text) and chunk.span.start}
        assert shown == {HEAD.strip(" ") + "    " if size >= 2 * len(HEAD.strip(" ") + "    ") else BARE}


def test_no_chunk_of_an_html_table_holds_nothing_but_the_tags_around_its_first_row() -> None:
    rows = "    <tr><td>半合成油</td><td>500 小时</td></tr>\n" * 4
    text = f"# 周期\n\n<table>\n{HEAD}{rows}{END}"
    for size in range(120, 240):
        chunks = [chunk.span.of(text) for chunk in layout(text, size, lead_size=len).chunks()]
        assert all("油" in chunk for chunk in chunks)


SPANNED = '<tr><td rowspan="2">{0}</td><td>冬</td></tr>\n<tr><td>夏</td></tr>\n'


def test_rows_that_a_cell_spans_stay_together_while_they_fit_and_else_show_the_row_that_names_them() -> None:
    groups = [SPANNED.format(name * 4) for name in "甲乙丙丁"]
    head = "<tr><th>名</th><th>季</th></tr>\n"
    text = f"<table>\n{head}{''.join(groups)}</table>\n"
    for size in range(2 * len(head), 300):
        chunks = layout(text, size).chunks()
        fit = size >= len(head) + len(groups[0]) + len("<table>\n</table>\n")
        for chunk in chunks:
            held = chunk.span.of(text)
            assert not fit or held.count("冬") == held.count("夏")
            if held.startswith("<tr><td>夏"):
                first = text.rindex("<tr><td rowspan", 0, chunk.span.start)
                assert lead(text, chunk).endswith(text[first : chunk.span.start])


@pytest.mark.parametrize("above", ["", "# 甲\n\n", "# 甲\n\n## 乙丙\n\n"])
def test_the_header_of_a_table_is_in_one_piece_while_it_fits_with_a_row(above: str) -> None:
    for newline in ("\n", "\r\n"):
        whole = f"机型 | 截面（铜芯） | 空气开关 | 接地线{newline}--- | --- | --- | ---{newline}"
        row = f"甲 | 10 | 63 | 10{newline}"
        text = f"{above.replace(chr(10), newline)}{whole}{row * 9}"
        for size in range(len(whole) + len(row), 150):
            assert any(whole in chunk for chunk in cut(text, size))


SHOWN = {
    "code": "```\n" + "x = 1\n" * 5 + "```\n",
    "table": "| a |\n|---|\n" + "| 一 |\n" * 5,
    "formula": "$$\n" + "x = 1\n" * 5 + "$$\n",
}


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("last", ["它的用法如下：", "For example:"])
def test_what_is_shown_stays_with_the_sentence_that_introduces_it(kind: str, last: str) -> None:
    text = f"甲是书。乙也是书。{last}\n\n{SHOWN[kind]}\n完。\n"
    together = f"{last}\n\n{SHOWN[kind]}"
    for size in range(len(together) + 1, len(text) + 3):
        assert any(together in chunk for chunk in cut(text, size))


@pytest.mark.parametrize(
    "kind,before", [("code", "清单 2 重试"), ("table", "表 3 限值"), ("formula", "记作："), ("table", "如下：")]
)
def test_what_is_cut_begins_with_what_introduces_it(kind: str, before: str) -> None:
    shown = SHOWN[kind].replace("x = 1\n", "x = 1\n" * 9).replace("| 一 |\n", "| 一 |\n" * 9)
    text = f"{'甲是书。' * 5}\n\n{before}\n\n{shown}\n"
    for size in range(40, 120):
        (chunk,) = (chunk for chunk in cut(text, size) if before in chunk)
        assert len(chunk[chunk.index(before) :].splitlines()) > 4
    for size in range(len(shown) + 1, len(shown) + 1 + len(before)):  # not torn for it
        assert any(shown in chunk for chunk in cut(text, size))


def test_a_definition_stays_with_the_first_sentence_of_its_example() -> None:
    before = "定义 1 甲与乙之比，记作：\n\n$$\nx = 1\n$$\n\n例如，甲为 3。"
    text = f"{before}其余的条件不变。\n\n定义 2 丙与丁之和。\n"
    for size in range(len(before), len(text) + 1):
        assert any(before in chunk for chunk in cut(text, size))


@pytest.mark.parametrize(
    "whole",
    [
        "问：甲在哪里？\n\n答：甲在山下。\n\n",
        "甲如下：\n\n$$\nx = 1\n$$\n\n",
        "| a |\n|---|\n| 一 |\n\n",
        "1. 一。\n2. 二。\n\n",
    ],
    ids=["answer", "formula", "table", "steps"],
)
def test_headings_above_nothing_tear_nothing_before_them(whole: str) -> None:
    for end in ("# 丁\n", "# 丁\n\n# 戊\n\n", "---\n\n# 丁\n", "<!-- 注 -->\n\n# 丁\n"):
        text = f"# 丁\n\n{whole}{end}"
        for size in range(len(whole) + len("# 丁\n\n"), len(text) + 2):
            chunks = cut(text, size)
            assert any(whole in chunk for chunk in chunks)
            assert len(chunks) == (1 if size >= len(text) else 2)


MARKS = [
    "# 甲\n",
    "## 乙\n",
    "字。",
    "很长的一句话，没有完。",
    "\n\n",
    "- 项\n",
    "| a |\n|---|\n",
    "| 一 |\n",
    "```\n",
    "x\n",
    "$$\n",
    "> 引\n",
    "问：？\n",
    "答：。\n",
    "1. 步\n",
    "---\n",
]


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(st.sampled_from(MARKS), max_size=60).map("".join),
    size=st.integers(4, 60),
    overlap=st.integers(0, 20),
    kept=st.sampled_from([0, 10**6]),
    data=st.data(),
)
def test_chunks_of_any_text_cover_it_in_order_and_are_bounded(text, size, overlap, kept, data) -> None:
    protected = [Span(*pair) for pair in pairwise(sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4))))][
        ::2
    ]
    sizer = data.draw(st.sampled_from([CharacterSizer(), CallableSizer(lambda piece: len(piece.encode()))]))
    limit = size if isinstance(sizer, CharacterSizer) else 4 * size
    parts = layout(text, limit, min(overlap, limit // 2), sizer, kept=kept, protected=protected)
    spans = [
        chunk.span
        for chunk in parts.chunks(
            data.draw(st.lists(st.integers(1, max(1, len(text) - 1)), max_size=5)) if text else []
        )
    ]
    assert "".join(text[span.start : span.end] for span in spans)[:1] == text[:1]
    cursor = 0
    for span in spans:
        assert span.start <= cursor < span.end
        cursor = span.end
        held = any(span.start <= whole.start and whole.end <= span.end for whole in parts.kept)
        assert held or sizer.size(span.of(text)) <= limit
    assert cursor == len(text)


# -- levels of one document


LONG = "# 甲\n\n" + "一二三四五。" * 12 + "\n\n" + "六七八九十。" * 12 + "\n"


def spans_of(chunks: list[Chunk]) -> list[Span]:
    return [chunk.span for chunk in chunks]


def inside(spans: list[Span], text: str, edges: list[int]) -> bool:
    return all(not span.start < edge < span.end for span in spans for edge in edges) and is_partition(spans, len(text))


def test_no_chunk_reaches_over_an_edge_even_where_it_would_fit() -> None:
    for edges in ([], [5], [11, 40, 80], [1, 2, 3], [len(LONG) - 1]):
        spans = spans_of(layout(LONG, 60, edges=edges).chunks())
        assert inside(spans, LONG, edges)
        assert {*edges} <= {span.start for span in spans}
    assert len(layout(LONG, 10**4, edges=[20, 50]).chunks()) == 3


def test_a_topic_begins_a_chunk_and_its_headings_go_along() -> None:
    text = "# 甲\n\n一二三。四五六。七八九。\n\n## 乙\n\n一二三。四五六。\n\n七八九。\n"
    in_paragraph, in_section = text.index("四五六"), text.index("一二三", 20)
    chunks = layout(text, 16).chunks(topics=[in_paragraph, in_section])
    starts = {chunk.span.start for chunk in chunks}
    assert in_paragraph in starts
    assert text.index("## 乙") in starts
    assert in_section not in starts


def test_a_topic_tears_nothing_that_stays_whole() -> None:
    table = "| a |\n|---|\n| 一 |\n"
    text = f"一二三。`a。b`四五六。\n\n{table}\n七八九。\n"
    within = [text.index("b`"), text.index("|---"), text.index("| 一")]
    assert not {*within} & {chunk.span.start for chunk in layout(text, 28).chunks(topics=within)}


def test_what_falls_short_is_put_together_or_evened_out() -> None:
    for n in range(2, 40):
        text = "一二三四五。" * n
        sizes = [len(chunk.span.of(text)) for chunk in layout(text, 60, least=24).chunks()]
        assert sum(sizes) == len(text)
        assert max(sizes) <= 60
        assert len(sizes) == 1 or min(sizes) >= 24


def test_a_short_paragraph_goes_with_the_one_before_but_not_over_a_heading_or_a_topic() -> None:
    introduced = "一二三四五六七八。\n\n如下：\n\n```\n" + "abcdef\n" * 4 + "```\n"
    assert cut(introduced, 36) == ["一二三四五六七八。\n\n", "如下：\n\n", "```\nabcdef\nabcdef\nabcdef\nabcdef\n```\n"]
    assert cut(introduced, 36, least=10)[0] == "一二三四五六七八。\n\n如下：\n\n"
    headed = "一。\n\n# 甲\n\n" + "二三四五六。" * 6 + "\n"
    assert cut(headed, 45, least=20)[0] == "一。\n\n"
    topics = "一二三四五。" * 10
    spans = spans_of(layout(topics, 48, least=20).chunks(topics=[12]))
    assert spans[0] == Span(0, 12)


def test_an_answer_is_not_evened_out_with_the_next_question() -> None:
    text = "问：一？\n\n答：" + "二三四五六。" * 8 + "\n\n问：七？\n\n答：八。\n"
    for size in range(24, 60):
        for chunk in cut(text, size, least=size // 2):
            assert chunk.startswith("问") or "问：" not in chunk


def test_an_atomic_block_is_kept_up_to_its_own_limit_and_not_where_an_edge_tears_it() -> None:
    table = "| a |\n|---|\n" + "| 一 |\n" * 9
    text = f"一。\n\n{table}\n二。\n"
    kept = layout(text, 20, kept=len(table) + 1)
    assert [span.of(text).strip() for span in kept.kept] == [table.strip()]
    assert any(table in chunk.span.of(text) for chunk in kept.chunks())
    assert layout(text, 20, kept=len(table) - 2).kept == []
    torn = layout(text, 20, kept=10**3, edges=[text.index("| 一") + 12])
    assert torn.kept == []
    assert max(len(chunk.span.of(text)) for chunk in torn.chunks()) <= 20


def test_large_sections_are_those_that_no_heading_and_no_edge_parts() -> None:
    text = f"{LONG}\n# 乙\n\n一。\n\n## 丙\n\n{'七八九。' * 20}\n"
    assert [span.of(text).split("\n")[0] for span in layout(text, 60).large_sections()] == ["# 甲", "## 丙"]
    assert layout(text, 10**4).large_sections() == []
    edge = text.index("六七")
    assert edge in {span.start for span in layout(text, 60, edges=[edge]).large_sections()}


def test_each_sentence_is_a_chunk_that_keeps_its_headings() -> None:
    text = "# 甲\n\n一二。三四。\n\n- 五。六。\n- 七。\n\n## 乙\n\n---\n\n八。\n\n```\nx = 1\n\ny = 2\n```\n\n## 丙\n"
    parts = [chunk.span.of(text) for chunk in layout(text, 40).sentences()]
    assert "".join(parts) == text
    assert [part.strip() for part in parts] == [
        "# 甲\n\n一二。",
        "三四。",
        "- 五。",
        "六。",
        "- 七。",
        "## 乙\n\n---\n\n八。",
        "```\nx = 1\n\ny = 2\n```\n\n## 丙",
    ]


def test_no_sentence_is_above_the_limit() -> None:
    text = "# 甲\n\n" + "一二三四五六七八九十" * 9 + "。一。\n\n" + "| 一二三 |\n|---|\n| 四 |\n" * 3
    chunks = layout(text, 24).sentences()
    assert is_partition(spans_of(chunks), len(text))
    assert max(len(chunk.span.of(text)) for chunk in chunks) <= 24
    assert layout("", 24).sentences() == []


@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(st.sampled_from(MARKS), max_size=60).map("".join),
    sizes=st.lists(st.integers(4, 90), min_size=2, max_size=3, unique=True),
    share=st.integers(0, 90),
    data=st.data(),
)
def test_a_finer_layout_finds_the_same_whether_it_is_told_of_the_coarser_one(text, sizes, share, data) -> None:
    blocks, ruler = markdown_blocks(text), CharacterSizer().ruler(text)
    edges: list[int] = []
    kept, coarser = 0, None
    for size in sorted(sizes, reverse=True):
        limits = Limits(size, 0, least=size * share // 100, kept=kept, **FREE)
        alone = Layout(text, blocks, ruler, limits, [], units, edges)
        told = Layout(text, blocks, ruler, limits, [], units, edges, coarser)
        topics = data.draw(st.lists(st.integers(0, max(len(text) - 1, 0)), max_size=4)) if text else []
        chunks = told.chunks(topics=topics)
        assert chunks == alone.chunks(topics=topics)
        assert inside(spans_of(chunks), text, edges)
        for span in spans_of(chunks):
            whole = any(span.start <= each.start and each.end <= span.end for each in told.kept)
            assert len(span.of(text)) <= size or whole
        edges, kept, coarser = [chunk.span.end for chunk in chunks[:-1]], size, told
