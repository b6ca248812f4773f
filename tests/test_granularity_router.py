"""Which level answers a question: labelled questions, rules as data, and retrievers by level."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_chunking_plus.core.granularity import (
    LEVELS,
    QUERY_RULES,
    GranularityDecision,
    QueryRule,
    checked_levels,
    in_order,
    level_among,
)
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.retrievers import GranularityRouter, GranularityRouterRetriever, SmallToBigRetriever
from llama_index_chunking_plus.storage import SourceSliceLookup

QUESTIONS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "granularity_questions.jsonl").read_text("utf-8").splitlines()
]
ROUTER = GranularityRouter()


# --- labelled questions ---
# "before" was written before the rules, by the same hand; "tuning" is what the rules were corrected by; "after" was
# written when they were final, and no rule was changed for it. ``level`` is best, those in ``also`` serve as well.


def shares(part: str, levels: list[str]) -> tuple[float, float]:
    """Of the questions of a part, the shares that these levels are best for, and that they serve."""
    rows = [row for row in QUESTIONS if row["part"] == part]
    pairs = [*zip(rows, levels, strict=True)]
    best = sum(row["level"] == level for row, level in pairs)
    fits = sum(level in {row["level"], *row["also"]} for row, level in pairs)
    return best / len(rows), fits / len(rows)


@pytest.mark.parametrize("part, best, fits", [("before", 0.95, 0.97), ("tuning", 0.95, 0.97), ("after", 0.75, 0.87)])
def test_labelled_questions(part: str, best: float, fits: float) -> None:
    asked = [row["question"] for row in QUESTIONS if row["part"] == part]
    found = shares(part, [ROUTER.route(question).level for question in asked])
    assert found >= (best, 0), found
    assert found[1] >= fits, found
    for level in LEVELS:  # what needs no rules is far behind
        constant = shares(part, [level] * len(asked))
        assert constant[0] <= 0.5 < best
        assert constant[1] <= 0.7 < fits


def test_the_labelled_questions_are_of_many_kinds() -> None:
    assert len({row["question"] for row in QUESTIONS}) == len(QUESTIONS) >= 300
    assert {row["level"] for row in QUESTIONS} | {level for row in QUESTIONS for level in row["also"]} == {*LEVELS}
    assert all(row["level"] not in row["also"] for row in QUESTIONS)
    for part in ("before", "tuning", "after"):
        own = [row for row in QUESTIONS if row["part"] == part]
        assert sum(row["question"].isascii() for row in own) >= 15
        assert all(sum(row["level"] == level for row in own) >= 10 for level in LEVELS)


@pytest.mark.parametrize(
    "query, level, words",
    [
        ("年假是什么意思？", "fine", "什么意思"),
        ("年假和调休有什么区别？", "coarse", "区别"),  # although it holds 什么
        ("年假和調休有什麼區別？", "coarse", "區別"),
        ("怎么收费？", "fine", "怎么收"),  # although it holds 怎么
        ("怎麼收費？", "fine", "怎麼收"),
        ("怎么办理？", "medium", "怎么"),
        ("如何申請？", "medium", "如何"),
        ("为什么要申请？", "medium", "为什么"),
        ("是否要申请？", "fine", "是否"),
        ("可以申请吗？", "fine", "吗"),
        ("介绍人奖励是多少？", "fine", "多少"),  # 介绍 is no request here
        ("一共多少钱，和去年相比有什么不同？", "coarse", "相比"),
        ("ＨＯＷ　ＭＡＮＹ days?", "fine", "how many"),
        ("Can you summarize it?", "coarse", "summarize"),
        ("What’s the difference?", "coarse", "difference"),
    ],
)
def test_the_words_that_decide(query: str, level: str, words: str) -> None:
    decision = ROUTER.route(query)
    assert (decision.level, decision.matched[0]) == (level, words)
    assert words in decision.reason
    assert ROUTER.explain(query) == f"The level is {level!r}. {decision.reason}"


@pytest.mark.parametrize("query", ["", " ", "？", "量子", "lorem ipsum", "\ud800"])
def test_a_question_without_a_sign_takes_the_default(query: str) -> None:
    assert ROUTER.route(query) == GranularityDecision(
        "medium", "It says nothing about what it asks for.", (), dict.fromkeys(LEVELS, 0)
    )
    assert GranularityRouter(default="fine").route(query).level == "fine"


@given(st.text(st.sampled_from("怎么样多少和有什么区别吗几不是how many what vs .？"), max_size=60))
def test_the_level_is_the_first_of_the_best(query: str) -> None:
    decision = ROUTER.route(query)
    assert [*decision.scores] == [*LEVELS]
    if any(decision.scores.values()):
        best = max(decision.scores.values())
        assert decision.level == next(level for level, score in decision.scores.items() if score == best)
        assert decision.matched
    else:
        assert (decision.level, decision.matched) == ("medium", ())


def test_of_a_long_question_the_beginning_and_the_end_are_read() -> None:
    filler = "背景。" * 10_000
    assert ROUTER.route(filler + "年假有几天？").level == "fine"
    assert ROUTER.route("总结一下：" + filler).level == "coarse"
    assert ROUTER.route(filler + "总结一下" + filler).matched == ()


# --- rules are data ---


def test_own_rules_and_levels() -> None:
    rules = (QueryRule("保质期", "sentence", 10, "asks for a period"), *QUERY_RULES)
    router = GranularityRouter(levels=("document", "section", "sentence"), rules=rules)
    assert router.default == "section"
    asked = ("总结一下保质期", "总结一下", "如何保存", "保存几天")
    assert [router.route(query).level for query in asked] == ["sentence", "document", "section", "sentence"]
    assert router.route("保质期几天").scores == {"document": 0, "section": 0, "sentence": 13}


def test_of_equal_levels_the_coarser() -> None:
    rules = [QueryRule("a", "fine", 1, "is a"), QueryRule("b", "coarse", 1, "is b"), QueryRule("c", "fine", 1, "is c")]
    assert GranularityRouter(rules=rules).route("ab").level == "coarse"
    assert GranularityRouter(rules=rules).route("abc").matched == ("a", "c")
    assert GranularityRouter(rules=[]).route("abc").level == "medium"


@pytest.mark.parametrize(
    "levels, expected",
    [
        (["all"], ["all", "all", "all"]),
        (["coarse", "fine"], ["coarse", "coarse", "fine"]),
        (["medium", "fine"], ["medium", "medium", "fine"]),
        (["a", "b", "c", "d"], ["a", "b", "d"]),
        ([*LEVELS, "sentence"], [*LEVELS]),
    ],
)
def test_default_names_among_other_levels(levels: list[str], expected: list[str]) -> None:
    assert [level_among(name, levels) for name in LEVELS] == expected
    assert checked_levels(levels) == tuple(levels) == in_order(levels)
    assert {ROUTER.route("几天").level} <= {*LEVELS}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GranularityRouter(levels=()), r"levels=\(\) names no level; pass names, coarse to fine"),
        (lambda: GranularityRouter(levels=3), "levels=3 names no level"),  # type: ignore[arg-type]
        (lambda: ROUTER.route(None), "query=None is no text; pass the question"),  # type: ignore[arg-type]
        (lambda: ROUTER.explain(b"x"), "query=b'x' is no text"),  # type: ignore[arg-type]
        (lambda: GranularityRouterRetriever(3), "retrievers=3 is no mapping"),  # type: ignore[arg-type]
        (lambda: GranularityRouterRetriever({"fine": Fixed("f")}, 3), "router=3 is no GranularityRouter; pass"),  # type: ignore[arg-type]
        (lambda: GranularityRouter(levels="fine"), "levels="),
        (lambda: GranularityRouter(levels=("fine", " ")), "levels="),
        (lambda: GranularityRouter(levels=("fine", "fine")), "twice"),
        (lambda: GranularityRouter(levels=("fine", "coarse")), "coarse to fine"),
        (lambda: GranularityRouter(default="large"), "'large'"),
        (lambda: GranularityRouter(rules=[QueryRule("a", "large", 1, "")]), "'large'"),
        (lambda: GranularityRouter(classifier="gpt"), "not callable"),  # type: ignore[arg-type]
        (lambda: GranularityRouter(default=["fine"]), r"default=\['fine'\] is none of the levels"),  # type: ignore[arg-type]
        (lambda: GranularityRouter(rules=[*QUERY_RULES, "几天"]), "are no QueryRules; pass"),  # type: ignore[list-item]
        (lambda: GranularityRouter(rules="几天"), "rules='几天' are no QueryRules"),  # type: ignore[arg-type]
        (lambda: QueryRule("(", "fine", 1, ""), "regular expression"),
        (lambda: QueryRule(" ", "fine", 1, ""), "pattern=' ' of a rule is blank"),
        (lambda: QueryRule("a", "", 1, ""), "level='' of a rule is blank"),
        (lambda: QueryRule("a", "fine", True, ""), "weight=True"),
        (lambda: QueryRule("a", "fine", 1, None), "reason=None of the rule 'a' is no text"),  # type: ignore[arg-type]
        (lambda: QueryRule("a", "fine", 0, ""), "weight=0"),
        (lambda: QueryRule("a", "fine", float("nan"), ""), "weight=nan"),
        (lambda: GranularityRouterRetriever({}), "levels="),
        (lambda: GranularityRouterRetriever({"fine": None}), "no retriever"),  # type: ignore[dict-item]
        (lambda: GranularityRouterRetriever({"fine": Fixed("f")}, GranularityRouter()), "lacks"),
    ],
)
def test_wrong_options_fail_at_once(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_a_router_pickles() -> None:
    ROUTER.route("几天")
    assert pickle.loads(pickle.dumps(ROUTER)) == ROUTER


# --- a classifier ---


def test_a_classifier_replaces_the_rules() -> None:
    router = GranularityRouter(classifier=lambda query: "coarse" if "几" in query else "fine")
    decision = router.route("几天")
    assert (decision.level, decision.matched) == ("coarse", ())
    assert decision.scores == {"coarse": 1, "medium": 0, "fine": 0}
    assert router.explain("总结") == "The level is 'fine'. The classifier says so."


@pytest.mark.parametrize("answer", ["large", "", None, 3])
def test_a_classifier_that_names_no_level(answer: Any) -> None:
    router = GranularityRouter(classifier=lambda _: answer)
    with pytest.warns(ChunkingPlusWarning, match="none of the levels"):
        assert router.route("几天").level == "medium"


# --- retrievers ---


class Fixed(BaseRetriever):
    """Finds one text, whatever is asked; counts how."""

    def __init__(self, text: str, failure: Exception | None = None) -> None:
        self.text, self.failure = text, failure
        self.asked: list[str] = []
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found("sync", query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found("async", query_bundle)

    def _found(self, how: str, query: QueryBundle) -> list[NodeWithScore]:
        self.asked.append(f"{how} {query.query_str}")
        if self.failure:
            raise self.failure
        return [NodeWithScore(node=TextNode(id_=self.text, text=self.text), score=0.5)]


def test_each_query_goes_to_the_retriever_of_its_level() -> None:
    retrievers = {level: Fixed(level) for level in ("fine", "medium", "coarse")}  # in any order
    retriever = GranularityRouterRetriever(retrievers)
    assert retriever.router.levels == LEVELS
    for query, level in (("几天？", "fine"), ("如何申请？", "medium"), ("总结一下", "coarse"), ("量子", "medium")):
        (found,) = retriever.retrieve(query)
        assert found.text == level
        assert asyncio.run(retriever.aretrieve(query))[0].text == level
    assert retrievers["fine"].asked == ["sync 几天？", "async 几天？"]
    assert retrievers["coarse"].asked == ["sync 总结一下", "async 总结一下"]


def test_two_levels_or_those_of_a_router() -> None:
    two = GranularityRouterRetriever({"fine": Fixed("f"), "coarse": Fixed("c")})
    assert [two.retrieve(query)[0].text for query in ("几天？", "如何申请？", "总结")] == ["f", "c", "c"]
    always = GranularityRouter(levels=("big", "small"), classifier=lambda _: "small")
    own = GranularityRouterRetriever({"small": Fixed("s"), "big": Fixed("b"), "other": Fixed("o")}, always)
    assert own.retrieve("总结")[0].text == "s"


@pytest.mark.parametrize("query", ["", " \n"])
def test_a_blank_query_is_refused(query: str) -> None:
    asked = Fixed("f")
    lookup = SourceSliceLookup(SimpleDocumentStore())
    for retriever in (GranularityRouterRetriever({"fine": asked}), SmallToBigRetriever(asked, lookup)):
        with pytest.raises(OptionError, match="is blank; ask for something"):
            retriever.retrieve(query)
        with pytest.raises(OptionError, match="is blank; ask for something"):
            asyncio.run(retriever.aretrieve(query))
    assert asked.asked == []
    assert ROUTER.route(query).level == "medium"


def test_what_fails_is_passed_on() -> None:
    failing = GranularityRouterRetriever({"all": Fixed("", failure=ConnectionError("down"))})
    with pytest.raises(ConnectionError, match="down"):
        failing.retrieve("几天？")
    with pytest.raises(ConnectionError, match="down"):
        asyncio.run(failing.aretrieve("几天？"))
