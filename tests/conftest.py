"""Shared fixtures: offline everywhere, real documents, a counting embedder."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
os.environ["COLUMNS"] = "200"  # rich reads it once, when the command line is first imported

from llama_index.core import Document

from llama_index_chunking_plus.samples import sample_paths


@pytest.fixture(scope="session")
def sample_documents() -> list[Document]:
    """The bundled documents, ids and metadata as the CLI gives them."""
    return [
        Document(id_=path.name, text=path.read_text(encoding="utf-8"), metadata={"file_name": path.name})
        for path in sample_paths()
    ]
