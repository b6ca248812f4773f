"""What every parser keeps, tried on the one list in `parsers.py`."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import (
    BaseNode,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from parsers import CASES, Case, count_bytes, number_ids
from texts import HOSTILE_UNITS, ODD_TEXTS, PROSE

from llama_index_chunking_plus import OptionError, Span, SpanNodeParser
from llama_index_chunking_plus.node_parser.base import Draft
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

pytestmark = pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
every_parser = pytest.mark.parametrize("case", CASES, ids=str)

SIZE = {"tokens": resolve_sizer("tokens", None).size, "chars": len, "bytes": count_bytes}


def documents() -> list[Document]:
    """Three documents, the last two of equal text."""
    metadata = {"file_name": "书店.txt", "tags": ["一", "二"]}
    return [
        Document(
            id_="one",
            text=PROSE * 6,
            metadata=metadata,
            excluded_embed_metadata_keys=["tags"],
            excluded_llm_metadata_keys=["tags"],
        ),
        Document(id_="two", text=PROSE * 2),
        Document(id_="three", text=PROSE * 2),
    ]


def parse(case: Case, inputs: list[BaseNode]) -> list[BaseNode]:
    return case.make().get_nodes_from_documents(inputs)


def essence(nodes: list[BaseNode]) -> list[dict]:
    return [json.loads(node.to_json()) for node in nodes]


def inherited(case: Case, node: BaseNode) -> dict:
    """The metadata but for what the parser added, all of which must be hidden from embedder and model."""
    assert set(case.own_keys) <= set(node.excluded_embed_metadata_keys) & set(node.excluded_llm_metadata_keys)
    assert set(case.own_keys) <= set(node.metadata)
    told = set(case.some_keys) & set(node.metadata)
    assert told <= set(node.excluded_embed_metadata_keys) & set(node.excluded_llm_metadata_keys)
    return {key: value for key, value in node.metadata.items() if key not in {*case.own_keys, *told}}


def by_level(nodes: list[BaseNode]) -> list[list[BaseNode]]:
    """The nodes of each granularity; of a parser that has only one, all."""
    levels: dict[str | None, list[BaseNode]] = {}
    for node in nodes:
        levels.setdefault(node.metadata.get("granularity"), []).append(node)
    return list(levels.values())


def every_relative(nodes: list[BaseNode]) -> list[RelatedNodeInfo]:
    related = (info for node in nodes for info in node.relationships.values())
    return [info for each in related for info in (each if isinstance(each, list) else [each])]


def assert_exact(text: str, nodes: list[BaseNode]) -> None:
    for node in nodes:
        assert node.start_char_idx is not None
        assert text[node.start_char_idx : node.end_char_idx] == node.text


def assert_bounded(case: Case, text: str, nodes: list[BaseNode]) -> None:
    sizes = [SIZE[case.unit](node.text) for node in nodes]
    assert max(sizes, default=0) <= case.limit
    if SIZE[case.unit](text) >= case.least and case.least:
        assert min(sizes) >= case.least


def assert_covered(case: Case, text: str, nodes: list[BaseNode]) -> None:
    seen = {i for node in nodes for i in range(node.start_char_idx, node.end_char_idx)}
    missing = "".join(text[i] for i in range(len(text)) if i not in seen)
    assert not missing.strip()
    if case.covers and nodes:
        assert len(missing) < len(text)
        gaps = "".join(node.text for node in nodes)
        assert len(gaps) + len(missing) >= len(text)


# -- the text -----------------------------------------------------------------------------------------------------------


@every_parser
@pytest.mark.parametrize(
    "wrong", ["一段文本。", [None], ["一段文本。"], Document(id_="a", text="甲。"), None], ids=type
)
async def test_what_is_no_list_of_documents_is_refused_by_name(case: Case, wrong: object) -> None:
    parser = case.make()
    with pytest.raises(OptionError, match=r"documents.*no (list of documents|document); pass"):
        parser(wrong)
    with pytest.raises(OptionError, match=r"documents.*no (list of documents|document); pass"):
        await parser.acall(wrong)


@every_parser
def test_offsets_are_exact_bounds_hold_and_nothing_is_lost(case: Case) -> None:
    for document in documents():
        nodes = parse(case, [document])
        assert len(nodes) > 1
        assert_exact(document.text, nodes)
        assert_bounded(case, document.text, nodes)
        assert_covered(case, document.text, nodes)


@every_parser
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_texts(case: Case, name: str) -> None:
    text = ODD_TEXTS[name]
    nodes = parse(case, [Document(text=text)])
    assert_exact(text, nodes)
    assert_bounded(case, text, nodes)
    assert_covered(case, text, nodes)
    assert bool(nodes) == bool(text.strip())


@every_parser
@pytest.mark.parametrize("name", HOSTILE_UNITS)
def test_hostile_texts(case: Case, name: str) -> None:
    text = (HOSTILE_UNITS[name] * 3_000)[:3_000]
    nodes = parse(case, [Document(text=text)])
    assert_exact(text, nodes)
    assert_covered(case, text, nodes)
    assert max((SIZE[case.unit](node.text) for node in nodes), default=0) <= case.limit


@every_parser
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(
        st.sampled_from(
            ["你好。", "“走！”", "他说", "，", "\n\n", "\r\n", " ", "word. ", "😀", "e\u0301", "3.14", "\ud800"]
        ),
        max_size=120,
    ).map("".join)
)
def test_any_text(case: Case, text: str) -> None:
    nodes = parse(case, [Document(text=text)])
    assert_exact(text, nodes)
    assert_covered(case, text, nodes)
    assert max((SIZE[case.unit](node.text) for node in nodes), default=0) <= case.limit


@every_parser
def test_real_documents(case: Case, sample_documents: list[Document]) -> None:
    nodes = parse(case, sample_documents)
    for document in sample_documents:
        own = [node for node in nodes if node.ref_doc_id == document.node_id]
        assert_exact(document.text, own)
        assert_bounded(case, document.text, own)
        assert_covered(case, document.text, own)


@every_parser
def test_chained_parsers_stay_in_the_frame_of_the_root_document(case: Case) -> None:
    root = Document(id_="root", text=("the the the 好的。好的。\n" * 40) + PROSE)
    sections = SectionParser().get_nodes_from_documents([root])
    nodes = case.make()(sections)
    assert len(sections) > 1
    assert_exact(root.text, nodes)
    assert {node.ref_doc_id for node in nodes} == {"root"}
    for level in by_level(nodes):
        assert [node.next_node.node_id for node in level[:-1]] == [node.node_id for node in level[1:]]
        assert [node.prev_node.node_id for node in level[1:]] == [node.node_id for node in level[:-1]]


@every_parser
def test_an_input_that_does_not_say_where_it_begins_gives_no_offsets(case: Case) -> None:
    piece = TextNode(text=PROSE, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="root")})
    nodes = case.make()([piece])
    assert {(node.start_char_idx, node.end_char_idx, node.ref_doc_id) for node in nodes} == {(None, None, "root")}


class SectionParser(SpanNodeParser):
    """A minimal parser of the family: halves of 400 characters."""

    @classmethod
    def class_name(cls) -> str:
        return "TestSectionParser"

    def _plan(self, sources, show_progress):  # noqa: ARG002
        cuts = range(0, 10_000, 400)
        return [[Draft.of(s, Span(c, min(c + 400, len(s.text)))) for c in cuts if c < len(s.text)] for s in sources]
        yield


# -- the nodes ----------------------------------------------------------------------------------------------------------


@every_parser
def test_nodes_take_metadata_exclusions_and_templates_from_their_input(case: Case) -> None:
    document = documents()[0]
    document.text_template = "{metadata_str}||{content}"
    document.metadata_template = "{key}->{value}"
    document.metadata_separator = ";"
    for node in parse(case, [document]):
        assert inherited(case, node) == document.metadata
        added = [*case.own_keys, *(key for key in case.some_keys if key in node.metadata)]
        assert node.excluded_embed_metadata_keys == node.excluded_llm_metadata_keys == ["tags", *added]
        assert node.get_content(MetadataMode.EMBED) == f"file_name->书店.txt||{node.text}".strip()


@every_parser
def test_metadata_can_be_left_out(case: Case) -> None:
    nodes = case.make(include_metadata=False).get_nodes_from_documents(documents())
    assert all(inherited(case, node) == {} for node in nodes)


@every_parser
def test_links_run_through_each_document_and_no_further(case: Case) -> None:
    nodes = parse(case, documents())
    for document in documents():
        for own in by_level([node for node in nodes if node.ref_doc_id == document.node_id]):
            assert own[0].prev_node is None
            assert own[-1].next_node is None
            for left, right in pairwise(own):
                assert left.next_node.node_id == right.node_id
                assert right.prev_node.node_id == left.node_id
                assert left.start_char_idx < right.start_char_idx
    assert all(node.source_node.hash for node in nodes)
    assert all(info.metadata == {} for info in every_relative(nodes))


@every_parser
def test_links_can_be_left_out(case: Case) -> None:
    nodes = case.make(include_prev_next_rel=False).get_nodes_from_documents(documents())
    relations = {relation for node in nodes for relation in node.relationships}
    assert NodeRelationship.SOURCE in relations
    assert not relations & {NodeRelationship.PREVIOUS, NodeRelationship.NEXT}


@every_parser
def test_ids_are_unique_uuids_the_same_each_time_and_new_for_new_text(case: Case) -> None:
    nodes, again = parse(case, documents()), parse(case, documents())
    ids = [node.node_id for node in nodes]
    assert len(set(ids)) == len(ids)
    assert ids == [node.node_id for node in again]
    assert all(
        str(uuid.UUID(i)) == i and (uuid.UUID(i).version, uuid.UUID(i).variant) == (5, uuid.RFC_4122) for i in ids
    )
    changed = documents()
    changed[1] = Document(id_="two", text=changed[1].text.replace("林", "李"))
    new_ids = {node.node_id for node in parse(case, changed) if "李" in node.text}
    assert new_ids
    assert not new_ids & set(ids)


@every_parser
def test_the_same_document_twice_still_has_unique_ids_and_offsets(case: Case) -> None:
    nodes = parse(case, [documents()[1], documents()[1]])
    assert max(Counter(node.node_id for node in nodes).values()) == 1
    assert_exact(documents()[1].text, nodes)


@every_parser
def test_an_id_func_that_gives_no_string_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match=r"id_func gave 7 for chunk 0 of 'one'"):
        case.make(id_func=lambda *_: 7).get_nodes_from_documents(documents())


@every_parser
def test_no_callback_manager_is_an_empty_one(case: Case) -> None:
    assert case.make(callback_manager=None).get_nodes_from_documents(documents())


@every_parser
def test_an_id_func_is_called_per_document(case: Case) -> None:
    nodes = case.make(id_func=number_ids).get_nodes_from_documents(documents())
    assert [node.node_id for node in nodes if node.ref_doc_id == "two"][:2] == ["two-0", "two-1"]


@every_parser
def test_inputs_are_not_changed_and_their_embeddings_not_inherited(case: Case) -> None:
    inputs = documents()
    inputs[0].embedding = [1.0, 2.0]
    before = [document.model_dump() for document in inputs]
    nodes = parse(case, inputs)
    nodes[0].metadata["file_name"] = "changed"
    nodes[0].metadata["tags"].append("changed")
    nodes[0].excluded_llm_metadata_keys.append("changed")
    assert [document.model_dump() for document in inputs] == before
    assert all(node.embedding is None for node in nodes)


@every_parser
def test_every_kind_of_input(case: Case) -> None:
    text = PROSE * 2
    expected = [node.text for node in parse(case, [Document(text=text)])]
    inputs = {
        ImageNode: ImageDocument(text=text, image="aGVsbG8=", id_="image"),
        TextNode: TextNode(text=text),
        IndexNode: IndexNode(text=text, index_id="table"),
    }
    for kind, node in inputs.items():
        nodes = parse(case, [node])
        assert [made.text for made in nodes] == expected
        assert {type(made) for made in nodes} == {kind}
    assert parse(case, [inputs[ImageNode]])[0].image == "aGVsbG8="
    assert parse(case, [inputs[IndexNode]])[0].index_id == "table"
    multimodal = parse(case, [Node(text_resource=MediaResource(text=text))])
    assert [made.text for made in multimodal] == expected
    assert {type(made) for made in multimodal} == {TextNode}


@every_parser
def test_blank_documents_give_nothing_and_disturb_nothing(case: Case) -> None:
    blank = [Document(id_="a", text=""), Document(id_="b", text=" \n\t")]
    assert parse(case, []) == []
    assert parse(case, blank) == []
    assert essence(parse(case, [blank[0], *documents(), blank[1]])) == essence(parse(case, documents()))


# -- the framework ------------------------------------------------------------------------------------------------------


@every_parser
async def test_async_gives_what_sync_gives(case: Case) -> None:
    parser = case.make()
    expected = essence(parser.get_nodes_from_documents(documents()))
    assert essence(await parser.aget_nodes_from_documents(documents())) == expected
    assert essence(await parser.acall(documents())) == expected
    assert (
        essence(await IngestionPipeline(transformations=[parser], disable_cache=True).arun(documents=documents()))
        == expected
    )


@every_parser
def test_a_pickle_parses_the_same_and_leaves_the_original_usable(case: Case) -> None:
    parser = case.make()
    expected = essence(parser.get_nodes_from_documents(documents()))
    restored = pickle.loads(pickle.dumps(parser))
    assert essence(restored.get_nodes_from_documents(documents())) == expected
    assert essence(parser.get_nodes_from_documents(documents())) == expected
    assert restored.to_dict() == parser.to_dict()
    assert essence(copy.deepcopy(parser).get_nodes_from_documents(documents())) == expected


@every_parser
def test_a_dump_revives_the_parser(case: Case) -> None:
    parser = case.make()
    dump = json.loads(json.dumps(parser.to_dict()))
    revived = type(parser).from_dict(dump, **case.revive())
    assert revived.to_dict() == parser.to_dict()
    assert essence(revived.get_nodes_from_documents(documents())) == essence(parse(case, documents()))


@every_parser
def test_every_option_changes_the_hash_of_the_ingestion_cache(case: Case) -> None:
    def key(parser: NodeParser) -> str:
        return get_transformation_hash(documents(), parser)

    assert key(case.make()) == key(case.make())
    hashes = {name: key(case.make(**{name: value})) for name, value in case.other_options.items()}
    assert len({*hashes.values(), key(case.make())}) == len(hashes) + 1


def test_every_option_of_every_parser_is_tried() -> None:
    tried: dict[type, set[str]] = {}
    for case in CASES:
        tried.setdefault(type(case.make()), set()).update(case.other_options)
    for parser, names in tried.items():
        assert names >= set(parser.model_fields) - {"callback_manager", "user_dictionary"}, parser


@every_parser
def test_options_are_frozen_and_unknown_ones_are_refused(case: Case) -> None:
    parser = case.make()
    for name in ("unit", "tokenizer", "protected_terms"):
        with pytest.raises(ValueError, match="frozen"):
            setattr(parser, name, getattr(parser, name))
    with pytest.raises(ValueError, match="chunk_sise"):
        case.make(chunk_sise=3)


@every_parser
def test_class_names_are_our_own(case: Case) -> None:
    assert type(case.make()).class_name().startswith("ChunkingPlus")


@every_parser
def test_callbacks_see_the_parsing(case: Case) -> None:
    seen = LlamaDebugHandler(print_trace_on_end=False)
    parser = case.make(callback_manager=CallbackManager([seen]))
    nodes = parser.get_nodes_from_documents(documents())
    (parsing,) = seen.get_event_pairs(CBEventType.NODE_PARSING)
    (chunking,) = seen.get_event_pairs(CBEventType.CHUNKING)
    assert parsing[1].payload["nodes"] == nodes
    assert chunking[1].payload["chunks"] == [node.text for node in nodes]


@every_parser
def test_progress_is_shown_on_demand_only(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.make().get_nodes_from_documents(documents())
    quiet = capsys.readouterr()
    case.make().get_nodes_from_documents(documents(), show_progress=True)
    shown = capsys.readouterr()
    assert quiet.out == quiet.err == shown.out == ""
    assert "Parsing nodes" in shown.err


@every_parser
def test_documents_of_equal_text_keep_their_own_ids_in_a_pipeline(case: Case) -> None:
    nodes = IngestionPipeline(transformations=[case.make()], disable_cache=True).run(documents=documents())
    assert {node.ref_doc_id for node in nodes} == {"one", "two", "three"}


def test_two_workers_give_what_one_gives_offline() -> None:
    """All parsers in one pool: spawning costs seconds. A worker that cannot rebuild its parser would hang."""
    for case in CASES:
        pipeline = IngestionPipeline(transformations=[case.make()], disable_cache=True)
        alone = pipeline.run(documents=documents())
        together = pipeline.run(documents=documents(), num_workers=2)
        assert Counter(node.to_json() for node in together) == Counter(node.to_json() for node in alone), case.name
        assert essence(pipeline.run(documents=documents())) == essence(alone)


def test_what_cannot_be_pickled_is_an_error_and_no_hang() -> None:
    parser = CASES[0].make(tokenizer=lambda text: text.split())
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(parser)
    with pytest.raises(Exception, match="lambda"):
        IngestionPipeline(transformations=[parser], disable_cache=True).run(documents=documents(), num_workers=2)
    assert parser.get_nodes_from_documents(documents())
