"""Rows, documents, parents, vectors and words across the stores that LlamaIndex knows."""

from llama_index_chunking_plus.storage.lexical import LexicalChanges, LexicalIndex
from llama_index_chunking_plus.storage.parents import Found, ParentLookup
from llama_index_chunking_plus.storage.rows import SiblingLookup, StoredParentLookup
from llama_index_chunking_plus.storage.similarity import cosine_scale, query_rows, vectors_of
from llama_index_chunking_plus.storage.slices import SourceSliceLookup
from llama_index_chunking_plus.storage.stores import (
    StoreFacts,
    can_list,
    delete_document_rows,
    delete_rows,
    max_batch_size,
    rows_by_document,
    vector_dimension,
)

__all__ = [
    "Found",
    "LexicalChanges",
    "LexicalIndex",
    "ParentLookup",
    "SiblingLookup",
    "SourceSliceLookup",
    "StoreFacts",
    "StoredParentLookup",
    "can_list",
    "cosine_scale",
    "delete_document_rows",
    "delete_rows",
    "max_batch_size",
    "query_rows",
    "rows_by_document",
    "vector_dimension",
    "vectors_of",
]
