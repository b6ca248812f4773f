"""An evaluation for people: a page, a text for the terminal, tables and figures.

html.py          one page that needs nothing else; its script, style and words are in assets/
text.py          for the terminal
tables.py        CSV
figures.py       matplotlib
writing.py       all files at once
completeness.py  what probes found, as a report keeps it
overview.py      what they share: the order of the strategies, the measure that decided

Names are loaded when they are first used: each form needs its own library of the extra "report", and no other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_chunking_plus.evaluation.report.completeness import probe_data
    from llama_index_chunking_plus.evaluation.report.figures import (
        chunk_map,
        recall_against_inflation,
        section_heat_map,
    )
    from llama_index_chunking_plus.evaluation.report.html import html_report
    from llama_index_chunking_plus.evaluation.report.tables import answers_csv, questions_csv, strategies_csv
    from llama_index_chunking_plus.evaluation.report.text import text_report
    from llama_index_chunking_plus.evaluation.report.writing import write_report

_MODULE_OF = {
    "answers_csv": "tables",
    "chunk_map": "figures",
    "html_report": "html",
    "probe_data": "completeness",
    "questions_csv": "tables",
    "recall_against_inflation": "figures",
    "section_heat_map": "figures",
    "strategies_csv": "tables",
    "text_report": "text",
    "write_report": "writing",
}

__all__ = [
    "answers_csv",
    "chunk_map",
    "html_report",
    "probe_data",
    "questions_csv",
    "recall_against_inflation",
    "section_heat_map",
    "strategies_csv",
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
