"""Records of a study: its trials, its finalists, and the summary of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import isfinite
from statistics import fmean, stdev
from typing import Any

PART = "train/dev_part"
"""Metric of a milestone that was judged on a part of dev: rows of the part, of several corpora the
largest one's. A milestone without it was judged on all of dev."""


class TrialState(StrEnum):
    """How a trial stands. ``PRUNED`` was stopped at a rung, ``FAILED`` carries a reason.

    ``INFEASIBLE`` found no memory even at its smallest micro-batch; the sampler learns it.
    """

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    INFEASIBLE = "infeasible"


@dataclass(kw_only=True)
class TrialRecord:
    """One configuration trained to some budget.

    Attributes:
        id: number of the trial in its study, from 0.
        reason: why the trial failed or was pruned; empty for a complete one.
        settings: what training depended on.
        readouts: best hyperparameters found on the trained model, ``task/readout`` -> value.
        metrics: fractions named ``task/metric``, at the best milestone of the objective that was
            judged on all of dev, of the trial or of those that it goes on from; of a trial that a
            rung stopped on a part of it, see ``PART``.
        examples: examples of the training corpus seen.
        seconds: seconds of training and validation, over all starts.
        curve: milestone in examples -> metrics at that milestone.
        gpu_seconds: seconds times the GPUs of all workers, over all starts.
        restarts: deaths of its processes that were forgiven; preemptions do not count.
        notes: what happened to it beside its curve, a sentence each.
        violations: constraint -> by how much it is broken; 0 or less where it holds.
        begun_at: examples that the run had seen whose checkpoint it took up; 0: it began anew.
        parent: number of the trial, stopped at a rung, that this one goes on with; None: its
            settings were drawn.
        source: ``STUDY/NUMBER`` of the trial that was taken over from another study; else empty.
    """

    id: int
    state: TrialState
    settings: dict[str, Any]
    reason: str = ""
    readouts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    examples: int = 0
    seconds: float = 0.0
    curve: dict[int, dict[str, float]] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    restarts: int = 0
    notes: list[str] = field(default_factory=list)
    violations: dict[str, float] = field(default_factory=dict)
    begun_at: int = 0
    parent: int | None = None
    source: str = ""

    @property
    def on_part(self) -> bool:
        """Whether its metrics are estimates on a part of dev: they compare with no others."""
        return PART in self.metrics

    @property
    def feasible(self) -> bool:
        """Whether it holds every constraint."""
        return self.state is not TrialState.INFEASIBLE and all(
            by <= 0 for by in self.violations.values()
        )

    def row(self) -> dict[str, Any]:
        """Return the trial as one flat row: ``settings.``, ``metrics.`` ... before its names."""
        found: dict[str, Any] = {
            "trial": self.id,
            "state": self.state.value,
            "reason": self.reason,
            "source": self.source,
            "examples": self.examples,
            "seconds": self.seconds,
            "gpu_seconds": self.gpu_seconds,
            "restarts": self.restarts,
            "notes": "\n".join(self.notes),
        }
        for group in ("settings", "metrics", "readouts", "violations"):
            found |= {f"{group}.{name}": value for name, value in getattr(self, group).items()}
        return found


def measured_by(trial: TrialRecord, trials: Mapping[int, TrialRecord]) -> TrialRecord:
    """Return the trial itself or the one, of those that it went on from, that has the milestone of
    its metrics, and with it the checkpoint."""
    while trial.begun_at and trial.parent is not None and trial.metrics not in trial.curve.values():
        trial = trials[trial.parent]
    return trial


def with_ends(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that no other one has gone on with, by number: as many as were drawn.

    Each has the curve, the times, the restarts and the notes of those that it went on from, too.
    """
    whole: dict[int, TrialRecord] = {}
    for trial in sorted(trials, key=lambda trial: trial.id):  # a parent comes before
        before = whole.pop(trial.parent, None) if trial.parent is not None else None
        whole[trial.id] = trial if before is None else _joined(before, trial)
    return [*whole.values()]


def _joined(before: TrialRecord, trial: TrialRecord) -> TrialRecord:
    return replace(
        trial,
        curve={**before.curve, **trial.curve},
        seconds=before.seconds + trial.seconds,
        gpu_seconds=before.gpu_seconds + trial.gpu_seconds,
        restarts=before.restarts + trial.restarts,
        notes=[*before.notes, *trial.notes],
    )


@dataclass(kw_only=True)
class Spread:
    """A metric over seeds: mean, sample standard deviation (0 for one seed) and the values."""

    mean: float
    sd: float
    values: list[float]

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Return the spread of a metric's values, one a seed."""
        sd = stdev(values) if len(values) > 1 else 0.0
        return cls(mean=fmean(values), sd=sd, values=values)


@dataclass(kw_only=True)
class FinalistRecord:
    """One of the best trials, trained again from fresh seeds.

    ``seconds`` and ``gpu_seconds`` are sums over the seeds.
    """

    trial: int
    settings: dict[str, Any]
    seeds: list[int]
    readouts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Spread] = field(default_factory=dict)
    seconds: float = 0.0
    gpu_seconds: float = 0.0

    @classmethod
    def of(
        cls, runs: Mapping[int, TrialRecord], attempts: Collection[TrialRecord] = (), **fields: Any
    ) -> FinalistRecord:
        """Return a finalist from its complete runs by seed; what all ``attempts`` cost counts."""
        names = dict.fromkeys(name for run in runs.values() for name in run.metrics)
        values = {n: [r.metrics[n] for r in runs.values() if n in r.metrics] for n in names}
        return cls(
            seeds=[*runs],
            # there is no mean where one of them is not finite
            metrics={n: Spread.of(v) for n, v in values.items() if all(map(isfinite, v))},
            seconds=sum(run.seconds for run in attempts or runs.values()),
            gpu_seconds=sum(run.gpu_seconds for run in attempts or runs.values()),
            **fields,
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a study has used up so far, over all of its starts.

    Attributes:
        trials: of the search that were drawn and started; answers from the store are free, and one
            that a rung had stopped and that goes on counts once.
        examples: of all trials and finalists.
        hours: of wall time in which a driver ran it.
        gpu_hours: of all trials and finalists.
    """

    trials: int = 0
    examples: int = 0
    hours: float = 0.0
    gpu_hours: float = 0.0

    @classmethod
    def of(
        cls, trials: Iterable[TrialRecord], finals: Iterable[TrialRecord], hours: float
    ) -> Spent:
        """Return what trials and runs of the finals have used up; those that were taken over from
        other studies were paid for there."""
        own = [trial for trial in trials if not trial.source]
        every = [*own, *finals]
        return cls(
            trials=sum(trial.parent is None for trial in own),
            examples=sum(run.examples - run.begun_at for run in every),
            hours=hours,
            gpu_hours=sum(run.gpu_seconds for run in every) / 3600,
        )


@dataclass(kw_only=True)
class StudySummary:
    """``summary.json``: everything a study found. ``version`` changes when a field changes.

    Attributes:
        state: ``running``, ``complete``, ``stopped`` (by a budget or a request; it can go on),
            ``interrupted`` or ``failed``.
        reason: why it ended as it did; empty for a complete one.
        objective, mode: the first of ``objectives``.
        objectives: ``{"metric", "mode"}``; of several the trials have a Pareto front.
        best: trial that the shipped model comes from; None while there is none.
        baselines: ``task/rule`` -> value that a rule without a trained model reaches.
        against_rules: metric of the model on test -> rule -> ``PairedTest`` on the same items.
        front: trials that no other one beats in every objective.
        verdict: whether the winner is better than the runner-up, in a sentence.
        comparison: the paired test behind the verdict.
        test_reads: every reading of the test corpora: time, winner, corpora, whether forced.
        warm_start: studies whose trials the sampler knew.
        forked_from: the study that this one was forked from.
        plan: what it asked for.
    """

    study: str
    method: str
    state: str
    objective: str
    mode: str
    corpora: dict[str, dict[str, Any]]
    space: dict[str, Any]
    lineage: dict[str, Any] = field(default_factory=dict)
    trials: list[TrialRecord] = field(default_factory=list)
    finalists: list[FinalistRecord] = field(default_factory=list)
    winner: int | None = None
    best: int | None = None
    test: dict[str, float] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)
    against_rules: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    model: str | None = None
    reason: str = ""
    spent: Spent = field(default_factory=Spent)
    objectives: list[dict[str, str]] = field(default_factory=list)
    front: list[int] = field(default_factory=list)
    verdict: str = ""
    comparison: dict[str, Any] = field(default_factory=dict)
    test_reads: list[dict[str, Any]] = field(default_factory=list)
    warm_start: list[str] = field(default_factory=list)
    forked_from: str | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    version: int = 3

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON types, without the trials' curves (MLflow holds those)."""
        out = asdict(self)
        for trial in out["trials"]:
            del trial["curve"]
        return out
