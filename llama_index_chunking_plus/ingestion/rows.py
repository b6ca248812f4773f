"""Which document each new row belongs to, and whether the vector store can take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.errors import OptionError, StoreMismatchError
from llama_index_chunking_plus.storage.stores import vector_dimension


class RowBook:
    """The owner of every row id, so that no document takes a row from another one.

    Args:
        vector_store: where the rows go; None if they are not kept.
        owners: document id by row id, as recorded.
    """

    def __init__(self, vector_store: BasePydanticVectorStore | None, owners: Mapping[str, str]) -> None:
        self._store = vector_store
        self._owners = dict(owners)
        self._dimension = None if vector_store is None else vector_dimension(vector_store)

    def assign(self, document_ids: Sequence[str], nodes: Sequence[BaseNode]) -> dict[str, list[str]]:
        """The row ids of each document, after checking that they can be stored and found again.

        Raises:
            OptionError: a node has no embedding or no document, or its id is taken.
            StoreMismatchError: the store takes vectors of another length.
        """
        rows: dict[str, list[str]] = {document_id: [] for document_id in document_ids}
        if self._store is None:
            return rows
        seen: set[str] = set()
        for node in nodes:
            owner = _owner(node, rows)
            self._check_vector(node, owner, self._store)
            if node.node_id in seen or self._owners.setdefault(node.node_id, owner) != owner:
                raise OptionError(
                    f"document {owner!r} has a node with id {node.node_id!r}, which is taken; "
                    "an id_func must use the document's id and the index"
                )
            seen.add(node.node_id)
            rows[owner].append(node.node_id)
        return rows

    def _check_vector(self, node: BaseNode, owner: str, store: BasePydanticVectorStore) -> None:
        if not store.is_embedding_query:
            return
        if node.embedding is None:
            raise OptionError(
                f"a node of document {owner!r} has no embedding, which {type(store).__name__} needs; "
                "end the pipeline's transformations with an embedding model"
            )
        if self._dimension is not None and len(node.embedding) != self._dimension:
            raise StoreMismatchError(
                f"the vector store holds vectors of length {self._dimension}, the embedding model gives "
                f"{len(node.embedding)}; use a new collection, or the model that this one was made with"
            )


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
