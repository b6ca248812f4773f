"""Run by CI in an environment without any extra: what must work, what must not be imported, what must be said."""

from __future__ import annotations

import sys

HEAVY = {"llama_index", "llama_index.core", "torch", "nltk", "chromadb", "matplotlib", "tiktoken", "jieba"}

import llama_index_chunking_plus as package

assert not HEAVY & set(sys.modules), HEAVY & set(sys.modules)
assert package.chinese_sentence_tokenizer("你好。再见。") == ["你好。", "再见。"]
assert not HEAVY & set(sys.modules), HEAVY & set(sys.modules)

from llama_index.core import Document

nodes = package.SlidingWindowNodeParser(chunk_size=64, chunk_overlap=0).get_nodes_from_documents(
    [Document(text="今天下雨。" * 100)]
)
assert len(nodes) > 1
assert not {"torch", "nltk", "chromadb", "matplotlib"} & set(sys.modules)

try:
    package.OfflineEmbedding().get_text_embedding("你好")
except package.MissingExtraError as error:
    assert "pip install 'llama-index-chunking-plus[local]'" in str(error)
else:
    raise AssertionError("the extra 'local' is installed: this is no base-only environment")

from llama_index_chunking_plus.cli import main

try:
    main()
except SystemExit as error:
    assert "pip install 'llama-index-chunking-plus[cli]'" in str(error.code)
else:
    raise AssertionError("the extra 'cli' is installed: this is no base-only environment")

from llama_index_chunking_plus.samples import questions, sample_paths

assert len(sample_paths()) >= 8
assert questions()

for name in package.__all__:
    getattr(package, name)
print("base-only: fine")
