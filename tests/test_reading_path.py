"""The README's reading path: each file is imported by an earlier one; twelve files at most."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "platform" / "sentune"
MOST = 12
TO_THE_SAMPLER = (
    "jobs/tune_gumbel.py",
    "job/run.py",
    "study/study.py",
    "study/runner/trial_source.py",
    "study/samplers/registry.py",
)
TO_THE_LOSS = (
    "jobs/tune_gumbel.py",
    "job/run.py",
    "job/families/sentences.py",
    "job/families/trained.py",
    "training/loop.py",
    "training/recipes/sentences.py",
    "methods/gumbelcse.py",
    "geometry/contrastive.py",
)


def listed() -> list[str]:
    """The files of the README's list, in its order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How it is built")[2]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", text, flags=re.MULTILINE)


def file_of(name: str) -> Path:
    """A file of the list: below the project, or below the package."""
    return ROOT / name if (ROOT / name).is_file() else PACKAGE / name


def module_file(module: str) -> Path | None:
    """The file of one of our modules; None for those of others."""
    base = ROOT if module.partition(".")[0] == "search_spaces" else ROOT / "platform"
    place = base.joinpath(*module.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def imported(path: Path) -> Iterator[Path]:
    """Our files that a file imports, inside functions too; through tables of contents."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            file = module_file(f"{node.module}.{alias.name}") or module_file(node.module)
            if file is None or file == path:
                continue
            yield file
            if file.name == "__init__.py":
                yield from imported(file)


def test_the_path_is_listed_in_the_readme_and_short() -> None:
    files = listed()
    assert files[0] == "jobs/tune_gumbel.py"
    assert files[-1] == "geometry/contrastive.py"
    assert len(set(files)) == len(files) <= MOST
    assert all(file_of(name).is_file() for name in files)
    assert {*TO_THE_SAMPLER, *TO_THE_LOSS} <= set(files)


def test_each_file_is_imported_by_an_earlier_one() -> None:
    files = [file_of(name) for name in listed()]
    for place, file in enumerate(files[1:], 1):
        before = {found for earlier in files[:place] for found in imported(earlier)}
        assert file in before, f"none of the files before it imports {file.relative_to(ROOT)}"


@pytest.mark.parametrize("branch", [TO_THE_SAMPLER, TO_THE_LOSS], ids=["sampler", "loss"])
def test_each_file_of_a_branch_imports_the_next(branch: tuple[str, ...]) -> None:
    for name, following in itertools.pairwise(branch):
        assert file_of(following) in set(imported(file_of(name))), f"{name} -> {following}"


def test_the_branches_end_at_the_loss_and_at_optuna() -> None:
    loss = ast.parse(file_of(TO_THE_LOSS[-1]).read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(loss) if isinstance(node, ast.FunctionDef)}
    assert "contrastive_loss" in defined
    method = file_of("methods/gumbelcse.py").read_text(encoding="utf-8")
    assert "contrastive_loss(" in method
    assert "optuna.samplers" in file_of(TO_THE_SAMPLER[-1]).read_text(encoding="utf-8")


def test_tables_of_contents_hand_names_on() -> None:
    """What is passed through unread has no code but a look-up by name."""
    for package in ("job", "job/families", "training/recipes", "methods"):
        tree = ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        assert all(len(node.body) <= 4 for node in functions), package
