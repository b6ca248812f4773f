"""Chunking as something that you measure: questions with gold ranges, measures over ranges, tests of differences.

Names are loaded when they are first used: a report needs libraries that the rest does without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_chunking_plus.evaluation.answers import (
        CompletenessScore,
        completeness_score,
    )
    from llama_index_chunking_plus.evaluation.dataset import (
        EvaluationQuestion,
        EvaluationSet,
        EvaluationSetError,
        Quote,
    )
    from llama_index_chunking_plus.evaluation.evaluator import (
        ChunkingEvaluator,
    )
    from llama_index_chunking_plus.evaluation.loaders import (
        LabelledDocuments,
        load_question_node_pairs,
        load_questions,
        load_squad,
        save_questions,
    )
    from llama_index_chunking_plus.evaluation.persist import (
        SelectedStore,
        async_persist_selection,
        load_selection,
        persist_selection,
    )
    from llama_index_chunking_plus.evaluation.probes import (
        Probe,
        ProbeReport,
        ProbeSet,
        completeness_probes,
        probe_completeness,
        shown_chunks,
    )
    from llama_index_chunking_plus.evaluation.report import (
        html_report,
        probe_data,
        text_report,
        write_report,
    )
    from llama_index_chunking_plus.evaluation.results import (
        EvaluationReport,
        Selection,
        report_schema,
    )
    from llama_index_chunking_plus.evaluation.routing import (
        RoutingNodeParser,
    )
    from llama_index_chunking_plus.evaluation.selector import (
        SelectionResult,
        StrategySelector,
    )
    from llama_index_chunking_plus.evaluation.significance import (
        bootstrap_interval,
        paired_test,
    )
    from llama_index_chunking_plus.evaluation.strategies import (
        Strategy,
        as_strategies,
        five_ways,
        grid,
        own_ways,
    )

_HOMES = {
    "answers": (
        "CompletenessScore",
        "completeness_score",
    ),
    "dataset": (
        "EvaluationQuestion",
        "EvaluationSet",
        "EvaluationSetError",
        "Quote",
    ),
    "evaluator": ("ChunkingEvaluator",),
    "loaders": (
        "LabelledDocuments",
        "load_question_node_pairs",
        "load_questions",
        "load_squad",
        "save_questions",
    ),
    "persist": (
        "SelectedStore",
        "async_persist_selection",
        "load_selection",
        "persist_selection",
    ),
    "probes": (
        "Probe",
        "ProbeReport",
        "ProbeSet",
        "completeness_probes",
        "probe_completeness",
        "shown_chunks",
    ),
    "report": (
        "html_report",
        "probe_data",
        "text_report",
        "write_report",
    ),
    "results": (
        "EvaluationReport",
        "Selection",
        "report_schema",
    ),
    "routing": ("RoutingNodeParser",),
    "selector": (
        "SelectionResult",
        "StrategySelector",
    ),
    "significance": (
        "bootstrap_interval",
        "paired_test",
    ),
    "strategies": (
        "Strategy",
        "as_strategies",
        "five_ways",
        "grid",
        "own_ways",
    ),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ChunkingEvaluator",
    "CompletenessScore",
    "EvaluationQuestion",
    "EvaluationReport",
    "EvaluationSet",
    "EvaluationSetError",
    "LabelledDocuments",
    "Probe",
    "ProbeReport",
    "ProbeSet",
    "Quote",
    "RoutingNodeParser",
    "SelectedStore",
    "Selection",
    "SelectionResult",
    "Strategy",
    "StrategySelector",
    "as_strategies",
    "async_persist_selection",
    "bootstrap_interval",
    "completeness_probes",
    "completeness_score",
    "five_ways",
    "grid",
    "html_report",
    "load_question_node_pairs",
    "load_questions",
    "load_selection",
    "load_squad",
    "own_ways",
    "paired_test",
    "persist_selection",
    "probe_completeness",
    "probe_data",
    "report_schema",
    "save_questions",
    "shown_chunks",
    "text_report",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import the module behind a public name when the name is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
