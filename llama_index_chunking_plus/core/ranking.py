"""From hits to what is returned: pure functions on small records.

    hits -> by_parent, hit_share                  which parents were hit, how well, and how much of them
    passages -> best_first, fill_budget           which are returned
             -> merge_touching, take_in_shown, drop_repeats
                                                  none of them says twice what another says
    texts -> reach                                which neighbours of one fit together with it
             -> by_document                       in the order of reading

A score is a number or None. Higher is better, 0.0 and negative scores are scores like others, and None means that
nobody judged: it ranks below every number and never changes one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeVar

from llama_index_chunking_plus.core.spans import Span

Aggregate = Literal["max", "mean", "sum", "count"]
Score = float | None

_RAISE_PER_DOUBLING = 0.1  # of the best score, where children are counted
_BLOCK = 16  # characters by which a text is looked for in others: enough to be rare


class Scored(Protocol):
    """Whatever has a score."""

    @property
    def score(self) -> Score:
        """Higher is better; None: not judged."""
        ...


S = TypeVar("S", bound=Scored)
T = TypeVar("T")


class Hit(NamedTuple):
    """One retrieved node.

    Args:
        rank: its position in the order of arrival.
        span: its range in the document, where that is known.
    """

    node_id: str
    score: Score
    rank: int
    parent_id: str | None = None
    span: Span | None = None


class ParentHits(NamedTuple):
    """A parent, its hit children (each once, best first) and the score that they give it."""

    parent_id: str
    hits: tuple[Hit, ...]
    score: Score


@dataclass(frozen=True)
class Passage:
    """A text that may be returned.

    Args:
        parts: what it is made of, as positions in the order of arrival; its own first.
        doc_id: its document; None if unknown.
        start: where ``text`` begins in the document; None if unknown.
        fixed: it is returned as it is, never joined to another.
        heart: the range that was hit, the rest of the passage being its surroundings; None: all of it.
        source: its document, whatever the version.
    """

    text: str
    score: Score
    parts: tuple[int, ...]
    doc_id: Hashable = None
    start: int | None = None
    fixed: bool = False
    heart: Span | None = None
    source: Hashable = None

    @property
    def span(self) -> Span | None:
        """Its range in the document; None if document or start are unknown."""
        if self.doc_id is None or self.start is None:
            return None
        return Span(self.start, self.start + len(self.text))

    @property
    def rank(self) -> int:
        """The position of its first part in the order of arrival."""
        return min(self.parts)

    def distance(self, other: Passage) -> int:
        """How many characters after this passage the other one begins; both have a range."""
        return (other.start or 0) - (self.start or 0)


def best_first(items: Iterable[S]) -> list[S]:
    """Highest score first; equal scores in the order given, None last."""
    return sorted(items, key=lambda item: (item.score is None, -(item.score or 0.0)))


def best_score(items: Iterable[Scored]) -> Score:
    """The highest score; None if nothing is scored."""
    return aggregate((item.score for item in items), "max")


def aggregate(scores: Iterable[Score], how: Aggregate) -> Score:
    """One score for a parent from those of its children; None if none of them has one.

    Args:
        scores: one for each child; None is left out.
        how: "max", "mean" or "sum" of the scores; "count" is the highest, raised by a tenth of its magnitude for each
            doubling of the number of scored children.

    Example:
        >>> aggregate([0.5, None, 1.0], "mean"), aggregate([-1.0, -3.0], "count"), aggregate([None], "sum")
        (0.75, -0.9, None)
    """
    known = [score for score in scores if score is not None]
    return _AGGREGATES[how](known) if known else None


def by_parent(hits: Iterable[Hit], how: Aggregate) -> list[ParentHits]:
    """The parents of the hits that have one, best first; a child hit several times counts once, at its best."""
    children: defaultdict[str, dict[str, Hit]] = defaultdict(dict)
    for hit in best_first(hits):
        if hit.parent_id is not None:
            children[hit.parent_id].setdefault(hit.node_id, hit)
    return best_first(
        ParentHits(parent_id, tuple(siblings.values()), aggregate((hit.score for hit in siblings.values()), how))
        for parent_id, siblings in children.items()
    )


def hit_share(children: Iterable[Span], parent: Span) -> float:
    """The share of the parent's characters, 0 to 1, that lie in at least one of the children.

    Example:
        >>> hit_share([Span(0, 4), Span(2, 5)], Span(0, 10))
        0.5
    """
    covered, cursor = 0, parent.start
    for start, end in sorted(children):
        covered += max(0, min(end, parent.end) - max(start, cursor))
        cursor = max(cursor, end)
    return covered / (parent.end - parent.start)


def merge_touching(
    passages: Iterable[Passage], fits: Callable[[str], bool] | None = None, n_growing: int | None = None
) -> list[Passage]:
    """Passages of one document that touch or overlap become one, with the best score; in order of arrival.

    Where the ranges overlap, the texts must agree; else both stay. Passages that have no range become one only if they
    say the same. With a bound, the best are served first: a passage that would make another too long stands beside it,
    without what the other says already.

    Args:
        passages: any number of documents.
        fits: whether a joined text may be that long; None: there is no bound.
        n_growing: only the first so many arrivals add their surroundings to a passage that shows their heart already;
            the later ones are weak reasons to show more. None: all do.
    """
    families: defaultdict[Hashable, list[Passage]] = defaultdict(list)
    for passage in passages:
        families[_family(passage)].append(passage)
    merged = [passage for family in families.values() for passage in _merge_family(family, fits, n_growing)]
    return sorted(merged, key=lambda passage: passage.rank)


def reach(texts: Sequence[str], first: int, last: int, fits: Callable[[str], bool]) -> tuple[int, int]:
    """The first and the past-last of ``texts[first:last]`` and the neighbours that fit with them, side by side in turn.

    Example:
        >>> reach(["今天下雨。", "我们不去了。", "明天再说。", "好。"], 1, 2, lambda text: len(text) <= 14)
        (0, 2)
    """
    is_open = True
    while is_open:
        is_open = False
        for before, after in ((1, 0), (0, 1)):
            begin, end = first - before, last + after
            if begin >= 0 and end <= len(texts) and fits("".join(texts[begin:end])):
                first, last, is_open = begin, end, True
    return first, last


def take_in_shown(passages: Iterable[Passage]) -> list[Passage]:
    """The passages without the fixed ones that another one of the same document, not fixed, shows whole.

    That one takes their score, if it is better, and their parts.
    """
    kept: list[Passage] = []
    fixed: list[Passage] = []
    for passage in passages:
        (fixed if passage.fixed else kept).append(passage)
    for passage in fixed:
        home = next((i for i, other in enumerate(kept) if not other.fixed and _shows(other, passage)), None)
        if home is None:
            kept.append(passage)
        else:
            whole = kept[home]
            kept[home] = _together(whole.text, whole.start, [whole, passage])
    return sorted(kept, key=lambda passage: passage.rank)


def _shows(whole: Passage, piece: Passage) -> bool:
    """Whether a passage has the piece's text at the piece's place; the versions of their document may differ."""
    if whole.span is None or piece.span is None or whole.source != piece.source or not piece.text:
        return False
    offset = whole.distance(piece)
    return offset >= 0 and whole.text.startswith(piece.text, offset)


def drop_repeats(passages: Sequence[Passage], max_overlap: float) -> list[Passage]:
    """The passages, in their order, that say something which the others do not.

    Out goes a passage of which more than ``max_overlap`` stands in better ones. A passage that holds a better one whole
    takes its place and its score. Ranges count where the texts agree; a passage without a range goes if a better one of
    its document holds its text.

    Compared are only passages whose ranges overlap, and texts of which one may hold the other. So the work grows with
    the characters; with the square of the number of passages only where thousands overlap thousands: long passages
    over many short ones, versions of a document under one id, texts without a range that hold one another.

    Args:
        passages: any number of documents.
        max_overlap: the largest share of its characters that a passage may have in common with better ones.
    """
    families: defaultdict[Hashable, list[Passage]] = defaultdict(list)
    for passage in passages:
        families[passage.doc_id].append(passage)
    shown = {doc_id: _Shown(family) for doc_id, family in families.items()}
    kept: dict[int, Passage] = {}
    for number, passage in enumerate(best_first(passages)):
        others = shown[passage.doc_id]
        share, inside = others.compare(passage)
        if share < 1 and share <= max_overlap:
            pieces = [kept.pop(other) for other in inside]
            for other, piece in zip(inside, pieces, strict=True):
                others.remove(other, piece)
            others.add(number, passage)
            kept[number] = _together(passage.text, passage.start, [passage, *pieces])
    return sorted(kept.values(), key=lambda passage: passage.rank)


def fill_budget(items: Iterable[T], limit: float, total: Callable[[list[T]], float]) -> list[T]:
    """The items that fit together, taken in order; what does not fit is left out whole. The first is always taken.

    ``total`` gives the size of a selection as one; it is at most ``limit``, but for the first item alone.

    Example:
        >>> fill_budget([3, 5, 2], 6, sum)
        [3, 2]
    """
    taken: list[T] = []
    for item in items:
        if not taken or total([*taken, item]) <= limit:
            taken.append(item)
    return taken


def by_document(passages: Sequence[Passage]) -> list[Passage]:
    """The passages in the order of reading, the documents in the order in which they first occur."""
    first: dict[Hashable, int] = {}
    placed = []
    for position, passage in enumerate(passages):
        document = position if passage.doc_id is None else first.setdefault(passage.doc_id, position)
        placed.append((document, passage.span is None, passage.start or 0, position))
    return [passages[position] for *_, position in sorted(placed)]


def _total(scores: list[float]) -> float:
    """The sum; the highest where there is none, of infinite scores of both signs."""
    total = sum(scores)
    return max(scores) if math.isnan(total) else total


def _count_aware(scores: list[float]) -> float:
    best = max(scores)
    return best + abs(best) * _RAISE_PER_DOUBLING * math.log2(len(scores))


_AGGREGATES: dict[Aggregate, Callable[[list[float]], float]] = {
    "max": max,
    "mean": lambda scores: _total(scores) / len(scores),
    "sum": _total,
    "count": _count_aware,
}


def _family(passage: Passage) -> Hashable:
    """Equal for passages that may become one."""
    if passage.fixed:
        return passage.rank
    return passage.doc_id, None if passage.span else passage.text


def _merge_family(family: list[Passage], fits: Callable[[str], bool] | None, n_growing: int | None) -> list[Passage]:
    if family[0].span is None:
        starts = {passage.start for passage in family}
        return [_together(family[0].text, starts.pop() if len(starts) == 1 else None, family)]
    pieces: list[_Piece] = []
    for passage in best_first(family):
        grows = n_growing is None or passage.rank < n_growing
        _place(passage, pieces, fits or (lambda _: True), grows)
    return [piece.passage() for piece in pieces]


@dataclass(eq=False)
class _Piece:
    """A passage in the making; those that agree never overlap."""

    start: int
    text: str
    members: list[Passage]

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def shows(self, span: Span) -> int:
        """How many characters of the span it shows."""
        return max(0, min(self.end, span.end) - max(self.start, span.start))

    def is_near(self, passage: Passage) -> bool:
        """Whether they touch or overlap, and say the same where they overlap."""
        begin, offset = max(self.start, passage.start or 0), passage.start or 0
        end = min(self.end, offset + len(passage.text))
        agree = self.text[begin - self.start : end - self.start] == passage.text[begin - offset : end - offset]
        return begin <= end and agree

    def passage(self) -> Passage:
        return _together(self.text, self.start, sorted(self.members, key=lambda each: (each.start, -len(each.text))))


def _place(passage: Passage, pieces: list[_Piece], fits: Callable[[str], bool], grows: bool) -> None:
    """Make the passage a part of a piece, old or new, which takes in as much of what is around it as fits."""
    near = sorted((piece for piece in pieces if piece.is_near(passage)), key=lambda piece: piece.start)
    row = _in_a_row(passage, near)
    heart = passage.heart or Span(row[0].start, row[-1].end)

    def suitable(position: int) -> tuple[bool, bool, int]:
        shown = row[position].shows(heart)
        return shown == heart.end - heart.start, shown > 0 and not row[position].members, shown

    home = max(range(len(row)), key=suitable)
    first, last = home, home + 1
    if grows or not row[home].members:
        first, last = _widest(row, home, Span(passage.start or 0, (passage.start or 0) + len(passage.text)), fits)
    joined = row[first:last]
    members = [member for piece in joined for member in piece.members]
    text = "".join(piece.text for piece in joined)
    pieces[:] = [piece for piece in pieces if piece not in joined]
    pieces.append(_Piece(joined[0].start, text, [*members, passage]))


def _widest(row: Sequence[_Piece], home: int, own: Span, fits: Callable[[str], bool]) -> tuple[int, int]:
    """The range of the row that ``home`` is joined to: what lies in the passage's own range first, then around it."""
    texts = [piece.text for piece in row]
    inside = [i for i, piece in enumerate(row) if own.start <= piece.start and piece.end <= own.end]
    first, last = home, home + 1
    if home in inside:
        low, high = inside[0], inside[-1] + 1
        first, last = (low + at for at in reach(texts[low:high], home - low, home - low + 1, fits))
    return reach(texts, first, last, fits)


def _in_a_row(passage: Passage, near: Iterable[_Piece]) -> list[_Piece]:
    """The pieces near the passage, and between them new ones that say the rest of it; each begins where one ends."""
    row: list[_Piece] = []
    cursor = offset = passage.start or 0
    for piece in near:
        if cursor < piece.start:
            row.append(_Piece(cursor, passage.text[cursor - offset : piece.start - offset], []))
        row.append(piece)
        cursor = piece.end
    rest = passage.text[cursor - offset :]
    return [*row, _Piece(cursor, rest, [])] if rest or not row else row


def _together(text: str, start: int | None, passages: Sequence[Passage]) -> Passage:
    parts = tuple(dict.fromkeys(part for passage in passages for part in passage.parts))
    return replace(passages[0], text=text, start=start, score=best_score(passages), parts=parts)


class _Shown:
    """What is kept of one document so far, by range and by text; each passage has a number.

    Args:
        family: all passages of the document, kept or not.
    """

    def __init__(self, family: Sequence[Passage]) -> None:
        self._ranges = _Ranges()
        self._by_text: defaultdict[str, dict[int, bool]] = defaultdict(dict)  # number -> whether it has a range
        self._holders, self._held = _containments(family)

    def add(self, number: int, passage: Passage) -> None:
        """Keep the passage."""
        if passage.span:
            self._ranges.add(number, passage.span.start, passage.text)
        self._by_text[passage.text][number] = passage.span is not None

    def remove(self, number: int, passage: Passage) -> None:
        """Keep the passage no longer."""
        if passage.span:
            self._ranges.remove(number, passage.span.start, passage.text)
        del self._by_text[passage.text][number]

    def compare(self, passage: Passage) -> tuple[float, list[int]]:
        """The share of the passage, 0 to 1, that is shown; and, in order, the numbers of what it shows whole."""
        text, span = passage.text, passage.span
        if not text:  # an image, say
            return 0.0, []
        if any(True for _ in self._with_texts(self._holders[text], span)):
            return 1.0, []
        inside = list(self._with_texts(self._held[text], span))
        if span is None:
            return 0.0, sorted(inside)
        agreeing = self._ranges.agreeing(span.start, text)
        inside += [number for number, other in agreeing if span.start <= other.start and other.end <= span.end]
        return hit_share([other for _, other in agreeing], span), sorted(inside)

    def _with_texts(self, texts: Iterable[str], span: Span | None) -> Iterator[int]:
        """The kept passages of these texts that are compared by text: where one of the two has no range."""
        for text in texts:
            for number, has_range in self._by_text.get(text, {}).items():
                if span is None or not has_range:
                    yield number


class _Ranges:
    """Texts at their places in one document: rows of texts of like length, each row sorted by place."""

    def __init__(self) -> None:
        self._rows: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)  # by bits of the length

    def add(self, number: int, start: int, text: str) -> None:
        insort(self._rows[len(text).bit_length()], (start, number, text))

    def remove(self, number: int, start: int, text: str) -> None:
        row = self._rows[len(text).bit_length()]
        del row[bisect_left(row, (start, number))]

    def agreeing(self, start: int, text: str) -> list[tuple[int, Span]]:
        """The numbers and ranges of those that overlap this text, and say the same where they do."""
        end = start + len(text)
        found = []
        for bits, row in self._rows.items():
            near = row[bisect_left(row, (start - (1 << bits) + 1,)) : bisect_left(row, (end,))]
            for other_start, number, other in near:
                first, last = max(start, other_start), min(end, other_start + len(other))
                if (
                    first < last
                    and text[first - start : last - start] == other[first - other_start : last - other_start]
                ):
                    found.append((number, Span(other_start, other_start + len(other))))
        return found


_Texts = defaultdict[str, list[str]]


def _containments(family: Sequence[Passage]) -> tuple[_Texts, _Texts]:
    """By text, the texts that hold it, and those that it holds; itself too. Only where one of both has no range."""
    holders: _Texts = defaultdict(list)
    held: _Texts = defaultdict(list)
    texts = {passage.text for passage in family if passage.text}
    plain = {passage.text for passage in family if passage.text and not passage.span}
    for needles, haystacks in ((texts, plain), (plain, texts - plain)):
        for needle, haystack in _find_each(needles, haystacks):
            holders[needle].append(haystack)
            held[haystack].append(needle)
    return holders, held


def _find_each(needles: Iterable[str], haystacks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each needle with each haystack that holds it.

    A haystack is cut into blocks of a width. What holds a needle of at least twice the width has a whole block within
    any such stretch of it, and that block begins at one of as many places as the block is wide.
    """
    by_block: defaultdict[int, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for needle in needles:
        width = max(1, min(_BLOCK, (1 << len(needle).bit_length()) >> 2))
        middle = (len(needle) - 2 * width + 1) // 2
        for block in {needle[at : at + width] for at in range(middle, middle + width)}:
            by_block[width][block].append(needle)
    for haystack in haystacks:
        likely: set[str] = set()
        for width, known in by_block.items():
            blocks = {haystack[at : at + width] for at in range(0, len(haystack), width)}
            likely.update(needle for block in blocks & known.keys() for needle in known[block])
        yield from ((needle, haystack) for needle in likely if needle in haystack)
