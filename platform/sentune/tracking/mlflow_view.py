"""A study as MLflow shows it: the study is a run, trials are its children, seeds theirs."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from sentune.io.atomic import read_document, write_document
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report.sweep_figures import write_sweeps
from sentune.tracking import entries, study_run
from sentune.tracking.entries import RunKey
from sentune.tracking.environment import (
    artifact_root_in,
    calm,
    hasty,
    is_remote,
    spool_in,
    tracking_uri_in,
)
from sentune.tracking.sender import MlflowSender
from sentune.tracking.spool import Spool
from sentune.tracking.trial_run import figures_of, tags_of

log = logging.getLogger(__name__)

EXPERIMENT = "sentune"
GATHER = 1.0
"""Seconds for which entries are gathered before they are sent."""

IDENTITY = "identity"
"""File that tells studies of one name apart."""

STATUS = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAILED: "FAILED",
    TrialState.INFEASIBLE: "FAILED",
}
"""How a trial ended -> MLflow's status of its run; the word itself is the tag sentune.state."""

Method = TypeVar("Method", bound=Callable[..., None])


def _harmless(method: Method) -> Method:
    """A study goes on whatever its listener stumbles over."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception:  # StudyListener promises never to raise
            log.warning("tracking left out %s", method.__name__, exc_info=True)

    return cast("Method", call)


class MlflowListener:
    """A ``StudyListener`` that keeps MLflow up to date through a spool on disk.

    Calls return at once, whether the server answers or not. A resumed study adds to the runs it
    has; nothing appears twice. Call ``close`` at the end: it sends the rest.

    Args:
        study: name of the study.
        tracking_uri: MLflow's server or database.
        spool: local folder of the study's own for entries on their way.
        artifact_root: where a new experiment keeps its artifacts; None leaves it to the server.
        experiment: MLflow's experiment; one for all studies lets methods be compared.
        model_name: name of the registered model; default is the study's.
        identity: tells studies of the same name on one server apart; default is made once and
            kept in ``spool``. Give it where the spool's disk may be lost between starts.
        first_wait: seconds until a failed sending is tried again; doubles from try to try.

    Raises:
        StudyConflict: another process runs this study.
    """

    def __init__(
        self,
        study: str,
        tracking_uri: str,
        spool: Path,
        *,
        artifact_root: str | None = None,
        experiment: str = EXPERIMENT,
        model_name: str | None = None,
        identity: str | None = None,
        first_wait: float = 0.5,
    ) -> None:
        calm()
        hasty()
        self.study, self.model_name = study, study_run.model_name(model_name or study)
        self.tracking_uri = tracking_uri
        sender = MlflowSender(
            tracking_uri,
            experiment=experiment,
            artifact_root=artifact_root,
            study=study,
            identity=identity or _identity(spool),
        )
        self._tables = spool / "readouts"
        self._spool = Spool(
            spool, sender, destination=tracking_uri, first_wait=first_wait, gather=GATHER
        )
        self._settings: dict[int, Mapping[str, Any]] = {}
        self._started: set[RunKey] = set()
        self._said: set[tuple[RunKey, int]] = set()
        self._objectives: list[str] = []

    @classmethod
    def in_storage(
        cls, study: str, storage: str, *, tracking_uri: str | None = None, **options: Any
    ) -> MlflowListener:
        """The listener of a study in a storage, with the storage's own database by default.

        Args:
            storage: folder of all studies; a URI needs ``tracking_uri``.
            options: as the class takes them.

        Raises:
            InvalidValue: the storage is no local folder and no ``tracking_uri`` was given.
        """
        uri = tracking_uri or tracking_uri_in(storage)
        if not uri.startswith(("http://", "https://", "databricks")):
            options.setdefault("artifact_root", artifact_root_in(storage))
        spool = spool_in(storage, study)
        if is_remote(storage):  # a resume may come from another machine, whose spool is empty
            options.setdefault(
                "identity", _shared_identity(f"{storage.rstrip('/')}/{study}", spool)
            )
        return cls(study, uri, spool, **options)

    def close(self, timeout: float = 60.0) -> bool:
        """Sends what is left, at most ``timeout`` seconds long.

        Returns:
            Whether all was sent; what was not waits on disk until the study is resumed.
        """
        return self._spool.close(timeout)

    @_harmless
    def study_started(self, summary: StudySummary, plan: dict[str, Any]) -> None:
        self._objectives = [o["metric"] for o in summary.objectives] or [summary.objective]
        for entry in study_run.started(summary, plan):
            self._put(entry)
        for trial in summary.trials:
            if trial.state is not TrialState.RUNNING:
                self.trial_ended(trial)

    @_harmless
    def trial_started(self, trial: TrialRecord) -> None:
        self._begin(trial, running=trial.state is TrialState.RUNNING)
        self._catch_up(trial)

    @_harmless
    def trial_progressed(
        self, trial: TrialRecord, examples: int, metrics: dict[str, float]
    ) -> None:
        if RunKey(trial.id) not in self._started:
            self._begin(trial, running=True)
        self._point(RunKey(trial.id), examples, metrics)

    @_harmless
    def trial_ended(self, trial: TrialRecord) -> None:
        key = RunKey(trial.id)
        self._begin(trial, running=False)
        self._catch_up(trial)
        self._put(entries.metrics(key, trial.examples, figures_of(trial)))
        reached = {
            f"trials/{name}": trial.metrics[name]
            for name in self._objectives
            if name in trial.metrics
        }
        if reached:
            self._put(entries.metrics(RunKey(), trial.id, reached))
        tags = tags_of(trial)
        self._put(entries.end(key, STATUS.get(trial.state, "KILLED"), tags))

    @_harmless
    def finalist_started(self, trial: int, seed: int) -> None:
        key = RunKey(trial, seed)
        params = {**self._settings.get(trial, {}), "seed": seed}
        self._put(entries.start(key, params=params, tags={"sentune.state": "running"}))

    @_harmless
    def finalist_progressed(
        self, trial: int, seed: int, examples: int, metrics: dict[str, float]
    ) -> None:
        self._point(RunKey(trial, seed), examples, metrics)

    @_harmless
    def finalist_ended(
        self,
        trial: int,
        seed: int,
        metrics: dict[str, float],
        readouts: dict[str, Any],
        reason: str = "",
    ) -> None:
        key = RunKey(trial, seed)
        best = {f"selected/{name}": value for name, value in metrics.items()}
        self._put(entries.metrics(key, 0, best))
        state = TrialState.COMPLETE if metrics else TrialState.FAILED
        tags = {"readout": readouts, "sentune.state": state}
        if reason:
            tags["sentune.reason"] = reason
        self._put(entries.end(key, STATUS[state], tags))

    @_harmless
    def run_tables(self, trial: int, seed: int | None, tables: dict[str, Any]) -> None:
        key = RunKey(trial, seed)
        folder = self._tables / key.name("study")
        write_sweeps(tables, folder)
        self._put(entries.artifact(key, folder, "readouts"))

    @_harmless
    def artifact(self, path: Path, folder: str) -> None:
        """A file or folder of the study; ``trials/ID`` in front of ``folder`` gives it to a trial.

        A file goes into ``folder``, a folder's content becomes ``folder``.
        """
        first, _, rest = folder.partition("/")
        number, _, inner = rest.partition("/")
        if first == "trials" and number.isdigit():
            self._put(entries.artifact(RunKey(int(number)), path, inner))
        else:
            self._put(entries.artifact(RunKey(), path, folder))

    @_harmless
    def study_ended(self, summary: StudySummary) -> None:
        for entry in study_run.ended(summary, self.model_name):
            self._put(entry)

    def _put(self, entry: dict[str, Any]) -> None:
        self._spool.put(entry)

    def _begin(self, trial: TrialRecord, *, running: bool) -> None:
        key = RunKey(trial.id)
        self._settings[trial.id] = trial.settings
        if key in self._started and not running:
            return
        self._started.add(key)
        tags = {"sentune.state": trial.state}
        self._put(entries.start(key, params=trial.settings, tags=tags, running=running))

    def _catch_up(self, trial: TrialRecord) -> None:
        """Milestones that this listener was not told of, from before a resume."""
        for examples, metrics in sorted(trial.curve.items()):
            self._point(RunKey(trial.id), examples, metrics)

    def _point(self, key: RunKey, examples: int, metrics: Mapping[str, float]) -> None:
        if (key, examples) not in self._said:
            self._said.add((key, examples))
            self._put(entries.metrics(key, examples, metrics))


def _shared_identity(folder: str, spool: Path) -> str:
    """The identity that a study's first start has left in its folder of a remote storage."""
    known = read_document(folder, IDENTITY)
    if known is None:
        known = _identity(spool)
        write_document(folder, IDENTITY, known)
    return known


def _identity(folder: Path) -> str:
    """Made at a study's first start and kept beside what is on its way."""
    file = folder / IDENTITY
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(uuid.uuid4().hex, encoding="utf-8")
    return file.read_text(encoding="utf-8")
