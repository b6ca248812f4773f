"""Several levels in one index against chunks of one size: what is found, bytes, rows that are looked at, time.

usage: python benchmarks/multi_granularity.py [FOLDER] [--weights]

FOLDER holds docs.jsonl and questions.jsonl, as for evaluator.py; without one, the questions are the bundled ones and
those that the bundled documents ask for by themselves. --weights chooses the weights of the fusion on every other
question and measures them on the rest.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import chromadb
import numpy as np
from evaluator import rows, single
from llama_index.core import Document, MockEmbedding, QueryBundle, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import HierarchicalNodeParser
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore
from small_to_big import corpus as many_documents
from small_to_big import vector
from timing import corpus, median_seconds, paired

from llama_index_chunking_plus import (
    MultiGranularityNodeParser,
    OfflineEmbedding,
    ParentExpansionPostprocessor,
    SlidingWindowNodeParser,
    SourceSliceLookup,
    Span,
)
from llama_index_chunking_plus.evaluation.dataset import EvaluationQuestion
from llama_index_chunking_plus.evaluation.measures import (
    Located,
    TokenCounts,
    character_precision,
    intersection_over_union,
    recall_at_k,
    within_budget,
)
from llama_index_chunking_plus.evaluation.probes import completeness_probes
from llama_index_chunking_plus.ingestion.parent_vector_fusion import ParentVectorFusion
from llama_index_chunking_plus.retrievers.coarse_to_fine import CoarseToFineRetriever
from llama_index_chunking_plus.retrievers.fused_granularity import FusedGranularityRetriever, FusionWeights
from llama_index_chunking_plus.samples import questions, sample_paths
from llama_index_chunking_plus.storage.lexical import LexicalIndex

K, BUDGET, FOUND = 5, 1_000, 20  # results that are judged, tokens that may be spent, results that are asked for
CASCADE = {"coarse": 3, "medium": 5, "fine": FOUND}
STAGES = ("probe", "coarse", "medium", "fine")
FINE = MetadataFilters(filters=[MetadataFilter(key="granularity", value="fine")])

Way = Callable[[QueryBundle], Sequence[NodeWithScore]]
Ranking = list[Located]


# ------------------------------------------------------------------------------------------------ questions


@dataclass(frozen=True)
class Corpus:
    """Documents, and questions whose answers stand in them."""

    texts: Mapping[str, str]
    questions: Sequence[EvaluationQuestion]

    @cached_property
    def documents(self) -> list[Document]:
        return [Document(id_=name, text=text) for name, text in self.texts.items()]

    @cached_property
    def counts(self) -> TokenCounts:
        count = get_tokenizer()
        return TokenCounts(self.texts, lambda text: len(count(text)))


def bundled() -> Corpus:
    """The bundled questions, and those that tables, code, steps and answers of the documents ask for."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sample_paths()}
    asked = []
    for number, question in enumerate(questions()):
        start = texts[question.file].index(question.answer)
        gold = ((start, start + len(question.answer)),)
        asked.append(EvaluationQuestion(f"bundled-{number}", question.question, question.file, gold=gold))
    asked += completeness_probes(texts).to_evaluation_set()
    return Corpus(texts, [with_context(question, texts[question.document_id]) for question in asked])


def with_context(question: EvaluationQuestion, text: str) -> EvaluationQuestion:
    """The question with the paragraphs that its gold stands in as what is no waste."""
    starts = [text.rfind("\n\n", 0, span.start) for span in question.gold]
    ends = [text.find("\n\n", span.end) for span in question.gold]
    context = [
        (0 if start < 0 else start + 2, len(text) if end < 0 else end) for start, end in zip(starts, ends, strict=True)
    ]
    return replace(question, context=tuple(Span(*pair) for pair in context))


def from_folder(folder: Path) -> Corpus:
    texts = {row["doc_id"]: row["text"] for row in rows(folder / "docs.jsonl")}
    return Corpus(texts, [single(row) for row in rows(folder / "questions.jsonl")])


# ------------------------------------------------------------------------------------------------ what is found


class Indexes:
    """The documents in chunks of 1,000 characters, and in levels with their sentences."""

    def __init__(self, corpus: Corpus, model: BaseEmbedding) -> None:
        self.corpus, self.model = corpus, model
        self.docstore = SimpleDocumentStore()
        self.docstore.add_documents(corpus.documents)
        windows = SlidingWindowNodeParser(chunk_size=1_000, chunk_overlap=0, unit="chars")
        self.chunks = self._index([as_level(node) for node in windows(corpus.documents)])
        parser = MultiGranularityNodeParser.from_preset(unit="tokens", sentences=True, embed_model=model)
        self.levels = self._index(parser(corpus.documents))

    def _index(self, nodes: Sequence[BaseNode]) -> VectorStoreIndex:
        """In Chroma, with a search that is all but exact."""
        settings: Any = {"hnsw": {"space": "cosine", "ef_construction": 400, "ef_search": 1_000}}
        name = f"index-{uuid.uuid4().hex}"
        collection = chromadb.EphemeralClient().create_collection(name, configuration=settings)
        context = StorageContext.from_defaults(vector_store=ChromaVectorStore(chroma_collection=collection))
        return VectorStoreIndex(nodes, storage_context=context, embed_model=self.model)

    @cached_property
    def queries(self) -> list[QueryBundle]:
        asked = [question.text for question in self.corpus.questions]
        vectors = self.model.get_text_embedding_batch(asked)
        return [QueryBundle(text, embedding=vector) for text, vector in zip(asked, vectors, strict=True)]

    def fused(self, index: VectorStoreIndex, *, lexical: bool) -> FusedGranularityRetriever:
        return FusedGranularityRetriever(index, FOUND, LexicalIndex() if lexical else None)

    def ways(self) -> dict[str, Way]:
        fused = self.fused(self.levels, lexical=True)
        parents = ParentExpansionPostprocessor(
            lookup=SourceSliceLookup(self.docstore), max_parents=FOUND, merge_adjacent=False
        )
        flat = self.levels.as_retriever(similarity_top_k=FOUND, filters=FINE)
        return {
            "chunks": self.chunks.as_retriever(similarity_top_k=FOUND).retrieve,
            "chunks, lexical": self.fused(self.chunks, lexical=True).retrieve,
            "fine, flat": flat.retrieve,
            "cascade, probe=0": CoarseToFineRetriever(self.levels, CASCADE, probe=0).retrieve,
            "cascade": CoarseToFineRetriever(self.levels, CASCADE).retrieve,
            "fused": self.fused(self.levels, lexical=False).retrieve,
            "fused, lexical": fused.retrieve,
            "fused, lexical, parents": lambda query: parents.postprocess_nodes(fused.retrieve(query)),
        }


def as_level(node: BaseNode) -> BaseNode:
    """A chunk of one size as the only level of its document, so that the fused retriever takes it."""
    said = {"granularity": "fine", "granularity_depth": 0}
    hidden = {name: [*said] for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")}
    return node.model_copy(update={"metadata": said, **hidden})


def located(hits: Sequence[NodeWithScore]) -> Ranking:
    nodes: list[Any] = [hit.node for hit in hits]
    return [Located(node.ref_doc_id, Span(node.start_char_idx, node.end_char_idx)) for node in nodes]


def judged(question: EvaluationQuestion, ranked: Ranking, counts: TokenCounts) -> dict[str, float]:
    spent = within_budget(ranked, BUDGET, counts)
    return {
        f"recall@{K}": recall_at_k(question, ranked, K),
        f"precision@{K}": character_precision(question, ranked, K),
        f"IoU@{K}": intersection_over_union(question, ranked, K),
        f"tokens@{K}": sum(counts.size(name, [span]) for name, span in ranked[:K]),
        f"recall, {BUDGET} tokens": recall_at_k(question, spent),
        f"precision, {BUDGET} tokens": character_precision(question, spent),
    }


def means(corpus: Corpus, asked: Sequence[EvaluationQuestion], rankings: Sequence[Ranking]) -> dict[str, float]:
    each = [judged(*pair, corpus.counts) for pair in zip(asked, rankings, strict=True)]
    return {figure: fmean(one[figure] for one in each) for figure in each[0]}


def found(indexes: Indexes) -> dict[str, dict[str, float]]:
    """For each way to search, the means over the questions."""
    corpus = indexes.corpus
    return {
        name: means(corpus, corpus.questions, [located(way(query)) for query in indexes.queries])
        for name, way in indexes.ways().items()
    }


def quality() -> dict[str, float]:
    shipped = bundled()
    figures: dict[str, float] = {"questions": len(shipped.questions)}
    for way, told in found(Indexes(shipped, OfflineEmbedding())).items():
        figures |= {f"{way}: {figure}": value for figure, value in told.items()}
    return figures


# ------------------------------------------------------------------------------------------------ weights


class Scan(FusedGranularityRetriever):
    """Candidates and their components once for each query; then rankings by any weights."""

    def components(self, query: QueryBundle) -> tuple[Any, ...]:
        self.retrieve(query)
        return self._last

    def _ranked(self, *components: Any) -> list[NodeWithScore]:
        self._last = components
        return super()._ranked(*components)

    def ranked(self, components: tuple[Any, ...], weights: FusionWeights) -> list[NodeWithScore]:
        self._weights = weights
        return super()._ranked(*components)


def grid() -> Iterator[FusionWeights]:
    dense = (
        (1, 0, 0),
        (0.5, 0.5, 0),
        (0.6, 0, 0.4),
        (0.4, 0.3, 0.3),
        (0.3, 0.4, 0.3),
        (0.3, 0.3, 0.4),
        (0.2, 0.4, 0.4),
    )
    for each, lexical, above in product(dense, (0, 0.35, 0.7, 1.0), (0, 0.35, 0.7, 1.0)):
        yield FusionWeights(*each, lexical, above)


def worth(figures: Mapping[str, float]) -> float:
    return fmean(figures[name] for name in (f"recall@{K}", f"recall, {BUDGET} tokens", f"IoU@{K}"))


def scanned(indexes: Indexes) -> Iterator[tuple[FusionWeights, dict[str, float], dict[str, float]]]:
    """For each weights, the means over the even questions and over the odd ones; best on the even ones first."""
    corpus = indexes.corpus
    scan = Scan(indexes.levels, FOUND, LexicalIndex())
    seen = [scan.components(query) for query in indexes.queries]
    told = []
    for weights in grid():
        rankings = [located(scan.ranked(components, weights)) for components in seen]
        told.append((weights, *(means(corpus, corpus.questions[i::2], rankings[i::2]) for i in (0, 1))))
    yield from sorted(told, key=lambda each: -worth(each[1]))


# ------------------------------------------------------------------------------------------------ bytes


def bytes_of(steps: Sequence[TransformComponent]) -> dict[str, int]:
    """What Chroma keeps of the bundled documents' nodes: metadata and texts, and 4 bytes for each number."""
    nodes: Any = bundled().documents
    for step in steps:
        nodes = step(nodes)
    collection = chromadb.EphemeralClient().create_collection(f"bytes-{uuid.uuid4().hex}")
    ChromaVectorStore(chroma_collection=collection).add(nodes)
    kept: Any = collection.get(include=["metadatas", "documents", "embeddings"])
    return {
        "metadata": sum(len(f"{key}{value}".encode()) for row in kept["metadatas"] for key, value in row.items()),
        "text": sum(len(text.encode()) for text in kept["documents"]),
        "vectors": 4 * np.size(kept["embeddings"]),
    }


def stored() -> dict[str, float]:
    """The share that is left with two of three levels."""
    parser, model = MultiGranularityNodeParser(), MockEmbedding(embed_dim=512)
    three, two = (
        bytes_of([parser, model, ParentVectorFusion(store_levels=levels)]) for levels in (None, ("coarse", "fine"))
    )
    figures: dict[str, float] = {f"kB of {kind}, three levels": size / 1e3 for kind, size in three.items()}
    figures |= {f"share of {kind}, two levels": two[kind] / size for kind, size in three.items()}
    return figures | {"share of all, two levels": sum(two.values()) / sum(three.values())}


# ------------------------------------------------------------------------------------------------ rows and time


def levels_of(n_fine: int) -> list[BaseNode]:
    """Nodes with vectors; chunks that lie in one are near each other, and the larger is the mean of its parts."""
    nodes: list[BaseNode] = []
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    n_found = 0
    parser = MultiGranularityNodeParser()
    for document in many_documents(n_fine):
        if n_found >= n_fine:
            break
        for node in reversed(parser([document])):  # parts ahead of what they are in
            about, level = node.metadata, node.metadata["granularity"]
            own = leaf(node) if level == "fine" else np.mean(parts.pop(node.node_id), axis=0)
            parts[about.get("parent_id", "")].append(own)
            node.embedding = (own / np.linalg.norm(own)).tolist()
            n_found += level == "fine"
            nodes.append(node)
    return nodes


def leaf(node: BaseNode) -> Any:
    seeds = (node.metadata["coarse_id"], node.metadata["parent_id"], node.node_id)
    return np.average([vector(seed) for seed in seeds], axis=0, weights=(1, 0.7, 0.7))


class Levels:
    """Nodes of three levels in Chroma, and queries near fine ones."""

    def __init__(self, n_fine: int, folder: str) -> None:
        nodes = levels_of(n_fine)
        self.fine = [node for node in nodes if node.metadata["granularity"] == "fine"]
        self.collection = chromadb.PersistentClient(folder).create_collection("levels")
        store = ChromaVectorStore(chroma_collection=self.collection)
        for at in range(0, len(nodes), 1000):
            store.add(nodes[at : at + 1000])
        index = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=64))
        retriever = partial(index.as_retriever, similarity_top_k=10)
        self.ways: dict[str, BaseRetriever] = {
            "flat": retriever(filters=FINE),
            "flat, no filter": retriever(),
            "cascade, probe=0": CoarseToFineRetriever(index, probe=0),
            "cascade": CoarseToFineRetriever(index),
        }

    def queries(self, count: int) -> list[QueryBundle]:
        """Near the vectors of fine chunks that lie all over the store."""
        step = max(1, len(self.fine) // count)
        drawn = np.random.default_rng(0).normal(size=(count, 64)) * 0.05
        near = [np.add(node.embedding or [], by) for node, by in zip(self.fine[::step], drawn, strict=False)]
        return [QueryBundle("", embedding=(each / np.linalg.norm(each)).tolist()) for each in near]

    def passed(self, retriever: BaseRetriever, query: QueryBundle) -> list[int]:
        """How many rows pass the filter of each question that the store is asked."""
        with patch.object(self.collection, "query", wraps=self.collection.query) as asked:
            retriever.retrieve(query)
        wheres = [call.kwargs.get("where") or None for call in asked.call_args_list]
        return [len(self.collection.get(where=where, include=[])["ids"]) for where in wheres]


def share_of(flat: Sequence[NodeWithScore], others: Sequence[NodeWithScore]) -> float:
    return len({hit.node_id for hit in flat} & {hit.node_id for hit in others}) / len(flat)


def narrowed(n_fine: int) -> dict[str, float]:
    """Medians over the queries; the ways take turns at each, and the median of three counts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        levels = Levels(n_fine, folder)
        queries = levels.queries(20)
        figures: dict[str, float] = {"rows": levels.collection.count()}
        times: defaultdict[str, list[float]] = defaultdict(list)
        for query, (name, way) in product(queries, levels.ways.items()):
            times[name].append(1000 * median_seconds(lambda: way.retrieve(query), 3, tidy=False))  # noqa: B023
        for name in levels.ways:
            figures[f"{name}: ms"] = float(np.median(times[name]))
        flat = [levels.ways["flat"].retrieve(query) for query in queries]
        for name in ("cascade, probe=0", "cascade"):
            way = levels.ways[name]
            figures[f"{name}: times as fast as flat"] = float(np.median(np.divide(times["flat"], times[name])))
            figures[f"{name}: recall of the flat top 10"] = fmean(
                share_of(hits, way.retrieve(query)) for hits, query in zip(flat, queries, strict=True)
            )
            passed = [levels.passed(way, query) for query in queries[:10]]
            for stage, count in zip(reversed(STAGES), reversed(np.median(passed, axis=0)), strict=False):
                figures[f"{name}: rows that pass, {stage} stage"] = float(count)
    return figures


# ------------------------------------------------------------------------------------------------ parsing


def parsing() -> dict[str, float]:
    document = Document(text=corpus(1))
    peer = HierarchicalNodeParser.from_defaults(chunk_sizes=[2048, 512, 128])
    figures = {}
    for unit in ("chars", "tokens"):
        parser = MultiGranularityNodeParser.from_preset(unit=unit)
        times = paired(lambda: parser([document]), lambda: peer([document]), 3)  # noqa: B023
        figures[f"seconds for 1 MB, {unit}"] = times.ours
        figures[f"times as fast as HierarchicalNodeParser, {unit}"] = times.ratio
    return figures


# ------------------------------------------------------------------------------------------------ from the shell


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--weights", action="store_true")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    asked = from_folder(given.folder) if given.folder else bundled()
    print(len(asked.questions), "questions")
    indexes = Indexes(asked, OfflineEmbedding())
    if given.weights:
        for weights, even, odd in scanned(indexes):
            print(weights, *(f"{name} {even[name]:.3f} {odd[name]:.3f}" for name in even), sep="  ")
        return
    for way, told in found(indexes).items():
        print(f"{way:24}", *(f"{name} {value:.3f}" for name, value in told.items()), sep="  ")


if __name__ == "__main__":
    main()
