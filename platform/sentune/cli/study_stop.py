"""``sentune study stop``: asks the driver through its lease, and waits until it has left."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from sentune.study.store.driver_lock import EXPIRY, ask
from sentune.study.store.holders import Holder, holder
from sentune.study.store.study_view import StudyView

POLL = 0.5


def stop(
    view: StudyView,
    console: Console,
    *,
    now: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Says who was asked, and how it ended."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    name, storage = view.place.name, view.storage
    asked = ask(storage, name, "stop now" if now else "stop") if storage else None
    if storage is None or asked is None:
        overview = view.snapshot()
        reason = f" ({overview.reason})" if overview.reason else ""
        say(f"nobody drives {name}: it is {overview.state}{reason}")
        return
    how = "at once" if now else "after its trials have written checkpoints"
    say(f"asked {asked.driver} to stop {name} {how}; waiting (Ctrl-C leaves, the request stays)")
    left = _await(lambda: holder(storage, name), asked, sleep)
    if left is not None:
        say(left)
        return
    overview = view.snapshot()
    reason = f" ({overview.reason})" if overview.reason else ""
    say(f"{name} is {overview.state}{reason}; {overview.ended:,} trials have ended")
    if overview.state != "complete":
        say(f"go on with: sentune study resume {name}")


def _await(
    look: Callable[[], Holder | None], asked: Holder, sleep: Callable[[float], None]
) -> str | None:
    """None once it has left; else why there is nothing to wait for."""
    while True:
        found = look()
        if found is None:
            return None
        if found.token != asked.token:
            return f"it has left, and {found} drives the study now"
        if found.gone:
            return f"{found.driver} has died; the next start takes the study over at once"
        if found.quiet > EXPIRY:
            return (
                f"{found.driver} has not been heard of for {found.quiet:.0f} s; if its machine is "
                "dead, the next start takes the study over"
            )
        sleep(POLL)
