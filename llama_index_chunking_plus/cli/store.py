"""A folder that holds an ingested corpus: Chroma, the documents, words, and which parser and model made it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import NodeWithScore
from llama_index.core.storage.docstore.types import DEFAULT_PERSIST_FNAME
from llama_index.core.vector_stores.types import BasePydanticVectorStore, MetadataFilters

from llama_index_chunking_plus.cli.levels import LevelSearch, lexical_index
from llama_index_chunking_plus.cli.options import EXPANSIONS, LEVELLED, OFFLINE, ParserChoice, make_model, make_steps
from llama_index_chunking_plus.core.granularity import FINE
from llama_index_chunking_plus.core.headers import HEADER_KEY
from llama_index_chunking_plus.core.options import folder_flaw
from llama_index_chunking_plus.core.versions import EditionRule, read_version
from llama_index_chunking_plus.embeddings import OfflineEmbedding
from llama_index_chunking_plus.errors import MissingExtraError, OptionError, StoreMismatchError
from llama_index_chunking_plus.evaluation.persist import load_selection, persist_selection
from llama_index_chunking_plus.evaluation.selector import SelectionResult
from llama_index_chunking_plus.ingestion import DocumentMetadataTransform, SyncReport, load_docstore, sync_documents
from llama_index_chunking_plus.ingestion.ledger import exclusive
from llama_index_chunking_plus.postprocessor import (
    ParentExpansionPostprocessor,
    SentenceWindowPostprocessor,
    latest_version_filters,
)
from llama_index_chunking_plus.postprocessor.passages import HITS_KEY
from llama_index_chunking_plus.retrievers.levels import EXPLANATION_KEY
from llama_index_chunking_plus.storage import LexicalChanges, SourceSliceLookup

_MANIFEST = "chunking-plus.json"
_SELECTED = "strategy.json"  # what `persist_selection` leaves beside documents and rows
_CHROMA = "chroma"
_COLLECTION = "chunks"
_DOCUMENTS = "documents"
_WORDS = "words"
_AFTER_MANIFEST = (_CHROMA, f"{_DOCUMENTS}/{DEFAULT_PERSIST_FNAME}", _WORDS)  # an ingestion writes the manifest first
_WORDS_BEHIND = "words.behind"
_CHILDREN_PER_PARENT = 8  # asked for to a parent: usually all that it has
_SHOWN_VERSIONS = 10
_K = 5  # passages, if nobody says how many
_BOTH = os.R_OK | os.W_OK
_BATCH_DOCUMENTS = 16  # a progress bar that moves, and little to do again after a kill


@dataclass(frozen=True)
class Manifest:
    """What made a store."""

    parser: ParserChoice
    embed_model: str

    def to_json(self) -> str:
        """The manifest as it is written."""
        return json.dumps(
            {"parser": asdict(self.parser), "embed_model": self.embed_model}, ensure_ascii=False, indent=2
        )

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest as it was written."""
        data = json.loads(text)
        return cls(ParserChoice(**data["parser"]), data["embed_model"])


@dataclass(frozen=True)
class Ingested:
    """What an ingestion did to the documents, and to the words of a store that keeps them.

    Attributes:
        report: of the documents.
        without_chunks: the ids of those that gave none, since they are empty or blank.
        words: of a store of several levels; None without the extra.
    """

    report: SyncReport
    without_chunks: tuple[str, ...] = ()
    words: LexicalChanges | None = None


@dataclass(frozen=True)
class CorpusStore:
    """A store in a folder; everything that is asked of it goes through its manifest."""

    folder: Path

    def manifest(self) -> Manifest | None:
        """What made the store; None if nothing did yet.

        Raises:
            StoreMismatchError: the folder's manifest cannot be understood, or is gone from beside what it tells of.
        """
        path = self.folder / _MANIFEST
        if not path.exists():
            self._check_is_new()
            return None
        try:
            return Manifest.from_json(path.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreMismatchError(f"{path} cannot be read ({error}); ingest into a new --store") from error

    def _check_is_new(self) -> None:
        """Refuse what an unknown parser and model made; a run that was killed ahead of its manifest left none of it."""
        left = [name for name in _AFTER_MANIFEST if (self.folder / name).exists()]
        if left:
            raise StoreMismatchError(
                f"{self.folder / _MANIFEST} is missing, which says what parser and model made {' and '.join(left)} in "
                "that folder; put it back or ingest into a new --store; if the folder holds nothing else, you can also "
                "delete it and ingest again"
            )

    def settle(self, embed_model: str | None, parser: str | None, **sizes: Any) -> Manifest:
        """What the next ingestion uses: what is remembered, with the sizes that are given now.

        Raises:
            StoreMismatchError: the store was made with another model or kind of parser than is asked for, or holds what
                was selected; or see `manifest`.
        """
        if self.is_selected:
            raise StoreMismatchError(
                f"{self.folder} holds a strategy that was selected, and no others; bring it up to date with: "
                f"chunking-plus select PATHS --questions FILE --persist {self.folder}"
            )
        known = self.manifest()
        choice = (known.parser if known else ParserChoice()).changed_by(parser=parser, **sizes)
        manifest = Manifest(choice, embed_model or (known.embed_model if known else OFFLINE))
        if known:
            self._check("embedding model", "--embed-model", known.embed_model, manifest.embed_model)
            self._check("parser", "--parser", known.parser.parser, choice.parser)
        return manifest

    def ingest(
        self,
        documents: Sequence[Document],
        manifest: Manifest,
        *,
        delete_missing: bool,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Ingested:
        """Make the store hold these documents; see `sync_documents` for what is promised.

        A store of several levels also has the words of its chunks. They are brought in step last; if that was cut
        short, or the extra is missing, a file says so until it is made good.
        """
        steps = make_steps(manifest.parser, make_model(manifest.embed_model))
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder / _DOCUMENTS):  # a call that is refused must not change what is remembered
            self._remember(manifest)
        pipeline = IngestionPipeline(transformations=steps, vector_store=self._vector_store())
        behind = self.folder / _WORDS_BEHIND
        was_behind = behind.exists()
        if manifest.parser.has_levels:
            behind.touch()
        report = sync_documents(
            documents,
            pipeline,
            persist_dir=self.folder / _DOCUMENTS,
            delete_missing=delete_missing,
            batch_size=_BATCH_DOCUMENTS,
            on_progress=on_progress,
        )
        blank = tuple(document.id_ for document in documents if not document.text.strip())
        words = lexical_index(self.folder / _WORDS) if manifest.parser.has_levels else None
        if words is None:
            return Ingested(report, blank)
        changes = words.sync_with_store(self._vector_store(), changed=None if was_behind else report.changed)
        behind.unlink(missing_ok=True)
        return Ingested(report, blank, changes)

    def query(
        self,
        question: str,
        k: int | None = None,
        embed_model: str | None = None,
        expand: str | None = None,
        *,
        is_latest: bool = False,
        version: str | None = None,
        retriever: str | None = None,
        return_level: str | None = None,
    ) -> list[NodeWithScore]:
        """At most ``k`` passages: the nearest chunks, or what they are read in.

        Args:
            question: what to look for.
            k: how many passages at most; None: 5, or as many as was selected for.
            embed_model: the model, if it is to be checked.
            expand: parent, window or none; None: what the store's parser is for.
            is_latest: of documents of one title, only the newest is searched.
            version: only this version of them is searched.
            retriever: fused or coarse-to-fine, in a store of several levels; None: fused.
            return_level: fine, medium, coarse or auto, in a store of several levels; None: fine.

        Raises:
            OptionError: there is no such ``expand``, ``retriever`` or ``return_level``; or parents are asked for beside
                a level that is not the finest.
            StoreMismatchError: see `index`; or the store's chunks know nothing of what they are to be expanded to; or
                no document has that ``version``; or the store holds what was selected, for another k or model.
        """
        if self.is_selected:
            self._check_as_selected(expand, retriever, return_level, version, is_latest=is_latest)
            return self._selected_hits(question, k, embed_model)
        k = _K if k is None else k
        expansion = self._expansion(expand)
        search = self._search(retriever, return_level)
        _check_together(expansion, search)
        asked = k * _CHILDREN_PER_PARENT if expansion == "parent" else k
        index = self.index(embed_model)
        filters = self._of_version(version) if is_latest or version else None
        if search is None:
            hits = index.as_retriever(similarity_top_k=asked, filters=filters).retrieve(question)
        else:
            hits = search.hits(question, asked, index, self.folder / _WORDS, filters)
        if expansion == "none":
            return hits
        docstore = load_docstore(self.folder / _DOCUMENTS)
        if expansion == "window":
            return SentenceWindowPostprocessor(docstore=docstore).postprocess_nodes(hits)
        lookup = SourceSliceLookup(docstore)
        expander = ParentExpansionPostprocessor(lookup=lookup, max_parents=k, merge_adjacent=False)
        return _as_hit(expander.postprocess_nodes(hits)[:k], hits)

    def persist(self, result: SelectionResult, documents: Sequence[Document], embed_model: BaseEmbedding) -> SyncReport:
        """Make the store hold what the winner makes of these documents, and nothing else; see `persist_selection`.

        Raises:
            OptionError: no strategy is selected.
            StoreMismatchError: see `check_can_persist`; or the store was made with another model.
        """
        self.check_can_persist()
        self.folder.mkdir(parents=True, exist_ok=True)
        store = self._vector_store()
        return persist_selection(
            result, documents, self.folder, embed_model=embed_model, vector_store=store, delete_missing=True
        )

    def check_can_persist(self) -> None:
        """What `persist` would fail for whatever is selected.

        Raises:
            StoreMismatchError: the folder is a store that was ingested into.
            MissingExtraError: the extra "chroma" is not installed.
        """
        if (self.folder / _MANIFEST).exists():
            raise StoreMismatchError(f"{self.folder} was made by ingesting into it; give --persist a new folder")
        if find_spec("chromadb") is None:
            raise MissingExtraError("llama-index-vector-stores-chroma", "chroma")

    @property
    def is_selected(self) -> bool:
        """Whether the store holds the winner of an evaluation."""
        return (self.folder / _SELECTED).exists()

    def _selected_hits(self, question: str, k: int | None, embed_model: str | None) -> list[NodeWithScore]:
        """What the winner finds, in the way in which it was evaluated."""
        path = self.folder / _SELECTED
        try:
            evaluated = str(json.loads(path.read_text(encoding="utf-8"))["embed_model"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreMismatchError(f"{path} cannot be read ({error}); select into a new --persist folder") from error
        known = OFFLINE if evaluated == OfflineEmbedding().model_name else evaluated
        selected = load_selection(self.folder, embed_model=make_model(embed_model or known), k=k)
        return selected.as_retriever(self._vector_store()).retrieve(question)

    def _check_as_selected(self, *options: str | None, is_latest: bool) -> None:
        """A winner is searched as it was evaluated."""
        if is_latest or any(option is not None for option in options):
            raise StoreMismatchError(
                f"{self.folder} holds a strategy that was selected, and is searched as it was evaluated; leave "
                "--expand, --retriever, --return-level, --latest-version and --pin-version out"
            )

    def index(self, embed_model: str | None = None) -> VectorStoreIndex:
        """The store as a LlamaIndex index.

        Raises:
            StoreMismatchError: nothing was ingested here, or with another embedding model than is asked for, or what is
                there is damaged.
        """
        known = self._known()
        self._check("embedding model", "--embed-model", known.embed_model, embed_model or known.embed_model)
        model: BaseEmbedding = make_model(known.embed_model)
        return VectorStoreIndex.from_vector_store(self._vector_store(), embed_model=model)

    def _known(self) -> Manifest:
        known = self.manifest()
        if known is not None:
            return known
        if flaw := folder_flaw(self.folder):
            raise StoreMismatchError(f"{self.folder} is no store: {flaw}; give --store the folder of one")
        raise StoreMismatchError(f"{self.folder} is no store; run: chunking-plus ingest PATHS --store {self.folder}")

    def _of_version(self, version: str | None) -> MetadataFilters:
        """What restricts the search to one version of each document; titles and versions are read off the documents."""
        documents = DocumentMetadataTransform()([*load_docstore(self.folder / _DOCUMENTS).docs.values()])
        rule = EditionRule()
        ranks = rule.ranks([rule.edition(document.metadata, document.node_id) for document in documents])
        known = {rank: rank.text for rank in sorted(rank for rank in ranks if rank is not None)}
        if version is not None and read_version(version) not in known:
            newest = ", ".join([*reversed(known.values())][:_SHOWN_VERSIONS])
            has = f"its newest versions are {newest}" if known else "its documents name none"
            raise StoreMismatchError(f"{self.folder} holds no document of version {version!r}; {has}")
        return latest_version_filters(documents, version=version)

    def _expansion(self, asked: str | None) -> str:
        """What hits are expanded to: what is asked for, if the store can; else what its parser is for."""
        if asked is not None and asked not in EXPANSIONS:
            raise OptionError(f"--expand {asked!r} is not one of {', '.join(EXPANSIONS)}")
        parser = self._known().parser
        if asked is None or asked in parser.expansions:
            return asked or parser.expansion
        raise StoreMismatchError(
            f"{self.folder} was made with the parser {parser.parser!r}, whose chunks have no {asked}; leave --expand "
            f"out, or ingest with --parser {EXPANSIONS[asked]} into a new --store"
        )

    def _search(self, retriever: str | None, return_level: str | None) -> LevelSearch | None:
        """How the levels of the store are searched; None if it has none."""
        given = {"retriever": retriever, "return_level": return_level}
        asked = {name: value for name, value in given.items() if value is not None}
        search, parser = LevelSearch(**asked), self._known().parser
        if parser.has_levels:
            return search
        if not asked:
            return None
        options = " and ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise StoreMismatchError(
            f"{self.folder} was made with the parser {parser.parser!r}, whose chunks have no levels; leave {options} "
            f"out, or ingest with --parser {LEVELLED} into a new --store"
        )

    def _check(self, what: str, option: str, known: str, asked: str) -> None:
        if known != asked:
            raise StoreMismatchError(
                f"{self.folder} was made with the {what} {known!r}, not {asked!r}; leave {option} out, or ingest into "
                "a new --store"
            )

    def _remember(self, manifest: Manifest) -> None:
        path = self.folder / _MANIFEST
        draft = path.with_suffix(".tmp")
        draft.write_text(manifest.to_json() + "\n", encoding="utf-8")
        os.replace(draft, path)  # noqa: PTH105  atomic on every platform

    def _vector_store(self) -> BasePydanticVectorStore:
        try:
            import chromadb.config  # noqa: PLC0415  an extra
            from llama_index.vector_stores.chroma import ChromaVectorStore  # noqa: PLC0415  an extra
        except ImportError as error:
            raise MissingExtraError("llama-index-vector-stores-chroma", "chroma") from error
        folder = self.folder / _CHROMA
        try:
            client = chromadb.PersistentClient(str(folder), chromadb.config.Settings(anonymized_telemetry=False))
            collection = client.get_or_create_collection(_COLLECTION, metadata={"hnsw:space": "cosine"})
        except Exception as error:
            raise StoreMismatchError(_unopened(folder, error)) from error
        return ChromaVectorStore(chroma_collection=collection)


def _unopened(folder: Path, error: Exception) -> str:
    """Why Chroma did not open its folder, and what to do; one that is merely read-only is never to be deleted."""
    if "readonly" in str(error) or folder_flaw(folder) or not all(os.access(each, _BOTH) for each in folder.iterdir()):
        return (
            f"{folder} cannot be written to, which Chroma needs even for queries ({error}); make it and all that is in "
            f"it writable, or copy {folder.parent} to where you can write and give --store the copy"
        )
    return f"{folder} cannot be opened ({error}); if it is damaged, delete that folder and ingest again"


def _check_together(expansion: str, search: LevelSearch | None) -> None:
    """Refuse what would show hits in what is around them twice: the largest chunks have nothing around them."""
    if expansion == "parent" and search is not None and search.return_level != FINE:
        raise OptionError(
            "--expand parent shows fine chunks in what is around them; leave --return-level out, or leave --expand out"
        )


def _as_hit(parents: list[NodeWithScore], hits: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """The parents, cut out of documents, with what the best of their chunks was searched with and found by."""
    said = {hit.node_id: hit.node.metadata for hit in hits}
    for parent in parents:
        best = parent.node.metadata.get(HITS_KEY)
        metadata = said.get(best[0]["node_id"], {}) if best else {}
        kept = {key: metadata[key] for key in (HEADER_KEY, EXPLANATION_KEY) if metadata.get(key)}
        parent.node.metadata.update(kept)
    return parents
