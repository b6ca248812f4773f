"""Does an answer say all that it should? Words are compared, in order, without regard to how they are set."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from llama_index_chunking_plus.core.numbered import DIGIT, HAN_NUMERAL
from llama_index_chunking_plus.core.options import is_collection
from llama_index_chunking_plus.errors import OptionError

_NUMERAL = f"(?:{DIGIT}{{1,3}}|{HAN_NUMERAL}{{1,3}})"
_NUMBERING = re.compile(
    rf"[\s*_>#-]*(?:步[骤驟]\s?{_NUMERAL}\s?[:：.．、]?|第{_NUMERAL}步\s?[:：,，、]?|Step\s{_NUMERAL}\s?[:：.,]?"
    rf"|[(（]{_NUMERAL}[)）]|{_NUMERAL}\s?[)）、]|\d{{1,3}}[.．](?!\d)|[①-⑳])",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![a-z0-9])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*|[a-z]+|[^\W_]|[<>≤≥=±%‰]")
_MINUS = str.maketrans("−–", "--")


@dataclass(frozen=True)
class CompletenessScore:
    """How much of what was expected an answer says.

    Args:
        covered: how many of the expected steps it says.
        total: how many are expected.
        missing: the others, as they were given.

    Example:
        >>> CompletenessScore(1, 2, ("关闭阀门",)).ratio
        0.5
    """

    covered: int
    total: int
    missing: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The share that is said; 1 where nothing is expected."""
        return self.covered / self.total if self.total else 1.0


def completeness_score(answer: str, expected_steps: Sequence[str]) -> CompletenessScore:
    """Which of the expected steps stand in an answer.

    A step is there if its words stand in the answer next to each other and in order. Neither large letters, full-width
    forms, white space, punctuation nor the number of a step count; signs, decimals, percent and comparisons do. A step
    said in other words is missing, and one that the answer denies ("不要…") is there: this compares words, not meaning.

    Args:
        answer: any text.
        expected_steps: what it should say, in any order.

    Raises:
        OptionError: a step has no words, or an argument is of another kind.

    Example:
        >>> completeness_score("先 关闭阀门，再加入５ ml 缓冲液。", ["1. 关闭阀门", "2. 加入 5 mL 缓冲液", "3. 静置"])
        CompletenessScore(covered=2, total=3, missing=('3. 静置',))
    """
    if not isinstance(answer, str):
        raise OptionError(f"answer={answer!r} is no text; give what was answered")
    if isinstance(expected_steps, str):
        raise OptionError(f"expected_steps={expected_steps!r} is one text; give a list of steps")
    if not is_collection(expected_steps) or not all(isinstance(step, str) for step in expected_steps):
        raise OptionError(f"expected_steps={expected_steps!r} is no list of texts; give a list of steps")
    said = _words(answer)
    missing = tuple(step for step in expected_steps if _step_words(step) not in said)
    return CompletenessScore(len(expected_steps) - len(missing), len(expected_steps), missing)


def _step_words(step: str) -> str:
    """The words of a step without its number, unless that is all it has."""
    found = _NUMBERING.match(step)
    words = _words(step[found.end() :] if found else step)
    words = words if words.strip() else _words(step)
    if not words.strip():
        raise OptionError(f"expected step {step!r} has no words; leave it out")
    return words


def _words(text: str) -> str:
    """Numbers, words, and characters of other scripts, each between two spaces."""
    plain = unicodedata.normalize("NFKC", text).translate(_MINUS).casefold()
    return f" {' '.join(_WORD.findall(plain))} "
