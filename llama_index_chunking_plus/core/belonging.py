"""Which neighbours belong together: steps, question and answer, definition and example, table and caption.

Each unit (a paragraph, a list, a line) is looked at once: how it begins and how it ends. Ties are made of these looks,
then joined where they share a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llama_index_chunking_plus.core.numbered import DIGIT, HAN_NUMERAL, ordinal
from llama_index_chunking_plus.core.patterns import lazy_pattern
from llama_index_chunking_plus.core.spans import Span

_MARKUP = " \t\u3000\ufeff*_>#"  # around a label
_NUMERAL = f"(?:{DIGIT}{{1,3}}|{HAN_NUMERAL}{{1,3}})"
_MOST_ASIDES = 3  # units between two steps that are named as such
_MOST_BETWEEN = 30  # units between two steps, steps of another kind among them
_SHORTEST_RUN = 2  # steps; one alone is no procedure
_LONGEST_CAPTION = 120

_STEP = lazy_pattern(
    rf"""步[骤驟][ ]?(?P<step>{_NUMERAL})(?!{HAN_NUMERAL}|{DIGIT}) | 第(?P<nth>{_NUMERAL})步(?!行)
    | (?:Step|STEP)[ ](?P<english>{_NUMERAL})\b
    | (?P<dotted>\d{{1,3}})(?:[.．](?=[ \t]|[^\d\s])|、) | (?P<half>\d{{1,3}})[)）]
    | [（(](?P<paren>{DIGIT}{{1,3}})[）)]
    | [（(](?P<han_paren>{HAN_NUMERAL}{{1,3}})[）)] | (?P<han>{HAN_NUMERAL}{{1,3}})、 | (?P<circled>[①-⑳])
    """,
    re.VERBOSE,
)
_NAMED_STEPS = frozenset(["step", "nth", "english"])
_LABEL_END = rf"[ ]?{_NUMERAL}?[ ]?[*_]{{0,2}}[:：]|[ ]?{DIGIT}{{1,3}}[.．、 ]"
_QUESTION = lazy_pattern(rf"(?:(?:问题?|問題?|提问)(?:{_LABEL_END})|(?:Q|Question|QUESTION)(?:{_LABEL_END}))")
_ANSWER = lazy_pattern(rf"(?:回?答|答案|答复|解答|A|Answer|ANSWER)(?:{_LABEL_END})")
_EXAMPLE = lazy_pattern(
    r"例如|比如(?!说不)|譬如|示例|举例|舉例|举个例子|以[^，。]{1,12}为例|例[ ]?\d{0,3}[：:]"
    r"|(?:For[ ]example|For[ ]instance|E\.g\.|e\.g\.)|Examples?(?:[ ]\d{1,3})?[:：.,]"
)
_CAPTION = lazy_pattern(
    rf"(?:(?P<table>[续附]?[表]|Table|TABLE)|(?P<figure>附?[图圖]|Figure|FIGURE|Fig\.?|FIG\.?|代码|清单|Listing))[ ]?"
    rf"(?:[A-Z]|{_NUMERAL})(?:[-–—.]{DIGIT}{{1,3}}){{0,3}}[*_]{{0,2}}"
    rf"(?:[ ]?[:：.．、|][ ]?|[ \t\u3000]{{1,4}}(?![a-z]|显示|列出|给出|展示|表明|说明了|所示|中))\S"
)
_TABLE = lazy_pattern(
    r"\||<table\b|[^|\n]{0,200}[^|\n\\]\|[^\n]{0,500}\n[ |:-]{3,}|[^\t\n]{1,200}\t[^\t\n]{1,200}\t", re.IGNORECASE
)
_FIGURE = lazy_pattern(r"!\[|<(?:img|figure|svg)\b|\[!\[|[`~]{3}|\[[图圖]|【[图圖]", re.IGNORECASE)
_HEADING = lazy_pattern(
    rf"\#{{1,6}}[ \t]|第(?:{HAN_NUMERAL}{{1,5}}|{DIGIT}{{1,4}})[编編篇章节節](?:[\s：:]|$)"
    r"|(?:Chapter|CHAPTER|Section|SECTION|Part|PART)[ ](?:\d|[IVX]{1,4}\b)[^a-z]*(?![^\n]*\.$)"
)
_RULE = lazy_pattern(r"(?:[-*_=][ ]?){3,}$")
_BULLET = lazy_pattern(r"[-*+•·●○▪■◆–—][ \t\u3000]|[•●▪■◆]")
_ASIDES = ("`", "~", ">", "|", "![", "注意", "注：", "说明：", "提示", "Note", "Tip", "Warning")
_COLONS = ("：", ":")


def _any_of(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    """What matches where one of the patterns does: most units have none, which one look tells."""
    flags = {re.VERBOSE: "x", re.IGNORECASE: "i"}
    letters = ("".join(letter for flag, letter in flags.items() if each.flags & flag) for each in patterns)
    return lazy_pattern(
        "|".join(f"(?{each}:{pattern.pattern})" for each, pattern in zip(letters, patterns, strict=True))
    )


_LABEL = _any_of(_STEP, _QUESTION, _ANSWER, _EXAMPLE, _CAPTION)
_MARK = _any_of(_HEADING, _BULLET, _FIGURE, lazy_pattern(r"[-*_=|<]"), lazy_pattern("|".join(map(re.escape, _ASIDES))))


class _Number(NamedTuple):
    """The number of a step: how it is written, and its value."""

    style: str
    value: int


class _Look(NamedTuple):
    """How a unit begins and ends."""

    heads: bool = False  # a heading or a rule
    asks: bool = False
    answers: bool = False
    exemplifies: bool = False
    introduces: bool = False  # it ends with a colon
    caption: str = ""  # "table" or "figure"
    holds: str = ""  # "table" or "figure", likewise; a fence is a figure
    first: _Number | None = None
    last: _Number | None = None
    row: str = ""  # what a line of a list or table begins with
    indent: int = 0
    is_aside: bool = False  # a note, a quotation, code: it belongs to the step before


_PROSE, _INTRODUCTION = _Look(), _Look(introduces=True)


class _Tie(NamedTuple):
    """Units from ``first`` to ``last``, both included."""

    first: int
    last: int


def ties(text: str, spans: Sequence[Span]) -> list[Span]:
    """The ranges that should stay together where they fit, in order; one may lie in another, else none overlap.

    Tied are the steps of a procedure and the line that introduces them; a question and its answer, up to the next
    question or heading; what is defined and the example that follows; a line that ends in a colon and what it
    introduces; a caption and its table or figure. Ties that share a unit become one, and the first of them stays as a
    smaller one, for when the whole does not fit. Nothing before a question of a series is tied to it.

    Args:
        text: the text.
        spans: its units in order: paragraphs, lists, tables, or single lines.

    Example:
        >>> text = "安装步骤：\\n1. 打开\\n2. 关闭\\n完成。\\n"
        >>> [span.of(text) for span in ties(text, [Span(0, 6), Span(6, 12), Span(12, 18), Span(18, 22)])]
        ['安装步骤：\\n1. 打开\\n2. 关闭\\n', '安装步骤：\\n1. 打开\\n']
    """
    units = [(span, unit) for span in spans if (unit := text[span.start : span.end]) and not unit.isspace()]
    kept, looks = [span for span, _ in units], [_look(unit) for _, unit in units]
    found = [*_dialogues(looks), *_procedures(looks), *_rows(looks), *_pairs(looks)]
    return [Span(kept[tie.first].start, kept[tie.last].end) for tie in _nested(found)]


def caption_of(line: str) -> str:
    """What a line is the caption of: "table" or "figure", which code is as well; "" if it is none.

    Example:
        >>> [caption_of(line) for line in ("表 3 限值", "**Listing 2**: Retries", "表 3 列出了限值。")]
        ['table', 'figure', '']
    """
    bare = line.strip()
    return _caption(bare, bare[:200].lstrip(_MARKUP))


def exemplifies(unit: str) -> bool:
    """Whether a unit begins as an example of what stands before it.

    Example:
        >>> [exemplifies(unit) for unit in ("例如，甲。", "For example, a.", "甲是例子。")]
        [True, True, False]
    """
    return _EXAMPLE.match(unit.strip()[:200].lstrip(_MARKUP)) is not None


# ------------------------------------------------------------------------------------------------ units


def _look(unit: str) -> _Look:
    """How a unit begins and ends; most lines of prose begin and end with nothing of note."""
    bare = unit.strip()
    label = bare[:200].lstrip(_MARKUP)
    look = _INTRODUCTION if bare.rstrip("*_ ").endswith(_COLONS) else _PROSE
    if "|" in bare or "\t" in bare or unit[0].isspace() or _MARK.match(bare):
        look = _marked(look, unit, bare)
    return _labelled(look, bare, label) if _LABEL.match(label) else look


def _marked(look: _Look, unit: str, bare: str) -> _Look:
    """The look of a unit that begins with a mark or white space, or may be a table."""
    return look._replace(
        heads=_HEADING.match(bare) is not None or _RULE.match(bare[:200]) is not None,
        holds=_holds(bare),
        row="|" if bare[0] == "|" else "-" if _BULLET.match(bare) else "",
        indent=_indent(unit),
        is_aside=bare.startswith(_ASIDES),
    )


def _labelled(look: _Look, bare: str, label: str) -> _Look:
    """The look of a unit whose label says something."""
    asks, first = _QUESTION.match(label) is not None, _number(label)
    return look._replace(
        asks=asks,
        answers=_ANSWER.match(label) is not None or (asks and _is_answered(bare)),
        exemplifies=_EXAMPLE.match(label) is not None,
        caption=_caption(bare, label),
        first=first,
        last=first and _last_number(bare, first),
    )


def _holds(bare: str) -> str:
    """Whether a unit is a table or a figure; only what begins like HTML, or has cells, can be a table."""
    if (bare[0] == "<" or "|" in bare or "\t" in bare) and _TABLE.match(bare):
        return "table"
    return "figure" if _FIGURE.match(bare) else ""


def _is_answered(question: str) -> bool:
    """Whether the answer begins in a line of the question's own unit."""
    return any(_ANSWER.match(line[:200].lstrip(_MARKUP)) for line in question.splitlines()[1:])


def _indent(unit: str) -> int:
    line = unit.lstrip("\r\n")
    return len(line) - len(line.lstrip(" \t\u3000"))


def _caption(bare: str, label: str) -> str:
    if len(bare) > _LONGEST_CAPTION or "\n" in bare or bare.endswith(("。", "；", "，")):
        return ""
    found = _CAPTION.match(label)
    return "" if found is None else "table" if found["table"] else "figure"


def _number(label: str) -> _Number | None:
    found = _STEP.match(label)
    if found is None or found.lastgroup is None:
        return None
    return _Number(found.lastgroup, ordinal(found[found.lastgroup]))


def _last_number(bare: str, first: _Number) -> _Number:
    """The number of the last line that is numbered like the first."""
    for line in reversed(bare.splitlines()):
        number = _number(line[:200].lstrip(_MARKUP))
        if number is not None and number.style == first.style:
            return number
    return first


# ------------------------------------------------------------------------------------------------ ties


def _dialogues(looks: Sequence[_Look]) -> Iterator[_Tie]:
    """Questions with their answers."""
    answer: int | None = None
    question: int | None = None
    for i, look in enumerate([*looks, _Look(heads=True)]):
        if look.asks or look.heads:
            if question is not None:
                yield from _dialogue(question, answer, i)
            question, answer = (i if look.asks else None), (i if look.asks and look.answers else None)
        elif look.answers and answer is None:
            answer = i


def _dialogue(question: int, answer: int | None, stop: int) -> Iterator[_Tie]:
    """A question up to the end of its answer, and up to where that begins; without a label, the next unit answers.

    One that nothing follows is by itself: what stands before it is kept off as well.
    """
    if answer is not None and stop - 1 > answer:
        yield _Tie(question, stop - 1)
    yield _Tie(question, answer if answer is not None else min(question + 1, stop - 1))


def _procedures(looks: Sequence[_Look]) -> Iterator[_Tie]:
    """Steps that count on; steps of another kind may lie between two of them, as a procedure of their own."""
    taken: set[int] = set()
    for i in range(len(looks)):
        if i not in taken and looks[i].last is not None:
            steps = list(_steps(looks, i))
            taken.update(steps)
            if len(steps) >= _SHORTEST_RUN:
                yield _Tie(i, steps[-1])


def _steps(looks: Sequence[_Look], first: int) -> Iterator[int]:
    """The units that count on from the first one, and that one."""
    number, asides, last = looks[first].last, 0, first
    yield first
    for i in range(first + 1, len(looks)):
        look = looks[i]
        if number is None or look.heads or look.asks or i - last > _MOST_BETWEEN:
            return
        if look.first == _Number(number.style, number.value + 1):
            yield i
            number, asides, last = look.last, 0, i
        elif look.first is None or look.first.style == number.style:
            asides += 1
            if asides > _MOST_ASIDES or not _is_aside(look, looks[first], number):
                return


def _is_aside(look: _Look, step: _Look, number: _Number) -> bool:
    """Whether a unit between two steps may belong to the first of them."""
    if look.first is not None:
        return look.first.style != number.style
    return number.style in _NAMED_STEPS or look.is_aside or look.exemplifies or look.indent > step.indent


def _rows(looks: Sequence[_Look]) -> Iterator[_Tie]:
    """Bullets below a line that introduces them, and the lines of a table."""
    first = 0
    for i in range(1, len(looks) + 1):
        row = looks[first].row
        if i < len(looks) and row and looks[i].row == row:
            continue
        if row and i - first >= _SHORTEST_RUN and (row == "|" or (first and looks[first - 1].introduces)):
            yield _Tie(first, i - 1)
        first = i


def _pairs(looks: Sequence[_Look]) -> Iterator[_Tie]:
    """Neighbours of which one is nothing without the other; the end of an answer has nothing to do with a question."""
    in_dialogue = False
    for i in range(1, len(looks)):
        before, look = looks[i - 1], looks[i]
        in_dialogue = before.asks or (in_dialogue and not before.heads)
        if not look.heads and not (look.asks and in_dialogue) and _is_pair(looks, i):
            yield _Tie(i - 1, i)


def _is_pair(looks: Sequence[_Look], i: int) -> bool:
    """Whether a unit belongs to the one before it."""
    before, look = looks[i - 1], looks[i]
    if before.introduces or (look.exemplifies and not before.heads and not before.asks):
        return True
    return _belongs_to_next(looks, i - 1) or _belongs_to_last(looks, i)


def _belongs_to_next(looks: Sequence[_Look], i: int) -> bool:
    """Whether this is the caption of what follows: of a table always, of a figure if none stands before it."""
    caption, before = looks[i].caption, looks[i - 1].holds if i else ""
    return bool(caption) and looks[i + 1].holds == caption and (caption == "table" or before != caption)


def _belongs_to_last(looks: Sequence[_Look], i: int) -> bool:
    """Whether this is the caption of what stands before: of a figure always, of a table if none follows."""
    caption, after = looks[i].caption, looks[i + 1].holds if i + 1 < len(looks) else ""
    return bool(caption) and looks[i - 1].holds == caption and (caption == "figure" or after != caption)


def _nested(found: Iterable[_Tie]) -> list[_Tie]:
    """The ties as a family in which one lies in another or beside it: overlapping ones become one, above the first."""
    family: set[_Tie] = set()
    open_: list[_Tie] = []  # ties that hold the place at hand, the outermost first
    for tie in sorted(set(found), key=lambda each: (each.first, -each.last)):
        while open_ and open_[-1].last < tie.first:
            family.add(open_.pop())
        open_.append(tie)
        _join(open_)
    return sorted(family.union(open_), key=lambda each: (each.first, -each.last))


def _join(open_: list[_Tie]) -> None:
    """Where the last tie reaches out of one that holds it, put the two together in its place, around that one."""
    tie = open_[-1]
    for i, other in enumerate(open_[:-1]):
        if other.last < tie.last:
            open_.pop()
            open_.insert(i, _Tie(other.first, tie.last))
            return
