"""The trials of a study as a table that sorts, and what happened to them beside their curves."""

from __future__ import annotations

from sentune.formatting import SIGNS, STATES, clock, counted, measured, setting
from sentune.records import TrialRecord, TrialState
from sentune.report.document import Block, Cell, Column, Section, Table, Text, columns
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
        Column(title="trial", number=True),
        Column(title="state"),
        *(Column(title=metric, number=True) for metric in metrics),
        Column(title="examples", number=True),
        Column(title="time", number=True),
        *([Column(title="GPU time", number=True)] if gpus else []),
        *(Column(title=name, number=_numeric(view, name)) for name in view.varied),
        *([Column(title="why", wide=True)] if why else []),
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
