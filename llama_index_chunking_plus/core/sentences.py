r"""Where sentences end in Chinese text, and in the mixed text of real documents.

Contract: the spans tile the text (``"".join(pieces) == text``), no piece is empty, and no cut falls inside ``\r\n`` or
before a combining mark. White space up to the last newline goes with the sentence before it, indentation with the
sentence after it. Time is linear in the length of the text.

Source: GB/T 15834-2011 "General rules for punctuation". Only 句号 问号 叹号 are 句末点号 and end a sentence; 分号 冒号
逗号 顿号 are 句内点号; 引号 括号 书名号 省略号 破折号 are 标号, which decide what a mark inside or before them is worth.
Where the standard is silent (speech, several sentences in one quotation) the rules do what annotators of treebanks did.

How: newlines cut the text into blocks. Where a block has a mark that might end a sentence, one pass pairs its quotes and
brackets and lists its marks; then each mark is judged by what encloses it, what closes after it and what follows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args
from unicodedata import category

from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError

Quotes = Literal["split", "keep"]
EllipsisRule = Literal["auto", "always", "never"]
Newline = Literal["line", "wrap", "paragraph"]

# ------------------------------------------------------------------------------------------------ characters

_STOPS = "。！？｡﹖﹗‼⁇⁈⁉︒︕︖।॥؟۔။።។"
_FULL_STOPS = "。｡︒.．"
_SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_QUOTES = dict(zip("“‘「『﹁﹃〝«｢", "”’」』﹂﹄〞»｣", strict=True))
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
_NEWLINES = r"\n\r\v\f\x85\u2028\u2029"
_BLANK = r"[\s\u200b\u2060\ufeff]"
_CJK = r"⺀-鿿가-\ud7ff豈-\ufaff！-￯\U00020000-\U0003ffff"
_EMOJI = r"\U0001f000-\U0001faff☀-❵➔-➿⌚-⏿⬅-⭕〰〽\u200d\ufe0f\u20e3\U000e0020-\U000e007f"

_LONGEST = {**dict.fromkeys(_QUOTES, 400), **dict.fromkeys(_BRACKETS, 200)}  # characters; a longer pair is none
_LONG_QUOTE = 15  # characters; a longer quotation that ends in 。 is a sentence wherever it stands
_LONG_ASIDE = 6  # characters; a longer bracket at the start of a sentence may be a sentence

_OPENERS = {**_QUOTES, **_BRACKETS}
_HALF_WIDTH = str.maketrans("）］｝", ")]}")
_KINDS = {opener: closer.translate(_HALF_WIDTH) for opener, closer in _OPENERS.items()}
_CLOSERS = {closer: closer.translate(_HALF_WIDTH) for closer in _OPENERS.values()}

# ------------------------------------------------------------------------------------------------ words

_TITLES = frozenset("Dr Mr Mrs Ms Prof St Mt Messrs Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres e.g i.e viz cf vs ca al".split())
_NUMBERED = frozenset("no nos vol vols fig figs eq eqs tab sec ch chap ref refs p pp art v ver ext tel".split())
_SHORTENED = frozenset(
    "etc approx resp est Inc Ltd Co Corp Jr Sr Ph.D Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Univ Dept".split()
)
_STARTERS = frozenset(
    "The This That These Those He She It We They You I A An In On At As If But And So For When While However There Then".split()
)
_BRANDS = frozenset("Yahoo Joomla Jeopardy Wham Yum Kahoot".split())

_SPEECH = "[说說道问問喊叫答曰嚷吼骂罵念嘱囑叹嘆劝勸述]"
_SAID = re.compile(
    rf"""{_BLANK}*(?:
      [^，。！？；：、“”"「」『』…\n,.!?]{{0,24}}?
      (?:(?<!知){_SPEECH}(?![完罢罷明法话話])[着了道过過]?[他她我你它您們们大家众眾人]{{0,4}}|言った|答えた|聞いた|叫んだ)
      (?:{_BLANK}*(?:[。！？.!?…]|$)|[，,]{_BLANK}*[“「『‘"'])
    | [^“”"「」『』\n.!?]{{0,40}}?\b(?:said|says|asked|asks|replied|answered|shouted|cried|whispered)\b[^“”"\n.!?]{{0,30}}[.,]
    | [^，。！？；：、“”"「」『』…\n]{{0,8}}?(?:指着|指著|指了指|笑|叹了|嘆了|皱|皺|摇[着了头]|搖[著了頭]|点头|點頭|点了|點了|瞪|盯|望着|望著|看着|看著)
    )""",
    re.VERBOSE,
)
_CONTINUES = re.compile(
    rf"""{_BLANK}*(?:
      的(?![确確士])|是(?![次日夜时時年以故否])|和(?!往平以)|[与與](?![此会會])|[及](?![时時至])|或(?![许許者])
    | [这這那][句个個番种種声聲样樣些几幾两兩三四一]|[一二两兩三四五六七八九十几幾数數][个個句字声聲词詞]
    | 等(?![到我他她你一等])|之[类類声聲名后後前际際]|字[样樣]|[并並][不非没沒]|[为為][题題名]|令人|[让讓]人|使人|[键鍵号號]
    | と(?!ても|ころ|にかく)|って|は(?!い)|が(?!ん)|を|に(?!わか)|の|も(?![うし])|で(?![もはす])
    )""",
    re.VERBOSE,
)

# ------------------------------------------------------------------------------------------------ patterns

_BREAKS: dict[str, re.Pattern[str]] = {
    "line": re.compile(rf"[{_NEWLINES}](?:{_BLANK}*[{_NEWLINES}])?"),
    "paragraph": re.compile(rf"(?:\r\n|\r(?!\n)|[\n\v\f\x85\u2028]){_BLANK}*[{_NEWLINES}]|\u2029"),
}
_BREAKS["wrap"] = _BREAKS["line"]
_LEADING = re.compile(rf"{_BLANK}*")
_TRAILING = re.compile(rf"{_BLANK}*[{_NEWLINES}]|{_BLANK}*")
_CITATION = r"[\[［〔【](?:注|\^)?[\d０-９]{1,3}(?:[-–—~～,，、 ]+[\d０-９]{1,3})*[\]］〕】]|[¹²³⁰-⁹]+|[①-⑳❶-❿]|[†‡]|\[\^\w{1,20}\]"
_ORNAMENT = re.compile(
    rf"(?:(?P<emoji>[{_EMOJI}]+)|[ ]?(?P<note>{_CITATION})|(?P<tag></[A-Za-z][\w:-]{{0,30}}\s?>|<br\s?/?>)|(?P<gap>&nbsp;|&emsp;)"
    rf"|(?P<sup><sup>[^<>]{{0,20}}</sup>))[{_STOPS}{re.escape(''.join(_CLOSERS))}]*"
)
_ITEM = re.compile(r"[\W_]*(?:\d{1,3}|[A-Za-z]|[IVXivx]{1,5})(?:\.\d{1,3})*")
_WORD_BACKWARDS = re.compile(r"[0-9A-Za-z.'’&-]*")
_WORD = re.compile(rf"{_BLANK}*([^\W_]*)")
_FENCE = re.compile(rf"^[ >]{{0,3}}(`{{3,}}|~{{3,}})[^`\n]*$", re.MULTILINE)


class _Patterns(NamedTuple):
    """What to look for under one set of options."""

    mark: re.Pattern[str]
    token: re.Pattern[str]


def _one_of(chars: str) -> str:
    return f"[{re.escape(chars)}]"


_PAIRED = re.escape("".join(_OPENERS) + "".join(_CLOSERS)) + "\"'"


def _closed(opener: str, closer: str) -> str:
    """A bracket or quote that has its partner and in it nothing to judge: one token."""
    inner = f"[^{_PAIRED}{_STOPS}.!?…⋯`]" if opener in _QUOTES else f"[^{_PAIRED}`]"
    closers = re.escape("".join(c for c in _CLOSERS if _CLOSERS[c] == _KINDS[opener]))
    return rf"(?<={re.escape(opener)}){inner}{{0,{_LONGEST[opener]}}}(?<![{_STOPS}.!?])[{closers}]"


@lru_cache(maxsize=64)
def _patterns(ellipsis: str, newline: str, semicolon: bool, colon: bool) -> _Patterns:
    stops = _STOPS + "；" * semicolon
    closers = re.escape("".join(_CLOSERS)) + "\"'"
    clauses = ";" * semicolon + ":" * colon
    marks = [
        rf"(?<=[{stops}])(?:[{stops}!?]|[…⋯]+(?=[{stops}!?{closers}]))*(?<!!(?=\[))",
        rf"(?<=[!?])(?<![ ].)(?:(?![\w=(\[{{<>/\\&|%$#@:,;-])|(?<=[{_CJK}].)(?!\[)|(?=[{_CJK}]))(?:[{stops}!?])*",
        rf"(?<=[.])(?<![.][.])(?![\x21\x23-\x26\x2b-\x3b\x3d-\x5a\\^_a-z{{|~])",
        rf"(?<=．)(?<![\d．]．)(?![\d．])",
        rf"(?<=[~～])[~～]*(?=[{_CJK}])",
    ]
    if ellipsis == "auto":
        marks.append(rf"(?<=[…⋯])[…⋯]*(?=[{closers}])|(?<=[.])(?<![.][.])[.]{{2,}}(?=[ {closers}])")
    if ellipsis == "always":
        marks.append(r"(?<=[…⋯])[…⋯]*|(?<=[.])(?<![.][.])[.]{2,}(?!\w)")
    if colon:
        marks.append(r"(?<=：)(?!\d)")
    if clauses:
        marks.append(rf"(?<=[{clauses}])(?=[\s{_CJK}])")
    first = stops + ".!?．~～…⋯" + "：" * colon + clauses
    end_of_line = rf"(?!{_BLANK}*(?:[{_NEWLINES}]|\Z))" if newline == "line" else ""
    mark = "|".join(marks)
    pieces = [
        rf"(?P<mark>{mark})",
        *(_closed(*pair) for pair in _OPENERS.items()),
        r"(?<=`)(?:[^`]{1,400}`|`+[^`]{1,400}``+)",
        r"(?<=\$)(?:\$[^$]{1,400}\$\$|[^\s$。！？](?:[^$。！？]{0,198}[^\s$。！？])?\$(?!\d))",
        r"(?<=<)(?:/?[A-Za-z][^<>]{0,300}|!--[^<]{0,400}--)>",
        r"(?<=:)//[^\s()<>\"'`\u0080-\U0010ffff]*[\w/#=&-]",
        rf"(?P<open>(?<=[{re.escape(''.join(_OPENERS))}]))",
        rf"(?P<close>(?<=[{re.escape(''.join(_CLOSERS))}]))",
        r"(?P<either>(?<=\")|(?<=')(?:(?<![^\W_]')|(?![^\W_])))",
        r"(?P<emphasis>(?<=\*)\*{0,2}|(?<=_)_)",
    ]
    every = re.escape(first) + _PAIRED + "`$<:*_"
    return _Patterns(
        re.compile(rf"[{re.escape(first)}](?:{mark}){end_of_line}"),
        re.compile(rf"[{every}](?:{'|'.join(pieces)})"),
    )


# ------------------------------------------------------------------------------------------------ blocks


@dataclass(slots=True, eq=False)
class _Pair:
    """A quote or bracket: where it opens, in what, and where it closes (-1 until that is known)."""

    start: int
    kind: str
    parent: _Pair | None
    is_quote: bool
    end: int = -1
    role: str = ""


class _Mark(NamedTuple):
    """A run of marks that might end a sentence, and the pair that it stands in."""

    start: int
    end: int
    pair: _Pair | None


class _Block:
    """The marks of one line or paragraph, judged in order."""

    def __init__(self, text: str, lo: int, hi: int, options: ChineseSentenceTokenizer) -> None:
        self.text, self.lo, self.hi, self.options = text, lo, hi, options
        self.marks: list[_Mark] = []
        self.closers: dict[int, int] = {}
        self.start = lo
        self._read()

    def _read(self) -> None:
        text, lo, hi = self.text, self.lo, self.hi
        pending: defaultdict[str, list[_Pair]] = defaultdict(list)
        emphasis: set[str] = set()
        pairs: list[_Pair] = []
        marks: list[tuple[int, int, _Pair | None]] = []
        mixed = text.count('"', lo, hi) % 2
        top: _Pair | None = None
        for found in self.options._patterns().token.finditer(text, lo, hi):
            role = found.lastgroup
            if role is None:
                continue
            at = found.start()
            if role == "mark":
                marks.append((at, found.end(), top))
                continue
            char = text[at]
            if role == "emphasis":
                run = found.group()
                if run in emphasis:
                    emphasis.discard(run)
                    self.closers[at] = found.end()
                elif not text[found.end() : found.end() + 1].isspace():
                    emphasis.add(run)
                continue
            if role == "either":
                kind = _KINDS["“"] if mixed and char == '"' else char
                role = "close" if pending[kind] and at - pending[kind][-1].start <= 400 else "open"
                if role == "close":
                    self.closers[at] = at + 1
                elif text[at - 1 : at].isdigit() or (char == "'" and text[at - 1 : at].isalnum() and text[at - 1] < "\x80"):
                    continue
            else:
                kind = _KINDS[char] if role == "open" else _CLOSERS[char]
            if role == "open":
                top = _Pair(at, kind, top, char in _QUOTES or char in "\"'")
                pairs.append(top)
                pending[kind].append(top)
                continue
            waiting = pending[kind]
            if not waiting:
                continue
            partner = waiting[-1]
            if at - partner.start > (400 if partner.is_quote else 200):
                waiting.clear()
                continue
            while top is not None and top is not partner:
                if pending[top.kind]:
                    pending[top.kind].pop()
                top = top.parent
            waiting.pop()
            partner.end = at
            top = partner.parent
        for pair in pairs:
            if pair.parent is not None and pair.parent.end < 0:
                pair.parent = pair.parent.parent
        self.marks = [
            _Mark(first, after, pair if pair is None or pair.end >= 0 else pair.parent) for first, after, pair in marks
        ]

    def cuts(self) -> list[int]:
        text, hi = self.text, self.hi
        cuts = []
        if text[self.lo] == "|" and text[self.lo : hi].rstrip().endswith("|"):
            return []
        for first, after, pair in self.marks:
            if first < self.start:
                continue
            if pair is None and after < hi and "一" <= text[after] <= "鿿" and text[first] in _STOPS:
                cut = after
            else:
                found = self._judge(first, after, pair)
                if found is None or found >= hi:
                    continue
                cut = found
            cuts.append(cut)
            self.start = cut
        return cuts

    def _judge(self, first: int, after: int, pair: _Pair | None) -> int | None:
        closed: _Pair | None = None
        end, hi, text = after, self.hi, self.text
        dressed = False
        while end < hi:
            if pair is not None and pair.end == end:
                closed, pair, end = pair, pair.parent, end + 1
            elif pair is not None and text[end] == " " and pair.end == end + 1:
                closed, pair, end = pair, pair.parent, end + 2
            elif end in self.closers:
                end = self.closers[end]
                dressed = True
            elif text[end] in _CLOSERS:
                end += 1
            else:
                break
        if self._shielded(pair):
            return None
        tail = self._tail(end)
        if tail < hi and text[tail] in _SEPARATORS + "—–":
            if text[tail] not in "—–" or closed:
                return None
        if closed is not None:
            ok = self._closed_ends(closed, first, after, end)
        else:
            ok = self._mark_ends(first, after, end)
            if ok and (dressed or text[end : end + 1] == "<") and _CONTINUES.match(text, tail, hi):
                ok = False
        return tail if ok else None

    def _shielded(self, pair: _Pair | None) -> bool:
        while pair is not None:
            if not pair.is_quote or self.options.quotes == "keep" or not self._splits(pair):
                return True
            pair = pair.parent
        return False

    def _splits(self, pair: _Pair) -> bool:
        return self._role(pair) != "embedded" or self._is_long(pair)

    def _is_long(self, pair: _Pair) -> bool:
        return pair.end - pair.start > _LONG_QUOTE and self.text[pair.end - 1] in _FULL_STOPS

    def _role(self, pair: _Pair) -> str:
        if not pair.role:
            pair.role = self._find_role(pair)
        return pair.role

    def _find_role(self, pair: _Pair) -> str:
        text = self.text
        if _CONTINUES.match(text, pair.end + 1, self.hi):
            return "embedded"
        floor = max(self.start, pair.start - 12)
        before = text[floor : pair.start].rstrip()
        if before.endswith(("：", ":", "，", ",", "—")) or (before and re.match(_SPEECH, before[-1])):
            return "speech"
        if floor == self.start and (not before or re.fullmatch(r"[\W_]*(?:\d{1,3}|[A-Za-z])?[\W_]*", before)):
            return "opening"
        return "embedded"

    def _closed_ends(self, closed: _Pair, first: int, after: int, end: int) -> bool:
        text, hi = self.text, self.hi
        stop = text[after - 1] in _FULL_STOPS
        if _CONTINUES.match(text, end, hi):
            return False
        if not closed.is_quote:
            if closed.kind not in ")":
                return False
            own = not re.search(r"\w", text[max(self.start, closed.start - 12) : closed.start])
            if text[first] == ".":
                return own and self._dot_ends(first, end)
            return (own and closed.end - closed.start > _LONG_ASIDE) or stop
        if not self._mark_ends(first, after, end, closed=True):
            return False
        following = text[end : end + 40].lstrip()[:1]
        if following.islower():
            return False
        role = self._role(closed)
        if role == "speech":
            return True
        if text[first] in "…⋯" and self.options.ellipsis == "auto":
            return False
        if role == "opening":
            return not _SAID.match(text, end, hi)
        return stop

    def _mark_ends(self, first: int, after: int, end: int, closed: bool = False) -> bool:
        text = self.text
        char = text[first]
        if char in "!?" and text[after - 1] in "!?":
            return closed or self._bang_ends(first, end)
        if char == "." and after - first > 1:
            return closed or bool(re.match(r" +[A-Z]", text[end : end + 20])) or self.options.ellipsis == "always"
        if char == ".":
            return self._dot_ends(first, end)
        if char in "~～":
            return text[self.lo : self.hi].rstrip()[-1:] in "~～"
        if char in "…⋯":
            return closed or self.options.ellipsis == "always"
        return True

    def _bang_ends(self, first: int, end: int) -> bool:
        word = self._word_before(first)
        if self.text[first] == "!":
            if word in _BRANDS or (len(word) == 1 and word.isalpha()):
                return False
        match = re.compile(r"\s*[=<>+*/|&]").match(self.text, end, self.hi)
        return match is None

    def _word_before(self, at: int) -> str:
        back = self.text[max(self.start, at - 24) : at][::-1]
        return _WORD_BACKWARDS.match(back).group()[::-1]

    def _dot_ends(self, at: int, end: int) -> bool:
        text = self.text
        word = self._word_before(at)
        follow = _WORD.match(text, end, self.hi).group(1)
        nxt = text[end + 0 : end + 1] if not follow else follow[0]
        apart = end >= self.hi or text[end].isspace()
        low = word.lower()
        if follow and follow[0].islower():
            return False
        if not word:
            return True
        if word in _TITLES or low in _TITLES:
            return False
        if low in _NUMBERED and follow and (follow[0].isdigit() or follow[0] in "一二三四五六七八九十"):
            return False
        if (len(word) == 1 and word.isupper()) or _ITEM.fullmatch(text, self.start, at):
            return False
        if word in _SHORTENED or low in _SHORTENED or re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]", word):
            return follow in _STARTERS
        if word.isdigit():
            if not apart:
                return not follow
            item = re.compile(r"[\W_]*\d{1,3}[.．、]").match(text, self.start, at)
            return not (item and len(word) <= 3)
        return True

    def _tail(self, end: int) -> int:
        text, hi = self.text, self.hi
        while end < hi:
            found = _ORNAMENT.match(text, end, hi)
            if not found:
                break
            if found.lastgroup == "emoji" and text.startswith(text[end], self.start):
                break
            if found.lastgroup == "note" and re.compile(_CITATION).match(text, _LEADING.match(text, self.start).end()):
                break
            end = found.end()
        return _TRAILING.match(text, end, hi).end()


# ------------------------------------------------------------------------------------------------ tokenizer


@dataclass(frozen=True)
class ChineseSentenceTokenizer:
    quotes: Quotes = "split"
    ellipsis: EllipsisRule = "auto"
    newline: Newline = "line"
    semicolon: bool = False
    colon: bool = False

    def _patterns(self) -> _Patterns:
        return _patterns(self.ellipsis, self.newline, self.semicolon, self.colon)

    def ends(self, text: str) -> list[int]:
        if not text:
            return []
        breaks = self._breaks(text)
        ends = set(breaks)
        candidate = self._patterns().mark
        position = 0
        fences = None
        while found := candidate.search(text, position):
            index = bisect_right(breaks, found.start())
            lo, hi = breaks[index - 1] if index else 0, breaks[index]
            if fences is None:
                fences = _fences(text)
            i = bisect_right(fences, found.start())
            if i % 2:
                position = fences[i]
                continue
            ends.update(_Block(text, lo, hi, self).cuts())
            position = hi
        return _off_marks(text, sorted(ends))

    def _breaks(self, text: str) -> list[int]:
        lead = _LEADING.match(text).end()
        if lead == len(text):
            return [lead]
        breaks = [m.end() for m in _BREAKS[self.newline].finditer(text, lead)]
        if self.newline == "wrap":
            breaks = _unwrapped(text, breaks)
        stop = len(text.rstrip())
        while breaks and breaks[-1] >= stop:
            breaks.pop()
        return [*breaks, len(text)]

    def spans(self, text: str) -> list[Span]:
        return spans_between(self.ends(text))

    def __call__(self, text: str) -> list[str]:
        ends = self.ends(text)
        return [text[a:b] for a, b in zip([0, *ends], ends)]


_MIN_WRAP = 18
_FRESH = re.compile(r"[　\t#>|*+•·●-]|\s{2}|[(（]?[\d一二三四五六七八九十]{1,3}[)）.．、]|第[\d一二三四五六七八九十百零]{1,6}[章节条编款]|[①-⑳]|```|$")


def _unwrapped(text: str, breaks: list[int]) -> list[int]:
    kept = []
    line = 0
    for end in breaks:
        body = text[line:end].rstrip()
        nl = text[line + len(body) : end]
        joined = (
            len(body) >= _MIN_WRAP
            and len(re.findall(r"\r\n|[\n\r\v\f\x85\u2028\u2029]", nl)) == 1
            and "\u2029" not in nl
            and body.rstrip("".join(_CLOSERS) + "\"'*_")[-1:] not in _STOPS + "!?.…⋯：:|"
            and not body.startswith(("#", "|"))
            and not _FRESH.match(text, end)
        )
        if not joined:
            kept.append(end)
        line = end
    return kept


def _fences(text: str) -> list[int]:
    if "```" not in text and "~~~" not in text:
        return []
    out: list[int] = []
    opened = None
    for m in _FENCE.finditer(text):
        run = m.group(1)
        if opened is None:
            opened = (run, m.start())
        elif run.startswith(opened[0]):
            out += [opened[1], m.end()]
            opened = None
    return out


def _off_marks(text: str, ends: list[int]) -> list[int]:
    stuck = {c for c in set(map(text.__getitem__, ends[:-1])) if category(c)[0] == "M" or c == "\u200d"}
    if not stuck:
        return ends
    out = []
    for end in ends:
        while end < len(text) and (category(text[end])[0] == "M" or text[end] == "\u200d"):
            end += 1
        if not out or end > out[-1]:
            out.append(end)
    return out


def chinese_sentence_tokenizer(text: str) -> list[str]:
    return _DEFAULT(text)


_DEFAULT = ChineseSentenceTokenizer()
