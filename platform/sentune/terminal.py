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
"""C0 and C1 controls, including escape, and characters that change the direction of text."""


def harmless(text: str) -> str:
    """Remove control characters, except line breaks and tabs, from a text.

    Sentences, settings and reasons may come from files or databases that others can write, and a
    terminal would execute their escape sequences.
    """
    return text.translate(_LEFT_OUT)


def shown(text: str) -> str:
    """Remove control characters and credentials from a text to be printed."""
    return harmless(str(without_credentials(text)))


class Terminal(Console):
    """A console without markup and emoji codes that applies ``shown`` to all texts.

    Texts in a table are processed line by line, after wrapping, so credentials must be removed
    before a text is put into a table.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as ``rich`` does; removed control characters have no width, so columns align."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else shown(segment.text)
            yield Segment(text, segment.style, segment.control)


def screen() -> Terminal:
    """Return a console for the terminal, or one of 120 columns if there is none (a job's log)."""
    console = Terminal()
    return console if console.is_terminal else Terminal(width=120)


def plain_table(*columns: str | Column, **style: Any) -> Table:
    """Return a table without lines, with two spaces between columns and the title on the left."""
    plain = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    return Table(*columns, **{**plain, "title_justify": "left", "title_style": "bold", **style})


def number_column(title: str, **style: Any) -> Column:
    """Return a column of numbers, right-aligned and never wrapped."""
    return Column(title, **{"justify": "right", "no_wrap": True, **style})


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line without markup and without wrapping, so that paths are not broken."""
    console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)


def say(text: object) -> None:
    """Print a line, without control characters and credentials, on standard output."""
    typer.echo(shown(str(text)))
