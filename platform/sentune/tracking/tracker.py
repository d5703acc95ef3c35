"""Keeps MLflow up to date with a study: a thread compares both and sends the differences.

There is no queue. After an outage, a kill or a change of server, the next pass (of this process, or
of the study's next start) finds the differences.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sentune.credentials import without_credentials
from sentune.errors import Overtaken, named
from sentune.io.waits import WAITS
from sentune.records import Spent, StudySummary
from sentune.tracking.client import Refusals, legal, load_mlflow, mlflow_client
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import (
    artifact_root,
    local_folder,
    quieten_mlflow,
    shorten_timeouts,
    tracking_uri_in,
)
from sentune.tracking.machine import MachineMetrics
from sentune.tracking.reconcile import Server
from sentune.tracking.runs import StudyRuns

if TYPE_CHECKING:
    from sentune.study.store.study_view import StudySnapshot

log = logging.getLogger(__name__)

GATHER = 1.0
"""Seconds between two passes of a study, so that changes of a run are sent in one call."""
LONGEST_WAIT = 30.0
"""Longest time in seconds between two tries."""
LAST_WAIT = 60.0
"""Seconds that a study waits at its end until MLflow has everything."""


class Tracker:
    """Reconciles MLflow with one study in its own thread, at most once a second.

    Methods do not wait for the server, except ``flush`` and ``close``, which makes the last pass.

    Args:
        storage: folder or URI of all studies.
        tracking_uri: MLflow's server or database; None: the database in the storage.
        machine: called with ``tracking_uri``, returns the monitor of the driver's machine; None:
            there is none.
        first_wait: seconds until a failed pass is tried again; doubles up to ``LONGEST_WAIT``.

    Attributes:
        trouble: why the last pass failed; empty if it succeeded.

    Raises:
        InvalidValue: the storage is a URI and ``tracking_uri`` is None.
    """

    def __init__(
        self,
        study: str,
        storage: str,
        tracking_uri: str | None = None,
        *,
        machine: Callable[[str], MachineMetrics] | None = None,
        first_wait: float = 0.5,
    ) -> None:
        quieten_mlflow()
        shorten_timeouts()
        self.study, self.tracking_uri = study, tracking_uri or tracking_uri_in(storage)
        self._artifact_root = artifact_root(storage, self.tracking_uri)
        self._work, self._first_wait = local_folder(storage, study), first_wait
        self._refusals = Refusals(self.tracking_uri)
        self._machine = machine(self.tracking_uri) if machine is not None else None
        self._take_snapshot: Callable[[], StudySnapshot] | None = None
        self._summary: StudySummary | None = None
        self._server: Server | None = None
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._hurry = self._left = self._overtaken = False
        self._check: Callable[[], None] = lambda: None
        self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="sentune-tracking", daemon=True)

    def start(
        self,
        take_snapshot: Callable[[], StudySnapshot],
        summary: StudySummary,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the thread.

        Args:
            take_snapshot: returns a snapshot of the study; called from the thread.
            summary: of the driver; ``update`` replaces it.
            check: called before each pass; raises ``Overtaken`` if another start drives the study,
                after which nothing is sent.
        """
        self._take_snapshot, self._check = take_snapshot, check
        self.update(summary)
        load_mlflow()  # Ray Tune imports it, too, and imports in two threads can deadlock
        self._thread.start()

    def notify(self) -> None:
        """Request a pass, because the study has changed."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def update(self, summary: StudySummary) -> None:
        """Replace the driver's summary, and request a pass."""
        self._summary = replace(summary, corpora=dict(summary.corpora))
        self.notify()

    def interrupt(self, reason: str) -> None:
        """Show the study as interrupted, unless ``update`` has told how it ended."""
        if self._summary is not None and self._summary.state == "running":
            self.update(replace(self._summary, state="interrupted", reason=reason))

    def flush(self, timeout: float) -> bool:
        """Return whether a pass after this call succeeds within ``timeout`` seconds."""
        with self._changed:
            self._hurry = True
            self.notify()
            asked = self._asked
            return self._changed.wait_for(lambda: self._done >= asked, timeout)

    def close(self, timeout: float = LAST_WAIT) -> bool:
        """Wait up to ``timeout`` seconds for the last pass, and end the thread.

        Returns:
            Whether MLflow has the whole study; otherwise the next start sends the rest.
        """
        if self._thread.ident is None:  # the first trial had not begun
            return True
        done = self.flush(timeout)
        if done and self._machine is not None:
            self._machine.close()
        with self._changed:
            self._left = True
            self._changed.notify_all()
        if done:
            self._thread.join(timeout)
        else:
            log.warning(
                "not everything was sent to %s (%s); the study's next start (the same command) "
                "sends the rest",
                without_credentials(self.tracking_uri),
                self.trouble or f"timeout after {timeout:g} s",
            )
        return done

    def _run(self) -> None:
        wait = self._first_wait
        while (asked := self._next()) is not None:
            done = self._pass()
            with self._changed:
                self._hurry = self._hurry and self._asked > asked
                if done:
                    self._done, wait = asked, self._first_wait
                    self._changed.notify_all()
                    continue
                self._changed.wait_for(lambda: self._hurry or self._left, wait)
                wait = self._first_wait if self._hurry else min(2 * wait, LONGEST_WAIT)

    def _next(self) -> int | None:
        """Wait until a pass is due; return the number of requests, or None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked > self._done or self._left)
            if not self.trouble:  # after a failed pass ``_run`` has waited
                self._changed.wait_for(lambda: self._hurry or self._left, GATHER)
            return None if self._left else self._asked

    def _pass(self) -> bool:
        """Make one pass; return whether it succeeded. The first of several failures is logged."""
        name = without_credentials(self.tracking_uri)
        if self._overtaken:
            return True
        try:
            with WAITS.until(f"MLflow at {self.tracking_uri}", "training goes on meanwhile"):
                self._check()
                self._reconcile()
        except Overtaken as error:
            log.warning("this start sends nothing more to %s: %s", name, error)
            self._overtaken = True
            return True
        except Exception as error:  # noqa: BLE001  # no error of MLflow may end the study
            self._server = None
            if not self.trouble:
                log.warning(
                    "%s cannot be reached (%s); training goes on, and MLflow gets the results once "
                    "it answers",
                    name,
                    _reason(error),
                )
            self.trouble = _reason(error)
            return False
        if self.trouble:
            log.info("%s answers again", name)
            self.trouble = ""
        return True

    def _reconcile(self) -> None:
        assert self._take_snapshot is not None
        assert self._summary is not None
        study, summary = self._take_snapshot(), self._summary
        if summary.state == "interrupted" and summary.spent == Spent():  # without an outcome
            summary = replace(summary, trials=study.trials, spent=study.spent)
        if self._server is None:
            ensure_database(self.tracking_uri)
            client = mlflow_client(self.tracking_uri)
            runs = StudyRuns(client, self._artifact_root, self.study, study.identity)
            self._server = Server(client, runs, self._refusals)
        registered = re.sub("[/:]", "-", legal(self.study))
        run = self._server.reconcile(study, summary, self._work, registered)
        if self._machine is not None and summary.state == "running":
            self._machine.look(run)


def _reason(error: BaseException) -> str:
    """Return an error as a short text; the cause if that is an error of the operating system."""
    root = error
    while root.__cause__ or root.__context__:
        root = root.__cause__ or root.__context__  # type: ignore[assignment]
    told = root if isinstance(root, OSError) else error
    text = named(told)
    return text if len(text) <= 500 else f"{text[:500]} ..."
