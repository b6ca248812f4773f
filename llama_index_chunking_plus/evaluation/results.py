"""What an evaluation found, as data: everything that a report shows, and the JSON that it is kept in.

    EvaluationReport
    ├── run           when, where, with which model and settings
    ├── measures      what the figures are called, and whether more is better
    ├── documents     their texts, for viewers
    ├── strategies    one for each: status, configuration, figures with intervals, sizes, cost, chunks as ranges
    ├── questions     gold ranges; for each strategy what it retrieved, its figures, and where a gold range was cut
    ├── notes         questions, documents and strategies that were left out, and why
    ├── signals       what looks wrong with a strategy, and what to do about it
    ├── selection     the winner and the reason, with a row for each strategy
    └── probes        completeness probes, if they were run

Ranges are ``[start, end]`` in code points of the document's text, the end not included. `EvaluationReport.to_json`
writes all of it, `EvaluationReport.from_json` reads it, and `report_schema` is the JSON Schema (draft 2020-12).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from llama_index.core.bridge.pydantic import TypeAdapter, ValidationError

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import InputFileError

SCHEMA_VERSION = 1
"""Raised whenever a reader of the older JSON would go wrong; new fields with a default do not raise it."""

SearchMode = Literal["dense", "lexical", "fused"]
StrategyStatus = Literal["ok", "failed"]
RowStatus = Literal["selected", "tied", "worse", "eliminated", "failed"]
SignalKind = Literal["facts_torn", "inflated", "weak_section", "text_lost"]


@dataclass(frozen=True)
class Figure:
    """The mean of a measure over questions, or over documents.

    Args:
        mean: the figure.
        low: where the interval of the mean begins; None where fewer than five values would make it up.
        high: where it ends; likewise.
        n: how many values the mean is of.
    """

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class MeasureInfo:
    """What a table says of a measure.

    Args:
        name: its key in every ``measures``.
        label: its heading, "Recall@5" say.
        higher_is_better: whether more is better.
        of: what has one value each: "question" or "document".
    """

    name: str
    label: str
    higher_is_better: bool
    of: Literal["question", "document"]


@dataclass(frozen=True)
class RunInfo:
    """The circumstances of an evaluation.

    Args:
        date: when it began, ISO 8601, UTC.
        seconds: how long it took.
        machine: processor, cores and Python.
        versions: of the packages that matter, by name.
        embed_model: the embedding model's name.
        k: how many results a question gets.
        search: how the chunks were searched.
        budget: the tokens that every strategy may spend for the measures that end in ``_budget``.
        confidence: of the intervals.
        n_documents: how many documents were chunked.
        n_questions: how many questions were asked.
        n_embedded: texts that the model embedded in this run; the others came from the cache.
        n_cached: texts whose vectors came from the cache.
    """

    date: str
    seconds: float
    machine: str
    versions: dict[str, str]
    embed_model: str
    k: int
    search: SearchMode
    budget: int
    confidence: float
    n_documents: int
    n_questions: int
    n_embedded: int = 0
    n_cached: int = 0


@dataclass(frozen=True)
class DocumentText:
    """A document as the chunk viewer shows it.

    Args:
        document_id: its id.
        text: its whole text; to be escaped by whoever shows it.
        title: a file name or title of its metadata, else its id.
        n_tokens: its size.
    """

    document_id: str
    text: str
    title: str
    n_tokens: int


@dataclass(frozen=True)
class Sizes:
    """How large the chunks of a strategy are, in tokens; see `measures.size_statistics`."""

    n_chunks: int
    mean: float
    median: float
    p95: float
    largest: float
    cv: float


@dataclass(frozen=True)
class Alignment:
    """How the chunks of a strategy were found in the documents.

    Args:
        exact: chunks that are where their offsets say.
        recovered: chunks without offsets, or with wrong ones, that were found in the text.
        lost: chunks that stand nowhere in the text; they are searched, and count as nothing when they are found.
        characters_left_out: characters of the documents that stand in no chunk, white space and marks between chunks
            not counted.
    """

    exact: int
    recovered: int
    lost: int
    characters_left_out: int


@dataclass(frozen=True)
class Cost:
    """What a strategy takes.

    Args:
        chunking_seconds: to chunk all documents, with the vectors that the parser asks for.
        index_tokens: tokens of all chunks, as they are embedded and stored; None for retrievers.
        context_tokens: tokens of what a question gets, k results, on average.
    """

    chunking_seconds: float
    index_tokens: int | None
    context_tokens: float


@dataclass(frozen=True)
class Group:
    """The figures of a part of the questions.

    Args:
        name: the section, the tag, or the id of the document.
        n_questions: how many questions are in it.
        measures: figures by name of measure.
    """

    name: str
    n_questions: int
    measures: dict[str, Figure]


@dataclass(frozen=True)
class StrategyChunks:
    """The chunks of one document.

    Args:
        document_id: the document.
        spans: the ranges that are searched, in order of the strategy's nodes.
        returned: where it differs, the ranges that are returned for each of them: its parent or window; else empty.
    """

    document_id: str
    spans: tuple[Span, ...]
    returned: tuple[Span, ...] = ()


@dataclass(frozen=True)
class StrategyResult:
    """Everything about one strategy.

    Args:
        name: its name, which no other has.
        kind: "parser", whose chunks are known; or "retriever", of which only results are known.
        status: "ok"; or "failed", and nothing but ``reason`` and ``configuration`` tells more.
        reason: why it failed; empty otherwise.
        configuration: class and options, as they dump.
        measures: figures over all questions, or documents, by name of measure; a measure with nothing to judge is not
            there (no tables: no ``header_with_row``).
        by_section: figures for each section of the questions.
        by_tag: figures for each tag; a question with two tags counts in both.
        by_document: figures for each document.
        inflation: tokens of all chunks by tokens of all documents; None for retrievers.
        sizes: of the chunks; None for retrievers.
        alignment: None for retrievers.
        cost: None if it failed.
        chunks: for each document; empty for retrievers.
    """

    name: str
    kind: Literal["parser", "retriever"]
    status: StrategyStatus
    reason: str = ""
    configuration: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Figure] = field(default_factory=dict)
    by_section: tuple[Group, ...] = ()
    by_tag: tuple[Group, ...] = ()
    by_document: tuple[Group, ...] = ()
    inflation: float | None = None
    sizes: Sizes | None = None
    alignment: Alignment | None = None
    cost: Cost | None = None
    chunks: tuple[StrategyChunks, ...] = ()


@dataclass(frozen=True)
class RetrievedHit:
    """One result of a question.

    Args:
        document_id: the document; empty if the result stands nowhere.
        span: the range that was returned; None if it is not known.
        score: as the search gave it; None if it gave none.
    """

    document_id: str
    span: Span | None
    score: float | None


@dataclass(frozen=True)
class GoldCut:
    """A gold range that stands whole in no chunk.

    Args:
        gold: the range.
        at: the positions in it where chunks end or begin.
    """

    gold: Span
    at: tuple[int, ...]


@dataclass(frozen=True)
class StrategyAnswer:
    """What a strategy did with a question.

    Args:
        hits: the first k results, best first.
        measures: the value of each measure of questions.
        cuts: the gold ranges that its chunks tear; empty for retrievers.
    """

    hits: tuple[RetrievedHit, ...]
    measures: dict[str, float]
    cuts: tuple[GoldCut, ...] = ()


@dataclass(frozen=True)
class QuestionResult:
    """A question, and what each strategy did with it.

    Args:
        question_id: its id.
        text: the question; to be escaped by whoever shows it.
        document_id: the document that answers it.
        gold: the ranges that answer it.
        context: the wider ranges that are no waste; empty: the gold alone.
        section: the kind of section that the answer stands in, if it is known.
        tags: any labels.
        answers: by name of strategy; those that failed have none.
    """

    question_id: str
    text: str
    document_id: str
    gold: tuple[Span, ...]
    context: tuple[Span, ...] = ()
    section: str | None = None
    tags: tuple[str, ...] = ()
    answers: dict[str, StrategyAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """Something that was left out, or that failed, or that makes the figures say little.

    Args:
        about: what kind of thing it is.
        name: the id or name; "(all)" for all documents together.
        message: what happened and what to do.
    """

    about: Literal["document", "question", "strategy"]
    name: str
    message: str


@dataclass(frozen=True)
class FailureSignal:
    """A pattern of figures that points at something wrong.

    Args:
        kind: "facts_torn", semantic completeness is low while single results look fine; "inflated", inflation is above
            1.6 and precision is lower than that of less inflated strategies; "weak_section", one section is far below
            the others; "text_lost", chunks or text of the documents could not be placed.
        strategy: the name of the strategy.
        message: the pattern, with the figures.
        remedy: what to try.
        figures: the numbers that ``message`` names.
        section: the section, for "weak_section".
    """

    kind: SignalKind
    strategy: str
    message: str
    remedy: str
    figures: dict[str, float]
    section: str | None = None


@dataclass(frozen=True)
class SelectionRow:
    """What the selection says of one strategy.

    Args:
        name: the strategy.
        status: "selected"; "tied", no worse than the best as far as can be told, and not cheaper than the winner;
            "worse"; "eliminated", a limit is broken; "failed".
        reason: a sentence with the numbers.
        value: the figure of the measure; None if it failed.
        inflation: None if it is not known.
        index_tokens: tokens of all chunks; None if not known. Decides between ties that show equally many tokens.
        n_chunks: decides where these are equal as well; None if not known.
        difference: its mean minus that of the best, with its interval; None for the best itself, and for those that
            were not compared.
        p_value: of that difference (paired sign-flip test); None likewise.
        context_tokens: tokens of what a question gets, on average; the first thing that decides between ties.
    """

    name: str
    status: RowStatus
    reason: str
    value: Figure | None = None
    inflation: float | None = None
    index_tokens: int | None = None
    n_chunks: int | None = None
    difference: Figure | None = None
    p_value: float | None = None
    context_tokens: float | None = None


@dataclass(frozen=True)
class Route:
    """The winner of one kind of question.

    Args:
        kind: the section or the tag.
        n_questions: how many questions decided.
        strategy: the winner; None if all are eliminated.
        reason: a sentence with the numbers.
        rows: one for each strategy, best first.
    """

    kind: str
    n_questions: int
    strategy: str | None
    reason: str
    rows: tuple[SelectionRow, ...] = ()


@dataclass(frozen=True)
class Selection:
    """Which strategy to use, and why.

    Args:
        selected_strategy: the winner over all questions; None if every strategy is eliminated or failed.
        reason: one sentence with the numbers.
        measure: what was maximised.
        measure_label: what a table calls it.
        limits: the limits that were set, by name: ``max_inflation``, ``min_chunk_tokens``, ``max_chunk_tokens``,
            ``max_chunks``, ``max_context_tokens``; and ``tolerance``, how far below the best a tie may be.
        confidence: of the comparison; what differs less surely is a tie.
        rows: one for each strategy: the winner, ties, worse ones best first, eliminated, failed.
        ties: the strategies that were as good as the winner as far as can be told.
        per: by what the questions were divided for ``routes``.
        routes: the winner of each kind.
    """

    selected_strategy: str | None
    reason: str
    measure: str
    measure_label: str
    limits: dict[str, float]
    confidence: float
    rows: tuple[SelectionRow, ...]
    ties: tuple[str, ...] = ()
    per: Literal["section", "tag"] | None = None
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True)
class EvaluationReport:
    """What an evaluation found; made by `ChunkingEvaluator.evaluate`.

    Args:
        run: the circumstances.
        measures: what the figures are, in the order of tables.
        documents: the documents, in the order given.
        strategies: in the order given.
        questions: in the order given.
        notes: what was left out or failed.
        signals: what looks wrong.
        selection: the winner, once one was selected.
        probes: what the completeness probes found, as they dump; None if they were not run.
        schema_version: of the JSON.

    Example:
        >>> run = RunInfo("2025-01-01T00:00:00Z", 1.5, "x86_64", {}, "offline", 5, "dense", 1000, 0.95, 0, 0)
        >>> report = EvaluationReport(run, (), (), (), ())
        >>> EvaluationReport.from_json(report.to_json()) == report
        True
    """

    run: RunInfo
    measures: tuple[MeasureInfo, ...]
    documents: tuple[DocumentText, ...]
    strategies: tuple[StrategyResult, ...]
    questions: tuple[QuestionResult, ...]
    notes: tuple[Note, ...] = ()
    signals: tuple[FailureSignal, ...] = ()
    selection: Selection | None = None
    probes: dict[str, Any] | None = None
    schema_version: int = SCHEMA_VERSION

    def strategy(self, name: str) -> StrategyResult:
        """The strategy of a name.

        Raises:
            KeyError: there is none.
        """
        for result in self.strategies:
            if result.name == name:
                return result
        raise KeyError(name)

    def with_selection(self, selection: Selection) -> EvaluationReport:
        """The same report with a selection."""
        return replace(self, selection=selection)

    def with_probes(self, probes: dict[str, Any]) -> EvaluationReport:
        """The same report with what the completeness probes found."""
        return replace(self, probes=probes)

    def to_json(self, indent: int | None = None) -> str:
        """All of it as JSON, non-ASCII characters as they are.

        Args:
            indent: spaces a level; None: one line.
        """
        return _adapter().dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> EvaluationReport:
        """The report that `to_json` wrote.

        Raises:
            InputFileError: it is no such JSON, or that of another version.
        """
        try:
            report = _adapter().validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the text"
            raise InputFileError(f"this is no report of an evaluation: {place}: {first['msg']}") from error
        if report.schema_version != SCHEMA_VERSION:
            raise InputFileError(
                f"the report has version {report.schema_version} of the format, not {SCHEMA_VERSION}; evaluate again"
            )
        return report

    def save(self, path: Path | str) -> None:
        """Write the JSON to a file, UTF-8."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> EvaluationReport:
        """Read the JSON of a file.

        Raises:
            InputFileError: the file cannot be read, or is no report.
        """
        try:
            return cls.from_json(Path(path).read_bytes())
        except OSError as error:
            raise InputFileError(f"{path} cannot be read: {error}") from error


def report_schema() -> dict[str, Any]:
    """The JSON Schema of what `EvaluationReport.to_json` writes; descriptions are those of the classes.

    Example:
        >>> sorted(report_schema()["required"])
        ['documents', 'measures', 'questions', 'run', 'strategies']
    """
    return _adapter().json_schema(mode="validation")


@cache
def _adapter() -> TypeAdapter[EvaluationReport]:
    return TypeAdapter(EvaluationReport)
