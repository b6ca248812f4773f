"""One line that says where a chunk comes from: title > section > section（v2.1，更新于 2025-03-01）.

    template -> segments between separators, groups inside brackets
    metadata -> values, each on one line -> what has no value leaves, with its separator, label or brackets
             -> too long? the outermost sections leave first, then the end is cut off

Also what titles and file names say of version and date.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from math import isnan
from string import Formatter
from typing import Any

from llama_index_chunking_plus.core.numbered import HAN_NUMERAL
from llama_index_chunking_plus.core.sizing import replace_surrogates
from llama_index_chunking_plus.errors import OptionError

HEADER_KEY = "context_header"
HEADER_TEMPLATE = "{title} > {sections}（{version}，更新于 {updated_at}）"
SECTIONS = "sections"
FILE_KEYS = ("file_name", "file_path")
HEADER_KEYS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "document_title", *FILE_KEYS),
    SECTIONS: ("header_titles", "header_path"),
    "version": ("version",),
    "updated_at": ("updated_at", "date", "datetime", "last_modified_date"),
}  # field of a template -> metadata, the first that says something

# ------------------------------------------------------------------------------------------------ values

_INVISIBLE = re.compile("[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,9}$")
_PATH_EDGE = re.compile(r"[\s/>|»›→\\:·—-]+")
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,4}){0,3}")
_DATE = re.compile(
    r"\s*(?P<year>(?:19|20)\d{2})(?:(?P<month>\d{2})(?P<day>\d{2})(?!\d)"
    r"|[-/._年]\s*(?P<month2>\d{1,2})(?!\d)(?:[-/._月]\s*(?P<day2>\d{1,2})(?!\d))?)"
)


def plain(value: Any) -> str:
    """The value on one line, without invisible characters; "" for what says nothing.

    Example:
        >>> plain(" 年报\\n{2024} "), plain(2.1), plain(["甲", "乙"]), plain(None), plain({})
        ('年报 {2024}', '2.1', '甲, 乙', '', '')
    """
    if value is None or isinstance(value, bool | bytes | Mapping) or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(plain, value)))
    return " ".join(_INVISIBLE.sub("", replace_surrogates(str(value))).split())


def iso_date(value: Any) -> str:
    """The day that the value names, or the month if it names no day; "" if it names neither.

    Example:
        >>> [iso_date(value) for value in ("2025-03-01T08:00:00Z", "2025年3月1日", 20250301, "2025/3", "2025-13-01")]
        ['2025-03-01', '2025-03-01', '2025-03-01', '2025-03', '']
    """
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    found = _DATE.match(plain(value))
    if found is None:
        return ""
    month, day = found["month"] or found["month2"], found["day"] or found["day2"]
    return _day(found["year"], month, day or "1")[: None if day else 7]


def _day(year: str, month: str, day: str) -> str:
    with suppress(ValueError):
        return date(int(year), int(month), int(day)).isoformat()
    return ""


def version_label(value: Any) -> str:
    """The version as it is shown: a bare number with a v.

    Example:
        >>> [version_label(value) for value in (2.1, "V3", "第2版", "2024")]
        ['v2.1', 'V3', '第2版', '2024']
    """
    text = plain(value)
    return f"v{text}" if _NUMBER.fullmatch(text) else text


def section_titles(value: Any) -> list[str]:
    """The titles of a heading path: of a list, of a list as JSON, or of a path such as "/总则/适用范围/".

    Example:
        >>> [section_titles(value) for value in ('["总则", "A/B"]', "/总则/适用范围/", "/", "总则")]
        [['总则', 'A/B'], ['总则', '适用范围'], [], ['总则']]
    """
    if isinstance(value, str):
        value = _listed(value) or _parts_of_path(value)
    titles = map(plain, value if isinstance(value, list | tuple) else [value])
    return [title for title in titles if title]


def _listed(text: str) -> Any:
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text) or [""]
    return None


def _parts_of_path(path: str) -> list[str]:
    """What stands between the separators of a path that begins and ends with one."""
    edge = _PATH_EDGE.match(path)
    lengths = range(edge.end() if edge else 0, 0, -1)
    separator = next((path[:length] for length in lengths if path.endswith(path[:length])), None)
    return path.split(separator) if separator else [path]


def file_title(name: Any) -> str:
    """The name of a file without folders and extension.

    Example:
        >>> file_title("docs/员工手册_v2.1.docx"), file_title("C:\\\\a\\\\说明 3.2")
        ('员工手册_v2.1', '说明 3.2')
    """
    return _EXTENSION.sub("", re.split(r"[/\\]", plain(name))[-1])


# ------------------------------------------------------------------------------------------------ what names say

_STAGE = r"(?:[-_.]?(?:alpha|beta|rc)[-_.]?\d{0,3})?"
_VERSION = re.compile(
    rf"""(?<![A-Za-z0-9.])(?:v|ver\.?|version)[ _.-]?(?:
        (?P<dotted>\d{{1,3}}(?:\.\d{{1,4}}){{1,3}}{_STAGE})(?![A-Za-z0-9]|\.\d)
      | (?P<whole>\d{{1,3}}{_STAGE})(?=\s*(?:$|[][_(（【)）】-]|版|正式|修订|\d{{4}}))
    )
    | 第\s*(?P<edition>\d{{1,3}}|{HAN_NUMERAL}{{1,3}})\s*版(?![面块权图式税])
    | (?<![\d.A-Za-z])(?P<number>\d{{1,3}}(?:\.\d{{1,4}}){{1,3}})\s*版(?![面块权图式税])
    | (?<![\d.])(?P<year>(?:19|20)\d{{2}})\s*年?版(?![面块权图式税])""",
    re.VERBOSE | re.IGNORECASE,
)
_MENTION = re.compile(r"(?<![A-Za-z0-9.])v(?:er\.?|ersion)?[ _.-]?\d", re.IGNORECASE)
_DAY = re.compile(
    r"(?<![\d.])((?:19|20)\d{2})(?:([-_.])(\d{1,2})\2(\d{1,2})|(\d{2})(\d{2})|年(\d{1,2})月(\d{1,2})日)(?![\d.]\d|\d)"
)


def version_in(name: str) -> str:
    """The version that a title or file name tells; "" if it tells none, or several.

    Example:
        >>> [version_in(name) for name in ("手册v2.1", "手册 V3", "规范（第二版）", "接口 2.0 版")]
        ['v2.1', 'v3', '第二版', 'v2.0']
        >>> [version_in(name) for name in ("V8 发动机", "IPv6", "从v1到v2", "第2版面")]
        ['', '', '', '']
    """
    if len(_MENTION.findall(name)) > 1:
        return ""
    found = {_version(match) for match in _VERSION.finditer(name)}
    return found.pop() if len(found) == 1 else ""


def _version(match: re.Match[str]) -> str:
    if match["edition"]:
        return f"第{match['edition']}版"
    if match["year"]:
        return f"{match['year']}版"
    return "v" + (match["dotted"] or match["whole"] or match["number"])


def date_in(name: str) -> str:
    """The day that a file name tells; "" if it tells none, or several.

    Example:
        >>> [date_in(name) for name in ("周报_2024-03-01", "周报20240301", "2024.3.1", "2024-13-01", "13820240301")]
        ['2024-03-01', '2024-03-01', '2024-03-01', '', '']
    """
    days = (_day(*(group for group in match.groups() if group and group not in "-_.")) for match in _DAY.finditer(name))
    found = {day for day in days if day}
    return found.pop() if len(found) == 1 else ""


# ------------------------------------------------------------------------------------------------ templates

_OPENING, _CLOSING = "（([［【〔《〈「『“", "）)]］】〕》〉」』”"
_PIECES = re.compile(
    rf"([{re.escape(_OPENING)}]|[{re.escape(_CLOSING)}]|\s*[>›»→⟩|/·，,、;；•]\s*|\s[-–—~]\s|\s*——\s*)"
)


@dataclass(frozen=True)
class _Field:
    name: str


@dataclass(frozen=True)
class _Segment:
    """What stands between two separators."""

    separator: str  # before it
    parts: tuple[str | _Field | _Group, ...]

    def render(self, values: Mapping[str, str]) -> tuple[str, bool]:
        """The text, and whether more is left of it than what stands in brackets behind it.

        Words go with the fields that they stand next to; brackets stay if there is a value inside of them.
        """
        own = [part.name for part in self.parts if isinstance(part, _Field)]
        is_silent = bool(own) and not any(values.get(name) for name in own)
        text = "".join(_rendered(part, values, is_silent) for part in self.parts)
        return text.strip(), not is_silent


@dataclass(frozen=True)
class _Group:
    """What stands between two brackets."""

    opening: str
    segments: tuple[_Segment, ...]
    closing: str = ""

    @property
    def fields(self) -> list[str]:
        parts = [part for segment in self.segments for part in segment.parts]
        return [
            name
            for part in parts
            for name in ([part.name] if isinstance(part, _Field) else part.fields if isinstance(part, _Group) else [])
        ]

    def render(self, values: Mapping[str, str]) -> str:
        if self.fields and not any(values.get(name) for name in self.fields):
            return ""
        shown = ""
        for segment in self.segments:
            text, has_own = segment.render(values)
            shown += f"{segment.separator if shown and has_own else ''}{text}" if text else ""
        return f"{self.opening}{shown}{self.closing}"


def _rendered(part: str | _Field | _Group, values: Mapping[str, str], is_silent: bool) -> str:
    if isinstance(part, _Group):
        return part.render(values)
    if is_silent:
        return ""
    return part if isinstance(part, str) else values.get(part.name, "")


@dataclass(frozen=True)
class HeaderTemplate:
    """A template whose fields may have no value: what belongs to them leaves with them.

    A separator (``>  /  |  ·  ，`` and the like) is shown between values only, a label with its value, and brackets if
    there is a value in them. Without any value there is no header. Values are never read as templates.

    Args:
        text: the template; ``{{`` and ``}}`` are braces.

    Raises:
        OptionError: braces or brackets do not match, a field has no name or a format, or there is no field.

    Example:
        >>> template = HeaderTemplate("{title} > {sections}（{version}，更新于 {updated_at}）")
        >>> template.render({"title": "年报", "updated_at": "2025-03-01"})
        '年报（更新于 2025-03-01）'
        >>> template.render({"sections": "{财务}", "version": "v2"}), template.render({})
        ('{财务}（v2）', '')
    """

    text: str

    def __post_init__(self) -> None:
        if not self.fields:
            raise OptionError(f"template={self.text!r} has no field; write one, such as {{title}}")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, each once."""
        return tuple(dict.fromkeys(_parsed(self.text).fields))

    def render(self, values: Mapping[str, str]) -> str:
        """The header of these values, on one line."""
        return " ".join(_parsed(self.text).render(values).split())


@lru_cache(maxsize=32)
def _parsed(template: str) -> _Group:
    return _group(template, _pieces(template), "", "")


def _pieces(template: str) -> Iterator[str | _Field]:
    """Brackets, separators and other text, and fields."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise OptionError(f"template={template!r} cannot be read: {error}; double braces that are none") from error
    for literal, name, specification, conversion in parts:
        yield from (piece for piece in _PIECES.split(literal) if piece)
        if name is not None:
            if not name.strip() or specification or conversion:
                raise OptionError(f"template={template!r} has a field without a name or with a format; write {{title}}")
            yield _Field(name)


def _group(template: str, pieces: Iterator[str | _Field], opening: str, closing: str) -> _Group:
    """What comes up to the closing bracket, or up to the end."""
    segments: list[_Segment] = []
    separator = ""
    parts: list[str | _Field | _Group] = []
    for piece in pieces:
        if isinstance(piece, str) and piece == closing:
            return _Group(opening, (*segments, _Segment(separator, tuple(parts))), closing)
        if isinstance(piece, _Field):
            parts.append(piece)
        elif piece in _CLOSING:
            raise OptionError(f"template={template!r} has {piece!r} without an opening bracket")
        elif piece in _OPENING:
            parts.append(_group(template, pieces, piece, _CLOSING[_OPENING.index(piece)]))
        elif _PIECES.fullmatch(piece):
            segments.append(_Segment(separator, tuple(parts)))
            separator, parts = piece, []
        else:
            parts.append(piece)
    if closing:
        raise OptionError(f"template={template!r} has {opening!r} without {closing!r}")
    return _Group("", (*segments, _Segment(separator, tuple(parts))))


# ------------------------------------------------------------------------------------------------ too long

_ELLIPSIS = "…"
_JOINERS = re.compile("[\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
_LONGEST_UNIT = 64  # characters


def fitted_header(
    template: HeaderTemplate,
    values: Mapping[str, str],
    sections: Sequence[str],
    separator: str,
    limit: int | None,
    size: Callable[[str], int],
) -> str:
    """The header, no larger than ``limit``: first outer sections leave, then the end; "" if nothing fits.

    Args:
        template: says what stands where.
        values: all values but the sections.
        sections: the heading path, the outermost first.
        separator: stands between sections.
        limit: None: any size.
        size: measures a header.

    Example:
        >>> template = HeaderTemplate("{title} > {sections}")
        >>> for limit in (20, 12, 5):
        ...     fitted_header(template, {"title": "手册"}, ["总则", "附则", "定义"], " > ", limit, len)
        '手册 > 总则 > 附则 > 定义'
        '手册 > … > 定义'
        '手册…'
    """
    header = ""
    for path in _shorter_paths(sections):
        header = template.render({**values, SECTIONS: separator.join(path)})
        if limit is None or (len(header) <= limit * _LONGEST_UNIT and size(header) <= limit):
            return header
    return _cut(header[: (limit or 0) * _LONGEST_UNIT], limit or 0, size)


def _shorter_paths(sections: Sequence[str]) -> Iterator[Sequence[str]]:
    yield sections
    for first in range(1, len(sections)):
        yield [_ELLIPSIS, *sections[first:]]


def _cut(header: str, limit: int, size: Callable[[str], int]) -> str:
    """As much of the beginning as fits, with an ellipsis; no character is parted from its accents."""
    length = bisect_right(range(len(header)), limit, key=lambda n: size(_ended(header, n))) - 1
    while length > 0 and size(_ended(header, length)) > limit:  # tokens do not grow evenly
        length -= 1
    return _ended(header, length) if length > 0 else ""


def _ended(header: str, length: int) -> str:
    while 0 < length < len(header) and _belongs_to_previous(header, length):
        length -= 1
    kept = header[:length].rstrip(_OPENING + _ELLIPSIS + " >›»→⟩|/·，,、;；•–—~-")
    return kept + _ELLIPSIS if kept else ""


def _belongs_to_previous(text: str, position: int) -> bool:
    char = text[position]
    is_mark = unicodedata.combining(char) != 0 or _JOINERS.match(char) is not None
    return is_mark or text[position - 1] == "\u200d"
