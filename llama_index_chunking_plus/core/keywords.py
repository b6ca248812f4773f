"""The keywords of a text, and how many of its words the cuts between chunks leave whole.

Sources:
    TF-IDF: Spärck Jones (1972), A statistical interpretation of term specificity and its application in retrieval; the
        table of inverse document frequencies is jieba's.
    TextRank: Mihalcea and Tarau (2004), TextRank: Bringing Order into Texts, with the window of jieba.analyse.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.core.words import Vocabulary, protected_words, segmenter
from llama_index_chunking_plus.errors import OptionError

Method = Literal["tfidf", "textrank"]
Tagged = tuple[str, str]  # a word and its part of speech; "" is unknown, and always allowed

TEXTRANK_POS = ("n", "ns", "vn", "v", "eng")  # what jieba.analyse ranks, and English words

_STOP_WORDS = """
一个 一些 一切 一定 一样 一直 一般 一种 一起 一下 一次 万一 上述 下列 不仅 不但 不会 不可 不同 不是 不得 不能 不要
不过 与其 为了 为什么 主要 之一 之前 之后 之间 也是 也许 以上 以下 以及 以外 以便 任何 但是 作为 你们 使得 例如
依照 依据 假如 关于 其中 其他 其它 其实 其次 具有 再者 几乎 分别 别的 即使 即可 却是 及其 双方 反之 只是 只有 只能
只要 可以 可能 可是 各个 各种 同时 同样 否则 哪些 哪个 哪里 因为 因此 在内 如下 如何 如果 如此 好像 它们 对于 对方
尤其 就是 尽管 属于 已经 已有 应当 应该 当时 彼此 必须 怎么 怎样 总之 我们 或者 所以 所有 所谓 接着 方面 无论 既然
时候 是否 曾经 最后 有些 有关 有的 来自 某个 某些 根据 正在 此外 每个 比如 没有 然后 然而 特别 现在 由于 由此 目前
直到 相关 相应 等等 經過 经过 而且 而是 能够 自己 至于 至少 若是 虽然 要是 认为 许多 诸如 起来 较为 还是 还有 这个
这些 这样 这种 这里 进行 进而 通过 那个 那些 那样 那么 那里 随着 非常 需要 首先 一個 這個 這些 這樣 這裡 那個 為了
為什麼 因為 雖然 還是 還有 沒有 對於 關於 應該 應當 必須 經由 或許 什么 什麼 他们 她们 他們 她們 我們 你們 它們
咱们 大家 不少 不再 不论 不如 从而 才能 此时 甚至 并且 而言 于是 等于 可见 除了 一方面
a about above after again all also am an and any are as at be because been before being below between both but by can
cannot could did do does doing don down during each either etc few for from further had has have having he her here
hers him his how however if in into is isn it its itself just let ll may me might more most must my no nor not now of
off on once one only or other our ours out over own per same shall she should since so some such than that the their
them then there these they this those through to too two under until up upon us use used uses using ve very via was
we were what when where whether which while who whom whose why will with within without would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_MARKUP = re.compile(
    r"</?(?:a|b|br|caption|code|col|colgroup|dd|details|div|dl|dt|em|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|sub|summary"
    r"|sup|table|tbody|td|tfoot|th|thead|tr|u|ul)(?:[\s/][^<>]*)?>|\\[A-Za-z]+|&[a-z]+;|https?://[!-~]+",
    re.IGNORECASE,
)
_LOADING = Lock()
_SHORTEST = 2  # characters of a keyword, and of a word that a cut can tear
_LONGEST = 64  # characters of a keyword; what is longer is code or data
_WINDOW = 5  # words within which two of them are neighbours
_DAMPING = 0.85
_ROUNDS = 10


def jieba_words(text: str, user_dictionary: str | None = None, tagged: bool = False) -> Iterator[Tagged]:
    """The words of the text, all of it, with their parts of speech if wanted; those of the user dictionary have none.

    Example:
        >>> [word for word, tag in jieba_words("检索系统很快。")]
        ['检索系统', '很快', '。']
    """
    if not tagged:
        return ((word, "") for word in segmenter(user_dictionary).cut(text))
    own = dictionary_words(user_dictionary)
    pairs = _tagger(user_dictionary).cut(text)
    return ((pair.word, "" if pair.word in own else pair.flag) for pair in pairs)


def dictionary_words(user_dictionary: str | None) -> frozenset[str]:
    """The words of the user dictionary, read once."""
    return protected_words(Vocabulary(user_dictionary=user_dictionary))


def top_keywords(
    words: Iterable[Tagged],
    *,
    method: Method = "tfidf",
    top_k: int = 8,
    stop_words: Collection[str] = STOP_WORDS,
    allowed_pos: Collection[str] = (),
) -> list[str]:
    """The words that say most about the text that they make up, best first.

    Words of one character or more than 64, those without a letter, and stop words do not count. Words that differ in
    small and large letters are one, shown as it is mostly written.

    Args:
        words: all words of the text in order, and their parts of speech.
        method: "tfidf", frequent here and rare elsewhere; or "textrank", near to many that are near to many.
        top_k: how many at most.
        stop_words: left out; in small letters.
        allowed_pos: the parts of speech that count; empty is all.

    Example:
        >>> words = [(word, "") for word in "GPU 显存 GPU 的 显存 gpu 大小 2024".split()]
        >>> top_keywords(words, top_k=2)
        ['GPU', '显存']
    """
    written: dict[str, Counter[str]] = defaultdict(Counter)
    keys: list[str | None] = []
    for word, tag in words:
        key = _key(word, stop_words) if not tag or not allowed_pos or tag in allowed_pos else None
        keys.append(key)
        if key is not None:
            written[key][word] += 1
    score = {"tfidf": _tf_idf, "textrank": _text_rank}[method](keys)
    best = sorted(score, key=score.__getitem__, reverse=True)[:top_k]
    return [written[key].most_common(1)[0][0] for key in best]


def without_markup(text: str) -> str:
    """The text without what is no words of it: HTML tags, LaTeX commands, addresses.

    Example:
        >>> without_markup("<td>电压</td> 见 https://a.cn/b $\\\\mathrm{V}$")
        ' 电压  见   $ {V}$'
    """
    return _MARKUP.sub(" ", text)


def keyword_integrity(
    text: str, spans: Iterable[tuple[int, int]], terms: Iterable[str] | None = None, user_dictionary: str | None = None
) -> float:
    """The share of words that no cut between chunks tears apart, 0 to 1; 1 where there is nothing to tear.

    Args:
        text: the document.
        spans: its chunks, in any order; they may overlap, lie within each other or leave gaps.
        terms: what is to stay whole, wherever it stands; None: the words of two or more characters that jieba finds.
        user_dictionary: path of a jieba dictionary whose words jieba is to know.

    Raises:
        OptionError: a term is empty.

    Example:
        >>> keyword_integrity("检索增强生成很好", [(0, 3), (3, 8)], ["检索", "增强", "生成"])
        0.6666666666666666
    """
    found = _occurrences(text, terms, user_dictionary)
    return (len(found) - len(_torn(found, spans))) / len(found) if found else 1.0


def cut_terms(
    text: str, spans: Iterable[tuple[int, int]], terms: Iterable[str] | None = None, user_dictionary: str | None = None
) -> list[Span]:
    """Where a word stands that no chunk holds whole, in order; the arguments are those of `keyword_integrity`.

    Example:
        >>> text = "检索增强生成很好"
        >>> [span.of(text) for span in cut_terms(text, [(0, 3), (3, 8)], ["检索", "增强", "生成"])]
        ['增强']
    """
    return _torn(_occurrences(text, terms, user_dictionary), spans)


def _key(word: str, stop_words: Collection[str]) -> str | None:
    """What makes two words one; None for what is no keyword."""
    key = word.casefold()
    counts = _SHORTEST <= len(key) <= _LONGEST and key not in stop_words and any(map(str.isalpha, key))
    return key if counts else None


def _occurrences(text: str, terms: Iterable[str] | None, user_dictionary: str | None) -> list[Span]:
    """Where words or terms stand, in order; each place once."""
    if terms is None:
        return list(_word_spans(text, user_dictionary))
    wanted = dict.fromkeys(terms)
    if "" in wanted:
        raise OptionError("terms holds an empty string; leave it out")
    return sorted(span for term in wanted for span in _places(text, term))


def _word_spans(text: str, user_dictionary: str | None) -> Iterator[Span]:
    start = 0
    for word, _ in jieba_words(text, user_dictionary):
        if len(word) >= _SHORTEST and any(map(str.isalnum, word)):
            yield Span(start, start + len(word))
        start += len(word)


def _places(text: str, term: str) -> Iterator[Span]:
    start = text.find(term)
    while start >= 0:
        yield Span(start, start + len(term))
        start = text.find(term, start + 1)


def _torn(found: Sequence[Span], spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Those of the sorted ranges that lie in no chunk: one sweep, as far as any chunk reaches that began by then."""
    chunks = sorted(spans)
    torn, reach, position = [], 0, 0
    for span in found:
        while position < len(chunks) and chunks[position][0] <= span.start:
            reach = max(reach, chunks[position][1])
            position += 1
        if span.end > reach:
            torn.append(span)
    return torn


def _tf_idf(keys: Iterable[str | None]) -> dict[str, float]:
    frequency, median = _inverse_frequencies()
    counts = Counter(key for key in keys if key is not None)
    return {key: count * frequency.get(key, median) for key, count in counts.items()}


def _text_rank(keys: Sequence[str | None]) -> dict[str, float]:
    """PageRank over neighbourhoods, each counted as often as it occurs."""
    near: dict[str, Counter[str]] = {key: Counter() for key in keys if key is not None}
    for position, left in enumerate(keys):
        for right in keys[position + 1 : position + _WINDOW]:
            if left is not None and right is not None:
                near[left][right] += 1
                near[right][left] += 1
    weight = {key: sum(neighbours.values()) for key, neighbours in near.items()}
    rank = dict.fromkeys(near, 1 / (len(near) or 1))
    for _ in range(_ROUNDS):
        for key in sorted(near):
            given = sum(times / weight[other] * rank[other] for other, times in near[key].items())
            rank[key] = 1 - _DAMPING + _DAMPING * given
    return rank


def _inverse_frequencies() -> tuple[dict[str, float], float]:
    with _LOADING:
        return _load_inverse_frequencies()


@lru_cache(maxsize=1)
def _load_inverse_frequencies() -> tuple[dict[str, float], float]:
    """Jieba's table and its median, for words that are not in it; read as a file, as importing it takes seconds."""
    package = find_spec("jieba")
    folder = Path(package.origin if package and package.origin else "").parent
    lines = (folder / "analyse" / "idf.txt").read_text(encoding="utf-8").splitlines()
    table = {word: float(value) for word, value in (line.split() for line in lines)}
    return table, sorted(table.values())[len(table) // 2]


def _tagger(user_dictionary: str | None) -> Any:
    words = segmenter(user_dictionary)
    with _LOADING:
        return _load_tagger(words)


@lru_cache(maxsize=8)
def _load_tagger(words: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as words.py does
        from jieba import posseg  # noqa: PLC0415  seconds that only parts of speech have to pay

    tagger = posseg.POSTokenizer.__new__(posseg.POSTokenizer)  # its constructor reads the dictionary once more
    tagger.tokenizer = words
    tagger.word_tag_tab = posseg.dt.word_tag_tab
    return tagger
