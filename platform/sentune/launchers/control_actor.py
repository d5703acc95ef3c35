"""The desk: where a driver leaves word for its trials, whichever launcher runs them.

Trials on a Ray Train group ask it at each milestone whether they go on, and leave by themselves: a
STOP from Tune on such a trial leaves its placement group and all its CPUs taken for as long as the
study runs (5 times in 5 on Ray 2.60, ray#54305). Every trial asks it about once a second whether it
is to write a checkpoint and leave.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentune.launchers.control_signal import Wish

LOOK_SECONDS = 1.0
"""How often the desk asks Ray which machines are being taken back, however many trials ask it."""


class JudgeActor:
    """Keeps verdicts until they are asked for, and makes whoever asks early wait."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, int], asyncio.Future[bool]] = {}
        self._obituaries: dict[str, dict[str, Any]] = {}
        self._departures: dict[str, tuple[int, bool]] = {}
        self._running: set[str] = set()
        self._resized: set[str] = set()
        self._leave = False
        self._draining: frozenset[str] = frozenset()
        self._looked = -LOOK_SECONDS

    def _future(self, trial: str, examples: int) -> asyncio.Future[bool]:
        made = asyncio.get_running_loop().create_future
        if (trial, examples) not in self._verdicts:
            self._verdicts[trial, examples] = made()
        return self._verdicts[trial, examples]

    async def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """The driver has heard of this milestone; the first verdict stands."""
        future = self._future(trial, examples)
        if not future.done():
            future.set_result(goes_on)

    async def verdict(self, trial: str, examples: int) -> bool:
        """Whether the trial goes on; returns once the driver has heard of the milestone."""
        return await self._future(trial, examples)

    async def bury(self, trial: str, result: dict[str, Any]) -> None:
        """A worker has met an error that would come again; the first one stands."""
        self._obituaries.setdefault(trial, result)

    async def obituary(self, trial: str) -> dict[str, Any] | None:
        """The error that a worker of this trial has met, as a result; it is then forgotten."""
        return self._obituaries.pop(trial, None)

    async def start(self, trial: str) -> None:
        """A group is about to start: it does not run yet, and nobody has asked it to grow."""
        self._running.discard(trial)
        self._resized.discard(trial)

    async def running(self, trial: str) -> bool:
        """Whether a trial's group has been heard since its last start."""
        return trial in self._running

    async def resize(self, trial: str) -> None:
        """From now on a trial's group is told to leave for a larger one."""
        self._resized.add(trial)

    async def depart(self, trial: str, examples: int, preempted: bool) -> None:
        """A group has left with a checkpoint: a machine that is being taken back, or to grow."""
        self._departures[trial] = examples, preempted

    async def departure(self, trial: str) -> tuple[int, bool] | None:
        """Where a group has left, in examples, and whether for a machine; it is then forgotten."""
        return self._departures.pop(trial, None)

    async def ask_to_leave(self) -> None:
        """From now on every trial is told to write a checkpoint and leave."""
        self._leave = True

    async def wish(self, node: str, trial: str = "") -> Wish:
        """What a trial on this machine is to do; without a name it is never asked to grow."""
        self._running.add(trial)
        if self._leave:
            return Wish.LEAVE
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            self._draining = await asyncio.to_thread(draining_nodes)
        if node in self._draining:
            return Wish.PREEMPTED
        return Wish.RESIZE if trial in self._resized else Wish.NONE


def draining_nodes() -> frozenset[str]:
    """Ids of the machines that are being taken back.

    Ray has no public call for it; Ray Train's own watcher makes this one.
    """
    return frozenset(ray._private.state.state.get_draining_nodes())


class RemoteJudge:
    """The desk as the driver speaks to it; its actor takes no CPU and ends with the driver.

    It stays on the driver's machine: another one may be taken away.
    """

    def __init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.actor = ray.remote(num_cpus=0, scheduling_strategy=here)(JudgeActor).remote()

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Passes a verdict on without waiting."""
        self.actor.put.remote(trial, examples, goes_on)

    def ask_to_leave(self) -> None:
        """Asks every trial to write a checkpoint and leave, without waiting."""
        self.actor.ask_to_leave.remote()

    def close(self) -> None:
        """Ends the actor; trials that still run go on without it."""
        ray.kill(self.actor)
