"""Which settings mattered: importance, and parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentune.formatting import measured
from sentune.records import TrialRecord, TrialState
from sentune.report.document import Block, Picture, Section, Table, Text, columns, row
from sentune.report.drawing import ACCENT, BEST, INK, MUTED, figure, plain, to_svg
from sentune.report.view import View
from sentune.tracking.axes import Axis, axes_of
from sentune.tracking.importance import FEWEST, Importance, importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEST_SHARE, MOST_BEST = 0.1, 8
"""Trials that stand out in the parallel coordinates: a tenth, not more than one can follow."""


def settings(view: View) -> Section | None:
    """Importance and parallel coordinates; None where nothing varied."""
    if not view.varied:
        return None
    found = importance(view.summary)
    why = f"Importance needs {FEWEST} comparable trials that differ in settings and result."
    blocks: list[Block] = [Text(text=why, tone="note")]
    if found is not None:
        blocks = [_importance(found), _shares(found)]
    if (lines := parallel(view)) is not None:
        blocks.append(lines)
    return Section(name="settings", title="Settings", blocks=blocks)


def _importance(found: Importance) -> Picture:
    names = sorted(found.shares, key=lambda name: found.shares[name])
    drawn, axes = figure(5.0, 0.8 + 0.27 * len(names))
    axes.grid(visible=False)
    bars = axes.barh(
        [plain(name, 28) for name in names],
        [found.shares[name] for name in names],
        xerr=[found.spreads[name] for name in names],
        height=0.62,
        color=ACCENT if found.fit > 0 else "none",
        edgecolor=ACCENT,
        error_kw={"ecolor": MUTED, "elinewidth": 1},
    )
    labels = [f"{100 * found.shares[name]:.0f} %" for name in names]
    axes.bar_label(bars, labels, padding=5, fontsize=8.5, color=INK)
    reach = 1.2 * max(found.shares[n] + found.spreads[n] for n in names) + 0.02
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlim(0, reach)
    title, said = "Importance of settings", _basis(found)
    svg = to_svg(drawn, "importance", f"{title}: {said}")
    return Picture(title=title, description=said, svg=svg)


def _shares(found: Importance) -> Table:
    names = sorted(found.shares, key=lambda name: -found.shares[name])
    rows = [
        row(name, f"{100 * found.shares[name]:.0f} ± {100 * found.spreads[name]:.0f} %")
        for name in names
    ]
    heads = columns("setting", "importance", numbers=("importance",))
    return Table(columns=heads, rows=rows, beside=True)


def _basis(found: Importance) -> str:
    at = f" at {found.examples:,} examples" if found.examples is not None else ""
    said = (
        "Share of the permutation importance in a random forest, ± standard deviation over 20 "
        f"shuffles; {found.trials} trials{at}, out-of-bag R² {found.fit:.2f}."
    )
    explains = "" if found.fit > 0 else " The forest explains nothing yet: do not read it."
    return said + explains


def parallel(view: View) -> Picture | None:
    """A line per trial through its settings to its objective; the best stand out."""
    scored = [(t, v) for t in view.ranked if (v := view.value(t)) is not None]
    wanted = axes_of(view.summary)
    if len(scored) < 2 or not wanted:
        return None
    values = [value for _, value in scored]
    last = Axis(view.summary.objective, low=min(values), high=max(values))
    drawn, axes = figure(max(10.0, min(13.0, 1.05 * (len(wanted) + 1) + 0.6)), 3.9)
    _upright(axes, [*wanted, last])
    best = {
        trial.id for trial, _ in scored[: min(MOST_BEST, max(1, round(BEST_SHARE * len(scored))))]
    }
    faint = min(0.75, max(0.15, 25 / len(scored)))
    for trial, value in reversed(scored):
        _line(axes, trial, _heights(trial, value, wanted, last), trial.id in best, faint)
    title = "Settings and result"
    said = (
        f"Each line is a trial, from its settings on the left to {view.summary.objective} on the "
        f"right. Bold: the best {len(best)} of {len(scored)}; dashed: stopped early or failed."
    )
    svg = to_svg(drawn, "parallel", f"{title}: {said}")
    return Picture(title=title, description=said, svg=svg, wide=True)


def _heights(trial: TrialRecord, value: float, wanted: Sequence[Axis], last: Axis) -> list[float]:
    found = [*(axis.position(trial.settings.get(axis.name)) for axis in wanted)]
    return [math.nan if height is None else height for height in (*found, last.position(value))]


def _line(axes: Axes, trial: TrialRecord, heights: list[float], best: bool, faint: float) -> None:
    style = "-" if trial.state is TrialState.COMPLETE else (0, (4, 2))
    if best:
        axes.plot(heights, color=BEST, ls=style, lw=2.2, zorder=3)
    else:
        axes.plot(heights, color=ACCENT, ls=style, lw=1.1, alpha=faint, zorder=2)


def _upright(axes: Axes, columns_: Sequence[Axis]) -> None:
    axes.set_axis_off()
    axes.set(xlim=(-0.45, len(columns_) - 0.6), ylim=(-0.03, 1.21))
    for place, axis in enumerate(columns_):
        axes.plot([place, place], [0, 1], color=INK, lw=1, zorder=4)
        final = place == len(columns_) - 1
        for height, label in axis.ticks():
            shown = measured(axis.name, _value(axis, height)) if final else plain(label, 14)
            axes.plot([place - 0.03, place], [height, height], color=INK, lw=1)
            axes.text(
                place - 0.05,
                height,
                shown,
                ha="right",
                va="center",
                fontsize=8,
                color=INK,
                zorder=6,
            )
        # every other name stands higher: long names of neighbours would run into each other
        name = f"{axis.name} (log)" if axis.log else axis.name
        high = 1.05 if place % 2 == 0 else 1.14
        axes.text(place, high, plain(name, 30), ha="center", va="bottom", fontsize=8.5, color=INK)


def _value(axis: Axis, height: float) -> float:
    return axis.low + height * (axis.high - axis.low)
