"""LlamaIndex node parsers; one file a parser, `base` makes the nodes of all.

Names are loaded when they are first used: one parser does not need what the others need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_chunking_plus.node_parser.base import SpanNodeParser
    from llama_index_chunking_plus.node_parser.hybrid import HybridNodeParser
    from llama_index_chunking_plus.node_parser.multi_granularity import MultiGranularityNodeParser
    from llama_index_chunking_plus.node_parser.semantic import SemanticNodeParser
    from llama_index_chunking_plus.node_parser.sentence_window import ChineseSentenceWindowNodeParser
    from llama_index_chunking_plus.node_parser.sliding import SlidingWindowNodeParser
    from llama_index_chunking_plus.node_parser.small_to_big import SmallToBigNodeParser
    from llama_index_chunking_plus.node_parser.structured import StructuredMarkdownNodeParser

__all__ = [
    "ChineseSentenceWindowNodeParser",
    "HybridNodeParser",
    "MultiGranularityNodeParser",
    "SemanticNodeParser",
    "SlidingWindowNodeParser",
    "SmallToBigNodeParser",
    "SpanNodeParser",
    "StructuredMarkdownNodeParser",
]

_MODULE_OF = {
    "SpanNodeParser": "base",
    "HybridNodeParser": "hybrid",
    "MultiGranularityNodeParser": "multi_granularity",
    "SemanticNodeParser": "semantic",
    "ChineseSentenceWindowNodeParser": "sentence_window",
    "SlidingWindowNodeParser": "sliding",
    "SmallToBigNodeParser": "small_to_big",
    "StructuredMarkdownNodeParser": "structured",
}


def __getattr__(name: str) -> Any:
    """Import the module behind a name when the name is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
