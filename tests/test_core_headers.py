"""The header line by itself: values, templates, lengths, and what names tell."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_chunking_plus.core.headers import (
    HEADER_TEMPLATE,
    HeaderTemplate,
    date_in,
    file_title,
    fitted_header,
    iso_date,
    plain,
    section_titles,
    version_in,
    version_label,
)

DEFAULT = HeaderTemplate(HEADER_TEMPLATE)
FULL = {"title": "年报", "sections": "财务 > 利润", "version": "v2.1", "updated_at": "2025-03-01"}
ODD_BITS = [
    "甲",
    "{x}",
    "{",
    "}",
    "（",
    "）",
    " > ",
    "，",
    "\n",
    "\r\n",
    "\u2028",
    "\0",
    "😀",
    "e\u0301",
    "\ud800",
    "A",
]


# -- templates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_fields, expected",
    [
        ("title sections version updated_at", "年报 > 财务 > 利润（v2.1，更新于 2025-03-01）"),
        ("title sections version", "年报 > 财务 > 利润（v2.1）"),
        ("title sections updated_at", "年报 > 财务 > 利润（更新于 2025-03-01）"),
        ("title sections", "年报 > 财务 > 利润"),
        ("title version", "年报（v2.1）"),
        ("sections updated_at", "财务 > 利润（更新于 2025-03-01）"),
        ("version updated_at", "（v2.1，更新于 2025-03-01）"),
        ("title", "年报"),
        ("", ""),
    ],
)
def test_what_has_no_value_leaves_with_all_that_belongs_to_it(given_fields: str, expected: str) -> None:
    assert DEFAULT.render({name: FULL[name] for name in given_fields.split()}) == expected


@pytest.mark.parametrize(
    "template, values, expected",
    [
        ("【{org}】{title} / {author}", {"title": "甲"}, "甲"),
        ("【{org}】{title} / {author}", {"org": "厂", "author": "李"}, "【厂】 / 李"),
        ("《{title}》 > {sections}", {"sections": "乙"}, "乙"),
        ("《{title}》 > {sections}", {"title": "甲"}, "《甲》"),
        ("公司手册 > {title}（内部）", {"title": "甲"}, "公司手册 > 甲（内部）"),
        ("公司手册 > {title}（内部）", {}, ""),
        ("{title}（第{version}版，{author}）", {"title": "甲", "author": "李"}, "甲（李）"),
        ("{title}（第{version}版，{author}）", {"title": "甲", "version": "3"}, "甲（第3版）"),
        ("{title} ({version} [{date}])", {"title": "A", "date": "2025"}, "A ([2025])"),
        ("{title} ({version} [{date}])", {"title": "A", "version": "v1"}, "A (v1)"),
        ("文档：{title}；版本：{version}", {"version": "v1"}, "版本：v1"),
        ("文档：{title}；版本：{version}", {"title": "甲"}, "文档：甲"),
        ("{title} {version}", {"version": "v1"}, "v1"),
        ("{{{title}}} - {version}", {"title": "甲"}, "{甲}"),
        ("{title} — {sections} — {version}", {"title": "甲", "version": "v1"}, "甲 — v1"),
        ("{title} · {sections} | {version}", {"title": "甲", "sections": "乙"}, "甲 · 乙"),
        ("{title}\n{version}", {"title": "甲", "version": "v1"}, "甲 v1"),
        ("{a.b}、{c[0]}", {"a.b": "甲", "c[0]": "乙"}, "甲、乙"),
        ("{x-y}/{z}", {"x-y": "2024-25", "z": "a - b"}, "2024-25/a - b"),
    ],
)
def test_templates_of_other_kinds(template: str, values: dict[str, str], expected: str) -> None:
    assert HeaderTemplate(template).render(values) == expected


@pytest.mark.parametrize(
    "template, reason",
    [
        ("没有字段", "has no field"),
        ("", "has no field"),
        ("{}", "without a name"),
        ("{title:>3}", "with a format"),
        ("{title!r}", "with a format"),
        ("{title", "cannot be read"),
        ("title}", "cannot be read"),
        ("（{title}", "without '）'"),
        ("{title}）", "without an opening bracket"),
        ("（{title})", "without an opening bracket"),
    ],
)
def test_templates_that_make_no_sense_are_refused(template: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        HeaderTemplate(template)


def test_values_are_never_templates_and_nothing_dangles_whatever_is_missing() -> None:
    template = HeaderTemplate("{title} > {sections}（{version}，更新于 {updated_at}）")
    odd = {"title": "{version}（", "sections": "，> {", "version": "}）", "updated_at": "{0}"}
    for kept in product([True, False], repeat=4):
        values = {name: value for (name, value), keep in zip(odd.items(), kept, strict=True) if keep}
        shown = template.render(values)
        for value in values.values():
            assert value in shown
        for value in values.values():
            shown = shown.replace(value, "x", 1)
        assert shown in {
            "",
            *("x", "x > x"),
            *(f"{a}（{b}）" for a in ("", "x", "x > x") for b in ("x", "更新于 x", "x，更新于 x")),
        }


# -- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [None, "", " \n\t\u3000", {}, {"a": 1}, [], True, float("nan"), b"x", "\u200b\ufeff", [None, ""]]
)
def test_values_that_say_nothing(value: object) -> None:
    assert plain(value) == ""


@given(st.lists(st.sampled_from(ODD_BITS), max_size=20).map("".join))
def test_any_text_becomes_one_line_that_can_be_encoded(text: str) -> None:
    line = plain(text)
    assert line.encode("utf-8", "strict").decode() == line
    assert line == " ".join(line.split())
    assert "\0" not in line
    assert plain(line) == line
    assert [line] * bool(line) == DEFAULT.render({"title": line}).splitlines()


@pytest.mark.parametrize(
    "value, expected",
    [
        ("2025-03-01", "2025-03-01"),
        ("2025-3-1 08:30", "2025-03-01"),
        ("2025-03-01T23:59:59+08:00", "2025-03-01"),
        (datetime(2025, 3, 1, 23, 59, tzinfo=timezone.utc), "2025-03-01"),
        (date(2025, 3, 1), "2025-03-01"),
        ("2025 年 3 月 1 日", ""),
        ("2025年3月1日修订", "2025-03-01"),
        ("2025.03.01", "2025-03-01"),
        (20250301, "2025-03-01"),
        ("2025-03", "2025-03"),
        ("2025年3月", "2025-03"),
        ("2025-02-30", ""),
        ("2025", ""),
        (1740787200, ""),
        ("上周", ""),
        (None, ""),
    ],
)
def test_dates_are_shown_as_days(value: object, expected: str) -> None:
    assert iso_date(value) == expected


@pytest.mark.parametrize(
    "value, expected",
    [
        (json.dumps(["甲/乙", "丙"]), ["甲/乙", "丙"]),
        (["甲", None, 3], ["甲", "3"]),
        ("/甲/乙/", ["甲", "乙"]),
        (" > 甲 > 乙/丙 > ", ["甲", "乙/丙"]),
        ("/《甲》/乙/", ["《甲》", "乙"]),
        ("/", []),
        ("[]", []),
        ("[1] 参考", ["[1] 参考"]),
        ("[" * 100_000, ["[" * 100_000]),
        ("第一章", ["第一章"]),
        ("a/b", ["a/b"]),
        ("", []),
        (None, []),
        ('["一\\n二", ""]', ["一 二"]),
    ],
)
def test_sections_come_in_every_form(value: object, expected: list[str]) -> None:
    assert section_titles(value) == expected


@pytest.mark.parametrize(
    "value, expected",
    [
        ("2.1", "v2.1"),
        (2, "v2"),
        (2.1, "v2.1"),
        ("v2", "v2"),
        ("2.1-beta", "2.1-beta"),
        ("修订版", "修订版"),
        ("2024", "2024"),
        (None, ""),
    ],
)
def test_versions_that_are_numbers_get_their_v(value: object, expected: str) -> None:
    assert version_label(value) == expected


@pytest.mark.parametrize(
    "name, expected",
    [
        ("报告.pdf", "报告"),
        ("/data/报告.tar", "报告"),
        ("C:\\资料\\手册_v2.1.docx", "手册_v2.1"),
        ("手册_v2.1", "手册_v2.1"),
        (".gitignore", ".gitignore"),
        (None, ""),
    ],
)
def test_file_names_lose_folders_and_extension_only(name: object, expected: str) -> None:
    assert file_title(name) == expected


# -- what names tell ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, expected",
    [
        ("产品手册 v2.1", "v2.1"),
        ("产品手册V3", "v3"),
        ("产品手册_V3_终稿", "v3"),
        ("产品手册（V3）", "v3"),
        ("手册V2.0.1正式版", "v2.0.1"),
        ("guide version 1.4", "v1.4"),
        ("api-ver.2.3-beta1", "v2.3-beta1"),
        ("规范 第2版", "第2版"),
        ("规范（第二版）", "第二版"),
        ("接口文档 2.0 版", "v2.0"),
        ("接口文档2.0.3版", "v2.0.3"),
        ("计价规范（2024版）", "2024版"),
        ("计价规范 2024 年版", "2024版"),
        ("V8 发动机维修手册", ""),
        ("奥迪 V8 发动机", ""),
        ("IPv6 部署", ""),
        ("MPV3 车型", ""),
        ("从 v1.0 升级到 v2.0", ""),
        ("第2版面设计", ""),
        ("3 版权声明", ""),
        ("2024-03-01 周报", ""),
        ("第三版块", ""),
        ("HTTP/2 与 3.5 毫米", ""),
        ("v2.1rcx", ""),
        ("", ""),
    ],
)
def test_a_version_is_read_off_a_name_if_there_is_no_doubt(name: str, expected: str) -> None:
    assert version_in(name) == expected


@pytest.mark.parametrize(
    "name, expected",
    [
        ("周报 2024-03-01", "2024-03-01"),
        ("2024_3_1周报", "2024-03-01"),
        ("周报20240301终稿", "2024-03-01"),
        ("周报2024.03.01", "2024-03-01"),
        ("2024年3月1日会议纪要", "2024-03-01"),
        ("2024-03-01 与 20240301", "2024-03-01"),
        ("2024-01-01至2024-03-31", ""),
        ("2024-02-30", ""),
        ("订单120240301", ""),
        ("订单202403011", ""),
        ("2024-03", ""),
        ("2024-03_01", ""),
        ("", ""),
    ],
)
def test_a_date_is_read_off_a_name_if_there_is_no_doubt(name: str, expected: str) -> None:
    assert date_in(name) == expected


# -- length -------------------------------------------------------------------------------------------------------------


def fitted(limit: int | None, title: str = "员工手册", sections: tuple[str, ...] = ("休假", "病假", "工资")) -> str:
    return fitted_header(DEFAULT, {"title": title, "version": "v2"}, sections, " > ", limit, len)


def test_outer_sections_leave_first_then_the_end() -> None:
    assert fitted(None) == "员工手册 > 休假 > 病假 > 工资（v2）"
    assert fitted(23) == "员工手册 > 休假 > 病假 > 工资（v2）"
    assert fitted(22) == "员工手册 > … > 病假 > 工资（v2）"
    assert fitted(21) == "员工手册 > … > 工资（v2）"
    assert fitted(16) == "员工手册 > … > 工资（v…"
    assert fitted(15) == "员工手册 > … > 工资…"
    assert fitted(12) == "员工手册…"
    assert fitted(6) == "员工手册…"
    assert fitted(1) == ""


@pytest.mark.parametrize("limit", range(1, 60))
def test_no_header_is_larger_than_its_limit(limit: int) -> None:
    for title in ("员" * 500, "e\u0301" * 40, "👩\u200d🔧" * 20, "（（（" * 20, "word " * 40, " " * 80):
        header = fitted(limit, plain(title))
        assert len(header) <= limit
        assert not header.endswith(("\u200d…", "（…", " …"))
        assert plain(header) == header


def test_no_character_is_parted_from_its_accents() -> None:
    assert fitted_header(DEFAULT, {"title": "e\u0301e\u0301e\u0301"}, [], " > ", 4, len) == "e\u0301…"
    assert fitted_header(DEFAULT, {"title": "👩\u200d🔧👩\u200d🔧"}, [], " > ", 5, len) == "👩\u200d🔧…"


def test_a_title_without_end_is_measured_in_pieces() -> None:
    measured = []

    def size(text: str) -> int:
        measured.append(len(text))
        return len(text.split())

    header = fitted_header(DEFAULT, {"title": "a " * 1_000_000}, [], " > ", 10, size)
    assert size(header) <= 10
    assert max(measured) <= 641


@given(
    st.lists(st.sampled_from(ODD_BITS), max_size=12).map("".join),
    st.lists(st.lists(st.sampled_from(ODD_BITS), min_size=1, max_size=6).map("".join), max_size=4),
    st.integers(1, 30),
)
def test_any_title_and_sections_fit(title: str, sections: list[str], limit: int) -> None:
    header = fitted_header(DEFAULT, {"title": plain(title)}, section_titles(sections), " > ", limit, len)
    assert len(header) <= limit
    assert header == plain(header)
