"""A study as MLflow shows it: the study is a run, trials are its children, seeds theirs."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.tracking import entries
from sentune.tracking.description import describe
from sentune.tracking.entries import RunKey
from sentune.tracking.environment import artifact_root_in, calm, hasty, tracking_uri_in
from sentune.tracking.secrets import without_credentials
from sentune.tracking.sender import MlflowSender
from sentune.tracking.spool import Spool

log = logging.getLogger(__name__)

EXPERIMENT = "sentune"
STATUS = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAILED: "FAILED",
    "complete": "FINISHED",
    "interrupted": "KILLED",
    "failed": "FAILED",
}
"""How a trial or study ended -> MLflow's status of its run."""

P = ParamSpec("P")


def _harmless(
    method: Callable[Concatenate[MlflowListener, P], None],
) -> Callable[Concatenate[MlflowListener, P], None]:
    """A study goes on whatever its listener stumbles over."""

    @functools.wraps(method)
    def call(self: MlflowListener, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001  # the promise of StudyListener: never raises
            log.warning("tracking left out %s", method.__name__, exc_info=True)

    return call


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
    ) -> None:
        calm()
        hasty()
        self.study, self.model_name = study, model_name or entries.legal(study).replace("/", "-")
        self.model_name = self.model_name.replace(":", "-")
        self.tracking_uri = tracking_uri
        sender = MlflowSender(
            tracking_uri,
            experiment=experiment,
            artifact_root=artifact_root,
            study=study,
            identity=identity or _identity(spool),
        )
        self._spool = Spool(spool, sender, destination=tracking_uri)
        self._settings: dict[int, Mapping[str, Any]] = {}
        self._started: set[RunKey] = set()
        self._said: set[tuple[RunKey, int]] = set()
        self._objective = ""

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
        if "://" in storage and not storage.startswith("file://"):
            spool = Path.home() / ".local" / "state" / "sentune" / study
            return cls(study, uri, spool, **options)
        if not uri.startswith(("http://", "https://", "databricks")):
            options.setdefault("artifact_root", artifact_root_in(storage))
        folder = Path(storage.removeprefix("file://")).expanduser().resolve()
        return cls(study, uri, folder / study / "tracking", **options)

    def close(self, timeout: float = 60.0) -> bool:
        """Sends what is left, at most ``timeout`` seconds long.

        Returns:
            Whether all was sent; what was not waits on disk until the study is resumed.
        """
        return self._spool.close(timeout)

    @_harmless
    def study_started(self, summary: StudySummary, plan: dict[str, Any]) -> None:
        self._objective = summary.objective
        study = RunKey()
        params = {
            "method": summary.method,
            "objective": summary.objective,
            "mode": summary.mode,
            "corpora": {
                role: {k: corpus[k] for k in ("spec", "fingerprint", "rows") if k in corpus}
                for role, corpus in summary.corpora.items()
            },
        }
        tags = {**_lineage_tags(summary.lineage), "sentune.state": "running"}
        self._put(entries.start(study, params=params, tags=tags))
        self._put(entries.datasets(study, summary.corpora))
        for name, content in (
            ("space", summary.space),
            ("plan", plan),
            ("lineage", summary.lineage),
        ):
            self._put(entries.document(study, f"{name}.json", content))
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
        best = {f"best/{name}": value for name, value in trial.metrics.items()}
        cost = {"examples": float(trial.examples), "seconds": trial.seconds}
        self._put(entries.metrics(key, trial.examples, {**best, **cost}))
        if self._objective in trial.metrics:
            objective = {f"trials/{self._objective}": trial.metrics[self._objective]}
            self._put(entries.metrics(RunKey(), trial.id, objective))
        tags = {"readout": trial.readouts, "sentune.state": trial.state}
        if trial.reason:
            tags["sentune.reason"] = trial.reason
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
        self, trial: int, seed: int, metrics: dict[str, float], readouts: dict[str, Any]
    ) -> None:
        key = RunKey(trial, seed)
        best = {f"best/{name}": value for name, value in metrics.items()}
        self._put(entries.metrics(key, 0, best))
        tags = {"readout": readouts, "sentune.state": "complete"}
        self._put(entries.end(key, "FINISHED", tags))

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
        study = RunKey()
        if summary.state == "complete":
            self._put(entries.metrics(study, len(summary.trials), _figures(summary)))
            self._publish(summary)
        address = f"models:/{self.model_name}@champion"
        tags = {
            "sentune.state": summary.state,
            "mlflow.note.content": describe(summary, address),
        }
        self._put(entries.end(study, STATUS.get(summary.state, "KILLED"), tags))

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

    def _publish(self, summary: StudySummary) -> None:
        if summary.model is None or summary.winner is None:
            return
        winner = summary.finalists[summary.winner]
        tags = {
            "method": summary.method,
            "sentune.study": summary.study,
            "settings": winner.settings,
            "readout": winner.readouts,
            "metric": {name: spread.mean for name, spread in winner.metrics.items()},
        }
        description = describe(summary, f"models:/{self.model_name}@champion")
        folder = Path(summary.model.removeprefix("file://"))
        if folder.is_dir():
            self._put(entries.model(folder, self.model_name, description=description, tags=tags))
        else:
            log.warning("%s is no local folder: it is not registered in MLflow", summary.model)


def _identity(folder: Path) -> str:
    """Made at a study's first start and kept beside what is on its way."""
    file = folder / "identity"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(uuid.uuid4().hex, encoding="utf-8")
    return file.read_text(encoding="utf-8")


def _figures(summary: StudySummary) -> dict[str, float]:
    """The study's result: the winner over its seeds, the test set, rules without a model."""
    figures = {f"test/{name}": value for name, value in summary.test.items()}
    figures |= {f"baseline/{name}": value for name, value in summary.baselines.items()}
    if summary.winner is not None:
        for name, spread in summary.finalists[summary.winner].metrics.items():
            figures |= {f"winner/{name}": spread.mean, f"winner/{name}/sd": spread.sd}
    return figures


def _lineage_tags(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """Lineage as tags: a resume may come from another commit or machine."""
    tags: dict[str, Any] = {"sentune.lineage": without_credentials(dict(lineage))}
    git = lineage.get("git") or {}
    if "commit" in git:
        tags["mlflow.source.git.commit"] = git["commit"]
    if "command" in lineage:
        tags["mlflow.source.name"] = lineage["command"]
    return tags
