"""Wrong options, models that fail, stores that fail, many callers at once: a clear error or the fallback, nothing lost.

Hostile texts stand in `texts.py`, and `test_contract.py` tries every parser on each.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import math
import multiprocessing
import subprocess
import sys
import typing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from embedders import LetterEmbedding, letter_vector
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.bridge.pydantic import PrivateAttr, ValidationError
from llama_index.core.callbacks import CallbackManager
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import MetadataMode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from parsers import CASES, Case
from texts import PROSE

import llama_index_chunking_plus as package
from llama_index_chunking_plus import (
    ChunkingEvaluator,
    EvaluationQuestion,
    EvaluationSet,
    HybridNodeParser,
    SemanticNodeParser,
    SlidingWindowNodeParser,
    SourceSliceLookup,
    Span,
    async_delete_document,
    async_sync_documents,
    completeness_probes,
    delete_document,
    load_docstore,
    sync_documents,
)
from llama_index_chunking_plus.core.options import is_taken_for
from llama_index_chunking_plus.errors import ChunkingPlusError, ChunkingPlusWarning, EmbeddingError, OptionError

# ------------------------------------------------------------------------------------------------ options

HUGE = 10**18
PARSER = SlidingWindowNodeParser()
DOCUMENTS = [Document(id_="a", text="一楼是大厅。二楼是展厅。")]
QUESTION = EvaluationQuestion("q", "展厅在几楼？", "a", gold=(Span(6, 12),))
DOCSTORE = SimpleDocumentStore()
DOCSTORE.add_documents(DOCUMENTS)
INDEX = VectorStoreIndex([], embed_model=LetterEmbedding())


class Thing:
    """What no option takes."""

    def __repr__(self) -> str:
        return "Thing()"


WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, HUGE, 2.5, math.nan, math.inf, "", "nonsense", b"bytes", [], [3], (None,), {}, {"a": None},
    {3: 4}, Thing(),
)  # fmt: skip

# What each public class and function needs to be made; the options that are tried are read off itself.
MADE_WITH: dict[str, dict[str, Any]] = {
    "ChineseSentenceWindowNodeParser": {},
    "HybridNodeParser": {"primary_parser": PARSER, "secondary_parser": PARSER},
    "MultiGranularityNodeParser": {},
    "RoutingNodeParser": {"default": PARSER},
    "SemanticNodeParser": {"embed_model": LetterEmbedding()},
    "SlidingWindowNodeParser": {},
    "SmallToBigNodeParser": {},
    "StructuredMarkdownNodeParser": {},
    "ContextHeaderTransform": {},
    "DocumentMetadataTransform": {},
    "JiebaKeywordTransform": {},
    "PageJoiner": {},
    "ParentVectorFusion": {},
    "OfflineEmbedding": {},
    "Granularity": {"name": "fine", "min_size": 100, "max_size": 300},
    "GranularityRouter": {},
    "QueryRule": {"pattern": "几天", "level": "fine", "weight": 3, "reason": "asks for a number"},
    "FusionWeights": {},
    "LexicalIndex": {},
    "SiblingLookup": {"vector_store": SimpleVectorStore(), "docstore": DOCSTORE},
    "SourceSliceLookup": {"docstore": DOCSTORE},
    "StoredParentLookup": {"store": DOCSTORE},
    "CoarseToFineRetriever": {"index": INDEX},
    "FusedGranularityRetriever": {"index": INDEX},
    "GranularityRouterRetriever": {"retrievers": {"fine": INDEX.as_retriever()}},
    "SmallToBigRetriever": {"retriever": INDEX.as_retriever(), "lookup": SourceSliceLookup(DOCSTORE)},
    "GranularityFusionPostprocessor": {},
    "LatestVersionPostprocessor": {},
    "ParentExpansionPostprocessor": {"lookup": SourceSliceLookup(DOCSTORE)},
    "SentenceWindowPostprocessor": {},
    "SpanDedupPostprocessor": {},
    "ChunkingEvaluator": {"documents": DOCUMENTS, "questions": [QUESTION], "embed_model": LetterEmbedding()},
    "EvaluationQuestion": {"question_id": "q", "text": "？", "document_id": "a", "gold": (Span(0, 3),)},
    "EvaluationSet": {"questions": (QUESTION,)},
    "Quote": {"text": "二楼"},
    "Strategy": {"name": "sliding", "parser": PARSER},
    "StrategySelector": {},
    "completeness_probes": {"documents": DOCUMENTS},
    "completeness_score": {"answer": "答", "expected_steps": ("答",)},
    "latest_version_filters": {"documents": [Document(id_="a", text="", metadata={"title": "手册", "version": "2"})]},
    "load_docstore": {"persist_dir": "nowhere"},
    "load_questions": {"path": __file__},
    "load_selection": {"folder": "nowhere", "embed_model": LetterEmbedding()},
    "probe_completeness": {"chunks": {"a": [(0, 6)]}, "probes": completeness_probes(DOCUMENTS)},
    "sync_documents": {"documents": [], "pipeline": IngestionPipeline(transformations=[], docstore=DOCSTORE)},
    "delete_document": {"doc_id": "nobody", "pipeline": IngestionPipeline(transformations=[], docstore=DOCSTORE)},
}
TRIED_ELSEWHERE = {
    *("ChineseSentenceTokenizer", "chinese_sentence_tokenizer"),  # test_sentences.py
    *("async_delete_document", "async_sync_documents"),  # their plans are those of the sync forms
    *("persist_selection", "async_persist_selection"),  # test_selector.py
    *("DeleteReport", "EvaluationReport", "GranularityDecision", "SelectionResult"),  # results, made here alone
    *("Span", "SyncReport"),
    *("ParentLookup", "SpanNodeParser"),  # abstract
}
OF_LLAMA_INDEX = {("OfflineEmbedding", "embeddings_cache"), ("OfflineEmbedding", "rate_limiter")}
OF_LLAMA_INDEX |= {("OfflineEmbedding", "callback_manager"), ("OfflineEmbedding", "num_workers")}


def options_of(name: str) -> list[str]:
    made = getattr(package, name)
    return list(getattr(made, "model_fields", None) or inspect.signature(made).parameters)


EVERY_OPTION = [
    (name, option) for name in MADE_WITH for option in options_of(name) if (name, option) not in OF_LLAMA_INDEX
]
every_option = pytest.mark.parametrize("name, option", EVERY_OPTION, ids=lambda each: each)


def outcome(name: str, option: str, value: Any) -> BaseException | None:
    """What it is told; None if it takes the value."""
    try:
        getattr(package, name)(**{**MADE_WITH[name], option: value})
    except Exception as error:  # noqa: BLE001  the kind of it is what is tried
        return error
    return None


@every_option
@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_a_wrong_value_is_refused_by_name_and_value(name: str, option: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for value in WRONG_VALUES:
        error = outcome(name, option, value)
        if error is None:
            continue
        assert isinstance(error, (ChunkingPlusError, ValidationError)), f"{value!r}: {error!r}"
        assert isinstance(error, (ValueError, RuntimeError))
        assert len(str(error)) > 20


@every_option
@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_every_option_refuses_what_nothing_takes(name: str, option: str, tmp_path: Path, monkeypatch: Any) -> None:
    """An option that takes anything would fail later, far from where it was given."""
    monkeypatch.chdir(tmp_path)
    refused = outcome(name, option, Thing())
    assert refused is not None
    assert "Thing" in str(refused)
    assert option in str(refused) or name in {"EvaluationSet", "Quote", "load_docstore"}


@pytest.mark.parametrize(
    "name, option", [each for each in EVERY_OPTION if hasattr(getattr(package, each[0]), "model_fields")]
)
def test_a_switch_is_no_number_and_bytes_are_no_text(name: str, option: str) -> None:
    annotation = getattr(package, name).model_fields[option].annotation
    kinds = {annotation, *typing.get_args(annotation)}
    if not kinds & {int, float, str}:
        return
    wrong = True if kinds & {int, float} else b"bytes"
    assert is_taken_for(wrong, annotation)
    assert repr(wrong) in str(outcome(name, option, wrong))


@pytest.mark.parametrize(
    "name, options, reason",
    [
        ("SlidingWindowNodeParser", {"chunk_sise": 3}, "chunk_sise=3 is no option of SlidingWindowNodeParser; did you mean chunk_size? It has "),
        ("SlidingWindowNodeParser", {"qqq": 3}, "qqq=3 is no option of SlidingWindowNodeParser; it has include_metadata, "),
        ("SlidingWindowNodeParser", {"sentence_tokenizer": 5}, "sentence_tokenizer=5 is no ChineseSentenceTokenizer; pass such an object"),
        ("SlidingWindowNodeParser", {"protected_terms": "abc"}, "protected_terms='abc' is no list; pass a list"),
        ("SlidingWindowNodeParser", {"protected_terms": [3]}, "protected_terms.0=3 cannot be used: Input should be a valid string; see "),
        ("SlidingWindowNodeParser", {"unit": "words"}, "unit='words' cannot be used: Input should be 'tokens' or 'chars'; see "),
        ("StructuredMarkdownNodeParser", {"secondary_parser": 3}, "secondary_parser=3 is no SpanNodeParser; pass such an object"),
        ("SemanticNodeParser", {"embed_model": "bge"}, "embed_model='bge' is no embedding model; pass the model itself, such as OfflineEmbedding() or "),
        ("SemanticNodeParser", {"target_size": 5000}, "target_size=5000 is outside [1, max_size=1024]; choose one between, raise max_size, or "),
        ("SemanticNodeParser", {"target_size": 400, "min_size": 500}, "min_size=500 is outside [0, 400]; choose one between, raise target_size, or "),
        ("SemanticNodeParser", {"min_size": 2000}, "min_size=2000 is outside [0, 1024]; choose one between, raise max_size, or "),
        ("ParentVectorFusion", {"mediun": 0.1}, "mediun=0.1 is no option of ParentVectorFusion; did you mean medium? It has medium, fine, "),
        ("SpanDedupPostprocessor", {"qqq": 3}, "qqq=3 is no option of SpanDedupPostprocessor; it has callback_manager"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_told_with_what_to_pass(name: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        getattr(package, name)(**{**MADE_WITH[name], **options})
    (told,) = refused.value.errors()
    assert told["msg"].startswith(f"Value error, {reason}")
    assert ".".join(map(str, told["loc"])) in {"", reason.partition("=")[0]}


def test_all_wrong_options_are_told_at_once_and_so_is_a_missing_one() -> None:
    with pytest.raises(ValidationError) as refused:
        SemanticNodeParser(unit="words", chunk_sise=3, tokenizer="tiktoken:none")
    told = {each["loc"]: each["msg"] for each in refused.value.errors()}
    assert set(told) == {("unit",), ("chunk_sise",), ("tokenizer",), ("embed_model",)}
    assert "knows no encoding" in told["tokenizer",]
    assert told["embed_model",].endswith("embed_model is missing; SemanticNodeParser has no default for it")


def test_every_public_name_is_tried_here_or_said_to_be_tried_elsewhere() -> None:
    names = set(package.__all__) - {name for name in package.__all__ if name.endswith(("Error", "Warning"))}
    assert names == set(MADE_WITH) | TRIED_ELSEWHERE
    assert not set(MADE_WITH) & TRIED_ELSEWHERE


@pytest.mark.parametrize(
    "name", [name for name in MADE_WITH if hasattr(getattr(package, name), "get_nodes_from_documents")]
)
@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_the_largest_sizes_do_no_harm(name: str) -> None:
    parser_class = getattr(package, name)
    sizes = [option for option in parser_class.model_fields if option.endswith("_size") and option != "min_size"]
    parser = parser_class(**{**MADE_WITH[name], **({sizes[0]: HUGE} if sizes else {})})
    assert "".join(node.text for node in parser(DOCUMENTS)) == DOCUMENTS[0].text


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in {"sliding", "small to big", "sentence window"}], ids=str
)
def test_a_megabyte_in_one_line(case: Case) -> None:
    text = "甲乙丙丁戊己庚辛，" * 115_000
    nodes = case.make()([Document(text=text)])
    assert all(text[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)
    assert (nodes[0].start_char_idx, nodes[-1].end_char_idx) == (0, len(text))
    assert all(left.end_char_idx >= right.start_char_idx for left, right in pairwise(nodes))


def test_no_callback_manager_is_an_empty_one() -> None:
    postprocessor = package.SpanDedupPostprocessor(callback_manager=None)
    assert isinstance(postprocessor.callback_manager, CallbackManager)


# ------------------------------------------------------------------------------------------------ embedding models


def answer_nan(texts: list[str]) -> list[list[float]]:
    return [[math.nan] * 32 for _ in texts]


def answer_infinity(texts: list[str]) -> list[list[float]]:
    return [[math.inf] * 32 for _ in texts]


def answer_zeros(texts: list[str]) -> list[list[float]]:
    return [[0.0] * 32 for _ in texts]


def answer_other_dimension(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 7 for _ in texts]


def answer_one_too_few(texts: list[str]) -> list[list[float]]:
    return [letter_vector(text) for text in texts[1:]]


def answer_nothing(texts: list[str]) -> Any:  # noqa: ARG001
    return None


def time_out(texts: list[str]) -> Any:  # noqa: ARG001
    raise TimeoutError("the model did not answer")


FAULTS = [
    answer_nan,
    answer_infinity,
    answer_zeros,
    answer_other_dimension,
    answer_one_too_few,
    answer_nothing,
    time_out,
]
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
either_way = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class IllEmbedding(LetterEmbedding):
    """Ill for each batch that holds a given word."""

    _fault: Callable[[list[str]], Any] | None = PrivateAttr(default=None)
    _word: str = PrivateAttr(default="坏")

    @classmethod
    def class_name(cls) -> str:
        return "IllEmbedding"

    def fall_ill(self, fault: Callable[[list[str]], Any] | None, word: str = "坏") -> IllEmbedding:
        self._fault, self._word = fault, word
        return self

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        if self._fault is not None and any(self._word in text for text in texts):
            return self._fault(texts)
        return [letter_vector(text) for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._get_text_embeddings(texts)


TEXT = PROSE + "这里坏了。" + PROSE


def by_meaning(model: IllEmbedding) -> dict[str, Any]:
    return {
        "semantic": SemanticNodeParser(embed_model=model, max_size=90),
        "hybrid": HybridNodeParser.from_defaults(model, max_chunk_size=90),
        "structured": package.StructuredMarkdownNodeParser(
            chunk_size=90, secondary_parser=SemanticNodeParser(embed_model=model, max_size=60, unit="chars")
        ),
    }


def parsed(parser: Any, documents: list[Document], is_async: bool) -> list[Any]:
    return asyncio.run(parser.aget_nodes_from_documents(documents)) if is_async else parser(documents)


@pytest.mark.parametrize("name", ["semantic", "hybrid", "structured"])
@every_fault
@either_way
def test_one_bad_batch_costs_a_warning_and_no_text(name: str, fault: Callable[..., Any], is_async: bool) -> None:
    parser = by_meaning(IllEmbedding(embed_batch_size=2).fall_ill(fault))[name]
    with pytest.warns(ChunkingPlusWarning, match="cut by size instead of meaning") as caught:
        nodes = parsed(parser, [Document(id_="a", text=TEXT)], is_async)
    assert len(caught) == 1
    seen = {i for node in nodes for i in range(node.start_char_idx, node.end_char_idx)}
    assert not "".join(TEXT[i] for i in range(len(TEXT)) if i not in seen).strip()
    assert all(TEXT[node.start_char_idx : node.end_char_idx] == node.text for node in nodes)


@pytest.mark.parametrize("name", ["semantic", "hybrid", "structured"])
@pytest.mark.parametrize("fault", [time_out, answer_one_too_few, answer_nothing], ids=lambda fault: fault.__name__)
@either_way
def test_a_model_that_never_answers_is_an_error_with_the_reason(
    name: str, fault: Callable[..., Any], is_async: bool
) -> None:
    parser = by_meaning(IllEmbedding().fall_ill(fault, word=""))[name]
    with pytest.raises(EmbeddingError, match="failed on every batch; the first failure"):
        parsed(parser, [Document(id_="a", text=TEXT)], is_async)


@every_fault
@either_way
def test_the_evaluator_fails_the_strategy_and_says_why(fault: Callable[..., Any], is_async: bool) -> None:
    model = IllEmbedding().fall_ill(fault, word="展厅")
    evaluator = ChunkingEvaluator(DOCUMENTS, EvaluationSet((QUESTION,)), model)
    strategies = {"ill": SlidingWindowNodeParser(chunk_size=8, chunk_overlap=0, unit="chars")}
    report = asyncio.run(evaluator.aevaluate(strategies)) if is_async else evaluator.evaluate(strategies)
    (result,) = report.strategies
    assert result.status == "failed"
    assert result.reason.startswith("EmbeddingError: the embedding model")


# ------------------------------------------------------------------------------------------------ stores


def corpus(version: int = 1) -> list[Document]:
    return [Document(id_=f"d{i}", text=f"第{i}篇第{version}版。" * (i + 1)) for i in range(5)]


def pipeline(store: Any, model: Any = None) -> IngestionPipeline:
    parser = SlidingWindowNodeParser(chunk_size=8, chunk_overlap=0, unit="chars")
    return IngestionPipeline(transformations=[parser, model or IllEmbedding()], vector_store=store)


def synced(documents: Sequence[Document], store: Any, folder: Path, is_async: bool = False, **options: Any) -> Any:
    options = {"persist_dir": folder, "batch_size": 2, "delete_missing": True, **options}
    model = options.pop("model", None)
    if is_async:
        return asyncio.run(async_sync_documents(documents, pipeline(store, model), **options))
    return sync_documents(documents, pipeline(store, model), **options)


def deleted(document_id: str, store: Any, folder: Path, is_async: bool) -> Any:
    if is_async:
        return asyncio.run(async_delete_document(document_id, pipeline(store), persist_dir=folder))
    return delete_document(document_id, pipeline(store), persist_dir=folder)


def assert_holds(documents: Sequence[Document], store: SimpleVectorStore, folder: Path) -> None:
    """Rows, vectors and texts are those of these documents, and there is nothing else."""
    nodes = pipeline(store).transformations[0](list(documents))
    expected = {node.node_id: letter_vector(node.get_content(MetadataMode.EMBED)) for node in nodes}
    assert store.data.embedding_dict == expected
    assert {key: node.text for key, node in load_docstore(folder).docs.items()} == {d.id_: d.text for d in documents}


class FailingStore(SimpleVectorStore):
    """Fails from the n-th act on, until it is mended."""

    _left: int = PrivateAttr(default=HUGE)
    _error: Exception = PrivateAttr(default_factory=lambda: ConnectionError("the store is down"))

    def break_down(self, acts: int, error: Exception) -> None:
        self._left, self._error = acts, error

    def _act(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error

    def add(self, *args: Any, **kwargs: Any) -> Any:
        self._act()
        return super().add(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        self._act()
        return super().delete(*args, **kwargs)

    def delete_nodes(self, *args: Any, **kwargs: Any) -> Any:
        self._act()
        return super().delete_nodes(*args, **kwargs)


BREAKDOWNS = {
    "down": ConnectionError("the store is down"),
    "slow": TimeoutError("the store did not answer"),
    "read-only": PermissionError(errno.EACCES, "read-only"),
    "full": OSError(errno.ENOSPC, "no space left on device"),
}


@pytest.mark.parametrize("error", BREAKDOWNS.values(), ids=BREAKDOWNS.keys())
@pytest.mark.parametrize("acts", [0, 1, 2, 3, 5, 8])
@either_way
def test_a_store_that_fails_is_told_and_the_next_run_completes(
    error: Exception, acts: int, is_async: bool, tmp_path: Path
) -> None:
    store = FailingStore()
    synced(corpus(1), store, tmp_path, is_async)
    store.break_down(acts, error)
    with pytest.raises(type(error), match=str(error.args[-1])):
        synced(corpus(2)[1:], store, tmp_path, is_async, batch_size=1)
    store.break_down(HUGE, error)
    documents = [*corpus(2)[1:], *corpus(1)[:1]]
    synced(documents, store, tmp_path, is_async)
    assert_holds(documents, store, tmp_path)
    assert not synced(documents, store, tmp_path, is_async).changed


@either_way
def test_a_store_that_is_down_from_the_start_loses_nothing(is_async: bool, tmp_path: Path) -> None:
    store = FailingStore()
    store.break_down(0, ConnectionError("the store is down"))
    with pytest.raises(ConnectionError, match="is down"):
        synced(corpus(), store, tmp_path, is_async)
    store.break_down(HUGE, ConnectionError())
    synced(corpus(), store, tmp_path, is_async)
    assert_holds(corpus(), store, tmp_path)


@either_way
def test_a_deletion_that_fails_can_be_repeated(is_async: bool, tmp_path: Path) -> None:
    store = FailingStore()
    synced(corpus(), store, tmp_path, is_async)
    store.break_down(0, ConnectionError("the store is down"))
    with pytest.raises(ConnectionError, match="is down"):
        deleted("d3", store, tmp_path, is_async)
    store.break_down(HUGE, ConnectionError())
    assert deleted("d3", store, tmp_path, is_async).rows == 4
    assert_holds([document for document in corpus() if document.id_ != "d3"], store, tmp_path)


@pytest.mark.parametrize("method", ["open", "write_bytes", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("nth", [0, 1])
@either_way
def test_a_folder_that_cannot_be_written_is_told_and_the_next_run_completes(
    method: str, number: int, nth: int, is_async: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Injected: root may write where it is forbidden."""
    store, left = SimpleVectorStore(), [nth]
    synced(corpus(1), store, tmp_path, is_async)
    write = getattr(Path, method)

    def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
        is_written = method != "open" or "r" not in (args[:1] or ("r",))[0]
        if tmp_path in path.parents and is_written:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(number, "refused", str(path))
        return write(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, refuse)
        with suppress(OSError):
            synced(corpus(2), store, tmp_path, is_async)
            assert left[0] >= 0, "the refusal was swallowed"
    synced(corpus(2), store, tmp_path, is_async)
    assert_holds(corpus(2), store, tmp_path)


def test_a_folder_that_is_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("a file", encoding="utf-8")
    with pytest.raises(OptionError, match="taken"):
        synced(corpus(), SimpleVectorStore(), place)
    assert place.read_text(encoding="utf-8") == "a file"


@pytest.mark.parametrize("fault", [time_out, answer_nothing, answer_nan], ids=lambda fault: fault.__name__)
@either_way
def test_a_document_that_cannot_be_made_is_named_and_those_ahead_of_it_are_kept(
    fault: Callable[..., Any], is_async: bool, tmp_path: Path
) -> None:
    store, model = SimpleVectorStore(), IllEmbedding(embed_batch_size=1).fall_ill(fault, word="第3篇")
    with pytest.raises(Exception) as caught:  # noqa: PT011  what the model raises, named
        synced(corpus(), store, tmp_path, is_async, model=model, batch_size=4)
    assert "'d3'" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert set(store.data.text_id_to_ref_doc_id.values()) == {"d0", "d1", "d2"}
    report = synced(corpus(), store, tmp_path, is_async, model=model.fall_ill(None))
    assert report.unchanged == ("d0", "d1", "d2")
    assert_holds(corpus(), store, tmp_path)


# ------------------------------------------------------------------------------------------------ many callers


def essence(nodes: Sequence[Any]) -> list[str]:
    return [node.to_json() for node in nodes]


def inputs(number: int = 0) -> list[Document]:
    return [Document(id_=f"doc{number}", text=PROSE * (1 + number % 3), metadata={"file_name": "书店.txt"})]


every_parser = pytest.mark.parametrize("case", CASES, ids=str)


@every_parser
@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
def test_eight_threads_share_one_parser(case: Case) -> None:
    alone = [essence(case.make()(inputs(number))) for number in range(8)]
    parser = case.make()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda number: essence(parser(inputs(number))), range(8)))
    assert together == alone


@every_parser
@pytest.mark.filterwarnings("ignore::llama_index_chunking_plus.errors.ChunkingPlusWarning")
async def test_eight_tasks_share_one_parser(case: Case) -> None:
    alone = [essence(case.make()(inputs(number))) for number in range(8)]
    parser = case.make()
    together = await asyncio.gather(*(parser.aget_nodes_from_documents(inputs(number)) for number in range(8)))
    assert [essence(nodes) for nodes in together] == alone


def parse_elsewhere(parser: Any, number: int) -> list[str]:
    return essence(parser(inputs(number)))


def test_two_processes_give_the_same_nodes() -> None:
    parsers = [case.make() for case in CASES]
    alone = [parse_elsewhere(parser, 1) for parser in parsers]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        answers = pool.starmap_async(parse_elsewhere, [(parser, 1) for parser in parsers])
        assert answers.get(timeout=240) == alone


# ------------------------------------------------------------------------------------------------ the command line


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is told in another way")
@pytest.mark.parametrize("arguments", [["--json"], []], ids=["json", "table"])
def test_a_reader_that_has_read_enough_sees_no_traceback(arguments: list[str], tmp_path: Path) -> None:
    pytest.importorskip("typer")
    path = tmp_path / "long.md"
    path.write_text("".join(f"第{i}句话就是这样。\n" for i in range(3_000)), encoding="utf-8")
    program = "from llama_index_chunking_plus.cli import main; main()"
    command = [sys.executable, "-c", program, "split", str(path), "--parser", "window", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603  our own
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode in {0, 1, 141}  # 0: all fitted into the pipe
    assert said == ""
