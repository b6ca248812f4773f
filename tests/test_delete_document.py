"""delete_document: all of a document goes, nothing else does, and the report says what went."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.vector_stores import SimpleVectorStore

from llama_index_chunking_plus.errors import OptionError, StoreBusyError
from llama_index_chunking_plus.ingestion import (
    DeleteReport,
    async_delete_document,
    delete_document,
    load_docstore,
    sync_documents,
)
from llama_index_chunking_plus.ingestion.ledger import Ledger, exclusive
from llama_index_chunking_plus.node_parser import SmallToBigNodeParser
from llama_index_chunking_plus.storage import rows_by_document

chromadb = pytest.importorskip("chromadb")
ChromaVectorStore = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore

PARSER = SmallToBigNodeParser(parent_size=40, child_size=10, emit="both")
DOCUMENTS = [Document(id_=id_, text="".join(f"{id_}的第{i}句。" for i in range(20))) for id_ in "甲乙丙"]
ROWS = len(PARSER.get_nodes_from_documents(DOCUMENTS[:1]))
WHOLE = DeleteReport("甲", rows=ROWS, texts=1, hashes=1, records=1)

Delete = Callable[..., DeleteReport]


class Unlisted(SimpleVectorStore):
    """A store that cannot be asked what it holds, and that refuses to delete what it does not know."""

    @classmethod
    def class_name(cls) -> str:
        return "Unlisted"

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        if ref_doc_id not in self.data.text_id_to_ref_doc_id.values():
            raise KeyError(ref_doc_id)
        super().delete(ref_doc_id, **kwargs)


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Any:
    return chromadb.PersistentClient(str(tmp_path_factory.mktemp("chroma")))


@pytest.fixture(params=["chroma", "simple", "unlisted"])
def store(request, client) -> Any:
    if request.param == "chroma":
        return ChromaVectorStore(chroma_collection=client.create_collection(uuid.uuid4().hex))
    return SimpleVectorStore() if request.param == "simple" else Unlisted()


@pytest.fixture(params=[delete_document, async_delete_document], ids=["sync", "async"])
def delete(request) -> Delete:
    if request.param is delete_document:
        return delete_document
    return lambda *args, **kwargs: asyncio.run(async_delete_document(*args, **kwargs))


def pipeline(store: Any, **options: Any) -> IngestionPipeline:
    return IngestionPipeline(transformations=[PARSER, MockEmbedding(2)], vector_store=store, **options)


def rows(store: Any) -> set[str]:
    if isinstance(store, SimpleVectorStore):
        return set(store.data.text_id_to_ref_doc_id.values())
    return {metadata["document_id"] for metadata in store.client.get()["metadatas"]}


def test_everything_of_the_document_goes_and_nothing_else(store, delete, tmp_path):
    sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path)
    assert delete("甲", pipeline(store), persist_dir=tmp_path) == WHOLE
    assert rows(store) == {"乙", "丙"}
    assert "甲" not in str(json.loads((tmp_path / "docstore.json").read_text()))
    assert load_docstore(tmp_path).docs.keys() == {"乙", "丙"}
    report = sync_documents(DOCUMENTS[1:], pipeline(store), persist_dir=tmp_path)
    assert report.unchanged == ("乙", "丙")
    assert sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path).added == ("甲",)


def test_a_docstore_that_the_caller_keeps(store, delete):
    docstore = SimpleDocumentStore()
    sync_documents(DOCUMENTS, pipeline(store, docstore=docstore))
    assert delete("甲", pipeline(store, docstore=docstore)) == WHOLE
    assert docstore.docs.keys() == {"乙", "丙"}
    assert docstore.get_document_hash("甲") is None


def test_an_unknown_id_is_a_report_of_zeros(store, delete, tmp_path):
    assert delete("?", pipeline(store), persist_dir=tmp_path) == DeleteReport("?")
    sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path)
    before = (tmp_path / "docstore.json").read_bytes()
    report = delete("?", pipeline(store), persist_dir=tmp_path)
    assert report == DeleteReport("?")
    assert not report.found
    assert (tmp_path / "docstore.json").read_bytes() == before
    assert rows(store) == {"甲", "乙", "丙"}


def test_twice_is_once(store, delete, tmp_path):
    sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path)
    assert delete("甲", pipeline(store), persist_dir=tmp_path).found
    assert not delete("甲", pipeline(store), persist_dir=tmp_path).found


def test_what_others_left_of_it_goes_too(delete):
    """Rows without a record, a text without rows, nodes in the docstore: each alone is found and removed."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="甲")}
    node = TextNode(text="x", embedding=[1.0, 2.0], relationships=source)
    store, docstore = SimpleVectorStore(), SimpleDocumentStore()
    store.add([node])
    assert delete("甲", pipeline(store, docstore=docstore)) == DeleteReport("甲", rows=1)
    docstore.add_documents([DOCUMENTS[0]])
    assert delete("甲", pipeline(store, docstore=docstore)) == DeleteReport("甲", texts=1, hashes=1)
    docstore.set_document_hash("甲", "h")
    assert delete("甲", pipeline(store, docstore=docstore)) == DeleteReport("甲", hashes=1)
    docstore.add_documents([node, node.model_copy(update={"id_": "y"})])
    assert delete("甲", pipeline(store, docstore=docstore)) == DeleteReport("甲", texts=2, hashes=2)
    assert not rows(store)
    assert not any(docstore.to_dict().values())


def test_a_bare_pipeline_can_be_cleaned_up(store, delete):
    docstore = SimpleDocumentStore()
    pipeline(store, docstore=docstore).run(documents=DOCUMENTS)
    report = delete("甲", pipeline(store, docstore=docstore))
    recorded = 0 if isinstance(store, Unlisted) else ROWS  # nobody recorded the rows of a store that cannot list them
    assert report == DeleteReport("甲", rows=recorded, texts=1, hashes=1)
    assert rows(store) == {"乙", "丙"}


def test_other_stores_are_cleared_as_well(client, delete, tmp_path):
    parents = KVDocumentStore(SimpleKVStore(), namespace="parents")
    parents.add_documents(PARSER.parent_nodes(DOCUMENTS))
    second = ChromaVectorStore(chroma_collection=client.create_collection(uuid.uuid4().hex))
    second.add(MockEmbedding(2)(PARSER.get_nodes_from_documents(DOCUMENTS)))
    others = [parents, second]
    sync_documents(DOCUMENTS, pipeline(SimpleVectorStore()), persist_dir=tmp_path)
    n_parents = len(PARSER.parent_nodes(DOCUMENTS[:1]))
    report = delete("甲", pipeline(SimpleVectorStore()), persist_dir=tmp_path, other_stores=others)
    assert report == DeleteReport("甲", rows=ROWS, texts=1 + n_parents, hashes=1 + n_parents, records=1)
    assert {node.ref_doc_id for node in parents.docs.values()} == {"乙", "丙"}
    assert rows(second) == {"乙", "丙"}
    assert delete("?", pipeline(SimpleVectorStore()), persist_dir=tmp_path, other_stores=others) == DeleteReport("?")


def test_without_vector_store(delete, tmp_path):
    sync_documents(DOCUMENTS, pipeline(None), persist_dir=tmp_path)
    assert delete("甲", pipeline(None), persist_dir=tmp_path) == DeleteReport("甲", texts=1, hashes=1, records=1)


def test_only_this_pipelines_record_goes(delete):
    docstore, one, two = SimpleDocumentStore(), SimpleVectorStore(), SimpleVectorStore()
    for name, store in (("one", one), ("two", two)):
        sync_documents(DOCUMENTS, pipeline(store, docstore=docstore, name=name))
    assert delete("甲", pipeline(one, docstore=docstore, name="one")).records == 1
    assert rows(two) == {"甲", "乙", "丙"}
    report = sync_documents(DOCUMENTS[1:], pipeline(two, docstore=docstore, name="two"), delete_missing=True)
    assert report.deleted == ("甲",)
    assert rows(two) == {"乙", "丙"}


@pytest.mark.parametrize("moment", ["rows", "texts"])
def test_an_interrupted_deletion_can_be_repeated_or_undone(moment, delete, tmp_path, monkeypatch):
    store = SimpleVectorStore()
    sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path)
    target = (SimpleVectorStore, "delete_nodes") if moment == "rows" else (Ledger, "forget")
    with monkeypatch.context() as patch:
        patch.setattr(*target, _broken)
        with pytest.raises(OSError, match="disk"):
            delete("甲", pipeline(store), persist_dir=tmp_path)
    assert sync_documents(DOCUMENTS, pipeline(store), persist_dir=tmp_path).repaired == ("甲",)
    with monkeypatch.context() as patch:
        patch.setattr(*target, _broken)
        with pytest.raises(OSError, match="disk"):
            delete("甲", pipeline(store), persist_dir=tmp_path)
    assert delete("甲", pipeline(store), persist_dir=tmp_path).found
    assert rows(store) == set(rows_by_document(store, ["乙", "丙"]))
    assert load_docstore(tmp_path).docs.keys() == {"乙", "丙"}


def _broken(*_: Any, **__: Any) -> None:
    raise OSError("disk")


def test_refusals_are_those_of_a_sync(delete, tmp_path: Path):
    with pytest.raises(OptionError, match="has no docstore"):
        delete("甲", pipeline(SimpleVectorStore()))
    with exclusive(tmp_path), pytest.raises(StoreBusyError):
        delete("甲", pipeline(SimpleVectorStore()), persist_dir=tmp_path)


@pytest.mark.parametrize(
    "doc_id", ["", None, 3, ["甲"], DOCUMENTS[0]], ids=["empty", "none", "number", "list", "document"]
)
def test_what_is_no_id_of_a_document_is_refused(doc_id, delete, tmp_path: Path):
    with pytest.raises(OptionError, match="is no id of a document; pass one id_"):
        delete(doc_id, pipeline(SimpleVectorStore()), persist_dir=tmp_path / "docs")
    assert not list(tmp_path.iterdir())


def test_an_id_that_no_store_can_encode_is_refused(store, delete, tmp_path: Path):
    with pytest.raises(OptionError, match=r"doc_id='\\udcff.txt' holds a lone surrogate.*renamed to UTF-8"):
        delete("\udcff.txt", pipeline(store), persist_dir=tmp_path / "docs")
    assert not list(tmp_path.iterdir())


def test_where_there_can_be_no_folder_is_refused(delete, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="file is no folder; choose another folder"):
        delete("甲", pipeline(SimpleVectorStore()), persist_dir=tmp_path / "file")


@pytest.mark.parametrize(
    "stores",
    [SimpleDocumentStore(), SimpleVectorStore(), None, "store", ["store"]],
    ids=lambda each: type(each).__name__,
)
def test_other_stores_must_be_a_list_of_stores(stores, delete, tmp_path: Path):
    with pytest.raises(OptionError, match=r"no list of docstores and vector stores; pass a list: \[store\]"):
        delete("甲", pipeline(SimpleVectorStore()), persist_dir=tmp_path / "docs", other_stores=stores)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options, message",
    [({"pipeline": None}, "no IngestionPipeline"), ({"persist_dir": ""}, "no path"), ({"persist_dir": 3}, "no path")],
)
def test_pipeline_and_directory_are_checked_as_in_a_sync(options, message, delete, tmp_path: Path):
    options = {"pipeline": pipeline(SimpleVectorStore()), "persist_dir": tmp_path, **options}
    with pytest.raises(OptionError, match=message):
        delete("甲", **options)
    assert not list(tmp_path.iterdir())
