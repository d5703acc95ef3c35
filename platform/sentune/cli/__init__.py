"""The command ``sentune``. A command is imported when it is asked for, PyTorch when it runs."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from typing import Annotated, Any

from typer import Exit, Option

from sentune.cli.options import Group, lazy_group, summary_in
from sentune.errors import SentuneError
from sentune.terminal import harmless

MODULES = {
    "tune": "tune",
    "train": "train",
    "evaluate": "evaluate",
    "encode": "encode",
    "index": "encode",
    "search": "encode",
    "interpret": "interpret",
    "fuse": "operations",
    "difference": "operations",
    "compress": "operations",
    "reconstruct": "operations",
    "compose": "operations",
    "linear": "linear",
    "serve": "serve",
    "dashboard": "dashboard",
    "report": "report",
    "compare": "compare",
    "verify": "verify",
    "push": "push",
    "cluster": "cluster",
    "corpora": "corpora",
    "study": "study",
    "paper": "paper",
}
"""Command, or group of commands -> module of this package, whose function or ``app`` it is."""


def _imported(name: str) -> Any:
    module = import_module(f"{__name__}.{MODULES[name]}")
    return getattr(module, "app", None) or getattr(module, name)


def _summary(name: str) -> str:
    return summary_in(f"{__name__}.{MODULES[name]}", name)


app = Group(cls=lazy_group(lambda: MODULES, _imported, summary=_summary))


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sentune {metadata.version('sentune')}\n")
        raise Exit


@app.callback()
def sentune(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tunes sentence-embedding methods, and uses what was tuned."""


def main() -> None:
    """Run the command line; what a user did wrong is one line and exit code 2."""
    try:
        app()
    except SentuneError as error:
        sys.stderr.write(harmless("sentune: " + " ".join(str(error).split())) + "\n")
        raise SystemExit(2) from None
