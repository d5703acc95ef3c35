"""Output to a terminal, without control characters and credentials."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from sentune.credentials import without_credentials

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_LEFT_OUT = {code: None for code in (*_CONTROLS, *_TURNS) if chr(code) not in "\n\t"}
"""C0 and C1 controls, escape among them, and the signs that turn the order of letters around."""


def harmless(text: str) -> str:
    """Return the text without control characters; line breaks and tabs stay.

    A sentence, a setting or a reason may come from a file or a database that others write, and a
    terminal obeys what begins with an escape.
    """
    return text.translate(_LEFT_OUT)


def shown(text: str) -> str:
    """Return the text as it may be printed: harmless, and without the credentials of a URI."""
    return harmless(str(without_credentials(text)))


class Terminal(Console):
    """A console whose texts are ``shown``, and have no markup; only its own styles escape.

    A table's text is cleaned line by line after wrapping, so the credentials of an error message
    must be removed before it goes into a table.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, **options})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As ``rich`` renders it; what a text holds has no width there, so columns stay."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else shown(segment.text)
            yield Segment(text, segment.style, segment.control)


def screen() -> Terminal:
    """Return the terminal; where there is none (a job's log), tables are 120 characters wide."""
    console = Terminal()
    return console if console.is_terminal else Terminal(width=120)


def plain_table(*columns: str | Column, **style: Any) -> Table:
    """Return a table without lines, two blanks between its columns, its title on the left."""
    plain = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    return Table(*columns, **{**plain, "title_justify": "left", "title_style": "bold", **style})


def number_column(title: str, **style: Any) -> Column:
    """Return a column of numbers: flush right, never wrapped."""
    return Column(title, **{"justify": "right", "no_wrap": True, **style})


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print one line without markup and never wrapped: paths and line numbers stay whole."""
    console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)


def say(text: object) -> None:
    """Print one harmless line on the standard output."""
    typer.echo(shown(str(text)))
