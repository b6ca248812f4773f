"""All files of a report."""

from __future__ import annotations

from pathlib import Path

from llama_index_chunking_plus.core.options import folder_flaw
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.report.html import Language, html_report
from llama_index_chunking_plus.evaluation.report.tables import answers_csv, questions_csv, strategies_csv
from llama_index_chunking_plus.evaluation.results import EvaluationReport


def write_report(report: EvaluationReport, folder: Path | str, *, language: Language = "auto") -> list[Path]:
    """Write ``report.html``, ``report.json``, ``strategies.csv``, ``questions.csv`` and ``answers.csv``.

    Args:
        report: what an evaluation found.
        folder: made if need be; files of these names are replaced.
        language: of the page; see `html_report`.

    Returns:
        The files, the page first. CSV begins with a byte order mark, by which spreadsheets know UTF-8.

    Raises:
        OptionError: there can be no such folder.
    """
    if flaw := folder_flaw(folder):
        raise OptionError(f"folder={str(folder)!r} cannot hold a report: {flaw}; choose another folder")
    folder = Path(folder)
    page = html_report(report, language=language)
    tables = {
        "strategies.csv": strategies_csv(report),
        "questions.csv": questions_csv(report),
        "answers.csv": answers_csv(report),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "report.html", folder / "report.json", *(folder / name for name in tables)]
    paths[0].write_bytes(page.encode())
    report.save(paths[1])
    for name, text in tables.items():
        (folder / name).write_bytes(text.encode("utf-8-sig", errors="replace"))
    return paths
