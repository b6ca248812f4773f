"""Parents as slices of their documents: nothing is stored for them, and nothing can be stale."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal, get_args

from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from llama_index_chunking_plus.core.pages import PageMap, without_pages
from llama_index_chunking_plus.core.parents import ParentRef
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError, StaleChildError
from llama_index_chunking_plus.storage.parents import (
    Child,
    Found,
    Lookup,
    ParentLookup,
    children_among,
    make_parent,
    section_of,
)

Stale = Literal["drop", "child", "error"]

_SAMPLE = 16  # entries of a docstore that are read to see whether it holds texts at all


@dataclass(frozen=True)
class SourceSliceLookup(Lookup):
    """Cuts parents out of the documents in a docstore, as `sync_documents` and `IngestionPipeline(docstore=...)` keep.

    A slice counts only if it has the hash that the child carries. If not, a child whose own text still stands at its
    own range is good by itself; one whose text is gone from there, if only because text ahead of it was added, or whose
    document is gone, is stale. One warning per lookup.

    A docstore that holds no texts of documents (`VectorStoreIndex.from_documents`, ``store_doc_text=False``, nodes
    that were split before) can vouch for nothing: a warning says so, and the fallback is asked. It is asked as well
    for documents that this docstore does not know, so that lookups over several docstores make a chain.

    Args:
        docstore: holds the documents under the ids that the children name as their SOURCE.
        stale: what becomes of a child whose text is gone from its range: it is reported to be dropped, kept as it is,
            or an error.
        fallback: is asked for the parents in documents that this docstore has no text of; its own rules hold there.

    Raises:
        OptionError: an argument is none of these.

    Example:
        >>> from llama_index.core import Document
        >>> from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index_chunking_plus.core.parents import ParentRef, text_hash
        >>> from llama_index_chunking_plus.core.spans import Span
        >>> docstore = SimpleDocumentStore()
        >>> docstore.add_documents([Document(id_="a", text="你好。再见。")])
        >>> ref = ParentRef("p", Span(0, 6), text_hash("你好。再见。"))
        >>> source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")}
        >>> child = TextNode(text="再见。", metadata=ref.to_metadata(), relationships=source)
        >>> SourceSliceLookup(docstore).find([child]).parents["p"].text
        '你好。再见。'
    """

    docstore: BaseDocumentStore
    stale: Stale = "drop"
    fallback: ParentLookup | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.docstore, BaseDocumentStore):
            raise OptionError(f"docstore={self.docstore!r} is no docstore; pass index.docstore, or load_docstore(dir)")
        if self.stale not in get_args(Stale):
            raise OptionError(f"stale={self.stale!r} is none of 'drop', 'child', 'error'")
        if self.fallback is not None and not isinstance(self.fallback, ParentLookup):
            raise OptionError(f"fallback={self.fallback!r} is no lookup of parents; pass SiblingLookup(...), say")

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan.

        Raises:
            StaleChildError: a child's text is gone, and ``stale="error"``.
        """
        kin = children_among(children)
        wanted = list(dict.fromkeys(child.document_id for child in kin))
        if not wanted:
            return Found()
        documents: dict[str, BaseNode] = yield Call(partial(_fetch, self.docstore, wanted))
        verdict = _judge([child for child in kin if child.document_id in documents], documents)
        homeless = [child for child in kin if child.document_id not in documents]
        elsewhere = (yield from self._look_elsewhere(homeless, verdict, bool(documents))) if homeless else Found()
        return self._conclude(verdict, len(kin)) | elsewhere

    def _look_elsewhere(self, homeless: Sequence[Child], verdict: _Verdict, holds_texts: bool) -> Plan[Found]:
        """Ask the fallback for children whose documents have no text here; without one, a lost document is gone."""
        lost = yield Call(partial(_lost, self.docstore, {child.document_id for child in homeless}, holds_texts))
        unread = sum(child.document_id not in lost for child in homeless)
        if unread:
            then = "stand for themselves" if self.fallback is None else "are left to the fallback"
            _warn(
                f"The docstore holds no text of the documents of {unread} children, which {then}. Ingest whole "
                "documents with sync_documents or IngestionPipeline(docstore=...) and load that docstore, or look "
                "parents up in the vector store with SiblingLookup."
            )
        if self.fallback is not None:
            return (yield from self.fallback.plan([child.node for child in homeless]))
        verdict.gone.extend(child.node.node_id for child in homeless if child.document_id in lost)
        return Found()

    def _conclude(self, verdict: _Verdict, n_children: int) -> Found:
        gone, outdated = verdict.gone, len(verdict.gone) + len(verdict.standing)
        if gone and self.stale == "error":
            raise StaleChildError(
                f"the text of {len(gone)} of {n_children} children is gone from its place in their documents, the "
                f"first is {gone[0]!r}; run sync_documents to renew the vector store, or pass stale='drop'"
            )
        if outdated:
            fate = "dropped" if self.stale == "drop" else "kept as they are"
            _warn(
                f"{outdated} of {n_children} children no longer agree with their documents: {len(gone)} whose text is "
                f"gone from its place are {fate}, {len(verdict.standing)} whose parent changed stand for themselves. "
                "Run sync_documents to renew the vector store."
            )
        stale = frozenset(gone if self.stale == "drop" else ())
        return Found(verdict.parents, stale, outdated, frozenset([*gone, *verdict.standing]) - stale)


@dataclass
class _Verdict:
    """What the documents say of the children."""

    parents: dict[str, TextNode] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)


def _judge(children: Sequence[Child], documents: Mapping[str, BaseNode]) -> _Verdict:
    verdict = _Verdict()
    families: dict[ParentRef, list[Child]] = {}
    texts = {key: document.get_content(MetadataMode.NONE) for key, document in documents.items()}
    is_current = cache(lambda document_id, ref: ref.is_slice_of(texts[document_id]))
    for child in children:
        text, ref = texts[child.document_id], child.parent
        if is_current(child.document_id, ref):
            families.setdefault(ref, []).append(child)
        elif _still_stands(child.node, text):
            verdict.standing.append(child.node.node_id)
        else:
            verdict.gone.append(child.node.node_id)
    for ref, (child, *others) in families.items():
        document = documents[child.document_id]
        section = section_of([child.node, *(other.node for other in others)])
        text = ref.span.of(texts[child.document_id])
        if ref.parent_id not in verdict.parents:
            metadata = {**_of_slice(document.metadata, text, ref.span.start), **section}
            verdict.parents[ref.parent_id] = make_parent(child, text, document, metadata)
    return verdict


def _of_slice(metadata: Mapping[str, Any], text: str, start: int) -> Mapping[str, Any]:
    """A document's metadata for a part of it: of its pages, the part's own."""
    pages = PageMap.from_metadata(metadata)
    if pages is None:
        return metadata
    return {**{key: metadata[key] for key in without_pages(metadata)}, **pages.describe(text, start)}


def _still_stands(child: BaseNode, text: str) -> bool:
    start, end = getattr(child, "start_char_idx", None), getattr(child, "end_char_idx", None)
    return None not in (start, end) and text[start:end] == child.get_content(MetadataMode.NONE)


def _fetch(docstore: BaseDocumentStore, document_ids: list[str]) -> dict[str, BaseNode]:
    return {node.node_id: node for node in docstore.get_nodes(document_ids, raise_error=False)}


def _lost(docstore: BaseDocumentStore, document_ids: Collection[str], holds_texts: bool) -> set[str]:
    """The documents that a docstore of texts knows nothing of, not even a hash or a node: it once had them, or never.

    A docstore without any text, an empty one too, has lost none: there is nothing to learn from it.
    """
    unknown = {
        each
        for each in document_ids
        if docstore.get_document_hash(each) is None and docstore.get_ref_doc_info(each) is None
    }
    if unknown and not holds_texts:
        sample = list(docstore.get_all_document_hashes().values())[:_SAMPLE]
        holds_texts = any(node.ref_doc_id is None for node in docstore.get_nodes(sample, raise_error=False))
    return unknown if holds_texts else set()


def _warn(message: str) -> None:
    warnings.warn(message, ChunkingPlusWarning, stacklevel=3)
