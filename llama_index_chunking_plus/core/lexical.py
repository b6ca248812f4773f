"""The words by which a text is found: what BM25 counts, in documents and in questions alike.

    text -> folded (NFKC) -> runs of Han characters -> jieba's words, long ones with the words in them
                          -> all else               -> ERR-4012 whole, and err, 4012
         -> small letters, without function words

Jieba's model for words that no dictionary has stays out of it: what it makes of a name depends on the words around, so
that a question and its answer would be cut differently. Such a name is found by its characters.

Sources:
    Words, and characters where there is no word: Nie, Gao, Zhang and Zhou (2000), On the Use of Words and N-grams for
        Chinese Information Retrieval, IRAL.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from llama_index_chunking_plus.core.keywords import STOP_WORDS
from llama_index_chunking_plus.core.words import Vocabulary, protected_words, segmenter

WORDS_VERSION = 1  # another one whenever the same text gives other words

_FUNCTION_WORDS = """
的 地 得 了 着 著 过 過 在 是 有 和 与 與 或 及 也 都 就 而 又 再 还 還 很 更 最 不 没 沒 会 會 能 可 要 应 應 须 須
则 則 若 如 为 為 以 从 從 对 對 于 於 由 向 至 到 把 被 之 其 所 者 此 该 該 各 每 某 这 這 那 我 你 您 他 她 它
个 個 第 等 时 時 年 月 日 上 下 中 里 裡 内 內 外 前 后 後 吗 嗎 呢 吧 啊 谁 誰 哪 几 幾
多少 多久 请问 請問 为何 為何 怎么样 怎麼樣
"""
_IGNORED = STOP_WORDS | frozenset(_FUNCTION_WORDS.split())

_HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_LETTER = rf"[^\W_{_HAN}]"  # or digit, of any script but Han
_JOINER = r"(?:[-._/\\:@&'’+~]{1,2}|(?<=\d),(?=\d{3}(?!\d)))"
_RUN = re.compile(rf"([{_HAN}]{{1,500}})|{_LETTER}+(?:{_JOINER}{_LETTER}+){{0,31}}(?:[%‰#]|\+{{1,2}})?")
_PART = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+?(?:(?<=[a-z])(?=[A-Z])|(?![^\W\d_]))")  # 2.3.1, llama|Index
_THOUSANDS = re.compile(r"(?<=\d),(?=\d)")
_SUFFIX = "%‰#+"
_LONGEST = 64  # characters of a word; what is longer is data
_WIDE_MARKS = str.maketrans("：，", "  ")  # folded, they would join what they part


def search_words(text: str, vocabulary: Vocabulary | None = None) -> list[str]:
    """The words of a text or a question for lexical search, in order, as often as they stand there.

    Chinese comes as jieba's words, long ones together with the words within them, and as single characters where the
    dictionary has no word. All else comes in small letters: names, codes and numbers whole, and in parts of at least
    two characters where they have some. Protected terms and the words of a user dictionary come whole as well, whatever
    they hold. Full-width letters and digits count as plain ones. Left out are function words, punctuation, and words
    of more than 64 characters.

    Args:
        text: any string.
        vocabulary: protected terms and a user dictionary.

    Example:
        >>> search_words("报错ERR-4012的原因")
        ['报错', 'err-4012', 'err', '4012', '原因']
        >>> search_words("Ａ３８０升级到v2.3.1，提高了3.5%")
        ['a380', '380', '升级', 'v2.3.1', '2.3.1', '提高', '3.5%', '3.5']
    """
    vocabulary = vocabulary or Vocabulary()
    folded = _folded(text)
    words = list(_plain_words(folded, vocabulary.user_dictionary))
    words.extend(_terms_in(folded, vocabulary))
    return words


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_WIDE_MARKS))


def _plain_words(folded: str, user_dictionary: str | None) -> Iterator[str]:
    cut = segmenter(user_dictionary).cut_for_search
    for run in _RUN.finditer(folded):
        if run[1] is None:
            yield from _code_words(run[0])
        else:
            yield from (word for word in cut(run[0], HMM=False) if word not in _IGNORED)


def _code_words(run: str) -> tuple[str, ...]:
    return _short_code_words(run) if len(run) <= _LONGEST else _split_code(run)


@lru_cache(maxsize=65_536)
def _short_code_words(run: str) -> tuple[str, ...]:
    return _split_code(run)


def _split_code(run: str) -> tuple[str, ...]:
    """A run without a break whole, without its sign, and its parts; each once."""
    whole = _THOUSANDS.sub("", run)
    parts = (part for part in _PART.findall(whole) if len(part) > 1)
    forms = dict.fromkeys((whole, whole.rstrip(_SUFFIX), *parts))
    return tuple(dict.fromkeys(form.casefold() for form in forms if _counts(form, whole)))


def _counts(form: str, whole: str) -> bool:
    """No function word, unless in capitals (IT, WHO); a single character only where it stands by itself."""
    if len(form) > _LONGEST or (len(form) == 1 and form != whole):
        return False
    return form.isupper() or form.casefold() not in _IGNORED


# ------------------------------------------------------------------------------------------------ terms kept whole


@dataclass(frozen=True)
class _Terms:
    """Terms to be found in a folded text, with their lengths by first character."""

    terms: frozenset[str]
    lengths: Mapping[str, Sequence[int]]
    first: re.Pattern[str] | None


def _terms_in(folded: str, vocabulary: Vocabulary) -> Iterator[str]:
    """The terms that stand in the text and are no words of it as it is; the longest at each place."""
    known = _terms(protected_words(vocabulary), vocabulary.user_dictionary)
    if known.first is None:
        return
    text = folded.casefold()
    for found in known.first.finditer(text):
        start = found.start()
        pieces = (text[start : start + length] for length in known.lengths[found[0]])
        yield from islice((piece for piece in pieces if piece in known.terms), 1)


@lru_cache(maxsize=32)
def _terms(protected: frozenset[str], user_dictionary: str | None) -> _Terms:
    folded = {_folded(term) for term in protected}
    terms = {term.casefold() for term in folded if term.casefold() not in _plain_words(term, user_dictionary)}
    lengths: dict[str, set[int]] = {}
    for term in terms:
        lengths.setdefault(term[0], set()).add(len(term))
    first = re.compile("[" + "".join(map(re.escape, sorted(lengths))) + "]") if terms else None
    longest_first = {character: sorted(own, reverse=True) for character, own in lengths.items()}
    return _Terms(frozenset(terms), longest_first, first)
