"""Levels of granularity as data, and which of them a document has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llama_index_chunking_plus.core.options import is_filled_text, is_whole
from llama_index_chunking_plus.errors import OptionError

GRANULARITY_KEY, DEPTH_KEY, COARSE_KEY = "granularity", "granularity_depth", "coarse_id"
SPAN_KEYS = ("span_start", "span_end")

_OVERLAP_PER_CENT = 50  # of the largest size that neighbours may share; 10 to 15 are usual
_LIKE = "as in Granularity('fine', 100, 300)"


@dataclass(frozen=True)
class Granularity:
    """One level: how large its chunks are.

    Args:
        name: what the metadata of its chunks says under ``granularity``.
        min_size: what its chunks reach unless a heading, a topic, the end of a larger chunk or a neighbour that has no
            room prevents it; no paragraph that fits is cut for it. A document that is smaller does without the level.
            A whole number from 0.
        max_size: the largest size of a chunk, in the unit of the parser: characters, if it is told no other. A whole
            number from 1.
        overlap: the largest size that neighbours share, in whole sentences; 10 to 15 % of ``max_size`` are usual.
        each_sentence: every sentence is a chunk of its own; for the last level only.

    Raises:
        OptionError: the name is blank, a size is no whole number or out of its range, or ``each_sentence`` no switch.

    Example:
        >>> Granularity("fine", 100, 300).max_size
        300
    """

    name: str
    min_size: int
    max_size: int
    overlap: int = 0
    each_sentence: bool = False

    def __post_init__(self) -> None:
        if not is_filled_text(self.name):
            raise OptionError(f"name={self.name!r} is blank, or no text; name the level, {_LIKE}")
        for option, value, least in (("min_size", self.min_size, 0), ("max_size", self.max_size, 1)):
            if not is_whole(value, least):
                raise OptionError(f"{option}={value!r} of {self.name!r} is no whole number from {least}; {_LIKE}")
        if self.min_size > self.max_size:
            raise OptionError(
                f"min_size={self.min_size} of {self.name!r} is outside [0, max_size={self.max_size}]; choose a smaller "
                "one, a third of max_size, say"
            )
        most = self.max_size * _OVERLAP_PER_CENT // 100
        if not is_whole(self.overlap, 0) or self.overlap > most:
            raise OptionError(
                f"overlap={self.overlap!r} of {self.name!r} is no whole number in [0, {most}]; 0 to 15 % are usual"
            )
        if not isinstance(self.each_sentence, bool):
            raise OptionError(f"each_sentence={self.each_sentence!r} of {self.name!r} is neither True nor False")


SENTENCE = "sentence"

PRESETS: dict[str, dict[str, tuple[Granularity, ...]]] = {
    "balanced": {
        "chars": (Granularity("coarse", 2000, 5000), Granularity("medium", 500, 1000), Granularity("fine", 100, 300)),
        "tokens": (Granularity("coarse", 1200, 3000), Granularity("medium", 240, 720), Granularity("fine", 60, 205)),
    },
    "manual": {
        "chars": (Granularity("coarse", 1200, 3500), Granularity("medium", 300, 700), Granularity("fine", 60, 200)),
        "tokens": (Granularity("coarse", 800, 2200), Granularity("medium", 180, 450), Granularity("fine", 40, 130)),
    },
    "narrative": {
        "chars": (Granularity("coarse", 3000, 8000), Granularity("medium", 800, 1600), Granularity("fine", 200, 500)),
        "tokens": (Granularity("coarse", 1800, 4800), Granularity("medium", 400, 1000), Granularity("fine", 120, 320)),
    },
}
"""Levels by kind of text and unit; law is cut as manuals are."""
PRESETS["law"] = PRESETS["manual"]


def levels_of(size: int, levels: Sequence[Granularity]) -> Sequence[Granularity]:
    """The levels that a document of this size has: none that it is too short for, and the last at any rate.

    Example:
        >>> [level.name for level in levels_of(800, PRESETS["balanced"]["chars"])]
        ['medium', 'fine']
    """
    last = max((i for i, level in enumerate(levels) if not level.each_sentence), default=0)
    first = next((i for i, level in enumerate(levels) if size >= level.min_size), last)
    return levels[min(first, last) :]
