"""Arguments and options that several commands have, and how KEY=VALUE is read."""

from __future__ import annotations

import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from sentune.errors import InvalidValue

Group = partial(typer.Typer, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
"""Of commands."""


class LazyGroup(TyperGroup, ABC):
    """A group that makes a command when it is asked for."""

    @abstractmethod
    def make(self, name: str) -> Callable[..., Any] | typer.Typer | None:
        """Return a command's function, or a group; None where there is none of that name."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        made = self.make(cmd_name)
        if made is None:
            return None
        if not isinstance(made, typer.Typer):
            function, made = made, Group()
            made.command(cmd_name)(function)
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command


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
ReferenceCorpus = Annotated[
    str | None,
    Option(
        metavar="FORMAT:PATH",
        help="Corpus of the reference sentences of interpretations; default: those that are stored "
        "with a model, or the training corpus.",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting's value, or a readout's grid (alpha_1=0.3,0.5). Repeatable.",
    ),
]
Prior = Annotated[
    str | None,
    Option(
        metavar="both=SHARE|balanced",
        help="Weight the pairs of several labels to this share of the class both, or all classes "
        "alike, where readouts are chosen (evaluate, tune) or LINEAR is trained; default: as "
        "they are.",
    ),
]
Json = Annotated[Path | None, Option(help="Write {task: {metric: fraction}} to this file.")]


def look_here() -> None:
    """Let a command name modules of the folder it is run in, after all that are installed."""
    sys.path.append(str(Path.cwd()))


def key_and_value(
    option: str, text: str, fix: str, keys: Collection[str] | None = None
) -> tuple[str, str]:
    """Return the two parts of an option's ``KEY=VALUE``, split at the first equals sign.

    Raises:
        InvalidValue: a part is missing, or the key is none of ``keys``; ends with the fix.
    """
    key, _, value = text.partition("=")
    if not (key and value) or (keys is not None and key not in keys):
        raise InvalidValue(option, text, fix)
    return key, value


def check_port(host: str, port: int) -> None:
    """Check that nothing listens on a port yet.

    Raises:
        InvalidValue: it cannot be listened on.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            fix = f"it cannot be listened on ({error.strerror}); give another one"
            raise InvalidValue("--port", f"{host}:{port}", fix) from error
