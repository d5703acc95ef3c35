"""Several objectives: the trials that no other beats in every one."""

from __future__ import annotations

from sentune.formatting import measured, setting
from sentune.records import TrialState
from sentune.report.axes import legend, metric_axis, scatter
from sentune.report.document import Block, Cell, Column, Picture, Section, Table
from sentune.report.drawing import BEST, figure, to_svg
from sentune.report.view import View


def pareto(view: View) -> Section | None:
    """The front as a picture of the first two objectives and a table of all of them."""
    if len(view.objectives) < 2:
        return None
    drawing = front(view)
    blocks: list[Block] = [*([drawing] if drawing else []), _table(view)]
    return Section(name="front", title="Pareto front", blocks=blocks)


def _table(view: View) -> Table:
    metrics = [metric for metric, _ in view.objectives]
    rows = []
    for trial in view.summary.trials:
        if trial.id not in view.summary.front:
            continue
        values = [(metric, view.value(trial, metric)) for metric in metrics]
        chosen = [Cell(text=setting(trial.settings.get(name))) for name in view.varied]
        cells = [Cell(text=measured(metric, value), key=value) for metric, value in values]
        rows.append([Cell(text=str(trial.id), key=trial.id), *cells, *chosen])
    heads = [Column(title=f"{metric} ({mode})", number=True) for metric, mode in view.objectives]
    named = [Column(title=name) for name in view.varied]
    caption = "Trials on the front." if rows else "No trial is on the front yet."
    return Table(
        columns=[Column(title="trial", number=True), *heads, *named],
        rows=rows,
        sortable=True,
        caption=caption,
    )


def front(view: View) -> Picture | None:
    """Two objectives against each other, and the trials that no other beats in both."""
    if len(view.objectives) < 2:
        return None
    (first, mode), (second, other) = view.objectives[:2]
    placed = [
        (trial, x, y)
        for trial in view.summary.trials
        if (x := view.value(trial, first)) is not None
        and (y := view.value(trial, second)) is not None
    ]
    if not placed:
        return None
    drawn, axes = figure()
    for state in TrialState:
        scatter(axes, state, [(x, y) for trial, x, y in placed if trial.state is state])
    best = sorted((x, y, trial.id) for trial, x, y in placed if trial.id in view.summary.front)
    if best:
        xs, ys, ids = zip(*best, strict=True)
        axes.plot(xs, ys, "-", color=BEST, lw=1.2, label="front", zorder=2)
        for x, y, number in zip(xs, ys, ids, strict=True):
            axes.annotate(str(number), (x, y), (4, 4), textcoords="offset points", fontsize=8)
    metric_axis(axes, first, along="x")
    metric_axis(axes, second)
    legend(axes)
    title = "Pareto front"
    listed = ", ".join(str(number) for number in view.summary.front) or "none yet"
    said = (
        f"{first} ({mode}) against {second} ({other}). Trials that no other beats in every "
        f"objective: {listed}."
    )
    return Picture(title=title, description=said, svg=to_svg(drawn, "front", f"{title}: {said}"))
