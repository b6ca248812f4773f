import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest

from llama_index_chunking_plus.samples import SampleQuestion, questions, sample_paths

PATHS = sample_paths()
QUESTIONS = questions()
TEXTS = {path.name: path.read_bytes().decode("utf-8") for path in PATHS}


def test_paths_are_sorted_documents() -> None:
    assert sorted(PATHS) == PATHS
    assert all(path.is_file() and path.suffix in {".md", ".txt"} for path in PATHS)
    assert {
        "api_guide.md",
        "contract.md",
        "faq.md",
        "leave_policy_v1.md",
        "leave_policy_v2.md",
        "mixed_release_notes.md",
        "news_feature.txt",
        "policy_handbook.txt",
        "product_manual.md",
        "research_notes.md",
        "traditional_museum.txt",
    } == set(TEXTS)


def test_there_is_enough_text() -> None:
    assert len(TEXTS) >= 9
    assert sum(map(len, TEXTS.values())) >= 44_000


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_document_is_clean_utf8_of_reasonable_length(path: Path) -> None:
    raw = path.read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    text = raw.decode("utf-8")
    assert "\ufffd" not in text
    assert 3_500 <= len(text) <= 7_500


def test_questions_cover_every_document() -> None:
    assert len(QUESTIONS) >= 30
    counts = Counter(item.file for item in QUESTIONS)
    assert set(counts) == set(TEXTS)
    assert min(counts.values()) >= 2
    assert len({item.question for item in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("item", QUESTIONS, ids=lambda item: item.question)
def test_answer_stands_once_in_its_file_and_nowhere_else(item: SampleQuestion) -> None:
    assert item.answer == item.answer.strip() != ""
    assert len(item.answer) <= 120
    assert item.answer not in item.question
    assert {name: text.count(item.answer) for name, text in TEXTS.items() if item.answer in text} == {item.file: 1}


def test_question_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        QUESTIONS[0].answer = "别的"  # type: ignore[misc]


def test_questions_file_is_clean_utf8() -> None:
    raw = (PATHS[0].parent / "questions.jsonl").read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert len(raw.decode("utf-8").splitlines()) == len(QUESTIONS)


def test_manual_has_tables_steps_and_html() -> None:
    text = TEXTS["product_manual.md"]
    assert len(re.findall(r"^\| E\d\d \|", text, re.MULTILINE)) >= 25
    assert re.search(r"^--- \| --- \| ---", text, re.MULTILINE)
    assert "<table>" in text
    assert "步骤9：" in text
    assert re.search(r"^9\. ", text, re.MULTILINE)


def test_api_guide_has_front_matter_and_every_fence() -> None:
    text = TEXTS["api_guide.md"]
    assert text.startswith("---\ntitle: ")
    for opening in ("```python", "```bash", "```json", "~~~python", "````markdown"):
        assert re.search(rf"^{re.escape(opening)}$", text, re.MULTILINE), opening
    assert re.search(r"^ *# \w", text, re.MULTILINE)


def test_faq_has_pairs_in_both_languages() -> None:
    text = TEXTS["faq.md"]
    chinese = re.findall(r"^问：.+\n答：.+$", text, re.MULTILINE)
    english = re.findall(r"^Q: .+\nA: .+$", text, re.MULTILINE)
    assert len(chinese) + len(english) >= 25
    assert chinese
    assert english


def test_research_notes_have_formulas_citations_and_footnotes() -> None:
    text = TEXTS["research_notes.md"]
    for mark in ("$D=0.5$", "$$\n", r"\(", r"\[", "[1]", "[2-4]", "例如", "[^rain]: "):
        assert mark in text, mark
    assert len(re.findall(r"^\$\$$", text, re.MULTILINE)) % 2 == 0
    assert text.count(r"\(") == text.count(r"\)")


def test_news_quotes_are_balanced() -> None:
    text = TEXTS["news_feature.txt"]
    for opening, closing in ("“”", "‘’", "「」"):
        assert text.count(opening) == text.count(closing) > 0
    assert "……" in text
    assert "——" in text
    assert re.search(r"‘[^’]*“[^”]*”[^’]*’", text)


def test_museum_is_traditional_chinese() -> None:
    text = TEXTS["traditional_museum.txt"]
    for opening, closing in ("「」", "『』"):
        assert text.count(opening) == text.count(closing) > 0
    text.replace("〇", "零").encode("big5")
    assert not set("这为来说时们国会") & set(text)


def test_release_notes_mix_languages() -> None:
    text = TEXTS["mixed_release_notes.md"]
    for mark in ("https://", "v5.2.0", "11.7 ms", "gateway.toml", "e.g.", "i.e."):
        assert mark in text, mark
    assert re.search(r"^[A-Z][ -~]{300,}$", text, re.MULTILINE)


def test_handbook_has_contents_and_cross_references() -> None:
    text = TEXTS["policy_handbook.txt"]
    for mark in ("目　录", "第一章", "第一节", "\n一、", "\n（一）", "\n1. ", "\n1.1 ", "依照第三条规定"):
        assert mark in text, mark
    assert text.count("\n第二章　差旅管理\n") == 2


def test_leave_policies_are_two_versions_of_one_document() -> None:
    first, second = TEXTS["leave_policy_v1.md"], TEXTS["leave_policy_v2.md"]
    assert 'version: "1.0"\neffective_date: 2023-07-01' in first
    assert 'version: "2.0"\neffective_date: 2025-07-01' in second
    assert first.splitlines()[1] == second.splitlines()[1]
