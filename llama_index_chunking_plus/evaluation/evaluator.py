"""Every strategy on the same documents, the same questions and the same frozen retriever.

documents, questions -> what can be asked, and notes of what cannot
strategies -> trials, or what an earlier run saved of them -> EvaluationReport
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from llama_index.core import Document
from llama_index.core.bridge.pydantic import TypeAdapter, ValidationError
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.utils import get_tqdm_iterable

from llama_index_chunking_plus.core.options import folder_flaw, is_collection, is_number, is_path, is_whole
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion, EvaluationSet
from llama_index_chunking_plus.evaluation.frozen import FrozenEmbedding, VectorCache, model_identity
from llama_index_chunking_plus.evaluation.results import (
    SCHEMA_VERSION,
    DocumentText,
    EvaluationReport,
    Note,
    QuestionResult,
    RunInfo,
    SearchMode,
    StrategyResult,
)
from llama_index_chunking_plus.evaluation.selector import SelectedChunk, SelectionResult, StrategySelector
from llama_index_chunking_plus.evaluation.strategies import Strategy, StrategyLike, as_strategies
from llama_index_chunking_plus.evaluation.summary import failure_signals, summarised
from llama_index_chunking_plus.evaluation.trial import Bench, Outcome, Trial, measure_infos
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations, hash_document
from llama_index_chunking_plus.node_parser.fingerprints import fingerprint
from llama_index_chunking_plus.node_parser.tokenizers import Tokenizer, check_tokenizer, resolve_sizer

_PACKAGES = ("llama-index-chunking-plus", "llama-index-core", "numpy", "bm25s")
_TITLE_KEYS = ("title", "file_name", "file_path")
_VECTORS = "vectors.sqlite"
_TRIALS = "trials"
_FEW = 4  # times k chunks, of which nearly every question finds its own


class ChunkingEvaluator:
    """Measures strategies on questions with known answers.

    Every strategy is searched in the same way: the same model, the same number of results, exact search. What is
    embedded is what LlamaIndex would embed of a node, and each different text once, whatever strategy it comes from.
    What counts as retrieved is the range that would be returned: the parent or window, where a strategy expands hits.

    Nothing that a strategy does ends the run: one that fails, or makes no chunk, is a row with the reason. Questions
    whose document is missing or empty are not asked, and noted; so is a document whose id another has.

    Args:
        documents: each with an id of its own; or texts by id. Not changed.
        questions: with gold ranges, or with quotes of the documents.
        embed_model: the model of the online system.
        k: results a question gets, from 1; take what the online system shows its language model.
        search: "dense", the cosine of vectors; "lexical", BM25; "fused", both by reciprocal ranks.
        budget: tokens, from 1, for the measures that compare strategies at equal cost.
        confidence: of the intervals, between 0 and 1.
        tokenizer: counts tokens; None is LlamaIndex's global one.
        boundaries: where topics end, in characters of the text, by document id; for the measures of boundaries.
        work_dir: where vectors, and what each strategy did, are kept: an interrupted run goes on there, and a larger
            grid embeds nothing twice. None: nothing is kept. Retrievers, and parsers whose code cannot be read, are
            tried anew each time.
        show_progress: whether to show progress bars.
        on_progress: called after each strategy with how many are done, of how many, and its name.

    Raises:
        OptionError: an argument is out of its range or of another kind, or there is no document or no question.
        EvaluationSetError: gold does not stand in its document, or in several places.

    Example:
        >>> from llama_index.core import MockEmbedding
        >>> from llama_index_chunking_plus.evaluation.dataset import Quote
        >>> from llama_index_chunking_plus.node_parser import SlidingWindowNodeParser
        >>> question = EvaluationQuestion("q1", "展厅在几楼？", "guide", quotes=(Quote("二楼是展厅"),))
        >>> evaluator = ChunkingEvaluator({"guide": "一楼是大厅。二楼是展厅。"}, [question], MockEmbedding(embed_dim=4))
        >>> report = evaluator.evaluate({"sliding": SlidingWindowNodeParser(), "none": lambda model: None})
        >>> [(each.name, each.status) for each in report.strategies], report.strategies[0].measures["recall"].mean
        ([('sliding', 'ok'), ('none', 'failed')], 1.0)
    """

    def __init__(
        self,
        documents: Iterable[Document] | Mapping[str, str],
        questions: EvaluationSet | Iterable[EvaluationQuestion],
        embed_model: BaseEmbedding,
        k: int = 5,
        *,
        search: SearchMode = "dense",
        budget: int = 1000,
        confidence: float = 0.95,
        tokenizer: Tokenizer = None,
        boundaries: Mapping[str, Sequence[int]] | None = None,
        work_dir: Path | str | None = None,
        show_progress: bool = False,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        _check_number("k", k, "5 is usual")
        _check_number("budget", budget, "1000 tokens is usual")
        if search not in get_args(SearchMode):
            raise OptionError(f"search={search!r} is none of {', '.join(get_args(SearchMode))}")
        if not is_number(confidence) or not 0 < confidence < 1:
            raise OptionError(f"confidence={confidence!r}; it must lie between 0 and 1, 0.95 say")
        if not isinstance(embed_model, BaseEmbedding):
            raise OptionError(
                f"embed_model={embed_model!r} is no embedding model of LlamaIndex; pass OfflineEmbedding()"
            )
        if not isinstance(show_progress, bool):
            raise OptionError(f"show_progress={show_progress!r} is neither True nor False; pass one of them")
        if on_progress is not None and not callable(on_progress):
            raise OptionError(
                f"on_progress={on_progress!r} is no function of two numbers and a name; pass one, or None"
            )
        _check_folder(work_dir)
        count = resolve_sizer("tokens", check_tokenizer(tokenizer)).size
        given = _Given.of(documents, questions)
        self.embed_model = embed_model
        self.confidence = confidence
        self.notes = given.notes
        self.bench = Bench(
            given.documents, given.questions, k, search, budget, count, _checked_boundaries(boundaries), show_progress
        )
        _check_places(self.bench)
        self._on_progress = on_progress
        self._folder = None if work_dir is None else Path(work_dir)
        self._cache = VectorCache(None if self._folder is None else self._folder / _VECTORS)

    def evaluate(self, strategies: Mapping[str, StrategyLike] | Iterable[Strategy]) -> EvaluationReport:
        """The figures of all strategies.

        Args:
            strategies: parsers, retrievers and functions by name, or `Strategy`s; see `as_strategies`, `grid`,
                `five_ways` and `own_ways`.

        Raises:
            OptionError: something is no strategy, or there is none.
        """
        return run(self._plan(_listed(strategies)))

    async def aevaluate(self, strategies: Mapping[str, StrategyLike] | Iterable[Strategy]) -> EvaluationReport:
        """The same as `evaluate`, awaited: models and retrievers by their async forms, the rest in threads."""
        return await arun(self._plan(_listed(strategies)))

    def select(
        self,
        strategies: Mapping[str, StrategyLike] | Iterable[Strategy],
        selector: StrategySelector | None = None,
    ) -> SelectionResult:
        """The figures of all strategies, the winner, and its chunks.

        Args:
            strategies: as `evaluate` takes them.
            selector: the measure and the limits; None: the highest recall, at an inflation of at most 1.5.

        Raises:
            OptionError: something is no strategy, there is none, or there is no such measure.
        """
        return run(self._selection_plan(_listed(strategies), selector or StrategySelector()))

    async def aselect(
        self,
        strategies: Mapping[str, StrategyLike] | Iterable[Strategy],
        selector: StrategySelector | None = None,
    ) -> SelectionResult:
        """The same as `select`, awaited."""
        return await arun(self._selection_plan(_listed(strategies), selector or StrategySelector()))

    def _selection_plan(self, strategies: Sequence[Strategy], selector: StrategySelector) -> Plan[SelectionResult]:
        report = yield from self._plan(strategies)
        selection = selector.select(report)
        by_name = {each.name: each for each in reversed(strategies)}  # of one name, the first was tried
        names = {selection.selected_strategy, *(route.strategy for route in selection.routes)} & by_name.keys()
        chosen = {name: by_name[name] for name in names if name is not None}
        result = SelectionResult(report.with_selection(selection), selection, (), chosen)
        if selection.selected_strategy is None or result.used[0].kind == "retriever":
            return result
        parser = yield Call(partial(result.make_parser, self.frozen_model()))
        nodes = yield Call(partial(parser.get_nodes_from_documents, self.bench.copies()))
        return replace(result, chunks=tuple(_selected_chunk(node) for node in nodes))

    def frozen_model(self) -> FrozenEmbedding:
        """The embedding model with this evaluator's cache."""
        return FrozenEmbedding.of(self.embed_model, self._cache)

    def _plan(self, strategies: Sequence[Strategy]) -> Plan[EvaluationReport]:
        date, began = datetime.now(timezone.utc), time.perf_counter()
        model = self.frozen_model()
        results: list[StrategyResult] = []
        outcomes: dict[str, Outcome] = {}
        notes = [*self.notes]
        tried = get_tqdm_iterable(strategies, self.bench.show_progress, "Strategies")
        for number, strategy in enumerate(tried, 1):
            name = _free_name(strategy.name, {result.name for result in results})
            if name != strategy.name:
                reason = f"another strategy is named {strategy.name!r} as well; give each a name of its own"
            else:
                reason = yield from self._try(strategy, model, outcomes)
            if reason:
                results.append(StrategyResult(name, strategy.kind, "failed", reason))
                notes.append(Note("strategy", name, reason))
            else:
                results.append(summarised(name, outcomes[name], self.bench.questions, self.confidence))
            if self._on_progress is not None:
                self._on_progress(number, len(strategies), name)
        notes += _too_few_chunks(results, self.bench.k)
        seconds = time.perf_counter() - began
        return EvaluationReport(
            self._run_info(date, seconds, model),
            measure_infos(self.bench.k, self.bench.budget),
            tuple(_document_text(document, self.bench) for document in self.bench.documents),
            tuple(results),
            tuple(_question_result(question, outcomes) for question in self.bench.questions),
            tuple(notes),
            failure_signals(results),
        )

    def _try(self, strategy: Strategy, model: FrozenEmbedding, outcomes: dict[str, Outcome]) -> Plan[str]:
        """Try a strategy, or read what an earlier run saved of it; why it failed, or nothing."""
        if not self.bench.questions:
            return "there is no question that can be asked; see the notes"
        try:
            path = self._saved_at(strategy, model)
            outcome = _read(path)
            if outcome is None:
                outcome = yield from Trial(strategy, self.bench, model).plan()
                _write(path, outcome)
            outcomes[strategy.name] = outcome
        except Exception as error:  # noqa: BLE001  whatever a strategy does, the others go on
            return f"{type(error).__name__}: {error}"
        return ""

    def _saved_at(self, strategy: Strategy, model: FrozenEmbedding) -> Path | None:
        """Where the outcome of this strategy on this data is kept; None if it is not kept."""
        if self._folder is None or strategy.kind == "retriever":
            return None
        parser = strategy.make_parser(model)
        code = _code_digest(type(parser))
        if code is None:
            return None
        options = [fingerprint_transformations([parser]), fingerprint(parser), code]
        key = [SCHEMA_VERSION, _version("llama-index-chunking-plus"), self._data_digest(), *options]
        key += [strategy.expansion, strategy.hits_per_result]
        return self._folder / _TRIALS / f"{_hashed(key)}.json"

    def _data_digest(self) -> str:
        bench = self.bench
        documents = [[document.id_, hash_document(document)] for document in bench.documents]
        questions = [repr(question) for question in bench.questions]
        boundaries = {name: list(ends) for name, ends in bench.boundaries.items()}
        count = [bench.count("好的，ok。"), fingerprint(bench.count)]
        settings = [bench.k, bench.search, bench.budget, model_identity(self.embed_model), count]
        return _hashed([documents, questions, boundaries, settings])

    def _run_info(self, date: datetime, seconds: float, model: FrozenEmbedding) -> RunInfo:
        bench = self.bench
        return RunInfo(
            date.isoformat(timespec="seconds"),
            round(seconds, 3),
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            {name: _version(name) for name in _PACKAGES if _version(name)},
            self.embed_model.model_name,
            bench.k,
            bench.search,
            bench.budget,
            self.confidence,
            len(bench.documents),
            len(bench.questions),
            model.n_embedded,
            model.n_cached,
        )


# ------------------------------------------------------------------------------------------------ what is given


@dataclass(frozen=True)
class _Given:
    """Documents and questions that can be used, and notes of the others."""

    documents: tuple[Document, ...]
    questions: tuple[EvaluationQuestion, ...]
    notes: tuple[Note, ...] = field(default=())

    @classmethod
    def of(
        cls,
        documents: Iterable[Document] | Mapping[str, str],
        questions: EvaluationSet | Iterable[EvaluationQuestion],
    ) -> _Given:
        notes: list[Note] = []
        usable = {document.id_: document for document in _usable(_documents(documents), notes)}
        asked = questions if isinstance(questions, EvaluationSet) else EvaluationSet(questions)  # type: ignore[arg-type]
        if not len(asked):
            raise OptionError(
                "questions: there are no questions in it; give one at least, 20 or more to tell strategies apart"
            )
        texts = {name: document.text for name, document in usable.items()}
        notes += [_not_asked(question) for question in asked.without_document(texts)]
        return cls(tuple(usable.values()), asked.resolve(texts, missing="skip").questions, tuple(notes))


def _not_asked(question: EvaluationQuestion) -> Note:
    place = question.place or "It"
    message = f"{place} asks about document {question.document_id!r}, which is missing or empty; it was not asked."
    return Note("question", question.question_id, message)


def _documents(given: Iterable[Document] | Mapping[str, str]) -> list[Document]:
    """The documents as copies that stand for themselves, without half characters."""
    if isinstance(given, Mapping):
        listed: list[Document] = [_text_document(name, text) for name, text in given.items()]
    elif is_collection(given):
        listed = list(given)
    else:
        raise OptionError(f"documents={given!r} is no list; give LlamaIndex Documents, or a mapping from ids to texts")
    for each in listed:
        if not isinstance(each, Document):
            raise OptionError(f"{each!r} is no document; give LlamaIndex Documents, or a mapping from ids to texts")
    if not listed:
        raise OptionError("documents: there are no documents in it; give those that the questions are about")
    return [_standing_alone(document) for document in listed]


def _text_document(name: object, text: object) -> Document:
    if not isinstance(name, str) or not isinstance(text, str):
        raise OptionError(f"documents has {name!r}: {text!r}; a mapping gives each id, a text, its document's text")
    return Document(id_=name, text=text)


def _standing_alone(document: Document) -> Document:
    copied = document.model_copy(update={"relationships": {}}, deep=True)
    text = replace_surrogates(document.text or "")
    if text != document.text:
        copied.set_content(text)
    return copied


def _usable(documents: Iterable[Document], notes: list[Note]) -> Iterator[Document]:
    seen: dict[str, str] = {}
    for document in documents:
        if document.id_ in seen:
            is_same = "the same text" if document.text == seen[document.id_] else "another text"
            notes.append(Note("document", document.id_, _TWICE.format(is_same=is_same)))
        elif not document.text.strip():
            notes.append(Note("document", document.id_, "It holds no text; nothing can be found in it."))
        else:
            yield document
        seen.setdefault(document.id_, document.text)


_TWICE = "Another document, with {is_same}, has this id; only the first is used. Give each document an id of its own."


def _listed(strategies: Mapping[str, StrategyLike] | Iterable[Strategy]) -> tuple[Strategy, ...]:
    listed = as_strategies(strategies)
    if not listed:
        raise OptionError("there are no strategies; give some, five_ways() and own_ways() say")
    return listed


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _check_number(name: str, value: object, usual: str) -> None:
    if not is_whole(value, least=1):
        raise OptionError(f"{name}={value!r}; it must be a whole number from 1; {usual}")


def _check_folder(work_dir: object) -> None:
    if work_dir is None:
        return
    if not is_path(work_dir):
        raise OptionError(f"work_dir={work_dir!r} is no path of a folder; pass one, or None to keep nothing")
    if flaw := folder_flaw(work_dir):
        raise OptionError(
            f"work_dir={str(work_dir)!r} cannot keep anything: {flaw}; choose another folder, or None to keep nothing"
        )


def _check_places(bench: Bench) -> None:
    """The boundaries must stand in the documents."""
    for name, ends in bench.boundaries.items():
        if name not in bench.texts:
            raise OptionError(
                f"boundaries names {name!r}, and no document with text has this id; take the ids of the documents"
            )
        outside = [end for end in ends if end > len(bench.texts[name])]
        if outside:
            raise OptionError(
                f"boundaries of {name!r} has {outside[0]}, and its text ends at {len(bench.texts[name])}; count "
                "characters of the text"
            )


def _checked_boundaries(boundaries: Mapping[str, Sequence[int]] | None) -> dict[str, Sequence[int]]:
    if boundaries is None:
        return {}
    if not isinstance(boundaries, Mapping) or not all(
        isinstance(name, str) and is_collection(ends) and all(is_whole(end, least=0) for end in ends)
        for name, ends in boundaries.items()
    ):
        raise OptionError(
            f"boundaries={boundaries!r}; it must give document ids lists of characters, {{'guide': [120, 480]}} say"
        )
    return dict(boundaries)


# ------------------------------------------------------------------------------------------------ what is told


def _document_text(document: Document, bench: Bench) -> DocumentText:
    titles = (document.metadata.get(key) for key in _TITLE_KEYS)
    title = next((title for title in titles if isinstance(title, str) and title.strip()), document.id_)
    return DocumentText(document.id_, document.text, title, bench.document_sizes[document.id_])


def _too_few_chunks(results: Iterable[StrategyResult], k: int) -> Iterator[Note]:
    """A note if k results are so large a part of all chunks that the figures cannot tell strategies apart."""
    counts = [result.sizes.n_chunks for result in results if result.sizes is not None]
    if counts and max(counts) < _FEW * k:
        n_chunks = "1 chunk" if max(counts) == 1 else f"{max(counts)} chunks"
        message = (
            f"With k={k} and {n_chunks} at most, nearly everything can be found whatever the strategy, and figures say "
            "little; add documents, or take a smaller k."
        )
        yield Note("document", "(all)", message)


def _question_result(question: EvaluationQuestion, outcomes: Mapping[str, Outcome]) -> QuestionResult:
    return QuestionResult(
        question.question_id,
        question.text,
        question.document_id,
        question.gold,
        question.context,
        question.section,
        question.tags,
        {name: outcome.answers[question.question_id] for name, outcome in outcomes.items()},
    )


def _selected_chunk(node: BaseNode) -> SelectedChunk:
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return SelectedChunk(node.node_id, node.ref_doc_id or "", text, dict(node.metadata))


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# ------------------------------------------------------------------------------------------------ what is kept


@cache
def _adapter() -> TypeAdapter[Outcome]:
    return TypeAdapter(Outcome)


def _read(path: Path | None) -> Outcome | None:
    """What an earlier run saved; None if it saved nothing that can be read."""
    if path is None:
        return None
    with suppress(OSError, ValidationError):
        return _adapter().validate_json(path.read_bytes())
    return None


def _write(path: Path | None, outcome: Outcome) -> None:
    """Save an outcome whole, or not at all."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_bytes(_adapter().dump_json(outcome))
    os.replace(draft, path)  # noqa: PTH105  atomic on every platform


def _code_digest(kind: type[Any]) -> str | None:
    """A digest of the file that defines a class; None if it cannot be read."""
    with suppress(OSError, TypeError):
        source = inspect.getsourcefile(kind)
        if source is not None:
            return hashlib.sha256(Path(source).read_bytes()).hexdigest()
    return None


def _hashed(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
