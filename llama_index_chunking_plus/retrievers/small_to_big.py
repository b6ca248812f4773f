"""Search small, return whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.core.ranking import Aggregate
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.tokenizers import Tokenizer
from llama_index_chunking_plus.postprocessor.parent_expansion import ParentExpansionPostprocessor
from llama_index_chunking_plus.retrievers.levels import checked_base, checked_query
from llama_index_chunking_plus.storage.parents import ParentLookup


class SmallToBigRetriever(BaseRetriever):
    """Retrieves children with any retriever and returns their parents: each once, whole, current, well scored.

    The same as that retriever with a `ParentExpansionPostprocessor` behind it, which says what is returned. Nothing of
    a query is kept, so that one retriever serves any number of them at a time.

    Args:
        retriever: finds the children; it decides how many.
        lookup, max_parents, max_tokens, tokenizer, aggregate, promote, min_ratio, merge_adjacent, order: see
            `ParentExpansionPostprocessor`.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        ValueError: an option is out of its range, ``retriever`` is no retriever, or ``lookup`` no lookup.
        OptionError: at a query: it is blank, see `checked_query`.

    Example:
        >>> from llama_index.core import Document, MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index_chunking_plus.node_parser.small_to_big import SmallToBigNodeParser
        >>> from llama_index_chunking_plus.storage.slices import SourceSliceLookup
        >>> document = Document(id_="a", text="一楼是大厅。二楼是展厅。三楼是餐厅。")
        >>> docstore = SimpleDocumentStore()
        >>> docstore.add_documents([document])
        >>> children = SmallToBigNodeParser(parent_size=40, child_size=10).get_nodes_from_documents([document])
        >>> index = VectorStoreIndex(children, embed_model=MockEmbedding(embed_dim=8))
        >>> retriever = SmallToBigRetriever(index.as_retriever(similarity_top_k=3), SourceSliceLookup(docstore))
        >>> [each.text for each in retriever.retrieve("展厅在几楼？")]
        ['一楼是大厅。二楼是展厅。三楼是餐厅。']
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        lookup: ParentLookup | Sequence[ParentLookup],
        max_parents: int = 4,
        max_tokens: int | None = None,
        tokenizer: Tokenizer = None,
        aggregate: Aggregate = "max",
        promote: Literal["always", "ratio"] = "always",
        min_ratio: float = 0.5,
        merge_adjacent: bool = True,
        order: Literal["score", "document"] = "score",
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise OptionError(f"retriever={retriever!r} is no retriever; pass index.as_retriever(similarity_top_k=...)")
        self._retriever = retriever
        self._expansion = ParentExpansionPostprocessor(
            lookup=lookup,
            max_parents=max_parents,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            aggregate=aggregate,
            promote=promote,
            min_ratio=min_ratio,
            merge_adjacent=merge_adjacent,
            order=order,
        )
        super().__init__(**checked_base(callback_manager, verbose))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        """What is returned for a query: its children first, then their parents."""
        checked_query(query)
        hits = yield Call(partial(self._retriever.retrieve, query), partial(self._retriever.aretrieve, query))
        return (yield from self._expansion.plan(hits))
