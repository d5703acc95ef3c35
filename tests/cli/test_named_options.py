"""Every option that a message, a help text or a docstring names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import sentune
from sentune.cli import app
from sentune.errors import option_name
from sentune.job.families import FAMILIES
from sentune.job.options import StudyOptions

OTHERS = {
    "git": "abbrev-ref porcelain untracked-files no-optional-locks",
    "mlflow": "allowed-hosts backend-store-uri cors-allowed-origins default-artifact-root "
    "experiment-id no-serve-artifacts uvicorn-opts x-frame-options",
    "ray": "dashboard-host generate node-ip num-gpus restart-only working-dir",
    "uvicorn": "host log-level",
    "credentials": "api-key",
}
"""Program -> options that are its own."""


def of_commands(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for name in getattr(command, "list_commands", lambda context: ())(None):
        yield from of_commands(command.get_command(None, name))


def of_jobs(options: type[StudyOptions] = StudyOptions) -> Iterator[str]:
    yield from map(option_name, options.model_fields)
    for kind in options.__subclasses__():
        yield from of_jobs(kind)


def test_every_option_that_is_named_exists() -> None:
    assert FAMILIES
    there = {*of_commands(typer.main.get_command(app)), *of_jobs(), "--quick", "--help"}
    there |= {f"--{name}" for names in OTHERS.values() for name in names.split()}
    assert "--bad-rows" in there
    missing = set()
    for file in Path(sentune.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]", node.value)
                missing |= {(option, file.name) for option in named if option not in there}
    assert not missing
