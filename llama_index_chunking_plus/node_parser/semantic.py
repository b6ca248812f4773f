"""Segments by meaning, inside hard bounds."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_validator, model_validator
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.utils import get_tqdm_iterable
from numpy.typing import NDArray
from typing_extensions import Self

from llama_index_chunking_plus.core.packing import Units
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.semantic import optimal_segments, percentile_segments
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.requests import BLANK_ROW, EmbedTexts, Vectors
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE, SizedNodeParser


class SemanticNodeParser(SizedNodeParser):
    """Chunks that each keep to one topic: a partition of the document into whole sentences, by their vectors.

    Every distinct sentence is embedded once, those of all documents of a call together. No chunk is above ``max_size``;
    none is below ``min_size`` unless its document is, or the maximum leaves no choice. Sentences whose vectors are
    missing, NaN or zero are cut by size.

    Args:
        embed_model: gives the sentence vectors; any scale and dimension.
        rule: "optimal" (dynamic programming over all segmentations) or "percentile" (a cut wherever the distance
            between the sentences left and right of a gap is in the highest ``100 - percentile`` percent of the
            document).
        max_size: the largest size of a chunk, in ``unit``.
        target_size: the wanted mean size under "optimal"; None: as many topics as the document itself shows.
        min_size: the smallest size of a chunk; None: a third of ``target_size``, or a floor that suits the rule.
        percentile: above 0 and below 100; used under "percentile" only.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: an option is out of range, or ``min_size <= target_size <= max_size`` does not hold.
        EmbeddingError: the embedding model failed on every batch.

    Example:
        >>> from llama_index.core import Document, MockEmbedding
        >>> parser = SemanticNodeParser(embed_model=MockEmbedding(embed_dim=8), max_size=64)
        >>> [node.text for node in parser.get_nodes_from_documents([Document(text="猫在睡觉。股市大涨。")])]
        ['猫在睡觉。股市大涨。']
    """

    embed_model: SerializeAsAny[BaseEmbedding] = Field(frozen=True, description="Gives the sentence vectors.")
    rule: Literal["optimal", "percentile"] = Field(default="optimal", frozen=True, description="How topics are found.")
    max_size: int = Field(default=1024, frozen=True, description="Largest size of a chunk, in unit.")
    target_size: int | None = Field(default=None, frozen=True, description="Wanted mean size; None: found by itself.")
    min_size: int | None = Field(default=None, frozen=True, description="Smallest size of a chunk, in unit.")
    percentile: float = Field(default=95.0, frozen=True, description="Share of gaps that are no boundary, in percent.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusSemanticNodeParser"

    @field_validator("embed_model", mode="before")
    @classmethod
    def _demand_model(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError(  # noqa: TRY004  pydantic reports ValueErrors
                "embed_model was dumped as data; pass the model: from_dict(data, embed_model=...)"
            )
        if not isinstance(value, BaseEmbedding):
            raise OptionError(
                f"embed_model={reprlib.repr(value)} is no embedding model; pass the model itself, such as "
                "OfflineEmbedding() or HuggingFaceEmbedding(model_name=...)"
            )
        return value

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.max_size < MIN_CHUNK_SIZE:
            raise ValueError(f"max_size={self.max_size} is below {MIN_CHUNK_SIZE}; choose a larger one")
        if self.target_size is not None and not 1 <= self.target_size <= self.max_size:
            raise ValueError(
                f"target_size={self.target_size} is outside [1, max_size={self.max_size}]; choose one between, raise "
                "max_size, or leave target_size out"
            )
        most, limit = ("max_size", self.max_size) if self.target_size is None else ("target_size", self.target_size)
        if self.min_size is not None and not 0 <= self.min_size <= limit:
            raise ValueError(
                f"min_size={self.min_size} is outside [0, {limit}]; choose one between, raise {most}, or leave "
                "min_size out"
            )
        if not 0 < self.percentile < 100:  # noqa: PLR2004  per cent
            raise ValueError(f"percentile={self.percentile} is outside (0, 100); 95 is usual")
        if self.rule == "percentile" and self.target_size is not None:
            raise ValueError("target_size has no meaning under rule='percentile'; leave it out, or use rule='optimal'")
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        limit = self._room(self.max_size)
        piece_limit = max(MIN_CHUNK_SIZE, limit // 4)  # leaves room to keep the minimum
        units = [self._units(source.text, limit, piece_limit) for source in sources]
        sentences = [_sentences(source, each) for source, each in zip(sources, units, strict=True)]
        row_of = {text: row for row, text in enumerate(dict.fromkeys(t for texts in sentences for t in texts if t))}
        vectors: Vectors = yield EmbedTexts(self.embed_model, list(row_of), show_progress)
        work = get_tqdm_iterable(list(zip(sources, units, sentences, strict=True)), show_progress, "Parsing nodes")
        return [
            [
                Draft.of(source, span)
                for span in self._segments(each, vectors[[row_of.get(t, BLANK_ROW) for t in texts]])
            ]
            for source, each, texts in work
        ]

    def _segments(self, units: Units, vectors: Vectors) -> list[Span]:
        if len(units.bounds) == 1:
            return []
        ends = self._segment_ends(vectors, _unit_sizes(units))
        spans = spans_between([units.bounds[end] for end in ends])
        return [part for span in spans for part in units.within(span, self._room(self.max_size))]

    def _segment_ends(self, vectors: Vectors, sizes: NDArray[np.int64]) -> list[int]:
        limit = self._room(self.max_size)
        target = None if self.target_size is None else min(self.target_size, limit)
        least = None if self.min_size is None else min(max(1, self.min_size), target or limit)
        if self.rule == "percentile":
            return percentile_segments(vectors, sizes, percentile=self.percentile, max_size=limit, min_size=least)
        return optimal_segments(vectors, sizes, max_size=limit, min_size=least, target_size=target)


def _sentences(source: Source, units: Units) -> list[str]:
    """What is embedded: the units without the white space around them; blank ones are not."""
    return [span.of(source.text).strip() for span in spans_between(units.bounds[1:])]


def _unit_sizes(units: Units) -> NDArray[np.int64]:
    return np.maximum(1, np.diff(units.marks.ended)).astype(np.int64)
