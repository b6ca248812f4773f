"""Names for things that cannot be dumped: callables, and parsers that hide their callables from their own dumps.

LlamaIndex's ingestion cache and our sync key their records by what a component dumps. Equal behaviour must give equal
names in every process; different behaviour must give different ones.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any

from llama_index.core.schema import BaseComponent

from llama_index_chunking_plus.errors import OptionError

_IMPORT = "import:"
_FINGERPRINT = "fingerprint:"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NEVER_BEHAVIOUR = {"callback_manager"}


def import_path(value: Any) -> str | None:
    """``"package.module:name"`` if importing that name gives this very object, else None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    try:
        found = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is value else None


def fingerprint(value: Any) -> str:
    """A short digest of what a value does, stable between processes."""
    return hashlib.sha1(_describe(value).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:16]


def callable_specification(value: Callable[..., Any]) -> str:
    """What is dumped for a callable: its import path, or a digest from which it cannot be rebuilt."""
    path = import_path(value)
    return _IMPORT + path if path else _FINGERPRINT + fingerprint(value)


def load_callable(specification: str, option: str) -> Callable[..., Any]:
    """The callable behind what `callable_specification` gave.

    Raises:
        OptionError: it was dumped as a digest, or its path leads to nothing that can be called.
    """
    if not specification.startswith(_IMPORT):
        raise OptionError(f"{option}={specification!r} names no importable callable; pass the callable: {option}=...")
    module, _, name = specification.removeprefix(_IMPORT).partition(":")
    try:
        found: Any = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"{option}={specification!r} leads to nothing ({error}); pass the callable itself") from error
    if not callable(found):
        raise OptionError(f"{option}={specification!r} is not callable; name a function")
    return found  # type: ignore[no-any-return]


def _describe(value: Any) -> str:
    """A text that is equal for values that behave alike, as far as can be seen from outside."""
    if isinstance(value, BaseComponent):
        return _describe_component(value)
    if isinstance(value, partial):
        return f"partial({_describe(value.func)},{_describe(value.args)},{_describe(value.keywords)})"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{key}:{_describe(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_describe, value)) + "]"
    if isinstance(value, FunctionType):
        return import_path(value) or _describe_function(value)
    return _describe_object(value)


def _describe_component(component: BaseComponent) -> str:
    fields = {name: item for name, item in vars(component).items() if name not in _NEVER_BEHAVIOUR}
    private = component.__pydantic_private__ or {}
    hidden = {name: item for name, item in private.items() if callable(item) or isinstance(item, (str, int, float))}
    kind = type(component)
    return f"{kind.__module__}.{kind.__qualname__}{_describe(fields)}{_describe(hidden)}"


def _describe_function(function: Callable[..., Any]) -> str:
    """A lambda or local function, by its code and what it closes over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return f"{_describe_code(function.__code__)}{_describe(cells)}{_describe(function.__defaults__ or ())}"


def _describe_code(code: CodeType) -> str:
    constants = [_describe_code(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return f"{code.co_code.hex()}{constants}{code.co_names}{code.co_varnames}"


def _describe_object(value: Any) -> str:
    """Plain values by what they print, methods by their owner, other objects by their pickle."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return f"{_describe(owner)}.{getattr(value, '__name__', '')}"
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return repr(value)
    named = import_path(value)
    if named:
        return named
    try:
        return hashlib.sha1(pickle.dumps(value), usedforsecurity=False).hexdigest()
    except Exception:  # noqa: BLE001  whatever refuses to be pickled is named by its type and text
        return f"{type(value).__module__}.{type(value).__qualname__}{_ADDRESS.sub('', repr(value))}"
