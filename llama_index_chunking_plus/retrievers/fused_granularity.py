"""One ranking of small chunks, by what they say, what their best sentence says and what they are a part of."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Literal

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.fusion import reciprocal_rank, standardised, weighted_sum
from llama_index_chunking_plus.core.hierarchy import GRANULARITY_KEY, SENTENCE
from llama_index_chunking_plus.core.options import is_filled_text, is_number
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.retrievers.levels import (
    LevelHit,
    LevelStore,
    checked_base,
    checked_filters,
    checked_query,
    checked_top_k,
    misfit,
    passing,
    warn,
)
from llama_index_chunking_plus.storage.lexical import LexicalIndex
from llama_index_chunking_plus.storage.stores import can_list

_CHILDREN = 6  # fine chunks that are looked at of each parent that was found
_PARENTS = 5  # one parent is asked for to this many fine chunks
_SENTENCES = 2  # sentences that are asked for to each fine chunk
_WORDS = 4  # rows of all levels that lexical search is asked for to each fine chunk

Scores = dict[str, float]


@dataclass(frozen=True)
class FusionWeights:
    """How much each component counts; what has the weight 0 is not asked for, but for the chunk's own cosine.

    Args:
        own: cosine of the query with the chunk; counts alone where none of the three can be had that have a weight.
        sentence: with the best of its sentences that were found, if sentences are stored. Only the nearest ones of the
            store are looked at; which they are is not exact in a store that searches a graph, as Chroma does, so that
            this part of a score at the end of the list can be another one after a restart.
        parent: with the smallest chunk around it that is stored, or its own; if there is any for one of the candidates.
        lexical: BM25 of the chunk, if there is a lexical index.
        parent_lexical: BM25 of the smallest chunk around it that is stored, or its own.

    Raises:
        OptionError: a weight is below 0 or no number, or the first three are all 0.

    Example:
        >>> FusionWeights(parent=0.5).parent
        0.5
    """

    own: float = 0.2
    sentence: float = 0.4
    parent: float = 0.4
    lexical: float = 0.7
    parent_lexical: float = 1.0

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        wrong = {name: weight for name, weight in given.items() if not (is_number(weight) and 0 <= weight < math.inf)}
        if wrong:
            raise OptionError(f"weights of {wrong} must be numbers, 0 or above; 0 leaves a component out")
        if not self.own + self.sentence + self.parent:
            raise OptionError("own=sentence=parent=0 leaves no vectors; give one of them a weight")

    @property
    def dense(self) -> Scores:
        """The weights of the cosines."""
        return {"own": self.own, "sentence": self.sentence, "parent": self.parent}

    @property
    def words(self) -> Scores:
        """The weights of the lexical scores, beside 1 for all cosines together."""
        return {"lexical": self.lexical, "parent_lexical": self.parent_lexical}


class FusedGranularityRetriever(BaseRetriever):
    """Fine chunks, ranked by their own vector, their best sentence, their parent, and the words of the question.

    A fine chunk holds the fact, its parent says what the fact is about; a vector misses names, numbers and codes, which
    BM25 finds. Candidates come from the store: the nearest rows of each level, the parts of the nearest parents, and
    the rows that lexical search finds; only these are scored. Scores of the store are mapped to cosines. Each hit says
    in its hidden metadata ``explanation`` its level, its parents and its component scores.

    Without a lexical index, the score is the weighted mean of the cosines. With one, the components are put together
    standardised over the candidates (``fusion="standardised"``), or by their ranks ("reciprocal_rank", Cormack, Clarke
    and Büttcher 2009): scores then compare hits of one query only.

    Args:
        index: of the nodes of a `MultiGranularityNodeParser`, best with ``sentences=True``; levels that are not stored
            are done without.
        similarity_top_k: how many chunks are returned at most.
        lexical: the words of the same rows; kept in step with the store: before the first query, and by
            `sync_lexical` after each change of the documents.
        weights: how much each component counts.
        fusion: how cosines and lexical scores are put together.
        filters: of the user, on metadata; they hold for all levels, so they do not choose one.
        level, parent_level, sentence_level: the levels' names in the store: of the chunks that are returned, of those
            around them and of those in them. A parser with ``levels`` of its own gives other names than the default.
        candidates: how many fine chunks are looked at, by each way of finding them.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        OptionError: an option is out of its range, or ``index`` or ``lexical`` something else; at a query: it is blank,
            see `checked_query`.

    Warns:
        ChunkingPlusWarning: at a query: nothing is found since the store has no ``level`` of this name.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> parser = MultiGranularityNodeParser.from_preset(sentences=True)
        >>> nodes = parser([Document(text="一楼是大厅。二楼是展厅。" * 50)])
        >>> retriever = FusedGranularityRetriever(VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8)))
        >>> hit = retriever.retrieve("展厅在几楼？")[0]
        >>> hit.node.metadata["granularity"], sorted(hit.node.metadata["explanation"]["scores"])
        ('fine', ['own', 'parent', 'sentence'])
    """

    def __init__(
        self,
        index: VectorStoreIndex,
        similarity_top_k: int = 10,
        lexical: LexicalIndex | None = None,
        weights: FusionWeights | None = None,
        fusion: Literal["standardised", "reciprocal_rank"] = "standardised",
        filters: MetadataFilters | None = None,
        level: str = "fine",
        parent_level: str = "medium",
        sentence_level: str = SENTENCE,
        candidates: int = 50,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        checked_top_k(similarity_top_k=similarity_top_k, candidates=candidates)
        if lexical is not None and not isinstance(lexical, LexicalIndex):
            raise OptionError(f"lexical={lexical!r} is no LexicalIndex; pass LexicalIndex(persist_dir)")
        if fusion not in ("standardised", "reciprocal_rank"):
            raise OptionError(f"fusion={fusion!r} is neither 'standardised' nor 'reciprocal_rank'")
        if weights is not None and not isinstance(weights, FusionWeights):
            raise OptionError(f"weights={weights!r} are no FusionWeights; pass FusionWeights(own=0.4, ...)")
        self._store = LevelStore(index)
        self._top_k, self._candidates = similarity_top_k, max(candidates, similarity_top_k)
        self._lexical, self._weights, self._fusion = lexical, weights or FusionWeights(), fusion
        self._filters = checked_filters(filters, "level=, parent_level= and sentence_level=")
        for name, value in {"level": level, "parent_level": parent_level, "sentence_level": sentence_level}.items():
            if not is_filled_text(value):
                raise OptionError(f"{name}={value!r} names no level; pass the name that the parser gave it")
        self._level, self._parent_level, self._sentence_level = level, parent_level, sentence_level
        self._is_in_step, self._lock = False, threading.Lock()
        super().__init__(**checked_base(callback_manager, verbose))

    def sync_lexical(self, changed: Collection[str] | None = None) -> None:
        """Bring the lexical index in step with the store: to be called when documents have changed.

        Args:
            changed: ids of the documents that changed, as `SyncReport.changed` has them: only their rows are read, and
                those that the index does not know. None: all rows are.
        """
        if self._lexical is not None:
            with self._lock:
                self._lexical.sync_with_store(self._store.vector_store, self._store.docstore, changed)
                self._is_in_step = True

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        checked_query(query)
        vector = yield from self._store.embed(query)
        pool = yield from self._pool(vector, query.query_str)
        if not pool.hits:
            stored = yield from self._store.levels(vector)
            remedy = misfit([self._parent_level, self._level], stored, "level=... and parent_level=....")
            if remedy:
                warn(f"Nothing was found. {remedy}")
        components = {
            "own": {key: hit.cosine for key, hit in pool.hits.items() if not math.isnan(hit.cosine)},
            "sentence": {key: score for key, score in pool.sentences.items() if key in pool.hits},
            "parent": (yield from self._parent_cosines(vector, pool)),
        }
        words: dict[str, Scores] = {}
        if self._lexical is not None and pool.hits:
            words = yield Call(partial(self._lexical_scores, self._lexical, query.query_str, pool))
        return self._ranked(pool, components, words)

    # --- candidates

    def _pool(self, vector: Sequence[float], question: str) -> Plan[_Pool]:
        """The fine chunks that are scored, however they were found."""
        pool, n = _Pool(), self._candidates
        pool.add((yield from self._near(vector, n, self._level)))
        if self._weights.sentence:
            pool.add_sentences((yield from self._near(vector, _SENTENCES * n, self._sentence_level)))
        if self._weights.parent:
            found = yield from self._near(vector, max(1, n // _PARENTS), self._parent_level)
            pool.parents = {hit.node.node_id: hit.cosine for hit in found}
            one_of = ("parent_id", list(pool.parents))
            pool.add((yield from self._near(vector, _CHILDREN * len(found), self._level, one_of=one_of)))
        words: list[str] = (yield Call(partial(self._by_words, self._lexical, question))) if self._lexical else []
        unseen = {*pool.sentences, *words} - pool.hits.keys() - pool.parents.keys() - pool.seen
        rows = yield from self._rows(sorted(unseen))
        by_words = [key for key in words if key in rows or key in pool.hits][:n]
        fresh = [key for key in dict.fromkeys((*pool.sentences, *by_words)) if key in rows]
        cosines = yield from self._store.cosines(vector, fresh)
        pool.add([LevelHit(rows[key], cosines.get(key, math.nan)) for key in fresh])
        return pool

    def _near(
        self, vector: Sequence[float], count: int, level: str, one_of: tuple[str, Sequence[str]] | None = None
    ) -> Plan[list[LevelHit]]:
        """The nearest rows of the level that the user's filters pass; parts of one parent are of one level anyway."""
        equal = None if one_of else {GRANULARITY_KEY: level}
        found = yield from self._store.nearest(vector, count, self._filters, equal=equal, one_of=one_of)
        return [hit for hit in found if hit.level == level]

    def _rows(self, keys: Sequence[str]) -> Plan[dict[str, BaseNode]]:
        """The fine chunks among the rows with these ids that the user's filters pass."""
        rows = yield from self._store.rows(keys)
        rows = {key: row for key, row in rows.items() if row.metadata.get(GRANULARITY_KEY) == self._level}
        passed = passing(rows.values(), self._filters)
        return {key: row for key, row in rows.items() if key in passed}

    def _by_words(self, lexical: LexicalIndex, question: str) -> list[str]:
        """The rows of all levels that lexical search finds, best first."""
        with self._lock:
            if not self._is_in_step and can_list(self._store.vector_store):
                lexical.sync_with_store(self._store.vector_store, self._store.docstore, changed=())
            self._is_in_step = True
        return [key for key, _ in lexical.search(question, _WORDS * self._candidates)]

    # --- scores

    def _parent_cosines(self, vector: Sequence[float], pool: _Pool) -> Plan[Scores]:
        """For each candidate the cosine of the smallest stored chunk around it; of one that has none, its own."""
        if not self._weights.parent:
            return {}
        known = dict(pool.parents)
        for name_of in (_parent_id, _coarse_id):
            lost = {name_of(hit) for hit in pool.hits.values() if not known.keys() & {*_around(hit)}}
            known.update((yield from self._store.cosines(vector, sorted(filter(None, lost)))))
        return _of_chunk_around(pool.hits, known, {key: hit.cosine for key, hit in pool.hits.items()})

    def _lexical_scores(self, lexical: LexicalIndex, question: str, pool: _Pool) -> dict[str, Scores]:
        around = {name for hit in pool.hits.values() for name in _around(hit)}
        scores = lexical.scores(question, {*pool.hits, *around})
        return {
            "lexical": {key: scores[key] for key in pool.hits if key in scores},
            "parent_lexical": _of_chunk_around(pool.hits, scores, scores),
        }

    def _ranked(
        self, pool: _Pool, components: Mapping[str, Scores], words: Mapping[str, Scores]
    ) -> list[NodeWithScore]:
        weights = self._weights.dense
        present = math.fsum(weights[name] for name, scores in components.items() if scores)
        if not present:
            weights, present = {**dict.fromkeys(weights, 0.0), "own": 1.0}, 1.0
        dense = {key: fused.score / present for key, fused in weighted_sum(components, weights).items()}
        totals = self._with_words(dense, words) if words else dense
        best = sorted(totals, key=lambda key: (-totals[key], key))[: self._top_k]
        parts = {**components, **words}
        told = {key: {name: scores[key] for name, scores in parts.items() if key in scores} for key in best}
        return [pool.hits[key].scored(**told[key]).explained(totals[key]) for key in best]

    def _with_words(self, dense: Scores, words: Mapping[str, Scores]) -> Scores:
        weights = {"dense": 1.0, **self._weights.words}
        parts = {"dense": dense, **words}
        if self._fusion == "reciprocal_rank":
            return reciprocal_rank(_ranking(parts[name], name == "dense") for name in parts if weights[name])
        even = {
            name: dict(zip(scores, standardised([*scores.values()]).tolist(), strict=True))
            for name, scores in parts.items()
        }
        return {key: fused.score for key, fused in weighted_sum(even, weights).items()}


@dataclass
class _Pool:
    """The candidates of a query."""

    hits: dict[str, LevelHit] = field(default_factory=dict)
    sentences: Scores = field(default_factory=dict)  # the best cosine of a sentence, by chunk
    parents: Scores = field(default_factory=dict)  # cosines
    seen: set[str] = field(default_factory=set)  # sentences, which need not be read again

    def add(self, hits: Sequence[LevelHit]) -> None:
        for hit in hits:
            self.hits.setdefault(hit.node.node_id, hit)

    def add_sentences(self, hits: Sequence[LevelHit]) -> None:
        for hit in hits:
            self.seen.add(hit.node.node_id)
            if hit.parent_id is not None:
                self.sentences[hit.parent_id] = max(hit.cosine, self.sentences.get(hit.parent_id, -1.0))


def _ranking(scores: Scores, takes_all: bool) -> list[str]:
    """The ids, best first; of lexical scores those above 0."""
    found = scores if takes_all else {key: score for key, score in scores.items() if score > 0}
    return sorted(found, key=lambda key: (-found[key], key))


def _parent_id(hit: LevelHit) -> str | None:
    return hit.parent_id


def _coarse_id(hit: LevelHit) -> str | None:
    return None if hit.parent_id is None else hit.coarse_id


def _around(hit: LevelHit) -> list[str]:
    """The ids of the chunks that the hit is in, the smallest first."""
    return [*dict.fromkeys(name for name in (_parent_id(hit), _coarse_id(hit)) if name)]


def _of_chunk_around(hits: Mapping[str, LevelHit], known: Scores, own: Scores) -> Scores:
    """For each hit the score of the smallest known chunk around it, or its own; nothing if none has such a chunk."""
    above = {key: next((known[name] for name in _around(hit) if name in known), None) for key, hit in hits.items()}
    if all(score is None for score in above.values()):
        return {}
    scores = {key: own.get(key, math.nan) if score is None else score for key, score in above.items()}
    return {key: score for key, score in scores.items() if not math.isnan(score)}
