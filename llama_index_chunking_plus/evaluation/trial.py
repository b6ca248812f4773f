"""One strategy on the documents and questions: chunk, place, embed, search, expand, measure.

Trial(strategy, bench, model).plan() -> Outcome, all that the report says of the strategy but summaries
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

from llama_index.core import Document
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.utils import get_tqdm_iterable

from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.core.sections import LEAD_KEY, TAIL_KEY
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.boundaries import chunk_boundaries
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion
from llama_index_chunking_plus.evaluation.frozen import FrozenEmbedding, FrozenIndex, Ranked
from llama_index_chunking_plus.evaluation.intervals import holds
from llama_index_chunking_plus.evaluation.measures import (
    MEASURES,
    Located,
    Needs,
    TokenCounts,
    inflation,
    size_statistics,
    within_budget,
)
from llama_index_chunking_plus.evaluation.placement import Placement, Whereabouts, place_nodes
from llama_index_chunking_plus.evaluation.results import (
    Alignment,
    Cost,
    GoldCut,
    MeasureInfo,
    RetrievedHit,
    SearchMode,
    Sizes,
    StrategyAnswer,
    StrategyChunks,
)
from llama_index_chunking_plus.evaluation.strategies import Strategy
from llama_index_chunking_plus.evaluation.structure import ShownChunk, StructuredText, UnitKind, structure_score

BUDGET_SUFFIX = "_budget"

_LEAST_DEPTH = 80  # chunks that are ranked for a question
_UNIT_OF_MEASURE: dict[str, UnitKind] = {
    "header_with_row": "table_row",
    "closed_fences": "fence",
    "definition_with_example": "example",
    "consecutive_steps": "steps",
}
_SECRET = re.compile(r"api_?key|password|secret|credential|(access|auth|bearer|hf)_token", re.IGNORECASE)
_DIGITS = 6  # of scores


@dataclass(frozen=True)
class Bench:
    """What all strategies are measured on, and how.

    Args:
        documents: those with text, each id once.
        questions: those that can be asked, their gold known.
        k: how many results count.
        search: how chunks are searched.
        budget: tokens for the measures at equal cost.
        count: the size of a text in tokens.
        boundaries: where topics end, by document.
        show_progress: whether to show progress bars.
    """

    documents: tuple[Document, ...]
    questions: tuple[EvaluationQuestion, ...]
    k: int
    search: SearchMode
    budget: int
    count: Callable[[str], int]
    boundaries: Mapping[str, Sequence[int]] = field(default_factory=dict)
    show_progress: bool = False

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each document by its id."""
        return {document.id_: document.text for document in self.documents}

    @cached_property
    def counts(self) -> TokenCounts:
        """The sizes of ranges of the documents."""
        return TokenCounts(self.texts, self.count)

    @cached_property
    def document_sizes(self) -> dict[str, int]:
        """The tokens of each document."""
        return {name: self.count(text) for name, text in self.texts.items()}

    @cached_property
    def structured(self) -> dict[str, StructuredText]:
        """What must stay together in each document."""
        return {name: StructuredText(text) for name, text in self.texts.items()}

    @cached_property
    def sentence_ends(self) -> dict[str, list[int]]:
        """Where sentences end, in the documents whose boundaries are known."""
        tokenizer = ChineseSentenceTokenizer()
        return {name: tokenizer.ends(self.texts[name]) for name in self.boundaries if name in self.texts}

    def copies(self) -> list[Document]:
        """The documents for a strategy to do with as it likes."""
        return [document.model_copy(deep=True) for document in self.documents]


@dataclass(frozen=True)
class Outcome:
    """What a strategy did; see `StrategyResult` for the fields of the same names.

    Args:
        answers: by the id of the question.
        document_values: by the id of the document the value of each measure of documents.
    """

    kind: Literal["parser", "retriever"]
    configuration: dict[str, Any]
    answers: dict[str, StrategyAnswer]
    inflation: float | None = None
    sizes: Sizes | None = None
    alignment: Alignment | None = None
    cost: Cost | None = None
    chunks: tuple[StrategyChunks, ...] = ()
    document_values: dict[str, dict[str, float]] = field(default_factory=dict)


def measure_infos(k: int, budget: int) -> tuple[MeasureInfo, ...]:
    """What the figures are, in the order of tables."""
    at_budget = [_info(name, f"{budget} tokens", BUDGET_SUFFIX) for name in _named("ranking")]
    documents = (*_named("document"), *_named("boundaries"))
    return (
        *(_info(name, str(k)) for name in _named("ranking")),
        *at_budget,
        *(_info(name) for name in _named("chunks")),
        *(replace(_info(name), of="document") for name in documents),
    )


def _info(name: str, k: str = "", suffix: str = "") -> MeasureInfo:
    known = MEASURES[name]
    return MeasureInfo(name + suffix, known.label.format(k=k), known.higher_is_better, "question")


def _named(needs: Needs) -> list[str]:
    return [name for name, each in MEASURES.items() if each.needs == needs]


class Trial:
    """One strategy being tried.

    Args:
        strategy: the strategy.
        bench: documents, questions and settings.
        model: the embedding model, with its cache.
    """

    def __init__(self, strategy: Strategy, bench: Bench, model: FrozenEmbedding) -> None:
        self._strategy = strategy
        self._bench = bench
        self._model = model
        self._where = Whereabouts(bench.texts)

    def plan(self) -> Plan[Outcome]:
        """The trial; raises whatever the strategy raises."""
        retriever = self._strategy.kind == "retriever"
        return (yield from self._retriever_plan() if retriever else self._parser_plan())

    # -------------------------------------------------------------------------------------------- retrievers

    def _retriever_plan(self) -> Plan[Outcome]:
        began = time.perf_counter()
        documents = self._bench.copies()
        retriever = yield Call(partial(self._strategy.make_retriever, documents, self._model))
        seconds = time.perf_counter() - began
        answers = {}
        for question in self._questions():
            text = question.text
            hits = yield Call(partial(retriever.retrieve, text), partial(retriever.aretrieve, text))
            found = self._located(hits)
            answers[question.question_id] = self._answer(question, found[: self._bench.k], found)
        _check_found([hit.span for answer in answers.values() for hit in answer.hits], "results")
        context = self._context_tokens(answers.values())
        return Outcome("retriever", configuration(retriever), answers, cost=Cost(seconds, None, context))

    def _questions(self) -> Iterable[EvaluationQuestion]:
        questions = self._bench.questions
        return get_tqdm_iterable(questions, self._bench.show_progress, "Asking")

    def _located(self, hits: Iterable[NodeWithScore]) -> list[RetrievedHit]:
        return [_hit(self._where.of(hit.node), hit.score) for hit in hits]

    # -------------------------------------------------------------------------------------------- parsers

    def _parser_plan(self) -> Plan[Outcome]:
        began = time.perf_counter()
        parser = yield Call(partial(self._strategy.make_parser, self._model))
        given = yield Call(partial(parser.get_nodes_from_documents, self._bench.copies()))
        nodes = [node for node in given if node.get_content(metadata_mode=MetadataMode.NONE).strip()]
        seconds = time.perf_counter() - began
        if not nodes and self._bench.documents:
            raise OptionError("it made no chunk with any text; check its options on one document")
        placement = yield Call(partial(place_nodes, nodes, self._bench.texts))
        _check_found(placement.places, "chunks")
        indexed = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        ranked = yield from self._search(nodes, indexed)
        finish = partial(self._outcome, configuration(parser), nodes, placement, indexed, ranked, seconds)
        outcome: Outcome = yield Call(finish)
        return outcome

    def _search(self, nodes: Sequence[BaseNode], indexed: Sequence[str]) -> Plan[list[Ranked]]:
        bench = self._bench
        texts = [question.text for question in bench.questions]
        vectors = asked = None
        if bench.search != "lexical":
            vectors = yield from self._model.plan(indexed, "text", bench.show_progress)
            asked = yield from self._model.plan(texts, "query", bench.show_progress)
        index = FrozenIndex(nodes, vectors, bench.search)
        ranked: list[Ranked] = yield Call(partial(index.search, texts, asked, self._depth(indexed)))
        return ranked

    def _depth(self, indexed: Sequence[str]) -> int:
        """How many nodes are ranked: enough for k results, and for twice the budget at the mean size."""
        mean = sum(map(len, indexed)) / max(1, len(indexed))
        for_budget = math.ceil(2 * self._bench.budget / max(1.0, mean / 2))  # a token is seldom above two characters
        return max(_LEAST_DEPTH, self._bench.k * self._strategy.hits_per_result, for_budget)

    def _outcome(
        self,
        configured: dict[str, Any],
        nodes: Sequence[BaseNode],
        placement: Placement,
        indexed: Sequence[str],
        ranked: Sequence[Ranked],
        seconds: float,
    ) -> Outcome:
        chunks = _Chunks(self._bench, nodes, placement.places, self._returned(nodes, placement.places))
        expand = self._expansion(nodes, placement.places)
        answers = {}
        for question, found in zip(self._bench.questions, ranked, strict=True):
            wanted = self._bench.k * self._strategy.hits_per_result
            top = expand(question, Ranked(found.positions[:wanted], found.scores[:wanted]))[: self._bench.k]
            answers[question.question_id] = self._answer(question, top, expand(question, found), chunks)
        index_tokens = sum(self._bench.count(text) for text in indexed)
        return Outcome(
            "parser",
            configured,
            answers,
            inflation(chunks.sizes, self._bench.document_sizes.values()),
            Sizes(*size_statistics(chunks.sizes)),
            placement.alignment,
            Cost(seconds, index_tokens, self._context_tokens(answers.values())),
            chunks.as_results(),
            chunks.document_values(),
        )

    def _returned(self, nodes: Sequence[BaseNode], places: Sequence[Located | None]) -> Sequence[Located | None]:
        if self._strategy.expansion in {"none", "levels"}:
            return places
        return [self._where.wider(node, place) for node, place in zip(nodes, places, strict=True)]

    def _expansion(
        self, nodes: Sequence[BaseNode], places: Sequence[Located | None]
    ) -> Callable[[EvaluationQuestion, Ranked], list[RetrievedHit]]:
        """What turns found nodes into what is returned."""
        if self._strategy.expansion == "none":
            return lambda _, found: [_hit(places[i], score) for i, score in zip(*found, strict=True)]
        postprocessors = self._strategy.make_postprocessors(_Documents.of(self._bench.documents))

        def expand(question: EvaluationQuestion, found: Ranked) -> list[RetrievedHit]:
            hits = [NodeWithScore(node=nodes[i].model_copy(), score=score) for i, score in zip(*found, strict=True)]
            return self._located(_postprocessed(hits, postprocessors, question.text))

        return expand

    # -------------------------------------------------------------------------------------------- measures

    def _answer(
        self,
        question: EvaluationQuestion,
        top: Sequence[RetrievedHit],
        all_hits: Sequence[RetrievedHit],
        chunks: _Chunks | None = None,
    ) -> StrategyAnswer:
        bench = self._bench
        shown = _places(top)
        known = [Located(hit.document_id, hit.span) for hit in all_hits if hit.span is not None]
        affordable = within_budget(known, bench.budget, bench.counts)
        values = {name: MEASURES[name].compute(question, shown, bench.k) for name in _named("ranking")}
        values |= {name + BUDGET_SUFFIX: MEASURES[name].compute(question, affordable) for name in _named("ranking")}
        if chunks is None:
            return StrategyAnswer(tuple(top), values)
        own = chunks.spans(question.document_id)
        values |= {name: MEASURES[name].compute(question, own) for name in _named("chunks")}
        return StrategyAnswer(tuple(top), values, tuple(_cuts(question, own)))

    def _context_tokens(self, answers: Iterable[StrategyAnswer]) -> float:
        """Tokens of the results of a question, on average."""
        counts = self._bench.counts
        sizes = [
            sum(counts.size(hit.document_id, [hit.span]) for hit in answer.hits if hit.span is not None)
            for answer in answers
        ]
        return sum(sizes) / len(sizes) if sizes else 0.0


class _Chunks:
    """The chunks of a strategy as a reader is given them."""

    def __init__(
        self,
        bench: Bench,
        nodes: Sequence[BaseNode],
        places: Sequence[Located | None],
        returned: Sequence[Located | None],
    ) -> None:
        self._bench = bench
        self._searched = _by_document(places)
        self._returned = _by_document(returned)
        self._shown: defaultdict[str, list[ShownChunk]] = defaultdict(list)
        for node, place in zip(nodes, returned, strict=True):
            if place is not None:
                lead, tail = (str(node.metadata.get(key) or "") for key in (LEAD_KEY, TAIL_KEY))
                self._shown[place.document_id].append(ShownChunk(place.span, lead, tail))
        self.sizes = [bench.count(node.get_content(metadata_mode=MetadataMode.NONE)) for node in nodes]

    def spans(self, document_id: str) -> list[Span]:
        """The ranges that can be returned of a document."""
        return self._returned.get(document_id, [])

    def as_results(self) -> tuple[StrategyChunks, ...]:
        """The ranges for the report."""
        return tuple(
            StrategyChunks(name, tuple(spans), tuple(self._returned[name]) if spans != self._returned[name] else ())
            for name, spans in self._searched.items()
        )

    def document_values(self) -> dict[str, dict[str, float]]:
        """The measures of documents that have something to judge."""
        return {name: dict(self._values(name)) for name in self._bench.texts}

    def _values(self, name: str) -> Iterator[tuple[str, float]]:
        document, shown = self._bench.structured[name], self._shown[name]
        for measure in _named("document"):
            kind = _UNIT_OF_MEASURE.get(measure)
            if kind is None:
                yield measure, MEASURES[measure].compute(document, shown)
            elif (score := structure_score(document, shown, kind)).total:
                yield measure, score.ratio
        if name in self._bench.sentence_ends:
            found, true = chunk_boundaries(self._searched.get(name, [])), self._bench.boundaries[name]
            for measure in _named("boundaries"):
                yield measure, MEASURES[measure].compute(true, found, self._bench.sentence_ends[name])


class _Documents(SimpleDocumentStore):
    """A docstore that hands out the documents it was given, instead of making them anew each time."""

    @classmethod
    def of(cls, documents: Iterable[Document]) -> _Documents:
        store = cls()
        store._originals = {document.id_: document for document in documents}
        return store

    _originals: dict[str, Document]

    def get_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        """The document of this id."""
        return self._originals.get(doc_id) or super().get_document(doc_id, raise_error)

    @property
    def docs(self) -> dict[str, BaseNode]:
        """All documents by id."""
        return dict(self._originals)


def _check_found(places: Sequence[object], what: str) -> None:
    """A strategy of which no chunk or result has a place would be judged by nothing."""
    if places and all(place is None for place in places):
        raise OptionError(
            f"none of its {len(places)} {what} can be found in the documents: their words stand in none of them; keep "
            "the text as it is, or let nodes name their document (SOURCE) and their offsets"
        )


def _by_document(places: Iterable[Located | None]) -> dict[str, list[Span]]:
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for place in places:
        if place is not None:
            spans[place.document_id].append(place.span)
    return dict(spans)


def _hit(place: Located | None, score: float | None) -> RetrievedHit:
    known = None if score is None or not math.isfinite(score) else round(float(score), _DIGITS)
    return RetrievedHit("", None, known) if place is None else RetrievedHit(place.document_id, place.span, known)


def _places(hits: Iterable[RetrievedHit]) -> list[Located]:
    """The places of the results; one that stands nowhere keeps its rank, and shows nothing."""
    return [
        Located("", Span(0, rank)) if hit.span is None else Located(hit.document_id, hit.span)
        for rank, hit in enumerate(hits, 1)
    ]


def _cuts(question: EvaluationQuestion, chunks: Sequence[Span]) -> Iterator[GoldCut]:
    edges = {edge for chunk in chunks for edge in chunk}
    for gold in question.gold:
        if not holds(chunks, gold):
            yield GoldCut(gold, tuple(sorted(edge for edge in edges if gold.start < edge < gold.end)))


def _postprocessed(
    hits: list[NodeWithScore], postprocessors: Sequence[BaseNodePostprocessor], question: str
) -> list[NodeWithScore]:
    for postprocessor in postprocessors:
        hits = postprocessor.postprocess_nodes(hits, QueryBundle(question))
    return hits


def configuration(component: Any) -> dict[str, Any]:
    """Class and options of a parser or retriever as JSON, without secrets; models by their names."""
    kind = type(component)
    try:
        dump = component.to_dict()
    except Exception:  # noqa: BLE001  a function or client that JSON does not know; the class still says something
        dump = {}
    plain = json.loads(json.dumps(dump, default=str, ensure_ascii=False))
    return {"class": f"{kind.__module__}.{kind.__qualname__}", **_without_secrets(plain)}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if not _SECRET.search(key)}
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value
