"""Detection of stalled trials: those without beats have their processes ended and start again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray
from ray.util import remove_placement_group

from sentune.beats import Beat
from sentune.io.waits import SAID_AFTER

if TYPE_CHECKING:
    from sentune.launchers.control_actor import ControlClient

logger = logging.getLogger(__name__)

FEWEST_SECONDS, TIMES_SLOWEST = 300.0, 10.0
"""``--stall-timeout auto`` in seconds: the slowest interval between beats times the second, but at
least the first."""

MOST_TICK = 5.0
"""Most seconds that one turn of the driver's loop counts as silence of a trial. In longer ones the
driver or its machine was suspended, or waited for its database."""

PROBE_SECONDS = 5.0
"""Seconds that a worker of a stalled group has to answer."""


@dataclass(kw_only=True)
class StallWatch:
    """Ends stalled runs of one start of a study.

    Attributes:
        control: client of the control actor, which collects the beats.
        grouped: whether the runs are Ray Train groups.
        limit: seconds without a beat after which a run has stalled; None for ``auto``, see
            ``FEWEST_SECONDS``. Only time in which the driver itself was awake counts.
        beats: run -> newest beat in the control actor's last answer.
        slowest: longest interval between two beats so far, in seconds.
    """

    control: ControlClient
    grouped: bool
    limit: float | None = None
    beats: dict[str, Beat] = field(default_factory=dict, init=False)
    clock: Callable[[], float] = time.monotonic
    slowest: float = field(default=0.0, init=False)
    _silent: dict[str, tuple[int | None, float]] = field(default_factory=dict, init=False)
    _looked: float | None = field(default=None, init=False)
    _ended: set[str] = field(default_factory=set, init=False)
    _waits: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def timeout(self) -> float:
        """Seconds without a beat after which a run has stalled."""
        return self.limit or max(FEWEST_SECONDS, TIMES_SLOWEST * self.slowest)

    def tick(self, seconds: float, numbers: Mapping[str, int | None]) -> dict[str, float]:
        """Add the seconds since the last tick, and return stalled run -> seconds of its silence.

        Args:
            seconds: length of a turn of the driver's loop; at most ``MOST_TICK`` of them count.
            numbers: run -> number of its newest beat; None before its first one.
        """
        counted, now = min(seconds, MOST_TICK), {}
        for run, number in numbers.items():
            before, silent = self._silent.get(run, (number, -counted))
            silent += counted
            if number != before:
                if before is not None and number is not None:
                    self.slowest = max(self.slowest, silent)
                silent = 0.0
            now[run] = number, silent
        self._silent = now
        return {run: silent for run, (_, silent) in now.items() if silent >= self.timeout}

    def look(self, actors: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
        """End the processes of stalled runs, and return name of the run -> reason.

        Silence is counted between two answers of the control actor, since without one no beat can
        arrive.

        Args:
            actors: returns name of each run with a process -> actor handle of the process.
        """
        answer = self.control.beats()
        if answer is None:
            return {}
        started, now = actors(), self.clock()
        self.beats = {name: beat for name, beat in answer.items() if name in started}
        seconds, self._looked = now - (now if self._looked is None else self._looked), now
        numbers = {name: beat.number for name, beat in self.beats.items()}
        stalled = self.tick(seconds, {name: numbers.get(name) for name in started})
        self._say_waits(started)
        over = {}
        for name, silent in stalled.items():
            beat, newest = self.beats.get(name), "its process has given none"
            if beat is not None:
                newest = f"{beat}, process {beat.pid} on {beat.node}"
            elif self.grouped:  # waits for its placement group, maybe for hours
                continue
            limit = f"--stall-timeout {self.timeout:.0f}"
            reason = f"no beat for {silent:.0f} s ({limit}): {newest}"
            try:
                if self.grouped and name not in self._ended:
                    self._end_group(name, reason)
                else:
                    self._end(name, started[name])
                over[name] = reason
                del self._silent[name]
            except ray.exceptions.RayError as error:
                logger.warning("run %s: its processes cannot be ended yet: %s", name, error)
        self._ended &= self.beats.keys()
        return over

    def forget(self, name: str) -> None:
        """Drop the beat of an ended run, in a new dictionary: threads may read the old one."""
        self.beats = {run: beat for run, beat in self.beats.items() if run != name}

    def _say_waits(self, started: Mapping[str, Any]) -> None:
        """Log what runs have been waiting for, each once."""
        place = "a place on the cluster, or its processes to come up,"
        unheard = started.keys() - self.beats.keys()
        late = [name for name in unheard if self._silent[name][1] >= SAID_AFTER]
        waits = {name: beat.waits for name, beat in self.beats.items() if beat.waits}
        waits |= dict.fromkeys(late, place)
        for name, what in sorted(waits.items() - self._waits.items()):
            logger.warning("run %s: waiting for %s since %.0f s", name, what, SAID_AFTER)
        self._waits = waits

    def _end_group(self, name: str, reason: str) -> None:
        """End all workers of a group; Ray Train then removes its placement group."""
        workers = self.control.workers(name)
        asked = {worker.actor.__ray_ready__.remote(): worker for worker in workers}
        silent = []  # a process whose training thread hangs may still answer
        if asked:
            _, silent = ray.wait([*asked], num_returns=len(asked), timeout=PROBE_SECONDS)
        which = sorted((asked[one] for one in silent or asked), key=lambda worker: worker.rank)
        named = "; ".join(f"rank {w.rank}, process {w.pid} on {w.node}" for w in which)
        answer = "of which these do not answer" if silent else "which all answer"
        logger.warning("run %s: %s; its workers are ended, %s: %s", name, reason, answer, named)
        self._ended.add(name)
        for worker in workers:
            ray.kill(worker.actor)

    def _end(self, name: str, actor: Any) -> None:
        """End a run's own process, and remove the placement groups that it leaves behind."""
        if self.grouped:
            for group in {w.group for w in self.control.workers(name) if w.group}:
                remove_placement_group(group)
        ray.kill(actor)
