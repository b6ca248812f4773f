"""What completeness probes found, as the data that `EvaluationReport.with_probes` takes and the page shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index_chunking_plus.evaluation.probes import GOOD_ENOUGH, Cut, ProbeReport


def probe_data(reports: Iterable[ProbeReport], *, worst: int = 3) -> dict[str, Any]:
    """Plain data, ready for JSON.

    ``{"good_enough": 0.8, "strategies": [{"strategy", "score", "partial", "whole", "total", "n_documents",
    "without_probes", "kinds", "breakages", "cuts"}, …]}``: kinds, breakages and cuts have the fields of `KindScore`,
    `Breakage` and `Cut`; a cut has its probe's question, kind, document, reason and gold ranges.

    Args:
        reports: one for each strategy.
        worst: how many cuts of each are kept, the worst ones.

    Example:
        >>> probe_data([ProbeReport((), (), 1, strategy="mine")])["strategies"][0]["score"] is None
        True
    """
    return {"good_enough": GOOD_ENOUGH, "strategies": [_report(each, worst) for each in reports]}


def _report(report: ProbeReport, worst: int) -> dict[str, Any]:
    return {
        "strategy": report.strategy,
        "score": report.score,
        "partial": report.partial,
        "whole": report.whole,
        "total": report.total,
        "n_documents": report.n_documents,
        "without_probes": list(report.without_probes),
        "kinds": [{**each._asdict(), "score": each.score} for each in report.kinds],
        "breakages": [each._asdict() for each in report.breakages],
        "cuts": [_cut(each) for each in report.cuts[:worst]],
    }


def _cut(cut: Cut) -> dict[str, Any]:
    return {
        "document_id": cut.probe.document_id,
        "kind": cut.probe.kind,
        "question": cut.probe.question,
        "reason": cut.probe.reason,
        "gold": [list(span) for span in cut.probe.gold],
        "how": cut.how,
        "partial": cut.partial,
        "pieces": cut.pieces,
        "places": [place._asdict() for place in cut.places],
    }
