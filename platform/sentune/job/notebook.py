"""Output of a job in a notebook: plain lines, and below them a table that is updated in place."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType

from sentune.beats import repeated
from sentune.terminal import Terminal, screen

WIDTH = 100
SECONDS = 1.0
"""Time between two updates of a cell's output."""

_BLOCK = '<pre style="white-space:pre;overflow-x:auto;line-height:1.3">{code}</pre>'


class NotebookCell(Terminal):
    """The output of a notebook's cell; ``rich.live`` would need ipywidgets there."""

    def __init__(self) -> None:
        super().__init__(force_jupyter=False, width=WIDTH)

    @contextmanager
    def following(self, draw: Callable[[], RenderableType]) -> Iterator[None]:
        """Show the result of ``draw`` while the context is open, and update it when it changes."""
        from IPython.display import display

        shown = _rendered(draw())
        place = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]

        def update() -> None:
            nonlocal shown
            if (new := _rendered(draw())) != shown:
                shown = new
                place.update(shown, raw=True)

        with repeated(update, SECONDS, "sentune-cell"):
            yield
        update()


def output() -> Terminal:
    """Return the console that a job prints on: a terminal, a log, or a notebook's cell."""
    if not Console().is_jupyter:
        return screen()
    silence_widget_warnings()
    return NotebookCell()


def silence_widget_warnings() -> None:
    """Silence the warnings of tqdm and Ray that ipywidgets is missing, which nothing here needs."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)


def _rendered(renderable: RenderableType) -> dict[str, Any]:
    """Return a renderable as HTML and as text, keyed by MIME type."""
    page = Terminal(file=io.StringIO(), record=True, force_jupyter=False, width=WIDTH)
    page.print(renderable)
    html = page.export_html(inline_styles=True, code_format=_BLOCK, clear=False)
    return {"text/html": html, "text/plain": page.export_text()}
