"""The command ``sentune``. A command is imported when it is asked for, PyTorch when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from sentune.cli.options import Group
from sentune.errors import SentuneError
from sentune.terminal import harmless

MODULES = {
    "tune": "tune",
    "train": "train",
    "evaluate": "evaluate",
    "encode": "encode",
    "interpret": "interpret",
    "fuse": "operations",
    "difference": "operations",
    "compress": "operations",
    "reconstruct": "operations",
    "compose": "operations",
    "linear": "linear",
    "dashboard": "dashboard",
    "report": "report",
    "verify": "verify",
    "cluster": "cluster",
    "corpora": "corpora",
    "study": "study",
}
"""Command, or group of commands -> module of this package, whose function or ``app`` it is."""


class LazyGroup(TyperGroup):
    """Imports the module of the command that is asked for; all of them for the list."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order in which the help has them."""
        return [*MODULES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command; None where there is none of that name."""
        if cmd_name not in MODULES:
            return None
        module = import_module(f"{__name__}.{MODULES[cmd_name]}")
        made = getattr(module, "app", None)
        if made is None:
            made = Group()
            made.command(cmd_name)(getattr(module, cmd_name))
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command


app = Group(cls=LazyGroup)


@app.callback()
def sentune() -> None:
    """Tunes sentence-embedding methods, and uses what was tuned."""


def main() -> None:
    """Run the command line; what a user did wrong is one line and exit code 2."""
    try:
        app()
    except SentuneError as error:
        sys.stderr.write(harmless("sentune: " + " ".join(str(error).split())) + "\n")
        raise SystemExit(2) from None
