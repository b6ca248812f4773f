"""Texts that break splitters, by name; every parser and tokenizer is tried on each."""

from __future__ import annotations

PROSE = (
    "山下有一座旧书店。店主姓林，今年七十二岁，他说：“书不怕旧，怕的是没人翻。”每到周末，附近的学生都来看书。"
    "店里的规矩只有一条：看完要放回原处！有人问能不能打折？林先生总是笑笑……\n\n"
    "The shop opened in 1987. It sells about 3.5 books a day, e.g. novels and maps. Visit https://example.com/shop?id=1 "
    "for details.\n\n股市周三收跌0.8%，成交额为1,234.56亿元。分析师认为，短期内不会反弹。投资者应当谨慎。\n"
)

HOSTILE_UNITS = {
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
    "speech": "他说：“好。",
    "fences": "```\n",
    "dollars": "$",
    "citations": "[1]",
    "newlines": "\n",
    "ideographic spaces": "\u3000",
    "one character": "甲",
    "one letter": "a",
    "tags": "<b>",
    "table rows": "|a|b|\n",
    "carriage returns": "\r",
    "html comments": "<!--",
    "commas": "，",
    "spaces": " ",
    "emoji": "😀",
    "joined emoji": "👨‍👩‍👧",
    "combining marks": "e\u0301",
    "flags": "🇨🇳",
    "headings": "# \n",
    "list items": "- \n",
    "open round brackets": "（",
    "block quotes": "> ",
    "zero-width joiners": "\u200d",
    "line separators": "\u2028",
    "right to left": "שלום. ",
}

ODD_TEXTS = {
    "empty": "",
    "blank": "  \n\t\u3000\n",
    "one character": "甲",
    "one stop": "。",
    "no end": "没有句号的一段话",
    "lone surrogates": "坏的\ud800字符。还有\udfff一个。",
    "surrogate pair in two": "\ud83d\ude00。好。",
    "nul": "空\x00字符。后面。",
    "crlf": "第一行。\r\n第二行。\r\n\r\n第三行。\r\n",
    "bom": "\ufeff开头有标记。后面照常。",
    "mixed newlines": "一。\r二。\n三。\r\n四。\u2028五。\u0085六。\x0b七。\x0c八。",
    "emoji": "好👍🏽。看👨‍👩‍👧‍👦。旗🇨🇳🇯🇵。",
    "repeated sentences": "好的。" * 60,
    "repeated words": "the cat and the dog the " * 40,
    "special token": "前面<|endoftext|>后面。再来<|endoftext|>。",
    "long url": "见https://example.com/" + "a/b-c_" * 200 + "。完。",
    "long blank": "前。" + " " * 3000 + "后。",
    "unterminated fence": "说明如下。\n\n```python\n" + "print(1)\n" * 60,
    "only headings": "".join(f"{'#' * (1 + i % 6)} 第{i}节\n" for i in range(80)),
    "only punctuation": "，。！？；：“”‘’（）《》…—、" * 20,
    "nested quotes": "".join(f"{'> ' * i}第{i}层。\n" for i in range(40)),
    "nested lists": "".join(f"{'  ' * i}- 第{i}层。\n" for i in range(40)),
    "wide table": f"|{'甲|' * 2_000}\n|{'-|' * 2_000}\n|{'乙|' * 2_000}\n",
    "right to left": "مرحبا بكم. שלום עולם. \u202e倒过来\u202c。中文。",
    "japanese": "彼は「はい。」と答えた。それで終わりだ。",
}
