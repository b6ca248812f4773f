"""The commands that compare strategies: which is best, what is cut, and what that looks like."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO, get_args

import typer
from llama_index.core import Document
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.utils import get_tokenizer

from llama_index_chunking_plus import __version__
from llama_index_chunking_plus.cli.files import check_file, check_folder, find_files, read_document
from llama_index_chunking_plus.cli.options import OFFLINE, make_model
from llama_index_chunking_plus.cli.screen import err, out
from llama_index_chunking_plus.cli.store import CorpusStore
from llama_index_chunking_plus.cli.strategies import (
    PROBED,
    VIEWED,
    chunked,
    probe_report,
    probed,
    read_questions,
    strategies_by_name,
)
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import InputFileError, OptionError
from llama_index_chunking_plus.evaluation.evaluator import ChunkingEvaluator
from llama_index_chunking_plus.evaluation.measures import inflation, size_statistics
from llama_index_chunking_plus.evaluation.placement import Whereabouts, place_nodes
from llama_index_chunking_plus.evaluation.probes import ProbeReport, completeness_probes
from llama_index_chunking_plus.evaluation.report import probe_data, text_report
from llama_index_chunking_plus.evaluation.report.text import text_probes
from llama_index_chunking_plus.evaluation.results import (
    DocumentText,
    EvaluationReport,
    Note,
    RunInfo,
    SearchMode,
    Sizes,
    StrategyChunks,
    StrategyResult,
)
from llama_index_chunking_plus.evaluation.selector import SelectionResult, StrategySelector
from llama_index_chunking_plus.evaluation.strategies import Strategy
from llama_index_chunking_plus.evaluation.trial import configuration, measure_infos
from llama_index_chunking_plus.storage import LexicalIndex

_CACHE = "cache"  # vectors and trials, in the folder of the report
_K, _BUDGET = 5, 1000
_MOST_NAMES = 5  # in a message

Docs = Annotated[list[Path], typer.Argument(help="Documents, or folders of them; what `split` reads.")]
Questions = Annotated[
    Path,
    typer.Option(
        help='A JSONL file, a line each: {"question": …, "document_id": "contract.md", "quotes": ["words of it"]}.'
    ),
]
Names = Annotated[
    str,
    typer.Option(help="five-ways, ours, all, or names with commas; a size may follow, as in hybrid,sliding:256/32."),
]
_PARSER = "A strategy, by name, with a size if you like; several times for several. If there is none: "
Probed = Annotated[list[str] | None, typer.Option("--parser", help=f"{_PARSER}{', '.join(PROBED)}.")]
Viewed = Annotated[list[str] | None, typer.Option("--parser", help=f"{_PARSER}{' and '.join(VIEWED)}.")]
K = Annotated[int, typer.Option("--k", "-k", min=1, help="Results of a question, as many as are used online.")]
Measure = Annotated[str, typer.Option(help="What is maximised: recall, complete, mrr, ndcg, recall_budget …")]
MaxInflation = Annotated[float, typer.Option(min=1.0, help="Tokens of all chunks by tokens of the documents, at most.")]
EmbedModel = Annotated[str, typer.Option(help="'offline', or the id or folder of a HuggingFace model.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object.")]


@dataclass(frozen=True)
class _Run:
    """Documents and questions that strategies are compared on."""

    documents: list[Document]
    evaluator: ChunkingEvaluator
    model: BaseEmbedding

    @classmethod
    def of(cls, docs: list[Path], questions: Path, k: int, search: str, embed_model: str, folder: Path | None) -> _Run:
        documents = _read(docs, folder)
        model = make_model(embed_model)
        evaluator = ChunkingEvaluator(
            documents,
            read_questions(questions, documents),
            model,
            k,
            search=_search(search),
            budget=_BUDGET,
            work_dir=None if folder is None else folder / _CACHE,
            show_progress=err.is_terminal,
            on_progress=None if err.is_terminal else _say_done,
        )
        _warn_of_unused(evaluator.notes)
        return cls(documents, evaluator, model)

    def with_probes(self, report: EvaluationReport, strategies: Sequence[Strategy]) -> EvaluationReport:
        """The report with what each strategy that worked does to the probes of the documents."""
        working = [each for each in strategies if report.strategy(each.name).status == "ok"]
        documents = self.evaluator.bench.documents
        probes = completeness_probes(documents)
        return report.with_probes(probe_data(probed(working, documents, probes, self.evaluator.frozen_model())))


def evaluate(
    docs: Docs,
    questions: Questions,
    out_dir: Annotated[Path, typer.Option("--out", help="The folder for page, JSON, tables and cached vectors.")],
    strategies: Names = "all",
    k: K = _K,
    search: Annotated[str, typer.Option(help="dense, lexical (BM25) or fused.")] = "dense",
    measure: Measure = "recall",
    max_inflation: MaxInflation = 1.5,
    per: Annotated[str | None, typer.Option(help="Also the winner of each section or tag.")] = None,
    embed_model: EmbedModel = OFFLINE,
    as_json: AsJson = False,
) -> None:
    """Compare strategies on your documents and questions: a table, the winner and why, and a page to look at."""
    from llama_index_chunking_plus.evaluation.report import write_report  # noqa: PLC0415  an extra, before the work

    chosen = strategies_by_name(strategies)
    selector = _selector(measure, max_inflation, per)
    check_folder("--out", out_dir)
    with _apart():
        run = _Run.of(docs, questions, k, search, embed_model, out_dir)
        measured = run.evaluator.evaluate(chosen)
        report = run.with_probes(measured.with_selection(selector.select(measured)), chosen)
        files = write_report(report, out_dir)
    if as_json:
        typer.echo(json.dumps({**_told(report), "files": list(map(str, files))}, ensure_ascii=False))
    else:
        out.print(text_report(report))
        out.print(f"{files[0]} to look at; beside it {', '.join(each.name for each in files[1:])}")
    if all(each.status == "failed" for each in report.strategies):
        raise OptionError(f"every strategy failed; {report.strategies[0].name!r}: {report.strategies[0].reason}")


def select(
    docs: Docs,
    questions: Questions,
    persist: Annotated[Path, typer.Option(help="The folder that is to hold the winner's chunks, to be queried.")],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="A folder for the report as well; what `evaluate` left there is used.")
    ] = None,
    strategies: Names = "all",
    k: K = _K,
    measure: Measure = "recall",
    max_inflation: MaxInflation = 1.5,
    embed_model: EmbedModel = OFFLINE,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by dense search, and keep what the winner makes of the documents in a store, for `query`."""
    from llama_index_chunking_plus.evaluation.report import write_report  # noqa: PLC0415  an extra, before the work

    chosen = strategies_by_name(strategies)
    selector = _selector(measure, max_inflation, None)
    for option, folder in (("--persist", persist), ("--out", out_dir)):
        check_folder(option, folder)
    store = CorpusStore(persist)
    store.check_can_persist()
    with _apart():
        run = _Run.of(docs, questions, k, "dense", embed_model, out_dir)
        result: SelectionResult = run.evaluator.select(chosen, selector)
        files = [] if out_dir is None else write_report(run.with_probes(result.report, chosen), out_dir)
        if result.selected_strategy is None:
            raise OptionError(result.reason)
        written = store.persist(result, run.documents, run.model)
    if as_json:
        kept = {"store": str(persist), "chunks_written": written.nodes_written, "files": list(map(str, files))}
        typer.echo(json.dumps({**_told(result.report), **kept}, ensure_ascii=False))
        return
    out.print(text_report(result.report))
    out.print(
        f"{persist}: {written.nodes_written} chunks written; search it with chunking-plus query … --store {persist}"
    )


def probe(
    docs: Docs,
    parser: Probed = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="A folder for a page with all probes, and JSON.")
    ] = None,
    embed_model: EmbedModel = OFFLINE,
    as_json: AsJson = False,
) -> None:
    """Without any question of yours: tables, code, examples and procedures that strategies leave whole, or cut."""
    chosen = strategies_by_name(",".join(parser or PROBED))
    check_folder("--out", out_dir)
    documents = _read(docs, out_dir)
    with _apart():
        report = _viewed(documents, chosen, make_model(embed_model))
        files = [] if out_dir is None else _written_probes(report, out_dir)
    if as_json:
        told = {**(report.probes or {}), "files": list(map(str, files))}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    out.print(text_probes(report))
    if files:
        out.print(f"{files[0]} to look at; beside it {files[1].name}")


def _written_probes(report: EvaluationReport, folder: Path) -> list[Path]:
    """The files of probes, the page first."""
    from llama_index_chunking_plus.evaluation.report import html_report  # noqa: PLC0415  an extra, by `--out` alone

    page, data = html_report(report), json.dumps(report.probes, ensure_ascii=False, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "probes.html", folder / "probes.json"]
    for file, text in zip(files, (page, data), strict=True):
        file.write_bytes(text.encode(errors="replace"))
    return files


def view(
    file: Annotated[Path, typer.Argument(help="One document.")],
    parser: Viewed = None,
    out_file: Annotated[Path, typer.Option("--out", help="The page.")] = Path("view.html"),
    embed_model: EmbedModel = OFFLINE,
) -> None:
    """One document as a page on which the chunks of strategies are coloured, side by side; no questions needed."""
    from llama_index_chunking_plus.evaluation.report import html_report  # noqa: PLC0415  an extra, before the work

    chosen = strategies_by_name(",".join(parser or VIEWED))
    check_file("--out", out_file)
    [path, *others] = find_files([file])
    if others:
        raise InputFileError(f"{file} is a folder with {len(others) + 1} documents; name one of them")
    document = read_document(path)
    with _apart():
        page = html_report(_viewed([document], chosen, make_model(embed_model)))
    out_file.parent.mkdir(parents=True, exist_ok=True)
    out_file.write_bytes(page.encode())
    told = f"as {', '.join(each.name for each in chosen)} {_cut(chosen)} it" if document.text.strip() else "is empty"
    out.print(f"{out_file}: {file.name} {told}")


def _cut(strategies: Sequence[Strategy]) -> str:
    return "cuts" if len(strategies) == 1 else "cut"


def _apart() -> redirect_stdout[TextIO]:
    """What parsers print while they work goes to stderr: LlamaIndex's print advice, which is no part of the answer."""
    return redirect_stdout(sys.stderr)


# ------------------------------------------------------------------------------------------------ what is given


def _read(docs: Sequence[Path], folder: Path | None) -> list[Document]:
    """The documents; a report that an earlier run left among them is none."""
    own = None if folder is None else folder.resolve()
    return [read_document(path) for path in find_files(docs) if own is None or own not in path.parents]


def _search(name: str) -> SearchMode:
    modes: dict[str, SearchMode] = {mode: mode for mode in get_args(SearchMode)}
    if name not in modes:
        raise OptionError(f"--search {name!r} is not one of {', '.join(modes)}")
    if name != "dense":
        LexicalIndex()  # the extra may be missing
    return modes[name]


def _selector(measure: str, max_inflation: float, per: str | None) -> StrategySelector:
    known = [info.name for info in measure_infos(_K, _BUDGET) if info.of == "question"]
    if measure not in known:
        raise OptionError(f"--measure {measure!r} is not one of {', '.join(known)}")
    kinds: dict[str | None, Literal["section", "tag"] | None] = {None: None, "section": "section", "tag": "tag"}
    if per not in kinds:
        raise OptionError(f"--per {per!r} is neither section nor tag")
    return StrategySelector(measure=measure, max_inflation=max_inflation, per=kinds[per])


# ------------------------------------------------------------------------------------------------ what is told


_UNUSED: dict[str, str] = {
    "document": "documents not used, as they are empty or share their id",
    "question": "questions not asked, as their documents are missing or empty",
}


def _say_done(done: int, total: int, name: str) -> None:
    err.print(f"{done} of {total}: {name}")


def _warn_of_unused(notes: Sequence[Note]) -> None:
    """A warning that names the documents, and one that names the questions, that no strategy is tried on."""
    for about, what in _UNUSED.items():
        names = [note.name for note in notes if note.about == about]
        if names:
            shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
            err.print(f"warning: {what}: {shown}", style="yellow")


def _told(report: EvaluationReport) -> dict[str, Any]:
    """The winner, a line for each strategy, and what was left out."""
    selection = report.selection
    rows = selection.rows if selection else ()
    return {
        "selected": selection and selection.selected_strategy,
        "reason": selection and selection.reason,
        "measure": selection and selection.measure,
        "strategies": [
            {
                "name": row.name,
                "status": row.status,
                "reason": row.reason,
                "value": row.value and row.value.mean,
                "inflation": row.inflation,
                "chunks": row.n_chunks,
                "context_tokens": row.context_tokens,
            }
            for row in rows
        ],
        "routes": {route.kind: route.strategy for route in selection.routes} if selection else {},
        "notes": [{"about": note.about, "name": note.name, "message": note.message} for note in report.notes],
        "n_questions": report.run.n_questions,
        "n_embedded": report.run.n_embedded,
    }


def _viewed(documents: Sequence[Document], strategies: Sequence[Strategy], model: BaseEmbedding) -> EvaluationReport:
    """A report of chunks alone, with the probes that the documents ask by themselves."""
    began = datetime.now(timezone.utc)
    probes, count = completeness_probes(documents), get_tokenizer()
    sizes = {each.id_: len(count(each.text)) for each in documents}
    results, reports = list[StrategyResult](), list[ProbeReport]()
    for each in strategies:
        parser = each.make_parser(model)
        nodes = chunked(documents, parser)
        reports.append(probe_report(each, nodes, probes))
        results.append(replace(_chunked(probes.texts, sizes, each, nodes), configuration=configuration(parser)))
    seconds = round((datetime.now(timezone.utc) - began).total_seconds(), 3)
    versions = {"llama-index-chunking-plus": __version__}
    date = began.isoformat(timespec="seconds")
    run = RunInfo(date, seconds, "", versions, model.model_name, _K, "dense", _BUDGET, 0.95, len(documents), 0)
    texts = (DocumentText(each.id_, each.text, str(each.metadata["file_name"]), sizes[each.id_]) for each in documents)
    return EvaluationReport(run, (), tuple(texts), tuple(results), ()).with_probes(probe_data(reports, probes=probes))


def _chunked(
    texts: Mapping[str, str], document_sizes: Mapping[str, int], strategy: Strategy, nodes: Sequence[BaseNode]
) -> StrategyResult:
    """What a strategy made of documents, as a report shows it."""
    count = get_tokenizer()
    placement, whereabouts = place_nodes(nodes, texts), Whereabouts(texts)
    is_wider = strategy.expansion not in {"none", "levels"}
    spans: dict[str, list[Span]] = {name: [] for name in texts}
    returned: dict[str, list[Span]] = {name: [] for name in texts}
    for node, place in zip(nodes, placement.places, strict=True):
        if place is not None:
            wider = whereabouts.wider(node, place) if is_wider else None
            spans[place.document_id].append(place.span)
            returned[place.document_id].append((wider or place).span)
    sizes = [len(count(node.get_content(metadata_mode=MetadataMode.NONE))) for node in nodes]
    return StrategyResult(
        strategy.name,
        "parser",
        "ok",
        inflation=inflation(sizes, document_sizes.values()),
        sizes=Sizes(*size_statistics(sizes)),
        alignment=placement.alignment,
        chunks=tuple(
            StrategyChunks(name, tuple(own), tuple(returned[name]) if returned[name] != own else ())
            for name, own in spans.items()
        ),
    )
