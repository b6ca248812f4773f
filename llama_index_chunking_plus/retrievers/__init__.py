"""Retrievers that search one thing and return another, or search several levels of the same text."""

from llama_index_chunking_plus.retrievers.coarse_to_fine import CoarseToFineRetriever
from llama_index_chunking_plus.retrievers.fused_granularity import FusedGranularityRetriever, FusionWeights
from llama_index_chunking_plus.retrievers.router import GranularityRouter, GranularityRouterRetriever
from llama_index_chunking_plus.retrievers.small_to_big import SmallToBigRetriever

__all__ = [
    "CoarseToFineRetriever",
    "FusedGranularityRetriever",
    "FusionWeights",
    "GranularityRouter",
    "GranularityRouterRetriever",
    "SmallToBigRetriever",
]
