"""A small study that goes on step by step, as its storage and its driver show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentune.records import (
    FinalistRecord,
    Spent,
    Spread,
    StudySummary,
    TrialRecord,
    TrialState,
)
from sentune.study.space.objectives import Objective
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import TABLES, StoredRun, StudySnapshot
from sentune.tracking import Tracker

Held = Callable[[str], dict[str, Any]]
"""What ``held`` of conftest.py returns."""

MILESTONES = (1000, 2000, 4000)
SPENT = Spent(trials=6, examples=24_000, hours=1.5, gpu_hours=3.0)
METRIC = "direction/accuracy"
CONSTANT = "max_length"
"""A setting that is not searched."""
BEGAN = 1_700_000_000_000
"""UTC milliseconds at which the study began; each step takes one second."""


def run_of(record: TrialRecord, seed: int | None = None, trial: int | None = None) -> StoredRun:
    """The run as it is stored; its milestones came at one second for 1,000 examples."""
    number = record.id if trial is None else trial
    began = BEGAN + 10_000 * number
    over = record.state is not TrialState.RUNNING
    return StoredRun(
        trial=number,
        seed=seed,
        record=replace(record, curve=dict(record.curve)),
        began=began,
        ended=began + 5000 if over else None,
        times={at: began + at for at in record.curve},
    )


@dataclass
class Story:
    """Six trials: one fails, two are stopped early, three end; trial 2 gets two finalist seeds."""

    folder: Path
    name: str = "little"
    trials: int = 6
    runs: dict[int, StoredRun] = field(default_factory=dict)
    finals: dict[tuple[int, int], StoredRun] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    identity: str = "1dea"

    def snapshot(self) -> StudySnapshot:
        return StudySnapshot(
            place=StudyPlace(name=self.name, folder=str(self.folder), url=""),
            objectives=(Objective(METRIC),),
            varied=tuple(
                {
                    n: None
                    for run in self.runs.values()
                    for n in run.record.settings
                    if n != CONSTANT
                }
            ),
            runs=tuple(self.runs.values()),
            finals=tuple(self.finals.values()),
            tables=frozenset(self.tables),
            identity=self.identity,
        )

    def summary(self, state: str = "running", **said: Any) -> StudySummary:
        return StudySummary(
            study=self.name,
            method="gumbel",
            state=state,
            objective=METRIC,
            mode="max",
            corpora={"corpus": {"spec": "builtin:nli", "fingerprint": "f" * 16, "rows": 100}},
            space={"settings": {"learning_rate": {"uniform": [1e-5, 1e-2], "log": True}}},
            lineage={"packages": {"ray": "2.60.0"}, "git": {"commit": "c0ffee", "dirty": False}},
            trials=[run.record for run in self.runs.values()],
            plan={"trials": self.trials, "max_examples": 4000},
            **said,
        )

    def store(self, record: TrialRecord) -> None:
        """The trial is stored as it is now."""
        self.runs[record.id] = run_of(record)

    def trial(self, number: int) -> None:
        settings = {"learning_rate": 10.0**-number, "pooling": "cls", "deep": {"er": [1, 2]}}
        settings[CONSTANT] = 32
        record = TrialRecord(id=number, state=TrialState.RUNNING, settings=settings)
        for examples in MILESTONES[: 1 + number % 3]:
            metrics = {METRIC: 0.5 + examples / 10000, "train/loss": 1.0}
            record.curve[examples], record.examples = metrics, examples
            record.metrics = {METRIC: metrics[METRIC]}
            self.store(record)
        record.state = (TrialState.PRUNED, TrialState.FAILED, TrialState.COMPLETE)[number % 3]
        record.reason = "" if record.state == "complete" else f"because of {number}"
        record.readouts, record.seconds = {"rte/threshold": 0.25}, 1.5
        record.gpu_seconds, record.restarts, record.notes = 3.0, number, [f"note of {number}"]
        self.store(record)

    def finalists(self) -> None:
        for place, seed in enumerate((1, 2)):
            curve = {at: {METRIC: 0.8} for at in MILESTONES}
            record = TrialRecord(
                id=place,
                state=TrialState.COMPLETE,
                settings=self.runs[2].record.settings,
                metrics={METRIC: 0.8},
                readouts={"rte/threshold": 0.2},
                curve=curve,
                examples=4000,
            )
            self.finals[2, seed] = run_of(record, seed, trial=2)

    def ending(self) -> StudySummary:
        """The summary at the end."""
        return self.summary(
            "complete",
            finalists=[
                FinalistRecord(
                    trial=2,
                    settings=self.runs[2].record.settings,
                    seeds=[1, 2],
                    metrics={METRIC: Spread(mean=0.8, sd=0.01, values=[0.79, 0.81])},
                )
            ],
            spent=SPENT,
            verdict="trial 2 won; the difference is within noise",
            winner=0,
            test={METRIC: 0.78},
            model=str(self.model("weights")),
        )

    def model(self, weights: str) -> Path:
        folder = self.folder / "model"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_text(weights)
        (folder / "settings.json").write_text("{}")
        return folder

    def keep_tables(self, run: str, tables: dict[str, Any]) -> None:
        """The run's ``readouts.json`` is written."""
        folder = self.folder / "trials" / run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TABLES).write_text(json.dumps(tables))
        self.tables.add(run)

    def tell(self, tracker: Tracker) -> None:
        """The whole story."""
        tracker.start(self.snapshot, self.summary())
        for number in range(self.trials):
            self.trial(number)
            tracker.notify()
        self.finalists()
        tracker.notify()
        tracker.update(self.ending())


def tracker_in(storage: Path, **options: Any) -> Tracker:
    return Tracker("little", str(storage), **options)


def close(tracker: Tracker) -> str:
    assert tracker.close(120)
    return tracker.tracking_uri


def without_ids(runs: dict[str, Any]) -> dict[str, Any]:
    """What a server holds, without what it alone decides."""
    return {name: {**run, "id": ""} for name, run in runs.items()}
