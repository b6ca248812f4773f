"""Keywords as metadata: in pipelines, in worker processes, in Chroma, with rjieba."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chromadb
import jieba
import pytest
from embedders import LetterEmbedding
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, NodeRelationship, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore

from llama_index_chunking_plus import MissingExtraError, SlidingWindowNodeParser, sync_documents
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations
from llama_index_chunking_plus.ingestion.keywords import JiebaKeywordTransform

TEXT = "变频器的散热风扇每半年清洁一次。变频器报警时先看散热风扇，再看 Cooling fan。cooling 不足时变频器降容运行，Cooling 恢复。"
USER_WORDS = "散热风扇\n"


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text(USER_WORDS, encoding="utf-8")
    return path


def node(text: str = TEXT, **fields: Any) -> TextNode:
    return TextNode(text=text, **fields)


def keywords(transform: JiebaKeywordTransform, text: str = TEXT) -> str:
    return transform([node(text)])[0].metadata[transform.key]


def test_keywords_stand_in_the_metadata_as_one_text_that_nobody_is_shown() -> None:
    (made,) = JiebaKeywordTransform(top_k=3)([node(metadata={"file": "a"})])
    assert made.metadata == {"file": "a", "keywords": "Cooling，变频器，风扇"}
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert made.get_content(mode) == f"file: a\n\n{TEXT}"
    assert "keywords: Cooling" in made.get_content(MetadataMode.ALL)


def test_embedder_and_model_are_shown_the_keywords_if_wanted() -> None:
    hidden = JiebaKeywordTransform()([node()])
    embedded = JiebaKeywordTransform(show_to_embedder=True)(hidden)[0]
    assert "keywords: " in embedded.get_content(MetadataMode.EMBED)
    assert "keywords: " not in embedded.get_content(MetadataMode.LLM)
    read = JiebaKeywordTransform(show_to_llm=True)(hidden)[0]
    assert "keywords: " in read.get_content(MetadataMode.LLM)
    assert "keywords: " not in read.get_content(MetadataMode.EMBED)


def test_the_options_do_what_they_say(dictionary: Path) -> None:
    assert keywords(JiebaKeywordTransform(top_k=2, separator=" ")) == "Cooling 变频器"
    assert keywords(JiebaKeywordTransform(top_k=1, key="标签", stop_words=("COOLING",))) == "变频器"
    assert "散热风扇" in keywords(JiebaKeywordTransform(user_dictionary=str(dictionary)))
    assert set(keywords(JiebaKeywordTransform(allowed_pos=("eng",))).split("，")) == {"Cooling", "fan"}
    with_own = JiebaKeywordTransform(allowed_pos=("eng",), user_dictionary=str(dictionary))
    assert set(keywords(with_own).split("，")) == {"Cooling", "fan", "散热风扇"}
    ranked = keywords(JiebaKeywordTransform(method="textrank")).split("，")
    assert {"变频器", "Cooling"} <= set(ranked)


def test_a_second_time_changes_nothing_and_the_input_is_never_changed() -> None:
    given = [
        node(metadata={"keywords": "old", "nested": [1]}, excluded_llm_metadata_keys=["x"], embedding=[1.0]),
        node("， 3。"),
        ImageNode(),
    ]
    before = [each.model_dump_json() for each in given]
    transform = JiebaKeywordTransform()
    once = transform(given)
    twice = transform(once)
    assert [each.to_dict() for each in twice] == [each.to_dict() for each in once]
    assert [each.metadata["keywords"] for each in once][1:] == ["", ""]
    assert once[0].excluded_llm_metadata_keys == ["x", "keywords"]
    assert once[0].embedding == [1.0]
    assert [type(each) for each in once] == [type(each) for each in given]
    once[0].relationships[NodeRelationship.SOURCE] = node().as_related_node_info()
    once[0].excluded_embed_metadata_keys.append("y")
    assert [each.model_dump_json() for each in given] == before


def test_async_gives_the_same_and_leaves_the_event_loop_free() -> None:
    transform, nodes = JiebaKeywordTransform(), [node(), node("检索系统很快。")]
    threads: set[int] = set()

    class Watched(JiebaKeywordTransform):
        def keywords(self, text: str) -> list[str]:
            threads.add(threading.get_ident())
            return super().keywords(text)

    assert [each.to_dict() for each in asyncio.run(Watched().acall(nodes))] == [
        each.to_dict() for each in transform(nodes)
    ]
    assert threading.get_ident() not in threads


def test_threads_do_not_disturb_each_other() -> None:
    texts = [f"{TEXT}第{i}台变频器" * (i % 5 + 1) for i in range(40)]
    transforms = [JiebaKeywordTransform(), JiebaKeywordTransform(method="textrank")]
    expected = [[keywords(each, text) for text in texts] for each in transforms]
    with ThreadPoolExecutor(8) as pool:
        for each, known in zip(transforms, expected, strict=True):
            assert list(pool.map(lambda text, each=each: keywords(each, text), texts)) == known  # type: ignore[misc]


OPTIONS: dict[str, Any] = {
    "method": "textrank",
    "top_k": 3,
    "key": "tags",
    "separator": " ",
    "stop_words": ("变频器",),
    "allowed_pos": ("n",),
    "tokenizer": "rjieba",
    "show_to_embedder": True,
    "show_to_llm": True,
}


def hashes(transform: JiebaKeywordTransform) -> tuple[str, str]:
    return get_transformation_hash([node()], transform), fingerprint_transformations([transform])


def test_every_option_changes_both_hashes(dictionary: Path) -> None:
    pytest.importorskip("rjieba")
    options = {**OPTIONS, "user_dictionary": str(dictionary)}
    assert set(options) == set(JiebaKeywordTransform.model_fields)
    plain = hashes(JiebaKeywordTransform())
    for name, value in options.items():
        changed = hashes(JiebaKeywordTransform(**{name: value}))
        assert changed[0] != plain[0], name
        assert changed[1] != plain[1], name
    assert hashes(JiebaKeywordTransform()) == plain


def test_the_hashes_change_with_the_words_of_the_dictionary(dictionary: Path) -> None:
    transform = JiebaKeywordTransform(user_dictionary=str(dictionary))
    before = hashes(transform)
    dictionary.write_text("散热\n", encoding="utf-8")
    assert all(new != old for new, old in zip(hashes(transform), before, strict=True))
    dictionary.write_text(USER_WORDS, encoding="utf-8")
    assert hashes(transform) == before


def test_it_survives_a_dump_and_a_pickle(dictionary: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "tokenizer"}
    transform = JiebaKeywordTransform(**options, user_dictionary=str(dictionary))
    for copy in (
        JiebaKeywordTransform.from_dict(transform.to_dict()),
        JiebaKeywordTransform.from_json(transform.to_json()),
        pickle.loads(pickle.dumps(transform)),
    ):
        assert copy == transform
        assert copy([node()])[0].metadata == transform([node()])[0].metadata
    with pytest.raises(ValueError, match="frozen"):
        transform.top_k = 1


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"key": ""},
        {"separator": ""},
        {"method": "bm25"},
        {"user_dictionary": "no such file"},
        {"tokenizer": "hanlp"},
        {"topk": 3},
        {"allowed_pos": ["n", "zzz"]},
        {"allowed_pos": "n"},
        {"stop_words": "的"},
    ],
    ids=str,
)
def test_a_wrong_option_fails_at_construction(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        JiebaKeywordTransform(**options)


def test_all_tags_of_jieba_can_be_allowed() -> None:
    lines = (Path(jieba.__file__).parent / "dict.txt").read_text(encoding="utf-8").splitlines()
    tags = {line.split()[-1] for line in lines} | {"eng", "x", "m"}
    assert set(JiebaKeywordTransform(allowed_pos=sorted(tags)).allowed_pos) == tags
    with pytest.raises(ValueError, match="'zzz', which jieba does not know; its tags are n,"):
        JiebaKeywordTransform(allowed_pos=["zzz"])
    with pytest.raises(ValueError, match=r"pass a list: \['的'\]"):
        JiebaKeywordTransform(stop_words="的")


# --- pipelines ---


def chunks(made: list[BaseNode] | Any) -> list[dict[str, Any]]:
    return [{"text": each.text, **each.metadata} for each in made]


def test_a_pipeline_gives_chunks_their_own_keywords_or_those_of_the_document_in_any_number_of_workers() -> None:
    documents = [Document(id_=str(i), text=TEXT + f"第{i}台水泵" * 30) for i in range(4)]
    parser = SlidingWindowNodeParser(chunk_size=64, chunk_overlap=0)
    after = IngestionPipeline(transformations=[parser, JiebaKeywordTransform(top_k=3)])
    one = after.run(documents=documents)
    assert chunks(after.run(documents=documents, num_workers=2)) == chunks(one)
    assert one[0].metadata["keywords"] == "变频器，风扇，散热"
    assert len({each.metadata["keywords"] for each in one}) > 1
    assert all(documents[int(each.ref_doc_id or 0)].text.find(each.text) >= 0 for each in one)  # type: ignore[attr-defined]
    ahead = IngestionPipeline(transformations=[JiebaKeywordTransform(top_k=1), parser]).run(documents=documents)
    assert {each.metadata["keywords"] for each in ahead} == {"水泵"}
    assert not any("keywords" in each.get_content(MetadataMode.EMBED) for each in ahead)


def test_keywords_are_kept_in_chroma_and_can_be_asked_for(tmp_path: Path) -> None:
    documents = [
        Document(id_="a", text=TEXT),
        Document(id_="b", text="水泵每年更换密封圈，水泵停机后排空。"),
        Document(id_="c", text="……"),
    ]
    store = ChromaVectorStore(
        chroma_collection=chromadb.PersistentClient(str(tmp_path / "chroma")).create_collection("rows")
    )

    def sync(transform: JiebaKeywordTransform) -> Any:
        parser, model = SlidingWindowNodeParser(chunk_size=256, chunk_overlap=0), LetterEmbedding()
        pipeline = IngestionPipeline(transformations=[parser, transform, model], vector_store=store)
        return sync_documents(documents, pipeline, persist_dir=tmp_path / "documents")

    assert sync(JiebaKeywordTransform(top_k=2)).added == ("a", "b", "c")
    assert sync(JiebaKeywordTransform(top_k=2)).changed == ()
    assert sync(JiebaKeywordTransform(top_k=1)).updated == ("a", "b", "c")
    index = VectorStoreIndex.from_vector_store(store, embed_model=LetterEmbedding())
    wanted = MetadataFilters(filters=[MetadataFilter(key="keywords", operator=FilterOperator.EQ, value="水泵")])
    found = index.as_retriever(similarity_top_k=5, filters=wanted).retrieve("多久？")
    assert [each.node.ref_doc_id for each in found] == ["b"]


# --- rjieba ---


def test_a_missing_rjieba_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'llama-index-chunking-plus\[rjieba\]'"):
        JiebaKeywordTransform(tokenizer="rjieba")


def test_rjieba_gives_the_keywords_of_its_words(dictionary: Path, sample_documents: list[Document]) -> None:
    rjieba = pytest.importorskip("rjieba")
    transform = JiebaKeywordTransform(tokenizer="rjieba", top_k=8)
    assert "变频器" in keywords(transform)
    for document in sample_documents:
        words = {word.casefold() for word in rjieba.cut(document.text)}
        assert {word.casefold() for word in transform.keywords(document.text)} <= words
    own = JiebaKeywordTransform(tokenizer="rjieba", method="textrank", user_dictionary=str(dictionary))
    assert "散热风扇" in keywords(own)
    assert transform.keywords("变频器\ud800变频器👍🏽") == ["变频器"]
    assert pickle.loads(pickle.dumps(transform)).keywords(TEXT) == transform.keywords(TEXT)
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda _: keywords(transform), range(50))}) == 1
