"""The commands. They print; everything they know comes from elsewhere."""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.utils import get_tokenizer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from llama_index_chunking_plus.cli import evaluation
from llama_index_chunking_plus.cli.files import check_folder, find_files, passed_over, read_document
from llama_index_chunking_plus.cli.options import OFFLINE, ParserChoice, as_flags, make_model, make_parser
from llama_index_chunking_plus.cli.screen import err, out
from llama_index_chunking_plus.cli.store import CorpusStore
from llama_index_chunking_plus.core.headers import HEADER_KEY
from llama_index_chunking_plus.core.hierarchy import GRANULARITY_KEY
from llama_index_chunking_plus.core.parents import ParentRef, WindowRef
from llama_index_chunking_plus.core.sections import LEAD_KEY
from llama_index_chunking_plus.errors import ChunkingPlusError
from llama_index_chunking_plus.postprocessor.passages import HITS_KEY
from llama_index_chunking_plus.retrievers.levels import EXPLANATION_KEY
from llama_index_chunking_plus.samples import questions, sample_paths

_KEPT = "what is done is kept, run it again to go on"
_RESUMED = {
    "ingest": _KEPT,
    "evaluate": _KEPT,
    "select": f"with --out, {_KEPT}",
}  # of the other commands nothing is kept


class _Commands(TyperGroup):
    """The commands; one that is interrupted is a line on stderr and exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            kept = _RESUMED.get(ctx.invoked_subcommand or "")
            err.print(f"interrupted; {kept}" if kept else "interrupted", style="yellow")
            raise SystemExit(_INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    help="Split, ingest, query and evaluate Chinese and mixed Chinese-English documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path],
    typer.Argument(help="Markdown, text, PDF, Word or HTML files, or folders of them."),
]
ParserName = Annotated[
    str | None,
    typer.Option("--parser", help="hybrid, semantic, sliding, small-to-big, window, structured or multi-granularity."),
]
ChunkSize = Annotated[int | None, typer.Option(help="Largest size of a chunk, in --unit.")]
ChunkOverlap = Annotated[
    int | None, typer.Option(help="Overlap of neighbours, in --unit (sliding, small-to-big, structured).")
]
TargetSize = Annotated[int | None, typer.Option(help="Wanted mean size, in --unit (semantic).")]
ParentSize = Annotated[int | None, typer.Option(help="Largest size of a parent, in --unit (small-to-big).")]
WindowSentences = Annotated[int | None, typer.Option(help="Sentences on each side that a window holds (window).")]
Structure = Annotated[
    str | None,
    typer.Option(help="What structure is told by: auto, markdown, numbered or none (structured, multi-granularity)."),
]
Preset = Annotated[
    str | None,
    typer.Option(help="Sizes of the levels: balanced, manual, law or narrative (multi-granularity)."),
]
Sentences = Annotated[
    bool | None,
    typer.Option(help="Also make each sentence a chunk, the default; it finds more (multi-granularity)."),
]
ByMeaning = Annotated[
    bool | None,
    typer.Option(help="Cut long sections where the topic changes; embeds each sentence (multi-granularity)."),
]
FuseParents = Annotated[
    bool | None,
    typer.Option(help="Move each vector towards that of the chunk it is a part of; remembered (multi-granularity)."),
]
Unit = Annotated[str | None, typer.Option(help="What sizes count: tokens or chars.")]
EmbedModel = Annotated[
    str | None,
    typer.Option(help="'offline' (default), or the id or folder of a HuggingFace model."),
]
Expand = Annotated[
    str | None,
    typer.Option(
        help="What a hit is shown in: parent (of fine chunks only, so without --return-level), window or none; "
        "default: what the store's parser is for."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(help="Search each chunk with a line ahead of it: title > section（version, date）; remembered."),
]
Retriever = Annotated[
    str | None,
    typer.Option(help="How levels are searched: fused, the default, or coarse-to-fine (multi-granularity)."),
]
ReturnLevel = Annotated[
    str | None,
    typer.Option(help="The level that is shown: fine, the default, medium, coarse or auto (multi-granularity)."),
]
LatestVersion = Annotated[
    bool, typer.Option("--latest-version", help="Of documents of one title, search the newest version only.")
]
PinVersion = Annotated[str | None, typer.Option(help="Search this version of them instead, such as 2.0.")]
StoreFolder = Annotated[Path, typer.Option("--store", help="The folder that holds the corpus.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object.")]

for command in (evaluation.evaluate, evaluation.select, evaluation.probe, evaluation.view):
    app.command()(command)

_COLUMNS = ("file", "level", "characters", "parent", "window", "tokens", "kinds")  # of a table of chunks
_INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended
_ARTICLE = re.compile(r"第\S+[条條]\S*|Article \S+")
_EDITION = re.compile(r"（[^（）]*(?:[vV]\d|版|更新于)[^（）]*）$")  # at the end of a header
_OF_SOME = {"level", "parent", "window", "kinds"}
_SHOWN_FILES = 10


def run_app() -> None:
    """Run the command line: an error that a person can mend is one line on stderr and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no Chinese still shows the rest
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app()
        except Exception as error:
            if not isinstance(error, (ChunkingPlusError, OSError)) and not _is_of_vector_store(error):
                raise
            _fail("\n".join([_reason(error), *getattr(error, "__notes__", ())]))


@app.command()
def split(
    files: Files,
    parser: ParserName = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    target_size: TargetSize = None,
    parent_size: ParentSize = None,
    window_sentences: WindowSentences = None,
    structure: Structure = None,
    preset: Preset = None,
    sentences: Sentences = None,
    by_meaning: ByMeaning = None,
    unit: Unit = None,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Show the chunks of files: character range, level and parent, tokens, what they hold and how they begin."""
    choice = ParserChoice().changed_by(
        parser=parser,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        target_size=target_size,
        parent_size=parent_size,
        window_sentences=window_sentences,
        structure=structure,
        preset=preset,
        sentences=sentences,
        by_meaning=by_meaning,
        unit=unit,
    )
    documents = [read_document(path) for path in find_files(files)]
    nodes = make_parser(choice, lambda: make_model(embed_model or OFFLINE)).get_nodes_from_documents(documents)
    count_tokens = get_tokenizer()
    chunks = [
        {
            **_place(node),
            **_level(node),
            **_around(node),
            **_outline(node),
            "tokens": len(count_tokens(node.get_content())),
            "text": node.get_content(),
        }
        for node in nodes
    ]
    if as_json:
        typer.echo(json.dumps({"chunks": chunks}, ensure_ascii=False))
        return
    out.print(_table(chunks))
    for line in _sizes(chunks):
        out.print(line)
    out.print(f"{len(chunks)} chunks of {len(documents)} files ({choice.describe()})")


@app.command()
def ingest(
    paths: Files,
    store: StoreFolder,
    sync: Annotated[bool, typer.Option("--sync", help="Also remove what is not among PATHS any more.")] = False,
    parser: ParserName = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    target_size: TargetSize = None,
    parent_size: ParentSize = None,
    window_sentences: WindowSentences = None,
    structure: Structure = None,
    preset: Preset = None,
    sentences: Sentences = None,
    by_meaning: ByMeaning = None,
    fuse_parents: FuseParents = None,
    unit: Unit = None,
    header: Header = None,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Bring files into a store; what is unchanged costs nothing, what was interrupted is completed."""
    check_folder("--store", store)
    corpus = CorpusStore(store)
    manifest = corpus.settle(
        embed_model,
        parser,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        target_size=target_size,
        parent_size=parent_size,
        window_sentences=window_sentences,
        structure=structure,
        preset=preset,
        sentences=sentences,
        by_meaning=by_meaning,
        fuse_parents=fuse_parents,
        unit=unit,
        header=header,
    )
    documents = [read_document(path) for path in find_files(paths)]
    with _progress("Ingesting") as on_progress:
        ingested = corpus.ingest(documents, manifest, delete_missing=sync, on_progress=on_progress)
    report, words, blank = ingested.report, ingested.words, ingested.without_chunks
    numbers = {name: len(getattr(report, name)) for name in ("added", "updated", "unchanged", "repaired", "deleted")}
    if others := passed_over(paths):
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in others.items())
        err.print(f"passed over, as they are of other kinds: {kinds}")
    if blank:
        err.print(_told_blank(blank))
    if as_json:
        indexed = {"lexical": words and asdict(words)} if manifest.parser.has_levels else {}
        told = {**numbers, "chunks_written": report.nodes_written, "without_chunks": blank, **indexed}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    summary = ", ".join(f"{count} {name}" for name, count in numbers.items() if count)
    out.print(f"{store}: {summary}; {report.nodes_written} chunks written")
    if words is not None:
        out.print(f"lexical index: {words.indexed} chunks indexed, {words.removed} removed, {words.kept} kept")
    out.print(f"{manifest.parser.describe()}, embed_model={manifest.embed_model}", style="dim")


@app.command()
def query(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    store: StoreFolder,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            help="How many passages, at most; default: 5. A selected store takes the k it was selected with, no other.",
        ),
    ] = None,
    expand: Expand = None,
    retriever: Retriever = None,
    return_level: ReturnLevel = None,
    latest_version: LatestVersion = False,
    pin_version: PinVersion = None,
    embed_model: EmbedModel = None,
    as_json: AsJson = False,
) -> None:
    """Show the passages nearest to a question, with file and exact character range."""
    if not question.strip():
        raise typer.BadParameter("the question is blank")
    if latest_version and pin_version is not None:
        raise typer.BadParameter("--pin-version is another than the newest; leave out --latest-version")
    if pin_version is not None and not pin_version.strip():
        raise typer.BadParameter("--pin-version is blank")
    corpus = CorpusStore(store)
    hits = corpus.query(
        question,
        k,
        embed_model,
        expand,
        is_latest=latest_version,
        version=pin_version,
        retriever=retriever,
        return_level=return_level,
    )
    if as_json:
        passages = [
            {
                **_place(hit.node),
                **_header(hit.node),
                **_outline(hit.node),
                "score": hit.score,
                "text": hit.node.get_content(),
                **_children(hit.node),
                **_explanation(hit.node),
            }
            for hit in hits
        ]
        typer.echo(json.dumps({"question": question, "passages": passages}, ensure_ascii=False))
        return
    for rank, hit in enumerate(hits, 1):
        _print_hit(rank, hit)
    if not hits:
        out.print("nothing found: the store is empty, or out of step with its files; ingest them again")


@app.command()
def demo(
    store: Annotated[Path | None, typer.Option(help="Where the corpus is kept; default: a temporary folder.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many passages to a question.")] = 3,
) -> None:
    """Ingest the bundled documents into Chroma, reopen the store, and ask it questions."""
    if store is not None:
        check_folder("--store", store)
        _run_demo(store, k)
        return
    with tempfile.TemporaryDirectory(prefix="chunking-plus-demo-", ignore_cleanup_errors=True) as folder:
        _run_demo(Path(folder), k)


def _run_demo(folder: Path, k: int) -> None:
    documents = [read_document(path) for path in sample_paths()]
    out.print(f"{len(documents)} documents, {sum(len(document.text) for document in documents):,} characters")
    with _progress("Ingesting") as on_progress:
        corpus = CorpusStore(folder)
        ingested = corpus.ingest(documents, corpus.settle(None, None), delete_missing=False, on_progress=on_progress)
    out.print(f"{ingested.report.nodes_written} chunks written to {folder}")
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


def _told_blank(files: Sequence[str]) -> str:
    """One line that names files without text, the first ones of many."""
    more = f" and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else ""
    return f"no chunks, as there is no text in: {', '.join(files[:_SHOWN_FILES])}{more}"


def _place(node: BaseNode) -> dict[str, Any]:
    return {
        "file": node.metadata.get("file_name"),
        "path": node.metadata.get("file_path"),
        "start": getattr(node, "start_char_idx", None),
        "end": getattr(node, "end_char_idx", None),
    }


def _level(node: BaseNode) -> dict[str, str]:
    """The level of the chunk, if its parser makes several."""
    return {"level": node.metadata[GRANULARITY_KEY]} if GRANULARITY_KEY in node.metadata else {}


def _around(node: BaseNode) -> dict[str, list[int]]:
    """The range of the parent or window that the chunk can be read in, if it has one."""
    refs = {"parent": ParentRef.from_metadata(node.metadata), "window": WindowRef.from_metadata(node.metadata)}
    return {name: list(ref.span) for name, ref in refs.items() if ref is not None}


def _outline(node: BaseNode) -> dict[str, Any]:
    """Where the chunk stands in its document and what it holds, if its parser says so."""
    said = node.metadata
    if "block_kinds" not in said:
        return {}
    lines = {"lines": [said["line_start"], said["line_end"]]} if "line_start" in said else {}
    titles = json.loads(said.get("header_titles", "[]"))  # a parent whose parts differ names none
    return {
        **lines,
        "kinds": said["block_kinds"].split(","),
        "headings": titles,
        "lead": said.get(LEAD_KEY, "").strip("\r\n"),
    }


def _header(node: BaseNode) -> dict[str, str]:
    """The line that the chunk was searched with, if there is one."""
    return {"header": node.metadata[HEADER_KEY]} if HEADER_KEY in node.metadata else {}


def _children(node: BaseNode) -> dict[str, list[dict[str, Any]]]:
    """The chunks that were hit, if the passage stands for such."""
    hits = node.metadata.get(HITS_KEY)
    return {} if hits is None else {"hits": [{key: hit[key] for key in ("start", "end", "score")} for hit in hits]}


def _explanation(node: BaseNode) -> dict[str, Any]:
    """How the hit was found, if its retriever says so."""
    return {"explanation": node.metadata[EXPLANATION_KEY]} if EXPLANATION_KEY in node.metadata else {}


def _table(chunks: list[dict[str, Any]]) -> Table:
    rows = [_cells(chunk) for chunk in chunks]
    columns = [name for name in _COLUMNS if name not in _OF_SOME or any(name in row for row in rows)]
    table = Table(*columns, "text")
    for chunk, row in zip(chunks, rows, strict=True):
        table.add_row(*(Text(row.get(name, "")) for name in columns), _beginning(chunk))
    return table


def _cells(chunk: dict[str, Any]) -> dict[str, str]:
    """What the columns say of a chunk, as far as it has them."""
    ranges = {
        "characters": (chunk["start"], chunk["end"]),
        "parent": chunk.get("parent"),
        "window": chunk.get("window"),
    }
    places = {name: f"{place[0]}–{place[1]}" for name, place in ranges.items() if place}
    held = {"kinds": ", ".join(chunk["kinds"])} if "kinds" in chunk else {}
    said: dict[str, str] = {name: str(chunk[name]) for name in ("file", "level", "tokens") if name in chunk}
    return {**said, **places, **held}


def _sizes(chunks: list[dict[str, Any]]) -> Iterator[str]:
    """For each level, how many chunks it has and how large they are."""
    for level in dict.fromkeys(chunk["level"] for chunk in chunks if "level" in chunk):
        tokens = [chunk["tokens"] for chunk in chunks if chunk["level"] == level]
        yield f"{level}: {len(tokens)} chunks of {min(tokens)}–{max(tokens)} tokens, {mean(tokens):.0f} on average"


def _beginning(chunk: dict[str, Any]) -> Text:
    """How a chunk begins; the headings above it and its lead, shortened, stand on lines of their own."""
    titles = _above(chunk.get("headings", []), chunk["text"])
    above = [_path(titles), *(f"[{_preview(lead)}]" for lead in [chunk.get("lead")] if lead)]
    shown = Text("".join(f"{line}\n" for line in above if line), style="dim")
    return shown.append(_preview(chunk["text"]), style="not dim")


def _path(headings: list[str]) -> str:
    return " › ".join(headings)


def _above(titles: list[str], text: str) -> list[str]:
    """The titles without the last ones, if these are what the text begins with."""
    lines = [" ".join(line.lstrip("#").split()) for line in text.splitlines() if line.strip()]
    for count in range(min(len(titles), len(lines)), 0, -1):
        if all(map(_is_titled, lines, titles[-count:])):
            return titles[:-count]
    return titles


def _is_titled(line: str, title: str) -> bool:
    """Whether the line is the title; that of an article is its number, with its words behind it."""
    return line == title or (_ARTICLE.fullmatch(title) is not None and line.startswith(f"{title} "))


def _title(node: BaseNode) -> str:
    """The header of a chunk, or the headings above it; titles that its text begins with are not said twice."""
    text, header = node.get_content(), _header(node).get("header", "")
    if not header:
        return _path(_above(_outline(node).get("headings", []), text))
    edition = _EDITION.search(header)
    path = header[: edition.start()] if edition else header
    return " > ".join(_above(path.split(" > "), text)) + header[len(path) :]


def _stands_in(text: str, node: BaseNode) -> bool:
    place = _place(node)
    return text[place["start"] : place["end"]] == node.get_content()


def _print_hit(rank: int, hit: NodeWithScore) -> None:
    place = _place(hit.node)
    score = "" if hit.score is None else f"  score {hit.score:.3f}"
    hits = _children(hit.node).get("hits", [])
    explanation = _explanation(hit.node).get("explanation", {})
    level = f"  {explanation['level']}" if explanation and not hits else ""
    stands_for = f"  {len(hits)} {'chunk' if len(hits) == 1 else 'chunks'} hit" if hits else ""
    head = Text(f"{rank}. {place['file']}", style="bold")
    out.print(head.append(f" characters {place['start']}–{place['end']}{score}{level}{stands_for}", style="not bold"))
    for line in _found_by(hit.node):
        out.print(line, style="dim")
    outline = _outline(hit.node)
    for above in (_title(hit.node), outline.get("lead")):
        if above:
            out.print(above, style="dim")
    out.print(hit.node.get_content().strip())
    out.print()


def _found_by(node: BaseNode) -> Iterator[str]:
    """Why the hit is there: its component scores, and what its retriever has to say."""
    explanation = _explanation(node).get("explanation", {})
    if explanation:
        yield ", ".join(f"{name} {score:.3f}" for name, score in explanation["scores"].items())
        yield from explanation.get("notes", ())


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


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    err.print(f"warning: {as_flags(str(message))}", style="yellow")


def _reason(error: Exception) -> str:
    """What went wrong; of the system's own errors the path, and its words without their number."""
    if _is_of_vector_store(error):
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return f"the vector store failed ({said}); run the same command again: what was completed is kept"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename} cannot be used: {error.strerror}; mend that, or give another path"
    return str(error)


def _is_of_vector_store(error: Exception) -> bool:
    """Whether Chroma raised it; told by its name, as most commands never load it."""
    return any(kind.__module__.partition(".")[0].startswith("chromadb") for kind in type(error).__mro__)


def _fail(message: str) -> None:
    err.print(f"error: {message}", style="red")
    raise SystemExit(1)
