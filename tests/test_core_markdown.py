"""Markdown in blocks: a set of cases in readable files, CommonMark's own examples, and what holds for any text."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.token import Token
from spec_examples import spec_examples

from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.markdown import _block_parser, inline_atoms, line_starts, markdown_blocks
from llama_index_chunking_plus.core.spans import Span, is_partition
from llama_index_chunking_plus.samples import sample_paths

CASES = Path(__file__).parent / "data" / "markdown"
ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[rntf0])")
WHITE_SPACE = re.compile(r"[\s\ufeff]*")
LINE_END = re.compile(r"\r\n?|\n|\Z")


# ------------------------------------------------------------------------------------------------ cases in files


@dataclass(frozen=True)
class Case:
    """``@@@ title``, the source, ``@@@ =>``, the expected description; newlines and the like by name if it says so."""

    title: str
    source: str
    expected: str

    @property
    def text(self) -> str:
        if not self.title.endswith("(escaped)"):
            return self.source
        return ESCAPE.sub(lambda found: _unescaped(found[0]), self.source.replace("\n", ""))


def _unescaped(name: str) -> str:
    simple = {"\\r": "\r", "\\n": "\n", "\\t": "\t", "\\f": "\f", "\\0": "\0"}
    return simple[name] if name in simple else chr(int(f"0{name[1:]}".replace("u", "x"), 0))


def _escaped(text: str) -> str:
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character == "\u3000" or (character.isprintable() and character != "\ufeff"):
        return character
    names = {"\r": "\\r", "\n": "\\n", "\t": "\\t", "\f": "\\f", "\0": "\\0"}
    return names.get(character, f"\\u{ord(character):04x}")


def cases() -> list[Case]:
    found = []
    for path in sorted(CASES.glob("*.md")):
        title, source = "", ""
        for part in path.read_text(encoding="utf-8").split("@@@ ")[1:]:
            heading, _, rest = part.partition("\n")
            if heading == "=>":
                found.append(Case(title, source, rest))
            else:
                title, source = f"{path.stem}: {heading}", rest
    return found


def description(text: str) -> str:
    """The blocks of a text: kind, level and first line of each; below it what may be done with it."""
    return "".join(f"{line}\n" for block in markdown_blocks(text) for line in _described(text, block))


def _described(text: str, block: Block) -> Iterator[str]:
    level = f"[{block.level}]" if block.level else ""
    info = f"({block.info})" if block.info else ""
    yield f"{block.kind.value}{level}{info}: {_first_line(text, block.span)}"
    if block.title:
        yield f"  title: {_escaped(block.title)}"
    for lead in block.lead:
        yield f"  lead: {_escaped(lead.of(text))}"
    for number, group in enumerate(block.cuts, 1):
        yield from (f"  cut {number}: {_first_line(text, Span(cut, block.span.end))}" for cut in group)
    yield from (f"  inner: {_escaped(inner.of(text))}" for inner in block.inner)
    yield from (f"  atom: {_escaped(atom.of(text))}" for atom in inline_atoms(text, block))


def _first_line(text: str, span: Span) -> str:
    content = span.of(text)
    begin = len(content) - len(content.lstrip("\ufeff\r\n"))
    end = LINE_END.search(content, begin)
    return _escaped(content[begin : end.start() if end else len(content)])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_case(case: Case) -> None:
    assert description(case.text) == case.expected


def test_the_cases_cover_every_kind_and_every_file_has_some() -> None:
    kinds = {block.kind for case in cases() for block in markdown_blocks(case.text)}
    assert kinds == set(BlockKind) - {BlockKind.PROTECTED}
    assert len(list(cases())) >= 80
    assert {case.title.split(":")[0] for case in cases()} == {path.stem for path in CASES.glob("*.md")}


# ------------------------------------------------------------------------------------------------ any text


def check(text: str) -> list[Block]:
    """What holds for any text: a partition, and all positions in their place."""
    blocks = markdown_blocks(text)
    assert is_partition([block.span for block in blocks], len(text))
    for before, block in zip([None, *blocks], blocks, strict=False):
        _check_block(text, before, block)
    return blocks


def _check_block(text: str, before: Block | None, block: Block) -> None:
    start, end = block.span
    assert before is None or not WHITE_SPACE.fullmatch(text, start, end)
    assert (block.level > 0) == (block.kind is BlockKind.HEADING)
    assert block.title == "" or block.kind is BlockKind.HEADING
    for lead in block.lead:
        assert lead.start < lead.end
        assert (start <= lead.start and lead.end <= end) or (
            before is not None and lead.end == start > before.span.start
        )
    for group in block.cuts:
        assert group
        assert list(group) == sorted(set(group))
        assert all(start < cut < end for cut in group)
        assert not any(_holds(block.inner, cut) for cut in group)
    for spans in (block.inner, inline_atoms(text, block)):
        assert all(start <= span.start < span.end <= end for span in spans)
        assert all(one.end <= other.start for one, other in pairwise(spans))


def _holds(spans: tuple[Span, ...], position: int) -> bool:
    nearest = bisect_left(spans, (position, 0)) - 1
    return nearest >= 0 and position < spans[nearest].end


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n", "\ufeff\n \n"])
def test_newlines_and_a_byte_order_mark_change_no_block(newline: str, before: str) -> None:
    for case in cases():
        if case.title.endswith("(escaped)") or case.title.startswith("front_matter"):
            continue
        plain = check(case.text)
        other = check(before.replace("\n", newline) + case.text.replace("\n", newline))
        assert [_facts(block) for block in other] == [_facts(block) for block in plain], case.title


def _facts(block: Block) -> tuple[object, ...]:
    return block.kind, block.level, block.title, block.info, [len(group) for group in block.cuts], len(block.inner)


LINES = [
    *("# 标题", "## two ##", "###", "#标题", "===", "---", "***", "标题\n---"),
    *(
        "正文。",
        "第二行，`代码`和$x$。",
        "步骤如下：",
        "  缩进",
        "    四格",
        "\t制表",
        "\u3000\u3000段落",
        "\f",
        "a | b",
    ),
    *("- 项", "  - 内项", "* 项", "1. 一", "2) 二", "   续", "-", "- - a", "> - a", "- > a", "- ```", "- $$"),
    *("| a | b |", "|---|---|", "| 1 | 2 |", "a|b", "-|-", "> | a |", "> |---|"),
    *("```", "````", "```py", "~~~", "~~~~", "  ```", "> ```"),
    *("$$", "$$ a $$", "$$a", "b$$", r"\[", r"\]", r"\[ a \]", r"\begin{align}", r"\end{align}", "> $$"),
    *("<div>", "</div>", "<table>", "</table>", "<tr><th>a</th></tr>", "<tr><td>1</td></tr>", "<thead>", "</thead>"),
    *('<tr><td rowspan="2">1</td></tr>', "<tr><td rowspan=0>1</td><td rowspan=x>2</td></tr>"),
    *(
        "<!--",
        "-->",
        "<!-- a -->",
        "<pre>",
        "</pre>",
        "<?",
        "?>",
        "<![CDATA[",
        "<![x[",
        "<table",
        "  <table>",
        "> <table>",
    ),
    *("> 引用", ">> 深", ">", "[^1]: 脚注", "[^1]:", "    脚注的第二段", "[a]: /b", "[a]:", "'题"),
    *("", " ", "", "\ufeff", "\0", "\ud800", "a\u2028b", "...", "title: x"),
]
NEWLINES = ["\n", "\n", "\n", "\n\n", "\r\n", "\r", ""]
MARKDOWN = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(NEWLINES)), max_size=30).map(
    lambda parts: "".join(line + newline for line, newline in parts)
)


@settings(max_examples=600, deadline=None)
@given(MARKDOWN)
def test_any_lines_make_a_partition(text: str) -> None:
    check(text)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("#-*+>|`~$\\[]()<!:=_&\"' \t\r\n\0\ufeff\f1.a字：。^{}table/"), max_size=60))
def test_any_characters_make_a_partition(text: str) -> None:
    check(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([line for line in LINES if not line.startswith(("[a", "- ", "> "))]), max_size=20))
def test_the_title_of_a_heading_stands_in_its_range(lines: list[str]) -> None:
    text = "\n".join(lines)
    for block in check(text):
        if block.kind is BlockKind.HEADING and re.match(r"#{1,6}(?:[ \t]|$)", block.span.of(text).lstrip("\ufeff \n")):
            assert block.title in block.span.of(text)


@settings(max_examples=200, deadline=None)
@given(MARKDOWN)
def test_what_stands_before_a_heading_changes_no_block_after_it(after: str) -> None:
    alone = markdown_blocks("# 标题\n\n" + after)
    following = markdown_blocks("前文。\n\n# 标题\n\n" + after)
    assert [_facts(block) for block in following[1:]] == [_facts(block) for block in alone]


# ------------------------------------------------------------------------------------------------ plain blocks


def by_all_rules(text: str) -> list[Block]:
    """The blocks, with markdown-it's own rules asked about plain headings and paragraphs too."""
    parser = _block_parser()
    with parser.reset_rules():
        parser.disable("plain")
        return markdown_blocks(text)


PLAIN_LINES = [
    "正文。",
    "Text",
    "é",
    "“引”",
    "# 标题",
    "## 二 *b*",
    "### c #",
    "#",
    "#d",
    "# | a",
    "a | b",
    "\u3000段",
    "\x85",
    "",
]
NEARLY_PLAIN = st.lists(
    st.tuples(st.sampled_from(PLAIN_LINES * 3 + LINES), st.sampled_from(["\n", "\n\n", "\n \n", "\r\n\r\n", ""])),
    max_size=12,
).map(lambda parts: "".join(line + newline for line, newline in parts))


@settings(max_examples=1500, deadline=None)
@given(NEARLY_PLAIN | MARKDOWN | st.text("#-=|:`$\\[<> \t\r\n\f\ufeff\u3000a字。", max_size=40))
def test_plain_blocks_are_those_of_all_rules(text: str) -> None:
    assert markdown_blocks(text) == by_all_rules(text)


@pytest.mark.parametrize("path", [path for path in sample_paths() if path.suffix == ".md"], ids=lambda path: path.name)
def test_plain_blocks_of_the_bundled_documents_are_those_of_all_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert markdown_blocks(text) == by_all_rules(text)
    assert markdown_blocks(text.replace("\n\n", "\n")) == by_all_rules(text.replace("\n\n", "\n"))


def test_all_rules_are_asked_where_the_plain_one_is_off() -> None:
    """What the tests above compare with is another way of reading."""
    parser = _block_parser()
    tokens: list[Token] = []
    with parser.reset_rules():
        parser.disable("plain")
        parser.block.parse("甲\n\n# 乙", parser, {}, tokens)
    assert [token.type for token in tokens if token.nesting == 1] == ["paragraph_open", "heading_open"]
    assert [token.type for token in parser.parse("甲\n\n# 乙")] == ["paragraph", "heading"]


@given(st.text("\r\n\u2028\x85\v a字", max_size=30))
def test_lines_begin_behind_newlines(text: str) -> None:
    assert line_starts(text) == [0, *(found.end() for found in re.finditer("\r\n|\r|\n", text))]


def test_no_text_has_no_blocks() -> None:
    assert markdown_blocks("") == []


# ------------------------------------------------------------------------------------------------ time


HOSTILE = {
    "quotes": ">" * 60_000,
    "deep quotes": ("> " * 40 + "a\n") * 700,
    "lazy quotes": ("> " * 40 + "a\n" + "b\n" * 50) * 300,
    "stairs": "".join("  " * depth + "- a\n" for depth in range(240)),
    "items": "- a\n\n" * 12_000,
    "nested items": "- " * 30_000,
    "fences in items": "- ```\n" * 10_000,
    "open formulas": "\\[ a\n" * 10_000,
    "open formulas in items": "- \\[\n" * 10_000,
    "open environments": "\\begin{align}\n\\[\n$$x\n\n" * 2_500,
    "a formula with a long tail": "$$a$$" + " " * 60_000 + "x",
    "open tables": "<table>\n\n" * 6_000,
    "nested tables": "<table>\n\n" * 3_000 + "</table>\n\n" * 3_000,
    "closed tables": "<table>\n\n<tr><td>a\n\n</table>\n\n" * 2_000,
    "tables and nonsense": "<table>\n\n" + "<![x[\n\n<table>\n\n" * 3_000,
    "open comments": "<!--\n" * 12_000,
    "tags": "<a " * 20_000,
    "brackets": "[" * 30_000,
    "images": "![" * 15_000,
    "closed brackets": "[" * 15_000 + "](a)" * 15_000,
    "titles": "# " + "[" * 15_000 + "\n# " + "*a _b " * 5_000,
    "open inline formulas": "\\(" * 15_000 + "$a " * 10_000,
    "backticks": "".join("`" * length + " " for length in range(300)),
    "wide table": "|" + "a|" * 1_000 + "\n|" + "-|" * 1_000 + "\n" + "|a\n" * 20_000,
    "pipes": "|\n" * 30_000,
    "definitions": "[a]: /b\n" * 7_000,
    "footnotes": "[^a]: " * 10_000,
    "dashes": "-\n" * 30_000,
    "blank lines": "- a\n" + "\n" * 60_000,
    "hashes": "#\n" * 10_000,
}


@pytest.mark.timeout(60)  # a second or less each; minutes where work grows with the square
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_comes_to_an_end(name: str) -> None:
    check(HOSTILE[name])


# ------------------------------------------------------------------------------------------------ CommonMark's examples

TAGS = {
    **{f"h{level}": f"heading[{level}]" for level in range(1, 7)},
    "p": "paragraph",
    "ul": "list",
    "ol": "list",
    "pre": "code",
    "blockquote": "quote",
    "hr": "break",
}
FRONT_MATTER_HERE = {"---\n---\n"}  # to CommonMark two thematic breaks


class TopLevel(HTMLParser):
    """The elements of an HTML text that stand in no other."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.level = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  the parser's signature
        if self.level == 0:
            self.tags.append(TAGS[tag])
        self.level += tag not in {"hr", "br", "img"}

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  the parser's signature
        if self.level == 0:
            self.tags.append(TAGS[tag])

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  the parser's signature
        self.level -= 1


@pytest.fixture(scope="module")
def examples(pytestconfig: pytest.Config) -> list[dict[str, str]]:
    if os.environ.get("CHUNKING_PLUS_OFFLINE") == "1":
        pytest.skip("CHUNKING_PLUS_OFFLINE=1: CommonMark's examples are not downloaded")
    return spec_examples(pytestconfig.cache.mkdir("commonmark"))


@pytest.mark.spec
def test_every_example_of_commonmark_becomes_a_partition(examples: list[dict[str, str]]) -> None:
    assert len(examples) > 600
    for example in examples:
        check(example["markdown"])
        check(example["markdown"].replace("\n", "\r\n"))
        assert markdown_blocks(example["markdown"]) == by_all_rules(example["markdown"])


@pytest.mark.spec
def test_blocks_are_those_of_commonmark(examples: list[dict[str, str]]) -> None:
    """Where an example has no HTML and no link definition, its blocks are the elements of its HTML."""
    compared = 0
    for example in examples:
        text = example["markdown"]
        if "<" in text or "]:" in text or text in FRONT_MATTER_HERE:
            continue
        kinds = [block.kind.value + (f"[{block.level}]" if block.level else "") for block in markdown_blocks(text)]
        assert kinds == TopLevel(example["html"]).tags or not text.strip(), text
        compared += 1
    assert compared > 400


@pytest.mark.timeout(100)  # a second; many minutes where work grows with the square
def test_an_html_table_without_a_head_may_have_many_rows() -> None:
    [table] = markdown_blocks("<table>" + "<tr><td>甲</td></tr>" * 50_000 + "</table>\n")
    assert table.kind.value == "html_table"


ROW = "<tr>{}<td>值</td></tr>\n"


@pytest.mark.parametrize(
    "cells,depths",
    [
        pytest.param(["", "", ""], [0, 0, 0], id="none"),
        pytest.param(["2", "", "2", ""], [0, 1, 0, 1], id="groups"),
        pytest.param(["4", "", "2", "", ""], [0, 1, 1, 2, 0], id="a group in a group"),
        pytest.param(["2", "2", "", ""], [0, 1, 1, 0], id="a chain"),
        pytest.param(["", "9", ""], [0, 0, 1], id="more than there are"),
        pytest.param(["", "0", "", ""], [0, 0, 1, 1], id="all that follow"),
        pytest.param(["x", "-2", "99999999999999999999"], [0, 0, 0], id="no numbers"),
    ],
)
def test_rows_that_a_cell_spans_are_cut_last(cells: list[str], depths: list[int]) -> None:
    rows = [ROW.format(f"<td rowspan='{each}'>名</td>" if each else "") for each in cells]
    text = f"<table>\n<tr><th>一</th><th>二</th></tr>\n{''.join(rows)}</table>\n"
    (block,) = markdown_blocks(text)
    starts = [text.index("<tr>", text.index("</th></tr>"))]
    starts += [starts[0] + sum(map(len, rows[:i])) for i in range(1, len(rows))]
    ranks = [[at for at, depth in zip(starts[1:], depths[1:], strict=True) if depth == each] for each in range(3)]
    assert [list(group) for group in block.cuts] == [group for group in ranks if group]
    free = [i for i, depth in enumerate(depths) if not depth]
    groups = [(i, j) for i, j in pairwise([*free, len(rows)]) if j - i > 1]
    assert [span.of(text).count("<tr>") for span in block.inner] == [j - i for i, j in groups]
    assert [span.start for span in block.inner] == [starts[i] for i, _ in groups]


def test_no_cell_reaches_out_of_the_header() -> None:
    head = "<thead>\n<tr><th rowspan=9>一</th><th>二</th></tr>\n<tr><th>三</th></tr>\n</thead>\n"
    (block,) = markdown_blocks(f"<table>\n{head}{ROW.format('') * 3}</table>\n")
    assert block.inner[1:] == ()
    assert [len(group) for group in block.cuts] == [2]


INTRODUCED = "甲是书。它的用法如下：\n\n"


@pytest.mark.parametrize(
    "paragraph,expected",
    [
        pytest.param(INTRODUCED, "它的用法如下：\n\n", id="a sentence"),
        pytest.param("For example:\n\n", "For example:\n\n", id="a paragraph"),
        pytest.param("甲是书。它的用法。\n\n", "", id="no colon"),
    ],
)
@pytest.mark.parametrize(
    "shown",
    ["```\nx = 1\n```\n", "$$\nx = 1\n$$\n", "| a |\n|---|\n| 1 |\n", "<table>\n<tr><td>1</td></tr>\n</table>\n"],
    ids=["code", "formula", "table", "HTML table"],
)
def test_what_is_shown_knows_the_sentence_that_introduces_it(paragraph: str, expected: str, shown: str) -> None:
    text = paragraph + shown
    assert "".join(span.of(text) for span in markdown_blocks(text)[1].introduction) == expected


@pytest.mark.parametrize(
    "text,expected",
    [
        pytest.param("表 3 限值\n\n| a |\n|---|\n| 1 |\n", "表 3 限值\n\n", id="of a table"),
        pytest.param("见下。\n**Table 3**: Limits\n\n| a |\n|---|\n", "**Table 3**: Limits\n\n", id="in its last line"),
        pytest.param("清单 2 重试\n\n```\nx\n```\n", "清单 2 重试\n\n", id="of code"),
        pytest.param("图 3 流程\n\n| a |\n|---|\n", "", id="of something else"),
        pytest.param("表 3 列出了限值。\n\n| a |\n|---|\n", "", id="none"),
    ],
)
def test_what_is_shown_knows_its_caption(text: str, expected: str) -> None:
    assert "".join(span.of(text) for span in markdown_blocks(text)[1].introduction) == expected


def test_a_caption_between_two_listings_introduces_neither() -> None:
    code = "```\nx = 1\n```\n"
    assert markdown_blocks(f"{code}\n清单 2 重试\n\n{code}")[2].introduction == ()
