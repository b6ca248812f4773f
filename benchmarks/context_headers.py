"""The same paragraph in several documents, and in two versions of one: how often the first hit is the right one.

Each bundled document stands in the store five times, under the titles of five companies; a question names the company.
The two versions of the leave policy stand in a store of their own. A question names the version, or means the newest
one. Pinned: the search is restricted to the version that is named; unnamed: the question then names it no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TransformComponent

from llama_index_chunking_plus import (
    ContextHeaderTransform,
    DocumentMetadataTransform,
    LatestVersionPostprocessor,
    OfflineEmbedding,
    StructuredMarkdownNodeParser,
    latest_version_filters,
)
from llama_index_chunking_plus.samples import questions, sample_paths

COMPANIES = ("远山重工", "星河网络", "青禾乳业", "白鹭航运", "北辰药业")
POLICIES = ("leave_policy_v1.md", "leave_policy_v2.md")
TOP_K = 12


@dataclass(frozen=True)
class Question:
    text: str
    document_id: str
    answer: str
    version: str | None = None


def copies() -> list[Document]:
    """Every document but the policies, once for each company; only the title says whose it is."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sample_paths() if path.name not in POLICIES}
    return [
        Document(id_=f"{company}/{name}", text=text, metadata={"title": f"{company} {name.split('.')[0]}"})
        for name, text in texts.items()
        for company in COMPANIES
    ]


def policies() -> list[Document]:
    paths = [path for path in sample_paths() if path.name in POLICIES]
    return [Document(id_=path.name, text=path.read_text(encoding="utf-8")) for path in paths]


def about_companies() -> Iterator[Question]:
    asked = [question for question in questions() if question.file not in POLICIES]
    for number, question in enumerate(asked):
        company = COMPANIES[number % len(COMPANIES)]
        yield Question(f"{company}：{question.question}", f"{company}/{question.file}", question.answer)


def about_versions() -> Iterator[Question]:
    for question in questions():
        if question.file in POLICIES:
            version = f"{POLICIES.index(question.file) + 1}.0"
            yield Question(f"员工休假制度 v{version}：{question.question}", question.file, question.answer, version)


def unnamed(asked: Sequence[Question]) -> list[Question]:
    return [replace(question, text=question.text.split("：", 1)[1]) for question in asked]


def newest(questions_of_both: Sequence[Question]) -> list[Question]:
    """The questions about the newest version, without its number."""
    return unnamed([question for question in questions_of_both if question.document_id == POLICIES[1]])


class Store:
    """Chunks with or without a header, and the texts that they come from."""

    def __init__(self, documents: Sequence[Document], has_headers: bool, model: OfflineEmbedding) -> None:
        self.texts = {document.id_: document.text for document in documents}
        self.documents = DocumentMetadataTransform()(documents)
        steps: list[TransformComponent] = [StructuredMarkdownNodeParser(chunk_size=300)]
        nodes: Sequence[Any] = self.documents
        for step in [*steps, *([ContextHeaderTransform()] if has_headers else [])]:
            nodes = step(nodes)
        if not has_headers:
            for node in nodes:  # neither sees any metadata
                node.excluded_embed_metadata_keys = list(node.metadata)
        self.index = VectorStoreIndex(nodes, embed_model=model)

    def is_right(self, question: Question, hits: Sequence[NodeWithScore]) -> bool:
        """Whether the first hit holds a part of the answer, in the right document."""
        if not hits or hits[0].node.ref_doc_id != question.document_id:
            return False
        start = self.texts[question.document_id].index(question.answer)
        node: Any = hits[0].node
        return bool(node.start_char_idx < start + len(question.answer) and start < node.end_char_idx)

    def hits(self, question: Question, *, pinned: bool) -> list[NodeWithScore]:
        filters = latest_version_filters(self.documents, version=question.version) if pinned else None
        return self.index.as_retriever(similarity_top_k=TOP_K, filters=filters).retrieve(question.text)

    def accuracy(self, asked: Sequence[Question], *, latest: bool = False, pinned: bool = False) -> float:
        found = [self.hits(question, pinned=pinned) for question in asked]
        if latest:
            found = [LatestVersionPostprocessor().postprocess_nodes(hits) for hits in found]
        return sum(map(self.is_right, asked, found)) / len(asked)


def context_headers() -> dict[str, float]:
    model = OfflineEmbedding()
    companies, versions = list(about_companies()), list(about_versions())
    figures: dict[str, float] = {"questions": len(companies) + len(versions)}
    for name, has_headers in (("without", False), ("with", True)):
        several, both = Store(copies(), has_headers, model), Store(policies(), has_headers, model)
        right = several.accuracy(companies) * len(companies) + both.accuracy(versions) * len(versions)
        figures[f"several documents, {name} headers"] = several.accuracy(companies)
        figures[f"two versions, {name} headers"] = both.accuracy(versions)
        figures[f"two versions, {name} headers, pinned"] = both.accuracy(versions, pinned=True)
        figures[f"two versions, {name} headers, pinned and unnamed"] = both.accuracy(unnamed(versions), pinned=True)
        figures[f"all, {name} headers"] = right / figures["questions"]
        figures[f"the newest meant, {name} headers"] = both.accuracy(newest(versions))
    figures["the newest meant, LatestVersionPostprocessor"] = both.accuracy(newest(versions), latest=True)
    return figures
