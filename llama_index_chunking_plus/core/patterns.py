"""Regular expressions that are compiled when they are first used: importing the package costs next to nothing."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")


class _LazyPattern:
    """Stands for the compiled expression; from the first use on its methods are those of the compiled one."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` gives, compiled at the first search; a wrong expression is an error then, not before.

    Example:
        >>> lazy_pattern(r"[0-9]+").findall("3 和 14")
        ['3', '14']
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
