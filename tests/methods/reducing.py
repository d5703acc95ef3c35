"""Workers of one pass as threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


class ThreadReducer:
    """A ``Reducer`` among threads; all of a pass share ``slots`` and ``met``."""

    def __init__(self, rank: int, slots: list[Any], met: threading.Barrier) -> None:
        self._rank, self._slots, self._met = rank, slots, met

    def collect(self, value: Any) -> list[Any]:
        self._slots[self._rank] = value
        self._met.wait()
        found = list(self._slots)
        self._met.wait()
        return found

    def add_up(self, array: np.ndarray) -> None:
        array[...] = sum(self.collect(array.copy()))


def all_reduce(parts: Sequence[Any]) -> None:
    """Calls ``all_reduce`` of each worker's statistics, all at once."""
    slots, met = [None] * len(parts), threading.Barrier(len(parts), timeout=60)
    with ThreadPoolExecutor(len(parts)) as pool:
        calls = [
            pool.submit(part.all_reduce, ThreadReducer(rank, slots, met))
            for rank, part in enumerate(parts)
        ]
        for call in calls:
            call.result()
