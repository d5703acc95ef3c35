"""Records of a study: trials, finalists, costs and the summary."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import isfinite
from statistics import fmean, stdev
from typing import Any

PART = "train/dev_part"
"""Metric of a milestone that was judged on a part of dev: the number of rows of the part, or of the
largest part of several corpora. A milestone without it was judged on all of dev."""


class TrialState(StrEnum):
    """The state of a trial.

    ``PRUNED`` was stopped at a rung. ``INFEASIBLE`` ran out of memory with the smallest
    micro-batch, from which the sampler learns.
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
        reason: why the trial failed or was pruned; empty if it is complete.
        readouts: best values found on the trained model, ``task/readout`` -> value.
        metrics: ``task/metric`` -> value at the milestone with the best objective, among those of
            the trial and its parents that were judged on all of dev. For a trial that was stopped
            at a rung judged on a part of dev, see ``PART``.
        examples: number of examples that it trained on.
        seconds: of training and validation, over all starts.
        curve: milestone in examples -> metrics.
        gpu_seconds: seconds times the GPUs of all workers, over all starts.
        restarts: number of restarts after a process died; preemptions do not count.
        notes: other events, one sentence each.
        violations: constraint -> amount by which it is violated; 0 or less if it is satisfied.
        begun_at: examples of the checkpoint that it started from; 0: it started without one.
        parent: number of the trial, stopped at a rung, that this one continues; None: its settings
            were drawn.
        source: ``STUDY/NUMBER`` if the trial was taken over from another study; else empty.
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
        """Whether its metrics were measured on a part of dev and are not comparable to others."""
        return PART in self.metrics

    @property
    def feasible(self) -> bool:
        """Whether it satisfies all constraints."""
        return self.state is not TrialState.INFEASIBLE and all(
            by <= 0 for by in self.violations.values()
        )

    def row(self) -> dict[str, Any]:
        """Return the trial as a flat row with names such as ``settings.NAME``, ``metrics.NAME``."""
        plain = ("reason", "source", "examples", "seconds", "gpu_seconds", "restarts")
        found: dict[str, Any] = {"trial": self.id, "state": self.state.value}
        found |= {name: getattr(self, name) for name in plain}
        found["notes"] = "\n".join(self.notes)
        for group in ("settings", "metrics", "readouts", "violations"):
            found |= {f"{group}.{name}": value for name, value in getattr(self, group).items()}
        return found


def measured_by(trial: TrialRecord, trials: Mapping[int, TrialRecord]) -> TrialRecord:
    """Return the trial, or its ancestor in ``trials``, that reached the milestone of its metrics.

    Its checkpoint is the one of these metrics.
    """
    while trial.begun_at and trial.parent is not None and trial.metrics not in trial.curve.values():
        trial = trials[trial.parent]
    return trial


def with_ends(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that no other trial continues, sorted by number.

    Each includes the curves, times, restarts and notes of its ancestors.
    """
    whole: dict[int, TrialRecord] = {}
    for trial in sorted(trials, key=lambda trial: trial.id):  # a parent comes before
        before = whole.pop(trial.parent, None) if trial.parent is not None else None
        whole[trial.id] = trial
        if before is not None:
            whole[trial.id] = replace(
                trial,
                curve=before.curve | trial.curve,
                seconds=before.seconds + trial.seconds,
                gpu_seconds=before.gpu_seconds + trial.gpu_seconds,
                restarts=before.restarts + trial.restarts,
                notes=before.notes + trial.notes,
            )
    return [*whole.values()]


@dataclass(kw_only=True)
class Spread:
    """A metric over seeds: mean, sample standard deviation (0 for one seed) and the values."""

    mean: float
    sd: float
    values: list[float]

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Return the spread of a metric's values, one per seed."""
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
        """Return a finalist made from its runs.

        Args:
            runs: seed -> complete run.
            attempts: all runs whose costs are counted; empty: the complete ones.
        """
        names = dict.fromkeys(name for run in runs.values() for name in run.metrics)
        values = {n: [r.metrics[n] for r in runs.values() if n in r.metrics] for n in names}
        return cls(
            seeds=[*runs],
            # without metrics that are not finite for a seed
            metrics={n: Spread.of(v) for n, v in values.items() if all(map(isfinite, v))},
            seconds=sum(run.seconds for run in attempts or runs.values()),
            gpu_seconds=sum(run.gpu_seconds for run in attempts or runs.values()),
            **fields,
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The costs of a study, over all of its starts.

    Attributes:
        trials: number of trials of the search that were started. Results taken from the store do
            not count, and a trial that was stopped at a rung and continued counts once.
        examples: of all trials and finalists.
        hours: wall time in which a driver ran the study.
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
        """Return the costs of trials and finals, without trials taken over from other studies."""
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
    """All results of a study, as stored in ``summary.json``.

    Attributes:
        state: ``running``, ``complete``, ``stopped`` (by a budget or a request; it can be resumed),
            ``interrupted`` or ``failed``.
        objective, mode: the first of ``objectives``.
        corpora: role -> description of the corpus.
        lineage: code, packages, platform, command, encoder, and checksums.
        winner: index of the winning finalist; None without finals.
        best: number of the trial that the exported model comes from; None before the export.
        test: metric -> value of the exported model on the test corpora.
        baselines: ``task/rule`` -> value of a rule without a trained model.
        against_rules: metric of the model on test -> rule -> ``PairedTest`` on the same items.
        model: path or URI of the exported model.
        reason: why the study ended early, failed or was stopped; empty if it ran as planned.
        objectives: ``{"metric", "mode"}`` of each; several have a Pareto front.
        front: numbers of the trials on the Pareto front.
        verdict: whether the winner is better than the runner-up, as a sentence.
        comparison: the paired test of the verdict.
        test_reads: all readings of the test corpora: time, winner, corpora, whether forced.
        warm_start: studies whose trials the sampler learned from.
        forked_from: the study that this one was forked from.
        plan: the resources that were planned.
        version: of the schema; it changes when a field changes.
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
        """Return the summary as JSON types, without the trials' curves, which are in MLflow."""
        out = asdict(self)
        for trial in out["trials"]:
            del trial["curve"]
        return out
