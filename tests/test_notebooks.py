"""The notebooks run from top to bottom in a fresh kernel, and show what was committed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this interpreter, without anything that a user has set up."""
    write_kernel_spec(tmp_path / "kernels" / "test-kernel")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    return "test-kernel"


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[Any]:
    """What a cell shows, as far as it is text; of pictures, that there is one."""
    printed = [output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
    rich = [output.data for output in cell.outputs if "data" in output]
    return ["".join(printed), *({kind: kind.startswith("image/") or data[kind] for kind in data} for data in rich)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_was_committed(path: Path, kernel: str, tmp_path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    NotebookClient(fresh, timeout=240, kernel_name=kernel, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [shown(cell) for cell in code_cells(fresh)] == [shown(cell) for cell in code_cells(committed)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_a_fresh_run_leaves_it(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert notebook.metadata.kernelspec.name == "python3"
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|Users|work)/|Traceback|stderr", text)
