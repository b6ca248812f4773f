"""Which strategy wins and why; the winner in a store, and what that store refuses."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import chromadb
import pytest
from embedders import LetterEmbedding
from llama_index.core import Document
from llama_index.core.node_parser import NodeParser, SentenceSplitter
from llama_index.vector_stores.chroma import ChromaVectorStore
from test_evaluator import FLOORS, GARDEN, QUESTIONS, TEXTS, HostileParser, evaluator, over_lines

from llama_index_chunking_plus import SlidingWindowNodeParser, SmallToBigNodeParser
from llama_index_chunking_plus.errors import OptionError, StoreMismatchError
from llama_index_chunking_plus.evaluation.persist import async_persist_selection, load_selection, persist_selection
from llama_index_chunking_plus.evaluation.results import (
    Cost,
    EvaluationReport,
    MeasureInfo,
    QuestionResult,
    RunInfo,
    Sizes,
    Span,
    StrategyAnswer,
    StrategyResult,
)
from llama_index_chunking_plus.evaluation.routing import RoutingNodeParser
from llama_index_chunking_plus.evaluation.selector import SelectionResult, StrategySelector
from llama_index_chunking_plus.evaluation.strategies import Strategy

RUN = RunInfo("2025-01-01T00:00:00+00:00", 1.0, "x86_64", {}, "letters", 5, "dense", 1000, 0.95, 1, 40)
MEASURES = (MeasureInfo("recall", "Recall@5", True, "question"), MeasureInfo("iou", "IoU@5", True, "question"))
DOCUMENTS = [Document(id_=name, text=text) for name, text in TEXTS.items()]
SMALL = SlidingWindowNodeParser(chunk_size=16, chunk_overlap=0, unit="chars")
LARGE = SlidingWindowNodeParser(chunk_size=40, chunk_overlap=16, unit="chars")


def ok(
    name: str, context: float = 1000, index: int = 5000, inflation: float = 1.0, largest: float = 300
) -> StrategyResult:
    sizes = Sizes(50, 100, 100, 200, largest, 0.3)
    return StrategyResult(name, "parser", "ok", inflation=inflation, sizes=sizes, cost=Cost(0.1, index, context))


def report(strategies: list[StrategyResult], values: dict[str, list[float]], **labels: list[Any]) -> EvaluationReport:
    """A report in which each strategy has these recalls."""
    n_questions = len(next(iter(values.values())))
    questions = tuple(
        QuestionResult(
            f"q{i}",
            "?",
            "a",
            (Span(0, 1),),
            section=labels.get("sections", [None] * n_questions)[i],
            tags=labels.get("tags", [()] * n_questions)[i],
            answers={
                name: StrategyAnswer((), {"recall": each[i], "iou": 1 - each[i]}) for name, each in values.items()
            },
        )
        for i in range(n_questions)
    )
    return EvaluationReport(RUN, MEASURES, (), tuple(strategies), questions)


def hits(n_hits: int, n_questions: int = 40) -> list[float]:
    return [1.0] * n_hits + [0.0] * (n_questions - n_hits)


def statuses(selection: Any) -> dict[str, str]:
    return {row.name: row.status for row in selection.rows}


def test_the_highest_within_the_limits_wins() -> None:
    strategies = [ok("low"), ok("high"), ok("inflated", inflation=1.51), ok("at the limit", inflation=1.5)]
    values = {"low": hits(10), "high": hits(38), "inflated": hits(40), "at the limit": hits(12)}
    selection = StrategySelector().select(report(strategies, values))
    assert selection.selected_strategy == "high"
    assert statuses(selection) == {
        "high": "selected",
        "at the limit": "worse",
        "low": "worse",
        "inflated": "eliminated",
    }
    assert [row.name for row in selection.rows] == ["high", "at the limit", "low", "inflated"]
    assert selection.rows[3].reason == "Inflation is 1.51, above the limit of 1.5."
    assert "'high' is selected, with Recall@5 0.950" in selection.reason
    assert "40 questions" in selection.reason
    assert "1 eliminated" in selection.reason
    assert selection.rows[1].difference is not None
    assert selection.rows[1].difference.mean == pytest.approx((12 - 38) / 40)


@pytest.mark.parametrize(
    "context, index, winner",
    [
        (500, 5000, "cheap"),
        (940, 9000, "cheap"),
        (960, 5000, "best"),
        (1000, 4000, "cheap"),
        (1040, 4000, "cheap"),
        (1100, 1000, "best"),
        (1000, 4900, "best"),
    ],
)
def test_a_tie_goes_to_the_one_that_is_worth_its_saving(context: float, index: int, winner: str) -> None:
    strategies = [ok("best"), ok("cheap", context, index)]
    selection = StrategySelector().select(report(strategies, {"best": hits(36), "cheap": hits(35)}))
    assert selection.selected_strategy == winner
    assert len(selection.ties) == 1
    assert selection.rows[0].name == winner


@pytest.mark.parametrize(
    "n_hits, options, status",
    [
        (39, {}, "selected"),
        (38, {}, "selected"),
        (37, {}, "worse"),  # further below than the tolerance
        (37, {"tolerance": 0.1}, "selected"),
        (30, {"tolerance": 1}, "worse"),  # the test tells them apart
        (39, {"tolerance": 0}, "selected"),  # one question is always noise
        (38, {"tolerance": 0}, "worse"),
    ],
)
def test_noise_is_what_neither_tolerance_nor_test_tells_apart(n_hits: int, options: Any, status: str) -> None:
    strategies = [ok("best"), ok("cheap", 100)]
    selection = StrategySelector(**options).select(report(strategies, {"best": hits(40), "cheap": hits(n_hits)}))
    assert statuses(selection)["cheap"] == status


@pytest.mark.parametrize(
    "limits, said",
    [
        ({"max_chunk_tokens": 299}, "The largest chunk has 300 tokens, above the limit of 299"),
        ({"min_chunk_tokens": 101}, "The median chunk has 100 tokens, below the limit of 101"),
        ({"max_chunks": 49}, "There are 50 chunks, above the limit of 49"),
        ({"max_context_tokens": 999}, "A question gets 1,000 tokens, above the limit of 999"),
    ],
)
def test_every_limit_eliminates_with_its_numbers(limits: dict[str, Any], said: str) -> None:
    selection = StrategySelector(**limits).select(report([ok("one")], {"one": hits(40)}))
    assert selection.selected_strategy is None
    assert selection.rows[0].status == "eliminated"
    assert said in selection.rows[0].reason
    assert said in selection.reason
    assert selection.limits == {"max_inflation": 1.5, "tolerance": 0.05, **limits}
    (name,) = limits
    looser = StrategySelector(**{name: limits[name] + (-1 if name.startswith("min") else 1)})
    assert looser.select(report([ok("one")], {"one": hits(40)})).selected_strategy == "one"


def test_if_none_is_left_the_result_says_why() -> None:
    strategies = [ok("wide", inflation=2), StrategyResult("broken", "parser", "failed", "ValueError: no")]
    selection = StrategySelector().select(report(strategies, {"wide": hits(40)}))
    assert selection.selected_strategy is None
    assert selection.reason == (
        "No strategy is selected: 1 eliminated and 1 failed. 'wide': Inflation is 2.00, above the limit of 1.5. "
        "'broken': ValueError: no"
    )
    result = SelectionResult(report(strategies, {"wide": hits(40)}), selection, ())
    with pytest.raises(OptionError, match="there is no parser: No strategy"):
        result.make_parser(LetterEmbedding())


def test_another_measure_turns_the_choice() -> None:
    both = report([ok("high"), ok("low")], {"high": hits(40), "low": hits(1)})
    assert StrategySelector(measure="iou").select(both).selected_strategy == "low"
    with pytest.raises(OptionError, match="measure='mrr' is none of recall, iou"):
        StrategySelector(measure="mrr").select(both)
    with pytest.raises(OptionError, match=r"measure='recal' is none of recall, .*did you mean 'recall'"):
        StrategySelector(measure="recal")


def test_what_found_nothing_is_never_selected() -> None:
    strategies = [ok("one"), ok("other"), StrategyResult("broken", "parser", "failed", "ValueError: no")]
    selection = StrategySelector().select(report(strategies, {"one": hits(0), "other": hits(0)}))
    assert selection.selected_strategy is None
    assert statuses(selection) == {"one": "eliminated", "other": "eliminated", "broken": "failed"}
    assert selection.reason.startswith(
        "No strategy is selected: no strategy found anything; 2 eliminated and 1 failed."
    )
    both = report([ok("one"), ok("other")], {"one": hits(0), "other": hits(1)})
    assert StrategySelector(tolerance=0).select(both).selected_strategy == "other"


def test_one_is_not_told_as_several_and_nothing_is_a_negative_distance_behind() -> None:
    single = report([ok("one")], {"one": [1.0]}, sections=["a"])
    selection = StrategySelector(per="section").select(single)
    assert "over 1 question:" in selection.reason
    assert "of 1 strategy none is eliminated" in selection.reason
    assert selection.routes[0].reason.startswith("1 question is too few")
    equal = StrategySelector().select(report([ok("a"), ok("b")], {"a": hits(20), "b": hits(20)}))
    told = next(row.reason for row in equal.rows if row.status == "tied")
    assert "level with" in told
    assert "-0.000" not in told


def test_a_retriever_breaks_no_limit_that_nobody_knows_of_it() -> None:
    retriever = StrategyResult("r", "retriever", "ok", cost=Cost(0.1, None, 900))
    selection = StrategySelector(max_chunks=1, max_inflation=1).select(report([retriever], {"r": hits(3)}))
    assert selection.selected_strategy == "r"


@pytest.mark.parametrize(
    "options, said",
    [
        ({"max_inflation": 0.5}, "max_inflation=0.5; it must be a number from 1"),
        ({"max_chunks": 0}, "max_chunks=0"),
        ({"max_chunks": 1.5}, "max_chunks=1.5; it must be a whole number from 1"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"per": "document"}, "per='document'"),
        ({"measure": ""}, "no name of a measure"),
    ],
)
def test_a_wrong_option_names_value_and_limit(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        StrategySelector(**options)


@pytest.mark.parametrize("per, labels", [("section", "sections"), ("tag", "tags")])
def test_each_kind_has_its_winner_if_it_has_questions_enough(per: Any, labels: str) -> None:
    kinds: list[Any] = ["code"] * 10 + ["table"] * 10 + ["rare"] * 4
    given = {labels: [(kind,) for kind in kinds] if per == "tag" else kinds}
    values = {"a": [1.0] * 10 + [0.0] * 14, "b": [0.0] * 10 + [1.0] * 10 + [0.0] * 4}
    selection = StrategySelector(per=per).select(report([ok("a"), ok("b")], values, **given))
    routes = {route.kind: route for route in selection.routes}
    assert {kind: route.strategy for kind, route in routes.items()} == {
        "code": "a", "table": "b", "rare": selection.selected_strategy,
    }  # fmt: skip
    assert routes["rare"].n_questions == 4
    assert "too few" in routes["rare"].reason
    assert "10 questions" in routes["code"].reason


# ------------------------------------------------------------------------------------------------ with real parsers


def test_the_contract_of_a_result() -> None:
    result = evaluator().select({"small": SMALL, "large": LARGE, "crash": HostileParser(fault="crash")})
    assert result.selected_strategy in {"small", "large"}
    assert result.reason == result.report.selection.reason  # type: ignore[union-attr]
    assert [row.status for row in result.table][-1] == "failed"
    winner = {"small": SMALL, "large": LARGE}[str(result.selected_strategy)]
    nodes = winner.get_nodes_from_documents(DOCUMENTS)
    assert [(each.chunk_id, each.doc_id, each.text, each.metadata) for each in result.chunks] == [
        (node.node_id, node.ref_doc_id, node.get_content(), node.metadata) for node in nodes
    ]


async def test_selecting_can_be_awaited() -> None:
    strategies = {"small": SMALL, "large": LARGE}
    awaited = await evaluator().aselect(strategies)
    assert (awaited.selection, awaited.chunks) == (
        (result := evaluator().select(strategies)).selection,
        result.chunks,
    )


def test_a_retriever_may_win_and_has_no_chunks() -> None:
    result = evaluator().select({"whole": over_lines})
    assert (result.selected_strategy, result.chunks) == ("whole", ())
    with pytest.raises(OptionError, match="is a retriever"):
        result.make_parser(LetterEmbedding())


def routed() -> SelectionResult:
    """Indoors goes to one parser, outdoors to the other."""
    kinds = ["indoors"] * 10 + ["outdoors"] * 10
    values = {"small": hits(10, 20), "split": [1 - value for value in hits(10, 20)]}
    selection = StrategySelector(per="section").select(report([ok("small"), ok("split")], values, sections=kinds))
    strategies = {
        "small": Strategy("small", SMALL),
        "split": Strategy("split", SentenceSplitter(chunk_size=30, chunk_overlap=0)),
    }
    return SelectionResult(report([], {"x": hits(1)}), selection, (), strategies)


def test_the_routing_parser_applies_the_winner_of_each_kind() -> None:
    parser = routed().make_parser(LetterEmbedding())
    assert isinstance(parser, RoutingNodeParser)
    documents = [
        Document(id_="in", text=FLOORS, metadata={"section": "indoors"}),
        Document(id_="out", text=FLOORS, metadata={"section": "outdoors"}),
        Document(id_="other", text=GARDEN),
    ]
    for document in documents:
        document.excluded_embed_metadata_keys = document.excluded_llm_metadata_keys = ["section"]
    nodes = parser.get_nodes_from_documents(documents)
    texts = {document.id_: document.text for document in documents}
    for node in nodes:
        assert texts[node.ref_doc_id][node.start_char_idx : node.end_char_idx] == node.text  # type: ignore[index,attr-defined]
    by_document = {name: [node.get_content() for node in nodes if node.ref_doc_id == name] for name in texts}
    own = {
        "in": SMALL,
        "out": SentenceSplitter(chunk_size=30, chunk_overlap=0),
        "other": {"small": SMALL}.get(
            str(routed().selected_strategy), SentenceSplitter(chunk_size=30, chunk_overlap=0)
        ),
    }
    for document in documents:
        expected = own[document.id_].get_nodes_from_documents([document])
        assert [text.strip() for text in by_document[document.id_]] == [n.get_content().strip() for n in expected]


def test_a_routing_parser_is_made_again_from_its_dump() -> None:
    parser = RoutingNodeParser(routes={"faq": SMALL}, default=LARGE, key="kind")
    again = RoutingNodeParser.from_dict(json.loads(parser.to_json()))
    assert again.to_dict() == parser.to_dict()
    named = Document(text="一。", metadata={"kind": ["x", "faq"]})
    assert again.parser_for(named).to_dict() == SMALL.to_dict()
    foreign = RoutingNodeParser(default=SentenceSplitter())
    with pytest.raises(ValueError, match="pass the parser again"):
        RoutingNodeParser.from_dict(foreign.to_dict())
    assert isinstance(RoutingNodeParser.from_dict(foreign.to_dict(), default=SMALL), NodeParser)
    with pytest.raises(ValueError, match="empty"):
        RoutingNodeParser(default=SMALL, key=" ")


# ------------------------------------------------------------------------------------------------ in a store


def chroma() -> ChromaVectorStore:
    collection = chromadb.EphemeralClient().create_collection(
        f"s-{uuid.uuid4().hex}", metadata={"hnsw:space": "cosine"}
    )
    return ChromaVectorStore(chroma_collection=collection)


def persisted(folder: Path, store: ChromaVectorStore, strategies: Any = None) -> SelectionResult:
    result = evaluator().select(strategies or {"small": SMALL, "large": LARGE})
    persist_selection(result, DOCUMENTS, folder, embed_model=LetterEmbedding(), vector_store=store)
    return result


def test_the_store_holds_the_winner_alone_and_finds_as_it_was_evaluated(tmp_path: Path) -> None:
    store = chroma()
    result = persisted(tmp_path, store)
    rows = store._collection.get()
    assert sorted(rows["documents"] or []) == sorted(chunk.text for chunk in result.chunks)
    loaded = load_selection(tmp_path, embed_model=LetterEmbedding(), k=2)
    assert loaded.choice.strategy == result.selected_strategy
    assert loaded.choice.reason == result.reason
    assert loaded.parser is not None
    assert loaded.parser.to_dict() == {"small": SMALL, "large": LARGE}[str(result.selected_strategy)].to_dict()
    assert load_selection(tmp_path, embed_model=LetterEmbedding(), parser=loaded.parser).parser is loaded.parser
    retriever = loaded.as_retriever(store)
    for asked in result.report.questions:
        found = [(hit.node.ref_doc_id, hit.node.start_char_idx) for hit in retriever.retrieve(asked.text)]  # type: ignore[attr-defined]
        hits = asked.answers[str(result.selected_strategy)].hits
        assert found == [(hit.document_id, hit.span.start) for hit in hits if hit.span]


async def test_parents_are_returned_from_the_store_as_well(tmp_path: Path) -> None:
    store = chroma()
    parents = Strategy("parents", SmallToBigNodeParser(parent_size=60, child_size=15), None, "parents", 4)
    result = evaluator().select([parents])
    await async_persist_selection(result, DOCUMENTS, tmp_path, embed_model=LetterEmbedding(), vector_store=store)
    retriever = load_selection(tmp_path, embed_model=LetterEmbedding()).as_retriever(store)
    asked = result.report.questions[0]
    found = [(hit.node.start_char_idx, hit.node.end_char_idx) for hit in await retriever.aretrieve(asked.text)]  # type: ignore[attr-defined]
    assert found == [hit.span for hit in asked.answers["parents"].hits]


class OtherEmbedding(LetterEmbedding):
    """Another model by name."""

    model_name: str = "other letters"


def test_another_k_or_model_or_parser_is_refused_with_the_reason(tmp_path: Path) -> None:
    persisted(tmp_path, chroma())
    with pytest.raises(StoreMismatchError, match=r"selected with k=2, not 3: .*another strategy may win"):
        load_selection(tmp_path, embed_model=LetterEmbedding(), k=3)
    with pytest.raises(StoreMismatchError, match=r"'unknown', not 'other letters': .*another strategy may win"):
        load_selection(tmp_path, embed_model=OtherEmbedding(), k=2)
    with pytest.raises(StoreMismatchError, match="the parser is not the one"):
        load_selection(tmp_path, embed_model=LetterEmbedding(), parser=SentenceSplitter())


def test_what_was_selected_with_another_model_is_not_persisted(tmp_path: Path) -> None:
    result = evaluator().select({"small": SMALL})
    with pytest.raises(StoreMismatchError, match="evaluate again"):
        persist_selection(result, DOCUMENTS, tmp_path, embed_model=OtherEmbedding(), vector_store=chroma())
    assert not [*tmp_path.iterdir()]


def test_another_winner_takes_the_place_of_the_first(tmp_path: Path) -> None:
    store = chroma()
    persisted(tmp_path, store, {"small": SMALL})
    persisted(tmp_path, store, {"large": LARGE})
    assert load_selection(tmp_path, embed_model=LetterEmbedding()).choice.strategy == "large"
    expected = [node.get_content() for node in LARGE.get_nodes_from_documents(DOCUMENTS)]
    assert sorted(store._collection.get()["documents"] or []) == sorted(expected)


def test_a_foreign_winner_is_passed_again(tmp_path: Path) -> None:
    splitter = SentenceSplitter(chunk_size=40, chunk_overlap=0)
    persisted(tmp_path, chroma(), {"split": splitter})
    assert load_selection(tmp_path, embed_model=LetterEmbedding()).parser is None
    assert load_selection(tmp_path, embed_model=LetterEmbedding(), parser=splitter).parser is splitter


def test_a_folder_without_a_choice_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreMismatchError, match="persist a selection there first"):
        load_selection(tmp_path, embed_model=LetterEmbedding())
    persisted(tmp_path, chroma())
    path = tmp_path / "strategy.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "format": 99}))
    with pytest.raises(StoreMismatchError, match="format is 99"):
        load_selection(tmp_path, embed_model=LetterEmbedding())


def test_what_was_chosen_for_another_search_is_not_served_by_vectors_alone(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    store = chroma()
    result = evaluator(search="fused").select({"small": SMALL})
    with pytest.raises(OptionError, match=r"search='fused', .*; select with search='dense'"):
        persist_selection(result, DOCUMENTS, tmp_path, embed_model=LetterEmbedding(), vector_store=store)
    assert not [*tmp_path.iterdir()]
    persisted(tmp_path, store)
    path = tmp_path / "strategy.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "search": "fused"}))
    with pytest.raises(OptionError, match="search='fused'"):
        load_selection(tmp_path, embed_model=LetterEmbedding()).as_retriever(store)


def test_a_winner_needs_a_store_and_a_folder(tmp_path: Path) -> None:
    result = evaluator().select({"small": SMALL})
    with pytest.raises(OptionError, match="vector_store=None is no vector store"):
        persist_selection(result, DOCUMENTS, tmp_path, embed_model=LetterEmbedding(), vector_store=None)  # type: ignore[arg-type]
    file = tmp_path / "a file"
    file.write_text("")
    with pytest.raises(OptionError, match=r"a file is no folder; choose another folder"):
        persist_selection(result, DOCUMENTS, file / "in", embed_model=LetterEmbedding(), vector_store=chroma())


def test_the_questions_are_those_of_the_evaluator() -> None:
    assert len(evaluator().select({"small": SMALL}).report.questions) == len(QUESTIONS)
