"""What a trial may be asked to do between two steps, and the thread that asks for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:
    from sentune.training.group import Group

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often the control actor is asked."""

ANSWER_SECONDS = 10.0
"""How long an answer may take before the actor is asked again."""


class ControlSignal(StrEnum):
    """What a trial is to do."""

    NONE = ""
    LEAVE = "leave"
    PREEMPTED = "preempted"
    RESIZE = "resize"


Ask = Callable[[], ControlSignal]
"""Called on every worker of a group between two steps; all of them get the same answer."""


def no_signal() -> ControlSignal:
    """Return ``NONE``, where there is no control actor."""
    return ControlSignal.NONE


class Listener:
    """Asks the control actor in a thread of its own; training never waits for it or fails with it.

    Args:
        control: the control actor.
        trial: whose group this is, where it may be asked to become larger.
    """

    def __init__(self, control: Any, trial: str = "") -> None:
        self.signal, self._trial = ControlSignal.NONE, trial
        self._control, self._node = control, ray.get_runtime_context().get_node_id()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="control-signal", daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()

    def __call__(self) -> ControlSignal:
        """Return the newest answer."""
        return self.signal

    def _listen(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            try:
                answer = self._control.signal.remote(self._node, self._trial)
                self.signal = ray.get(answer, timeout=ANSWER_SECONDS)
            except ray.exceptions.GetTimeoutError:
                continue  # a busy machine
            except ray.exceptions.RayError as error:
                logger.warning("the control actor is gone, it asks no trial to leave: %s", error)
                return


class GroupListener:
    """Asks for a Ray Train group: the first worker listens, all of them act at the same step.

    Ray Train knows when any of the group's machines is being taken back. Its call for it is a
    barrier of all workers through an actor, so the group makes it about once a second, when the
    first worker says so.

    Args:
        listener: of the first worker; on the others it is never asked.
    """

    _SIGNALS = tuple(ControlSignal)
    _LOOK = len(_SIGNALS)

    def __init__(self, group: Group, listener: Listener | None) -> None:
        self._group, self._listener = group, listener
        self._looked = time.monotonic()

    def __call__(self) -> ControlSignal:
        """Return what the group is to do, the same on every worker."""
        own = self._own() if self._group.is_first else self._SIGNALS.index(ControlSignal.NONE)
        said = self._group.agree(own)
        if said != self._LOOK:
            return self._SIGNALS[said]

        from ray import train  # with torch, which the control actor does without

        preempted = train.get_preemption_info() is not None
        return ControlSignal.PREEMPTED if preempted else ControlSignal.NONE

    def _own(self) -> int:
        """Return the index of the first worker's newest signal, or ``_LOOK`` once a second."""
        signal = self._listener() if self._listener is not None else ControlSignal.NONE
        if signal is ControlSignal.NONE and time.monotonic() - self._looked >= POLL_SECONDS:
            self._looked = time.monotonic()
            return self._LOOK
        return self._SIGNALS.index(signal)
