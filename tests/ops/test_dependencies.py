"""What the package imports is what its metadata ask for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ELSEWHERE = {
    "IPython": "a notebook has it",
    "aiohttp": "of ray[default]",
    "botocore": "of s3fs",
    "fastapi": "of ray[serve]",
    "s3fs": "the file system of an s3:// address, which a user installs",
}
"""Packages that are imported where something else has brought them."""
OWN = {"sentune", "search_spaces"}


def imported(file: Path) -> set[str]:
    """Top-level packages that a file imports, in functions or lazily too, not for types alone."""
    found = set[str]()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = [line for node in ast.walk(tree) if isinstance(node, ast.If)
                 and ast.unparse(node.test) == "TYPE_CHECKING" for line in node.body]  # fmt: skip
    skipped = {id(node) for line in for_types for node in ast.walk(line)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "LazyModule":
            found.add(ast.literal_eval(node.args[0]).partition(".")[0])
    return found


def names(requirements: list[str]) -> set[str]:
    """Names of distributions, as the index compares them."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~ ]", one)[0]).lower() for one in requirements}


def test_every_import_is_a_dependency_and_every_dependency_is_imported() -> None:
    files = [*(ROOT / "platform/sentune").rglob("*.py"), *(ROOT / "search_spaces").glob("*.py")]
    packages = set.union(*map(imported, files)) - sys.stdlib_module_names - OWN
    assert packages >= {*ELSEWHERE}
    packages -= {*ELSEWHERE}
    known = packages_distributions()
    used = {package: names(known.get(package, [package])) for package in packages}
    extras = PROJECT["optional-dependencies"]
    declared = names(PROJECT["dependencies"])
    optional = names([one for extra in extras for one in extras[extra] if extra != "dev"])
    undeclared = {one for one, owners in used.items() if not owners & (declared | optional)}
    assert not undeclared
    assert declared - set.union(*used.values()) == {"cmaes"}  # imported by Optuna
