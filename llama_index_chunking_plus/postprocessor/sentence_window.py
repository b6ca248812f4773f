"""Sentences in, their windows out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from llama_index.core.bridge.pydantic import Field, model_validator
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from typing_extensions import Self

from llama_index_chunking_plus.core.parents import WINDOW_KEY, WindowRef, text_hash
from llama_index_chunking_plus.core.plan import Call, Plan
from llama_index_chunking_plus.core.ranking import reach
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer
from llama_index_chunking_plus.core.spans import Span, spans_between
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.postprocessor.passages import (
    HITS_KEY,
    Candidate,
    PassagePostprocessor,
    hit_of,
    span_of,
    text_of,
    with_hidden,
)


class SentenceWindowPostprocessor(PassagePostprocessor):
    """Returns windows in the place of sentences; windows of one document that touch or overlap become one passage.

    A passage is a new node with the exact range, where that is known, and the best score. Its metadata has the sentence
    of its best hit under ``original_text`` and all hits under ``child_hits``; no model is shown either. Nothing is said
    twice: a window that would make a passage too long stands beside it, without what the passage says already. Beyond
    the fifth hit, one whose sentence a passage shows does not lengthen it.

    Windows joined with spaces, as LlamaIndex's ``SentenceWindowNodeParser`` makes them, stand nowhere in the document:
    they have no range, and become one only if they are equal. A hit without a window, or whose document is missing, is
    returned itself; one whose sentence is gone from its document is dropped; one warning for all of them. Windows kept
    as text are compared with their documents if ``docstore`` is given.

    Args:
        docstore: holds the documents: windows that were stored as ranges (``store="span"``) are cut out of them, and
            those stored as text are returned only while they stand in them.
        max_tokens_per_window: how many tokens one window may have. Of a longer one, the sentences nearest to the hit
            are shown. None: any number.
        max_tokens_per_passage: how many tokens a passage may have; also a window, and one that cannot be narrowed, as
            its range is unknown, gives way to its sentence. None: any number; then all that touch become one.
        window_metadata_key: where the window's text is found; another key than the next one.
        original_text_metadata_key: where the sentence stays.
        max_tokens, tokenizer, order: see `PassagePostprocessor`.

    Raises:
        ValueError: an option is out of its range, ``docstore`` is no docstore, or the two keys are empty or the same.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> window = {"window": "今天下雨。我们不去了。明天再说。", "original_text": "我们不去了。"}
        >>> sentence = TextNode(text="我们不去了。", start_char_idx=5, end_char_idx=11, metadata=window)
        >>> passage = SentenceWindowPostprocessor().postprocess_nodes([NodeWithScore(node=sentence, score=0.9)])[0].node
        >>> passage.text, passage.start_char_idx, passage.metadata["original_text"]
        ('今天下雨。我们不去了。明天再说。', 0, '我们不去了。')
    """

    docstore: BaseDocumentStore | None = Field(
        default=None, exclude=True, frozen=True, description="Holds the documents of windows stored as ranges."
    )
    max_tokens_per_window: int | None = Field(default=320, ge=1, frozen=True, description="Tokens of one window.")
    max_tokens_per_passage: int | None = Field(default=512, ge=1, frozen=True, description="Tokens of one passage.")
    window_metadata_key: str = Field(default="window", frozen=True, description="Where the window's text is found.")
    original_text_metadata_key: str = Field(
        default="original_text", frozen=True, description="Where the sentence stays."
    )

    @classmethod
    def class_name(cls) -> str:
        """The name under which the postprocessor is serialised."""
        return "ChunkingPlusSentenceWindowPostprocessor"

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        keys = (self.window_metadata_key, self.original_text_metadata_key)
        if not all(keys) or keys[0] == keys[1]:
            raise ValueError(
                f"window_metadata_key={keys[0]!r} and original_text_metadata_key={keys[1]!r} are empty or the same; "
                "give the two names that the parser was given"
            )
        return self

    def plan(self, nodes: Sequence[NodeWithScore]) -> Plan[list[NodeWithScore]]:
        """What is returned for these nodes: one fetch of documents, if windows were stored as ranges."""
        owners = dict.fromkeys(each.node.ref_doc_id for each in nodes if self._is_in_a_window(each))
        documents: Mapping[str, BaseNode] = {}
        if self.docstore is not None and owners:
            documents = yield Call(partial(_fetch, self.docstore, [owner for owner in owners if owner]))
        candidates = [self._candidate(scored, rank, documents) for rank, scored in enumerate(nodes)]
        found = [each for each in candidates if each is not None]
        self._warn_about(len(nodes), [each.node for each in found if each.given], gone=len(nodes) - len(found))
        return self._assemble(found, max_passage=self.max_tokens_per_passage)

    def _warn_about(self, n_hits: int, unchanged: Sequence[BaseNode], gone: int) -> None:
        alone = sum(HITS_KEY not in node.metadata for node in unchanged)  # the others were expanded before
        if alone or gone:
            warnings.warn(
                f"{alone} of {n_hits} hits are returned without a window: their metadata has no "
                f"{self.window_metadata_key!r}, or names a range of a document that the docstore does not have, or not "
                f"as it was. {gone} are dropped: their sentence is gone from its place in the document. Parse with "
                "ChineseSentenceWindowNodeParser, pass docstore=..., or run sync_documents.",
                ChunkingPlusWarning,
                stacklevel=2,
            )

    def _is_in_a_window(self, scored: NodeWithScore) -> bool:
        return self._has(scored) or WindowRef.from_metadata(scored.node.metadata) is not None

    def _has(self, scored: NodeWithScore) -> bool:
        return isinstance(scored.node.metadata.get(self.window_metadata_key), str)

    def _candidate(self, scored: NodeWithScore, rank: int, documents: Mapping[str, BaseNode]) -> Candidate | None:
        """The hit in its window; itself if there is none; None if its document says that it is stale."""
        node = scored.node
        ref, document = WindowRef.from_metadata(node.metadata), documents.get(node.ref_doc_id or "")
        text = None if document is None else text_of(document)
        if self._has(scored):
            window = str(node.metadata[self.window_metadata_key])
            start = _start_in_document(node, window)
            if text is None or start is None or text.startswith(window, start):
                return self._in_window(scored, rank, window, start)
        elif ref is None or text is None:
            return Candidate.unchanged(scored, rank)
        elif ref.is_slice_of(text):
            return self._in_window(scored, rank, ref.span.of(text), ref.span.start)
        own = span_of(node)
        return Candidate.unchanged(scored, rank) if own and own.of(text) == text_of(node) else None

    def _in_window(self, scored: NodeWithScore, rank: int, window: str, start: int | None) -> Candidate:
        sentence = text_of(scored.node)
        window, start = self._narrowed(window, start, sentence, span_of(scored.node))
        dropped = {self.window_metadata_key, WINDOW_KEY}
        kept = {key: value for key, value in scored.node.metadata.items() if key not in dropped}
        key = self.original_text_metadata_key
        node = with_hidden(scored.node, {key: sentence, **kept}, key)
        return Candidate(node, window, start, scored.score, (hit_of(scored, rank),))

    def _narrowed(self, window: str, start: int | None, sentence: str, own: Span | None) -> tuple[str, int | None]:
        """The window, or as many of its sentences around its own as fit, and where that begins in the document."""
        limit = min(self.max_tokens_per_window or math.inf, self.max_tokens_per_passage or math.inf)
        if self._size(window) <= limit:
            return window, start
        if start is None or own is None:
            fits = self._size(window) <= (self.max_tokens_per_passage or math.inf)
            return (window, start) if fits else (sentence, own and own.start)
        ends = [start + end for end in ChineseSentenceTokenizer().ends(window)]
        edges = sorted({start, *own, *(end for end in ends if not own.start < end < own.end)})
        texts = [span.shift(-start).of(window) for span in spans_between(edges[1:], start)]
        home = edges.index(own.start)
        first, last = reach(texts, home, home + 1, lambda text: self._size(text) <= limit)
        return "".join(texts[first:last]), edges[first]


def _start_in_document(node: BaseNode, window: str) -> int | None:
    """Where a window stored as text begins; None if that is not sure.

    It is sure if the sentence occurs in the window once, and something next to it shows that the window was not put
    together with spaces.
    """
    said, own, sentence = WindowRef.from_metadata(node.metadata), span_of(node), text_of(node)
    if said is not None and said.hash == text_hash(window):
        return said.span.start
    if own is None or not sentence or window.find(sentence) != window.rfind(sentence):
        return None
    before, found, after = window.partition(sentence)
    joined = (not before or before.endswith(" ")) and (not after or after.startswith(" "))
    start = own.start - len(before)
    return start if found and start >= 0 and (window == sentence or not joined) else None


def _fetch(docstore: BaseDocumentStore, document_ids: list[str]) -> dict[str, Any]:
    return {node.node_id: node for node in docstore.get_nodes(document_ids, raise_error=False)}
