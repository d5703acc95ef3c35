"""Trials and finalists as tables on a terminal: while a study runs, at its end, and later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, clock, measured, short, spread
from sentune.records import FinalistRecord, TrialRecord, TrialState
from sentune.terminal import number_column, plain_table

WIDE = 110
"""Columns from which a trial's reason stands beside its settings."""


def trials_table(
    trials: Sequence[TrialRecord],
    metrics: Sequence[str],
    varied: Collection[str],
    *,
    width: int | None = None,
    alive: bool = True,
    best: int | None = None,
    **style: Any,
) -> Table:
    """Return a line for each trial: state, metrics, cost, settings, and, if wide, reason.

    Args:
        varied: names of the settings that are shown.
        width: columns of the terminal, to which settings are cut; None: they are shown whole.
        alive: whether a driver works at those that run.
        best: number of the trial that is highlighted.
    """
    gpus = any(trial.gpu_seconds for trial in trials)
    titles = ["trial", "state", *metrics, "examples", "time", *(["GPU h"] if gpus else [])]
    cells: list[list[str | Text]] = []
    for trial in trials:
        scores = [measured(metric, trial.metrics.get(metric)) for metric in metrics]
        spent = [f"{trial.examples:,}", clock(trial.seconds)]
        spent += [f"{trial.gpu_seconds / 3600:.2f}"] if gpus else []
        state = Text(*marked(trial.state, alive=alive))
        cells.append([str(trial.id), state, *scores, *spent])
    words = [Column(title, no_wrap=True) for title in titles[:2]]
    table = plain_table(*words, *map(number_column, titles[2:]), "settings", **style)
    columns = zip(titles, *([str(cell) for cell in row] for row in cells), strict=True)
    room = (width or 0) - sum(max(map(len, column)) + 2 for column in columns)
    wide = (width or 0) >= WIDE and any(trial.reason or trial.source for trial in trials)
    if wide:
        table.add_column("reason", overflow="fold")
        room //= 2
    for row, trial in zip(cells, trials, strict=True):
        shown = {name: trial.settings[name] for name in varied if name in trial.settings}
        settings = Text(str(without_credentials(short(shown))))
        if width is not None:  # cut here: columns that must not wrap would be squeezed to nothing
            settings.truncate(max(16, room), overflow="ellipsis")
        source = f"from {trial.source}" if trial.source else ""
        if not wide:
            settings.append(f"\n{source}" if source else "", "dim")
            table.add_row(*row, settings, style="bold" if trial.id == best else None)
            continue
        reason = without_credentials("; ".join(filter(None, (source, trial.reason))))
        colour = "default" if trial.state is TrialState.FAILED else "dim"
        told = Text(reason, colour)
        table.add_row(*row, settings, told, style="bold" if trial.id == best else None)
    return table


def finalists_table(
    finalists: Sequence[FinalistRecord], metric: str, winner: int | None = None, **style: Any
) -> Table:
    """Return a line for each finalist: mean and every seed; the winner is marked by its place."""
    table = plain_table("finalist", metric, "seeds", Column("values", overflow="fold"), **style)
    for place, finalist in enumerate(finalists):
        name = Text(f"trial {finalist.trial}")
        if place == winner:
            name.append(", winner", "green")
        over = finalist.metrics.get(metric)
        values = over.values if over is not None else []
        each = ", ".join(measured(metric, value) for value in values)
        mean = spread(metric, over) if over is not None else "-"
        table.add_row(name, mean, str(len(values)), each)
    return table


def marked(state: TrialState, *, alive: bool) -> tuple[str, str]:
    """Return word and colour of a state; the next start goes on with what no driver works at."""
    left = state is TrialState.RUNNING and not alive
    return ("unfinished", "yellow") if left else MARKS[state]
