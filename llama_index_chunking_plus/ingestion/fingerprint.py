"""Digests of what decides the rows of a document: its content, and the transformations it goes through.

Equal digests in every process, whatever the order of metadata keys; no secrets, no addresses, and none of the options
that change how fast the work is done rather than what comes out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.node_parser.interface import MetadataAwareTextSplitter
from llama_index.core.schema import BaseComponent, BaseNode, TransformComponent

from llama_index_chunking_plus.errors import OptionError

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SECRET = re.compile(r"(^|_)(api_key|password|secret|credentials?)$|^(access|auth|azure_ad|bearer|hf)_token$")
_RUNNING_OPTION = re.compile(
    r"^(async_http_client|cache_folder|callback_manager|default_headers|device|embed_batch_size|embeddings_cache|headers"
    r"|http_client|max_retries|num_workers|rate_limiter|reuse_client|show_progress(_bar)?|threads|timeout|verbose)$"
)
_SPLITTER_FUNCTIONS = ("_tokenizer", "_chunking_tokenizer_fn")  # core's splitters keep them out of their fields
_MEDIA = ("image_resource", "audio_resource", "video_resource")


def fingerprint_transformations(transformations: Sequence[TransformComponent]) -> str:
    """A digest of every option that decides what the transformations make of a document.

    Example:
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> small, large = SentenceSplitter(chunk_size=256), SentenceSplitter(chunk_size=512)
        >>> fingerprint_transformations([small]) == fingerprint_transformations([large])
        False
    """
    return _digest([_describe(transformation) for transformation in transformations])


def hash_document(document: BaseNode) -> str:
    """A digest of text, metadata, excluded keys and templates; the id and the order of metadata keys are not in it.

    Raises:
        OptionError: the text holds half a character, which neither LlamaIndex nor a store can encode.
    """
    text = document.get_content()
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            f"document {document.id_!r} holds the lone surrogate {text[error.start]!a} at character {error.start}; "
            "replace it: text.encode('utf-8', 'replace').decode()"
        ) from error
    return _digest(
        [
            document.class_name(),
            hashlib.sha256(encoded).hexdigest(),
            _plain(document.metadata),
            sorted(document.excluded_embed_metadata_keys),
            sorted(document.excluded_llm_metadata_keys),
            [getattr(document, name, "") for name in ("text_template", "metadata_template", "metadata_separator")],
            [resource.hash for name in _MEDIA if (resource := getattr(document, name, None)) is not None],
        ]
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """The value as JSON, keys as text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    if isinstance(value, AbstractSet):
        return sorted(json.dumps(_plain(item), sort_keys=True) for item in value)
    return _ADDRESS.sub("", repr(value))


def _describe(value: Any) -> Any:
    """The options of a component as JSON: its fields, and those of the components inside it."""
    if isinstance(value, BaseModel):
        return _describe_component(value)
    if isinstance(value, partial):
        return ["partial", _describe(value.func), _describe(value.args), _describe(value.keywords)]
    if isinstance(value, Mapping):
        return {str(key): _describe(item) for key, item in value.items() if _decides_rows(str(key))}
    if isinstance(value, list | tuple):
        return [_describe(item) for item in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _plain(value)


def _describe_component(component: BaseModel) -> dict[str, Any]:
    """Fields *and* dump: a dump leaves out excluded fields and nested options, fields leave out what a dump adds."""
    kind = type(component)
    fields = {name: value for name, value in vars(component).items() if name in kind.model_fields}
    functions = component.__pydantic_private__ or {} if isinstance(component, MetadataAwareTextSplitter) else {}
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "fields": _describe(fields),
        "dump": _describe(_dump(component)),
        "functions": [_describe(functions.get(name)) for name in _SPLITTER_FUNCTIONS],
    }


def _dump(component: BaseModel) -> dict[str, Any]:
    if not isinstance(component, BaseComponent):
        return {}
    try:
        return component.to_dict()
    except (AttributeError, TypeError, ValueError):  # a function without a name, a value that JSON does not know
        return {}


def _decides_rows(option: str) -> bool:
    return not (_RUNNING_OPTION.search(option) or _SECRET.search(option))
