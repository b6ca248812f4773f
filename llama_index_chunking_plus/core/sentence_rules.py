"""What sentences end with, in tables: characters, words, and what may stand around a mark.

`sentences` reads these tables and decides. A new character, abbreviation or verb of saying goes here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from llama_index_chunking_plus.core.patterns import lazy_pattern

if TYPE_CHECKING:
    from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer

QuoteRule = Literal["split", "keep"]
EllipsisRule = Literal["auto", "always", "never"]
NewlineRule = Literal["line", "wrap", "paragraph"]
ColonRule = Literal[True, False, "list"]

# ------------------------------------------------------------------------------------------------ characters

STOPS = "。！？｡﹖﹗‼⁇⁈⁉︒︕︖।॥؟۔။។"
FULL_STOPS = "。｡︒.．"
ELLIPSES = "…⋯"
SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_DASHES = "—–─"
GOING_ON = _DASHES + ELLIPSES + ".．!?"  # after a closing quote
QUOTES = dict(zip("“‘「『﹁﹃〝«｢", "”’」』﹂﹄〞»｣", strict=True))
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
CURLY, ROUND = "”", ")"

_OPENERS = "".join([*QUOTES, *_BRACKETS])
CLOSERS = "".join([*QUOTES.values(), *_BRACKETS.values()])
_HALF_WIDTH = str.maketrans("）］｝", ")]}")
KINDS = {char: pair[1].translate(_HALF_WIDTH) for pair in (QUOTES | _BRACKETS).items() for char in pair}

LONGEST_QUOTE = 400  # characters; a quote whose partner is farther away has none
LONGEST_BRACKET = 200  # characters, likewise
LONG_QUOTE = 15  # characters; a longer quotation that ends in 。 is a sentence wherever it stands
LONG_ASIDE = 6  # characters; a longer bracket at the start of a sentence may be a sentence
NEARBY = 200  # characters; how far to look for the habits of a writer
LONGEST_WORD = 24  # characters
SHORTEST_WRAPPED = 18  # characters; a shorter line was not broken because it was full


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
_CLOSE = _any_of(CLOSERS)
_STOP_OR_CLOSE = _any_of(STOPS, CLOSERS)
_QUOTE_MARK = _any_of(*QUOTES, "\"'")

# ------------------------------------------------------------------------------------------------ words


def _words(*lines: str) -> frozenset[str]:
    """The words as they are written; one in lower case stands for any case."""
    return frozenset(" ".join(lines).split())


TITLES = _words("Dr Mr Mrs Ms Prof St Mt Messrs Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres e.g i.e viz cf vs ca al")
NUMBERED = _words(
    "no nos vol vols fig figs eq eqs tab sec sect ch chap ref refs p pp art ex thm def v ver ext tel"
)  # an abbreviation only before a number
SHORTENED = _words(
    "etc approx resp est Inc Ltd Co Corp Jr Sr Ph.D Univ Dept Ave Blvd Rd",
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec",
)
STARTERS = _words(
    "The This That These Those He She It We They You I A An In On At As If But And So For When While However There Then"
)  # after these a shortened word has ended its sentence
BRANDS = _words("Yahoo Joomla Jeopardy Wham Yum Kahoot")
INITIALS = lazy_pattern(r"[A-Z]|(?:[A-Za-z]\.)+[A-Za-z]")

_SAYS = (
    "(?<!知)[说說道问問喊叫答曰嚷吼骂罵念嘱囑叹嘆劝勸述](?![完罢罷明法话話])|表示|回[应應答复復]|[补補]充|解[释釋]|[强強][调調]|指出|"
    "安慰|提醒|反[驳駁]|催促|嘀咕|嘟囔|自[语語]|拒[绝絕]|感[叹嘆]|[开開]口|介[绍紹]|宣布|承[认認]|抱怨|命令|[请請]求|建[议議]|"
    "言った|答えた|聞いた|叫んだ"
)
_GESTURES = "指[着著了]|笑|[叹嘆]了|[皱皺]|[摇搖点點][着著了头頭]|瞪|盯|[望看][着著]"
_IN_CLAUSE = r"[^，。！？；：、“”\"「」『』…\n,.!?]"
SAID = lazy_pattern(
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
CONTINUES = lazy_pattern(
    rf"""{_BLANK}*(?:
      的(?![确確士])|是(?![次日夜时時年以故否])|和(?!往平以)|[与與](?![此会會])|及(?![时時至])|或(?![许許者])|[还還]是|而[不非]
    | [这這那][句个個番种種声聲样樣些几幾两兩三四一]|[一二两兩三四五六七八九十几幾数數][个個句字声聲词詞语語类類种種]
    | 等(?![到我他她你一等])|之[类類声聲名前际際]|[之以]?[后後](?![来來面])|字[样樣]|[声聲](?![称稱明])|[并並][不非没沒]
    | [为為][题題名]|[令让讓使]人|[键鍵号號]|就(?![在这這是算连連像])|便(?![宜利])|了(?![解不])|即可|[到至]{_QUOTE_MARK}
    | と(?!ても|ころ|にかく)|って|は(?!い)|が(?!ん)|を|に(?!わか)|の|も(?![うし])|で(?![もはす])
    )""",
    re.VERBOSE,
)  # what goes on with the sentence in which a quotation stands
INTRODUCERS = ("：", ":", "，", ",", *_DASHES, "曰", "道")  # what stands before speech

# ------------------------------------------------------------------------------------------------ around a mark

_BREAK = rf"{_NEWLINE}(?:{_BLANK}*{_NEWLINE})?"
BREAKS: dict[NewlineRule, re.Pattern[str]] = {
    "line": lazy_pattern(_BREAK),
    "wrap": lazy_pattern(_BREAK),
    "paragraph": lazy_pattern(rf"(?:\r\n|\r(?!\n)|[\n\v\f\x85\u2028]){_BLANK}*{_NEWLINE}|\u2029"),
}
LEADING = lazy_pattern(rf"{_BLANK}*")
TRAILING = lazy_pattern(rf"{_BLANK}*{_NEWLINE}|{_BLANK}*")
FENCE = lazy_pattern(r"\n[ >]{0,3}(`{3,}|~{3,})[^`\n]*")
WHOLE_LINE = lazy_pattern(
    r"(?s:\|.*\|\s*\Z)"  # a row of a table
    r"|\s*\[\d{1,3}\].*\[(?:[A-Z]|EB|DB)(?:/OL)?\]"  # an entry of a bibliography with its GB/T 7714 type, as [J]
)
_BULLET = r"[#>|*+•·●○◦■□▪▫◆◇▶►➢➤✓✔★☆※\uf06c\uf06e\uf0a7\uf0b7\uf0d8\uf0fc-]"  # those from \uf000 on are Wingdings
_LIST_LABEL = (
    rf"(?:[(（]{_ORDINAL}{{1,3}}[)）]|{_ORDINAL}{{1,3}}(?:[)）]|[.．](?!\d)|、(?![\d一二三四五六七八九十])|(?:\.\d{{1,2}}){{1,4}}\.?\s)"
    r"|[①-⑳])"
)
_ARTICLE = rf"第(?:{_ORDINAL}|[百千零〇]){{1,6}}[章节節條条编編款](?=[\s：:]|$)"
# what opens the first item of a list on one line
_LISTED = rf"(?:{_LIST_LABEL}|[(（][a-z甲乙丙丁][)）]|[甲乙丙丁]、|一(?:是|、)|其一|第一[，,、])"
# the word between the last two items, at the end of its line
_LINK = rf"{_BLANK}*(?:以及|或者|[并並]且|和|及|或|and|or){_BLANK}*{_NEWLINE}"
FRESH_LINE = lazy_pattern(rf"[　\t]|\s{{2}}|{_BULLET}|{_LIST_LABEL}|{_ARTICLE}|```|$")
# a heading, list item, quote, table or indented paragraph
HEADING_LINE = lazy_pattern(rf"\s*(?:[#|]|第(?:{_ORDINAL}|[百千零〇]){{1,6}}[章节節编編]\s[^，。；,;]*$)")
SPLIT_WORD = lazy_pattern(r"[A-Za-z][-\u00ad\u2010]\s+[a-z]")  # a word that was hyphenated at the end of its line

_NUMBERS = r"[\d０-９]{1,3}(?:[-–—~～,，、 ]+[\d０-９]{1,3})*"
_BRACKETED = rf"[\[［〔【](?:[注註^]?{_NUMBERS}|[a-z]|[来來]源[请請]求|\^\w{{1,20}})[\]］〕】]"
_NOTE = rf"{_BRACKETED}(?:[-–—~～,，、]?{_BRACKETED})*|[¹²³⁰-⁹]+|[①-⑳❶-❿†‡]|<sup>[^<>]{{0,20}}</sup>"
_EMOTICON = (
    r"\[(?:[笑哭泪心强赞耶]|[微大偷]笑|笑哭|哈哈|嘻嘻|大哭|流泪|捂脸|害羞|爱心|玫瑰|鲜花|鼓掌|握手|抱拳|加油|拥抱|doge)\]"
    r"|[:;=]-?[)(DP](?![A-Za-z0-9])|\^[_.o]?\^|[（(][^（）()\u3400-\u9fff\dA-SU-Za-np-z]{2,10}[）)]"
)
_TAG = r"</[A-Za-z][A-Za-z0-9:-]{0,30}\s?>|<br\s?/?>|&(?:nbsp|emsp|ensp|gt|rdquo|rsquo);"
ORNAMENT = lazy_pattern(rf"(?P<emoji>(?:{_EMOJI}|{_EMOTICON})+)|[ ]?(?P<note>{_NOTE})|(?P<tag>{_TAG})")
ORNAMENTS = lazy_pattern(rf"(?:(?:{ORNAMENT.pattern}){_STOP_OR_CLOSE}*){{1,9}}")
NOTE_START = lazy_pattern(_NOTE)
SOURCE = lazy_pattern(rf"[（(][^（）(){STOPS}\n]{{1,30}}[）)]")  # of a quotation

_LABEL = rf"(?:第?{_ORDINAL}{{1,3}}[章节節條条步题題]?|[A-Za-z]\d{{0,3}}|[IVX]{{1,5}}|[ivx]{{1,5}})(?:\.\d{{1,3}})*"
_LABELLED = r"(?:(?:Chapter|Section|Part|Step|Figure|Fig|Table|Appendix|附[录錄]|[图圖表])[ .]*)?"
ITEM = lazy_pattern(rf"[\W_]{{0,16}}{_LABELLED}{_LABEL}")
ITEM_DOT = lazy_pattern(rf"[\W_]{{0,16}}{_LABEL}[.．、]")
LABEL_BACKWARDS = lazy_pattern(r"(?:\d{1,3}|[一二三四五六七八九十]{1,3}|[A-Za-z])(?=\s)")
NO_WORDS = lazy_pattern(r"[\W_]*(?:\d{1,3}|[A-Za-z])?[\W_]*")
WORD = lazy_pattern(rf"{_BLANK}*([^\W_]*)")
LATIN_BACKWARDS = lazy_pattern(r"[0-9A-Za-z.'’&-]*")
HEAD_LABEL = lazy_pattern(rf"[\W_]{{0,16}}(?:步[骤驟]|{_LABELLED})[ ]?{_LABEL}[)）.．、]?\s*")  # S1 in S1：接收请求
CAPITAL = lazy_pattern(r" +[A-Z]")
NUMERAL = lazy_pattern(rf"\s*[(（]?(?:[A-Z]?{_ORDINAL}|[A-Z](?![A-Za-z]))")
OPERATOR = lazy_pattern(r"\s*[=<>+*/|&]")
ENTITY_BACKWARDS = lazy_pattern(r";\w{1,8}#?&")

# ------------------------------------------------------------------------------------------------ marks and pairs


class _MarkRule(NamedTuple):
    """When a character may end a sentence (look-around from behind it), and what else belongs to the mark."""

    when: str
    run: str = ""


def _mark_rules(options: ChineseSentenceTokenizer, stops: str) -> Iterator[_MarkRule]:
    """The rules for marks, the most frequent first."""
    close = _any_of(CLOSERS, "\"'")
    run = rf"[{stops}?!…⋯]*(?<!!(?=\[))(?:(?<![…⋯])|(?={close}))"
    ends = rf"(?<=[{stops}])" + rf"(?!(?<=；){_LINK})" * (options.semicolon and options.newline == "line")
    yield _MarkRule(rf"{ends}(?={_HAN})")
    yield _MarkRule(ends, run)
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
        link = rf"(?!{_LINK})" * (options.newline == "line")
        yield _MarkRule(rf"(?<=;){link}(?=\s|{_CJK}|\(\d)")
    if options.colon == "list":
        yield _MarkRule(rf"(?<=[：:])(?!(?<=\d.)\d)(?={_BLANK}{{0,8}}{_LISTED})")
    elif options.colon:
        yield _MarkRule(r"(?<=：)(?!(?<=\d：)\d)")
        yield _MarkRule(rf"(?<=:)(?=\s|{_CJK})")


_SYMMETRIC = "\"'`$<:*_"
PAIRABLE = lazy_pattern(_any_of(CLOSERS, _SYMMETRIC))  # a block without one of these has no pairs
_UNPAIRED = f"[^{_any_of(_OPENERS, CLOSERS)[1:-1]}\"'`"
_WHOLE = "|".join(
    [
        # too many quotes and brackets in a row to mean anything
        f"(?<={_any_of(_OPENERS, CLOSERS)}){_any_of(_OPENERS, CLOSERS)}{{40,}}",
        # brackets without a stop before the closer, and quotations without any
        rf"(?<={_any_of(*_BRACKETS)}){_UNPAIRED}]{{0,{LONGEST_BRACKET}}}(?<![{STOPS}.!?]){_any_of(*_BRACKETS.values())}",
        rf"(?<={_any_of(*QUOTES)}){_UNPAIRED}{STOPS}.!?…⋯]{{0,{LONGEST_QUOTE}}}{_any_of(*QUOTES.values())}",
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


class Patterns(NamedTuple):
    """What to look for under one set of options; each begins with one class of characters, which makes it fast."""

    candidate: re.Pattern[str]  # a character that might end a sentence before the end of its line
    mark: re.Pattern[str]  # a run of such characters
    token: re.Pattern[str]  # a mark, half a pair, or a stretch in which nothing ends


@lru_cache(maxsize=64)
def compile_patterns(options: ChineseSentenceTokenizer) -> Patterns:
    """The patterns under these options."""
    stops = STOPS + "；" * options.semicolon
    first = stops + ".!?．~～…⋯" + ";" * options.semicolon + "：:" * bool(options.colon)
    plain, *rules = _mark_rules(options, stops)
    when = "|".join(rule.when for rule in rules)
    mark = f"(?P<plain>{plain.when})|(?P<mark>{'|'.join(rule.when + rule.run for rule in rules)})"
    inside_line = rf"(?!{_BLANK}*(?:{_NEWLINE}|\Z))" if options.newline == "line" else ""
    return Patterns(
        lazy_pattern(f"{_any_of(first)}(?:{when}){inside_line}"),
        lazy_pattern(f"{_any_of(first)}(?:{mark})"),
        lazy_pattern(f"{_any_of(first, _OPENERS, CLOSERS, _SYMMETRIC)}(?:{mark}|{_WHOLE}|{_PAIRED})"),
    )
