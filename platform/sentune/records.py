"""What a study tells the world: records of trials and finalists, and who listens to them.

The summary on disk, the MLflow view and the live table are all listeners of the same calls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


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
        metrics: fractions named ``task/metric``, at the best milestone of the objective.
        examples: examples of the training corpus seen.
        seconds: seconds of training and validation, over all starts.
        curve: milestone in examples -> metrics at that milestone.
        gpu_seconds: seconds times the GPUs of all workers, over all starts.
        restarts: deaths of its processes that were forgiven; preemptions do not count.
        notes: what happened to it beside its curve, a sentence each.
        violations: constraint -> by how much it is broken; 0 or less where it holds.
        begun_at: examples that the run had seen whose checkpoint it took up; 0: it began anew.
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
    source: str = ""

    @property
    def feasible(self) -> bool:
        """Whether it holds every constraint."""
        return self.state is not TrialState.INFEASIBLE and all(
            by <= 0 for by in self.violations.values()
        )


@dataclass(kw_only=True)
class Spread:
    """A metric over seeds: mean, sample standard deviation (0 for one seed) and the values."""

    mean: float
    sd: float
    values: list[float]


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


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a study has used up so far, over all of its starts.

    Attributes:
        trials: of the search that were started; answers from the store are free.
        examples: of all trials and finalists.
        hours: of wall time in which a driver ran it.
        gpu_hours: of all trials and finalists.
    """

    trials: int = 0
    examples: int = 0
    hours: float = 0.0
    gpu_hours: float = 0.0


@dataclass(kw_only=True)
class StudySummary:
    """``summary.json``: everything a study found. ``version`` changes when a field changes.

    Attributes:
        state: ``running``, ``complete``, ``stopped`` (a budget, or somebody's request; it can go
            on), ``interrupted`` or ``failed``.
        reason: why it ended as it did; empty for a complete one.
        objective, mode: the first of ``objectives``.
        objectives: ``{"metric", "mode"}``; of several the trials have a Pareto front.
        best: trial that the shipped model comes from; None while there is none.
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


class StudyListener(Protocol):
    """Told of everything that happens in a study, on the driver, in order.

    A listener never raises and never blocks: training does not wait for whoever watches it.
    Every call may come again with the same content after a resume; a listener stays idempotent.
    """

    def study_started(self, summary: StudySummary, plan: dict[str, Any]) -> None: ...

    def trial_started(self, trial: TrialRecord) -> None: ...

    def trial_progressed(
        self, trial: TrialRecord, examples: int, metrics: dict[str, float]
    ) -> None: ...

    def trial_ended(self, trial: TrialRecord) -> None: ...

    def finalist_started(self, trial: int, seed: int) -> None: ...

    def finalist_progressed(
        self, trial: int, seed: int, examples: int, metrics: dict[str, float]
    ) -> None: ...

    def finalist_ended(
        self,
        trial: int,
        seed: int,
        metrics: dict[str, float],
        readouts: dict[str, Any],
        reason: str = "",
    ) -> None:
        """Without metrics it failed, for the reason that is given."""

    def run_tables(self, trial: int, seed: int | None, tables: dict[str, Any]) -> None:
        """Sweeps of a run that has ended, at its best milestone: file name -> JSON types.

        ``seed`` is None for a trial of the search, and names a finalist's run.
        """

    def artifact(self, path: Path, folder: str) -> None:
        """A file (or folder) that belongs to the study as a whole."""

    def study_ended(self, summary: StudySummary) -> None: ...
