"""Where nodes stand in their documents, whatever made them: where their offsets say, if that is true, else by text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llama_index.core.schema import BaseNode, MetadataMode

from llama_index_chunking_plus.core.align import align, left_out
from llama_index_chunking_plus.core.parents import ParentRef, WindowRef
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.evaluation.dataset import Places
from llama_index_chunking_plus.evaluation.intervals import length
from llama_index_chunking_plus.evaluation.measures import Located
from llama_index_chunking_plus.evaluation.results import Alignment

_LONGEST_KEPT = 100_000  # places that are remembered


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a parser stand.

    Args:
        places: one for each node, None for those that stand nowhere.
        alignment: how they were found.
    """

    places: tuple[Located | None, ...]
    alignment: Alignment


def place_nodes(nodes: Sequence[BaseNode], texts: Mapping[str, str]) -> Placement:
    """The place of each node: where its offsets say if that is its text, else where its text stands, in order.

    A node that names none of the documents is of the only one, or of one that holds its text: of several that do, the
    one where its offsets are true, or that of the node before it.

    Args:
        nodes: those of a parser, each document's in order.
        texts: the text of each document by its id.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> node = TextNode(text="乙 丙", relationships={"1": {"node_id": "a"}})  # SOURCE
        >>> place_nodes([node], {"a": "甲。乙\\n丙。"}).places
        (Located(document_id='a', span=Span(start=2, end=6)),)
    """
    owners = _owners(nodes, texts)
    by_document: defaultdict[str, list[int]] = defaultdict(list)
    for position, owner in enumerate(owners):
        if owner is not None:
            by_document[owner].append(position)
    found: list[Located | None] = [None] * len(nodes)
    n_exact = 0
    for owner, positions in by_document.items():
        told = [_told(nodes[position], texts[owner]) for position in positions]
        n_exact += sum(span is not None for span in told)
        spans = _completed(told, [nodes[position] for position in positions], texts[owner])
        for position, span in zip(positions, spans, strict=True):
            found[position] = None if span is None else Located(owner, span)
    n_lost = found.count(None)
    alignment = Alignment(n_exact, len(nodes) - n_exact - n_lost, n_lost, _left_out(found, texts))
    return Placement(tuple(found), alignment)


def _owners(nodes: Sequence[BaseNode], texts: Mapping[str, str]) -> list[str | None]:
    holders = _Holders(texts)
    owners: list[str | None] = []
    for node in nodes:
        owners.append(_owner(node, texts) or holders.of(node, before=owners[-1] if owners else None))
    return owners


def _owner(node: BaseNode, texts: Mapping[str, str]) -> str | None:
    """The document of a node: its source, or itself."""
    return next((name for name in (node.ref_doc_id, node.node_id) if name in texts), None)


class _Holders:
    """The documents of nodes that name none of them, by their text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._places: dict[str, Places] = {}

    def places(self, name: str) -> Places:
        """Where quotes stand in a document."""
        if name not in self._places:
            self._places[name] = Places(self._texts[name])
        return self._places[name]

    def of(self, node: BaseNode, before: str | None = None) -> str | None:
        """The only document; or of those with its text that where its offsets are true, or ``before``, or the first."""
        if len(self._texts) == 1:
            return next(iter(self._texts))
        content = _content(node)
        if not content.strip():
            return None
        holding = [name for name, text in self._texts.items() if content in text]
        holding = holding or [name for name in self._texts if self.places(name).loose(content)]
        return min(holding, key=lambda name: (_told(node, self._texts[name]) is None, name != before), default=None)


def _told(node: BaseNode, text: str) -> Span | None:
    """The range that the offsets name, if the node's text stands there."""
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= len(text):
        return None
    return Span(start, end) if text[start:end] == _content(node) else None


def _completed(told: Sequence[Span | None], nodes: Sequence[BaseNode], text: str) -> Sequence[Span | None]:
    if None not in told:
        return told
    aligned = align(text, [_content(node) for node in nodes])
    return [span or other for span, other in zip(told, aligned, strict=True)]


def _left_out(places: Sequence[Located | None], texts: Mapping[str, str]) -> int:
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for place in places:
        if place is not None:
            spans[place.document_id].append(place.span)
    return sum(length(left_out(text, spans[name])) for name, text in texts.items())


def _content(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)


class Whereabouts:
    """Where single nodes stand that a retriever or a postprocessor returned; each is looked for once.

    Args:
        texts: the text of each document by its id.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> node = TextNode(text="乙", relationships={"1": {"node_id": "a"}}, start_char_idx=4)
        >>> Whereabouts({"a": "甲乙。甲乙。"}).of(node)
        Located(document_id='a', span=Span(start=4, end=5))
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._holders = _Holders(texts)
        self._known: dict[tuple[str, str, int], Span | None] = {}

    def of(self, node: BaseNode) -> Located | None:
        """The place of a node: of several places of its text, that which holds its own offset, or the nearest to it."""
        owner = _owner(node, self._texts) or self._holders.of(node)
        if owner is None:
            return None
        span = _told(node, self._texts[owner]) or self._found(owner, node)
        return None if span is None else Located(owner, span)

    def wider(self, node: BaseNode, own: Located | None) -> Located | None:
        """The parent or window that the metadata of a node names; its own place if that names none."""
        if own is None:
            return None
        text = self._texts[own.document_id]
        for reference in (ParentRef.from_metadata(node.metadata), WindowRef.from_metadata(node.metadata)):
            if reference is not None and reference.is_slice_of(text):
                return Located(own.document_id, reference.span)
        window = node.metadata.get("window")
        span = self._search(own.document_id, window, own.span.start) if isinstance(window, str) else None
        return own if span is None else Located(own.document_id, span)

    def _found(self, owner: str, node: BaseNode) -> Span | None:
        start = getattr(node, "start_char_idx", None)
        return self._search(owner, _content(node), start if isinstance(start, int) else 0)

    def _search(self, owner: str, content: str, near: int) -> Span | None:
        key = owner, content, near
        if key not in self._known:
            if len(self._known) >= _LONGEST_KEPT:
                self._known.clear()
            places = self._holders.places(owner)
            found = places.exact(content) or (places.loose(content) if content.strip() else [])
            self._known[key] = min(found, key=lambda span: _distance(span, near), default=None)
        return self._known[key]


def _distance(span: Span, position: int) -> int:
    """0 if the range holds the position, else how far it is away."""
    return max(span.start - position, position - span.end + 1, 0)
