"""Probes: what a document asks for by itself, and what chunks tear of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.schema import TextNode
from texts import HOSTILE_UNITS, ODD_TEXTS

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    SmallToBigNodeParser,
    StructuredMarkdownNodeParser,
)
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.evaluation.probe_kinds import FINDERS
from llama_index_chunking_plus.evaluation.probes import (
    GOOD_ENOUGH,
    ProbeSet,
    completeness_probes,
    probe_completeness,
    shown_chunks,
)
from llama_index_chunking_plus.evaluation.structure import ShownChunk
from llama_index_chunking_plus.samples import sample_paths

DATA = Path(__file__).parent / "data" / "evaluation"
ZH = (DATA / "probes_zh.md").read_text(encoding="utf-8")
EN = (DATA / "probes_en.md").read_text(encoding="utf-8")
SAMPLES = {path.name: path.read_text(encoding="utf-8") for path in sample_paths()}

TABLE = "| 项 | 值 |\n|--|--|\n| 温度 | 四十度 |\n| 湿度 | 八十 |\n"
QA = "问：几天能到货？\n答：付款后三天以内。\n"


def probes_of(text: str, **options) -> ProbeSet:
    return completeness_probes({"d": text}, **{"min_length": 1, **options})


def told(text: str, kind: str, **options) -> list[tuple[str, list[str]]]:
    """Questions of a kind, each with the texts of its parts."""
    return [
        (probe.question, [span.of(text) for span in probe.gold]) for probe in probes_of(text, kinds=[kind], **options)
    ]


def documents_of(texts: dict[str, str]) -> list[Document]:
    return [Document(id_=name, text=text) for name, text in texts.items()]


def report_of(parser, texts: dict[str, str], probes: ProbeSet | None = None, returns="node"):
    probes = probes or completeness_probes(texts)
    shown = shown_chunks(parser.get_nodes_from_documents(documents_of(texts)), texts, returns=returns)
    assert shown.n_lost == 0
    return probe_completeness(shown.by_document, probes)


# --- what is asked, in Chinese ---


def test_tables_with_and_without_outer_pipes_ask_for_cells() -> None:
    pipes, bare = "| 项目 | 小型机 | 大型机 |", "型号 | 电压 | 重量"
    found = told(ZH, "table")
    assert found[:4] == [
        ("「规格」中额定流量的小型机是什么？", [pipes, "| 额定流量 | 每分钟两升 | 每分钟五升 |"]),
        ("「规格」中滤芯寿命的小型机是多少？", [pipes, "| 滤芯寿命 | 6 个月 | — |"]),  # the other cell is empty
        ("「规格」中CX-1的电压是多少？", [bare, "CX-1 | 220 V | 4.5 kg"]),
        ("「规格」中CX-2的重量是多少？", [bare, "CX-2 | 220 V | 6.8 kg，含滤芯和全部附件"]),
    ]


def test_rows_of_html_tables_need_the_row_that_names_them() -> None:
    header = "<tr><th>滤芯</th><th>水质</th><th>更换周期</th></tr>"
    soft = '<tr><td rowspan="2">活性炭</td><td>软水</td><td>十二个月</td></tr>'
    hard = "<tr><td>硬水</td><td>八个月</td></tr>"
    membrane = "<tr><td>反渗透膜</td><td>不限</td><td>二十四个月</td></tr>"
    assert [(question, [part.strip() for part in parts]) for question, parts in told(ZH, "table")[4:]] == [
        ("「滤芯」中活性炭、软水的更换周期是什么？", [header, soft]),
        ("「滤芯」中活性炭、硬水的更换周期是什么？", [header, soft, hard]),
        ("「滤芯」中反渗透膜的更换周期是什么？", [header, membrane]),  # a cell over all columns is no answer
    ]


def test_each_row_of_html_ends_with_its_own_tag() -> None:
    text = "<table><TR><TH>项</TH><TH>值</TH></TR>\n<TBODY>\n<TR><TD>甲</TD><TD>一</TD></TR>\n<TR><TD>乙</TD><TD>二</TD></TR>\n</TBODY></table>\n"
    assert [parts[1] for _, parts in told(text, "table")] == [
        "<TR><TD>甲</TD><TD>一</TD></TR>",
        "<TR><TD>乙</TD><TD>二</TD></TR>",
    ]


def test_code_is_asked_for_with_the_sentence_that_introduces_it() -> None:
    code = ZH[ZH.index("```python") : ZH.rindex("```") + 3]
    assert told(ZH, "code") == [
        ("「接口」中quality的完整代码是什么？", ["查询水质的接口返回一个数，调用方法如下：", code])
    ]


def test_definitions_are_asked_for_with_their_example() -> None:
    definition = "总溶解固体是指水中溶解的全部无机物和有机物的总量，单位是毫克每升。"
    example = "例如，自来水的总溶解固体通常在一百到三百之间，而纯水低于十。"
    assert told(ZH, "example") == [("「滤芯」中什么是“总溶解固体”？请举例说明。", [definition, example])]


def test_a_definition_that_a_formula_completes_is_asked_for_with_both() -> None:
    text = (
        "# 定义\n\n**健康度** 容量之比，记作 H：\n\n$$\nH = Q / Q_0\n$$\n\n例如，五十安时放出四十，则为八成。后面。\n"
    )
    assert told(text, "example") == [
        (
            "「定义」中什么是“健康度”？请举例说明。",
            ["**健康度** 容量之比，记作 H：\n\n$$\nH = Q / Q_0\n$$", "例如，五十安时放出四十，则为八成。"],
        )
    ]


def test_procedures_are_asked_for_with_all_steps() -> None:
    (probe,) = probes_of(ZH, kinds=["procedure"])
    assert probe.question == "「首次使用」中的全部步骤是什么？"
    assert [span.of(ZH) for span in probe.gold] == [
        "步骤1：打开包装，核对附件是否齐全。",
        "步骤2：把进水管接到角阀上，拧紧。缠三圈生料带。",
        "步骤3：通水冲洗十分钟，直到出水清澈。",
    ]
    assert probe.expected_steps == (
        "打开包装，核对附件是否齐全。",
        "把进水管接到角阀上，拧紧。",
        "通水冲洗十分钟，直到出水清澈。",
    )


@pytest.mark.parametrize(
    "text,n_steps",
    [
        ("第一步：关水。\n\n第二步：换芯。\n", 2),
        ("1. 关水。\n2. 换芯。\n\n   ```\n   reset\n   ```\n3. 开水。\n", 3),
        ("1、关水。\n2、换芯。\n", 2),
        ("（一）已经公开的；\n（二）依法披露的。\n", 0),
        ("1. 只有一步。\n", 0),
    ],
)
def test_numbered_lines_are_steps_if_they_count_on(text: str, n_steps: int) -> None:
    found = told(text, "procedure")
    assert [len(parts) for _, parts in found] == ([n_steps] if n_steps else [])


def test_questions_are_asked_as_they_stand_there() -> None:
    assert told(ZH, "answer") == [
        (
            "出水变慢了怎么办？",
            ["出水变慢了怎么办？", "先看进水阀是否全开，再看滤芯是否到期。滤芯到期的，换新后冲洗五分钟。"],
        ),
        (
            "为什么有咕噜声？",
            ["5.1 为什么有咕噜声？", "换新滤芯后管路里有空气，属于正常现象，通水几分钟之后会自行消失，不需要处理。"],
        ),
    ]


def test_exceptions_are_asked_for_with_their_rule_and_what_they_list() -> None:
    rule = "整机保修两年，自购买之日起计算，凭发票办理。"
    exception = "但下列情形不适用上述保修：\n\n- 自行拆机的；\n- 用于海水的。"
    assert told(ZH, "exception") == [
        ("“整机保修两年，自购买之日起计算”有什么例外，或者还有什么规定？", [rule, exception])
    ]


def test_a_paragraph_that_refers_back_needs_the_one_before() -> None:
    text = "甲方应当在十日内付款。\n\n前款规定的期限，自收到发票之日起算。\n"
    assert [parts for _, parts in told(text, "exception")] == [[*text.split("\n\n")[:1], text.split("\n\n")[1].strip()]]


# --- what is asked, in English ---


def test_english_documents_are_asked_in_english() -> None:
    asked = {probe.kind: (probe.question, [part.name for part in probe.parts]) for probe in probes_of(EN)}
    assert asked == {
        "table": (
            'What is the Largest value of Idle timeout of a session in "Limits"?',
            ["header row", "data row"],
        ),
        "code": ('What is the complete code of routes in "Ask for routes"?', ["introduction", "code"]),
        "example": ('What is "sticky session" in "Limits"? Give the example.', ["definition", "example"]),
        "procedure": ('What are all the steps in "Install the router"?', ["step", "step", "step"]),
        "answer": ("Can I run two routers on one host?", ["question", "answer"]),
        "exception": (
            'What are the exceptions to, or further rules on, "We repair defects free of charge for tw…"?',
            ["rule", "exception"],
        ),
    }


# --- what is left out, and how much is chosen ---


@pytest.mark.parametrize(
    "table",
    [
        "| 项 |\n|--|\n| 一 |\n| 二 |\n",
        "| 项 | 值 |\n|--|--|\n| 只有 | 一行 |\n",
        "| | |\n|--|--|\n| 甲 | 乙 |\n| 丙 | 丁 |\n",
        "| 项 | 值 |\n|--|--|\n| 同 | 甲 |\n| 同 | 乙 |\n",
        "| 项 | 值 |\n|--|--|\n| 甲 | — |\n| 乙 | |\n",
        "<table><tr><th>项</th><th>值</th></tr><tr><td>甲<table><tr><td>1</table></td></tr><tr><td>乙</td></tr></table>\n",
    ],
    ids=["one column", "one row", "no names", "rows alike", "no values", "a table in a table"],
)
def test_degenerate_tables_ask_for_nothing(table: str) -> None:
    assert told(table, "table") == []


def test_what_is_short_or_long_is_left_out() -> None:
    text = f"{QA}\n问：如何退货？\n答：{'联系客服。' * 30}\n"
    assert [question for question, _ in told(text, "answer", min_length=30)] == ["如何退货？"]
    assert [question for question, _ in told(text, "answer", max_length=30)] == ["几天能到货？"]


def test_the_functions_of_a_long_sample_are_asked_for() -> None:
    bodies = [
        f"def {name}(value):\n    first = value + 1\n    second = first * 2\n    return second\n" for name in "ab"
    ]
    text = "```python\nimport os\n\n" + "\n\n".join(bodies) + "```\n"
    assert [parts for _, parts in told(text, "code", max_length=len(bodies[0]) + 5)] == [
        [body.strip()] for body in bodies
    ]
    assert [parts for _, parts in told(text, "code")] == [[text.strip()]]


def test_a_choice_is_spread_over_the_document_and_over_its_tables() -> None:
    long = "| 项 | 值 |\n|--|--|\n" + "".join(f"| 甲{i} | 值{i} |\n" for i in range(100))
    found = [question for question, _ in told(f"{long}\n文。\n\n{TABLE}", "table", max_per_kind=4)]
    assert found == ["甲0的值是什么？", "甲99的值是什么？", "温度的值是什么？", "湿度的值是什么？"]
    dialogue = "\n".join(f"问：第{i}问？\n答：第{i}答。\n" for i in range(9))
    assert [question for question, _ in told(dialogue, "answer", max_per_kind=3)] == ["第0问？", "第4问？", "第8问？"]


def test_questions_of_one_document_differ() -> None:
    text = f"{TABLE}\n文。\n\n{TABLE}"
    asked = [question for question, _ in told(text, "table")]
    assert asked == [
        "温度的值是什么？",
        "湿度的值是什么？",
        "温度的值是什么？（第 2 处）",
        "湿度的值是什么？（第 2 处）",
    ]


def test_probes_are_questions_for_retrieval() -> None:
    probes = completeness_probes({"zh.md": ZH, "en.md": EN, "none.md": "没有结构。"})
    questions = probes.to_evaluation_set().resolve(probes.texts)
    assert len(questions) == len(probes) > 10
    for probe, question in zip(probes, questions, strict=True):
        assert (question.text, question.gold, question.section) == (probe.question, probe.gold, probe.kind)
        assert question.expected_steps == probe.expected_steps
        assert probe.reason
    assert probes.without_probes == ("none.md",)


def test_documents_and_texts_give_the_same_probes_every_time() -> None:
    assert completeness_probes(SAMPLES) == completeness_probes(documents_of(SAMPLES)) == completeness_probes(SAMPLES)


@pytest.mark.parametrize(
    "options",
    [{"max_per_kind": 0}, {"min_length": 0}, {"min_length": 9, "max_length": 8}, {"kinds": ["rows"]}, {"kinds": []}],
)
def test_a_wrong_option_is_an_error(options) -> None:
    with pytest.raises(OptionError):
        completeness_probes({"d": ZH}, **options)


def test_documents_with_an_id_that_is_empty_or_not_their_own() -> None:
    with pytest.raises(OptionError, match="not empty"):
        completeness_probes({" ": ZH})
    documents = [Document(id_="d", text=QA), Document(id_="d", text=QA), Document(id_="d", text="另一个。")]
    with pytest.warns(ChunkingPlusWarning, match="1 document has the id of another one"):
        probes = completeness_probes(documents, min_length=1)
    assert [probe.question for probe in probes] == ["几天能到货？"]


# --- what chunks tear ---


def judged(text: str, chunks: list, **options):
    return probe_completeness({"d": chunks}, probes_of(text, **options))


def cut_at(text: str, *places: str) -> list[Span]:
    """The text cut before each of these words."""
    edges = [0, *(text.index(place) for place in places), len(text)]
    return [Span(*pair) for pair in pairwise(edges)]


def test_a_table_cut_between_its_rows() -> None:
    report = judged(TABLE, cut_at(TABLE, "| 湿度"))
    (cut,) = report.cuts
    assert (report.score, report.whole, report.total) == (0.5, 1, 2)
    assert (cut.how, cut.pieces) == ("header row and data row in different chunks", 2)
    assert cut.partial == pytest.approx(11 / 20)  # the row has 11 characters, the header 9
    assert [(place.position, place.after) for place in cut.places] == [(TABLE.index("| 湿度"), "| 湿度 | 八十 |\n")]


def test_a_lead_shows_the_header_again() -> None:
    first, second = cut_at(TABLE, "| 湿度")
    assert judged(TABLE, [first, ShownChunk(second, "lead: \n| 项 | 值 |\n|--|--|")]).score == 1
    assert judged(TABLE, [first, ShownChunk(second, "lead: \n| 物 | 值 |\n|--|--|")]).score == 0.5


STEPS = "步骤1：把水关上。\n\n步骤2：把滤芯换掉。\n\n步骤3：把水打开。\n"


FILLER = "后面还有一段话，它与步骤和答案都没有关系，只是很长，使得最大的一块也很长。"


@pytest.mark.parametrize(
    "text,places,how,pieces",
    [
        (STEPS, ["步骤3"], "steps in different chunks", 2),
        (STEPS, ["滤芯"], "step cut up", 2),
        (STEPS, ["步骤2", "步骤3"], "steps in different chunks", 3),
        (QA, ["答："], "question and answer in different chunks", 2),
        (QA, ["三天"], "answer cut up", 2),
    ],
    ids=["between steps", "in a step", "between all steps", "before an answer", "in an answer"],
)
def test_how_a_probe_broke(text: str, places: list[str], how: str, pieces: int) -> None:
    whole = f"{text}\n{FILLER}"
    report = judged(whole, cut_at(whole, *places, FILLER))
    assert [(cut.how, cut.pieces, len(cut.places)) for cut in report.cuts] == [(how, pieces, pieces - 1)]
    assert report.score == 0


def test_steps_of_which_each_pair_is_together_are_apart_all_the_same() -> None:
    whole = f"{STEPS}\n{FILLER}"
    second, third = STEPS.index("步骤2"), STEPS.index("步骤3")
    (cut,) = judged(whole, [Span(0, third), Span(second, len(STEPS)), Span(len(STEPS), len(whole))]).cuts
    assert (cut.how, cut.pieces) == ("steps in different chunks", 2)


def test_what_no_chunk_could_hold_is_told_apart_from_what_is_cut() -> None:
    (cut,) = judged(STEPS, cut_at(STEPS, "步骤2", "步骤3")).cuts
    assert (cut.how, cut.pieces) == ("procedure longer than the largest chunk", 3)


@pytest.mark.parametrize("chunks,pieces,partial", [([], 0, 0), ([Span(0, 22)], 1, 19 / 28)])
def test_what_no_chunk_shows_is_missing(chunks: list[Span], pieces: int, partial: float) -> None:
    (cut,) = judged(STEPS, chunks).cuts
    assert (cut.how, cut.pieces) == ("step missing, in whole or in part", pieces)
    assert cut.partial == pytest.approx(partial)  # the steps have 9, 10 and 9 characters


def test_white_space_between_chunks_is_not_missing() -> None:
    whole = f"{STEPS}\n{FILLER}"
    first, second, last = cut_at(whole, "步骤3", FILLER)
    (cut,) = judged(whole, [Span(first.start, first.end - 2), second, last]).cuts
    assert (cut.how, [place.position for place in cut.places]) == ("steps in different chunks", [first.end - 2])


def test_the_worst_cut_comes_first() -> None:
    report = judged(STEPS + "\n" + QA, cut_at(STEPS + "\n" + QA, "步骤2", "步骤3", "问：", "三天"))
    assert [cut.probe.kind for cut in report.cuts] == ["procedure", "answer"]
    assert report.cuts[0].partial < report.cuts[1].partial
    assert [(each.kind, each.n_probes, each.share) for each in report.breakages] == [
        ("procedure", 1, 1.0),
        ("answer", 1, 1.0),
    ]


def test_the_order_of_chunks_and_those_that_are_no_ranges_do_not_count() -> None:
    chunks = cut_at(STEPS, "步骤3")
    odd = [*reversed(chunks), chunks[0], (5, 5), (900, 999), (-9, 0)]
    assert judged(STEPS, odd) == judged(STEPS, chunks)


def test_below_the_threshold_the_summary_says_what_breaks_and_shows_the_cuts() -> None:
    text = TABLE + "\n" + STEPS + "\n" + QA
    lines = judged(text, cut_at(text, "| 温度", "| 湿度", "步骤2", "答：")).summary()
    assert lines.startswith("completeness 0.00: 0 of 4 probes stand whole in one chunk")
    assert "table, 2 (100% of its probes): header row and data row in different chunks" in lines
    assert lines.count("✂") == 3
    assert "at 18: | 项 | 值 |⏎|--|--|⏎ ✂ | 温度 | 四十度 |⏎| 湿度" in lines
    assert "三天以内" in lines.splitlines()[-1]


def test_above_the_threshold_the_summary_is_short() -> None:
    report = judged(ZH, [Span(0, len(ZH))])
    assert report.score == report.partial == 1 > GOOD_ENOUGH
    assert "worst" not in report.summary()


@pytest.mark.parametrize("texts", [{}, {"d": ""}, {"d": "一句话，没有结构。", "e": " \n"}])
def test_nothing_to_ask_is_no_perfect_score(texts: dict[str, str]) -> None:
    report = probe_completeness({"d": [(0, 3)]}, completeness_probes(texts))
    assert (report.score, report.partial, report.total) == (None, None, 0)
    assert "no score: nothing in" in report.summary()
    assert report.without_probes == tuple(texts)


def test_a_document_without_chunks_is_lost() -> None:
    report = probe_completeness({}, completeness_probes({"d": ZH}))
    assert (report.score, report.partial) == (0, 0)
    assert {cut.pieces for cut in report.cuts} == {0}


# --- nodes of any parser ---


def test_a_parser_of_structure_scores_higher_than_one_of_sentences() -> None:
    probes = completeness_probes(SAMPLES)
    assert {probe.kind for probe in probes} == set(FINDERS)
    for size in (256, 400, 600):
        overlap = size // 8
        sentences = SentenceSplitter(chunk_size=size, chunk_overlap=overlap, tokenizer=list)
        structured = StructuredMarkdownNodeParser(chunk_size=size, chunk_overlap=overlap)
        plain, ours = report_of(sentences, SAMPLES, probes).score, report_of(structured, SAMPLES, probes).score
        assert ours > plain + 0.1
        assert ours > GOOD_ENOUGH


def test_parents_and_windows_count_if_they_are_returned() -> None:
    probes = completeness_probes({"zh.md": ZH})
    for parser, returns in (
        (SmallToBigNodeParser(child_size=120, child_overlap=12, parent_size=600), "parent"),
        (ChineseSentenceWindowNodeParser(), "window"),
        (
            SentenceWindowNodeParser.from_defaults(sentence_splitter=lambda text: text.splitlines(keepends=True)),
            "window",
        ),
    ):
        alone = report_of(parser, {"zh.md": ZH}, probes)
        wider = report_of(parser, {"zh.md": ZH}, probes, returns)
        assert wider.score > alone.score
        assert wider.partial > alone.partial


def test_nodes_that_say_nothing_of_their_place_or_something_wrong_are_found() -> None:
    text = "好的。好的。\n" * 3 + QA
    pieces = ["好的。好的。\n", "好的。好的。\n", "好的。好的。\n" + QA]
    nodes = [TextNode(text=piece, start_char_idx=0, end_char_idx=len(piece)) for piece in pieces]  # as find() has it
    shown = shown_chunks(nodes, {"d": text})
    assert [chunk.span for chunk in shown.by_document["d"]] == [Span(0, 7), Span(7, 14), Span(14, len(text))]
    assert (shown.n_aligned, shown.n_lost) == (2, 0)


def test_nodes_of_chained_foreign_parsers_are_found() -> None:
    nodes = MarkdownNodeParser()(documents_of({"zh.md": ZH}))
    chained = SentenceSplitter(chunk_size=120, chunk_overlap=0, tokenizer=list)(nodes)
    shown = shown_chunks(chained, {"zh.md": ZH, "en.md": EN})
    assert shown.n_lost == 0
    for node, chunk in zip(chained, shown.by_document["zh.md"], strict=True):
        assert "".join(node.text.split()) == "".join(chunk.span.of(ZH).split())


def test_nodes_of_no_document_are_counted() -> None:
    shown = shown_chunks([TextNode(text="别处"), TextNode(text=QA, id_="d")], {"d": QA, "e": ZH})
    assert (shown.n_lost, list(shown.by_document)) == (1, ["d"])
    assert shown_chunks([TextNode(text="别处")], {"d": QA}).n_lost == 1
    with pytest.raises(OptionError, match="returns"):
        shown_chunks([], {}, returns="page")


def test_what_metadata_hides_from_the_model_is_not_shown() -> None:
    first, second = cut_at(TABLE, "| 湿度")
    for excluded, score in (([], 1.0), (["lead"], 0.5)):
        nodes = [
            TextNode(
                text=span.of(TABLE),
                metadata={"lead": lead},
                excluded_llm_metadata_keys=excluded,
                start_char_idx=span.start,
                end_char_idx=span.end,
            )
            for span, lead in ((first, ""), (second, "| 项 | 值 |"))
        ]
        assert probe_completeness(shown_chunks(nodes, {"d": TABLE}).by_document, probes_of(TABLE)).score == score


# --- any text ---

_PIECES = [
    *(
        "| 项 | 值 |\n|--|--|\n",
        "| 甲 | 1 |\n",
        "项 | 值\n--|--\n甲 | 一\n乙 | 二\n",
        "<table><tr><th>a</th><th>b</th></tr>",
    ),
    *(
        "<tr><td rowspan=9>c</td><td>d</td></tr>",
        "<tr><td colspan='99999'>e",
        "</table>\n",
        "```python\n",
        "def f():\n",
    ),
    *(
        "    return 1\n",
        "```\n",
        "步骤1：开。\n",
        "步骤2：关。\n",
        "1. 甲\n",
        "2. 乙\n",
        "# 题？\n",
        "\n\n",
        "问：何？\n",
        "答：是。\n",
    ),
    *(
        "定义是指甲。例如，乙。",
        "A b is a c. For example, d. ",
        "但丙除外。",
        "前款所称。",
        "$$\nx\n$$\n",
        "：\n",
        "\r",
        "{",
        "}",
        "\ud800",
        "- ",
    ),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join), st.integers(1, 4), st.integers(1, 60))
def test_any_text_gives_probes_within_bounds_and_a_score(text: str, most: int, size: int) -> None:
    probes = probes_of(text, max_per_kind=most)
    for probe in probes:
        spans = probe.gold
        assert spans[0].start >= 0
        assert spans[-1].end <= len(text)
        assert all(span.of(text).strip() == span.of(text) != "" for span in spans)
        assert all(before.end <= after.start for before, after in pairwise(spans))
    assert all(sum(probe.kind == kind for probe in probes) <= most for kind in FINDERS)
    probes.to_evaluation_set().resolve(probes.texts)
    chunks = [Span(start, start + size) for start in range(0, len(text), size)]
    report = probe_completeness({"d": chunks}, probes)
    assert report.summary()
    if len(probes):
        assert 0 <= report.score <= report.partial <= 1
        assert all(0 <= cut.partial < 1 and cut.pieces >= 2 and cut.places for cut in report.cuts)
        assert judged(text, [Span(0, len(text))], max_per_kind=most).score == 1


@pytest.mark.parametrize("wrong", [(5, 1), (1,), "ab", (0.5, 2), 3])
def test_what_is_no_range_is_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match="a chunk is a range"):
        probe_completeness({"d": [(0, 3), wrong]}, probes_of(ZH))  # type: ignore[list-item]


@pytest.mark.parametrize("text", [*ODD_TEXTS.values(), *(unit * 3000 for unit in HOSTILE_UNITS.values())])
def test_hostile_texts_do_no_harm(text: str) -> None:
    probes = probes_of(text)
    assert probe_completeness({"d": [(0, 10)]}, probes).total == len(probes) <= 10 * len(FINDERS)
