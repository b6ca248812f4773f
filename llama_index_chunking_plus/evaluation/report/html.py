"""An evaluation as one HTML page that needs nothing else: no network, no server, no other file.

    EvaluationReport -> page_data, compact and bounded -> JSON in the page -> assets/report.js draws it

The page's policy forbids everything but its own script and style, both by their hashes; whatever documents, questions
and errors say is data, and gets into the page as text only. The module needs jinja2.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import MissingExtraError, OptionError
from llama_index_chunking_plus.evaluation.report.overview import (
    deciding_measure,
    headline,
    is_evaluation,
    main_measures,
    overview,
)
from llama_index_chunking_plus.evaluation.results import (
    DocumentText,
    EvaluationReport,
    QuestionResult,
    RetrievedHit,
    StrategyAnswer,
    StrategyChunks,
    StrategyResult,
)

try:
    from jinja2 import Environment
except ImportError as error:
    raise MissingExtraError("jinja2", "report") from error

Language = Literal["auto", "en", "zh"]

_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_LETTER = re.compile(r"[^\W\d_]")
_MOSTLY = 0.2  # of the letters: a Han character says as much as several Latin ones
_LOOKED_AT = 100_000  # characters that decide on the language
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
_DIGITS = 6  # behind the point, of numbers in the page; it shows fewer


def html_report(report: EvaluationReport, *, language: Language = "auto", max_characters: int = 2_000_000) -> str:
    """The page, to be written as UTF-8; of a report without questions it shows chunks and probes alone.

    Args:
        report: what an evaluation found.
        language: of the page's own words when it is opened, "en" or "zh"; "auto": that of most documents. The reader
            can change it.
        max_characters: how much text of documents the page may hold, from 0; those that questions ask for come first.
            The others are named without text and chunks, and the page says so. Ids, figures and results are all there.

    Raises:
        OptionError: an option is out of range.

    Example:
        >>> from llama_index_chunking_plus.evaluation.results import RunInfo
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 1, 0)
        >>> hostile = DocumentText("a", "<script>alert(1)</script>", "a", 8)
        >>> "<script>alert" in html_report(EvaluationReport(run, (), (hostile,), (), ()))
        False
    """
    if language not in {"auto", "en", "zh"}:
        raise OptionError(f'language={language!r}; it must be "auto", "en" or "zh"')
    if max_characters < 0:
        raise OptionError(f"max_characters={max_characters}; it must be at least 0")
    chosen = _language(report) if language == "auto" else language
    script, style = _asset("report.js"), _asset("report.css")
    template = Environment(autoescape=True, keep_trailing_newline=True).from_string(_asset("report.html"))
    return template.render(
        language=chosen,
        title=_title(report, chosen),
        headline=_printable(headline(report)),
        rows=[(_printable(row.strategy.name), row.status, _printable(row.reason)) for row in overview(report)],
        data=_json(page_data(report, chosen, max_characters)),
        labels=_json(json.loads(_asset("labels.json"))),
        script=script,
        style=style,
        script_hash=_digest(script),
        style_hash=_digest(style),
    )


def _title(report: EvaluationReport, language: Literal["en", "zh"]) -> str:
    """What the page is called before its script runs: by its one document if no questions were asked."""
    words = json.loads(_asset("labels.json"))
    if is_evaluation(report):
        return str(words["title"][language])
    return _printable(report.documents[0].title) if len(report.documents) == 1 else str(words["probes.page"][language])


def _language(report: EvaluationReport) -> Literal["en", "zh"]:
    """The language of most of the text."""
    share = _LOOKED_AT // max(1, len(report.documents))
    texts = [each.text[:share] for each in report.documents] or [each.text for each in report.questions]
    sample = "".join(texts)
    letters = len(_LETTER.findall(sample))
    return "zh" if letters and len(_HAN.findall(sample)) > _MOSTLY * letters else "en"


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _printable(text: str) -> str:
    """The text with half characters, which no file can hold, replaced one by one."""
    return _SURROGATE.sub("\ufffd", text)


def _json(data: Any) -> str:
    """JSON that cannot end the element that it stands in, nor begin another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _printable(text).translate(_ESCAPES)


# ------------------------------------------------------------------------------------------------ the data


def page_data(report: EvaluationReport, language: Literal["en", "zh"], max_characters: int) -> dict[str, Any]:
    """What the page's script reads; places of documents and strategies instead of their names, to be small."""
    shown = _shown_documents(report, max_characters)
    strategies = [row.strategy for row in overview(report)]
    documents = {each.document_id: place for place, each in enumerate(report.documents)}
    deciding = deciding_measure(report)
    return {
        "page": "evaluation" if is_evaluation(report) else "chunks",
        "language": language,
        "run": _plain(report.run),
        "measures": [_plain(info) for info in report.measures],
        "deciding": deciding.name if deciding else None,
        "main": [info.name for info in main_measures(report)],
        "max_characters": max_characters,
        "documents": [_document(each, shown) for each in report.documents],
        "strategies": [
            {**_strategy(row.strategy, shown, documents), "status": row.status, "reason": row.reason}
            for row in overview(report)
        ],
        "questions": [_question(each, report, strategies, documents) for each in report.questions],
        "notes": _plain(report.notes),
        "signals": _plain(report.signals),
        "selection": _plain(report.selection),
        "probes": _plain(report.probes),
    }


def _plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON has them, numbers rounded, those that JSON lacks left out."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return _rounded(value)
    return value if isinstance(value, (str, int)) or value is None else str(value)


def _rounded(value: float | None) -> float | None:
    """A number short enough; None for what JSON cannot hold."""
    return round(value, _DIGITS) if value is not None and math.isfinite(value) else None


def _shown_documents(report: EvaluationReport, max_characters: int) -> set[str]:
    """The documents whose text the page holds."""
    asked = {question.document_id for question in report.questions}
    shown, left = set[str](), max_characters
    for each in sorted(report.documents, key=lambda document: document.document_id not in asked):
        if len(each.text) <= left:
            shown.add(each.document_id)
            left -= len(each.text)
    return shown


def _document(document: DocumentText, shown: set[str]) -> dict[str, Any]:
    return {
        "id": document.document_id,
        "title": document.title,
        "tokens": document.n_tokens,
        "characters": len(document.text),
        "text": document.text if document.document_id in shown else None,
    }


def _strategy(strategy: StrategyResult, shown: set[str], documents: Mapping[str, int]) -> dict[str, Any]:
    plain = {
        name: _plain(getattr(strategy, name))
        for name in strategy.__dataclass_fields__
        if name not in {"chunks", "status", "reason"}
    }
    by_document = [each for each in strategy.chunks if each.document_id in shown and each.document_id in documents]
    return {
        **plain,
        "chunks": {documents[each.document_id]: _flat(each.spans) for each in by_document},
        "returned": {documents[each.document_id]: _returned(each) for each in by_document if each.returned},
    }


def _returned(chunks: StrategyChunks) -> list[int]:
    """What is returned, each range once, in order."""
    return _flat(sorted(set(chunks.returned)))


def _flat(spans: Iterable[Span]) -> list[int]:
    return [edge for span in spans for edge in span]


def _question(
    question: QuestionResult,
    report: EvaluationReport,
    strategies: Sequence[StrategyResult],
    documents: Mapping[str, int],
) -> dict[str, Any]:
    names = [info.name for info in report.measures if info.of == "question"]
    answers = [question.answers.get(each.name) for each in strategies]
    return {
        "id": question.question_id,
        "text": question.text,
        "document": documents.get(question.document_id, -1),
        "document_id": question.document_id,
        "gold": _plain(question.gold),
        "section": question.section,
        "tags": list(question.tags),
        "answers": [answer and _answer(answer, names, documents) for answer in answers],
    }


def _answer(answer: StrategyAnswer, names: Sequence[str], documents: Mapping[str, int]) -> dict[str, Any]:
    return {
        "hits": [_hit(hit, documents) for hit in answer.hits],
        "values": [_rounded(answer.measures.get(name)) for name in names],
        "cuts": [[*cut.gold, list(cut.at)] for cut in answer.cuts],
    }


def _hit(hit: RetrievedHit, documents: Mapping[str, int]) -> list[Any]:
    """Place of the document, range and score; -1 and None where they are not known."""
    start, end = hit.span or (None, None)
    return [documents.get(hit.document_id, -1), start, end, _rounded(hit.score)]
