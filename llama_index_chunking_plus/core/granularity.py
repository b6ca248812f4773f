"""Levels of granularity, coarse to fine, and which of them answers a question: rules as data, in Chinese and English.

A question is answered where its answer stands whole. A number, a date, a name, a meaning, a yes or no take a sentence;
a procedure, a reason, a condition take a paragraph; a comparison, a list, a summary take a section.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from llama_index_chunking_plus.core.hierarchy import SENTENCE
from llama_index_chunking_plus.core.options import is_collection, is_filled_text, is_number
from llama_index_chunking_plus.errors import OptionError

COARSE, MEDIUM, FINE = LEVELS = ("coarse", "medium", "fine")

KNOWN_LEVELS = (*LEVELS, SENTENCE)
_LIKE = "as in QueryRule('shelf life', 'fine', 3, 'asks for a period')"
_MOST_CHARS = 1000  # of a query that rules read, half of them at its end: where one asks is seldom in the middle


@dataclass(frozen=True)
class QueryRule:
    """What certain words in a question say about the level that answers it.

    Args:
        pattern: a regular expression, searched in the query in small letters and NFKC form (ASCII punctuation).
        level: the level that they speak for.
        weight: how strongly, above 0; a query takes the level with the largest sum of weights.
        reason: what such a question wants, as the end of the sentence "It ...".

    Raises:
        OptionError: the pattern is no regular expression, the weight not a positive number, or ``level`` blank.

    Example:
        >>> QueryRule("保质期|shelf life", "fine", 3, "asks for a period").words_in("牛奶的保质期？")
        '保质期'
    """

    pattern: str
    level: str
    weight: float
    reason: str

    def __post_init__(self) -> None:
        for name in ("pattern", "level"):
            if not is_filled_text(getattr(self, name)):
                raise OptionError(f"{name}={getattr(self, name)!r} of a rule is blank, or no text; {_LIKE}")
        if not isinstance(self.reason, str):
            raise OptionError(f"reason={self.reason!r} of the rule {self.pattern!r} is no text; {_LIKE}")
        if not is_number(self.weight) or not 0 < self.weight < math.inf:
            raise OptionError(f"weight={self.weight!r} of the rule {self.pattern!r}; give a number above 0.")
        try:
            _ = self._regex
        except re.error as error:
            raise OptionError(f"pattern={self.pattern!r} is no regular expression ({error}); correct it.") from error

    def words_in(self, query: str) -> str | None:
        """The words of a tidied query that the rule is about, the first ones; None if there are none."""
        found = self._regex.search(query)
        return found[0] if found and found[0] else None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


@dataclass(frozen=True)
class GranularityDecision:
    """The level that answers a query, and why.

    Args:
        level: its name.
        reason: one sentence.
        matched: the words that spoke for this level, the strongest first; empty if none did, or a classifier decided.
        scores: for each level the sum of the weights that spoke for it, 0 if none did.

    Example:
        >>> decide("年假有几天？", QUERY_RULES, LEVELS, "medium").level
        'fine'
    """

    level: str
    reason: str
    matched: tuple[str, ...]
    scores: Mapping[str, float]


def decide(query: str, rules: Iterable[QueryRule], levels: Sequence[str], default: str) -> GranularityDecision:
    """The level with the largest sum of weights; of equal ones the coarser, which holds the other's answer as well.

    Args:
        query: in any case and width.
        rules: each counts once, however often its words occur.
        levels: coarse to fine; the rules name no others.
        default: the level of a query that no rule knows.

    Example:
        >>> decide("年假和调休有什么区别？", QUERY_RULES, LEVELS, MEDIUM).level
        'coarse'
    """
    tidy = _tidied(query)
    found = [(rule, words) for rule in rules if (words := rule.words_in(tidy))]
    scores = {level: math.fsum(rule.weight for rule, _ in found if rule.level == level) for level in levels}
    if not found:
        return GranularityDecision(default, "It says nothing about what it asks for.", (), scores)
    best = max(levels, key=scores.__getitem__)  # the first of equal ones
    own = sorted((pair for pair in found if pair[0].level == best), key=lambda pair: -pair[0].weight)
    strongest, words = own[0]
    matched = tuple(dict.fromkeys(text for _, text in own))
    return GranularityDecision(best, f"It {strongest.reason} ({words}).", matched, scores)


def checked_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """The names of the levels, coarse to fine, if they can be that.

    Raises:
        OptionError: there are none, one is blank or stands there twice, or the default ones are in another order.
    """
    names = tuple(levels) if is_collection(levels) else ()
    if not names:
        raise OptionError(f"levels={levels!r} names no level; pass names, coarse to fine; the default is {LEVELS}.")
    if not all(is_filled_text(name) for name in names):
        raise OptionError(f"levels={levels!r} must be names, coarse to fine; the default is {LEVELS}.")
    if len({*names}) < len(names):
        raise OptionError(f"levels={levels!r} names a level twice; give each once.")
    if names != in_order(names):
        raise OptionError(f"levels={levels!r} must run from coarse to fine: {in_order(names)}.")
    return names


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The default levels among the names, and "sentence", from coarse to fine at the places they have; the rest stays.

    Example:
        >>> in_order(["fine", "document", "coarse"])
        ('coarse', 'document', 'fine')
    """
    given = tuple(names)
    known = iter(sorted((name for name in given if name in KNOWN_LEVELS), key=KNOWN_LEVELS.index))
    return tuple(next(known) if name in KNOWN_LEVELS else name for name in given)


def level_among(name: str, levels: Sequence[str], option: str = "level") -> str:
    """The level that this name means among these: itself, or for a default name the level at its place.

    "coarse" is the first, "fine" the last, "medium" the middle one, of two the first.

    Args:
        name: of a level.
        levels: coarse to fine.
        option: what a message calls the name.

    Raises:
        OptionError: it means none.

    Example:
        >>> [level_among(name, ["document", "section", "sentence"]) for name in LEVELS]
        ['document', 'section', 'sentence']
    """
    if name in levels:
        return name
    if name not in LEVELS:
        raise OptionError(f"{option}={name!r} is none of the levels {tuple(levels)}; name one of them, or of {LEVELS}.")
    last = len(levels) - 1
    return levels[last * LEVELS.index(name) // 2]


def _tidied(query: str) -> str:
    half = _MOST_CHARS // 2
    text = query if len(query) <= _MOST_CHARS else f"{query[:half]}\n{query[-half:]}"
    return " ".join(unicodedata.normalize("NFKC", text).lower().replace("’", "'").split())


# What looks behind a word leaves out nouns that only begin with it: 介绍人, 重点学校, 架构师, 流程编号, 说明书.
_END = r"[?。!]|$"
_COMPARISON = (
    r"[区區]别|[区區]別|差[别別异異]|[异異]同|不同(?:[之的]?[处處]|[点點吗嗎]|" + _END + r")|不一[样樣]|[两兩][样樣]"
    r"|[对對]比|相比|比[较較]一下|^[请請]?比[较較].{1,20}[和与與跟、]|[和与與跟].{1,20}比[较較](?:" + _END + r")"
    r"|[优優](?:缺|劣)|[优優][点點势勢].{0,4}(?:缺|劣|不足)|利弊|好[处處].{0,3}[坏壞][处處]"
    r"|哪一?[个個种種款家](?:.{0,3}[更好]|比[较較]|合[适適]|划算)|[选選]哪|[还還]是.{1,12}(?:好|划算|合[适適])"
    r"|\bcompar(?:e|ed|es|ing|ison)\b|\bdiffer(?:s|ence|ences|ent from)?\b|\bversus\b|\bvs\b"
    r"|\bpros and cons\b|\bdisadvantages?\b|\btrade-?offs?\b|\bstrengths and weaknesses\b"
    r"|\b(?:better|faster|cheaper|safer) than\b|\b(?:should i|to) (?:choose|pick)\b"
    r"|\bwhich (?:one )?(?:is better|should i)\b"
)
_OVERVIEW = (
    r"[总總][结結]|概括|概述|概[览覽]|概要|[综綜]述|[简簡]述|[归歸][纳納]|梳理|摘要|提要|主旨|大意|要[点點]"
    r"|重[点點](?=是|有|[内內]容|" + _END + r")|介[绍紹](?![人信费費])|主要[讲講内內]|[讲講][了的]?(?:些|是)?什[么麼]"
    r"|整[体體]|[总總][体體]|全貌|架[构構](?![师師])|沿革|[历歷]程|[脉脈][络絡]|了解一?下|回[顾顧]|[盘盤][点點]一?下|框架|[讲講][讲講]|[来來][龙龍]去[脉脈]|[提精][炼煉簡简]|大[概致][讲講]|大[概致]的?[说說]|[缩縮][成写寫]"
    r"|\boverviews?\b|\bsummar(?:y|ies|i[sz]e[sd]?)\b|\boutline\b|\btl;?dr\b|\bintroduc(?:e|tion to)\b"
    r"|\b(?:main|key) (?:points?|topics?|findings|ideas?|takeaways?)\b|\barchitecture\b|\btell me about\b"
    r"|\bwhat's new\b|\bwhat (?:does|do) .{1,40} (?:cover|contain)\b"
)
_LIST = (
    r"哪些|哪[几幾][种種类類个個]|[组組]成|列出|列[举舉]|包[括含]什[么麼]|分[为為成][几幾]|有什[么麼]推[荐薦]|推[荐薦]一?些"
    r"|^list\b|\blist (?:all|every|the)\b|\bwhat (?:kinds|types|sorts) of\b|\bwhat are all\b|\bways to\b"
)
_DISCUSSION = (
    r"[谈談][谈談]|分析|[论論]述|[评評][价價述]|[变變]化|[的些么麼]影[响響]|\bdiscuss\b|\banaly[sz]e\b|\bimpacts? of\b"
)
_PROCESS = r"流程(?![编編号號表])|[过過]程|\bprocess\b|\bworkflow\b|\blife ?cycle\b"
_REASON = (
    r"[为為](?:什[么麼]|何|啥)|[怎咋][么麼]?[会會](?!" + _END + r")|什[么麼]原因|原因(?=是|有|在|何|" + _END + r")|理由"
    r"|\bwhy\b|\bwhat causes?\b|\breasons?\b|\bhow come\b"
)
_HOW_TO = (
    r"如何|怎[么麼](?!收|[计計]|[卖賣]|算[钱錢费費]|[念唸读讀称稱拼])|怎[样樣]|咋|[要该該][做办辦]什[么麼]"
    r"|\bhow (?:do|does|did|can|could|should|would|to|is|are)\b"
)
_STEPS = (
    r"步[骤驟]|方法|[办辦]法|做法|手[续續]|\bsteps?\b|\bprocedure\b|\binstructions?\b|\bguide\b|\bwalk me through\b"
)
_CONDITIONS = (
    r"[条條]件|[资資]格|[么麼些]要求|要求(?=是|有|"
    + _END
    + r")|[么麼些]材料|\bconditions?\b|\brequirements?\b|\brequired to\b|\beligib"
)
_EXPLANATION = r"[说說]明(?![书書])|解[释釋]|[阐闡]述|原理|作用|用途|\bexplain\b|\bdescribe\b|\bpurpose of\b"
_TROUBLE = (
    r"[连連登接]不上|不了|不[着亮动動响響]|失[败敗]|[报報][错錯]|[无無]法|打不[开開]|崩[溃潰]|死机|一直|[总總]是"
    r"|\bfails?\b|\bfailing\b|\bcrash(?:es)?\b|\bstays\b|\bcannot\b|\bcan't\b"
)
_PRICE = r"怎[么麼](?:收|[计計]|[卖賣]|算[钱錢费費])|多少[钱錢]|\bhow much\b|\bwhat does .{1,40} cost\b"
_NUMBER = (
    r"多少|百分之[几幾]|[几幾](?![乎何率])|(?<![很更许許])多(?:[长長]|久|大|高|重|[远遠]|[宽寬]|深|快|厚|粗|[细細])(?!度)"
    r"|\bhow (?:many|long|often|far|old|big|large|high|tall|heavy|fast|wide|deep)\b"
)
_TIME = (
    r"何[时時]|什[么麼](?:[时時]候|[时時][间間]|日期)|哪一?[年天日月]|[几幾][点點号號月]"
    r"|\bwhen (?:is|are|was|were|do|does|did|will|can|must|should)\b|\bwhat (?:time|date|day|year)\b"
)
_PLACE = r"哪[里裡裏儿兒]|在哪|何[处處地]|什[么麼]地方|\bwhere\b"
_PERSON = r"[谁誰]|哪位|何人|什[么麼]人|\bwho(?:m|se)?\b"
_CHOICE = r"哪一?[个個家种種款只隻条條本]|\bwhich\b|\b(?:at|in|on|from|by) what\b"
_DEFINITION = (
    r"什[么麼]意思|叫做?什[么麼]|什[么麼]叫|^什[么麼]是|何[谓謂]|指的?是?什[么麼]|代表什[么麼]|定[义義]|全[称稱]"
    r"|怎[么麼][念唸读讀称稱拼]"
    r"|\bdefin(?:e|ition)\b|\bwhat does .{1,60} (?:mean|stand for)\b|\bmeaning of\b"
)
_WHAT_IS = r"是(?:什[么麼]|啥)|\bwhat(?: is|'s| was)\b"
_WHAT = r"(?<![有了])(?:什[么麼]|啥)|\bwhat\b(?! (?:do|does|did|happens)\b)"
_YES_NO = (
    r"[吗嗎]|[^什怎那这多]么(?:" + _END + r")|([^不])不\1|是否|[能可会會]否|可不可以|有[没沒]有|需不需要"
    r"|^(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have)\b"
)
_ATTRIBUTE = (
    r"[电電][话話]|地址|[邮郵]箱|[号號][码碼]|[编編][号號]|型[号號]|[价價]格|[费費]用|[费費]率|金[额額]|日期|比例|期限|名[称稱]|上限|下限"
    r"|默[认認]|[预預][设設]|最[大小多少低高早晚][^的好]|至少|[时時][间間](?:[?。!]|$)|[总總][额額]|[资資]本"
    r"|\bdefault\b|\bm(?:ax|in)(?:imum)?\b|\b(?:name|phone|e-?mail|address|price|date|deadline)\b"
)

QUERY_RULES: tuple[QueryRule, ...] = (
    QueryRule(_COMPARISON, COARSE, 8, "compares things"),
    QueryRule(_OVERVIEW, COARSE, 8, "asks for an overview"),
    QueryRule(_LIST, COARSE, 6, "asks for a list"),
    QueryRule(_DISCUSSION, COARSE, 6, "asks for a discussion"),
    QueryRule(_PROCESS, COARSE, 5, "asks for a process as a whole"),
    QueryRule(_REASON, MEDIUM, 7, "asks for a reason"),
    QueryRule(_HOW_TO, MEDIUM, 4, "asks how something is done"),
    QueryRule(_STEPS, MEDIUM, 4, "asks for steps"),
    QueryRule(_CONDITIONS, MEDIUM, 4, "asks for conditions"),
    QueryRule(_EXPLANATION, MEDIUM, 4, "asks for an explanation"),
    QueryRule(_TROUBLE, MEDIUM, 1, "tells of trouble"),
    QueryRule(_PRICE, FINE, 5, "asks for a price or fee"),
    QueryRule(_NUMBER, FINE, 3, "asks for a number"),
    QueryRule(_TIME, FINE, 3, "asks for a time"),
    QueryRule(_PLACE, FINE, 3, "asks for a place"),
    QueryRule(_PERSON, FINE, 3, "asks who it is"),
    QueryRule(_CHOICE, FINE, 2, "asks for one of several"),
    QueryRule(_DEFINITION, FINE, 3, "asks for a meaning"),
    QueryRule(_WHAT_IS, FINE, 2, "asks what something is"),
    QueryRule(_WHAT, FINE, 1, "asks for one thing"),
    QueryRule(_YES_NO, FINE, 3, "can be answered with yes or no"),
    QueryRule(_ATTRIBUTE, FINE, 1, "asks for one particular"),
)
