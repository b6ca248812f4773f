"""What this package raises.

ChunkingPlusError
├── OptionError (ValueError)          a wrong option: value, limit and remedy; pydantic wraps those of node parsers
│                                     into its own ValidationError, a ValueError as well
├── MissingExtraError (ImportError)   an optional dependency is absent: the exact pip line
├── EmbeddingError (RuntimeError)     the embedding model failed or answered nonsense
├── StoreMismatchError (ValueError)   a store was made with another parser or model
├── StoreBusyError (RuntimeError)     another process is writing to the same directory
├── StaleChildError (LookupError)     a hit whose text is gone from its document
└── InputFileError (ValueError)       a file cannot be read: its name and why
    └── EvaluationSetError            questions with flaws: each with its line (in evaluation/dataset.py)
"""

from __future__ import annotations


class ChunkingPlusError(Exception):
    """Base of every error that this package raises on purpose."""


class OptionError(ChunkingPlusError, ValueError):
    """An option is out of range; the message names value, limit and remedy."""


class EmbeddingError(ChunkingPlusError, RuntimeError):
    """The embedding model failed, or answered with vectors that cannot be used."""


class StoreMismatchError(ChunkingPlusError, ValueError):
    """A store was made with another parser or embedding model than the one in use."""


class StoreBusyError(ChunkingPlusError, RuntimeError):
    """Another process, or another call in this one, is writing to the same directory."""


class StaleChildError(ChunkingPlusError, LookupError):
    """A child's text is gone from its document; the message names the children and the remedy."""


class InputFileError(ChunkingPlusError, ValueError):
    """A file cannot be read; the message names the file and the reason."""


class MissingExtraError(ChunkingPlusError, ImportError):
    """An optional dependency is not installed; the message carries the pip line that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{package} is not installed; it comes with the extra {extra!r}: "
            f"pip install 'llama-index-chunking-plus[{extra}]'"
        )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), (self.package, self.extra)


class ChunkingPlusWarning(UserWarning):
    """A documented fallback was taken; the message says what happened and what to do."""
