"""What chunks tear apart that only makes sense together: a row and its header, a fence, an example, steps, words.

    text -> blocks -> units: parts that one chunk must show together
    units, chunks as they are shown -> how many are whole, and which are not

A chunk shows its range, and what its metadata puts ahead of it (``lead``) and behind it (``tail``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np

from llama_index_chunking_plus.core.belonging import ties
from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.keywords import cut_terms
from llama_index_chunking_plus.core.markdown import introduced, markdown_blocks
from llama_index_chunking_plus.core.numbered import (
    DIGIT,
    HAN_NUMERAL,
    numbered_blocks,
    ordinal,
    paragraph_blocks,
    structure_of,
)
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.evaluation.measures import measure

UnitKind = Literal["table_row", "fence", "example", "steps"]

_NUMERAL = f"(?:{DIGIT}{{1,3}}|{HAN_NUMERAL}{{1,3}})"
_STEP = re.compile(
    rf"""(?:^|(?<=\r))[ \t\u3000\ufeff>*_]*(?:
    步[骤驟][ ]?(?P<step>{_NUMERAL}) | 第(?P<nth>{_NUMERAL})步(?!行) | (?:Step|STEP)[ ](?P<english>{_NUMERAL})\b
    | (?P<dotted>\d{{1,3}})(?:[.．](?=[ \t]|[^\d\s])|、) | (?P<half>\d{{1,3}})[)）]
    | [（(](?P<paren>{_NUMERAL})[）)] | (?P<circled>[①-⑳]))
    """,
    re.VERBOSE | re.MULTILINE,
)
_MAY_EXEMPLIFY = re.compile(r"[\s*_>]*(?:例|比如|譬如|示例|举|舉|以|For[ ]|E\.g|e\.g|Example)")
_FENCE = re.compile(r"[ \t>*+.)\d-]*(?P<marks>`{3,}|~{3,})")
_ROW_BEGINS, _ROW_ENDS = re.compile("<tr", re.IGNORECASE), re.compile("</tr>", re.IGNORECASE)
_COLONS = ("：", ":")
_BLANK = re.compile(r"\s+")
_PROSE = frozenset({BlockKind.PARAGRAPH, BlockKind.QUOTE})
_SHOWS = frozenset({BlockKind.CODE, BlockKind.LIST, BlockKind.TABLE, BlockKind.FORMULA, BlockKind.HTML_TABLE})
_NO_STEPS = frozenset(
    {BlockKind.CODE, BlockKind.TABLE, BlockKind.HTML_TABLE, BlockKind.FRONT_MATTER, BlockKind.FORMULA}
)
_MOST_BETWEEN = 30  # lines between two steps


class ShownChunk(NamedTuple):
    """A chunk as a reader sees it.

    Args:
        span: its range in the document.
        lead: what is shown ahead of it, "" for nothing; a table's header rows, say.
        tail: what is shown behind it, "" for nothing; the mark that closes a fence, say.
    """

    span: Span
    lead: str = ""
    tail: str = ""


class Unit(NamedTuple):
    """What only makes sense together.

    Args:
        kind: "table_row", a row and its header; "fence", the marks that open and close code; "example", with what
            stands before it; "steps", two that follow each other.
        parts: ranges that one chunk must show, in order.
    """

    kind: UnitKind
    parts: tuple[Span, ...]

    @property
    def span(self) -> Span:
        """From the first part to the last."""
        return Span(self.parts[0].start, self.parts[-1].end)


class StructureScore(NamedTuple):
    """How many units of a kind are whole.

    Args:
        whole: those that are.
        total: all there are in the document.
        breaks: those that are not, in order.
    """

    whole: int
    total: int
    breaks: tuple[Unit, ...]

    @property
    def ratio(self) -> float:
        """The share that is whole; 1 where there is nothing to break."""
        return self.whole / self.total if self.total else 1.0


class StructuredText:
    """A document and what must stay together in it, looked for once, however many parsers are measured on it.

    Args:
        text: Markdown, or plain text with or without numbers as its structure.

    Example:
        >>> document = StructuredText("# 限值\\n\\n| 项 | 值 |\\n|--|--|\\n| 温度 | 40 |\\n| 湿度 | 80 |\\n")
        >>> score = structure_score(document, [ShownChunk(Span(0, 37)), ShownChunk(Span(37, 50))], "table_row")
        >>> score.ratio, [unit.parts[-1].of(document.text) for unit in score.breaks]
        (0.5, ['| 湿度 | 80 |'])
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def blocks(self) -> list[Block]:
        """What the document is made of."""
        structure = structure_of(self.text)
        blocks = _READERS[structure](self.text)
        return blocks if structure == "markdown" else introduced(self.text, blocks)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All that must stay together, kind by kind."""
        finders = (_table_rows, _fences, _examples, _steps)
        return tuple(unit for find in finders for unit in find(self.text, self.blocks))

    @cached_property
    def words(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Where words of two or more characters stand, shape ``(n_words, 2)``."""
        return np.asarray(cut_terms(self.text, []), dtype=np.int64).reshape(-1, 2)


_READERS: dict[str, Callable[[str], list[Block]]] = {
    "markdown": markdown_blocks,
    "numbered": numbered_blocks,
    "none": paragraph_blocks,
}


# ------------------------------------------------------------------------------------------------ measures


def structure_score(document: StructuredText, chunks: Iterable[ShownChunk], kind: UnitKind) -> StructureScore:
    """How many units of a kind the chunks leave whole.

    A fence is whole if every chunk that shows some of it shows both of its marks; any other unit, if one chunk shows
    all of its parts. What no chunk shows is broken.

    Args:
        document: the document.
        chunks: all of its chunks, in any order.
        kind: that of the units.
    """
    chunks = sorted(set(chunks))
    units = [unit for unit in document.units if unit.kind == kind]
    is_whole = _is_closed if kind == "fence" else _is_together
    breaks = tuple(unit for unit in units if not is_whole(document.text, unit, chunks))
    return StructureScore(len(units) - len(breaks), len(units), breaks)


@measure("header_with_row", "Rows with header", "document")
def header_with_row(document: StructuredText, chunks: Iterable[ShownChunk]) -> float:
    """The share of table rows that a chunk shows whole and below their header; see `structure_score`."""
    return structure_score(document, chunks, "table_row").ratio


@measure("closed_fences", "Closed code fences", "document")
def closed_fences(document: StructuredText, chunks: Iterable[ShownChunk]) -> float:
    """The share of code fences that no chunk shows without their first or last line; see `structure_score`."""
    return structure_score(document, chunks, "fence").ratio


@measure("definition_with_example", "Definitions with example", "document")
def definition_with_example(document: StructuredText, chunks: Iterable[ShownChunk]) -> float:
    """The share of examples that a chunk shows with what they are examples of; see `structure_score`."""
    return structure_score(document, chunks, "example").ratio


@measure("consecutive_steps", "Consecutive steps", "document")
def consecutive_steps(document: StructuredText, chunks: Iterable[ShownChunk]) -> float:
    """The share of pairs of consecutive steps that a chunk shows whole; see `structure_score`."""
    return structure_score(document, chunks, "steps").ratio


@measure("keyword_integrity", "Keyword integrity", "document")
def keyword_integrity(document: StructuredText, chunks: Iterable[ShownChunk]) -> float:
    """The share of words of two or more characters that stand whole in a chunk; 1 where there are none."""
    words, spans = document.words, sorted(chunk.span for chunk in chunks)
    if not words.size:
        return 1.0
    starts = [span.start for span in spans]
    reach = np.maximum.accumulate([0, *(span.end for span in spans)])  # of all chunks that began by then
    return float(np.mean(words[:, 1] <= reach[np.searchsorted(starts, words[:, 0], "right")]))


def _is_together(text: str, unit: Unit, chunks: Sequence[ShownChunk]) -> bool:
    return any(all(_is_shown(text, part, chunk, chunk.lead) for part in unit.parts) for chunk in _near(unit, chunks))


def _is_closed(text: str, unit: Unit, chunks: Sequence[ShownChunk]) -> bool:
    opening, closing = unit.parts
    touching = [chunk for chunk in _near(unit, chunks) if _shares_ink(text, unit.span, chunk.span)]
    return bool(touching) and all(
        _is_shown(text, opening, chunk, chunk.lead) and _is_shown(text, closing, chunk, chunk.tail)
        for chunk in touching
    )


def _near(unit: Unit, chunks: Iterable[ShownChunk]) -> Iterator[ShownChunk]:
    """The chunks that share something with the unit."""
    start, end = unit.span
    return (chunk for chunk in chunks if chunk.span.start < end and start < chunk.span.end)


def _is_shown(text: str, part: Span, chunk: ShownChunk, around: str) -> bool:
    """Whether a chunk shows the part, in its range or in what is shown around it."""
    if chunk.span.start <= part.start and part.end <= chunk.span.end:
        return True
    return bool(around) and _squeezed(part.of(text)) in _squeezed(around)


def _squeezed(text: str) -> str:
    return _BLANK.sub("", text)


def _shares_ink(text: str, left: Span, right: Span) -> bool:
    return bool(text[max(left.start, right.start) : min(left.end, right.end)].strip())


# ------------------------------------------------------------------------------------------------ units


def _table_rows(text: str, blocks: Iterable[Block]) -> Iterator[Unit]:
    """Rows with the names of their columns, of tables that stand by themselves and have a header."""
    for block in blocks:
        if not block.lead or block.kind not in {BlockKind.TABLE, BlockKind.HTML_TABLE}:
            continue
        first = block.lead[-1].end
        header = _header(text, block)
        cuts = sorted({cut for group in block.cuts for cut in group if cut > first})
        end = _end_of_rows(text, block.span) if block.kind is BlockKind.HTML_TABLE else block.span.end
        for row in spans_between([*cuts, end], first):
            if row.of(text).strip():
                yield Unit("table_row", (header, _trimmed(text, row)))


def _header(text: str, block: Block) -> Span:
    """The names of the columns, without the tags around their rows or the line below them."""
    start, end = block.lead[0].start, block.lead[-1].end
    if block.kind is BlockKind.HTML_TABLE:
        first = _ROW_BEGINS.search(text, start, end)
        return _trimmed(text, Span(first.start() if first else start, _end_of_rows(text, Span(start, end))))
    return _trimmed(text, Span(start, start + len(text[start:end].splitlines()[0])))


def _end_of_rows(text: str, span: Span) -> int:
    """Where the last row in a range ends, without the tags that close a table or its head."""
    return max((found.end() for found in _ROW_ENDS.finditer(text, *span)), default=span.end)


def _fences(text: str, blocks: Iterable[Block]) -> Iterator[Unit]:
    """Fences that the document itself closes, those in lists and quotes as well."""
    for block in blocks:
        for span in (block.span,) if block.kind is BlockKind.CODE else block.inner:
            found = _FENCE.match(text, *span)
            closing = _closing(text, span, found["marks"]) if found else None
            if found and closing:
                yield Unit("fence", (Span(*found.span("marks")), closing))


def _closing(text: str, span: Span, marks: str) -> Span | None:
    """The marks that close a fence."""
    end = _trimmed(text, span).end
    start = max(text.rfind("\n", span.start, end), text.rfind("\r", span.start, end)) + 1
    line = text[start:end].strip(" \t>")
    if start <= span.start or not line.startswith(marks) or line.strip(marks[0]):
        return None
    return Span(end - len(line), end)


def _examples(text: str, blocks: Sequence[Block]) -> Iterator[Unit]:
    """Examples with the sentence or the paragraph before them; those that end in a colon, with what they introduce."""
    for number, block in enumerate(blocks):
        if block.kind not in _PROSE:
            continue
        sentences = _sentences(text, block.span)
        before = blocks[number - 1].span if number and blocks[number - 1].kind in _PROSE else None
        for i, sentence in enumerate(sentences):
            previous = sentences[i - 1] if i else before
            if previous is None or not _MAY_EXEMPLIFY.match(text, *sentence) or not ties(text, [previous, sentence]):
                continue
            end = sentence.end if i else block.span.end
            if block.span.of(text).rstrip().endswith(_COLONS) and end == block.span.end:
                end = _end_of_shown(blocks, number)
            yield Unit("example", (_trimmed(text, Span(previous.start, end)),))


def _end_of_shown(blocks: Sequence[Block], number: int) -> int:
    """Where the code, list or table ends that a block introduces; else where the block does."""
    after = number + 1
    shows = after < len(blocks) and blocks[after].kind in _SHOWS
    return blocks[after if shows else number].span.end


def _sentences(text: str, span: Span) -> list[Span]:
    ends = ChineseSentenceTokenizer().ends(span.of(text))
    return spans_between([span.start + end for end in ends], span.start)


class _Step(NamedTuple):
    """A numbered item, how its number is written, and how many headings stand above it."""

    style: str
    value: int
    span: Span
    section: int


def _steps(text: str, blocks: Sequence[Block]) -> Iterator[Unit]:
    """Numbered items with the next one, which counts on in the same way, under the same heading."""
    latest: dict[str, _Step] = {}
    for step in _numbered(text, blocks):
        before = latest.get(step.style)
        latest[step.style] = step
        if before is None or (before.section, before.value + 1) != (step.section, step.value):
            continue
        if text.count("\n", before.span.end, step.span.start) <= _MOST_BETWEEN:
            yield Unit("steps", (before.span, step.span))


def _numbered(text: str, blocks: Sequence[Block]) -> Iterator[_Step]:
    """The numbered items of running text and lists, each up to the next one or the end of its block."""
    starts = [block.span.start for block in blocks]
    sections = list(accumulate(block.level > 0 for block in blocks))
    found = ((bisect_right(starts, label.start()) - 1, label) for label in _STEP.finditer(text))
    labels = [(number, label) for number, label in found if _may_be_step(blocks[number], label.start())]
    for position, (number, label) in enumerate(labels, 1):
        after = labels[position][1].start() if position < len(labels) else len(text)
        span = _trimmed(text, Span(label.start(), min(after, blocks[number].span.end)))
        style = label.lastgroup or ""
        yield _Step(style, ordinal(label[style]), span, sections[number])


def _may_be_step(block: Block, position: int) -> bool:
    is_prose = not block.level and block.kind not in _NO_STEPS
    return is_prose and not any(start <= position < end for start, end in block.inner)


def _trimmed(text: str, span: Span) -> Span:
    """The range without the white space around it."""
    content = span.of(text)
    return Span(span.start + len(content) - len(content.lstrip()), span.start + len(content.rstrip()))
