"""Numbered structure of plain text: what opens a section and how deep, what is a list, and what only looks like a number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core.blocks import BlockKind
from llama_index_chunking_plus.core.numbered import numbered_blocks, ordinal, paragraph_blocks, structure_of
from llama_index_chunking_plus.core.spans import is_partition


def outline(text: str) -> list[str]:
    """The sections with their depth: "2 第三条" is an article with its text on the line, "2# 第三条 定义" a heading."""
    return [
        f"{block.level}{'#' if block.kind is BlockKind.HEADING else ''} {block.title}"
        for block in numbered_blocks(text)
        if block.level
    ]


def kinds(text: str) -> list[str]:
    return [block.kind.value for block in numbered_blocks(text)]


LAW = """中华人民共和国示例法

第一编　总　　则
第一章　一般规定
　　第一条　为了规范示例行为，制定本法。
　　第二条　本法所称示例，包括：
　　（一）举例；
　　（二）示范。
　　依照第三条规定办理的，不在此限。
第二章　示例的种类
第一节　文字示例
　　第三条　文字示例应当清楚。
第二节　图形示例
　　第四条　图形示例应当注明来源。
第二编　附　　则
　　第一百零三条　本法自公布之日起施行。
"""

OUTLINES: dict[str, tuple[str, list[str]]] = {
    # ---- laws
    "a law": (
        LAW,
        [
            "1# 第一编 总则",
            "2# 第一章 一般规定",
            "3 第一条",
            "3 第二条",
            "2# 第二章 示例的种类",
            "3# 第一节 文字示例",
            "4 第三条",
            "3# 第二节 图形示例",
            "4 第四条",
            "1# 第二编 附则",
            "2 第一百零三条",
        ],
    ),
    "articles alone": ("第一条 甲方供货。\n第二条 乙方付款。\n", ["1 第一条", "1 第二条"]),
    "an article with a title and text below": (
        "第十二条 违约责任\n违约的一方应当赔偿。\n第十三条 争议解决\n由法院管辖。",
        ["1# 第十二条 违约责任", "1# 第十三条 争议解决"],
    ),
    "an article with its number alone": ("第一条\n甲方供货。\n第二条\n乙方付款。", ["1# 第一条", "1# 第二条"]),
    "an inserted article": ("第二十条之一 新增的义务，从其规定。", ["1 第二十条之一"]),
    "no space after the number": (
        "第一条为了规范管理，制定本办法。\n第二条本办法适用于全市。",
        ["1 第一条", "1 第二条"],
    ),
    "Arabic numerals": (
        "第3条 价款为三万元。\n第 4 条 分两期支付。\n第５条 逾期计息。",
        ["1 第3条", "1 第4条", "1 第５条"],
    ),
    "traditional characters": ("第一節 總則\n第一條 本規則依法訂定。", ["1# 第一節 總則", "2 第一條"]),
    "parts by another word": (
        "第一部分 基础\n第一章 集合\n集合是……\n第二部分 提高\n",
        ["1# 第一部分 基础", "2# 第一章 集合", "1# 第二部分 提高"],
    ),
    "numeral with zero": ("第二〇三条 过渡期为一年。", ["1 第二〇三条"]),
    # ---- manuals, reports
    "Chinese numbers": (
        "一、背景\n市场在增长。\n（一）规模\n约百亿。\n1. 国内\n六成。\n（二）趋势\n向好。\n二、建议\n尽快立项。",
        ["1# 一、背景", "2# （一）规模", "3# 1. 国内", "2# （二）趋势", "1# 二、建议"],
    ),
    "decimals": (
        "1 范围\n本文件规定了要求。\n2 术语\n见下。\n2.1 样品\n被测之物。\n2.1.1 空白样品\n不含被测物。\n2.2 标样\n含量已知。\n3 方法\n略。",
        ["1# 1 范围", "1# 2 术语", "2# 2.1 样品", "3# 2.1.1 空白样品", "2# 2.2 标样", "1# 3 方法"],
    ),
    "numbers inside decimals": (
        "第1章 绪论\n1.1 背景\n甲。\n1.1.1 起源\n乙。\n1. 早期\n丙。\n(1) 国内\n丁。\n1.1.2 现状\n戊。\n第2章 方法\n2.1 思路\n己。",
        [
            "1# 第1章 绪论",
            "2# 1.1 背景",
            "3# 1.1.1 起源",
            "4# 1. 早期",
            "5# (1) 国内",
            "3# 1.1.2 现状",
            "1# 第2章 方法",
            "2# 2.1 思路",
        ],
    ),
    "deeper at first, then with a level between": (
        "第一章 甲\n（一）乙\n正文。\n第二章 丙\n一、丁\n正文。\n（一）戊\n正文。\n二、己\n正文。",
        ["1# 第一章 甲", "2# （一）乙", "1# 第二章 丙", "2# 一、丁", "3# （一）戊", "2# 二、己"],
    ),
    "an order of its own": (
        "1. 甲\n正文。\n（一）乙\n正文。\n（二）丙\n正文。\n2. 丁\n正文。",
        ["1# 1. 甲", "2# （一）乙", "2# （二）丙", "1# 2. 丁"],
    ),
    "circled": (
        "一、检查\n① 外观\n无划痕。\n② 电源\n指示灯亮。\n二、测试\n通电。",
        ["1# 一、检查", "2# ①外观".replace("①", "① "), "2# ② 电源", "1# 二、测试"],
    ),
    "full-width digits and dots": ("１．概述\n正文。\n２．安装\n正文。", ["1# １．概述", "1# ２．安装"]),
    "a section that has none of its own": (
        "一、水果\n1. 苹果\n2. 香蕉\n二、蔬菜\n1. 白菜\n2. 萝卜",
        ["1# 一、水果", "1# 二、蔬菜"],
    ),
    "a heading followed by the next": (
        "1. 背景\n正文。\n2. 相关工作\n3. 方法\n正文。",
        ["1# 1. 背景", "1# 2. 相关工作", "1# 3. 方法"],
    ),
    "a colon after a title": (
        "一、申请条件：\n年满十八周岁。\n二、申请材料：\n身份证。",
        ["1# 一、申请条件", "1# 二、申请材料"],
    ),
    "a question as a title": (
        "一、什么是分块？\n把长文切短。\n二、为什么要分块？\n模型读不完。",
        ["1# 一、什么是分块？", "1# 二、为什么要分块？"],
    ),
    "a heading on two lines": (
        "第一章\n黑暗森林\n\n夜里下了雨。\n第二章\n黎明\n\n天亮了。",
        ["1# 第一章 黑暗森林", "1# 第二章 黎明"],
    ),
    "a heading by its number alone": (
        "第三回\n却说那日天色已晚，众人散去。\n第四回\n次日清晨，众人又至。",
        ["1# 第三回", "1# 第四回"],
    ),
    "annexes": (
        "第一章 总则\n正文。\n附录A 术语\n正文。\n附件1 申请表\n姓名。",
        ["1# 第一章 总则", "1# 附录A 术语", "1# 附件1 申请表"],
    ),
    "rules in an annex": ("附件\n第一章 总则\n第一条 依法办理。", ["1# 附件", "2# 第一章 总则", "3 第一条"]),
    # ---- English
    "English report": (
        "Chapter 1 Introduction\nWhy we did this.\n1.1 Scope\nTwo sites.\n1.2 Terms\nSee below.\nChapter 2: Method\nWe counted.\nAppendix A Data\nOn request.",
        ["1# Chapter 1 Introduction", "2# 1.1 Scope", "2# 1.2 Terms", "1# Chapter 2 Method", "1# Appendix A Data"],
    ),
    "English contract": (
        "Article 5 Termination\nEither party may end this.\nArticle 6. The Supplier shall deliver within ten days.\n",
        ["1# Article 5 Termination", "1 Article 6"],
    ),
    "Roman numerals": (
        "PART II\nThe Return\n\nIt rained.\nPART III\nThe End\n\nIt stopped.",
        ["1# PART II The Return", "1# PART III The End"],
    ),
    "sections of chapters": (
        "Part I Basics\nChapter 1 Sets\nA set is a set.\nSection 1.1 Unions\nBoth.\nPart II More\nText.",
        ["1# Part I Basics", "2# Chapter 1 Sets", "3# Section 1.1 Unions", "1# Part II More"],
    ),
    "English numbers": (
        "1. Introduction\nText here.\n2. Related Work\nMore text.\n",
        ["1# 1. Introduction", "1# 2. Related Work"],
    ),
    # ---- contracts
    "a contract": (
        "采购合同\n双方达成如下协议：\n一、标的\n甲方向乙方采购设备。\n二、价款\n1. 总价为十万元。\n2. 分两次付清。\n三、附则\n本合同一式两份。",
        ["1# 一、标的", "1# 二、价款", "1# 三、附则"],
    ),
    "articles inside numbers": (
        "一、总则\n第一条 双方平等。\n第二条 诚实信用。\n二、分则\n第三条 另行约定。",
        ["1# 一、总则", "2 第一条", "2 第二条", "1# 二、分则", "2 第三条"],
    ),
    # ---- tables of contents
    "a table of contents": (
        "目录\n第一章 总则\n第二章 分则\n第三章 附则\n\n第一章 总则\n甲。\n第二章 分则\n乙。\n第三章 附则\n丙。",
        ["1# 第一章 总则", "1# 第二章 分则", "1# 第三章 附则"],
    ),
    "spaced out, with a foreword": (
        "目　录\n前言\n第一章 甲\n第二章 乙\n前言\n写在前面。\n第一章 甲\n子。\n第二章 乙\n丑。",
        ["1# 第一章 甲", "1# 第二章 乙"],
    ),
    "Contents": (
        "Contents\nChapter 1 Aims\nChapter 2 Means\nChapter 3 Ends\n\nChapter 1 Aims\nx.\nChapter 2 Means\ny.\nChapter 3 Ends\nz.",
        ["1# Chapter 1 Aims", "1# Chapter 2 Means", "1# Chapter 3 Ends"],
    ),
    "dotted leaders": ("第一章 总则…………1\n第二章 分则.......12\n1.1 背景 . . . . . 3\n第三章 附则\t30", []),
    # ---- references
    "a sentence about an article": ("第三条规定的情形除外。\n第三条所称经营者，是指法人。\n第三条的规定不适用。", []),
    "articles in a row": (
        "第三条、第四条规定的义务。\n第五条和第六条同时适用。\n第七条第二款另有规定的，从其规定。",
        [],
    ),
    "a sentence about a chapter": ("第三章介绍了实验方法。\n第四章中，我们讨论结果。", []),
    "inside a sentence": ("违反本法，依照第三条规定处罚。\n详见 Chapter 3 和第二章。", []),
    "English sentence": (
        "Chapter 3 describes the method.\nSection 2.1 of this report is new.\nPart of the plan failed.\nsee Chapter 3",
        [],
    ),
    "a broken line": ("当事人应当依照合同的约定以及\n第三条 的要求履行。", []),
    "第一回合 is no chapter": ("第一回合双方打平。\n第一部作品出版了。", []),
    # ---- numbers that count nothing
    "decimals in prose": ("3.14 是圆周率的近似值\n后文。", []),
    "a version": ("1.10 发布\n修复若干问题。", []),
    "a date": ("2024. 5\n2024.5.1 发布\n正文。", []),
    "a year": ("2023年营收增长。\n2023 年营收\n正文。", []),
    "a quantity": ("3 个苹果\n5 台设备\n正文。", []),
    "a brand": ("360 安全\n正文。", []),
    # ---- lists
    "steps": ("1. 先打开阀门。\n2. 再排空管道。\n3. 最后关闭阀门。", []),
    "short items": ("1. 苹果\n2. 香蕉\n3. 梨\n以上都是水果。", []),
    "an introduced list with notes": ("步骤：\n1. 打开阀门\n逆时针旋转。\n2. 关闭阀门\n顺时针旋转。", []),
    "items of an article": ("（一）身份证明；\n（二）收入证明；\n（三）其他材料。", []),
    "English items": ("1. open the valve\n2. close the valve\nDone.", []),
    "a list of annexes": ("附件1：申请表\n附件2：承诺书\n附件3：说明", []),
}


@pytest.mark.parametrize("name", OUTLINES)
def test_the_outline(name: str) -> None:
    text, expected = OUTLINES[name]
    assert outline(text) == expected


@pytest.mark.parametrize("name", OUTLINES)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_blocks_tile_the_text_under_any_newline(name: str, newline: str) -> None:
    text = "\ufeff" + OUTLINES[name][0].replace("\n", newline)
    blocks = numbered_blocks(text)
    assert is_partition([block.span for block in blocks], len(text))
    assert outline(text) == OUTLINES[name][1]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        ("\n \n", ["paragraph"]),
        ("甲。\n\n\n乙。\n丙。", ["paragraph"] * 3),
        ("这一行在句子的中间断开了因为它已经写满了，\n所以还有下一行。", ["paragraph"]),
        ("1. 甲；\n2. 乙。\n\n3. 丙。\n完。", ["list", "paragraph"]),
        ("- 甲\n- 乙\n• 丙\n", ["list"]),
        ("一、背景\n甲。\n", ["heading", "paragraph"]),
        ("第一条 甲方应当在收到货物以后的十日之内\n付清全部价款。\n第二条 完。", ["paragraph", "paragraph"]),
        ("目录\n第一章 甲……1\n第二章 乙……9\n", ["paragraph", "list"]),
    ],
)  # fmt: skip
def test_kinds_of_block(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_a_list_may_be_cut_between_its_items() -> None:
    text = "材料：\n（一）甲；\n（二）乙；\n（三）丙。\n"
    intro, items = numbered_blocks(text)
    assert intro.span.of(text) == "材料：\n"
    assert [text[cut : cut + 3] for cut in items.cuts[0]] == ["（二）", "（三）"]


def test_blank_lines_belong_to_the_block_before() -> None:
    text = "\n\n第一条 甲。\n\n\n第二条 乙。\n\n"
    assert [block.span.of(text) for block in numbered_blocks(text)] == ["\n\n第一条 甲。\n\n\n", "第二条 乙。\n\n"]


def test_paragraph_blocks_know_no_headings() -> None:
    text = "第一章 总则\n第一条 甲。\n1. 乙\n2. 丙\n丁。"
    blocks = paragraph_blocks(text)
    assert [block.kind.value for block in blocks] == ["paragraph", "paragraph", "list", "paragraph"]
    assert not any(block.level or block.title for block in blocks)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# 标题\n正文", "markdown"),
        ("正文\n\n```sh\nls\n```", "markdown"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "markdown"),
        ("a | b\r\n--- | ---\r\n1 | 2", "markdown"),
        ("#话题 不是标题\n正文。", "none"),
        ("----\n正文。", "none"),
        (LAW, "numbered"),
        ("一、甲\n正文。\n二、乙\n正文。", "numbered"),
        ("一、甲\n正文。", "none"),
        ("1. 甲\n2. 乙\n3. 丙", "none"),
        ("春天来了。\n\n花开了。", "none"),
        ("", "none"),
    ],
)
def test_what_tells_the_structure(text: str, expected: str) -> None:
    assert structure_of(text) == expected


@pytest.mark.parametrize(
    "numeral, value",
    [
        *{"〇": 0, "十": 10, "十二": 12, "二十": 20, "一百零三": 103, "百零三": 103, "二〇三": 203, "两千": 2000, "１２": 12}.items(),
        *{"IV": 4, "XII": 12, "②": 2, "Two": 2, "TWO": 2, "B": 2, "C": 100, "": 0, "甲": 0, "ab": 0}.items(),
    ],
)  # fmt: skip
def test_numerals(numeral: str, value: int) -> None:
    assert ordinal(numeral) == value


PIECES = [
    "第",
    "一",
    "十",
    "章",
    "条",
    "节",
    "、",
    "1",
    ".",
    "(",
    ")",
    "（二）",
    " ",
    "　",
    "\n",
    "\r\n",
    "标题",
    "。",
    "：",
    "目录",
    "附录",
    "A",
    "Chapter 2",
    "…",
    "①",
    "- ",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40))
def test_any_text_is_tiled(text: str) -> None:
    for blocks in (numbered_blocks(text), paragraph_blocks(text)):
        assert is_partition([block.span for block in blocks], len(text))
        for block in blocks:
            assert all(block.span.start < cut < block.span.end for group in block.cuts for cut in group)
            assert (block.level > 0) == bool(block.title)


@pytest.mark.parametrize(
    "piece", ["第", "1.", "(", "一", "1", "第一章 ", " ", "\t", "|-", "-", "。", "附", "Chapter ", "…", ". ", "# "]
)
def test_two_megabytes_on_one_line(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    assert is_partition([block.span for block in numbered_blocks(text)], len(text))
    assert structure_of(text) in ("markdown", "numbered", "none")


@pytest.mark.parametrize("lines", ["第一章\n", "目录\n", "1.\n", "1. 标题\n正文\n", "(1) a\n", "目录\na\nb\nc\n"])
def test_many_lines(lines: str) -> None:
    text = lines * (200_000 // len(lines))
    assert is_partition([block.span for block in numbered_blocks(text)], len(text))
