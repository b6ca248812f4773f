"""The example in every docstring runs."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import llama_index_chunking_plus

MODULES = [
    each.name for each in pkgutil.walk_packages(llama_index_chunking_plus.__path__, "llama_index_chunking_plus.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_every_public_class_has_an_example() -> None:
    package = llama_index_chunking_plus
    for name in package.__all__:
        value = getattr(package, name)
        if not (isinstance(value, type) and issubclass(value, (Exception, Warning))) and name not in {
            "DeleteReport",
            "ParentLookup",
            "SelectionResult",
            "SpanNodeParser",
            "SyncReport",
            "async_delete_document",
            "async_persist_selection",
            "async_sync_documents",
            "load_selection",
            "persist_selection",
        }:
            assert ">>>" in value.__doc__, name
