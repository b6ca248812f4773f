"""From what a user calls a tokenizer to a sizer, and to a specification that survives dumps, pickles and processes.

None                    LlamaIndex's global tokenizer, looked up when it is first needed
"tiktoken:cl100k_base"  a byte-pair encoding of tiktoken by name
"import:package.module:name"  a callable that can be imported
any callable            text to a number, or to something with a length
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from llama_index.core.bridge.pydantic import BeforeValidator, PlainSerializer
from numpy.typing import NDArray

from llama_index_chunking_plus.core.sizing import BytePairSizer, CallableSizer, CharacterSizer, Sizer
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.fingerprints import callable_specification, load_callable

Tokenizer = Callable[[str], Any] | str | None

_TIKTOKEN = "tiktoken:"


def check_tokenizer(value: Tokenizer) -> Tokenizer:
    """The value in the form in which it is kept: None, a name of an encoding, or a callable.

    Raises:
        OptionError: it is no callable, does not count a short text, or its specification names nothing that can be had.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _from_specification(value)
    if not callable(value):
        raise OptionError(f"tokenizer={value!r} is not callable; give a function of text, a specification, or None")
    named = encoding_of(value)
    if named is not None:
        return named
    try:
        CallableSizer(value).size("好。")
    except Exception as error:
        raise OptionError(f"tokenizer={value!r} cannot count a text: {error}") from error
    return value


def tokenizer_specification(value: Tokenizer) -> str:
    """What is dumped: equal for equal tokenizers, and enough to rebuild one where that is possible."""
    value = portable_tokenizer(value)
    return value if isinstance(value, str) else callable_specification(value)  # type: ignore[arg-type]


TokenizerOption = Annotated[Tokenizer, BeforeValidator(check_tokenizer), PlainSerializer(tokenizer_specification)]


def portable_tokenizer(value: Tokenizer) -> Tokenizer:
    """What dumps and pickles carry: the global tokenizer itself, so that another process counts as this one does."""
    return check_tokenizer(_global_tokenizer()) if value is None else value


def resolve_sizer(unit: str, tokenizer: Tokenizer) -> Sizer:
    """The sizer for ``unit`` ("tokens" or "chars")."""
    if unit == "chars":
        return CharacterSizer()
    tokenizer = portable_tokenizer(tokenizer)
    if isinstance(tokenizer, str):
        return _byte_pair_sizer(tokenizer.removeprefix(_TIKTOKEN))
    return CallableSizer(tokenizer)  # type: ignore[arg-type]


def encoding_of(tokenizer: Callable[[str], Any]) -> str | None:
    """``"tiktoken:<encoding>"`` if that is what the callable counts with."""
    encoding = _tiktoken_encoding(tokenizer)
    return None if encoding is None else _TIKTOKEN + encoding.name


def load_tokenizer(specification: str) -> Callable[[str], Any]:
    """The function behind ``"tiktoken:<encoding>"``."""
    return partial(_load_encoding(specification.removeprefix(_TIKTOKEN)).encode, allowed_special="all")


def _from_specification(value: str) -> Tokenizer:
    if value.startswith(_TIKTOKEN):
        _byte_pair_sizer(value.removeprefix(_TIKTOKEN))
        return value
    return load_callable(value, "tokenizer")


def _global_tokenizer() -> Callable[[str], Any]:
    from llama_index.core.utils import get_tokenizer  # noqa: PLC0415  pulls in the whole of core

    return get_tokenizer()


def _tiktoken_encoding(tokenizer: Callable[[str], Any]) -> Any:
    """The tiktoken encoding whose ``encode`` this is, if tiktoken knows it by name."""
    method = tokenizer.func if isinstance(tokenizer, partial) else tokenizer
    owner = getattr(method, "__self__", None)
    if getattr(method, "__name__", "") != "encode" or type(owner).__module__.split(".")[0] != "tiktoken":
        return None
    import tiktoken  # noqa: PLC0415  only where it is in use already

    return owner if getattr(owner, "name", None) in tiktoken.list_encoding_names() else None


@lru_cache(maxsize=8)
def _byte_pair_sizer(name: str) -> BytePairSizer:
    encoding = _load_encoding(name)
    encode = getattr(encoding, "encode_to_numpy", encoding.encode)  # tiktoken 0.7 only makes lists
    return BytePairSizer(partial(encode, allowed_special="all"), _token_bytes(encoding))


def _load_encoding(name: str) -> Any:
    """The encoding by name; the one that LlamaIndex ships needs no network, in any process."""
    import tiktoken  # noqa: PLC0415  as LlamaIndex does: only when tokens are counted

    if name not in tiktoken.list_encoding_names():
        raise OptionError(f"tiktoken knows no encoding {name!r}; it knows {', '.join(tiktoken.list_encoding_names())}")
    current = _tiktoken_encoding(_global_tokenizer())
    if current is not None and current.name == name:
        return current
    if name == "cl100k_base":
        with _bundled_encodings():
            return tiktoken.get_encoding(name)
    return tiktoken.get_encoding(name)


@contextmanager
def _bundled_encodings() -> Iterator[None]:
    """Lets tiktoken find the encoding that LlamaIndex carries, unless the user keeps a cache of their own."""
    import llama_index.core  # noqa: PLC0415  its folder only

    variable = "TIKTOKEN_CACHE_DIR"
    if variable in os.environ:
        yield
        return
    os.environ[variable] = str(Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache")
    try:
        yield
    finally:
        os.environ.pop(variable, None)


def _token_bytes(encoding: Any) -> NDArray[np.int32]:
    """The byte length of every token id, shape ``(n_vocabulary,)``."""
    lengths = np.zeros(encoding.n_vocab, dtype=np.int32)
    for token in range(encoding.n_vocab):
        with suppress(KeyError):  # a few ids stand for nothing
            lengths[token] = len(encoding.decode_single_token_bytes(token))
    return lengths
