"""Windows of whole sentences that slide over a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, field_validator, model_validator
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.separators import SeparatorCutter, check_separators
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.sized import SizedNodeParser, check_window

_OVERLAP = 125  # per mille of chunk_size
_SIZE_AT_SEPARATORS = 800  # characters
_OVERLAP_AT_SEPARATORS = 150  # per mille


class SlidingWindowNodeParser(SizedNodeParser):
    """Chunks of whole sentences, as full as they get, each beginning with the last sentences of the one before.

    No chunk is above ``chunk_size``. Together the chunks cover the document, white space included. A sentence that is
    itself too large is cut after a clause, else between words, else between characters.

    With ``separators``, such as ("\\n## ", "\\n\\n", "```", "\\n", "。", "；", "，", ""), a chunk is made of pieces and
    not of sentences. A text that is too large is cut at the first separator that occurs in it, what is still too large
    at the next one, and so on; the pieces are put together again as sentences are. A separator stays at the end of its
    piece, with quotes that close behind it. One that is newlines followed by text, such as "\\n## " or "\\n第", begins
    the next piece. A fence begins a piece where it opens code, and ends one where it closes it. "" cuts between words,
    or characters. Where the list ends, a piece is cut as a sentence is.

    Args:
        chunk_size: the largest size of a chunk, in ``unit``; metadata that embedder or model see is charged to it, down
            to a floor of 50 (or ``chunk_size``, if that is less) for the text.
        chunk_overlap: the largest size that neighbours share, in whole sentences; 0 where not even one fits. Not given:
            an eighth of ``chunk_size``.
        separators: where text is cut, in order of priority; None: at sentence ends. With them, what is not given is
            chunk_size=800, chunk_overlap=15 % of it (120) and unit="chars" (with a tokenizer, "tokens");
            sentence_tokenizer has no effect.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: chunk_size is below 4, chunk_overlap is negative or not below chunk_size; separators is no list of
            strings, is empty, names one twice, or has "" before its end.

    Example:
        >>> from llama_index.core import Document
        >>> parser = SlidingWindowNodeParser(chunk_size=12, chunk_overlap=5, unit="chars")
        >>> [node.text for node in parser.get_nodes_from_documents([Document(text="今天下雨。我们不去了。明天再说。")])]
        ['今天下雨。我们不去了。', '明天再说。']
        >>> parser = SlidingWindowNodeParser(chunk_size=9, chunk_overlap=0, separators=("\\n第", "，"))
        >>> [node.text for node in parser.get_nodes_from_documents([Document(text="总则\\n第一条，甲\\n第二条，乙")])]
        ['总则\\n第一条，甲\\n', '第二条，乙']
    """

    chunk_size: int = Field(default=512, frozen=True, description="Largest size of a chunk, in unit.")
    chunk_overlap: int = Field(default=64, frozen=True, description="Largest size that neighbours share, in unit.")
    separators: tuple[str, ...] | None = Field(
        default=None, frozen=True, description="Where text is cut, in order of priority; None: at sentence ends."
    )

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusSlidingWindowNodeParser"

    @model_validator(mode="before")
    @classmethod
    def _fill_sizes(cls, options: Any) -> Any:
        if not isinstance(options, dict):
            return options
        share = _OVERLAP
        if options.get("separators") is not None:
            unit = "chars" if options.get("tokenizer") is None else "tokens"
            options = {"chunk_size": _SIZE_AT_SEPARATORS, "unit": unit, **options}
            share = _OVERLAP_AT_SEPARATORS
        size = options.get("chunk_size")
        return {"chunk_overlap": max(0, size * share // 1000), **options} if isinstance(size, int) else options

    @field_validator("separators", mode="before")
    @classmethod
    def _check_separators(cls, value: Any) -> Any:
        return None if value is None else check_separators(value)

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_window(self.chunk_size, self.chunk_overlap)
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        limits = self._text_limits(sources, "chunk_size")
        work = get_tqdm_iterable(list(zip(sources, limits, strict=True)), show_progress, "Parsing nodes")
        return [self._windows(source, limit) for source, limit in work]
        yield  # asks for nothing, and is a plan like the others

    def _windows(self, source: Source, limit: int) -> list[Draft]:
        return [Draft.of(source, span) for span in self._units(source.text, limit).slide(limit, self._overlap(limit))]

    def _overlap(self, limit: int) -> int:
        return self.chunk_overlap if self.chunk_overlap < limit else limit // 2  # metadata may leave little

    def _units(self, text: str, limit: int, piece_limit: int | None = None) -> Units:
        """The sentences of ``text``, or what lies between separators, those above ``limit`` cut."""
        if self.separators is None:
            return super()._units(text, limit, piece_limit)
        ruler, vocabulary = self._sizer.ruler(text), self._vocabulary
        ends = SeparatorCutter(self.separators, limit, self._overlap(limit), vocabulary).ends(text, ruler)
        return units_that_fit(text, ends, ruler, limit, vocabulary, piece_limit)
