"""What becomes of hits: parents, windows, one list of all levels, one version of each document, and nothing twice."""

from llama_index_chunking_plus.postprocessor.granularity_fusion import GranularityFusionPostprocessor
from llama_index_chunking_plus.postprocessor.latest_version import LatestVersionPostprocessor, latest_version_filters
from llama_index_chunking_plus.postprocessor.parent_expansion import ParentExpansionPostprocessor
from llama_index_chunking_plus.postprocessor.sentence_window import SentenceWindowPostprocessor
from llama_index_chunking_plus.postprocessor.span_dedup import SpanDedupPostprocessor

__all__ = [
    "GranularityFusionPostprocessor",
    "LatestVersionPostprocessor",
    "ParentExpansionPostprocessor",
    "SentenceWindowPostprocessor",
    "SpanDedupPostprocessor",
    "latest_version_filters",
]
