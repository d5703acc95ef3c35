"""Tables of a report: trials, the front, rungs, finalists, and what happened on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentune.formatting import SIGNS, STATES, clock, counted, measured, setting, spread
from sentune.records import FinalistRecord, TrialRecord, TrialState
from sentune.report.figures import rung_counts
from sentune.report.render import Block, Cell, ColumnHead, Section, Table, Text, columns, row
from sentune.report.view import WITHOUT_RESULT, View


def trials(view: View) -> Section:
    """Every trial, the best first."""
    summary = view.summary
    if not summary.trials:
        said = Text(text="No trial has started yet.", tone="note")
        return Section(name="trials", title="Trials", blocks=[said])
    counts = ", ".join(
        f"{view.count(state)} {STATES[state]} {SIGNS[state]}"
        for state in TrialState
        if view.count(state)
    )
    said = Text(text=f"{counted(len(summary.trials), 'trial')}: {counts}. Sorted by objective.")
    return Section(name="trials", title="Trials", blocks=[said, _table(view)])


def _table(view: View) -> Table:
    metrics = [metric for metric, _ in view.objectives]
    gpus = any(trial.gpu_seconds for trial in view.summary.trials)
    why = any(trial.reason for trial in view.summary.trials)
    heads = [
        ColumnHead(title="trial", number=True),
        ColumnHead(title="state"),
        *(ColumnHead(title=metric, number=True) for metric in metrics),
        ColumnHead(title="examples", number=True),
        ColumnHead(title="time", number=True),
        *([ColumnHead(title="GPU time", number=True)] if gpus else []),
        *(ColumnHead(title=name, number=_numeric(view, name)) for name in view.varied),
        *([ColumnHead(title="why", wide=True)] if why else []),
    ]
    rows = [_row(view, trial, metrics, gpus=gpus, why=why) for trial in view.ranked]
    return Table(columns=heads, rows=rows, sortable=True)


def _row(
    view: View, trial: TrialRecord, metrics: list[str], *, gpus: bool, why: bool
) -> list[Cell]:
    values = [(metric, view.value(trial, metric)) for metric in metrics]
    return [
        Cell(text=str(trial.id), key=trial.id, strong=trial is view.best),
        Cell(text=f"{SIGNS[trial.state]} {STATES[trial.state]}"),
        *(Cell(text=measured(metric, value), key=value) for metric, value in values),
        Cell(text=f"{trial.examples:,}", key=trial.examples),
        Cell(text=clock(trial.seconds), key=trial.seconds),
        *([Cell(text=clock(trial.gpu_seconds), key=trial.gpu_seconds)] if gpus else []),
        *(_setting(trial.settings.get(name)) for name in view.varied),
        *([Cell(text=trial.reason)] if why else []),
    ]


def _setting(value: object) -> Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(text=setting(value), key=float(value) if number else None)  # type: ignore[arg-type]


def _numeric(view: View, name: str) -> bool:
    values = [t.settings[name] for t in view.summary.trials if name in t.settings]
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def notes(view: View) -> Section | None:
    """Restarts, smaller micro-batches, damaged checkpoints, broken constraints, failures."""
    rows = [line for trial in view.summary.trials for line in _happened(trial)]
    if not rows:
        return None
    restarts = sum(trial.restarts for trial in view.summary.trials)
    bad = view.count(*WITHOUT_RESULT)
    parts = [
        *([f"{counted(restarts, 'restart')} after a process had died"] if restarts else []),
        *([f"{counted(bad, 'trial')} without a result"] if bad else []),
    ]
    lead: list[Block] = [Text(text="; ".join(parts) + ".")] if parts else []
    heads = columns("trial", "what", "said", numbers=("trial",), wide=("said",))
    table = Table(columns=heads, rows=rows, sortable=True)
    return Section(name="notes", title="What happened on the way", blocks=[*lead, table])


def _happened(trial: TrialRecord) -> list[list[Cell]]:
    told = [("note", note) for note in trial.notes]
    if trial.restarts:
        told.append(("restarts", f"{counted(trial.restarts, 'death')} of its processes forgiven"))
    if trial.state in WITHOUT_RESULT:
        told.append((STATES[trial.state], trial.reason or "no reason was given"))
    told += [
        ("constraint", f"{text} is broken by {by:.4g}")
        for text, by in trial.violations.items()
        if by > 0
    ]
    number = Cell(text=str(trial.id), key=trial.id)
    return [[number, Cell(text=what), Cell(text=said)] for what, said in told]


def front_table(view: View) -> Table:
    """The trials of the Pareto front with all objectives."""
    metrics = [metric for metric, _ in view.objectives]
    rows = []
    for trial in view.summary.trials:
        if trial.id not in view.summary.front:
            continue
        values = [(metric, view.value(trial, metric)) for metric in metrics]
        chosen = [Cell(text=setting(trial.settings.get(name))) for name in view.varied]
        cells = [Cell(text=measured(metric, value), key=value) for metric, value in values]
        rows.append([Cell(text=str(trial.id), key=trial.id), *cells, *chosen])
    heads = [f"{metric} ({mode})" for metric, mode in view.objectives]
    return Table(
        columns=columns("trial", *heads, *view.varied, numbers=("trial", *heads)),
        rows=rows,
        sortable=True,
        caption="Trials on the front." if rows else "No trial is on the front yet.",
    )


def rung_table(view: View) -> Table:
    """What became of the trials at each rung."""
    found = rung_counts(view.summary.trials, view.rungs, view.max_examples)
    counts = {
        "rung": [rung.examples for rung in found],
        "could reach": [rung.could for rung in found],
        "reached": [rung.reached for rung in found],
        "stopped here": [rung.judged for rung in found],
        "lost before": [rung.lost for rung in found],
        "on the way": [rung.running for rung in found],
    }
    shown = {name: numbers for name, numbers in counts.items() if any(numbers)}
    rows = [[Cell(text=f"{n:,}") for n in line] for line in zip(*shown.values(), strict=True)]
    return Table(columns=columns(*shown, numbers=[*shown]), rows=rows, beside=True)


def finalist_table(view: View) -> Table:
    """Finalists with their seeds and settings."""
    objective = view.summary.objective
    heads = columns("trial", "", objective, "seeds", *view.varied, numbers=("trial", objective))
    rows = [_finalist(view, finalist, objective) for finalist in view.summary.finalists]
    return Table(columns=heads, rows=rows)


def _finalist(view: View, finalist: FinalistRecord, objective: str) -> list[Cell]:
    over, won = finalist.metrics.get(objective), finalist is view.winner
    pairs = zip(finalist.seeds, over.values if over is not None else (), strict=False)
    return [
        Cell(text=str(finalist.trial)),
        Cell(text="winner" if won else "", strong=won),
        Cell(text=spread(objective, over) if over is not None else "-"),
        Cell(text=", ".join(f"{seed}: {measured(objective, value)}" for seed, value in pairs)),
        *(Cell(text=setting(finalist.settings.get(name))) for name in view.varied),
    ]


def comparison_table(comparison: Mapping[str, Any]) -> Table:
    """The paired test of the winner against the runner-up."""
    metric = comparison["metric"]
    shown = {
        "runner-up": setting(comparison["runner_up"]),
        "difference": measured(metric, comparison["difference"]),
        "95 % interval": " to ".join(measured(metric, end) for end in comparison["interval"] or ()),
        "p": setting(comparison["p"]),
        "test": comparison["test"],
        "seeds": ", ".join(map(str, comparison["seeds"])),
    }
    rows = [row(name, value) for name, value in shown.items()]
    return Table(columns=columns("winner against runner-up", ""), rows=rows, beside=True)
