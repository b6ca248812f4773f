"""What a document asks for by itself: questions whose answer must stand whole in one chunk, found without a model.

    text -> blocks and units of `structure` -> for each kind: question, parts that are needed together, and why

Each finder yields what it is sure of, in the order of the document; the caller leaves out what is too short or long.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from html.parser import HTMLParser
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.code import code_cuts
from llama_index_chunking_plus.core.numbered import DIGIT, HAN_NUMERAL
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.evaluation.structure import StructuredText, Unit

ProbeKind = Literal["table", "code", "example", "procedure", "answer", "exception"]

_HAN = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_WORD = re.compile(r"\w")
_NUMBERING = re.compile(r"(?:\d{1,3}(?:\.\d{1,3})*[.、]?|[一二三四五六七八九十]{1,3}、)\s*(?=\D)")
_MARKS = re.compile(r"[*`]|(?<!\S)_+(?=\w)|(?<=\w)_+(?!\S)")
_COLONS = ("：", ":")
_PROSE = frozenset({BlockKind.PARAGRAPH, BlockKind.QUOTE})
_BESIDE = frozenset({BlockKind.COMMENT, BlockKind.BREAK})
_NO_TEXT = frozenset({BlockKind.CODE, BlockKind.FORMULA, BlockKind.HTML, BlockKind.COMMENT, BlockKind.FRONT_MATTER})
_LONGEST_TOPIC = 40  # characters of the document in a question


class Part(NamedTuple):
    """A range that a chunk must show, and what it is."""

    name: str
    span: Span


class Found(NamedTuple):
    """A question that a document answers in several parts, all of them needed.

    Args:
        question: in the language of the document.
        parts: in order, none overlapping another.
        steps: what a complete answer must say, if it is a list.
    """

    question: str
    parts: tuple[Part, ...]
    steps: tuple[str, ...] = ()

    @property
    def span(self) -> Span:
        """From the first part to the last."""
        return Span(self.parts[0].span.start, self.parts[-1].span.end)

    @property
    def size(self) -> int:
        """The characters of all parts."""
        return sum(part.span.end - part.span.start for part in self.parts)


class ProbedText(StructuredText):
    """A document as the finders look at it.

    Args:
        text: the document.
        longest: how many characters the parts of one question may have in all.

    Example:
        >>> document = ProbedText("# 限值\\n\\n| 项 | 值 |\\n|--|--|\\n| 温度 | 40 |\\n| 湿度 | 80 |\\n")
        >>> [found.question for found in FINDERS["table"](document)]
        ['「限值」中温度的值是多少？', '「限值」中湿度的值是多少？']
    """

    def __init__(self, text: str, longest: int = 2000) -> None:
        super().__init__(text)
        self.longest = longest

    @cached_property
    def is_chinese(self) -> bool:
        """Whether there are at least as many Chinese characters as words of Latin letters."""
        n_han = sum(1 for _ in _HAN.finditer(self.text))
        return n_han > 0 and n_han >= sum(1 for _ in _LATIN_WORD.finditer(self.text))

    @cached_property
    def starts(self) -> list[int]:
        """Where the blocks begin."""
        return [block.span.start for block in self.blocks]

    @cached_property
    def _titles(self) -> list[str]:
        """The title that each block stands below."""
        titles: list[str] = []
        for block in self.blocks:
            titles.append(block.title or (titles[-1] if titles else ""))
        return titles

    def number_at(self, position: int) -> int:
        """The number of the block that holds the position."""
        return max(0, bisect_right(self.starts, position) - 1)

    def title_at(self, position: int) -> str:
        """The title that the position stands below, without its number; "" if there is none."""
        title = self._titles[self.number_at(position)] if self._titles else ""
        return topic(_NUMBERING.sub("", title, count=1) or title)

    def ask(self, position: int, chinese: str, english: str, **fields: str) -> str:
        """The question in the document's language; ``{where}`` is the title above the position."""
        title = self.title_at(position)
        if self.is_chinese:
            return chinese.format(where=f"「{title}」中" if title else "", **fields).removeprefix("的")
        return english.format(where=f' in "{title}"' if title else "", **fields)

    def units_of(self, kind: str) -> Iterator[Unit]:
        """The units of a kind, in order."""
        return (unit for unit in self.units if unit.kind == kind)

    def sentences(self, span: Span) -> list[Span]:
        """The sentences of a range, without the white space around them; none is empty."""
        ends = ChineseSentenceTokenizer().ends(span.of(self.text))
        found = (self.trimmed(each) for each in spans_between([span.start + end for end in ends], span.start))
        return [each for each in found if each.end > each.start]

    def trimmed(self, span: Span) -> Span:
        """The range without the white space around it."""
        content = span.of(self.text)
        stripped = content.strip()
        start = span.start + (len(content) - len(content.lstrip()) if stripped else 0)
        return Span(start, start + len(stripped))

    def with_shown(self, number: int) -> int:
        """Where the block ends, or what it introduces with a colon."""
        block = self.blocks[number]
        introduces = block.span.of(self.text).rstrip("*_ \t\r\n").endswith(_COLONS)
        following = number + 1
        goes_on = introduces and following < len(self.blocks) and not self.blocks[following].level
        return self.trimmed(self.blocks[following if goes_on else number].span).end


def topic(text: str) -> str:
    """Words of a document as a part of a question: on one line, without marks, not too long."""
    line = " ".join(_MARKS.sub("", text).split()).strip("：:。.，, >")
    return line if len(line) <= _LONGEST_TOPIC else line[: _LONGEST_TOPIC - 1] + "…"


# ------------------------------------------------------------------------------------------------ tables


class _Cell(NamedTuple):
    """A cell, the row that it begins in, and how many rows and columns it takes."""

    text: str
    row: int = 0
    rows: int = 1
    columns: int = 1


_LARGEST_CELL = 100  # rows or columns
_ROW_END = re.compile("</tr>", re.IGNORECASE)

_TABLE_QUESTIONS = ("{where}{key}的{column}是{how}？", "What is the {column} of {key}{where}?")


def _tables(document: ProbedText) -> Iterator[Found]:
    """For each row that its first cells name, one of its other cells; the columns take turns."""
    for header, units in groupby(document.units_of("table_row"), key=lambda unit: unit.parts[0]):
        rows = [_row(document, unit) for unit in units]
        grid = _grid_of(document, header, rows)
        if grid is not None:
            yield from _table_questions(document, header, rows, grid)


def _row(document: ProbedText, unit: Unit) -> Span:
    """The range of a row, without the tags between it and the next one."""
    start, end = unit.parts[1]
    closing = [found.end() for found in _ROW_END.finditer(document.text, start, end)]
    return Span(start, closing[-1] if closing else end)


class _Grid(NamedTuple):
    """A table: the names of its columns, and its rows below them."""

    names: list[str]
    rows: list[list[_Cell]]
    n_header: int


def _grid_of(document: ProbedText, header: Span, rows: Sequence[Span]) -> _Grid | None:
    """The table, if it has two columns and two rows at least, none of them a table itself."""
    read = _html_rows if header.of(document.text).lstrip().startswith("<") else _pipe_rows
    head, body = read(header.of(document.text)), [read(row.of(document.text)) for row in rows]
    if not head or len(rows) < 2 or any(len(each) != 1 for each in body):  # noqa: PLR2004  one row is no table
        return None
    grid = _placed([*head, *(each[0] for each in body)])
    columns = zip(*grid[: len(head)], strict=False)
    names = [" ".join(dict.fromkeys(cell.text for cell in column if cell.text)) for column in columns]
    return _Grid(names, grid[len(head) :], len(head)) if len(names) > 1 else None


def _pipe_rows(line: str) -> list[list[_Cell]]:
    """The cells of a row between pipes; those at its edges may be left out."""
    line = line.strip().removeprefix("|")
    line = line.removesuffix("|") if not line.endswith("\\|") else line
    return [[_Cell(_cell_text(cell)) for cell in re.split(r"(?<!\\)\|", line)]]


def _html_rows(html: str) -> list[list[_Cell]]:
    """The rows of a piece of a table; none if there is a table in them."""
    if "<table" in html.lower():
        return []
    reader = _CellReader()
    with suppress(AssertionError):  # some versions of HTMLParser raise it at <![
        reader.feed(html)
        reader.close()
    return [[cell._replace(text=_cell_text(cell.text)) for cell in row] for row in reader.rows]


def _cell_text(cell: str) -> str:
    return " ".join(_MARKS.sub("", cell).split())


class _CellReader(HTMLParser):
    """Reads the rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[_Cell]] = []
        self._is_open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row or a cell."""
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            sizes = dict(attrs)
            self.rows[-1].append(_Cell("", 0, _extent(sizes.get("rowspan")), _extent(sizes.get("colspan"))))
        self._is_open = tag in {"td", "th"} or (self._is_open and tag != "tr")

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        self._is_open = self._is_open and tag not in {"td", "th", "tr"}

    def handle_data(self, data: str) -> None:
        """Text of the cell that is open."""
        if self._is_open and self.rows and self.rows[-1]:
            cell = self.rows[-1][-1]
            self.rows[-1][-1] = cell._replace(text=f"{cell.text} {data}" if cell.text else data)


def _extent(value: str | None) -> int:
    number = int(value) if value and value.isascii() and value.isdigit() and len(value) < 6 else 1  # noqa: PLR2004
    return min(max(number, 1), _LARGEST_CELL)


def _placed(rows: Sequence[Sequence[_Cell]]) -> list[list[_Cell]]:
    """The rows with every cell in each row and column that it takes, and the row that it begins in."""
    grid: list[list[_Cell]] = []
    above: dict[int, _Cell] = {}  # cells that reach down into the row, with the rows that are left, by column
    for number, cells in enumerate(rows):
        line: list[_Cell] = []
        queue = deque(cell._replace(row=number) for cell in cells)
        while queue or len(line) in above:
            if len(line) in above:
                line.append(above[len(line)])
            else:
                cell = queue.popleft()
                line.extend([cell] * cell.columns)
        grid.append(line)
        above = {column: cell._replace(rows=cell.rows - 1) for column, cell in enumerate(line) if cell.rows > 1}
    return grid


def _table_questions(document: ProbedText, header: Span, rows: Sequence[Span], grid: _Grid) -> Iterator[Found]:
    width = len(grid.names)
    counts = [Counter(_texts(row, n) for row in grid.rows) for n in range(width)]
    for number, row in enumerate(grid.rows):
        n_key = next((n for n in range(1, width) if counts[n][_texts(row, n)] == 1), 0)
        columns = [column for column in range(n_key, width) if _is_answer(grid, row, n_key, column)]
        if not n_key or len(row) != width or not columns or not _WORD.search(row[0].text):
            continue
        column = columns[number % len(columns)]
        needed = sorted({number, *(cell.row - grid.n_header for cell in [*row[:n_key], row[column]])})
        yield Found(
            document.ask(
                header.start,
                *_TABLE_QUESTIONS,
                key=("、" if document.is_chinese else ", ").join(
                    dict.fromkeys(topic(cell.text) for cell in row[:n_key] if cell.text)
                ),
                column=topic(grid.names[column]),
                how="多少" if re.match(r"\W*\d", row[column].text) else "什么",
            ),
            (Part("header row", header), *(Part("data row", rows[each]) for each in needed)),
        )


def _texts(row: Sequence[_Cell], n: int) -> tuple[str, ...]:
    return tuple(cell.text for cell in row[:n])


def _is_answer(grid: _Grid, row: Sequence[_Cell], n_key: int, column: int) -> bool:
    """Whether a cell says something that its row and the name of its column ask for, and no other."""
    if column >= len(row) or not n_key:
        return False
    name, cell = grid.names[column], row[column]
    is_named = bool(_WORD.search(name)) and grid.names.count(name) == 1
    is_own = cell.text not in _texts(row, n_key) and min(each.row for each in [*row[:n_key], cell]) >= grid.n_header
    return is_named and is_own and bool(_WORD.search(cell.text))


# ------------------------------------------------------------------------------------------------ code

_SHORTEST_CODE = 3  # lines
_DEFINES = re.compile(
    r"^[ \t]*(?:export[ ]|async[ ]|pub[ ]|public[ ]|static[ ])*(?:def|class|func|fn|function|interface|struct)[ ]+"
    r"(?P<name>[A-Za-z_]\w*)",
    re.MULTILINE,
)
_CODE_QUESTIONS = ("{where}{what}的完整代码是什么？", "What is the complete code of {what}{where}?")


def _code(document: ProbedText) -> Iterator[Found]:
    """Fences with the sentence that introduces them; of those that are too long, the definitions in them."""
    for unit in document.units_of("fence"):
        if len(unit.span.of(document.text).splitlines()) < _SHORTEST_CODE + 2:
            continue
        if unit.span.end - unit.span.start > document.longest:
            yield from _definitions(document, unit)
            continue
        parts = (*_introduction(document, unit.span), Part("code", unit.span))
        yield Found(_code_question(document, unit.span), parts)


def _introduction(document: ProbedText, fence: Span) -> Iterator[Part]:
    """The sentence that ends in a colon right before a fence that stands by itself."""
    number = document.number_at(fence.start)
    if number and document.blocks[number].kind is BlockKind.CODE and document.blocks[number - 1].kind in _PROSE:
        sentences = document.sentences(document.blocks[number - 1].span)
        if sentences and sentences[-1].of(document.text).rstrip("*_ ").endswith(_COLONS):
            yield Part("introduction", sentences[-1])


def _code_question(document: ProbedText, span: Span) -> str:
    named = _DEFINES.search(document.text, *span)
    info = topic(document.blocks[document.number_at(span.start)].info)
    sample = f"{info} 示例".strip() if document.is_chinese else f"the {info} sample".replace("  ", " ")
    return document.ask(span.start, *_CODE_QUESTIONS, what=named["name"] if named else sample)


def _definitions(document: ProbedText, fence: Unit) -> Iterator[Found]:
    """The functions and classes at the top level of a fence."""
    text, lines = document.text, fence.span.of(document.text).splitlines(keepends=True)
    code = Span(fence.span.start + len(lines[0]), fence.span.end - len(lines[-1]))
    cuts = code_cuts(code.of(text), document.blocks[document.number_at(code.start)].info)[0]
    for piece in spans_between([code.start + cut for cut in (*cuts, len(code.of(text)))], code.start):
        span = document.trimmed(piece)
        if _DEFINES.search(text, *span) and len(span.of(text).splitlines()) >= _SHORTEST_CODE:
            yield Found(_code_question(document, span), (Part("function", span),))


# ------------------------------------------------------------------------------------------------ examples

_EXAMPLE = re.compile(r"[\s*_>]*(?:例|比如|譬如|示例|举|舉|以|For[ ]|E\.g|e\.g|Example)")
_TERM = re.compile(
    r"[\s>]*(?:\*\*(?P<bold>[^*\n]{1,40})\*\*|[“「](?P<quoted>[^”」\n]{1,30})[”」](?=是|指|，)"
    r"|(?P<chinese>[^，。；：、\s]{2,20}?)(?:是指|指的是|定义为|称为)"
    r"|(?:An?[ ]|The[ ])?(?P<english>[A-Za-z][\w -]{1,40}?)[ ](?:is[ ]defined[ ]as|means|refers[ ]to|is[ ]an?)[ ])"
)
_NOTE = re.compile(r"[\s*_>]*(?:注意|说明|注|提示|Note|Tip|Warning)[*_]*[:：][\s*_]*")
_CLAUSE = re.compile(r"[^，。；：,;:\n]*(?:[，,][^，。；：,;:\n]*)?")
_EXAMPLE_QUESTIONS = (
    ("{where}什么是“{what}”？请举例说明。", 'What is "{what}"{where}? Give the example.'),
    ("请说明“{what}”，并举出{where}的例子。", 'Explain "{what}", with the example{where}.'),
)


def _examples(document: ProbedText) -> Iterator[Found]:
    """Definitions and rules with the example that follows, also behind a formula."""
    for unit in document.units_of("example"):
        sentences = document.sentences(unit.span)
        at = next((each.start for each in sentences[1:] if _EXAMPLE.match(document.text, *each)), unit.span.end)
        parts = [Part("definition", document.trimmed(Span(unit.span.start, at)))]
        if at < unit.span.end:
            parts.append(Part("example", Span(at, unit.span.end)))
        yield _example(document, parts)
    yield from _after_formulas(document)


def _after_formulas(document: ProbedText) -> Iterator[Found]:
    """A sentence that a formula completes, the formula, and the example that follows."""
    for before, formula, after in zip(document.blocks, document.blocks[1:], document.blocks[2:], strict=False):
        is_framed = before.kind in _PROSE and after.kind in _PROSE and formula.kind is BlockKind.FORMULA
        if not is_framed or not _EXAMPLE.match(document.text, *after.span):
            continue
        sentences, examples = document.sentences(before.span), document.sentences(after.span)
        if sentences and examples and sentences[-1].of(document.text).endswith(_COLONS):
            definition = document.trimmed(Span(sentences[-1].start, formula.span.end))
            yield _example(document, [Part("definition", definition), Part("example", examples[0])])


def _example(document: ProbedText, parts: Sequence[Part]) -> Found:
    start, end = parts[0].span
    term = _TERM.match(document.text, start, end)
    what = topic(term[term.lastgroup]) if term and term.lastgroup else _clause(document, parts[0].span)
    return Found(document.ask(start, *_EXAMPLE_QUESTIONS[term is None], what=what), tuple(parts))


def _clause(document: ProbedText, span: Span) -> str:
    """What a rule is called in a question: its first words."""
    note = _NOTE.match(document.text, *span)
    clause = _CLAUSE.match(document.text, note.end() if note else span.start, span.end)
    return topic(clause[0] if clause else "") or topic(span.of(document.text))


# ------------------------------------------------------------------------------------------------ procedures

_NUMERAL = f"(?:{DIGIT}{{1,3}}|{HAN_NUMERAL}{{1,3}})"
_LABEL = re.compile(
    rf"[\s>*_]*(?:(?P<named>步[骤驟][ ]?{_NUMERAL}|第{_NUMERAL}步|(?:Step|STEP)[ ]{_NUMERAL})[ ]?[*_]{{0,2}}"
    r"[:：.．、，,]?"
    r"|\d{1,3}[.．、)）]|[①-⑳])[\s*_]*"
)
_INSTRUCTS = re.compile(
    r"步[骤驟]|流程|操作|方法|安装|安裝|更换|升级|配置|部署|程序|办理"
    r"|how to|step|procedure|process|install|set ?up|instruction",
    re.IGNORECASE,
)
_PROCEDURE_QUESTIONS = (
    ("{where}的全部步骤是什么？", "What are all the steps{where}?"),
    ("{where}列出的全部 {count} 项是什么？", "What are all {count} items that are listed{where}?"),
)


def _procedures(document: ProbedText) -> Iterator[Found]:
    """Runs of numbered steps; each reaches to the next one."""
    for labels in _runs(document):
        if not _LABEL.match(document.text, *labels[0]):
            continue  # （一）: conditions, rather than steps
        starts = [label.start for label in labels]
        spans = [document.trimmed(each) for each in spans_between([*starts[1:], labels[-1].end], starts[0])]
        steps = [step for span in spans if (step := _step(document, span))]
        if len(steps) == len(spans):
            parts = tuple(Part("step", span) for span in spans)
            yield Found(_procedure_question(document, labels), parts, tuple(steps))


def _runs(document: ProbedText) -> list[list[Span]]:
    """The numbered items that count on from each other."""
    runs: list[list[Span]] = []
    open_: dict[Span, list[Span]] = {}
    for unit in document.units_of("steps"):
        before, step = unit.parts
        run = open_.pop(before, None)
        if run is None:
            run = [before]
            runs.append(run)
        run.append(step)
        open_[step] = run
    return runs


def _step(document: ProbedText, span: Span) -> str:
    """The first sentence of a step, without its number; "" if it says nothing."""
    label = _LABEL.match(document.text, *span)
    sentences = document.sentences(Span(label.end() if label else span.start, span.end))
    content = _cell_text(sentences[0].of(document.text)) if sentences else ""
    return content if _WORD.search(content) else ""


def _procedure_question(document: ProbedText, labels: Sequence[Span]) -> str:
    first = _LABEL.match(document.text, *labels[0])
    number = document.number_at(labels[0].start)
    before = document.blocks[number - 1].span.of(document.text)[-60:] if number else ""
    is_procedure = bool(first and first["named"]) or _INSTRUCTS.search(document.title_at(labels[0].start) + before)
    questions = _PROCEDURE_QUESTIONS[0 if is_procedure else 1]
    return document.ask(labels[0].start, *questions, count=str(len(labels)))


# ------------------------------------------------------------------------------------------------ answers

_BEFORE_LABEL = r"^[ \t>*_#-]*"
_BEHIND_LABEL = r"[ ]?\d{0,3}[ ]?[*_]{0,2}[:：][*_]{0,2}[ \t]*"
_QUESTION = re.compile(
    rf"{_BEFORE_LABEL}(?:问题?|問題?|提问|Q|Question){_BEHIND_LABEL}(?P<text>\S[^\r\n]*)", re.MULTILINE
)
_ANSWER = re.compile(rf"{_BEFORE_LABEL}(?:回?答|答案|答复|解答|A|Answer){_BEHIND_LABEL}(?=\S)", re.MULTILINE)
_LONGEST_QUESTION = 300  # characters, up to its answer


def _answers(document: ProbedText) -> Iterator[Found]:
    """Questions that the document answers itself: those with a label, and headings that ask."""
    asked = [found for found in _QUESTION.finditer(document.text) if _is_text(document, found.start())]
    for question, following in pairwise([*asked, None]):
        if question is not None:
            yield from _labelled(document, question, following.start() if following else len(document.text))
    for number, block in enumerate(document.blocks):
        if block.kind is BlockKind.HEADING and block.title.endswith(("？", "?")):
            yield from _below(document, number, block)


def _is_text(document: ProbedText, position: int) -> bool:
    return document.blocks[document.number_at(position)].kind not in _NO_TEXT


def _labelled(document: ProbedText, question: re.Match[str], stop: int) -> Iterator[Found]:
    """A question and the answer up to the end of its block, or of what that introduces."""
    answer = _ANSWER.search(document.text, question.end(), min(stop, question.end() + _LONGEST_QUESTION))
    if answer is None or any(
        block.level
        for block in document.blocks[document.number_at(question.start()) + 1 : document.number_at(answer.start()) + 1]
    ):
        return
    end = min(stop, document.with_shown(document.number_at(answer.start())))
    parts = (Span(question.start("text"), question.end("text")), Span(answer.end(), end))
    yield from _answer(document, question["text"], *map(document.trimmed, parts))


def _below(document: ProbedText, number: int, heading: Block) -> Iterator[Found]:
    """A heading that asks and all that stands below it, up to the next heading."""
    following = document.blocks[number + 1 :]
    last = next((i for i, block in enumerate(following) if block.level), len(following))
    body = [block for block in following[:last] if block.kind not in _BESIDE]
    at = document.text.find(heading.title, *heading.span)
    if body and at >= 0:
        title = Span(at, at + len(heading.title))
        below = document.trimmed(Span(body[0].span.start, body[-1].span.end))
        yield from _answer(document, _NUMBERING.sub("", heading.title, count=1), title, below)


def _answer(document: ProbedText, question: str, asked: Span, answered: Span) -> Iterator[Found]:
    asks = " ".join(_MARKS.sub("", question).split())
    if _WORD.search(asks) and _WORD.search(answered.of(document.text)):
        yield Found(asks, (Part("question", asked), Part("answer", answered)))


# ------------------------------------------------------------------------------------------------ exceptions

_EXCEPTION = re.compile(
    r"[\s*_>]*(?:(?:但是?|然而|不过)[^。；]*?(?:除外|此限|不受|不适用|不視為|不视为|例外)"
    r"|(?:(?!但)[^。；])*?(?:不受此限|不在此限|不适用(?:上述|前述))"
    r"|(?:However|But|This|These|The[ ]above)\b[^.\n]*?\b(?:not[ ]apply|except|unless|exempt|exceptions?)\b)"
)
_REFERS_BACK = re.compile(r"[^，。；：]{0,8}(?:前款|前两款|上款|上述规定|前述规定)")
_EXCEPTION_QUESTIONS = (
    "“{what}”有什么例外，或者还有什么规定？",
    'What are the exceptions to, or further rules on, "{what}"?',
)


def _exceptions(document: ProbedText) -> Iterator[Found]:
    """Rules with the sentence behind them that excepts something from them, or refers back to them."""
    for number, block in enumerate(document.blocks):
        if block.kind not in _PROSE:
            continue
        sentences = document.sentences(block.span)
        before = document.blocks[number - 1] if number and not block.level else None
        if before is not None and before.kind in _PROSE and sentences:
            rule = document.trimmed(before.span)
            if _REFERS_BACK.match(document.text, *sentences[0]):
                yield _exception(document, number, rule, sentences[0])
        for rule, sentence in pairwise(sentences):
            if _EXCEPTION.match(document.text, *sentence):
                yield _exception(document, number, rule, sentence)


def _exception(document: ProbedText, number: int, rule: Span, sentence: Span) -> Found:
    is_last = sentence.end == document.trimmed(document.blocks[number].span).end
    end = document.with_shown(number) if is_last else sentence.end
    question = document.ask(rule.start, *_EXCEPTION_QUESTIONS, what=_clause(document, rule))
    return Found(question, (Part("rule", rule), Part("exception", Span(sentence.start, end))))


FINDERS: dict[ProbeKind, Callable[[ProbedText], Iterator[Found]]] = {
    "table": _tables,
    "code": _code,
    "example": _examples,
    "procedure": _procedures,
    "answer": _answers,
    "exception": _exceptions,
}
"""What finds the questions of each kind in a document."""

REASONS: dict[ProbeKind, str] = {
    "table": "the row does not say what its cells are; only the header row does",
    "code": "code that is cut does not run",
    "example": "the example is nothing without what it is an example of",
    "procedure": "whoever follows it must see every step, in order",
    "answer": "the answer does not repeat what was asked",
    "exception": "the rule alone is wrong where the exception holds",
}
"""Why what each kind asks for must stand whole in one chunk."""
