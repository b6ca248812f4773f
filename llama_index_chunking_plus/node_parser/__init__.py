"""LlamaIndex node parsers; one file a parser, `base` makes the nodes of all."""

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
