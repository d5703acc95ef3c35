"""The runs of one study on an MLflow server: found again by tag, made where they are missing."""

from __future__ import annotations

import getpass
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sentune.tracking.client import Point, RunKey, mlflow_client

EXPERIMENT = "sentune"
"""MLflow's experiment where none is named; one for all studies lets methods be compared."""
_TRAINING = "workflowType=machine_learning"  # a fresh browser opens the pages for chat otherwise


@dataclass
class Run:
    """A run, and what the server is known to hold of it.

    ``metrics`` are names that had points before this session; which ones is asked when one of
    them is sent again. ``points`` are steps by name.
    """

    id: str
    artifact_uri: str
    status: str
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    points: dict[str, set[int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Params and metrics that it holds; 0 just after it was made."""
        return len(self.params) + len(self.metrics) + len(self.points)


class StudyRuns:
    """Finds and makes the runs of a study.

    Args:
        client: an ``MlflowClient``.
        experiment: name of the experiment; made where it is missing.
        artifact_root: where a new experiment keeps its artifacts; None leaves it to the server.
        study: name of the study.
        identity: tells studies of the same name apart.
    """

    def __init__(
        self, client: Any, *, experiment: str, artifact_root: str | None, study: str, identity: str
    ) -> None:
        self._client, self._study = client, study
        self._tags = {"sentune.study": study, "sentune.identity": identity}
        self.experiment = _experiment(client, experiment, artifact_root)
        self._runs = self._found()

    def get(self, key: RunKey, time: int) -> Run:
        """The run of ``key``, made (with its parents) where it is missing."""
        if key not in self._runs:
            self._runs[key] = self._make(key, time)
        return self._runs[key]

    def missing(self, run: Run, points: Iterable[Point]) -> list[Point]:
        """Those of the points at whose name and step the server has no value yet."""
        return [point for point in points if point.step not in self._steps(run, point.name)]

    def _steps(self, run: Run, name: str) -> set[int]:
        """Steps of a metric on the server; asked once, and only where it had points before."""
        if name not in run.points:
            known = self._client.get_metric_history(run.id, name) if name in run.metrics else []
            run.points[name] = {point.step for point in known}
        return run.points[name]

    def _make(self, key: RunKey, time: int) -> Run:
        name = key.name(self._study)
        tags = {**self._tags, **key.tags(), "mlflow.source.type": "JOB", **_user()}
        if key.parent is not None:
            tags["mlflow.parentRunId"] = self.get(key.parent, time).id
        return _run(self._client.create_run(self.experiment, time, tags, name))

    def drop_doubles(self) -> None:
        """Deletes runs that were made twice: a slow server may make one after it was given up."""
        for key, runs in self._stored().items():
            for double in runs:
                meant = self._runs.get(key)
                if meant is not None and double.id != meant.id and not double.size:
                    self._client.delete_run(double.id)

    def _found(self) -> dict[RunKey, Run]:
        """The study's runs; of several with one key the one that was size most, then the oldest."""
        return {key: max(runs, key=lambda run: run.size) for key, runs in self._stored().items()}

    def _stored(self) -> dict[RunKey, list[Run]]:
        """All runs of the study by key, oldest first."""
        wanted = " and ".join(f"tags.`{k}` = '{_quoted(v)}'" for k, v in self._tags.items())
        found: dict[RunKey, list[Run]] = defaultdict(list)
        token = None
        while True:
            page = self._client.search_runs(
                [self.experiment],
                wanted,
                max_results=1000,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            for run in page:
                found[_key(run.data.tags)].append(_run(run))
            token = page.token
            if not token:
                return found


def runs_page(tracking_uri: str, experiment: str = EXPERIMENT) -> str:
    """Path of the table of studies on a server over this store, from the root of its address."""
    found = mlflow_client(tracking_uri).get_experiment_by_name(experiment)
    if found is None:
        return f"/#/experiments?{_TRAINING}"
    return f"/#/experiments/{found.experiment_id}/runs?{_TRAINING}"


def _user() -> dict[str, str]:
    """Who runs the study; a container may have a user without a name."""
    try:
        return {"mlflow.user": getpass.getuser()}
    except (KeyError, OSError):
        return {}


def _experiment(client: Any, name: str, artifact_root: str | None) -> str:
    known = client.get_experiment_by_name(name)
    if known is None:
        kind = {"mlflow.experimentKind": "custom_model_development"}  # pages of training, not chat
        return client.create_experiment(name, artifact_location=artifact_root, tags=kind)
    if known.lifecycle_stage == "deleted":
        raise RuntimeError(
            f"the experiment {name!r} was deleted in MLflow; bring it back with "
            f"`mlflow experiments restore --experiment-id {known.experiment_id}`"
        )
    return known.experiment_id


def _run(run: Any) -> Run:
    return Run(
        id=run.info.run_id,
        artifact_uri=run.info.artifact_uri,
        status=run.info.status,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=set(run.data.metrics),
    )


def _key(tags: dict[str, str]) -> RunKey:
    trial, seed = tags.get("sentune.trial"), tags.get("sentune.seed")
    return RunKey(None if trial is None else int(trial), None if seed is None else int(seed))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
