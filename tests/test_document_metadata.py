"""What documents say of themselves becomes metadata; what is there stays, and what is doubtful is left alone."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode

from llama_index_chunking_plus import (
    ChunkingPlusWarning,
    ContextHeaderTransform,
    DocumentMetadataTransform,
    PageJoiner,
    SlidingWindowNodeParser,
)

LAW = "中华人民共和国某某法\n（2025年修订）\n\n第一章 总则\n\n第一条 为了公平，制定本法。\n\n第二章 附则\n\n第二条 本法自公布之日起施行。"


def added(text: str = "正文。", id_: str = "d1", **metadata: Any) -> dict[str, Any]:
    (made,) = DocumentMetadataTransform()([Document(id_=id_, text=text, metadata=metadata)])
    assert made.text == text
    return {key: value for key, value in made.metadata.items() if key not in metadata}


def title(text: str = "正文。", **options: Any) -> str | None:
    return added(text, **options).get("title")


# -- titles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# 员工手册\n\n正文。\n\n## 休假\n", "员工手册"),
        ("员工手册\n====\n\n正文。", "员工手册"),
        ("## 员工 `手册` ##\n\n### 休假\n", "员工 手册"),
        ("<!-- 注 -->\n\n[![build](a.svg)](b)\n\n# 手册\n\n正文。", "手册"),
        ("---\ntitle: 前言\n---\n\n# 手册\n", "前言"),
        ("---\nauthor: 林\n---\n\n# 手册\n", "手册"),
        ('\ufeff---\r\nTitle: "引号: {x}"\r\n---\r\n正文。', "引号: {x}"),
        ("---\n标题: 手册\n...\n正文。", "手册"),
        ("# 甲\n\n正文。\n\n# 乙\n\n正文。", None),
        ("## 甲\n\n正文。\n\n# 乙\n", None),
        ("先有一段话。\n\n# 附录\n", None),
        ("```\n# 注释\n```\n", None),
        ("没有标题的话。\n另一句。", None),
        (LAW, "中华人民共和国某某法"),
        ("第一章 总则\n\n第一条 甲。\n\n第二章 附则\n\n第二条 乙。", None),
        ("这一段话说的是，下面有几章。\n\n第一章 总则\n\n第一条 甲。\n\n第二条 乙。", None),
        ("", None),
        (" \n", None),
    ],
)
def test_a_title_is_what_the_whole_document_stands_under(text: str, expected: str | None) -> None:
    assert title(text) == expected


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"file_name": "年报.pdf"}, "年报"),
        ({"file_path": "/a/b/年报.v2.docx"}, "年报.v2"),
        ({"id_": "docs/guide.md"}, "guide"),
        ({"id_": "/a/年报.docx_part_3"}, "年报"),
        ({"id_": "员工手册"}, "员工手册"),
        ({"id_": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}, None),
        ({"id_": "d17"}, None),
        ({"id_": "a.md", "file_name": "b.md"}, "b"),
    ],
)
def test_without_a_heading_the_name_of_the_file_is_the_title(options: dict[str, Any], expected: str | None) -> None:
    assert title(**options) == expected


# -- version and date ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, metadata, expected",
    [
        ("---\nversion: 1.10\n---\n", {}, "1.10"),
        ("---\nVersion: v3\n---\n# 手册 v2\n", {}, "v3"),
        ("---\nversion: null\n---\n# 手册 v2\n", {}, "v2"),
        ("---\nversion:\n  major: 1\n---\n# 手册 v2\n", {}, "v2"),
        ("---\n版本号: 第三版\n---\n", {}, "第三版"),
        ("# 手册（第2版）\n", {}, "第2版"),
        ("# 手册\n", {"file_name": "手册_V2.1.md"}, "v2.1"),
        ("正文。", {"title": "手册 V3"}, "v3"),
        ("# V8 发动机\n", {}, None),
        ("正文说的是 v2.1。", {}, None),
    ],
)
def test_the_version_comes_from_front_matter_or_a_name(
    text: str, metadata: dict[str, Any], expected: str | None
) -> None:
    assert added(text, **metadata).get("version") == expected


@pytest.mark.parametrize(
    "text, metadata, expected",
    [
        ("---\ndate: 2024-01-02\nupdated: 2025-03-01T08:00:00Z\n---\n", {}, "2025-03-01"),
        ("---\nlast-modified: 2025年3月1日\n---\n", {}, "2025-03-01"),
        ("---\nupdated: 昨天\ndate: 2024-01-02\n---\n", {}, "2024-01-02"),
        ("---\ndate: 2025-13-45\n---\n", {"file_name": "周报 2024-03-01.md"}, "2024-03-01"),
        ("正文。", {"file_name": "20240301.md", "last_modified_date": "2025-01-01"}, "2024-03-01"),
        ("正文。", {"last_modified_date": "2025-01-01"}, "2025-01-01"),
        ("2024-03-01 的正文。", {}, None),
    ],
)
def test_the_date_comes_from_front_matter_a_name_or_the_reader(
    text: str, metadata: dict[str, Any], expected: str | None
) -> None:
    assert added(text, **metadata).get("updated_at") == expected


def test_the_time_of_the_file_is_asked_on_demand_and_last(tmp_path: Path) -> None:
    path = tmp_path / "甲.md"
    path.write_text("正文。", encoding="utf-8")
    os.utime(path, (1_740_830_400, 1_740_830_400))
    there = Document(text="正文。", metadata={"file_path": str(path)})
    gone = Document(text="正文。", metadata={"file_path": str(tmp_path / "乙.md")})
    odd = Document(text="正文。", metadata={"file_path": "\0"})
    dated = Document(text="正文。", metadata={"file_path": str(path), "last_modified_date": "2024-01-01"})
    documents = [there, gone, odd, dated]
    assert [node.metadata.get("updated_at") for node in DocumentMetadataTransform()(documents)] == [
        None,
        None,
        None,
        "2024-01-01",
    ]
    made = DocumentMetadataTransform(use_file_time=True)(documents)
    assert [node.metadata.get("updated_at") for node in made] == ["2025-03-01", None, None, "2024-01-01"]


# -- what stays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata, keys",
    [
        ({"title": "旧"}, {"version", "updated_at"}),
        ({"document_title": "旧"}, {"version", "updated_at"}),
        ({"version": 1}, {"title", "updated_at"}),
        ({"updated_at": "旧"}, {"title", "version"}),
        ({"date": "2020-01-01"}, {"title", "version"}),
        ({"title": "旧", "version": "旧", "datetime": "旧"}, set()),
        ({"title": {}, "version": [], "updated_at": False}, set()),
    ],
)
def test_what_is_there_is_never_replaced(metadata: dict[str, Any], keys: set[str]) -> None:
    text = "---\ntitle: 新\nversion: 9\ndate: 2025-03-01\n---\n正文。"
    (made,) = DocumentMetadataTransform()([Document(text=text, metadata=metadata)])
    assert {key: made.metadata[key] for key in metadata} == metadata
    assert set(made.metadata) == {*metadata, *keys}


def test_an_empty_value_counts_as_none() -> None:
    (made,) = DocumentMetadataTransform()([Document(text="# 新\n", metadata={"title": "", "version": None})])
    assert made.metadata == {"title": "新", "version": None}


def test_what_is_added_is_hidden_and_everything_else_stays() -> None:
    related = {NodeRelationship.NEXT: RelatedNodeInfo(node_id="b")}
    document = Document(
        id_="a",
        text="# 手册 v2\n\n正文。",
        metadata={"owner": "林", "tags": ["一"]},
        relationships=related,
        excluded_llm_metadata_keys=["tags"],
    )
    before = document.to_json()
    (made,) = DocumentMetadataTransform()([document])
    assert type(made) is Document
    assert (made.id_, made.text, made.relationships) == ("a", document.text, related)
    assert made.get_content(MetadataMode.EMBED) == document.get_content(MetadataMode.EMBED)
    assert made.get_content(MetadataMode.LLM) == document.get_content(MetadataMode.LLM)
    made.metadata["tags"].append("二")
    made.relationships.clear()
    made.excluded_llm_metadata_keys.clear()
    assert document.to_json() == before


def test_pieces_of_documents_are_not_asked() -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="a")}
    piece = TextNode(text="# 小节 v2\n", metadata={"file_name": "a.md"}, relationships=source)
    (made,) = DocumentMetadataTransform()([piece])
    assert made == piece
    assert made is not piece


# -- front matter -------------------------------------------------------------------------------------------------------

BROKEN = [
    "---\ntitle: 甲: 乙\n---\n正文。",
    "---\ntitle: [\n---\n正文。",
    '---\ntitle: "甲\n---\n正文。',
    "---\ntitle: 甲\n\tversion: 1\n---\n正文。",
    "---\ntitle: *x\n---\n正文。",
    "---\na: " + "[" * 3_000 + "\n---\n正文。",
    "---\n- a: b\n- c\n---\n正文。",
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_broken_front_matter_is_passed_over_with_a_warning(text: str) -> None:
    with pytest.warns(
        ChunkingPlusWarning, match=r"front matter of 1 of 1 documents is no YAML mapping, the first is 'd1'"
    ):
        assert added(text, file_name="手册 v2.md") == {"title": "手册 v2", "version": "v2"}


def test_all_broken_front_matters_of_a_call_are_one_warning() -> None:
    documents = [Document(id_=str(i), text=text) for i, text in enumerate([*BROKEN[:2], "正文。"])]
    with pytest.warns(ChunkingPlusWarning) as seen:
        assert len(DocumentMetadataTransform()(documents)) == 3
    assert [str(each.message).split(";")[0] for each in seen] == [
        "The front matter of 2 of 3 documents is no YAML mapping, the first is '0'"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "---\n正文。\n---\n",
        "---\n---\n正文。",
        "---\n\n正文。",
        "---\ntitle: 甲\n正文。",
        "正文。\n---\ntitle: 甲\n---\n",
        "---",
    ],
)
def test_rules_of_dashes_are_no_front_matter(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert added(text, file_name="手册.md") == {"title": "手册"}


def test_yaml_is_read_and_never_run() -> None:
    text = "---\ntitle: !!python/object/apply:os.getcwd []\nversion: !!python/name:os.system 3\ndate: 2025-03-01\n---\n正文。"
    assert added(text) == {"version": "3", "updated_at": "2025-03-01"}


# -- the framework ------------------------------------------------------------------------------------------------------


async def test_async_gives_what_sync_gives() -> None:
    documents = [Document(id_="a", text="# 手册 v2\n"), Document(id_="b", text=LAW)]
    transform = DocumentMetadataTransform()
    assert await transform.acall(documents) == transform(documents)


def test_dumps_pickles_and_hashes() -> None:
    usual, other = DocumentMetadataTransform(), DocumentMetadataTransform(use_file_time=True)
    for transform in (usual, other):
        assert DocumentMetadataTransform.from_dict(json.loads(json.dumps(transform.to_dict()))) == transform
        assert pickle.loads(pickle.dumps(transform)) == transform
    assert get_transformation_hash([Document(text="x", id_="x")], usual) != get_transformation_hash(
        [Document(text="x", id_="x")], other
    )
    with pytest.raises(ValueError, match="frozen"):
        usual.use_file_time = True


@pytest.mark.parametrize(
    "transform, option", [(DocumentMetadataTransform, "use_filetime"), (ContextHeaderTransform, "maxsize")]
)
def test_an_unknown_option_is_refused_and_a_dump_still_read(transform: Any, option: str) -> None:
    with pytest.raises(ValueError, match=option):
        transform(**{option: 5})
    for copy in (transform.from_dict(transform().to_dict()), transform.from_json(transform().to_json())):
        assert copy.to_dict() == transform().to_dict()


def test_twice_is_as_good_as_once() -> None:
    transform = DocumentMetadataTransform()
    once = transform([Document(id_="a", text="# 手册 v2\n")])
    assert transform(once) == once


def test_the_samples_say_what_they_are(sample_documents: list[Document]) -> None:
    made = {node.id_: node.metadata for node in DocumentMetadataTransform()(sample_documents)}
    assert made["leave_policy_v2.md"] == {
        "file_name": "leave_policy_v2.md",
        "title": "栖原生物科技员工休假制度",
        "version": "2.0",
        "updated_at": "2025-06-20",
    }
    assert made["mixed_release_notes.md"]["version"] == "v5.2.0"
    assert made["policy_handbook.txt"]["title"] == "澜屿精工有限公司 差旅、采购与信息安全管理手册"


def test_pages_that_were_joined_get_the_title_of_their_document() -> None:
    pages = [
        Document(text=text, metadata={"file_name": "手册_v2.pdf", "page_label": str(i)})
        for i, text in enumerate(["# 手册\n\n第一页。", "第二页。"], 1)
    ]
    pipeline = IngestionPipeline(
        transformations=[DocumentMetadataTransform(), SlidingWindowNodeParser(), ContextHeaderTransform()]
    )
    (node,) = pipeline.run(documents=PageJoiner().join(pages))
    assert node.metadata["context_header"] == "手册（v2）"
    assert node.metadata["page_end"] == "2"
