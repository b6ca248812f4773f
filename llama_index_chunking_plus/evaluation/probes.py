"""Which chunking tears answers apart, measured without labels: questions that a document asks for by itself.

    documents -> finders of `probe_kinds` -> a bounded choice, spread over each document -> ProbeSet
    nodes -> `shown_chunks` -> what a reader is shown of each document
    both -> ProbeReport: how many gold parts stand whole in one chunk, what breaks, and the worst cuts

A probe is whole if one chunk shows all of its parts, in its range or in what its metadata shows ahead of it.
"""

from __future__ import annotations

import reprlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

from llama_index.core.schema import BaseNode, MetadataMode

from llama_index_chunking_plus.core.align import align
from llama_index_chunking_plus.core.options import is_collection, is_whole
from llama_index_chunking_plus.core.parents import ParentRef, WindowRef
from llama_index_chunking_plus.core.sections import TAIL_KEY
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion, EvaluationSet
from llama_index_chunking_plus.evaluation.intervals import length, union, without
from llama_index_chunking_plus.evaluation.probe_kinds import FINDERS, REASONS, Found, Part, ProbedText, ProbeKind
from llama_index_chunking_plus.evaluation.structure import ShownChunk

GOOD_ENOUGH = 0.8
"""The score below which a report says what breaks."""

_WORST = 3  # cuts that a summary shows
_MOST_PLACES = 3  # of one of them
_AROUND = 40  # characters on each side of a cut
_WINDOW = "window"  # where LlamaIndex's own parser of sentences keeps the text around them
Returns = Literal["node", "parent", "window"]
T = TypeVar("T")


# ------------------------------------------------------------------------------------------------ probes


@dataclass(frozen=True)
class Probe:
    """A question of which the answer must stand whole in one chunk.

    Args:
        probe_id: a name that no other probe of the set has.
        kind: "table", a cell by its row and column; "code", a whole sample; "example", a definition or rule with its
            example; "procedure", all steps; "answer", with its question; "exception", with its rule.
        question: in the language of the document.
        document_id: the document that asks it.
        parts: the ranges that are needed, with what each is; in order.
        expected_steps: what a complete answer must say, if it is a list.
    """

    probe_id: str
    kind: ProbeKind
    question: str
    document_id: str
    parts: tuple[Part, ...]
    expected_steps: tuple[str, ...] = ()

    @property
    def gold(self) -> tuple[Span, ...]:
        """The ranges of the parts."""
        return tuple(part.span for part in self.parts)

    @property
    def span(self) -> Span:
        """From the first part to the last."""
        return Span(self.parts[0].span.start, self.parts[-1].span.end)

    @property
    def reason(self) -> str:
        """Why it must be whole."""
        return REASONS[self.kind]


@dataclass(frozen=True)
class ProbeSet:
    """The probes of some documents.

    Args:
        probes: document by document.
        texts: the text of every document by its id, those without probes as well.

    Example:
        >>> text = "# 连接\\n\\n| 参数 | 默认值 |\\n|--|--|\\n| 重试次数 | 三次，每次间隔两秒 |\\n| 超时 | 三十秒 |\\n"
        >>> probes = completeness_probes({"guide.md": text}, min_length=20)
        >>> [(probe.question, [part.name for part in probe.parts]) for probe in probes][0]
        ('「连接」中重试次数的默认值是什么？', ['header row', 'data row'])
        >>> cut = text.index("| 超时")
        >>> report = probe_completeness({"guide.md": [(0, cut), (cut, len(text))]}, probes)
        >>> report.score, report.cuts[0].how
        (0.5, 'header row and data row in different chunks')
    """

    probes: tuple[Probe, ...]
    texts: Mapping[str, str] = field(repr=False)

    def __len__(self) -> int:
        return len(self.probes)

    def __iter__(self) -> Iterator[Probe]:
        return iter(self.probes)

    @property
    def without_probes(self) -> tuple[str, ...]:
        """The documents that ask for nothing that could be cut."""
        asked = {probe.document_id for probe in self.probes}
        return tuple(name for name in self.texts if name not in asked)

    def to_evaluation_set(self) -> EvaluationSet:
        """The probes as questions for retrieval: their section is the kind, their tag "probe"."""
        return EvaluationSet(
            tuple(
                EvaluationQuestion(
                    probe.probe_id,
                    probe.question,
                    probe.document_id,
                    gold=probe.gold,
                    section=probe.kind,
                    tags=("probe",),
                    expected_steps=probe.expected_steps,
                )
                for probe in self.probes
            ),
            source="completeness probes",
        )


def completeness_probes(
    documents: Iterable[BaseNode] | Mapping[str, str],
    *,
    kinds: Iterable[ProbeKind] | None = None,
    max_per_kind: int = 10,
    min_length: int = 60,
    max_length: int = 2000,
) -> ProbeSet:
    """Questions that documents ask for by themselves, with the ranges that answer them; always the same ones.

    Args:
        documents: documents, or the text of each by its id. Where two have one id and differ, the first counts, with
            one warning.
        kinds: those that are looked for; None: all.
        max_per_kind: how many probes a document may have of each kind, from 1; a choice is spread evenly over it.
        min_length: how many characters a probe must reach over, from 1; what is shorter is whole by chance.
        max_length: how many characters its parts may have in all; what is longer no chunk of usual size holds. Of a
            code sample that is longer, its functions are looked at.

    Raises:
        OptionError: an option is out of range, a kind is unknown, or a document has no id.

    Example:
        >>> steps = ["1. 打开包装，取出主机和电源。", "2. 接上电源，等指示灯变绿。", "3. 按住复位键三秒，松开即可。"]
        >>> text = "\\n".join(["安装步骤如下：", "", *steps])
        >>> [probe.kind for probe in completeness_probes({"手册": text}, min_length=20)]
        ['procedure']
    """
    chosen = _checked_kinds(kinds)
    lengths_fit = is_whole(min_length, least=1) and is_whole(max_length, least=min_length)
    if not (lengths_fit and is_whole(max_per_kind, least=1)):
        raise OptionError(
            f"max_per_kind={max_per_kind!r}, min_length={min_length!r}, max_length={max_length!r}; they must be whole "
            "numbers, the first two at least 1, and max_length not below min_length"
        )
    texts = _texts(documents)
    probes: list[Probe] = []
    for name, text in texts.items():
        document = ProbedText(text, max_length)
        found = {kind: _chosen(document, kind, max_per_kind, min_length) for kind in chosen}
        probes.extend(_numbered(name, document, found))
    return ProbeSet(tuple(probes), texts)


def _checked_kinds(kinds: Iterable[ProbeKind] | None) -> list[ProbeKind]:
    if kinds is not None and not is_collection(kinds):
        raise OptionError(f"kinds={kinds!r} is no list; choose some of {', '.join(FINDERS)}, or None for all")
    chosen = list(FINDERS if kinds is None else kinds)
    unknown = [kind for kind in chosen if kind not in tuple(FINDERS)]
    if unknown or not chosen:
        raise OptionError(f"kinds={unknown or chosen!r}; choose some of {', '.join(FINDERS)}")
    return list(dict.fromkeys(chosen))


def _texts(documents: Iterable[BaseNode] | Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    twice = list[str]()
    for name, text in _named_texts(documents):
        if not name.strip():
            raise OptionError(f"a document has the id {name!r}; give it one that is not empty")
        if texts.setdefault(name, text) != text:
            twice.append(name)
    if twice:
        warnings.warn(
            f"{'1 document has' if len(twice) == 1 else f'{len(twice)} documents have'} the id of another one with "
            f"another text ({twice[0]!r}, say), and only the first of an id is used. Give each document "
            "an id of its own.",
            ChunkingPlusWarning,
            stacklevel=3,
        )
    return texts


def _named_texts(documents: Iterable[BaseNode] | Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Id and text of each document."""
    is_mapping = isinstance(documents, Mapping)
    if not is_mapping and not is_collection(documents):
        raise OptionError(f"documents={documents!r} is no list; give documents, or a mapping from ids to texts")
    for each in documents.items() if isinstance(documents, Mapping) else documents:
        if isinstance(each, BaseNode):
            yield each.node_id, each.get_content(metadata_mode=MetadataMode.NONE)
        elif is_mapping and all(isinstance(part, str) for part in each):
            yield each
        else:
            raise OptionError(f"documents has {each!r}; give documents, or a mapping from ids to texts")


def _chosen(document: ProbedText, kind: ProbeKind, most: int, shortest: int) -> list[Found]:
    """What a finder finds, each range once, spread over the document."""
    found: dict[Span, Found] = {}
    for each in FINDERS[kind](document):
        if each.span.end - each.span.start >= shortest and each.size <= document.longest:
            found.setdefault(each.span, each)
    ordered = sorted(found.values(), key=lambda each: each.span)
    if kind != "table":
        return _spread(ordered, most)
    tables: defaultdict[Span, list[Found]] = defaultdict(list)  # a long one must not crowd out the others
    for each in ordered:
        tables[each.parts[0].span].append(each)
    share = -(-most // max(1, len(tables)))
    return _spread([each for rows in tables.values() for each in _spread(rows, share)], most)


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly spaced, the first and the last among them.

    Example:
        >>> _spread("abcdefg", 3)
        ['a', 'd', 'g']
    """
    if len(items) <= most:
        return list(items)
    return [items[i * (len(items) - 1) // max(1, most - 1)] for i in range(most)]


def _numbered(name: str, document: ProbedText, found: Mapping[ProbeKind, Sequence[Found]]) -> Iterator[Probe]:
    """The probes of a document; of questions that are the same, all but the first say which one is meant."""
    asked: Counter[str] = Counter()
    for kind, chosen in found.items():
        for number, each in enumerate(chosen, 1):
            asked[each.question] += 1
            n, question = asked[each.question], each.question
            if n > 1:
                question += f"（第 {n} 处）" if document.is_chinese else f" (no. {n})"
            yield Probe(f"{name}#{kind}-{number}", kind, question, name, each.parts, each.steps)


# ------------------------------------------------------------------------------------------------ what is shown


class ShownNodes(NamedTuple):
    """What a reader is shown of each document.

    Args:
        by_document: the chunks by the id of their document, in the order of the nodes.
        n_aligned: the nodes of which the range had to be found by their text.
        n_lost: those that stand in no document; they are left out.
    """

    by_document: dict[str, list[ShownChunk]]
    n_aligned: int = 0
    n_lost: int = 0


def shown_chunks(nodes: Iterable[BaseNode], texts: Mapping[str, str], *, returns: Returns = "node") -> ShownNodes:
    """Nodes of any parser as chunks of their documents.

    A range counts as it is told if the document says there what the node says, and says it but once or in order; else
    it is found by the text (see `align`). What the metadata shows to a language model is shown ahead of the chunk.

    Args:
        nodes: those that are retrieved, in the order in which the parser gave them.
        texts: the text of each document by its id.
        returns: what the retriever gives for a node: "node", itself; "parent", the larger chunk that it is a part of;
            "window", the sentences around it. A node that names none is given itself.

    Raises:
        OptionError: ``returns`` is something else.

    Example:
        >>> from llama_index.core import Document
        >>> from llama_index.core.node_parser import SentenceSplitter
        >>> document = Document(id_="a", text="first part. " * 40)
        >>> nodes = SentenceSplitter(chunk_size=64, chunk_overlap=0)([document])
        >>> shown = shown_chunks(nodes, {"a": document.text})
        >>> shown.n_lost, len(shown.by_document["a"]) == len(nodes)
        (0, True)
    """
    if returns not in ("node", "parent", "window"):
        raise OptionError(f'returns={returns!r}; it must be "node", "parent" or "window"')
    groups: defaultdict[str | None, list[BaseNode]] = defaultdict(list)
    for node in nodes:
        groups[_document_of(node, texts)].append(node)
    n_lost, n_aligned = len(groups.pop(None, [])), 0
    by_document: dict[str, list[ShownChunk]] = {}
    for name, group in groups.items():
        text = texts[name or ""]
        told = _told(text, group)
        spans = _completed(text, [_content(node) for node in group], told)
        n_aligned += sum(old is None and new is not None for old, new in zip(told, spans, strict=True))
        n_lost += spans.count(None)
        wider = _wider(text, group, spans, returns)
        by_document[name or ""] = [_shown(node, span) for node, span in zip(group, wider, strict=True) if span]
    return ShownNodes(by_document, n_aligned, n_lost)


def _content(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)


def _shown(node: BaseNode, span: Span) -> ShownChunk:
    lead = node.get_metadata_str(MetadataMode.LLM)
    return ShownChunk(span, lead, str(node.metadata.get(TAIL_KEY, "")))


def _document_of(node: BaseNode, texts: Mapping[str, str]) -> str | None:
    """The document of a node: its source, itself, or the only one there is."""
    source = node.source_node
    names = [source.node_id if source is not None else node.node_id, *(list(texts) if len(texts) == 1 else [])]
    return next((name for name in names if name in texts), None)


def _told(text: str, nodes: Sequence[BaseNode]) -> list[Span | None]:
    """The ranges that the nodes tell, where they are to be believed."""
    told: list[Span | None] = []
    latest = -1
    for node in nodes:
        span = Span(_place(node, "start_char_idx"), _place(node, "end_char_idx"))
        content = _content(node)
        is_slice = 0 <= span.start < span.end and span.of(text) == content
        is_sure = is_slice and (span.start > latest or text.find(content) == text.rfind(content))
        told.append(span if is_sure else None)
        latest = max(latest, span.start) if is_sure else latest
    return told


def _place(node: BaseNode, name: str) -> int:
    """What a node says of its place; -1 if it says nothing."""
    place = getattr(node, name, None)
    return place if isinstance(place, int) else -1


def _completed(text: str, contents: Sequence[str], told: Sequence[Span | None]) -> list[Span | None]:
    """The ranges, those that are not told found by the text, all of it in order."""
    if None not in told:
        return list(told)
    return [old or new for old, new in zip(told, align(text, contents), strict=True)]


def _wider(text: str, nodes: Sequence[BaseNode], spans: Sequence[Span | None], returns: Returns) -> list[Span | None]:
    """The ranges of what is returned for the nodes."""
    if returns == "node":
        return list(spans)
    named: list[Span | None] = []
    for node in nodes:
        reference = (ParentRef if returns == "parent" else WindowRef).from_metadata(node.metadata)
        named.append(reference.span if reference is not None and reference.is_slice_of(text) else None)
    if returns == "window" and None in named:
        named = _completed(text, [str(node.metadata.get(_WINDOW, "")) for node in nodes], named)
    return [wide or own for wide, own in zip(named, spans, strict=True)]


# ------------------------------------------------------------------------------------------------ the report


class KindScore(NamedTuple):
    """How one kind of probe fares.

    Args:
        kind: the kind.
        whole: how many probes stand whole in one chunk.
        total: how many there are.
        partial: the share of its parts' characters that the best chunk shows, on average.
    """

    kind: ProbeKind
    whole: int
    total: int
    partial: float

    @property
    def score(self) -> float:
        """The share that is whole."""
        return self.whole / self.total


class CutPlace(NamedTuple):
    """Where a probe was cut.

    Args:
        position: the character of the document that the next chunk begins with, or behind the last.
        before: the text up to there.
        after: the text from there on.
    """

    position: int
    before: str
    after: str


@dataclass(frozen=True)
class Cut:
    """A probe that no chunk shows whole.

    Args:
        probe: the probe.
        how: what happened to it.
        partial: the share of its parts' characters that the best chunk shows.
        pieces: how many chunks it takes to show all that is shown of it; 0 if none shows any.
        places: where it was cut, in order.
    """

    probe: Probe
    how: str
    partial: float
    pieces: int
    places: tuple[CutPlace, ...]


class Breakage(NamedTuple):
    """What breaks how often.

    Args:
        kind: the kind of probe.
        how: what happened.
        n_probes: to how many.
        share: of all probes of the kind.
    """

    kind: ProbeKind
    how: str
    n_probes: int
    share: float


@dataclass(frozen=True)
class ProbeReport:
    """How whole a strategy leaves what must be whole.

    Args:
        kinds: the kinds that have probes.
        cuts: all probes that are not whole, the worst first: the least shown in one chunk, then the most pieces.
        n_documents: how many documents were looked at.
        without_probes: the documents that have none.
        strategy: its name, for the summary.
    """

    kinds: tuple[KindScore, ...]
    cuts: tuple[Cut, ...]
    n_documents: int
    without_probes: tuple[str, ...] = ()
    strategy: str = ""

    @property
    def total(self) -> int:
        """How many probes there are."""
        return sum(kind.total for kind in self.kinds)

    @property
    def whole(self) -> int:
        """How many stand whole in one chunk."""
        return sum(kind.whole for kind in self.kinds)

    @property
    def score(self) -> float | None:
        """The share of probes that stand whole in one chunk; None if there are no probes, which says nothing."""
        return self.whole / self.total if self.total else None

    @property
    def partial(self) -> float | None:
        """The share of their characters that the best chunk shows, on average; None if there are no probes."""
        return sum(kind.partial * kind.total for kind in self.kinds) / self.total if self.total else None

    @property
    def breakages(self) -> tuple[Breakage, ...]:
        """What breaks, the most frequent first."""
        totals = {kind.kind: kind.total for kind in self.kinds}
        counts = Counter((cut.probe.kind, cut.how) for cut in self.cuts)
        return tuple(Breakage(kind, how, n, n / totals[kind]) for (kind, how), n in counts.most_common())

    def summary(self) -> str:
        """The report as plain text: the scores and, below 0.8, what breaks and the three worst cuts."""
        return "\n".join(_summary(self))


def probe_completeness(
    chunks: Mapping[str, Iterable[ShownChunk | tuple[int, int]]], probes: ProbeSet, *, strategy: str = ""
) -> ProbeReport:
    """How many probes stand whole in one chunk of a strategy.

    Args:
        chunks: what is shown of each document, by its id: `shown_chunks` has it in ``by_document``; bare ranges do as
            well. Where parents or windows are returned, these are what is shown. A document without chunks is lost.
        probes: what must be whole.
        strategy: its name, for the report.

    Raises:
        OptionError: an argument of another kind, or a range that ends before it starts.

    Example:
        >>> steps = ["1. 打开包装，取出主机和电源。", "2. 接上电源，等指示灯变绿。", "3. 按住复位键三秒，松开即可。"]
        >>> text = "\\n".join(["安装步骤如下：", "", *steps])
        >>> probes = completeness_probes({"手册": text}, min_length=20)
        >>> [probe_completeness({"手册": ranges}, probes).score for ranges in ([(0, 70)], [(0, 30), (30, 70)])]
        [1.0, 0.0]
    """
    if not isinstance(chunks, Mapping) or not all(map(is_collection, chunks.values())):
        raise OptionError(f"chunks={reprlib.repr(chunks)} is no mapping from document ids to lists of chunks")
    if not isinstance(probes, ProbeSet):
        raise OptionError(f"probes={reprlib.repr(probes)} is no ProbeSet; make one with completeness_probes(...)")
    if not isinstance(strategy, str):
        raise OptionError(f"strategy={strategy!r} is no text; pass the name that the report is to show")
    shown = {name: _sorted_chunks(chunks.get(name, ()), len(text)) for name, text in probes.texts.items()}
    judged = [_judged(probes.texts[probe.document_id], probe, shown[probe.document_id]) for probe in probes]
    partials: defaultdict[ProbeKind, list[float]] = defaultdict(list)
    broken: Counter[ProbeKind] = Counter()
    for probe, cut in zip(probes, judged, strict=True):
        partials[probe.kind].append(1.0 if cut is None else cut.partial)
        broken[probe.kind] += cut is not None
    return ProbeReport(
        tuple(
            KindScore(kind, len(each) - broken[kind], len(each), sum(each) / len(each))
            for kind, each in sorted(partials.items(), key=lambda item: list(FINDERS).index(item[0]))
        ),
        tuple(sorted((cut for cut in judged if cut is not None), key=lambda cut: (cut.partial, -cut.pieces))),
        len(probes.texts),
        probes.without_probes,
        strategy,
    )


def _sorted_chunks(chunks: Iterable[ShownChunk | tuple[int, int]], end: int) -> list[ShownChunk]:
    """The chunks by where they begin, each once, none empty or outside of the text."""
    shown = {chunk if isinstance(chunk, ShownChunk) else ShownChunk(_range(chunk)) for chunk in chunks}
    clipped = (each._replace(span=Span(max(0, each.span[0]), min(end, each.span[1]))) for each in shown)
    return sorted(each for each in clipped if each.span.start < each.span.end)


def _range(given: object) -> Span:
    """A bare range, checked; what lies outside of the text is cut off later."""
    is_pair = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2  # noqa: PLR2004  start, end
    if not is_pair or not all(isinstance(edge, int) for edge in given) or given[0] > given[1]:  # type: ignore[attr-defined,index]
        raise OptionError(
            f"chunks has {given!r}; a chunk is a range (start, end) of characters, its end after its start"
        )
    return Span(*given)  # type: ignore[misc]


def _judged(text: str, probe: Probe, chunks: Sequence[ShownChunk]) -> Cut | None:
    """What is wrong with a probe; None if a chunk shows all of it."""
    start, end = probe.span
    near = [_View(text, probe, chunk) for chunk in chunks if chunk.span.start < end and start < chunk.span.end]
    if any(all(view.shows) for view in near):
        return None
    largest = max((chunk.span.end - chunk.span.start for chunk in chunks), default=0)
    pieces, edges = _pieces(text, probe, near)
    return Cut(
        probe,
        _how(text, probe, near, largest),
        max((view.share for view in near), default=0.0),
        pieces,
        tuple(CutPlace(at, text[max(0, at - _AROUND) : at], text[at : at + _AROUND]) for at in edges),
    )


class _View:
    """What one chunk shows of a probe."""

    def __init__(self, text: str, probe: Probe, chunk: ShownChunk) -> None:
        self.span = chunk.span
        around = _squeezed(chunk.lead)
        self.shown = [  # of each part
            span
            if bool(around) and _squeezed(span.of(text)) in around
            else Span(max(span.start, chunk.span.start), min(span.end, chunk.span.end))
            for span in probe.gold
        ]
        self.shows = [shown == part for shown, part in zip(self.shown, probe.gold, strict=True)]
        self.share = length(union(self.shown)) / length(union(probe.gold))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _how(text: str, probe: Probe, near: Sequence[_View], largest: int) -> str:
    """What happened to a probe that no chunk shows whole."""
    everywhere = union(span for view in near for span in view.shown)
    for part in probe.parts:
        if any(gap.of(text).strip() for gap in without(part.span, everywhere)):
            return f"{part.name} missing, in whole or in part"
    if length(union(probe.gold)) > largest:
        return f"{probe.kind} longer than the largest chunk"
    for i, part in enumerate(probe.parts):
        if not any(view.shows[i] for view in near):
            return f"{part.name} cut up"
    pairs = [*pairwise(range(len(probe.parts))), (0, -1)]
    apart = next(pair for pair in pairs if not any(view.shows[pair[0]] and view.shows[pair[1]] for view in near))
    first, second = (probe.parts[i].name for i in apart)
    return f"{first}s in different chunks" if first == second else f"{first} and {second} in different chunks"


def _pieces(text: str, probe: Probe, near: Sequence[_View]) -> tuple[int, list[int]]:
    """How few chunks show all that is shown of the parts, and where one ends or the next begins in between."""
    cursor, pieces, edges = probe.span.start, 0, list[int]()
    for part in probe.gold:
        cursor = max(cursor, part.start)
        while cursor < part.end:
            reach = max((view.span.end for view in near if view.span.start <= cursor), default=cursor)
            is_shown = reach > cursor
            if not is_shown:
                reach = min((view.span.start for view in near if view.span.start > cursor), default=part.end)
            pieces += is_shown
            if reach < probe.span.end and (is_shown or text[cursor:reach].strip()):
                edges.append(reach)
            cursor = reach
    return pieces, edges


def _summary(report: ProbeReport) -> Iterator[str]:
    name = f"{report.strategy}: " if report.strategy else ""
    if report.score is None or report.partial is None:
        documents = f"{report.n_documents} document{'' if report.n_documents == 1 else 's'}"
        yield (
            f"{name}no score: nothing in {documents} could be asked for. There is no table with a header, closed code "
            "sample, definition with example, procedure, answer or exception of sufficient length, so this says "
            "nothing about the chunks. Use questions of your own."
        )
        return
    yield (
        f"{name}completeness {report.score:.2f}: {report.whole} of {report.total} probes stand whole in one chunk; "
        f"the best chunk shows {report.partial:.0%} of a probe on average"
    )
    for kind in report.kinds:
        yield f"  {kind.kind}: {kind.score:.2f} ({kind.whole} of {kind.total}; {kind.partial:.0%} shown)"
    if report.without_probes:
        yield f"  {len(report.without_probes)} of {report.n_documents} documents have nothing that could be asked for"
    if report.score < GOOD_ENOUGH:
        yield "What breaks:"
        for each in report.breakages:
            yield f"  {each.kind}, {each.n_probes} ({each.share:.0%} of its probes): {each.how}"
        yield "The worst cuts:"
        for cut in report.cuts[:_WORST]:
            yield from _cut_lines(cut)


def _cut_lines(cut: Cut) -> Iterator[str]:
    pieces = f"{cut.pieces} piece{'' if cut.pieces == 1 else 's'}"
    yield f"  {cut.probe.document_id}: {cut.probe.question}"
    yield f"    {cut.how}; {pieces}, the best shows {cut.partial:.0%}; {cut.probe.reason}"
    for place in cut.places[:_MOST_PLACES]:
        yield f"    at {place.position}: {_on_one_line(place.before)} ✂ {_on_one_line(place.after)}"
    if len(cut.places) > _MOST_PLACES:
        yield f"    and {len(cut.places) - _MOST_PLACES} more"


def _on_one_line(text: str) -> str:
    return text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\r", "⏎")
