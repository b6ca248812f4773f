"""Versions as people write them, in an order that PEP 440's own implementation and SemVer's own list confirm."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version as Pep440

from llama_index_chunking_plus.core.versions import (
    Edition,
    EditionRule,
    Version,
    read_date,
    read_version,
    without_version,
)
from llama_index_chunking_plus.errors import OptionError

ASCENDING = [
    ["latest", "企业版"],  # of what cannot be read; all of it is below
    ["征求意见稿", "beta"],
    ["送审稿", "RC"],
    ["报批稿"],
    ["试行", "（试行）", "试用版"],
    ["正式", "正式版", "final"],
    ["1.9.dev7", "1.9-SNAPSHOT7", "1.9 开发版7"],
    ["1.9-beta2", "1.9b2", "v1.9_beta.2", "1.9（公测2）"],
    ["1.9-rc1", "1.9 RC 1", "1.9rc1", "V1.9-送审稿1"],
    ["1.9", "v1.9", "1.9.0", "1.9 正式版", "ver. 1.9", "1.9-final"],
    ["1.9.post1", "1.9-1", "1.9 修订1", "1.9r1"],
    ["1.10", "v1.10", "１.10", "版本：1.10", "Release-v1.10"],
    ["2.0（征求意见稿）", "2.0 beta"],
    ["2.0 试行", "2.0（试行）"],
    ["2.0", "V2.0版", 2, "2", 2.0, "第2版", "第二版", "二版", "Rev. 2", "r2"],
    ["第2版修订版", "2.post0"],
    ["第2版第3次修订", "第二版修订3", "2.post3"],
    ["第十版", "10"],
    ["第十二版"],
    ["2023"],
    ["2023-12", "2023年12月", "2023.12", "202312", "v2023-12"],
    ["2024", "2024版", "二〇二四年版"],
    ["2024-03", "2024年3月", "2024/3"],
    ["2024-03-05", "2024年3月5日", "20240305", "2024/3/5", "2024-03-05T00:00:00Z"],
    ["2024-03-05T09:30:00+08:00", "2024-03-05 01:30"],
    ["2024-03-05T09:30:00"],
    ["2024-03-06 试行"],
    ["2024-03-06 修订"],
    ["1!0.1"],
]


def test_versions_of_a_row_are_equal_and_those_of_a_later_row_are_newer() -> None:
    rows = [[read_version(text) for text in row] for row in ASCENDING]
    for row in rows[1:]:
        for left, right in itertools.product(row, repeat=2):
            assert left == right, (left.text, right.text)
    for lower, higher in itertools.combinations(rows, 2):
        for left, right in itertools.product(lower, higher):
            assert left < right, (left.text, right.text)


def test_the_order_is_that_of_semver() -> None:
    names = "1.0.0-0.3.7 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0-x.7.z.92 1.0.0 1.0.1-rc 2.0.0 2.1.0 2.1.1"
    versions = [read_version(name) for name in names.split()]
    assert versions == sorted(versions)
    assert len({version.key for version in versions}) == len(versions)
    assert all(version.is_readable for version in versions)


NUMBERS = st.integers(0, 30).map(str)


@st.composite
def pep440_strings(draw: st.DrawFn) -> str:
    def maybe(*options: str) -> str:
        if not draw(st.booleans()):
            return ""
        return draw(st.sampled_from(["", ".", "-", "_"])) + draw(st.sampled_from(options)) + draw(NUMBERS | st.just(""))

    release = ".".join(draw(st.lists(NUMBERS, min_size=1, max_size=3)))
    epoch = draw(st.sampled_from(["", "", "1!"]))
    pre = maybe("a", "b", "rc", "alpha", "beta", "c", "pre", "preview")
    post = draw(st.just("") | NUMBERS.map("-{}".format)) or maybe("post", "rev", "r")
    dev, local = maybe("dev"), draw(st.sampled_from(["", "+1", "+abc", "+abc.2", "+2.abc", "+10"]))
    return draw(st.sampled_from(["", "v"])) + epoch + release + pre + post + dev + local


@given(pep440_strings(), pep440_strings())
def test_the_order_is_that_of_pep_440(left: str, right: str) -> None:
    ours, theirs = [read_version(each) for each in (left, right)], [Pep440(each) for each in (left, right)]
    assert all(each.is_readable for each in ours)
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (theirs[0] < theirs[1], theirs[0] == theirs[1])


PIECES = st.sampled_from(
    [
        *"0123456789.-_+! /年月日第版（）()a",
        "rc",
        "beta",
        "v",
        "试行",
        "修订",
        "十",
        "2024",
        "12",
        "T",
        ":",
        "dev",
        "final",
        "١",
        "²",
    ]
)
TEXTS = st.text(max_size=12) | st.lists(PIECES, max_size=8).map("".join)


@given(TEXTS, TEXTS, TEXTS)
def test_the_order_is_total(a: str, b: str, c: str) -> None:
    for first, second, third in itertools.permutations(map(read_version, (a, b, c))):
        assert (first < second) + (first == second) + (first > second) == 1
        assert not first <= second <= third or first <= third
        assert first != second or hash(first) == hash(second)


@given(TEXTS)
def test_any_text_is_a_version_and_a_date_and_white_space_around_it_is_nothing(text: str) -> None:
    for read in (read_version, read_date):
        assert read(f" {text}\n") == read(text)
        assert read(text).text == text.strip()


def test_what_cannot_be_read_is_in_natural_order_below_all_that_can() -> None:
    texts = ["build a9", "build a10", "Build B", "latest"]
    versions = [read_version(text) for text in texts]
    assert versions == sorted(versions)
    assert not any(version.is_readable for version in versions)
    assert max(versions) < read_version("0.0.0.dev0")
    assert read_version("9" * 5000).is_readable is False  # and no error


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "m",
        "1.x",
        "2.0 企业版",
        "1..2",
        "1.0+",
        "v",
        "第版",
        "2024-03-05 25:00",
        "Windows 11",
        "1 2",
        "15/03/2024",
    ],
)
def test_a_doubtful_string_is_not_guessed_at(text: str) -> None:
    assert not read_version(text).is_readable


def test_dates_are_read_in_the_forms_in_which_metadata_hold_them() -> None:
    same = [
        date(2024, 3, 5),
        datetime(2024, 3, 5, tzinfo=timezone.utc),
        "2024-03-05",
        20240305,
        "2024年03月05日",
        "２０２４/３/５",
        "二〇二四年三月五日",
    ]
    assert len({read_date(each).key for each in same}) == 1
    assert read_date("2024") < read_date("2024-03") < read_date("2024-03-05") < read_date("2024-03-05T00:00:00.000001Z")
    assert read_date("2024-03-05T23:00:00-02:00") == read_date("2024-03-06T01:00:00Z")


@pytest.mark.parametrize("text", ["1.2", "2.0", "3024-01", "05/03/2024", "三月", "2024-00-10", "2024T10:00"])
def test_what_is_no_date_is_not_taken_for_one(text: str) -> None:
    assert not read_date(text).is_readable


MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 30))  # noqa: DTZ001  Hypothesis wants it so


@given(MOMENTS, MOMENTS)
def test_dates_are_in_the_order_of_time(left: datetime, right: datetime) -> None:
    assert (read_date(left) < read_date(right)) == (left < right)
    assert read_date(left.isoformat()) == read_date(left)
    assert (read_version(left.date()) < read_version(right.date())) == (left.date() < right.date())


# --- which editions are current ---


def edition(name: str, version: str | None = None, day: str | None = None) -> Edition:
    return Edition(name, version and read_version(version), day and read_date(day))


def current(rule: EditionRule, *editions: Edition) -> list[bool]:
    return rule.current(editions)


def test_a_document_without_versions_is_current_and_one_with_some_only_where_it_has_the_newest() -> None:
    editions = [edition("a"), edition("a"), edition("b"), edition("b", "1"), edition("b", "2.0"), edition("b", "v2")]
    assert EditionRule().current(editions) == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    "order_by, expected", [("version", [False, True]), ("date", [True, False]), ("auto", [False, True])]
)
def test_version_or_date_decides(order_by: str, expected: list[bool]) -> None:
    rule = EditionRule(order_by=order_by)  # type: ignore[arg-type]
    assert current(rule, edition("a", "1", "2025"), edition("a", "2", "2024")) == expected


def test_auto_goes_by_date_where_a_document_has_no_versions() -> None:
    rule = EditionRule()
    assert current(
        rule, edition("a", None, "2024-03"), edition("a", None, "2024-04-01"), edition("b", "1", "1999")
    ) == [False, True, True]


def test_a_pinned_version_hides_all_others_and_leaves_documents_without_any() -> None:
    rule = EditionRule(pinned="2.0")
    assert current(rule, edition("a", "v2.0.0"), edition("a", "3"), edition("b", "1"), edition("c")) == [
        True,
        False,
        False,
        True,
    ]
    assert current(EditionRule(pinned="2024年3月"), edition("a", None, "2024-03"), edition("a", None, "2025")) == [
        True,
        False,
    ]


def test_only_what_is_compared_is_reported_as_unreadable_and_once() -> None:
    editions = [edition("a", "latest"), edition("b", "draft x"), edition("b", "1"), edition("b", "draft x")]
    assert EditionRule().unreadable(editions) == ["draft x"]
    assert EditionRule(pinned="1").unreadable(editions) == ["latest", "draft x"]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from(["1", "1.0", "2-rc1", "2", "x"])), max_size=8)
)
def test_of_each_document_something_is_current_and_nothing_hidden_is_newer(drawn: list[tuple[str, str | None]]) -> None:
    editions = [edition(*each) for each in drawn]
    flags = EditionRule().current(editions)
    lowest = Version((-1,))
    for name in {each.document for each in editions}:
        shown = {
            each.version or lowest for each, flag in zip(editions, flags, strict=True) if each.document == name and flag
        }
        hidden = {
            each.version or lowest
            for each, flag in zip(editions, flags, strict=True)
            if each.document == name and not flag
        }
        assert len(shown) == 1
        assert all(other < max(shown) for other in hidden)


def test_metadata_and_file_names_say_what_a_document_is() -> None:
    rule = EditionRule()
    assert (
        rule.edition({"document": " 手册 ", "title": "x", "version": 2}, "1").document
        == rule.edition({"title": "手册"}, "2").document
    )
    assert rule.edition({"document": "", "title": None}, "1").document != rule.edition({}, "2").document
    assert rule.edition({}, "1") == rule.edition({"version": " "}, "1") == Edition(("id", "1"))
    assert rule.edition({"title": "1"}, "x").document != rule.edition({}, "1").document  # a name is no id
    by_file = EditionRule(file_pattern=r"(?P<document>.+?)[_-]v(?P<version>[\d.]+)\.")
    for metadata in (
        {"file_name": "手册_v1.10.md"},
        {"file_path": "C:\\a\\手册-v1.10.md"},
        {"file_path": "/b/手册_v1.10.pdf", "version": "3"},
    ):
        found = by_file.edition(metadata, "1")
        assert (found.document, found.version) == (("name", "手册"), read_version("1.10"))
    assert by_file.edition({"file_name": "说明.md", "title": "说明"}, "1").document == ("name", "说明")


@pytest.mark.parametrize(
    "title, version, expected",
    [
        ("制度_v1", "1.0", "制度"),
        ("手册 v1.10（试行）", "1.10", "手册（试行）"),
        ("手册v2正式版", "v2", "手册"),
        ("《手册》（第二版）", 2, "《手册》"),
        ("接口 2.0 版 reference", "2", "接口 reference"),
        ("手册（v2.0，2024年修订）", "2", "手册（2024年修订）"),
        ("手册 v3", "2", "手册 v3"),
        ("手册 v2 与 v3", "2", "手册 v2 与 v3"),
        ("V8 发动机", "8", "V8 发动机"),
        ("v2", "2", "v2"),
        ("手册" * 60 + "v2", "2", "手册" * 60 + "v2"),
    ],
)
def test_a_title_is_named_without_the_version_that_the_document_has(title: str, version: object, expected: str) -> None:
    assert without_version(title, str(version)) == expected
    assert EditionRule().edition({"title": title, "version": version}, "1").document == ("name", expected)
    assert EditionRule().edition({"document": title, "version": version}, "1").document == ("name", title)
    assert EditionRule().edition({"title": title}, "1").document == ("name", title)


@pytest.mark.parametrize(
    "options",
    [
        {"pinned": ""},
        {"pinned": "abc"},
        {"pinned": 2.0},
        {"document_key": ()},
        {"version_key": ("",)},
        {"file_pattern": "("},
        {"file_pattern": "v(.+)"},
        {"file_pattern": ""},
        {"order_by": "size"},
    ],
)
def test_a_wrong_rule_fails_at_once(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        EditionRule(**options)  # type: ignore[arg-type]
