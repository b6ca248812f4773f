"""Parsing and embedding by two workers, of Ray and of IngestionPipeline, against one process; the nodes are the same.

Ray is started before the time is taken; that its workers start, import and load the model with every run is part of it,
as it is for the processes of IngestionPipeline. The one process has the model loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.append(str(EXAMPLES))

import ray  # noqa: E402  first, so that where it is missing the reason is seen
from llama_index.core import Document  # noqa: E402
from llama_index.core.ingestion import IngestionPipeline  # noqa: E402
from llama_index.core.schema import BaseNode  # noqa: E402
from ray_ingestion import OnRay, start_ray  # noqa: E402
from timing import seconds  # noqa: E402

from llama_index_chunking_plus import OfflineEmbedding, SlidingWindowNodeParser  # noqa: E402
from llama_index_chunking_plus.samples import sample_paths  # noqa: E402

COPIES = {"small": 2, "large": 8}  # of the bundled documents


def documents(copies: int) -> list[Document]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sample_paths()}
    return [Document(id_=f"{i}/{name}", text=f"第{i}份。{text}") for i in range(copies) for name, text in texts.items()]


def essence(nodes: Sequence[BaseNode]) -> dict[str, dict[str, Any]]:
    """All that the nodes are but their vectors."""
    return {node.node_id: {**node.to_dict(), "embedding": None} for node in nodes}


def is_near(nodes: Sequence[BaseNode], others: Sequence[BaseNode]) -> bool:
    """Whether the vectors are equal to five decimals: rounding depends on which texts come together."""
    vectors = {node.node_id: node.embedding for node in others}
    pairs = [(node.embedding, vectors[node.node_id]) for node in nodes]
    return all(abs(a - b) < 1e-5 for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))  # type: ignore[arg-type]


def speed() -> dict[str, float]:
    start_ray(runtime_env={"env_vars": {"PYTHONPATH": str(EXAMPLES)}})
    try:
        return {figure: value for size, copies in COPIES.items() for figure, value in figures(size, copies).items()}
    finally:
        ray.shutdown()


def figures(size: str, copies: int) -> dict[str, float]:
    """The three ways in turns, best of two."""
    given, model = documents(copies), OfflineEmbedding()
    model.get_text_embedding("warm")
    parts = [SlidingWindowNodeParser(chunk_size=256, chunk_overlap=32), model]
    pipeline, on_ray = IngestionPipeline(transformations=parts, disable_cache=True), OnRay(transformations=parts)
    made: dict[str, Sequence[BaseNode]] = {}
    ways = {
        "alone": lambda: made.update(alone=pipeline.run(documents=given)),
        "two": lambda: made.update(two=pipeline.run(documents=given, num_workers=2)),
        "ray": lambda: made.update(ray=on_ray(given)),
    }
    alone, two, with_ray = map(min, zip(*([seconds(way) for way in ways.values()] for _ in range(2)), strict=True))
    same = [
        essence(made[each]) == essence(made["alone"]) and is_near(made[each], made["alone"]) for each in ("two", "ray")
    ]
    thousands = sum(len(document.text) for document in given) / 1000
    return {
        f"{size}: thousand characters": thousands,
        f"{size}: nodes equal": float(all(same)),
        f"{size}: thousand characters a second, one process": thousands / alone,
        f"{size}: the same, IngestionPipeline(num_workers=2)": thousands / two,
        f"{size}: the same, Ray with 2 workers": thousands / with_ray,
    }
