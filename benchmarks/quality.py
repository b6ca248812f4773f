"""Our parsers and LlamaIndex's own on the bundled questions, by `ChunkingEvaluator`."""

from __future__ import annotations

from evaluator import peers
from multi_granularity import bundled

from llama_index_chunking_plus import OfflineEmbedding
from llama_index_chunking_plus.evaluation.evaluator import ChunkingEvaluator
from llama_index_chunking_plus.evaluation.strategies import own_ways

MEASURES = ("recall_budget", "iou", "semantic_completeness")
LEFT_OUT = ("langchain_recursive_256",)


def strategies() -> dict[str, float]:
    """Answers found within 1,000 tokens; how much of what is returned is answer; how many structures stay whole."""
    shipped = bundled()
    compared = [*(each for each in peers() if each.name not in LEFT_OUT), *own_ways()]
    report = ChunkingEvaluator(shipped.texts, shipped.questions, OfflineEmbedding()).evaluate(compared)
    return {
        f"{each.name}: {measure}": each.measures[measure].mean
        for each in report.strategies
        for measure in MEASURES
        if measure in each.measures
    }
