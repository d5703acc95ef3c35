"""The scripts of ``benchmarks/`` and ``examples/``: their imports and arguments."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def required_arguments(file: Path) -> list[str]:
    """Return the calls of ``add_argument`` in a file that a command line without any fails at."""
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    found = []
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            positional = not ast.literal_eval(call.args[0]).startswith("-")
            named = {keyword.arg for keyword in call.keywords}
            if "required" in named or (positional and "nargs" not in named):
                found.append(ast.unparse(call))
    return found


def test_make_bench_needs_no_argument() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = sorted(set(re.findall(r"benchmarks/\w+\.py", recipe)))
    assert "benchmarks/kl_table.py" in files
    assert [call for file in files for call in required_arguments(ROOT / file)] == []
    assert required_arguments(ROOT / "benchmarks/rung_judgement.py"), "it has to be told where to"


def test_the_scripts_find_what_they_import() -> None:
    files = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")])
    modules = [f"{file.parent.name}.{file.stem}" for file in files if file.stem != "gpu_kernel"]
    assert len(modules) > 30
    program = f"import importlib\nfor name in {modules}: importlib.import_module(name)"
    env = os.environ | {"PYTHONPATH": f"{ROOT}/platform:{ROOT}:{ROOT}/benchmarks"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
