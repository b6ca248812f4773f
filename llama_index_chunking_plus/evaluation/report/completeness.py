"""What completeness probes found, as the data that `EvaluationReport.with_probes` takes and the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from llama_index_chunking_plus.evaluation.probes import GOOD_ENOUGH, Cut, Probe, ProbeReport

_MOST_PROBES = 500  # of the list of all


def probe_data(
    reports: Iterable[ProbeReport], *, worst: int = 3, probes: Iterable[Probe] | None = None
) -> dict[str, Any]:
    """Plain data, ready for JSON.

    ``{"good_enough": 0.8, "strategies": [{"strategy", "score", "partial", "whole", "total", "n_documents",
    "without_probes", "kinds", "breakages", "cuts"}, …]}``: kinds, breakages and cuts have the fields of `KindScore`,
    `Breakage` and `Cut`; a cut has its probe's question, kind, document, reason and gold ranges.

    Args:
        reports: one for each strategy.
        worst: how many cuts of each are kept, the worst ones.
        probes: what was looked for. If it is given, a list ``"probes"`` tells of each, of the first 500 that is, its
            question, place and kind, and in ``"cuts"`` what the strategies that cut it do to it.

    Example:
        >>> probe_data([ProbeReport((), (), 1, strategy="mine")])["strategies"][0]["score"] is None
        True
    """
    reports = list(reports)
    data = {"good_enough": GOOD_ENOUGH, "strategies": [_report(each, worst) for each in reports]}
    return data if probes is None else {**data, "probes": _probes(reports, islice(probes, _MOST_PROBES))}


def _probes(reports: Sequence[ProbeReport], probes: Iterable[Probe]) -> list[dict[str, Any]]:
    """What became of each probe."""
    cuts = [(each.strategy, {cut.probe.probe_id: cut for cut in each.cuts}) for each in reports]
    return [
        {
            **_probe(probe),
            "cuts": {name: _how(found[probe.probe_id]) for name, found in cuts if probe.probe_id in found},
        }
        for probe in probes
    ]


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


def _probe(probe: Probe) -> dict[str, Any]:
    return {
        "document_id": probe.document_id,
        "kind": probe.kind,
        "question": probe.question,
        "reason": probe.reason,
        "gold": [list(span) for span in probe.gold],
    }


def _how(cut: Cut) -> dict[str, Any]:
    return {
        "how": cut.how,
        "partial": cut.partial,
        "pieces": cut.pieces,
        "at": [place.position for place in cut.places],
    }


def _cut(cut: Cut) -> dict[str, Any]:
    return {
        **_probe(cut.probe),
        "how": cut.how,
        "partial": cut.partial,
        "pieces": cut.pieces,
        "places": [place._asdict() for place in cut.places],
    }
