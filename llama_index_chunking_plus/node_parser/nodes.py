"""Many nodes in little time: pydantic checks one, the others are copies of it that differ in a few fields."""

from __future__ import annotations

import gc
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode

Relationships = Mapping[NodeRelationship, RelatedNodeInfo]

_ID_NAMESPACE = uuid.UUID("6f1f0d3c-6a52-5c0b-9a0e-6f0d2b8c4e71").bytes
_RFC_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

_new = object.__new__
_set_fields, _set_fields_set, _set_extra, _set_private = (  # where pydantic keeps the state of a model
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for cyclic garbage while many objects are made that all stay; it would take a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class NodeMould:
    """Makes nodes like one that was checked; the constructor, which checks every field, takes ten times as long."""

    def __init__(self, template: TextNode) -> None:
        self._class = type(template)
        self._template = template
        self._fields = vars(template)
        self._fields_set = template.__pydantic_fields_set__
        self._no_embed = template.excluded_embed_metadata_keys
        self._no_llm = template.excluded_llm_metadata_keys

    def cast(
        self,
        node_id: str,
        text: str,
        place: tuple[int | None, int | None],
        metadata: dict[str, Any],
        relationships: Relationships,
    ) -> TextNode:
        """The node that has these fields, and the others of the template; ``metadata`` becomes its own."""
        node = _new(self._class)
        _set_fields(
            node,
            {
                **self._fields,
                "id_": node_id,
                "text": text,
                "start_char_idx": place[0],
                "end_char_idx": place[1],
                "metadata": metadata,
                "relationships": {**relationships},
                "excluded_embed_metadata_keys": [*self._no_embed],
                "excluded_llm_metadata_keys": [*self._no_llm],
            },
        )
        _set_fields_set(node, self._fields_set.copy())
        _set_extra(node, None)
        _set_private(node, self._template.__pydantic_private__)
        return node


def relative(node: TextNode) -> RelatedNodeInfo:
    """A relative by its id: nobody reads its hash, and each costs time to make and bytes to store."""
    info = _new(RelatedNodeInfo)
    _set_fields(info, {"node_id": node.id_, "node_type": node.get_type(), "metadata": {}, "hash": None})
    _set_fields_set(info, {"node_id", "node_type"})
    _set_extra(info, None)
    _set_private(info, None)
    return info


def hash_of(node: BaseNode) -> str:
    """The node's own hash; core cannot give one for a document with lone surrogates."""
    try:
        return node.hash
    except UnicodeEncodeError:
        content = node.get_content(metadata_mode=MetadataMode.ALL)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


class IdMaker:
    """Deterministic ids, unique within a call: UUID version 5 (RFC 9562) of where a chunk stands and what it says."""

    def __init__(self, parser: str) -> None:
        self._parser = parser
        self._begun: dict[tuple[str, str], Any] = {}  # hashes of what all chunks of a document and level begin with
        self._issued: dict[str, int] = {}

    def make(self, root_id: str, level: str, place: tuple[int | None, int | None], text: str) -> str:
        """The id of a chunk of this document.

        Args:
            root_id: the id of the document.
            level: the level of chunks that it belongs to; "" for those that are searched.
            place: where it begins and ends in the document, if that is known.
            text: what it says.
        """
        begun = self._begun.get((root_id, level)) or self._begin(root_id, level)
        hashed = begun.copy()
        hashed.update(f"{place[0]}:{place[1]}\0{text}".encode("utf-8", "surrogatepass"))
        made = _uuid5(hashed.hexdigest())
        issued = self._issued[made] = self._issued.get(made, 0) + 1
        if issued > 1:  # the same document twice, or overlapping inputs of a chained parser
            hashed.update(f"\0{issued}".encode())
            return _uuid5(hashed.hexdigest())
        return made

    def _begin(self, root_id: str, level: str) -> Any:
        parser = f"{self._parser}/{level}" if level else self._parser
        name = _ID_NAMESPACE + f"{root_id}\0{parser}\0".encode("utf-8", "surrogatepass")
        return self._begun.setdefault((root_id, level), hashlib.sha1(name, usedforsecurity=False))


def _uuid5(digits: str) -> str:
    """A SHA-1 as the text of a UUID of version 5 and the RFC's variant; uuid.uuid5 takes ten times as long."""
    variant = _RFC_VARIANT[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
