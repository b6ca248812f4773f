"""Blocks of plain text whose structure is in its numbers: 第一章, 第三条, 一、, 1.2, Chapter 3.

Lines are read once. Each is looked at by itself (what number it begins with, whether the rest is a title, a sentence or
a reference), then decided from top to bottom: a title that has something below it is a heading, a run of numbered lines
is a list, an article opens a section and is its first paragraph.

How deep a heading is, is told by those above it. Words have an order (编, 章, 节). Numbers below them nest as they
come: the first of a kind is inside the heading before it, the next of the kind beside the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.patterns import lazy_pattern
from llama_index_chunking_plus.core.spans import Span

Structure = Literal["markdown", "numbered", "none"]

# ------------------------------------------------------------------------------------------------ numerals

_HAN_DIGITS = dict(
    zip("零〇○一二三四五六七八九两兩壹贰叁肆伍陆柒捌玖", [0, 0, 0, *range(1, 10), 2, 2, *range(1, 10)], strict=True)
)
_HAN_UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_WORDS = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"

HAN_NUMERAL = f"[{''.join([*_HAN_DIGITS, *_HAN_UNITS])}]"
DIGIT = "[0-9０-９]"


def ordinal(numeral: str) -> int:
    """The value of a numeral: Chinese, Arabic (also full-width), Roman, circled, a word or a letter; 0 if it is none.

    Example:
        >>> [ordinal(numeral) for numeral in ("十二", "百零三", "二〇三", "１２", "IV", "③", "Two", "B")]
        [12, 103, 203, 12, 4, 3, 2, 2]
    """
    if numeral.isdecimal():
        return int(numeral)
    if numeral and all(char in _HAN_DIGITS or char in _HAN_UNITS for char in numeral):
        return _han_value(numeral)
    if numeral and all(char in _ROMAN for char in numeral):
        return _roman_value(numeral)
    if numeral.capitalize() in _WORDS:
        return _WORDS.index(numeral.capitalize()) + 1
    if len(numeral) == 1:
        return _CIRCLED.find(numeral) + 1 or (ord(numeral) - 64 if "A" <= numeral <= "Z" else 0)
    return 0


def _han_value(numeral: str) -> int:
    if not any(char in _HAN_UNITS for char in numeral):
        return int("".join(str(_HAN_DIGITS[char]) for char in numeral))
    total, digit = 0, 0
    for char in numeral:
        if char in _HAN_UNITS:
            total, digit = total + (digit or 1) * _HAN_UNITS[char], 0
        else:
            digit = _HAN_DIGITS[char]
    return total + digit


def _roman_value(numeral: str) -> int:
    values = [_ROMAN[char] for char in numeral]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


# ------------------------------------------------------------------------------------------------ marks

_APPENDIX, _PART, _SUBPART, _CHAPTER, _SECTION, _ARTICLE = range(6)
_HAN, _HAN_PAREN, _DECIMAL, _PAREN, _ENCLOSED = 6, 7, 10, 20, 21  # a decimal of depth d is of kind _DECIMAL + d
_KIND_OF_WORD = {
    **dict.fromkeys(("编", "編", "篇", "卷", "册", "部", "部分", "Part"), _PART),
    "分编": _SUBPART,
    **dict.fromkeys(("章", "回", "讲", "课", "Chapter"), _CHAPTER),
    **dict.fromkeys(("节", "節", "Section"), _SECTION),
    **dict.fromkeys(("条", "條", "Article"), _ARTICLE),
    **dict.fromkeys(("Appendix", "Annex"), _APPENDIX),
}
_SPACED_WORDS = frozenset("卷册部回讲课")  # headings only where a space or the end of the line follows: 第一回合
_ENGLISH = "Chapter|Section|Article|Part|Appendix|Annex"

_MARK = lazy_pattern(
    rf"""第[ \u3000]?(?P<numeral>{HAN_NUMERAL}{{1,9}}|{DIGIT}{{1,4}})[ \u3000]?
        (?P<word>分编|部分|[编編篇卷册部章回讲课节節条條])(?P<more>之{HAN_NUMERAL}{{1,3}})?
    | (?P<english>{_ENGLISH}|{_ENGLISH.upper()})[ ]
        (?P<english_numeral>\d{{1,3}}(?:\.\d{{1,3}}){{0,4}}|[IVXLC]{{1,7}}|[A-Z]|{"|".join(_WORDS)}|{"|".join(_WORDS).upper()})
        (?![\w%-])
    | 附[录錄件][ \u3000]?(?P<appendix>[A-Z]|{DIGIT}{{1,3}}|{HAN_NUMERAL}{{1,3}})?(?![A-Za-z])
    | (?P<han>{HAN_NUMERAL}{{1,4}})[、．.]
    | [（(][ ]?(?:(?P<han_paren>{HAN_NUMERAL}{{1,4}})|(?P<paren>{DIGIT}{{1,3}}))[ ]?[）)]
    | (?P<half>{DIGIT}{{1,3}})[)）]
    | (?P<decimal>{DIGIT}{{1,3}}(?:[.．]{DIGIT}{{1,3}}){{0,5}})(?:[.．、]|(?=[\s\u3400-\u9fff]))(?!{DIGIT})
    | (?P<circled>[{_CIRCLED}])""",
    re.VERBOSE,
)
_MARK_STARTS = (
    frozenset("第附（(0123456789０１２３４５６７８９CSAP" + _CIRCLED) | _HAN_DIGITS.keys() | _HAN_UNITS.keys()
)
_BULLET = lazy_pattern(r"[-*+•·●○▪■◆➢–—][ \t\u3000]|[•●▪■◆➢]")
_LEADER = lazy_pattern(r"(?:\.{3,}|…+|·{3,}|⋯+|．{3,}|(?:\. ){3,}|_{3,}|-{4,}|\t)[\s.…·]*[(（]?\d{1,4}[)）]?$")
_LEADER_ENDS = frozenset("0123456789)）")
_SHORTEST_CONTENTS = 3
_CONTENTS = frozenset(["目录", "目錄", "目次", "contents", "tableofcontents"])

_REFERS = lazy_pattern(
    rf"规定|規定|所[称稱列述指规規]|的(?!士)|之[规規]|[、，,；;。]|(?:[和与与至到或及、]|以及)第|第{HAN_NUMERAL}{{1,4}}[款项條条章节]"
    r"|中[，,的所]|对此|[明确约]定|也|还|已经|不适用|适用[于《]|作出|是[否由指]?|里|内[，,容]|同样|另有|明确"
)  # directly after 第三条 in a sentence
_TELLS = lazy_pattern(
    r"介绍|讨论|主要|讲述|描述|提出|给出|将|则|从|在|我们|阐述|分析|论述|说明|为了?|对"
)  # 第三章介绍了…。
_UNFINISHED = (
    *(
        "、",
        "，",
        ",",
        "（",
        "(",
        "《",
        "“",
        "依照",
        "依据",
        "根据",
        "按照",
        "违反",
        "符合",
        "适用",
        "本法",
        "本条例",
        "和",
    ),
    *(
        "与",
        "及",
        "或",
        "至",
        "见",
        "参见",
        " see",
        " in",
        " of",
        " and",
        " or",
        " the",
        " to",
        " by",
        " under",
        " with",
    ),
)  # before a reference that begins the next line

# ------------------------------------------------------------------------------------------------ titles

_LONGEST_HAN_TITLE, _LONGEST_TITLE, _MOST_WORDS = 40, 100, 14
_LONGEST_LABEL = 16  # of a title that ends in a colon
_LONGEST_SECOND_LINE = 30
_LARGEST_NUMBER = 199
_SHORTEST_WRAPPED = 18  # a shorter line was not broken because it was full
_TITLE_START = lazy_pattern(r"[^\W\d_]|[《“\"'‘「『【（(\[<]|\d+[A-Za-z\u3400-\u9fff]")
_NO_TITLE = lazy_pattern(
    r"(?:是|倍|万|亿|元|％|%|℃|°|米|公里|公斤|千克|吨|版|个|只|名|次|年|月|日|天|小时|分钟|秒|岁|人[，。]|台|条|家|点|号|位|层|种)"
)  # after a number with nothing but a space: 3.14 是, 3 个
_SENTENCE_INSIDE = lazy_pattern(r"[。！；]|[.!?;] [A-Z\u3400-\u9fff]")
_SENTENCE_END = tuple("。；;！!，,、…")
_PROVIDES = lazy_pattern(r"，|[：:]$|应当|應當|不得|可以|[\u3400-\u9fff]{17}")  # what an article says is no title
_INTRODUCES = lazy_pattern(r"如下|以下|下列|following|below|包括")
_FINISHED = tuple("。！？!?；;：:….”」』）)")
_HAN_CHAR = lazy_pattern(r"[\u3400-\u9fff]")
_SPACED_OUT = lazy_pattern(r"\S(?:[ \u3000]+\S){1,5}")  # 总　　则
_SPACE = lazy_pattern(r"\s+")
_LINE = lazy_pattern(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BLANKS = " \t\u3000\ufeff\u200b\u00a0\f\v\r\n"
_SEPARATORS = _BLANKS + "：:.．、—–-"
_MARKDOWN = lazy_pattern(
    r"""^\ufeff?[ ]{0,3}(?:\#{1,6}[ \t]+\S|`{3}|~{3}|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t\r]*$
    |(?i:<table)[\s>])""",
    re.MULTILINE | re.VERBOSE,
)


class _Mark(NamedTuple):
    """The number that a line begins with."""

    kind: int
    path: tuple[int, ...]  # 1.2.3 has three numbers, all others have one
    label: str  # the number as it is written: 第三条, 1.2
    rest: str  # what follows it
    joined: bool  # nothing stands between the two

    @property
    def number(self) -> int:
        return self.path[-1]

    @property
    def is_word(self) -> bool:
        return self.kind <= _ARTICLE

    @property
    def is_title(self) -> bool:
        """Whether what follows is a short phrase rather than a sentence."""
        if self.kind == _ARTICLE and _PROVIDES.search(self.rest):
            return False
        return _is_title(self.rest) and (
            self.is_word or not self.rest[0].islower() or bool(_HAN_CHAR.search(self.rest))
        )

    @property
    def title(self) -> str:
        rest = _SPACE.sub(" ", self.rest.rstrip("：: "))
        if _SPACED_OUT.fullmatch(rest) and _HAN_CHAR.match(rest):
            rest = rest.replace(" ", "")
        return f"{self.label}{rest}" if self.joined else f"{self.label} {rest}"

    def precedes(self, other: _Mark | None) -> bool:
        """Whether the other is the next of the same kind."""
        return other is not None and other.kind == self.kind and other.path == (*self.path[:-1], self.number + 1)


class _Line(NamedTuple):
    """A line that is not blank."""

    start: int
    text: str  # without white space around it
    is_indented: bool
    is_apart: bool  # a blank line stands before it
    mark: _Mark | None = None
    is_listed: bool = False  # a bullet, or a line of a table of contents

    @property
    def is_plain(self) -> bool:
        return self.mark is None and not self.is_listed


class _Role(NamedTuple):
    """What a line is to be: the first of a block, or of the block before it."""

    kind: BlockKind
    level: int = 0
    title: str = ""
    goes_on: bool = False  # with the block before


_BODY, _ITEM = _Role(BlockKind.PARAGRAPH), _Role(BlockKind.LIST)


# ------------------------------------------------------------------------------------------------ public


def numbered_blocks(text: str) -> list[Block]:
    """The blocks of plain text with numbered headings; they tile the text, blank lines belong to the block before.

    A heading is a HEADING with level and title. An article with text on its line (第三条 经营者应当…) is a PARAGRAPH
    with a level and its number as title: it opens a section and is its first paragraph. Numbered lines that are no
    headings, bullets and tables of contents are LIST, to be cut between items. All others are PARAGRAPH of level 0.

    Example:
        >>> blocks = numbered_blocks("第一章 总则\\n第一条 为了公平，制定本法。")
        >>> [(block.kind.value, block.level, block.title) for block in blocks]
        [('heading', 1, '第一章 总则'), ('paragraph', 2, '第一条')]
    """
    lines = _read(text)
    return list(_blocks(len(text), lines, _Outline(lines).roles()))


def paragraph_blocks(text: str) -> list[Block]:
    """The blocks of plain text without headings: paragraphs, and lists of numbered lines or bullets."""
    lines = _read(text)
    roles = [_BODY if line.is_plain or (line.mark is not None and line.mark.is_word) else _ITEM for line in lines]
    return list(_blocks(len(text), lines, roles))


def structure_of(text: str) -> Structure:
    """What the structure of a text is told by.

    "markdown" if it has a heading with ``#``, a fence, a table or one of HTML; "numbered" if two sections or more open
    with a number; else "none".
    """
    if _MARKDOWN.search(text):
        return "markdown"
    return "numbered" if sum(block.level > 0 for block in numbered_blocks(text)) > 1 else "none"


# ------------------------------------------------------------------------------------------------ lines


def _read(text: str) -> list[_Line]:
    """The lines that are not blank, with their marks."""
    bare = list(_bare_lines(text))
    contents = _contents(bare)
    lines = []
    for i, line in enumerate(bare):
        if i in contents or (line.text[-1] in _LEADER_ENDS and _LEADER.search(line.text[-40:])):
            lines.append(line._replace(is_listed=True))
        else:
            mark = _mark(line.text) if line.text[0] in _MARK_STARTS else None
            lines.append(line._replace(mark=mark, is_listed=mark is None and _BULLET.match(line.text) is not None))
    return _without_decimals(lines)


def _bare_lines(text: str) -> Iterator[_Line]:
    is_apart = False
    for found in _LINE.finditer(text):
        whole = found.group()
        stripped = whole.strip(_BLANKS)
        if stripped:
            yield _Line(found.start(), stripped, whole[0] in " \t\u3000", is_apart)
        is_apart = not stripped


def _contents(lines: Sequence[_Line]) -> set[int]:
    """The lines of tables of contents: three or more below 目录 that all stand in the text again."""
    if not any(_is_contents(line.text) for line in lines):
        return set()
    keys = [_SPACE.sub("", line.text) for line in lines]
    last = {key: i for i, key in enumerate(keys)}
    found: set[int] = set()
    i = 0
    while i < len(lines):
        first = i = i + 1
        if _is_contents(lines[i - 1].text):
            run: set[str] = set()
            while i < len(lines) and last[keys[i]] > i and keys[i] not in run:
                run.add(keys[i])
                i += 1
            found.update(range(first, i) if len(run) >= _SHORTEST_CONTENTS else ())
    return found


def _is_contents(line: str) -> bool:
    return len(line) <= _LONGEST_LABEL and _SPACE.sub("", line).lower() in _CONTENTS


def _mark(line: str) -> _Mark | None:
    """The mark of a line; None if it has none, or refers to what is elsewhere."""
    found = _MARK.match(line)
    if found is None:
        return None
    kind, numerals = _reading(found)
    after = line[found.end() :]
    rest = after.lstrip(_SEPARATORS if kind <= _ARTICLE else _BLANKS)
    mark = _Mark(kind, tuple(map(ordinal, numerals)), _SPACE.sub("", found.group()), rest, joined=after == rest)
    if found["english"]:
        mark = mark._replace(label=found.group())
    if kind <= _ARTICLE:
        return None if _is_reference(found, mark, after) else mark
    return mark if 0 < mark.path[0] <= _LARGEST_NUMBER and not rest[:1].isdecimal() and rest else None


def _reading(found: re.Match[str]) -> tuple[int, list[str]]:
    """The kind of a mark, and its numerals."""
    if found["word"]:
        return _KIND_OF_WORD[found["word"]], [found["numeral"]]
    if found["english"]:
        return _KIND_OF_WORD[found["english"].capitalize()], found["english_numeral"].split(".")
    if found["decimal"]:
        numerals = re.split("[.．]", found["decimal"])
        return _DECIMAL + len(numerals), numerals
    kinds = {"han": _HAN, "han_paren": _HAN_PAREN, "paren": _PAREN, "half": _PAREN, "circled": _ENCLOSED}
    group = next((group for group in kinds if found[group]), None)
    return (_APPENDIX, [found["appendix"] or ""]) if group is None else (kinds[group], [found[group]])


def _is_reference(found: re.Match[str], mark: _Mark, after: str) -> bool:
    """Whether a line that begins 第三条 or Chapter 3 is a sentence about it."""
    if found["english"]:
        return mark.rest[:1].islower() or after[:1] in (",", ";", ")")
    if mark.kind == _APPENDIX and not found["appendix"]:
        return bool(after)
    if after[:1] and after[:1] in "、，,；;。)）":
        return True
    if not mark.joined or not mark.rest:
        return False
    return (
        found["word"] in _SPACED_WORDS
        or _REFERS.match(mark.rest) is not None
        or (mark.kind != _ARTICLE and _TELLS.match(mark.rest) is not None and not mark.is_title)
    )


def _without_decimals(lines: list[_Line]) -> list[_Line]:
    """The lines; what only looks like 3.14 (a figure, a version, a date) is no mark."""
    paths = {line.mark.path for line in lines if line.mark is not None and line.mark.kind >= _DECIMAL}
    paths |= {line.mark.path for line in lines if line.mark is not None and line.mark.kind in {_CHAPTER, _SECTION}}
    return [line if _is_counted(line.mark, paths) else line._replace(mark=None) for line in lines]


def _is_counted(mark: _Mark | None, paths: set[tuple[int, ...]]) -> bool:
    """Whether other numbers of the text make this one a count: 1.2 needs its neighbour, 1.1 that or its parent."""
    if mark is None or not _DECIMAL < mark.kind < _PAREN:
        return True
    *parent, number = mark.path
    if mark.label[-1].isdecimal() and _NO_TITLE.match(mark.rest):
        return False
    if not parent:
        return not mark.label[-1].isdecimal() or number == 1 or (number - 1,) in paths
    if number == 1:
        return not paths.isdisjoint({tuple(parent), (*parent, 2), (*mark.path, 1), (*parent[:-1], parent[-1] - 1, 1)})
    return not paths.isdisjoint({(*parent, number - 1), (*parent, number - 2)})


def _is_title(rest: str) -> bool:
    """Whether this is a short phrase rather than a sentence."""
    if not _TITLE_START.match(rest) or len(rest) > _LONGEST_TITLE or rest.endswith(_SENTENCE_END):
        return False
    if rest.endswith(("：", ":")) and (len(rest) > _LONGEST_LABEL or _INTRODUCES.search(rest)):
        return False
    if _SENTENCE_INSIDE.search(rest) or rest.endswith("."):
        return False
    if _HAN_CHAR.search(rest):
        return len(rest) <= _LONGEST_HAN_TITLE
    return len(rest.split()) <= _MOST_WORDS


# ------------------------------------------------------------------------------------------------ headings


@dataclass
class _Outline:
    """Decides from top to bottom which of the lines are headings, and how deep."""

    lines: Sequence[_Line]
    open: list[_Mark] = field(default_factory=list)  # headings that the line is in, the outermost first
    counts: dict[int, _Mark] = field(default_factory=dict)  # the last item of each kind since the last heading
    inside: set[tuple[int, int]] = field(default_factory=set)  # kinds seen inside other kinds

    def roles(self) -> list[_Role]:
        roles: list[_Role] = []
        for i, line in enumerate(self.lines):
            if len(roles) > i:
                continue
            mark = line.mark
            if mark is None:
                roles.append(_ITEM if line.is_listed else _BODY)
            elif mark.is_word:
                roles.extend(self._worded(i, mark))
            else:
                roles.append(self._counted(i, mark))
        return roles

    def _worded(self, i: int, mark: _Mark) -> list[_Role]:
        """第三章, Article 5: a heading, on two lines at times, or a paragraph that opens a section."""
        if self._goes_on(i) or (mark.kind == _APPENDIX and self._is_one_of_many(i, mark)):
            return [_BODY]
        if not mark.rest and mark.kind < _ARTICLE and self._has_second_line(i):
            title = f"{mark.title} {self.lines[i + 1].text}"
            return [_Role(BlockKind.HEADING, self._enter(mark), title), _BODY._replace(goes_on=True)]
        if not mark.rest or (mark.is_title and self._has_body(i, mark)):
            return [_Role(BlockKind.HEADING, self._enter(mark), mark.title)]
        if mark.kind in {_ARTICLE, _SECTION}:
            return [_Role(BlockKind.PARAGRAPH, self._enter(mark), mark.label)]
        return [_BODY]

    def _counted(self, i: int, mark: _Mark) -> _Role:
        """一、, 1.2: a heading or an item of a list."""
        if mark.is_title and not self._goes_on(i) and self._heads(i, mark):
            return _Role(BlockKind.HEADING, self._enter(mark), mark.title)
        self.counts[mark.kind] = mark
        return _ITEM

    def _next(self, i: int) -> _Line | None:
        return self.lines[i + 1] if i + 1 < len(self.lines) else None

    def _goes_on(self, i: int) -> bool:
        """Whether the line before is broken in the middle of a sentence that refers to this number."""
        return i > 0 and not self.lines[i].is_apart and self.lines[i - 1].text.endswith(_UNFINISHED)

    def _is_one_of_many(self, i: int, mark: _Mark) -> bool:
        """Whether the line stands in a list of the annexes."""
        after, before = self._next(i), self.lines[i - 1].mark if i else None
        return mark.precedes(after and after.mark) or (before is not None and before.precedes(mark))

    def _has_second_line(self, i: int) -> bool:
        after = self._next(i)
        if after is None or after.is_apart or not after.is_plain or i + 2 == len(self.lines):
            return False
        return (
            len(after.text) <= _LONGEST_SECOND_LINE and _is_title(after.text) and not after.text.endswith(("：", ":"))
        )

    def _has_body(self, i: int, mark: _Mark) -> bool:
        """Whether the title of an article has text below; else it is the article's text."""
        after = self._next(i)
        return mark.kind != _ARTICLE or (after is not None and (after.mark is None or after.mark.kind > _ARTICLE))

    def _heads(self, i: int, mark: _Mark) -> bool:
        """Whether a counted title is a heading: it has a body, and is not counted in a list."""
        after = self._next(i)
        is_sibling = any(other.precedes(mark) for other in self.open)
        in_list = mark.kind in self.counts and self.counts[mark.kind].precedes(mark)
        if after is None or (in_list and not is_sibling):
            return is_sibling and not in_list
        if mark.precedes(after.mark):
            return is_sibling and not in_list
        return is_sibling or mark.kind == _HAN or mark.number > 1 or not self._is_introduced(i)

    def _is_introduced(self, i: int) -> bool:
        return i > 0 and self.lines[i - 1].is_plain and self.lines[i - 1].text.endswith(("：", ":"))

    def _enter(self, mark: _Mark) -> int:
        """Open a heading, closing those that it is not inside; its level."""
        self._close_for(mark)
        self.inside.update((mark.kind, other.kind) for other in self.open)
        self.open.append(mark)
        self.counts.clear()
        return len(self.open)

    def _close_for(self, mark: _Mark) -> None:
        depth = len(self.open)
        parents = [i for i, other in enumerate(self.open) if mark.path[1:] and other.path == mark.path[:-1]]
        siblings = [i for i, other in enumerate(self.open) if other.kind == mark.kind]
        if siblings:
            depth = siblings[0]
        elif parents:
            depth = parents[-1] + 1
        else:
            while depth and self._is_below(self.open[depth - 1], mark):
                depth -= 1
        del self.open[depth:]

    def _is_below(self, other: _Mark, mark: _Mark) -> bool:
        """Whether an open heading is closed by this one, of another kind."""
        if (other.kind, mark.kind) in self.inside:
            return True
        by_order = mark.kind < _ARTICLE or mark.number != 1
        return by_order and other.kind > mark.kind and (mark.kind, other.kind) not in self.inside


# ------------------------------------------------------------------------------------------------ blocks


def _blocks(length: int, lines: Sequence[_Line], roles: Sequence[_Role]) -> Iterator[Block]:
    """The blocks that the roles of the lines make."""
    if not lines:
        if length:
            yield Block(Span(0, length), BlockKind.PARAGRAPH)
        return
    firsts = [0, *(i for i in range(1, len(lines)) if not _continues(lines, roles, i))]
    for first, stop in pairwise([*firsts, len(lines)]):
        kind, level, title, _ = roles[first]
        span = Span(lines[first].start if first else 0, lines[stop].start if stop < len(lines) else length)
        cuts = tuple(lines[i].start for i in range(first + 1, stop) if roles[i].kind is BlockKind.LIST)
        yield Block(span, kind, level, title, cuts=(cuts,) if cuts else ())


def _continues(lines: Sequence[_Line], roles: Sequence[_Role], i: int) -> bool:
    """Whether a line belongs to the block of the line before."""
    before, role = roles[i - 1], roles[i]
    if role.goes_on or (role == _ITEM and before == _ITEM):
        return True
    return (
        role == _BODY
        and before.kind is not BlockKind.HEADING
        and not before.goes_on
        and _is_wrapped(*lines[i - 1 : i + 1])
    )


def _is_wrapped(before: _Line, line: _Line) -> bool:
    """Whether a line goes on with the sentence of the line before."""
    if line.is_apart or before.text.endswith(_FINISHED) or len(before.text) < _SHORTEST_WRAPPED:
        return False
    return not line.is_indented or before.is_indented or before.mark is not None
