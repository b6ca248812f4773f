"""One version of each document: the newest, or a pinned one; among the hits, or ahead of the retrieval."""

from __future__ import annotations

import logging
import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, Document, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from typing_extensions import Self

from llama_index_chunking_plus.core.options import is_collection, is_filled_text
from llama_index_chunking_plus.core.versions import Edition, EditionRule, OrderBy, Version, read_version
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.ingestion.document_metadata import DocumentMetadataTransform
from llama_index_chunking_plus.node_parser.options import CheckedOptions
from llama_index_chunking_plus.postprocessor.passages import with_hidden

logger = logging.getLogger(__name__)

HIDDEN_KEY = "hidden_versions"  # metadata of a returned node: the versions of its document that were left out

_DOCUMENT_KEYS, _DATE_KEYS = ("document", "title"), ("date", "updated_at")
_UNVERSIONED = Version((-1,))
_SHOWN = 5
_NO_DOCUMENT = "chunking-plus/no-such-document"  # no store takes an empty list


class LatestVersionPostprocessor(CheckedOptions, BaseNodePostprocessor):
    """Keeps of each document the hits of its newest version, or of a pinned one; the order stays.

    Versions of one document have the same name in their metadata, or titles that differ only in their own version:
    制度_v1, 制度_v2. What has no name is a document of its own. Hits without a version stay, unless another hit of
    their document has one. Versions are compared as PEP 440 and SemVer do, dates and Chinese editions (第3版, 试行) as
    one reads them; equal ones may be written differently: "v2.0" is "2.0.0". What cannot be read is older than all
    that can, and named in one warning.

    A postprocessor sees the hits alone: where the newest version has none, an older one passes for the newest. Give the
    retriever `latest_version_filters` to rule that out. The metadata of a returned node lists in ``hidden_versions``,
    newest first, what was left out of its document, "" for hits without a version; embedder and model do not see it.

    Args:
        version: the version, or the date, to return instead of the newest; documents without any are returned as well.
        order_by: "version", "date", or "auto": by version if any hit of the document has one, else by date.
        document_key: metadata keys that name the document, the first that has a value.
        version_key: metadata keys of the version.
        date_key: metadata keys of the date, year first.
        file_pattern: a regular expression with the group ``document``, and ``version`` if wanted, that is searched in
            the file name (``file_name``, else ``file_path``); where it is found, it counts more than the metadata.

    Raises:
        ValueError: there are no keys, or an empty one; the pattern is no regular expression, or names no ``document``;
            ``version`` is no version.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> hits = [
        ...     NodeWithScore(node=TextNode(text=text, metadata={"document": "手册", "version": version}), score=0.9)
        ...     for text, version in [("保修一年。", "1.9"), ("保修两年。", "v1.10")]
        ... ]
        >>> newest, = LatestVersionPostprocessor().postprocess_nodes(hits)
        >>> newest.text, newest.metadata["hidden_versions"]
        ('保修两年。', ['1.9'])
        >>> [hit.text for hit in LatestVersionPostprocessor(version="1.9.0").postprocess_nodes(hits)]
        ['保修一年。']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    version: str | None = Field(default=None, frozen=True, description="The version to return; None: the newest.")
    order_by: OrderBy = Field(default="auto", frozen=True, description="What makes a version the newest.")
    document_key: tuple[str, ...] = Field(
        default=_DOCUMENT_KEYS, frozen=True, description="Metadata that names the document, the first found."
    )
    version_key: tuple[str, ...] = Field(default=("version",), frozen=True, description="Metadata with the version.")
    date_key: tuple[str, ...] = Field(default=_DATE_KEYS, frozen=True, description="Metadata with the date.")
    file_pattern: str | None = Field(default=None, frozen=True, description="Finds document and version in file names.")

    @field_validator("document_key", "version_key", "date_key", mode="before")
    @classmethod
    def _as_keys(cls, value: Any, info: ValidationInfo) -> Any:
        return _keys(str(info.field_name), value)

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        _ = self._rule
        return self

    @classmethod
    def class_name(cls) -> str:
        """The name under which the postprocessor is serialised."""
        return "ChunkingPlusLatestVersionPostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002  the newest version does not depend on the query
    ) -> list[NodeWithScore]:
        rule = self._rule
        editions = [_edition(rule, each.node) for each in nodes]
        current = rule.current(editions)
        _warn_about(rule.unreadable(editions))
        hidden = _hidden(rule, editions, current)
        logger.debug("%d of %d hits are of other versions and left out.", current.count(False), len(nodes))
        kept = (pair for pair, is_current in zip(zip(nodes, editions, strict=True), current, strict=True) if is_current)
        return [_told(scored, hidden.get(edition.document, [])) for scored, edition in kept]

    @property
    def _rule(self) -> EditionRule:
        return EditionRule(
            document_key=self.document_key,
            version_key=self.version_key,
            date_key=self.date_key,
            file_pattern=self.file_pattern,
            order_by=self.order_by,
            pinned=self.version,
        )


def latest_version_filters(
    documents: Iterable[BaseNode] | BaseDocumentStore,
    filters: MetadataFilters | None = None,
    *,
    version: str | None = None,
    order_by: OrderBy = "auto",
    document_key: str | tuple[str, ...] = _DOCUMENT_KEYS,
    version_key: str | tuple[str, ...] = ("version",),
    date_key: str | tuple[str, ...] = _DATE_KEYS,
    file_pattern: str | None = None,
    exclude: bool = False,
    id_key: str = "doc_id",
) -> MetadataFilters:
    """Filters that let a retriever find the newest version of each document only, or the pinned one.

    The versions are compared here, over the whole corpus, those of documents without metadata as
    `DocumentMetadataTransform` reads them; the store is given the ids of the documents that are current, in one flat
    condition. So make new filters after each change of the corpus. Chroma takes about 32,000 ids in a question.

    Args:
        documents: the corpus: documents, or nodes, or a docstore that holds them (`load_docstore`).
        filters: conditions of your own that are to hold as well. Those joined by "or" or "not" are nested, which
            LlamaIndex's `SimpleVectorStore` does not take.
        version: as for `LatestVersionPostprocessor`, and so are the options up to ``file_pattern``.
        order_by: what makes a version the newest.
        document_key: metadata keys that name the document.
        version_key: metadata keys of the version.
        date_key: metadata keys of the date.
        file_pattern: finds document and version in file names.
        exclude: name those that are not current instead, where they are few; rows of other documents are found, too.
        id_key: the key under which the store keeps the id of a row's document.

    Raises:
        ValueError: as for `LatestVersionPostprocessor`, and for an argument of another kind.

    Warns:
        ChunkingPlusWarning: no document has a version or a date; none has the one that is pinned; some cannot be read.

    Example:
        >>> from llama_index.core import Document
        >>> metadata = [{"title": "手册", "version": number} for number in ("1.9", "1.10", "2.0-beta1")]
        >>> documents = [Document(id_=f"{one['version']}.md", text="…", metadata=one) for one in metadata]
        >>> latest_version_filters(documents).filters[0].value
        ['2.0-beta1.md']
        >>> latest_version_filters(documents, version="v1.9").filters[0].value
        ['1.9.md']
    """
    _check_filter_options(filters, exclude, id_key)
    rule = EditionRule(
        document_key=_keys("document_key", document_key),
        version_key=_keys("version_key", version_key),
        date_key=_keys("date_key", date_key),
        file_pattern=file_pattern,
        order_by=order_by,
        pinned=version,
    )
    named = [owner for owner, current in _current_documents(rule, documents).items() if current is not exclude]
    operator = FilterOperator.NIN if exclude else FilterOperator.IN
    return _joined(filters, MetadataFilter(key=id_key, value=named or [_NO_DOCUMENT], operator=operator))


def _check_filter_options(filters: object, exclude: object, id_key: object) -> None:
    if filters is not None and not isinstance(filters, MetadataFilters):
        raise OptionError(f"filters={reprlib.repr(filters)} is no MetadataFilters; pass MetadataFilters(...), or None")
    if not isinstance(exclude, bool):
        raise OptionError(f"exclude={exclude!r} is neither True nor False; pass one of them")
    if not is_filled_text(id_key):
        raise OptionError(f"id_key={id_key!r} is no name; pass the metadata key that holds the id of the document")


def _current_documents(rule: EditionRule, documents: Iterable[BaseNode] | BaseDocumentStore) -> dict[str, bool]:
    """By id of each document whether any of it is current."""
    nodes = _nodes(documents)
    editions = _editions(rule, nodes)
    _warn_about(rule.unreadable(editions), stacklevel=4)
    _warn_of_nothing(rule, rule.ranks(editions))
    is_current: dict[str, bool] = {}
    for node, current in zip(nodes, rule.current(editions), strict=True):
        owner = _document_id(node)
        is_current[owner] = is_current.get(owner, False) or current
    return is_current


def _nodes(documents: Iterable[BaseNode] | BaseDocumentStore) -> list[BaseNode]:
    if isinstance(documents, BaseDocumentStore):
        return list(documents.docs.values())
    nodes: list[Any] = list(documents) if is_collection(documents) else [None]
    if not all(isinstance(node, BaseNode) for node in nodes):
        raise OptionError(
            f"documents={reprlib.repr(documents)} is no list of documents; pass a list, or load_docstore(...)"
        )
    return nodes


def _editions(rule: EditionRule, nodes: Sequence[BaseNode]) -> list[Edition]:
    """The editions; of documents whose metadata does not say enough, as they themselves say."""
    editions = [_edition(rule, node) for node in nodes]
    silent = [
        place
        for place, (node, edition) in enumerate(zip(nodes, editions, strict=True))
        if isinstance(node, Document) and not _is_known(rule, edition, _document_id(node))
    ]
    read = DocumentMetadataTransform()([nodes[place] for place in silent])
    for place, document in zip(silent, read, strict=True):
        editions[place] = _edition(rule, document)
    return editions


def _is_known(rule: EditionRule, edition: Edition, own_id: str) -> bool:
    decisive = edition.date if rule.order_by == "date" else edition.version
    return decisive is not None and edition.document != rule.edition({}, own_id).document


def _warn_of_nothing(rule: EditionRule, ranks: Sequence[Version | None]) -> None:
    """A warning if nothing could be compared, or nothing is what was pinned."""
    known = {rank: rank.text for rank in sorted(rank for rank in ranks if rank is not None)}
    message = ""
    if ranks and not known:
        message = (
            f"None of {len(ranks)} documents has a version or date to go by, so all of them are current. Write it "
            "into their metadata, front matter, title or file name."
        )
    elif known and rule.pinned is not None and read_version(rule.pinned) not in known:
        newest = ", ".join([*reversed(known.values())][:_SHOWN])
        message = f"No document has the version {rule.pinned!r}; the newest versions are {newest}. Pin one of these."
    if message:
        warnings.warn(message, ChunkingPlusWarning, stacklevel=4)


def _keys(name: str, value: object) -> tuple[str, ...]:
    keys = (value,) if isinstance(value, str) else value
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise OptionError(f"{name}={value!r} is no name; give the metadata key to read, or a list of such")
    return tuple(keys)


def _document_id(node: BaseNode) -> str:
    return node.ref_doc_id or node.node_id


def _edition(rule: EditionRule, node: BaseNode) -> Edition:
    return rule.edition(node.metadata, _document_id(node))


def _joined(filters: MetadataFilters | None, own: MetadataFilter) -> MetadataFilters:
    """Both; flat wherever that says the same."""
    if filters is None or not filters.filters:
        return MetadataFilters(filters=[own])
    is_flat = filters.condition in (None, FilterCondition.AND) or (
        filters.condition == FilterCondition.OR and len(filters.filters) == 1
    )
    return MetadataFilters(filters=[*(filters.filters if is_flat else [filters]), own])


def _hidden(rule: EditionRule, editions: Sequence[Edition], current: Sequence[bool]) -> Mapping[Any, list[str]]:
    """By document the versions that are not current, newest first, as they are written."""
    pairs = zip(editions, rule.ranks(editions), current, strict=True)
    ranked = [(rank or _UNVERSIONED, edition.document) for edition, rank, is_current in pairs if not is_current]
    hidden: dict[Any, dict[str, None]] = {}
    for rank, document in sorted(ranked, key=lambda each: each[0], reverse=True):
        hidden.setdefault(document, {})[rank.text] = None
    return {document: [*texts] for document, texts in hidden.items()}


def _told(scored: NodeWithScore, hidden: Sequence[str]) -> NodeWithScore:
    """The hit with what was hidden beside it; the hit itself if nothing was."""
    if not hidden:
        return scored
    node = scored.node
    told = [*dict.fromkeys([*node.metadata.get(HIDDEN_KEY, []), *hidden])]
    return NodeWithScore(node=with_hidden(node, {**node.metadata, HIDDEN_KEY: told}, HIDDEN_KEY), score=scored.score)


def _warn_about(unreadable: Sequence[str], stacklevel: int = 3) -> None:
    if unreadable:
        shown = ", ".join(map(repr, unreadable[:_SHOWN])) + (", ..." if len(unreadable) > _SHOWN else "")
        warnings.warn(
            f"{len(unreadable)} versions cannot be read and count as older than all that can: {shown}. Write them as "
            "numbers (2.1, 2.1-rc1, 第3版) or dates (2024-03-15), or name other metadata: version_key=, date_key=.",
            ChunkingPlusWarning,
            stacklevel=stacklevel,
        )
