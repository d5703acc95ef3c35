"""What MLflow is to hold of a study's runs, computed from a snapshot: no server is asked here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.tracking.client import MOST_PARAM, MOST_TAG, Point, RunKey, digest_of, legal, texts
from sentune.tracking.description import describe, winner_of

if TYPE_CHECKING:
    from sentune.study.store.study_view import StoredRun, StudySnapshot

RUNNING = "RUNNING"
TRIAL_STATUS = {
    TrialState.RUNNING: RUNNING,
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAILED: "FAILED",
    TrialState.INFEASIBLE: "FAILED",
}
"""State of a trial -> MLflow's status of its run; the state itself is the tag sentune.state."""

STUDY_STATUS = {
    "running": RUNNING,
    "complete": "FINISHED",
    "stopped": "FINISHED",  # by a budget or by request: it ended as it was told to
    "interrupted": "KILLED",
    "failed": "FAILED",
}
"""State of a study -> MLflow's status of its run."""


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """What MLflow is to hold of one run.

    Attributes:
        began, ended: UTC milliseconds; 0: when it is sent.
        tables: name of the run whose ``readouts.json`` belongs to it; empty where there is none.
    """

    key: RunKey
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point] = field(default_factory=list)
    began: int = 0
    ended: int = 0
    tables: str = ""

    @cached_property
    def digest(self) -> str:
        """Equal for equal content."""
        said = (self.status, self.params, self.tags, self.points, self.began, self.ended)
        return digest_of((*said, self.tables))


def run_content(run: StoredRun, *, tables: bool) -> RunContent:
    """What a run of the search or of the finals says.

    Args:
        run: as it is stored.
        tables: whether it has a ``readouts.json``.
    """
    record, over = run.record, run.ended is not None
    points = [
        Point(legal(name), examples, float(value), run.times.get(examples, run.began))
        for examples, metrics in sorted(record.curve.items())
        for name, value in metrics.items()
    ]
    if over:
        figures = _figures_of(record) if run.seed is None else _selected(record)
        step = record.examples if run.seed is None else 0
        points += [
            Point(legal(name), step, float(value), run.ended or run.began)
            for name, value in figures.items()
        ]
    seed = {} if run.seed is None else {"seed": run.seed}
    return RunContent(
        key=RunKey(run.trial, run.seed),
        status=TRIAL_STATUS[record.state],
        params=texts({**record.settings, **seed}, MOST_PARAM),
        tags=texts(_tags_of(record) if over else {"sentune.state": record.state}, MOST_TAG),
        points=_first_of_each(points),
        began=run.began,
        ended=run.ended or 0,
        tables=run.name if tables and over else "",
    )


def _selected(record: TrialRecord) -> dict[str, float]:
    complete = record.metrics if record.state is TrialState.COMPLETE else {}
    return {f"selected/{name}": value for name, value in complete.items()}


def _figures_of(trial: TrialRecord) -> dict[str, float]:
    """Metrics at the best milestone, what the trial cost, and by how much constraints are broken.

    ``selected/...`` as ``task/metric``, ``violation/...`` by constraint (0 or less: it holds).
    """
    cost = {
        "examples": float(trial.examples),
        "seconds": trial.seconds,
        "gpu_seconds": trial.gpu_seconds,
        "restarts": float(trial.restarts),
    }
    selected = {f"selected/{name}": value for name, value in trial.metrics.items()}
    broken = {f"violation/{name}": by for name, by in trial.violations.items()}
    return {**selected, **broken, **cost}


def _tags_of(trial: TrialRecord) -> dict[str, Any]:
    """State, reason and notes in the summary's own words."""
    tags: dict[str, Any] = {"readout": trial.readouts, "sentune.state": trial.state}
    if trial.reason:
        tags["sentune.reason"] = trial.reason
    if trial.notes:
        tags["sentune.notes"] = "\n".join(trial.notes)
    if trial.violations:
        tags["sentune.feasible"] = trial.feasible
    return tags


def _first_of_each(points: list[Point]) -> list[Point]:
    """Of points with one name and step the first: two names may become one legal name."""
    return list({(point.name, point.step): point for point in reversed(points)}.values())[::-1]


def study_content(study: StudySnapshot, summary: StudySummary, registered: str) -> RunContent:
    """What the run of the study as a whole says.

    Args:
        study: with its runs.
        summary: what its driver says of it.
        registered: name of the registered model.
    """
    over = summary.state != "running"
    tags = {**_lineage_tags(summary.lineage), "sentune.state": summary.state}
    if summary.warm_start:
        tags["sentune.warm_start"] = summary.warm_start
    if summary.forked_from:
        tags["sentune.forked_from"] = summary.forked_from
    points = _reached(study, summary)
    if over:
        tags |= _end_tags(summary, describe(summary, f"models:/{registered}@champion"))
        step = summary.spent.examples
        spent = {f"spent/{name}": float(value) for name, value in asdict(summary.spent).items()}
        figures = spent | (_figures(summary) if winner_of(summary) is not None else {})
        points += [Point(legal(name), step, float(v), 0) for name, v in figures.items()]
    return RunContent(
        key=RunKey(),
        status=STUDY_STATUS.get(summary.state, "KILLED"),
        params=texts(_params(summary), MOST_PARAM),
        tags=texts(tags, MOST_TAG),
        points=_first_of_each(points),
        began=min((run.began for run in study.runs if run.began), default=0),
    )


def _params(summary: StudySummary) -> dict[str, Any]:
    """Method, objectives and corpora."""
    params: dict[str, Any] = {
        "method": summary.method,
        "objective": summary.objective,
        "mode": summary.mode,
        "corpora": {
            role: {name: corpus[name] for name in ("spec", "fingerprint", "rows") if name in corpus}
            for role, corpus in summary.corpora.items()
        },
    }
    if len(summary.objectives) > 1:
        params["objectives"] = [f"{o['metric']} {o['mode']}" for o in summary.objectives]
    return params


def _reached(study: StudySnapshot, summary: StudySummary) -> list[Point]:
    """``trials/...``: what each trial reached in each objective; the step is its number."""
    names = [o["metric"] for o in summary.objectives] or [summary.objective]
    return [
        Point(legal(f"trials/{name}"), run.trial, float(run.record.metrics[name]), run.ended)
        for run in study.runs
        if run.ended is not None
        for name in names
        if name in run.record.metrics
    ]


def documents(study: StudySnapshot, summary: StudySummary) -> dict[str, str]:
    """File name -> JSON text of the small documents of the study's run."""
    found = {
        "space.json": summary.space,
        "plan.json": summary.plan,
        "lineage.json": summary.lineage,
        "comparison.json": summary.comparison,
        "test_reads.json": summary.test_reads or study.test_reads,
    }
    return {
        file: json.dumps(without_credentials(said), indent=1, ensure_ascii=False, default=str)
        for file, said in found.items()
        if said or file in ("space.json", "plan.json", "lineage.json")
    }


def model_tags(summary: StudySummary) -> dict[str, str]:
    """Tags of the registered model's version."""
    winner = winner_of(summary)
    if winner is None:
        return {}
    tags = {
        "method": summary.method,
        "sentune.study": summary.study,
        "setting": winner.settings,
        "readout": winner.readouts,
        "metric": {metric: spread.mean for metric, spread in winner.metrics.items()},
    }
    return texts(tags, MOST_TAG)


def _end_tags(summary: StudySummary, description: str) -> dict[str, Any]:
    """How it ended in the summary's own words. An empty one overwrites an earlier start's."""
    tags = {
        "sentune.reason": summary.reason,
        "sentune.verdict": summary.verdict,
        "mlflow.note.content": description,
    }
    return {**tags, "sentune.front": summary.front} if len(summary.objectives) > 1 else tags


def _figures(summary: StudySummary) -> dict[str, float]:
    """The winner over its seeds, the test set, and what rules without a model reach."""
    figures = {f"test/{name}": value for name, value in summary.test.items()}
    figures |= {f"baseline/{name}": value for name, value in summary.baselines.items()}
    winner = winner_of(summary)
    if winner is not None:
        for name, spread in winner.metrics.items():
            figures |= {f"winner/{name}": spread.mean, f"winner/{name}/sd": spread.sd}
    return figures


def _lineage_tags(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """The commit where MLflow's pages look for it; the packages as one line."""
    git, packages = lineage.get("git") or {}, lineage.get("packages") or {}
    rest = {name: value for name, value in lineage.items() if name not in ("git", "packages")}
    tags: dict[str, Any] = {f"sentune.{name}": value for name, value in rest.items()}
    tags |= {f"sentune.git.{name}": value for name, value in git.items()}
    tags["sentune.packages"] = ", ".join(f"{name} {packages[name]}" for name in packages)
    tags["mlflow.source.name"] = lineage.get("command", "")
    tags["mlflow.source.git.commit"] = git.get("commit", "")
    return {name: value for name, value in tags.items() if value != ""}
