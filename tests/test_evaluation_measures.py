"""Measures against tables worked out by hand, sets of characters, NLTK, and what must hold of any ranking."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from nltk.metrics.segmentation import pk as nltk_pk
from nltk.metrics.segmentation import windowdiff as nltk_window_diff

from llama_index_chunking_plus import SlidingWindowNodeParser, StructuredMarkdownNodeParser
from llama_index_chunking_plus.core.keywords import keyword_integrity as core_keyword_integrity
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.answers import completeness_score
from llama_index_chunking_plus.evaluation.boundaries import boundary_f1, chunk_boundaries, pk, window_diff
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion, Quote
from llama_index_chunking_plus.evaluation.intervals import common, holds, length, union, without
from llama_index_chunking_plus.evaluation.measures import (
    MEASURES,
    Located,
    TokenCounts,
    inflation,
    measure,
    precision_omega,
    recall_at_k,
    semantic_completeness,
    size_statistics,
    within_budget,
)
from llama_index_chunking_plus.evaluation.structure import (
    ShownChunk,
    StructuredText,
    keyword_integrity,
    structure_score,
)

DATA = Path(__file__).parent / "data" / "evaluation"
RANKING = [each for each in MEASURES.values() if each.needs == "ranking"]
MONOTONE = ("recall", "complete", "hit_rate", "mrr", "ndcg", "character_recall")

SPANS = st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda pair: Span(pair[0], pair[0] + pair[1]))
RANKED = st.lists(st.builds(Located, st.sampled_from("ab"), SPANS), max_size=8)
QUESTIONS = st.builds(
    lambda gold, context: EvaluationQuestion("q", "?", "a", gold=tuple(gold), context=tuple(context)),
    st.lists(SPANS, min_size=1, max_size=3),
    st.lists(SPANS, max_size=2),
)


def rows(name: str) -> list[dict[str, str]]:
    """The lines of a table below its first line and a blank one, columns two spaces or more apart."""
    head, *lines = (DATA / name).read_text(encoding="utf-8").splitlines()[2:]
    columns = head.split()
    starts = [*(head.index(f" {column}") + 1 if i else 0 for i, column in enumerate(columns)), None]
    return [
        {column: line[start:end].strip() for column, start, end in zip(columns, starts, starts[1:], strict=False)}
        for line in lines
    ]


def number(cell: str) -> float:
    """A sum of quotients; Ln is the logarithm of n to the base of 2."""
    parts = [[math.log2(int(x[1:])) if x[0] == "L" else float(x) for x in part.split("/")] for part in cell.split("+")]
    return sum(first / math.prod(rest) for first, *rest in parts)


def span(cell: str) -> Span:
    return Span(*map(int, cell.split("-")))


def spans(cell: str) -> tuple[Span, ...]:
    return () if cell == "-" else tuple(map(span, cell.split()))


def located(cell: str) -> list[Located]:
    return (
        []
        if cell == "-"
        else [Located("b" if each[0] == "b" else "a", span(each.lstrip("b"))) for each in cell.split()]
    )


def characters(ranges: Sequence[Span]) -> set[int]:
    return {i for start, end in ranges for i in range(start, end)}


# --- a ranking ---


@pytest.mark.parametrize("row", rows("ranking.txt"), ids=lambda row: f"{row['gold']} in {row['ranked']}")
def test_rankings_worked_out_by_hand(row: dict[str, str]) -> None:
    question = EvaluationQuestion("q", "?", "a", gold=spans(row["gold"]), context=spans(row["context"]))
    for column, name in [
        ("hit", "hit_rate"),
        ("char_recall", "character_recall"),
        ("char_precision", "character_precision"),
    ]:
        row[name] = row.pop(column)
    for each in RANKING:
        found = each.compute(question, located(row["ranked"]), int(row["k"]))
        assert found == pytest.approx(number(row[each.name])), each.name


@given(QUESTIONS, RANKED, st.integers(1, 9))
def test_measures_of_characters_are_those_of_sets(question: EvaluationQuestion, ranked: list[Located], k: int) -> None:
    top = list(dict.fromkeys(ranked))[:k]
    shown = characters([span for document, span in top if document == "a"])
    gold, relevant = characters(question.gold), characters(question.relevant)
    total, found = sum(end - start for _, (start, end) in top), len(shown & relevant)
    whole = [set(range(*span)) <= shown for span in question.gold]
    expected = {
        "recall": sum(whole) / len(whole),
        "complete": float(all(whole)),
        "character_recall": len(shown & gold) / len(gold),
        "character_precision": found / total if total else 0.0,
        "iou": found / (total + len(relevant) - found),
    }
    for name, value in expected.items():
        assert MEASURES[name].compute(question, ranked, k) == pytest.approx(value), name


@given(QUESTIONS, RANKED, st.integers(1, 9))
def test_what_holds_of_every_measure_of_a_ranking(question: EvaluationQuestion, ranked: list[Located], k: int) -> None:
    renamed = EvaluationQuestion("other", "?", "x", gold=question.gold, context=question.context)
    twice = [each for each in ranked for _ in range(2)]
    for each in RANKING:
        value = each.compute(question, ranked, k)
        assert 0 <= value <= 1
        assert each.compute(question, [], k) == 0
        assert each.compute(question, twice, k) == value
        assert each.compute(question, [*ranked, *ranked], k) == value
        assert each.compute(renamed, [Located("xy"["ab".index(d)], s) for d, s in ranked], k) == value
        assert each.compute(question, ranked) == each.compute(question, ranked, len(ranked) + 1)
        if each.name in MONOTONE:
            assert each.compute(question, ranked, k + 1) >= value


@given(st.integers(1, 8), st.integers(1, 8))
def test_gold_in_one_result_alone_has_the_textbook_mrr_and_ndcg(rank: int, k: int) -> None:
    question = EvaluationQuestion("q", "?", "a", gold=((2, 6),))
    ranked = [Located("b", Span(i, i + 9)) for i in range(rank - 1)] + [Located("a", Span(0, 9))]
    assert MEASURES["mrr"].compute(question, ranked, k) == (1 / rank if rank <= k else 0)
    assert MEASURES["ndcg"].compute(question, ranked, k) == (1 / math.log2(rank + 1) if rank <= k else 0)


@pytest.mark.parametrize("k", [0, -1, True])
def test_k_is_a_whole_number_from_one(k: int) -> None:
    for each in RANKING:
        with pytest.raises(OptionError, match="whole number from 1"):
            each.compute(EvaluationQuestion("q", "?", "a", gold=((0, 1),)), [], k)


def test_a_question_without_ranges_is_not_judged() -> None:
    question = EvaluationQuestion("q", "?", "a", gold=((0, 1),), quotes=(Quote("甲"),))
    for each in (each for each in MEASURES.values() if each.needs in {"ranking", "chunks"}):
        with pytest.raises(OptionError, match="question 'q' has quotes without ranges"):
            each.compute(question, [])


def test_a_measure_is_a_function_with_a_name_of_its_own() -> None:
    assert MEASURES["recall"].compute is recall_at_k
    assert {name for name, each in MEASURES.items() if not each.higher_is_better} == {"pk", "window_diff", "inflation"}
    assert len({each.label for each in MEASURES.values()}) == len(MEASURES)
    with pytest.raises(OptionError, match="'recall' already"):
        measure("recall", "", "ranking")(recall_at_k)


# --- an equal budget ---


def take(ranked: Sequence[Located], budget: int, sizes: str) -> dict[str, set[int]]:
    """Character by character: new text until the budget is spent, of the last result the same share of its characters."""
    got: dict[str, set[int]] = {"a": set(), "b": set()}
    for document, (start, end) in ranked:
        fresh = [i for i in range(start, end) if i not in got[document]]
        size = sum(int(sizes[i]) for i in fresh)
        if size > budget:
            fresh = fresh[: int(len(fresh) * budget / size)]
        got[document].update(fresh)
        budget -= size
        if budget <= 0:
            break
    return got


@given(RANKED, st.integers(1, 60), st.text("012", min_size=40, max_size=40))
def test_a_budget_buys_what_it_buys_character_by_character(ranked: list[Located], budget: int, sizes: str) -> None:
    counts = TokenCounts({"a": sizes, "b": sizes}, lambda text: sum(map(int, text)))
    bought = within_budget(ranked, budget, counts)
    expected = take(ranked, budget, sizes)
    for document in "ab":
        assert characters([span for name, span in bought if name == document]) == expected[document]


@given(QUESTIONS, RANKED, st.integers(1, 60))
def test_more_budget_never_shows_less(question: EvaluationQuestion, ranked: list[Located], budget: int) -> None:
    counts = TokenCounts({"a": "x" * 40, "b": "x" * 40}, len)
    less, more = within_budget(ranked, budget, counts), within_budget(ranked, budget + 1, counts)
    for name in ("recall", "complete", "character_recall"):
        assert 0 <= MEASURES[name].compute(question, less) <= MEASURES[name].compute(question, more) <= 1
    assert within_budget(ranked, 10**6, counts) == list(dict.fromkeys(ranked))


def test_when_the_budget_is_spent_nothing_comes_any_more_not_even_what_is_free() -> None:
    ranked = [Located("a", Span(0, 3)), Located("a", Span(1, 2)), Located("a", Span(3, 4))]
    counts = TokenCounts({"a": "甲乙丙丁"}, len)
    assert [within_budget(ranked, budget, counts) for budget in (3, 4)] == [ranked[:1], ranked]


def test_every_stretch_is_counted_once_and_a_budget_is_positive() -> None:
    counted = []
    counts = TokenCounts({"a": "甲乙丙丁"}, lambda text: counted.append(text) or len(text))
    for _ in range(3):
        within_budget([Located("a", Span(0, 2)), Located("a", Span(1, 4))], 9, counts)
    assert counted == ["甲乙", "丙丁"]
    with pytest.raises(OptionError, match="budget=0; it must be at least 1 token"):
        within_budget([], 0, counts)


# --- chunks ---

GAPDH = "GAPDH 抗体稀释 1:2000，4 ℃ 孵育过夜 12 小时。"


def test_two_facts_that_a_cut_parts_are_half_complete() -> None:
    dose, duration = (Span(GAPDH.index(each), GAPDH.index(each) + len(each)) for each in ("1:2000", "12 小时"))
    both = EvaluationQuestion("q", "?", "a", gold=(dose, duration))
    together = EvaluationQuestion("q", "?", "a", gold=((dose.start, duration.end),))
    cut = duration.start + 2
    for chunks, facts, sentence in [([(0, cut), (cut, 40)], 0.5, 0), ([(0, cut), (dose.start, 40)], 1, 1), ([], 0, 0)]:
        assert semantic_completeness(both, chunks) == facts
        assert semantic_completeness(together, chunks) == sentence


@given(QUESTIONS, st.lists(SPANS, max_size=6))
def test_measures_of_chunks_are_those_of_sets(question: EvaluationQuestion, chunks: list[Span]) -> None:
    gold, relevant = characters(question.gold), characters(question.relevant)
    bearing = characters([chunk for chunk in chunks if characters([chunk]) & gold])
    omega = len(bearing & relevant) / len(bearing) if bearing else 0.0
    whole = [any(characters([span]) <= characters([chunk]) for chunk in chunks) for span in question.gold]
    assert precision_omega(question, chunks) == pytest.approx(omega)
    assert semantic_completeness(question, chunks) == pytest.approx(sum(whole) / len(whole))
    for each in (precision_omega, semantic_completeness):
        assert each(question, [*chunks, *chunks]) == each(question, chunks[::-1]) == each(question, chunks)


def test_inflation_is_what_chunks_have_by_what_documents_have() -> None:
    assert inflation([5, 7], [10]) == 1.2
    assert inflation([], [10]) == inflation([], []) == 0


@given(st.lists(st.integers(1, 900), min_size=1, max_size=30))
def test_statistics_of_sizes_are_those_of_the_standard_library(sizes: list[int]) -> None:
    found = size_statistics(sizes)
    mean = statistics.fmean(sizes)
    assert (found.n_chunks, found.largest) == (len(sizes), max(sizes))
    assert found.mean == pytest.approx(mean)
    assert found.median == pytest.approx(statistics.median(sizes))
    assert found.cv == pytest.approx(statistics.pstdev(sizes) / mean)
    if len(sizes) > 1:
        assert found.p95 == pytest.approx(statistics.quantiles(sizes, n=100, method="inclusive")[94])


def test_no_chunks_have_no_sizes() -> None:
    assert set(size_statistics([])) == {0}
    assert size_statistics([0, 0]).cv == 0


@given(st.lists(SPANS, max_size=6), st.lists(SPANS, max_size=6), SPANS)
def test_arithmetic_of_ranges_is_that_of_sets(left: list[Span], right: list[Span], span: Span) -> None:
    covered = union(left)
    assert characters(covered) == characters(left)
    assert all(a.end < b.start for a, b in pairwise(covered))
    assert length(covered) == len(characters(left))
    assert common(covered, union(right)) == len(characters(left) & characters(right))
    assert characters(without(span, covered)) == characters([span]) - characters(left)
    assert holds(covered, span) == (characters([span]) <= characters(left))


# --- boundaries ---


@pytest.mark.parametrize("row", rows("boundaries.txt"), ids=lambda row: f"{row['true']} and {row['found']}")
def test_boundaries_worked_out_by_hand(row: dict[str, str]) -> None:
    true, found = ([] if row[name] == "-" else [int(x) for x in row[name].split()] for name in ("true", "found"))
    ends = range(10, 101, 10)
    assert boundary_f1(true, found, ends, int(row["tolerance"])) == pytest.approx(number(row["f1"]))
    assert pk(true, found, ends, 2) == pytest.approx(number(row["pk"]))
    assert window_diff(true, found, ends, 2) == pytest.approx(number(row["window_diff"]))


GAPS = st.integers(2, 24).flatmap(lambda n: st.tuples(st.just(n), *[st.sets(st.integers(1, n - 1))] * 2))


@given(GAPS, st.integers(1, 6))
def test_pk_and_window_diff_are_those_of_nltk(case: tuple[int, set[int], set[int]], window: int) -> None:
    n, true, found = case
    ends = [10 * i for i in range(1, n + 1)]
    marks = ["".join("01"[i in gaps] for i in range(1, n)) for gaps in (true, found)]
    width = min(window, n - 1)
    arguments = [10 * i for i in true], [10 * i for i in found], ends
    assert pk(*arguments, window) == pytest.approx(nltk_pk(*marks, k=width))
    assert window_diff(*arguments, window) == pytest.approx(nltk_window_diff(*marks, width))
    usual = min(max(2, round(n / (len(true) + 1) / 2)), n - 1)
    assert pk(*arguments) == pytest.approx(nltk_pk(*marks, k=usual))


@given(GAPS, st.integers(0, 3))
def test_boundaries_are_matched_one_to_one_as_many_as_can_be(
    case: tuple[int, set[int], set[int]], tolerance: int
) -> None:
    n, true, found = case

    def most(left: list[int], right: frozenset[int]) -> int:
        if not left:
            return 0
        near = [y for y in right if abs(left[0] - y) <= tolerance]
        return max([most(left[1:], right), *(1 + most(left[1:], right - {y}) for y in near)])

    some, others = sorted(true)[:5], frozenset(sorted(found)[:5])
    expected = 2 * most(some, others) / (len(some) + len(others)) if some or others else 1
    assert boundary_f1(some, others, range(1, n + 1), tolerance) == pytest.approx(expected)


def test_one_sentence_has_no_boundaries_and_overlapping_chunks_end_once() -> None:
    for ends in ([], [10]):
        assert (boundary_f1([5], [7], ends), pk([5], [7], ends), window_diff([5], [7], ends)) == (1, 0, 0)
    assert chunk_boundaries([]) == chunk_boundaries([(0, 9)]) == []
    assert chunk_boundaries([(3, 9), (0, 4), (3, 9)]) == [4]


def test_wrong_windows_and_tolerances_are_errors() -> None:
    with pytest.raises(OptionError, match="window=0"):
        pk([], [], [10, 20], window=0)
    with pytest.raises(OptionError, match="tolerance=-1"):
        boundary_f1([], [], [10, 20], tolerance=-1)


# --- structure ---

GUIDE = """# 重试

重试是指失败后再发一次请求。例如，超时后等两秒再发。

幂等是指做两次和做一次一样。

例如：

```python
put(key, 1)

put(key, 1)
```

## 步骤

1. 打开配置
2. 改次数
   （1）先备份
   （2）再保存
3. 重启

## 限值

| 项 | 值 |
|----|----|
| 次数 | 3 |
| 间隔 | 2 |
"""


def cut_at(text: str, *beginnings: str) -> list[ShownChunk]:
    starts = [0, *(text.index(each) for each in beginnings), len(text)]
    return [ShownChunk(Span(*pair)) for pair in pairwise(starts)]


def broken(chunks: Sequence[ShownChunk], kind: str, text: str = GUIDE) -> tuple[int, list[str]]:
    score = structure_score(StructuredText(text), chunks, kind)
    assert score.whole + len(score.breaks) == score.total
    return score.total, [unit.span.of(text) for unit in score.breaks]


def test_a_whole_document_is_whole() -> None:
    document = StructuredText(GUIDE)
    for each in (each for each in MEASURES.values() if each.needs == "document"):
        assert each.compute(document, [ShownChunk(Span(0, len(GUIDE)))]) == 1
        assert each.compute(document, []) == 0
        assert each.compute(StructuredText("——"), []) == 1  # nothing to break


def test_a_row_needs_its_header_in_the_chunk_or_in_its_lead() -> None:
    first, second = cut_at(GUIDE, "| 间隔")
    assert broken([first, second], "table_row") == (2, ["| 项 | 值 |\n|----|----|\n| 次数 | 3 |\n| 间隔 | 2 |"])
    lead = "\n| 项 | 值 |\n|----|----|"
    assert broken([first, second._replace(lead=lead)], "table_row") == (2, [])
    assert broken([first, second._replace(lead="| 项 |")], "table_row")[1]
    assert len(broken(cut_at(GUIDE, "次数 | 3"), "table_row")[1]) == 2  # a torn row, and one without header


def test_rows_of_html_tables_need_their_header_as_well() -> None:
    text = "<table>\n<tr><th>项</th></tr>\n<tr><td>甲</td></tr>\n<tr><td>乙</td></tr>\n</table>\n\n完。\n"
    assert broken(cut_at(text, "</table>"), "table_row", text) == (2, [])
    assert broken(cut_at(text, "<tr><td>乙"), "table_row", text)[1][0].endswith("<tr><td>乙</td></tr>")


def test_letters_that_are_longer_in_lower_case_move_no_row() -> None:
    table = "<TABLE>\n<TR><TH>项</TH></TR>\n<TR><TD>甲</TD></TR>\n</TABLE>\n\n完。\n"
    units = [
        [part.of(text) for part in unit.parts]
        for text in (table, f"İİİİİİ\n\n{table}")
        for unit in StructuredText(text).units
    ]
    assert units == [["<TR><TH>项</TH></TR>", "<TR><TD>甲</TD></TR>"]] * 2


def test_every_chunk_that_shows_some_of_a_fence_must_close_it() -> None:
    first, second = cut_at(GUIDE, "\nput(key, 1)\n```")
    assert broken([first, second], "fence")[0] == len(broken([first, second], "fence")[1]) == 1
    assert broken([first._replace(tail="```"), second._replace(lead="```python")], "fence") == (1, [])
    assert broken([first._replace(tail="```"), second], "fence")[1]
    whole = ShownChunk(Span(0, len(GUIDE)))
    assert broken([whole, first], "fence")[1]  # one that shows all of it does not mend another
    assert broken(cut_at(GUIDE, "```python", "## 步骤"), "fence") == (1, [])


def test_a_fence_that_the_document_leaves_open_is_nothing_to_break() -> None:
    assert broken([], "fence", "正文。\n\n```\na = 1\n") == (0, [])
    assert broken([], "fence", "- 项\n\n  ~~~\n  a\n  ~~~\n\n> ```\n> b\n> ```\n")[0] == 2


def test_an_example_needs_what_it_is_an_example_of() -> None:
    assert broken(cut_at(GUIDE, "例如，超时"), "example") == (
        2,
        ["重试是指失败后再发一次请求。例如，超时后等两秒再发。"],
    )
    assert broken(cut_at(GUIDE, "\n例如：\n"), "example")[1][0].startswith("幂等")
    assert broken(cut_at(GUIDE, "```python"), "example")[1][0].endswith("```")  # what it introduces belongs to it
    assert broken(cut_at(GUIDE, "## 步骤"), "example") == (2, [])


def test_each_two_consecutive_steps_need_one_chunk() -> None:
    total, breaks = broken(cut_at(GUIDE, "3. 重启"), "steps")
    assert (total, breaks) == (3, ["2. 改次数\n   （1）先备份\n   （2）再保存\n3. 重启"])
    assert broken(cut_at(GUIDE, "（2）再"), "steps")[1][0].startswith("（1）")
    assert broken(cut_at(GUIDE, "## 步骤", "## 限值"), "steps") == (3, [])


@pytest.mark.parametrize(
    "text, total",
    [
        ("步骤一：开机。\n\n步骤二：关机。\n", 1),
        ("Step 1 open\nStep 2 close\nStep 4 stop\n", 1),
        ("①甲\n②乙\n③丙\n", 2),
        ("1. 甲\n\n# 题\n\n2. 乙\n", 0),
        ("```\n1. 甲\n2. 乙\n```\n", 0),
        ("1.5 倍\n2.5 倍\n", 0),
        ("1. 甲\r2. 乙\r", 1),
        ("（一）甲；\n（二）乙。\n", 1),
    ],
)
def test_steps_count_on_under_one_heading(text: str, total: int) -> None:
    assert broken([], "steps", text)[0] == total


def test_our_structured_parser_keeps_what_fixed_windows_break(sample_documents: list[Document]) -> None:
    shares = {}
    for parser in (
        StructuredMarkdownNodeParser(chunk_size=256),
        SlidingWindowNodeParser(chunk_size=256, chunk_overlap=0),
    ):
        for kind in ("table_row", "fence"):
            whole = total = 0
            for document in sample_documents:
                nodes = parser.get_nodes_from_documents([document])
                chunks = [
                    ShownChunk(
                        Span(n.start_char_idx, n.end_char_idx), n.metadata.get("lead", ""), n.metadata.get("tail", "")
                    )
                    for n in nodes
                ]
                score = structure_score(StructuredText(document.text), chunks, kind)
                whole, total = whole + score.whole, total + score.total
            shares[type(parser), kind] = whole / total
    assert shares[StructuredMarkdownNodeParser, "table_row"] > 0.97
    assert shares[StructuredMarkdownNodeParser, "fence"] == 1
    assert max(shares[SlidingWindowNodeParser, kind] for kind in ("table_row", "fence")) < 0.7


@given(st.text("检索增强生成 ab，。", max_size=30), st.lists(SPANS, max_size=5))
def test_keyword_integrity_is_that_of_the_core(text: str, chunks: list[Span]) -> None:
    shown = [ShownChunk(chunk) for chunk in chunks]
    assert keyword_integrity(StructuredText(text), shown) == pytest.approx(core_keyword_integrity(text, chunks))


@given(st.text("甲例如：。，1.2（）\n\r `~|-# <tr>", max_size=60), st.lists(SPANS, max_size=5))
def test_any_text_has_scores_between_none_and_all(text: str, chunks: list[Span]) -> None:
    document = StructuredText(text)
    assert all(0 <= part.start < part.end <= len(text) for unit in document.units for part in unit.parts)
    for each in (each for each in MEASURES.values() if each.needs == "document"):
        shown = [ShownChunk(chunk) for chunk in chunks]
        assert 0 <= each.compute(document, shown) <= 1
        assert each.compute(document, [ShownChunk(Span(0, len(text)))]) == 1
        assert each.compute(document, shown) == each.compute(document, [*shown[::-1], *shown])


# --- answers ---


@pytest.mark.parametrize(
    "step, answer, is_there",
    [
        ("关闭阀门", "请先关闭阀门。", True),
        ("关闭阀门", "关闭\n 阀，门", True),
        ("1. 关闭阀门", "②关闭阀门", True),
        ("步骤三：关闭阀门", "关闭阀门", True),
        ("第一步，关闭阀门", "关闭阀门", True),
        ("（2）关闭阀门", "关闭阀门", True),
        ("Step 4: Close the valve", "then CLOSE **the** valve", True),
        ("Close the valve", "disclose the valves", False),
        ("加入 5 mL", "加入５ｍｌ缓冲液", True),
        ("加入 5 mL", "加入 1.5 mL", False),
        ("加入 15 mL", "加入 1.5 mL", False),
        ("降到 -20 ℃", "降到−20℃", True),
        ("降到 -20 ℃", "降到 20 ℃", False),
        ("湿度 ≤ 80%", "湿度≤80％", True),
        ("湿度 ≤ 80%", "湿度≥80%", False),
        ("1.5 倍稀释", "2.5 倍稀释", False),
        ("关闭阀门", "打开阀门", False),
        ("关闭阀门", "", False),
        ("步骤1", "见步骤 1", True),
    ],
)
def test_a_step_is_there_whatever_its_setting_but_not_with_other_figures(
    step: str, answer: str, is_there: bool
) -> None:
    score = completeness_score(answer, [step])
    assert (score.covered, score.total, score.missing) == ((1, 1, ()) if is_there else (0, 1, (step,)))
    assert score.ratio == is_there


def test_scores_of_answers_count_steps() -> None:
    score = completeness_score("打开，然后关闭。", ["打开", "检查", "关闭"])
    assert (score.covered, score.total, score.missing) == (2, 3, ("检查",))
    assert score.ratio == pytest.approx(2 / 3)
    assert completeness_score("", []).ratio == 1


@pytest.mark.parametrize("steps, message", [(["打开", "——"], "'——' has no words"), ("打开", "is one text")])
def test_steps_without_words_and_steps_that_are_no_list_are_errors(steps, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        completeness_score("打开", steps)
