"""Drivers on a clock of their own, and in processes that tests race, stop and kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sentune.errors import StudyConflict
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.driver_process import Driver

FOREIGN = Driver(
    user="ada", host="alpha", pid=4711, started="1", boot="another boot", namespace="pid:[1]"
)
REAL = 0.05 if "SENTUNE_POSTGRES" in os.environ else 0.0


@dataclass
class Clock:
    """Time that passes only where somebody waits; each wait may do something first.

    Over a server a twentieth of a second of a wait is real, and so all of a wait for the lock: the
    server frees it some time after it was told to end the session of its holder.
    """

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.meanwhile()
        time.sleep(min(seconds, REAL))
        self.waits.append(seconds)
        self.now += seconds


def still(url: str, clock: Clock, study: str = "study", **given: Any) -> DriverLock:
    """A lock whose thread sleeps: what it does, the test asks for."""
    return DriverLock(url, study, beat=2000.0, clock=clock, sleep=clock.sleep, **given)


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
