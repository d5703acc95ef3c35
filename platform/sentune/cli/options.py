"""Arguments and options that several commands have, and how KEY=VALUE is read."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from sentune.errors import InvalidValue

Group = partial(typer.Typer, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
"""Of commands."""


def lazy_group(
    names: Callable[[], Collection[str]],
    make: Callable[[str], Callable[..., Any] | typer.Typer],
    unlisted: Callable[[str], bool] = lambda name: False,
    summary: Callable[[str], str] | None = None,
) -> type[TyperGroup]:
    """Return the class of a group that makes a command when it is asked for.

    Args:
        names: of the commands, in the order of the help.
        make: returns a command's function, or a group, by its name.
        unlisted: whether a name that is not among them has a command too.
        summary: returns a command's line in the help by its name; without it, all are made.
    """

    class LazyGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [*names()]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if not unlisted(cmd_name) and cmd_name not in names():
                return None
            made = make(cmd_name)
            if not isinstance(made, typer.Typer):
                function, made = made, Group()
                made.command(cmd_name)(function)
            command = typer.main.get_command(made)
            command.name = cmd_name
            return command

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            if summary is None:
                return super().format_commands(ctx, formatter)
            with formatter.section("Commands"):
                formatter.write_dl([(name, summary(name)) for name in names()])
            return None

    return LazyGroup


def summary_in(module: str, function: str) -> str:
    """Return the first line of a function's docstring, without importing its module."""
    source = Path(str(find_spec(module).origin)).read_text(encoding="utf-8")  # type: ignore[union-attr]
    (found,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    return str(ast.get_docstring(found)).partition("\n")[0]


StudyName = Annotated[str, Argument(metavar="STUDY", help="Name of the study.")]
Storage = Annotated[
    str | None,
    Option(
        metavar="URI",
        help="Folder or URI of all studies, as the job's --storage, or the URL of their database "
        "(default: studies, or $SENTUNE_STORAGE).",
        show_default=False,
    ),
]
Optuna = Annotated[
    str | None,
    Option(
        metavar="URL",
        envvar="SENTUNE_OPTUNA",
        show_envvar=False,
        help="Their Optuna storage, where the job had --optuna (default: $SENTUNE_OPTUNA).",
    ),
]
Model = Annotated[
    str,
    Argument(
        help="A model folder or its URI, or models:/NAME@champion; or an encoder as it is, hf:NAME."
    ),
]
Device = Annotated[
    str | None, Option(help="cpu, cuda, cuda:1, ...; default: a GPU if there is one.")
]
BatchSize = Annotated[int, Option(min=1, help="Sentences encoded together.")]
Encoder = Annotated[str, Option(metavar="NAME|PATH", help="Hugging Face encoder, or builtin:tiny.")]
Limit = Annotated[int | None, Option(min=1, help="Rows of each corpus at most.")]
Json = Annotated[Path | None, Option(help="Write {task: {metric: fraction}} to this file.")]


def look_here() -> None:
    """Let a command name modules of the folder it is run in, after all that are installed."""
    sys.path.append(str(Path.cwd()))


def key_and_value(
    option: str, text: str, fix: str, keys: Collection[str] | None = None
) -> tuple[str, str]:
    """Return the two parts of ``KEY=VALUE``, split at the first equals sign.

    Args:
        option: that it was given to.
        fix: what the user may write instead.
        keys: that are allowed; None: any.

    Raises:
        InvalidValue: a part is missing, or the key is not allowed.
    """
    key, _, value = text.partition("=")
    if not (key and value) or (keys is not None and key not in keys):
        raise InvalidValue(option, text, fix)
    return key, value
