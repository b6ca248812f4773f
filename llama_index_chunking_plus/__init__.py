"""Chunking for LlamaIndex that keeps Chinese and mixed Chinese-English answers whole."""
