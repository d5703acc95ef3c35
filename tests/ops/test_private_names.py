"""Private names of third parties stand in files called ``*_internals.py`` alone."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT / "platform", ROOT, ROOT / "jobs", ROOT / "tests", ROOT / "tests" / "study")
"""Folders from which modules of ours are imported."""

PARTS = ("platform/sentune", "jobs", "search_spaces", "benchmarks", "tests", "examples")

DOCUMENTED = {
    *("_replace", "_asdict", "_fields", "_make", "_field_defaults"),  # namedtuple
    "_exit",  # os
    "_mapping",  # a row of SQLAlchemy
    "_repr_html_",  # IPython
}
"""Public names that begin with an underscore."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own_file(module: str) -> Path | None:
    """The file of one of our modules; None for those of others."""
    for place in PLACES:
        base = place.joinpath(*module.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                return file
    return None


def foreign(module: str) -> bool:
    """Whether a module is neither ours nor the standard library's."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    return not any((place / top).is_dir() or (place / f"{top}.py").is_file() for place in PLACES)


def defined(tree: ast.AST) -> set[str]:
    """Names of functions, classes, variables and attributes that a piece of code sets."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


@cache
def defined_by(file: Path) -> set[str]:
    """Names that one of our files sets."""
    return defined(ast.parse(file.read_text(encoding="utf-8")))


def own_names(tree: ast.Module) -> set[str]:
    """Names that a file sets itself, or one of our files from which it imports."""
    found = defined(tree)
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for file in filter(None, map(own_file, modules)):
            found |= defined_by(file)
    return found


def private_uses(tree: ast.Module) -> Iterator[str]:
    """``line: what`` of each private name of a third party in a file."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if foreign(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and foreign(node.module):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and node.attr not in own | DOCUMENTED:
            names = [node.attr]
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"[a-z]\w*(\.\w+)+", node.value)  # as monkeypatch and Ray take it
            and foreign(node.value)
        ):
            names = [node.value]
        else:
            continue
        for name in names:
            if any(is_private(part) for part in name.split(".")):
                yield f"{node.lineno}: {name}"


@pytest.mark.parametrize("part", PARTS)
def test_no_file_but_the_internals_uses_a_private_name(part: str) -> None:
    files = sorted((ROOT / part).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{use}"
        for path in files
        if not path.name.endswith("_internals.py")
        for use in private_uses(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(["move these into an *_internals.py:", *found])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import ray._private.state", ["1: ray._private.state"]),
        ("from optuna.storages._rdb import models", ["1: optuna.storages._rdb.models"]),
        ("from optuna.study import _frozen", ["1: optuna.study._frozen"]),
        ("trial._suggest('x')", ["1: _suggest"]),
        ("patch('optuna.storages._rdb.models')", ["1: optuna.storages._rdb.models"]),
        ("class A(B):\n    def f(self):\n        return self._backend", ["3: _backend"]),
        # a journal of ours has a method of this name, which this file does not import
        ("found._write(1)", ["1: _write"]),
        ("from sentune.study.store.journal import StudyJournal\nfound._write(1)", []),
        ("class A:\n    def f(self):\n        self._x = 1\n        return self._x", []),
        ("from __future__ import annotations\nimport _thread\nscene._replace(a=1)", []),
        ("import ray\nray.init()\nobject.__init__", []),
        ("import _path", []),
    ],
)
def test_the_search_finds_what_it_is_to_find(code: str, found: list[str]) -> None:
    assert list(private_uses(ast.parse(code))) == found


def test_each_use_in_the_internals_says_for_which_version() -> None:
    internals = [path for part in PARTS for path in (ROOT / part).rglob("*_internals.py")]
    assert len(internals) == 4
    for path in internals:
        assert "Written for " in path.read_text(encoding="utf-8"), path
