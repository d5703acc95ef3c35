"""What a study tells the world: records of trials and finalists, and who listens to them.

The summary on disk, the MLflow view and the live table are all listeners of the same calls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class TrialState(StrEnum):
    """How a trial stands. ``PRUNED`` was stopped at a rung, ``FAILED`` carries a reason."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


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


@dataclass(kw_only=True)
class Spread:
    """A metric over seeds: mean, sample standard deviation (0 for one seed) and the values."""

    mean: float
    sd: float
    values: list[float]


@dataclass(kw_only=True)
class FinalistRecord:
    """One of the best trials, trained again from fresh seeds."""

    trial: int
    settings: dict[str, Any]
    seeds: list[int]
    readouts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Spread] = field(default_factory=dict)


@dataclass(kw_only=True)
class StudySummary:
    """``summary.json``: everything a study found. ``version`` changes when a field changes."""

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
    test: dict[str, float] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)
    model: str | None = None
    version: int = 1

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
        self, trial: int, seed: int, metrics: dict[str, float], readouts: dict[str, Any]
    ) -> None: ...

    def run_tables(self, trial: int, seed: int | None, tables: dict[str, Any]) -> None:
        """Sweeps of a run that has ended, at its best milestone: file name -> JSON types.

        ``seed`` is None for a trial of the search, and names a finalist's run.
        """

    def artifact(self, path: Path, folder: str) -> None:
        """A file (or folder) that belongs to the study as a whole."""

    def study_ended(self, summary: StudySummary) -> None: ...
