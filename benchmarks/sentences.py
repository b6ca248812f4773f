"""The sentence tokenizer: characters a second, against pysbd and punkt, and on texts that are made to be slow."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from timing import Skipped, corpus, median_seconds, paired, seconds

from llama_index_chunking_plus import chinese_sentence_tokenizer

SHORT, LONG = 100_000, 800_000  # characters of a hostile text
HOSTILE = {
    "open quotes": "“",
    "close quotes": "”",
    "stops": "。",
    "ellipses": "……",
    "nested brackets": "《（",
    "corner quotes": "「『",
    "mixed marks": "！？",
    "letter dots": "a.",
    "decimals": "1.",
    "urls": "http://a.b/",
    "open brackets": "（",
    "speech": "他说：“好。",
    "citations": "[1]",
    "newlines": "\n",
    "ideographic spaces": "　",
    "one character": "甲",
    "tags": "<b>",
    "table rows": "|a|b|\n",
    "headings": "# \n",
    "list items": "- \n",
    "carriage returns": "\r",
}


def speed() -> dict[str, float]:
    text = corpus(2)
    return {
        "million characters a second": len(text) / median_seconds(lambda: chinese_sentence_tokenizer(text), 9) / 1e6
    }


def against(peer: Callable[[str], Any], name: str, megabytes: float, repeats: int) -> dict[str, float]:
    text = corpus(megabytes)
    peer(text[:1000])  # loads its data
    times = paired(lambda: chinese_sentence_tokenizer(text), lambda: peer(text), repeats)
    return {
        f"million characters a second, {name}": len(text) / times.theirs / 1e6,
        f"times as fast as {name}": times.ratio,
    }


def against_pysbd() -> dict[str, float]:
    """All bundled documents once: it takes long."""
    import pysbd  # noqa: PLC0415  only if it is installed

    return against(pysbd.Segmenter(language="zh", clean=False).segment, "pysbd", 0.1, 5)


def against_punkt() -> dict[str, float]:
    """LlamaIndex's default, which finds the ends of English sentences only."""
    from llama_index.core.node_parser.text.utils import split_by_sentence_tokenizer  # noqa: PLC0415  loads nltk

    try:
        return against(split_by_sentence_tokenizer(), "punkt", 2, 5)
    except LookupError as error:
        raise Skipped("the data of punkt is not there") from error


def hostile() -> dict[str, float]:
    """How much more a character takes in the longer text; 1 is linear."""
    growth = {name: growth_on(unit) for name, unit in HOSTILE.items()}
    return {
        "time per character, 8 times as long, the median": median(growth.values()),
        "time per character, 8 times as long, the worst": max(growth.values()),
    }


def growth_on(unit: str) -> float:
    short, long = ((unit * length)[:length] for length in (SHORT, LONG))
    turns = [
        seconds(lambda: chinese_sentence_tokenizer(long)) / seconds(lambda: chinese_sentence_tokenizer(short))
        for _ in range(5)
    ]
    return median(turns) * SHORT / LONG
