"""What a user may give as strategies, and what grids and presets make."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
from embedders import LetterEmbedding
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.node_parser import NodeParser, SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_chunking_plus import SemanticNodeParser, SlidingWindowNodeParser
from llama_index_chunking_plus.errors import OptionError
from llama_index_chunking_plus.evaluation.strategies import Strategy, as_strategies, five_ways, grid, own_ways

TEXT = "一楼是大厅，欢迎光临。二楼是展厅，展出陶瓷。三楼是餐厅，提供午餐。" * 30


def ready_retriever() -> Any:
    return VectorStoreIndex.from_documents(
        [Document(text="一。")], embed_model=MockEmbedding(embed_dim=2)
    ).as_retriever()


def test_whatever_is_named_becomes_a_strategy_of_its_kind() -> None:
    parser, retriever = SentenceSplitter(), ready_retriever()
    given = as_strategies(
        {
            "parser": parser,
            "retriever": retriever,
            "makes a parser": lambda _: parser,
            "makes a retriever": lambda _, __: retriever,
            "renamed": Strategy("old", parser, expansion="windows"),
        }
    )
    assert [each.name for each in given] == [
        "parser", "retriever", "makes a parser", "makes a retriever", "renamed",
    ]  # fmt: skip
    assert [each.kind for each in given] == ["parser", "retriever", "parser", "retriever", "parser"]
    assert given[2].make_parser(LetterEmbedding()) is parser
    assert given[3].make_retriever([], LetterEmbedding()) is retriever
    assert given[4].expansion == "windows"


@pytest.mark.parametrize(
    "given",
    [
        {"a": 3},
        {"a": "SentenceSplitter"},
        {"a": lambda: None},
        {"a": lambda _, __, ___: None},
        {" ": SentenceSplitter()},
        SentenceSplitter(),
        "sentence",
        [SentenceSplitter()],
        7,
    ],
)
def test_what_is_no_strategy_is_refused(given: Any) -> None:
    with pytest.raises(OptionError):
        as_strategies(given)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"parser": None}, "needs a parser or a retriever"),
        (
            {"name": "半\ud83d", "parser": SentenceSplitter()},
            r"name='半\\ud83d' of a strategy holds half of a character",
        ),
        ({"parser": SentenceSplitter(), "retriever": lambda _, __: None}, "not both"),
        ({"parser": SentenceSplitter(), "expansion": "parent"}, "none of none, parents"),
        ({"retriever": lambda _, __: None, "expansion": "parents"}, "leave expansion out"),
        ({"parser": SentenceSplitter(), "hits_per_result": 0}, "whole number from 1"),
    ],
)
def test_a_wrong_option_names_value_and_limit(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Strategy(**{"name": "mine", **options})


def test_a_function_that_makes_something_else_is_named() -> None:
    with pytest.raises(OptionError, match="'mine' gave 3, which is no node parser"):
        Strategy("mine", parser=lambda _: 3).make_parser(LetterEmbedding())  # type: ignore[arg-type,return-value]
    with pytest.raises(OptionError, match="which is no retriever"):
        Strategy("mine", retriever=lambda _, __: 3).make_retriever([], LetterEmbedding())  # type: ignore[arg-type,return-value]


def test_the_default_grid_has_three_sizes_and_two_shares_of_overlap() -> None:
    made = {each.name: each.parser for each in grid(SentenceSplitter)}
    assert {name: (parser.chunk_size, parser.chunk_overlap) for name, parser in made.items()} == {  # type: ignore[union-attr]
        "SentenceSplitter 256/26": (256, 26),
        "SentenceSplitter 256/51": (256, 51),
        "SentenceSplitter 384/38": (384, 38),
        "SentenceSplitter 384/77": (384, 77),
        "SentenceSplitter 512/51": (512, 51),
        "SentenceSplitter 512/102": (512, 102),
    }


def test_a_grid_takes_any_option_and_any_maker_of_parsers() -> None:
    in_characters = partial(SlidingWindowNodeParser, unit="chars")
    assert [each.name for each in grid(in_characters, name="chars", chunk_size=[40, 120], chunk_overlap=[0])] == [
        "chars 40/0", "chars 120/0",
    ]  # fmt: skip
    by_meaning = grid(partial(SemanticNodeParser, embed_model=LetterEmbedding()), target_size=[100, 200], max_size=320)
    assert [each.name for each in by_meaning] == [
        "Semantic target_size=100 max_size=320", "Semantic target_size=200 max_size=320",
    ]  # fmt: skip


def test_a_grid_of_a_parser_keeps_its_other_options_and_functions() -> None:
    def bang(text: str) -> list[str]:
        return text.split("！")

    original = SentenceSplitter(chunk_size=100, chunk_overlap=3, chunking_tokenizer_fn=bang)
    (copied,) = grid(original, chunk_size=50)
    assert isinstance(copied.parser, SentenceSplitter)
    assert (copied.parser.chunk_size, copied.parser.chunk_overlap) == (50, 3)
    assert copied.parser._chunking_tokenizer_fn is bang
    assert original.chunk_size == 100


@pytest.mark.parametrize(
    "parser, options, said",
    [
        (SlidingWindowNodeParser, {"chunk_size": [64], "chunk_overlap": [64]}, "chunk_size=64, chunk_overlap=64"),
        (SlidingWindowNodeParser, {"chunk_sizes": [64]}, "chunk_sizes"),
        (SlidingWindowNodeParser(), {"chunk_sizes": [64]}, "has no option chunk_sizes"),
        (SlidingWindowNodeParser, {"chunk_size": []}, "no value"),
        (SlidingWindowNodeParser, {"chunk_size": range(10, 2000)}, "above 1000"),
        (lambda chunk_size: chunk_size, {"chunk_size": [5]}, "no node parser"),
        (5, {}, "parser=5 of the grid is neither a node parser nor"),
        (SlidingWindowNodeParser, {"name": " "}, "name=' ' of the grid"),
    ],
)
def test_a_grid_that_cannot_be_made_says_which_combination(parser: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        grid(parser, **options)


@pytest.mark.parametrize("strategy", [*five_ways(), *own_ways()], ids=lambda each: each.name)
def test_every_preset_makes_chunks_and_says_what_expands_them(strategy: Strategy) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = strategy.make_parser(LetterEmbedding())
        nodes = parser.get_nodes_from_documents([Document(id_="a", text=TEXT)])
    assert isinstance(parser, NodeParser)
    assert nodes
    assert len(strategy.make_postprocessors(SimpleDocumentStore())) == (strategy.expansion != "none")


def test_the_five_ways_are_those_of_the_literature() -> None:
    assert [each.name for each in five_ways()] == ["token", "sentence", "sentence window", "semantic", "hybrid"]
    with pytest.raises(OptionError, match="from 64"):
        five_ways(chunk_size=10)
