"""Which document each new row belongs to, and whether the vector store can take it and queries can find it."""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from numpy.typing import NDArray

from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.errors import EmbeddingError, OptionError, StoreMismatchError
from llama_index_chunking_plus.storage.stores import vector_dimension

NodesByDocument = dict[str, list[BaseNode]]

_FLAT = (str, int, float, type(None))  # as `node_to_metadata_dict` of LlamaIndex checks it


class RowBook:
    """The owner of every row id, so that no document takes a row from another one.

    Args:
        vector_store: where the rows go; None if they are not kept.
        owners: document id by row id, as recorded.
        length: how long the vectors of the store are; None if it is empty, or if that is not known.
    """

    def __init__(
        self, vector_store: BasePydanticVectorStore | None, owners: Mapping[str, str], length: int | None
    ) -> None:
        self._store = vector_store
        self._owners = dict(owners)
        self._stored_length = length
        self._given_length: int | None = None

    def assign(self, document_ids: Sequence[str], nodes: Sequence[BaseNode]) -> NodesByDocument:
        """The nodes of each document, after checking that they can be told apart; none if they are not kept.

        Raises:
            OptionError: a node has no embedding or no document, or its id is taken.
        """
        rows: NodesByDocument = {document_id: [] for document_id in document_ids}
        if self._store is None:
            return rows
        seen: set[str] = set()
        for node in nodes:
            owner = _owner(node, rows)
            _check_embedded(node, owner, self._store)
            if node.node_id in seen or self._owners.setdefault(node.node_id, owner) != owner:
                raise OptionError(
                    f"document {owner!r} has a node with id {node.node_id!r}, which is taken; "
                    "an id_func must use the document's id and the index"
                )
            seen.add(node.node_id)
            rows[owner].append(node)
        return rows

    def split_at_fault(self, rows: NodesByDocument) -> tuple[NodesByDocument, Exception | None]:
        """The documents ahead of the first one that the store cannot take, and the error that names it."""
        if self._store is None:
            return rows, None
        described, refusal = _split_at_metadata(rows, self._store)
        sound, error = self._split_at_vector(described, self._store)
        return sound, error or refusal

    def _split_at_vector(
        self, rows: NodesByDocument, store: BasePydanticVectorStore
    ) -> tuple[NodesByDocument, Exception | None]:
        """The documents ahead of the first one with a vector that cannot be used, and the error that names it."""
        nodes = list(chain.from_iterable(rows.values()))
        if not store.is_embedding_query or not nodes:
            return rows, None
        vectors = _matrix([node.embedding for node in nodes])
        length = self._given_length or self._stored_length or _usual_length(nodes, vectors)
        if vectors is not None and vectors.shape[1] == length and _are_usable(vectors):
            self._given_length = length
            return rows, None
        for position, (document_id, own) in enumerate(rows.items()):
            for node in own:
                fault = _fault(node.embedding, length)
                if fault:
                    return _ahead(rows, position), self._error(document_id, node, fault, nodes)
        return rows, None

    def _error(self, document_id: str, node: BaseNode, fault: str, nodes: Sequence[BaseNode]) -> Exception:
        """The store's length and the model's differ if not one vector has the store's; else the model failed."""
        stored = self._given_length is None and self._stored_length
        lengths = {_length(each.embedding) for each in nodes}
        if stored and stored not in lengths and _length(node.embedding):
            return StoreMismatchError(
                f"the vector store holds vectors of length {stored}, the embedding model gives "
                f"{_length(node.embedding)} (document {document_id!r}); use a new collection, or the model that this "
                "one was made with"
            )
        return EmbeddingError(
            f"the embedding model gave document {document_id!r} a vector {fault} (node {node.node_id!r}), which would "
            "spoil the store or never be found; what is stored of the document stays. Sync again when the model works, "
            "or leave out text that it has no vector for"
        )


def stored_length(store: BasePydanticVectorStore | None, stays: Callable[[str], bool]) -> int | None:
    """How long the vectors of a store must be: the only length it takes, or that of the rows that stay in it.

    Args:
        store: the vector store, if there is one.
        stays: whether the rows of the document of this id are left as they are.
    """
    if isinstance(store, SimpleVectorStore):  # takes any, and fails at queries when they differ
        owners = store.data.text_id_to_ref_doc_id
        staying = (len(vector) for row, vector in store.data.embedding_dict.items() if stays(owners.get(row, "")))
        return next(filter(None, staying), None)
    return None if store is None else vector_dimension(store)


def _ahead(rows: NodesByDocument, position: int) -> NodesByDocument:
    return dict(islice(rows.items(), position))


def _split_at_metadata(
    rows: NodesByDocument, store: BasePydanticVectorStore
) -> tuple[NodesByDocument, Exception | None]:
    """The documents ahead of the first one with metadata that the store refuses, and the error that names it."""
    flat = bool(getattr(store, "flat_metadata", False))
    for position, (document_id, own) in enumerate(rows.items()):
        for node in own:
            fault = _metadata_fault(node, flat)
            if fault:
                return _ahead(rows, position), OptionError(
                    f"{type(store).__name__} cannot take document {document_id!r} (node {node.node_id!r}): {fault}, "
                    "or leave the key out; what is stored of the document stays"
                )
    return rows, None


def _metadata_fault(node: BaseNode, flat: bool) -> str:
    """What is wrong with a node's metadata, or with that of related nodes, which is stored with it; else nothing."""
    places: list[tuple[str, BaseNode | RelatedNodeInfo, bool]] = [("", node, flat)]
    for related in node.relationships.values():
        kin = related if isinstance(related, list) else [related]
        places.extend(("of a related node ", each, False) for each in kin)
    for whose, holder, must_be_flat in places:
        for key, value in holder.metadata.items():
            fault = _value_fault(holder, key, must_be_flat)
            if fault:
                said = f"a value of type {type(value).__name__}, {reprlib.repr(value)}, {fault}"
                return f"the metadata {whose}has under the key {key!r} {said}"
    return ""


def _value_fault(holder: BaseNode | RelatedNodeInfo, key: str, flat: bool) -> str:
    """What is wrong with the value of a key, as LlamaIndex writes it, and the remedy; nothing if it can be stored."""
    value = holder.metadata[key]
    if not isinstance(value, _FLAT):
        try:
            (value,) = holder.model_dump(mode="json", include={"metadata": {key}})["metadata"].values()
        except ValueError:
            return "of which there is no JSON; make it a text, as by str(value)"
        if flat and not isinstance(value, _FLAT):
            return "where only text, numbers and None can be stored; flatten it to a text, as by '、'.join(values)"
    text = key + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if replace_surrogates(text) != text:
        return "with a lone surrogate; replace it: text.encode('utf-8', 'replace').decode()"
    return ""


def _check_embedded(node: BaseNode, owner: str, store: BasePydanticVectorStore) -> None:
    if node.embedding is None and store.is_embedding_query:
        raise OptionError(
            f"a node of document {owner!r} has no embedding, which {type(store).__name__} needs; "
            "end the pipeline's transformations with an embedding model"
        )


def _matrix(vectors: Any) -> NDArray[np.float32] | None:
    """The vectors as rows, as the stores keep them; None if they are not of one length, or no numbers."""
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        return None
    return matrix if matrix.ndim == 2 else None  # noqa: PLR2004  rows and columns


def _are_usable(matrix: NDArray[np.float32]) -> bool:
    return bool(np.isfinite(matrix).all() and matrix.any(axis=1).all())


def _fault(vector: Any, length: int) -> str:
    """What is wrong with a vector; nothing if it can be used."""
    row = _matrix([vector])
    if row is None:
        return "that is no list of numbers"
    if not row.size:
        return "without any numbers"
    if not np.isfinite(row).all():
        return "that holds NaN or infinity"
    if not row.any():
        return "of nothing but zeros"
    return "" if row.size == length else f"of length {row.size}, where others have {length}"


def _usual_length(nodes: Sequence[BaseNode], matrix: NDArray[np.float32] | None) -> int:
    """The length that most vectors have."""
    if matrix is not None:
        return int(matrix.shape[1])
    lengths = Counter(filter(None, (_length(node.embedding) for node in nodes)))
    return lengths.most_common(1)[0][0] if lengths else 0


def _length(vector: Any) -> int:
    return len(vector) if hasattr(vector, "__len__") else 0


def _owner(node: BaseNode, documents: Mapping[str, object]) -> str:
    """The document that a node belongs to; a document that no parser split is its own only row.

    Raises:
        OptionError: the node does not say where it comes from, so nobody could ever replace it.
    """
    owner = node.ref_doc_id
    if owner is None and node.node_id in documents:
        owner = node.node_id
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=owner, node_type=node.get_type())
    if owner is None or owner not in documents:
        raise OptionError(
            f"the transformations gave node {node.node_id!r} with ref_doc_id={owner!r}, which is no document of its "
            "batch; keep the SOURCE relationship of every node"
        )
    return owner
