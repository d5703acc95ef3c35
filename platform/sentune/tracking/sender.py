"""Tells an MLflow server what the spool holds, so that telling it twice changes nothing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sentune.io.object_store import on_this_machine
from sentune.tracking.artifacts import upload
from sentune.tracking.database import ensure_database
from sentune.tracking.entries import RunKey, key_of
from sentune.tracking.journal import Entry
from sentune.tracking.registry import publish
from sentune.tracking.runs import Run, StudyRuns
from sentune.tracking.spool import Refused

NEVER = {"INVALID_PARAMETER_VALUE"}
"""MLflow's error codes for what will be no better next time."""

DOUBTFUL, TRIES = {"BAD_REQUEST"}, 5
"""MLflow gives this code to every error of its database but a lock, so also to what two writers
that met left behind; an entry that gets it alone, five times, will never be accepted."""


class MlflowSender:
    """A spool's ``Deliver``: connects when first called, and anew after every error.

    Nothing here is done twice by being sent twice: runs are looked for before they are made,
    metric points before they are added, artifacts and models by their content. A new connection
    asks the server what it holds, so an answer that was lost on the way is no harm either.

    Args:
        tracking_uri: the server or database.
        experiment, artifact_root, study, identity: see ``StudyRuns``.
    """

    def __init__(
        self,
        tracking_uri: str,
        *,
        experiment: str,
        artifact_root: str | None,
        study: str,
        identity: str,
    ) -> None:
        self._uri = tracking_uri
        self._runs = partial(
            StudyRuns,
            experiment=experiment,
            artifact_root=artifact_root,
            study=study,
            identity=identity,
        )
        self._session: Session | None = None
        self._doubts = 0

    def __call__(self, entries: Sequence[Entry]) -> None:
        import mlflow  # slow: seconds, on the spool's thread
        from mlflow.exceptions import MlflowException

        try:
            if self._session is None:
                ensure_database(self._uri)
                client = mlflow.MlflowClient(self._uri, registry_uri=self._uri)
                self._session = Session(client, self._runs(client))
            self._session.send(entries)
            self._doubts = 0
        except BaseException as error:
            self._session = None
            if isinstance(error, MlflowException) and self._never(error.error_code, len(entries)):
                raise Refused(error.message) from error
            raise

    def _never(self, code: str, entries: int) -> bool:
        """Whether an error will be the same next time."""
        if code in DOUBTFUL:
            self._doubts += entries == 1
            return self._doubts >= TRIES
        return code in NEVER


@dataclass
class Due:
    """What a run is still to be told: all of it goes in one call, and its end after that."""

    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: list[Entry] = field(default_factory=list)
    end: Entry | None = None


class Session:
    """One connection: an ``MlflowClient`` and the study's runs as the server has them."""

    def __init__(self, client: Any, runs: StudyRuns) -> None:
        self._client, self._runs = client, runs
        self._due: dict[RunKey, Due] = defaultdict(Due)
        self._kinds: dict[str, Callable[[Entry, Run], None]] = {
            "start": self._start,
            "metrics": self._metrics,
            "end": self._end,
            "artifact": self._artifact,
            "document": self._document,
            "datasets": self._datasets,
            "model": self._model,
        }

    def send(self, entries: Sequence[Entry]) -> None:
        """Sends in order, what a run is told gathered (1,000 values go in one call)."""
        self._due.clear()
        for entry in entries:
            run = self._runs.get(key_of(entry), entry["time"])
            if entry["kind"] not in self._kinds:
                raise Refused(f"unknown kind of entry {entry['kind']!r}")
            self._kinds[entry["kind"]](entry, run)
        for key in list(self._due):
            self._tell(key)

    def _start(self, entry: Entry, run: Run) -> None:
        key = key_of(entry)
        if key in self._due and self._due[key].end is not None:
            self._tell(key)  # the end of an earlier start
        # A study goes on after its end. A trial's start that is told again must not: its run would
        # end anew, with a later time.
        again = entry["running"] and key.trial is None
        if again and run.status != "RUNNING":
            self._client.update_run(run.id, status="RUNNING")
            run.status = "RUNNING"
        due = self._due[key]
        due.params = {k: v for k, v in entry["params"].items() if k not in run.params} | due.params
        due.tags |= entry["tags"]

    def _metrics(self, entry: Entry, run: Run) -> None:
        del run
        self._due[key_of(entry)].points.append(entry)

    def _end(self, entry: Entry, run: Run) -> None:
        del run
        due = self._due[key_of(entry)]
        due.tags |= entry["tags"]
        due.end = entry

    def _tell(self, key: RunKey) -> None:
        """What is due to a run; nothing is, then."""
        due, run = self._due.pop(key), self._runs.get(key, 0)
        self._describe(run, due)
        if due.end is None:
            return
        if key.trial is None:
            self._runs.drop_doubles()
        if run.status != due.end["status"]:
            self._client.set_terminated(run.id, due.end["status"], due.end["time"])
            run.status = due.end["status"]

    def _describe(self, run: Run, due: Due) -> None:
        from mlflow.entities import Param, RunTag

        tags = {k: v for k, v in due.tags.items() if run.tags.get(k) != v}
        points = self._fresh(run, due.points)
        if not due.params and not tags and not points:
            return
        self._client.log_batch(
            run.id,
            metrics=points,
            params=[Param(k, v) for k, v in due.params.items()],
            tags=[RunTag(k, v) for k, v in tags.items()],
        )
        run.params |= due.params.keys()
        run.tags |= tags
        for point in points:
            run.points[point.key].add(point.step)

    def _fresh(self, run: Run, entries: Sequence[Entry]) -> list[Any]:
        """Points that the server does not have; the first of those with one name and step."""
        from mlflow.entities import Metric

        points: dict[tuple[str, int], Metric] = {}
        for entry in entries:
            for name, value in entry["values"].items():
                point = Metric(name, value, entry["time"], entry["step"])
                points.setdefault((name, entry["step"]), point)
        steps: dict[str, set[int]] = defaultdict(set)
        for name, step in points:
            steps[name].add(step)
        fresh = {name: self._runs.new_points(run, name, steps[name]) for name in steps}
        return [point for (name, step), point in points.items() if step in fresh[name]]

    def _artifact(self, entry: Entry, run: Run) -> None:
        upload(self._client, run, Path(entry["path"]), entry["folder"])

    def _document(self, entry: Entry, run: Run) -> None:
        self._client.log_text(run.id, entry["text"], entry["file"])

    def _datasets(self, entry: Entry, run: Run) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(
                    name=str(corpus.get("spec", role))[:500],
                    digest=str(corpus.get("fingerprint", ""))[:36],
                    source_type="sentune",
                    source=json.dumps({"spec": corpus.get("spec")})[:65535],
                    profile=json.dumps(corpus.get("counts") or {"rows": corpus.get("rows")}),
                ),
                [InputTag("mlflow.data.context", role)],
            )
            for role, corpus in entry["corpora"].items()
        ]
        self._client.log_inputs(run.id, inputs)

    def _model(self, entry: Entry, run: Run) -> None:
        with ExitStack() as copy:
            try:
                folder = copy.enter_context(on_this_machine(entry["path"]))
            except FileNotFoundError as error:
                raise Refused(f"{entry['path']} is gone") from error
            publish(
                self._client,
                run,
                folder,
                entry["name"],
                description=entry["description"],
                tags=entry["tags"],
            )
