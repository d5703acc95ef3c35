"""Executes the notebooks of this folder in place, each in a temporary folder: ``make examples``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
SECONDS = 900
"""For one cell."""

RENDERER = "plotly_mimetype+notebook_connected"
"""Figures as data, and as HTML that loads plotly.js from its server: each file is 5 MB smaller."""


def execute(path: Path, folder: Path) -> NotebookNode:
    """Execute a notebook in a folder, and return it without what changes from run to run.

    Raises:
        CellExecutionError: a cell has failed; has its traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": folder}}
    )
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": commands, "XDG_CACHE_HOME": str(folder / ".cache")}
    client.execute(env={**os.environ, **own, "PLOTLY_RENDERER": RENDERER})
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    nbformat.validate(notebook)
    return notebook


def main(*names: str) -> None:
    """Execute the notebooks of these names, or all, and write them back, without warnings."""
    for path in map(Path, names or sorted(FOLDER.glob("*.ipynb"))):
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        for cell in notebook.cells:
            if cell.cell_type == "code":  # a warning is of the machine, and names its folders
                cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
        nbformat.write(notebook, path)
        sys.stdout.write(f"{path}: {path.stat().st_size / 1024:,.0f} KB\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
