"""Parallel coordinates: each trial a line through its settings to its objective."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sentune.records import StudySummary, TrialState
from sentune.tracking.axes import Axis, axes_of
from sentune.tracking.figures import GREY, empty, new_figure, scored_trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def parallel(summary: StudySummary) -> Figure:
    """Parallel coordinates: a line per trial through its settings to the objective."""
    axes_wanted = axes_of(summary)
    scored = scored_trials(summary)
    figure, axes = new_figure(max(6.5, 1.25 * (len(axes_wanted) + 1) + 1.6), 5)
    axes.set_title(f"{summary.study}: settings and {summary.objective}", loc="left", pad=14)
    if not scored or not axes_wanted:
        return empty(figure, axes, "no trial has a value" if not scored else "nothing varied")
    values = [t.metrics[summary.objective] for t in scored]
    last = Axis(summary.objective, low=min(values), high=max(values))
    columns = [*axes_wanted, last]
    _vertical_axes(axes, columns)
    norm, colours = _scale(figure, axes, last)
    alpha = min(0.9, max(0.3, 30 / len(scored)))
    better = -1 if summary.mode == "min" else 1
    for trial in sorted(scored, key=lambda t: better * t.metrics[summary.objective]):
        value = trial.metrics[summary.objective]
        heights = [axis.position(trial.settings.get(axis.name)) for axis in axes_wanted]
        line = [math.nan if h is None else h for h in (*heights, last.position(value))]
        style = "-" if trial.state is TrialState.COMPLETE else (0, (4, 2))
        axes.plot(line, color=colours(norm(value)), linestyle=style, linewidth=1.4, alpha=alpha)
    axes.text(
        0,
        -0.16,
        "dashed: stopped early or failed",
        transform=axes.transAxes,
        color=GREY,
        fontsize=9,
    )
    return figure


def _vertical_axes(axes: Axes, columns: Sequence[Axis]) -> None:
    axes.set_axis_off()
    axes.set(xlim=(-0.35, len(columns) - 0.3), ylim=(-0.1, 1.06))
    for place, axis in enumerate(columns):
        axes.plot([place, place], [0, 1], color="#33383d", linewidth=1, zorder=4)
        for height, label in axis.ticks():
            axes.plot([place - 0.03, place], [height, height], color="#33383d", linewidth=1)
            axes.text(
                place - 0.05,
                height,
                label,
                ha="right",
                va="center",
                fontsize=8,
                zorder=5,
                bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6},
            )
        name = _wrapped(axis.name) + ("\n(log)" if axis.log else "")
        axes.text(place, -0.06, name, ha="center", va="top", fontsize=9)


def _wrapped(name: str, most: int = 13) -> str:
    """A setting's name over several lines, broken after underscores and slashes."""
    lines = [""]
    for part in re.findall(r"[^_/]*[_/]?", name):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _scale(figure: Figure, axes: Axes, axis: Axis) -> tuple[Any, Any]:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    norm = Normalize(axis.low, axis.high if axis.high > axis.low else axis.low + 1e-9)
    colours = colormaps["viridis_r"]
    figure.colorbar(ScalarMappable(norm, colours), ax=axes, label=axis.name, pad=0.01)
    return norm, colours
