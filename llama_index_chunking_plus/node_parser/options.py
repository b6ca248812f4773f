"""The base of all components here that pydantic checks: what it lets pass, and LlamaIndex cannot use, is refused."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from llama_index.core.bridge.pydantic import (
    BaseModel,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode
from typing_extensions import Self

from llama_index_chunking_plus.core.options import is_taken_for
from llama_index_chunking_plus.errors import OptionError

T = TypeVar("T", bound=BaseNode)

_LISTS = frozenset({"tuple_type", "list_type"})  # types of pydantic's errors
_OBJECTS = frozenset({"model_type", "dataclass_type"})


class CheckedOptions(BaseModel):
    """Refuses a switch for a number, bytes for a text, and what is no callback manager; None is an empty one.

    Whatever else pydantic refuses is told with the option, its value and what to pass instead.

    Raises:
        ValueError: an option has a value of another kind, is missing, or is none.
    """

    @field_validator("*", mode="before", check_fields=False)
    @classmethod
    def _check_kind(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        annotation = cls.model_fields[name].annotation
        if annotation is CallbackManager:
            return checked_callback_manager(value)
        if is_taken_for(value, annotation):
            kind = "a switch, and no number" if isinstance(value, bool) else "bytes, and no text"
            raise OptionError(f"{name}={value!r} is {kind}; see the documentation of {cls.__name__} for what it takes")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _tell_remedies(cls, options: Any, validate: Callable[[Any], Self]) -> Self:
        try:
            return validate(options)
        except ValidationError as error:
            told = [_with_remedy(flaw, cls) for flaw in error.errors()]
            raise ValidationError.from_exception_data(error.title, told) from error


def checked_documents(documents: Iterable[T]) -> list[T]:
    """The documents, or nodes, as a list.

    Raises:
        OptionError: it is no list of them.
    """
    if isinstance(documents, (str, bytes, BaseNode)) or not isinstance(documents, Iterable):
        raise OptionError(f"documents={reprlib.repr(documents)} is no list of documents; pass a list: [document]")
    every = list(documents)
    for position, document in enumerate(every):
        if not isinstance(document, BaseNode):
            raise OptionError(
                f"documents[{position}]={reprlib.repr(document)} is no document; pass Document(id_=..., text=...)"
            )
    return every


def checked_callback_manager(value: Any) -> CallbackManager:
    """The callback manager, an empty one for None.

    Raises:
        OptionError: it is something else.
    """
    if value is None:
        return CallbackManager([])
    if not isinstance(value, CallbackManager):
        raise OptionError(
            f"callback_manager={reprlib.repr(value)} is none of LlamaIndex's; pass CallbackManager([handler]), or None"
        )
    return value


def _with_remedy(flaw: Any, component: type[BaseModel]) -> Any:
    """What pydantic found wrong with an option, in our words; what a validator of ours says stays as it is."""
    if flaw["type"] == "value_error" or not flaw["loc"]:
        return {key: flaw[key] for key in ("type", "loc", "input", "ctx") if key in flaw}
    name = ".".join(map(str, flaw["loc"]))
    if flaw["type"] == "missing":
        reason = f"{name} is missing; {component.__name__} has no default for it"
    else:
        reason = f"{name}={reprlib.repr(flaw['input'])} {_remedy(name, flaw, component)}"
    return {"type": "value_error", "loc": flaw["loc"], "input": flaw["input"], "ctx": {"error": OptionError(reason)}}


def _remedy(name: str, flaw: Any, component: type[BaseModel]) -> str:
    made, options = component.__name__, component.model_fields
    if flaw["type"] == "extra_forbidden":
        near = get_close_matches(name, options, n=1)
        hint = f"did you mean {near[0]}? It has" if near else "it has"
        return f"is no option of {made}; {hint} {', '.join(options)}"
    if flaw["type"] in _OBJECTS:
        return f"is no {flaw['ctx']['class_name']}; pass such an object, not its name or settings"
    if flaw["type"] in _LISTS:
        return "is no list; pass a list, of one element too"
    return f"cannot be used: {flaw['msg']}; see the documentation of {made} for what it takes"
