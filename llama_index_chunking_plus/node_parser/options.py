"""The base of all components here that pydantic checks: what it lets pass, and LlamaIndex cannot use, is refused."""

from __future__ import annotations

import reprlib
from typing import Any

from llama_index.core.bridge.pydantic import BaseModel, ValidationInfo, field_validator
from llama_index.core.callbacks import CallbackManager

from llama_index_chunking_plus.core.options import is_taken_for
from llama_index_chunking_plus.errors import OptionError


class CheckedOptions(BaseModel):
    """Refuses a switch for a number, bytes for a text, and what is no callback manager; None is an empty one.

    Raises:
        ValueError: an option has a value of another kind.
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
