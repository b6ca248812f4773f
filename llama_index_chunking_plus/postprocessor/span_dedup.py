"""Results that say nothing twice."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_chunking_plus.core.ranking import Passage, drop_repeats
from llama_index_chunking_plus.node_parser.options import CheckedOptions
from llama_index_chunking_plus.postprocessor.passages import span_of, text_of


class SpanDedupPostprocessor(CheckedOptions, BaseNodePostprocessor):
    """Drops what the other results say already, whatever parsers, levels and retrievers they come from.

    Out goes a node of which more than ``max_overlap`` stands in better ones of its document. A node that holds a better
    one whole stays instead, with the better one's place and score. Nodes without a range, or with one that cannot be
    right, are compared by text. The order is kept, and nodes that stay are returned as they are.

    Args:
        max_overlap: the largest share of its characters, 0 to 1, that a node may have in common with better ones; 1
            drops only what stands in them completely.

    Raises:
        ValueError: max_overlap is outside 0 to 1.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> source = {"1": {"node_id": "a"}}  # NodeRelationship.SOURCE
        >>> whole = TextNode(text="今天下雨。我们不去了。", start_char_idx=0, end_char_idx=11, relationships=source)
        >>> piece = TextNode(text="今天下雨。", start_char_idx=0, end_char_idx=5, relationships=source)
        >>> scored = [NodeWithScore(node=whole, score=0.9), NodeWithScore(node=piece, score=0.8)]
        >>> [each.text for each in SpanDedupPostprocessor().postprocess_nodes(scored)]
        ['今天下雨。我们不去了。']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    max_overlap: float = Field(default=0.5, ge=0, le=1, frozen=True, description="Largest share in common.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the postprocessor is serialised."""
        return "ChunkingPlusSpanDedupPostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002  scores say what the query had to say
    ) -> list[NodeWithScore]:
        kept = drop_repeats([_passage(scored, position) for position, scored in enumerate(nodes)], self.max_overlap)
        return [_returned(passage, nodes) for passage in kept]


def _passage(scored: NodeWithScore, position: int) -> Passage:
    span = span_of(scored.node)
    return Passage(text_of(scored.node), scored.score, (position,), scored.node.ref_doc_id, span and span.start)


def _returned(passage: Passage, nodes: Sequence[NodeWithScore]) -> NodeWithScore:
    own = nodes[passage.parts[0]]
    return own if own.score == passage.score else NodeWithScore(node=own.node, score=passage.score)
