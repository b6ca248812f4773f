"""Reports to draw: a large one of made-up figures, and one of which every text is hostile."""

from __future__ import annotations

from random import Random
from typing import Any

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.evaluation.results import (
    Alignment,
    Cost,
    DocumentText,
    EvaluationReport,
    FailureSignal,
    Figure,
    GoldCut,
    Group,
    MeasureInfo,
    Note,
    QuestionResult,
    RetrievedHit,
    RunInfo,
    Selection,
    SelectionRow,
    Sizes,
    StrategyAnswer,
    StrategyChunks,
    StrategyResult,
)

HOSTILE = (
    "<script>document.title='run'</script>",
    "</script><script>document.title='run'</script>",
    "</script x=",
    "<!--<script>",
    "-->]]>",
    "<img src=x onerror=\"document.title='run'\">",
    "{{7*7}} {% raw %} ${7*7}",
    "\"'`&amp;&lt;",
    "\u2028\u2029\x00\x1b[31m",
    "javascript:alert(1)",
    "[red]no markup[/red]",
    "=1+1",
    "\ud83d",
)

_MEASURES = ("recall", "hit_rate", "mrr", "character_precision", "semantic_completeness")


def large_report(
    n_documents: int = 300, n_questions: int = 600, n_strategies: int = 12, characters: int = 3500
) -> EvaluationReport:
    """Documents that are cut evenly, and answers by chance, the same ones at every call."""
    random = Random(7)
    sentence = "这一条说明第{}号设备的保养周期与责任人，不得擅自变更。"
    documents = []
    for i in range(n_documents):
        text = "".join(sentence.format(1000 + j) + "\n" * (j % 5 == 0) for j in range(characters // 20))[:characters]
        documents.append(DocumentText(f"doc-{i:03}.md", text, f"doc-{i:03}.md", len(text)))
    names = [f"strategy {i} of {150 + 30 * i} characters" for i in range(n_strategies)]
    chunks = [
        tuple(StrategyChunks(each.document_id, _windows(len(each.text), 150 + 30 * i)) for each in documents)
        for i in range(n_strategies)
    ]
    questions = [_question(random, i, documents, names, chunks) for i in range(n_questions)]
    strategies = [_strategy(name, i, questions, chunks[i]) for i, name in enumerate(names)]
    rows = [
        SelectionRow(each.name, "worse" if i else "selected", "made up", each.measures["recall"], each.inflation)
        for i, each in enumerate(strategies)
    ]
    return EvaluationReport(
        _run(n_documents, n_questions),
        tuple(MeasureInfo(name, name, True, "question") for name in _MEASURES),
        tuple(documents),
        tuple(strategies),
        tuple(questions),
        selection=Selection(names[0], "made up", "recall", "recall", {"max_inflation": 1.5}, 0.95, tuple(rows)),
    )


def _run(n_documents: int, n_questions: int) -> RunInfo:
    return RunInfo(
        "2025-11-30T10:00:00Z",
        12.5,
        "x86_64",
        {"numpy": "2"},
        "made up",
        5,
        "dense",
        1000,
        0.95,
        n_documents,
        n_questions,
    )


def _windows(length: int, size: int) -> tuple[Span, ...]:
    """Windows that overlap by a fifth."""
    return tuple(Span(start, min(length, start + size)) for start in range(0, length, size * 4 // 5))


def _question(
    random: Random, i: int, documents: list[DocumentText], names: list[str], chunks: list[tuple[StrategyChunks, ...]]
) -> QuestionResult:
    place = i % len(documents)
    start = random.randrange(0, len(documents[place].text) - 60)
    gold = Span(start, start + 50)
    answers = {}
    for name, of_documents in zip(names, chunks, strict=True):
        spans = of_documents[place].spans
        whole = any(span.start <= gold.start and gold.end <= span.end for span in spans)
        edges = tuple(span.end for span in spans if gold.start < span.end < gold.end)
        hits = tuple(
            RetrievedHit(documents[place].document_id, random.choice(spans), random.random()) for _ in range(5)
        )
        values = {measure: random.choice([0.0, 0.5, 1.0]) for measure in _MEASURES}
        answers[name] = StrategyAnswer(hits, values, () if whole else (GoldCut(gold, edges),))
    return QuestionResult(
        f"q{i}",
        f"第{i}个问题：设备的保养周期是多久？",
        documents[place].document_id,
        (gold,),
        section=f"section {i % 8}",
        tags=("odd",) if i % 2 else ("even", "all"),
        answers=answers,
    )


def _strategy(name: str, i: int, questions: list[QuestionResult], chunks: tuple[StrategyChunks, ...]) -> StrategyResult:
    def figures(part: list[QuestionResult]) -> dict[str, Figure]:
        means = {
            measure: sum(each.answers[name].measures[measure] for each in part) / len(part) for measure in _MEASURES
        }
        return {measure: Figure(mean, mean * 0.9, min(1.0, mean * 1.1), len(part)) for measure, mean in means.items()}

    sections = sorted({each.section or "" for each in questions})
    by_section = [(each, [question for question in questions if question.section == each]) for each in sections]
    n_chunks = sum(len(each.spans) for each in chunks)
    return StrategyResult(
        name,
        "parser",
        "ok",
        "",
        {"chunk_size": 150 + 30 * i},
        figures(questions),
        tuple(Group(label, len(part), figures(part)) for label, part in by_section),
        inflation=1.25 + 0.01 * i,
        sizes=Sizes(n_chunks, 150.0, 150.0, 150.0, 150.0, 0.0),
        alignment=Alignment(n_chunks, 0, 0, 0),
        cost=Cost(1.0, 10_000, 750.0),
        chunks=chunks,
    )


def _hostile_completeness() -> dict[str, Any]:
    return {
        "good_enough": 0.8,
        "strategies": [
            {
                "strategy": name,
                "score": 0.0,
                "kinds": [{"kind": name, "score": 0.0, "total": 1}],
                "breakages": [{"kind": name, "how": name, "n_probes": 1}],
                "cuts": [
                    {
                        "kind": name,
                        "how": name,
                        "question": name,
                        "document_id": name,
                        "pieces": 2,
                        "partial": 0.5,
                        "places": [{"before": name, "after": name}],
                    }
                ],
            }
            for name in HOSTILE
        ],
    }


def hostile_report() -> EvaluationReport:
    """A report of which every name, id, text and message tries to be something else."""
    text = "😀" + "😀".join(HOSTILE) + "。"
    spans = (Span(0, 40), Span(30, len(text)))
    strategies, rows = [], []
    for i, name in enumerate(HOSTILE):
        figure = Figure(0.5, 0.25, 0.75, 6)
        strategies.append(
            StrategyResult(
                name,
                "parser",
                "ok",
                configuration={name: name},
                measures={"recall": figure},
                by_section=(Group(name, 6, {"recall": figure}),),
                by_tag=(Group(name, 6, {"recall": figure}),),
                inflation=1.0 + i / 10,
                chunks=(StrategyChunks(name, spans),),
            )
        )
        rows.append(SelectionRow(name, "worse" if i else "selected", name, figure, 1.0 + i / 10))
    answer = StrategyAnswer(
        (RetrievedHit(HOSTILE[0], spans[0], 0.5),), {"recall": 0.5}, (GoldCut(Span(35, 45), (40,)),)
    )
    return EvaluationReport(
        RunInfo(
            *["2025-11-30T10:00:00Z", 1.0, *HOSTILE[:1]],
            dict.fromkeys(HOSTILE, HOSTILE[1]),
            HOSTILE[1],
            5,
            "dense",
            9,
            0.95,
            1,
            1,
        ),
        (MeasureInfo("recall", HOSTILE[0], True, "question"),),
        tuple(DocumentText(name, text, name, 9) for name in HOSTILE),
        tuple(strategies),
        tuple(
            QuestionResult(
                name,
                name,
                HOSTILE[0],
                (Span(35, 45),),
                section=name,
                tags=(name,),
                answers=dict.fromkeys(HOSTILE, answer),
            )
            for name in HOSTILE
        ),
        tuple(Note("document", name, name) for name in HOSTILE),
        tuple(FailureSignal("text_lost", name, name, name, {}) for name in HOSTILE),
        Selection(HOSTILE[0], HOSTILE[0], "recall", HOSTILE[1], {"max_inflation": 1.5}, 0.95, tuple(rows)),
        _hostile_completeness(),
    )
