"""MultiGranularityNodeParser: what only it promises."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from embedders import FaultyEmbedding, LetterEmbedding
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import (
    MarkdownNodeParser,
    get_child_nodes,
    get_deeper_nodes,
    get_leaf_nodes,
    get_root_nodes,
)
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from parsers import LEVELS, SENTENCES, count_bytes, multi_granularity, multi_granularity_by_meaning
from structured_checks import flaws
from texts import HOSTILE_UNITS

from llama_index_chunking_plus import (
    ChunkingPlusWarning,
    EmbeddingError,
    Granularity,
    MultiGranularityNodeParser,
    PageJoiner,
    Span,
    StructuredMarkdownNodeParser,
)
from llama_index_chunking_plus.core.belonging import ties
from llama_index_chunking_plus.core.blocks import BlockKind
from llama_index_chunking_plus.core.markdown import markdown_blocks
from llama_index_chunking_plus.core.parents import text_hash
from llama_index_chunking_plus.core.sizing import BytePairSizer
from llama_index_chunking_plus.core.spans import is_partition
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

Nodes = dict[str, list[BaseNode]]

WORDS = ("书店", "学生", "山路", "河水", "年初", "店主", "旧书", "黄昏", "灯火", "邻居")
HEADER = "| 名 | 取值 | 说明 |\n|---|---|---|\n"
ROWS = "".join(f"| 参数{i} | 值{i} | 第{i}行的说明 |\n" for i in range(1, 61))
CODE = "".join(f"def f{i}(x):\n    y = x + {i}\n\n    return y\n\n\n" for i in range(6))
OVERLAPPING = (
    Granularity("coarse", 200, 500, 70),
    Granularity("medium", 60, 160, 24),
    Granularity("fine", 20, 60, 9),
)


def prose(n_sentences: int, seed: int = 0) -> str:
    """Distinct sentences of about 20 characters."""
    picked = ([WORDS[(seed + i * 7 + j * 3) % len(WORDS)] for j in range(3)] for i in range(n_sentences))
    return "".join(f"第{seed}章的第{i}句说到{a}和{b}，还有{c}。" for i, (a, b, c) in enumerate(picked))


def book(chapters: int = 6) -> str:
    return "".join(
        f"# 第{i}卷\n\n## 概述\n\n{prose(4, i)}\n\n## 细节\n\n{prose(9, i)}\n\n{prose(5, i + 1)}\n\n"
        for i in range(chapters)
    )


def parse(text: str, parser: MultiGranularityNodeParser | None = None, **options: Any) -> Nodes:
    """The nodes of each level, coarse first."""
    parser = parser or multi_granularity(**options)
    return by_level(parser.get_nodes_from_documents([Document(id_="d", text=text)]))


def by_level(nodes: list[BaseNode]) -> Nodes:
    levels: Nodes = defaultdict(list)
    for node in sorted(nodes, key=lambda node: node.metadata["granularity_depth"]):
        levels[node.metadata["granularity"]].append(node)
    return dict(levels)


def span(node: BaseNode) -> Span:
    return Span(node.start_char_idx, node.end_char_idx)


def spans(nodes: list[BaseNode]) -> list[Span]:
    return [span(node) for node in nodes]


def all_nodes(levels: Nodes) -> dict[str, BaseNode]:
    return {node.node_id: node for nodes in levels.values() for node in nodes}


def assert_nested(levels: Nodes) -> None:
    """Every node lies in one node of the level above, the one that it names."""
    by_id = all_nodes(levels)
    for above, below in pairwise(levels.values()):
        for node in below:
            holding = by_id[node.metadata["parent_id"]]
            assert holding in above
            assert holding.start_char_idx <= node.start_char_idx < node.end_char_idx <= holding.end_char_idx


def assert_tiled(text: str, levels: Nodes) -> None:
    """Each level is the document, chunk after chunk; only chunks that are white space are left out."""
    for nodes in levels.values():
        assert all(span(node).of(text) == node.text for node in nodes)
        gaps = [text[a.end : b.start] for a, b in pairwise([Span(0, 0), *spans(nodes), Span(len(text), len(text))])]
        assert all(a.end <= b.start for a, b in pairwise(spans(nodes)))
        assert not "".join(gaps).strip()


def sizer_of(parser: MultiGranularityNodeParser) -> Any:
    return resolve_sizer(parser.unit, parser.tokenizer).size


# -- nesting ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [multi_granularity, multi_granularity_by_meaning])
def test_each_level_tiles_the_document_and_lies_in_the_one_above(make, sample_documents: list[Document]) -> None:
    for document in [*sample_documents, Document(text=book())]:
        levels = parse(document.text, make())
        assert list(levels)[:3] == ["coarse", "medium", "fine"]
        assert_tiled(document.text, levels)
        assert_nested(levels)


@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_the_default_levels_are_partitions(unit: str, sample_documents: list[Document]) -> None:
    for document in sample_documents:
        for nodes in parse(document.text, MultiGranularityNodeParser(unit=unit)).values():
            assert is_partition(spans(nodes), len(document.text))


def test_the_parts_of_a_chunk_are_all_of_it() -> None:
    text = book()
    levels = parse(text)
    for above, below in pairwise(levels.values()):
        for whole in above:
            parts = [node for node in below if node.metadata["parent_id"] == whole.node_id]
            assert "".join(part.text for part in parts) == whole.text


def test_nodes_come_in_document_order_each_ahead_of_its_parts() -> None:
    nodes = multi_granularity().get_nodes_from_documents([Document(text=book())])
    places = [(node.start_char_idx, node.metadata["granularity_depth"]) for node in nodes]
    assert places == sorted(places)
    assert {depth for _, depth in places} == {0, 1, 2}


def test_overlap_is_shared_by_neighbours_in_one_parent_only() -> None:
    text = prose(150)
    levels = parse(text, levels=OVERLAPPING)
    assert list(levels) == ["coarse", "medium", "fine"]
    assert_nested(levels)
    limits = {level.name: level for level in OVERLAPPING}
    for name, nodes in levels.items():
        shared = [(a, b, a.end_char_idx - b.start_char_idx) for a, b in pairwise(nodes)]
        assert all(0 <= size <= limits[name].overlap for _, _, size in shared)
        overlapping = [(a, b) for a, b, size in shared if size]
        assert all(a.metadata.get("parent_id") == b.metadata.get("parent_id") for a, b in overlapping)
        assert max(len(node.text) for node in nodes) <= limits[name].max_size
        assert "".join(nodes[0].text + "".join(b.text[a.end_char_idx - b.start_char_idx :] for a, b in pairwise(nodes)))
    assert any(a.end_char_idx > b.start_char_idx for a, b in pairwise(levels["coarse"]))
    assert any(a.end_char_idx > b.start_char_idx for a, b in pairwise(levels["medium"]))


# -- sizes --------------------------------------------------------------------------------------------------------------


def whole_atoms(text: str, node: BaseNode) -> list[Span]:
    """What of a chunk may make it larger than its level: the atomic blocks, and those in lists, that it holds whole."""
    blocks = markdown_blocks(text)
    found = [block.span for block in blocks if block.is_atomic] + [inner for block in blocks for inner in block.inner]
    return [Span(*each) for each in found if node.start_char_idx <= each.start and each.end <= node.end_char_idx]


@pytest.mark.parametrize("unit", ["chars", "tokens"])
@pytest.mark.parametrize("preset", ["balanced", "manual", "narrative"])
def test_no_chunk_is_too_large_but_for_whole_blocks_that_fit_the_level_above(
    preset, unit, sample_documents: list[Document]
) -> None:
    parser = MultiGranularityNodeParser.from_preset(preset, unit=unit)
    size = sizer_of(parser)
    above = {finer.name: level.max_size for level, finer in pairwise(parser.levels)}
    for document in sample_documents:
        levels = parse(document.text, parser)
        for level in parser.levels:
            for node in levels.get(level.name, []):
                if size(node.text) > level.max_size:
                    assert whole_atoms(document.text, node)
                    assert size(node.text) <= above[level.name]


@pytest.mark.parametrize("name", ["medium", "fine"])
def test_a_chunk_falls_short_only_where_it_must(name: str, sample_documents: list[Document]) -> None:
    """No neighbour under the same heading, in the same larger chunk, has room for it."""
    parser = MultiGranularityNodeParser(structure="markdown")
    level = next(level for level in parser.levels if level.name == name)
    n_nodes = n_short = 0
    for document in sample_documents:
        if not document.node_id.endswith(".md"):
            continue
        openings = {block.span.start for block in markdown_blocks(document.text) if block.kind in BESIDE}
        tied = ties(document.text, [block.span for block in markdown_blocks(document.text)])
        nodes = parse(document.text, parser)[name]
        n_nodes += len(nodes)
        n_short += sum(len(node.text) < level.min_size for node in nodes)
        for left, right in pairwise(nodes):
            apart = right.start_char_idx in openings or left.metadata["parent_id"] != right.metadata["parent_id"]
            torn = any(tie.start < left.start_char_idx < tie.end for tie in tied)
            around = sum(len(f"{key}: {left.metadata.get(key, '')}\n") for key in ("header_path", "lead", "goes_on"))
            if min(len(left.text), len(right.text)) < level.min_size and not apart and not torn:
                assert len(left.text) + len(right.text) + around > level.max_size, (left.text, right.text)
    assert 0 < n_short < n_nodes * 0.25


BESIDE = {BlockKind.HEADING, BlockKind.BREAK, BlockKind.COMMENT}


def test_what_is_cut_in_sentences_never_falls_short() -> None:
    for n_sentences in range(8, 120, 5):
        text = prose(n_sentences)
        for name, nodes in parse(text, levels=LEVELS).items():
            level = next(level for level in LEVELS if level.name == name)
            shortest = min(len(node.text) for node in nodes)
            assert shortest >= level.min_size


# -- relationships and metadata -----------------------------------------------------------------------------------------


def test_parents_and_children_name_each_other() -> None:
    levels = parse(book())
    by_id = all_nodes(levels)
    children = defaultdict(list)
    for node in by_id.values():
        if node.parent_node is not None:
            parent = by_id[node.parent_node.node_id]
            children[parent.node_id].append(node.node_id)
            assert node.metadata["parent_id"] == parent.node_id
            assert (node.metadata["parent_start"], node.metadata["parent_end"]) == span(parent)
            assert node.metadata["parent_hash"] == node.parent_node.hash == text_hash(parent.text)
    for node in by_id.values():
        assert [info.node_id for info in node.child_nodes or []] == children[node.node_id]
    assert all(node.parent_node is None and "parent_id" not in node.metadata for node in levels["coarse"])
    assert all(node.child_nodes is None for node in levels["fine"])


def test_the_coarse_id_is_that_of_the_largest_chunk_around_a_node() -> None:
    for options in ({}, {"levels": LEVELS[1:]}, {"levels": (*LEVELS, SENTENCES)}):
        by_id = all_nodes(parse(book(), **options))
        for node in by_id.values():
            top = node
            while top.parent_node is not None:
                top = by_id[top.parent_node.node_id]
            assert node.metadata["coarse_id"] == top.node_id
            assert top.metadata["granularity_depth"] == 0


def test_core_finds_roots_children_and_leaves() -> None:
    levels = parse(book())
    nodes = list(all_nodes(levels).values())
    assert get_root_nodes(nodes) == levels["coarse"]
    assert get_leaf_nodes(nodes) == levels["fine"]
    assert get_child_nodes(levels["coarse"], nodes) == levels["medium"]
    assert get_deeper_nodes(nodes, depth=2) == levels["fine"]


def test_the_auto_merging_retriever_of_core_merges_up() -> None:
    levels = parse(book())
    nodes = list(all_nodes(levels).values())
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    context = StorageContext.from_defaults(docstore=docstore)
    index = VectorStoreIndex(levels["fine"], storage_context=context, embed_model=LetterEmbedding())

    few = AutoMergingRetriever(index.as_retriever(similarity_top_k=1), context).retrieve(levels["fine"][9].text)
    assert [hit.node.node_id for hit in few] == [levels["fine"][9].node_id]

    every = index.as_retriever(similarity_top_k=len(levels["fine"]))
    merged = AutoMergingRetriever(every, context).retrieve("书店")
    assert {hit.node.node_id for hit in merged} == {node.node_id for node in levels["coarse"]}


def test_metadata_is_flat_and_hidden() -> None:
    for node in all_nodes(parse(book(), levels=(*LEVELS, SENTENCES))).values():
        assert {type(value) for value in node.metadata.values()} <= {str, int}
        assert (node.metadata["span_start"], node.metadata["span_end"]) == span(node)
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            shown = node.get_content(mode)
            assert not re.search("granularity|parent_|coarse_id|span_", shown)


def test_chroma_takes_the_nodes_and_finds_them_by_level(tmp_path) -> None:
    chromadb = pytest.importorskip("chromadb")
    adapter = pytest.importorskip("llama_index.vector_stores.chroma")
    nodes = list(all_nodes(parse(book(2))).values())
    model = LetterEmbedding()
    for node in nodes:
        node.embedding = model.get_text_embedding(node.text)
    client = chromadb.PersistentClient(str(tmp_path))
    store = adapter.ChromaVectorStore(chroma_collection=client.create_collection("levels"))
    store.add(nodes)
    for level in LEVELS:
        only = MetadataFilters(filters=[MetadataFilter(key="granularity", value=level.name)])
        query = VectorStoreQuery(query_embedding=nodes[0].embedding, similarity_top_k=len(nodes), filters=only)
        found = store.query(query).nodes
        expected = {node.node_id: node for node in nodes if node.metadata["granularity"] == level.name}
        assert {node.node_id for node in found} == set(expected)
        assert all(node.metadata == expected[node.node_id].metadata for node in found)
    client._system.stop()


def test_ids_differ_even_where_all_levels_say_the_same() -> None:
    text = "问：几点开门？\n答：早上九点。"
    nodes = multi_granularity(adapt_to_length=False, levels=(*LEVELS, SENTENCES))([Document(text=text)])
    counted = Counter(node.metadata["granularity"] for node in nodes if node.text == text)
    assert counted == {"coarse": 1, "medium": 1, "fine": 1, "sentence": 1}
    assert len({node.node_id for node in nodes}) == len(nodes)


def test_neighbours_are_linked_on_their_own_level() -> None:
    for nodes in parse(book()).values():
        assert [node.next_node.node_id for node in nodes[:-1]] == [node.node_id for node in nodes[1:]]
        assert nodes[-1].next_node is None


# -- levels -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_sentences, names",
    [(1, ["fine"]), (12, ["fine"]), (30, ["medium", "fine"]), (120, ["coarse", "medium", "fine"])],
)
def test_a_short_document_does_without_the_levels_that_it_does_not_fill(n_sentences: int, names: list[str]) -> None:
    text = prose(n_sentences)
    levels = parse(text, MultiGranularityNodeParser())
    assert list(levels) == names
    for depth, nodes in enumerate(levels.values()):
        assert {node.metadata["granularity_depth"] for node in nodes} == {depth}
    (top, *_) = levels.values()
    assert all(node.metadata["coarse_id"] == node.node_id for node in top)
    always = parse(text, MultiGranularityNodeParser(adapt_to_length=False))
    assert list(always) == ["coarse", "medium", "fine"]
    assert_nested(always)


@pytest.mark.parametrize("text", ["", " ", "\n\n\u3000\t\r\n"])
def test_a_blank_document_gives_nothing(text: str) -> None:
    assert multi_granularity(adapt_to_length=False)([Document(text=text)]) == []


@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_presets_cut_law_finer_and_narratives_coarser(unit: str, sample_documents: list[Document]) -> None:
    counts = {}
    for preset in ("law", "manual", "balanced", "narrative"):
        nodes = MultiGranularityNodeParser.from_preset(preset, unit=unit).get_nodes_from_documents(sample_documents)
        counts[preset] = Counter(node.metadata["granularity"] for node in nodes)
    assert counts["law"] == counts["manual"]
    for name in ("coarse", "medium", "fine"):
        assert counts["law"][name] > counts["balanced"][name] > counts["narrative"][name] > 0


def test_the_balanced_preset_is_the_default_in_either_unit() -> None:
    for unit in ("chars", "tokens"):
        assert MultiGranularityNodeParser(unit=unit).levels == MultiGranularityNodeParser.from_preset(unit=unit).levels
    assert MultiGranularityNodeParser().levels[0].max_size == 5000
    assert MultiGranularityNodeParser(unit="tokens").levels[0].max_size == 3000


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_any_number_of_levels(count: int) -> None:
    sizes = [1000, 500, 250, 120, 60, 30][6 - count :]
    own = tuple(Granularity(f"至多{size}", size // 3, size) for size in sizes)
    levels = parse(book(), levels=own)
    assert list(levels) == [level.name for level in own]
    assert_nested(levels)
    assert_tiled(book(), levels)
    for level in own:
        assert max(len(node.text) for node in levels[level.name]) <= level.max_size


def test_sentences_as_a_level_are_each_a_node_inside_of_a_fine_chunk() -> None:
    text = f"# 甲\n\n{prose(30)}\n\n- 第一项。第二句。\n- 第二项。\n\n{HEADER}{ROWS[:60]}\n"
    sentences = Granularity("sentence", 0, 120, each_sentence=True)
    levels = parse(text, levels=(Granularity("coarse", 200, 500), Granularity("fine", 50, 120), sentences))
    assert list(levels) == ["coarse", "fine", "sentence"]
    assert_nested(levels)
    assert_tiled(text, levels)
    said = [node.text.strip() for node in levels["sentence"]]
    assert said[1:30] == [f"{each}。" for each in prose(30).split("。")[1:30]]
    assert said[0].startswith("# 甲\n\n第0章的第0句")
    assert "第二句。" in said
    assert [node.text.count("| 参数") for node in levels["sentence"] if "| 参数" in node.text]


def test_a_preset_takes_sentences_below_its_fine_level() -> None:
    parser = MultiGranularityNodeParser.from_preset("law", sentences=True, unit="tokens")
    assert [level.name for level in parser.levels] == ["coarse", "medium", "fine", "sentence"]
    assert parser.levels[-1].each_sentence
    assert parser.levels[-1].max_size == parser.levels[-2].max_size


# -- what is not cut ----------------------------------------------------------------------------------------------------


def table(rows: int) -> str:
    return HEADER + "".join(ROWS.splitlines(keepends=True)[:rows])


ATOMS = {
    "table": table(6),
    "function": f"```python\n{CODE[: CODE.index('def f3')]}```\n",
    "formula": "$$\n" + "x_{1} = y + z \\\\\n" * 7 + "$$\n",
    "html table": "<table>\n<tr><th>名</th></tr>\n" + "<tr><td>一二三四</td></tr>\n" * 5 + "</table>\n",
}


@pytest.mark.parametrize("atom", ATOMS.values(), ids=ATOMS)
def test_a_block_that_fits_the_level_above_is_whole_on_each_level(atom: str) -> None:
    coarse, medium, fine = Granularity("coarse", 200, 500), Granularity("medium", 60, 200), Granularity("fine", 20, 80)
    assert fine.max_size < len(atom) < medium.max_size
    text = f"# 甲\n\n{prose(20)}\n\n{atom}\n{prose(20, 3)}\n"
    for name, nodes in parse(text, levels=(coarse, medium, fine)).items():
        assert sum(atom in node.text for node in nodes) == 1, name
        assert all(len(node.text) <= 80 or atom in node.text for node in nodes if name == "fine")


def test_a_block_that_does_not_fit_the_level_above_is_cut_and_shows_its_lead() -> None:
    text = f"# 甲\n\n{prose(20)}\n\n{table(60)}\n{prose(20, 3)}\n"
    levels = parse(text, levels=(Granularity("medium", 100, 400), Granularity("fine", 30, 120)))
    for nodes in levels.values():
        pieces = [node for node in nodes if "| 参数" in node.text]
        assert len(pieces) > 3
        assert pieces[0].text.lstrip().startswith(HEADER) or HEADER in pieces[0].text
        for node in pieces[1:]:
            assert node.metadata["lead"].strip() == HEADER.strip()
            assert all(HEADER.strip() in node.get_content(mode) for mode in (MetadataMode.EMBED, MetadataMode.LLM))


def test_a_piece_of_a_block_that_the_level_above_has_cut_keeps_to_its_own_size() -> None:
    """The block itself would fit that level, but not with the headings above it."""
    levels = (Granularity("coarse", 100, 300), Granularity("medium", 40, 120))
    for n_lines in range(20, 30):
        code = "```\n" + "abcdefghi\n" * n_lines + "```\n"
        text = f"# {'长' * 60}\n\n{prose(9)}\n\n{code}\n{prose(9)}"
        found = parse(text, levels=levels)
        assert_tiled(text, found)
        for node in found["medium"]:
            assert len(node.text) <= 120 or code.strip() in node.text


def test_what_a_pattern_protects_is_whole_on_each_level() -> None:
    clause = "【合同编号甲。合同编号乙二。合同编号丙三。合同编号丁四。】"
    levels = (Granularity("medium", 30, 120), Granularity("fine", 5, 24))
    for n in range(0, 40, 3):
        text = prose(20)[n:] + clause + prose(20, 2)
        for name, nodes in parse(text, levels=levels, protected_patterns=["【.*?】"], structure="none").items():
            assert sum(clause in node.text for node in nodes) == 1, (n, name)


def test_a_protected_term_is_not_cut() -> None:
    text = "甲乙丙丁戊己庚" * 60
    for nodes in parse(text, protected_terms=("丙丁戊",)).values():
        assert "".join(node.text.count("丙丁戊") * "x" for node in nodes) == "x" * 60


@pytest.mark.parametrize(
    "config",
    [
        {"unit": "chars"},
        {"unit": "tokens"},
        {"embed_model": LetterEmbedding()},
        {"levels": (Granularity("coarse", 200, 500), Granularity("medium", 80, 200), Granularity("fine", 30, 90))},
    ],
    ids=["characters", "tokens", "meaning", "small"],
)
def test_nothing_is_wrong_with_the_chunks_of_any_level(config: dict, sample_documents: list[Document]) -> None:
    parser = MultiGranularityNodeParser(structure="markdown", **config)
    for document in [Document(text=each.text) for each in sample_documents if each.node_id.endswith(".md")]:
        levels = by_level(parser.get_nodes_from_documents([document]))
        for level in parser.levels:
            found = flaws(_Level(levels.get(level.name, []), level.max_size, parser.unit), document)
            assert [flaw for flaw in found if not re.match(r"\d+ (and \d+ )?(is|are) too large", flaw)] == []


@dataclass(frozen=True)
class _Level:
    """The nodes of one level, as if a parser of one level had made them."""

    nodes: list[BaseNode]
    chunk_size: int
    unit: str
    tokenizer: None = None

    def get_nodes_from_documents(self, _: list[Document]) -> list[BaseNode]:
        return self.nodes


# -- meaning ------------------------------------------------------------------------------------------------------------

TOPICS = (
    "".join(f"山路{i}很长，山上有树，山风很大。" for i in range(12)),
    "".join(f"合同{i}已签，合同条款清楚，合同有效。" for i in range(12)),
    "".join(f"电脑{i}开机，电脑风扇转，电脑很快。" for i in range(12)),
)


@pytest.mark.parametrize("is_async", [False, True])
async def test_each_distinct_sentence_is_embedded_once_for_all_levels_and_documents(is_async: bool) -> None:
    model = LetterEmbedding()
    parser = multi_granularity(embed_model=model, levels=(*LEVELS, SENTENCES))
    documents = [Document(text="".join(TOPICS)), Document(text=f"# 甲\n\n{TOPICS[0]}\n\n{prose(20)}")]
    await parser.acall(documents) if is_async else parser(documents)
    assert max(Counter(model.asked).values()) == 1
    distinct = {f"{each}。" for text in (*TOPICS, prose(20)) for each in text.split("。") if each}
    assert {text for text in model.asked if "#" not in text and "甲" not in text} == distinct - {""}


def test_sections_that_are_too_large_are_cut_where_the_topic_changes() -> None:
    text = "".join(TOPICS)
    changes = {len(TOPICS[0]), len(TOPICS[0]) + len(TOPICS[1])}
    levels = (Granularity("coarse", 100, 600), Granularity("medium", 60, 300), Granularity("fine", 20, 90))
    by_meaning = parse(text, levels=levels, embed_model=LetterEmbedding())
    for nodes in by_meaning.values():
        assert changes <= {node.start_char_idx for node in nodes}
    assert_nested(by_meaning)
    by_size = parse(text, levels=levels)
    assert not changes <= {node.start_char_idx for node in by_size["coarse"]}


@pytest.mark.parametrize("fault", ["raise", "nan", "infinite", "dimension"])
async def test_a_failing_batch_gives_one_warning_and_loses_nothing(fault: str) -> None:
    text = prose(60) + "坏的一句。" + prose(60, 2)
    parser = multi_granularity(embed_model=FaultyEmbedding(fault=fault))
    with pytest.warns(ChunkingPlusWarning, match="failed on, or gave no usable vectors") as caught:
        levels = parse(text, parser)
    assert len(caught) == 1
    assert_tiled(text, levels)
    assert_nested(levels)
    with pytest.warns(ChunkingPlusWarning):
        again = by_level(await parser.aget_nodes_from_documents([Document(id_="d", text=text)]))
    assert [node.to_json() for node in all_nodes(again).values()] == [
        node.to_json() for node in all_nodes(levels).values()
    ]


def test_an_embedder_that_never_answers_is_an_error() -> None:
    with pytest.raises(EmbeddingError, match="failed on every batch"):
        parse("坏。" * 40, embed_model=FaultyEmbedding())


# -- inputs -------------------------------------------------------------------------------------------------------------


def test_numbered_text_is_cut_at_its_chapters() -> None:
    text = "".join(f"第{n}章 名目{n}\n\n{prose(12, i)}\n\n" for i, n in enumerate("一二三四五六"))
    levels = parse(text, levels=(Granularity("coarse", 100, 400), Granularity("fine", 20, 100)))
    chapters = {found.start() for found in re.finditer("第.章 ", text)}
    for nodes in levels.values():
        assert chapters <= {node.start_char_idx for node in nodes}
        assert {node.metadata["header_path"] for node in nodes} == {f"/第{n}章 名目{n}/" for n in "一二三四五六"}


def test_pieces_of_a_document_are_parsed_in_the_frame_of_the_document() -> None:
    text = book()
    sections = MarkdownNodeParser().get_nodes_from_documents([Document(id_="d", text=text)])
    pieces = StructuredMarkdownNodeParser(chunk_size=200, chunk_overlap=0)([Document(id_="d", text=text)])
    for inputs in (sections, pieces):
        nodes = multi_granularity(adapt_to_length=False)(inputs)
        levels = by_level(nodes)
        assert_nested(levels)
        assert {node.ref_doc_id for node in nodes} == {"d"}
        assert {node.metadata["header_path"].split("/")[1] for node in nodes} == {f"第{i}卷" for i in range(6)}
        for node in nodes:
            assert span(node).of(text) == node.text
            assert (node.metadata["span_start"], node.metadata["span_end"]) == span(node)
    assert_tiled(text, levels)


def test_a_piece_that_does_not_say_where_it_begins_has_parents_but_no_spans() -> None:
    piece = TextNode(text=book(), relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="root")})
    nodes = multi_granularity()([piece])
    by_id = {node.node_id: node for node in nodes}
    assert len(by_id) == len(nodes) > 20
    for node in nodes:
        assert not {"span_start", "span_end", "parent_start", "parent_end"} & set(node.metadata)
        if node.metadata["granularity"] != "coarse":
            assert node.text in by_id[node.parent_node.node_id].text
        assert by_id[node.metadata["coarse_id"]].metadata["granularity"] == "coarse"
        assert node.text in by_id[node.metadata["coarse_id"]].text


def test_joined_pages_are_told_on_each_level() -> None:
    pages = [Document(text=prose(12, i), metadata={"page_label": str(i + 1), "file_name": "a.pdf"}) for i in range(5)]
    (document,) = PageJoiner()(pages)
    nodes = multi_granularity()([document])
    for node in nodes:
        said = [int(n) + 1 for n in re.findall(r"第(\d)章", node.text)]
        if said:
            assert int(node.metadata["page_start"]) <= said[0] <= said[-1] <= int(node.metadata["page_end"])
    assert {node.metadata["granularity"] for node in nodes} == {"coarse", "medium", "fine"}


def test_a_reserve_for_a_header_is_left_free_on_each_level() -> None:
    text = prose(100)
    for level, reserved in zip(LEVELS, parse(text, reserve_header=15).values(), strict=True):
        assert max(len(node.text) for node in reserved) <= level.max_size - 15


def test_metadata_is_charged_and_the_warning_names_the_level(caplog: pytest.LogCaptureFixture) -> None:
    document = Document(text=prose(300), metadata={"note": "长" * 280})
    with caplog.at_level(logging.WARNING):
        nodes = MultiGranularityNodeParser()([document])
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("The metadata of 1 of 1 inputs takes up to 286 of levels['fine'].max_size=300 chars;")
    assert message.endswith("Raise levels['fine'].max_size, or exclude metadata keys.")
    longest = {name: max(len(node.text) for node in level) for name, level in by_level(nodes).items()}
    assert longest["fine"] <= 50
    assert longest["medium"] <= 1000 - 286
    assert longest["coarse"] <= 5000 - 286


def test_metadata_of_any_size_is_survived() -> None:
    nodes = multi_granularity()([Document(text=book(), metadata={"note": "长" * 50_000})])
    assert_nested(by_level(nodes))


# -- the framework ------------------------------------------------------------------------------------------------------


def test_two_workers_give_what_one_gives(sample_documents: list[Document]) -> None:
    pipeline = IngestionPipeline(transformations=[MultiGranularityNodeParser.from_preset("law")], disable_cache=True)
    alone = pipeline.run(documents=sample_documents)
    together = pipeline.run(documents=sample_documents, num_workers=2)
    assert Counter(node.to_json() for node in together) == Counter(node.to_json() for node in alone)


async def test_async_gives_what_sync_gives(sample_documents: list[Document]) -> None:
    parser = MultiGranularityNodeParser(embed_model=LetterEmbedding())
    nodes = parser.get_nodes_from_documents(sample_documents)
    again = await parser.aget_nodes_from_documents(sample_documents)
    assert [node.to_json() for node in again] == [node.to_json() for node in nodes]


def test_a_dump_revives_levels_and_asks_for_the_model() -> None:
    parser = multi_granularity(
        levels=(*OVERLAPPING, SENTENCES), protected_patterns=["a+"], embed_model=LetterEmbedding()
    )
    dump = json.loads(json.dumps(parser.to_dict()))
    revived = MultiGranularityNodeParser.from_dict(dump, embed_model=LetterEmbedding())
    assert revived.levels == parser.levels
    assert revived.to_dict() == parser.to_dict()
    with pytest.raises(ValueError, match=r"embed_model was dumped as data; pass the model: from_dict"):
        MultiGranularityNodeParser.from_dict(dump)


def test_an_id_func_numbers_the_nodes_of_all_levels() -> None:
    nodes = multi_granularity(id_func=lambda i, node: f"{node.node_id}-{i}")([Document(id_="d", text=book())])
    assert [node.node_id for node in nodes] == [f"d-{i}" for i in range(len(nodes))]
    by_id = {node.node_id: node for node in nodes}
    assert all(by_id[node.metadata["coarse_id"]].metadata["granularity"] == "coarse" for node in nodes)


@pytest.mark.parametrize("options", [{}, {"embed_model": LetterEmbedding()}], ids=["structure", "meaning"])
def test_a_text_is_read_by_the_tokenizer_once_for_all_levels(options, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("ruler", "size"):
        monkeypatch.setattr(BytePairSizer, name, _noting(getattr(BytePairSizer, name), read))
    text = book()
    multi_granularity(unit="tokens", levels=(*LEVELS, SENTENCES), **options)([Document(text=text)])
    assert [each for each in read if len(each) > len(text) // 2] == [text]


def _noting(method: Any, read: list[str]) -> Any:
    def noted(sizer: BytePairSizer, text: str) -> Any:
        read.append(text)
        return method(sizer, text)

    return noted


# -- options ------------------------------------------------------------------------------------------------------------

FINE = Granularity("fine", 10, 40)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"levels": ()}, r"levels=\(\) names no level; pass one or more, or leave it out for coarse, medium and fine"),
        (
            {"levels": (Granularity("fine", 5, 90), FINE)},
            r"levels=\['fine', 'fine'\] names a level twice; give each a name of its own",
        ),
        (
            {"levels": (FINE, Granularity("finer", 5, 40))},
            r"max_size=40 of 'finer' is not below max_size=40 of 'fine'; levels go from coarse to fine",
        ),
        ({"levels": (Granularity("s", 0, 90, each_sentence=True), FINE)}, r"'s' has each_sentence=True .*put it last"),
        ({"levels": (Granularity("s", 0, 90, each_sentence=True),)}, r"sentences only; put a level of larger chunks"),
        ({"levels": (Granularity("fine", 0, 3),)}, r"leaves less than 4 of .*max_size=3"),
        ({"levels": (FINE,), "reserve_header": 37}, r"reserve_header=.* leaves less than 4 of"),
        ({"reserve_header": -1}, r"reserve_header=-1 is below 0"),
        ({"protected_patterns": ["("]}, r"protected_patterns holds '\(', no regular expression"),
        ({"protected_patterns": "a"}, r"protected_patterns='a' is one string.*pass a list"),
        ({"structure": "html"}, r"structure"),
        ({"unit": "words"}, r"unit"),
        ({"levels": ({"name": "fine", "min_size": 9, "max_size": 3},)}, r"min_size=9 of 'fine' is outside"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        multi_granularity(**options)


def test_a_preset_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="preset='poem' is none of balanced, manual, narrative, law"):
        MultiGranularityNodeParser.from_preset("poem")
    with pytest.raises(OptionError, match=r"preset=\['law'\] is none of"):
        MultiGranularityNodeParser.from_preset(["law"])
    for unit in ("words", [], ["chars"], None):
        with pytest.raises(ValidationError, match=r"1 validation error for \w+\nunit\n"):
            MultiGranularityNodeParser.from_preset("law", unit=unit)


def test_a_preset_beside_levels_is_refused() -> None:
    with pytest.raises(
        OptionError, match=r"levels=\(Granul.* beside preset='law', .*without a preset, or leave levels out"
    ):
        MultiGranularityNodeParser.from_preset("law", levels=(FINE,))


# -- any text -----------------------------------------------------------------------------------------------------------

WORD = st.text("山下有一座旧书店主姓林今年", min_size=1, max_size=40)
PIECES = st.one_of(
    st.builds("{} {}\n\n".format, st.sampled_from(["#", "##", "###"]), st.text("甲乙丙", min_size=1, max_size=6)),
    st.lists(WORD, min_size=1, max_size=20).map(lambda words: "。".join(words) + "。\n\n"),
    st.integers(1, 20).map(lambda n: table(n) + "\n"),
    st.integers(1, 20).map(lambda n: "```\n" + "abc = 1\n" * n + "```\n\n"),
    st.integers(1, 12).map(lambda n: "- 甲\n\n  ~~~\n" + "  let a = 1;\n" * n + "  ~~~\n\n"),
    st.integers(1, 8).map(lambda n: "$$\n" + "x = 1\n" * n + "$$\n\n"),
    st.integers(1, 9).map(lambda n: "".join(f"{i}. 步骤{i}。\n" for i in range(1, n + 1)) + "\n"),
    st.sampled_from(["问：何时？\n\n答：明日。后日。\n\n", "<!-- 注 -->\n\n", "---\n\n", "\r\n", " " * 40, "\u3000\n"]),
    st.text("山 下\n有。，a1#|`>-", max_size=60),
)
SIZES = st.lists(st.integers(4, 400), min_size=1, max_size=4, unique=True).map(lambda sizes: sorted(sizes)[::-1])


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(PIECES, max_size=10),
    sizes=SIZES,
    share=st.integers(0, 100),
    options=st.sampled_from(
        [{}, {}, {"unit": "tokens"}, {"embed_model": LetterEmbedding()}, {"tokenizer": count_bytes, "unit": "tokens"}]
    ),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_any_markdown_and_any_levels(pieces, sizes, share, options, flags) -> None:
    sentences, adapts = flags
    levels = [Granularity(f"level {size}", size * share // 100, size) for size in sizes]
    if sentences:
        levels.append(Granularity("sentence", 0, sizes[-1], each_sentence=True))
    text = "".join(pieces)
    parser = MultiGranularityNodeParser(levels=tuple(levels), structure="markdown", adapt_to_length=adapts, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChunkingPlusWarning)
        found = parse(text, parser)
    assert_tiled(text, found)
    assert_nested(found)
    size = sizer_of(parser)
    most = sizes[0]
    for level, limit in zip(levels, [*sizes, sizes[-1]], strict=False):
        for node in found.get(level.name, []):
            assert size(node.text) <= limit or (whole_atoms(text, node) and size(node.text) <= most)
        most = limit
    assert not text.strip() or found


def test_what_stays_whole_fits_the_level_above_with_its_heading() -> None:
    text = "# 丙\n\n```\n" + "abc = 1\n" * 15 + "```\n\n"  # 129 characters of code and its blank line, 5 of heading
    levels = tuple(Granularity(name, 0, size) for name, size in (("large", 152), ("middle", 129), ("small", 60)))
    found = parse(text, MultiGranularityNodeParser(levels=levels, structure="markdown"))
    assert [len(node.text) for node in found["middle"]] == [134]  # whole, as it fits the level above
    assert max(len(node.text) for node in found["small"]) <= 60


@pytest.mark.parametrize("name", HOSTILE_UNITS)
def test_hostile_texts_nest(name: str) -> None:
    text = (HOSTILE_UNITS[name] * 4_000)[:4_000]
    for options in ({}, {"unit": "tokens", "levels": (Granularity("a", 8, 20), Granularity("b", 2, 4))}):
        levels = parse(text, **options)
        assert_tiled(text, levels)
        assert_nested(levels)
