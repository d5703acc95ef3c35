"""Each public class name of the package is defined once: one name, one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "platform" / "sentune"


def definitions(package: Path) -> dict[str, list[str]]:
    """Return the places (``file:line``) that define each public class, nested ones included."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(package).as_posix()}:{node.lineno}")
    return dict(found)


def test_each_public_class_name_is_defined_once() -> None:
    found = definitions(PACKAGE)
    assert len(found) > 100
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_a_second_definition_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.py").write_text("class Batch: ...\nclass _Own: ...\n", encoding="utf-8")
    (tmp_path / "inner" / "two.py").write_text(
        "class _Own: ...\n\n\ndef make():\n    class Batch: ...\n", encoding="utf-8"
    )
    assert definitions(tmp_path) == {"Batch": ["inner/two.py:5", "one.py:1"]}
