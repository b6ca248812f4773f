"""Bundled sample documents with questions that have one right place each.

The documents are written for this package (MIT licence): contracts, manuals, API guides, FAQs, research notes, news,
Traditional Chinese and mixed Chinese-English text. Companies, people and products in them are fictional.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SampleQuestion", "questions", "sample_paths"]

_FOLDER = Path(__file__).parent
_SUFFIXES = frozenset({".md", ".txt"})


@dataclass(frozen=True)
class SampleQuestion:
    """A question about one sample document.

    Attributes:
        question: The question as a user would ask it.
        file: Name of the document that answers it, as in ``sample_paths()``.
        answer: Text that stands verbatim, and exactly once, in that document.
    """

    question: str
    file: str
    answer: str


def sample_paths() -> list[Path]:
    """List the sample documents.

    Returns:
        The paths of all bundled ``.md`` and ``.txt`` documents, sorted by name.
    """
    return sorted(path for path in _FOLDER.iterdir() if path.suffix in _SUFFIXES)


def questions() -> list[SampleQuestion]:
    """Read the questions about the sample documents.

    Returns:
        The questions in the order of ``questions.jsonl``, grouped by document.
    """
    lines = (_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    records = (json.loads(line) for line in lines if line.strip())
    return [SampleQuestion(question=r["question"], file=r["file"], answer=r["answer"]) for r in records]
