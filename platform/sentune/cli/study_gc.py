"""``sentune study gc``: removes what studies without a driver no longer need."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.filesize import decimal

from sentune.study.runner.retention import Removable, abandoned_scratch, removable_of
from sentune.study.store.driver_lock import DriverLock, standing
from sentune.study.store.study_view import StudyView
from sentune.terminal import print_line


def collect(views: Sequence[StudyView], console: Console, *, dry_run: bool) -> None:
    """Remove what can go and print a line for each study and kind; a driven study keeps all."""
    say = partial(print_line, console)
    total = 0
    for view in views:
        name = view.place.name
        url = view.place.url
        held = standing(url, name).holder if url else None
        if not url or not view.place.folder:
            say(f"{name}: left alone, its folder or its database is not known")
        elif held is not None and not held.gone:
            say(f"{name}: left alone, it is driven by {held}")
        elif dry_run:
            total += _tell(name, removable_of(view), say)
        else:
            with DriverLock(url, name, counted=False):
                found = removable_of(view)
                for one in found:
                    one.drop()
            total += _tell(name, found, say)
    for path in [] if dry_run else abandoned_scratch():
        shutil.rmtree(path)
        say(f"{path}: scratch of a driver that was killed")
    say(f"{decimal(total)} {'could be freed' if dry_run else 'freed'}")


def _tell(name: str, found: Sequence[Removable], say: Callable[[str], None]) -> int:
    """Says what there was of each kind; its bytes."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for one in found:
        kinds[one.why].append(one.bytes)
    for why, sizes in kinds.items():
        say(f"{name}: {why}: {len(sizes):,}, {decimal(sum(sizes))}")
    return sum(one.bytes for one in found)
