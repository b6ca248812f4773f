"""Where a code sample may be cut: between definitions, at blank lines, between lines.

Definitions come from tree-sitter where the ``code`` extra is installed and knows the language, else from what the lines
look like: a line at the left margin that begins a definition, or stands after a blank line or a closing brace, outside
of strings and brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

# ------------------------------------------------------------------------------------------------ languages

_LONG_STRINGS: dict[str, tuple[str, str]] = {  # may go over several lines: how one opens, how it closes
    "comment": (r"/\*", r"\*/"),
    "triple": (r"\"{3}", r"\\[\s\S]|\"{3}"),
    "triple_single": (r"'{3}", r"\\[\s\S]|'{3}"),
    "template": (r"`", r"\\[\s\S]|`"),
    "raw": (r"`", r"`"),
    "hashed": (r"(?<![A-Za-z0-9_])b?r#+\"", r"\"#"),
    "dollars": (r"\$\$", r"\$\$"),
    "long_double": (r"\"", r"\\[\s\S]|\""),
    "long_single": (r"'", r"'"),
}
_SHORT_STRINGS: dict[str, str] = {  # end with their line
    "double": r"\"[^\"\\\r\n]*(?:\\.[^\"\\\r\n]*)*\"?",
    "single": r"'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'?",
    "char": r"'(?:\\[^\r\n]{1,10}?|[^\\'\r\n])'",
    "regex": r"(?<=[=(,:!&|?\s])/(?![/*\s])(?:[^/\\\r\n\[]|\\.|\[(?:[^\]\\\r\n]|\\.){0,80}\]){1,200}/",
    "escaped": r"\\[^\r\n]",
    "length": r"\$\#|\$\{\#",  # of a variable, in a shell
}
_ANY_LINE = r"[^\s)\]}]"


@dataclass(frozen=True)
class _Language:
    """What the lines of a language look like, and where its grammar is.

    Args:
        comment: what begins a comment that ends with its line; a pattern.
        strings: rows of the two tables above, in the order in which they are tried.
        holds: brackets inside of which a blank line is no place to cut.
        starts: what begins a definition at the left margin; a pattern.
        depth: how many brackets a definition is in.
        terminator: what ends the line before a definition.
        grammar: the package with the grammar.
        function: the function of it that returns the grammar.
    """

    comment: str = ""
    strings: tuple[str, ...] = ()
    holds: str = ""
    starts: str = ""
    depth: int = 0
    terminator: str = ""
    grammar: str = ""
    function: str = "language"

    @cached_property
    def tokens(self) -> re.Pattern[str]:
        """What decides whether a line begins inside of something."""
        parts = [f"(?P<line_comment>(?:{self.comment})[^\\r\\n]*)"] if self.comment else []
        parts += [
            f"(?P<{name}>{_LONG_STRINGS[name][0]})" if name in _LONG_STRINGS else _SHORT_STRINGS[name]
            for name in self.strings
        ]
        return re.compile("|".join([*parts, r"(?P<open>[(\[{]+)", r"(?P<close>[)\]}]+)"]))

    @cached_property
    def begins(self) -> re.Pattern[str]:
        """A line that begins a definition."""
        return re.compile(self.starts or r"(?!)")

    @cached_property
    def leads(self) -> re.Pattern[str]:
        """A line that belongs to the definition below: a comment, a decorator, an attribute."""
        comment = f"|{self.comment}" if self.comment else ""
        return re.compile(r"/\*|@(?!interface)|\#!?\[|\[\w[^\]]*\]\s*$|template\s*<[^;{]*$" + comment)

    @cached_property
    def before(self) -> re.Pattern[str]:
        """A line after which any line at the margin is a definition."""
        comment = rf"(?:{self.comment}.*)?" if self.comment else ""
        return re.compile(rf"{self.terminator}\s*{comment}$" if self.terminator else r"(?!)")


_C = _Language(
    "//",
    ("comment", "double", "char"),
    "([",
    r"(?:(?:public|private|internal|static|abstract|final|sealed|export|extern|open)\s+)*"
    r"(?:class|struct|enum|union|interface|namespace|template|record|trait|fun|func|function)\b",
    grammar="tree_sitter_c",
)
_JAVA = replace(_C, strings=("comment", "triple", "double", "char"), grammar="tree_sitter_java")
_JAVASCRIPT = _Language(
    "//",
    ("comment", "template", "double", "single", "regex"),
    "([",
    r"(?:export|async\s+function|function|abstract|class|interface|enum|namespace|declare|describe|test)\b"
    r"|type\s+\w+\s*[=<]|(?:const|let|var)\s+\w+\s*=\s*(?:async\b|function\b|\()",
    grammar="tree_sitter_javascript",
)
_TYPESCRIPT = replace(_JAVASCRIPT, grammar="tree_sitter_typescript", function="language_typescript")
_LANGUAGES = {
    "python": _Language(
        r"\#",
        ("triple", "triple_single", "double", "single"),
        "([{",
        r"(?:async\s+def|def|class)\b",
        grammar="tree_sitter_python",
    ),
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": replace(_TYPESCRIPT, function="language_tsx"),
    "java": _JAVA,
    "c": _C,
    "cpp": replace(_C, grammar="tree_sitter_cpp"),
    "go": _Language("//", ("comment", "raw", "double", "char"), "([", r"(?:func|type)\b", grammar="tree_sitter_go"),
    "rust": _Language(
        "//",
        ("comment", "hashed", "long_double", "char"),
        "([",
        r"(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|const|extern(?:\s+\"C\")?)\s+)*"
        r"(?:fn|struct|enum|impl|trait|mod|union|macro_rules!)(?![A-Za-z0-9_])",
        grammar="tree_sitter_rust",
    ),
    "braces": replace(_JAVA, grammar=""),
    "sql": _Language("--", ("comment", "dollars", "long_single", "double"), "([", terminator=";"),
    "bash": _Language(
        r"(?<![^\s;&|(])\#",
        ("escaped", "length", "long_double", "long_single"),
        "",
        r"function\s+[\w-]+|[\w.:-]+\s*\(\)",
        grammar="tree_sitter_bash",
    ),
    "yaml": _Language(r"\#", starts=_ANY_LINE),
    "json": _Language("//", ("comment", "double"), starts=_ANY_LINE, depth=1),
}
_ALIASES = {
    **dict.fromkeys(("py", "python3", "py3", "pyi", "ipython"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "node"), "javascript"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    **dict.fromkeys(("c++", "cc", "cxx", "hpp", "hh", "cuda", "arduino"), "cpp"),
    **dict.fromkeys(("h",), "c"),
    **dict.fromkeys(("golang",), "go"),
    **dict.fromkeys(("rs",), "rust"),
    **dict.fromkeys(("c#", "cs", "csharp", "kotlin", "kt", "swift", "scala", "dart", "php", "groovy"), "braces"),
    **dict.fromkeys(("mysql", "postgresql", "postgres", "plsql", "tsql", "sqlite", "pgsql", "hive"), "sql"),
    **dict.fromkeys(("sh", "shell", "zsh", "ksh"), "bash"),
    **dict.fromkeys(("yml",), "yaml"),
    **dict.fromkeys(("jsonc", "json5"), "json"),
}
_UNKNOWN = _Language()
_NAME = re.compile(r"[\s{.]*([A-Za-z][\w+#]*)")

# ------------------------------------------------------------------------------------------------ lines

_LINE_END = re.compile(r"\r\n|[\r\n]")
_CONTINUES = re.compile(
    r"[)\]}{]|(?:else|elif|elsif|except|finally|catch|then|do|done|fi|esac|end|END|when|where)\b|;;|=begin\b|=end\b"
)  # goes on with the statement before
_UNFINISHED = ("\\", ",", "&&", "||", "|")


class _Place(NamedTuple):
    """Where a line begins."""

    start: int
    text: str
    depth: int = 0  # open brackets
    bracket: str = ""  # the innermost
    is_inside: bool = False  # a string or a comment

    @property
    def is_blank(self) -> bool:
        return not self.text

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" \t"))


def code_cuts(code: str, language: str) -> tuple[tuple[int, ...], ...]:
    """Where a code sample may be cut: three groups of ascending offsets, the best places first, none of them twice.

    First where a top-level definition begins, with the comments and decorators directly above it, and what follows one;
    if there is but one class, where its members begin. Then the ends of blank lines outside of strings and brackets.
    Then where all other lines begin.

    Args:
        code: the sample, without its fence.
        language: as the info line of a fence names it: "python", "py", "ts title=a.ts"; "" if unknown.

    Example:
        >>> code_cuts("import os\\n\\ndef a():\\n    pass\\n", "python")
        ((11,), (), (10, 20))
    """
    known = _language(language)
    places = _places(code, known)
    defined = _definitions(code, known)
    first = _at_margin(places, known) if defined is None else defined
    taken = {0, len(code)}
    cuts: list[tuple[int, ...]] = []
    for group in (first, _after_blanks(places, known), [place.start for place in places]):
        cuts.append(tuple(sorted(set(group) - taken)))
        taken.update(cuts[-1])
    return tuple(cuts)


def _language(info: str) -> _Language:
    """The language that the info line of a fence names."""
    found = _NAME.match(info)
    name = found[1].lower() if found else ""
    return _LANGUAGES.get(_ALIASES.get(name, name), _UNKNOWN)


def _places(code: str, language: _Language) -> list[_Place]:
    """The lines, each with what it begins inside of; brackets count for nothing where they do not match."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(code))]
    places = [_Place(start, code[start:end].rstrip()) for start, end in pairwise([*starts, len(code)])]
    if language is _UNKNOWN or not language.strings:
        return places
    scan = _Scan(code, language, places)
    scan.run()
    return scan.places if not scan.brackets else [place._replace(depth=0, bracket="") for place in scan.places]


@dataclass
class _Scan:
    """One pass over the strings, comments and brackets of a text."""

    code: str
    language: _Language
    places: list[_Place]
    brackets: list[str] = field(default_factory=list)  # open ones
    line: int = 0  # the first that is not settled
    hopeless: set[str] = field(default_factory=set)  # kinds of string that are not closed in the rest of the text

    def run(self) -> None:
        found = self.language.tokens.search(self.code)
        while found is not None:
            self._settle(found.start() + 1)
            end = found.end()
            if found.lastgroup == "open":
                self.brackets.extend(found.group())
            elif found.lastgroup == "close":
                del self.brackets[-len(found.group()) :]
            elif found.lastgroup in _LONG_STRINGS:
                end = self._closed(found.lastgroup, end)
                self._settle(end, is_inside=True)
            found = self.language.tokens.search(self.code, end)
        self._settle(len(self.code) + 1)

    def _settle(self, stop: int, *, is_inside: bool = False) -> None:
        """Give the lines that begin before ``stop`` what they begin inside of."""
        line, count, depth = self.line, len(self.places), len(self.brackets)
        while line < count and self.places[line].start < stop:
            if depth or is_inside:
                start, text, *_ = self.places[line]
                self.places[line] = _Place(start, text, depth, self.brackets[-1] if depth else "", is_inside)
            line += 1
        self.line = line

    def _closed(self, kind: str, start: int) -> int:
        """Where a string ends that opened before ``start``; right there if nothing closes it."""
        if kind not in self.hopeless:
            for found in _closer(kind).finditer(self.code, start):
                if not found.group().startswith("\\"):
                    return found.end()
            self.hopeless.add(kind)
        return start


@lru_cache
def _closer(kind: str) -> re.Pattern[str]:
    return re.compile(_LONG_STRINGS[kind][1])


def _after_blanks(places: Sequence[_Place], language: _Language) -> list[int]:
    """The ends of blank lines at which nothing is open that belongs together."""
    return [
        place.start
        for before, place in pairwise(places)
        if before.is_blank
        and not place.is_blank
        and not place.is_inside
        and (not place.bracket or place.bracket not in language.holds)
    ]


def _at_margin(places: Sequence[_Place], language: _Language) -> list[int]:
    """Where the lines look like the beginning of a definition."""
    margin = min((place.indent for place in places if not place.is_blank), default=0)
    cuts: list[int] = []
    lead: int | None = None  # where the comments and decorators begin that stand directly above
    before, is_apart = _Place(0, ""), False  # the last line of code, and whether it is above a blank line
    for place in places:
        is_top = not place.is_inside and place.depth == language.depth
        at_margin = is_top and (language.depth > 0 or place.indent == margin)
        if place.is_blank:
            lead, is_apart = (None, True) if is_top else (lead, is_apart)
        elif at_margin and language.leads.match(place.text.lstrip()):
            lead = place.start if lead is None else lead
        elif lead is None or at_margin:
            if at_margin and _is_beginning(place.text.lstrip(), before, is_apart, margin, language):
                cuts.append(place.start if lead is None else lead)
            before, is_apart, lead = place, False, None
    return cuts


def _is_beginning(text: str, before: _Place, is_apart: bool, margin: int, language: _Language) -> bool:
    """Whether a line at the margin begins something, after the last line of code before it."""
    if _CONTINUES.match(text) or (before.text.endswith(_UNFINISHED) and not language.depth):
        return False
    if language.terminator:
        return language.before.search(before.text) is not None
    return (
        is_apart
        or language.begins.match(text) is not None
        or before.text.lstrip().startswith("}")
        or (language.holds == "([{" and before.indent > margin)
    )


# ------------------------------------------------------------------------------------------------ tree-sitter


class _Node(Protocol):
    """As much of a tree-sitter node as is used."""

    type: str
    named_children: Sequence[_Node]
    start_point: tuple[int, int]
    end_point: tuple[int, int]

    def child_by_field_name(self, name: str) -> _Node | None: ...


_DEFINITIONS = """
    function_definition class_definition decorated_definition type_alias_statement
    function_declaration generator_function_declaration class_declaration method_definition export_statement
    interface_declaration type_alias_declaration enum_declaration abstract_class_declaration ambient_declaration
    internal_module module
    record_declaration annotation_type_declaration method_declaration constructor_declaration
    struct_specifier class_specifier enum_specifier union_specifier type_definition template_declaration
    namespace_definition concept_definition linkage_specification preproc_function_def
    type_declaration
    function_item struct_item enum_item union_item impl_item trait_item mod_item macro_definition type_item
"""
_DEFINES = frozenset(_DEFINITIONS.split())
_LONGEST_PARSED = 100_000  # characters; grammars take long over what is no code
_VARIABLES = frozenset(["lexical_declaration", "variable_declaration"])
_FUNCTIONS = frozenset(["arrow_function", "function_expression", "generator_function", "class"])
_WRAPPED = (
    "preproc_ifdef preproc_if namespace_definition linkage_specification internal_module module expression_statement"
)
_WRAPPERS = frozenset(_WRAPPED.split())  # what is inside is top-level, too
_CONTAINERS = ("class", "interface", "enum", "record", "impl", "trait", "struct")
_ABOVE = frozenset(["comment", "line_comment", "block_comment", "attribute_item", "decorator"])


def _definitions(code: str, language: _Language) -> list[int] | None:
    """Where definitions begin, as the grammar sees it; None without one, or if it does not understand the text."""
    parser = _parser(language.grammar, language.function) if len(code) <= _LONGEST_PARSED else None
    if parser is None:
        return None
    root = cast("_Node", parser.parse(code.encode("utf-8", "replace")).root_node)
    nodes = list(_top_level(root))
    if root.type == "ERROR" or any(node.type == "ERROR" for node in nodes):
        return None
    starts = [0, *(i + 1 for i, char in enumerate(code) if char == "\n")]
    return [
        starts[row] for row, column in _beginnings(nodes) if not code[starts[row] : starts[row] + column].strip(" \t")
    ]


def _parser(grammar: str, function: str) -> Any:
    """A parser; None if the package is not installed, or not one that this tree-sitter can read."""
    loaded = _grammar(grammar, function) if grammar else None
    return import_module("tree_sitter").Parser(loaded) if loaded is not None else None


@lru_cache
def _grammar(package: str, function: str) -> Any:
    try:
        return import_module("tree_sitter").Language(getattr(import_module(package), function)())
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


def _top_level(root: _Node) -> Iterator[_Node]:
    """The top-level nodes in order, those in namespaces and include guards among them; of a lone class, its members."""
    nodes = list(_unwrapped(root))
    defined = [node for node in nodes if _defines(node)]
    for node in nodes:
        yield node
        if len(defined) == 1 and node is defined[0] and any(word in _inner(node).type for word in _CONTAINERS):
            yield from _children(_inner(node))


def _unwrapped(root: _Node) -> Iterator[_Node]:
    waiting = list(reversed(root.named_children))
    while waiting:
        node = waiting.pop()
        yield node
        if node.type in _WRAPPERS:
            waiting.extend(reversed(_children(node)))


def _children(node: _Node) -> Sequence[_Node]:
    return (node.child_by_field_name("body") or node).named_children


def _inner(node: _Node) -> _Node:
    """What is decorated or exported."""
    return node.child_by_field_name("definition") or node.child_by_field_name("declaration") or node


def _defines(node: _Node) -> bool:
    if node.type not in _VARIABLES:
        return node.type in _DEFINES
    values = [each.child_by_field_name("value") for each in node.named_children]
    return any(value is not None and value.type in _FUNCTIONS for value in values)


def _beginnings(nodes: Sequence[_Node]) -> Iterator[tuple[int, int]]:
    """Where definitions begin, and what follows one, with the comments directly above: row and column."""
    above: list[_Node] = []
    defined: _Node | None = None  # the definition just before
    for node in nodes:
        if above and node.start_point[0] > _last_row(above[-1]) + 1:
            if _is_after(above[0], defined):
                yield above[0].start_point
                defined = None
            above = []
        if node.type in _ABOVE:
            above.append(node)
            continue
        if _defines(node) or _is_after(node, defined):
            yield (above or [node])[0].start_point
        above, defined = [], node if _defines(node) else None


def _is_after(node: _Node, defined: _Node | None) -> bool:
    """Whether a node follows a definition, rather than being a part of it."""
    return defined is not None and tuple(node.start_point) >= tuple(defined.end_point)


def _last_row(node: _Node) -> int:
    """The row of its last character; some comments end where the next row begins."""
    row, column = node.end_point
    return row if column else row - 1
