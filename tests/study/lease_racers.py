"""Drivers in processes of their own, for tests that race and kill them."""

from __future__ import annotations

import time
from typing import Any

from sentune.errors import StudyConflict
from sentune.study.store.driver_lock import Lease
from sentune.study.store.storage import open_storage


def race(url: str, rounds: int, barrier: Any, won: Any) -> None:
    """Tries for the same lease in every round, at the same moment as the others."""
    storage = open_storage(url)
    for number in range(rounds):
        lease = Lease(storage, "raced", beat=0.02, expiry=300)
        barrier.wait()
        try:
            lease.acquire()
            won.put(number)
        except StudyConflict:
            won.put(None)
        barrier.wait()  # the winner holds it until everybody has tried
        lease.release()


def hold(url: str, study: str, ready: Any) -> None:
    """Holds a lease for ever."""
    lease = Lease(open_storage(url), study, beat=0.02).acquire()
    ready.put(lease.table.read(study).driver)
    time.sleep(3600)
