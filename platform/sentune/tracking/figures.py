"""The frame of every picture, and what all of them share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sentune.records import StudySummary, TrialRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#6b7075"


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of its own: pyplot's global state is not for threads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e8ea", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def empty(figure: Figure, axes: Axes, why: str) -> Figure:
    """A picture that says why it shows nothing."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)
    return figure


def scored_trials(summary: StudySummary) -> list[TrialRecord]:
    """Trials whose objective is a number."""
    return [
        trial
        for trial in summary.trials
        if math.isfinite(trial.metrics.get(summary.objective, math.nan))
    ]
