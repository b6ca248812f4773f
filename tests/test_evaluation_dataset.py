"""Evaluation sets: what is read is what is written, and every flaw is named, all at once."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, InputFileError, OptionError
from llama_index_chunking_plus.evaluation.dataset import (
    EvaluationQuestion,
    EvaluationSet,
    EvaluationSetError,
    Places,
    Quote,
)
from llama_index_chunking_plus.evaluation.loaders import (
    load_question_node_pairs,
    load_questions,
    load_squad,
    save_questions,
)
from llama_index_chunking_plus.samples import questions as sample_questions

DATA = Path(__file__).parent / "data" / "evaluation"
CONTRACT = "甲方和乙方约定：\n乙方三十日内交货，迟延须书面通知，并按日支付违约金。\n运费由 甲方承担，保险由乙方承担。\n"


def question(*quotes: str | Quote, gold: tuple = (), **options) -> EvaluationQuestion:
    found = tuple(Quote(each) if isinstance(each, str) else each for each in quotes)
    return EvaluationQuestion("q", "？", "d", gold=gold, quotes=found, **options)


def gold(text: str, *quotes: str | Quote, **options) -> list[str]:
    resolved = EvaluationSet((question(*quotes, **options),)).resolve({"d": text})
    return [span.of(text) for span in resolved.questions[0].gold]


def problems(call, *arguments) -> list[str]:
    with pytest.raises(EvaluationSetError) as caught:
        call(*arguments)
    return list(caught.value.problems)


# --- questions and quotes ---


def test_a_file_with_bom_crlf_and_blank_lines_is_read_and_resolved() -> None:
    loaded = load_questions(DATA / "questions.jsonl")
    assert [each.question_id for each in loaded] == ["q1", "7", "q-last"]
    assert [each.is_resolved for each in loaded] == [False, True, False]
    with pytest.warns(ChunkingPlusWarning, match="1 quote was found only without regard to white space"):
        first, second, last = loaded.resolve({"contract.md": CONTRACT})
    assert [span.of(CONTRACT) for span in first.gold] == ["三十日内"]
    assert [span.of(CONTRACT) for span in second.gold] == ["迟延须书面通知", "并按日支付违约金"]
    assert (second.section, second.tags, second.expected_steps) == (
        "clause",
        ("two facts",),
        ("书面通知", "支付违约金"),
    )
    assert [span.of(CONTRACT) for span in last.gold] == ["运费由 甲方承担", "甲方"]
    assert last.relevant == last.context == (Span(36, 53),)
    assert second.relevant == second.gold
    assert [quote.text for quote in last.quotes] == ["运费由\n甲方承担", "甲方"]
    assert last.place == "line 4"


def test_a_file_names_all_its_flaws_at_once() -> None:
    expected = (DATA / "flawed_messages.txt").read_text(encoding="utf-8").splitlines()
    assert problems(load_questions, DATA / "flawed.jsonl") == expected


def test_an_error_shows_the_first_flaws_and_carries_all() -> None:
    error = EvaluationSetError("f.jsonl", [f"line {i}: x" for i in range(30)])
    assert str(error).startswith("f.jsonl: 30 problems\n  line 0: x")
    assert str(error).endswith("line 19: x\n  and 10 more")
    assert isinstance(error, InputFileError)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.problems, str(copy)) == (error.problems, str(error))


@pytest.mark.parametrize("content", ["", "\ufeff", " \r\n\n"])
def test_a_file_without_questions_is_an_error_that_shows_what_to_write(tmp_path: Path, content: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(content, encoding="utf-8")
    (problem,) = problems(load_questions, path)
    assert "no question" in problem
    assert '"document_id"' in problem


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"question": "问"}'.encode("gb18030"), "no UTF-8 at byte 14; save it as UTF-8"),
        ("[" * 100_000, "line 1: it is no JSON that can be read"),
        (
            '{"question": "问", "document_id": "d", "spans": [[0, ' + "9" * 5000 + "]]}",
            "line 1: it is no JSON that can be read",
        ),
        ("null", "line 1: it is null, not an object"),
    ],
)
def test_hostile_files_are_errors(tmp_path: Path, content: bytes | str, message: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputFileError, match=message):
        load_questions(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"nowhere\.jsonl: No such file"):
        load_questions(tmp_path / "nowhere.jsonl")


def test_line_separators_inside_of_a_text_end_no_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a\u2028b\x85c", "document_id": "d", "quotes": "x"}\n', encoding="utf-8")
    assert load_questions(path).questions[0].text == "a\u2028b\x85c"


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    original = EvaluationSet(
        (
            EvaluationQuestion(
                "a", "甲？", "d", ((3, 4),), context=((0, 9),), section="table", tags=("x",), expected_steps=("y",)
            ),
            EvaluationQuestion("b", "乙？", "d", quotes=(Quote("引"), Quote("文", 2))),
        )
    )
    save_questions(original, tmp_path / "q.jsonl")
    assert load_questions(tmp_path / "q.jsonl").questions == original.questions


def test_what_is_resolved_can_be_saved_loaded_and_resolved_again(tmp_path: Path) -> None:
    text = "甲。乙 丙。甲。"
    with pytest.warns(ChunkingPlusWarning):
        first = EvaluationSet((question(Quote("甲", 2), "乙丙"),)).resolve({"d": text})
    save_questions(first, tmp_path / "q.jsonl")
    with pytest.warns(ChunkingPlusWarning):
        again = load_questions(tmp_path / "q.jsonl").resolve({"d": text})
    assert again.questions[0].gold == first.questions[0].gold == (Span(2, 5), Span(6, 7))


def test_a_set_follows_its_quotes_to_a_new_version_of_the_document() -> None:
    old = EvaluationSet((question("乙"),)).resolve({"d": "甲乙"})
    assert old.resolve({"d": "序。甲乙"}).questions[0].gold == (Span(3, 4),)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"question_id": " "}, "question_id is ' '"),
        ({"text": ""}, "text is ''"),
        ({"document_id": None}, "document_id is None"),
        ({"gold": ()}, "no gold"),
        ({"gold": ((2, 2),)}, r"gold \[2, 2\] is empty"),
        ({"gold": ((-1, 2),)}, r"two whole numbers from 0"),
        ({"context": ((0, True),)}, "context .* two whole numbers"),
        ({"gold": ("ab",)}, "gold 'ab' is no"),
        ({"tags": "table"}, "tags is 'table'; it must be a list"),
        ({"expected_steps": ("",)}, "expected_steps is"),
    ],
)
def test_a_wrong_question_fails_at_construction(options: dict, message: str) -> None:
    values = {"question_id": "q", "text": "？", "document_id": "d", "gold": ((0, 1),)} | options
    with pytest.raises(OptionError, match=message):
        EvaluationQuestion(**values)


def test_a_question_names_all_its_flaws_at_once() -> None:
    with pytest.raises(OptionError, match=r"question_id is.*; text is.*; there is no gold"):
        EvaluationQuestion("", "", "d")


def test_gold_is_sorted_and_each_range_counts_once() -> None:
    made = EvaluationQuestion("q", "?", "d", gold=[[5, 9], (0, 2), Span(5, 9)], tags=["a"])
    assert made.gold == (Span(0, 2), Span(5, 9))
    assert hash(made) == hash(EvaluationQuestion("q", "?", "d", gold=((0, 2), (5, 9)), tags=("a",)))


def test_ids_that_stand_twice_are_an_error() -> None:
    assert problems(EvaluationSet, (question("a"), question("b"), question("c"))) == [
        "question 2, question 3: the id 'q' is that of question 1 as well; give each question its own"
    ]


def test_questions_of_two_files_with_one_id_are_told_apart() -> None:
    asked = EvaluationQuestion("q1", "?", "d", gold=((0, 1),), place="line 1")
    assert problems(EvaluationSet, (asked, replace(asked, text="!"))) == [
        "question 2: the id 'q1' is that of question 1 as well; give each question its own"
    ]


def test_a_whole_json_array_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('[\n  {"question": "?",\n   "document_id": "d", "quotes": ["x"]}\n]\n', encoding="utf-8")
    (said,) = problems(load_questions, path)
    assert said.startswith("this is a JSON array; write one object a line, like {")


def test_a_quote_stands_for_its_place() -> None:
    assert gold("甲乙丙", "乙") == ["乙"]
    assert gold("甲乙甲丙", Quote("甲", 2), "丙") == ["甲", "丙"]
    assert gold("哈哈哈", Quote("哈哈", 2)) == ["哈哈"]  # places may overlap


def test_exact_places_come_first_and_white_space_is_tolerated_with_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gold("甲 乙。甲乙。", "甲乙") == ["甲乙"]
    with pytest.warns(ChunkingPlusWarning, match="question 'q': '甲 乙'"):
        assert gold("。甲\r\n　\u200b乙。", "甲 乙") == ["甲\r\n　\u200b乙"]


def test_a_quote_that_equals_a_given_range_is_that_range() -> None:
    assert gold("甲乙甲", "甲", gold=((2, 3),)) == ["甲"]
    assert gold("甲乙甲", "乙", gold=((2, 3),)) == ["乙", "甲"]


def test_every_flaw_of_every_question_is_named_when_documents_are_known() -> None:
    made = [
        EvaluationQuestion("a", "?", "d", quotes=(Quote("甲"), Quote("丁"), Quote("乙", 2))),
        EvaluationQuestion("b", "?", "d", gold=((0, 99), (3, 4)), context=((5, 6),), place="line 7"),
        EvaluationQuestion("c", "?", "gone.md", quotes=(Quote("甲"),)),
        EvaluationQuestion("d", "?", "d", quotes=(Quote("乙"),)),
    ]
    assert problems(EvaluationSet(tuple(made)).resolve, {"d": "甲乙甲 "}) == [
        "question 'c': document 'gone.md' is not there; known are 'd'",
        "question 'a': quote '甲' stands 2 times in 'd', at character 0, 2; quote more of it, or say which one with \"occurrence\": 1 to 2",
        "question 'a': quote '丁' does not stand in 'd'; copy it from the document",
        "question 'a': quote '乙' stands 1 time in 'd', at character 1; occurrence 2 does not exist",
        "line 7 (question 'b'): gold [0, 99] ends after the last of 4 characters in 'd'",
        "line 7 (question 'b'): gold [3, 4] holds nothing but white space in 'd'",
        "line 7 (question 'b'): context [5, 6] ends after the last of 4 characters in 'd'",
    ]


def test_questions_without_document_can_be_left_out_and_named() -> None:
    made = EvaluationSet((question("甲"), EvaluationQuestion("x", "?", "gone", quotes=(Quote("甲"),))))
    assert [each.question_id for each in made.resolve({"d": "甲"}, missing="skip")] == ["q"]
    assert [each.question_id for each in made.without_document({"d": "甲"})] == ["x"]
    assert len(made.resolve({}, missing="skip")) == 0
    assert problems(made.resolve, {})[0].endswith("there are no documents at all")
    with pytest.raises(OptionError, match='must be "error" or "skip"'):
        made.resolve({}, missing="drop")


@given(st.text("ab \n", max_size=12), st.text("ab \n", min_size=1, max_size=4))
def test_places_are_those_that_brute_force_finds(text: str, quote: str) -> None:
    ranges = [Span(i, j) for i in range(len(text)) for j in range(i + 1, len(text) + 1)]
    assert Places(text).exact(quote) == [span for span in ranges if span.of(text) == quote]
    bare = "".join(quote.split())
    tight = [
        span for span in ranges if "".join(span.of(text).split()) == bare and span.of(text).strip() == span.of(text)
    ]
    assert Places(text).loose(quote) == (tight if bare else [])


def test_the_bundled_questions_are_an_evaluation_set(sample_documents) -> None:
    made = [
        EvaluationQuestion(f"s{i}", q.question, q.file, quotes=(Quote(q.answer),))
        for i, q in enumerate(sample_questions())
    ]
    texts = {document.id_: document.text for document in sample_documents}
    resolved = EvaluationSet(tuple(made)).resolve(texts)
    assert [each.gold[0].of(texts[each.document_id]) for each in resolved] == [q.answer for q in sample_questions()]


# --- SQuAD and CMRC ---


def test_squad_contexts_are_documents_and_a_start_that_is_off_is_found_with_a_warning() -> None:
    with pytest.warns(ChunkingPlusWarning, match="1 answer does not stand at the given answer_start"):
        texts, asked = load_squad(DATA / "squad.json")
    assert list(texts) == ["长城 1.1"]
    assert [(each.question_id, each.document_id) for each in asked] == [("s1", "长城 1.1"), ("s2", "长城 1.1")]
    assert [each.gold[0].of(texts["长城 1.1"]) for each in asked] == ["8851.8公里", "西周时期"]


def test_cmrc_answers_have_no_start_and_need_none_where_they_stand_once() -> None:
    texts, asked = load_squad(DATA / "cmrc.json")
    assert texts == {"TRIAL_1": "范廷颂是越南罗马天主教枢机。"}
    assert [(each.question_id, each.gold) for each in asked] == [("TRIAL_1_QUERY_0", (Span(4, 6),))]


def test_an_answer_as_it_is_written_goes_before_one_with_other_white_space(tmp_path: Path) -> None:
    path = tmp_path / "cmrc.json"
    asked = [
        {"query_id": name, "query_text": "?", "answers": [answer]} for name, answer in [("a", "甲乙"), ("b", "丙 丁")]
    ]
    path.write_text(json.dumps([{"context_text": "甲 乙。甲乙。丙丁。", "qas": asked}]), encoding="utf-8")
    assert [question.gold for question in load_squad(path).questions] == [(Span(4, 6),), (Span(7, 9),)]


def test_flaws_of_squad_files_are_named_all_at_once() -> None:
    assert problems(load_squad, DATA / "squad_flawed.json") == [
        "长城 1.1, question 1: answer '长城' stands 2 times in its context, and not at answer_start=1; correct answer_start",
        "长城 1.1, question 2: answer '黄河' stands 0 times in its context, and not at answer_start=0; correct answer_start",
        "长城 1.1, question 3: text is ''; it must be a text that is not empty",
        '长城 1.1, question 4: "answers" is a text, not a list',
        "长城 1.1, question 5: the answer is {'answer_start': 2}; it must have a text that is not empty",
        '长城 1.2: it must have a text "context" and a list "qas"',
    ]


@pytest.mark.parametrize("data", [{}, [], {"data": "x"}, 3, ["x"], [{"paragraphs": 3}], [{"paragraphs": ["x"]}], [{}]])
def test_what_is_no_squad_file_is_an_error(tmp_path: Path, data) -> None:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert problems(load_squad, path)


def test_contexts_with_one_id_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cmrc.json"
    path.write_text(json.dumps([{"context_id": "a", "context_text": "甲", "qas": []}] * 2), encoding="utf-8")
    assert problems(load_squad, path) == ["article 2.1: the id 'a' is that of another context as well"]


# --- questions and nodes ---

PAIRS = {
    "queries": {"q1": "甲？", "q2": "乙丙？"},
    "corpus": {"n1": "甲。", "n2": "乙。", "n3": "丙。"},
    "relevant_docs": {"q1": ["n1"], "q2": ["n3"]},
    "mode": "text",
}


def node(name: str, document_id: str, start: int, end: int) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document_id)}
    return TextNode(id_=name, text="", relationships=source, start_char_idx=start, end_char_idx=end)


def test_nodes_become_documents_that_are_gold_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(PAIRS), encoding="utf-8")
    for pairs in (path, str(path), SimpleNamespace(**PAIRS)):
        texts, asked = load_question_node_pairs(pairs)
        assert texts == PAIRS["corpus"]
        assert [(each.question_id, each.document_id, each.gold) for each in asked] == [
            ("q1", "n1", (Span(0, 2),)),
            ("q2", "n3", (Span(0, 2),)),
        ]


def test_nodes_with_a_range_are_gold_in_their_document() -> None:
    pairs = SimpleNamespace(**PAIRS | {"relevant_docs": {"q1": ["n1"], "q2": ["n3", "n2"]}})
    texts, asked = load_question_node_pairs(pairs, [node("n2", "d", 2, 4), node("n3", "d", 4, 6)])
    assert texts == {"n1": "甲。"}
    assert [(each.document_id, each.gold) for each in asked] == [("n1", (Span(0, 2),)), ("d", (Span(2, 4), Span(4, 6)))]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"relevant_docs": {"q1": ["n1"]}}, "query 'q2': its relevant_docs are None"),
        ({"relevant_docs": {"q1": ["n1"], "q2": []}}, r"query 'q2': its relevant_docs are \[\]"),
        ({"relevant_docs": {"q1": ["n9"], "q2": ["n1"]}}, "query 'q1': its relevant_docs name 'n9', which is not in"),
        ({"relevant_docs": {"q1": ["n1", "n2"], "q2": ["n1"]}}, "query 'q1': its nodes stand in 2 documents"),
        ({"corpus": {"n1": " "}}, "node 'n1' is ' '"),
        ({"corpus": []}, "'corpus' is a list; it must be a mapping"),
        ({"queries": {}}, "'queries' is an object; it must be a mapping that is not empty"),
    ],
)
def test_wrong_pairs_are_errors(change: dict, message: str) -> None:
    with pytest.raises(EvaluationSetError, match=message):
        load_question_node_pairs(SimpleNamespace(**PAIRS | change))
