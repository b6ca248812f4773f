"""Chunking for LlamaIndex that keeps Chinese and mixed Chinese-English answers whole.

What is searched and what is returned need not be the same thing. Names are loaded when they are first used: importing
the package, or the sentence tokenizer, does not import LlamaIndex.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_chunking_plus.core.granularity import GranularityDecision, QueryRule
    from llama_index_chunking_plus.core.hierarchy import Granularity
    from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer, chinese_sentence_tokenizer
    from llama_index_chunking_plus.core.spans import Span
    from llama_index_chunking_plus.embeddings import OfflineEmbedding
    from llama_index_chunking_plus.errors import (
        ChunkingPlusError,
        ChunkingPlusWarning,
        EmbeddingError,
        InputFileError,
        MissingExtraError,
        OptionError,
        StaleChildError,
        StoreBusyError,
        StoreMismatchError,
    )
    from llama_index_chunking_plus.evaluation import (
        ChunkingEvaluator,
        EvaluationQuestion,
        EvaluationReport,
        EvaluationSet,
        EvaluationSetError,
        Quote,
        RoutingNodeParser,
        SelectionResult,
        Strategy,
        StrategySelector,
        async_persist_selection,
        completeness_probes,
        completeness_score,
        load_questions,
        load_selection,
        persist_selection,
        probe_completeness,
    )
    from llama_index_chunking_plus.ingestion import (
        ContextHeaderTransform,
        DeleteReport,
        DocumentMetadataTransform,
        JiebaKeywordTransform,
        PageJoiner,
        ParentVectorFusion,
        SyncReport,
        async_delete_document,
        async_sync_documents,
        delete_document,
        load_docstore,
        sync_documents,
    )
    from llama_index_chunking_plus.node_parser import (
        ChineseSentenceWindowNodeParser,
        HybridNodeParser,
        MultiGranularityNodeParser,
        SemanticNodeParser,
        SlidingWindowNodeParser,
        SmallToBigNodeParser,
        SpanNodeParser,
        StructuredMarkdownNodeParser,
    )
    from llama_index_chunking_plus.postprocessor import (
        GranularityFusionPostprocessor,
        LatestVersionPostprocessor,
        ParentExpansionPostprocessor,
        SentenceWindowPostprocessor,
        SpanDedupPostprocessor,
        latest_version_filters,
    )
    from llama_index_chunking_plus.retrievers import (
        CoarseToFineRetriever,
        FusedGranularityRetriever,
        FusionWeights,
        GranularityRouter,
        GranularityRouterRetriever,
        SmallToBigRetriever,
    )
    from llama_index_chunking_plus.storage import (
        LexicalIndex,
        ParentLookup,
        SiblingLookup,
        SourceSliceLookup,
        StoredParentLookup,
    )

try:
    __version__ = version("llama-index-chunking-plus")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

_HOMES = {
    "core.granularity": ("GranularityDecision", "QueryRule"),
    "core.hierarchy": ("Granularity",),
    "core.sentences": ("ChineseSentenceTokenizer", "chinese_sentence_tokenizer"),
    "core.spans": ("Span",),
    "embeddings": ("OfflineEmbedding",),
    "errors": (
        "ChunkingPlusError",
        "ChunkingPlusWarning",
        "EmbeddingError",
        "InputFileError",
        "MissingExtraError",
        "OptionError",
        "StaleChildError",
        "StoreBusyError",
        "StoreMismatchError",
    ),
    "evaluation": (
        "ChunkingEvaluator",
        "EvaluationQuestion",
        "EvaluationReport",
        "EvaluationSet",
        "EvaluationSetError",
        "Quote",
        "RoutingNodeParser",
        "SelectionResult",
        "Strategy",
        "StrategySelector",
        "async_persist_selection",
        "completeness_probes",
        "completeness_score",
        "load_questions",
        "load_selection",
        "persist_selection",
        "probe_completeness",
    ),
    "ingestion": (
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
        "sync_documents",
    ),
    "node_parser": (
        "ChineseSentenceWindowNodeParser",
        "HybridNodeParser",
        "MultiGranularityNodeParser",
        "SemanticNodeParser",
        "SlidingWindowNodeParser",
        "SmallToBigNodeParser",
        "SpanNodeParser",
        "StructuredMarkdownNodeParser",
    ),
    "postprocessor": (
        "GranularityFusionPostprocessor",
        "LatestVersionPostprocessor",
        "ParentExpansionPostprocessor",
        "SentenceWindowPostprocessor",
        "SpanDedupPostprocessor",
        "latest_version_filters",
    ),
    "retrievers": (
        "CoarseToFineRetriever",
        "FusedGranularityRetriever",
        "FusionWeights",
        "GranularityRouter",
        "GranularityRouterRetriever",
        "SmallToBigRetriever",
    ),
    "storage": ("LexicalIndex", "ParentLookup", "SiblingLookup", "SourceSliceLookup", "StoredParentLookup"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ChineseSentenceTokenizer",
    "ChineseSentenceWindowNodeParser",
    "ChunkingEvaluator",
    "ChunkingPlusError",
    "ChunkingPlusWarning",
    "CoarseToFineRetriever",
    "ContextHeaderTransform",
    "DeleteReport",
    "DocumentMetadataTransform",
    "EmbeddingError",
    "EvaluationQuestion",
    "EvaluationReport",
    "EvaluationSet",
    "EvaluationSetError",
    "FusedGranularityRetriever",
    "FusionWeights",
    "Granularity",
    "GranularityDecision",
    "GranularityFusionPostprocessor",
    "GranularityRouter",
    "GranularityRouterRetriever",
    "HybridNodeParser",
    "InputFileError",
    "JiebaKeywordTransform",
    "LatestVersionPostprocessor",
    "LexicalIndex",
    "MissingExtraError",
    "MultiGranularityNodeParser",
    "OfflineEmbedding",
    "OptionError",
    "PageJoiner",
    "ParentExpansionPostprocessor",
    "ParentLookup",
    "ParentVectorFusion",
    "QueryRule",
    "Quote",
    "RoutingNodeParser",
    "SelectionResult",
    "SemanticNodeParser",
    "SentenceWindowPostprocessor",
    "SiblingLookup",
    "SlidingWindowNodeParser",
    "SmallToBigNodeParser",
    "SmallToBigRetriever",
    "SourceSliceLookup",
    "Span",
    "SpanDedupPostprocessor",
    "SpanNodeParser",
    "StaleChildError",
    "StoreBusyError",
    "StoreMismatchError",
    "StoredParentLookup",
    "Strategy",
    "StrategySelector",
    "StructuredMarkdownNodeParser",
    "SyncReport",
    "async_delete_document",
    "async_persist_selection",
    "async_sync_documents",
    "chinese_sentence_tokenizer",
    "completeness_probes",
    "completeness_score",
    "delete_document",
    "latest_version_filters",
    "load_docstore",
    "load_questions",
    "load_selection",
    "persist_selection",
    "probe_completeness",
    "sync_documents",
]


def __getattr__(name: str) -> Any:
    """Import the module behind a public name when the name is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
