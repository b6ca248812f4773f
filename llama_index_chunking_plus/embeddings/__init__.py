"""The embedding model that works without network."""

from llama_index_chunking_plus.embeddings.offline import OfflineEmbedding

__all__ = ["OfflineEmbedding"]
