"""How a store of several levels is searched: by which retriever, and which level is shown."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_chunking_plus.core.granularity import COARSE, FINE, LEVELS, MEDIUM
from llama_index_chunking_plus.core.plan import run
from llama_index_chunking_plus.errors import ChunkingPlusWarning, MissingExtraError, OptionError
from llama_index_chunking_plus.retrievers import CoarseToFineRetriever, FusedGranularityRetriever, GranularityRouter
from llama_index_chunking_plus.retrievers.coarse_to_fine import AUTO, TOP_K
from llama_index_chunking_plus.retrievers.levels import EXPLANATION_KEY, LevelHit, LevelStore, chosen
from llama_index_chunking_plus.storage import LexicalIndex

RETURN_LEVELS = (*LEVELS, AUTO)

_FINE_PER = {FINE: 1, MEDIUM: 4, COARSE: 16}  # fine chunks asked for to each chunk that is shown


@dataclass(frozen=True)
class LevelSearch:
    """A store of several levels, and how to search it.

    Args:
        retriever: one of `RETRIEVERS`.
        return_level: one of `RETURN_LEVELS`.

    Raises:
        OptionError: it is none of them.
    """

    retriever: str = "fused"
    return_level: str = FINE

    def __post_init__(self) -> None:
        if self.retriever not in RETRIEVERS:
            raise OptionError(f"--retriever {self.retriever!r} is not one of {', '.join(RETRIEVERS)}")
        if self.return_level not in RETURN_LEVELS:
            raise OptionError(f"--return-level {self.return_level!r} is not one of {', '.join(RETURN_LEVELS)}")

    def hits(
        self, question: str, k: int, index: VectorStoreIndex, words: Path, filters: MetadataFilters | None
    ) -> list[NodeWithScore]:
        """At most ``k`` chunks of the level, the best first; each explains itself.

        Args:
            question: what to look for.
            k: how many chunks at most.
            index: of the store.
            words: the folder of its lexical index.
            filters: on metadata.
        """
        return RETRIEVERS[self.retriever](self.return_level, question, k, index, words, filters)[:k]


def lexical_index(folder: Path) -> LexicalIndex | None:
    """The lexical index in the folder; None without the extra, with one line that says so."""
    try:
        return LexicalIndex(folder)
    except MissingExtraError as error:
        warnings.warn(f"Only vectors are searched, not words: {error}", ChunkingPlusWarning, stacklevel=2)
        return None


def _coarse_to_fine(
    level: str, question: str, k: int, index: VectorStoreIndex, _: Path, filters: MetadataFilters | None
) -> list[NodeWithScore]:
    top_k = {name: max(count, k) for name, count in TOP_K.items()}
    return CoarseToFineRetriever(index, top_k, level, filters).retrieve(question)


def _fused(
    level: str, question: str, k: int, index: VectorStoreIndex, words: Path, filters: MetadataFilters | None
) -> list[NodeWithScore]:
    notes = []
    if level == AUTO:
        decision = GranularityRouter().route(question)
        level, notes = decision.level, [chosen(decision)]
    lexical = lexical_index(words)
    retriever = FusedGranularityRetriever(index, k * _FINE_PER[level], lexical=lexical, filters=filters)
    return _shown_in(level, retriever.retrieve(question), index, notes)


def _shown_in(
    level: str, hits: Sequence[NodeWithScore], index: VectorStoreIndex, notes: Sequence[str]
) -> list[NodeWithScore]:
    """The chunks of the level that the hits are in, each once, with the score of its best one."""
    best: dict[str, NodeWithScore] = {}
    for hit in hits:
        own = LevelHit(hit.node, math.nan)
        above = {FINE: None, MEDIUM: own.parent_id, COARSE: own.coarse_id}[level]
        best.setdefault(above or hit.node_id, hit)
    rows = run(LevelStore(index).rows([key for key, hit in best.items() if key != hit.node_id]))
    shown = [
        (LevelHit(rows.get(key, hit.node), math.nan, hit.node.metadata[EXPLANATION_KEY]["scores"]), hit.score or 0.0)
        for key, hit in best.items()
    ]
    return [each.explained(score, [*notes, *each.instead_of(level, LEVELS)]) for each, score in shown]


_Retriever = Callable[[str, str, int, VectorStoreIndex, Path, MetadataFilters | None], list[NodeWithScore]]
RETRIEVERS: dict[str, _Retriever] = {"fused": _fused, "coarse-to-fine": _coarse_to_fine}
