"""The command ``sentune``; a subcommand's module is imported only when it is used."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from sentune import __version__
from sentune.cli.options import Group, LazyGroup
from sentune.errors import SentuneError
from sentune.lazy_import import collect_rarely
from sentune.terminal import harmless

MODULES = {
    "tune": "tune",
    "train": "train",
    "evaluate": "evaluate",
    "encode": "model",
    "index": "model",
    "search": "model",
    "interpret": "model",
    "fuse": "operations",
    "difference": "operations",
    "compress": "operations",
    "reconstruct": "operations",
    "compose": "operations",
    "linear": "train",
    "serve": "model",
    "dashboard": "dashboard",
    "report": "report",
    "compare": "report",
    "verify": "report",
    "push": "model",
    "cluster": "cluster",
    "corpora": "corpora",
    "study": "study",
    "paper": "paper",
}
"""Command or group of commands -> module of this package, which has its function or ``app``."""


def _imported(name: str) -> Any:
    module = import_module(f"{__name__}.{MODULES[name]}")
    return getattr(module, "app", None) or getattr(module, name)


def _summary(name: str) -> str:
    """Return the first line of a command's docstring, without importing its module."""
    source = Path(__file__).with_name(f"{MODULES[name]}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    texts = {function.name: ast.get_docstring(function) for function in functions}
    return str(texts[name]).partition("\n")[0]


class Commands(LazyGroup):
    """The commands in ``MODULES``, in the same order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*MODULES]

    def make(self, name: str) -> Any:
        return _imported(name) if name in MODULES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in MODULES])


app = Group(cls=Commands)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sentune {__version__}\n")
        raise Exit


@app.callback()
def sentune(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tune sentence-embedding methods and use the resulting models."""


def main() -> None:
    """Run the command line; print a ``SentuneError`` as one line and exit with code 2."""
    collect_rarely()
    try:
        app()
    except SentuneError as error:
        sys.stderr.write(harmless("sentune: " + " ".join(str(error).split())) + "\n")
        raise SystemExit(2) from None
