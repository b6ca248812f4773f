"""What a document says of itself, as metadata: title, version, date."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent

from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.headers import (
    FILE_KEYS,
    HEADER_KEYS,
    date_in,
    file_title,
    iso_date,
    plain,
    version_in,
)
from llama_index_chunking_plus.core.markdown import markdown_blocks
from llama_index_chunking_plus.core.numbered import numbered_blocks, structure_of
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.options import CheckedOptions

_FILE_TIME = "last_modified_date"
_NAMES = {
    "title": ("title", "标题", "文档标题"),
    "version": ("version", "版本", "版本号"),
    "updated_at": (
        *("updated_at", "updated", "last_updated", "last_modified", "lastmod", "modified", "revision_date"),
        *("更新时间", "更新日期", "修订日期", "date", "日期", "发布日期"),
    ),
}  # field -> keys of a front matter, the first that says something
_KNOWN = {field: [key for key in HEADER_KEYS[field] if key not in (*FILE_KEYS, _FILE_TIME)] for field in _NAMES}
_FRONT_MATTER = re.compile(
    r"\ufeff?---[ \t]*(?:\r\n?|\n)(?P<yaml>(?:(?!(?:---|\.\.\.)[ \t]*(?:[\r\n]|\Z))[^\r\n]*(?:\r\n?|\n))*)"
    r"(?:---|\.\.\.)[ \t]*(?:[\r\n]|\Z)"
)
_NO_TEXT = {BlockKind.FRONT_MATTER, BlockKind.COMMENT, BlockKind.HTML, BlockKind.BREAK}
_PICTURE = re.compile(r"\s*\[?!\[")
_TITLE_LINE = re.compile(r"[^。！？!?；;…，,：:]{2,60}")
_PART = re.compile(r"_part_\d+$")  # LlamaIndex's readers number the pieces of a file
_NAMELIKE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$|[\u3400-\u9fff]")


class DocumentMetadataTransform(CheckedOptions, TransformComponent):
    """Gives documents title, version and updated_at where their metadata has none; it stands ahead of the parser.

    Each is taken from the first place that says it, and from none that is doubtful. Metadata that is there stays: a
    document with ``document_title`` gets no ``title``, one with ``date`` no ``updated_at``. What is added is hidden
    from embedding model and language model; `ContextHeaderTransform` shows it. Text, ids and relationships stay; nodes
    are copies. Pieces of documents are not asked.

    - title: YAML front matter; the heading that the whole document stands under, or, where headings are numbers, the
      line above the first; the name of the file, which may be the document's id.
    - version: front matter; else the title or the name of the file ("v2.1", "V3", "第2版", "2.0 版").
    - updated_at: front matter; else the name of the file ("2024-03-01"), ``last_modified_date``, the file's own time.

    Args:
        use_file_time: whether the time of the file at ``file_path`` is asked last. It is no part of a document:
            `sync_documents` does not notice if nothing else changes.

    Warns:
        ChunkingPlusWarning: front matter that is no YAML; the other places are asked.

    Example:
        >>> from llama_index.core import Document
        >>> document = Document(text="# 员工手册\\n\\n……", metadata={"file_name": "手册_v2.1_2025-03-01.md"})
        >>> DocumentMetadataTransform()([document])[0].metadata
        {'file_name': '手册_v2.1_2025-03-01.md', 'title': '员工手册', 'version': 'v2.1', 'updated_at': '2025-03-01'}
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    use_file_time: bool = Field(default=False, frozen=True, description="Whether the time of the file is asked last.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which the transformation is serialised."""
        return "ChunkingPlusDocumentMetadataTransform"

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """Copies of the documents, with the metadata that they lacked."""
        broken: list[str] = []
        made = [self._described(node, broken) for node in nodes]
        if broken:
            warnings.warn(
                f"The front matter of {len(broken)} of {len(nodes)} documents is no YAML mapping, the first is "
                f"{broken[0]!r}; it is passed over. Mend what stands between the --- lines.",
                ChunkingPlusWarning,
                stacklevel=2,
            )
        return made

    def _described(self, node: BaseNode, broken: list[str]) -> BaseNode:
        added = {} if node.source_node is not None else self._missing(node, broken)
        return node.model_copy(
            update={
                "metadata": {**copy.deepcopy(node.metadata), **added},
                "relationships": dict(node.relationships),
                "excluded_embed_metadata_keys": [*dict.fromkeys([*node.excluded_embed_metadata_keys, *added])],
                "excluded_llm_metadata_keys": [*dict.fromkeys([*node.excluded_llm_metadata_keys, *added])],
            }
        )

    def _missing(self, node: BaseNode, broken: list[str]) -> dict[str, str]:
        """What the metadata lacks and the document says."""
        said = {field: _first(node.metadata, keys) for field, keys in _KNOWN.items()}
        if all(said.values()):
            return {}
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        front, name = _front_matter(text), _file_name(node)
        if front is None:
            broken.append(node.node_id)
        found = _in_front_matter(front or {})
        title = said["title"] or found["title"] or _title_in(text) or name
        places = {
            "title": title,
            "version": found["version"] or version_in(title) or version_in(name),
            "updated_at": found["updated_at"] or date_in(name) or self._file_date(node.metadata),
        }
        free = [field for field, value in said.items() if not value and node.metadata.get(field) in (None, "")]
        return {field: places[field] for field in free if places[field]}

    def _file_date(self, metadata: Mapping[str, Any]) -> str:
        known = iso_date(metadata.get(_FILE_TIME))
        path = plain(metadata.get("file_path"))
        if known or not (self.use_file_time and path):
            return known
        try:
            changed = Path(path).stat().st_mtime
        except (OSError, ValueError):
            return ""
        return datetime.fromtimestamp(changed, tz=timezone.utc).date().isoformat()


def _first(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next(filter(None, (plain(metadata.get(key)) for key in keys)), "")


def _file_name(node: BaseNode) -> str:
    """The bare name of the document's file; of an id, if that looks like a name."""
    named = _first(node.metadata, FILE_KEYS)
    if not named:
        named = _PART.sub("", node.node_id)
        named = named if _NAMELIKE.search(named) else ""
    return file_title(named)


# ------------------------------------------------------------------------------------------------ front matter


def _in_front_matter(front: Mapping[str, str]) -> dict[str, str]:
    found = {field: _first(front, keys) for field, keys in _NAMES.items()}
    dates = (iso_date(front.get(key)) for key in _NAMES["updated_at"])
    return {**found, "updated_at": next(filter(None, dates), "")}


def _front_matter(text: str) -> dict[str, str] | None:
    """The scalars of the YAML front matter as they are written; None if it cannot be read."""
    block = _FRONT_MATTER.match(text)
    if block is None or markdown_blocks(block.group())[0].kind is not BlockKind.FRONT_MATTER:
        return {}
    try:
        root = yaml.compose(block["yaml"], Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if root is None:
        return {}
    return dict(_scalars(root)) if isinstance(root, yaml.MappingNode) else None


def _scalars(mapping: Any) -> Iterator[tuple[str, str]]:
    """Keys and values, not as what YAML takes them for: version 1.10 is no number."""
    for key, value in mapping.value:
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode) and not value.tag.endswith(":null"):
            yield key.value.strip().lower().replace("-", "_"), value.value


# ------------------------------------------------------------------------------------------------ titles


def _title_in(text: str) -> str:
    """The title that the whole text stands under; "" if there is none, or it is doubtful."""
    if structure_of(text) != "numbered":
        blocks = markdown_blocks(text)
        return _top_heading(_without_pictures(text, blocks))
    blocks = numbered_blocks(text)
    return _line_above(text, blocks) or _top_heading(blocks)


def _without_pictures(text: str, blocks: Sequence[Block]) -> list[Block]:
    """The blocks without those that hold no text, and without the paragraphs of badges that stand above many titles."""
    return [block for block in blocks if block.kind not in _NO_TEXT and not _PICTURE.match(block.span.of(text))]


def _top_heading(blocks: Sequence[Block]) -> str:
    """The first heading, if no text stands above it and all other headings are below it."""
    levels = [block.level for block in blocks if block.level]
    if not levels or not blocks[0].level or any(level <= levels[0] for level in levels[1:]):
        return ""
    is_title = blocks[0].kind is BlockKind.HEADING and not blocks[0].title.endswith(("。", "；", ";"))
    return plain(blocks[0].title) if is_title else ""


def _line_above(text: str, blocks: Sequence[Block]) -> str:
    """The first line, if it stands above all numbered headings and can be a title."""
    if not blocks or blocks[0].level:
        return ""
    line = plain(blocks[0].span.of(text).strip().split("\n")[0])
    return line if _TITLE_LINE.fullmatch(line) else ""
