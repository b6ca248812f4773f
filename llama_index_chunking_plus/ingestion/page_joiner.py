"""Pages to documents: a reader that gives one document a page has cut sentences and tables where the paper ended."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field, field_validator
from llama_index.core.schema import BaseNode, Document, MetadataMode, TransformComponent

from llama_index_chunking_plus.core.pages import MAP_KEY, PageMap
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.options import CheckedOptions

_MEDIA = ("image_resource", "audio_resource", "video_resource")
_LOOK = ("metadata_template", "metadata_separator", "text_template")
_TAIL_CHARS = 300  # how much of a page decides whether its last sentence is over

_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*")
_DELIMITER = re.compile(r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_BLOCK_START = re.compile(
    r"#{1,6}[ \t]|>|[-*+•●■◆][ \t]|```|~~~|[ \t]{2}|\t|\u3000"
    r"|[(（]?[0-9一二三四五六七八九十]{1,3}(?:[)）、]|[.．](?![0-9]))"
    r"|第[0-9一二三四五六七八九十百零〇]{1,6}[章节条款编部篇](?:\s|$)"
)
_BLOCK_END = re.compile(r"#{1,6}[ \t]|[ \t]*(?:```|~~~)")
_PAGE_NUMBER = re.compile(
    r"[ \t]*(?:[-–—·]?[ \t]*[0-9]{1,4}[ \t]*[-–—·]?|[0-9]{1,4}[ \t]*/[ \t]*[0-9]{1,4}"
    r"|第[ \t]*[0-9]{1,4}[ \t]*页.*|page[ \t]+[0-9]{1,4}\b.*)[ \t]*",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]")
_tokenizer = ChineseSentenceTokenizer()


class PageJoiner(CheckedOptions, TransformComponent):
    """Makes one document of the pages of each file, and keeps where each page begins.

    Pages are documents with a label, and with the name of their file, as LlamaIndex's ``PDFReader`` gives them. White
    space where two pages meet gives way to what joins them: nothing where a sentence goes on in Chinese, a space where
    it goes on in Latin words, else a newline; a table that goes on is one table. If the next page repeats its header,
    that row stays, as a row, and only the row of dashes under it is left out. Running heads and feet are not touched; a
    page number stays on a line of its own.

    The document's id is the name of the file; its metadata is what all pages agree on, and ``page_map``, such as
    "1:0,2:1530", hidden from embedder and model. Chunks that the parsers of this package make of it say in their
    metadata on which pages they stand: ``page_start`` and ``page_end``. Documents without label or name, pieces of
    documents, and pages that hold pictures pass through. The inputs are not changed.

    Join before `sync_documents`, not in its pipeline: a sync must be given the documents that it is to hold.

    Args:
        key: the metadata that names the file, the first that a page has: a path tells files of one name apart.
        page_key: the metadata that holds a page's label. If the labels of a file are different whole numbers, they are
            the order of its pages; else the order of arrival is.

    Raises:
        ValueError: key or page_key is empty or no text; what is to be joined is no document.

    Example:
        >>> from llama_index.core import Document
        >>> pages = ["今天下雨，我们", "不去公园了。"]
        >>> documents = PageJoiner().join(
        ...     Document(text=text, metadata={"file_name": "日记.pdf", "page_label": str(number)})
        ...     for number, text in enumerate(pages, 1)
        ... )
        >>> documents[0].id_, documents[0].text, documents[0].metadata
        ('日记.pdf', '今天下雨，我们不去公园了。', {'file_name': '日记.pdf', 'page_map': '1:0,2:7'})
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    key: tuple[str, ...] = Field(
        default=("file_path", "file_name"), frozen=True, description="Metadata that names the file, the first found."
    )
    page_key: str = Field(default="page_label", frozen=True, description="Metadata that holds a page's label.")

    @field_validator("key", mode="before")
    @classmethod
    def _check_key(cls, value: Any) -> Any:
        keys = (value,) if isinstance(value, str) else value
        if not isinstance(keys, list | tuple) or not all(isinstance(each, str) for each in keys):
            raise OptionError(f"key={value!r} is no name; give the metadata that names the file, or a list of such")
        if not keys or not all(keys):
            raise OptionError(f"key={value!r} is empty or holds an empty name; give the metadata that names the file")
        return keys

    @field_validator("page_key")
    @classmethod
    def _check_page_key(cls, value: str) -> str:
        if not value:
            raise OptionError("page_key='' is empty; give the metadata that holds the label of a page")
        return value

    @classmethod
    def class_name(cls) -> str:
        """The name under which the joiner is serialised."""
        return "ChunkingPlusPageJoiner"

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """The nodes, each file's pages as one document in the place of the first of them."""
        places: list[BaseNode | str] = []
        files: dict[str, list[BaseNode]] = {}
        for node in nodes:
            _check_node(node)
            name = self._file_of(node)
            if name is None:
                places.append(node)
            elif name in files:
                files[name].append(node)
            else:
                files[name] = [node]
                places.append(name)
        return [self._document(place, files[place]) if isinstance(place, str) else place for place in places]

    def join(self, documents: Iterable[Document]) -> list[Document]:
        """The documents, each file's pages as one in the place of the first of them."""
        return [node for node in self(list(documents)) if isinstance(node, Document)]

    def _file_of(self, node: BaseNode) -> str | None:
        """The name of the file that the node is a page of; None if it is no page."""
        is_page = isinstance(node, Document) and node.source_node is None and self._label(node)
        if not is_page or any(getattr(node, name, None) for name in _MEDIA):
            return None
        return next((str(node.metadata[key]) for key in self.key if node.metadata.get(key)), None)

    def _label(self, page: BaseNode) -> str:
        label = page.metadata.get(self.page_key)
        return "" if label is None else str(label).strip()

    def _document(self, name: str, pages: Sequence[BaseNode]) -> Document:
        pages = self._in_order(pages)
        text, starts = join_pages([page.get_content(metadata_mode=MetadataMode.NONE) for page in pages])
        labelled = [(self._label(page), start) for page, start in zip(pages, starts, strict=True) if start is not None]
        told = PageMap(*map(tuple, zip(*labelled, strict=True))).to_metadata() if labelled else {}
        return Document(
            id_=name,
            text=text,
            metadata={**self._common_metadata(pages), **told},
            excluded_embed_metadata_keys=_merged(*(page.excluded_embed_metadata_keys for page in pages), told),
            excluded_llm_metadata_keys=_merged(*(page.excluded_llm_metadata_keys for page in pages), told),
            **{key: getattr(pages[0], key) for key in _LOOK if hasattr(pages[0], key)},
        )

    def _in_order(self, pages: Sequence[BaseNode]) -> Sequence[BaseNode]:
        labels = [self._label(page) for page in pages]
        if not all(label.isdecimal() for label in labels) or len({*map(int, labels)}) < len(labels):
            return pages
        return sorted(pages, key=lambda page: int(self._label(page)))

    def _common_metadata(self, pages: Sequence[BaseNode]) -> dict[str, Any]:
        first, *others = (page.metadata for page in pages)
        own = (self.page_key, MAP_KEY)
        return {
            key: copy.deepcopy(value)
            for key, value in first.items()
            if key not in own and all(key in other and other[key] == value for other in others)
        }


def _check_node(node: object) -> None:
    if not isinstance(node, BaseNode):
        raise OptionError(f"{node!r} is no document; give Documents, as a reader makes them: Document(text=...)")


def _merged(*lists: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(key for each in lists for key in each))


def join_pages(pages: Sequence[str]) -> tuple[str, list[int | None]]:
    """The text of all pages, and where each begins in it; None for a blank page.

    Example:
        >>> join_pages(["Rain and", " ", "wind. "])
        ('Rain and wind. ', [0, None, 9])
    """
    filled = [page for page in pages if page.strip()]
    if not filled:
        return "", [None] * len(pages)
    text = _JoinedText()
    starts = [text.add(page) if page.strip() else None for page in pages]
    return "".join(text.parts) + filled[-1][len(filled[-1].rstrip()) :], starts


@dataclass
class _JoinedText:
    """The pages so far, the white space at their end left off."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    header: str = ""  # first row of the table that the text ends in
    is_code: bool = False  # whether the text ends inside a fence

    def add(self, page: str) -> int:
        """Join a page that is not blank; returns where it begins."""
        joint = ""
        if self.parts:
            joint, page = self._joint(page[_leading_blank_lines(page) :])
        is_same_table = joint == "\n" and self.header != ""
        if "\r\n" in page:
            joint = joint.replace("\n", "\r\n")
        start, kept = self.length + len(joint), page.rstrip()
        self.parts += [joint, kept]
        self.length = start + len(kept)
        self._look_at_end(kept, is_same_table)
        return start

    def _joint(self, page: str) -> tuple[str, str]:
        """What stands between the text and the page, and the page without what stands between them already."""
        first = page.split("\n", 1)[0].rstrip()
        if self.is_code:
            return "\n", page
        if _ROW.fullmatch(first) or self.header:
            return self._table_joint(page, first)
        last = _last_line(self.parts[-1])
        starts_anew = _BLOCK_START.match(first) or _PAGE_NUMBER.fullmatch(first)
        if starts_anew or _BLOCK_END.match(last) or _PAGE_NUMBER.fullmatch(last) or _is_over(last, first):
            return "\n", page
        page = page.lstrip()
        return _glue(last, page), page

    def _table_joint(self, page: str, first: str) -> tuple[str, str]:
        """A row after a row goes on with the table, unless it is the header of another one."""
        if not (_ROW.fullmatch(first) and self.header):
            return "\n\n", page
        second = page.split("\n", 2)[1].rstrip() if "\n" in page else ""
        if not _DELIMITER.fullmatch(second):
            return "\n", page
        if _cells(first) != _cells(self.header):
            return "\n\n", page
        header, _, *rest = page.split("\n", 2)
        return "\n", "\n".join([header, *rest])

    def _look_at_end(self, kept: str, is_same_table: bool) -> None:
        self.is_code ^= len(_FENCE.findall(kept)) % 2 == 1
        rows = [] if self.is_code else _rows_at_end(kept)
        is_nothing_else = len(rows) == kept.count("\n") + 1
        if not (is_same_table and is_nothing_else):
            self.header = rows[0] if rows else ""


def _leading_blank_lines(page: str) -> int:
    return page.rfind("\n", 0, len(page) - len(page.lstrip())) + 1


def _last_line(text: str) -> str:
    return text[-_TAIL_CHARS:].rsplit("\n", 1)[-1]


def _rows_at_end(text: str) -> list[str]:
    """The run of table rows that the text ends in."""
    rows: list[str] = []
    for line in reversed(text.split("\n")):
        if not _ROW.fullmatch(line.rstrip()):
            break
        rows.append(line)
    return rows[::-1]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _is_over(last: str, first: str) -> bool:
    """Whether a sentence ends where the last line of a page meets the first of the next."""
    glue = _glue(last, first)
    ends = _tokenizer.ends(last + glue + first[:_TAIL_CHARS])
    return any(len(last) <= end <= len(last + glue) for end in ends)


def _glue(left: str, right: str) -> str:
    """What joins the two halves of a sentence."""
    is_broken_word = left[-2:-1].isalpha() and left.endswith("-") and right[:1].islower()
    return "" if is_broken_word or _CJK.match(left[-1:]) or _CJK.match(right[:1]) else " "
