"""The control actor: carries verdicts and requests to leave from the driver to its trials.

Trials on a Ray Train group ask it at each milestone whether they go on, and leave by themselves: a
STOP from Tune on such a trial leaves its placement group and all its CPUs taken for as long as the
study runs (5 times in 5 on Ray 2.60, ray#54305). Every trial asks it about once a second whether it
is to write a checkpoint and leave.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentune.launchers.ray_internals import draining_nodes

if TYPE_CHECKING:
    from sentune.training.group import Group

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often the actor asks Ray which machines are being taken back, however many trials ask it."""

POLL_SECONDS = 1.0
"""How often a trial asks the actor."""

ANSWER_SECONDS = 10.0
"""How long an answer may take before the actor is asked again."""


class ControlSignal(StrEnum):
    """What a trial is to do between two steps."""

    NONE = ""
    LEAVE = "leave"
    PREEMPTED = "preempted"
    RESIZE = "resize"


Ask = Callable[[], ControlSignal]
"""Called on every worker of a group between two steps; all of them get the same answer."""


def no_signal() -> ControlSignal:
    """Return ``NONE``, where there is no control actor."""
    return ControlSignal.NONE


class ControlActor:
    """Keeps the messages between the driver and the workers of each trial."""

    def __init__(self) -> None:
        self._verdicts: defaultdict[str, dict[int, asyncio.Future[bool]]] = defaultdict(dict)
        self._failures: dict[str, dict[str, Any]] = {}
        self._departures: dict[str, tuple[int, bool]] = {}
        self._running: set[str] = set()
        self._resized: set[str] = set()
        self._leave = False
        self._draining: frozenset[str] = frozenset()
        self._looked = -LOOK_SECONDS

    async def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Set the verdict at a milestone that has reached the driver; the first one stands.

        Those of earlier milestones go: all workers of a group have had them by the next one.
        """
        future = self._future(trial, examples)
        if not future.done():
            future.set_result(goes_on)
        for earlier in [at for at in self._verdicts[trial] if at < examples]:
            del self._verdicts[trial][earlier]

    async def verdict(self, trial: str, examples: int) -> bool:
        """Return whether the trial goes on, once the milestone has reached the driver."""
        return await self._future(trial, examples)

    def _future(self, trial: str, examples: int) -> asyncio.Future[bool]:
        if examples not in self._verdicts[trial]:
            self._verdicts[trial][examples] = asyncio.get_running_loop().create_future()
        return self._verdicts[trial][examples]

    async def forget(self, trial: str) -> None:
        """Drop all that is kept for a trial whose run has ended."""
        for kept in (self._verdicts, self._failures, self._departures):
            kept.pop(trial, None)
        await self.start(trial)

    async def record_failure(self, trial: str, result: dict[str, Any]) -> None:
        """Keep the error of a worker that would come again, as a result; the first one stands."""
        self._failures.setdefault(trial, result)

    async def take_failure(self, trial: str) -> dict[str, Any] | None:
        """Return the recorded error of a trial's worker, and forget it."""
        return self._failures.pop(trial, None)

    async def start(self, trial: str) -> None:
        """Note that a group is about to start: not running yet, and not asked to grow."""
        self._running.discard(trial)
        self._resized.discard(trial)

    async def running(self, trial: str) -> bool:
        """Return whether a trial's group has asked for a signal since its last start."""
        return trial in self._running

    async def resize(self, trial: str) -> None:
        """Tell a trial's group, from now on, to leave for a larger one."""
        self._resized.add(trial)

    async def record_departure(self, trial: str, examples: int, preempted: bool) -> None:
        """Keep where a group has left with a checkpoint, and whether its machine was taken back."""
        self._departures[trial] = examples, preempted

    async def take_departure(self, trial: str) -> tuple[int, bool] | None:
        """Return what was recorded when a group left (examples, preempted), and forget it."""
        return self._departures.pop(trial, None)

    async def ask_to_leave(self) -> None:
        """Tell every trial, from now on, to write a checkpoint and leave."""
        self._leave = True

    async def signal(self, node: str, trial: str = "") -> ControlSignal:
        """Return what a trial on this node is to do; without a name it is never asked to grow."""
        if trial:
            self._running.add(trial)
        if self._leave:
            return ControlSignal.LEAVE
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            self._draining = await asyncio.to_thread(draining_nodes)
        if node in self._draining:
            return ControlSignal.PREEMPTED
        return ControlSignal.RESIZE if trial in self._resized else ControlSignal.NONE


class ControlClient:
    """The driver's calls to the ``ControlActor``, which takes no CPU; none of them waits.

    The actor stays on the driver's machine, as another one may be taken away.
    """

    def __init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.actor = ray.remote(num_cpus=0, scheduling_strategy=here)(ControlActor).remote()

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        self.actor.put.remote(trial, examples, goes_on)

    def forget(self, trial: str) -> None:
        self.actor.forget.remote(trial)

    def ask_to_leave(self) -> None:
        self.actor.ask_to_leave.remote()

    def close(self) -> None:
        """End the actor; trials that still run go on without it."""
        ray.kill(self.actor)


@contextmanager
def listening(control: Any, trial: str = "") -> Iterator[Ask]:
    """Yield what returns the control actor's newest answer; a thread asks for it.

    Training never waits for the actor or fails with it.

    Args:
        control: the control actor.
        trial: whose group this is, where it may be asked to become larger.
    """
    node, over = ray.get_runtime_context().get_node_id(), threading.Event()
    newest = ControlSignal.NONE

    def listen() -> None:
        nonlocal newest
        while not over.wait(POLL_SECONDS):
            try:
                newest = ray.get(control.signal.remote(node, trial), timeout=ANSWER_SECONDS)
            except ray.exceptions.GetTimeoutError:
                continue  # a busy machine
            except ray.exceptions.RayError as error:
                logger.warning("the control actor is gone, it asks no trial to leave: %s", error)
                return

    threading.Thread(target=listen, name="control-signal", daemon=True).start()
    try:
        yield lambda: newest
    finally:
        over.set()


def group_signal(group: Group, ask: Ask) -> Ask:
    """Return what asks for a Ray Train group: all its workers act at the same step.

    Ray Train knows when any of the group's machines is being taken back. Its call for it is a
    barrier of all workers through an actor, so the first worker decides, about once a second, that
    all of them make it.

    Args:
        ask: of the first worker; the others' answers do not count.
    """
    signals, look = tuple(ControlSignal), len(ControlSignal)
    looked = time.monotonic()

    def signal() -> ControlSignal:
        nonlocal looked
        own = ask()
        number = signals.index(own)
        if own is ControlSignal.NONE and time.monotonic() - looked >= POLL_SECONDS:
            looked, number = time.monotonic(), look
        agreed = group.agree(number)
        if agreed != look:
            return signals[agreed]

        from ray import train  # with torch, which the control actor does without

        preempted = train.get_preemption_info() is not None
        return ControlSignal.PREEMPTED if preempted else ControlSignal.NONE

    return signal
