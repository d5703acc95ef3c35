"""The runs of one study on an MLflow server: finds or creates them, and uploads artifacts."""

from __future__ import annotations

import getpass
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sentune.tracking.client import DOUBTFUL, NEVER, Point, Refused, RunKey, legal, mlflow_client

PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt"}
"""Suffixes of files that may run code when they are loaded; weights are stored as safetensors."""
EXPERIMENTS = "sentune/"
"""Prefix of the names of all studies' experiments."""
CONTENT = "sentune.content"
"""Tag of a run: JSON, path among its artifacts -> digest of the content that was sent."""
DIGITS = 32
"""Length of the digests in that tag, because MLflow limits the length of tags."""
_TRAINING = {"workflowType": "machine_learning"}  # by default MLflow opens the pages for chat
_CURVES = {"compareRunsMode": "CHART", "searchFilter": "tags.`sentune.trial` != ''"}


@dataclass
class Run:
    """A run, and its known content on the server.

    Attributes:
        params: names of its params.
        tags: name -> value.
        metrics: names of the metrics that had points before this connection; their steps are
            requested when one of them is sent again.
        points: name of a metric -> step -> newest value.
    """

    id: str
    artifact_uri: str
    status: str
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    points: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of params and metrics of the run; 0 if it was just created."""
        return len(self.params) + len(self.metrics) + len(self.points)

    def put(self, client: Any, place: str, digest: str, send: Callable[[], object]) -> None:
        """Upload artifacts with ``send``, unless the server has their digest already.

        ``place`` is their path among the run's artifacts.

        Raises:
            ConnectionError: the run was deleted.
        """
        sent = json.loads(self.tags.get(CONTENT, "{}"))
        if sent.get(place) == digest[:DIGITS]:
            return
        sent[place] = digest[:DIGITS]
        try:
            send()
            client.set_tag(self.id, CONTENT, json.dumps(sent, sort_keys=True))
        except Exception as error:
            if getattr(error, "error_code", "") in NEVER | DOUBTFUL:
                self.check(client, error)
            raise
        self.tags[CONTENT] = json.dumps(sent, sort_keys=True)

    def check(self, client: Any, error: Exception) -> None:
        """Raise ``ConnectionError`` if the run was deleted, which explains the error."""
        if client.get_run(self.id).info.lifecycle_stage != "active":
            raise ConnectionError(f"run {self.id} was deleted; it is created again") from error


class StudyRuns:
    """Finds and creates the runs of a study.

    Args:
        artifact_root: URI of the artifacts of a new experiment; None: the server's default.
        study: its name.
        identity: distinguishes it from other studies of the same name.
    """

    def __init__(self, client: Any, artifact_root: str | None, study: str, identity: str) -> None:
        self._client, self._study = client, study
        self._tags = {"sentune.study": study, "sentune.identity": identity}
        self._experiment = _experiment(client, study, identity, artifact_root)
        # of several runs with one key take the one with most content, then the oldest
        self._runs = {key: max(of, key=lambda run: run.size) for key, of in self._stored().items()}

    def get(self, key: RunKey, time: int) -> Run:
        """Return the run of a key; it and its parents are created if they are missing."""
        if key not in self._runs:
            self._runs[key] = self._make(key, time)
        return self._runs[key]

    def describe(self, text: str) -> None:
        """Set the description of the study's experiment."""
        self._client.set_experiment_tag(self._experiment, "mlflow.note.content", text)

    def missing(self, run: Run, points: Sequence[Point]) -> list[Point]:
        """Return the points for whose name and step the server has no value yet.

        A point without a time is also missing if its newest value differs, because the metrics at a
        study's end change when it is resumed. The steps of a metric are requested once, and only if
        it had points before.
        """
        for name in {point.name for point in points} - run.points.keys():
            known = self._client.get_metric_history(run.id, name) if name in run.metrics else []
            ordered = sorted(known, key=lambda point: point.timestamp)
            run.points[name] = {point.step: point.value for point in ordered}

        def differs(point: Point) -> bool:
            there = run.points[point.name].get(point.step)
            return there is None or (not point.time and repr(there) != repr(point.value))

        return [point for point in points if differs(point)]

    def _make(self, key: RunKey, time: int) -> Run:
        name = key.name(self._study)
        tags = {**self._tags, **key.tags(), "mlflow.source.type": "JOB"}
        with suppress(KeyError, OSError):  # in a container the user may have no name
            tags["mlflow.user"] = getpass.getuser()
        if key.parent is not None:
            tags["mlflow.parentRunId"] = self.get(key.parent, time).id
        return _run(self._client.create_run(self._experiment, time, tags, name))

    def drop_doubles(self) -> None:
        """Delete empty duplicates of runs, which a slow server may create after a timeout."""
        stored = self._stored()
        for key, meant in self._runs.items():
            for double in stored.get(key, ()):
                if double.id != meant.id and not double.size:
                    self._client.delete_run(double.id)

    def _stored(self) -> dict[RunKey, list[Run]]:
        """Return key -> all runs of the study with this key, oldest first."""
        quoted = {k: v.replace("\\", "\\\\").replace("'", "\\'") for k, v in self._tags.items()}
        wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in quoted.items())
        found: dict[RunKey, list[Run]] = defaultdict(list)
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment],
                wanted,
                max_results=1000,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            for run in page:
                places = (run.data.tags.get(tag) for tag in ("sentune.trial", "sentune.seed"))
                key = RunKey(*(None if place is None else int(place) for place in places))
                found[key].append(_run(run))
            token = page.token
            if not token:
                return found


def runs_page(tracking_uri: str) -> str:
    """Return the path, on MLflow's server, of the page with the curves of the newest study.

    Without a study it is the start page. The runs are sorted by the objective, because otherwise
    MLflow collapses those below the study's run and draws no curves of them.
    """
    client, named = mlflow_client(tracking_uri), f"name LIKE '{EXPERIMENTS}%'"
    found = client.search_experiments(
        max_results=1, filter_string=named, order_by=["last_update_time DESC"]
    )
    if not found:
        return f"/#/experiments?{urlencode(_TRAINING)}"
    place, shown = found[0].experiment_id, {**_TRAINING, **_CURVES}
    for study in client.search_runs([place], "tags.`sentune.run` = 'study'", max_results=1):
        ascending = str(study.data.params.get("mode") == "min").lower()
        key = f"metrics.`{legal(study.data.params.get('objective', ''))}`"
        shown |= {"orderByKey": key, "orderByAsc": ascending}
    return f"/#/experiments/{place}/runs?{urlencode(shown, quote_via=quote)}"


def _experiment(client: Any, study: str, identity: str, artifact_root: str | None) -> str:
    """Return the id of the study's experiment, which may have been renamed, or create it.

    Raises:
        RuntimeError: the experiment was deleted in MLflow.
    """
    name, tag = f"{EXPERIMENTS}{study}", f"sentune.identity.{identity}"  # names may be shared
    tagged = client.search_experiments(filter_string=f"tags.`{tag}` = 'true'", max_results=1)
    if tagged:
        return str(tagged[0].experiment_id)
    known = client.get_experiment_by_name(name)
    if known is None:
        kind = {"mlflow.experimentKind": "custom_model_development"}  # pages of training, not chat
        return str(client.create_experiment(name, artifact_root, {**kind, tag: "true"}))
    if known.lifecycle_stage == "deleted":
        raise RuntimeError(
            f"the experiment {name!r} was deleted in MLflow; restore it with "
            f"`mlflow experiments restore --experiment-id {known.experiment_id}`"
        )
    client.set_experiment_tag(known.experiment_id, tag, "true")
    return str(known.experiment_id)


def _run(run: Any) -> Run:
    return Run(
        id=run.info.run_id,
        artifact_uri=run.info.artifact_uri,
        status=run.info.status,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=set(run.data.metrics),
    )


def upload(client: Any, run: Run, path: Path, folder: str) -> None:
    """Upload a file into ``folder`` of a run's artifacts, or a folder's content as ``folder``.

    Raises:
        Refused: the path does not exist, or has a pickle.
    """
    content = digest(path)
    if path.is_dir():
        run.put(client, folder, content, lambda: client.log_artifacts(run.id, str(path), folder))
    else:
        place = f"{folder}/{path.name}"
        run.put(client, place, content, lambda: client.log_artifact(run.id, str(path), folder))


def digest(path: Path, without: Collection[str] = ()) -> str:
    """Return the SHA-256 of a file's content, or of the names and contents of a folder's files.

    Files of the folder with a name in ``without`` are left out.

    Raises:
        Refused: the path does not exist, or has a pickle.
    """
    if not path.exists():
        raise Refused(f"{path} does not exist")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        if file.parent == path and file.name in without:
            continue
        if file.suffix.lower() in PICKLES:
            raise Refused(f"{file} may be a pickle; weights are logged as safetensors")
        with file.open("rb") as opened:
            one = hashlib.file_digest(opened, "sha256").hexdigest()
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        total.update(f"{name}\0{one}\n".encode())
    return total.hexdigest()
