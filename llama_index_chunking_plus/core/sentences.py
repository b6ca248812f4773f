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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple
from unicodedata import category

from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import OptionError

# ------------------------------------------------------------------------------------------------ characters

_STOPS = "。！？｡﹖﹗‼⁇⁈⁉︒︕︖।॥؟۔။។።"
_FULL_STOPS = "。｡︒.．"
_ELLIPSES = "…⋯"
_SEPARATORS = "，、；：,;:﹐﹑﹔﹕"
_QUOTES = {"“": "”", "‘": "’", "「": "」", "『": "』", "﹁": "﹂", "﹃": "﹄", "〝": "〞", "«": "»", "｢": "｣"}
_BRACKETS = dict(zip("（(［[｛{【〔〖《〈﹝⟨", "）)］]｝}】〕〗》〉﹞⟩", strict=True))
_ROUND = "（("
_NEWLINES = r"\n\r\v\f\x85\u2028\u2029"
_BLANKS = r"\s\u200b\u2060\ufeff"
_CJK = r"⺀-鿿ꥠ-\ud7ff豈-﫿！-￯\U00020000-\U0003ffff"
_EMOJI = r"\U0001f000-\U0001faff☀-❵➔-➿⌚-⏿⬅-⭕〰〽\u200d\ufe0f\u20e3\U000e0020-\U000e007f"

_LONGEST_QUOTE = 400
_LONGEST_BRACKET = 200
_LONG_QUOTE = 15  # a quotation of more characters that ends in 。 is a sentence of its own wherever it stands

_OPENERS = {**_QUOTES, **_BRACKETS}
_WIDTHS = str.maketrans("）］｝", ")]}")
_KINDS = {opener: closer.translate(_WIDTHS) for opener, closer in _OPENERS.items()}
_CLOSERS = {closer: closer.translate(_WIDTHS) for closer in _OPENERS.values()}
_CURLY = _KINDS["“"]

# ----------------------------------------------------------------------------------------------------- words

_TITLES = frozenset(
    "dr mr mrs ms prof st mt messrs rev hon gen col capt lt sgt sen rep gov pres fig figs no nos vol vols eq eqs tab sec "
    "ch chap ref refs p pp ed eds art cf vs v e.g i.e viz approx resp ca al tel ext dept univ ave blvd".split()
)
_SHORTENED = frozenset(
    "etc inc ltd co corp jr sr a.m p.m b.c a.d ph.d m.d b.a m.a u.s u.k u.n u.s.a est min max avg jan feb mar apr jun jul "
    "aug sep sept oct nov dec mon tue wed thu fri sat".split()
)
_STARTERS = frozenset(
    "The This That These Those He She It We They You I A An In On At As If But And So For When While However There".split()
)
_BRANDS = frozenset("Yahoo Joomla Jeopardy Wham Yum E Kahoot Chips Guess".split())
_SPEECH = "说說道问問喊叫答曰嚷吼骂罵念唱嘱囑叹嘆劝勸言云聞述写寫"
