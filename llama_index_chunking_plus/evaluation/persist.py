"""The winner in a store, with all that makes the choice hold: its configuration, k, the search and the model.

SelectionResult -> sync_documents -> rows of the winner alone, and strategy.json beside them
strategy.json, the same k and model -> SelectedStore -> a retriever as it was evaluated
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_chunking_plus.core.options import folder_flaw, is_path, is_whole
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import OptionError, StoreMismatchError
from llama_index_chunking_plus.evaluation.frozen import model_identity
from llama_index_chunking_plus.evaluation.routing import RoutingNodeParser
from llama_index_chunking_plus.evaluation.selector import SelectionResult
from llama_index_chunking_plus.evaluation.strategies import Expansion, expansion_postprocessors
from llama_index_chunking_plus.evaluation.trial import configuration
from llama_index_chunking_plus.ingestion import SyncReport, async_sync_documents, load_docstore, sync_documents
from llama_index_chunking_plus.ingestion.fingerprint import fingerprint_transformations
from llama_index_chunking_plus.ingestion.ledger import exclusive
from llama_index_chunking_plus.node_parser import SpanNodeParser
from llama_index_chunking_plus.node_parser.nested import NestingNodeParser

_FILE = "strategy.json"
_DOCUMENTS = "documents"
_FORMAT = 1


@dataclass(frozen=True)
class Choice:
    """What ``strategy.json`` says.

    Args:
        strategy: the name of the winner.
        reason: why it won.
        measure: what was maximised.
        value: its figure.
        k: results a question gets.
        search: how it was searched.
        expansions: what hits are returned as.
        hits_per_result: nodes that are found for each result.
        embed_model: the model's name.
        model_identity: a digest of the model's options.
        parser: class and options of the parser.
        parser_identity: a digest of them.
        date: when it was saved, ISO 8601, UTC.
        format: of the file.
    """

    strategy: str
    reason: str
    measure: str
    value: float
    k: int
    search: str
    expansions: tuple[Expansion, ...]
    hits_per_result: int
    embed_model: str
    model_identity: str
    parser: dict[str, Any]
    parser_identity: str
    date: str
    format: int = _FORMAT


def persist_selection(
    result: SelectionResult,
    documents: Sequence[Document],
    folder: Path | str,
    *,
    embed_model: BaseEmbedding,
    vector_store: BasePydanticVectorStore,
    delete_missing: bool = False,
    show_progress: bool = False,
) -> SyncReport:
    """Make a store hold the winner's chunks of these documents, and nothing of the others.

    The folder gets ``strategy.json`` and the documents with the records of `sync_documents`, which see to it that a
    run that was interrupted is made good by the next one. A store that holds another winner is made anew.

    Args:
        result: what `ChunkingEvaluator.select` gave.
        documents: those that are to be searched; see `sync_documents`.
        folder: made if need be.
        embed_model: the model that the strategies were evaluated with.
        vector_store: keeps the rows, such as Chroma in the same folder.
        delete_missing: delete recorded documents that are not among ``documents``.
        show_progress: show a progress bar.

    Raises:
        OptionError: no strategy is selected, the winner is a retriever or was searched with words, or an argument is of
            another kind.
        StoreMismatchError: the strategies were evaluated with another model, or the folder's store was made with one.
        StoreBusyError: another process writes to the folder.
    """
    pipeline = _prepared(result, _folder(folder), embed_model, vector_store)
    place = Path(folder) / _DOCUMENTS
    return sync_documents(
        documents, pipeline, persist_dir=place, delete_missing=delete_missing, show_progress=show_progress
    )


async def async_persist_selection(
    result: SelectionResult,
    documents: Sequence[Document],
    folder: Path | str,
    *,
    embed_model: BaseEmbedding,
    vector_store: BasePydanticVectorStore,
    delete_missing: bool = False,
    show_progress: bool = False,
) -> SyncReport:
    """`persist_selection`, awaited."""
    pipeline = _prepared(result, _folder(folder), embed_model, vector_store)
    place = Path(folder) / _DOCUMENTS
    return await async_sync_documents(
        documents, pipeline, persist_dir=place, delete_missing=delete_missing, show_progress=show_progress
    )


def _prepared(
    result: SelectionResult, folder: Path, embed_model: BaseEmbedding, vector_store: BasePydanticVectorStore
) -> IngestionPipeline:
    """The pipeline of the winner; the folder remembers the choice."""
    if not isinstance(result, SelectionResult):
        raise OptionError(f"result={reprlib.repr(result)} is no SelectionResult; pass what evaluator.select(...) gave")
    if not isinstance(vector_store, BasePydanticVectorStore):
        raise OptionError(f"vector_store={reprlib.repr(vector_store)} is no vector store of LlamaIndex; pass one")
    _check_model(embed_model)
    _check_search(result.selected_strategy, result.report.run.search)
    if flaw := folder_flaw(folder):
        raise OptionError(f"folder={str(folder)!r} cannot hold a store: {flaw}; choose another folder")
    evaluated = result.report.run.embed_model
    if evaluated != embed_model.model_name:
        raise StoreMismatchError(
            f"{result.selected_strategy!r} was selected with the embedding model {evaluated!r}, not "
            f"{embed_model.model_name!r}; with another model another strategy may win. Pass that one, or evaluate again"
        )
    parser = result.make_parser(embed_model)
    choice = _choice(result, parser, embed_model)
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / _DOCUMENTS):
        known = _read(folder) if (folder / _FILE).exists() else None
        if known is not None and known.model_identity != choice.model_identity:
            raise StoreMismatchError(
                f"{folder} was made with the embedding model {known.embed_model!r} or other options of it; vectors of "
                "two models cannot be compared. Choose a new folder and store."
            )
        _write(folder, choice)
    return IngestionPipeline(transformations=[parser, embed_model], vector_store=vector_store)


def _check_search(strategy: str | None, search: str) -> None:
    if search != "dense":
        raise OptionError(
            f"{strategy!r} was selected with search={search!r}, and a vector store gives dense search only, by which "
            "another strategy may win; select with search='dense', or put a LexicalIndex beside a store of your own"
        )


def _check_model(embed_model: object) -> None:
    if not isinstance(embed_model, BaseEmbedding):
        raise OptionError(f"embed_model={embed_model!r} is no embedding model of LlamaIndex; pass OfflineEmbedding()")


def _folder(folder: Path | str) -> Path:
    if not is_path(folder):
        raise OptionError(f"folder={folder!r} is no path of a folder; pass one, such as 'selected'")
    return Path(folder)


def _choice(result: SelectionResult, parser: NodeParser, embed_model: BaseEmbedding) -> Choice:
    value = next((row.value.mean for row in result.table if row.status == "selected" and row.value), 0.0)
    return Choice(
        str(result.selected_strategy),
        result.reason,
        result.selection.measure,
        value,
        result.report.run.k,
        result.report.run.search,
        tuple(dict.fromkeys(each.expansion for each in result.used if each.expansion != "none")),
        max(each.hits_per_result for each in result.used),
        embed_model.model_name,
        model_identity(embed_model),
        configuration(parser),
        fingerprint_transformations([parser]),
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _write(folder: Path, choice: Choice) -> None:
    draft = folder / f"{_FILE}.tmp"
    draft.write_text(json.dumps(asdict(choice), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, folder / _FILE)  # noqa: PTH105  atomic on every platform


def _read(folder: Path) -> Choice:
    path = folder / _FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']}, not {_FORMAT}")  # noqa: TRY301  told like other flaws
        return Choice(**{**data, "expansions": tuple(data["expansions"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreMismatchError(
            f"{path} cannot be read ({error}); persist a selection there first: persist_selection(...)"
        ) from error


# ------------------------------------------------------------------------------------------------ reading it


@dataclass(frozen=True)
class SelectedStore:
    """A store that holds a winner; made by `load_selection`.

    Args:
        folder: where it is.
        choice: what was selected, and for what.
        embed_model: the model that it was selected with.
        parser: the winner's parser; None if it is not one of this package, and was not passed.
    """

    folder: Path
    choice: Choice
    embed_model: BaseEmbedding
    parser: NodeParser | None = field(default=None)

    def as_retriever(self, vector_store: BasePydanticVectorStore) -> BaseRetriever:
        """A retriever of k results, as the winner was evaluated.

        Args:
            vector_store: the one that the selection was persisted in.

        Raises:
            OptionError: it was selected for lexical or fused search, which a vector store alone does not give.
        """
        _check_search(self.choice.strategy, self.choice.search)
        index = VectorStoreIndex.from_vector_store(vector_store, embed_model=self.embed_model)
        found = index.as_retriever(similarity_top_k=self.choice.k * self.choice.hits_per_result)
        docstore = load_docstore(self.folder / _DOCUMENTS)
        postprocessors = [each for name in self.choice.expansions for each in expansion_postprocessors(name, docstore)]
        return SelectedRetriever(found, postprocessors, self.choice.k)


def load_selection(
    folder: Path | str, *, embed_model: BaseEmbedding, k: int | None = None, parser: NodeParser | None = None
) -> SelectedStore:
    """What `persist_selection` left in a folder, if the choice holds for what is asked of it now.

    Args:
        folder: the folder.
        embed_model: the model that questions are embedded with.
        k: results a question is to get; None: those that the winner was selected with.
        parser: the winner's parser, to ingest more documents with, where it is not one of this package.

    Raises:
        OptionError: an argument of another kind.
        StoreMismatchError: nothing was persisted there; or k, the model or the parser is another one.
    """
    _check_model(embed_model)
    if k is not None and not is_whole(k, least=1):
        raise OptionError(f"k={k!r}; it must be a whole number from 1, or None for that of the winner")
    if parser is not None and not isinstance(parser, NodeParser):
        raise OptionError(f"parser={parser!r} is no node parser of LlamaIndex; pass the winner's, or None")
    choice = _read(_folder(folder))
    if k is not None and k != choice.k:
        raise StoreMismatchError(
            f"{choice.strategy!r} was selected with k={choice.k}, not {k}: with more results small chunks gain, with "
            f"fewer large ones do, so another strategy may win. Ask for k={choice.k}, or evaluate with k={k}."
        )
    if model_identity(embed_model) != choice.model_identity:
        asked = embed_model.model_name
        told = f"{asked!r}" if asked != choice.embed_model else f"{asked!r} with other options"
        raise StoreMismatchError(
            f"{choice.strategy!r} was selected with the embedding model {choice.embed_model!r}, not {told}: vectors of "
            "the two cannot be compared, and another strategy may win. Pass the same model, or evaluate and persist "
            "with this one in a new folder."
        )
    if parser is not None and not _is_the_same(parser, choice):
        raise StoreMismatchError(
            f"the parser is not the one that {choice.strategy!r} was selected with: {choice.parser}; its chunks would "
            "not be like those in the store"
        )
    return SelectedStore(Path(folder), choice, embed_model, parser or _revived(choice, embed_model))


def _is_the_same(parser: NodeParser, choice: Choice) -> bool:
    """Whether a parser does what the winner's did; those of this package dump all that decides it."""
    if isinstance(parser, SpanNodeParser) and configuration(parser) == choice.parser:
        return True
    return fingerprint_transformations([parser]) == choice.parser_identity


def _revived(choice: Choice, embed_model: BaseEmbedding) -> NodeParser | None:
    """The parser from its options, if it is one of this package, and comes out as it was."""
    module, _, name = choice.parser["class"].rpartition(".")
    if not module.startswith("llama_index_chunking_plus."):
        return None
    kind = getattr(import_module(module), name)
    nests = issubclass(kind, (NestingNodeParser, RoutingNodeParser))
    options = {"embed_model": embed_model} if nests or "embed_model" in kind.model_fields else {}
    try:
        parser: SpanNodeParser = kind.from_dict(choice.parser, **options)
    except ValueError:  # it holds a parser or a function that cannot be dumped
        return None
    return parser if configuration(parser) == choice.parser else None


class SelectedRetriever(BaseRetriever):
    """Finds as the frozen retriever did: nodes, then what they are returned as, the best k of these.

    Args:
        retriever: finds the nodes.
        postprocessors: what expands them.
        k: results at most.

    Example:
        >>> from llama_index.core import MockEmbedding
        >>> index = VectorStoreIndex.from_documents([Document(text="一。")], embed_model=MockEmbedding(embed_dim=2))
        >>> [hit.text for hit in SelectedRetriever(index.as_retriever(), [], k=1).retrieve("?")]
        ['一。']
    """

    def __init__(self, retriever: BaseRetriever, postprocessors: Sequence[BaseNodePostprocessor], k: int) -> None:
        self._retriever = retriever
        self._postprocessors = tuple(postprocessors)
        self._k = k
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        hits: list[NodeWithScore] = yield Call(
            partial(self._retriever.retrieve, query), partial(self._retriever.aretrieve, query)
        )
        for each in self._postprocessors:
            hits = yield Call(
                partial(each.postprocess_nodes, hits, query), partial(each.apostprocess_nodes, hits, query)
            )
        return hits[: self._k]
