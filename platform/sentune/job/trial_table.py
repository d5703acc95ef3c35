"""Trials and finalists as tables on a terminal: while a study runs, at its end, and later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, ON_PART, clock, measured, short, spread
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
    wide = (width or 0) >= WIDE and any(trial.reason or trial.source for trial in trials)
    numbers = [*metrics, "examples", "time", *(["GPU h"] if gpus else [])]
    words = [Column(title, no_wrap=True) for title in ("trial", "state")]
    table = plain_table(*words, *map(number_column, numbers), Column("settings"), **style)
    if wide:
        table.add_column("reason", overflow="fold")
    for trial in trials:
        sign = ON_PART if trial.on_part else ""
        scores = [sign + measured(metric, trial.metrics.get(metric)) for metric in metrics]
        spent = [f"{trial.examples:,}", clock(trial.seconds)]
        spent += [f"{trial.gpu_seconds / 3600:.2f}"] if gpus else []
        shown = {name: trial.settings[name] for name in varied if name in trial.settings}
        settings = Text(str(without_credentials(short(shown))))
        if width is not None:
            settings.no_wrap, settings.overflow = True, "ellipsis"
        source = f"from {trial.source}" if trial.source else ""
        reasons = []
        if wide:
            reason = without_credentials("; ".join(filter(None, (source, trial.reason))))
            reasons = [Text(reason, "default" if trial.state is TrialState.FAILED else "dim")]
        elif source:
            settings.append(f"\n{source}", "dim")
        state = Text(*marked(trial.state, alive=alive))
        style_of_row = "bold" if trial.id == best else None
        table.add_row(str(trial.id), state, *scores, *spent, settings, *reasons, style=style_of_row)
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
