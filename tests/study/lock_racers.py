"""Drivers in processes of their own, for tests that race, stop and kill them."""

from __future__ import annotations

import os
import time
from typing import Any

from sentune.errors import StudyConflict
from sentune.study.store.driver_lock import DriverLock


def race(url: str, rounds: int, barrier: Any, won: Any) -> None:
    """Try for the same lock in every round, at the same moment as the others."""
    for number in range(rounds):
        lock = DriverLock(url, "raced", beat=0.02)
        barrier.wait()
        try:
            lock.acquire()
            won.put(number)
        except StudyConflict:
            won.put(None)
        barrier.wait()  # the winner holds it until everybody has tried
        lock.release()


def hold(url: str, study: str, ready: Any, *, forks: bool = False) -> None:
    """Hold a lock for ever, with two forked children if asked: one that ends, one that stays."""
    DriverLock(url, study, beat=0.02).acquire()
    children = [os.getpid()]
    for seconds in (0.0, 3600.0) if forks else ():
        child = os.fork()
        if child == 0:
            time.sleep(seconds)
            raise SystemExit  # with all that Python closes at an end
        children.append(child)
    if forks:
        os.waitpid(children[1], 0)
    ready.put(children)
    time.sleep(3600)
