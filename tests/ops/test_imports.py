"""Who may import what: the contracts of pyproject.toml, and that they can fail."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interpreter import run_python

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "platform" / "sentune"
RECIPES = [*sorted((ROOT / "jobs").glob("*.py")), *sorted((ROOT / "search_spaces").glob("*.py"))]


def _lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "platform")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_hold() -> None:
    done = _lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("geometry/points.py", "import ray", "only torch is installed"),
        ("methods/base.py", "import sentune.study.store.storage", "only torch is installed"),
        ("tracking/lineage.py", "import ray", "Ray is seen by"),
        ("training/settings.py", "import optuna", "Optuna is seen by"),
        ("study/schedulers.py", "import mlflow", "MLflow is seen by"),
        ("geometry/points.py", "import sentune.methods.base", "A sentence goes one way"),
        ("job/command.py", "import search_spaces", "Search spaces stand on jobs"),
        ("study/config.py", "def f():\n    import sentune.study.runner.limits", "No circles"),
        (
            "launchers/launch.py",
            "if TYPE_CHECKING:\n    import sentune.launchers.inline",
            "No circles",
        ),
    ],
)
def test_a_broken_contract_is_noticed(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    for folder in ("platform", "search_spaces"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / "platform/sentune" / module
    broken.write_text(f"{broken.read_text()}\n{line}\n")
    done = _lint_imports(tmp_path)
    assert done.returncode == 1
    broken_ones = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert any(contract in text for text in broken_ones), done.stdout


def test_torch_only_parts_load_neither_ray_nor_optuna_nor_mlflow() -> None:
    parts = ["geometry", "encoders", "methods", "readouts", "tasks", "training.loop", "embedder"]
    program = (
        f"import sys, importlib; [importlib.import_module('sentune.' + p) for p in {parts}]; "
        "print(sorted({'ray', 'optuna', 'mlflow'} & set(sys.modules)))"
    )
    assert run_python(program) == "[]"


def test_every_folder_of_the_package_is_a_package() -> None:
    """A folder without ``__init__.py`` is left out of the wheel and of the contracts."""
    folders = {path.parent for path in SOURCES.rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def _imports(path: Path) -> Iterator[tuple[str, str | None]]:
    """(module, name or None) of every import statement of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_jobs_and_search_spaces_see_public_names_only(path: Path) -> None:
    allowed = {"sentune", "search_spaces", "_path", *sys.stdlib_module_names}
    for module, name in _imports(path):
        assert module.split(".")[0] in allowed, f"{path.name} imports {module}"
        if module.startswith("sentune"):
            private = [part for part in [*module.split("."), name or ""] if part.startswith("_")]
            assert not private, f"{path.name} imports {module}.{name}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "jobs").glob("tune_*.py")), ids=lambda path: path.name
)
def test_a_jobs_first_own_import_is_the_bootstrap(path: Path) -> None:
    modules = [module for module, _ in _imports(path)]
    own = [module for module in modules if module.split(".")[0] not in sys.stdlib_module_names]
    assert own[0] == "_path"
