"""Where code may be cut, with a grammar and without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_chunking_plus.core import code as module
from llama_index_chunking_plus.core.code import code_cuts

PACKAGES = {
    "python": "tree_sitter_python",
    "js": "tree_sitter_javascript",
    "ts": "tree_sitter_typescript",
    "tsx": "tree_sitter_typescript",
    "java": "tree_sitter_java",
    "c": "tree_sitter_c",
    "c++": "tree_sitter_cpp",
    "go": "tree_sitter_go",
    "rust": "tree_sitter_rust",
    "bash": "tree_sitter_bash",
}


@pytest.fixture(params=["grammar", "rule"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Call it with a language: the test goes on with its grammar, or as if the extra were not installed."""

    def choose(language: str) -> None:
        if request.param == "grammar":
            pytest.importorskip("tree_sitter")
            pytest.importorskip(PACKAGES.get(language, "no_grammar"))
        else:
            monkeypatch.setattr(module, "_grammar", lambda *_: None)

    return choose


def firsts(code: str, language: str, group: int = 0) -> list[str]:
    """The first lines of the pieces that a group of cuts begins."""
    return [code[cut:].splitlines()[0] for cut in code_cuts(code, language)[group]]


PYTHON = '''import os
import re

LIMIT = 3

# 统计字数
@cache
def count(text):
    """Count.

def not_a_definition():
    """
    pairs = [
        1,

        2,
    ]

    return len(text)


class Counter:
    size = 0

    def add(self):
        self.size += 1
async def main():
    pass

if __name__ == "__main__":
    main()
else:
    pass
'''
JAVASCRIPT = """import fs from "fs";

/**
 * Reads.
 */
export function read(path) {
  const mark = /["`]/;
  const text = `

function not() {}
`;

  return text;
}
const write = (path) => {
  go();
};

class Store {
}
"""
TYPESCRIPT = """interface Shape {
  area: number;
}

type Name = string;

@Injectable()
export class Square<T> implements Shape {
  area = 1;

  grow(): void {}
}
"""
JAVA = """package demo;

import java.util.List;

/** A shape. */
public interface Shape {
    double area();
}

@Entity
public class Square implements Shape {
    private String note = "{";

    public double area() { return 1; }
}
"""
C = """#include <stdio.h>

/* A point,

   in the plane. */
struct point {
  int x;
};

static int sum(int a, int b)
{
  char quote = '"';

  return a + b;
}
int main(void)
{
  return 0;
}
"""
GO = """package main

import (
\t"fmt"

\t"os"
)

// Point is a point.
type Point struct {
\tX int
}

func (p Point) Show() {
\ttext := `

func not() {}
`
\tfmt.Println(text)
}
func main() {
}
"""
RUST = """use std::fmt;

/// A point.
#[derive(Debug)]
pub struct Point<'a> {
    name: &'a str,
}

impl<'a> Point<'a> {
    fn mark(&self) -> char { '{' }

    fn text() -> &'static str { r#"
fn not() {}
"# }
}
fn main() {
}
"""
BASH = """#!/bin/bash
set -e

# 打招呼
greet() {
  echo "it's $# arguments"

  echo '
not() {
'
}
function leave {
  exit 0
}
"""
DEFINITIONS = [
    ("python", PYTHON, ["# 统计字数", "class Counter:", "async def main():", 'if __name__ == "__main__":']),
    ("js", JAVASCRIPT, ["/**", "const write = (path) => {", "class Store {"]),
    ("ts", TYPESCRIPT, ["type Name = string;", "@Injectable()"]),
    ("java", JAVA, ["/** A shape. */", "@Entity"]),
    ("c", C, ["/* A point,", "static int sum(int a, int b)", "int main(void)"]),
    ("c++", C, ["/* A point,", "static int sum(int a, int b)", "int main(void)"]),
    ("go", GO, ["// Point is a point.", "func (p Point) Show() {", "func main() {"]),
    ("rust", RUST, ["/// A point.", "impl<'a> Point<'a> {", "fn main() {"]),
    ("bash", BASH, ["# 打招呼", "function leave {"]),
]


@pytest.mark.parametrize("language, code, expected", DEFINITIONS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_definitions_with_what_stands_above_them(
    way, language: str, code: str, expected: list[str], newline: str
) -> None:
    way(language)
    found = firsts(code.replace("\n", newline), language)
    assert [line for line in found if not line.startswith(("import", "LIMIT", "set", "#include"))] == expected


def test_a_docstring_a_list_and_a_body_in_python(way) -> None:
    way("python")
    assert firsts(PYTHON, "python", 1)[-2:] == ["    return len(text)", "    def add(self):"]


@pytest.mark.parametrize(
    "language, code, expected",
    [
        ("js", JAVASCRIPT, "  return text;"),
        ("ts", TYPESCRIPT, "  grow(): void {}"),
        ("c", C, "  return a + b;"),
        ("rust", RUST, "    fn text() -> &'static str { r#\""),
        ("bash", BASH, "  echo '"),
    ],
)
def test_blank_lines_in_a_body(way, language: str, code: str, expected: str) -> None:
    way(language)
    assert expected in firsts(code, language, 1)
    assert not any("not()" in line for group in (0, 1) for line in firsts(code, language, group))


def test_of_a_lone_class_the_members() -> None:
    pytest.importorskip("tree_sitter_java")
    code = "package demo;\n\n/** A. */\npublic class A {\n    int x;\n\n    /** m */\n    void m() {}\n\n    void n() {}\n}\n"
    assert firsts(code, "java") == ["/** A. */", "    /** m */", "    void n() {}"]


def test_inside_namespaces_and_include_guards() -> None:
    pytest.importorskip("tree_sitter_cpp")
    code = "#ifndef A_H\n#define A_H\nnamespace a {\nclass B {\n};\ntemplate <typename T>\nT c(T x) {\n  return x;\n}\n}  // namespace a\n#endif\n"
    assert firsts(code, "cpp") == ["namespace a {", "class B {", "template <typename T>"]


def test_what_a_grammar_does_not_understand_goes_by_the_rule() -> None:
    pytest.importorskip("tree_sitter_python")
    assert firsts("$ run {{{\n\ndef a(:\n    pass\n\ndef b():\n    pass\n", "python") == ["def a(:", "def b():"]


def test_an_indented_sample_has_its_own_margin(way) -> None:
    way("python")
    assert firsts("    def a():\n        pass\n\n    def b():\n        pass\n", "python") == ["    def b():"]


def test_statements_of_sql() -> None:
    code = "-- 用户\nCREATE TABLE a (\n  id INT,\n\n  name TEXT\n);\nINSERT INTO a VALUES (1, 'x;\n\ny');  -- one\n\n-- 函数\nCREATE FUNCTION f() RETURNS int AS $$\nBEGIN\nSELECT 1;\nSELECT 2;\nEND;\n$$ LANGUAGE plpgsql;\nSELECT f();\n"
    assert firsts(code, "sql") == ["INSERT INTO a VALUES (1, 'x;", "-- 函数", "SELECT f();"]
    assert firsts(code, "postgresql", 1) == []


def test_keys_of_yaml() -> None:
    code = "# 服务\nname: it's\nports:\n  - 80\n\n  - 443\n\n# 日志\nlog: |\n  a\n---\nname: b\n"
    assert firsts(code, "yml") == ["ports:", "# 日志", "---", "name: b"]
    assert firsts(code, "yaml", 1) == ["  - 443"]


def test_members_of_json() -> None:
    code = '{\n  "a": "{",\n  "b": [\n    1,\n    2\n  ],\n  "c": {"d": 1}\n}\n'
    assert firsts(code, "json") == ['  "a": "{",', '  "b": [', '  "c": {"d": 1}']


@pytest.mark.parametrize("language", ["", "text", "brainfuck", "???", "ruby"])
def test_an_unknown_language_goes_by_blank_lines_at_the_margin(language: str) -> None:
    code = "alpha\n  beta\n\n  gamma\n\ndelta\nend\n\nepsilon\n"
    assert firsts(code, language) == ["delta", "epsilon"]
    assert firsts(code, language, 1) == ["  gamma"]


@pytest.mark.parametrize("info", ["python", "Python", "py", "python title=a.py", "{.python}", "python3", " py:a.py"])
def test_names_of_a_language(info: str) -> None:
    assert module._language(info) is module._language("python")


def test_the_last_group_is_all_other_lines() -> None:
    code = "def a():\n    pass\n\n\ndef b():\n    pass"
    assert code_cuts(code, "python") == ((20,), (), (9, 18, 19, 29))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_no_cut_falls_inside_a_newline(newline: str) -> None:
    code = newline.join(["a", "", "b", "  c", ""])
    cuts = sorted(cut for group in code_cuts(code, "") for cut in group)
    assert [code[a:b] for a, b in zip([0, *cuts], [*cuts, len(code)], strict=True)] == [
        "a" + newline,
        newline,
        "b" + newline,
        "  c" + newline,
    ]


@pytest.mark.parametrize(
    "code", ["", "\n", "x", "def", "'''", '"', "/*", "}", ")", "{\n\n", "\ufeff\n\ndef a():\n pass", "\ud800\n\nx\n"]
)
@pytest.mark.parametrize("language", [*PACKAGES, "sql", "yaml", "json", ""])
def test_scraps(way, code: str, language: str) -> None:
    if language in PACKAGES:
        way(language)
    groups = code_cuts(code, language)
    assert len(groups) == 3


def test_brackets_that_do_not_match_count_for_nothing(way) -> None:
    way("python")
    assert "b = 1" in {line for group in (0, 1) for line in firsts("a = [\n\nb = 1\n\nc = 2\n", "python", group)}


def test_a_missing_package_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    module._grammar.cache_clear()
    monkeypatch.setattr(module, "import_module", missing)
    assert firsts(PYTHON, "python")[-1] == 'if __name__ == "__main__":'
    module._grammar.cache_clear()


PIECES = [
    "def a():\n",
    "class B:\n",
    "    x\n",
    "\n",
    "\r\n",
    "{",
    "}\n",
    "(",
    ")",
    '"',
    "'",
    '"""',
    "/*",
    "*/",
    "# c\n",
    "// d\n",
    "`",
    ";\n",
    "@e\n",
    "字",
    "\\",
    "$$",
    'r#"',
    "fn f() {\n",
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40),
    st.sampled_from([*PACKAGES, "sql", "yaml", "json", "csharp", ""]),
)
def test_any_code_has_each_line_in_one_group(code: str, language: str) -> None:
    groups = code_cuts(code, language)
    cuts = [cut for group in groups for cut in group]
    assert all(list(group) == sorted(group) for group in groups)
    assert len(set(cuts)) == len(cuts)
    assert all(0 < cut < len(code) and code[cut - 1] in "\r\n" and code[cut - 1 : cut + 1] != "\r\n" for cut in cuts)


@pytest.mark.timeout(60)  # parts of a second each; minutes where work grows with the square
@pytest.mark.parametrize("language", ["python", "js", "rust", "sql", "bash", "json", ""])
@pytest.mark.parametrize(
    "piece", ["(", "/*", "'", '"', "`", "(/[[", "}", "\\", 'r#"', "$$ '", "[a", "template<", "const ", " "]
)
def test_hostile_text_comes_to_an_end(language: str, piece: str) -> None:
    code = piece * (400_001 // len(piece))
    assert all(0 < cut < len(code) for group in code_cuts(code, language) for cut in group)
