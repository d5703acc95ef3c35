"""Control actor: passes verdicts and signals from the driver to its trials, and beats back.

Trials on a Ray Train group ask it at each milestone whether they continue, and end by themselves. A
STOP from Tune would leave the placement group of such a trial, and all its CPUs, reserved until the
study ends (5 times in 5 on Ray 2.60, ray#54305). Every trial asks about once a second whether it
must write a checkpoint and leave, and sends its newest beat.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentune import beats
from sentune.beats import Beat
from sentune.errors import SentuneError
from sentune.io.waits import WAITS
from sentune.launchers.ray_internals import draining_nodes

if TYPE_CHECKING:
    from sentune.launchers.trial_report import Report
    from sentune.training.group import Group

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between the actor's questions to Ray which machines are being drained."""

POLL_SECONDS = 1.0
"""Seconds between a trial's questions to the actor."""

BEAT_SECONDS = 2.0
"""Seconds between the driver's questions for the beats of its trials."""

ANSWER_SECONDS = 10.0
"""Seconds that an answer may take before the actor is asked again."""


class ControlSignal(StrEnum):
    """What a trial must do between two steps."""

    NONE = ""
    LEAVE = "leave"
    PREEMPTED = "preempted"
    RESIZE = "resize"


Ask = Callable[[], ControlSignal]
"""Function that every worker of a group calls between two steps; all get the same answer."""


def no_signal() -> ControlSignal:
    """Return ``NONE``; used without a control actor."""
    return ControlSignal.NONE


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker of a trial's Ray Train group.

    Attributes:
        node: IP address of its machine.
        actor: handle of its process.
        group: placement group of the trial.
    """

    rank: int
    node: str
    pid: int
    actor: ray.actor.ActorHandle
    group: PlacementGroup | None


class ControlActor:
    """Actor that keeps the messages between the driver and the workers of each trial."""

    def __init__(self) -> None:
        self._verdicts: defaultdict[str, defaultdict[int, asyncio.Future[bool]]] = defaultdict(
            lambda: defaultdict(asyncio.Future)
        )
        self._ends: dict[str, Report] = {}
        self._beats: dict[str, Beat] = {}
        self._workers: defaultdict[str, dict[int, Worker]] = defaultdict(dict)
        self._resized: set[str] = set()
        self._leave = False
        self._draining: frozenset[str] = frozenset()
        self._looked = -LOOK_SECONDS

    async def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Set the verdict at a milestone; only the first call for a milestone counts.

        Verdicts at earlier milestones are dropped, since all workers of the group have them.
        """
        verdicts = self._verdicts[trial]
        if not verdicts[examples].done():
            verdicts[examples].set_result(goes_on)
        for earlier in [at for at in verdicts if at < examples]:
            del verdicts[earlier]

    async def verdict(self, trial: str, examples: int) -> bool:
        """Wait for the verdict at a milestone, and return whether the trial continues."""
        return await self._verdicts[trial][examples]

    async def forget(self, trial: str) -> None:
        """Drop everything about a trial that has ended or is about to start."""
        for kept in (self._verdicts, self._ends, self._beats, self._workers):
            kept.pop(trial, None)
        self._resized.discard(trial)

    async def record_end(self, trial: str, report: Report) -> None:
        """Keep the report with which a trial's group ends; only the first one counts."""
        self._ends.setdefault(trial, report)

    async def take_end(self, trial: str) -> Report | None:
        """Return and drop the report with which a trial's group has ended, if any."""
        return self._ends.pop(trial, None)

    async def enter(self, trial: str, worker: Worker) -> None:
        """Register a worker of a trial's group."""
        self._workers[trial][worker.rank] = worker

    async def workers(self, trial: str) -> list[Worker]:
        """Return the workers of a trial's group."""
        return [*self._workers.get(trial, {}).values()]

    async def beats(self) -> tuple[int, dict[str, Beat]]:
        """Return the pid of this process, and the newest beat of each running trial."""
        return os.getpid(), self._beats

    async def running(self, trial: str) -> bool:
        """Return whether a trial's group has asked for a signal since its last start."""
        return trial in self._beats  # the first question sends one

    async def resize(self, trial: str) -> None:
        """Signal a trial's group from now on to leave for a larger one."""
        self._resized.add(trial)

    async def ask_to_leave(self) -> None:
        """Signal every trial from now on to write a checkpoint and leave."""
        self._leave = True

    async def signal(self, node: str, trial: str = "", beat: Beat | None = None) -> ControlSignal:
        """Return the signal for a trial on a node, and keep its beat.

        Args:
            node: Ray's id of the node.
            trial: name of the trial; empty for a process that does not train.
            beat: newest beat of the trial; None if it has not changed.
        """
        if beat is not None:
            self._beats[trial] = beat
        if self._leave:
            return ControlSignal.LEAVE
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            self._draining = await asyncio.to_thread(draining_nodes)
        if node in self._draining:
            return ControlSignal.PREEMPTED
        return ControlSignal.RESIZE if trial in self._resized else ControlSignal.NONE


class ControlClient:
    """Client of the driver for the ``ControlActor``; only ``workers`` waits for an answer.

    The actor reserves no CPU and runs on the driver's machine, since others may be preempted.
    """

    def __init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.actor = ray.remote(num_cpus=0, scheduling_strategy=here)(ControlActor).remote()
        self._asked: ray.ObjectRef[tuple[int, dict[str, Beat]]] | None = None
        self._answered, self._pid, self._waits = time.monotonic(), 0, ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a trial's processes, which only use the actor."""
        return {"actor": self.actor}

    def beats(self) -> dict[str, Beat] | None:
        """Return the newest beat of each running trial; None if no new answer has come.

        Each answer is returned once. The next one is requested ``BEAT_SECONDS`` after it.

        Raises:
            SentuneError: the actor has died.
        """
        if self._asked is None:
            if time.monotonic() - self._answered >= BEAT_SECONDS:
                self._asked = self.actor.beats.remote()
                what, fix = "the study's control actor", "its process has not answered yet"
                if self._pid:
                    what += f", process {self._pid} on this machine"
                    fix = f"kill -CONT {self._pid} continues it if it is suspended"
                self._waits.enter_context(WAITS.until(what, fix))
            return None
        if not ray.wait([self._asked], timeout=0)[0]:
            return None
        asked, self._asked, self._answered = self._asked, None, time.monotonic()
        self._waits.close()
        answer: dict[str, Beat]
        try:
            self._pid, answer = ray.get(asked)
        except ray.exceptions.RayActorError:
            raise SentuneError(
                "the study's control actor has died: run the same command again, trials continue "
                "from their checkpoints"
            ) from None
        return answer

    def workers(self, trial: str) -> list[Worker]:
        """Return the workers of a trial's group, waiting for the answer."""
        workers: list[Worker] = ray.get(self.actor.workers.remote(trial), timeout=ANSWER_SECONDS)
        return workers

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Set a trial's verdict at a milestone."""
        self.actor.put.remote(trial, examples, goes_on)

    def forget(self, trial: str) -> None:
        """Drop everything that the actor has about a trial."""
        self.actor.forget.remote(trial)

    def ask_to_leave(self) -> None:
        """Ask all trials to write a checkpoint and leave."""
        self.actor.ask_to_leave.remote()

    def close(self) -> None:
        """End the actor; running trials continue without it."""
        self._waits.close()
        ray.kill(self.actor)


@contextmanager
def listening(control: Any, trial: str) -> Iterator[Ask]:
    """Yield a function that returns the actor's newest signal to a trial, which a thread polls.

    The thread also sends the trial's beats. Training never waits for the actor or fails with it.
    """
    node, over = ray.get_runtime_context().get_node_id(), threading.Event()
    sending = threading.Lock()
    newest = ControlSignal.NONE
    beats.begin(get_node_ip_address(), os.getpid())

    def listen() -> None:
        nonlocal newest
        sent: Beat | None = None
        while True:
            beat = replace(beats.newest(), waits=WAITS.told)
            fresh, sent = beat if beat != sent else None, beat
            try:
                with sending:
                    if over.is_set():
                        return
                    asked = control.signal.remote(node, trial, fresh)
                newest = ray.get(asked, timeout=ANSWER_SECONDS)
            except ray.exceptions.GetTimeoutError:
                pass  # a busy machine
            except ray.exceptions.RayError as error:
                logger.warning(
                    "the control actor is gone, so this trial gets no signals: %s", error
                )
                return
            over.wait(POLL_SECONDS)

    threading.Thread(target=listen, name="control-signal", daemon=True).start()
    try:
        yield lambda: newest
    finally:
        with sending:  # nothing is sent after the block
            over.set()


def group_signal(group: Group, ask: Ask) -> Ask:
    """Return a function that gives all workers of a Ray Train group the same signal at a step.

    The first worker's ``ask`` decides. Ray Train knows if any of the group's machines is being
    preempted, but its call is a barrier of all workers through an actor. So the first worker
    decides about once a second that all of them make this call.
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

        from ray import train  # imports torch, which the control actor does not need

        preempted = train.get_preemption_info() is not None
        return ControlSignal.PREEMPTED if preempted else ControlSignal.NONE

    return signal
