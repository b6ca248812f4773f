"""Keywords as metadata, for filters, keyword search and readers; in an ingestion pipeline or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, Literal

from llama_index.core.bridge.pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
from typing_extensions import Self

from llama_index_chunking_plus.core.keywords import (
    STOP_WORDS,
    TEXTRANK_POS,
    Method,
    Tagged,
    dictionary_words,
    jieba_words,
    top_keywords,
    without_markup,
)
from llama_index_chunking_plus.core.words import Vocabulary
from llama_index_chunking_plus.errors import MissingExtraError, OptionError
from llama_index_chunking_plus.node_parser.options import CheckedOptions

_LOADING = Lock()
_TAGS = (
    "a ad ag an b bg c d df dg e eng f g h i in j jn k l ln m mg mq n ng nr nrfg nrt ns nt nz o p q qe qg r rg rr rz "
    "s t tg u ud ug uj ul uv uz v vd vg vi vn vq x y yg z zg"
)  # of jieba's dictionary, and of its model for words that are not in it


class JiebaKeywordTransform(CheckedOptions, TransformComponent):
    """Writes the keywords of each node into its metadata, as one text that every vector store takes.

    TF-IDF weighs how often a word stands in the text against how rare it is in Chinese at large (jieba's table);
    TextRank (Mihalcea and Tarau, 2004) takes words that stand near many others. English words count whether their
    letters are large or small, and are shown as they are mostly written. Words of one character, numbers, stop words,
    addresses and the tags of HTML and LaTeX are left out. The nodes are copied, what stood under the key is replaced,
    and a text without keywords has "". Documents can be given as well: their chunks inherit the keywords of the whole.

    Args:
        method: "tfidf" or "textrank".
        top_k: how many keywords at most.
        key: the metadata key.
        separator: stands between the keywords.
        stop_words: more words that are no keywords; a list of Chinese and English ones is built in.
        user_dictionary: path of a jieba dictionary, read once in a process; its words are known, and count
            whatever their part of speech.
        allowed_pos: jieba's tags of the parts of speech that count, such as ("n", "nz", "eng"; "eng" is English); empty
            is all of them for "tfidf", and n, ns, vn, v and eng for "textrank".
        tokenizer: "jieba", or "rjieba", a faster one in Rust whose words differ now and then (the extra ``rjieba``).
        show_to_embedder: whether the keywords are embedded with the text.
        show_to_llm: whether the language model is shown them.

    Raises:
        ValueError: key or separator is empty, top_k below 1, the dictionary is no file, a list is a plain text, or
            jieba has no such tag.
        MissingExtraError: tokenizer="rjieba", and it is not installed.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> text = "试用期的工资不低于转正后的80%，gpu 补贴另计。GPU 归公司，试用期后再发 GPU。"
        >>> node, = JiebaKeywordTransform(top_k=2)([TextNode(text=text)])
        >>> node.metadata
        {'keywords': 'GPU，试用期'}
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    method: Method = Field(default="tfidf", frozen=True, description="What makes a word a keyword.")
    top_k: int = Field(default=8, ge=1, frozen=True, description="Keywords of a node at most.")
    key: str = Field(default="keywords", frozen=True, description="The metadata key.")
    separator: str = Field(default="，", frozen=True, description="Stands between keywords.")
    stop_words: tuple[str, ...] = Field(default=(), frozen=True, description="More words that are no keywords.")
    user_dictionary: str | None = Field(default=None, frozen=True, description="Path of a jieba dictionary.")
    allowed_pos: tuple[str, ...] = Field(default=(), frozen=True, description="Parts of speech that count.")
    tokenizer: Literal["jieba", "rjieba"] = Field(default="jieba", frozen=True, description="What finds words.")
    show_to_embedder: bool = Field(default=False, frozen=True, description="Whether keywords are embedded.")
    show_to_llm: bool = Field(default=False, frozen=True, description="Whether the language model sees them.")

    @field_validator("key", "separator")
    @classmethod
    def _check_filled(cls, value: str) -> str:
        if not value:
            raise OptionError("key and separator must not be empty; leave them out for their defaults")
        return value

    @field_validator("stop_words", "allowed_pos", mode="before")
    @classmethod
    def _check_list(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            raise OptionError(f"{info.field_name}={value!r} is a plain text; pass a list: [{value!r}]")
        return value

    @field_validator("allowed_pos")
    @classmethod
    def _check_tags(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [tag for tag in value if tag not in _TAGS.split()]
        if unknown:
            raise OptionError(
                f"allowed_pos has {', '.join(map(repr, unknown))}, which jieba does not know; "
                "its tags are n, nr, ns, nz, v, vn, a, d, eng and others"
            )
        return value

    @model_validator(mode="after")
    def _check_tokenizer(self) -> Self:
        _ = Vocabulary(user_dictionary=self.user_dictionary)
        if self.tokenizer == "rjieba" and find_spec("rjieba") is None:
            raise MissingExtraError("rjieba", "rjieba")
        return self

    @classmethod
    def class_name(cls) -> str:
        """The name under which the transformation is serialised."""
        return "ChunkingPlusJiebaKeywordTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The dump; it changes with the words of the user dictionary, not only with its path."""
        digest = Vocabulary(user_dictionary=self.user_dictionary).digest
        return {**super().to_dict(**kwargs), "user_dictionary_words": digest}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The transformation that `to_dict` dumped."""
        return super().from_dict({name: value for name, value in data.items() if name in cls.model_fields}, **kwargs)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """Copies of the nodes with their keywords."""
        return [self._with_keywords(node) for node in nodes]

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Copies of the nodes with their keywords, made in a thread."""
        return await asyncio.to_thread(self, nodes, **kwargs)

    def keywords(self, text: str) -> list[str]:
        """The keywords of a text, best first."""
        return top_keywords(
            self._words(without_markup(text)),
            method=self.method,
            top_k=self.top_k,
            stop_words=STOP_WORDS.union(word.casefold() for word in self.stop_words),
            allowed_pos=self._pos,
        )

    @property
    def _pos(self) -> tuple[str, ...]:
        return self.allowed_pos or (TEXTRANK_POS if self.method == "textrank" else ())

    def _words(self, text: str) -> Iterator[Tagged]:
        words = jieba_words if self.tokenizer == "jieba" else rjieba_words
        return words(text, self.user_dictionary, bool(self._pos))

    def _with_keywords(self, node: BaseNode) -> BaseNode:
        """All fields are set at once: core's nodes check themselves as a whole whenever one of their fields is set."""
        keywords = self.keywords(node.get_content(metadata_mode=MetadataMode.NONE))
        fields = {
            "metadata": {**node.metadata, self.key: self.separator.join(keywords)},
            "excluded_embed_metadata_keys": self._excluded(node.excluded_embed_metadata_keys, self.show_to_embedder),
            "excluded_llm_metadata_keys": self._excluded(node.excluded_llm_metadata_keys, self.show_to_llm),
            "relationships": dict(node.relationships),
        }
        return node.model_copy(update=fields)

    def _excluded(self, keys: Sequence[str], is_shown: bool) -> list[str]:
        return [key for key in keys if key != self.key] if is_shown else [*dict.fromkeys([*keys, self.key])]


def rjieba_words(text: str, user_dictionary: str | None = None, tagged: bool = False) -> Iterator[Tagged]:
    """The same as `core.keywords.jieba_words`, as rjieba finds them.

    Raises:
        MissingExtraError: rjieba is not installed.
    """
    with _LOADING:
        segmenter = _load_rjieba(user_dictionary)
    text = text.encode("utf-8", "replace").decode()  # Rust takes no half characters
    if not tagged:
        return ((word, "") for word in segmenter.cut(text))
    own = dictionary_words(user_dictionary)
    return ((word, "" if word in own else tag) for word, tag in segmenter.tag(text))


@lru_cache(maxsize=8)
def _load_rjieba(user_dictionary: str | None) -> Any:
    try:
        segmenter = import_module("rjieba").Jieba()
    except ImportError as error:
        raise MissingExtraError("rjieba", "rjieba") from error
    for word in sorted(dictionary_words(user_dictionary)):
        segmenter.add_word(word, None, None)
    return segmenter
