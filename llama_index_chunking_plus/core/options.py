"""What kind of value an option was given; the refusals themselves stand where the options are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, get_args

_NO_NUMBER = (bool, (int, float))
_NO_TEXT = (bytes, (str,))


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether it is a whole number from ``least``; a switch is none.

    Example:
        >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(True, least=1), is_whole(3.0, least=1)
        (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be compared with others; neither a switch nor NaN is."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124  NaN is not


def is_filled_text(value: object) -> TypeGuard[str]:
    """Whether it is a text with more than white space in it."""
    return isinstance(value, str) and bool(value.strip())


def is_collection(value: object) -> bool:
    """Whether it is something to go through, and neither one text nor a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it names a file or a folder; an empty text would be whatever folder the program was started in."""
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str) and bool(os.fspath(value))


def folder_flaw(path: str | os.PathLike[str]) -> str:
    """Why there can be no folder to write to at a path; empty if there is one, or it can be made.

    Example:
        >>> folder_flaw(__file__).endswith("is no folder"), folder_flaw(Path(__file__).parent / "new" / "deep")
        (True, '')
    """
    place = Path(path)
    there = next((each for each in (place, *place.parents) if os.path.lexists(each)), Path())
    if not there.is_dir():
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} may not be written to"


def is_taken_for(value: object, annotation: Any) -> bool:
    """Whether pydantic would quietly make another value of it: ``True`` is no 1, and bytes are no text.

    Args:
        value: what an option was given.
        annotation: the type of the option.

    Example:
        >>> is_taken_for(True, int | None), is_taken_for(True, bool), is_taken_for(b"a", str), is_taken_for("a", str)
        (True, False, True, False)
    """
    kinds = {annotation, *get_args(annotation)}
    return any(
        isinstance(value, given) and given not in kinds and not kinds.isdisjoint(taken)
        for given, taken in (_NO_NUMBER, _NO_TEXT)
    )
