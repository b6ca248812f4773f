"""From child nodes to their parents, whatever stores there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from llama_index.core.schema import BaseNode, TextNode

from llama_index_chunking_plus.core.plan import Plan


@dataclass(frozen=True)
class Found:
    """What a lookup found for some children.

    Args:
        parents: a node for each parent that is current, by parent id: exact text and range, SOURCE, the document's
            metadata, exclusions and templates; new in every lookup, so that callers may change them.
        stale: ids of the children whose text is gone from their document. A child that is in neither (its parent
            changed, but its own text still stands; or nothing is known) is still good by itself.
    """

    parents: Mapping[str, TextNode] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()


class ParentLookup(Protocol):
    """Finds the parents of children: one fetch for all of them, only what is needed."""

    def plan(self, children: Sequence[BaseNode]) -> Plan[Found]:
        """The search, as a plan: `core.plan.run` and `core.plan.arun` carry it out."""
        ...
