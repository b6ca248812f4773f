r"""Where sentences end in Chinese text, and in the mixed text of real documents.

Contract: the spans tile the text (``"".join(pieces) == text``), no piece is empty, and no cut falls inside ``\r\n`` or
before a combining mark. White space up to the last newline goes with the sentence before it, indentation with the
sentence after it. Time is linear in the length of the text.

Source: GB/T 15834-2011 "General rules for punctuation". Only 句号 问号 叹号 are 句末点号 and end a sentence; 分号 冒号
逗号 顿号 are 句内点号; 引号 括号 书名号 省略号 破折号 are 标号, which decide what a mark inside or before them is
worth. Where the standard is silent (speech, several sentences in one quotation) the rules do what annotators of
treebanks did.

How: newlines cut the text into blocks. Where a block has a mark that might end a sentence, one pass pairs its quotes
and brackets and lists its marks; then each mark is judged by what encloses it, what closes after it and what follows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat
from typing import ClassVar, Literal, NamedTuple, get_args
from unicodedata import category

from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError

QuoteRule = Literal["split", "keep"]
EllipsisRule = Literal["auto", "always", "never"]
NewlineRule = Literal["line", "wrap", "paragraph"]

# ------------------------------------------------------------------------------------------------ characters

_STOPS = "。！？｡﹖﹗‼⁇⁈⁉︒︕︖।॥؟۔။។"
_FULL_STOPS = "。｡︒.．"
_ELLIPSES = "…⋯"
_SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_DASHES = "—–─"
_GOING_ON = _DASHES + _ELLIPSES + ".．!?"  # after a closing quote
_QUOTES = dict(zip("“‘「『﹁﹃〝«｢", "”’」』﹂﹄〞»｣", strict=True))
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
_CURLY, _ROUND = "”", ")"

_OPENERS = "".join([*_QUOTES, *_BRACKETS])
_CLOSERS = "".join([*_QUOTES.values(), *_BRACKETS.values()])
_HALF_WIDTH = str.maketrans("）］｝", ")]}")
_KINDS = {char: pair[1].translate(_HALF_WIDTH) for pair in (_QUOTES | _BRACKETS).items() for char in pair}

_LONGEST_QUOTE = 400  # characters; a quote whose partner is farther away has none
_LONGEST_BRACKET = 200  # characters, likewise
_LONG_QUOTE = 15  # characters; a longer quotation that ends in 。 is a sentence wherever it stands
_LONG_ASIDE = 6  # characters; a longer bracket at the start of a sentence may be a sentence
_NEARBY = 200  # characters; how far to look for the habits of a writer
_LONGEST_WORD = 24  # characters
_SHORTEST_WRAPPED = 18  # characters; a shorter line was not broken because it was full


def _any_of(*chars: str) -> str:
    return f"[{re.escape(''.join(chars))}]"


_NEWLINE = r"[\n\r\v\f\x85\u2028\u2029]"
_BLANK = r"[\s\u200b\u2060\ufeff]"
_HAN = r"[\u3400-\u9fff]"
_CJK = r"[\u2e80-\ud7ff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff]"
_ORDINAL = r"[\d一二三四五六七八九十]"
_EMOJI = (
    r"[\U0001f000-\U0001faff\u2600-\u2775\u2794-\u27bf\u231a-\u23ff\u2b05-\u2b55"
    r"\u3030\u303d\u200d\ufe0f\u20e3\U000e0020-\U000e007f]"
)
_CLOSE = _any_of(_CLOSERS)
_STOP_OR_CLOSE = _any_of(_STOPS, _CLOSERS)
_QUOTE_MARK = _any_of(*_QUOTES, "\"'")

# ------------------------------------------------------------------------------------------------ words


def _words(*lines: str) -> frozenset[str]:
    """The words as they are written; one in lower case stands for any case."""
    return frozenset(" ".join(lines).split())


_TITLES = _words("Dr Mr Mrs Ms Prof St Mt Messrs Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres e.g i.e viz cf vs ca al")
_NUMBERED = _words(
    "no nos vol vols fig figs eq eqs tab sec sect ch chap ref refs p pp art ex thm def v ver ext tel"
)  # an abbreviation only before a number
_SHORTENED = _words(
    "etc approx resp est Inc Ltd Co Corp Jr Sr Ph.D Univ Dept Ave Blvd Rd",
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec",
)
_STARTERS = _words(
    "The This That These Those He She It We They You I A An In On At As If But And So For When While However There Then"
)  # after these a shortened word has ended its sentence
_BRANDS = _words("Yahoo Joomla Jeopardy Wham Yum Kahoot")
_INITIALS = re.compile(r"[A-Z]|(?:[A-Za-z]\.)+[A-Za-z]")

_SAYS = (
    "(?<!知)[说說道问問喊叫答曰嚷吼骂罵念嘱囑叹嘆劝勸述](?![完罢罷明法话話])|表示|回[应應答复復]|[补補]充|解[释釋]|[强強][调調]|指出|"
    "安慰|提醒|反[驳駁]|催促|嘀咕|嘟囔|自[语語]|拒[绝絕]|感[叹嘆]|[开開]口|介[绍紹]|宣布|承[认認]|抱怨|命令|[请請]求|建[议議]|"
    "言った|答えた|聞いた|叫んだ"
)
_GESTURES = "指[着著了]|笑|[叹嘆]了|[皱皺]|[摇搖点點][着著了头頭]|瞪|盯|[望看][着著]"
_IN_CLAUSE = r"[^，。！？；：、“”\"「」『』…\n,.!?]"
_SAID = re.compile(
    rf"""{_BLANK}*(?:
      {_IN_CLAUSE}{{0,24}}?(?:{_SAYS})(?:[着著了道過过]|[起出][来來]|一?[声聲]){{0,2}}[他她我你它您们們大家众眾人]{{0,4}}
        (?:{_BLANK}*(?:[。！？.!?…]|$)|[，,]{_BLANK}*{_QUOTE_MARK})
    | {_IN_CLAUSE}{{0,8}}?(?P<gesture>{_GESTURES})
    | {_IN_CLAUSE}{{1,24}}[，,]{_BLANK}*{_QUOTE_MARK}
    | [^“”"「」『』\n.!?]{{0,40}}?\b(?:said|says|asked|asks|replied|answered|shouted|cried|whispered)\b
        [^“”"\n.!?]{{0,30}}[.,]
    )""",
    re.VERBOSE,
)  # the clause that tells who spoke
_CONTINUES = re.compile(
    rf"""{_BLANK}*(?:
      的(?![确確士])|是(?![次日夜时時年以故否])|和(?!往平以)|[与與](?![此会會])|及(?![时時至])|或(?![许許者])|[还還]是|而[不非]
    | [这這那][句个個番种種声聲样樣些几幾两兩三四一]|[一二两兩三四五六七八九十几幾数數][个個句字声聲词詞语語类類种種]
    | 等(?![到我他她你一等])|之[类類声聲名前际際]|[之以]?[后後](?![来來面])|字[样樣]|[声聲](?![称稱明])|[并並][不非没沒]
    | [为為][题題名]|[令让讓使]人|[键鍵号號]|就(?![在这這是算连連像])|便(?![宜利])|了(?![解不])|即可|[到至]{_QUOTE_MARK}
    | と(?!ても|ころ|にかく)|って|は(?!い)|が(?!ん)|を|に(?!わか)|の|も(?![うし])|で(?![もはす])
    )""",
    re.VERBOSE,
)  # what goes on with the sentence in which a quotation stands
_INTRODUCERS = ("：", ":", "，", ",", *_DASHES, "曰", "道")  # what stands before speech

# ------------------------------------------------------------------------------------------------ around a mark

_BREAK = rf"{_NEWLINE}(?:{_BLANK}*{_NEWLINE})?"
_BREAKS: dict[NewlineRule, re.Pattern[str]] = {
    "line": re.compile(_BREAK),
    "wrap": re.compile(_BREAK),
    "paragraph": re.compile(rf"(?:\r\n|\r(?!\n)|[\n\v\f\x85\u2028]){_BLANK}*{_NEWLINE}|\u2029"),
}
_LEADING = re.compile(rf"{_BLANK}*")
_TRAILING = re.compile(rf"{_BLANK}*{_NEWLINE}|{_BLANK}*")
_FENCE = re.compile(r"\n[ >]{0,3}(`{3,}|~{3,})[^`\n]*")
_WHOLE_LINE = re.compile(
    r"(?s:\|.*\|\s*\Z)"  # a row of a table
    r"|\s*\[\d{1,3}\].*\[(?:[A-Z]|EB|DB)(?:/OL)?\]"  # an entry of a bibliography with its GB/T 7714 type, as [J]
)
_FRESH_LINE = re.compile(
    rf"[　\t#>|*+•·●-]|\s{{2}}|[(（]?{_ORDINAL}{{1,3}}[)）.．、]|第(?:{_ORDINAL}|[百零]){{1,6}}[章节節條条编編款]"
    r"|[①-⑳]|```|$"
)  # a heading, list item, quote, table or indented paragraph

_NUMBERS = r"[\d０-９]{1,3}(?:[-–—~～,，、 ]+[\d０-９]{1,3})*"
_BRACKETED = rf"[\[［〔【](?:[注註^]?{_NUMBERS}|[a-z]|[来來]源[请請]求|\^\w{{1,20}})[\]］〕】]"
_NOTE = rf"{_BRACKETED}(?:[-–—~～,，、]?{_BRACKETED})*|[¹²³⁰-⁹]+|[①-⑳❶-❿†‡]|<sup>[^<>]{{0,20}}</sup>"
_EMOTICON = (
    r"\[(?:[笑哭泪心强赞耶]|[微大偷]笑|笑哭|哈哈|嘻嘻|大哭|流泪|捂脸|害羞|爱心|玫瑰|鲜花|鼓掌|握手|抱拳|加油|拥抱|doge)\]"
    r"|[:;=]-?[)(DP](?![A-Za-z0-9])|\^[_.o]?\^|[（(][^（）()\u3400-\u9fff\dA-SU-Za-np-z]{2,10}[）)]"
)
_TAG = r"</[A-Za-z][A-Za-z0-9:-]{0,30}\s?>|<br\s?/?>|&(?:nbsp|emsp|ensp|gt|rdquo|rsquo);"
_ORNAMENT = re.compile(rf"(?P<emoji>(?:{_EMOJI}|{_EMOTICON})+)|[ ]?(?P<note>{_NOTE})|(?P<tag>{_TAG})")
_ORNAMENTS = re.compile(rf"(?:(?:{_ORNAMENT.pattern}){_STOP_OR_CLOSE}*){{1,9}}")
_NOTE_START = re.compile(_NOTE)
_SOURCE = re.compile(rf"[（(][^（）(){_STOPS}\n]{{1,30}}[）)]")  # of a quotation

_LABEL = rf"(?:第?{_ORDINAL}{{1,3}}[章节節條条步题題]?|[A-Za-z]\d{{0,3}}|[IVX]{{1,5}}|[ivx]{{1,5}})(?:\.\d{{1,3}})*"
_LABELLED = r"(?:(?:Chapter|Section|Part|Step|Figure|Fig|Table|Appendix|附[录錄]|[图圖表])[ .]*)?"
_ITEM = re.compile(rf"[\W_]{{0,16}}{_LABELLED}{_LABEL}")
_ITEM_DOT = re.compile(rf"[\W_]{{0,16}}{_LABEL}[.．、]")
_LABEL_BACKWARDS = re.compile(r"(?:\d{1,3}|[一二三四五六七八九十]{1,3}|[A-Za-z])(?=\s)")
_NO_WORDS = re.compile(r"[\W_]*(?:\d{1,3}|[A-Za-z])?[\W_]*")
_WORD = re.compile(rf"{_BLANK}*([^\W_]*)")
_LATIN_BACKWARDS = re.compile(r"[0-9A-Za-z.'’&-]*")
_CAPITAL = re.compile(r" +[A-Z]")
_NUMERAL = re.compile(rf"\s*[(（]?(?:[A-Z]?{_ORDINAL}|[A-Z](?![A-Za-z]))")
_OPERATOR = re.compile(r"\s*[=<>+*/|&]")
_ENTITY_BACKWARDS = re.compile(r";\w{1,8}#?&")

# ------------------------------------------------------------------------------------------------ marks and pairs


class _MarkRule(NamedTuple):
    """When a character may end a sentence (look-around from behind it), and what else belongs to the mark."""

    when: str
    run: str = ""


def _mark_rules(options: ChineseSentenceTokenizer, stops: str) -> Iterator[_MarkRule]:
    """The rules for marks, the most frequent first."""
    close = _any_of(_CLOSERS, "\"'")
    run = rf"[{stops}?!…⋯]*(?<!!(?=\[))(?:(?<![…⋯])|(?={close}))"
    yield _MarkRule(rf"(?<=[{stops}])(?={_HAN})")
    yield _MarkRule(rf"(?<=[{stops}])", run)
    yield _MarkRule(r"(?<=\.)(?<!\.\.)(?![\x21\x23-\x26+-;=-Z\\^_a-z{|~])")
    yield _MarkRule(rf"(?<=[!?])(?<! .)(?:(?![\w=(\[{{<>/\\&|%$#@:,;-])|(?<={_CJK}.)(?!\[)|(?={_CJK}))", run)
    yield _MarkRule(r"(?<=．)(?<![\d．]．)(?![\d．])")
    yield _MarkRule(rf"(?<=[~～])(?<![~～]{{2}})(?=[~～]*[ ]?{_CJK})", "[~～]*")
    if options.ellipsis == "auto":
        yield _MarkRule(r"(?<=[…⋯])(?<![…⋯]{2})(?=[…⋯]{3}(?![…⋯]))", "[…⋯]")
        yield _MarkRule(rf"(?<=[…⋯])(?<![…⋯]{{2}})(?=[…⋯]*{close})", "[…⋯]*")
        yield _MarkRule(rf"(?<=\.)(?<!\.\.)(?=\.{{2,}}(?:[ ]|{close}))", r"\.*")
    elif options.ellipsis == "always":
        yield _MarkRule(r"(?<=[…⋯])(?<![…⋯]{2})", "[…⋯]*")
        yield _MarkRule(r"(?<=\.)(?<!\.\.)(?=\.{2,}(?![A-Za-z0-9]))", r"\.*")
    if options.semicolon:
        yield _MarkRule(rf"(?<=;)(?=\s|{_CJK})")
    if options.colon:
        yield _MarkRule(r"(?<=：)(?!(?<=\d：)\d)")
        yield _MarkRule(rf"(?<=:)(?=\s|{_CJK})")


_SYMMETRIC = "\"'`$<:*_"
_PAIRABLE = re.compile(_any_of(_CLOSERS, _SYMMETRIC))  # a block without one of these has no pairs
_UNPAIRED = f"[^{_any_of(_OPENERS, _CLOSERS)[1:-1]}\"'`"
_WHOLE = "|".join(
    [
        # too many quotes and brackets in a row to mean anything
        f"(?<={_any_of(_OPENERS, _CLOSERS)}){_any_of(_OPENERS, _CLOSERS)}{{40,}}",
        # brackets without a stop before the closer, and quotations without any
        rf"(?<={_any_of(*_BRACKETS)}){_UNPAIRED}]{{0,{_LONGEST_BRACKET}}}(?<![{_STOPS}.!?]){_any_of(*_BRACKETS.values())}",
        rf"(?<={_any_of(*_QUOTES)}){_UNPAIRED}{_STOPS}.!?…⋯]{{0,{_LONGEST_QUOTE}}}{_any_of(*_QUOTES.values())}",
        # code, mathematics, tags and comments, addresses
        r"(?<=`)(?:[^`]{1,400}`|`{1,2}(?:[^`]|`(?!`)){1,400}`{2,3})",
        r"(?<=\$)(?:\$[^$]{1,400}\$\$|[^\s$。！？](?:[^$。！？]{0,198}[^\s$。！？])?\$(?!\d))",
        r"(?<=<)(?:/?[A-Za-z][A-Za-z0-9:-]{0,30}(?:\s[^<>]{0,300})?/?|!--[^<]{0,400}--)>",
        r"(?<=:)//[^\s()<>\"'`\u0080-\U0010ffff]{0,2000}[A-Za-z0-9_/#=&-]",
    ]
)
_PAIRED = "|".join(
    [
        rf"(?P<open>(?<={_any_of(_OPENERS)}))",
        rf"(?P<close>(?<={_CLOSE}))",
        r"(?P<straight>(?<=\")|(?<=')(?:(?<![A-Za-z0-9]')|(?![A-Za-z0-9])))",
        r"(?P<emphasis>(?<=\*)\*{0,2}|(?<=_)(?:_|(?<![A-Za-z0-9]_)|(?![A-Za-z0-9])))",
    ]
)


class _Patterns(NamedTuple):
    """What to look for under one set of options; each begins with one class of characters, which makes it fast."""

    candidate: re.Pattern[str]  # a character that might end a sentence before the end of its line
    mark: re.Pattern[str]  # a run of such characters
    token: re.Pattern[str]  # a mark, half a pair, or a stretch in which nothing ends


@lru_cache(maxsize=64)
def _patterns(options: ChineseSentenceTokenizer) -> _Patterns:
    stops = _STOPS + "；" * options.semicolon
    first = stops + ".!?．~～…⋯" + ";" * options.semicolon + "：:" * options.colon
    plain, *rules = _mark_rules(options, stops)
    when = "|".join(rule.when for rule in rules)
    mark = f"(?P<plain>{plain.when})|(?P<mark>{'|'.join(rule.when + rule.run for rule in rules)})"
    inside_line = rf"(?!{_BLANK}*(?:{_NEWLINE}|\Z))" if options.newline == "line" else ""
    return _Patterns(
        re.compile(f"{_any_of(first)}(?:{when}){inside_line}"),
        re.compile(f"{_any_of(first)}(?:{mark})"),
        re.compile(f"{_any_of(first, _OPENERS, _CLOSERS, _SYMMETRIC)}(?:{mark}|{_WHOLE}|{_PAIRED})"),
    )


@dataclass(slots=True, eq=False)
class _Pair:
    """A quote or bracket: where it opens, in what, and where it closes (-1 until that is known)."""

    start: int
    kind: str
    parent: _Pair | None
    is_quote: bool
    end: int = -1
    role: Literal["", "speech", "opening", "embedded"] = ""


class _Nesting:
    """The quotes and brackets of one block, paired while it is read from left to right."""

    def __init__(self, text: str, lo: int, hi: int) -> None:
        self.text = text
        self.top: _Pair | None = None
        self.pairs: list[_Pair] = []
        self.closing: dict[int, int] = {}  # where a symmetric mark (" ' **) closes: where it ends
        self.turned: set[int] = set()  # where a ” opens
        self._waiting: defaultdict[str, list[_Pair]] = defaultdict(list)
        self._emphasis: set[str] = set()
        self._straight = _CURLY if text.count('"', lo, hi) % 2 else '"'  # the odd one out pairs with a curly one

    def open(self, at: int, kind: str, *, is_quote: bool) -> None:
        self.top = _Pair(at, kind, self.top, is_quote)
        self.pairs.append(self.top)
        self._waiting[kind].append(self.top)

    def close(self, at: int, kind: str) -> None:
        """Close the nearest open pair of this kind; what opened inside it and is still open has no partner."""
        waiting = self._waiting[kind]
        if waiting and at - waiting[-1].start > (_LONGEST_QUOTE if waiting[-1].is_quote else _LONGEST_BRACKET):
            waiting.clear()
        if not waiting:
            if kind == _CURLY and self._is_turned(at):
                self.turned.add(at)
                self.open(at, kind, is_quote=True)
            return
        partner, inner = waiting[-1], self.top
        while inner is not None and inner is not partner:
            if self._waiting[inner.kind]:
                self._waiting[inner.kind].pop()
            inner = inner.parent
        waiting.pop()
        partner.end = at
        self.top = partner.parent

    def _is_turned(self, at: int) -> bool:
        """Whether a ” was typed for “: it stands after a stop and before text, and the next quote is another ”."""
        text = self.text
        if text[at - 1 : at] not in _STOPS or not text[at + 1 : at + 2].isalpha():
            return False
        partner = text.find(_CURLY, at + 1, at + _LONGEST_QUOTE)
        return partner > 0 and text.find("“", at + 1, partner) < 0

    def toggle(self, at: int) -> None:
        """Let a straight quote close the open one, or else open; after a letter or digit it is no quote (it's, 5")."""
        kind = self._straight if self.text[at] == '"' else "'"
        before = self.text[at - 1 : at]
        if self._waiting[kind] and at - self._waiting[kind][-1].start <= _LONGEST_QUOTE:
            self.closing[at] = at + 1
            self.close(at, kind)
        elif not (before.isdigit() or (kind == "'" and before.isascii() and before.isalnum())):
            self.open(at, kind, is_quote=True)

    def emphasise(self, at: int, end: int) -> None:
        run = self.text[at:end]
        if run in self._emphasis:
            self._emphasis.remove(run)
            self.closing[at] = end
        elif not self.text[end : end + 1].isspace():
            self._emphasis.add(run)

    def settle(self) -> None:
        """Make the parent of each pair the nearest one that was closed."""
        for pair in self.pairs:
            if pair.parent is not None and pair.parent.end < 0:
                pair.parent = pair.parent.parent


# ------------------------------------------------------------------------------------------------ judgement


def _end_of(pattern: re.Pattern[str], text: str, start: int, stop: int) -> int:
    """Where the pattern stops matching, or ``start`` if it does not match."""
    found = pattern.match(text, start, stop)
    return found.end() if found else start


class _Mark(NamedTuple):
    """The mark ``text[first:after]``; ``end`` is behind the quotes and brackets that close after it."""

    first: int
    after: int
    end: int


class _Judge:
    """Judges the marks of a text block by block, in order."""

    def __init__(self, text: str, options: ChineseSentenceTokenizer, patterns: _Patterns) -> None:
        self.text, self.options, self.patterns = text, options, patterns
        self.lo = self.hi = self.start = 0  # the block, and the sentence that is being read
        self.closing: dict[int, int] = {}
        self.turned: set[int] = set()

    def cuts(self, lo: int, hi: int) -> list[int]:
        """Where a sentence ends inside the block ``text[lo:hi]``; the end of the block itself is left out."""
        self.lo, self.hi, self.start = lo, hi, lo
        if _WHOLE_LINE.match(self.text, lo, hi):
            return []
        cuts = []
        for found, top in self._marks():
            first, cut = found.span()
            if first <= self.start:
                continue
            pair = top.parent if top is not None and top.end < 0 else top
            if pair is not None or found.lastgroup != "plain":
                cut = self._judge(first, cut, pair)
            if cut >= hi:
                break
            if cut:
                cuts.append(cut)
                self.start = cut
        return cuts

    def _marks(self) -> Iterable[tuple[re.Match[str], _Pair | None]]:
        """Each mark with the innermost quote or bracket that is open there, be it closed later or not."""
        text, lo, hi = self.text, self.lo, self.hi
        if not _PAIRABLE.search(text, lo, hi):
            return zip(self.patterns.mark.finditer(text, lo, hi), repeat(None))
        nesting = _Nesting(text, lo, hi)
        marks = []
        for found in self.patterns.token.finditer(text, lo, hi):
            role, at = found.lastgroup, found.start()
            if role == "open":
                nesting.open(at, _KINDS[text[at]], is_quote=text[at] in _QUOTES)
            elif role == "close":
                nesting.close(at, _KINDS[text[at]])
            elif role == "straight":
                nesting.toggle(at)
            elif role == "emphasis":
                nesting.emphasise(at, found.end())
            elif role is not None:
                marks.append((found, nesting.top))
        nesting.settle()
        self.closing, self.turned = nesting.closing, nesting.turned
        return marks

    def _judge(self, first: int, after: int, pair: _Pair | None) -> int:
        """Where the sentence that the mark ends has its own end, or 0 if the sentence goes on."""
        text, hi = self.text, self.hi
        if text[first] == "." and self._labels_item(first):
            return 0
        end, closed, pair = self._close(after, pair)
        if pair is not None and self._is_shielded(pair):
            return 0
        cut = self._tail(end, closed)
        if cut >= hi:
            return hi
        following = text[cut]
        if following in _SEPARATORS or following in _STOPS or (closed and following in _GOING_ON):
            return 0
        if (end > after or text[end] == "<") and (following.islower() or _CONTINUES.match(text, cut, hi)):
            return 0
        mark = _Mark(first, after, end)
        if closed is None:
            ends = self._mark_ends(mark)
        elif closed.is_quote:
            ends = self._quotation_ends(mark, closed)
        else:
            ends = self._aside_ends(mark, closed)
        return cut if ends else 0

    def _close(self, end: int, pair: _Pair | None) -> tuple[int, _Pair | None, _Pair | None]:
        """Step over the closers at ``end``: the new end, the outermost pair they close, the pair around it."""
        text, closed = self.text, None
        while end < self.hi:
            if pair is not None and (pair.end == end or (pair.end == end + 1 and text[end] == " ")):
                closed, end, pair = pair, pair.end + 1, pair.parent
            elif end in self.closing:
                end = self.closing[end]
            elif text[end] in _CLOSERS and end not in self.turned:
                end += 1
            else:
                break
        return end, closed, pair

    def _is_shielded(self, pair: _Pair | None) -> bool:
        """Whether nothing ends inside this pair: a bracket, or a quotation that is part of a sentence."""
        while pair is not None:
            if not pair.is_quote or self.options.quotes == "keep":
                return True
            is_long = pair.end - pair.start > _LONG_QUOTE and self.text[pair.end - 1] in _FULL_STOPS
            if not is_long and self._role(pair) == "embedded":
                return True
            pair = pair.parent
        return False

    def _role(self, quote: _Pair) -> str:
        """How a quotation stands in its sentence: "speech" after ：or ，, "opening" at the start, else "embedded"."""
        if not quote.role:
            floor = max(self.start, quote.start - 12)
            before = self.text[floor : quote.start].rstrip()
            quote.role = "embedded"
            if _CONTINUES.match(self.text, quote.end + 1, self.hi) is None:
                if before.endswith(_INTRODUCERS):
                    quote.role = "speech"
                elif floor == self.start and _NO_WORDS.fullmatch(before):
                    quote.role = "opening"
        return quote.role

    def _tail(self, end: int, closed: _Pair | None) -> int:
        """Step over emoji, notes, closing tags, the source of a quotation, and the white space after them."""
        text, hi = self.text, self.hi
        if text[end : end + 1].isalpha():
            return end
        if closed is not None and closed.is_quote:
            end = _end_of(_SOURCE, text, end, hi)
        ornament = _ORNAMENT.match(text, end, hi)
        if ornament and not self._opens_item(ornament):
            end = _end_of(_ORNAMENTS, text, end, hi)
        blank = _end_of(_LEADING, text, end, hi)
        return blank if blank in (end, hi) else _end_of(_TRAILING, text, end, blank)

    def _opens_item(self, ornament: re.Match[str]) -> bool:
        """Whether an emoji or number is a bullet: the sentence that ends before it began with its like."""
        text, at = self.text, ornament.start()
        colon = max(text.rfind("：", self.start, at), text.rfind(":", self.start, at))
        head = _end_of(_LEADING, text, max(self.start, colon + 1), at)
        if ornament.lastgroup == "emoji":
            return text[head] == text[at]
        return ornament.lastgroup == "note" and _NOTE_START.match(text, head, at) is not None

    def _aside_ends(self, mark: _Mark, closed: _Pair) -> bool:
        """A mark at the end of a bracket ends the sentence if the bracket is a sentence, or if the mark is 。."""
        if closed.kind != _ROUND or self.text[mark.first] == ".":
            return False
        before = self.text[max(self.start, closed.start - 12) : closed.start]
        is_sentence = not before.strip() and closed.end - closed.start > _LONG_ASIDE
        return is_sentence or self.text[mark.after - 1] in _FULL_STOPS

    def _quotation_ends(self, mark: _Mark, closed: _Pair) -> bool:
        """A mark at the end of a quotation ends speech, or words that nobody is said to speak; else it must be 。."""
        text, role = self.text, self._role(closed)
        if text[mark.first] == "." and not self._dot_ends(mark):
            return False
        if role == "speech":
            return True
        if text[mark.first] in _ELLIPSES:
            return self.options.ellipsis == "always" or (role == "opening" and text[mark.end] in _QUOTES)
        is_statement = text[mark.after - 1] in _FULL_STOPS
        if role == "opening":
            said = _SAID.match(text, mark.end, self.hi)
            return said is None or (is_statement and said.lastgroup == "gesture")
        return is_statement

    def _mark_ends(self, mark: _Mark) -> bool:
        rule = self._RULES.get(self.text[mark.first])
        return rule is None or rule(self, mark)

    def _ellipsis_ends(self, mark: _Mark) -> bool:
        """Only if asked for, or before a capital, or between two of them (twelve dots stand for a lost passage)."""
        if self.options.ellipsis == "always" or self.text[mark.end] in _ELLIPSES:
            return True
        return self.text[mark.first] == "." and _CAPITAL.match(self.text, mark.end, self.hi) is not None

    def _wave_ends(self, mark: _Mark) -> bool:
        """A wave is a stop where the writer ends the line with one."""
        return self.text[max(mark.after, self.hi - 9) : self.hi].rstrip().endswith(("~", "～"))

    def _semicolon_ends(self, mark: _Mark) -> bool:
        return not _ENTITY_BACKWARDS.match(self.text[max(self.lo, mark.first - 10) : mark.after][::-1])

    def _bang_ends(self, mark: _Mark) -> bool:
        """Not before an operator, nor in a name: a known one, a letter, or a Latin word where Chinese writes ！."""
        text, first = self.text, mark.first
        if mark.after > first + 1:
            return True
        if _OPERATOR.match(text, mark.end, self.hi):
            return False
        word = self._word_before(first)
        if text[first] == "?" or not word.isalpha():
            return True
        before = first - len(word) - 1
        in_chinese = before >= self.start and text[before].isalpha()
        is_name = in_chinese and "！" in text[max(self.lo, first - _NEARBY) : first + _NEARBY]
        return not (is_name or word in _BRANDS or len(word) == 1)

    def _dot_ends(self, mark: _Mark) -> bool:
        """The usual English tests: not after a title or an abbreviation, nor before a small letter."""
        text, first, end = self.text, mark.first, mark.end
        if mark.after > first + 1:
            return self._ellipsis_ends(mark)
        following = _WORD.match(text, end, self.hi)
        next_word = following.group(1) if following else ""
        word = self._word_before(first)
        either_case = {word, word.lower()}
        if next_word[:1].islower() or not _TITLES.isdisjoint(either_case):
            return False
        if word.lower() in _NUMBERED and _NUMERAL.match(text, end, self.hi):
            return False
        if not _SHORTENED.isdisjoint(either_case) or _INITIALS.fullmatch(word):
            return len(word) > 1 and next_word in _STARTERS
        return not (word.isdigit() and next_word and not text[end].isspace())

    def _labels_item(self, at: int) -> bool:
        """Whether the dot follows a number or letter that opens the sentence, or one more in a list on one line."""
        text, start = self.text, self.start
        if _ITEM.fullmatch(text, start, at):
            return True
        label = _LABEL_BACKWARDS.match(text[max(start, at - 4) : at][::-1])
        return label is not None and _ITEM_DOT.match(text, start, at) is not None

    def _word_before(self, at: int) -> str:
        backwards = self.text[max(self.start, at - _LONGEST_WORD) : at][::-1]
        return backwards[: _end_of(_LATIN_BACKWARDS, backwards, 0, _LONGEST_WORD)][::-1]

    _RULES: ClassVar[dict[str, Callable[[_Judge, _Mark], bool]]] = {
        ".": _dot_ends,
        **dict.fromkeys("!?", _bang_ends),
        **dict.fromkeys(_ELLIPSES, _ellipsis_ends),
        **dict.fromkeys("~～", _wave_ends),
        ";": _semicolon_ends,
    }  # a mark that is not here ends the sentence wherever it stands free


# ------------------------------------------------------------------------------------------------ tokenizer


def _code_fences(text: str) -> list[int]:
    """Where fenced code starts and ends, in turn; a fence that is never closed is none."""
    edges: list[int] = []
    opened, start = "", 0
    for found in _FENCE.finditer("\n" + text) if "```" in text or "~~~" in text else ():
        run = found.group(1)
        if not opened:
            opened, start = run, found.start()
        elif run.startswith(opened):
            edges += [start, _end_of(_TRAILING, text, found.end() - 1, len(text))]
            opened = ""
    return edges


def _unwrapped(text: str, breaks: list[int], fences: list[int]) -> list[int]:
    """The breaks without those that only wrap a long line."""
    lines = zip([0, *breaks], breaks, strict=False)
    return [end for start, end in lines if bisect_right(fences, start) % 2 or not _is_wrapped(text, start, end)]


def _is_wrapped(text: str, start: int, end: int) -> bool:
    """Whether the line is long, stops in mid-sentence, and the next one does not start something new."""
    line = text[start:end].rstrip()
    gap = text[start + len(line) : end]
    return (
        len(line) >= _SHORTEST_WRAPPED
        and len(gap.splitlines()) == 1
        and gap != "\u2029"
        and line.rstrip(_CLOSERS + "\"'*_")[-1:] not in _STOPS + _ELLIPSES + "!?.：:|"
        and line[0] not in "#|"
        and not _FRESH_LINE.match(text, end)
    )


def _is_attached(char: str) -> bool:
    return char == "\u200d" or category(char)[0] == "M"


def _past_attached(text: str, end: int) -> int:
    while end < len(text) and _is_attached(text[end]):
        end += 1
    return end


def _off_attached(text: str, ends: list[int]) -> list[int]:
    """The ends, moved on past combining marks, variation selectors and joiners."""
    if not any(map(_is_attached, set(map(text.__getitem__, ends[:-1])))):
        return ends
    return list(dict.fromkeys(_past_attached(text, end) for end in ends))


@dataclass(frozen=True)
class ChineseSentenceTokenizer:
    """Cuts text into sentences and loses no character; a frozen value that pickles, hashes and compares.

    Usable wherever a ``Callable[[str], list[str]]`` is asked for: as ``chunking_tokenizer_fn`` of a
    ``SentenceSplitter`` or as ``sentence_splitter`` of a ``SentenceWindowNodeParser``.

    Args:
        quotes: "split" cuts between the sentences of one quotation, "keep" leaves a quotation whole.
        ellipsis: "auto" ends at …… where it closes speech after ：, "always" also in mid-line, "never" nowhere; a
            newline ends a sentence in any case.
        newline: "line" ends at each newline, "wrap" joins lines that were broken because they were full, "paragraph"
            ends at blank lines only.
        semicolon: whether ；and ; end sentences.
        colon: whether ：and : end sentences.

    Raises:
        OptionError: an option has none of the values named here.

    Example:
        >>> tokenize = ChineseSentenceTokenizer()
        >>> tokenize("“走吧！”他说。我们看了《谁在那里？》，票价39.80元。")
        ['“走吧！”他说。', '我们看了《谁在那里？》，票价39.80元。']
        >>> tokenize.ends("你好。再见。")
        [3, 6]
    """

    quotes: QuoteRule = "split"
    ellipsis: EllipsisRule = "auto"
    newline: NewlineRule = "line"
    semicolon: bool = False
    colon: bool = False

    def __post_init__(self) -> None:
        for name, rule in (("quotes", QuoteRule), ("ellipsis", EllipsisRule), ("newline", NewlineRule)):
            _require(name, getattr(self, name), get_args(rule))
        for name in ("semicolon", "colon"):
            _require(name, getattr(self, name), (True, False))

    @classmethod
    def legal(cls) -> ChineseSentenceTokenizer:
        """For statutes and contracts, whose items end in ；."""
        return cls(semicolon=True)

    @classmethod
    def patent(cls) -> ChineseSentenceTokenizer:
        """For patent claims, whose sentences are as long as the claim: ；and ：end."""
        return cls(semicolon=True, colon=True)

    def ends(self, text: str) -> list[int]:
        """The offset at which each sentence ends, ascending; the last is ``len(text)``, and "" has none.

        Raises:
            TypeError: ``text`` is no str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        patterns = _patterns(self)
        found = patterns.candidate.search(text)
        fences = _code_fences(text) if found or self.newline != "line" else []
        breaks, judge = self._breaks(text, fences), _Judge(text, self, patterns)
        ends: list[int] = []
        done = 0
        while found:
            fence = bisect_right(fences, found.start())
            if fence % 2:
                found = patterns.candidate.search(text, fences[fence])
                continue
            block = bisect_right(breaks, found.start())
            ends += breaks[done:block]
            ends += judge.cuts(breaks[block - 1] if block else 0, breaks[block])
            found = patterns.candidate.search(text, breaks[block])
            done = block
        return _off_attached(text, ends + breaks[done:])

    def _breaks(self, text: str, fences: list[int]) -> list[int]:
        """The ends of the blocks; white space at the very start or end of the text makes none of its own."""
        if not text:
            return []
        lead, stop = _end_of(_LEADING, text, 0, len(text)), len(text.rstrip())
        breaks = [found.end() for found in _BREAKS[self.newline].finditer(text, lead)]
        if self.newline == "wrap":
            breaks = _unwrapped(text, breaks, fences)
        if self.newline == "paragraph" and fences:
            breaks = sorted({*breaks, *(edge for edge in fences if edge > lead)})
        while breaks and breaks[-1] >= stop:
            breaks.pop()
        return [*breaks, len(text)]

    def spans(self, text: str) -> list[Span]:
        """The spans of the sentences, a partition of the text.

        Raises:
            TypeError: ``text`` is no str.
        """
        return spans_between(self.ends(text))

    def __call__(self, text: str) -> list[str]:
        """The sentences, which joined give the text.

        Raises:
            TypeError: ``text`` is no str.
        """
        return [text[start:end] for start, end in pairwise([0, *self.ends(text)])]


def _require(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if type(value) not in (str, bool) or value not in allowed:
        raise OptionError(f"{name}={value!r} is unknown; use one of {', '.join(map(repr, allowed))}")


_DEFAULT = ChineseSentenceTokenizer()
_patterns(_DEFAULT)  # compiled while importing, not in the first call


def chinese_sentence_tokenizer(text: str) -> list[str]:
    """The sentences of the text under the default options; joined they give the text.

    Raises:
        TypeError: ``text`` is no str.

    Example:
        >>> chinese_sentence_tokenizer("天黑了。他还没回来？")
        ['天黑了。', '他还没回来？']
    """
    return _DEFAULT(text)
