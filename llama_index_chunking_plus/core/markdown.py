"""Markdown in, blocks out: what a document is made of, as exact ranges.

    text -> front matter, then markdown-it's block rules -> top-level tokens, each with its lines
         -> one block for each (HTML with tables in it: several) -> white space goes with the block before it
         -> a list, a table, code or a formula learns which sentence or caption introduces it

The rules are CommonMark's, with tables and footnotes as GitHub has them, and display formulas: $$…$$, \\[…\\] and the
amsmath environments, which may follow a paragraph without a blank line. markdown-it gives lines, not characters, so
the starts of the lines are counted here, in the text as it came. Inline marks are read only where they are asked for:
in titles, and by `inline_atoms`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, fence, heading, hr, html_block, list_block, table
from markdown_it.rules_inline import StateInline, autolink, backtick, html_inline, image, link
from markdown_it.token import Token
from mdit_py_plugins.footnote.index import footnote_def

from llama_index_chunking_plus.core.belonging import caption_of
from llama_index_chunking_plus.core.blocks import ATOMIC, Block, BlockKind
from llama_index_chunking_plus.core.html_tables import HtmlTable, TableReader
from llama_index_chunking_plus.core.patterns import lazy_pattern
from llama_index_chunking_plus.core.sentences import chinese_sentence_tokenizer
from llama_index_chunking_plus.core.spans import Span, spans_between

BlockRule = Callable[[StateBlock, int, int, bool], bool]
InlineRule = Callable[[StateInline, bool], bool]

_NEWLINE = lazy_pattern(r"\r\n?|\n")
_UNREADABLE = lazy_pattern("[\0\ud800-\udfff]")
_BOM = "\ufeff"
_BLANK = lazy_pattern(r"[\s\ufeff]*")
_DEEPEST = 20  # levels of nesting (a list makes two): what is nested deeper is text of the paragraph around it

_ENVIRONMENTS = "equation|multline|gather|align|alignat|flalign|eqnarray|displaymath|math|cases|[pbBvV]?matrix"
_OPENS_FORMULA = lazy_pattern(rf"\$\$|\\\[|\\begin\{{((?:{_ENVIRONMENTS})\*?)\}}")
_AFTER_FORMULA = lazy_pattern(r"(?:[(（][^()（）$]*[)）])?[,.;:，。；：、]?(?:\{#[^{}]*\})?")  # white space left out
_PLAIN_LINE = r"[A-Za-z\x80-\U0010ffff][^\n]*"  # marks of blocks are ASCII, and no letters
_PLAIN = lazy_pattern(
    rf"(?:(\#{{1,6}})[ \t]+([^\n#]*)|({_PLAIN_LINE}(?:\n{_PLAIN_LINE})*))(\n(?:[ \t]*\n)+|\n?[ \t]*\Z)"
)
_INTRODUCED = ATOMIC | {BlockKind.LIST}
_CAPTIONED = {BlockKind.TABLE: "table", BlockKind.HTML_TABLE: "table", BlockKind.CODE: "figure"}
_FRONT_MATTER_KEY = lazy_pattern(r"[^\s#:][^:]*:(?:\s|$)")


def markdown_blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text; they tile it, and blank lines belong to the block before them.

    A comment without an end, like any HTML that CommonMark does not close, goes on to the end of the text.

    Args:
        text: any text, with any newlines.

    Example:
        >>> [(block.kind.value, block.title) for block in markdown_blocks("# 一 `总则` #\\n正文。\\n~~~\\n# 注\\n~~~")]
        [('heading', '一 总则'), ('paragraph', ''), ('code', '')]
    """
    if not text:
        return []
    source = _Source(text)
    blocks = [block for piece in _pieces(source) for block in _KINDS[piece.token.type](piece)]
    return introduced(text, _without_blank(text, blocks))


def inline_atoms(text: str, block: Block) -> list[Span]:
    """What must not be cut inside the block's running text: code spans, formulas, links, images and tags.

    In order, without overlap; in lists, quotes and footnotes beside what stands in ``inner``. None for blocks that are
    no running text.

    Args:
        text: the text of which the block is a part.
        block: one of its blocks.

    Example:
        >>> text = "设 $x > 0$，见[表](t.md)。"
        >>> [span.of(text) for span in inline_atoms(text, markdown_blocks(text)[0])]
        ['$x > 0$', '[表](t.md)']
    """
    if block.kind not in _RUNNING_TEXT:
        return []
    return [atom for region in _regions(text, block) for atom in _atoms(text, region)]


# ------------------------------------------------------------------------------------------------ lines and tokens


def line_starts(text: str) -> list[int]:
    """Where the lines of a text begin, as Markdown counts them: a newline is \\n, \\r\\n or \\r."""
    if "\r" in text:
        return [0, *(newline.end() for newline in _NEWLINE.finditer(text))]
    lengths = [len(line) + 1 for line in text.split("\n")]
    return [*accumulate(lengths[:-1], initial=0)]


class _Source:
    """The text as it came, and as markdown-it is to read it: line for line the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = line_starts(text)
        readable = _UNREADABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n")).removeprefix(_BOM)
        lines = readable.split("\n") if readable.startswith("---") else [""]
        self.front_matter = _front_matter_lines(lines)
        self.readable = "\n".join(
            [""] * self.front_matter + lines[self.front_matter :] if self.front_matter else [readable]
        )

    def at(self, line: int) -> int:
        """Where the line begins."""
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def lines_around(self, span: Span) -> Span:
        """The whole lines that hold the span."""
        first, last = bisect_right(self.starts, span.start) - 1, bisect_right(self.starts, span.end - 1) - 1
        return Span(self.at(first), self.at(last + 1))


class _Piece(NamedTuple):
    """A top-level token, the tokens inside it, and its range up to where the next one begins."""

    source: _Source
    token: Token
    inside: list[Token]
    span: Span

    def line(self, number: int) -> int:
        """Where a line of the token begins, counted from 0."""
        return self.source.at((self.token.map or (0, 0))[0] + number)

    def line_starts(self, first: int) -> tuple[int, ...]:
        """The starts of its lines from the one with this number on, as far as they can be cuts."""
        begin, end = self.token.map or (0, 0)
        return self.within(self.source.at(line) for line in range(begin + first, end))

    def within(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Those positions at which the piece can be cut, ascending, each once."""
        return tuple(sorted({each for each in positions if self.line(0) < each < self.span.end}))

    def block(self, kind: BlockKind, **fields: Any) -> list[Block]:
        """The whole piece as one block."""
        return [Block(self.span, kind, **fields)]


def _front_matter_lines(lines: list[str]) -> int:
    """How many lines at the very start are YAML between --- and --- or ...; 0 if none are."""
    if lines[0].rstrip(" \t") != "---" or not lines[1:2] or not lines[1].strip():
        return 0
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip(" \t") in {"---", "..."}), 0)
    has_key = any(_FRONT_MATTER_KEY.match(line) for line in lines[1:end])
    return end + 1 if has_key or end == 1 else 0


def _pieces(source: _Source) -> Iterator[_Piece]:
    groups = _groups(source)
    starts = [source.at((tokens[0].map or (0, 0))[0]) for tokens in groups]
    for tokens, span in zip(groups, spans_between([*starts[1:], len(source.text)]), strict=True):
        yield _Piece(source, tokens[0], tokens[1:], span)


def _groups(source: _Source) -> list[list[Token]]:
    """The tokens, each at the top level with those inside it; definitions in a row count as one."""
    groups = [[Token("front_matter", "", 0, map=[0, source.front_matter])]] if source.front_matter else []
    for token in _block_tokens(source.readable):
        is_new = token.level == 0 and token.nesting >= 0
        if is_new and not (groups and token.type == groups[-1][0].type == "definition"):
            groups.append([])
        groups[-1].append(token)
    return groups or [[Token("paragraph_open", "", 0, map=[0, len(source.starts)])]]


def _block_tokens(readable: str) -> list[Token]:
    parser = _block_parser()
    tokens: list[Token] = []
    parser.block.parse(readable, parser, {}, tokens)
    return tokens


@lru_cache(maxsize=1)
def _block_parser() -> MarkdownIt:
    """CommonMark's block rules, with those of this module."""
    parser = MarkdownIt("commonmark", {"maxNesting": 10 * _DEEPEST, "inline_definitions": True})
    rules = parser.block.ruler
    rules.disable(["fence", "blockquote", "hr", "list", "html_block", "heading"])
    rules.before("code", "plain", _plain)
    rules.before("code", "begin", _any_of(_RULES))
    for what in ("paragraph", "reference", "blockquote", "list"):
        rules.push(f"end of {what}", _any_of([each for each in _RULES if what in each.ends]), {"alt": [what]})
    return parser


# ------------------------------------------------------------------------------------------------ block rules


def _shallow(rule: BlockRule) -> BlockRule:
    """The rule of a container, but never deeper than is safe and fast: time grows with the depth."""

    def shallow(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < _DEEPEST and rule(state, start, end, silent)

    return shallow


class _BlockRule(NamedTuple):
    """A rule, the characters that can begin its blocks ("": any), and what ends where one of them begins."""

    rule: BlockRule
    first: str
    ends: tuple[str, ...]


def _any_of(rules: Sequence[_BlockRule]) -> BlockRule:
    """The rules as one. It is asked for each line, so only those are tried whose blocks can begin that way."""
    always = [each.rule for each in rules if not each.first]
    by_first = {
        first: [each.rule for each in rules if not each.first or first in each.first]
        for first in "".join(each.first for each in rules)
    }

    def any_of(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        begin = state.bMarks[start] + state.tShift[start]
        candidates = by_first.get(state.src[begin : begin + 1], always)
        return any(rule(state, start, end, silent) for rule in candidates)

    return any_of


def _push(state: StateBlock, name: str, start: int, end: int) -> Token:
    token = state.push(name, "", 0)
    token.map = [start, end]
    state.line = end
    return token


def _plain(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Headings and paragraphs between blank lines, outside of all else, in which no line could be anything else.

    The tokens are those of markdown-it's rules, which ask each other about each line.
    """
    if silent or state.level:
        return False
    line = start
    found = _PLAIN.match(state.src, state.bMarks[start])
    while found is not None:
        marks, title, paragraph, blank = found.groups()
        stop = line + 1 + (paragraph.count("\n") if paragraph else 0)
        token = _push(state, "heading" if marks else "paragraph", line, stop)
        if marks:
            token.tag, token.content = f"h{len(marks)}", title
        line = max(stop, stop - 1 + blank.count("\n"))
        found = _PLAIN.match(state.src, found.end())
    state.line = min(line, end)
    return line > start


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table as markdown-it finds it, but as lines: no cells, and no limit to them."""
    below = start + 1
    if below >= end or not state.src.startswith(("|", "-", ":"), state.bMarks[below] + state.tShift[below]):
        return False
    if not table(state, start, end, True):
        return False
    if silent:
        return True
    parent, state.parentType = state.parentType, "table"
    terminators = state.md.block.ruler.getRules("blockquote")
    line = start + 2
    while line < end and _is_row(state, line, end, terminators):
        line += 1
    state.parentType = parent
    return bool(_push(state, "table", start, line))


def _is_row(state: StateBlock, line: int, end: int, terminators: Sequence[BlockRule]) -> bool:
    if state.isEmpty(line) or state.sCount[line] < state.blkIndent or state.is_code_block(line):
        return False
    if state.src.startswith("|", state.bMarks[line] + state.tShift[line]):
        return True
    return not any(rule(state, line, end, True) for rule in terminators)


def _formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A display formula: it opens a line, and closes one."""
    begin, stop = state.bMarks[start] + state.tShift[start], state.eMarks[start]
    opening = _OPENS_FORMULA.match(state.src, begin, stop) if state.src[begin : begin + 1] in {"$", "\\"} else None
    if opening is None or state.is_code_block(start):
        return False
    closer = f"\\end{{{opening[1]}}}" if opening[1] else opening[0].replace("[", "]")
    closed = state.src.find(closer, opening.end(), stop)
    if closed >= 0:
        last = start if _ends_line(state.src[closed + len(closer) : stop]) else -1
    else:
        is_bare = bool(opening[1]) or not state.src[opening.end() : stop].strip()
        last = _closing_line(state, start, end, closer, is_bare)
    return last >= 0 and (silent or bool(_push(state, "formula", start, last + 1)))


def _closing_line(state: StateBlock, start: int, end: int, closer: str, is_bare: bool) -> int:
    """The line in which a formula ends that does not end where it begins; -1 if there is none.

    Where text follows the opening mark, a blank line, or text after the closing mark, means that it was none.
    """
    failed = state.env.setdefault("unclosed", {})
    indent = min(state.blkIndent, state.sCount[start])  # less than the container's where it ends the container
    key = closer, is_bare, end, indent
    first, stop = failed.get(key, (0, 0))
    if first <= start < stop:  # searched before, from further up
        return -1
    line = start + 1
    while line < end and (is_bare if state.isEmpty(line) else state.sCount[line] >= indent):
        closed = state.src.find(closer, state.bMarks[line], state.eMarks[line])
        if closed >= 0:
            return line if is_bare or _ends_line(state.src[closed + len(closer) : state.eMarks[line]]) else -1
        line += 1
    failed[key] = start, line
    return -1


def _ends_line(rest: str) -> bool:
    """Whether what follows a closing mark leaves it at the end of its line: a number, a stop, a label."""
    return _AFTER_FORMULA.fullmatch("".join(rest.split())) is not None


def _html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """An HTML block as CommonMark has it, but a table in it goes on over blank lines to its end."""
    if not html_block(state, start, end, silent):
        return False
    token = state.tokens[-1] if not silent else None
    if token and "<table" in token.content.lower():
        state.line = _line_after_tables(state, start, state.line, end)
        token.map = [start, state.line]
        token.content = state.getLines(start, state.line, state.blkIndent, True)
    return True


def _line_after_tables(state: StateBlock, start: int, stop: int, end: int) -> int:
    """The line behind the tables that begin in the lines from ``start`` to ``stop``; at least ``stop``."""
    ends: dict[int, int]
    known_from, known_to, ends = state.env.get("tables", (0, 0, {}))
    if not known_from <= start < known_to:
        reader, read_to = _read_tables(state, start, stop, end)
        ends = {start + opened: start + closed + 1 for opened, closed in reader.lines.items()}
        state.env["tables"] = start, start if reader.is_done else read_to, ends
    return max([stop, *(ends[line] for line in range(start, stop) if line in ends)])


def _read_tables(state: StateBlock, start: int, stop: int, end: int) -> tuple[TableReader, int]:
    """Read on, twice as far each time, until the tables that are open at ``stop`` are closed."""
    reader = TableReader(stop - start - 1)
    line = start
    while line < end and not reader.is_done:
        batch = list(_container_lines(state, line, max(stop, min(end, line + (line - start)))))
        if not batch:
            break
        reader.read("".join(batch))
        line += len(batch)
        reader.is_done = reader.is_done or reader.level == 0
    return reader, line


def _container_lines(state: StateBlock, start: int, end: int) -> Iterator[str]:
    for line in range(start, end):
        if not state.isEmpty(line) and state.sCount[line] < state.blkIndent:
            return
        yield state.src[state.bMarks[line] : state.eMarks[line]] + "\n"


_RULES = (
    _BlockRule(_table, "", ("paragraph", "reference")),
    _BlockRule(_formula, "$\\", ("paragraph", "reference", "blockquote", "list")),
    _BlockRule(fence, "`~", ("paragraph", "reference", "blockquote", "list")),
    _BlockRule(_shallow(blockquote), ">", ("paragraph", "reference", "blockquote", "list")),
    _BlockRule(hr, "*-_", ("paragraph", "reference", "blockquote", "list")),
    _BlockRule(_shallow(list_block), "*-+0123456789", ("paragraph", "reference", "blockquote")),
    _BlockRule(_shallow(footnote_def), "[", ("paragraph", "reference")),
    _BlockRule(_html, "<", ("paragraph", "reference", "blockquote")),
    _BlockRule(heading, "#", ("paragraph", "reference", "blockquote")),
)


# ------------------------------------------------------------------------------------------------ HTML tables


def _html_blocks(piece: _Piece) -> list[Block]:
    """The piece as tables, each with the whole lines that hold it, and what stands between them."""
    content = piece.span.of(piece.source.text)
    reader = TableReader()
    if "<table" in content.lower():
        reader.read(content)
    if not reader.lines:
        return piece.block(BlockKind.COMMENT if _is_comment(content) else BlockKind.HTML)
    blocks: list[Block] = []
    cursor = piece.span.start
    for span, tables in _in_lines(piece, [each for each in reader.tables if each.end > 0]):
        blocks += [Block(Span(cursor, span.start), BlockKind.HTML)] if cursor < span.start else []
        blocks.append(_html_table(span, tables))
        cursor = span.end
    return [*blocks, Block(Span(cursor, piece.span.end), BlockKind.HTML)] if cursor < piece.span.end else blocks


def _is_comment(content: str) -> bool:
    """Whether comments are all there is."""
    content = content.removeprefix(_BOM).strip()
    end = 0
    while content.startswith("<!--", end):
        closed = content.find("-->", end + 4)
        if closed < 0:
            return False
        end = closed + 3
    return end == len(content)


def _in_lines(piece: _Piece, tables: list[HtmlTable]) -> list[tuple[Span, list[HtmlTable]]]:
    """Whole lines, with the tables in them, whose positions are now those in the document."""
    found: list[tuple[Span, list[HtmlTable]]] = []
    offset = piece.span.start
    for each in tables:
        moved = HtmlTable(
            each.start + offset, each.end + offset, [replace(row, start=row.start + offset) for row in each.rows]
        )
        span = piece.source.lines_around(Span(moved.start, moved.end))
        if found and span.start < found[-1][0].end:
            (start, _), others = found.pop()
            found.append((Span(start, span.end), [*others, moved]))
        else:
            found.append((span, [moved]))
    return found


def _html_table(span: Span, tables: list[HtmlTable]) -> Block:
    """One block; only a table that has the lines for itself has a lead."""
    only, header = tables[0], tables[0].header() if len(tables) == 1 else 0
    lead = (Span(only.rows[0].start, only.rows[header].start),) if 0 < header < len(only.rows) else ()
    starts = [row.start for each in tables for row in each.rows]
    depths = [depth for each in tables for depth in each.depths()]
    groups = (
        tuple(at for at, each in zip(starts[header + 1 :], depths[header + 1 :], strict=True) if each == depth)
        for depth in range(3)
    )
    return Block(span, BlockKind.HTML_TABLE, lead=lead, cuts=_groups_of(*groups), inner=_spanned(starts, depths, span))


def _spanned(starts: Sequence[int], depths: Sequence[int], table: Span) -> tuple[Span, ...]:
    """The rows that cells span, each range of them with the rows that the cells stand in."""
    if not any(depths):
        return ()
    free = [start for start, depth in zip(starts, depths, strict=True) if not depth]
    return tuple(
        Span(start, end)
        for start, end in pairwise([*free, table.end])
        if bisect_left(starts, end) - bisect_left(starts, start) > 1
    )


# ------------------------------------------------------------------------------------------------ kinds of block


def _groups_of(*cuts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(group for group in cuts if group)


def _heading(piece: _Piece) -> list[Block]:
    content = piece.inside[0].content if piece.inside else piece.token.content
    return piece.block(BlockKind.HEADING, level=int(piece.token.tag[1]), title=_plain_text(content))


def _table_block(piece: _Piece) -> list[Block]:
    lead = (Span(piece.line(0), piece.line(2)),)
    return piece.block(BlockKind.TABLE, lead=lead, cuts=_groups_of(piece.line_starts(3)))


def _fence(piece: _Piece) -> list[Block]:
    words = piece.token.info.strip().lstrip("{.").replace(",", " ").replace("}", " ").split()
    lead = (Span(piece.line(0), piece.line(1)),)
    return piece.block(BlockKind.CODE, lead=lead, info=words[0] if words else "")


def _formula_block(piece: _Piece) -> list[Block]:
    return piece.block(BlockKind.FORMULA, cuts=_groups_of(piece.line_starts(1)))


def _container(kind: BlockKind) -> Callable[[_Piece], list[Block]]:
    """A list, which falls into its items, or a quote or footnote, into what stands in it; then into nested items."""

    def container(piece: _Piece) -> list[Block]:
        opened = [token for token in piece.inside if token.map and token.type != "inline"]
        parts = piece.within(_starts(piece, (token for token in opened if token.level == 1)))
        items = piece.within(_starts(piece, (token for token in opened if token.type == "list_item_open")))
        nested = tuple(sorted(set(items).difference(parts)))
        inner = [_lines_of(piece, token) for token in opened if _is_whole(token)]
        return piece.block(kind, cuts=_groups_of(parts, nested), inner=tuple(inner))

    return container


def _starts(piece: _Piece, tokens: Iterable[Token]) -> Iterator[int]:
    return (_lines_of(piece, token).start for token in tokens)


def _lines_of(piece: _Piece, token: Token) -> Span:
    first, last = token.map or (0, 0)
    return Span(piece.source.at(first), piece.source.at(last))


def _is_whole(token: Token) -> bool:
    if token.type == "html_block":
        return "</table" in token.content.lower()
    return token.type in {"fence", "code_block", "table", "formula"}


def _whole(kind: BlockKind) -> Callable[[_Piece], list[Block]]:
    return lambda piece: [Block(piece.span, kind)]


_KINDS: dict[str, Callable[[_Piece], list[Block]]] = {
    "front_matter": _whole(BlockKind.FRONT_MATTER),
    "heading": _heading,
    "heading_open": _heading,
    "paragraph": _whole(BlockKind.PARAGRAPH),
    "paragraph_open": _whole(BlockKind.PARAGRAPH),
    "definition": _whole(BlockKind.PARAGRAPH),
    "hr": _whole(BlockKind.BREAK),
    "code_block": _whole(BlockKind.CODE),
    "fence": _fence,
    "table": _table_block,
    "formula": _formula_block,
    "html_block": _html_blocks,
    "bullet_list_open": _container(BlockKind.LIST),
    "ordered_list_open": _container(BlockKind.LIST),
    "blockquote_open": _container(BlockKind.QUOTE),
    "footnote_reference_open": _container(BlockKind.FOOTNOTE),
}


def _without_blank(text: str, blocks: list[Block]) -> list[Block]:
    """White space that CommonMark takes for a paragraph (a form feed, 　) goes with the block before it."""
    kept = blocks[:1]
    for block in blocks[1:]:
        if _BLANK.fullmatch(text, *block.span):
            kept[-1] = kept[-1]._replace(span=Span(kept[-1].span.start, block.span.end))
        else:
            kept.append(block)
    if len(kept) > 1 and _BLANK.fullmatch(text, *kept[0].span):
        kept[:2] = [kept[1]._replace(span=Span(0, kept[1].span.end))]
    return kept


def introduced(text: str, blocks: list[Block]) -> list[Block]:
    """The blocks; those after a paragraph that introduces them know it, and lists are led by it."""
    for number, (before, after) in enumerate(pairwise(blocks), 1):
        if before.kind is BlockKind.PARAGRAPH and after.kind in _INTRODUCED:
            is_second = number > 1 and blocks[number - 2].kind is after.kind  # a caption may be that of the first
            found = _introduction(text, before, "" if is_second else _CAPTIONED.get(after.kind, ""))
            lead = found if after.kind is BlockKind.LIST else after.lead
            blocks[number] = after._replace(introduction=found, lead=lead) if found else after
    return blocks


def _introduction(text: str, paragraph: Block, caption: str) -> tuple[Span, ...]:
    """The last sentence of the paragraph, up to its end, if it ends in a colon; its last line, if a caption."""
    content = paragraph.span.of(text).rstrip()
    introduction = content[max(content.rfind("\n"), content.rfind("\r")) + 1 :]
    if content.rstrip("*_ ").endswith(("：", ":")):
        introduction = chinese_sentence_tokenizer(introduction)[-1]
    elif not caption or caption_of(introduction) != caption:
        return ()
    return (Span(paragraph.span.start + len(content) - len(introduction), paragraph.span.end),)


# ------------------------------------------------------------------------------------------------ inline marks

_RUNNING_TEXT = frozenset(
    {
        BlockKind.HEADING,
        BlockKind.PARAGRAPH,
        BlockKind.LIST,
        BlockKind.TABLE,
        BlockKind.QUOTE,
        BlockKind.FOOTNOTE,
    }
)
_MARKED = lazy_pattern(r"[*_`\[\]<>&\\!$\n]")
_BOLD = lazy_pattern(r"\*\*(.+?)\*\*")  # **注意：**正文 is not bold to CommonMark, but is meant to be
_MAY_HOLD_ATOMS = lazy_pattern(r"[`$<\[\\]")
_BLANK_LINES = lazy_pattern(r"(?:\r\n?|\n)[ \t>]*(?:\r\n?|\n)")


def _plain_text(content: str) -> str:
    """The text without its inline marks: of a link its text, of an image its description, formulas as they are."""
    if not _MARKED.search(content):
        return content.strip()
    parser = _title_parser()
    return _BOLD.sub(r"\1", _text_of(parser.inline.parse(content, parser, {}, []))).strip()


def _text_of(tokens: Iterable[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in {"text", "text_special", "code_inline"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        elif token.type == "image":
            parts.append(_text_of(token.children or []))
    return "".join(parts)


@lru_cache(maxsize=1)
def _title_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    return parser


@lru_cache(maxsize=1)
def _atom_parser() -> MarkdownIt:
    """Notes where in the text its rules succeed."""
    parser = MarkdownIt("commonmark").disable(["newline", "emphasis", "entity", "balance_pairs", "fragments_join"])
    rules = parser.inline.ruler
    rules.before("escape", "formula", _noted(_inline_formula))
    for name, rule in (("backticks", backtick), ("link", link), ("image", image), ("autolink", autolink)):
        rules.at(name, _noted(rule))
    rules.at("html_inline", _noted(html_inline))
    return parser


def _noted(rule: InlineRule) -> InlineRule:
    def noted(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if not rule(state, silent):
            return False
        is_lone = not state.src[start : state.pos].strip("`")  # a run of ` that nothing closes
        if not silent and not is_lone and state.src is state.env["source"]:  # not the description of an image
            state.env["found"].append(Span(start, state.pos))
        return True

    return noted


def _inline_formula(state: StateInline, silent: bool) -> bool:
    r"""$…$, $$…$$, \(…\) or \[…\]; a single $ as pandoc has it, so that prices are none."""
    end = _formula_end(state)
    if end < 0:
        return False
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : end]
    state.pos = end
    return True


def _formula_end(state: StateInline) -> int:
    """Where the formula that begins here ends; -1 if none does."""
    text, at = state.src, state.pos
    if text.startswith(("\\(", "\\[", "$$"), at):
        closer = {"\\(": "\\)", "\\[": "\\]"}.get(text[at : at + 2], "$$")
        end = _find(state, closer, at + 2)
        return end + len(closer) if end > at + 2 else -1
    if text[at] != "$" or text[at + 1 : at + 2].isspace() or text[at - 1 : at].isdigit():
        return -1
    end = _find(state, "$", at + 1)
    is_formula = end > at + 1 and not text[end - 1].isspace() and not text[end + 1 : end + 2].isdigit()
    return end + 1 if is_formula else -1


def _find(state: StateInline, closer: str, start: int) -> int:
    """The next closing mark that is not escaped; -1 if there is none. What is known to miss is not sought again."""
    missing = state.env.setdefault("missing", {})
    key = state.src, closer
    if start >= missing.get(key, start + 1):
        return -1
    at = state.src.find(closer, start)
    while closer == "$" and at > 0 and state.src[at - 1] == "\\":
        at = state.src.find(closer, at + 1)
    if at < 0:
        missing[key] = start
    return at if at < state.posMax else -1


def _regions(text: str, block: Block) -> Iterator[Span]:
    """The parts of the block that hold inline text, each with no more than one paragraph, item or row."""
    cuts = {cut for group in block.cuts for cut in group} | {edge for span in block.lead for edge in span}
    cuts |= {found.end() for found in _BLANK_LINES.finditer(text, block.span.start, block.span.end)}
    bounds, cursor = sorted(cuts), block.span.start
    for whole in (*block.inner, Span(block.span.end, block.span.end)):
        between = bounds[bisect_right(bounds, cursor) : bisect_left(bounds, whole.start)]
        yield from spans_between([*between, whole.start] if cursor < whole.start else [], cursor)
        cursor = whole.end


def _atoms(text: str, region: Span) -> list[Span]:
    if not _MAY_HOLD_ATOMS.search(text, region.start, region.end):
        return []
    source = _UNREADABLE.sub("\ufffd", region.of(text)).replace("\r", " ")
    parser, found = _atom_parser(), list[Span]()
    parser.inline.parse(source, parser, {"source": source, "found": found}, [])
    outermost: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if not outermost or span.start >= outermost[-1].end:
            outermost.append(span)
    return [span.shift(region.start) for span in outermost]
