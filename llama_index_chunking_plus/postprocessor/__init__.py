"""What becomes of hits: parents, windows, and nothing twice."""

from llama_index_chunking_plus.postprocessor.parent_expansion import ParentExpansionPostprocessor
from llama_index_chunking_plus.postprocessor.sentence_window import SentenceWindowPostprocessor
from llama_index_chunking_plus.postprocessor.span_dedup import SpanDedupPostprocessor

__all__ = ["ParentExpansionPostprocessor", "SentenceWindowPostprocessor", "SpanDedupPostprocessor"]
