"""Parsers in two Ray workers, and into served Chroma: the nodes and hits of one process. `make test-distribution`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
pytest.importorskip("llama_index.ingestion.ray", reason="needs the extra ray: make test-distribution")
pytest.importorskip("llama_index.vector_stores.chroma")
EXAMPLE = Path(__file__).parent.parent / "examples" / "ray_ingestion.py"
sys.path.append(str(EXAMPLE.parent))

import ray  # noqa: E402  not everywhere
from embedders import FaultyEmbedding, LetterEmbedding  # noqa: E402
from llama_index.core import Document  # noqa: E402
from llama_index.core.ingestion import IngestionPipeline  # noqa: E402
from llama_index.core.schema import BaseNode, TransformComponent  # noqa: E402
from llama_index.core.storage.docstore import SimpleDocumentStore  # noqa: E402
from llama_index.core.vector_stores import SimpleVectorStore  # noqa: E402
from llama_index.core.vector_stores.types import VectorStoreQuery  # noqa: E402
from llama_index.ingestion.ray import RayIngestionPipeline, RayTransformComponent  # noqa: E402
from llama_index.vector_stores.chroma import ChromaVectorStore  # noqa: E402
from parsers import CASES, Case, multi_granularity, sliding  # noqa: E402
from ray_ingestion import InOrder, OnRay, start_ray  # noqa: E402  the example is what is tested
from test_contract import documents  # noqa: E402
from test_life_cycle import server  # noqa: E402, F401  a fixture
from texts import HOSTILE_UNITS  # noqa: E402
from worlds import closing_client  # noqa: E402

from llama_index_chunking_plus import (  # noqa: E402
    ContextHeaderTransform,
    HybridNodeParser,
    JiebaKeywordTransform,
    OfflineEmbedding,
    ParentVectorFusion,
    SyncReport,
    async_sync_documents,
    sync_documents,
)
from llama_index_chunking_plus.samples import questions  # noqa: E402

pytestmark = [
    pytest.mark.distribution,
    pytest.mark.filterwarnings("default"),  # what Ray warns of is its own
    pytest.mark.timeout(600),  # each pair of workers imports LlamaIndex: seconds, on a busy machine half a minute
]

every_parser = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    """Ray on this machine with two processors; its workers find the modules of these tests."""
    folders = os.pathsep.join([str(Path(__file__).parent), str(EXAMPLE.parent)])
    start_ray(runtime_env={"env_vars": {"PYTHONPATH": folders, "RAY_USAGE_STATS_ENABLED": "0"}})
    yield
    ray.shutdown()


def on_ray(*transformations: TransformComponent) -> RayTransformComponent:
    """Transformations as `RayIngestionPipeline` wants them, in two workers.

    They travel whole, inside `InOrder`: option by option, LlamaIndex's splitters lose the tokenizer that a pickle of ours
    keeps, and want to download it.
    """
    workers = {"compute": ray.data.ActorPoolStrategy(size=2), "num_cpus": 0, "batch_size": None}
    return RayTransformComponent(InOrder, transformations=list(transformations), map_batches_kwargs=workers)


def dumps(nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
    """All that nodes are but their vectors: ids, texts, offsets, metadata, relationships, templates."""
    return [{**json.loads(node.to_json()), "embedding": None} for node in nodes]


def assert_same(nodes: Sequence[BaseNode], expected: Sequence[BaseNode]) -> None:
    """Equal, in the same order, with the same vectors."""
    assert expected
    assert [type(node) for node in nodes] == [type(node) for node in expected]
    assert dumps(nodes) == dumps(expected)
    assert [node.metadata for node in nodes] == [node.metadata for node in expected]
    assert [node.embedding is None for node in nodes] == [node.embedding is None for node in expected]
    ours, theirs = ([node.embedding or [] for node in each] for each in (nodes, expected))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)  # rounding depends on which texts come together


class WorkerMark(TransformComponent):
    """Writes down in which process it ran."""

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        for node in nodes:
            node.metadata["process"] = os.getpid()
        return nodes


# --- nodes ---


class EveryParser(TransformComponent):
    """All parsers on the same documents; a node says which one made it."""

    parsers: dict[str, TransformComponent]

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        made = []
        for name, parser in self.parsers.items():
            for node in parser(nodes):
                node.metadata["case"] = name
                made.append(node)
        return made


@pytest.fixture(scope="module")
def made_on_ray() -> dict[str, list[BaseNode]]:
    """The nodes of each parser, from one pair of workers: starting a pair takes seconds."""
    parsers = EveryParser(parsers={case.name: case.make() for case in CASES})
    nodes = RayIngestionPipeline(transformations=[on_ray(parsers)]).run(documents=documents())
    made: dict[str, list[BaseNode]] = {}
    for node in nodes:
        made.setdefault(node.metadata.pop("case"), []).append(node)
    return made


@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
@every_parser
def test_two_ray_workers_make_the_nodes_of_one_process(case: Case, made_on_ray) -> None:
    parser = case.make()
    alone = parser.get_nodes_from_documents(documents())
    assert_same(IngestionPipeline(transformations=[parser], disable_cache=True).run(documents=documents()), alone)
    assert_same(made_on_ray[case.name], alone)


def test_the_work_is_done_in_other_processes() -> None:
    marked = OnRay(transformations=[sliding(), WorkerMark()])(documents())
    assert os.getpid() not in {node.metadata["process"] for node in marked}
    assert len({node.ref_doc_id for node in marked}) == len(documents())


def test_vectors_are_those_of_one_process(sample_documents) -> None:
    parts = [HybridNodeParser.from_defaults(OfflineEmbedding(), max_chunk_size=410), OfflineEmbedding()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=sample_documents)
    assert all(node.embedding for node in alone)
    assert_same(OnRay(transformations=parts)(sample_documents), alone)


def test_options_may_travel_one_by_one_through_a_stage_each(sample_documents) -> None:
    parts = [HybridNodeParser.from_defaults(LetterEmbedding(), max_chunk_size=410), LetterEmbedding()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=sample_documents)
    worker = {"batch_size": None, "compute": ray.data.ActorPoolStrategy(size=1)}  # a pool each
    stages = [
        RayTransformComponent(type(part), transform_kwargs=dict(part), map_batches_kwargs=worker) for part in parts
    ]
    assert_same(RayIngestionPipeline(transformations=stages).run(documents=sample_documents), alone)


def test_transformations_that_look_at_other_chunks_of_a_document_see_them_all(sample_documents) -> None:
    model = LetterEmbedding()
    parts = [multi_granularity(), JiebaKeywordTransform(), ContextHeaderTransform(), model, ParentVectorFusion()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=sample_documents[:4])
    assert any("vector_fusion" in node.metadata for node in alone)
    assert_same(OnRay(transformations=parts)(sample_documents[:4]), alone)


def test_blank_and_hostile_documents() -> None:
    texts = ["", "　\n", "一。" * 80, "".join(HOSTILE_UNITS) * 5, " ", "二！"]
    inputs = [Document(id_=f"d{i}", text=text) for i, text in enumerate(texts)]
    parts = [sliding(), LetterEmbedding()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=inputs)
    assert_same(OnRay(transformations=parts)(inputs), alone)


# --- hits ---


@pytest.fixture
def make_store(request, tmp_path) -> Callable[[bool], ChromaVectorStore]:
    """An empty collection of a Chroma in this process, or of one that is served."""

    def make(is_served: bool) -> ChromaVectorStore:
        place = request.getfixturevalue("server") if is_served else str(tmp_path / "chroma")
        client = closing_client(request.node, place)
        return ChromaVectorStore(
            chroma_collection=client.create_collection(f"rows{int(is_served)}-{os.urandom(4).hex()}")
        )

    return make


def hits(store: ChromaVectorStore, vectors: Sequence[list[float]]) -> list[list[tuple[str, str, str, int, float]]]:
    results = [store.query(VectorStoreQuery(query_embedding=each, similarity_top_k=5)) for each in vectors]
    return [
        [
            (node.node_id, node.ref_doc_id, node.text, node.start_char_idx, pytest.approx(score, abs=1e-5))
            for node, score in zip(each.nodes, each.similarities, strict=True)
        ]
        for each in results
    ]


def test_ray_into_served_chroma_finds_what_one_process_finds(sample_documents, make_store, tmp_path) -> None:
    model = OfflineEmbedding()
    parts = [HybridNodeParser.from_defaults(model, max_chunk_size=410), model]
    asked = [model.get_query_embedding(each.question) for each in questions()]
    local, served, plain = make_store(False), make_store(True), make_store(True)

    def sync(transformations: list[TransformComponent], store: ChromaVectorStore, name: str) -> SyncReport:
        pipeline = IngestionPipeline(transformations=transformations, vector_store=store)
        return sync_documents(sample_documents, pipeline, persist_dir=tmp_path / name)

    alone, together = sync(parts, local, "alone"), sync([OnRay(transformations=parts)], served, "ray")
    assert together == alone
    expected = hits(local, asked)
    assert {len(each) for each in expected} == {5}
    assert hits(served, asked) == expected
    steps = [on_ray(*parts)]
    RayIngestionPipeline(transformations=steps, vector_store=plain).run(documents=sample_documents)
    assert hits(plain, asked) == expected


# --- the docstore, and the way round ---


@pytest.mark.xfail(
    raises=TypeError, strict=False, reason="llama-index-ingestion-ray 0.3.0 leaves out effective_strategy"
)
def test_a_docstore_in_the_ray_pipeline_itself() -> None:
    stores = {"docstore": SimpleDocumentStore(), "vector_store": SimpleVectorStore()}
    steps = [on_ray(sliding(), LetterEmbedding())]
    RayIngestionPipeline(transformations=steps, **stores).run(documents=documents())


class World:
    """A store in memory and what is recorded of it."""

    def __init__(self, wrap: Callable[..., OnRay] | None, **options: Any) -> None:
        self.wrap, self.options = wrap, options
        self.store, self.docstore = SimpleVectorStore(), SimpleDocumentStore()

    def pipeline(self, **parser: Any) -> IngestionPipeline:
        parts: list[TransformComponent] = [sliding(**parser), FaultyEmbedding(**self.options)]
        transformations = [self.wrap(transformations=parts)] if self.wrap else parts
        return IngestionPipeline(transformations=transformations, vector_store=self.store, docstore=self.docstore)

    def sync(self, inputs: Sequence[Document], **parser: Any) -> SyncReport:
        return sync_documents(inputs, self.pipeline(**parser), delete_missing=True)

    def rows(self) -> dict[str, Any]:
        return {**self.store.data.embedding_dict}


def numbered(n: int, changed: int | None = None) -> list[Document]:
    return [Document(id_=f"d{i}", text=f"第{i}条。" * 40 + "改了。" * (i == changed)) for i in range(n)]


def test_synced_on_ray_every_step_leaves_what_one_process_leaves() -> None:
    together, alone = World(OnRay), World(None)
    steps = [(numbered(4), {}), (numbered(4), {}), (numbered(3, 1), {}), (numbered(3, 1), {"chunk_size": 60})]
    reports = [(together.sync(inputs, **parser), alone.sync(inputs, **parser)) for inputs, parser in steps]
    assert all(ours == theirs for ours, theirs in reports)
    first, again, changed, other_size = (report for report, _ in reports)
    assert len(first.added) == 4
    assert not again.changed
    assert (changed.updated, changed.deleted, changed.unchanged) == (("d1",), ("d3",), ("d0", "d2"))
    assert len(other_size.updated) == 3
    assert together.rows() == alone.rows()
    assert together.docstore.docs.keys() == alone.docstore.docs.keys() == {"d0", "d1", "d2"}


async def test_synced_on_ray_in_an_event_loop() -> None:
    together, alone = World(OnRay), World(None)
    report = await async_sync_documents(numbered(3), together.pipeline())
    assert report == alone.sync(numbered(3))
    assert together.rows() == alone.rows()


def test_a_document_that_fails_in_a_worker_ends_the_sync_and_the_next_one_goes_on() -> None:
    world, expected = World(OnRay, word="改了"), World(None)
    with pytest.raises(ray.exceptions.RayError, match="the model did not answer"):
        world.sync(numbered(2, changed=1))
    assert set(world.docstore.docs) == {"d0"}
    report = world.sync(numbered(2))
    assert (report.unchanged, report.changed) == (("d0",), ("d1",))
    expected.sync(numbered(2))
    assert world.rows() == expected.rows()


def test_how_many_workers_there_are_makes_nothing_again() -> None:
    world = World(OnRay)
    world.sync(numbered(2))
    world.wrap = partial(OnRay, num_workers=1)
    assert not world.sync(numbered(2)).changed


# --- the example ---


def test_the_example_runs_and_repeats(tmp_path) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(EXAMPLE), "--store", str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, again, *found = done.stdout.splitlines()
    assert first.startswith("11 documents changed, ")
    assert again == "0 documents changed, 0 rows written"
    assert found[0].startswith("leave_policy")
