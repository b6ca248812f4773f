"""Retrievers that search one thing and return another."""

from llama_index_chunking_plus.retrievers.small_to_big import SmallToBigRetriever

__all__ = ["SmallToBigRetriever"]
