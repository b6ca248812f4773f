"""One node a sentence, which knows the sentences around it: searched by itself, read in its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.utils import get_tqdm_iterable
from typing_extensions import Self

from llama_index_chunking_plus.core.parents import WindowRef, text_hash
from llama_index_chunking_plus.core.plan import Plan
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.node_parser.base import Draft, Source
from llama_index_chunking_plus.node_parser.nodes import collection_paused
from llama_index_chunking_plus.node_parser.sized import MIN_CHUNK_SIZE, SizedNodeParser


class ChineseSentenceWindowNodeParser(SizedNodeParser):
    """Each sentence as a chunk, with a window of the sentences around it in its metadata.

    The window is an exact slice of the document and never reaches beyond it. Neither embedder nor model sees it until a
    postprocessor puts it in the place of the sentence: LlamaIndex's own ``MetadataReplacementPostProcessor`` does, with
    windows stored as text. A sentence above ``max_sentence_size`` is cut into several.

    Args:
        window_sentences: the number of sentences on each side of a sentence that its window holds.
        store: "text" keeps the window's text and the sentence's under the two metadata keys; "span" keeps the window's
            start, end (characters of the root document) and hash under ``window_span``, about half the bytes, for
            readers that have the document at hand; "text" keeps it too where a sentence occurs in its window twice. An
            input that does not say where it begins in its document has no ``window_span``.
        max_sentence_size: the largest size of a chunk, in ``unit``, metadata not counted.
        window_metadata_key: where ``store="text"`` keeps the window.
        original_text_metadata_key: where ``store="text"`` keeps the sentence.
        unit, tokenizer, sentence_tokenizer, protected_terms, user_dictionary, reserve_header: see `SizedNodeParser`.

    Raises:
        ValueError: window_sentences is negative, max_sentence_size is below 4, the two keys are empty or the same.

    Example:
        >>> from llama_index.core import Document
        >>> parser = ChineseSentenceWindowNodeParser(window_sentences=1)
        >>> nodes = parser.get_nodes_from_documents([Document(text="今天下雨。我们不去了。明天再说。后天也行。")])
        >>> nodes[1].text, nodes[1].metadata["window"]
        ('我们不去了。', '今天下雨。我们不去了。明天再说。')
    """

    unit: Literal["tokens", "chars"] = Field(default="chars", frozen=True, description="What sizes are counted in.")
    window_sentences: int = Field(default=3, frozen=True, description="Sentences on each side that a window holds.")
    store: Literal["text", "span"] = Field(default="text", frozen=True, description="How windows are kept.")
    max_sentence_size: int = Field(default=512, frozen=True, description="Largest size of a chunk, in unit.")
    window_metadata_key: str = Field(default="window", frozen=True, description="Where a window's text is kept.")
    original_text_metadata_key: str = Field(
        default="original_text", frozen=True, description="Where the sentence's own text is kept."
    )

    @classmethod
    def class_name(cls) -> str:
        """The name under which the parser is serialised."""
        return "ChunkingPlusSentenceWindowNodeParser"

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        keys = (self.window_metadata_key, self.original_text_metadata_key)
        if self.window_sentences < 0:
            raise ValueError(f"window_sentences={self.window_sentences} is below 0; 0 keeps the sentence alone")
        if self.max_sentence_size < MIN_CHUNK_SIZE:
            raise ValueError(
                f"max_sentence_size={self.max_sentence_size} is below {MIN_CHUNK_SIZE}; choose a larger one"
            )
        if not all(keys) or keys[0] == keys[1]:
            raise ValueError(
                f"window_metadata_key={keys[0]!r} and original_text_metadata_key={keys[1]!r} are empty or the same; "
                "give two different names"
            )
        return self

    def _plan(self, sources: Sequence[Source], show_progress: bool) -> Plan[list[list[Draft]]]:
        work = get_tqdm_iterable(list(sources), show_progress, "Parsing nodes")
        return [self._sentences(source) for source in work]
        yield  # asks for nothing, and is a plan like the others

    @collection_paused()
    def _sentences(self, source: Source) -> list[Draft]:
        bounds = self._units(source.text, self._room(self.max_sentence_size)).bounds
        pieces = [(span, text) for span in spans_between(bounds[1:]) if (text := span.of(source.text)).strip()]
        around, last = self.window_sentences, len(pieces) - 1
        return [
            Draft(span, text, hidden=self._kept(source, text, Span(first.start, final.end)))
            for i, (span, text) in enumerate(pieces)
            for (first, _), (final, _) in [(pieces[max(0, i - around)], pieces[min(last, i + around)])]
        ]

    def _kept(self, source: Source, sentence: str, window: Span) -> Mapping[str, Any]:
        """What the metadata of a sentence says of its window."""
        around = window.of(source.text)
        kept: dict[str, Any] = {}
        if self.store == "text":
            kept = {self.window_metadata_key: around, self.original_text_metadata_key: sentence}
        is_told_by_text = self.store == "text" and around.find(sentence) == around.rfind(sentence)
        if is_told_by_text or source.offset is None:
            return kept
        return {**kept, **WindowRef(window.shift(source.offset), text_hash(around)).to_metadata()}
