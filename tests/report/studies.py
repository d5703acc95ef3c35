"""Studies in all states, made up: shapes as real ones have them, values from a seed."""

from __future__ import annotations

import math
import random
from typing import Any

from sentune.records import FinalistRecord, Spent, Spread, StudySummary, TrialRecord, TrialState
from sentune.report.blocks import Table

OBJECTIVE = "direction/accuracy"
RUNGS, FULL = [1000, 3000], 9000
SPACE: dict[str, Any] = {
    "learning_rate": {"uniform": [1e-5, 5e-3], "log": True},
    "batch_size": {"choice": [16, 32, 64]},
    "pooling": {"choice": ["cls", "mean"]},
}
ENDS = [
    (TrialState.PRUNED, 1000),
    (TrialState.PRUNED, 1000),
    (TrialState.COMPLETE, FULL),
    (TrialState.PRUNED, 3000),
    (TrialState.FAILED, 0),
    (TrialState.INFEASIBLE, 0),
]


def trial(number: int, state: TrialState, examples: int, **more: Any) -> TrialRecord:
    dice = random.Random(number)
    rate = 10 ** dice.uniform(-5, -2.3)
    top = 0.95 - 0.05 * (math.log10(rate) + 3.2) ** 2
    curve = {
        at: {OBJECTIVE: top * (1 - 0.3 * math.exp(-at / 2000)), "train/seconds": at / 50}
        for at in range(500, examples + 1, 500)
    }
    settings = {
        "learning_rate": rate,
        "batch_size": dice.choice([16, 32, 64]),
        "pooling": dice.choice(["cls", "mean"]),
    }
    record = TrialRecord(
        id=number,
        state=state,
        settings=settings,
        metrics=dict(curve[examples]) if curve else {},
        examples=examples,
        seconds=examples / 50,
        curve=curve,
    )
    for name, value in more.items():
        setattr(record, name, value)
    return record


def trials(count: int) -> list[TrialRecord]:
    return [trial(n, *ENDS[n % len(ENDS)]) for n in range(count)]


def study(records: list[TrialRecord], state: str = "complete", **more: Any) -> StudySummary:
    data = "snli:/data/snli_1.0_"
    summary = StudySummary(
        study="little",
        method="gumbel",
        state=state,
        objective=OBJECTIVE,
        mode="max",
        corpora={
            "corpus": _corpus(data + "train.jsonl", "triplets", 100),
            "dev": _corpus(data + "dev.jsonl", "labelled-pairs", 50),
            "test": _corpus(data + "test.jsonl", "labelled-pairs", 50),
        },
        space={"settings": SPACE, "fixed": {"warmup": 0.1}, "published": {"batch_size": 512}},
        lineage={"encoder": "builtin:tiny", "packages": {"torch": "2.13.0"}, "python": "3.11"},
        trials=records,
        spent=Spent(trials=len(records), examples=12_345, hours=1.5, gpu_hours=0.25),
        plan={"trials": len(records), "rungs": RUNGS, "max_examples": FULL, "eta": 3},
    )
    for name, value in more.items():
        setattr(summary, name, value)
    return summary


def finalists(records: list[TrialRecord]) -> list[FinalistRecord]:
    complete = [record for record in records if record.state is TrialState.COMPLETE][:2]
    return [
        FinalistRecord(
            trial=record.id,
            settings=record.settings,
            seeds=[1, 2, 3],
            readouts={"rte/threshold": 0.4},
            metrics={
                OBJECTIVE: Spread(mean=mean, sd=0.005, values=[mean - 0.005, mean, mean + 0.005])
            },
            seconds=10.0,
        )
        for record, mean in zip(complete, (0.931, 0.929), strict=False)
    ]


def finished(count: int = 12) -> StudySummary:
    records = trials(count)
    return study(
        records,
        finalists=finalists(records),
        winner=0,
        test={OBJECTIVE: 0.9174},
        baselines={"direction/length": 0.5},
        verdict="The difference to the runner-up is within noise.",
        comparison={
            "winner": 2,
            "metric": OBJECTIVE,
            "runner_up": 5,
            "seeds": [1, 2, 3],
            "difference": 0.004,
            "interval": [-0.003, 0.011],
            "p": 0.31,
            "test": "paired t-test",
        },
        test_reads=[
            {"time": "2026-01-01T00:00:00Z", "run": "0002", "test": ["t"], "forced": False}
        ],
        model="studies/little/model",
    )


def texts(table: Table) -> list[list[str]]:
    """What the cells of a table say, row by row."""
    return [[cell.text for cell, _ in line] for line in table.lines]


def _corpus(spec: str, kind: str, rows: int) -> dict[str, Any]:
    return {"spec": spec, "kind": kind, "rows": rows, "fingerprint": "f" * 32}
