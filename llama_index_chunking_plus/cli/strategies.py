"""Strategies, questions and probes by what the command line takes for them: names and files."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from llama_index.core import Document
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode

from llama_index_chunking_plus.cli.options import ParserChoice, make_parser
from llama_index_chunking_plus.embeddings import OfflineEmbedding
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion, EvaluationSet, EvaluationSetError
from llama_index_chunking_plus.evaluation.loaders import read_lines
from llama_index_chunking_plus.evaluation.probes import ProbeReport, ProbeSet, Returns, probe_completeness, shown_chunks
from llama_index_chunking_plus.evaluation.strategies import Expansion, Strategy, five_ways, grid, own_ways

_NAMES = {  # of the presets' strategies; ours are named as --parser names them
    "token": "token",
    "sentence": "sentence",
    "sentence window": "sentence-window",
    "semantic": "semantic-splitter",
    "hybrid": "hybrid",
    "by meaning": "semantic",
    "sliding window": "sliding",
    "structured": "structured",
    "small to big": "small-to-big",
    "sentence window, expanded": "window",
    "multi-granularity": "multi-granularity",
}
FIVE_WAYS = ("token", "sentence", "sentence-window", "semantic-splitter", "hybrid")
OURS = tuple(name for name in _NAMES.values() if name not in FIVE_WAYS[:-1])
PROBED = ("token", "sentence", "hybrid", "structured", "small-to-big")  # by `probe`, unless it is told others
VIEWED = ("sliding", "structured")  # by `view`
GROUPS = {"five-ways": FIVE_WAYS, "ours": OURS, "all": (*FIVE_WAYS[:-1], *OURS)}
_LINE = re.compile(r"line (\d+)")
_SIZED = re.compile(r"(?P<name>[^:]+)(?::(?P<size>\d{1,9})(?:/(?P<overlap>\d{1,9}))?)?")
_RETURNED: dict[Expansion, Returns] = {"parents": "parent", "windows": "window", "window_metadata": "window"}


def strategies_by_name(names: str) -> list[Strategy]:
    """The strategies of a list such as ``five-ways`` or ``hybrid,sliding:256/32,token``, each once.

    A size and an overlap, in tokens, may stand behind a name.

    Raises:
        OptionError: a name is unknown, or its size does not suit it.

    Example:
        >>> [each.name for each in strategies_by_name("token, small-to-big:64, token")]
        ['token', 'small-to-big:64']
    """
    listed = [name.strip() for name in names.split(",") if name.strip()]
    wanted = [each for name in listed for each in GROUPS.get(name, [name])]
    if not wanted:
        raise OptionError(f"there is no strategy in {names!r}; give {', '.join(GROUPS)}, or names of strategies")
    known = {_NAMES[each.name]: each for each in [*five_ways(), *own_ways()]}
    return [_strategy(each, known) for each in dict.fromkeys(wanted)]


def _strategy(asked: str, known: dict[str, Strategy]) -> Strategy:
    match = _SIZED.fullmatch(asked)
    if match is None or match["name"] not in known:
        raise OptionError(
            f"strategy {asked!r} is none of {', '.join([*GROUPS, *known])}; a size and an overlap may stand behind a "
            "name, as in sliding:256/32"
        )
    name, preset = match["name"], known[match["name"]]
    size, overlap = (None if match[part] is None else int(match[part]) for part in ("size", "overlap"))
    if name in OURS:
        return _own(asked, preset, ParserChoice(name, chunk_size=size, chunk_overlap=overlap))
    return replace(preset if size is None else _sized(preset, size, overlap), name=asked)


def _own(asked: str, preset: Strategy, choice: ParserChoice) -> Strategy:
    """One of our parsers, the same as ``--parser`` makes it; sizes that make none are an error at once."""

    def parser(model: BaseEmbedding) -> NodeParser:
        return make_parser(choice, lambda: model)

    parser(OfflineEmbedding())
    return replace(preset, name=asked, parser=parser)


def _sized(preset: Strategy, size: int, overlap: int | None) -> Strategy:
    """One of LlamaIndex's splitters at another size."""
    if not isinstance(preset.parser, NodeParser) or "chunk_size" not in type(preset.parser).model_fields:
        raise OptionError(f"strategy {_NAMES[preset.name]!r} takes no size; leave :{size} out")
    overlap = size // 8 if overlap is None else overlap
    return grid(preset.parser, chunk_size=size, chunk_overlap=overlap)[0]


# ------------------------------------------------------------------------------------------------ questions


def read_questions(path: Path, documents: Iterable[Document]) -> EvaluationSet:
    """The questions of a JSONL file; it may name a document by the end of its path, such as ``contract.md``.

    A question whose document is missing keeps the name, for the evaluator to note. If the file has flaws, the error
    names all that can be found, in the order of its lines: malformed lines, names that fit several documents, ids that
    stand twice, and quotes and ranges that do not suit their documents.

    Args:
        path: see `load_questions`.
        documents: as `read_document` reads them, their ids are their paths.

    Raises:
        EvaluationSetError: the file has flaws, or a name fits several documents.
        InputFileError: the file cannot be read.
    """
    texts = {document.id_: document.text for document in documents}
    questions, problems = read_lines(path)
    paths = {name: _parts(name) for name in texts}
    named = tuple(_named(question, paths, problems) for question in questions)
    try:
        asked = EvaluationSet(named, str(path))
    except EvaluationSetError as error:  # ids that stand twice
        problems += error.problems
    if problems:
        raise EvaluationSetError(str(path), sorted([*problems, *_misfits(named, texts)], key=_line))
    return asked


def _line(problem: str) -> int:
    """The number of the line that a problem begins with."""
    match = _LINE.match(problem)
    return int(match[1]) if match else 0


def _misfits(questions: Iterable[EvaluationQuestion], texts: dict[str, str]) -> list[str]:
    """What is wrong with quotes and ranges of questions whose documents are there and not empty."""
    filled = {name: text for name, text in texts.items() if text.strip()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quotes with other white space are found
        return [flaw for question in questions for flaw in _flaws(question, filled)]


def _flaws(question: EvaluationQuestion, texts: dict[str, str]) -> tuple[str, ...]:
    try:
        EvaluationSet((question,)).resolve(texts, missing="skip")
    except EvaluationSetError as error:
        return error.problems
    return ()


def _named(question: EvaluationQuestion, paths: dict[str, tuple[str, ...]], problems: list[str]) -> EvaluationQuestion:
    asked = question.document_id
    end = _parts(asked)
    fitting = [asked] if asked in paths else [name for name, parts in paths.items() if parts[-len(end) :] == end]
    if len(fitting) > 1:
        problems.append(
            f"{question.place}: document {asked!r} fits {', '.join(map(repr, fitting[:5]))}; write more of its path"
        )
    return replace(question, document_id=fitting[0]) if len(fitting) == 1 else question


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a path, in one form for all systems."""
    return PurePosixPath(unicodedata.normalize("NFC", name).replace("\\", "/")).parts


# ------------------------------------------------------------------------------------------------ probes


def probed(
    strategies: Sequence[Strategy], documents: Sequence[Document], probes: ProbeSet, model: BaseEmbedding
) -> list[ProbeReport]:
    """How whole each strategy leaves what must be whole; parents and windows count where it returns them."""
    return [probe_report(each, chunked(documents, each.make_parser(model)), probes) for each in strategies]


def chunked(documents: Sequence[Document], parser: NodeParser) -> list[BaseNode]:
    """The nodes of the documents, which stay as they are."""
    return parser.get_nodes_from_documents([document.model_copy(deep=True) for document in documents])


def probe_report(strategy: Strategy, nodes: Sequence[BaseNode], probes: ProbeSet) -> ProbeReport:
    """How whole the nodes that a strategy made leave the probes."""
    shown = shown_chunks(nodes, probes.texts, returns=_RETURNED.get(strategy.expansion, "node"))
    return probe_completeness(shown.by_document, probes, strategy=strategy.name)
