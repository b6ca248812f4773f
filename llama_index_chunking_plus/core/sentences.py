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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Literal, NamedTuple, get_args
from unicodedata import category

from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError

QuoteRule = Literal["split", "keep"]
EllipsisRule = Literal["auto", "always", "never"]
NewlineRule = Literal["line", "wrap", "paragraph"]

# ------------------------------------------------------------------------------------------------ characters

_STOPS = "。！？｡﹖﹗‼⁇⁈⁉︒︕︖।॥؟۔။។"
_FULL_STOPS = "。｡︒.．"
_SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_QUOTES = dict(zip("“‘「『﹁﹃〝«｢", "”’」』﹂﹄〞»｣", strict=True))
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
_OPENERS = "".join([*_QUOTES, *_BRACKETS])
_CLOSERS = "".join([*_QUOTES.values(), *_BRACKETS.values()])
_HALF_WIDTH = str.maketrans("）］｝", ")]}")
_KINDS = {char: pair[1].translate(_HALF_WIDTH) for pair in (_QUOTES | _BRACKETS).items() for char in pair}

_NEWLINE = r"[\n\r\v\f\x85\u2028\u2029]"
_BLANK = r"[\s\u200b\u2060\ufeff]"
_HAN = r"[\u3400-\u9fff]"
_CJK = r"[\u2e80-\ud7ff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff]"
_EMOJI = (
    r"[\U0001f000-\U0001faff\u2600-\u2775\u2794-\u27bf\u231a-\u23ff\u2b05-\u2b55"
    r"\u3030\u303d\u200d\ufe0f\u20e3\U000e0020-\U000e007f]"
)

_LONGEST_QUOTE = 400  # characters; a quote whose partner is farther away has none
_LONGEST_BRACKET = 200  # characters, likewise
_LONG_QUOTE = 15  # characters; a longer quotation that ends in 。 is a sentence wherever it stands
_LONG_ASIDE = 6  # characters; a longer bracket at the start of a sentence may be a sentence

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
_INITIALS = re.compile(r"[A-Z]|(?:[A-Za-z]\.)+[A-Za-z]")

_SPEECH = "[说說道问問喊叫答曰嚷吼骂罵念嘱囑叹嘆劝勸述]"
_SPEECH_WORDS = (
    "表示|回[应應答复復]|[补補]充|解[释釋]|[强強][调調]|指出|安慰|提醒|反[驳駁]|催促|嘀咕|嘟囔|自[语語]|拒[绝絕]|感[叹嘆]|"
    "[开開]口|介[绍紹]|宣布|承[认認]|抱怨|命令|[请請]求|建[议議]|言った|答えた|聞いた|叫んだ"
)
_GESTURES = "指[着著了]|笑|[叹嘆]了|[皱皺]|[摇搖点點][着著了头頭]|瞪|盯|[望看][着著]"
_IN_CLAUSE = "[^，。！？；：、“”\"「」『』…\\n,.!?]"
_SAID = re.compile(
    rf"""{_BLANK}*(?:
      {_IN_CLAUSE}{{0,24}}?(?:(?<!知){_SPEECH}(?![完罢罷明法话話])|{_SPEECH_WORDS})
      (?:[着著了道過过]|[起出][来來]|一?[声聲]){{0,2}}[他她我你它您们們大家众眾人]{{0,4}}
      (?:{_BLANK}*(?:[。！？.!?…]|$)|[，,]{_BLANK}*[“「『‘"'])
    | {_IN_CLAUSE}{{0,8}}?(?:{_GESTURES})
    | [^“”"「」『』\n.!?]{{0,40}}?\b(?:said|says|asked|asks|replied|answered|shouted|cried|whispered)\b[^“”"\n.!?]{{0,30}}[.,]
    )""",
    re.VERBOSE,
)
_CONTINUES = re.compile(
    rf"""{_BLANK}*(?:
      的(?![确確士])|是(?![次日夜时時年以故否])|和(?!往平以)|[与與](?![此会會])|及(?![时時至])|或(?![许許者])
    | [这這那][句个個番种種声聲样樣些几幾两兩三四一]|[一二两兩三四五六七八九十几幾数數][个個句字声聲词詞]
    | 等(?![到我他她你一等])|之[类類声聲名后後前际際]|字[样樣]|[声聲](?![称稱明])|[并並][不非没沒]|[为為][题題名]|[令让讓使]人|[键鍵号號]
    | と(?!ても|ころ|にかく)|って|は(?!い)|が(?!ん)|を|に(?!わか)|の|も(?![うし])|で(?![もはす])
    )""",
    re.VERBOSE,
)

# ------------------------------------------------------------------------------------------------ patterns

_BREAKS: dict[NewlineRule, re.Pattern[str]] = {
    "line": re.compile(rf"{_NEWLINE}(?:{_BLANK}*{_NEWLINE})?"),
    "wrap": re.compile(rf"{_NEWLINE}(?:{_BLANK}*{_NEWLINE})?"),
    "paragraph": re.compile(rf"(?:\r\n|\r(?!\n)|[\n\v\f\x85\u2028]){_BLANK}*{_NEWLINE}|\u2029"),
}
_LEADING = re.compile(rf"{_BLANK}*")
_TRAILING = re.compile(rf"{_BLANK}*{_NEWLINE}|{_BLANK}*")
_NUMBERS = r"[\d０-９]{1,3}(?:[-–—~～,，、 ]+[\d０-９]{1,3})*"
_NOTE = rf"[\[［〔【](?:注|\^)?{_NUMBERS}[\]］〕】]|[¹²³⁰-⁹]+|[①-⑳❶-❿]|[†‡]|\[\^\w{{1,20}}\]|<sup>[^<>]{{0,20}}</sup>"
_ORNAMENT = re.compile(
    rf"(?:(?P<emoji>{_EMOJI}+)|[ ]?(?P<note>{_NOTE})|(?P<rest></[A-Za-z][\w:-]{{0,30}}\s?>|<br\s?/?>|&nbsp;|&emsp;"
    rf"|[:;=]-?[)(DP](?!\w)))[{_STOPS}{re.escape(_CLOSERS)}]*"
)
_ITEM = re.compile(r"[\W_]*(?:\d{1,3}|[A-Za-z]|[IVXivx]{1,5})(?:\.\d{1,3})*")
_NUMBERED_ITEM = re.compile(r"[\W_]*\d{1,3}[.．、]")
_BARE = re.compile(r"[\W_]*(?:\d{1,3}|[A-Za-z])?[\W_]*")
_SOURCE = re.compile(rf"[（(][^（）(){_STOPS}\n]{{1,30}}[）)]")
_OPERATOR = re.compile(r"\s*[=<>+*/|&]")
_ENTITY = re.compile(r"&#?\w{1,8};")
_LATIN_BACKWARDS = re.compile(r"[0-9A-Za-z.'’&-]*")
_WORD = re.compile(rf"{_BLANK}*([^\W_]*)")


class _Patterns(NamedTuple):
    """What to look for under one set of options; each match is one mark, pair or shielded stretch."""

    candidate: re.Pattern[str]
    mark: re.Pattern[str]
    token: re.Pattern[str]


def _mark_patterns(options: ChineseSentenceTokenizer, stops: str) -> Iterator[str]:
    """What follows the first character of a mark, the most frequent first."""
    ends = re.escape(_CLOSERS) + "\"'"
    yield rf"(?P<plain>(?<=[{stops}])(?={_HAN}))"
    yield rf"(?<=[{stops}])(?:[{stops}?]|!(?!\[)|[…⋯]+(?=[{stops}!?{ends}]))*"
    yield r"(?<=\.)(?<!\.\.)(?![\x21\x23-\x26+-;=-Z\\^_a-z{|~])"
    yield rf"(?<=[!?])(?<! .)(?:(?![\w=(\[{{<>/\\&|%$#@:,;-])|(?<={_CJK}.)(?!\[)|(?={_CJK}))(?:[{stops}?]|!(?!\[))*"
    yield r"(?<=．)(?<![\d．]．)(?![\d．])"
    yield rf"(?<=[~～])(?<![~～]{{2}})[~～]*(?={_CJK})"
    if options.ellipsis != "never":
        after = rf"(?=[ {ends}])" if options.ellipsis == "auto" else r"(?!\w)"
        yield rf"(?<=\.)(?<!\.\.)\.{{2,}}{after}"
        yield rf"(?<=[…⋯])(?<![…⋯]{{2}})[…⋯]*" + (rf"(?=[{ends}])" if options.ellipsis == "auto" else "")
    if options.semicolon:
        yield rf"(?<=;)(?=\s|{_CJK})"
    if options.colon:
        yield rf"(?<=：)(?!(?<=\d：)\d)|(?<=:)(?=\s|{_CJK})"


_SHIELDED = (
    rf"(?<=[{re.escape(''.join(_BRACKETS))}])[^{re.escape(_OPENERS + _CLOSERS)}\"'`]{{0,{_LONGEST_BRACKET}}}"
    rf"(?<![{_STOPS}.!?])[{re.escape(''.join(_BRACKETS.values()))}]",
    rf"(?<=[{re.escape(''.join(_QUOTES))}])[^{re.escape(_OPENERS + _CLOSERS)}\"'`{_STOPS}.!?…⋯]{{0,{_LONGEST_QUOTE}}}"
    rf"[{re.escape(''.join(_QUOTES.values()))}]",
)
_PAIRED = (
    rf"(?P<open>(?<=[{re.escape(_OPENERS)}]))",
    rf"(?P<close>(?<=[{re.escape(_CLOSERS)}]))",
    r"(?P<either>(?<=\")|(?<=')(?:(?<![A-Za-z0-9]')|(?![A-Za-z0-9])))",
    r"(?P<emphasis>(?<=\*)\*{0,2}|(?<=_)_)",
)
_LITERAL = (
    r"(?<=`)(?:[^`]{1,400}`|`+[^`]{1,400}``+)",
    r"(?<=\$)(?:\$[^$]{1,400}\$\$|[^\s$。！？](?:[^$。！？]{0,198}[^\s$。！？])?\$(?!\d))",
    r"(?<=<)(?:/?[A-Za-z][^<>]{0,300}|!--[^<]{0,400}--)>",
    r"(?<=:)//[^\s()<>\"'`\u0080-\U0010ffff]*[\w/#=&-]",
)
_PAIRABLE = re.compile(rf"[{re.escape(_CLOSERS)}\"'`$<:*_]")


@lru_cache(maxsize=64)
def _patterns(options: ChineseSentenceTokenizer) -> _Patterns:
    stops = _STOPS + "；" * options.semicolon
    first = re.escape(stops + ".!?．~～…⋯" + ";" * options.semicolon + "：:" * options.colon)
    mark = "|".join(_mark_patterns(options, stops))
    at_end = rf"(?!{_BLANK}*(?:{_NEWLINE}|\Z))" if options.newline == "line" else ""
    token = "|".join([mark, *_SHIELDED, *_PAIRED, *_LITERAL])
    return _Patterns(
        re.compile(rf"[{first}](?<![{stops}]{{2}})(?:{mark}){at_end}"),
        re.compile(rf"[{first}](?:{mark})"),
        re.compile(rf"[{first}{re.escape(_OPENERS + _CLOSERS)}\"'`$<:*_](?:{token})"),
    )


# ------------------------------------------------------------------------------------------------ pairs


@dataclass(slots=True, eq=False)
class _Pair:
    """A quote or bracket: where it opens, in what, and where it closes (-1 until that is known)."""

    start: int
    kind: str
    parent: _Pair | None
    is_quote: bool
    end: int = -1
    role: str = ""


class _Nesting:
    """The quotes and brackets of one block, paired while it is read from left to right."""

    def __init__(self, text: str, lo: int, hi: int) -> None:
        self.text = text
        self.top: _Pair | None = None
        self.pairs: list[_Pair] = []
        self.closing: dict[int, int] = {}  # where a symmetric mark (" ' **) closes -> where it ends
        self.waiting: defaultdict[str, list[_Pair]] = defaultdict(list)
        self.emphasis: set[str] = set()
        self.straight = _KINDS["“"] if text.count('"', lo, hi) % 2 else '"'  # an odd one out pairs with a curly one

    def open(self, at: int, kind: str, is_quote: bool) -> None:
        self.top = _Pair(at, kind, self.top, is_quote)
        self.pairs.append(self.top)
        self.waiting[kind].append(self.top)

    def close(self, at: int, kind: str) -> None:
        """Close the nearest open pair of this kind; what opened inside it and is still open has no partner."""
        waiting = self.waiting[kind]
        if not waiting:
            return
        partner = waiting[-1]
        if at - partner.start > (_LONGEST_QUOTE if partner.is_quote else _LONGEST_BRACKET):
            waiting.clear()
            return
        pair = self.top
        while pair is not partner and pair is not None:
            if self.waiting[pair.kind]:
                self.waiting[pair.kind].pop()
            pair = pair.parent
        waiting.pop()
        partner.end = at
        self.top = partner.parent

    def toggle(self, at: int) -> None:
        """A straight quote closes the one that is open, or else opens; after a letter or digit it is an apostrophe or inch."""
        kind = self.straight if self.text[at] == '"' else "'"
        before = self.text[at - 1] if at else " "
        if self.waiting[kind] and at - self.waiting[kind][-1].start <= _LONGEST_QUOTE:
            self.closing[at] = at + 1
            self.close(at, kind)
        elif not (before.isdigit() or (kind == "'" and before.isascii() and before.isalnum())):
            self.open(at, kind, is_quote=True)

    def emphasise(self, at: int, end: int) -> None:
        run = self.text[at:end]
        if run in self.emphasis:
            self.emphasis.remove(run)
            self.closing[at] = end
        elif not self.text[end : end + 1].isspace():
            self.emphasis.add(run)

    def settle(self) -> None:
        """Make each pair's parent the nearest one that was closed."""
        for pair in self.pairs:
            if pair.parent is not None and pair.parent.end < 0:
                pair.parent = pair.parent.parent


# ------------------------------------------------------------------------------------------------ blocks


class _Block:
    """One line or paragraph, whose marks are judged in order."""

    def __init__(self, text: str, lo: int, hi: int, options: ChineseSentenceTokenizer) -> None:
        self.text, self.lo, self.hi, self.options = text, lo, hi, options
        self.start = lo
        self.closing: dict[int, int] = {}

    def _marks(self) -> Iterable[tuple[re.Match[str], _Pair | None]]:
        """Each mark with the innermost quote or bracket that was open before it."""
        text, lo, hi = self.text, self.lo, self.hi
        patterns = _patterns(self.options)
        if not _PAIRABLE.search(text, lo, hi):
            return zip(patterns.mark.finditer(text, lo, hi), repeat(None))
        nesting = _Nesting(text, lo, hi)
        marks = []
        for found in patterns.token.finditer(text, lo, hi):
            role = found.lastgroup
            at = found.start()
            if role == "open":
                nesting.open(at, _KINDS[text[at]], text[at] in _QUOTES)
            elif role == "close":
                nesting.close(at, _KINDS[text[at]])
            elif role == "either":
                nesting.toggle(at)
            elif role == "emphasis":
                nesting.emphasise(at, found.end())
            elif role == "mark" or role == "plain":
                marks.append((found, nesting.top))
        nesting.settle()
        self.closing = nesting.closing
        return marks

    def cuts(self) -> list[int]:
        text, hi, cuts = self.text, self.hi, []
        if text[self.lo] == "|" and text[self.lo : hi].rstrip().endswith("|"):
            return []
        for found, pair in self._marks():
            if found.start() <= self.start:
                continue
            if pair is None and found.lastgroup == "plain":
                cut = found.end()
            else:
                cut = self._judge(found.start(), found.end(), pair)
            if self.start < cut < hi:
                cuts.append(cut)
                self.start = cut
        return cuts
