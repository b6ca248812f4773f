"""Windows of whole sentences that slide over a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.packing import ends_after
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE, SizedNodeParser

_OVERLAP_SHARE = 8  # an eighth, 12.5 %


class SlidingWindowNodeParser(SizedNodeParser):
    """Chunks of whole sentences, as full as they get, each beginning with the last sentences of the one before.

    No chunk is above ``chunk_size``. Together the chunks cover the document, white space included. A sentence that is
    itself too large is cut after a clause, else between words, else between characters.

    Args:
        chunk_size: the largest size of a chunk, in ``unit``; metadata that embedder or model see is charged to it, down
            to a floor of 50 (or ``chunk_size``, if that is less) for the text.
        chunk_overlap: the largest size that neighbours share, in whole sentences; 0 where not even one fits. Not given:
            an eighth of ``chunk_size``.
        separators: strings after which a chunk may end, instead of sentence ends.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary: see `SizedNodeParser`.

    Raises:
        ValueError: chunk_size is below 4, chunk_overlap is negative or not below chunk_size, a separator is empty.

    Example:
        >>> from llama_index.core import Document
        >>> parser = SlidingWindowNodeParser(chunk_size=12, chunk_overlap=5, unit="chars")
        >>> [node.text for node in parser.get_nodes_from_documents([Document(text="今天下雨。我们不去了。明天再说。")])]
        ['今天下雨。我们不去了。', '明天再说。']
    """

    chunk_size: int = Field(default=512, frozen=True, description="Largest size of a chunk, in unit.")
    chunk_overlap: int = Field(default=64, frozen=True, description="Largest size that neighbours share, in unit.")
    separators: tuple[str, ...] | None = Field(
        default=None, frozen=True, description="Strings after which a chunk may end, instead of sentence ends."
    )

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusSlidingWindowNodeParser"

    @model_validator(mode="before")
    @classmethod
    def _default_overlap(cls, options: Any) -> Any:
        size = options.get("chunk_size") if isinstance(options, dict) else None
        if isinstance(size, int) and "chunk_overlap" not in options:
            return {**options, "chunk_overlap": max(0, size // _OVERLAP_SHARE)}
        return options

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.chunk_size < MIN_CHUNK_SIZE:
            raise ValueError(f"chunk_size={self.chunk_size} is below {MIN_CHUNK_SIZE}; choose a larger one")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise ValueError(
                f"chunk_overlap={self.chunk_overlap} is outside [0, chunk_size={self.chunk_size}); 10 to 20 % are usual"
            )
        if self.separators == ():
            raise ValueError("separators=() is empty; give some, or None for sentence ends")
        if self.separators is not None and not all(self.separators):
            raise ValueError(f"separators={self.separators!r} holds an empty string; leave it out")
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        limits = self._text_limits(sources, "chunk_size")
        work = get_tqdm_iterable(list(zip(sources, limits, strict=True)), show_progress, "Parsing nodes")
        return [self._windows(source, limit) for source, limit in work]
        yield  # asks for nothing, and is a plan like the others

    def _windows(self, source: Source, limit: int) -> list[Draft]:
        overlap = self.chunk_overlap if self.chunk_overlap < limit else limit // 2  # metadata may leave little
        return [Draft.of(source, span) for span in self._units(source.text, limit).slide(limit, overlap)]

    def _ends(self, text: str) -> list[int]:
        return super()._ends(text) if self.separators is None else ends_after(text, self.separators)
