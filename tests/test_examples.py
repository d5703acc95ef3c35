"""The notebooks of ``examples/``: what is stored of each, and that it runs from the wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.reader_files import SMALL_CORPORA

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.ipynb"))
every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

MOST_KB = 300
MOST_LINES = 40
"""Of an output that is plain text."""


def shown(output: dict[str, Any]) -> str:
    """What an output shows as text and as HTML."""
    data = output.get("data", {})
    parts = (output.get("text", ""), data.get("text/plain", ""), data.get("text/html", ""))
    return "\n".join("".join(part) for part in parts)


def twentieth(setting: re.Match[str]) -> str:
    return f"{setting[1]}={max(512, int(setting[2]) // 20)}"


def test_there_are_four() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4"]


@every
def test_what_is_stored_is_whole_small_and_of_no_machine(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert path.stat().st_size < MOST_KB * 1024
    for output in (output for cell in code for output in cell["outputs"]):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", output["text"]
        assert "".join(output.get("text", "")).count("\n") <= MOST_LINES
        assert not re.search(r"(?<![\w.])/(home|root|tmp|Users|usr|work)/", shown(output))


@pytest.mark.extras
@every
def test_it_runs_from_a_wheel(path: Path, wheel: Path, tmp_path: Path) -> None:
    """With a twentieth of the training; ``make examples`` runs all of it."""
    nbformat = pytest.importorskip("nbformat", reason="the extra 'notebook' is not installed")
    small, executed = tmp_path / path.name, tmp_path / "executed.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = re.sub(r"\b(max_examples|limit)=([\d_]+)", twentieth, cell.source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SMALL_CORPORA))
    nbformat.write(notebook, small)
    code = (
        "import sys, nbformat; from pathlib import Path; from execute import execute\n"
        "nbformat.write(execute(Path(sys.argv[1]), Path()), sys.argv[2])"
    )
    done = subprocess.run(
        [wheel, "-c", code, small, executed],
        capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(path.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # a cell that fails is raised
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    assert any(cell["outputs"] for cell in cells if cell["cell_type"] == "code")
