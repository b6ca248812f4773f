"""How large is a piece of text? Characters, tokens of a byte-pair encoding, or whatever a callable counts.

A sizer knows the unit; its ruler knows one text. A ruler reads the text once and then answers for any piece of it, so
that cutting a document into chunks costs one pass of the tokenizer however many sizes are tried:

    sizer.size(text)                  the exact size of a string
    ruler.marks(positions)            sizes up to many positions at once, for packing
    ruler.reach(start, limit)         how far a piece can go
    ruler.fits(start, end, limit)     if yes, then surely sizer.size(text[start:end]) <= limit
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llama_index_chunking_plus.errors import OptionError

Tokens: TypeAlias = Sequence[int] | NDArray[Any]

_SURROGATES = re.compile("[\ud800-\udfff]")
_BLOCK_CHARS = 100_000
_MOST_THREADS = 4


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate as the replacement character; all positions stay."""
    return _SURROGATES.sub("\ufffd", text)


class Marks(NamedTuple):
    """Sizes up to each of many positions: units begun before it, and units ended by it.

    The piece between positions ``i`` and ``j`` touches ``begun[j] - ended[i]`` units; the two lists differ only where a
    position tears a unit. By itself the piece may be larger than that by less than ``margin`` where it tears none, by
    less than ``torn_margin`` where it does.
    """

    begun: list[int]
    ended: list[int]
    margin: float
    torn_margin: float

    @property
    def are_estimates(self) -> bool:
        """Whether the piece by itself may be of any size."""
        return self.margin == math.inf

    def doubtful(self, limit: int) -> list[int]:
        """The positions from which the piece to the next one is not surely within ``limit``."""
        sure = limit - self.torn_margin
        return [
            i for i, (begun, ended) in enumerate(zip(self.begun[1:], self.ended, strict=False)) if begun - ended > sure
        ]

    def fits(self, i: int, j: int, limit: int) -> bool | None:
        """Whether the piece between two positions is at most ``limit``; None if only the ruler can tell."""
        touched = self.begun[j] - self.ended[i]
        tears = self.begun[i] != self.ended[i] or self.begun[j] != self.ended[j]
        margin = self.torn_margin if tears else self.margin
        if touched <= limit - margin:
            return True
        return False if touched > limit and not self.are_estimates else None


class Ruler(Protocol):
    """Measures pieces of one text."""

    def marks(self, positions: Sequence[int]) -> Marks:
        """Sizes of the text up to each of the ascending ``positions``."""
        ...

    def reach(self, start: int, limit: int) -> int:
        """The furthest end, beyond ``start``, of a piece of about ``limit``."""
        ...

    def fits(self, start: int, end: int, limit: int) -> bool:
        """Whether the piece, measured by itself, is at most ``limit``; a piece just below it may be turned down."""
        ...


class Sizer(Protocol):
    """A unit of size."""

    def size(self, text: str) -> int:
        """The size of ``text``."""
        ...

    def ruler(self, text: str) -> Ruler:
        """What answers for the pieces of ``text``."""
        ...


@dataclass(frozen=True)
class CharacterSizer:
    """Sizes in characters (code points).

    Example:
        >>> CharacterSizer().size("你好。")
        3
    """

    def size(self, text: str) -> int:
        """The number of code points."""
        return len(text)

    def ruler(self, text: str) -> Ruler:
        """A ruler on which every position is its own mark."""
        return _CharacterRuler(len(text))


@dataclass(frozen=True)
class _CharacterRuler:
    length: int

    def marks(self, positions: Sequence[int]) -> Marks:
        return Marks(list(positions), list(positions), margin=0, torn_margin=0)

    def reach(self, start: int, limit: int) -> int:
        return min(self.length, start + limit)

    def fits(self, start: int, end: int, limit: int) -> bool:
        return end - start <= limit


@dataclass(frozen=True, eq=False)
class BytePairSizer:
    """Sizes in tokens of a byte-pair encoding, from one pass over the text.

    Args:
        encode: text to token ids; called from several threads.
        token_bytes: the length in bytes of each token id, shape ``(n_vocabulary,)``.
    """

    encode: Callable[[str], Tokens]
    token_bytes: NDArray[np.int32]

    def size(self, text: str) -> int:
        """The number of tokens; a lone surrogate counts as the replacement character."""
        return len(self.encode(replace_surrogates(text)))

    def ruler(self, text: str) -> Ruler:
        """A ruler that knows where every token of ``text`` ends."""
        return _BytePairRuler(self, text)


class _BytePairRuler:
    """Tokens of the whole text stand for the tokens of its pieces.

    A piece cut at token borders is encoded as it was inside the text, but for rare effects of the encoder's word
    pattern at its two ends. So only pieces within a margin of the limit are encoded by themselves.
    """

    _MARGIN = 1
    _TORN_MARGIN = 5

    def __init__(self, sizer: BytePairSizer, text: str) -> None:
        self._sizer = sizer
        self._text = replace_surrogates(text)
        self._byte_at = _byte_offsets(self._text)
        self._blocks = _encoded(sizer.encode, _blocks(self._text))

    @cached_property
    def _token_ends(self) -> NDArray[np.int64]:
        """The UTF-8 offset at which each token ends, shape ``(n_tokens,)``."""
        lengths = [self._sizer.token_bytes[np.asarray(tokens, dtype=np.int64)] for tokens in self._blocks]
        return np.cumsum(np.concatenate([np.empty(0, dtype=np.int32), *lengths]), dtype=np.int64)

    def marks(self, positions: Sequence[int]) -> Marks:
        at = self._byte_at[np.asarray(positions, dtype=np.int64)]
        ended = np.searchsorted(self._token_ends, at, side="right")
        begun = ended + self._is_inside_token(ended, at)
        return Marks(begun.tolist(), ended.tolist(), self._MARGIN, self._TORN_MARGIN)

    def _is_inside_token(self, ended: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        last_end = np.where(ended > 0, self._token_ends[ended - 1], 0) if len(self._token_ends) else np.zeros_like(at)
        return last_end < at

    def reach(self, start: int, limit: int) -> int:
        ended = int(np.searchsorted(self._token_ends, self._byte_at[start], side="right"))
        if ended + limit >= len(self._token_ends):
            return len(self._text)
        end = int(np.searchsorted(self._byte_at, self._token_ends[ended + limit - 1], side="right")) - 1
        return max(end, start + 1)

    def fits(self, start: int, end: int, limit: int) -> bool:
        known = self.marks((start, end)).fits(0, 1, limit)
        return self._sizer.size(self._text[start:end]) <= limit if known is None else known


def _byte_offsets(text: str) -> NDArray[np.int64]:
    """The UTF-8 offset of each character and of the end, shape ``(len(text) + 1,)``; no surrogates in ``text``."""
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    return np.append(np.flatnonzero((encoded & 0xC0) != 0x80), len(encoded))  # noqa: PLR2004  UTF-8 continuation bytes


def _encoded(encode: Callable[[str], Tokens], blocks: Sequence[str]) -> Iterable[Tokens]:
    """The tokens of each block. Those of a long text are made in threads, while the caller finds its sentences."""
    if len(blocks) <= 1:
        return [encode(block) for block in blocks]
    threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))
    tokens = threads.map(encode, blocks)
    threads.shutdown(wait=False)  # it takes no more work; what it has is done
    return tokens


def _blocks(text: str) -> list[str]:
    """The text in blocks that an encoder takes in linear time, cut at line starts where there are any."""
    ends = []
    start = 0
    while start + _BLOCK_CHARS < len(text):
        line_start = text.rfind("\n", start + _BLOCK_CHARS // 2, start + _BLOCK_CHARS) + 1
        start = line_start or start + _BLOCK_CHARS
        ends.append(start)
    bounds = [0, *ends, len(text)]
    return [text[a:b] for a, b in pairwise(bounds) if b > a]


@dataclass(frozen=True)
class CallableSizer:
    """Sizes by any callable that returns a number, or something with a length (token ids).

    Args:
        counter: text to a number, or to token ids. It reads each character of a document several times, as every
            decision is exact: 2 times for sentence windows, 3 for semantic chunks, 4 to 5.5 for sliding windows and
            structured chunks, 6 to 7 for small to big, 15 to 17 for several granularities; the same piece once only.
    """

    counter: Callable[[str], Any]

    def size(self, text: str) -> int:
        """What the callable counts in ``text``.

        Raises:
            OptionError: it answers neither with a number of 0 or more nor with something that has a length.
        """
        counted = self.counter(text)
        if isinstance(counted, Mapping) and "input_ids" in counted:  # as HuggingFace tokenizers answer
            counted = counted["input_ids"]
        if isinstance(counted, (int, np.integer)) and not isinstance(counted, bool) and counted >= 0:
            return int(counted)
        if isinstance(counted, Sized) and not isinstance(counted, Mapping):
            return len(counted)
        raise OptionError(f"tokenizer answers {counted!r} for a text; it must give token ids, or their number")

    def ruler(self, text: str) -> Ruler:
        """A ruler that estimates by small pieces and decides by the callable."""
        return _CallableRuler(self, text)


class _CallableRuler:
    """Pieces of a fixed width are counted once; what lies between is interpolated, and every decision is exact.

    A piece is counted once, however many limits it is held against.
    """

    _PIECE_CHARS = 128

    def __init__(self, sizer: CallableSizer, text: str) -> None:
        self._sizer = sizer
        self._text = text
        overhead = sizer.size("")  # markers that the callable adds to every text
        starts = range(0, len(text), self._PIECE_CHARS)
        sizes = (max(0, sizer.size(text[s : s + self._PIECE_CHARS]) - overhead) for s in starts)
        self._overhead = overhead
        self._sizes = list(accumulate(sizes, initial=0))
        self._ends = [*starts, len(text)]
        self._counted: dict[tuple[int, int], int] = {}

    def marks(self, positions: Sequence[int]) -> Marks:
        sizes = np.interp(np.asarray(positions, dtype=float), self._ends, self._sizes).round().astype(int).tolist()
        return Marks([size + self._overhead for size in sizes], sizes, margin=math.inf, torn_margin=math.inf)

    def reach(self, start: int, limit: int) -> int:
        target = float(np.interp(start, self._ends, self._sizes)) + max(1, limit - self._overhead)
        if target >= self._sizes[-1]:
            return len(self._text)
        piece = bisect_right(self._sizes, target) - 1
        share = (target - self._sizes[piece]) / (self._sizes[piece + 1] - self._sizes[piece])
        return max(start + 1, int(self._ends[piece] + share * (self._ends[piece + 1] - self._ends[piece])))

    def fits(self, start: int, end: int, limit: int) -> bool:
        marks = self.marks((start, end))
        if marks.begun[1] - marks.ended[0] > 2 * limit + self._PIECE_CHARS:
            return False
        size = self._counted.get((start, end))
        if size is None:
            size = self._counted[start, end] = self._sizer.size(self._text[start:end])
        return size <= limit
