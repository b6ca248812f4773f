"""Blocks in, chunks out: a document is cut where its own structure parts it.

Every position where a text may be cut has a rank: headings first, by level; then where things that belong together
begin; then between blocks; then inside a block that is too large, at its own cuts; then between sentences. A range that
is too large is cut at all of its best positions, and what is small goes together again with its neighbour, as long as
it fits and crosses no heading above its own. Where ranges must stay whole, there are no positions.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os.path import commonprefix

from llama_index_chunking_plus.core.belonging import ties
from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.code import code_cuts
from llama_index_chunking_plus.core.markdown import inline_atoms
from llama_index_chunking_plus.core.sizing import Sizer
from llama_index_chunking_plus.core.spans import Span, spans_between

_DEEPEST = 90  # levels of headings that are told apart
_TIE = 91  # where a question with its answer begins, a procedure, a definition with its example
_BLOCK = 92
_INNER = 93  # and the two after it: a block's own cuts, by group
_SEGMENT = 98  # where a segment found by another parser begins
_SENTENCE = 99

_TINY_SHARE = 4  # a section of less than a quarter of the limit goes with one that is cut up
_NEWLINE = re.compile(r"\n+")
_NO_CONTENT = frozenset({BlockKind.HEADING, BlockKind.BREAK, BlockKind.COMMENT})
_BESIDE = _NO_CONTENT | {BlockKind.FRONT_MATTER}  # stand outside of sections, or are a part of all that follow
_PROSE = frozenset({BlockKind.PARAGRAPH, BlockKind.QUOTE})

Bounds = Callable[[str, int], Sequence[int]]  # text and limit -> its sentences' bounds, pieces of long ones included


@dataclass(frozen=True)
class Chunk:
    """A range of the document that becomes one node.

    Args:
        span: the range.
        lead: what must be shown ahead of it, since it begins inside of a block: a table's header rows, say.
        path: the headings above all of it, its own included, outermost first.
        kinds: what it holds, in order, each kind once.
    """

    span: Span
    lead: tuple[Span, ...]
    path: tuple[Block, ...]
    kinds: tuple[BlockKind, ...]


@dataclass(frozen=True)
class Limits:
    """How large chunks may be.

    Args:
        size: the largest size of a chunk, with its lead and the heading path that is shown with it.
        overlap: the largest size that two pieces of one paragraph share, in whole sentences.
        keeps: whether an atomic block stays whole though it is too large.
        path_size: the size of a heading path as it is shown.
    """

    size: int
    overlap: int
    keeps: bool = False
    path_size: Callable[[tuple[Block, ...]], int] = lambda _: 0


@dataclass(frozen=True, eq=False)
class Layout:
    """A document with the positions where it may be cut.

    Args:
        text: the document.
        blocks: its blocks; they tile it.
        sizer: measures pieces of it.
        limits: how large chunks may be.
        protected: ranges that stay whole while they fit, ascending, none in another.
        bounds: finds the sentences of a piece.
    """

    text: str
    blocks: Sequence[Block]
    sizer: Sizer
    limits: Limits
    protected: Sequence[Span]
    bounds: Bounds
    _ranks: dict[int, int] = field(default_factory=dict, init=False)  # of the positions
    _sizes: dict[tuple[int, ...], int] = field(default_factory=dict, init=False)  # of what is shown ahead

    def __post_init__(self) -> None:
        self._ranks.update(_allowed(self._candidates(), self._whole))
        first = self.blocks[0].level if self.blocks else 0
        self._ranks.update({0: min(first, _DEEPEST), len(self.text): 0})

    def prose(self) -> list[Span]:
        """The ranges of running text that are too large, and that another parser may cut up."""
        leaves = ((leaf, self.blocks[self._index(leaf.end - 1)]) for leaf in self._leaves())
        return [Span(max(leaf.start, block.span.start), leaf.end) for leaf, block in leaves if block.kind in _PROSE]

    def kept(self) -> list[Block]:
        """The atomic blocks that stay whole though they are too large."""
        return [block for block in self.blocks if self.limits.keeps and block.is_atomic and not self._holds(block.span)]

    def chunks(self, segments: Iterable[int] = ()) -> list[Chunk]:
        """The chunks, in order; together they cover the document.

        Args:
            segments: where other parsers want the prose to be cut.
        """
        self._ranks.update({at: _SEGMENT for at in segments if at not in self._ranks})
        for leaf in self._leaves():
            self._ranks.update(_allowed(self._sentence_starts(leaf), self._whole))
        places = sorted(self._ranks)
        if not self.text:
            return []
        spans = (Span(places[a], places[b]) for a, b in self._split(places, 0, len(places) - 1))
        return [
            self._chunk(piece)
            for span in spans
            for piece in self._bounded(Span(self._with_overlap(span, places), span.end))
        ]

    @cached_property
    def _kept_starts(self) -> list[int]:
        return [block.span.start for block in self.kept()]

    # --- positions

    def _candidates(self) -> dict[int, int]:
        """Where blocks begin, and where those that are too large may be cut, with ranks."""
        ranks = {block.span.start: _rank(block) for block in self.blocks}
        for tie in self._ties:
            if ranks.get(tie.start) == _BLOCK:
                ranks[tie.start] = _TIE
        for glued in _glued(self.blocks):
            ranks.pop(glued.span.start)
        for block in self.blocks:
            if not self._holds(block.span) and not (self.limits.keeps and block.is_atomic):
                for group, cuts in enumerate(_cuts(self.text, block)):
                    ranks.update({cut: _INNER + min(group, 2) for cut in cuts if cut not in ranks})
        return ranks

    @cached_property
    def _ties(self) -> list[Span]:
        """What belongs together and stands under one heading: blocks, and lines of blocks that are too large."""
        large = (block for block in self.blocks if block.kind in _PROSE and not self._holds(block.span))
        groups = [[block.span for block in self.blocks], *(_lines(self.text, block.span) for block in large)]
        found = (tie for group in groups for tie in ties(self.text, group) if len(group) > 1)
        opened = [block.span.start for block in self.blocks if block.level]
        return [tie for tie in found if bisect_right(opened, tie.start) == bisect_left(opened, tie.end)]

    @cached_property
    def _whole(self) -> list[Span]:
        """What must not be cut, as it fits: what belongs together, protected ranges, formulas, links, inner blocks."""
        large = [block for block in self.blocks if not self._holds(block.span)]
        atoms = (atom for block in large for atom in [*block.inner, *inline_atoms(self.text, block)])
        return [span for span in [*self._ties, *self.protected, *atoms] if self._holds(span)]

    def _sentence_starts(self, leaf: Span) -> dict[int, int]:
        """Where the sentences of a range begin; a heading ahead of the first stays with it."""
        head = max(leaf.start, self.blocks[self._index(leaf.end - 1)].span.start)
        room = self.limits.size - self._ahead(leaf.start)
        limit = max(room // 2, room - self.sizer.size(self.text[leaf.start : head]))
        starts = (leaf.start + at for at in self.bounds(leaf.of(self.text), limit))
        return {at: _SENTENCE for at in starts if at > head and at not in self._ranks}

    def _leaves(self) -> list[Span]:
        """The ranges without a position inside that are too large, and are not to be kept."""
        leaves = (Span(*pair) for pair in pairwise(sorted(self._ranks)))
        return [leaf for leaf in leaves if not self._fits(*leaf) and not self._is_kept(leaf)]

    def _is_kept(self, span: Span) -> bool:
        """Whether a part of it stays whole though it is too large."""
        kept = self._kept_starts
        return bisect_left(kept, span.start) < bisect_left(kept, span.end)

    # --- sizes

    @cached_property
    def _ruler(self) -> Callable[[int, int, int], bool]:
        return self.sizer.ruler(self.text).fits

    def _holds(self, span: Span) -> bool:
        """Whether a chunk that begins with this range can hold it."""
        return self._ruler(span.start, span.end, self.limits.size - self._path_size(span.start))

    def _fits(self, start: int, end: int) -> bool:
        """Whether this may be a chunk, with what is shown ahead of it and room for its overlap."""
        room = self.limits.size - self._ahead(start)
        if self._ranks.get(start) == _SENTENCE:
            room -= min(self.limits.overlap, room // 2)
        return self._ruler(start, end, room)

    def _ahead(self, start: int) -> int:
        """The size of what is shown ahead of a chunk that begins here; at most half of the limit."""
        lead = sum(self.sizer.size(span.of(self.text)) for span in self._lead(start))
        return min(lead + self._path_size(start), self.limits.size // 2)

    def _path_size(self, start: int) -> int:
        path = self._paths[self._index(start)]
        if path not in self._sizes:
            self._sizes[path] = self.limits.path_size(tuple(self.blocks[i] for i in path))
        return min(self._sizes[path], self.limits.size // 2)

    def _lead(self, start: int) -> tuple[Span, ...]:
        """What is shown ahead of a chunk that begins inside of a block: nothing, if it would take half of the chunk."""
        block = self.blocks[self._index(start)]
        if start == block.span.start or any(lead.end > start for lead in block.lead):
            return ()
        taken = sum(self.sizer.size(lead.of(self.text)) for lead in block.lead)
        return block.lead if taken <= self.limits.size // 2 else ()

    # --- chunks

    def _split(self, places: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
        """The chunks between two places, as indices of places."""
        if last - first == 1 or self._fits(places[first], places[last]):
            return [(first, last)]
        ranks = [self._ranks[places[i]] for i in range(first + 1, last)]
        best = min(ranks)
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
            if may and rank != _SEGMENT and self._fits(places[begin], places[end]):
                chunks[-1] = (begin, end)
                chunks += part[1:]
                is_open = is_open and len(part) == 1
            else:
                chunks += part
                is_open = len(part) == 1
        return chunks

    def _is_tiny(self, start: int, end: int) -> bool:
        return self._ruler(start, end, self.limits.size // _TINY_SHARE)

    def _with_overlap(self, span: Span, places: Sequence[int]) -> int:
        """Where the chunk begins, with the last sentences of the one before."""
        start, limits = span.start, self.limits
        if self._ranks[start] != _SENTENCE or not limits.overlap:
            return start
        i = bisect_left(places, start)
        room = limits.size - self._ahead(start)
        floor = self.blocks[self._index(start)].span.start
        while i and places[i - 1] >= floor and self._ruler(places[i - 1], start, limits.overlap):
            if self._ranks[places[i]] != _SENTENCE or not self._ruler(places[i - 1], span.end, room):
                break
            i -= 1
        return places[i]

    def _bounded(self, span: Span) -> Iterator[Span]:
        """The range itself, or pieces of it where all that had to stay together is too large."""
        room = self.limits.size - self._ahead(span.start)
        if self._ruler(span.start, span.end, room) or self._is_kept(span):
            yield span
        else:
            yield from (Span(*pair).shift(span.start) for pair in pairwise(self.bounds(span.of(self.text), room)))

    def _chunk(self, span: Span) -> Chunk:
        indices = range(self._index(span.start), self._index(span.end - 1) + 1)
        shown = [i for i in indices if self.blocks[i].kind not in _BESIDE] or list(indices)
        path = commonprefix([self._paths[i] for i in shown])
        kinds = dict.fromkeys(self.blocks[i].kind for i in indices)
        nearest = bisect_left(self.protected, Span(span.end, 0)) - 1
        if nearest >= 0 and self.protected[nearest].end > span.start:
            kinds[BlockKind.PROTECTED] = None
        return Chunk(span, self._lead(span.start), tuple(self.blocks[i] for i in path), tuple(kinds))

    # --- blocks

    @cached_property
    def _starts(self) -> list[int]:
        return [block.span.start for block in self.blocks]

    def _index(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

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


def _lines(text: str, span: Span) -> list[Span]:
    """The lines of a range, each with its newline."""
    ends = [match.end() for match in _NEWLINE.finditer(text, *span)]
    return spans_between(ends if ends and ends[-1] == span.end else [*ends, span.end], span.start)


def _rank(block: Block) -> int:
    return min(block.level, _DEEPEST) if block.level else _BLOCK


def _glued(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks that must not begin a chunk: what follows a heading or front matter, and headings above nothing."""
    last = max((i for i, block in enumerate(blocks) if block.kind not in _NO_CONTENT), default=-1)
    is_open = False
    for i, block in enumerate(blocks):
        introduced = block.kind is BlockKind.LIST and bool(block.lead)
        if i and (is_open or introduced or i > last >= 0):
            yield block
        if block.kind is BlockKind.HEADING or block.kind is BlockKind.FRONT_MATTER:
            is_open = True
        elif block.kind not in _NO_CONTENT:
            is_open = False


def _cuts(text: str, block: Block) -> tuple[tuple[int, ...], ...]:
    """Where a block that is too large may be cut, by groups, the best first."""
    if block.kind is not BlockKind.CODE:
        return block.cuts
    start = max((lead.end for lead in block.lead), default=block.span.start)
    return tuple(tuple(start + cut for cut in group) for group in code_cuts(text[start : block.span.end], block.info))


def _allowed(ranks: dict[int, int], whole: Iterable[Span]) -> dict[int, int]:
    """The positions that lie inside of none of the ranges."""
    positions = sorted(ranks)
    inside: set[int] = set()
    for start, end in whole:
        inside.update(positions[bisect_right(positions, start) : bisect_left(positions, end)])
    return {at: rank for at, rank in ranks.items() if at not in inside}
