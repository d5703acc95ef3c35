"""Arguments and options shared by several commands, and helpers to parse them."""

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
"""A typer application with the same settings for all groups of commands."""


class LazyGroup(TyperGroup, ABC):
    """A group of commands that are imported only when they are used."""

    @abstractmethod
    def make(self, name: str) -> Callable[..., Any] | typer.Typer | None:
        """Return the function or the group of a command; None if there is none of that name."""

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
        help="The job's --storage, a folder or URI of all studies, or the URL of their database "
        "(default: $SENTUNE_STORAGE, else studies).",
        show_default=False,
    ),
]
Optuna = Annotated[
    str | None,
    Option(
        metavar="URL",
        envvar="SENTUNE_OPTUNA",
        show_envvar=False,
        help="The job's --optuna, if it had one (default: $SENTUNE_OPTUNA).",
    ),
]
Model = Annotated[
    str,
    Argument(
        help="A model folder or its URI, models:/NAME@champion, or an encoder of the Hub, hf:NAME."
    ),
]
TunedModel = Annotated[str, Argument(help="A model folder or its URI, or models:/NAME@champion.")]
Device = Annotated[
    str | None, Option(help="cpu, cuda, cuda:1, ...; default: a GPU if there is one.")
]
BatchSize = Annotated[int, Option(min=1, help="Sentences encoded together.")]
Encoder = Annotated[str, Option(metavar="NAME|PATH", help="Hugging Face encoder, or builtin:tiny.")]
Limit = Annotated[int | None, Option(min=1, help="Use at most this many rows of each corpus.")]
ReferenceCorpus = Annotated[
    str | None,
    Option(
        metavar="FORMAT:PATH",
        help="Corpus of the reference sentences for interpretations; default: those stored with "
        "the model, or the training corpus.",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Value of a setting, or grid of a readout (alpha_1=0.3,0.5). Repeatable.",
    ),
]
Prior = Annotated[
    str | None,
    Option(
        metavar="both=SHARE|balanced",
        help="Weight the pairs with several labels so that the class both has this share, or all "
        "classes equal shares, when readouts are chosen (evaluate, tune) or LINEAR is trained; "
        "default: no weights.",
    ),
]
Json = Annotated[Path | None, Option(help="Write {task: {metric: fraction}} to this file.")]


def look_here() -> None:
    """Make modules in the working folder importable, after all installed ones."""
    sys.path.append(str(Path.cwd()))


def key_and_value(
    option: str, text: str, fix: str, keys: Collection[str] | None = None
) -> tuple[str, str]:
    """Split an option's ``KEY=VALUE`` at the first equals sign.

    Raises:
        InvalidValue: a part is missing, or the key is not one of ``keys`` (None: all are allowed);
            its message ends with ``fix``.
    """
    key, _, value = text.partition("=")
    if not (key and value) or (keys is not None and key not in keys):
        raise InvalidValue(option, text, fix)
    return key, value


def check_port(host: str, port: int) -> None:
    """Raise ``InvalidValue`` if a port is in use, or not allowed, so that no server can listen, or
    if the host is unknown."""
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidValue("--host", host, f"its address is unknown ({error})") from error
    family, *_, address = known[0]
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        fix = f"give another one, or another --host ({error.strerror})"
        raise InvalidValue("--port", f"{host}:{port}", fix) from error
