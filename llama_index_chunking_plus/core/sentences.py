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
_ELLIPSES = ("…", "⋯")
_FULL_STOPS = "。｡︒.．"
_SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_QUOTES = dict(zip("“‘「『﹁﹃〝«｢", "”’」』﹂﹄〞»｣", strict=True))
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
_OPENERS = "".join([*_QUOTES, *_BRACKETS])
_CLOSERS = "".join([*_QUOTES.values(), *_BRACKETS.values()])
_HALF_WIDTH = str.maketrans("）］｝", ")]}")
_KINDS = {char: pair[1].translate(_HALF_WIDTH) for pair in (_QUOTES | _BRACKETS).items() for char in pair}

_CURLY = _KINDS["“"]
_CURLY_QUOTE = re.compile("[“”]")

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
    | {_IN_CLAUSE}{{0,8}}?(?P<gesture>{_GESTURES})
    | {_IN_CLAUSE}{{1,24}}[，,]{_BLANK}*[“「『‘"']
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
_BRACKETED = rf"[\[［〔【](?:[注註^]?{_NUMBERS}|[a-z]|[来來]源[请請]求|\^\w{{1,20}})[\]］〕】]"
_NOTES = rf"{_BRACKETED}(?:[-–—~～,，、]?{_BRACKETED})*|[¹²³⁰-⁹]+|[①-⑳❶-❿†‡]|<sup>[^<>]{{0,20}}</sup>"
_EMOTICONS = (
    r"\[(?:微笑|大笑|偷笑|笑哭|哈哈|嘻嘻|大哭|流泪|捂脸|害羞|爱心|玫瑰|鲜花|鼓掌|握手|抱拳|加油|拥抱|呲牙|可爱|调皮|[笑哭泪心强赞耶]|doge)\]"
    r"|[:;=]-?[)(DP](?![A-Za-z0-9])|\^[_.o]?\^|[Tt]_[Tt]|[（(][^（）()\u3400-\u9fff\dA-SU-Za-np-z]{2,10}[）)]"
)
_TAGS = r"</[A-Za-z][A-Za-z0-9:-]{0,30}\s?>|<br\s?/?>|&(?:nbsp|emsp|ensp|gt|rdquo|rsquo);"
_ORNAMENT = re.compile(rf"(?P<emoji>(?:{_EMOJI}|{_EMOTICONS})+)|[ ]?(?P<note>{_NOTES})|(?P<tag>{_TAGS})")
_ORNAMENTS = re.compile(rf"(?:(?:{_ORNAMENT.pattern})[{_STOPS}{re.escape(_CLOSERS)}]*){{0,9}}")
_NOTE = re.compile(_NOTES)
_NOTE = re.compile(_NOTES)
_LABEL = r"(?:第?[\d一二三四五六七八九十]{1,3}[章节節条條步题題]?|[A-Za-z]\d{0,3}|[IVX]{1,5}|[ivx]{1,5})(?:\.\d{1,3})*"
_ITEM = re.compile(rf"[\W_]{{0,16}}(?:(?:Chapter|Section|Part|Step|Figure|Fig|Table|Appendix|附[录錄]|[图圖表])[ .]*)?{_LABEL}")
_ITEM_DOT = re.compile(rf"[\W_]{{0,16}}{_LABEL}[.．、]")
_LABEL_BACKWARDS = re.compile(r"(?:\d{1,3}|[一二三四五六七八九十]{1,3}|[A-Za-z])(?=\s)")
_REFERENCE = re.compile(r"\[(?:[JMDCNRSPGA]|EB|DB)(?:/OL)?\]")
_BARE = re.compile(r"[\W_]*(?:\d{1,3}|[A-Za-z])?[\W_]*")
_SOURCE = re.compile(rf"[（(][^（）(){_STOPS}\n]{{1,30}}[）)]")
_FENCE = re.compile(r"\n[ >]{0,3}(`{3,}|~{3,})[^`\n]*")
_CAPITAL = re.compile(r" +[A-Z]")
_NUMERAL = re.compile(r"\s*[(（]?[\d一二三四五六七八九十]")
_SHORTEST_WRAPPED = 18
_FRESH_LINE = re.compile(
    r"[　\t#>|*+•·●-]|\s{2}|[(（]?[\d一二三四五六七八九十]{1,3}[)）.．、]|第[\d一二三四五六七八九十百零]{1,6}[章节條条编款]|[①-⑳]|```|$"
)
_INTRODUCERS = ("：", ":", "，", ",", "—", "曰", "道")
_OPERATOR = re.compile(r"\s*[=<>+*/|&]")
_ENTITY = re.compile(r"&#?\w{1,8};")
_LATIN_BACKWARDS = re.compile(r"[0-9A-Za-z.'’&-]*")
_WORD = re.compile(rf"{_BLANK}*([^\W_]*)")


class _Patterns(NamedTuple):
    """What to look for under one set of options."""

    candidate: re.Pattern[str]  # a character that might end a sentence before the end of its line
    mark: re.Pattern[str]  # a run of such characters
    token: re.Pattern[str]  # a mark, a quote or bracket, or a stretch in which nothing ends


class _MarkRule(NamedTuple):
    """When a character may end a sentence (a look-around behind it), and what else belongs to the mark."""

    when: str
    run: str = ""


def _mark_rules(options: ChineseSentenceTokenizer, stops: str) -> Iterator[_MarkRule]:
    """The rules for marks, the most frequent first."""
    closers = re.escape(_CLOSERS) + "\"'"
    run = rf"[{stops}?!…⋯]*(?<!!(?=\[))(?:(?<![…⋯])|(?=[{closers}]))"
    yield _MarkRule(rf"(?<=[{stops}])(?={_HAN})")
    yield _MarkRule(rf"(?<=[{stops}])", run)
    yield _MarkRule(r"(?<=\.)(?<!\.\.)(?![\x21\x23-\x26+-;=-Z\\^_a-z{|~])")
    yield _MarkRule(rf"(?<=[!?])(?<! .)(?:(?![\w=(\[{{<>/\\&|%$#@:,;-])|(?<={_CJK}.)(?!\[)|(?={_CJK}))", run)
    yield _MarkRule(r"(?<=．)(?<![\d．]．)(?![\d．])")
    yield _MarkRule(rf"(?<=[~～])(?<![~～]{{2}})(?=[~～]*[ ]?{_CJK})", "[~～]*")
    if options.ellipsis == "auto":
        yield _MarkRule(r"(?<=[…⋯])(?<![…⋯]{2})(?=[…⋯]{3}(?![…⋯]))", "[…⋯]")
        yield _MarkRule(rf"(?<=[…⋯])(?<![…⋯]{{2}})(?=[…⋯]*[{closers}])", "[…⋯]*")
        yield _MarkRule(rf"(?<=\.)(?<!\.\.)(?=\.{{2,}}[ {closers}])", r"\.*")
    elif options.ellipsis == "always":
        yield _MarkRule(r"(?<=[…⋯])(?<![…⋯]{2})", "[…⋯]*")
        yield _MarkRule(r"(?<=\.)(?<!\.\.)(?=\.{2,}(?!\w))", r"\.*")
    if options.semicolon:
        yield _MarkRule(rf"(?<=;)(?=\s|{_CJK})")
    if options.colon:
        yield _MarkRule(r"(?<=：)(?!(?<=\d：)\d)")
        yield _MarkRule(rf"(?<=:)(?=\s|{_CJK})")


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
    r"(?P<emphasis>(?<=\*)\*{0,2}|(?<=_)(?:_|(?<![A-Za-z0-9]_)|(?![A-Za-z0-9])))",
)
_LITERAL = (
    r"(?<=`)(?:[^`]{1,400}`|`{1,2}[^`]{1,400}`{2,3})",
    r"(?<=\$)(?:\$[^$]{1,400}\$\$|[^\s$。！？](?:[^$。！？]{0,198}[^\s$。！？])?\$(?!\d))",
    r"(?<=<)(?:/?[A-Za-z][A-Za-z0-9:-]{0,30}(?:\s[^<>]{0,300})?/?|!--[^<]{0,400}--)>",
    r"(?<=:)//[^\s()<>\"'`\u0080-\U0010ffff]{0,2000}[A-Za-z0-9_/#=&-]",
)
_PAIRABLE = re.compile(rf"[{re.escape(_CLOSERS)}\"'`$<:*_]")


@lru_cache(maxsize=64)
def _patterns(options: ChineseSentenceTokenizer) -> _Patterns:
    stops = _STOPS + "；" * options.semicolon
    first = re.escape(stops + ".!?．~～…⋯" + ";" * options.semicolon + "：:" * options.colon)
    plain, *others = _mark_rules(options, stops)
    mark = f"(?P<plain>{plain.when})|(?P<mark>{'|'.join(rule.when + rule.run for rule in others)})"
    inside_line = rf"(?!{_BLANK}*(?:{_NEWLINE}|\Z))" if options.newline == "line" else ""
    token = "|".join([mark, *_SHIELDED, *_PAIRED, *_LITERAL])
    return _Patterns(
        re.compile(rf"[{first}](?:{'|'.join(rule.when for rule in others)}){inside_line}"),
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
        self.turned: set[int] = set()  # where a ” opens
        self.emphasis: set[str] = set()
        self.straight = _CURLY if text.count('"', lo, hi) % 2 else '"'  # an odd one out pairs with a curly one

    def open(self, at: int, kind: str, is_quote: bool) -> None:
        self.top = _Pair(at, kind, self.top, is_quote)
        self.pairs.append(self.top)
        self.waiting[kind].append(self.top)

    def close(self, at: int, kind: str) -> None:
        """Close the nearest open pair of this kind; what opened inside it and is still open has no partner."""
        waiting = self.waiting[kind]
        if not waiting:
            if kind == _CURLY and self._is_turned(at):
                self.turned.add(at)
                self.open(at, kind, is_quote=True)
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

    def _is_turned(self, at: int) -> bool:
        """Whether a ” was typed for “: it stands after a stop and before text, and the next quote is another ”."""
        text = self.text
        if text[at - 1 : at] not in _STOPS or not text[at + 1 : at + 2].isalpha():
            return False
        partner = _CURLY_QUOTE.search(text, at + 1, at + _LONGEST_QUOTE)
        return partner is not None and partner.group() == "”"

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


class _Judge:
    """Judges the marks of a text block by block: lines, or paragraphs if newlines do not count."""

    def __init__(self, text: str, options: ChineseSentenceTokenizer, patterns: _Patterns) -> None:
        self.text, self.options, self.patterns = text, options, patterns
        self.lo = self.hi = self.start = 0  # the block, and the sentence that is being read
        self.closing: dict[int, int] = {}
        self.turned: set[int] = set()

    def cuts(self, lo: int, hi: int) -> list[int]:
        """Where a sentence ends inside the block ``text[lo:hi]``; the end of the block itself is left out."""
        self.lo, self.hi, self.start = lo, hi, lo
        if self._is_table_row():
            return []
        cuts = []
        for found, pair in self._marks():
            first, cut = found.span()
            if first <= self.start:
                continue
            if pair is not None and pair.end < 0:
                pair = pair.parent
            if pair is not None or found.lastgroup != "plain":
                cut = self._judge(first, cut, pair)
            if cut >= hi:
                break
            if cut:
                cuts.append(cut)
                self.start = cut
        return cuts

    def _marks(self) -> Iterable[tuple[re.Match[str], _Pair | None]]:
        """Each mark with the innermost quote or bracket that was open before it."""
        text, lo, hi = self.text, self.lo, self.hi
        if not _PAIRABLE.search(text, lo, hi):
            return zip(self.patterns.mark.finditer(text, lo, hi), repeat(None))
        nesting = _Nesting(text, lo, hi)
        marks = []
        for found in self.patterns.token.finditer(text, lo, hi):
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
            elif role is not None:
                marks.append((found, nesting.top))
        nesting.settle()
        self.closing, self.turned = nesting.closing, nesting.turned
        return marks

    def _is_table_row(self) -> bool:
        return self.text[self.lo] == "|" and self.text[self.lo : self.hi].rstrip().endswith("|")

    def _judge(self, first: int, after: int, pair: _Pair | None) -> int:
        """Where the sentence that the mark ``text[first:after]`` ends has its own end, or 0 if it goes on."""
        end, closed, pair = self._close(after, pair)
        if self._is_shielded(pair):
            return 0
        cut = self._tail(end, closed)
        following = self.text[cut : cut + 1] if cut < self.hi else ""
        if following and (following in _SEPARATORS or following in _STOPS or (closed and following in "—–…⋯")):
            return 0
        dressed = end > after or self.text[end : end + 1] == "<"
        if dressed and (following.islower() or _CONTINUES.match(self.text, cut, self.hi)):
            return 0
        if closed is None or closed.is_quote:
            ends = self._mark_ends(first, after, end, closed)
        else:
            ends = self._aside_ends(closed, first, after)
        return cut if ends else 0

    def _close(self, end: int, pair: _Pair | None) -> tuple[int, _Pair | None, _Pair | None]:
        """Step over the closers at ``end``: the new end, the outermost pair they close, the pair around it."""
        text, closed = self.text, None
        while end < self.hi:
            spaced = pair is not None and pair.end == end + 1 and text[end] == " "
            if pair is not None and (pair.end == end or spaced):
                closed, end, pair = pair, pair.end + 1, pair.parent
            elif end in self.closing:
                end = self.closing[end]
            elif text[end] in _CLOSERS and end not in self.turned:
                end += 1
            else:
                break
        return end, closed, pair

    def _tail(self, end: int, closed: _Pair | None) -> int:
        """Step over emoji, notes, closing tags, the source of a quotation, and the white space after them."""
        text, hi = self.text, self.hi
        if text[end : end + 1].isalpha():
            return end
        source = _SOURCE.match(text, end, hi) if closed and closed.is_quote else None
        end = source.end() if source else end
        ornament = _ORNAMENT.match(text, end, hi)
        if ornament and not self._opens_item(ornament):
            end = _end_of(_ORNAMENTS, text, end, hi)
        return _end_of(_TRAILING, text, end, hi)

    def _opens_item(self, ornament: re.Match[str]) -> bool:
        """Whether the emoji or number is a bullet: the sentence that ends here began with its like."""
        text, at = self.text, ornament.start()
        colon = max(text.rfind("：", self.start, at), text.rfind(":", self.start, at))
        head = _end_of(_LEADING, text, self.start if colon < 0 else colon + 1, at)
        if ornament.lastgroup == "emoji":
            return text[head] == text[at]
        return ornament.lastgroup == "note" and _NOTE.match(text, head, at) is not None

    def _is_shielded(self, pair: _Pair | None) -> bool:
        while pair is not None:
            if not pair.is_quote or self.options.quotes == "keep":
                return True
            if self._role(pair) == "embedded" and not self._is_long(pair):
                return True
            pair = pair.parent
        return False

    def _is_long(self, pair: _Pair) -> bool:
        return pair.end - pair.start > _LONG_QUOTE and self.text[pair.end - 1] in _FULL_STOPS

    def _role(self, pair: _Pair) -> str:
        """How a quotation stands in its sentence: "speech" after ：or ，, "opening" at the start, else "embedded"."""
        if not pair.role:
            floor = max(self.start, pair.start - 12)
            before = self.text[floor : pair.start].rstrip()
            if _CONTINUES.match(self.text, pair.end + 1, self.hi):
                pair.role = "embedded"
            elif before.endswith(_INTRODUCERS):
                pair.role = "speech"
            elif floor == self.start and _BARE.fullmatch(before):
                pair.role = "opening"
            else:
                pair.role = "embedded"
        return pair.role

    def _aside_ends(self, closed: _Pair, first: int, after: int) -> bool:
        """A mark that ends a bracket ends the sentence if the bracket is a sentence, or if it is 。."""
        if closed.kind != ")" or self.text[first] == ".":
            return False
        before = self.text[max(self.start, closed.start - 12) : closed.start]
        is_sentence = not before.strip() and closed.end - closed.start > _LONG_ASIDE
        return is_sentence or self.text[after - 1] in _FULL_STOPS

    def _quotation_ends(self, closed: _Pair, first: int, after: int, end: int) -> bool:
        role = self._role(closed)
        if role == "speech":
            return True
        if self.text[first] in "…⋯":
            return self.options.ellipsis == "always" or (role == "opening" and self.text[end : end + 1] in _QUOTES)
        is_statement = self.text[after - 1] in _FULL_STOPS
        if role == "opening":
            said = _SAID.match(self.text, end, self.hi)
            return said is None or (is_statement and said.lastgroup == "gesture")
        return is_statement

    def _mark_ends(self, first: int, after: int, end: int, closed: _Pair | None) -> bool:
        text, char = self.text, self.text[first]
        if char == "." and after == first + 1 and not self._dot_ends(first, end):
            return False
        if closed is not None:
            return self._quotation_ends(closed, first, after, end)
        if char in ".…⋯" and (char != "." or after > first + 1):
            resumes = char == "." and _CAPITAL.match(text, end, self.hi) or text[end : end + 1] in _ELLIPSES
            return self.options.ellipsis == "always" or bool(resumes)
        if char in "~～":
            return text[max(first, self.hi - 9) : self.hi].rstrip().endswith(("~", "～"))
        if char in "!?" and after == first + 1:
            return self._bang_ends(first, end)
        return char != ";" or not any(m.end() > first for m in _ENTITY.finditer(text, max(self.lo, first - 9), after))

    def _bang_ends(self, at: int, end: int) -> bool:
        text, word = self.text, self._word_before(at)
        if _OPERATOR.match(text, end, self.hi):
            return False
        if text[at] == "?" or not word.isalpha():
            return True
        before = at - len(word) - 1
        is_name = before >= self.start and text[before].isalpha() and "！" in text[max(self.lo, at - 200) : at + 200]
        return not (word in _BRANDS or len(word) == 1 or is_name)

    def _word_before(self, at: int) -> str:
        backwards = self.text[max(self.start, at - 24) : at][::-1]
        return backwards[: _end_of(_LATIN_BACKWARDS, backwards, 0, 24)][::-1]

    def _dot_ends(self, at: int, end: int) -> bool:
        text, hi = self.text, self.hi
        if self._labels_item(at):
            return False
        word = self._word_before(at)
        word_after = _WORD.match(text, end, hi)
        follow = word_after.group(1) if word_after else ""
        if not word:
            return not follow[:1].islower()
        lower = word.lower()
        if follow[:1].islower() or word in _TITLES or lower in _TITLES:
            return False
        if lower in _NUMBERED and _NUMERAL.match(text, end, hi):
            return False
        if word in _SHORTENED or lower in _SHORTENED or _INITIALS.fullmatch(word):
            return follow in _STARTERS and len(word) > 1
        return not (word.isdigit() and follow and not text[end].isspace())

    def _labels_item(self, at: int) -> bool:
        """Whether the dot follows a number or letter that opens the sentence, or a list item within it."""
        text, start = self.text, self.start
        if _ITEM.fullmatch(text, start, at):
            return True
        return bool(_LABEL_BACKWARDS.match(text[max(start, at - 4) : at][::-1]) and _ITEM_DOT.match(text, start, at))


def _end_of(pattern: re.Pattern[str], text: str, start: int, stop: int) -> int:
    """Where a pattern that can match nothing stops matching."""
    found = pattern.match(text, start, stop)
    return found.end() if found else start


# ------------------------------------------------------------------------------------------------ tokenizer


def _code_fences(text: str) -> list[int]:
    """Where fenced code starts and ends, in turn; a fence that is never closed is none."""
    edges: list[int] = []
    opened = ""
    start = 0
    for found in _FENCE.finditer("\n" + text):
        run = found.group(1)
        if not opened:
            opened, start = run, found.start()
        elif run.startswith(opened):
            edges += [start, found.end()]
            opened = ""
    return edges


def _unwrapped(text: str, breaks: list[int]) -> list[int]:
    """The breaks without those that merely wrap a long line."""
    kept, line = [], 0
    for end in breaks:
        if not _is_wrapped(text, line, end):
            kept.append(end)
        line = end
    return kept


def _is_wrapped(text: str, start: int, end: int) -> bool:
    body = text[start:end].rstrip()
    gap = text[start + len(body) : end]
    return (
        len(body) >= _SHORTEST_WRAPPED
        and len(gap.splitlines()) == 1
        and gap != "\u2029"
        and body.rstrip(_CLOSERS + "\"'*_")[-1:] not in _STOPS + "!?.…⋯：:|"
        and body[0] not in "#|"
        and not _FRESH_LINE.match(text, end)
    )


def _off_combining(text: str, ends: list[int]) -> list[int]:
    """The ends, moved on past combining marks, variation selectors and joiners."""
    stuck = {char for char in set(map(text.__getitem__, ends[:-1])) if char == "\u200d" or category(char)[0] == "M"}
    if not stuck:
        return ends
    moved: list[int] = []
    for end in ends:
        while end < len(text) and (text[end] == "\u200d" or category(text[end])[0] == "M"):
            end += 1
        if not moved or end > moved[-1]:
            moved.append(end)
    return moved


@dataclass(frozen=True)
class ChineseSentenceTokenizer:
    """x"""

    quotes: QuoteRule = "split"
    ellipsis: EllipsisRule = "auto"
    newline: NewlineRule = "line"
    semicolon: bool = False
    colon: bool = False

    def ends(self, text: str) -> list[int]:
        """The offset at which each sentence ends, ascending; the last is ``len(text)``."""
        breaks, patterns = self._breaks(text), _patterns(self)
        judge = _Judge(text, self, patterns)
        fences: list[int] | None = None
        ends: list[int] = []
        done = at = 0
        while found := patterns.candidate.search(text, at):
            fences = _code_fences(text) if fences is None else fences
            inside = bisect_right(fences, found.start())
            if inside % 2:
                at = fences[inside]
                continue
            index = bisect_right(breaks, found.start())
            ends += breaks[done:index]
            at = breaks[index]
            ends += judge.cuts(breaks[index - 1] if index else 0, at)
            done = index
        return _off_combining(text, ends + breaks[done:])

    def _breaks(self, text: str) -> list[int]:
        """The ends of the blocks; white space at the very start or end of the text makes none of its own."""
        lead, stop = _end_of(_LEADING, text, 0, len(text)), len(text.rstrip())
        breaks = [found.end() for found in _BREAKS[self.newline].finditer(text, lead)]
        if self.newline == "wrap":
            breaks = _unwrapped(text, breaks)
        while breaks and breaks[-1] >= stop:
            breaks.pop()
        return [*breaks, len(text)] if text else []

    def spans(self, text: str) -> list[Span]:
        """x"""
        return spans_between(self.ends(text))

    def __call__(self, text: str) -> list[str]:
        """x"""
        return [text[start:end] for start, end in pairwise([0, *self.ends(text)])]


_DEFAULT = ChineseSentenceTokenizer()


def chinese_sentence_tokenizer(text: str) -> list[str]:
    return _DEFAULT(text)
