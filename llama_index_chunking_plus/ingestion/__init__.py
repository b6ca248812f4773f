"""Ingestion that can be trusted: documents, docstore and vector store kept in step, whatever happens in between."""

from llama_index_chunking_plus.ingestion.context_header import ContextHeaderTransform
from llama_index_chunking_plus.ingestion.deletion import DeleteReport, async_delete_document, delete_document
from llama_index_chunking_plus.ingestion.document_metadata import DocumentMetadataTransform
from llama_index_chunking_plus.ingestion.keywords import JiebaKeywordTransform
from llama_index_chunking_plus.ingestion.ledger import load_docstore
from llama_index_chunking_plus.ingestion.page_joiner import PageJoiner
from llama_index_chunking_plus.ingestion.parent_vector_fusion import ParentVectorFusion, raw_embedding
from llama_index_chunking_plus.ingestion.sync import SyncReport, async_sync_documents, sync_documents

__all__ = [
    "ContextHeaderTransform",
    "DeleteReport",
    "DocumentMetadataTransform",
    "JiebaKeywordTransform",
    "PageJoiner",
    "ParentVectorFusion",
    "SyncReport",
    "async_delete_document",
    "async_sync_documents",
    "delete_document",
    "load_docstore",
    "raw_embedding",
    "sync_documents",
]
