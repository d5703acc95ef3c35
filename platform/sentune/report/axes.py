"""What the axes of all pictures share: marks of states, units of metrics, legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentune.formatting import STATES, measured
from sentune.records import TrialState
from sentune.report.drawing import INK, MARKERS, plain
from sentune.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scatter(axes: Axes, state: TrialState, points: Sequence[tuple[float, float]]) -> None:
    """Trials of one state, in its shape."""
    if points:
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, s=26, lw=1.2, label=STATES[state], zorder=3, **MARKERS[state])


def trial_axis(axes: Axes, view: View) -> None:
    """Numbers of trials along x."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("trial", fontsize=9)
    axes.set_xlim(-0.7, max(trial.id for trial in view.summary.trials) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))


def metric_axis(axes: Axes, metric: str, along: str = "y") -> None:
    """A metric in its unit, with as many digits as its ticks need."""
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_label_text(plain(metric), fontsize=9)
    if measured(metric, 0.5).endswith("%"):
        low, high = sorted(axis.get_view_interval())
        digits = min(3, max(0, math.ceil(-math.log10(max(100 * (high - low), 1e-3) / 4))))
        axis.set_major_formatter(lambda value, _: f"{100 * value:.{digits}f} %")
    else:
        axis.set_major_formatter(lambda value, _: measured(metric, value))


def legend(axes: Axes, columns: int = 3) -> None:
    """Above the drawing, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            frameon=False,
            fontsize=8.5,
            ncols=columns,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            borderaxespad=0,
            handletextpad=0.4,
            columnspacing=1.0,
            labelcolor=INK,
        )
