"""Report sections on the trials: table, search, front, settings, rungs, finals, events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentune.formatting import ON_PART, SIGNS, STATES, clock, counted, measured, setting, spread
from sentune.records import FinalistRecord, TrialRecord, TrialState
from sentune.report import figures
from sentune.report.blocks import Block, Cell, Table, Text, metric_cell, setting_cell
from sentune.report.importance import FEWEST
from sentune.report.sweep_figures import figures_in
from sentune.report.view import WITHOUT_RESULT, View


def trials(view: View) -> list[Block]:
    """Return a table of all trials, the best first."""
    every = view.trials
    if not every:
        return [Text("No trial has started yet.", "note")]
    counts = ", ".join(
        f"{count} {view.word(state)} {SIGNS[state]}"
        for state in TrialState
        if (count := view.count(state))
    )
    part = f" {ON_PART} marks estimates on a part of dev." if any(t.on_part for t in every) else ""
    said = Text(f"{counted(len(every), 'trial')}: {counts}. Sorted by objective.{part}")
    metrics = [metric for metric, _ in view.objectives]
    rows = [
        [
            Cell(str(trial.id), trial.id, trial is view.best),
            f"{SIGNS[trial.state]} {view.word(trial.state)}",
            *(_cell(view, trial, metric) for metric in metrics),
            trial.examples,
            Cell(clock(trial.seconds), trial.seconds),
            Cell(clock(trial.gpu_seconds), trial.gpu_seconds) if trial.gpu_seconds else "",
            *(setting_cell(trial.settings.get(name)) for name in view.varied),
            trial.reason,
        ]
        for trial in view.ranked
    ]
    heads = ["trial", "state", *metrics, "examples", "time", "GPU time", *view.varied, "reason"]
    return [said, Table(heads=heads, rows=rows, sortable=True)]


def _cell(view: View, trial: TrialRecord, metric: str) -> Cell:
    found = metric_cell(metric, view.value(trial, metric))
    return found._replace(text=ON_PART + found.text) if trial.on_part else found


def search(view: View) -> list[Block | None]:
    """Return the optimisation history and the learning curves."""
    return [figures.history(view), figures.curves(view)]


def pareto(view: View) -> list[Block | None]:
    """Return the Pareto front as figure and table; empty for a single objective."""
    if len(view.objectives) < 2:
        return []
    rows = [
        [
            Cell(str(trial.id), trial.id),
            *(metric_cell(metric, view.value(trial, metric)) for metric, _ in view.objectives),
            *(setting_cell(trial.settings.get(name)) for name in view.varied),
        ]
        for trial in view.trials
        if trial.id in view.summary.front
    ]
    heads = ["trial", *(f"{metric} ({mode})" for metric, mode in view.objectives), *view.varied]
    said = "Trials on the front." if rows else "No trial is on the front yet."
    return [figures.front(view), Table(heads=heads, rows=rows, caption=said, sortable=True)]


def settings(view: View) -> list[Block | None]:
    """Return the settings' importance and parallel coordinates; empty if no setting varied."""
    if not view.varied:
        return []
    if (found := view.importance) is None:
        why = f"Importance needs {FEWEST} comparable trials that differ in settings and result."
        return [Text(why, "note"), figures.parallel(view)]
    rows = [
        (name, Cell(f"{100 * share:.0f} ± {100 * found.spreads[name]:.0f} %", share))
        for name, share in sorted(found.shares.items(), key=lambda one: -one[1])
    ]
    table = Table(heads=("setting", "importance"), rows=rows, beside=True)
    return [figures.importance(view), table, figures.parallel(view)]


def rungs(view: View) -> list[Block | None]:
    """Return the number of trials at each rung as figure and table; empty without rungs."""
    drawn = figures.survival(view)
    if drawn is None:
        return []
    plan = view.summary.plan
    scheduler = plan.get("scheduler") or "asha"
    keeps = plan.get("eta") and scheduler != "median"
    eta = f", which keeps one trial in {plan['eta']} at a rung" if keeps else ""
    said = f"Scheduler {scheduler}{eta}. A full trial sees {view.max_examples:,} examples."
    found = view.rung_counts
    counts = {
        "rung": [*found],
        "reached or stopped earlier": [r["reached"] + r["stopped"] for r in found.values()],
        "reached": [rung["reached"] for rung in found.values()],
        "stopped here": [rung["judged"] for rung in found.values()],
        "failed earlier": [rung["lost"] for rung in found.values()],
        "not there yet": [rung["running"] for rung in found.values()],
    }
    shown = {name: numbers for name, numbers in counts.items() if any(numbers)}
    rows = [*zip(*shown.values(), strict=True)]
    return [Text(said), drawn, Table(heads=[*shown], rows=rows, beside=True)]


def finals(view: View) -> list[Block | None]:
    """Return the finalists with seeds and settings, best mean first; empty without finalists."""
    rows = [_finalist(view, finalist) for finalist in view.summary.finalists]
    heads = ["trial", "", view.summary.objective, "seeds", *view.varied]
    table = Table(heads=heads, rows=rows)
    return [figures.finalists(view), _tested(view.summary.comparison), table]


def _finalist(view: View, finalist: FinalistRecord) -> list[Cell | str]:
    objective = view.summary.objective
    over, won = finalist.metrics.get(objective), finalist is view.winner
    pairs = zip(finalist.seeds, over.values if over is not None else (), strict=False)
    return [
        Cell(str(finalist.trial), finalist.trial),
        Cell("winner" if won else "", strong=won),
        Cell(spread(objective, over), over.mean) if over is not None else "-",
        ", ".join(f"{seed}: {measured(objective, value)}" for seed, value in pairs),
        *(setting_cell(finalist.settings.get(name)) for name in view.varied),
    ]


def _tested(comparison: Mapping[str, Any]) -> Table | None:
    """Return the paired test of the winner against the runner-up, or None."""
    if comparison.get("runner_up") is None:
        return None
    metric = comparison["metric"]
    shown = {
        "runner-up": setting(comparison["runner_up"]),
        "difference": measured(metric, comparison["difference"]),
        "95 % interval": " to ".join(measured(metric, end) for end in comparison["interval"] or ()),
        "p": setting(comparison["p"]),
        "test": comparison["test"],
        "seeds": ", ".join(map(str, comparison["seeds"])),
    }
    return Table(heads=("winner against runner-up", ""), rows=[*shown.items()], beside=True)


def readouts(view: View) -> list[Block]:
    """Return the best readouts and the figures of their sweeps on the winner's frozen model."""
    winner = view.winner or view.best
    chosen = winner.readouts if winner is not None else {}
    drawn = figures_in(view.folder, view.judged_on) if view.folder is not None else []
    if not chosen and not drawn:
        return []
    rows = [(name, setting_cell(value)) for name, value in sorted(chosen.items())]
    said = "Readouts are hyperparameters that need no training. They are swept on the frozen model."
    table = Table(heads=("readout", "best value"), rows=rows, beside=True)
    return [Text(said, "note"), *drawn, table]


def notes(view: View) -> list[Block]:
    """Return a table of restarts, notes, violated constraints and failures of trials."""
    every = view.trials
    rows = [
        (Cell(str(trial.id), trial.id), what, said)
        for trial in every
        for what, said in events(trial)
    ]
    restarts, bad = sum(trial.restarts for trial in every), view.count(*WITHOUT_RESULT)
    lead = []
    if restarts:
        lead.append(f"{counted(restarts, 'restart')} after a process died")
    if bad:
        lead.append(f"{counted(bad, 'trial')} without a result")
    said = Text(f"{'; '.join(lead)}." if lead else "")
    return [said, Table(heads=("trial", "event", "details"), rows=rows, sortable=True)]


def events(trial: TrialRecord) -> Iterator[tuple[str, str]]:
    """Yield the events of a trial, each as its kind and a phrase."""
    if trial.restarts:
        times = {1: "once", 2: "twice"}.get(trial.restarts, f"{trial.restarts} times")
        yield "restarts", f"its processes died {times} and it was resumed"
    yield from (("note", note) for note in trial.notes)
    for name, by in trial.violations.items():
        if by > 0:
            yield "constraint", f"violates {name} by {by:.4g}"
    if trial.state in WITHOUT_RESULT:
        yield STATES[trial.state], trial.reason or "unknown reason"
