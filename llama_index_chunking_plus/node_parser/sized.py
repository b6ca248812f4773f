"""Options that every parser shares which measures text: the unit, the sentences, and what must not be cut."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.schema import MetadataMode
from typing_extensions import Self

from llama_index_chunking_plus.core.packing import Units, units_that_fit
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.sizing import Sizer
from llama_index_chunking_plus.core.words import Vocabulary
from llama_index_chunking_plus.node_parser.base import Source, SpanNodeParser
from llama_index_chunking_plus.node_parser.tokenizers import (
    TokenizerOption,
    portable_tokenizer,
    resolve_sizer,
)

MIN_CHUNK_SIZE = 4  # one character may be four tokens of a byte-pair encoding
_SIZES = ("chunk_size", "max_size", "max_chunk_size", "max_sentence_size", "parent_size", "child_size")
_LEAST_TEXT = 50  # tokens or characters that metadata leaves to the text, as far as the size allows


def check_window(chunk_size: int, chunk_overlap: int) -> None:
    """Refuse a chunk size below the least one, and an overlap that is not below the chunk size."""
    if chunk_size < MIN_CHUNK_SIZE:
        raise ValueError(f"chunk_size={chunk_size} is below {MIN_CHUNK_SIZE}; choose a larger one")
    if not 0 <= chunk_overlap < chunk_size:
        raise ValueError(f"chunk_overlap={chunk_overlap} is outside [0, chunk_size={chunk_size}); 10 to 20 % are usual")


class SizedNodeParser(SpanNodeParser):
    """Base of the parsers that keep a size.

    Args:
        unit: "tokens" or "chars" (code points): what all sizes of the parser are counted in.
        tokenizer: counts tokens; None is LlamaIndex's global tokenizer. A callable from text to token ids or to a
            number, "tiktoken:<encoding>" or "import:<module>:<name>". Has no effect with unit="chars".
        sentence_tokenizer: finds the sentences that chunks are made of.
        protected_terms: strings that are not cut while they fit.
        user_dictionary: path of a jieba dictionary; its words are not cut while they fit.
        reserve_header: how much of each size is left free, in ``unit``, for a header that `ContextHeaderTransform` puts
            ahead of the text later.

    Raises:
        ValueError: reserve_header is negative, or leaves less than 4 of a size.
    """

    unit: Literal["tokens", "chars"] = Field(default="tokens", frozen=True, description="What sizes are counted in.")
    tokenizer: TokenizerOption = Field(
        default=None, frozen=True, description="Counts tokens; None: LlamaIndex's global one."
    )
    sentence_tokenizer: ChineseSentenceTokenizer = Field(
        default_factory=ChineseSentenceTokenizer, frozen=True, description="Finds the sentences."
    )
    protected_terms: tuple[str, ...] = Field(default=(), frozen=True, description="Strings not cut while they fit.")
    user_dictionary: str | None = Field(default=None, frozen=True, description="Path of a jieba dictionary.")
    reserve_header: int = Field(default=0, frozen=True, description="Left free of each size for a header, in unit.")

    @model_validator(mode="after")
    def _check_reserve(self) -> Self:
        if self.reserve_header < 0:
            raise ValueError(f"reserve_header={self.reserve_header} is below 0; 0 leaves nothing free")
        for name in _SIZES if self.reserve_header else ():
            size = getattr(self, name, None)
            if size is not None and size - self.reserve_header < MIN_CHUNK_SIZE:
                raise ValueError(
                    f"reserve_header={self.reserve_header} leaves less than {MIN_CHUNK_SIZE} of {name}={size}; "
                    "choose a smaller reserve, or a larger size"
                )
        return self

    @model_validator(mode="after")
    def _check_vocabulary(self) -> Self:
        _ = self._vocabulary
        return self

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The dump; it changes with the words of the user dictionary, not only with its path."""
        return {**super().to_dict(**kwargs), "user_dictionary_words": self._vocabulary.digest}

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        if self.unit == "tokens":
            state["__dict__"]["tokenizer"] = portable_tokenizer(self.tokenizer)
        return state

    @property
    def _sizer(self) -> Sizer:
        return resolve_sizer(self.unit, self.tokenizer)

    @property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self.protected_terms, self.user_dictionary)

    def _units(self, text: str, limit: int, piece_limit: int | None = None) -> Units:
        """The sentences of ``text``, those above ``limit`` cut into pieces of ``piece_limit`` (None: ``limit``)."""
        ruler = self._sizer.ruler(text)  # first: it counts the tokens of a long text in the background
        return units_that_fit(text, self._ends(text), ruler, limit, self._vocabulary, piece_limit)

    def _ends(self, text: str) -> list[int]:
        """Where a chunk may end."""
        return self.sentence_tokenizer.ends(text)

    def _room(self, size: int) -> int:
        """What the reserve for a header leaves of a size."""
        return max(MIN_CHUNK_SIZE, size - self.reserve_header) if self.reserve_header else size

    def _metadata_size(self, source: Source) -> int:
        """What the metadata adds to a chunk, counted as LlamaIndex's splitters do: the longer of the two shown."""
        if not self.include_metadata:
            return 0
        shown = (source.node.get_metadata_str(mode) for mode in (MetadataMode.EMBED, MetadataMode.LLM))
        longest = max(shown, key=len)
        return self._sizer.size(longest) if longest else 0

    def _text_limits(self, sources: Sequence[Source], option: str, value: int | None = None) -> list[int]:
        """What metadata leaves of the size that ``option`` names for each text; one warning where the floor holds.

        Args:
            sources: the texts.
            option: the name of the size, as the warning says it.
            value: the size; None: the field of that name.
        """
        value = getattr(self, option) if value is None else value
        size = self._room(value)
        floor = min(size, _LEAST_TEXT)
        added = [self._metadata_size(source) for source in sources]
        squeezed = [more for more in added if size - more < floor]
        if squeezed:
            logging.getLogger(type(self).__module__).warning(
                "The metadata of %d of %d inputs takes up to %d of %s=%d %s; their text keeps %d, so that text "
                "and metadata exceed %s. Raise %s, or exclude metadata keys.",
                *(
                    len(squeezed),
                    len(sources),
                    max(squeezed),
                    option,
                    value,
                    self.unit,
                    floor,
                    option,
                    option,
                ),
            )
        return [max(floor, size - more) for more in added]
