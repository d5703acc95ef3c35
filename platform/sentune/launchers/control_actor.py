"""The control actor: carries verdicts and requests from the driver to its trials, beats back.

Trials on a Ray Train group ask it at each milestone whether they go on, and leave by themselves: a
STOP from Tune on such a trial leaves its placement group and all its CPUs taken for as long as the
study runs (5 times in 5 on Ray 2.60, ray#54305). Every trial asks it about once a second whether it
is to write a checkpoint and leave, and gives it its newest beat with the question.
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
"""How often the actor asks Ray which machines are being taken back, however many trials ask it."""

POLL_SECONDS = 1.0
"""How often a trial asks the actor."""

BEAT_SECONDS = 2.0
"""How often the driver asks the actor for the beats of its trials."""

ANSWER_SECONDS = 10.0
"""How long an answer may take before the actor is asked again."""


class ControlSignal(StrEnum):
    """Order to a trial between two steps."""

    NONE = ""
    LEAVE = "leave"
    PREEMPTED = "preempted"
    RESIZE = "resize"


Ask = Callable[[], ControlSignal]
"""Called on every worker of a group between two steps; all of them get the same answer."""


def no_signal() -> ControlSignal:
    """Return ``NONE``, where there is no control actor."""
    return ControlSignal.NONE


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A process of a trial's Ray Train group: its machine's IP address, its handle, its places."""

    rank: int
    node: str
    pid: int
    actor: ray.actor.ActorHandle
    group: PlacementGroup | None


class ControlActor:
    """Keeps the messages between the driver and the workers of each trial."""

    def __init__(self) -> None:
        self._verdicts: defaultdict[str, dict[int, asyncio.Future[bool]]] = defaultdict(dict)
        self._ends: dict[str, Report] = {}
        self._beats: dict[str, Beat] = {}
        self._workers: defaultdict[str, dict[int, Worker]] = defaultdict(dict)
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
        """Drop all that is kept for a trial: its run has ended, or is about to start."""
        for kept in (self._verdicts, self._ends, self._beats, self._workers):
            kept.pop(trial, None)
        self._resized.discard(trial)

    async def record_end(self, trial: str, report: Report) -> None:
        """Keep the report with which a trial's group ends, the first worker's that has one."""
        self._ends.setdefault(trial, report)

    async def take_end(self, trial: str) -> Report | None:
        """Return the report with which a trial's group has ended, and forget it."""
        return self._ends.pop(trial, None)

    async def enter(self, trial: str, worker: Worker) -> None:
        """Note a worker of a trial's group."""
        self._workers[trial][worker.rank] = worker

    async def workers(self, trial: str) -> list[Worker]:
        """Return the workers of a trial's group."""
        return [*self._workers.get(trial, {}).values()]

    async def beats(self) -> tuple[int, dict[str, Beat]]:
        """Return the number of this process, and the newest beat of each trial at work."""
        return os.getpid(), self._beats

    async def running(self, trial: str) -> bool:
        """Return whether a trial's group has asked for a signal since its last start."""
        return trial in self._beats  # the first question has one

    async def resize(self, trial: str) -> None:
        """Tell a trial's group, from now on, to leave for a larger one."""
        self._resized.add(trial)

    async def ask_to_leave(self) -> None:
        """Tell every trial, from now on, to write a checkpoint and leave."""
        self._leave = True

    async def signal(self, node: str, trial: str = "", beat: Beat | None = None) -> ControlSignal:
        """Return what a trial on a node is to do, and keep its beat.

        Args:
            node: Ray's id of it.
            trial: whose worker asks; empty for a process that trains nothing.
            beat: of the worker; None: nothing has changed.
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
    """The driver's calls to the ``ControlActor``, which takes no CPU; but for one none waits.

    The actor stays on the driver's machine, as another one may be taken away.
    """

    def __init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.actor = ray.remote(num_cpus=0, scheduling_strategy=here)(ControlActor).remote()
        self._asked: ray.ObjectRef[tuple[int, dict[str, Beat]]] | None = None
        self._answered, self._pid, self._waits = time.monotonic(), 0, ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to a trial's processes, which use the actor alone."""
        return {"actor": self.actor}

    def beats(self) -> dict[str, Beat] | None:
        """Return the newest beat of each trial at work; None where no answer has come since.

        Each answer is returned once; the next one is asked for ``BEAT_SECONDS`` after the last.

        Raises:
            SentuneError: the actor has died.
        """
        if self._asked is None:
            if time.monotonic() - self._answered >= BEAT_SECONDS:
                self._asked = self.actor.beats.remote()
                what = f"the study's control actor, process {self._pid} on this machine"
                fix = f"kill -CONT {self._pid} wakes it, if it is suspended"
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
                "the control actor, which tells trials whether they go on, has died: run the same "
                "command again, trials go on from their checkpoints"
            ) from None
        return answer

    def workers(self, trial: str) -> list[Worker]:
        """Return the workers of a trial's group; it waits."""
        workers: list[Worker] = ray.get(self.actor.workers.remote(trial), timeout=ANSWER_SECONDS)
        return workers

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Set a trial's verdict at a milestone, in examples."""
        self.actor.put.remote(trial, examples, goes_on)

    def forget(self, trial: str) -> None:
        """Drop all that the actor keeps for a trial."""
        self.actor.forget.remote(trial)

    def ask_to_leave(self) -> None:
        """Ask all trials to leave before their next step."""
        self.actor.ask_to_leave.remote()

    def close(self) -> None:
        """End the actor; trials that still run go on without it."""
        self._waits.close()
        ray.kill(self.actor)


@contextmanager
def listening(control: Any, trial: str) -> Iterator[Ask]:
    """Yield what returns the control actor's newest answer to a trial; a thread asks, with a beat.

    Training never waits for the actor or fails with it.
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
                logger.warning("the control actor is gone, it asks no trial to leave: %s", error)
                return
            over.wait(POLL_SECONDS)

    threading.Thread(target=listen, name="control-signal", daemon=True).start()
    try:
        yield lambda: newest
    finally:
        with sending:  # nothing is sent after the block
            over.set()


def group_signal(group: Group, ask: Ask) -> Ask:
    """Return what asks for a Ray Train group: all its workers act at the same step.

    The first worker's ``ask`` counts. Ray Train knows when any of the group's machines is being
    taken back. Its call for it is a barrier of all workers through an actor, so the first worker
    decides, about once a second, that all of them make it.
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
