"""From child nodes to their parents, whatever stores there are: the protocol, and what all lookups share.

A lookup never returns a parent that its children do not vouch for: the text must have the hash that they carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode

from llama_index_chunking_plus.core.headers import HEADER_KEY
from llama_index_chunking_plus.core.pages import PAGE_KEYS
from llama_index_chunking_plus.core.parents import PARENT_KEYS, ParentRef
from llama_index_chunking_plus.core.plan import Plan, arun, run
from llama_index_chunking_plus.core.sections import (
    GOES_ON_KEY,
    LEAD_KEY,
    PARENT_PREFIX,
    SECTION_KEYS,
    TAIL_KEY,
    closing_template,
)

OF_CHILDREN = frozenset([*PARENT_KEYS, *SECTION_KEYS, *(f"{PARENT_PREFIX}{key}" for key in SECTION_KEYS)])
_TEMPLATES = ("metadata_separator", "metadata_template", "text_template")
_EXCLUSIONS = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")


@dataclass(frozen=True)
class Found:
    """What a lookup found for some children.

    Args:
        parents: a node for each parent that is current, by parent id: exact text and range, SOURCE, the document's
            metadata, exclusions and templates, and what all its children say of its section (headings, lead, lines);
            new in every lookup, so that callers may change them.
        stale: ids of the children whose text is gone from their document. A child that is in neither (its parent
            changed, but its own text still stands; or nothing is known) is still good by itself.
        alone: ids of the children whose parent is known to have changed, and that stand for themselves: no other lookup
            is asked for it, which could only know the parent that it once was.
        outdated: how many children no longer agree with their document: stale or kept by ``stale="child"``, or their
            own text stands and their parent's does not.

    Example:
        >>> Found() | Found(stale=frozenset({"c"}), outdated=1)
        Found(parents={}, stale=frozenset({'c'}), outdated=1, alone=frozenset())
    """

    parents: Mapping[str, TextNode] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    outdated: int = 0
    alone: frozenset[str] = frozenset()

    def __or__(self, other: Found) -> Found:
        return Found(
            {**other.parents, **self.parents},
            self.stale | other.stale,
            self.outdated + other.outdated,
            self.alone | other.alone,
        )


@runtime_checkable
class ParentLookup(Protocol):
    """Finds the parents of children: one fetch for all of them, only what is needed."""

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan: `core.plan.run` and `core.plan.arun` carry it out."""
        ...


class Lookup:
    """A `ParentLookup` that can be called: sync and async, one plan."""

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan."""
        raise NotImplementedError

    def find(self, children: Sequence[BaseNode]) -> Found:
        """The parents of these children; nodes without parent information are passed over."""
        return run(self.plan(children))

    async def afind(self, children: Sequence[BaseNode]) -> Found:
        """`find`, awaited; the event loop stays free."""
        return await arun(self.plan(children))


class Child(NamedTuple):
    """A node that knows its document and its parent."""

    node: BaseNode
    document_id: str
    parent: ParentRef


def children_among(nodes: Iterable[BaseNode]) -> list[Child]:
    """The nodes that know their document and their parent, in order."""
    parents = ((node, node.ref_doc_id, ParentRef.from_metadata(node.metadata)) for node in nodes)
    return [Child(node, document, parent) for node, document, parent in parents if document and parent]


def one_of_each(children: Iterable[Child]) -> dict[ParentRef, Child]:
    """Each parent once, with the first child that names it."""
    first: dict[ParentRef, Child] = {}
    for child in children:
        first.setdefault(child.parent, child)
    return first


def section_of(children: Sequence[BaseNode]) -> dict[str, Any]:
    """What all children of a parent say of it as a part of its document: its header, headings, lead and lines.

    A child that has headings of its own says so of its parent under keys of their own.
    """
    told = [_told(child.metadata) for child in children]
    return {key: value for key, value in told[0].items() if all(other.get(key) == value for other in told)}


def _told(metadata: Mapping[str, Any]) -> dict[str, Any]:
    told = {key: metadata.get(f"{PARENT_PREFIX}{key}", metadata.get(key, "")) for key in (HEADER_KEY, *SECTION_KEYS)}
    return {key: value for key, value in told.items() if value != ""}


def make_parent(child: Child, text: str, like: BaseNode, metadata: Mapping[str, Any] | None = None) -> TextNode:
    """The parent as a new node.

    Args:
        child: says which document it comes from, its id and its range.
        text: its text.
        like: whose exclusions and templates it takes.
        metadata: its own, which then says nothing of a parent; by default that of ``like``. What it says of its section
            is hidden where the child hides it; with a header, what the child's header hides.
    """
    own = like.metadata if metadata is None else metadata
    looks = {name: getattr(like, name) for name in _TEMPLATES if hasattr(like, name)}
    if "text_template" in looks:
        looks["text_template"] = closing_template(looks["text_template"], text, str(own.get(TAIL_KEY, "")))
    hidden = {name: _excluded(getattr(like, name), getattr(child.node, name), own) for name in _EXCLUSIONS}
    if HEADER_KEY in own:
        own = {HEADER_KEY: own[HEADER_KEY], **own}
        looks["metadata_template"] = getattr(child.node, "metadata_template", looks.get("metadata_template"))
        hidden = {name: _beside_header(getattr(child.node, name), own) for name in _EXCLUSIONS}
    source = child.node.source_node
    slim = source and RelatedNodeInfo(node_id=source.node_id, node_type=source.node_type, hash=source.hash)
    return TextNode(
        id_=child.parent.parent_id,
        text=text,
        start_char_idx=child.parent.span.start,
        end_char_idx=child.parent.span.end,
        metadata=deepcopy(dict(own)),
        relationships={NodeRelationship.SOURCE: slim} if slim else {},
        **looks,
        **hidden,
    )


def _beside_header(by_child: Sequence[str], own: Mapping[str, Any]) -> list[str]:
    """What is hidden of a parent with a header: all but header, lead and what goes on, or what the child hides."""
    return [key for key in own if key not in {HEADER_KEY, LEAD_KEY, GOES_ON_KEY} or key in by_child]


def _excluded(alike: Sequence[str], by_child: Sequence[str], own: Mapping[str, Any]) -> list[str]:
    """What is hidden of the parent: what ``like`` hides, and of what it says of its section what the child hides."""
    of_section = (key for key in by_child if key in {*SECTION_KEYS, *PAGE_KEYS} and key in own)
    kept = (key for key in alike if key in own or key not in OF_CHILDREN)
    return [*dict.fromkeys([*kept, *of_section])]
