"""From the chapter to the paragraph to what answers: each stage searches inside of what the last one chose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.granularity import GranularityDecision
from llama_index_chunking_plus.core.hierarchy import COARSE_KEY, DEPTH_KEY, GRANULARITY_KEY
from llama_index_chunking_plus.core.options import is_filled_text, is_number, is_whole
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.retrievers.levels import (
    LevelHit,
    LevelStore,
    checked_base,
    checked_filters,
    checked_query,
    checked_top_k,
    chosen,
    misfit,
    warn,
)
from llama_index_chunking_plus.retrievers.rebuilt_levels import rebuilt
from llama_index_chunking_plus.retrievers.router import GranularityRouter
from llama_index_chunking_plus.storage.parents import ParentLookup

TOP_K = {"coarse": 3, "medium": 5, "fine": 10}
AUTO = "auto"

_LEAST_LEVELS = 2
_PARENT_KEY = "parent_id"
_REMEDY = "Store the level, pass lookup=... to make it again, or name in top_k=... only levels that the store has."

Scored = tuple[LevelHit, float]


class CoarseToFineRetriever(BaseRetriever):
    """The best coarse chunks first, then the best medium ones inside of them, then the best fine ones inside of those.

    Each stage is one query, filtered in the vector store by level and by the chunks that were chosen before. A coarse
    vector is a mean of many topics, and by itself a poor guide: on Chinese questions, cascades that trust it lose a
    quarter of the answers. So fine chunks that are near anywhere speak for the chunks that they are in (``probe``); a
    chunk counts as much as the nearer of itself and of these. Documents too short for a level are searched beside it.

    A hit's score is the weighted mean of its own cosine and that of its parent, or of the smallest chunk around it that
    is stored. It says in its hidden metadata ``explanation`` its level, its parents, both scores, and in ``notes``
    which stage fell back: the level below the largest is made again from the documents, if it is not stored and there
    is a ``lookup``; else a level without rows inside of what was chosen is passed over, with a warning. If the last one
    is, chunks of the level above come out.

    Args:
        index: of the nodes of a `MultiGranularityNodeParser`; or one index per level, by its name, each with an
            embedding model of its own.
        top_k: how many chunks each stage chooses, by level: at least two, from the largest one on that the index has,
            coarse first.
        return_level: the level that is returned; for a larger one than the last, the chunks that the best hits are in,
            each once: of a document that has none of that size its largest ones, which ``notes`` then say. "auto": as
            ``router`` decides for each question. None: the last level of ``top_k``.
        filters: of the user, on metadata; they hold for all stages, so they do not choose levels.
        probe: how many of the nearest fine chunks speak for what they are in; 0: a chunk stands for itself alone, and
            documents are found by their largest chunks only, which must be stored.
        parent_weight: how much of a hit's score is its parent's cosine, from 0 to 1.
        min_parent_similarity: a hit whose parent has a lower cosine, from -1 to 1, does not match; None: all do.
        on_mismatch: "drop" leaves out hits that do not match; "demote" multiplies their score by the share that the
            parent reaches. Rows that the store returned in spite of its filter are left out at any rate.
        lookup: finds the text of chunks whose level is not stored.
        router: decides where ``return_level="auto"``; of no use otherwise.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        OptionError: an option is out of its range, or of another kind; at a query: it is blank, see `checked_query`.

    Warns:
        ChunkingPlusWarning: at a query: a stage fell back; nothing is found since the store has other levels than
            ``top_k`` names.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
        >>> nodes = MultiGranularityNodeParser()([Document(text="一楼是大厅。二楼是展厅。" * 50)])
        >>> index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))
        >>> hit = CoarseToFineRetriever(index).retrieve("展厅在几楼？")[0]
        >>> hit.node.metadata["granularity"], sorted(hit.node.metadata["explanation"]["scores"])
        ('fine', ['own', 'parent'])
    """

    def __init__(
        self,
        index: VectorStoreIndex | Mapping[str, VectorStoreIndex],
        top_k: Mapping[str, int] | None = None,
        return_level: str | None = None,
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
        self._top_k = _checked_levels(TOP_K if top_k is None else top_k, return_level)
        self._levels = list(self._top_k)
        _check_numbers(probe, parent_weight, min_parent_similarity)
        _check_kinds(on_mismatch, lookup)
        self._stores = _stores(index, self._levels)
        self._places = list({id(each.vector_store): name for name, each in reversed(self._stores.items())}.values())
        self._return_level, self._probe = self._levels[-1] if return_level is None else return_level, probe
        self._filters = checked_filters(filters, "top_k= and return_level=")
        self._parent_weight, self._least = parent_weight, min_parent_similarity
        self._is_strict, self._lookup = on_mismatch == "drop", lookup
        router = _checked_router(router, self._levels)
        self._router = router if return_level == AUTO else None
        super().__init__(**checked_base(callback_manager, verbose))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        checked_query(query)
        wanted, reason = yield from self._wanted(query)
        search = _Search((yield from self._vectors(query)))
        yield from self._listen(search)
        yield from self._first_stage(search)
        yield from self._climb(search)
        for place in range(1, len(self._levels)):
            yield from self._stage(search, place)
        hits = self._scored(search)
        is_without = not any(hit.level == self._levels[-1] for hit, _ in hits)
        remedy = (yield from self._names(search)) if is_without else ""
        if wanted != self._levels[-1]:
            hits = yield from self._promoted(search, hits, self._levels.index(wanted))
        if remedy or (hits and search.fallbacks):
            warn(f"{'; '.join(search.fallbacks) if hits else 'Nothing was found'}. {remedy or _REMEDY}")
        notes = [*search.fallbacks, *search.notes, *reason]
        return [
            hit.explained(score, [*notes, *hit.instead_of(wanted, self._levels)])
            for hit, score in _in_order(hits)[: self._top_k[wanted]]
        ]

    def _wanted(self, query: QueryBundle) -> Plan[tuple[str, list[str]]]:
        """The level to return, and why, if that was to be decided."""
        if self._router is None:
            return self._return_level, []
        decision: GranularityDecision = yield Call(partial(self._router.route, query.query_str))
        return decision.level, [chosen(decision)]

    def _names(self, search: _Search) -> Plan[str]:
        """What to do if the levels have other names in the store; "" if that is not it."""
        stored: list[str] | None = None
        for level in self._places:
            names = yield from self._stores[level].levels(search.vectors[level])
            stored = stored if names is None else [*dict.fromkeys([*(stored or ()), *names])]
        return misfit(self._levels, stored, "top_k={'section': 3, 'paragraph': 10}, say, coarse first.")

    def _vectors(self, query: QueryBundle) -> Plan[dict[str, list[float]]]:
        """The vector of the query for each level; each model is asked once."""
        models = {id(store.embed_model): store for store in self._stores.values()}
        if len(models) > 1:  # a vector that the query brings along is of one of them, at most
            query = QueryBundle(query.query_str, custom_embedding_strs=query.custom_embedding_strs)
        vectors: dict[int, list[float]] = {}
        for key, store in models.items():
            vectors[key] = yield from store.embed(query)
        return {level: vectors[id(store.embed_model)] for level, store in self._stores.items()}

    # --- stages

    def _listen(self, search: _Search) -> Plan[None]:
        """Find out which chunks the nearest ones of the last level are in."""
        if self._probe:
            level = self._levels[-1]
            found = yield from self._near(search, level, self._probe, equal={GRANULARITY_KEY: level})
            search.probed = [hit for hit in found if hit.level == level]

    def _first_stage(self, search: _Search) -> Plan[None]:
        """Choose the best among the largest chunks of all documents, whatever their level."""
        level, count = self._levels[0], self._top_k[self._levels[0]]
        found = {hit.node.node_id: hit for hit in search.probed if _is_largest(hit)}
        for name in self._places:
            hits = yield from self._near(search, name, count, equal={DEPTH_KEY: 0})
            found.update({hit.node.node_id: hit for hit in hits if _is_largest(hit) and hit.level in self._levels})
        named = _named((hit.coarse_id, hit.cosine) for hit in search.probed)
        chosen = _best(named | {name: max(hit.cosine, named.get(name, -1)) for name, hit in found.items()}, count)
        found.update((yield from self._known(search, self._places, [name for name in chosen if name not in found])))
        search.begin(level, chosen, found)

    def _climb(self, search: _Search) -> Plan[None]:
        """Find out what the probed chunks, inside of what was chosen, are in on the levels between first and last."""
        named = _named((hit.parent_id, hit.cosine) for hit in search.probed if search.reaches(hit))
        for place in range(len(self._levels) - 2, 0, -1):
            search.named[self._levels[place]] = named
            if place > 1:
                rows = yield from self._stores[self._levels[place]].rows(list(named))
                named = _named((LevelHit(row, 0.0).parent_id, named[name]) for name, row in rows.items())

    def _stage(self, search: _Search, place: int) -> Plan[None]:
        """Choose the best chunks of a level inside of those that were chosen last."""
        level = self._levels[place]
        own = {hit.node.node_id: hit for hit in search.waiting if hit.level == level}
        found = yield from self._inside(search, level)
        if not found and place == 1 and place < len(self._levels) - 1:
            found = yield from self._made(search, place)
        if not found and (search.is_open or search.inside):
            search.passes_over(level, own)
            return
        hits, named = own | {hit.node.node_id: hit for hit in found}, search.named.get(level, {})
        unseen = [name for name in _best(named, self._top_k[level]) if name not in hits]
        known = yield from self._known(search, [level], unseen)
        hits |= {name: hit for name, hit in known.items() if search.admits(hit, level)}
        merits = {name: max(hit.cosine, named.get(name, -1)) for name, hit in hits.items()}
        search.choose(_best(merits, self._top_k[level]), hits)

    def _inside(self, search: _Search, level: str) -> Plan[list[LevelHit]]:
        """The nearest chunks of the level inside of what was chosen."""
        one_of = None if search.is_open else (search.key, search.inside)
        found = yield from self._near(search, level, self._top_k[level], equal={GRANULARITY_KEY: level}, one_of=one_of)
        return [hit for hit in found if search.admits(hit, level)]

    def _made(self, search: _Search, place: int) -> Plan[list[LevelHit]]:
        """The chunks of a level that is not stored, made again from the documents."""
        if self._lookup is None or not search.inside:
            return []
        level, below = self._levels[place], self._levels[place + 1]
        stores = self._stores[level], self._stores[below]
        vector = search.vectors[level]
        hits = yield from rebuilt(level, below, vector, stores, search.inside, self._filters, self._lookup)
        if hits:
            search.notes.append(f"level {level!r} is not stored; it was made again from the documents")
        return hits

    def _near(self, search: _Search, level: str, count: int, **where: Any) -> Plan[list[LevelHit]]:
        return (yield from self._stores[level].nearest(search.vectors[level], count, self._filters, **where))

    def _known(self, search: _Search, levels: Sequence[str], ids: Sequence[str]) -> Plan[dict[str, LevelHit]]:
        """The chunks with these ids, as far as the stores of these levels have them."""
        known: dict[str, LevelHit] = {}
        for level in levels:
            missing = [name for name in ids if name not in known]
            known.update((yield from self._stores[level].known(search.vectors[level], missing)))
        return known

    # --- what comes out

    def _scored(self, search: _Search) -> list[Scored]:
        """The hits of the last stage with their scores, those left out or demoted whose parents do not match."""
        hits = []
        for hit in search.hits:
            above = search.above(hit)
            share = 1.0 if above is None else self._share(above.cosine)
            if share is not None:
                parent = hit.cosine if above is None else above.cosine
                score = (1 - self._parent_weight) * hit.cosine + self._parent_weight * parent
                hits.append((hit.scored(own=hit.cosine, parent=parent), min(score, share * score)))
        return hits

    def _share(self, parent: float) -> float | None:
        """What a hit keeps of its score, given the cosine of its parent; None: it is left out."""
        if self._least is None or parent >= self._least:
            return 1.0
        if self._is_strict:
            return None
        return max(parent, 0.0) / self._least if self._least > 0 else 0.0

    def _promoted(self, search: _Search, hits: Sequence[Scored], place: int) -> Plan[list[Scored]]:
        """The chunks of a larger level that the hits are in, each once, with its best score; else the hits."""
        at = {hit.node.node_id: hit.node for hit, _ in hits}
        for _ in range(len(self._levels) - 1 - place):
            above = {name: self._above(row, place) for name, row in at.items()}
            rows = yield from self._rows(search, [key for key in above.values() if key])
            at = {name: rows.get(above[name] or "", row) for name, row in at.items()}
        best: dict[str, Scored] = {}
        for hit, score in _in_order(hits):
            row = at[hit.node.node_id]
            best.setdefault(row.node_id, (LevelHit(row, hit.cosine, hit.scores), score))
        return list(best.values())

    def _above(self, row: BaseNode, place: int) -> str | None:
        """The id of what the row is in, on the way to a level; None: it is there."""
        hit = LevelHit(row, math.nan)
        if hit.level in self._levels[: place + 1]:
            return None
        return hit.parent_id if place else hit.coarse_id

    def _rows(self, search: _Search, ids: Sequence[str]) -> Plan[dict[str, BaseNode]]:
        """The rows with these ids, as far as they are known or stored."""
        rows = {name: search.known[name].node for name in ids if name in search.known}
        for level in self._places:
            missing = [name for name in ids if name not in rows]
            rows.update((yield from self._stores[level].rows(missing)))
        return rows


@dataclass
class _Search:
    """What is known of one query on its way down."""

    vectors: Mapping[str, list[float]]
    probed: list[LevelHit] = field(default_factory=list)  # the nearest chunks of the last level, wherever they are
    named: dict[str, dict[str, float]] = field(default_factory=dict)  # by level, the chunks that these are in
    largest: list[str] = field(default_factory=list)  # the chunks of the first stage
    waiting: list[LevelHit] = field(default_factory=list)  # of these, those of a lower level
    is_open: bool = False  # whether nothing was chosen so far, so that the next stage searches everywhere
    inside: list[str] = field(default_factory=list)  # what the next stage searches in, where it does not
    key: str = COARSE_KEY  # what says that a row is in them
    known: dict[str, LevelHit] = field(default_factory=dict)  # all chunks that stages saw
    hits: list[LevelHit] = field(default_factory=list)  # what was chosen last
    fallbacks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def begin(self, level: str, chosen: list[str], found: Mapping[str, LevelHit]) -> None:
        """Go on inside of the largest chunks that were chosen."""
        stored = [found[name] for name in chosen if name in found]
        self.waiting = [hit for hit in stored if hit.level != level]
        self.largest, self.is_open = chosen, not chosen
        self.inside = [name for name in chosen if name not in _ids(self.waiting)]
        self.hits = [hit for hit in stored if hit.level == level]
        self.known.update(found)
        if len(stored) < len(chosen) or not chosen:
            self.fallbacks.append(f"chunks of level {level!r} are not stored, or do not pass the filters")

    def reaches(self, hit: LevelHit) -> bool:
        """Whether the hit is inside of what the first stage chose, if that chose anything."""
        return not self.largest or hit.coarse_id in self.largest

    def admits(self, hit: LevelHit, level: str) -> bool:
        """Whether the hit is where the stage of this level searches."""
        return hit.level == level and (self.is_open or hit.node.metadata.get(self.key) in self.inside)

    def choose(self, chosen: list[str], hits: Mapping[str, LevelHit]) -> None:
        """Go on inside of these."""
        self.known.update(hits)
        self.inside, self.key, self.is_open = chosen, _PARENT_KEY, False
        self.hits = [hits[name] for name in chosen]

    def passes_over(self, level: str, own: Mapping[str, LevelHit]) -> None:
        """Say that a stage found nothing, and go on inside of the first one's choice."""
        later = _ids(self.waiting) - own.keys()
        self.inside, self.key = [name for name in self.largest if name not in later], COARSE_KEY
        self.hits = [*self.hits, *own.values()]
        self.fallbacks.append(f"no {level!r} chunks inside of what was chosen before; that level was passed over")

    def above(self, hit: LevelHit) -> LevelHit | None:
        """The smallest known chunk that the hit is in."""
        names = (hit.parent_id, hit.coarse_id)
        return next((self.known[name] for name in names if name in self.known and name != hit.node.node_id), None)


def _is_largest(hit: LevelHit) -> bool:
    return hit.node.metadata.get(DEPTH_KEY) == 0


def _ids(hits: Iterable[LevelHit]) -> set[str]:
    return {hit.node.node_id for hit in hits}


def _named(kin: Iterable[tuple[str | None, float]]) -> dict[str, float]:
    """For each chunk that others are in, the cosine of the nearest of them."""
    named: dict[str, float] = {}
    for name, cosine in kin:
        if name:
            named[name] = max(cosine, named.get(name, -1.0))
    return named


def _best(merits: Mapping[str, float], count: int) -> list[str]:
    return sorted(merits, key=lambda name: (-merits[name], name))[:count]


def _in_order(hits: Iterable[Scored]) -> list[Scored]:
    return sorted(hits, key=lambda each: (-each[1], each[0].node.node_id))


# --- options


def _stores(index: VectorStoreIndex | Mapping[str, VectorStoreIndex], levels: Sequence[str]) -> dict[str, LevelStore]:
    if not isinstance(index, Mapping):
        return dict.fromkeys(levels, LevelStore(index))
    missing = [level for level in levels if level not in index]
    if missing:
        raise OptionError(f"index has none for the levels {missing}; give one for each of {list(levels)}")
    stores = {id(each): LevelStore(each) for each in index.values()}
    return {level: stores[id(index[level])] for level in levels}


def _checked_levels(top_k: Mapping[str, int], return_level: str | None) -> dict[str, int]:
    if not isinstance(top_k, Mapping) or len(top_k) < _LEAST_LEVELS:
        raise OptionError(
            f"top_k={top_k!r} names fewer than {_LEAST_LEVELS} levels; pass {TOP_K}, say, or search one level with "
            "index.as_retriever(filters=...)"
        )
    if not all(is_filled_text(level) for level in top_k):
        raise OptionError(f"top_k={top_k!r} has a key that names no level; pass {TOP_K}, say")
    checked_top_k(**{f"top_k[{level!r}]": count for level, count in top_k.items()})
    if return_level not in [None, *top_k, AUTO]:
        raise OptionError(
            f"return_level={return_level!r} is none of {[*top_k, AUTO]}; name one, or leave it out for {[*top_k][-1]!r}"
        )
    return dict(top_k)


def _check_numbers(probe: int, parent_weight: float, min_parent_similarity: float | None) -> None:
    if not is_whole(probe, 0):
        raise OptionError(f"probe={probe!r} is no whole number from 0; 0 lets each chunk stand for itself alone")
    if not is_number(parent_weight) or not 0 <= parent_weight <= 1:
        raise OptionError(f"parent_weight={parent_weight!r} is outside [0, 1]; 0.4 is usual")
    least = -1.0 if min_parent_similarity is None else min_parent_similarity
    if not is_number(least) or not -1 <= least <= 1:
        raise OptionError(f"min_parent_similarity={least!r} is outside [-1, 1]; None lets all match")


def _check_kinds(on_mismatch: str, lookup: object) -> None:
    if on_mismatch not in ("drop", "demote"):
        raise OptionError(f"on_mismatch={on_mismatch!r} is neither 'drop' nor 'demote'")
    if lookup is not None and not isinstance(lookup, ParentLookup):
        raise OptionError(f"lookup={lookup!r} is no lookup of parents; pass SourceSliceLookup(docstore), say")


def _checked_router(router: GranularityRouter | None, levels: Sequence[str]) -> GranularityRouter:
    if router is None:
        return GranularityRouter(levels=levels, default=levels[(len(levels) - 1) // 2])
    if not isinstance(router, GranularityRouter) or not {*router.levels} <= {*levels}:
        raise OptionError(
            f"router={router!r} is none for the levels {list(levels)}; pass GranularityRouter(levels=...)"
        )
    return router
