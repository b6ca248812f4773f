"""Small-to-big with LlamaIndex's own `IngestionPipeline`: what holds there, what does not, and that a sync repairs it.

Whatever state the stores are in, no parent and no window is ever the text of another version.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.ingestion import SyncReport, sync_documents
from llama_index_chunking_plus.node_parser import ChineseSentenceWindowNodeParser, SmallToBigNodeParser
from llama_index_chunking_plus.postprocessor import SentenceWindowPostprocessor
from llama_index_chunking_plus.retrievers import SmallToBigRetriever
from llama_index_chunking_plus.storage import SourceSliceLookup

pytest.importorskip("llama_index.vector_stores.chroma")
pytest.register_assert_rewrite("worlds")

from embedders import FaultyEmbedding  # noqa: E402
from llama_index.vector_stores.chroma import ChromaVectorStore  # noqa: E402  not everywhere
from worlds import HIDDEN, closing_client, text_of  # noqa: E402  asserts rewritten first

PARSERS = {
    "small to big": SmallToBigNodeParser(parent_size=40, child_size=10),
    "windows": ChineseSentenceWindowNodeParser(window_sentences=1, store="span"),
}


def doc(name: str, version: int = 0, **metadata: str) -> Document:
    return Document(id_=name, text=text_of(name, version), metadata={"title": name, **metadata}, **HIDDEN)


FIRST = [doc("甲"), doc("乙"), doc("丙")]
SECOND = [doc("甲"), doc("乙", 1), doc("丙")]


@dataclass
class Stock:
    """A stock pipeline over a docstore on disk and Chroma, opened anew like after a restart."""

    path: Path
    parser: NodeParser
    strategy: DocstoreStrategy = DocstoreStrategy.UPSERTS
    is_async: bool = False
    embedding: FaultyEmbedding = field(default_factory=FaultyEmbedding)

    def __post_init__(self) -> None:
        client = closing_client(self, str(self.path / "chroma"))
        self.store = ChromaVectorStore(chroma_collection=client.get_or_create_collection("rows"))
        saved = self.path / "docstore.json"
        self.docstore = SimpleDocumentStore.from_persist_path(str(saved)) if saved.exists() else SimpleDocumentStore()

    def pipeline(self) -> IngestionPipeline:
        return IngestionPipeline(
            transformations=[self.parser, self.embedding],
            docstore=self.docstore,
            vector_store=self.store,
            docstore_strategy=self.strategy,
            disable_cache=True,
        )

    def run(self, documents: Sequence[Document], *, persist: bool = True) -> list[str]:
        """What was embedded."""
        self.embedding.asked.clear()
        pipeline = self.pipeline()
        if self.is_async:
            asyncio.run(pipeline.arun(documents=list(documents)))
        else:
            pipeline.run(documents=list(documents))
        if persist:
            self.docstore.persist(str(self.path / "docstore.json"))
        return list(self.embedding.asked)

    def sync(self, documents: Sequence[Document]) -> SyncReport:
        return sync_documents(documents, self.pipeline(), persist_dir=self.path, delete_missing=True)

    def rows(self) -> dict[str, str]:
        stored = self.store.client.get(include=["documents"])
        return dict(zip(stored["ids"], stored["documents"], strict=True))

    def expected(self, documents: Sequence[Document]) -> dict[str, str]:
        return {node.node_id: node.text for node in self.parser.get_nodes_from_documents(list(documents))}

    def holds(self, documents: Sequence[Document]) -> bool:
        return self.rows() == self.expected(documents)

    def retrieve(self, question: str) -> list[NodeWithScore]:
        children = VectorStoreIndex.from_vector_store(self.store, embed_model=self.embedding).as_retriever(
            similarity_top_k=8
        )
        if isinstance(self.parser, SmallToBigNodeParser):
            retriever = SmallToBigRetriever(children, SourceSliceLookup(self.docstore))
            return asyncio.run(retriever.aretrieve(question)) if self.is_async else retriever.retrieve(question)
        windows = SentenceWindowPostprocessor(docstore=self.docstore)
        return windows.postprocess_nodes(children.retrieve(question))

    def ask(self, documents: Sequence[Document]) -> tuple[list[BaseNode], int]:
        """All that is found for all questions, of which nothing is wrong or said twice, and the warnings."""
        found: list[BaseNode] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ChunkingPlusWarning)
            for document in documents:
                hits = [hit.node for hit in self.retrieve(document.text[:8])] if document.text.strip() else []
                self.check(hits)
                found += hits
        return found, sum(issubclass(each.category, ChunkingPlusWarning) for each in caught)

    def check(self, hits: Sequence[BaseNode]) -> None:
        """Each hit is what the docstore's text says there, and no two say the same place."""
        places = []
        for hit in hits:
            text = self.docstore.get_document(hit.ref_doc_id).text
            assert hit.text == text[hit.start_char_idx : hit.end_char_idx]
            places.append((hit.ref_doc_id, hit.start_char_idx, hit.end_char_idx))
        assert len(set(places)) == len(places)


@pytest.fixture(
    params=[("small to big", False), ("small to big", True), ("windows", False)],
    ids=["small to big", "small to big, async", "windows"],
)
def stock(request, tmp_path) -> Stock:
    name, is_async = request.param
    return Stock(tmp_path, PARSERS[name], is_async=is_async)


def reopened(stock: Stock, **changes: Any) -> Stock:
    options = {"parser": stock.parser, "strategy": stock.strategy, "is_async": stock.is_async}
    return Stock(stock.path, **{**options, **changes})


def assert_sync_repairs(stock: Stock, documents: Sequence[Document]) -> None:
    assert stock.sync(documents).changed
    assert stock.holds(documents)
    found, n_warnings = stock.ask(documents)
    assert found
    assert n_warnings == 0
    assert not stock.sync(documents).changed


# --- what holds ---


def test_a_changed_text_is_replaced_and_the_others_are_left_alone(stock):
    stock.run(FIRST)
    embedded = stock.run(SECOND)
    assert set(embedded) == set(stock.expected([SECOND[1]]).values())
    assert stock.holds(SECOND)
    assert stock.ask(SECOND)[1] == 0


def test_an_unchanged_run_embeds_nothing_also_after_a_restart(stock):
    stock.run(FIRST)
    assert stock.run(FIRST) == []
    assert reopened(stock).run(FIRST) == []
    assert stock.holds(FIRST)


def test_changed_metadata_is_noticed(stock):
    stock.run(FIRST)
    stock.run([doc("甲", title="新"), *FIRST[1:]])
    stored = stock.store.client.get(where={"title": "新"})["ids"]
    assert sorted(stored) == sorted(stock.expected(FIRST[:1]))


def test_upserts_and_delete_removes_what_is_gone(stock):
    stock.strategy = DocstoreStrategy.UPSERTS_AND_DELETE
    stock.run(FIRST)
    stock.run(FIRST[:2])
    assert stock.holds(FIRST[:2])
    assert set(stock.docstore.docs) == {"甲", "乙"}
    assert stock.ask(FIRST)[1] == 0


def test_a_sync_takes_over_what_a_pipeline_has_ingested(stock):
    stock.run(FIRST)
    assert set(stock.sync(FIRST).repaired) == {"甲", "乙", "丙"}
    assert stock.holds(FIRST)
    assert stock.run(FIRST) == []
    assert stock.sync(FIRST).changed == ()


# --- what does not hold ---


def test_upserts_alone_keeps_documents_that_are_gone(stock):
    stock.run(FIRST)
    stock.run(FIRST[:2])
    assert stock.holds(FIRST)
    assert stock.ask(FIRST)[1] == 0
    assert_sync_repairs(stock, FIRST[:2])


def test_a_failing_step_loses_the_document_until_a_run_succeeds(stock):
    """The old rows are deleted before the new ones are made; every changed document of the run loses them."""
    stock.run(FIRST)
    broken = Document(id_="丙", text="这句是坏的。", **HIDDEN)
    with pytest.raises(TimeoutError):
        stock.run([*SECOND[:2], broken])
    assert stock.holds(FIRST[:1])
    stock.ask(FIRST)
    assert_sync_repairs(stock, FIRST)


def test_a_failing_step_loses_the_document_for_good_if_its_old_text_comes_back(stock):
    """Its old hash stands in the docstore, and vouches for rows that are gone."""
    stock.run(FIRST)
    with pytest.raises(TimeoutError):
        stock.run([*FIRST[:2], Document(id_="丙", text="这句是坏的。", **HIDDEN)])
    for _ in range(2):
        assert stock.run(FIRST) == []
        assert stock.holds(FIRST[:2])
    assert_sync_repairs(stock, FIRST)


def test_a_changed_parser_option_is_not_noticed(stock):
    stock.run(FIRST)
    options = {"parent_size": 60} if isinstance(stock.parser, SmallToBigNodeParser) else {"window_sentences": 2}
    other = reopened(stock, parser=stock.parser.from_dict({**stock.parser.to_dict(), **options}))
    assert other.run(FIRST) == []
    assert other.rows() == stock.rows()
    assert other.ask(FIRST)[1] == 0
    assert_sync_repairs(other, FIRST)


def test_rows_that_are_lost_are_not_missed(stock):
    stock.run(FIRST)
    stock.store.delete("乙")
    assert stock.run(FIRST) == []
    assert stock.holds([FIRST[0], FIRST[2]])
    assert stock.ask(FIRST)[1] == 0
    assert_sync_repairs(stock, FIRST)


def test_a_docstore_that_was_not_persisted_leaves_the_rows_of_the_old_text(stock):
    """Rows with deterministic ids are not written twice, but nobody knows that the old ones must go."""
    stock.run(FIRST, persist=False)
    again = reopened(stock)
    assert again.run(SECOND)
    assert set(again.rows()) == set(again.expected(FIRST)) | set(again.expected(SECOND))
    _, n_warnings = again.ask(SECOND)
    assert n_warnings > 0
    assert_sync_repairs(again, SECOND)


def test_a_docstore_older_than_the_rows_makes_warnings_and_no_wrong_parent(stock):
    """Killed after the rows were written and before the docstore was."""
    stock.run(FIRST)
    stock.run(SECOND, persist=False)
    old = reopened(stock)
    assert old.holds(SECOND)
    _, n_warnings = old.ask([SECOND[1]])
    assert n_warnings == 1
    assert_sync_repairs(old, SECOND)


def test_a_docstore_that_was_not_persisted_keeps_the_old_metadata(stock):
    """Everything is embedded again, and Chroma ignores a row whose id it has."""
    stock.run(FIRST, persist=False)
    again = reopened(stock)
    signed = [doc(each.id_, title="新") for each in FIRST]
    assert set(again.run(signed)) == set(again.expected(FIRST).values())
    assert again.holds(FIRST)
    assert again.store.client.get(where={"title": "新"})["ids"] == []
    assert_sync_repairs(again, signed)
    assert len(again.store.client.get(where={"title": "新"})["ids"]) == len(again.rows())


def test_a_child_whose_text_is_gone_is_dropped_or_stands_for_itself_with_one_warning(tmp_path):
    stock = Stock(tmp_path, PARSERS["small to big"])
    stock.run(FIRST)
    stock.run(SECOND, persist=False)
    old = reopened(stock)
    rows = old.store.get_nodes(node_ids=sorted(set(old.rows()) - set(old.expected(FIRST))))
    for stale in ("drop", "child"):
        with pytest.warns(ChunkingPlusWarning, match="no longer agree") as caught:
            found = SourceSliceLookup(old.docstore, stale=stale).find(rows)
        assert len(caught) == 1
        assert found.parents == {}
        gone = {row.node_id for row in rows if row.text not in FIRST[1].text[row.start_char_idx :][: len(row.text)]}
        assert found.stale == (gone if stale == "drop" else set())


def test_a_document_that_becomes_blank_keeps_no_rows_but_its_entry(stock):
    stock.run(FIRST)
    blank = [*FIRST[:2], Document(id_="丙", text=" ", **HIDDEN)]
    stock.run(blank)
    assert stock.holds(FIRST[:2])
    assert "丙" in stock.docstore.docs
    assert stock.ask(FIRST[:2])[1] == 0
    assert_sync_repairs(stock, blank)
