"""Chunks are searched with the title and the sections that they stand in; their text stays what it is."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from llama_index.core.bridge.pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent

from llama_index_chunking_plus.core.headers import (
    FILE_KEYS,
    HEADER_KEY,
    HEADER_KEYS,
    HEADER_TEMPLATE,
    SECTIONS,
    HeaderTemplate,
    file_title,
    fitted_header,
    iso_date,
    plain,
    section_titles,
    version_label,
)
from llama_index_chunking_plus.core.sections import GOES_ON_KEY, LEAD_KEY
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.node_parser.options import CheckedOptions
from llama_index_chunking_plus.node_parser.tokenizers import (
    TokenizerOption,
    portable_tokenizer,
    resolve_sizer,
)

_BLANK_LINE = "\n\n"  # between header and text, in LlamaIndex's own template of a node


class ContextHeaderTransform(CheckedOptions, TransformComponent):
    """Puts a line ahead of each chunk, for those that search: title > section > section（v2.1，更新于 2025-03-01）.

    It stands behind a node parser, any of them, and ahead of the embedding model. The line is the first key of the
    metadata, ``context_header``. Embedding model, BM25 and rerankers are shown it, a blank line, and the text;
    ``node.text`` stays as it is, and a language model is shown that. All other metadata is hidden from both, but for
    ``lead`` and ``goes_on``, which say what a part of a table, list or code sample belongs to. Through a vector store
    it stays that way.

    What metadata does not say is left out, with its brackets, separator or label. Only chunks whose metadata says
    nothing at all have no header. Applied again, with other options too, it writes the header anew. Nodes are copies;
    an embedding made of another text is taken off.

    Args:
        template: the fields ``{title}``, ``{sections}``, ``{version}`` and ``{updated_at}``, and any key of the
            metadata, such as ``{author}``. Separators, labels and brackets are shown where their values are.
        keys: for a field, the metadata that it is taken from: the first key that says something. What is given
            replaces these. Title: title, document_title, file_name, file_path, of the last two the bare name. Sections:
            header_titles, a list, also as JSON; header_path, as "/A/B/"; a first one that equals the title is left
            out. Version: version. Updated at: updated_at, date, datetime, last_modified_date, as an ISO date.
        section_separator: stands between sections.
        max_size: the largest size of the header, in ``unit``, with the blank line behind it: sections leave it from
            outside, then its end. None: any size. With this as ``reserve_header`` of the parser, in the same unit, and
            no ``lead``, header and text stay within the size of a chunk.
        unit: "tokens" or "chars".
        tokenizer: counts tokens; None is LlamaIndex's global tokenizer. A callable from text to token ids or to a
            number, "tiktoken:<encoding>" or "import:<module>:<name>".
        show_to_llm: whether language models are shown the header too.

    Raises:
        ValueError: the template cannot be read or has no field, or max_size is below 1.

    Warns:
        ChunkingPlusWarning: at a call, once: a field of the template is neither in ``keys`` nor in the metadata of any
            node; the headers go without it.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> metadata = {"title": "员工手册", "version": "2.1", "header_path": "/休假/病假/"}
        >>> (node,) = ContextHeaderTransform()([TextNode(text="病假工资照发。", metadata=metadata)])
        >>> node.get_content(MetadataMode.EMBED)
        '员工手册 > 休假 > 病假（v2.1）\\n\\n病假工资照发。'
        >>> node.get_content(MetadataMode.LLM)
        '病假工资照发。'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    template: str = Field(default=HEADER_TEMPLATE, frozen=True, description="What stands where in the header.")
    keys: dict[str, tuple[str, ...]] = Field(
        default_factory=lambda: dict(HEADER_KEYS), frozen=True, description="Metadata that each field is taken from."
    )
    section_separator: str = Field(default=" > ", frozen=True, description="Between sections.")
    max_size: int | None = Field(default=100, ge=1, frozen=True, description="Largest size of a header, in unit.")
    unit: Literal["tokens", "chars"] = Field(default="tokens", frozen=True, description="What max_size is counted in.")
    tokenizer: TokenizerOption = Field(
        default=None, frozen=True, description="Counts tokens; None: LlamaIndex's global one."
    )
    show_to_llm: bool = Field(default=False, frozen=True, description="Whether language models are shown the header.")

    _has_warned: bool = PrivateAttr(default=False)

    @classmethod
    def class_name(cls) -> str:
        """The name under which the transformation is serialised."""
        return "ChunkingPlusContextHeaderTransform"

    @field_validator("template")
    @classmethod
    def _check_template(cls, value: str) -> str:
        return HeaderTemplate(value).text

    @field_validator("keys", mode="before")
    @classmethod
    def _fill_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise OptionError(f"keys={value!r} is no mapping; give the metadata of a field: {{'title': ('name',)}}")
        given = {field: (keys,) if isinstance(keys, str) else keys for field, keys in value.items()}
        wrong = [field for field, keys in given.items() if not isinstance(keys, list | tuple)]
        if wrong:
            raise OptionError(f"keys={value!r} gives {wrong[0]!r} no name; give it a metadata key, or a list of such")
        return {**HEADER_KEYS, **given}

    def __getstate__(self) -> dict[Any, Any]:
        """A state of copies: LlamaIndex's own components drop what cannot be pickled from the live object."""
        state = BaseModel.__getstate__(self)
        tokenizer = portable_tokenizer(self.tokenizer) if self.unit == "tokens" else self.tokenizer
        return {**state, "__dict__": {**state["__dict__"], "tokenizer": tokenizer}}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        BaseModel.__setstate__(self, state)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """Copies of the nodes, each with its header."""
        self._check_fields(nodes)
        make = cache(self._header)
        return [self._with_header(node, make(*self._values(node.metadata))) for node in nodes]

    def _check_fields(self, nodes: Sequence[BaseNode]) -> None:
        """Warn, once, of fields that nothing says; any key of the metadata can be a field, so these show it alone."""
        said = {key for node in nodes for key in node.metadata}
        strange = [field for field in HeaderTemplate(self.template).fields if field not in {*self.keys, *said}]
        if not nodes or not strange or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"template={self.template!r} names {strange}, which the metadata of none of these {len(nodes)} nodes has; "
            f"their headers go without it. Use {', '.join(self.keys)}, or a key of the metadata, here {sorted(said)}; "
            "if these documents say nothing of it, that is all right.",
            ChunkingPlusWarning,
            stacklevel=3,
        )

    def _values(self, metadata: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """What the metadata says of each field but the sections, and the sections."""
        fields = HeaderTemplate(self.template).fields
        values = {field: self._value(field, metadata) for field in fields if field != SECTIONS}
        sections = self._sections(metadata) if SECTIONS in fields else []
        if sections and sections[0].casefold() == values.get("title", "").casefold():
            sections = sections[1:]
        return tuple(values.items()), tuple(sections)

    def _value(self, field: str, metadata: Mapping[str, Any]) -> str:
        said = (_read(field, key, metadata.get(key)) for key in self.keys.get(field, (field,)))
        return next(filter(None, said), "")

    def _sections(self, metadata: Mapping[str, Any]) -> list[str]:
        said = (section_titles(metadata.get(key)) for key in self.keys[SECTIONS])
        return next(filter(None, said), [])

    def _header(self, values: tuple[tuple[str, str], ...], sections: tuple[str, ...]) -> str:
        sizer = resolve_sizer(self.unit, self.tokenizer)
        template = HeaderTemplate(self.template)

        def size(header: str) -> int:
            return sizer.size(header + _BLANK_LINE) if header else 0

        return fitted_header(template, dict(values), sections, self.section_separator, self.max_size, size)

    def _with_header(self, node: BaseNode, header: str) -> BaseNode:
        kept = {key: _own(value) for key, value in node.metadata.items() if key != HEADER_KEY}
        hidden = [key for key in kept if key not in {LEAD_KEY, GOES_ON_KEY}]
        made = node.model_copy(
            update={
                "metadata": {HEADER_KEY: header, **kept} if header else kept,
                "metadata_template": "{value}",
                "relationships": dict(node.relationships),
                "excluded_embed_metadata_keys": _merged(node.excluded_embed_metadata_keys, hidden),
                "excluded_llm_metadata_keys": _merged(
                    node.excluded_llm_metadata_keys, hidden if self.show_to_llm else [*hidden, HEADER_KEY]
                ),
            }
        )
        if made.embedding is not None and _embedded(made) != _embedded(node):
            made.embedding = None
        return made


def _read(field: str, key: str, value: Any) -> str:
    """A value of the metadata as its field shows it."""
    if field == "updated_at":
        return iso_date(value) or plain(value)
    if field == "version":
        return version_label(value)
    return file_title(value) if field == "title" and key in FILE_KEYS else plain(value)


def _merged(before: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The keys that were excluded and those to hide; of the header, only what is said now counts."""
    return [*dict.fromkeys([*(key for key in before if key != HEADER_KEY), *hidden])]


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, dict | list | set) else value


def _embedded(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)
