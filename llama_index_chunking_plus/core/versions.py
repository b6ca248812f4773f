"""Which of several versions of one document is the newest: version strings and dates as people write them, in order.

The order is that of PEP 440, with the pre-releases of SemVer 2.0.0, calendar versions and Chinese ways to write them:
1.9-beta2 < 1.9-rc1 < 1.9 < 1.9.post1 < 1.10, 第三版 < 第十版, 2024年3月 < 2024-04, 2.0（征求意见稿） < 2.0. Where PEP
440 and SemVer disagree, PEP 440 holds: 1.0-1 comes after 1.0, and so does 1.0+build. A stage without a number (送审稿 <
报批稿 < 试行 < 正式) comes before all numbers, and what cannot be read comes first.

Sources:
    PEP 440, https://peps.python.org/pep-0440/ · Semantic Versioning 2.0.0, https://semver.org
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, get_args

from llama_index_chunking_plus.core.headers import version_in
from llama_index_chunking_plus.core.numbered import HAN_NUMERAL, ordinal
from llama_index_chunking_plus.errors import OptionError

OrderBy = Literal["version", "date", "auto"]

_MOST_CHARS = 100  # a longer string is no version, and no pattern is tried on it


@dataclass(frozen=True, order=True)
class Version:
    """A version or a date: ordered, and equal for equal ones that are written differently.

    Args:
        key: what is compared.
        text: how it was written.
    """

    key: tuple[Any, ...]
    text: str = field(compare=False, default="")

    @property
    def is_readable(self) -> bool:
        """Whether it was understood; if not, it is ordered by the numbers and letters in it, below all that were."""
        return bool(self.key[0] or self.key[1])


def read_version(value: object) -> Version:
    """The version that a text or number names.

    Example:
        >>> names = ["1.10", "v1.9", "1.9-rc1", "1.9beta2", "第十版", "2024-03", "latest"]
        >>> [version.text for version in sorted(map(read_version, names))]
        ['latest', '1.9beta2', '1.9-rc1', 'v1.9', '1.10', '第十版', '2024-03']
        >>> read_version("V2.0版") == read_version("2.0.0") == read_version(2)
        True
    """
    text = str(value).strip()
    tidy = _tidied(text)
    return Version(_date_key(tidy) or _version_key(tidy) or _stage_key(tidy) or _natural_key(text), text)


def read_date(value: object) -> Version:
    """The date that a text, number or date object names: year first, to the year, month, day or second.

    Example:
        >>> names = ["2024年3月15日", "2024-03", "20231231", "2024-03-15T08:00:00+08:00"]
        >>> [date.text for date in sorted(map(read_date, names))]
        ['20231231', '2024-03', '2024年3月15日', '2024-03-15T08:00:00+08:00']
    """
    text = str(value).strip()
    return Version(_date_key(_tidied(text), year_alone=True) or _natural_key(text), text)


# ------------------------------------------------------------------------------------------------ tidying

_YEAR, _MONTH, _DAY = r"(?:19|20|21)[0-9]{2}", r"0?[1-9]|1[0-2]", r"0?[1-9]|[12][0-9]|3[01]"
_DATE_AHEAD = re.compile(rf"^({_YEAR})[-/]({_MONTH})(?:[-/]({_DAY}))?(?![0-9.])")
_PREFIX = re.compile(r"(?:(?:version|ver|v|release|rel|rev|r|版本号?|第)[\s.:_-]*)+(?=[0-9])")
_PUNCTUATION = str.maketrans(dict.fromkeys("()[]【】〔〕《》", " "))
_HAN_NUMBER = re.compile(rf"(?<=第){HAN_NUMERAL}+|{HAN_NUMERAL}+(?=\s*[年月日号版])")
_YEAR_OR_MONTH = re.compile(r"(?<=[0-9])\s*[年月]\s*第?\s*(?=[0-9])")
_DAY_OR_EDITION = re.compile(r"(?<=[0-9])\s*[年月日号版]+本?")
_REVISION = re.compile(r"第\s*([0-9]+)\s*次\s*(修[订訂正])")


def _tidied(text: str) -> str:
    """The text in half-width small letters and Arabic numbers, without brackets and what only says "version"."""
    if len(text) > _MOST_CHARS:
        return ""
    text = unicodedata.normalize("NFKC", text).lower().translate(_PUNCTUATION).strip()
    text = _HAN_NUMBER.sub(lambda found: str(ordinal(found.group())), text)
    text = _REVISION.sub(r"\2\1", text)
    text = text[found.end() :] if (found := _PREFIX.match(text)) else text
    text = _DAY_OR_EDITION.sub("", _YEAR_OR_MONTH.sub(".", text)).strip()
    return _DATE_AHEAD.sub(lambda found: ".".join(filter(None, found.groups())), text)


# ------------------------------------------------------------------------------------------------ dates

_DATE = re.compile(
    rf"""(?P<year>{_YEAR})(?:\s*[-/._]\s*(?P<month>{_MONTH})(?:\s*[-/._]\s*(?P<day>{_DAY}))?)?
         (?:[t\s]\s*(?P<time>[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]{{1,9}})?)?)
            \s*(?P<zone>z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?""",
    re.VERBOSE,
)
_COMPACT = re.compile(rf"({_YEAR})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])?")
_FINAL, _NO_POST, _NO_DEV = (1,), -1, (1, 0)


def _date_key(text: str, year_alone: bool = False) -> tuple[Any, ...] | None:
    compact, found = _COMPACT.fullmatch(text), _DATE.fullmatch(text)
    if compact:
        return _key_of([int(part) for part in compact.groups() if part])
    if not found or not (found["month"] or year_alone) or (found["time"] and not found["day"]):
        return None
    parts = [int(found[name]) for name in ("year", "month", "day") if found[name]]
    if found["time"]:
        return _moment_key(parts, found["time"], found["zone"])
    return _key_of(parts)


def _moment_key(day: Sequence[int], time: str, zone: str | None) -> tuple[Any, ...] | None:
    """A moment, in UTC where a zone is given."""
    hours, minutes, seconds = (*time.split(":"), "0")[:3]
    whole, _, part = seconds.partition(".")
    year, month, date = day
    try:
        moment = datetime(
            year, month, date, int(hours), int(minutes), int(whole), int(f"{part:0<6}"[:6]), tzinfo=timezone.utc
        )
        if zone and zone != "z":
            ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            moment += ahead if zone[0] == "-" else -ahead
    except (ValueError, OverflowError):
        return None
    return _key_of([*moment.timetuple()[:6], moment.microsecond])


def _key_of(release: Sequence[int]) -> tuple[Any, ...]:
    return (1, 0, _without_zeros(release), _FINAL, _NO_POST, _NO_DEV, ())


def _without_zeros(numbers: Sequence[int]) -> tuple[int, ...]:
    numbers = list(numbers)
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# ------------------------------------------------------------------------------------------------ versions

_PHASES = {  # in their alphabetical order, which is SemVer's
    "alpha": "alpha a 内测 草案 草稿 初稿",
    "beta": "beta b 公测 测试 測試 征求意见稿 徵求意見稿",
    "milestone": "milestone m",
    "rc": "rc cr c preview prerelease pre 候选 候選 预览 預覽 预发布 送审稿 送審稿",
    "submitted": "报批稿 報批稿",
    "trial": "试行 試行 试用 試用 试运行",
}
_POST = "post rev r patch p update u 修订 修訂 修正 勘误 勘誤"
_DEV = "dev snapshot nightly 开发 開發"
_LAST = "final release ga lts stable 正式 定稿 终稿 最终 发布"
_PHASE_OF = {word: phase for phase, words in _PHASES.items() for word in words.split()}


def _one_of(words: str) -> str:
    return f"(?:{'|'.join(sorted(words.split(), key=len, reverse=True))})(?:[版本稿])?"


_SEP = r"[-_.\s]*"
_VERSION = re.compile(
    rf"""(?:(?P<epoch>[0-9]+)!)?
    (?P<release>[0-9]+(?:\.[0-9]+)*)
    (?P<suffix>
        (?:{_SEP}(?P<phase>{_one_of(" ".join(_PHASE_OF))})(?:{_SEP}(?P<phase_number>[0-9]+))?)?
        (?:-(?P<implicit_post>[0-9]+)|{_SEP}(?P<post>{_one_of(_POST)})(?:{_SEP}(?P<post_number>[0-9]+))?)?
        (?:{_SEP}(?P<dev>{_one_of(_DEV)})(?:{_SEP}(?P<dev_number>[0-9]+))?)?
        (?:{_SEP}{_one_of(_LAST)})?
    )
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
    re.VERBOSE,
)
_LETTER = re.compile(r"[a-z](?![a-z])")  # alone it may stand for anything
_SEMVER = re.compile(
    r"(?P<release>[0-9]+(?:\.[0-9]+)*)-(?P<phase>[0-9a-z-]+(?:\.[0-9a-z-]+)*)(?:\+(?P<local>[0-9a-z.-]+))?"
)


def _version_key(text: str) -> tuple[Any, ...] | None:
    found = _VERSION.fullmatch(text)
    if found:
        return (1, int(found["epoch"] or 0), _release(found), _phase(found), *_post_and_dev(found), _local(found))
    found = _SEMVER.fullmatch(text)
    if found:
        return (1, 0, _release(found), (0, _identifiers(found["phase"].split("."))), _NO_POST, _NO_DEV, _local(found))
    return None


def _stage_key(text: str) -> tuple[Any, ...] | None:
    """A stage without a number: in the order of stages, below all versions that have one."""
    key = None if _LETTER.match(text) else _version_key(f"0 {text}")
    return (0, key) if key else None


def _release(found: re.Match[str]) -> tuple[int, ...]:
    return _without_zeros([int(number) for number in found["release"].split(".")])


def _phase(found: re.Match[str]) -> tuple[Any, ...]:
    """What sorts before the release; a development version of none sorts before them all."""
    if found["phase"]:
        word = found["phase"] if found["phase"] in _PHASE_OF else found["phase"][:-1]
        number = int(found["phase_number"] or 0)
        return (0, _identifiers([_PHASE_OF[word], *([str(number)] if number else [])]))
    is_post = found["post"] or found["implicit_post"]
    return (-1,) if found["dev"] and not is_post else _FINAL


def _post_and_dev(found: re.Match[str]) -> tuple[int, tuple[int, int]]:
    post = int(found["post_number"] or found["implicit_post"] or 0)
    dev = (0, int(found["dev_number"] or 0)) if found["dev"] else _NO_DEV
    return (post if found["post"] or found["implicit_post"] else _NO_POST), dev


def _identifiers(parts: Sequence[str]) -> tuple[tuple[int, int, str], ...]:
    """SemVer's identifiers: numbers by value, below words."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, _PHASE_OF.get(part, part)) for part in parts)


def _local(found: re.Match[str]) -> tuple[tuple[int, int, str], ...]:
    """PEP 440's local version: numbers by value, above words."""
    parts = re.split(r"[-_.]", found["local"]) if found["local"] else []
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)


def _natural_key(text: str) -> tuple[Any, ...]:
    """The text with the numbers in it by value, small letters as large ones."""
    parts = re.split(r"([0-9]+)", unicodedata.normalize("NFKC", text).casefold())
    numbers = [number.lstrip("0") for number in parts[1::2]]
    keys = [(len(number), number) for number in numbers]
    return (0, (), parts[0], *(item for pair in zip(keys, parts[2::2], strict=True) for item in pair))


# ------------------------------------------------------------------------------------------------ documents

_TITLE = "title"
_EDGE = " \t\u3000_-–—·.,，、:：;；"
_EMPTY_BRACKETS = re.compile(r"[(（\[【〔《]\s*[)）\]】〕》]")
_EDITION_WORD = re.compile(r"\s*(?:正式版|版本?|本)(?![\u3400-\u9fff])")


def without_version(title: str, version: str) -> str:
    """The title without this version; the title itself if it says another one, none, several, or nothing else.

    Example:
        >>> [without_version(title, "2.0") for title in ("制度_v2", "手册（V2.0版）", "第二版 手册", "手册 v3", "v2")]
        ['制度', '手册', '手册', '手册 v3', 'v2']
    """
    said = version_in(title) if len(title) <= _MOST_CHARS else ""
    if not said or read_version(said) != read_version(version):
        return title
    end = next(end for end in range(1, len(title) + 1) if version_in(title[:end]) == said)
    start = next(start for start in range(end - 1, -1, -1) if version_in(title[start:end]) == said)
    if word := _EDITION_WORD.match(title, end):
        end = word.end()
    before, after = title[:start].rstrip(_EDGE), title[end:].lstrip(_EDGE)
    space = " " if re.search(r"[^(（\[【〔《]\n[A-Za-z0-9]", f"{before}\n{after}") else ""
    return _EMPTY_BRACKETS.sub("", f"{before}{space}{after}").strip(_EDGE) or title


@dataclass(frozen=True)
class Edition:
    """One version of one document, as its metadata say.

    Args:
        document: equal for versions of one document.
        version: its version, None if it has none.
        date: its date, None if it has none.
    """

    document: Hashable
    version: Version | None = None
    date: Version | None = None


@dataclass(frozen=True)
class EditionRule:
    """Reads editions off metadata and says which of them are current.

    Args:
        document_key: metadata keys that name the document, the first that has a value; of a ``title`` without the
            version, if it says the one that the document has.
        version_key: metadata keys of the version.
        date_key: metadata keys of the date.
        file_pattern: a regular expression, searched in the name of the file; its groups ``document`` and ``version``
            count more than the metadata.
        order_by: "version", "date", or "auto": by version where the document has any, else by date.
        pinned: this version or date instead of the newest.

    Raises:
        OptionError: a list of keys is empty or holds an empty one; the pattern is none, or has no group ``document``;
            what is pinned is no version.

    Example:
        >>> rule = EditionRule()
        >>> editions = [rule.edition({"title": "手册", "version": each}, each) for each in ("1.9", "1.10")]
        >>> rule.current(editions)
        [False, True]
    """

    document_key: tuple[str, ...] = ("document", "title")
    version_key: tuple[str, ...] = ("version",)
    date_key: tuple[str, ...] = ("date", "updated_at")
    file_pattern: str | None = None
    order_by: OrderBy = "auto"
    pinned: str | None = None

    def __post_init__(self) -> None:
        for name in ("document_key", "version_key", "date_key"):
            keys = getattr(self, name)
            if not keys or not all(keys):
                raise OptionError(f"{name}={keys!r} is empty or holds an empty name; give the metadata key to read")
        if self.order_by not in get_args(OrderBy):
            raise OptionError(f"order_by={self.order_by!r} is none of {', '.join(get_args(OrderBy))}")
        self._check_pattern()
        self._check_pinned()

    def _check_pinned(self) -> None:
        pinned: object = self.pinned
        if pinned is not None and not (isinstance(pinned, str) and read_version(pinned).is_readable):
            raise OptionError(
                f'version={pinned!r} is no text that says a version; write one, such as "2.1", "第3版" or "2024-03", '
                "or leave it out for the newest"
            )

    def _check_pattern(self) -> None:
        try:
            groups = re.compile("(?P<document>)" if self.file_pattern is None else self.file_pattern).groupindex
        except (re.error, TypeError) as error:
            raise OptionError(f"file_pattern={self.file_pattern!r} is no regular expression: {error}") from error
        if "document" not in groups:
            raise OptionError(f"file_pattern={self.file_pattern!r} has no group (?P<document>...); add one")

    def edition(self, metadata: Mapping[str, Any], own_id: str) -> Edition:
        """The edition that has this metadata; ``own_id`` tells apart what has no name."""
        named = self._groups(metadata)
        version = named.get("version") or _first(metadata, self.version_key)
        name = named.get("document") or self._name(metadata, version)
        date = _first(metadata, self.date_key)
        return Edition(
            document=("id", own_id) if name is None else ("name", name),
            version=None if version is None else read_version(version),
            date=None if date is None else read_date(date),
        )

    def ranks(self, editions: Sequence[Edition]) -> list[Version | None]:
        """What decides for each edition: its version or its date; None if it has none."""
        versioned = {each.document for each in editions if each.version is not None}
        by_date = self.order_by == "date"
        return [
            each.date if by_date or (self.order_by == "auto" and each.document not in versioned) else each.version
            for each in editions
        ]

    def current(self, editions: Sequence[Edition]) -> list[bool]:
        """Whether each edition is the newest of its document, or the pinned one.

        A document none of whose editions has a version is current whole; where one has, those without are not.
        """
        ranks = self.ranks(editions)
        wanted: dict[Hashable, Version] = {}
        for edition, rank in zip(editions, ranks, strict=True):
            if rank is not None:
                wanted[edition.document] = max(wanted.get(edition.document, rank), rank)
        if self.pinned is not None:
            wanted = dict.fromkeys(wanted, read_version(self.pinned))
        pairs = zip(editions, ranks, strict=True)
        return [edition.document not in wanted or rank == wanted[edition.document] for edition, rank in pairs]

    def unreadable(self, editions: Sequence[Edition]) -> list[str]:
        """What cannot be read though something depends on it, each once."""
        ranks: dict[Hashable, dict[Version | None, None]] = {}
        for edition, rank in zip(editions, self.ranks(editions), strict=True):
            ranks.setdefault(edition.document, {})[rank] = None
        compared = [rank for its in ranks.values() if len(its) > 1 or self.pinned is not None for rank in its]
        return [*dict.fromkeys(rank.text for rank in compared if rank is not None and not rank.is_readable)]

    def _name(self, metadata: Mapping[str, Any], version: str | None) -> str | None:
        key = next((key for key in self.document_key if _first(metadata, (key,))), "")
        name = _first(metadata, (key,))
        return without_version(name, version) if key == _TITLE and name and version else name

    def _groups(self, metadata: Mapping[str, Any]) -> dict[str, str | None]:
        path = _first(metadata, ("file_name", "file_path"))
        if self.file_pattern is None or path is None:
            return {}
        found = re.search(self.file_pattern, re.split(r"[/\\]", path)[-1])
        return found.groupdict() if found else {}


def _first(metadata: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """The first value that says something."""
    values = (str(metadata[key]).strip() for key in keys if metadata.get(key) is not None)
    return next((value for value in values if value), None)
