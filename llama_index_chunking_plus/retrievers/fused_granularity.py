"""One ranking of small chunks, by what they say, what their best sentence says and what they are a part of."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Literal

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.fusion import reciprocal_rank, standardised, weighted_sum
from llama_index_chunking_plus.core.hierarchy import COARSE_KEY, DEPTH_KEY, GRANULARITY_KEY, SENTENCE
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.retrievers.levels import LevelHit, LevelStore, checked_top_k
from llama_index_chunking_plus.storage.lexical import LexicalIndex

_CHILDREN = 6  # fine chunks that are looked at of each parent that was found
_PARENTS = 5  # one parent is asked for to this many fine chunks
_SENTENCES = 2  # sentences that are asked for to each fine chunk
_WORDS = 4  # rows of all levels that lexical search is asked for to each fine chunk

Scores = dict[str, float]


@dataclass(frozen=True)
class FusionWeights:
    """How much each component counts.

    Args:
        own: cosine of the query with the chunk.
        sentence: with the best of its sentences, if they are stored.
        parent: with the chunk that it is a part of, if that is stored.
        lexical: BM25 of the chunk, if there is a lexical index.
        parent_lexical: BM25 of the chunk that it is a part of.

    Raises:
        OptionError: a weight is below 0 or no number, or the first three are all 0.

    Example:
        >>> FusionWeights(parent=0.5).parent
        0.5
    """

    own: float = 0.4
    sentence: float = 0.3
    parent: float = 0.3
    lexical: float = 0.7
    parent_lexical: float = 0.7

    def __post_init__(self) -> None:
        wrong = {name: weight for name, weight in asdict(self).items() if not (math.isfinite(weight) and weight >= 0)}
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
        filters: of the user, on metadata; they hold for all hits.
        level, parent_level, sentence_level: the levels' names.
        candidates: how many fine chunks are looked at, by each way of finding them.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        OptionError: an option is out of its range, or ``index`` or ``lexical`` something else.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> parser = MultiGranularityNodeParser.from_preset(sentences=True)
        >>> nodes = parser([Document(text="一楼是大厅。二楼是展厅。" * 30)])
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
        if fusion not in {"standardised", "reciprocal_rank"}:
            raise OptionError(f"fusion={fusion!r} is neither 'standardised' nor 'reciprocal_rank'")
        if weights is not None and not isinstance(weights, FusionWeights):
            raise OptionError(f"weights={weights!r} are no FusionWeights; pass FusionWeights(own=0.4, ...)")
        self._store = LevelStore(index)
        self._docstore = index.docstore
        self._top_k, self._candidates = similarity_top_k, max(candidates, similarity_top_k)
        self._lexical, self._weights, self._fusion = lexical, weights or FusionWeights(), fusion
        self._filters = filters
        self._level, self._parent_level, self._sentence_level = level, parent_level, sentence_level
        self._is_in_step, self._lock = lexical is None, threading.Lock()
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    def sync_lexical(self) -> None:
        """Bring the lexical index in step with the store: to be called when documents have changed."""
        if self._lexical is not None:
            docstore = None if self._store.vector_store.stores_text else self._docstore
            with self._lock:
                self._lexical.sync_with_store(self._store.vector_store, docstore)
                self._is_in_step = True

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        vector = yield from self._store.embed(query)
        pool = yield from self._pool(vector, query.query_str)
        parents = yield from self._parent_cosines(vector, pool)
        components = {
            "own": {key: hit.cosine for key, hit in pool.hits.items() if not math.isnan(hit.cosine)},
            "sentence": {key: score for key, score in pool.sentences.items() if key in pool.hits},
            "parent": parents,
        }
        words: dict[str, Scores] = {}
        if self._lexical is not None and pool.hits:
            words = yield Call(partial(self._lexical_scores, query.query_str, pool))
        return self._ranked(pool, components, words)

    # --- candidates

    def _pool(self, vector: Sequence[float], question: str) -> Plan[_Pool]:
        """The fine chunks that are scored, however they were found."""
        pool = _Pool()
        n, near = self._candidates, partial(self._store.nearest, vector, filters=self._filters)
        pool.add((yield from near(n, equal={GRANULARITY_KEY: self._level})))
        for hit in (yield from near(_SENTENCES * n, equal={GRANULARITY_KEY: self._sentence_level})):
            pool.add_sentence(hit)
        found = yield from near(max(1, n // _PARENTS), equal={GRANULARITY_KEY: self._parent_level})
        pool.parents.update({hit.node.node_id: hit.cosine for hit in found})
        parts = partial(near, equal={GRANULARITY_KEY: self._level})
        pool.add((yield from parts(_CHILDREN * len(found), one_of=("parent_id", list(pool.parents)))))
        by_words = (yield from self._by_words(question, parts)) if self._lexical is not None else {}
        others = [key for key in pool.sentences if key not in pool.hits and key not in by_words]
        rows = {**(yield from self._store.rows(others)), **by_words} if others else by_words
        rows = {key: row for key, row in rows.items() if row.metadata.get(GRANULARITY_KEY) == self._level}
        fresh = [key for key in rows if key not in pool.hits]
        cosines = yield from self._store.cosines(vector, fresh)
        pool.add([LevelHit(rows[key], cosines.get(key, math.nan)) for key in fresh])
        return pool

    def _by_words(self, question: str, parts: partial[Plan[list[LevelHit]]]) -> Plan[dict[str, BaseNode]]:
        """The fine chunks that lexical search finds and the user's filters pass."""
        keys: list[str] = yield Call(partial(self._search_words, question))
        rows = yield from self._store.rows(keys)
        rows = {key: rows[key] for key in keys if key in rows}
        rows = {key: row for key, row in rows.items() if row.metadata.get(GRANULARITY_KEY) == self._level}
        best = dict(list(rows.items())[: self._candidates])
        if self._filters is None:
            return best
        passed: set[str] = set()
        for name, of in (("parent_id", _parent_id), (COARSE_KEY, _lone_id)):
            values = [value for row in best.values() if (value := of(row))]
            hits = yield from parts(_CHILDREN * max(1, len(values)), one_of=(name, values))
            passed.update(hit.node.node_id for hit in hits)
        return {key: row for key, row in best.items() if key in passed}

    def _search_words(self, question: str) -> list[str]:
        if self._lexical is None:
            return []
        if not self._is_in_step:
            self._catch_up(self._lexical)
        return [key for key, _ in self._lexical.search(question, _WORDS * self._candidates)]

    def _catch_up(self, lexical: LexicalIndex) -> None:
        """Read the rows that the lexical index does not know, once."""
        docstore = None if self._store.vector_store.stores_text else self._docstore
        with self._lock:
            if not self._is_in_step:
                lexical.sync_with_store(self._store.vector_store, docstore, changed=())
                self._is_in_step = True

    # --- scores

    def _parent_cosines(self, vector: Sequence[float], pool: _Pool) -> Plan[Scores]:
        """For each candidate the cosine of its parent; of one that is a whole document, its own."""
        missing = {hit.parent_id for hit in pool.hits.values() if hit.parent_id} - pool.parents.keys()
        known = {**pool.parents, **(yield from self._store.cosines(vector, sorted(missing)))}
        own = {
            key: hit.cosine for key, hit in pool.hits.items() if hit.parent_id is None and not math.isnan(hit.cosine)
        }
        below = {key: known[hit.parent_id] for key, hit in pool.hits.items() if hit.parent_id in known}
        return {**own, **below} if below else {}

    def _lexical_scores(self, question: str, pool: _Pool) -> dict[str, Scores]:
        if self._lexical is None:
            return {}
        above = {key: hit.parent_id or key for key, hit in pool.hits.items()}
        scores = self._lexical.scores(question, {*pool.hits, *above.values()})
        return {
            "lexical": {key: scores[key] for key in pool.hits if key in scores},
            "parent_lexical": {key: scores[parent] for key, parent in above.items() if parent in scores},
        }

    def _ranked(
        self, pool: _Pool, components: Mapping[str, Scores], words: Mapping[str, Scores]
    ) -> list[NodeWithScore]:
        weights = self._weights.dense
        present = math.fsum(weights[name] for name, scores in components.items() if scores) or 1.0
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
            rankings = [
                [
                    key
                    for key in sorted(scores, key=lambda key: (-scores[key], key))
                    if name == "dense" or scores[key] > 0
                ]
                for name, scores in parts.items()
                if weights[name]
            ]
            return reciprocal_rank(rankings)
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

    def add(self, hits: Sequence[LevelHit]) -> None:
        for hit in hits:
            self.hits.setdefault(hit.node.node_id, hit)

    def add_sentence(self, hit: LevelHit) -> None:
        key = hit.parent_id
        if key is not None:
            self.sentences[key] = max(hit.cosine, self.sentences.get(key, -1.0))


def _parent_id(row: BaseNode) -> str | None:
    parent_id = row.metadata.get("parent_id")
    return parent_id if isinstance(parent_id, str) else None


def _lone_id(row: BaseNode) -> str | None:
    """The id of a chunk that is a part of none."""
    return row.node_id if row.metadata.get(DEPTH_KEY) == 0 else None
