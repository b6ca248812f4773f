"""Headers are for those that search; texts stay what they are, through every parser, store and restart."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from embedders import LetterEmbedding
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.node_parser import MarkdownNodeParser, NodeParser, SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.chroma import ChromaVectorStore
from parsers import CASES, Case, count_bytes
from texts import PROSE
from worlds import closing_client

from llama_index_chunking_plus import (
    ChineseSentenceWindowNodeParser,
    ContextHeaderTransform,
    DocumentMetadataTransform,
    HybridNodeParser,
    ParentExpansionPostprocessor,
    SentenceWindowPostprocessor,
    SiblingLookup,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    SourceSliceLookup,
    StructuredMarkdownNodeParser,
    chinese_sentence_tokenizer,
    load_docstore,
    sync_documents,
)
from llama_index_chunking_plus.errors import ChunkingPlusWarning
from llama_index_chunking_plus.node_parser.sized import SizedNodeParser
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

pytestmark = pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
every_parser = pytest.mark.parametrize("case", CASES, ids=str)

EMBED, LLM = MetadataMode.EMBED, MetadataMode.LLM
UNIT: dict[str, dict[str, Any]] = {
    "tokens": {"unit": "tokens"},
    "chars": {"unit": "chars"},
    "bytes": {"unit": "tokens", "tokenizer": count_bytes},
}
SIZE = {"tokens": resolve_sizer("tokens", None).size, "chars": len, "bytes": count_bytes}
METADATA = {"title": "旧书店", "version": "2.1", "updated_at": "2025-03-01T08:00:00", "author": "林"}
HEADER = "旧书店（v2.1，更新于 2025-03-01）"
MARKDOWN = (
    "# 手册\n\n开头的话。\n\n## 休假\n\n### 病假\n\n病假照发工资。\n\n## 表\n\n| 甲 | 乙 |\n|---|---|\n"
    + "| 一 | 二 |\n" * 30
)


def document(**metadata: Any) -> Document:
    return Document(id_="one", text=PROSE * 4, metadata={**METADATA, **metadata})


def headers(nodes: list[BaseNode]) -> list[str]:
    return [node.metadata.get("context_header", "") for node in nodes]


def essence(nodes: list[BaseNode]) -> list[dict]:
    return [json.loads(node.to_json()) for node in nodes]


def one(metadata: dict[str, Any], **options: Any) -> TextNode:
    (node,) = ContextHeaderTransform(**options)([TextNode(text="正文。", metadata=metadata)])
    assert node.get_content(EMBED) == f"{headers([node])[0]}\n\n正文。".strip()
    assert node.get_content(LLM) == node.text == "正文。"
    return node


# -- the header ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ({"title": "甲", "header_path": "/乙/丙/"}, "甲 > 乙 > 丙"),
        ({"title": "甲", "header_titles": '["乙/丙"]', "header_path": "/乙/丙/"}, "甲 > 乙/丙"),
        ({"title": "甲", "header_titles": "[]", "header_path": "/"}, "甲"),
        ({"title": "手册 A", "header_path": "/手册 a/乙/"}, "手册 A > 乙"),
        ({"document_title": "甲", "file_name": "x.md"}, "甲"),
        ({"title": " ", "file_name": "年报 v2.md"}, "年报 v2"),
        ({"file_path": "/a/b/年报.pdf", "version": 3}, "年报（v3）"),
        ({"title": "甲", "version": None, "date": "2025年3月1日"}, "甲（更新于 2025-03-01）"),
        ({"title": "甲", "updated_at": "去年", "last_modified_date": "2024-01-01"}, "甲（更新于 去年）"),
        ({"title": "甲", "last_modified_date": "2024-01-01"}, "甲（更新于 2024-01-01）"),
        ({"title": ["甲", "乙"]}, "甲, 乙"),
        ({"title": 7}, "7"),
        ({"title": "{title}\n{0} {{"}, "{title} {0} {{"),
        ({"header_path": "/乙/"}, "乙"),
        ({"other": "x"}, ""),
        ({}, ""),
    ],
)
def test_the_header_says_what_the_metadata_says(metadata: dict[str, Any], expected: str) -> None:
    assert headers([one(metadata)]) == [expected]


def test_template_keys_and_separator_are_the_users() -> None:
    metadata = {"name": "甲", "header_path": "/乙/丙/", "author": "林", "rev": "b", "title": "无"}
    options = {
        "template": "{author}：{title}｜{sections} [{version}]",
        "keys": {"title": "name", "version": ("no", "rev")},
    }
    assert headers([one(metadata, **options, section_separator="/")]) == ["林：甲｜乙/丙 [b]"]
    assert headers([one(metadata, template="{title}", keys={"title": ()})]) == [""]


@pytest.mark.filterwarnings("error")
def test_a_field_that_nothing_says_is_told_once() -> None:
    nodes = [TextNode(text="正文。", metadata={"author": "林"}), TextNode(text="正文。", metadata={"title": "手册"})]
    transform = ContextHeaderTransform(template="{title} > {titel} > {author}")
    message = r"names \['titel'\].* none of these 2 nodes has; .*Use title, sections, .*here \['author', 'title'\]"
    with pytest.warns(ChunkingPlusWarning, match=message):
        assert headers(transform(nodes)) == ["林", "手册"]
    transform(nodes)


@pytest.mark.filterwarnings("error")
def test_a_field_that_a_node_says_or_that_has_keys_is_known() -> None:
    nodes = [TextNode(text="正文。", metadata={"author": "林"}), TextNode(text="正文。")]
    assert headers(ContextHeaderTransform(template="{title} > {author}")(nodes)) == ["林", ""]
    assert headers(ContextHeaderTransform(template="{place}", keys={"place": "city"})(nodes)) == ["", ""]
    assert ContextHeaderTransform(template="{place}")([]) == []


def test_a_header_that_is_too_long_loses_outer_sections_first() -> None:
    metadata = {"title": "甲", "header_path": "/乙乙乙乙/丙丙丙丙/丁/"}
    sizes = {n: headers([one(metadata, max_size=n, unit="chars")])[0] for n in (23, 22, 14, 11, 6, 2)}
    assert sizes[23] == sizes[22] == "甲 > 乙乙乙乙 > 丙丙丙丙 > 丁"
    assert sizes[14] == sizes[11] == "甲 > … > 丁"
    assert sizes[6] == "甲…"
    assert sizes[2] == ""
    assert headers([one({"title": "长" * 5_000}, max_size=None)]) == ["长" * 5_000]
    assert SIZE["tokens"](headers([one({"title": "长" * 5_000})])[0] + "\n\n") <= 100


# -- the nodes ----------------------------------------------------------------------------------------------------------


@every_parser
def test_search_sees_header_and_text_and_the_model_sees_the_text(case: Case) -> None:
    source = document()
    parsed = case.make().get_nodes_from_documents([source])
    nodes = ContextHeaderTransform()(parsed)
    for before, node in zip(parsed, nodes, strict=True):
        assert node.text == before.text == source.text[node.start_char_idx : node.end_char_idx]
        assert next(iter(node.metadata)) == "context_header"
        assert {key: node.metadata[key] for key in before.metadata} == before.metadata
        assert node.get_content(EMBED) == f"{HEADER}\n\n{node.text}".strip()
        assert node.get_content(LLM) == node.text
        assert (node.node_id, node.relationships) == (before.node_id, before.relationships)


@every_parser
def test_the_model_is_shown_the_header_on_demand(case: Case) -> None:
    for node in ContextHeaderTransform(show_to_llm=True)(case.make().get_nodes_from_documents([document()])):
        assert node.get_content(LLM) == node.get_content(EMBED) == f"{HEADER}\n\n{node.text}".strip()


@every_parser
def test_twice_is_as_good_as_once_and_the_last_options_count(case: Case) -> None:
    parsed = case.make().get_nodes_from_documents([document()])
    usual, other = ContextHeaderTransform(), ContextHeaderTransform(template="{author}", show_to_llm=True)
    empty = ContextHeaderTransform(template="{nothing}")
    once, differently, without = (essence(each(parsed)) for each in (usual, other, empty))
    assert essence(usual(usual(parsed))) == essence(usual(other(empty(parsed)))) == once
    assert essence(other(usual(parsed))) == essence(other(other(parsed))) == differently
    assert essence(empty(usual(parsed))) == without
    assert all("context_header" not in node["metadata"] for node in without)


@every_parser
def test_inputs_are_not_changed(case: Case) -> None:
    parsed = case.make().get_nodes_from_documents([document(tags=["一"])])
    before = essence(parsed)
    for node in ContextHeaderTransform()(parsed):
        node.metadata["tags"].append("二")
        node.metadata["title"] = "新"
        node.relationships.clear()
        node.excluded_embed_metadata_keys.append("x")
        node.excluded_llm_metadata_keys.clear()
        node.set_content("新")
    assert essence(parsed) == before


@pytest.mark.parametrize(
    "node",
    [
        Document(text="正文。"),
        ImageNode(text="正文。", image="aGVsbG8="),
        IndexNode(text="正文。", index_id="i"),
        Node(text_resource=MediaResource(text="正文。")),
    ],
    ids=lambda node: type(node).__name__,
)
def test_every_kind_of_node_takes_a_header(node: BaseNode) -> None:
    node.metadata = {"title": "甲"}
    (made,) = ContextHeaderTransform()([node])
    assert type(made) is type(node)
    assert made.get_content(EMBED) == "甲\n\n正文。"
    assert made.get_content(MetadataMode.NONE) == made.get_content(LLM) == "正文。"


def test_an_embedding_of_another_text_is_taken_off_and_one_of_this_text_stays() -> None:
    (made,) = ContextHeaderTransform()([TextNode(text="正文。", metadata={"title": "甲"}, embedding=[1.0])])
    assert made.embedding is None
    made.embedding = [2.0]
    assert ContextHeaderTransform(show_to_llm=True)([made])[0].embedding == [2.0]


def test_what_the_user_hid_stays_hidden_and_a_lead_stays_shown() -> None:
    parts = StructuredMarkdownNodeParser(chunk_size=120).get_nodes_from_documents([Document(text=MARKDOWN)])
    nodes = ContextHeaderTransform()(parts)
    rows = [node for node in nodes if node.text.startswith("| 一")]
    assert rows
    for node in rows:
        lead = node.metadata["lead"].strip()
        assert node.get_content(EMBED).startswith("手册 > 表\n")
        assert lead in node.get_content(EMBED)
        assert node.get_content(LLM) == f"{lead}\n\n{node.text}".strip()
    hidden = TextNode(
        text="正文。", metadata={"lead": "表头", "title": "甲"}, excluded_embed_metadata_keys=["lead", "later"]
    )
    (made,) = ContextHeaderTransform()([hidden])
    assert made.get_content(EMBED) == "甲\n\n正文。"
    assert "later" in made.excluded_embed_metadata_keys


def test_sections_come_from_the_parsers_of_both_packages() -> None:
    source = Document(text=MARKDOWN, metadata={"title": "手册"})
    ours = ContextHeaderTransform()(StructuredMarkdownNodeParser(chunk_size=120).get_nodes_from_documents([source]))
    assert set(headers(ours)) == {"手册", "手册 > 表"}
    theirs = ContextHeaderTransform()(MarkdownNodeParser().get_nodes_from_documents([source]))
    assert headers(theirs) == ["手册", "手册", "手册 > 休假", "手册"]


@pytest.mark.parametrize(
    "parser",
    [
        SentenceSplitter(chunk_size=300, chunking_tokenizer_fn=chinese_sentence_tokenizer),
        SentenceWindowNodeParser(sentence_splitter=chinese_sentence_tokenizer),
    ],
    ids=["splitter", "window"],
)
def test_other_parsers_of_llamaindex_work_as_well(parser: NodeParser) -> None:
    nodes = IngestionPipeline(transformations=[parser, ContextHeaderTransform()]).run(documents=[document()])
    assert nodes
    assert all(node.get_content(EMBED) == f"{HEADER}\n\n{node.text}".strip() for node in nodes)
    assert all(node.get_content(LLM) == node.text for node in nodes)


# -- the budget ---------------------------------------------------------------------------------------------------------


@every_parser
@pytest.mark.parametrize(
    "metadata", [{}, {"title": "长" * 300, "header_path": "/" + "节" * 200 + "/"}], ids=["short", "long"]
)
def test_header_and_text_together_keep_the_size(
    case: Case, sample_documents: list[Document], metadata: dict[str, Any]
) -> None:
    reserve = (case.smallest or case.limit) // 3
    hidden = {
        "excluded_embed_metadata_keys": [*METADATA, *metadata],
        "excluded_llm_metadata_keys": [*METADATA, *metadata],
    }
    texts = [PROSE * 3, *(each.text[:3_000] for each in sample_documents[:5])]
    sources = [Document(text=text, metadata={**METADATA, **metadata}, **hidden) for text in texts]
    parsed = case.make(reserve_header=reserve).get_nodes_from_documents(sources)
    nodes = ContextHeaderTransform(max_size=reserve, **UNIT[case.unit])(parsed)
    size = SIZE[case.unit]
    assert all(headers(nodes))
    for node in nodes:
        assert size(node.text) <= case.limit - reserve
        assert size(node.metadata["context_header"] + "\n\n") <= reserve
        assert size(f"{node.metadata['context_header']}\n\n{node.text}") <= case.limit


@every_parser
def test_nothing_changes_for_those_who_reserve_nothing(case: Case) -> None:
    assert essence(case.make(reserve_header=0).get_nodes_from_documents([document()])) == essence(
        case.make().get_nodes_from_documents([document()])
    )


@every_parser
@pytest.mark.parametrize("reserve, reason", [(-1, "below 0"), (10_000, "leaves less than 4 of")])
def test_a_reserve_that_leaves_nothing_is_refused(case: Case, reserve: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        case.make(reserve_header=reserve)


def test_the_reserve_goes_to_both_parsers_of_the_usual_hybrid() -> None:
    parser = HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=160, reserve_header=40)
    parts = (parser.primary_parser, parser.secondary_parser)
    assert all(isinstance(part, SizedNodeParser) and part.reserve_header == 40 for part in parts)


def test_a_nested_parser_that_counts_alike_reserves_as_much_and_may_reserve_more() -> None:
    def longest(outer: int, inner: int) -> int:
        children = SlidingWindowNodeParser(chunk_size=90, chunk_overlap=0, unit="chars", reserve_header=inner)
        parser = SmallToBigNodeParser(parent_size=400, child_parser=children, reserve_header=outer)
        return max(len(node.text) for node in parser.get_nodes_from_documents([Document(text=PROSE * 4)]))

    assert longest(0, 0) > 60 >= longest(30, 0) > 30
    assert longest(30, 30) == longest(30, 0)
    assert longest(30, 60) <= 30


def test_visible_metadata_is_charged_beside_the_reserve() -> None:
    parser = SlidingWindowNodeParser(chunk_size=200, chunk_overlap=0, unit="chars", reserve_header=60)
    shown = max(len(node.text) for node in parser.get_nodes_from_documents([document()]))
    hidden = max(len(node.text) for node in parser.get_nodes_from_documents([Document(text=PROSE * 4)]))
    assert shown < hidden <= 140


# -- the framework ------------------------------------------------------------------------------------------------------

OTHER_OPTIONS: dict[str, Any] = {
    "template": "{title}",
    "keys": {"title": "author"},
    "section_separator": "/",
    "max_size": 50,
    "unit": "chars",
    "tokenizer": count_bytes,
    "show_to_llm": True,
}


async def test_async_gives_what_sync_gives() -> None:
    nodes = CASES[0].make().get_nodes_from_documents([document()])
    transform = ContextHeaderTransform()
    assert essence(await transform.acall(nodes)) == essence(transform(nodes))


@pytest.mark.parametrize("options", [{}, OTHER_OPTIONS], ids=["usual", "other"])
def test_dumps_and_pickles_make_the_same_headers(options: dict[str, Any]) -> None:
    nodes = CASES[0].make().get_nodes_from_documents([document()])
    transform = ContextHeaderTransform(**options)
    dumped = ContextHeaderTransform.from_dict(json.loads(json.dumps(transform.to_dict())))
    pickled = pickle.loads(pickle.dumps(transform))
    assert essence(dumped(nodes)) == essence(pickled(nodes)) == essence(transform(nodes))
    assert dumped.to_dict() == pickled.to_dict() == transform.to_dict()


def test_what_cannot_be_pickled_is_an_error() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ContextHeaderTransform(tokenizer=lambda text: text.split()))


def test_every_option_changes_the_hash_of_the_ingestion_cache_and_is_frozen() -> None:
    assert set(OTHER_OPTIONS) == set(ContextHeaderTransform.model_fields)
    made = [
        ContextHeaderTransform(),
        *(ContextHeaderTransform(**{name: value}) for name, value in OTHER_OPTIONS.items()),
    ]
    assert len({get_transformation_hash([document()], each) for each in made}) == len(made)
    for name, value in OTHER_OPTIONS.items():
        with pytest.raises(ValueError, match="frozen"):
            setattr(made[0], name, value)


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"template": "{title"}, "cannot be read"),
        ({"template": "标题"}, "has no field"),
        ({"max_size": 0}, "max_size"),
        ({"keys": ["title"]}, "is no mapping"),
        ({"tokenizer": "tiktoken:none"}, "knows no encoding"),
        ({"unit": "words"}, "unit"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ContextHeaderTransform(**options)


def test_two_workers_make_what_one_makes() -> None:
    parser = SlidingWindowNodeParser(chunk_size=128, chunk_overlap=0)
    pipeline = IngestionPipeline(transformations=[parser, ContextHeaderTransform()], disable_cache=True)
    sources = [document(), Document(id_="two", text=PROSE, metadata={"title": "乙"})]
    together = pipeline.run(documents=sources, num_workers=2)
    assert sorted(node.to_json() for node in together) == sorted(
        node.to_json() for node in pipeline.run(documents=sources)
    )


# -- stores -------------------------------------------------------------------------------------------------------------


class Place:
    """A pipeline into Chroma on disk, as a new process finds it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "documents"
        self.client = closing_client(self, str(folder / "chroma"))
        self.store = ChromaVectorStore(chroma_collection=self.client.get_or_create_collection("chunks"))
        self.embedding = LetterEmbedding()

    def sync(self, documents: list[Document], *transformations: Any) -> Any:
        pipeline = IngestionPipeline(transformations=[*transformations, self.embedding], vector_store=self.store)
        return sync_documents(documents, pipeline, persist_dir=self.state, delete_missing=True)

    def rows(self) -> list[TextNode]:
        return self.store.query(VectorStoreQuery(similarity_top_k=1_000)).nodes


def guide(**metadata: Any) -> Document:
    front = "---\ntitle: 员工手册\nversion: 2.10\nupdated: 2025-03-01\n---\n\n"
    return Document(id_="guide.md", text=front + MARKDOWN, metadata={"file_name": "guide.md", **metadata})


def recipe(**options: Any) -> list[Any]:
    parser = StructuredMarkdownNodeParser(chunk_size=300, unit="chars", reserve_header=60)
    return [DocumentMetadataTransform(), parser, ContextHeaderTransform(max_size=60, unit="chars", **options)]


@every_parser
def test_through_chroma_and_a_restart_search_and_text_differ_by_the_header_only(case: Case, tmp_path: Path) -> None:
    source, writer = document(), Place(tmp_path)
    writer.sync([source], case.make(), ContextHeaderTransform())
    asked = sorted(writer.embedding.asked)
    rows = Place(tmp_path).rows()
    assert rows
    assert asked == sorted(row.get_content(EMBED) for row in rows)
    for row in rows:
        assert row.get_content(EMBED) == f"{HEADER}\n\n{row.text}".strip()
        assert row.text == row.get_content(LLM) == source.text[row.start_char_idx : row.end_char_idx]
        assert row.ref_doc_id == "one"


def test_a_sync_embeds_nothing_twice_and_notices_title_and_template(tmp_path: Path) -> None:
    first, again = Place(tmp_path), Place(tmp_path)
    assert first.sync([guide()], *recipe()).added == ("guide.md",)
    unchanged = again.sync([guide()], *recipe())
    assert (unchanged.unchanged, unchanged.nodes_written, again.embedding.asked) == (("guide.md",), 0, [])
    assert {row.metadata["context_header"].split("（")[1] for row in again.rows()} == {"v2.10，更新于 2025-03-01）"}
    for document_, options in (
        (guide(title="新手册"), {}),
        (guide(title="新手册"), {"template": "{title}：{sections}"}),
    ):
        place = Place(tmp_path)
        assert place.sync([document_], *recipe(**options)).updated == ("guide.md",)
        assert place.embedding.asked
        assert all(row.metadata["context_header"].startswith("新手册") for row in Place(tmp_path).rows())
    assert any(row.metadata["context_header"] == "新手册：手册 > 表" for row in Place(tmp_path).rows())


def test_rows_are_exact_slices_of_the_document_that_the_user_gave(tmp_path: Path) -> None:
    Place(tmp_path).sync([guide()], *recipe())
    stored = load_docstore(tmp_path / "documents").get_document("guide.md")
    assert stored.get_content(MetadataMode.NONE) == guide().text
    assert stored.metadata == {"file_name": "guide.md"}
    for row in Place(tmp_path).rows():
        assert row.ref_doc_id == "guide.md"
        assert row.text == guide().text[row.start_char_idx : row.end_char_idx]


# -- what is returned ---------------------------------------------------------------------------------------------------


def small_to_big(tmp_path: Path, **options: Any) -> Place:
    parser = SmallToBigNodeParser(parent_size=240, child_size=48, reserve_header=20)
    place = Place(tmp_path)
    place.sync([document()], parser, ContextHeaderTransform(max_size=20, unit="chars", **options))
    return place


@pytest.mark.parametrize("kind", ["slices", "siblings"])
@pytest.mark.parametrize("shown", [False, True])
def test_parents_carry_the_header_for_display(kind: str, shown: bool, tmp_path: Path) -> None:
    place = small_to_big(tmp_path, show_to_llm=shown, template="{title}")
    lookup: Any = SiblingLookup(place.store) if kind == "siblings" else SourceSliceLookup(load_docstore(place.state))
    hits = [NodeWithScore(node=row, score=0.5) for row in place.rows()[:3]]
    for parent in ParentExpansionPostprocessor(lookup=lookup).postprocess_nodes(hits):
        assert parent.node.metadata["context_header"] == "旧书店"
        assert parent.node.text == document().text[parent.node.start_char_idx : parent.node.end_char_idx]
        assert parent.node.get_content(LLM) == (f"旧书店\n\n{parent.node.text}".strip() if shown else parent.node.text)


@pytest.mark.parametrize("store", ["text", "span"])
@pytest.mark.parametrize("shown", [False, True])
def test_windows_carry_the_header_for_display(store: str, shown: bool) -> None:
    docstore = SimpleDocumentStore()
    docstore.add_documents([document()])
    nodes = ChineseSentenceWindowNodeParser(store=store).get_nodes_from_documents([document()])
    hits = [NodeWithScore(node=node, score=0.5) for node in ContextHeaderTransform(show_to_llm=shown)(nodes)[:2]]
    (passage,) = SentenceWindowPostprocessor(docstore=docstore).postprocess_nodes(hits)
    assert passage.node.metadata["context_header"] == HEADER
    assert passage.node.text == document().text[passage.node.start_char_idx : passage.node.end_char_idx]
    assert passage.node.get_content(LLM) == (f"{HEADER}\n\n{passage.node.text}".strip() if shown else passage.node.text)


def test_a_fence_that_a_piece_leaves_open_is_closed_with_a_header_too() -> None:
    code = "".join(f"def f{i}():\n    return {i}\n\n" for i in range(30))
    nodes = StructuredMarkdownNodeParser(chunk_size=200)([Document(text=f"# 例\n\n```python\n{code}```\n")])
    for node in ContextHeaderTransform()(nodes):
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert node.get_content(mode).count("```") == 2
