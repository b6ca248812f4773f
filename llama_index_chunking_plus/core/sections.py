"""Blocks in, chunks out: a document is cut where its own structure parts it.

Every position where a text may be cut has a rank: headings first, by level; then where things that belong together
begin; then between blocks; then inside a block that is too large, at its own cuts; then between sentences. A range that
is too large is cut at all of its best positions, and what is small goes together again with its neighbour, as long as
it fits and crosses no heading above its own. Where ranges must stay whole, there are no positions.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import chain, pairwise, product

from llama_index_chunking_plus.core.belonging import exemplifies, ties
from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.code import code_cuts
from llama_index_chunking_plus.core.markdown import inline_atoms
from llama_index_chunking_plus.core.packing import Units
from llama_index_chunking_plus.core.sizing import Marks, Ruler
from llama_index_chunking_plus.core.spans import Span, spans_between

PATH_KEY, LEAD_KEY, TAIL_KEY = "header_path", "lead", "tail"
GOES_ON_KEY = "goes_on"  # what a chunk ends inside of, where that must be closed for the reader
SECTION_KEYS = (
    *(PATH_KEY, "header_titles", "heading_level", GOES_ON_KEY, LEAD_KEY, TAIL_KEY),
    *("block_kinds", "line_start", "line_end"),
)  # what the metadata of a chunk says of it
PARENT_PREFIX = "parent_"  # of what the metadata of a part says of the whole, where its own differs

_DEEPEST = 90  # levels of headings that are told apart
_TOPIC = 91  # where the text under one heading changes its topic
_TIE = 92  # where a question with its answer begins, a procedure, a definition with its example
_BLOCK = 93
_LINE_TIE = 94  # the same as a tie, between lines of a block that is too large
_INNER = 95  # and the two after it: a block's own cuts, by group
_SEGMENT = 98  # where a segment found by another parser begins, and after an edge
_SENTENCE = 99

_TINY_SHARE = 4  # a section of less than a quarter of the limit goes with one that is cut up
_NEWLINE = re.compile(r"\n+")
_LINE_START = re.compile(r"(?:\r\n|\r(?!\n)|\n)(?=.)", re.DOTALL)
_FENCE = re.compile(r"(?P<before>[ \t>*+.)\d-]*)(?P<marks>`{3,}|~{3,})")
_TABLE_HEAD = re.compile(r"[^\r\n]*(?:\r\n?|\n)[ \t>]*(?=[|:-])[|: \t-]+(?:\r\n?|\n)")
_HTML_ROW = re.compile(r"<tr\b(?:(?!</?tr\b|</thead\b).)*(?:</tr\s*>)?", re.DOTALL | re.IGNORECASE)
_NO_CONTENT = frozenset({BlockKind.HEADING, BlockKind.BREAK, BlockKind.COMMENT})
_BESIDE = _NO_CONTENT | {BlockKind.FRONT_MATTER}  # stand outside of sections, or are a part of all that follow
_TABLES = frozenset({BlockKind.TABLE, BlockKind.HTML_TABLE})
_PROSE = frozenset({BlockKind.PARAGRAPH, BlockKind.QUOTE})
_SENTENCES = _PROSE | {BlockKind.LIST}  # what is made of sentences
_FOUND_ONCE = (  # what does not depend on the limits
    *("_measure", "_frames", "_starts", "_start_set", "_paths", "_shown_paths", "_last_content", "_end_of_content"),
    *("_block_ties", "_line_ties", "_inline_spans", "_path_sizes", "_lead_sizes"),
)
_CLOSED = re.compile(r"(\{content\})\n?[> ]*(?:`{3,}|~{3,})")


def closing_template(template: str, text: str, tail: str) -> str:
    """The template of a node with this text, with a tail that closes its fence; none is taken over from another node.

    Example:
        >>> closing_template("{metadata_str}: {content}", "a = 1", "~~~")
        '{metadata_str}: {content}\\n~~~'
    """
    if tail and not text.endswith(("\n", "\r")):
        tail = f"\n{tail}"
    return _CLOSED.sub(r"\1", template).replace("{content}", "{content}" + tail)


@dataclass(frozen=True)
class Chunk:
    """A range of the document that becomes one node.

    Args:
        span: the range.
        lead: what must be shown ahead of it, since it begins inside of a block: a table's header rows, say.
        tail: what must be shown behind it, since it ends inside of a fence: the mark that closes one.
        path: the headings above all of it, its own included, outermost first.
        kinds: what it holds, in order, each kind once.
    """

    span: Span
    lead: tuple[Span, ...]
    tail: str
    path: tuple[Block, ...]
    kinds: tuple[BlockKind, ...]


@dataclass(frozen=True)
class Limits:
    """How large chunks may be.

    Args:
        size: the largest size of a chunk, with all that is shown around it.
        overlap: the largest size that two pieces of one paragraph share, in whole sentences.
        least: what a chunk should reach, as far as headings, topics and the largest size let it.
        kept: the largest size up to which an atomic block stays whole though it is too large.
        path_size: the size of a heading path as it is shown.
        lead_size: the size of a lead as it is shown.
        tail_size: the size of a tail as it is shown.
    """

    size: int
    overlap: int
    least: int = 0
    kept: int = 0
    path_size: Callable[[tuple[Block, ...]], int] = lambda _: 0
    lead_size: Callable[[str], int] = len
    tail_size: Callable[[str], int] = len


class _Measure:
    """A ruler that is asked for many pieces between few positions: what it said of a position is kept."""

    def __init__(self, ruler: Ruler) -> None:
        self._ruler = ruler
        self._index: dict[int, int] = {}
        self._marks: Marks = ruler.marks([])

    def learn(self, positions: Iterable[int]) -> None:
        """Read sizes up to these positions, all at once."""
        new = sorted({position for position in positions if position not in self._index})
        if new:
            marks = self._ruler.marks(new)
            self._index.update(zip(new, range(len(self._index), len(self._index) + len(new)), strict=True))
            self._marks.begun.extend(marks.begun)
            self._marks.ended.extend(marks.ended)

    def fits(self, start: int, end: int, limit: int) -> bool:
        """Whether the piece between these positions is at most ``limit``."""
        known = self._marks.fits(*self._indices(start, end), limit)
        return self._ruler.fits(start, end, limit) if known is None else known

    def surely_fits(self, start: int, end: int, limit: int) -> bool:
        """Whether that is known at once, wherever the two positions tear something."""
        i, j = self._indices(start, end)
        return self._marks.begun[j] - self._marks.ended[i] <= limit - self._marks.torn_margin

    def _indices(self, start: int, end: int) -> tuple[int, int]:
        if start not in self._index or end not in self._index:
            self.learn((start, end))
        return self._index[start], self._index[end]


@dataclass(frozen=True)
class _Part:
    """The ruler of a text, for a part of it."""

    whole: Ruler
    span: Span

    def marks(self, positions: Sequence[int]) -> Marks:
        return self.whole.marks([self.span.start + position for position in positions])

    def reach(self, start: int, limit: int) -> int:
        return min(self.whole.reach(self.span.start + start, limit), self.span.end) - self.span.start

    def fits(self, start: int, end: int, limit: int) -> bool:
        return self.whole.fits(self.span.start + start, self.span.start + end, limit)


@dataclass(frozen=True)
class _Frame:
    """A range of which each piece needs what stands at its beginning; pieces of a fence, to be closed as well."""

    span: Span
    leads: tuple[tuple[Span, ...], ...]  # the best first, for where one takes too much room
    tail: str = ""
    last: int = -1  # where the line begins that closes a fence
    closed: int = -1  # up to where a piece that ends in it is open: where that line ends

    @property
    def first(self) -> int:
        """Where the first thing begins that may be cut off."""
        return self.leads[0][-1].end if self.leads else self.span.start


class _Ranges:
    """Ranges that must not be cut, overlapping or not."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def hold(self, position: int) -> bool:
        """Whether a cut at this position would tear one of them."""
        i = bisect_left(self._starts, position) - 1
        return i >= 0 and position < self._ends[i]


@dataclass(frozen=True, eq=False)
class Layout:
    """A document with the positions where it may be cut.

    Args:
        text: the document.
        blocks: its blocks; they tile it.
        ruler: measures pieces of it.
        limits: how large chunks may be.
        protected: ranges that stay whole while they fit, ascending, none in another.
        units: finds the sentences of a piece, given a ruler for it and the largest size of a sentence.
        edges: positions that no chunk reaches over, ascending; the ends of larger chunks that these are parts of.
        coarser: a layout of the same text, blocks and ruler with other limits; what it found is not looked for again.
    """

    text: str
    blocks: Sequence[Block]
    ruler: Ruler
    limits: Limits
    protected: Sequence[Span]
    units: Callable[[str, Ruler, int], Units]
    edges: Sequence[int] = ()
    coarser: InitVar[Layout | None] = None
    _ranks: dict[int, int] = field(default_factory=dict, init=False)  # of the positions
    _ahead: dict[int, int] = field(default_factory=dict, init=False)  # sizes of what is shown ahead, by position
    _behind: dict[int, int] = field(default_factory=dict, init=False)  # and behind
    _path_sizes: dict[tuple[int, ...], int] = field(default_factory=dict, init=False)
    _lead_sizes: dict[tuple[Span, ...], int] = field(default_factory=dict, init=False)
    _atoms: dict[int, _Ranges] = field(default_factory=dict, init=False)  # what stands in lines, by block
    _inline_spans: dict[int, list[Span]] = field(default_factory=dict, init=False)  # the same, too large or not
    _line_ties: dict[Span, list[Span]] = field(default_factory=dict, init=False)  # of lines, by block

    def __post_init__(self, coarser: Layout | None) -> None:
        if coarser is not None:
            vars(self).update({name: getattr(coarser, name) for name in _FOUND_ONCE})
        introductions = (span.start for block in self.blocks for span in block.introduction)
        self._measure.learn([*self._starts, *introductions, len(self.text)])
        self._ranks.update({at: rank for at, rank in self._candidates().items() if not self._whole.hold(at)})
        first = self.blocks[0].level if self.blocks else 0
        self._ranks.update({0: min(first, _DEEPEST), len(self.text): 0})
        self._ranks.update({at: _SEGMENT for at in self.edges if at not in self._ranks})
        self._measure.learn(self._ranks)

    def prose(self) -> list[Span]:
        """The ranges of running text that are too large, and that another parser may cut up."""
        leaves = ((leaf, self.blocks[self._content(leaf)]) for leaf in self._leaves())
        return [Span(max(leaf.start, block.span.start), leaf.end) for leaf, block in leaves if block.kind in _PROSE]

    @cached_property
    def kept(self) -> list[Span]:
        """What stays whole though it is too large: tables, code and formulas, and what is protected."""
        if not self.limits.kept:
            return []
        atomic = (block.span for block in self.blocks if block.is_atomic)
        inner = (span for i in self._large for span in self.blocks[i].inner)
        large = {span for span in [*atomic, *inner, *self.protected] if not self._holds(span)}
        uncut = (span for span in large if bisect_right(self.edges, span.start) == bisect_left(self.edges, span.end))
        return sorted(span for span in uncut if self._measure.fits(*self._with_neighbours(span), self.limits.kept))

    def large_sections(self) -> list[Span]:
        """The ranges that neither a heading nor an edge parts, and that are too large."""
        edges = set(self.edges)
        parted = sorted(at for at, rank in self._ranks.items() if rank <= _DEEPEST or at in edges)
        return [span for span in map(Span._make, pairwise(parted)) if not self._fits(*span)]

    def chunks(self, segments: Iterable[int] = (), topics: Iterable[int] = ()) -> list[Chunk]:
        """The chunks, in order; together they cover the document.

        Args:
            segments: where other parsers want the prose to be cut.
            topics: where a new topic begins, in sections that are too large; no chunk reaches from one into the next.
        """
        if not self.text:
            return []
        self._add_topics(topics)
        self._add(segments, _SEGMENT)
        for leaf in self._leaves():
            self._add(self._sentence_starts(leaf), _SENTENCE)
        places = sorted(self._ranks)
        self._measure.learn(places)
        edges = [0, *(bisect_left(places, at) for at in self.edges), len(places) - 1]
        parts = (self._split(places, *pair) for pair in pairwise(sorted(set(edges))))
        spans = (Span(places[a], places[b]) for part in parts for a, b in self._evened(places, part))
        overlapping = (Span(self._with_overlap(span, places), span.end) for span in spans)
        return [self._chunk(piece) for span in overlapping for piece in self._bounded(span)]

    def sentences(self) -> list[Chunk]:
        """A chunk for each sentence of running text and lists; for all other blocks, those of `chunks`."""
        if not self.text:
            return []
        for block in self.blocks:
            if block.kind in _SENTENCES:
                starts = self._starts_of_units(block.span, self.limits.size)
                self._add((at for at in starts if not self._is_beside_heading(at)), _SENTENCE)
        for leaf in self._leaves():
            self._add(self._sentence_starts(leaf), _SENTENCE)
        spans = map(Span._make, pairwise(sorted(self._ranks)))
        return [self._chunk(piece) for span in spans for piece in self._bounded(span)]

    def _is_beside_heading(self, at: int) -> bool:
        """Whether a cut here would part a heading from what stands below it, or what follows all content from that."""
        return at >= self._end_of_content or self.blocks[self._index(max(at - 1, 0))].kind in _BESIDE

    # --- positions

    def _candidates(self) -> dict[int, int]:
        """Where blocks begin, and where those that are too large may be cut, with ranks."""
        ranks = {block.span.start: _rank(block) for block in self.blocks}
        for tie in self._ties:
            if ranks.get(tie.start, _LINE_TIE) >= _BLOCK:
                ranks[tie.start] = _TIE if tie.start in ranks else _LINE_TIE
        for block, anchor in zip(self.blocks, self._anchors, strict=True):
            rank = ranks.pop(block.span.start)
            rank = rank if block.span.start <= self._last_content else _BLOCK
            ranks[anchor] = min(ranks.get(anchor, _BLOCK), rank) if anchor != block.span.start else rank
        ranks.update((tie.end, _BLOCK) for tie in self._short_ties)
        for i in self._large:
            for group, cuts in enumerate(self._cuts(i)):
                ranks.update({cut: _INNER + min(group, 2) for cut in cuts if cut not in ranks})
        return ranks

    def _cuts(self, i: int) -> Iterator[Iterable[int]]:
        """Where a block that is too large may be cut, by groups, the best first; in what lies in it, by lines."""
        block, frame = self.blocks[i], self._frames.own(i)
        if block.kind is BlockKind.CODE:
            first, last = frame.first, frame.last if frame.tail else block.span.end
            yield from ([first + cut for cut in group] for group in code_cuts(self.text[first:last], block.info))
        else:
            yield from block.cuts
            yield from [()] * (2 - len(block.cuts))
            inner = self._frames.inner(i) if block.kind is not BlockKind.HTML_TABLE else []
            yield [at for each in inner for at in _line_starts(self.text, each)]

    @cached_property
    def _large(self) -> list[int]:
        """The blocks that are too large, with what must stand ahead of them."""
        return [i for i, block in enumerate(self.blocks) if not self._holds(block.span)]

    @cached_property
    def _ties(self) -> list[Span]:
        """What belongs together and stands under one heading: blocks, and lines of blocks that are too large."""
        prose = (self.blocks[i].span for i in self._large if self.blocks[i].kind in _PROSE)
        found = [*self._block_ties, *(tie for span in prose for tie in self._ties_of_lines(span))]
        opened = [block.span.start for block in self.blocks if block.level]
        under_one = (tie for tie in found if bisect_right(opened, tie.start) == bisect_left(opened, tie.end))
        return [Span(tie.start, self._end_of_tie(tie)) for tie in under_one]

    @cached_property
    def _short_ties(self) -> list[Span]:
        """Ties that do not fit and end in an example, up to the end of its first sentence, if they fit like that."""
        large = (tie for tie in self._ties if not self._holds(tie))
        ends = ((tie, self._index(tie.end - 1)) for tie in large)
        short = (Span(tie.start, self._end_of_first(i)) for tie, i in ends if self._is_example(i, tie))
        return [tie for tie in short if self._holds(tie)]

    def _is_example(self, i: int, tie: Span) -> bool:
        """Whether a paragraph of more than one sentence is an example of what is tied to it."""
        block = self.blocks[i]
        if block.kind is not BlockKind.PARAGRAPH or block.span.start <= tie.start:
            return False
        return exemplifies(block.span.of(self.text)) and self._end_of_first(i) < tie.end

    def _end_of_first(self, i: int) -> int:
        """Where the first sentence of a paragraph ends."""
        start, end = self.blocks[i].span
        ends = self._starts_of_units(Span(start, end), self.limits.size)
        return min((at for at in ends if at > start and not self._inline(i).hold(at)), default=end)

    @cached_property
    def _block_ties(self) -> list[Span]:
        return ties(self.text, [block.span for block in self.blocks]) if len(self.blocks) > 1 else []

    def _ties_of_lines(self, span: Span) -> list[Span]:
        if span not in self._line_ties:
            lines = _lines(self.text, span)
            self._line_ties[span] = ties(self.text, lines) if len(lines) > 1 else []
        return self._line_ties[span]

    def _end_of_tie(self, tie: Span) -> int:
        """Where it ends, but for comments and rules that belong to what follows."""
        if tie.end >= self._end_of_content > tie.start:
            return self._end_of_content
        i = bisect_left(self._starts, tie.end)
        anchor = self._anchors[i] if i < len(self._starts) and self._starts[i] == tie.end else tie.end
        return anchor if anchor > tie.start and anchor in self._start_set else tie.end

    @cached_property
    def _tied(self) -> _Ranges:
        return _Ranges(self._ties)

    @cached_property
    def _whole(self) -> _Ranges:
        """What must not be cut, as it fits or is to be kept."""
        inner = (span for i in self._large for span in self.blocks[i].inner)
        fitting = (span for span in [*self._ties, *self.protected, *inner] if self._holds(span))
        return _Ranges([*fitting, *self._short_ties, *self.kept])

    def _add(self, positions: Iterable[int], rank: int) -> None:
        """Add positions inside of blocks, but for those that would tear what must stay whole, a link or a formula."""
        for at in positions:
            if at not in self._ranks and not self._whole.hold(at) and not self._inline(self._index(at)).hold(at):
                self._ranks[at] = rank

    def _add_topics(self, topics: Iterable[int]) -> None:
        """Add positions between blocks and sentences; a topic that begins in a block begins with its headings."""
        for at in topics:
            i = self._index(at)
            if at == self.blocks[i].span.start:
                start = self._anchors[i]
            elif self.blocks[i].kind in _PROSE and not self._inline(i).hold(at):
                start = at
            else:
                continue
            if not self._whole.hold(start):
                self._ranks[start] = min(self._ranks.get(start, _TOPIC), _TOPIC)

    def _inline(self, i: int) -> _Ranges:
        """The code spans, formulas and links in the lines of a block, as far as they fit."""
        if i not in self._atoms:
            if i not in self._inline_spans:
                self._inline_spans[i] = list(inline_atoms(self.text, self.blocks[i]))
            self._atoms[i] = _Ranges(atom for atom in self._inline_spans[i] if self._holds(atom))
        return self._atoms[i]

    def _sentence_starts(self, leaf: Span) -> list[int]:
        """Where the sentences of a range begin; the headings and header rows at its beginning stay with the first."""
        around = max(self._size_ahead(leaf.start), self._size_ahead(leaf.end - 1)) + self._size_behind(leaf.end - 1)
        room = max(self.limits.size - around, self.limits.size // 2)
        first, head = self._head(leaf, room // 2)
        starts = {first, *self._starts_of_units(leaf, room)}
        whole = self._header(leaf, first)
        if whole is not None and head < whole.end:
            starts.update(whole)
            return [at for at in starts if leaf.start < at < leaf.end and not whole.start < at < whole.end]
        sentence = Span(head, min((at for at in starts if at > head), default=leaf.end))
        if head > first and not self._measure.fits(first, sentence.end, room):
            starts.update(self._starts_of_units(sentence, room // 2))
        return [at for at in starts if leaf.start < at < leaf.end and not first < at <= head]

    def _starts_of_units(self, span: Span, limit: int) -> list[int]:
        units = self.units(span.of(self.text), _Part(self.ruler, span), limit)
        return [span.start + at for at in units.bounds]

    def _head(self, leaf: Span, limit: int) -> tuple[int, int]:
        """The headings and header rows of a range that must stay with what follows, as far as they fit."""
        last = self._content(leaf)
        content = max(leaf.start, self._starts[last])
        first = next((at for at in self._firsts(leaf) if self._measure.fits(at, content, limit)), content)
        row = self._frames.own(last).first
        has_row = content < row < leaf.end and self._measure.fits(first, row, limit)
        return first, row if has_row else content

    def _firsts(self, leaf: Span) -> list[int]:
        """Where the blocks of a range begin, up to its content, and what introduces that."""
        begin, last = self._index(leaf.start), self._content(leaf)
        return sorted([leaf.start, *self._starts[begin + 1 : last + 1], max(leaf.start, self._introduction(last))])

    def _header(self, leaf: Span, first: int) -> Span | None:
        """The header rows of a table that a range begins with, the first row if it fits, and headings from this one.

        Between the two lines of a Markdown table's header is a worse cut than behind a heading.
        """
        last = self._content(leaf)
        row, kind = self._frames.own(last).first, self.blocks[last].kind
        if kind not in _TABLES or not max(leaf.start, self._starts[last]) < row < leaf.end:
            return None
        firsts = [at for at in self._firsts(leaf) if at >= first] if kind is BlockKind.TABLE else [first]
        spans = (Span(at, end) for at in firsts for end in (leaf.end, row))
        return next((span for span in spans if self._measure.fits(*span, self._room(*span))), None)

    def _content(self, leaf: Span) -> int:
        """The block of a range without a position that the others follow: its last, but for headings above nothing."""
        return self._index(max(min(leaf.end, self._end_of_content) - 1, leaf.start))

    def _leaves(self) -> list[Span]:
        """The ranges without a position inside that are too large."""
        leaves = (Span(*pair) for pair in pairwise(sorted(self._ranks)))
        return [leaf for leaf in leaves if not self._fits(*leaf)]

    # --- sizes

    @cached_property
    def _measure(self) -> _Measure:
        return _Measure(self.ruler)

    def _holds(self, span: Span) -> bool:
        """Whether a chunk can hold this range and what must stand with it."""
        i = self._index(span.start)
        begins_block = span.start == self._starts[i]
        start, end = self._with_neighbours(span)
        if self._measure.surely_fits(start, end, self.limits.size // 2):
            return True
        room = self._room_below(i) if begins_block else self.limits.size - self._size_ahead(span.start)
        return self._measure.fits(start, end, room)

    def _with_neighbours(self, span: Span) -> Span:
        """The range with the headings that must stand ahead of it, or at the end of the document behind it."""
        i = self._index(span.start)
        start = self._anchors[i] if span.start == self._starts[i] else span.start
        return Span(start, self._end_of_last if span.end == self._end_of_content else span.end)

    def _fits(self, start: int, end: int) -> bool:
        """Whether this may be a chunk, with what is shown around it and room for its overlap."""
        overlaps = self._ranks.get(start) == _SENTENCE
        if not overlaps and self._measure.surely_fits(start, end, self.limits.size // 2):
            return True  # what is shown around it takes no more than the other half
        room = self._room(start, end)
        return self._measure.fits(start, end, room - min(self.limits.overlap, room // 2) if overlaps else room)

    def _room(self, start: int, end: int) -> int:
        return self.limits.size - min(self._size_ahead(start) + self._size_behind(end), self.limits.size // 2)

    def _size_ahead(self, start: int) -> int:
        """The size of what is shown ahead of a chunk that begins here; at most half of the limit."""
        if start not in self._ahead:
            lead = self._lead(start)
            size = self._path_size(self._index(start)) + (self._lead_sizes[lead] if lead else 0)
            self._ahead[start] = min(size, self.limits.size // 2)
        return self._ahead[start]

    def _size_behind(self, end: int) -> int:
        """The size of what is shown behind a chunk that ends here."""
        if end not in self._behind:
            frame = self._open_frame(end)
            self._behind[end] = self.limits.tail_size(frame.tail) if frame else 0
        return self._behind[end]

    def _path_size(self, i: int) -> int:
        """The size of the longest path that a chunk can have which begins in this block."""
        return max(self._size_of_path(self._paths[i]), self._size_of_path(self._shown_paths[i]))

    def _size_of_path(self, path: tuple[int, ...]) -> int:
        if path not in self._path_sizes:
            self._path_sizes[path] = self.limits.path_size(tuple(self.blocks[i] for i in path))
        return min(self._path_sizes[path], self.limits.size // 2)

    # --- what is shown around a chunk

    def _lead(self, start: int) -> tuple[Span, ...]:
        """What is shown ahead of a chunk that begins inside of a block, if it leaves half of the chunk to the text."""
        i = self._index(start)
        if start == self.blocks[i].span.start:
            return ()
        frames = [frame.leads for frame in self._frames.around(i, start) if frame.leads and frame.span.end != start]
        whole = (tuple(chain(*leads)) for leads in product(*frames) if leads)
        found = next((lead for lead in whole if self._is_shown(lead, start)), ())
        for leads in frames if not found else []:
            found = (*found, *next((lead for lead in leads if self._is_shown((*found, *lead), start)), ()))
        return found

    def _is_shown(self, lead: tuple[Span, ...], start: int) -> bool:
        if lead not in self._lead_sizes:
            self._lead_sizes[lead] = self.limits.lead_size(_text_of(self.text, lead))
        return lead[-1].end <= start and self._lead_sizes[lead] * 2 <= self.limits.size

    def _open_frame(self, end: int) -> _Frame | None:
        """The fence that a chunk which ends here leaves open."""
        i = self._index(end - 1)
        if self.blocks[i].kind is not BlockKind.CODE and not self.blocks[i].inner:
            return None
        return next((frame for frame in self._frames.around(i, end) if end < frame.closed), None)

    @cached_property
    def _frames(self) -> _Frames:
        return _Frames(self.text, self.blocks)

    # --- chunks

    def _split(self, places: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
        """The chunks between two places, as indices of places."""
        if last - first == 1:
            return [(first, last)]
        ranks = [self._ranks[place] for place in places[first + 1 : last]]
        best = min(ranks)
        if self._fits(places[first], places[last]) and not self._is_below(places[first], best):
            return [(first, last)]
        edges = [first, *(first + 1 + i for i, rank in enumerate(ranks) if rank == best), last]
        return self._joined(places, [self._split(places, *pair) for pair in pairwise(edges)], best)

    def _joined(
        self, places: Sequence[int], parts: Sequence[list[tuple[int, int]]], rank: int
    ) -> list[tuple[int, int]]:
        """The chunks of neighbouring parts, those at the seams put together where they may be one."""
        chunks = list(parts[0])
        is_open = len(parts[0]) == 1 or self._ranks[places[parts[0][0][0]]] < rank  # the text ahead of subsections
        for part in parts[1:]:
            (begin, middle), (_, end) = chunks[-1], part[0]
            small = len(part) == 1 or self._is_tiny(places[begin], places[middle])
            may = rank >= _BLOCK or (is_open and small)
            if may and not self._is_apart(places[begin], rank) and self._fits(places[begin], places[end]):
                chunks[-1] = (begin, end)
                chunks += part[1:]
                is_open = is_open and len(part) == 1
            else:
                chunks += part
                is_open = len(part) == 1
        return chunks

    def _is_apart(self, begin: int, rank: int) -> bool:
        """Whether a chunk that begins here is not to go on over a position of this rank.

        A subsection does not go on in a section above it, nor the end of an answer in the next question, nor one
        segment or topic in another.
        """
        is_torn = rank in {_TIE, _LINE_TIE} and self._tied.hold(begin)
        return rank in {_SEGMENT, _TOPIC} or is_torn or self._is_below(begin, rank)

    def _is_below(self, begin: int, rank: int) -> bool:
        """Whether a position of this rank begins a section above the one in which a chunk begins."""
        path = self._shown_paths[self._index(begin)] if rank < _TIE else ()
        return bool(path) and _rank(self.blocks[path[-1]]) > rank

    def _evened(self, places: Sequence[int], chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The chunks, each that falls short put together with the one before, or given a part of it."""
        if not self.limits.least:
            return chunks
        evened = chunks[:1]
        for chunk in chunks[1:]:
            evened += self._pair(places, evened.pop(), chunk)
        return evened

    def _pair(self, places: Sequence[int], first: tuple[int, int], second: tuple[int, int]) -> list[tuple[int, int]]:
        """Two neighbours; if one falls short, as one, or parted elsewhere, unless a topic parts them."""
        (begin, middle), (_, end) = first, second
        rank = self._ranks[places[middle]]
        if rank == _TOPIC or not (self._is_short(places, *first) or self._is_short(places, *second)):
            return [first, second]
        if rank > _DEEPEST and self._may_be(places, begin, end):
            return [(begin, end)]
        middle = self._evener(places, begin, middle, end)
        return [(begin, middle), (middle, end)]

    def _evener(self, places: Sequence[int], begin: int, middle: int, end: int) -> int:
        """Where two neighbours are best parted so that neither falls short: at the best rank, then evenly."""
        centre = (places[begin] + places[end]) // 2
        ranks = {at: self._ranks[places[at]] for at in range(begin + 1, end)}
        best_first = sorted(ranks, key=lambda at: (ranks[at], abs(places[at] - centre)))
        pairs = ((at, ((begin, at), (at, end))) for at in best_first)
        even = (at for at, pair in pairs if not any(self._is_short(places, *piece) for piece in pair))
        return next((at for at in even if self._may_be(places, begin, at) and self._may_be(places, at, end)), middle)

    def _may_be(self, places: Sequence[int], first: int, last: int) -> bool:
        """Whether a chunk between these places would fit, and goes on over nothing that it is not to go on over."""
        best = min((self._ranks[place] for place in places[first + 1 : last]), default=_SENTENCE)
        return self._fits(places[first], places[last]) and not self._is_apart(places[first], best)

    def _is_short(self, places: Sequence[int], first: int, last: int) -> bool:
        return self._measure.fits(places[first], places[last], self.limits.least - 1)

    def _is_tiny(self, start: int, end: int) -> bool:
        return self._measure.fits(start, end, self.limits.size // _TINY_SHARE)

    def _with_overlap(self, span: Span, places: Sequence[int]) -> int:
        """Where the chunk begins, with the last sentences of the one before."""
        start, limits = span.start, self.limits
        if self._ranks[start] != _SENTENCE or not limits.overlap:
            return start
        i = bisect_left(places, start)
        room = self._room(start, span.end)
        floor = max([self.blocks[self._index(start)].span.start, *(lead.end for lead in self._lead(start))])
        while i and places[i - 1] >= floor and self._measure.fits(places[i - 1], start, limits.overlap):
            if self._ranks[places[i]] != _SENTENCE or not self._measure.fits(places[i - 1], span.end, room):
                break
            i -= 1
        return places[i]

    def _bounded(self, span: Span) -> Iterator[Span]:
        """The range itself, or pieces of it where all that had to stay together is too large."""
        if self._measure.fits(*span, self._room(*span)) or self._is_kept(span):
            yield span
            return
        room = self.limits.size // 2
        pieces = self.units(span.of(self.text), _Part(self.ruler, span), room).slide(room)
        yield from (piece.shift(span.start) for piece in pieces)

    def _is_kept(self, span: Span) -> bool:
        """Whether a part of it stays whole though it is too large."""
        return bisect_left(self.kept, Span(span.start, 0)) < bisect_left(self.kept, Span(span.end, 0))

    def _chunk(self, span: Span) -> Chunk:
        indices = range(self._index(span.start), self._index(span.end - 1) + 1)
        shown = [i for i in indices if self.blocks[i].kind not in _BESIDE] or indices
        path = _shared({self._paths[i] for i in shown})
        kinds = dict.fromkeys(self.blocks[i].kind for i in indices)
        nearest = bisect_left(self.protected, Span(span.end, 0)) - 1
        if nearest >= 0 and self.protected[nearest].end > span.start:
            kinds[BlockKind.PROTECTED] = None
        lead, frame = self._lead(span.start), self._open_frame(span.end)
        tail = frame.tail if frame is not None and (lead or frame.span.start >= span.start) else ""
        return Chunk(span, lead, tail, tuple(self.blocks[i] for i in path), tuple(kinds))

    # --- blocks

    @cached_property
    def _starts(self) -> list[int]:
        return [block.span.start for block in self.blocks]

    @cached_property
    def _start_set(self) -> set[int]:
        return set(self._starts)

    def _index(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _introduction(self, i: int) -> int:
        """Where the sentence or caption begins that introduces a block; where all other blocks begin themselves."""
        block = self.blocks[i]
        return block.introduction[0].start if block.introduction else block.span.start

    def _room_below(self, i: int) -> int:
        return self.limits.size - self._path_size(i)

    @cached_property
    def _last_content(self) -> int:
        """Where the last block begins that is more than a heading; if none is, where the text ends."""
        content = (block.span.start for block in reversed(self.blocks) if block.kind not in _NO_CONTENT)
        return next(content, len(self.text))

    @cached_property
    def _end_of_content(self) -> int:
        """Where the last block ends that is more than a heading."""
        return self.blocks[self._index(self._last_content)].span.end if self.blocks else 0

    @cached_property
    def _anchors(self) -> list[int]:
        """For each block, where a chunk must begin that is to hold its beginning.

        That is where the headings, comments and rules above it begin, or what introduces it; headings above nothing
        stay with what is before them, if that is not torn for it.
        """
        anchors: list[int] = []
        is_open = False
        for i, block in enumerate(self.blocks):
            begin = block.span.start
            if not i or not (is_open or begin > self._last_content or block.introduction):
                anchors.append(begin)
            elif is_open or begin <= self._last_content:
                anchors.append(anchors[-1] if is_open else self._anchor_before(i, anchors[-1]))
            else:
                anchors.append(begin if self._is_torn_for_the_end(anchors) else anchors[-1])
            is_open = block.kind in _BESIDE
        return anchors

    def _anchor_before(self, i: int, anchor: int) -> int:
        """The anchor of a block that is introduced, given that of the block before.

        One that is too large, wherever it begins, begins with its introduction all the same.
        """
        block, start, room = self.blocks[i], self._introduction(i), self._room_below(i)
        glued = anchor if start == self._starts[i - 1] else start
        if block.kind is BlockKind.LIST:
            return glued if self._measure.fits(start, block.span.end, room) else anchor
        is_torn = self._measure.fits(*block.span, room) and not self._measure.fits(glued, block.span.end, room)
        return block.span.start if is_torn else glued

    def _is_torn_for_the_end(self, anchors: Sequence[int]) -> bool:
        """Whether what stands last would fit, but not with the headings above nothing behind it."""
        end = self._end_of_content
        last = [self._last_content, *(tie.start for tie in self._block_ties if tie.start < end <= tie.end)]
        rooms = ((anchors[i], self._room_below(i)) for i in map(self._index, last))
        return any(
            self._measure.fits(at, end, room) and not self._measure.fits(at, len(self.text), room) for at, room in rooms
        )

    @cached_property
    def _end_of_last(self) -> int:
        """Where a chunk must end that is to hold the end of the content."""
        after = self._index(self._last_content) + 1
        is_apart = after < len(self.blocks) and self._anchors[after] == self._starts[after]
        return self._end_of_content if is_apart else len(self.text)

    @cached_property
    def _paths(self) -> list[tuple[int, ...]]:
        """The headings above each block, its own level included, as indices of blocks."""
        paths: list[tuple[int, ...]] = []
        path: tuple[int, ...] = ()
        for i, block in enumerate(self.blocks):
            if block.level:
                path = (*(at for at in path if self.blocks[at].level < block.level), i)
            paths.append(path)
        return paths

    @cached_property
    def _shown_paths(self) -> list[tuple[int, ...]]:
        """The path of each block, or, of one that stands beside sections, that of the next that does not."""
        paths = list(self._paths)
        for i in range(len(paths) - 2, -1, -1):
            if self.blocks[i].kind in _BESIDE:
                paths[i] = paths[i + 1]
        return paths


class _Frames:
    """The frames in each block, its own and those of what lies in it, looked for where they are asked for."""

    def __init__(self, text: str, blocks: Sequence[Block]) -> None:
        self._text = text
        self._blocks = blocks
        self._found: dict[int, tuple[_Frame, list[_Frame], list[int]]] = {}

    def own(self, i: int) -> _Frame:
        """The block as a frame."""
        return self._of(i)[0]

    def inner(self, i: int) -> list[_Frame]:
        """The fences and tables in a list, quote or footnote; in an HTML table, the rows that a cell spans."""
        return self._of(i)[1]

    def around(self, i: int, position: int) -> Iterator[_Frame]:
        """Those that a cut at this position tears, or that end there."""
        own, inner, starts = self._of(i)
        if own.span.start < position:
            yield own
        nearest = bisect_left(starts, position) - 1
        if nearest >= 0 and position <= inner[nearest].span.end:
            yield inner[nearest]

    def _of(self, i: int) -> tuple[_Frame, list[_Frame], list[int]]:
        if i not in self._found:
            block = self._blocks[i]
            fence = _fence(self._text, block.span) if block.kind is BlockKind.CODE and block.lead else None
            own = fence or _Frame(block.span, tuple(_leads(self._text, block)))
            rows = _cuts_of(block) if block.kind is BlockKind.HTML_TABLE else None
            found = (
                _inner_frame(self._text, span) if rows is None else _spanned_frame(span, rows) for span in block.inner
            )
            inner = [frame for frame in found if frame]
            self._found[i] = own, inner, [frame.span.start for frame in inner]
        return self._found[i]


def _leads(text: str, block: Block) -> Iterator[tuple[Span, ...]]:
    """The lead of a block; of an HTML table with more around its header rows than they are, the rows by themselves."""
    if block.lead:
        yield block.lead
        if block.kind is BlockKind.HTML_TABLE:
            rows = tuple(Span(*row.span()) for row in _HTML_ROW.finditer(text, block.lead[0].start, block.lead[-1].end))
            yield from [rows] if rows else []


def _spanned_frame(rows: Span, starts: Sequence[int]) -> _Frame | None:
    """The frame of rows that a cell spans: the first of them says what the others are."""
    second = bisect_right(starts, rows.start)
    return _Frame(rows, ((Span(rows.start, starts[second]),),)) if second < len(starts) else None


def _cuts_of(block: Block) -> list[int]:
    return sorted(cut for group in block.cuts for cut in group)


def _inner_frame(text: str, span: Span) -> _Frame | None:
    """The frame of a fence or a table that lies in a list or a quote."""
    fence = _fence(text, span)
    if fence is not None:
        return fence
    table = _TABLE_HEAD.match(text, *span)
    return _Frame(span, ((Span(span.start, table.end()),),)) if table else None


def _fence(text: str, span: Span) -> _Frame | None:
    """The frame of a fence: its first line, or at least its mark, is shown ahead of a piece, and a mark behind it."""
    opening = _FENCE.match(text, *span)
    if opening is None:
        return None
    line = _LINE_START.search(text, opening.end(), span.end)
    leads = (Span(span.start, line.end() if line else span.end),), (Span(span.start, opening.end()),)
    tail = re.sub(r"[^>\s]", " ", opening["before"]) + opening["marks"]
    end = span.start + len(span.of(text).rstrip())
    last = max(text.rfind("\n", span.start, end), text.rfind("\r", span.start, end)) + 1
    closing = text[last:end].strip(" \t>")
    if line and closing.startswith(opening["marks"]) and not closing.strip(opening["marks"][0]):
        return _Frame(span, leads, tail, last, end)
    return _Frame(span, leads, tail, span.end, span.end + 1)


def _line_starts(text: str, frame: _Frame) -> Iterator[int]:
    """Where the lines of a table or fence begin, the first ones left out, and the one that closes it."""
    end = frame.last if frame.tail else frame.span.end
    return (line.end() for line in _LINE_START.finditer(text, frame.first, end) if line.end() < end)


def _lines(text: str, span: Span) -> list[Span]:
    """The lines of a range, each with its newline."""
    ends = [match.end() for match in _NEWLINE.finditer(text, *span)]
    return spans_between(ends if ends and ends[-1] == span.end else [*ends, span.end], span.start)


def _text_of(text: str, spans: Iterable[Span]) -> str:
    return "".join(span.of(text) for span in spans)


def _rank(block: Block) -> int:
    return min(block.level, _DEEPEST) if block.level else _BLOCK


def _shared(paths: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """What all of the paths begin with."""
    first, last = min(paths), max(paths)
    count = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:count]
