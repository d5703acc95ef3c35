"""``sentune study show --watch``: the study's screen, redrawn until the study ends."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sentune.cli.study_tables import study_screen
from sentune.study.store.study_view import StudyView

SECONDS = 2.0
"""Between two drawings."""


def watch(view: StudyView, console: Console, rows: int) -> None:
    """Draw the study's screen until it has no driver or the user presses q."""
    if not console.is_terminal:
        while (study := view.snapshot()).alive:
            time.sleep(SECONDS)
        console.print(study_screen(study, console.width, rows))
        return
    with keys() as pressed, Live(console=console, auto_refresh=False) as live:
        alive, left = True, False
        while alive and not left:
            study = view.snapshot()
            alive, fits = study.alive, max(3, min(rows, console.height - 18))
            screen = study_screen(study, console.width, fits)
            if alive:
                screen.renderables.append(Text("q leaves; the study goes on", "dim"))
            live.update(screen, refresh=True)
            left = alive and pressed(SECONDS)


@contextmanager
def keys() -> Iterator[Callable[[float], bool]]:
    """While open, keys arrive without Enter.

    Yields:
        Waits for so many seconds, and returns whether q or Ctrl-C was pressed meanwhile.
    """
    if not sys.stdin.isatty():
        yield partial(_pressed, typed=False)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(seconds: float, *, typed: bool = True) -> bool:
    """Wait; ``typed``: for keys, too."""
    try:
        ready, _, _ = select.select([sys.stdin] if typed else [], [], [], seconds)
        # all that was typed, past Python's buffer, in which select would not see the rest
        keys = os.read(sys.stdin.fileno(), 1024) if ready else b"-"
        return not keys or b"q" in keys.lower()
    except KeyboardInterrupt:
        return True
