"""Private names of third parties stand in files called ``*_internals.py`` alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sentune

PACKAGE = Path(sentune.__file__).parent

NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make", "_field_defaults"}
"""Public, documented names of the standard library that begin with an underscore."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own_names(trees: dict[Path, ast.Module]) -> set[str]:
    """Private names that the package itself defines: functions, variables, attributes."""
    found: set[str] = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def foreign(module: str | None) -> bool:
    """Whether a module is neither ours nor the standard library's."""
    top = (module or "sentune").partition(".")[0]
    return top != "sentune" and top not in sys.stdlib_module_names


def private_uses(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """``line: what`` of each private name of a third party in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if foreign(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{a.name}" for a in node.names if foreign(node.module)]
        elif isinstance(node, ast.Attribute) and node.attr not in own | NAMEDTUPLE:
            names = [node.attr]
        else:
            continue
        for name in names:
            if any(is_private(part) for part in name.split(".")):
                yield f"{node.lineno}: {name}"


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    files = [p for p in PACKAGE.rglob("*.py") if not p.name.endswith("_internals.py")]
    assert len(files) > 200
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


def test_no_file_but_the_internals_uses_a_private_name(trees: dict[Path, ast.Module]) -> None:
    own = own_names(trees)
    found = [
        f"{path.relative_to(PACKAGE)}:{use}"
        for path, tree in sorted(trees.items())
        for use in private_uses(tree, own)
    ]
    assert not found, "\n".join(["move these into an *_internals.py:", *found])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import ray._private.state", ["1: ray._private.state"]),
        ("from optuna.storages._rdb import models", ["1: optuna.storages._rdb.models"]),
        ("from optuna.study import _frozen", ["1: optuna.study._frozen"]),
        ("trial._suggest('x')", ["1: _suggest"]),
        ("class A(B):\n    def f(self):\n        return self._backend", ["3: _backend"]),
        ("class A:\n    def f(self):\n        self._x = 1\n        return self._x", []),
        ("from __future__ import annotations\nimport _thread\nscene._replace(a=1)", []),
        ("import ray\nray.init()\nobject.__init__", []),
    ],
)
def test_the_search_finds_what_it_is_to_find(code: str, found: list[str]) -> None:
    tree = ast.parse(code)
    assert list(private_uses(tree, own_names({Path("x.py"): tree}))) == found


def test_each_use_in_the_internals_says_for_which_version() -> None:
    internals = list(PACKAGE.rglob("*_internals.py"))
    assert internals
    for path in internals:
        assert "Written for " in path.read_text(encoding="utf-8"), path
