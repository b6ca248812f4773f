"""Parents from the rows of a store: put together from their children there, or stored whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.parents import PARENT_KEYS, ParentRef, text_hash
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.storage.parents import (
    OF_CHILDREN,
    Child,
    Found,
    Lookup,
    children_among,
    make_parent,
    one_of_each,
    section_of,
)
from llama_index_chunking_plus.storage.stores import (
    MAX_ASKED,
    finds_ids,
    ids_with,
    pages,
    returns_rows,
    rows_by_id,
    rows_with,
)


@dataclass(frozen=True)
class SiblingLookup(Lookup):
    """Puts parents together from their children in the vector store: no docstore is needed, none can disagree.

    All children of the parents asked for are fetched by one filter on ``parent_id``. A parent counts only if they
    leave no gap and their text has the hash that the children carry; otherwise its children stand for themselves.
    Its metadata is what all its children agree on, without what they say of their parent. The vector store is believed:
    rows that nobody deleted when their document went are not stale to it.

    Args:
        vector_store: holds all children of each parent, as every ingestion of whole documents sees to.
        docstore: has the texts of the rows where the vector store keeps none, as `index.docstore` has for
            `SimpleVectorStore`.

    Raises:
        OptionError: the vector store cannot be asked for rows by their metadata, or keeps no text and there is no
            docstore.

    Example:
        >>> from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index.core.vector_stores import SimpleVectorStore
        >>> from llama_index_chunking_plus.core.spans import Span
        >>> metadata = ParentRef("p", Span(0, 6), text_hash("你好。再见。")).to_metadata()
        >>> source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")}
        >>> texts = {0: "你好。", 3: "再见。"}
        >>> children = [
        ...     TextNode(id_=f"a-{start}", text=text, start_char_idx=start, end_char_idx=start + 3, metadata=metadata,
        ...              relationships=source, embedding=[1.0])
        ...     for start, text in texts.items()
        ... ]
        >>> vector_store, docstore = SimpleVectorStore(), SimpleDocumentStore()
        >>> vector_store.add(children)
        ['a-0', 'a-3']
        >>> docstore.add_documents(children)
        >>> SiblingLookup(vector_store, docstore).find(children[1:]).parents["p"].text
        '你好。再见。'
    """

    vector_store: BasePydanticVectorStore
    docstore: BaseDocumentStore | None = None

    def __post_init__(self) -> None:
        _check_vector_store(self.vector_store)
        if self.docstore is not None and not isinstance(self.docstore, BaseDocumentStore):
            raise OptionError(f"docstore={self.docstore!r} is no docstore; pass index.docstore, or leave it out")
        name = type(self.vector_store).__name__
        if returns_rows(self.vector_store):
            return
        if not finds_ids(self.vector_store):
            raise OptionError(f"{name} cannot be asked for rows by their metadata; use SourceSliceLookup(docstore)")
        if self.docstore is None:
            raise OptionError(
                f"{name} keeps no texts; pass docstore=index.docstore, or use SourceSliceLookup(docstore)"
            )

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan."""
        wanted = one_of_each(children_among(children))
        families: dict[ParentRef, list[BaseNode]] = {ref: [] for ref in wanted}
        for page in pages(list(dict.fromkeys(ref.parent_id for ref in wanted)), MAX_ASKED):
            rows: list[BaseNode] = yield self._siblings(page)
            for row in children_among(rows):
                if row.parent in wanted and row.document_id == wanted[row.parent].document_id:
                    families[row.parent].append(row.node)
        united = (_unite(wanted[ref], family) for ref, family in families.items())
        return Found({parent.node_id: parent for parent in united if parent is not None})

    def _siblings(self, parent_ids: Sequence[str]) -> Call:
        if returns_rows(self.vector_store):
            return rows_with(self.vector_store, PARENT_KEYS[0], parent_ids)
        return Call(partial(self._siblings_in_docstore, parent_ids))

    def _siblings_in_docstore(self, parent_ids: Sequence[str]) -> list[BaseNode]:
        row_ids = ids_with(self.vector_store, PARENT_KEYS[0], parent_ids)
        return self.docstore.get_nodes(row_ids, raise_error=False) if self.docstore else []


@dataclass(frozen=True)
class StoredParentLookup(Lookup):
    """Fetches parents that were stored whole, under their ids: as nodes in a docstore, or as rows of a vector store.

    That is where `AutoMergingRetriever` looks for them too. A stored parent counts only if its text has the hash that
    the child carries; otherwise the child stands for itself. It keeps the metadata it was stored with.

    Args:
        store: holds the parents.

    Raises:
        OptionError: the store is neither kind, or a vector store that returns no rows.

    Example:
        >>> from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index_chunking_plus.core.spans import Span
        >>> store = SimpleDocumentStore()
        >>> store.add_documents([TextNode(id_="p", text="你好。再见。")])
        >>> metadata = ParentRef("p", Span(0, 6), text_hash("你好。再见。")).to_metadata()
        >>> source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")}
        >>> child = TextNode(text="再见。", metadata=metadata, relationships=source)
        >>> StoredParentLookup(store).find([child]).parents["p"].text
        '你好。再见。'
    """

    store: BaseDocumentStore | BasePydanticVectorStore

    def __post_init__(self) -> None:
        if isinstance(self.store, BaseDocumentStore):
            return
        _check_vector_store(self.store)
        if not returns_rows(self.store):
            raise OptionError(f"{type(self.store).__name__} returns no rows; keep the parents in a docstore")

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan."""
        wanted = one_of_each(children_among(children))
        stored: dict[str, BaseNode] = {}
        for page in pages(list(dict.fromkeys(ref.parent_id for ref in wanted)), MAX_ASKED):
            stored.update({node.node_id: node for node in (yield self._ask(page))})
        parents: dict[str, TextNode] = {}
        for ref, child in wanted.items():
            node = stored.get(ref.parent_id)
            text = "" if node is None else node.get_content(MetadataMode.NONE)
            if node is not None and text_hash(text) == ref.hash:
                parents[ref.parent_id] = make_parent(child, text, node)
        return Found(parents)

    def _ask(self, parent_ids: Sequence[str]) -> Call:
        if isinstance(self.store, BaseDocumentStore):
            return Call(partial(self.store.get_nodes, list(parent_ids), raise_error=False))
        return rows_by_id(self.store, parent_ids)


def _unite(child: Child, family: Sequence[BaseNode]) -> TextNode | None:
    """The parent of these children; None unless their text is exactly what it was made of."""
    text = _join(child.parent, family)
    if text is None or text_hash(text) != child.parent.hash:
        return None
    first, *others = family
    shared = {
        key: value
        for key, value in first.metadata.items()
        if key not in OF_CHILDREN and all(key in each.metadata and each.metadata[key] == value for each in others)
    }
    return make_parent(child, text, first, {**shared, **section_of(family)})


def _join(ref: ParentRef, family: Iterable[BaseNode]) -> str | None:
    """The texts of the children one after another, what overlaps once; None if they leave a gap."""
    starts = ((getattr(child, "start_char_idx", None), child.get_content(MetadataMode.NONE)) for child in family)
    pieces, cursor = [], ref.span.start
    for start, text in sorted((start, text) for start, text in starts if start is not None):
        if start > cursor:
            return None
        pieces.append(text[cursor - start :])
        cursor = max(cursor, start + len(text))
    return "".join(pieces) if cursor == ref.span.end else None


def _check_vector_store(store: object) -> None:
    if not isinstance(store, BasePydanticVectorStore):
        raise OptionError(f"{store!r} is no vector store; pass the one that holds the children, or index.vector_store")
