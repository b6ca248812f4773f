"""Cuts at a list of separators, the first one first: a piece that is still too large is cut at the next.

Where a separator cuts is a matter of the whole text, never of the piece: the cuts of one separator are found in one
pass, and those inside pieces that are too large are kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from llama_index_chunking_plus.core.sentence_rules import CLOSERS, ELLIPSES, FULL_STOPS, SEPARATORS, STOPS
from llama_index_chunking_plus.core.sizing import Ruler
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.core.words import Vocabulary, last_character_end, word_ends
from llama_index_chunking_plus.errors import OptionError

_NEWLINE = r"\r?\n"
_CLOSED = f"[{re.escape(CLOSERS)}]*"
_MARKS = STOPS + FULL_STOPS + ELLIPSES + SEPARATORS + "!?"
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^`\n]*)(?:\n|\Z)", re.MULTILINE)
_FENCE_SEPARATOR = re.compile(r"(?:\r?\n)*(`{3,}|~{3,})")
_HEADED = re.compile(r"((?:\r?\n)+)(.*\S.*)", re.DOTALL)
_BLOCK_CHARS = 4096  # jieba needs memory for all of what it is given
_WORD_CHARS = 32  # what is longer, and longer than half an overlap, is a run of characters and no word


def check_separators(separators: Any) -> tuple[str, ...]:
    """The list as a tuple.

    Raises:
        OptionError: it is no list of strings, is empty, names a separator twice, or has "" before its end.
    """
    if isinstance(separators, str) or not isinstance(separators, Sequence):
        raise OptionError(f'separators={separators!r} is no list; give strings in order, such as ["\\n\\n", "。", ""]')
    if not separators:
        raise OptionError(f"separators={separators!r} is empty; give some, or None for sentence ends")
    for position, separator in enumerate(separators):
        if not isinstance(separator, str):
            raise OptionError(f"separators[{position}]={separator!r} is no string; regular expressions are not taken")
        if separator in separators[:position]:
            raise OptionError(f"separators={separators!r} holds {separator!r} twice; leave out the second")
    if "" in separators[:-1]:
        raise OptionError(
            f'separators={separators!r} holds "" before its end; "" cuts between any two characters, which leaves '
            "nothing to the separators behind it: put it last"
        )
    return tuple(separators)


@dataclass(frozen=True)
class SeparatorCutter:
    r"""Cuts a text at separators, in their order, until all pieces fit or the list ends.

    A separator stays at the end of the piece that it ends; quotes and brackets that close behind a mark go with it.
    Newlines followed by text, such as a heading's ``"\n## "``, end one piece, and their text begins the next. A fence
    of backticks or tildes at the start of a line begins a piece if it opens code, and ends one if it closes it.
    Newlines match CRLF as well, and a separator of nothing else takes all those that follow. "" cuts between words, and
    between characters where there are none. No character and no protected term is cut.

    Args:
        separators: what `check_separators` lets pass.
        limit: the size above which a piece is cut.
        overlap: what windows over the pieces are to share; "" cuts fine enough for it.
        vocabulary: finds the words.

    Example:
        >>> from llama_index_chunking_plus.core.sizing import CharacterSizer
        >>> text = "序。\n## 甲\n一，二。三。"
        >>> SeparatorCutter(("\n## ", "。", "，"), limit=6).ends(text, CharacterSizer().ruler(text))
        [3, 10, 12, 14]
    """

    separators: tuple[str, ...]
    limit: int
    overlap: int = 0
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    def ends(self, text: str, ruler: Ruler) -> list[int]:
        """The end of each piece, ascending, the last at the end of the text; a piece may still be too large."""
        ends, large = [len(text)] if text else [], _too_large([[0, len(text)]], ruler, self.limit)
        for separator in self.separators:
            if not large:
                break
            parts = self._parts(text, separator, large)
            ends.extend(cut for part in parts for cut in part[1:-1])
            large = _too_large(parts, ruler, self.limit)
        return sorted(ends)

    def _parts(self, text: str, separator: str, pieces: Sequence[Span]) -> list[list[int]]:
        """The bounds, each piece's own included, of what the separator makes of each piece."""
        if not separator:
            return [[a, *self._allowed(text, self._fine_cuts(text, Span(a, b)), separator), b] for a, b in pieces]
        cuts = list(_cuts_of(separator)(text))
        within = ((a, b, cuts[bisect_right(cuts, a) : bisect_left(cuts, b)]) for a, b in pieces)
        return [[a, *self._allowed(text, some, separator), b] for a, b, some in within]

    def _allowed(self, text: str, cuts: Iterable[int], separator: str) -> Iterator[int]:
        """The cuts that tear neither a character nor a protected term."""
        may_tear = not separator or self.vocabulary.holds_any_of(separator)
        for cut in cuts:
            between = last_character_end(text, -1, cut) == cut
            if between and not (may_tear and self.vocabulary.straddling(text, cut)):
                yield cut

    def _fine_cuts(self, text: str, piece: Span) -> Iterator[int]:
        """Cuts between the words of a piece, as near as windows need them, and inside what is too long for a word."""
        longest = max(1, min(_WORD_CHARS, self.limit), self.overlap // 2)
        step = max(1, (self.overlap or self.limit) // 8)
        cut = word = piece.start
        for end in _ends_of_words(text, piece, self.vocabulary.user_dictionary):
            if end - word > longest:
                yield from range(word + step, end, step)
            if (end - cut >= step // 2 or end - word > longest) and end < piece.end:
                yield end
                cut = end
            word = end


def _too_large(parts: Sequence[Sequence[int]], ruler: Ruler, limit: int) -> list[Span]:
    """The pieces above the limit; a part is the ascending bounds of pieces that lie side by side."""
    bounds = [bound for part in parts for bound in part]
    part_starts = set(accumulate(len(part) for part in parts))
    return [
        Span(bounds[i], bounds[i + 1])
        for i in ruler.marks(bounds).doubtful(limit)
        if i + 1 not in part_starts and not ruler.fits(bounds[i], bounds[i + 1], limit)
    ]


def _cuts_of(separator: str) -> Callable[[str], Iterator[int]]:
    """What finds all cuts of a separator in a text."""
    fence = _FENCE_SEPARATOR.fullmatch(separator)
    if fence:
        return lambda text: _fence_cuts(text, fence[1][0])
    pattern = re.compile(_pattern(separator))
    return lambda text: (match.end() for match in pattern.finditer(text))


def _pattern(separator: str) -> str:
    """A regular expression that matches up to the cut."""
    headed = _HEADED.fullmatch(separator)
    if headed:
        return f"{_escape(headed[1])}(?={_escape(headed[2])})"
    if not separator.strip("\r\n"):
        return f"{_escape(separator)}(?:{_NEWLINE})*"
    return _escape(separator) + (_CLOSED if separator[-1] in _MARKS else "")


def _escape(literal: str) -> str:
    return _NEWLINE.join(re.escape(line) for line in literal.replace("\r\n", "\n").split("\n"))


def _fence_cuts(text: str, kind: str) -> Iterator[int]:
    """Before each fence that opens a block of code, behind each that closes one."""
    opened = ""
    for match in _FENCE.finditer(text):
        fence, closes = match[1], not match[2].strip() and match[1].startswith(opened)
        if opened and not closes:
            continue  # code that looks like a fence
        if fence[0] == kind:
            yield match.end() if opened else match.start()
        opened = "" if opened else fence


def _ends_of_words(text: str, piece: Span, user_dictionary: str | None) -> Iterator[int]:
    """Where the words of a piece end; what stands in ASCII between two spaces is one."""
    start = piece.start
    while start < piece.end:
        stop = min(start + _BLOCK_CHARS, piece.end)
        ends = [start + end for end in word_ends(text[start:stop], user_dictionary)]
        if stop < piece.end and len(ends) > 1:
            ends.pop()  # the block may have torn it
        yield from (end for end in ends if end == piece.end or not _is_ink(text[end - 1 : end + 1]))
        start = ends[-1]


def _is_ink(characters: str) -> bool:
    return all("!" <= character <= "~" for character in characters)
