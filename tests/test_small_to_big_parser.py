"""SmallToBigNodeParser: what only it promises."""

from __future__ import annotations

import warnings
from collections import defaultdict
from itertools import pairwise

import pytest
from embedders import LetterEmbedding
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter, get_leaf_nodes
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from parsers import small_to_big, small_to_big_by_meaning, small_to_big_of_two_parsers, small_to_big_tokens
from texts import ODD_TEXTS, PROSE

from llama_index_chunking_plus import (
    ChineseSentenceTokenizer,
    ChunkingPlusWarning,
    HybridNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SmallToBigNodeParser,
    Span,
)
from llama_index_chunking_plus.core.parents import ParentRef, text_hash
from llama_index_chunking_plus.core.sizing import BytePairSizer
from llama_index_chunking_plus.core.spans import is_cover, is_partition

TEXT = PROSE * 8
MAKERS = [small_to_big, small_to_big_tokens, small_to_big_by_meaning, small_to_big_of_two_parsers]
every_kind = pytest.mark.parametrize("make", MAKERS)


def document(text: str = TEXT, **options: object) -> Document:
    return Document(id_="d", text=text, **options)


def span(node: BaseNode) -> Span:
    return Span(node.start_char_idx, node.end_char_idx)


def families(parser: SmallToBigNodeParser, text: str = TEXT) -> dict[ParentRef, list[BaseNode]]:
    children = defaultdict(list)
    for node in parser.get_nodes_from_documents([document(text)]):
        children[ParentRef.from_metadata(node.metadata)].append(node)
    return children


@every_kind
def test_parents_tile_the_document_and_children_cover_their_parent(make) -> None:
    found = families(make())
    assert len(found) > 3
    assert is_partition([parent.span for parent in found], len(TEXT))
    for parent, children in found.items():
        assert parent.is_slice_of(TEXT)
        inside = [span(child).shift(-parent.span.start) for child in children]
        assert is_cover(inside, parent.span.end - parent.span.start)


@every_kind
def test_a_child_names_its_parent_as_relationship_and_in_metadata(make) -> None:
    for parent, children in families(make()).items():
        for child in children:
            info = child.parent_node
            assert (info.node_id, info.hash, info.metadata) == (parent.parent_id, parent.hash, {})
            assert "parent_" not in child.get_content(MetadataMode.EMBED) + child.get_content(MetadataMode.LLM)


@every_kind
async def test_parent_nodes_are_the_parents_that_the_children_name(make) -> None:
    parser = make()
    inputs = [document(metadata={"file_name": "书店.txt"}), Document(id_="two", text=PROSE)]
    children = parser.get_nodes_from_documents(inputs)
    parents = parser.parent_nodes(inputs)
    assert [node.to_json() for node in await parser.aparent_nodes(inputs)] == [node.to_json() for node in parents]
    by_id = {node.node_id: node for node in parents}
    assert list(by_id) == list(dict.fromkeys(child.metadata["parent_id"] for child in children))
    for node in parents:
        reference = ParentRef(node.node_id, span(node), text_hash(node.text))
        own = [child for child in children if ParentRef.from_metadata(child.metadata) == reference]
        assert [info.node_id for info in node.child_nodes] == [child.node_id for child in own]
        assert node.text == (TEXT if node.ref_doc_id == "d" else PROSE)[span(node).start : span(node).end]
        assert node.metadata == ({"file_name": "书店.txt"} if node.ref_doc_id == "d" else {})
    for left, right in pairwise(parents):
        linked = left.ref_doc_id == right.ref_doc_id
        assert (left.next_node and left.next_node.node_id) == (right.node_id if linked else None)


@every_kind
def test_both_levels_come_in_one_list_each_linked_by_itself(make) -> None:
    children = make().get_nodes_from_documents([document()])
    both = make(emit="both").get_nodes_from_documents([document()])
    assert [node.to_json() for node in get_leaf_nodes(both)] == [node.to_json() for node in children]
    parents = [node for node in both if NodeRelationship.CHILD in node.relationships]
    assert [node.to_json() for node in parents] == [node.to_json() for node in make().parent_nodes([document()])]
    assert len(both) == len(children) + len(parents) == len({node.node_id for node in both})
    for parent in parents:  # each ahead of its children
        at = both.index(parent)
        assert [info.node_id for info in parent.child_nodes] == [
            node.node_id for node in both[at + 1 : at + 1 + len(parent.child_nodes)]
        ]


def test_a_short_document_is_parent_and_child_in_one() -> None:
    text = "问：几点开门？\n答：早上九点。"
    parser = SmallToBigNodeParser()
    (child,), (parent,) = (parse([document(text)]) for parse in (parser.get_nodes_from_documents, parser.parent_nodes))
    assert span(child) == span(parent) == Span(0, len(text))
    assert child.text == parent.text == text
    assert child.node_id != parent.node_id == child.metadata["parent_id"]


def test_parents_are_whole_sentences_even_where_a_child_cannot_be() -> None:
    text = ("第一句话。" + "没有句号的很长一句" * 12 + "。") * 5
    parser = small_to_big(parent_size=300, child_size=50, child_overlap=5)
    ends = set(parser.sentence_tokenizer.ends(text))
    assert all(parent.span.end in ends for parent in families(parser, text))
    assert max(len(child.text) for children in families(parser, text).values() for child in children) <= 50


def test_ids_of_parents_follow_their_text_and_place() -> None:
    parser = small_to_big()
    before = {parent.parent_id for parent in families(parser)}
    assert before == {parent.parent_id for parent in families(parser)}
    changed = TEXT[:-20] + "改" + TEXT[-19:]
    after = {parent.parent_id for parent in families(parser, changed)}
    assert len(before - after) == 1
    assert not before & {parent.parent_id for parent in families(parser, "新。" + TEXT)}


def test_the_same_document_twice_has_children_of_two_sets_of_parents() -> None:
    parser = small_to_big()
    children = parser.get_nodes_from_documents([document(), document()])
    parents = parser.parent_nodes([document(), document()])
    assert len({node.node_id for node in parents}) == len(parents)
    assert {child.metadata["parent_id"] for child in children} == {node.node_id for node in parents}


def test_an_id_func_names_the_children_and_leaves_the_parents() -> None:
    parser = small_to_big(id_func=lambda index, node: f"{node.node_id}-{index}")
    children = parser.get_nodes_from_documents([document()])
    assert [child.node_id for child in children] == [f"d-{i}" for i in range(len(children))]
    assert [node.node_id for node in parser.parent_nodes([document()])] == [
        node.node_id for node in small_to_big().parent_nodes([document()])
    ]


def test_chained_parents_stand_in_the_frame_of_the_root_document() -> None:
    sections = SlidingWindowNodeParser(chunk_size=500, chunk_overlap=0, unit="chars").get_nodes_from_documents(
        [document()]
    )
    assert len(sections) > 2
    for parser in (small_to_big(), small_to_big_of_two_parsers()):
        references = {ParentRef.from_metadata(child.metadata) for child in parser(sections)}
        assert all(reference.is_slice_of(TEXT) for reference in references)
        assert max(reference.span.end for reference in references) == len(TEXT)


def test_where_offsets_are_unknown_there_is_no_parent_metadata() -> None:
    piece = TextNode(text=TEXT, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="root")})
    parser = small_to_big(emit="both")
    nodes = parser([piece])
    parents = {node.node_id for node in nodes if NodeRelationship.CHILD in node.relationships}
    assert all(node.metadata == {} and node.start_char_idx is None for node in nodes)
    assert {node.parent_node.node_id for node in get_leaf_nodes(nodes)} == parents


def test_overlapping_parents_have_children_of_their_own() -> None:
    sliding = SlidingWindowNodeParser(chunk_size=300, chunk_overlap=80, unit="chars")
    for options in ({}, {"child_parser": SlidingWindowNodeParser(chunk_size=60, chunk_overlap=0, unit="chars")}):
        found = families(small_to_big(parent_parser=sliding, **options))
        assert [parent.span for parent in found] == [
            span(node) for node in sliding.get_nodes_from_documents([document()])
        ]
        for parent, children in found.items():
            inside = [span(child).shift(-parent.span.start) for child in children]
            assert is_cover(inside, parent.span.end - parent.span.start)
        ids = [child.node_id for children in found.values() for child in children]
        assert len(set(ids)) == len(ids)


def test_parents_that_stand_nowhere_still_have_children() -> None:
    class Shouting(SentenceSplitter):
        def split_text_metadata_aware(self, text: str, metadata_str: str) -> list[str]:
            return [piece.upper() + "！" for piece in super().split_text_metadata_aware(text, metadata_str)]

    foreign = HybridNodeParser(primary_parser=Shouting(), secondary_parser=small_to_big(), max_chunk_size=9000)
    with pytest.warns(ChunkingPlusWarning, match="do not stand in their document"):
        children = small_to_big(parent_parser=foreign).get_nodes_from_documents([document("abc. def. " * 30)])
    assert len(children) > 2
    assert "".join(child.text for child in children).startswith("ABC.")
    assert all(child.start_char_idx is None and "parent_id" not in child.metadata for child in children)


def test_metadata_is_charged_to_children_only() -> None:
    metadata = {"title": "旧书店的故事"}
    parser = small_to_big(child_size=100, child_overlap=10, parent_size=400)
    plain, charged = (parser.get_nodes_from_documents([document(metadata=each)]) for each in ({}, metadata))
    assert max(len(child.get_content(MetadataMode.EMBED)) for child in charged) <= 102
    assert len(charged) > len(plain)
    assert len(parser.parent_nodes([document(metadata=metadata)])) == len(parser.parent_nodes([document()]))


def test_a_child_parser_and_foreign_levels_keep_hidden_metadata_and_links() -> None:
    parser = small_to_big(child_parser=small_to_big(parent_size=200, child_size=40, child_overlap=5, emit="both"))
    nodes = parser.get_nodes_from_documents([document()])
    assert [node.next_node.node_id for node in nodes[:-1]] == [node.node_id for node in nodes[1:]]
    assert {node.metadata["parent_id"] for node in nodes} == {
        node.node_id for node in parser.parent_nodes([document()])
    }


@every_kind
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_texts_keep_every_child_inside_its_parent(make, name: str) -> None:
    for parent, children in families(make(), ODD_TEXTS[name]).items():
        assert parent.is_slice_of(ODD_TEXTS[name])
        assert all(
            parent.span.start <= child.start_char_idx < child.end_char_idx <= parent.span.end for child in children
        )


def test_the_document_is_read_once_for_both_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for kind, name in ((BytePairSizer, "ruler"), (ChineseSentenceTokenizer, "ends")):
        original = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda self, text, do=original: read.append(text) or do(self, text))
    families(SmallToBigNodeParser(unit="tokens", parent_size=300, child_size=60))
    assert read == [TEXT, TEXT]


def test_every_sentence_is_embedded_once() -> None:
    model = LetterEmbedding()
    small_to_big(parent_parser=SemanticNodeParser(embed_model=model, max_size=400)).get_nodes_from_documents(
        [document()]
    )
    assert len(model.asked) == len(set(model.asked))


@pytest.mark.parametrize(
    "options, messages",
    [
        ({}, []),
        ({"child_size": 500, "parent_size": 3000}, []),
        ({"unit": "tokens", "child_size": 128, "parent_size": 512}, []),
        ({"parent_size": 2800}, ["parent_size=2800 is 7.0 times child_size=400, outside 4 to 6"]),
        ({"parent_size": 1200}, ["parent_size=1200 is 3.0 times child_size=400, outside 4 to 6"]),
        ({"child_overlap": 30}, ["child_overlap=30 is 8% of child_size=400, outside 10 to 15 %"]),
        ({"child_overlap": 100, "parent_size": 400}, ["1.0 times", "25% of"]),
        ({"child_overlap": 100, "child_parser": SlidingWindowNodeParser()}, []),
        ({"parent_size": 9000, "parent_parser": SlidingWindowNodeParser()}, []),
    ],
)
def test_unusual_sizes_warn_once_and_name_value_range_and_reason(options: dict, messages: list[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SmallToBigNodeParser(**options).get_nodes_from_documents([document()])
    assert [(each.category, each.filename) for each in caught] == [(ChunkingPlusWarning, __file__)] * bool(messages)
    assert all(message in str(caught[0].message) for message in messages)


@pytest.mark.parametrize("size", range(4, 200))
def test_the_overlap_follows_the_size_without_a_warning(size: int) -> None:
    assert SmallToBigNodeParser(child_size=size, parent_size=5 * size).child_overlap == size * 15 // 100


@pytest.mark.parametrize(
    "options, message",
    [
        ({"child_size": 3, "parent_size": 12}, r"child_size=3 is outside \[4, parent_size=12\]"),
        ({"child_size": 500, "parent_size": 400}, r"child_size=500 is outside \[4, parent_size=400\]"),
        ({"child_overlap": 400}, r"child_overlap=400 is outside \[0, child_size=400\)"),
        ({"child_overlap": -1}, r"child_overlap=-1"),
        ({"emit": "parents"}, r"'children' or 'both'"),
        ({"parent_parser": SentenceSplitter()}, r"SpanNodeParser"),
        ({"unit": "words"}, r"'tokens' or 'chars'"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmallToBigNodeParser(**options)


def test_a_dump_without_its_model_says_what_to_pass() -> None:
    dump = small_to_big_by_meaning().to_dict()
    with pytest.raises(ValueError, match="embed_model was dumped as data"):
        SmallToBigNodeParser.from_dict(dump)
    parser = SemanticNodeParser(embed_model=LetterEmbedding(), max_size=400)
    assert SmallToBigNodeParser.from_dict(dump, embed_model=LetterEmbedding()).to_dict() == dump
    assert SmallToBigNodeParser.from_dict({**dump, "parent_parser": None}, parent_parser=parser).parent_parser is parser
