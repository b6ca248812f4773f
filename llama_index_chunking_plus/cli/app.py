"""The commands. They print; everything they know comes from elsewhere."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.utils import get_tokenizer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from llama_index_chunking_plus.cli.files import find_files, read_document
from llama_index_chunking_plus.cli.options import OFFLINE, ParserChoice, make_model, make_parser
from llama_index_chunking_plus.cli.store import CorpusStore
from llama_index_chunking_plus.errors import ChunkingPlusError
from llama_index_chunking_plus.samples import questions, sample_paths

app = typer.Typer(
    help="Split, ingest and query Chinese and mixed Chinese-English documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)

ParserName = Annotated[str | None, typer.Option("--parser", help="hybrid, semantic or sliding.")]
ChunkSize = Annotated[int | None, typer.Option(help="Largest size of a chunk, in --unit.")]
ChunkOverlap = Annotated[int | None, typer.Option(help="Overlap of neighbours, in --unit (sliding).")]
TargetSize = Annotated[int | None, typer.Option(help="Wanted mean size, in --unit (semantic).")]
Unit = Annotated[str | None, typer.Option(help="What sizes count: tokens or chars.")]
EmbedModel = Annotated[
    str | None,
    typer.Option(help="'offline' (default), or the id or folder of a HuggingFace model."),
]
StoreFolder = Annotated[Path, typer.Option("--store", help="The folder that holds the corpus.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object.")]


def run_app() -> None:
    """Run the command line: an error that a person can mend is one line on stderr and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no Chinese still shows the rest
    try:
        app()
    except (ChunkingPlusError, OSError) as error:
        _fail(str(error))


@app.command()
def split(
    files: Annotated[list[Path], typer.Argument(help="Markdown or text files, or folders of them.")],
    parser: ParserName = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    target_size: TargetSize = None,
    unit: Unit = None,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Show the chunks of files: character range, tokens, and how they begin."""
    choice = ParserChoice().changed_by(
        parser=parser, chunk_size=chunk_size, chunk_overlap=chunk_overlap, target_size=target_size, unit=unit
    )
    documents = [read_document(path) for path in find_files(files)]
    nodes = make_parser(choice, lambda: make_model(embed_model or OFFLINE)).get_nodes_from_documents(documents)
    count_tokens = get_tokenizer()
    chunks = [{**_place(node), "tokens": len(count_tokens(node.text)), "text": node.text} for node in nodes]  # type: ignore[attr-defined]
    if as_json:
        typer.echo(json.dumps({"chunks": chunks}, ensure_ascii=False))
        return
    table = Table("file", "characters", "tokens", "text")
    for chunk in chunks:
        cells = (chunk["file"], f"{chunk['start']}–{chunk['end']}", str(chunk["tokens"]), _preview(chunk["text"]))
        table.add_row(*map(Text, cells))
    out.print(table)
    out.print(f"{len(chunks)} chunks of {len(documents)} files ({choice.describe()})")


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Markdown or text files, or folders of them.")],
    store: StoreFolder,
    sync: Annotated[bool, typer.Option("--sync", help="Also remove what is not among PATHS any more.")] = False,
    parser: ParserName = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    target_size: TargetSize = None,
    unit: Unit = None,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Bring files into a store; what is unchanged costs nothing, what was interrupted is completed."""
    corpus = CorpusStore(store)
    manifest = corpus.settle(
        embed_model, parser, chunk_size=chunk_size, chunk_overlap=chunk_overlap, target_size=target_size, unit=unit
    )
    documents = [read_document(path) for path in find_files(paths)]
    with _progress("Ingesting") as on_progress:
        report = corpus.ingest(documents, manifest, delete_missing=sync, on_progress=on_progress)
    numbers = {name: len(getattr(report, name)) for name in ("added", "updated", "unchanged", "repaired", "deleted")}
    if as_json:
        typer.echo(json.dumps({**numbers, "chunks_written": report.nodes_written}))
        return
    summary = ", ".join(f"{count} {name}" for name, count in numbers.items() if count)
    out.print(f"{store}: {summary}; {report.nodes_written} chunks written")
    out.print(f"{manifest.parser.describe()}, embed_model={manifest.embed_model}", style="dim")


@app.command()
def query(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    store: StoreFolder,
    k: Annotated[int, typer.Option("-k", min=1, help="How many passages.")] = 5,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Show the passages nearest to a question, with file and exact character range."""
    if not question.strip():
        raise typer.BadParameter("the question is blank")
    hits = CorpusStore(store).query(question, k, embed_model)
    if as_json:
        passages = [{**_place(hit.node), "score": hit.score, "text": hit.node.get_content()} for hit in hits]
        typer.echo(json.dumps({"question": question, "passages": passages}, ensure_ascii=False))
        return
    for rank, hit in enumerate(hits, 1):
        _print_hit(rank, hit)
    if not hits:
        out.print("nothing found: the store is empty")


@app.command()
def demo(
    store: Annotated[Path | None, typer.Option(help="Where the corpus is kept; default: a temporary folder.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many passages to a question.")] = 3,
) -> None:
    """Ingest the bundled documents into Chroma, reopen the store, and ask it questions."""
    if store is not None:
        _run_demo(store, k)
        return
    with tempfile.TemporaryDirectory(prefix="chunking-plus-demo-", ignore_cleanup_errors=True) as folder:
        _run_demo(Path(folder), k)


def _run_demo(folder: Path, k: int) -> None:
    documents = [read_document(path) for path in sample_paths()]
    out.print(f"{len(documents)} documents, {sum(len(document.text) for document in documents):,} characters")
    with _progress("Ingesting") as on_progress:
        corpus = CorpusStore(folder)
        report = corpus.ingest(documents, corpus.settle(None, None), delete_missing=False, on_progress=on_progress)
    out.print(f"{report.nodes_written} chunks written to {folder}")
    retriever = CorpusStore(folder).index().as_retriever(similarity_top_k=k)
    texts = {document.metadata["file_name"]: document.text for document in documents}
    asked = questions()
    answered = exact = shown = 0
    for number, sample in enumerate(asked):
        hits = retriever.retrieve(sample.question)
        found = any(sample.answer in hit.node.get_content() for hit in hits)
        answered += found
        shown += len(hits)
        exact += sum(_stands_in(texts[hit.node.metadata["file_name"]], hit.node) for hit in hits)
        if number % 8 == 0:
            out.rule(Text(sample.question, style="bold"), align="left")
            _print_hit(1, hits[0])
    out.rule()
    out.print(f"{answered} of {len(asked)} questions: the whole answer stands in one of the {k} passages returned.")
    out.print(f"{exact} of {shown} passages are exactly the slice of their file that their range names.")


def _place(node: BaseNode) -> dict[str, Any]:
    return {
        "file": node.metadata.get("file_name"),
        "path": node.metadata.get("file_path"),
        "start": getattr(node, "start_char_idx", None),
        "end": getattr(node, "end_char_idx", None),
    }


def _stands_in(text: str, node: BaseNode) -> bool:
    place = _place(node)
    return text[place["start"] : place["end"]] == node.get_content()


def _print_hit(rank: int, hit: NodeWithScore) -> None:
    place = _place(hit.node)
    score = "" if hit.score is None else f"  score {hit.score:.3f}"
    head = Text(f"{rank}. {place['file']}", style="bold")
    out.print(head.append(f" characters {place['start']}–{place['end']}{score}", style="not bold"))
    out.print(hit.node.get_content().strip())
    out.print()


def _preview(text: str, most: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; yields what moves it."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("documents"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _fail(message: str) -> None:
    err.print(f"error: {message}", style="red")
    raise SystemExit(1)
