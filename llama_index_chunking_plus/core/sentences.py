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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import ClassVar, Literal, NamedTuple, get_args
from unicodedata import category

from llama_index_chunking_plus.core.sentence_rules import (
    BRANDS,
    BREAKS,
    CAPITAL,
    CLOSERS,
    CONTINUES,
    CURLY,
    ELLIPSES,
    ENTITY_BACKWARDS,
    FENCE,
    FRESH_LINE,
    FULL_STOPS,
    GOING_ON,
    HEAD_LABEL,
    HEADING_LINE,
    INITIALS,
    INTRODUCERS,
    ITEM,
    ITEM_DOT,
    KINDS,
    LABEL_BACKWARDS,
    LATIN_BACKWARDS,
    LEADING,
    LONG_ASIDE,
    LONG_QUOTE,
    LONGEST_BRACKET,
    LONGEST_QUOTE,
    LONGEST_WORD,
    NEARBY,
    NO_WORDS,
    NOTE_START,
    NUMBERED,
    NUMERAL,
    OPERATOR,
    ORNAMENT,
    ORNAMENTS,
    PAIRABLE,
    QUOTES,
    ROUND,
    SAID,
    SEPARATORS,
    SHORTENED,
    SHORTEST_WRAPPED,
    SOURCE,
    SPLIT_WORD,
    STARTERS,
    STOPS,
    TITLES,
    TRAILING,
    WHOLE_LINE,
    WORD,
    ColonRule,
    EllipsisRule,
    NewlineRule,
    Patterns,
    QuoteRule,
    compile_patterns,
)
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError


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
        self._straight = CURLY if text.count('"', lo, hi) % 2 else '"'  # the odd one out pairs with a curly one

    def open(self, at: int, kind: str, *, is_quote: bool) -> None:
        self.top = _Pair(at, kind, self.top, is_quote)
        self.pairs.append(self.top)
        self._waiting[kind].append(self.top)

    def close(self, at: int, kind: str) -> None:
        """Close the nearest open pair of this kind; what opened inside it and is still open has no partner."""
        waiting = self._waiting[kind]
        if waiting and at - waiting[-1].start > (LONGEST_QUOTE if waiting[-1].is_quote else LONGEST_BRACKET):
            waiting.clear()
        if not waiting:
            if kind == CURLY and self._is_turned(at):
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
        if text[at - 1 : at] not in STOPS or not text[at + 1 : at + 2].isalpha():
            return False
        partner = text.find(CURLY, at + 1, at + LONGEST_QUOTE)
        return partner > 0 and text.find("“", at + 1, partner) < 0

    def toggle(self, at: int) -> None:
        """Let a straight quote close the open one, or else open; after a letter or digit it is no quote (it's, 5")."""
        kind = self._straight if self.text[at] == '"' else "'"
        before = self.text[at - 1 : at]
        if self._waiting[kind] and at - self._waiting[kind][-1].start <= LONGEST_QUOTE:
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


def _word_at_the_end(text: str) -> str:
    backwards = text[::-1]
    return backwards[: _end_of(LATIN_BACKWARDS, backwards, 0, LONGEST_WORD)][::-1]


class _Mark(NamedTuple):
    """The mark ``text[first:after]``; ``end`` is behind the quotes and brackets that close after it."""

    first: int
    after: int
    end: int


class _Judge:
    """Judges the marks of a text block by block, in order."""

    def __init__(self, text: str, options: ChineseSentenceTokenizer, patterns: Patterns) -> None:
        self.text, self.options, self.patterns = text, options, patterns
        self.lo = self.hi = self.start = 0  # the block, and the sentence that is being read
        self.closing: dict[int, int] = {}
        self.turned: set[int] = set()

    def cuts(self, lo: int, hi: int) -> list[int]:
        """Where a sentence ends inside the block ``text[lo:hi]``; the end of the block itself is left out."""
        self.lo, self.hi, self.start = lo, hi, lo
        if WHOLE_LINE.match(self.text, lo, hi):
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
        if not PAIRABLE.search(text, lo, hi):
            return zip(self.patterns.mark.finditer(text, lo, hi), repeat(None))
        nesting = _Nesting(text, lo, hi)
        marks = []
        for found in self.patterns.token.finditer(text, lo, hi):
            role, at = found.lastgroup, found.start()
            if role == "open":
                nesting.open(at, KINDS[text[at]], is_quote=text[at] in QUOTES)
            elif role == "close":
                nesting.close(at, KINDS[text[at]])
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
        if following in SEPARATORS or following in STOPS or (closed and following in GOING_ON):
            return 0
        if (end > after or text[end] == "<") and (following.islower() or CONTINUES.match(text, cut, hi)):
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
            elif text[end] in CLOSERS and end not in self.turned:
                end += 1
            else:
                break
        return end, closed, pair

    def _is_shielded(self, pair: _Pair | None) -> bool:
        """Whether nothing ends inside this pair: a bracket, or a quotation that is part of a sentence."""
        while pair is not None:
            if not pair.is_quote or self.options.quotes == "keep":
                return True
            is_long = pair.end - pair.start > LONG_QUOTE and self.text[pair.end - 1] in FULL_STOPS
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
            if CONTINUES.match(self.text, quote.end + 1, self.hi) is None:
                if before.endswith(INTRODUCERS):
                    quote.role = "speech"
                elif floor == self.start and NO_WORDS.fullmatch(before):
                    quote.role = "opening"
        return quote.role

    def _tail(self, end: int, closed: _Pair | None) -> int:
        """Step over emoji, notes, closing tags, the source of a quotation, and the white space after them."""
        text, hi = self.text, self.hi
        if text[end : end + 1].isalpha():
            return end
        if closed is not None and closed.is_quote:
            end = _end_of(SOURCE, text, end, hi)
        ornament = ORNAMENT.match(text, end, hi)
        if ornament and not self._opens_item(ornament):
            end = _end_of(ORNAMENTS, text, end, hi)
        blank = _end_of(LEADING, text, end, hi)
        return blank if blank in (end, hi) else _end_of(TRAILING, text, end, blank)

    def _opens_item(self, ornament: re.Match[str]) -> bool:
        """Whether an emoji or number is a bullet: it follows a colon, or a sentence that began with its like."""
        text, at = self.text, ornament.start()
        if text[at - 1] in "：:":
            return True
        colon = max(text.rfind("：", self.start, at), text.rfind(":", self.start, at))
        head = _end_of(LEADING, text, max(self.start, colon + 1), at)
        if ornament.lastgroup == "emoji":
            return text[head] == text[at]
        return ornament.lastgroup == "note" and NOTE_START.match(text, head, at) is not None

    def _aside_ends(self, mark: _Mark, closed: _Pair) -> bool:
        """A mark at the end of a bracket ends the sentence if the bracket is a sentence, or if the mark is 。."""
        if closed.kind != ROUND or self.text[mark.first] == ".":
            return False
        before = self.text[max(self.start, closed.start - 12) : closed.start]
        is_sentence = not before.strip() and closed.end - closed.start > LONG_ASIDE
        return is_sentence or self.text[mark.after - 1] in FULL_STOPS

    def _quotation_ends(self, mark: _Mark, closed: _Pair) -> bool:
        """A mark at the end of a quotation ends speech, or words that nobody is said to speak; else it must be 。."""
        text, role = self.text, self._role(closed)
        if text[mark.first] == "." and not self._dot_ends(mark):
            return False
        if role == "speech":
            return True
        if text[mark.first] in ELLIPSES:
            return self.options.ellipsis == "always" or (role == "opening" and text[mark.end] in QUOTES)
        is_statement = text[mark.after - 1] in FULL_STOPS
        if role == "opening":
            said = SAID.match(text, mark.end, self.hi)
            return said is None or (is_statement and said.lastgroup == "gesture")
        return is_statement

    def _mark_ends(self, mark: _Mark) -> bool:
        rule = self._RULES.get(self.text[mark.first])
        return rule is None or rule(self, mark)

    def _ellipsis_ends(self, mark: _Mark) -> bool:
        """Only if asked for, or before a capital, or between two of them (twelve dots stand for a lost passage)."""
        if self.options.ellipsis == "always" or self.text[mark.end] in ELLIPSES:
            return True
        return self.text[mark.first] == "." and CAPITAL.match(self.text, mark.end, self.hi) is not None

    def _wave_ends(self, mark: _Mark) -> bool:
        """A wave is a stop where the writer ends the line with one."""
        return self.text[max(mark.after, self.hi - 9) : self.hi].rstrip().endswith(("~", "～"))

    def _semicolon_ends(self, mark: _Mark) -> bool:
        return not ENTITY_BACKWARDS.match(self.text[max(self.lo, mark.first - 10) : mark.after][::-1])

    def _colon_ends(self, mark: _Mark) -> bool:
        """Not between a label and what it names, as in S1：接收请求."""
        return HEAD_LABEL.fullmatch(self.text, self.start, mark.first) is None

    def _bang_ends(self, mark: _Mark) -> bool:
        """Not before an operator, nor in a name: a known one, a letter, or a Latin word where Chinese writes ！."""
        text, first = self.text, mark.first
        if mark.after > first + 1:
            return True
        if OPERATOR.match(text, mark.end, self.hi):
            return False
        word = self._word_before(first)
        if text[first] == "?" or not word.isalpha():
            return True
        before = first - len(word) - 1
        in_chinese = before >= self.start and text[before].isalpha()
        is_name = in_chinese and "！" in text[max(self.lo, first - NEARBY) : first + NEARBY]
        return not (is_name or word in BRANDS or len(word) == 1)

    def _dot_ends(self, mark: _Mark) -> bool:
        """The usual English tests: not after a title or an abbreviation, nor before a small letter."""
        text, first, end = self.text, mark.first, mark.end
        if mark.after > first + 1:
            return self._ellipsis_ends(mark)
        following = WORD.match(text, end, self.hi)
        next_word = following.group(1) if following else ""
        word = self._word_before(first)
        either_case = {word, word.lower()}
        if next_word[:1].islower() or not TITLES.isdisjoint(either_case):
            return False
        if word.lower() in NUMBERED and NUMERAL.match(text, end, self.hi):
            return False
        if not SHORTENED.isdisjoint(either_case) or INITIALS.fullmatch(word):
            return len(word) > 1 and next_word in STARTERS
        return not (word.isdigit() and next_word and not text[end].isspace())

    def _labels_item(self, at: int) -> bool:
        """Whether the dot follows a number or letter that opens the sentence, or one more in a list on one line."""
        text, start = self.text, self.start
        if ITEM.fullmatch(text, start, at):
            return True
        label = LABEL_BACKWARDS.match(text[max(start, at - 4) : at][::-1])
        return label is not None and ITEM_DOT.match(text, start, at) is not None

    def _word_before(self, at: int) -> str:
        return _word_at_the_end(self.text[max(self.start, at - LONGEST_WORD) : at])

    _RULES: ClassVar[dict[str, Callable[[_Judge, _Mark], bool]]] = {
        ".": _dot_ends,
        **dict.fromkeys("!?", _bang_ends),
        **dict.fromkeys(ELLIPSES, _ellipsis_ends),
        **dict.fromkeys("~～", _wave_ends),
        ";": _semicolon_ends,
        **dict.fromkeys("：:", _colon_ends),
    }  # a mark that is not here ends the sentence wherever it stands free


# ------------------------------------------------------------------------------------------------ tokenizer


def _code_fences(text: str) -> list[int]:
    """Where fenced code starts and ends, in turn; a fence that is never closed is none."""
    edges: list[int] = []
    opened, start = "", 0
    for found in FENCE.finditer("\n" + text) if "```" in text or "~~~" in text else ():
        run = found.group(1)
        if not opened:
            opened, start = run, found.start()
        elif run.startswith(opened):
            edges += [start, _end_of(TRAILING, text, found.end() - 1, len(text))]
            opened = ""
    return edges


def _unwrapped(text: str, breaks: list[int], fences: list[int]) -> list[int]:
    """The breaks without those that only wrap a long line."""
    lines = zip([0, *breaks], breaks, strict=False)
    return [end for start, end in lines if bisect_right(fences, start) % 2 or not _is_wrapped(text, start, end)]


def _is_wrapped(text: str, start: int, end: int) -> bool:
    """Whether the line is full or ends inside a word, stops in mid-sentence, and the next one opens nothing new."""
    line = text[start:end].rstrip()
    stop = start + len(line)
    gap = text[stop:end]
    if len(gap.splitlines()) != 1 or gap == "\u2029" or HEADING_LINE.match(text, start, end):
        return False
    if SPLIT_WORD.match(text, stop - 2) or _is_shortened(text, line, end):
        return True
    is_finished = line.rstrip(CLOSERS + "\"'*_")[-1:] in STOPS + ELLIPSES + "!?.：:|"
    return len(line) >= SHORTEST_WRAPPED and not is_finished and not FRESH_LINE.match(text, end)


def _is_shortened(text: str, line: str, end: int) -> bool:
    """Whether the line ends in Dr. or the like, or in Fig. with its number on the next line."""
    word = _word_at_the_end(line[-LONGEST_WORD:-1])
    return line[-1:] == "." and (word in TITLES or (word.lower() in NUMBERED and NUMERAL.match(text, end) is not None))


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
        semicolon: whether ；and ; end sentences. If the line ends in ；和 or ；以及, the word stays with that item.
        colon: whether ：and : end sentences; "list" only where a list follows on the same line: ：（一）, ：1. or ：①.
            Ratios, times, addresses, and a label that opens a sentence (S1：) end none.

    `legal` and `patent` set these options for two kinds of text.

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
    colon: ColonRule = False

    def __post_init__(self) -> None:
        for name, rule in (("quotes", QuoteRule), ("ellipsis", EllipsisRule), ("newline", NewlineRule)):
            _require(name, getattr(self, name), get_args(rule))
        _require("semicolon", self.semicolon, (True, False))
        _require("colon", self.colon, get_args(ColonRule))

    @classmethod
    def legal(cls, newline: NewlineRule = "line") -> ChineseSentenceTokenizer:
        """For statutes and contracts: each item of an article is a unit, and so is what introduces the items.

        Sets ``semicolon=True``, ``colon="list"`` and ``quotes="keep"``, so that nothing ends inside a quotation on one
        line, such as the wording that an amendment puts in place of the old one; ``ellipsis`` stays "auto".

        Args:
            newline: as for the class; "wrap" for statutes out of a PDF.

        Raises:
            OptionError: ``newline`` has none of the values of the class.

        Example:
            >>> ChineseSentenceTokenizer.legal()("有下列情形的，合同终止：（一）期满；（二）解散（破产除外；下同）。")
            ['有下列情形的，合同终止：', '（一）期满；', '（二）解散（破产除外；下同）。']
        """
        return cls(quotes="keep", newline=newline, semicolon=True, colon="list")

    @classmethod
    def patent(cls, newline: NewlineRule = "line") -> ChineseSentenceTokenizer:
        """For patent claims, whose sentences are as long as the claim: each feature is a unit, and so is the preamble.

        Sets ``semicolon=True``, ``colon=True`` and ``quotes="keep"``; ``ellipsis`` stays "auto". Nothing ends inside a
        bracket, as in 电机（2；21）, nor between a step's label and the step. For claims, not for descriptions, whose
        colons also introduce names and numbers.

        Args:
            newline: as for the class; "wrap" for claims out of a PDF.

        Raises:
            OptionError: ``newline`` has none of the values of the class.

        Example:
            >>> ChineseSentenceTokenizer.patent()("1.一种方法，其特征在于，包括：S1：采集图像；S2：提取特征。")
            ['1.一种方法，其特征在于，包括：', 'S1：采集图像；', 'S2：提取特征。']
        """
        return cls(quotes="keep", newline=newline, semicolon=True, colon=True)

    def ends(self, text: str) -> list[int]:
        """The offset at which each sentence ends, ascending; the last is ``len(text)``, and "" has none.

        Raises:
            TypeError: ``text`` is no str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        patterns = compile_patterns(self)
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
        lead, stop = _end_of(LEADING, text, 0, len(text)), len(text.rstrip())
        breaks = [found.end() for found in BREAKS[self.newline].finditer(text, lead)]
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
compile_patterns(_DEFAULT)  # compiled while importing, not in the first call


def chinese_sentence_tokenizer(text: str) -> list[str]:
    """The sentences of the text under the default options; joined they give the text.

    Raises:
        TypeError: ``text`` is no str.

    Example:
        >>> chinese_sentence_tokenizer("天黑了。他还没回来？")
        ['天黑了。', '他还没回来？']
    """
    return _DEFAULT(text)
