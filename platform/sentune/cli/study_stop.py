"""``sentune study stop``: asks the driver by its lock's record, and waits until it has left."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from rich.console import Console

from sentune.study.store.driver_lock import Holder, ask, standing
from sentune.study.store.driver_process import ProcessState
from sentune.study.store.study_view import StudySnapshot, StudyView
from sentune.terminal import print_line

POLL = 0.5


def stop(
    view: StudyView,
    console: Console,
    *,
    now: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Ask the study's driver to stop, and print how that ended."""
    say = partial(print_line, console)
    name, url = view.place.name, view.place.url
    asked = ask(url, name, "stop now" if now else "stop")
    if asked is None:
        overview, reason = _state(view)
        say(f"no driver runs {name}: it is {overview.state}{reason}")
        return
    how = "at once" if now else "after its trials have written checkpoints"
    say(f"asked {asked.driver} to stop {name} {how}; waiting (Ctrl-C leaves, the request stays)")
    left = _await(lambda: standing(url, name).holder, asked, sleep)
    if left:
        say(left)
        return
    overview, reason = _state(view)
    say(f"{name} is {overview.state}{reason}; {overview.ended:,} trials have ended")
    if overview.state != "complete":
        say(f"go on with: sentune study resume {name}")


def _state(view: StudyView) -> tuple[StudySnapshot, str]:
    """Return a snapshot of the study and its reason in parentheses, empty where it has none."""
    overview = view.snapshot()
    return overview, f" ({overview.reason})" if overview.reason else ""


def _await(look: Callable[[], Holder | None], asked: Holder, sleep: Callable[[float], None]) -> str:
    """Return what ended the waiting; empty once the driver has left."""
    while (found := look()) is not None:
        if found.generation != asked.generation:
            return f"it has left, and {found} drives the study now"
        if found.gone:
            return f"{found.driver} has died; the next start takes the study over at once"
        if found.state is ProcessState.SUSPENDED:
            return f"{found.driver} is suspended: wake it or kill it; the request stays"
        if found.state is ProcessState.UNKNOWN:
            return (
                f"{found.driver} has not been heard of for {found.quiet:.0f} s; if its machine is "
                "dead, `sentune study release` frees the study"
            )
        sleep(POLL)
    return ""
