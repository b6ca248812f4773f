"""From the chapter to the paragraph to what answers: each stage searches inside of what the last one chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.hierarchy import COARSE_KEY, DEPTH_KEY, GRANULARITY_KEY
from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.retrievers.levels import LevelHit, LevelStore, checked_top_k, warn
from llama_index_chunking_plus.retrievers.rebuilt_levels import rebuilt
from llama_index_chunking_plus.retrievers.router import GranularityRouter
from llama_index_chunking_plus.storage.parents import ParentLookup

TOP_K = {"coarse": 3, "medium": 5, "fine": 10}
AUTO = "auto"


class CoarseToFineRetriever(BaseRetriever):
    """The best coarse chunks first, then the best medium ones inside of them, then the best fine ones inside of those.

    Each stage is one query, filtered in the vector store by level and by the chunks that were chosen before. A coarse
    vector is a mean of many topics, and by itself a poor guide: on Chinese questions, cascades that trust it lose a
    quarter of the answers. So fine chunks that are near anywhere speak for the chunks that they are in (``probe``); a
    chunk counts as much as the nearer of itself and of these. Documents too short for a level are searched beside it.

    A hit's score is the weighted mean of its own cosine and that of its parent. It says in its hidden metadata
    ``explanation`` its level, its parents, both scores, and which stage fell back: a level without rows inside of what
    was chosen is made again from the documents, if there is a ``lookup``; else it is passed over, with a warning.

    Args:
        index: of the nodes of a `MultiGranularityNodeParser`; or one index per level, by its name, each with an
            embedding model of its own.
        top_k: how many chunks each stage chooses, by level, coarse first.
        return_level: the level that is returned; for a larger one than the last, the chunks that the best hits are in,
            each once. "auto": as ``router`` decides for each question.
        filters: of the user, on metadata; they hold for all stages.
        probe: how many of the nearest fine chunks speak for what they are in; 0: a chunk stands for itself alone.
        parent_weight: how much of a hit's score is its parent's cosine, from 0 to 1.
        min_parent_similarity: a hit whose parent has a lower cosine does not match; None: all do.
        on_mismatch: "drop" leaves out hits that do not match, and those that the store returned in spite of its
            filter; "demote" multiplies the score of the first kind by the share that the parent reaches.
        lookup: finds the text of chunks whose level is not stored.
        router: decides where ``return_level="auto"``.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        OptionError: an option is out of its range, or of another kind.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> nodes = MultiGranularityNodeParser()([Document(text="一楼是大厅。二楼是展厅。" * 30)])
        >>> index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))
        >>> hit = CoarseToFineRetriever(index).retrieve("展厅在几楼？")[0]
        >>> hit.node.metadata["granularity"], sorted(hit.node.metadata["explanation"]["scores"])
        ('fine', ['own', 'parent'])
    """

    def __init__(
        self,
        index: VectorStoreIndex | Mapping[str, VectorStoreIndex],
        top_k: Mapping[str, int] | None = None,
        return_level: str = "fine",
        filters: MetadataFilters | None = None,
        probe: int = 50,
        parent_weight: float = 0.4,
        min_parent_similarity: float | None = None,
        on_mismatch: Literal["drop", "demote"] = "drop",
        lookup: ParentLookup | None = None,
        router: GranularityRouter | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        self._top_k = dict(TOP_K if top_k is None else top_k)
        self._levels = list(self._top_k)
        _check(self._top_k, return_level, probe, parent_weight, on_mismatch, lookup)
        self._stores = _stores(index, self._levels)
        self._return_level, self._filters, self._probe = return_level, filters, probe
        self._parent_weight, self._least = parent_weight, min_parent_similarity
        self._is_strict, self._lookup = on_mismatch == "drop", lookup
        self._router = router or GranularityRouter(
            levels=self._levels, default=self._levels[(len(self._levels) - 1) // 2]
        )
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        search = _Search((yield from self._vectors(query)), filters=self._filters)
        yield from self._listen(search)
        yield from self._first_stage(search)
        for place in range(1, len(self._levels)):
            yield from self._stage(search, place)
        hits = yield from self._scored(search)
        wanted, reason = self._wanted(query)
        if wanted != self._levels[-1]:
            hits = yield from self._promoted(hits, wanted)
        notes = [*search.notes, *([reason] if reason else [])]
        best = sorted(hits, key=lambda hit: (-hit[1], hit[0].node.node_id))[: self._top_k[wanted]]
        return [hit.explained(score, notes) for hit, score in best]

    def _vectors(self, query: QueryBundle) -> Plan[dict[str, list[float]]]:
        """The vector of the query for each level; each model is asked once."""
        by_model: dict[int, list[float]] = {}
        for store in self._stores.values():
            if id(store.embed_model) not in by_model:
                by_model[id(store.embed_model)] = yield from store.embed(query)
        return {level: by_model[id(store.embed_model)] for level, store in self._stores.items()}

    # --- stages

    def _listen(self, search: _Search) -> Plan[None]:
        """Find out which chunks the nearest ones of the last level are in."""
        if self._probe:
            level = self._levels[-1]
            search.probed = yield from self._near(search, level, self._probe, equal={GRANULARITY_KEY: level})

    def _first_stage(self, search: _Search) -> Plan[None]:
        """Choose the best among the largest chunks of all documents, whatever their level."""
        level, found = self._levels[0], {}
        for name in _one_of_each(self._stores):
            hits = yield from self._near(search, name, self._top_k[level], equal={DEPTH_KEY: 0})
            found.update({hit.node.node_id: hit for hit in hits if hit.level in self._levels})
        merits = _merits(found, {hit.node.node_id: hit.coarse_id for hit in search.probed}, search.probed)
        chosen = _best(merits, self._top_k[level])
        search.largest = search.inside = chosen
        search.waiting = [
            hit for hit in (*found.values(), *search.probed) if hit.node.node_id in chosen and hit.level != level
        ]

    def _stage(self, search: _Search, place: int) -> Plan[None]:
        """Choose the best chunks of a level inside of those that were chosen last."""
        level, is_last = self._levels[place], place == len(self._levels) - 1
        key, count = search.key, self._top_k[level]
        one_of = (key, search.inside) if search.inside else None
        found = yield from self._near(search, level, count, equal={GRANULARITY_KEY: level}, one_of=one_of)
        if not found and not is_last:
            found = yield from self._made(search, place)
        hits = {hit.node.node_id: hit for hit in (*found, *search.waiting) if hit.level == level}
        hits = {name: hit for name, hit in hits.items() if search.reaches(hit)}
        if not hits:
            search.passes_over(level)
            return
        inside = [hit for hit in search.probed if search.reaches(hit)]
        above = {} if is_last else {hit.node.node_id: hit.parent_id for hit in inside if hit.parent_id}
        merits = _merits(hits, above if place == len(self._levels) - 2 else {}, inside)
        search.choose(_best(merits, count), hits)

    def _made(self, search: _Search, place: int) -> Plan[list[LevelHit]]:
        """The chunks of a level that is not stored, made again from the documents."""
        if self._lookup is None:
            return []
        level, below = self._levels[place], self._levels[place + 1]
        stores = self._stores[level], self._stores[below]
        hits = yield from rebuilt(
            level, below, search.vectors[level], stores, search.largest, self._filters, self._lookup
        )
        if hits:
            search.notes.append(f"level {level!r} is not stored; it was made again from the documents")
        return hits

    def _near(self, search: _Search, level: str, count: int, **where: Any) -> Plan[list[LevelHit]]:
        return (yield from self._stores[level].nearest(search.vectors[level], count, self._filters, **where))

    # --- what comes out

    def _scored(self, search: _Search) -> Plan[list[tuple[LevelHit, float]]]:
        """The hits of the last stage with their scores, those left out or demoted whose parents do not match."""
        level = self._levels[-2] if len(self._levels) > 1 else self._levels[-1]
        unknown = {hit.parent_id for hit in search.hits if hit.parent_id} - search.cosines.keys()
        cosines = yield from self._stores[level].cosines(search.vectors[level], sorted(unknown))
        known = {**search.cosines, **cosines}
        hits = []
        for hit in search.hits:
            parent = known.get(hit.parent_id or "", hit.cosine)
            share = self._share(parent)
            if share is not None:
                score = (1 - self._parent_weight) * hit.cosine + self._parent_weight * parent
                hits.append((hit.scored(own=hit.cosine, parent=parent), share * score))
        return hits

    def _share(self, parent: float) -> float | None:
        """What a hit keeps of its score, given the cosine of its parent; None: it is left out."""
        if self._least is None or parent >= self._least:
            return 1.0
        return None if self._is_strict else max(parent, 0.0) / self._least

    def _wanted(self, query: QueryBundle) -> tuple[str, str]:
        """The level to return, and why, if that was to be decided."""
        if self._return_level != AUTO:
            return self._return_level, ""
        decision = self._router.route(query.query_str)
        return decision.level, f"{decision.level!r} is returned: {decision.reason}"

    def _promoted(self, hits: Sequence[tuple[LevelHit, float]], level: str) -> Plan[list[tuple[LevelHit, float]]]:
        """The chunks of a larger level that the hits are in, each once, with its best score; else the hits."""
        rows = yield from self._rows_above([hit for hit, _ in hits], level)
        best: dict[str, tuple[LevelHit, float]] = {}
        for hit, score in sorted(hits, key=lambda each: (-each[1], each[0].node.node_id)):
            row = rows.get(hit.node.node_id, hit.node)
            best.setdefault(row.node_id, (LevelHit(row, hit.cosine, hit.scores), score))
        return list(best.values())

    def _rows_above(self, hits: Sequence[LevelHit], level: str) -> Plan[dict[str, BaseNode]]:
        """For each hit, by its id, the chunk of this level that it is in, as far as that can be had."""
        place, store = self._levels.index(level), self._stores[level]
        at: dict[str, BaseNode] = {hit.node.node_id: hit.node for hit in hits}
        for _ in range(1 if place == 0 else len(self._levels) - 1 - place):
            above = {name: LevelHit(row, 0.0) for name, row in at.items()}
            ids = {name: hit.coarse_id if place == 0 else hit.parent_id for name, hit in above.items()}
            rows = yield from store.rows([one for one in ids.values() if one])
            lost = [at[name] for name, one in ids.items() if one and one not in rows]
            if lost and self._lookup is not None and place:
                rows = {**(yield from self._lookup.plan(lost)).parents, **rows}
            at = {name: rows.get(one or "", at[name]) for name, one in ids.items()}
        return at


@dataclass
class _Search:
    """What is known of one query on its way down."""

    vectors: Mapping[str, list[float]]
    filters: MetadataFilters | None
    probed: list[LevelHit] = field(default_factory=list)  # the nearest chunks of the last level, wherever they are
    largest: list[str] = field(default_factory=list)  # the chunks of the first stage
    waiting: list[LevelHit] = field(default_factory=list)  # of these, those of a level whose stage is still to come
    inside: list[str] = field(default_factory=list)  # what the next stage searches in
    key: str = "parent_id"  # what says that a row is in them
    cosines: dict[str, float] = field(default_factory=dict)
    hits: list[LevelHit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reaches(self, hit: LevelHit) -> bool:
        """Whether the hit is inside of what the first stage chose, if that chose anything."""
        return not self.largest or hit.coarse_id in self.largest

    def choose(self, chosen: list[str], hits: Mapping[str, LevelHit]) -> None:
        """Go on inside of these."""
        self.cosines.update({name: hit.cosine for name, hit in hits.items()})
        self.inside, self.key = chosen, "parent_id"
        self.hits = [hits[name] for name in chosen if name in hits]

    def passes_over(self, level: str) -> None:
        """Say that a stage found nothing, and go on inside of the first one's choice."""
        self.inside, self.key = self.largest, COARSE_KEY
        if self.largest and {hit.node.node_id for hit in self.waiting} >= {*self.largest}:
            return  # documents that are too short to have it
        note = f"no {level!r} chunks inside of what was chosen before; that level was passed over"
        self.notes.append(note)
        warn(f"{note}. Store the level, or pass lookup=... to make it again from the documents.")


def _merits(
    hits: Mapping[str, LevelHit], above: Mapping[str, str | None], probed: Sequence[LevelHit]
) -> dict[str, float]:
    """What each chunk counts: the nearer of itself and of the probed chunks that are in it."""
    merits = {name: hit.cosine for name, hit in hits.items()}
    for hit in probed:
        name = above.get(hit.node.node_id)
        if name:
            merits[name] = max(hit.cosine, merits.get(name, -1.0))
    return merits


def _best(merits: Mapping[str, float], count: int) -> list[str]:
    return sorted(merits, key=lambda name: (-merits[name], name))[:count]


def _one_of_each(stores: Mapping[str, LevelStore]) -> list[str]:
    """A level for each vector store."""
    return list({id(store.vector_store): level for level, store in reversed(list(stores.items()))}.values())


def _stores(index: VectorStoreIndex | Mapping[str, VectorStoreIndex], levels: Sequence[str]) -> dict[str, LevelStore]:
    if not isinstance(index, Mapping):
        store = LevelStore(index)
        return dict.fromkeys(levels, store)
    missing = [level for level in levels if level not in index]
    if missing:
        raise OptionError(f"index has none for the levels {missing}; give one for each of {list(levels)}")
    stores = {id(each): LevelStore(each) for each in index.values()}
    return {level: stores[id(index[level])] for level in levels}


def _check(
    top_k: Mapping[str, int], return_level: str, probe: int, parent_weight: float, on_mismatch: str, lookup: Any
) -> None:
    if not top_k:
        raise OptionError("top_k={} names no level; pass {'coarse': 3, 'medium': 5, 'fine': 10}, say")
    checked_top_k(**{f"top_k[{level!r}]": count for level, count in top_k.items()})
    if return_level not in {*top_k, AUTO}:
        raise OptionError(f"return_level={return_level!r} is none of {[*top_k, AUTO]}")
    if not isinstance(probe, int) or probe < 0:
        raise OptionError(f"probe={probe!r} is no whole number from 0; 0 lets each chunk stand for itself alone")
    if not 0 <= parent_weight <= 1:
        raise OptionError(f"parent_weight={parent_weight!r} is outside [0, 1]")
    if on_mismatch not in {"drop", "demote"}:
        raise OptionError(f"on_mismatch={on_mismatch!r} is neither 'drop' nor 'demote'")
    if lookup is not None and not isinstance(lookup, ParentLookup):
        raise OptionError(f"lookup={lookup!r} is no lookup of parents; pass SourceSliceLookup(docstore), say")
