"""Pictures of the search: when what was found, and how trials learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sentune.formatting import counted, measured
from sentune.records import TrialRecord, TrialState
from sentune.report.axes import legend, metric_axis, scatter, trial_axis
from sentune.report.document import Cell, Column, Picture, Table
from sentune.report.drawing import BEST, INK, MARKERS, MUTED, figure, to_svg
from sentune.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 8
"""Milestones of a table of learning curves."""


def history(view: View) -> Picture | None:
    """The objective of each trial and the best so far, by the order in which trials began."""
    scored = [(t, v) for t in view.summary.trials if (v := view.value(t)) is not None]
    if not scored:
        return None
    drawn, axes = figure()
    best = _best_so_far([value for _, value in scored], view.sign)
    axes.step([t.id for t, _ in scored], best, where="post", color=INK, lw=1.2, label="best so far")
    for state in TrialState:
        scatter(axes, state, [(t.id, v) for t, v in scored if t.state is state])
    lost = [trial.id for trial in view.summary.trials if view.value(trial) is None]
    if lost:  # no place on the scale: a mark at the foot
        foot = axes.get_xaxis_transform()
        axes.plot(lost, [0.02] * len(lost), "|", color=BEST, transform=foot, label="no value")
    trial_axis(axes, view)
    metric_axis(axes, view.summary.objective)
    legend(axes)
    title = "Optimisation history"
    said = (
        f"{view.summary.objective} of each trial by its number, and the best so far "
        f"({measured(view.summary.objective, best[-1])} after {counted(len(scored), 'trial')} with "
        "a value). A trial that was stopped early stands where it was stopped."
    )
    return Picture(title=title, description=said, svg=to_svg(drawn, "history", f"{title}: {said}"))


def learning_curves(view: View) -> Picture | None:
    """The objective of each trial by examples, with the rungs."""
    objective = view.summary.objective
    curves = {t.id: _points(t, objective) for t in view.ranked}
    if max((len(points) for points in curves.values()), default=0) < 2:
        return None
    drawn, axes = figure()
    for rung in view.rungs:
        axes.axvline(rung, color=MUTED, lw=0.8, ls=(0, (2, 3)), zorder=1)
    best = view.best.id if view.best is not None else None
    faint = min(0.8, max(0.15, 12 / len(curves)))
    for trial in reversed(view.ranked):
        _curve(axes, trial, curves[trial.id], best=trial.id == best, alpha=faint)
    metric_axis(axes, objective)
    axes.set_xlabel("examples seen", fontsize=9)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=5)
    legend(axes)
    rungs = ", ".join(f"{rung:,}" for rung in view.rungs)
    said = f"{objective} by examples seen; a trial's last point has the shape of its state" + (
        f", dotted lines are the rungs at {rungs}." if rungs else "."
    )
    title = "Learning curves"
    svg = to_svg(drawn, "curves", f"{title}: {said}")
    return Picture(title=title, description=said, svg=svg, table=_curve_table(view, curves))


def _best_so_far(values: Iterable[float], sign: float) -> list[float]:
    best: list[float] = []
    for value in values:
        best.append(min([*best[-1:], value], key=lambda v: sign * v))
    return best


def _points(trial: TrialRecord, objective: str) -> list[tuple[int, float]]:
    points = ((at, metrics.get(objective)) for at, metrics in sorted(trial.curve.items()))
    return [(at, value) for at, value in points if value is not None and math.isfinite(value)]


def _curve(
    axes: Axes, trial: TrialRecord, points: Sequence[tuple[int, float]], *, best: bool, alpha: float
) -> None:
    if not points:
        return
    x, y = zip(*points, strict=True)
    if best:
        axes.plot(x, y, "-", color=BEST, lw=2, zorder=4, label=f"trial {trial.id}, the best")
    else:
        axes.plot(x, y, "-", color=MUTED, lw=1, alpha=alpha, zorder=2)
    axes.scatter(x[-1:], y[-1:], s=18, lw=1, zorder=5, **MARKERS[trial.state])


def _curve_table(view: View, curves: dict[int, list[tuple[int, float]]]) -> Table:
    """Values at the rungs and the end, or at milestones evenly chosen."""
    every = sorted({at for points in curves.values() for at, _ in points})
    wanted = [at for at in (*view.rungs, view.max_examples) if at in every]
    if len(wanted) < 2:
        wanted = every
    shown = wanted[:: max(1, math.ceil(len(wanted) / MOST_COLUMNS))]
    rows = []
    for number, points in sorted(curves.items()):
        at = dict(points)
        cells = [
            Cell(text=measured(view.summary.objective, at.get(e)), key=at.get(e)) for e in shown
        ]
        rows.append([Cell(text=str(number), key=number), *cells])
    heads = [Column(title=f"{examples:,}", number=True) for examples in shown]
    return Table(columns=[Column(title="trial", number=True), *heads], rows=rows, sortable=True)
