"""Where a text may be cut when no sentence or clause ends nearby: between words, never inside a character.

Words come from jieba's default dictionary, loaded once per process, lazily and quietly. Protected terms and the words
of a user dictionary are kept whole wherever they stand, as long as they fit.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import OptionError

_LOADING = Lock()
_ZERO_WIDTH_JOINER = "\u200d"
_MOST_JOINED_CHARS = 64
_CONTEXT_CHARS = 40


@dataclass(frozen=True)
class Vocabulary:
    """Terms that are not to be cut, and how words are found.

    Args:
        protected_terms: strings that stay whole wherever they occur, while they fit into a chunk.
        user_dictionary: path of a dictionary in jieba's format (word, then frequency and tag if wanted, a line);
            its words are known to the word segmenter and are protected as well.

    Raises:
        OptionError: a term is empty or no text, or the dictionary cannot be read.

    Example:
        >>> Vocabulary(protected_terms=("检索增强生成",)).straddling("做检索增强生成时", 3)
        Span(start=1, end=7)
    """

    protected_terms: tuple[str, ...] = ()
    user_dictionary: str | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(term, str) for term in self.protected_terms):
            raise OptionError(f"protected_terms={self.protected_terms!r} holds what is no text; pass strings")
        if any(not term for term in self.protected_terms):
            raise OptionError("protected_terms holds an empty string; leave it out")
        if self.user_dictionary is not None and not Path(self.user_dictionary).is_file():
            raise OptionError(
                f"user_dictionary={self.user_dictionary!r} is no file; give the path of a jieba dictionary"
            )

    @property
    def digest(self) -> str | None:
        """A hash of the dictionary's bytes; None without one."""
        if self.user_dictionary is None:
            return None
        return hashlib.sha1(Path(self.user_dictionary).read_bytes(), usedforsecurity=False).hexdigest()

    def straddling(self, text: str, cut: int) -> Span | None:
        """The longest protected occurrence that a cut at ``cut`` would tear apart."""
        terms = protected_words(self)
        for length in sorted({len(term) for term in terms}, reverse=True):
            for start in range(max(0, cut - length + 1), min(cut, len(text) - length + 1)):
                if text[start : start + length] in terms:
                    return Span(start, start + length)
        return None

    def holds_any_of(self, marks: str) -> bool:
        """Whether some protected term contains one of the characters ``marks`` before its end."""
        return any(mark in term[:-1] for term in protected_words(self) for mark in marks)

    def last_word_end(self, text: str, start: int, stop: int) -> int | None:
        """The last end of a word in ``(start, stop]``, judged from the text around ``stop``.

        Numbers, addresses and names in ASCII count as one word up to the next space, unless there is no other end.
        """
        begin = max(start, stop - _CONTEXT_CHARS)
        around = text[begin : stop + _CONTEXT_CHARS]
        ends = [end for end in word_ends(around, self.user_dictionary) if begin + end <= stop and end < len(around)]
        outer = [end for end in ends if not (_is_ink(around[end - 1]) and _is_ink(around[end]))]
        best = outer or ends
        return begin + best[-1] if best else None


def last_character_end(text: str, start: int, stop: int) -> int:
    """The last position in ``(start, stop]`` that is not inside what a reader sees as one character.

    Kept whole are CRLF, surrogate pairs, a base with its combining marks and variation selectors, and sequences that a
    zero-width joiner, a skin tone or a pair of regional indicators makes. A run of them too long to keep is cut.
    """
    for cut in range(stop, max(start, stop - _MOST_JOINED_CHARS), -1):
        if cut >= len(text) or not _joined(text[cut - 1], text[cut], _indicators_before(text, cut)):
            return cut
    return stop


def _indicators_before(text: str, cut: int) -> int:
    count = 0
    while count < cut and _is_indicator(text[cut - 1 - count]) and count < _MOST_JOINED_CHARS:
        count += 1
    return count


def _is_indicator(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _joined(left: str, right: str, indicators_before: int) -> bool:
    """Whether two characters are one to a reader; ``indicators_before`` counts the flags' halves up to the left one."""
    return (
        (left == "\r" and right == "\n")
        or ("\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff")
        or _ZERO_WIDTH_JOINER in (left, right)
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or unicodedata.category(right) in {"Mn", "Me", "Mc"}
        or (_is_indicator(right) and indicators_before % 2 == 1)
    )


def protected_words(vocabulary: Vocabulary) -> frozenset[str]:
    """The protected terms, and the words of the user dictionary as it is now."""
    return _protected_words(vocabulary, _stamp(vocabulary.user_dictionary))


@lru_cache(maxsize=32)
def _protected_words(vocabulary: Vocabulary, _: tuple[int, int] | None) -> frozenset[str]:
    return frozenset(vocabulary.protected_terms) | frozenset(_dictionary_words(vocabulary.user_dictionary))


def _stamp(path: str | None) -> tuple[int, int] | None:
    """Another value after the file was written."""
    if path is None:
        return None
    state = Path(path).stat()
    return state.st_mtime_ns, state.st_size


def _dictionary_words(path: str | None) -> Iterator[str]:
    if path is None:
        return
    for line in Path(path).read_text(encoding="utf-8-sig").splitlines():
        if line.strip():
            yield line.split()[0]


def _is_ink(character: str) -> bool:
    return "!" <= character <= "~"


def word_ends(text: str, user_dictionary: str | None) -> list[int]:
    """The end of each of jieba's words; together they are the text."""
    return [end for _, _, end in segmenter(user_dictionary).tokenize(text)]


def segmenter(user_dictionary: str | None) -> Any:
    """Jieba with its default dictionary and the user's, as that is now; loaded once, quietly."""
    with _LOADING:
        return _load_segmenter(user_dictionary, _stamp(user_dictionary))


@lru_cache(maxsize=8)
def _load_segmenter(user_dictionary: str | None, _: tuple[int, int] | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import warns about its own regular expressions and packaging
        import jieba  # noqa: PLC0415  half a second that only a cut inside a sentence has to pay

    loaded = jieba.Tokenizer()
    level = jieba.default_logger.level
    jieba.default_logger.setLevel(logging.WARNING)
    try:
        loaded.initialize()
    finally:
        jieba.default_logger.setLevel(level)
    for word in _dictionary_words(user_dictionary):
        loaded.add_word(word)
    return loaded
