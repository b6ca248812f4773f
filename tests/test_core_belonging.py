"""Which units belong together: procedures, questions and answers, examples, what a colon introduces, captions."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.belonging import _PROSE, _labelled, _look, _marked, ties
from llama_index_chunking_plus.core.spans import Span, spans_between


def tied(units: list[str]) -> list[tuple[int, int]]:
    """The ties as first and last unit; each unit is a paragraph."""
    text, ends = "", []
    for unit in units:
        text += unit + "\n\n"
        ends.append(len(text))
    spans = spans_between(ends)
    starts = {span.start: i for i, span in enumerate(spans)}
    stops = {span.end: i for i, span in enumerate(spans)}
    return [(starts[start], stops[end]) for start, end in ties(text, spans)]


CASES: dict[str, tuple[list[str], list[tuple[int, int]]]] = {
    # ---- procedures
    "steps by word": (["概述。", "步骤1 拆下外壳。", "步骤2 取出电池。", "步骤3 装回外壳。", "完毕。"], [(1, 3)]),
    "steps in Chinese numerals": (["步骤一：登录。", "步骤二：点击导出。", "以上。"], [(0, 1)]),
    "first, second": (["第一步，称量样品。", "第二步，加入溶剂。", "第三步，过滤。"], [(0, 2)]),
    "English steps": (["Step 1: Unplug it.", "Step 2: Open the lid.", "That is all."], [(0, 1)]),
    "numbers with a dot": (["1. 打开阀门。", "2. 排空管道。", "3. 关闭阀门。", "无关的一段。"], [(0, 2)]),
    "half brackets": (["1) 备份", "2) 升级", "3) 重启"], [(0, 2)]),
    "brackets": (["（1）核对编号；", "（2）签字；", "其他事项。"], [(0, 1)]),
    "brackets with Chinese numerals": (["（一）身份证明；", "（二）收入证明。"], [(0, 1)]),
    "circled": (["① 预热", "② 投料", "③ 保温"], [(0, 2)]),
    "the line that introduces": (["更换滤芯的方法如下：", "1. 关水。", "2. 拧下旧滤芯。"], [(0, 2), (0, 1)]),
    "numbers that do not count on": (["1. 甲", "3. 丙"], []),
    "a new count begins a new procedure": (["1. 甲", "2. 乙", "1. 丙", "2. 丁"], [(0, 1), (2, 3)]),
    "a single step is none": (["1. 只有一步。", "后文。"], []),
    "named steps with text between": (
        ["步骤1 下载", "安装包约 20 MB。", "步骤2 安装", "双击即可。", "步骤3 启动"],
        [(0, 4)],
    ),
    "code between steps": (["1. 安装依赖", "```sh\npip install x\n```", "2. 启动", "```sh\nrun\n```"], [(0, 2)]),
    "a note between steps": (["1. 断电", "注意：等待五分钟。", "2. 开盖"], [(0, 2)]),
    "indented text between steps": (["1. 断电", "   等待五分钟。", "2. 开盖"], [(0, 2)]),
    "plain text between numbers: sections, no procedure": (["1. 背景", "市场在增长。", "2. 目标", "降低成本。"], []),
    "everything indented alike is no aside": (["　　1. 背景", "　　市场在增长。", "　　2. 目标"], []),
    "steps inside steps": (["1. 准备", "(1) 清点", "(2) 登记", "2. 开工"], [(0, 3), (1, 2)]),
    "a heading ends a procedure": (["步骤1 甲", "## 其他", "步骤2 乙"], []),
    "a list as one unit counts by its last line": (["1. 甲\n2. 乙\n3. 丙", "4. 丁"], [(0, 1)]),
    "decimals are no steps": (["1.5 倍以上", "2.5 倍以上"], []),
    "a year is no step": (["2023、2024 两年增长。", "2024、2025 两年持平。"], []),
    # ---- questions and answers
    "question and answer": (["问：几天到货？", "答：三天。"], [(0, 1)]),
    "two pairs stay two": (["问：几天到货？", "答：三天。", "问：能退吗？", "答：能。"], [(0, 1), (2, 3)]),
    "English": (["Q: How long?", "A: Three days.", "Q: Refunds?", "A: Yes."], [(0, 1), (2, 3)]),
    "numbered": (["Q1: 多久？", "A1: 三天。", "Q2. 能退吗？", "A2. 能。"], [(0, 1), (2, 3)]),
    "long labels": (["问题1：多久？", "回答：三天。", "Question 2: Refunds?", "Answer: Yes."], [(0, 1), (2, 3)]),
    "bold labels": (["**Q：** 多久？", "**A：** 三天。"], [(0, 1)]),
    "the answer goes on to the next question": (
        ["问：多久？", "答：三天。", "偏远地区五天。", "问：能退吗？", "答：能。"],
        [(0, 2), (0, 1), (3, 4)],
    ),
    "the answer goes on to a heading": (
        ["问：多久？", "答：三天。", "节假日顺延。", "## 联系我们", "电话见官网。"],
        [(0, 2), (0, 1)],
    ),
    "an answer is not tied to the next question": (
        ["问：含什么？", "答：包含：", "问：能退吗？", "答：能。"],
        [(0, 1), (2, 3)],
    ),
    "nor is the end of a long answer": (
        ["问：含什么？", "答：见下。", "另有：", "问：能退吗？", "答：能。"],
        [(0, 2), (0, 1), (3, 4)],
    ),
    "an answer without a label": (["问：能退吗？", "可以，七天之内。", "其他说明。"], [(0, 1)]),
    "an answer without a question": (["答：三天。", "后文。"], []),
    "a procedure in an answer": (
        ["问：怎么退？", "答：如下：", "1. 申请", "2. 寄回", "## 其他"],
        [(0, 3), (0, 2), (0, 1)],
    ),
    "what introduces the first question": (["常见问题：", "问：多久？", "答：三天。"], [(0, 2), (0, 1)]),
    # ---- definitions and examples
    "definition and example": (
        ["召回率是找到的占应找到的比例。", "例如，十条找到八条，召回率为 80%。", "后文。"],
        [(0, 1)],
    ),
    "another word for it": (["闰年有 366 天。", "比如 2024 年。"], [(0, 1)]),
    "an example with a label": (["幂等指重复执行结果不变。", "例：删除同一个文件。"], [(0, 1)]),
    "English example": (["A palindrome reads the same both ways.", "For example, level."], [(0, 1)]),
    "e.g.": (["Use a short name.", "e.g. run.py"], [(0, 1)]),
    "two examples": (["定义。", "例如甲。", "又如乙。", "例如丙。"], [(0, 1), (2, 3)]),
    "examples in a row": (["定义。", "例如甲。", "例如乙。"], [(0, 2), (0, 1)]),
    "an example below a heading is tied to nothing": (["## 示例", "例如甲。"], []),
    "例外 is no example": (["一般应当申报。", "例外情形见附件。"], []),
    # ---- what a colon introduces
    "a list": (["需要以下材料：", "- 身份证", "- 户口本", "窗口受理。"], [(0, 2), (0, 1)]),
    "a table": (["费用如下:", "| 项目 | 元 |\n|---|---|\n| 挂号 | 5 |", "后文。"], [(0, 1)]),
    "code": (["运行：", "```sh\nmake\n```"], [(0, 1)]),
    "bold": (["**注意事项：**", "勿近火源。"], [(0, 1)]),
    "not what is below the next heading": (["详情：", "# 附录"], []),
    "a colon inside": (["时间：上午九点", "地点：三楼"], []),
    # ---- captions
    "above a table": (["前文。", "表1 各月销量", "| 月 | 量 |\n|---|---|\n| 1 | 9 |", "后文。"], [(1, 2)]),
    "above a table in English": (["Table 1: Sales by month", "| M | N |\n|---|---|\n| 1 | 9 |"], [(0, 1)]),
    "below a figure": (["![流程](a.png)", "图2 处理流程", "后文。"], [(0, 1)]),
    "above a figure": (["图 2-1：处理流程", "![流程](a.png)"], [(0, 1)]),
    "between two tables: of the one below": (["| a | b |\n|---|---|", "表2 乙", "| c | d |\n|---|---|"], [(1, 2)]),
    "between two figures: of the one above": (["![a](a.png)", "图1 甲", "![b](b.png)", "图2 乙"], [(0, 1), (2, 3)]),
    "an HTML table": (["附表3　费率", "<table><tr><td>1</td></tr></table>"], [(0, 1)]),
    "a sentence about a table": (["表1 列出了各月销量。", "| 月 | 量 |\n|---|---|"], []),
    "English sentence about a table": (["Table 1 shows the sales by month", "| M | N |\n|---|---|"], []),
    "a caption with nothing near": (["前文。", "表1 各月销量", "后文。"], []),
    "lines of a table": (["| 月 | 量 |", "|---|---|", "| 1 | 9 |", "后文。"], [(0, 2)]),
    "intro, caption and table": (["见下表：", "表1 各月销量", "| 月 | 量 |\n|---|---|"], [(0, 2), (0, 1)]),
    # ---- nothing
    "prose": (["春天来了。", "花开了。", "人们出门。"], []),
    "one unit": (["步骤1 甲"], []),
    "none": ([], []),
}


@pytest.mark.parametrize("name", CASES)
def test_these_belong_together(name: str) -> None:
    units, expected = CASES[name]
    assert tied(units) == expected


def test_lines_with_windows_newlines_are_units_too() -> None:
    text = "安装：\r\n1. 打开\r\n2. 关闭\r\n\r\n完成。"
    spans = [Span(0, 5), Span(5, 12), Span(12, 21), Span(21, len(text))]
    assert [span.of(text) for span in ties(text, spans)] == [text[:21], text[:12]]


def test_blank_units_and_gaps_do_not_count() -> None:
    text = "步骤1 甲\n\n\n步骤2 乙"
    assert ties(text, [Span(0, 6), Span(6, 7), Span(7, 7), Span(8, len(text))]) == [Span(0, len(text))]


UNITS = st.lists(
    st.sampled_from(
        [
            "1. 甲",
            "2. 乙：",
            "3. 丙",
            "(1) 子",
            "(2) 丑",
            "问：何时？",
            "答：明天：",
            "例如丁。",
            "如下：",
            "| a | b |",
            "表1 戊",
            "- 己",
            "# 庚",
            "辛。",
        ]
    ),
    max_size=14,
)


@settings(max_examples=400, deadline=None)
@given(UNITS)
def test_a_tie_lies_in_another_or_beside_it(units: list[str]) -> None:
    found = tied(units)
    assert found == sorted(set(found), key=lambda tie: (tie[0], -tie[1]))
    assert all(first < last or units[first].startswith("问") for first, last in found)
    assert all(a[1] < b[0] or b[1] <= a[1] for a, b in combinations(found, 2))


@settings(max_examples=200, deadline=None)
@given(UNITS)
def test_no_tie_holds_a_question_and_the_end_of_another_answer(units: list[str]) -> None:
    for first, last in tied(units):
        asked = [i for i in range(first, last + 1) if units[i].startswith("问")]
        assert len(asked) <= 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.integers(1, 7))
def test_any_text_in_any_pieces(text: str, size: int) -> None:
    spans = [Span(i, min(i + size, len(text))) for i in range(0, len(text), size)]
    bounds = {position for span in spans for position in span}
    assert all(start in bounds and end in bounds for start, end in ties(text, spans))


BEGINNINGS = [
    *(
        "",
        "  ",
        "\u3000",
        "\n",
        "**",
        "> ",
        "# ",
        "第一章",
        "第3步",
        "Chapter 3",
        "Chapter 3.",
        "步骤2 ",
        "Step 1 ",
        "1. ",
        "（二）",
    ),
    *(
        "一、",
        "③",
        "问：",
        "Q:",
        "答：",
        "A: ",
        "例如",
        "以此为例",
        "Example: ",
        "表1 ",
        "图 2：",
        "Fig. 3: ",
        "![",
        "<table>",
        "<IMG",
    ),
    *("[图", "【图", "```", "~~~", "---", "===", "- ", "•", "|", "注意", "Note", "说明：", "a\t", "a | b", "\u2028"),
]


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(BEGINNINGS) | st.text("字a1。.：:|*- \t\n\u2028", max_size=4), min_size=1, max_size=6))
def test_a_unit_without_a_mark_looks_the_same_to_all_patterns(parts: list[str]) -> None:
    unit = "".join(parts)
    bare = unit.strip()
    if bare:
        label = bare[:200].lstrip(" \t\u3000\ufeff*_>#")
        plain = _PROSE._replace(introduces=_look(unit).introduces)
        assert _look(unit) == _labelled(_marked(plain, unit, bare), bare, label)


@pytest.mark.timeout(100)  # far under a second each; many minutes where work grows with the square
@pytest.mark.parametrize("unit", ["1. 甲", "例如乙", "问：丙", "如下：", "- 丁：", "|", "(1) x", "步骤1 " + "一" * 40])
def test_long_runs_of_one_kind_come_to_an_end(unit: str) -> None:
    text, size = (unit + "\n") * 100_000, len(unit) + 1
    tied = ties(text, [Span(i * size, (i + 1) * size) for i in range(100_000)])
    assert all(start % size == end % size == 0 for start, end in tied)


@pytest.mark.parametrize(
    "units,expected",
    [
        (["问：何时？"], [(0, 0)]),
        (["问：何时？\n答：今天。", "另见下文。", "问：何处？"], [(0, 1), (0, 0), (2, 2)]),
    ],
)
def test_a_question_is_kept_apart_even_where_its_answer_is_in_its_own_unit_or_missing(units, expected) -> None:
    assert tied(units) == expected
