"""The runs of one study on an MLflow server, found by tag or made, with their artifacts."""

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
"""Suffixes of files that run code when they are loaded; weights travel as safetensors."""
EXPERIMENTS = "sentune/"
"""What the names of all studies' experiments begin with."""
CONTENT = "sentune.content"
"""Tag of a run: JSON of each place among its artifacts with the digest of what was sent there."""
DIGITS = 32
"""Of a digest in that tag: MLflow's tags are short."""
_TRAINING = {"workflowType": "machine_learning"}  # a fresh browser opens the pages for chat
_CURVES = {"compareRunsMode": "CHART", "searchFilter": "tags.`sentune.trial` != ''"}


@dataclass
class Run:
    """A run, and what the server is known to hold of it.

    ``metrics`` are the names that had points before this connection; their steps are asked when
    one of them is sent again. ``points`` are name -> step -> the newest value.
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
        """Params and metrics that it holds; 0 just after it was made."""
        return len(self.params) + len(self.metrics) + len(self.points)

    def put(self, client: Any, place: str, digest: str, send: Callable[[], object]) -> None:
        """Send what belongs at a place among the artifacts, unless the server holds that digest.

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
        """Raise ``ConnectionError`` where an error comes of the run's having been deleted."""
        if client.get_run(self.id).info.lifecycle_stage != "active":
            raise ConnectionError(f"run {self.id} was deleted; it is made again") from error


class StudyRuns:
    """Finds and makes the runs of a study, which its identity tells from others of its name.

    A new experiment keeps its artifacts at ``artifact_root``; None leaves it to the server.
    """

    def __init__(self, client: Any, artifact_root: str | None, study: str, identity: str) -> None:
        self._client, self._study = client, study
        self._tags = {"sentune.study": study, "sentune.identity": identity}
        self._experiment = _experiment(client, study, identity, artifact_root)
        # of several runs with one key the one that holds most, then the oldest
        self._runs = {key: max(of, key=lambda run: run.size) for key, of in self._stored().items()}

    def get(self, key: RunKey, time: int) -> Run:
        """The run of ``key``, made (with its parents) where it is missing."""
        if key not in self._runs:
            self._runs[key] = self._make(key, time)
        return self._runs[key]

    def describe(self, text: str) -> None:
        """Set the description of the study's experiment."""
        self._client.set_experiment_tag(self._experiment, "mlflow.note.content", text)

    def missing(self, run: Run, points: Sequence[Point]) -> list[Point]:
        """Return the points at whose name and step the server has no value yet.

        One without a time of its own is also missing where the newest value is another one: the
        figures of a study's end change when it goes on. The steps of a metric are asked once, and
        only where it had points before.
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
        with suppress(KeyError, OSError):  # a container may have a user without a name
            tags["mlflow.user"] = getpass.getuser()
        if key.parent is not None:
            tags["mlflow.parentRunId"] = self.get(key.parent, time).id
        return _run(self._client.create_run(self._experiment, time, tags, name))

    def drop_doubles(self) -> None:
        """Deletes runs that were made twice: a slow server may make one after it was given up."""
        for key, runs in self._stored().items():
            for double in runs:
                meant = self._runs.get(key)
                if meant is not None and double.id != meant.id and not double.size:
                    self._client.delete_run(double.id)

    def _stored(self) -> dict[RunKey, list[Run]]:
        """All runs of the study by key, oldest first."""
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
    """Return the path, on a server over a store, of the curves of its newest study.

    Without a study it is the start page. MLflow folds the runs below a study away, and draws no
    curves of them, unless they are sorted by a metric: by the objective, the best first.
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
    """Return the id of the study's experiment, which may have been renamed; made where missing."""
    name, tag = f"{EXPERIMENTS}{study}", f"sentune.identity.{identity}"  # some studies share a name
    tagged = client.search_experiments(filter_string=f"tags.`{tag}` = 'true'", max_results=1)
    if tagged:
        return str(tagged[0].experiment_id)
    known = client.get_experiment_by_name(name)
    if known is None:
        kind = {"mlflow.experimentKind": "custom_model_development"}  # pages of training, not chat
        return str(client.create_experiment(name, artifact_root, {**kind, tag: "true"}))
    if known.lifecycle_stage == "deleted":
        raise RuntimeError(
            f"the experiment {name!r} was deleted in MLflow; bring it back with "
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
        Refused: the path is gone, or holds a pickle.
    """
    content = digest(path)
    if path.is_dir():
        run.put(client, folder, content, lambda: client.log_artifacts(run.id, str(path), folder))
    else:
        place = f"{folder}/{path.name}"
        run.put(client, place, content, lambda: client.log_artifact(run.id, str(path), folder))


def digest(path: Path, without: Collection[str] = ()) -> str:
    """Return the SHA-256 of a file's content, or of the names and contents of a folder's files.

    Files of the folder that are named in ``without`` do not count.

    Raises:
        Refused: the path is gone, or holds a pickle.
    """
    if not path.exists():
        raise Refused(f"{path} is gone")
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
