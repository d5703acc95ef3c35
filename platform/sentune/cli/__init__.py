"""The command ``sentune``. A command is imported when it is asked for, and what it needs later."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from sentune.errors import SentuneError
from sentune.terminal import harmless

MODULES = {
    "train": "train",
    "evaluate": "model",
    "encode": "model",
    "interpret": "interpret",
    "fuse": "operations",
    "difference": "operations",
    "compress": "operations",
    "reconstruct": "operations",
    "compose": "operations",
    "linear": "linear",
    "dashboard": "dashboard",
    "report": "report",
    "cluster": "cluster",
    "corpora": "corpora",
    "study": "study",
}
"""Command, or group of commands -> module of this package, whose function or ``app`` it is."""


class LazyGroup(TyperGroup):
    """Imports the module of the command that is asked for; all of them for the list."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which the help has them."""
        del ctx
        return [*MODULES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; None where there is none of that name."""
        del ctx
        if cmd_name not in MODULES:
            return None
        module = import_module(f"{__name__}.{MODULES[cmd_name]}")
        made = getattr(module, "app", None)
        if made is None:
            made = typer.Typer(add_completion=False, rich_markup_mode=None)
            made.command(cmd_name)(getattr(module, cmd_name))
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def sentune() -> None:
    """Tunes sentence-embedding methods, and uses what was tuned."""


def main() -> None:
    """Runs the command line; what a user did wrong is one line and exit code 2."""
    try:
        app()
    except SentuneError as error:
        sys.stderr.write(harmless("sentune: " + " ".join(str(error).split())) + "\n")
        raise SystemExit(2) from None
