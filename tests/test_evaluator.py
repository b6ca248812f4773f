"""The evaluator: its figures against a plain computation, its cache, and what hostile inputs become."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedders import FaultyEmbedding, LetterEmbedding, letter_vector
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser, SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.schema import BaseNode, TextNode

from llama_index_chunking_plus import SlidingWindowNodeParser, SmallToBigNodeParser, Span, chinese_sentence_tokenizer
from llama_index_chunking_plus.errors import ChunkingPlusWarning, InputFileError, OptionError
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion, EvaluationSetError, Quote
from llama_index_chunking_plus.evaluation.evaluator import ChunkingEvaluator
from llama_index_chunking_plus.evaluation.frozen import FrozenEmbedding, VectorCache
from llama_index_chunking_plus.evaluation.placement import Whereabouts, place_nodes
from llama_index_chunking_plus.evaluation.results import (
    SCHEMA_VERSION,
    EvaluationReport,
    Figure,
    StrategyResult,
    report_schema,
)
from llama_index_chunking_plus.evaluation.strategies import Strategy

SAMPLE = Path(__file__).parent / "data" / "evaluation" / "report_sample.json"
FLOORS = (
    "一楼是大厅，放着沙发和报纸。\n二楼是展厅，展出宋代陶瓷。\n三楼是餐厅，中午供应面条。\n四楼是办公室，周末没有人。\n"
)
GARDEN = "花园里种着月季和牡丹。\n池塘里养着锦鲤。\n温室在冬天开放，门票十元。\n"
TEXTS = {"floors": FLOORS, "garden": GARDEN}
SMALL = SlidingWindowNodeParser(chunk_size=16, chunk_overlap=0, unit="chars")
LARGE = SlidingWindowNodeParser(chunk_size=40, chunk_overlap=16, unit="chars")


def question(name: str, text: str, document: str, *quotes: str, **more: Any) -> EvaluationQuestion:
    return EvaluationQuestion(name, text, document, quotes=tuple(map(Quote, quotes)), **more)


QUESTIONS = [
    question("q1", "展厅展出什么？", "floors", "展出宋代陶瓷", section="indoors", tags=("what",)),
    question(
        "q2", "餐厅中午供应什么？", "floors", "三楼是餐厅，中午供应面条", section="indoors", tags=("what", "long")
    ),
    question("q3", "池塘里养着什么？", "garden", "锦鲤", section="outdoors", tags=("what",)),
    question("q4", "温室什么时候开放，门票多少？", "garden", "冬天开放", "门票十元", section="outdoors"),
]


def evaluator(**options: Any) -> ChunkingEvaluator:
    given = {"documents": TEXTS, "questions": QUESTIONS, "embed_model": LetterEmbedding(), "k": 2, **options}
    return ChunkingEvaluator(**given)


class StrippingParser(NodeParser):
    """Says nothing of offsets, joins lines by spaces, and makes one chunk up."""

    invented: str = "没有这回事。"

    @classmethod
    def class_name(cls) -> str:
        return "StrippingParser"

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:  # noqa: ARG002
        made: list[BaseNode] = []
        for node in nodes:
            lines = [*node.get_content().split("\n"), self.invented]
            source = {"1": {"node_id": node.node_id}}
            made += [TextNode(text=line.replace("，", "， "), relationships=source) for line in lines]
        return made


class HostileParser(StrippingParser):
    """Crashes, or gives nothing, or only blanks, or nodes of nowhere."""

    fault: str

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:  # noqa: ARG002
        if self.fault == "crash":
            raise ZeroDivisionError("division by zero")
        if self.fault == "changes its input":
            for node in nodes:
                node.metadata["seen"] = True
                node.set_content("变了")  # type: ignore[attr-defined]
        made = {"blank": [TextNode(text="  ")], "nowhere": [TextNode(text="没有这回事。")] * 3}
        return [*made.get(self.fault, [])]


def ranking(chunks: Sequence[tuple[str, int, int]], asked: str) -> list[tuple[str, int, int]]:
    """All chunks by the cosine of their vectors, computed one by one."""
    target = np.array(letter_vector(asked), dtype=np.float32)
    scores = [float(np.dot(np.array(letter_vector(TEXTS[d][s:e]), dtype=np.float32), target)) for d, s, e in chunks]
    order = sorted(range(len(chunks)), key=lambda i: -scores[i])
    return [chunks[i] for i in order]


@pytest.mark.parametrize("parser", [SMALL, LARGE], ids=["small", "large"])
def test_figures_are_those_of_a_plain_computation(parser: SlidingWindowNodeParser) -> None:
    report = evaluator().evaluate({"sliding": parser})
    nodes = parser.get_nodes_from_documents([Document(id_=name, text=text) for name, text in TEXTS.items()])
    chunks = [(node.ref_doc_id, node.start_char_idx, node.end_char_idx) for node in nodes]
    for asked, found in zip(QUESTIONS, report.questions, strict=True):
        top = ranking(chunks, asked.text)[:2]
        answer = found.answers["sliding"]
        assert [(hit.document_id, *hit.span) for hit in answer.hits if hit.span] == top
        shown = {i for d, s, e in top if d == asked.document_id for i in range(s, e)}
        gold = [{*range(*span)} for span in found.gold]
        assert answer.measures["recall"] == sum(each <= shown for each in gold) / len(gold)
        wanted, n_shown = set().union(*gold), sum(e - s for _, s, e in top)
        assert answer.measures["iou"] == pytest.approx(len(wanted & shown) / (n_shown + len(wanted - shown)))
        whole = sum(any(each <= {*range(s, e)} for d, s, e in chunks if d == asked.document_id) for each in gold)
        assert answer.measures["semantic_completeness"] == whole / len(gold)
        assert len(answer.cuts) == len(gold) - whole
    result = report.strategy("sliding")
    assert result.sizes is not None
    assert result.sizes.n_chunks == len(nodes)
    recalls = [found.answers["sliding"].measures["recall"] for found in report.questions]
    assert result.measures["recall"] == Figure(float(np.mean(recalls)), None, None, 4)
    assert {group.name: group.n_questions for group in result.by_tag} == {"what": 3, "long": 1}
    assert {group.name: group.n_questions for group in result.by_section} == {"indoors": 2, "outdoors": 2}
    assert [each.document_id for each in result.chunks] == ["floors", "garden"]


def test_a_cut_is_where_chunks_end_inside_of_the_gold() -> None:
    parser = SlidingWindowNodeParser(chunk_size=10, chunk_overlap=0, unit="chars")
    report = evaluator().evaluate({"tiny": parser})
    (cut,) = report.questions[1].answers["tiny"].cuts
    edges = {edge for span in report.strategy("tiny").chunks[0].spans for edge in span}
    assert cut.gold == report.questions[1].gold[0]
    assert cut.at
    assert set(cut.at) == {edge for edge in edges if cut.gold.start < edge < cut.gold.end}


def test_what_is_retrieved_is_what_would_be_returned() -> None:
    parents = SmallToBigNodeParser(parent_size=60, child_size=15)
    window = SentenceWindowNodeParser.from_defaults(window_size=1, sentence_splitter=chinese_sentence_tokenizer)
    report = evaluator(k=1).evaluate(
        [
            Strategy("children", parents),
            Strategy("parents", parents, expansion="parents", hits_per_result=4),
            Strategy("windows", window, expansion="window_metadata"),
        ]
    )
    assert [each.status for each in report.strategies] == ["ok"] * 3
    first = report.questions[0].answers
    child, parent, wide = (first[name].hits[0].span for name in ("children", "parents", "windows"))
    assert child is not None
    assert parent is not None
    assert wide is not None
    assert child != parent
    assert parent.start <= child.start < child.end <= parent.end
    assert FLOORS[slice(*wide)].count("楼是") == 3  # the sentence and one on each side, joined by spaces
    (floors, _) = report.strategy("parents").chunks
    assert len(floors.spans) == len(floors.returned) > len(set(floors.returned))
    assert report.strategy("parents").inflation == report.strategy("children").inflation


def test_foreign_chunks_are_found_in_the_text_and_what_is_not_is_counted() -> None:
    result = evaluator().evaluate({"stripping": StrippingParser()}).strategy("stripping")
    assert result.status == "ok"
    assert result.alignment is not None
    assert (result.alignment.exact, result.alignment.lost) == (2, 2)  # lines without a comma are as they were
    assert result.alignment.recovered == 5
    assert [signal for signal in evaluator().evaluate({"s": StrippingParser()}).signals if signal.kind == "text_lost"]


@pytest.mark.parametrize("search", ["lexical", "fused"])
def test_other_searches_find_what_shares_words(search: str) -> None:
    pytest.importorskip("bm25s")
    model = LetterEmbedding()
    report = evaluator(search=search, embed_model=model).evaluate({"small": SMALL})
    assert report.questions[2].answers["small"].measures["recall"] == 1
    assert bool(model.asked) == (search == "fused")
    assert report.run.search == search


# ------------------------------------------------------------------------------------------------ retrievers


def over_lines(documents: Sequence[Document], model: BaseEmbedding) -> BaseRetriever:
    parser = SentenceSplitter(chunk_size=40, chunk_overlap=0)
    index = VectorStoreIndex(parser.get_nodes_from_documents(documents), embed_model=model)
    return index.as_retriever(similarity_top_k=3)


def test_whole_retrievers_are_judged_by_what_they_return() -> None:
    documents = [Document(id_=name, text=text) for name, text in TEXTS.items()]
    ready = over_lines(documents, LetterEmbedding())
    report = evaluator().evaluate({"made": over_lines, "ready": ready})
    made, given = report.strategies
    assert made.kind == given.kind == "retriever"
    assert made.measures == given.measures
    assert made.inflation is None
    assert not made.chunks
    assert all(len(each.answers["made"].hits) <= 2 for each in report.questions)
    assert report.questions[2].answers["ready"].measures["recall"] == 1


async def test_async_gives_the_same_report() -> None:
    strategies = {"small": SMALL, "made": over_lines, "crash": HostileParser(fault="crash")}
    sync, awaited = evaluator().evaluate(strategies), await evaluator().aevaluate(strategies)
    assert awaited.questions == sync.questions
    assert [(each.status, each.measures, each.reason) for each in awaited.strategies] == [
        (each.status, each.measures, each.reason) for each in sync.strategies
    ]


# ------------------------------------------------------------------------------------------------ hostile inputs


def test_a_strategy_that_fails_is_a_row_with_the_reason() -> None:
    strategies = [
        Strategy("fine", SMALL),
        Strategy("crash", HostileParser(fault="crash")),
        Strategy("empty", HostileParser(fault="empty")),
        Strategy("blank", HostileParser(fault="blank")),
        Strategy("no parser", lambda _: None),  # type: ignore[arg-type,return-value]
        Strategy("fine", LARGE),
        Strategy("bad retriever", retriever=lambda _, __: 1),  # type: ignore[arg-type,return-value]
        Strategy("last", LARGE),
    ]
    report = evaluator().evaluate(strategies)
    assert {each.name: each.status for each in report.strategies} == {
        "fine": "ok",
        "crash": "failed",
        "empty": "failed",
        "blank": "failed",
        "no parser": "failed",
        "fine (2)": "failed",
        "bad retriever": "failed",
        "last": "ok",
    }
    reasons = {each.name: each.reason for each in report.strategies}
    assert reasons["crash"] == "ZeroDivisionError: division by zero"
    assert "no chunk with any text" in reasons["empty"]
    assert "no chunk with any text" in reasons["blank"]
    assert "another strategy is named 'fine'" in reasons["fine (2)"]
    failed = {name for name, reason in reasons.items() if reason}
    assert {note.name for note in report.notes if note.about == "strategy"} == failed
    assert report.questions[0].answers.keys() == {"fine", "last"}
    assert EvaluationReport.from_json(report.to_json()) == report


def test_a_strategy_of_which_nothing_can_be_found_fails_with_the_reason() -> None:
    def elsewhere(_: Sequence[Document], model: BaseEmbedding) -> BaseRetriever:
        nodes = [TextNode(text="别处的话。"), TextNode(text="别处的另一句话。")]
        return VectorStoreIndex(nodes, embed_model=model).as_retriever(similarity_top_k=2)

    nowhere = HostileParser(fault="nowhere")
    report = evaluator().evaluate({"nowhere": nowhere, "elsewhere": elsewhere, "small": SMALL})
    assert [each.status for each in report.strategies] == ["failed", "failed", "ok"]
    assert "none of its 3 chunks can be found in the documents: " in report.strategy("nowhere").reason
    assert "none of its 8 results can be found in the documents: " in report.strategy("elsewhere").reason


class NamelessParser(NodeParser):
    """Cuts into lines, and does not say of which document they are."""

    @classmethod
    def class_name(cls) -> str:
        return "NamelessParser"

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:  # noqa: ARG002
        return [TextNode(text=line) for node in nodes for line in node.get_content().split("\n") if line]


@pytest.mark.parametrize("texts", [TEXTS, {"floors": FLOORS}], ids=["several documents", "one document"])
def test_chunks_that_name_no_document_are_placed_by_their_text(texts: dict[str, str]) -> None:
    asked = [each for each in QUESTIONS if each.document_id in texts]
    result = evaluator(documents=texts, questions=asked, k=4).evaluate({"lines": NamelessParser()}).strategy("lines")
    lines = {name: text.splitlines() for name, text in texts.items()}
    assert result.alignment is not None
    assert (result.alignment.recovered, result.alignment.lost) == (sum(map(len, lines.values())), 0)
    assert {
        each.document_id: [span.of(texts[each.document_id]) for span in each.spans] for each in result.chunks
    } == lines
    assert result.measures["recall"].mean > 0.5


def test_of_several_documents_with_a_text_the_offsets_or_the_neighbour_decide() -> None:
    texts = {"a": "甲。共有的话。", "b": "乙乙。共有的话。", "c": "丙。"}
    here = TextNode(text="共有的话。", start_char_idx=3, end_char_idx=8)
    assert Whereabouts(texts).of(here) == ("b", (3, 8))
    before, loose, lost = TextNode(text="乙乙。"), TextNode(text="共 有的话。"), TextNode(text="没有。")
    placed = place_nodes([before, TextNode(text="共有的话。"), lost, loose], texts).places
    assert [place and place.document_id for place in placed] == ["b", "b", None, "a"]
    assert Whereabouts(texts).of(TextNode(text=" ")) is None


def test_a_strategy_cannot_change_what_the_others_see() -> None:
    documents = [Document(id_=name, text=text, metadata={"file_name": f"{name}.txt"}) for name, text in TEXTS.items()]
    before = [document.model_dump() for document in documents]
    changing = HostileParser(fault="changes its input")
    report = evaluator(documents=documents).evaluate({"first": SMALL, "changing": changing, "again": SMALL})
    assert report.strategy("first").measures == report.strategy("again").measures
    assert [document.model_dump() for document in documents] == before
    assert [document.title for document in report.documents] == ["floors.txt", "garden.txt"]


@pytest.mark.parametrize("fault", ["raise", "nan", "infinite", "zero", "dimension"])
def test_a_failing_model_fails_the_strategies_that_need_it(fault: str) -> None:
    model = FaultyEmbedding(word="锦鲤", fault=fault)
    report = evaluator(embed_model=model).evaluate({"dense": SMALL})
    (result,) = report.strategies
    assert result.status == "failed"
    assert "did not answer" in result.reason or "vector" in result.reason


def test_documents_and_questions_that_cannot_be_used_are_noted() -> None:
    documents = [
        Document(id_="floors", text=FLOORS),
        Document(id_="floors", text="又一份。"),
        Document(id_="blank", text=" \n"),
        Document(id_="half", text="半个字\ud800。"),
    ]
    asked = [QUESTIONS[0], question("lost", "？", "missing", "x"), question("void", "？", "blank", "x")]
    report = evaluator(documents=documents, questions=asked).evaluate({"small": SMALL})
    assert [(note.about, note.name) for note in report.notes if note.name != "(all)"] == [
        ("document", "floors"), ("document", "blank"), ("question", "lost"), ("question", "void"),
    ]  # fmt: skip
    assert report.notes[0].message.startswith(
        "Another document, with another text, has this id; only the first is used"
    )
    assert report.run.n_documents == 2
    assert report.run.n_questions == 1
    assert report.strategy("small").status == "ok"
    assert EvaluationReport.from_json(report.to_json()) == report


def test_where_nothing_can_be_asked_every_strategy_says_so() -> None:
    report = evaluator(questions=[question("lost", "？", "missing", "x")]).evaluate({"small": SMALL})
    assert report.strategies == (
        StrategyResult("small", "parser", "failed", "there is no question that can be asked; see the notes"),
    )


def test_gold_that_does_not_stand_in_its_document_is_an_error() -> None:
    with pytest.raises(EvaluationSetError, match="does not stand in 'floors'"):
        evaluator(questions=[question("q", "？", "floors", "五楼")])


@pytest.mark.parametrize(
    "options, said",
    [
        ({"k": 0}, "k=0; it must be a whole number from 1"),
        ({"k": True}, "k=True"),
        ({"budget": 0.5}, "budget=0.5"),
        ({"search": "sparse"}, "none of dense, lexical, fused"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"embed_model": "offline"}, "no embedding model"),
        ({"documents": []}, "no documents"),
        ({"documents": ["text"]}, "no document"),
        ({"questions": []}, "no questions"),
        ({"tokenizer": 3}, "not callable"),
        ({"boundaries": {"cellar": [3]}}, "boundaries names 'cellar', and no document with text has this id"),
        ({"boundaries": {"floors": [3, 900]}}, "boundaries of 'floors' has 900, and its text ends at"),
        ({"on_progress": 3}, "on_progress=3 is no function"),
        ({"work_dir": Path(__file__) / "deep"}, r"test_evaluator\.py is no folder; choose another folder"),
    ],
)
def test_a_wrong_option_names_value_and_remedy(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        evaluator(**options)


def test_a_set_too_small_for_k_is_noted() -> None:
    def notes(k: int) -> list[str]:
        return [each.message for each in evaluator(k=k).evaluate({"s": SMALL, "l": LARGE}).notes]

    n_chunks = len(SMALL.get_nodes_from_documents([Document(text=text) for text in TEXTS.values()]))
    least = n_chunks // 4  # of which four times are no more than the chunks
    assert notes(least) == []
    (said,) = notes(least + 1)
    assert said.startswith(f"With k={least + 1} and {n_chunks} chunks at most, nearly everything can be found")


def test_progress_is_told_after_each_strategy() -> None:
    said: list[tuple[int, int, str]] = []
    strategies = {"small": SMALL, "crash": HostileParser(fault="crash")}
    evaluator(on_progress=lambda *done: said.append(done)).evaluate(strategies)
    assert said == [(1, 2, "small"), (2, 2, "crash")]


def test_a_report_needs_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    from llama_index_chunking_plus.evaluation.report import write_report  # noqa: PLC0415  an extra

    file = tmp_path / "a file"
    file.write_text("")
    with pytest.raises(OptionError, match="a file is no folder; choose another folder"):
        write_report(EvaluationReport.load(SAMPLE), file)


def test_no_strategy_at_all_is_an_error() -> None:
    with pytest.raises(OptionError, match="no strategies"):
        evaluator().evaluate({})


# ------------------------------------------------------------------------------------------------ what is kept


def test_a_larger_grid_embeds_nothing_twice(tmp_path: Path) -> None:
    first, second = LetterEmbedding(), LetterEmbedding()
    evaluator(embed_model=first, work_dir=tmp_path).evaluate({"small": SMALL})
    report = evaluator(embed_model=second, work_dir=tmp_path).evaluate({"small": SMALL, "large": LARGE})
    assert first.asked
    assert not set(first.asked) & set(second.asked)
    assert len(second.asked) == len(set(second.asked)) == report.run.n_embedded
    assert report.strategy("large").status == "ok"


class Interrupting(StrippingParser):
    """Ends the process, as far as it can."""

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **_: Any) -> list[BaseNode]:  # noqa: ARG002
        raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluator().evaluate({"small": SMALL, "large": LARGE})
    with pytest.raises(KeyboardInterrupt):
        evaluator(work_dir=tmp_path).evaluate({"small": SMALL, "stop": Interrupting(), "large": LARGE})
    monkeypatch.setattr(type(SMALL), "_windows", lambda *_: pytest.fail("it was parsed already"))
    resumed = evaluator(work_dir=tmp_path).evaluate({"small": SMALL})
    monkeypatch.undo()
    resumed = evaluator(work_dir=tmp_path).evaluate({"small": SMALL, "large": LARGE})
    assert resumed.questions == whole.questions
    for ours, theirs in zip(resumed.strategies, whole.strategies, strict=True):
        assert (ours.measures, ours.sizes, ours.chunks) == (theirs.measures, theirs.sizes, theirs.chunks)


@pytest.mark.parametrize(
    "changed",
    [
        {"k": 1},
        {"budget": 20},
        {"documents": {**TEXTS, "floors": FLOORS + "五楼是露台。"}},
        {"questions": QUESTIONS[:3]},
        {"embed_model": FaultyEmbedding(word="地下室")},
        {"search": "fused"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_was_kept_is_not_used_for_anything_else(changed: dict[str, Any], tmp_path: Path) -> None:
    evaluator(work_dir=tmp_path).evaluate({"small": SMALL})
    kept = evaluator(work_dir=tmp_path, **changed).evaluate({"small": SMALL})
    anew = evaluator(**changed).evaluate({"small": SMALL})
    assert kept.questions == anew.questions
    assert kept.strategies[0].measures == anew.strategies[0].measures
    assert len([*(tmp_path / "trials").iterdir()]) == 2


def test_a_saved_trial_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    whole = evaluator(work_dir=tmp_path).evaluate({"small": SMALL})
    (saved,) = (tmp_path / "trials").iterdir()
    saved.write_text(saved.read_text()[:100])
    assert evaluator(work_dir=tmp_path).evaluate({"small": SMALL}).questions == whole.questions
    assert json.loads(saved.read_text())


def test_a_damaged_cache_is_set_aside(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.sqlite")
    cache.put("m", {"甲": np.ones(3, dtype=np.float32)})
    (tmp_path / "vectors.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.warns(ChunkingPlusWarning, match="damaged"):
        assert cache.get("m", ["甲"]) == {}
    cache.put("m", {"甲": np.ones(3, dtype=np.float32)})
    assert cache.get("m", ["甲"])["甲"].tolist() == [1, 1, 1]
    assert (tmp_path / "vectors.damaged").exists()


@given(st.dictionaries(st.text(max_size=5), st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=3), max_size=5))
@settings(max_examples=30)
def test_a_cache_gives_back_what_it_was_given(vectors: dict[str, list[float]]) -> None:
    cache = VectorCache()
    cache.put("m", {text: np.array(vector, dtype=np.float32) for text, vector in vectors.items()})
    assert {text: vector.tolist() for text, vector in cache.get("m", [*vectors, "another"]).items()} == vectors
    assert cache.get("other", list(vectors)) == {}


def test_a_cache_is_read_by_another_however_much_is_asked(tmp_path: Path) -> None:
    one, other = VectorCache(tmp_path / "v.sqlite"), VectorCache(tmp_path / "v.sqlite")
    many = {f"t{number}": np.array([number], dtype=np.float32) for number in range(1100)}  # above one statement's keys
    one.put("m", many)
    assert {text: float(vector[0]) for text, vector in other.get("m", list(many)).items()} == {
        text: float(vector[0]) for text, vector in many.items()
    }


async def test_a_frozen_model_is_like_the_model_in_every_form() -> None:
    model = LetterEmbedding()
    frozen = FrozenEmbedding.of(model, VectorCache())
    texts = ["展厅", "餐厅很大", "展厅"]
    expected = np.array([letter_vector(text) for text in texts], dtype=np.float32)
    assert np.array_equal(np.array(frozen.get_text_embedding_batch(texts), dtype=np.float32), expected)
    assert np.array_equal(np.array(await frozen.aget_text_embedding_batch(texts), dtype=np.float32), expected)
    assert np.allclose(frozen.get_query_embedding("展厅"), expected[0])
    assert np.allclose(await frozen.aget_query_embedding("展厅"), expected[0])
    assert sorted(model.asked) == ["展厅", "餐厅很大"]


# ------------------------------------------------------------------------------------------------ places


@given(st.lists(st.sampled_from(["甲。", "乙丙。", " \n", "丁"]), min_size=1, max_size=8), st.booleans())
def test_the_places_of_our_own_nodes_are_their_offsets(pieces: list[str], with_offsets: bool) -> None:
    text = "".join(pieces)
    parser = SlidingWindowNodeParser(chunk_size=4, chunk_overlap=0, unit="chars")
    nodes = parser.get_nodes_from_documents([Document(id_="a", text=text)])
    told = [Span(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]
    if not with_offsets:
        for node in nodes:
            node.start_char_idx = node.end_char_idx = None  # type: ignore[attr-defined]
    placement = place_nodes(nodes, {"a": text})
    assert placement.alignment.lost == 0
    assert [place.span.of(text).strip() for place in placement.places if place] == [
        span.of(text).strip() for span in told
    ]
    if with_offsets:
        assert [place.span for place in placement.places if place] == told


def test_of_several_places_the_nearest_to_the_offset_counts() -> None:
    text = "展厅在二楼。" * 3
    node = TextNode(text="展厅在 二楼", relationships={"1": {"node_id": "a"}}, start_char_idx=13)
    place = Whereabouts({"a": text}).of(node)
    assert place is not None
    assert place.span == Span(12, 17)
    assert Whereabouts({"b": text}).of(node) == ("b", (12, 17))  # the document has another id there
    assert Whereabouts({"b": "展厅在三楼。"}).of(node) is None


# ------------------------------------------------------------------------------------------------ JSON


def test_the_sample_report_is_read_and_written() -> None:
    report = EvaluationReport.load(SAMPLE)
    assert EvaluationReport.from_json(report.to_json()) == report
    assert report.selection is not None
    assert {each.status for each in report.strategies} == {"ok", "failed"}
    assert report.signals
    assert report.notes


@pytest.mark.parametrize(
    "change, said",
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "version"),
        ({"run": None}, "run"),
        ({"questions": [{}]}, "questions.0"),
    ],
)
def test_other_json_is_refused_with_the_place(change: dict[str, Any], said: str) -> None:
    data = {**json.loads(SAMPLE.read_text(encoding="utf-8")), **change}
    with pytest.raises(InputFileError, match=said):
        EvaluationReport.from_json(json.dumps(data))
    with pytest.raises(InputFileError, match="the text"):
        EvaluationReport.from_json("{")


def test_the_schema_describes_every_part_of_the_sample() -> None:
    schema, data = report_schema(), json.loads(SAMPLE.read_text(encoding="utf-8"))
    assert set(data) <= set(schema["properties"])
    parts = {"StrategyResult": data["strategies"][0], "QuestionResult": data["questions"][0], "RunInfo": data["run"]}
    for name, part in parts.items():
        assert set(part) == set(schema["$defs"][name]["properties"])
        assert schema["$defs"][name]["description"]
