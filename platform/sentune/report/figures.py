"""Matplotlib figures of a study, one function each, which returns None if it has no data.

The report embeds them as SVG; the study's folder has them as PNG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.formatting import counted, measured
from sentune.records import PART, TrialRecord, TrialState
from sentune.report.axes import Axis
from sentune.report.blocks import Cell, Figure, Table, metric_cell
from sentune.report.drawing import (
    ACCENT,
    BEST,
    INK,
    LINE,
    MARKERS,
    MUTED,
    PAPER,
    metric_axis,
    plain,
    scatter,
    write_png,
)
from sentune.report.importance import SHUFFLES, finite_curve
from sentune.report.view import WITHOUT_RESULT, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 8
"""Largest number of milestones in a table of learning curves."""
BEST_SHARE, MOST_BEST = 0.1, 8
"""Share and largest number of trials in bold in the parallel coordinates."""
BESIDE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "color": INK}
"""Style of the annotation of a point."""


def write_figures(view: View, folder: Path) -> list[Path]:
    """Write each figure that the study has as PNG (``history.png`` ...), and return the files."""
    drawn = (history, curves, front, importance, parallel, survival, finalists, cost)
    found = [figure for make in drawn if (figure := make(view)) is not None]
    return [write_png(figure, folder, view.summary.study) for figure in found]


def history(view: View) -> Figure | None:
    """Return the objective of each trial and the best so far, by trial number."""
    trials, objective = view.trials, view.summary.objective
    scored = [(t, v) for t in trials if (v := view.value(t)) is not None]
    if not scored:
        return None
    lost = [trial for trial in trials if view.value(trial) is None]
    better = min if view.summary.mode == "min" else max
    none = math.inf if better is min else -math.inf
    # estimates on a part of dev and infeasible trials do not count as best
    best = [*accumulate((v if t.feasible and not t.on_part else none for t, v in scored), better)]

    def draw(axes: Axes) -> None:
        ids = [trial.id for trial, _ in scored]
        axes.step(ids, best, where="post", color=INK, lw=1.2, label="best so far")
        for state in TrialState:
            word, foot = view.word(state), [(t.id, 0.025) for t in lost if t.state is state]
            scatter(axes, state, [(t.id, v) for t, v in scored if t.state is state], word)
            label = f"{word}, no value"
            scatter(axes, state, foot, label, transform=axes.get_xaxis_transform())
        _trial_axis(axes, trials)
        metric_axis(axes, objective)

    so_far = measured(objective, best[-1]) if math.isfinite(best[-1]) else "none"
    said = (
        f"{objective} of each trial by its number, and the best so far "
        f"({so_far} after {counted(len(scored), 'trial')} with "
        "a value). Trials that were stopped early have the value at which they stopped."
    )
    return Figure("history", "Optimisation history", said, draw)


def curves(view: View) -> Figure | None:
    """Return the learning curves: the objective of each trial by examples, with the rungs."""
    objective = view.summary.objective
    points = {trial.id: finite_curve(trial, objective) for trial in view.ranked}
    if max(map(len, points.values()), default=0) < 2:
        return None
    best = view.best.id if view.best is not None else None
    faint = min(0.8, max(0.15, 12 / len(points)))

    def draw(axes: Axes) -> None:
        for rung in view.rungs:
            axes.axvline(rung, color=MUTED, lw=0.8, ls=(0, (2, 3)), zorder=1)
        for trial in reversed(view.ranked):
            if not points[trial.id]:
                continue
            x, y = zip(*points[trial.id].items(), strict=True)
            if trial.id == best:
                axes.plot(x, y, color=BEST, lw=2, zorder=4, label=f"trial {trial.id}, the best")
            else:
                axes.plot(x, y, color=MUTED, lw=1, alpha=faint, zorder=2)
            axes.scatter(x[-1:], y[-1:], s=18, lw=1, zorder=5, **MARKERS[trial.state])
        metric_axis(axes, objective)
        axes.set_xlabel("examples seen")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.locator_params(axis="x", nbins=5)

    rungs = ", ".join(f"{rung:,}" for rung in view.rungs)
    said = f"{objective} by examples seen. The last marker of a trial shows its state."
    if part := max((v.get(PART, 0) for t in view.ranked for v in t.curve.values()), default=0):
        said += (
            " Values before a trial's end are measured on at most "
            f"{part:,.0f} rows of each dev corpus."
        )
    if rungs:
        said += f" Dotted lines mark the rungs at {rungs}."
    return Figure("curves", "Learning curves", said, draw, table=_curve_table(view, points))


def front(view: View) -> Figure | None:
    """Return the first two objectives against each other, with the Pareto front."""
    if len(view.objectives) < 2:
        return None
    (first, mode), (second, other) = view.objectives[:2]
    placed = [
        (trial, x, y)
        for trial in view.trials
        if (x := view.value(trial, first)) is not None
        and (y := view.value(trial, second)) is not None
    ]
    if not placed:
        return None

    def draw(axes: Axes) -> None:
        for state in TrialState:
            points = [(x, y) for trial, x, y in placed if trial.state is state]
            scatter(axes, state, points, view.word(state))
        best = sorted((x, y, t.id) for t, x, y in placed if t.id in view.summary.front)
        if best:
            xs, ys, ids = zip(*best, strict=True)
            axes.plot(xs, ys, "-", color=BEST, lw=1.2, label="front", zorder=2)
            for x, y, number in zip(xs, ys, ids, strict=True):
                axes.annotate(str(number), (x, y), (4, 4), **BESIDE)
        axes.margins(0.08)  # keeps the numbers below the legend
        metric_axis(axes, first, along="x")
        metric_axis(axes, second)

    listed = ", ".join(str(number) for number in view.summary.front) or "none yet"
    said = (
        f"{first} ({mode}) against {second} ({other}). Trials on the Pareto front of all "
        f"objectives: {listed}."
    )
    return Figure("front", "Pareto front", said, draw)


def importance(view: View) -> Figure | None:
    """Return the permutation importance of each setting as a bar."""
    found = view.importance
    if found is None:
        return None
    names = sorted(found.shares, key=lambda name: found.shares[name])
    shares, spreads = [found.shares[n] for n in names], [found.spreads[n] for n in names]

    def draw(axes: Axes) -> None:
        axes.grid(visible=False)
        bars = axes.barh(
            range(len(names)),
            shares,
            xerr=spreads,
            height=0.62,
            color=ACCENT if found.fit > 0 else "none",
            edgecolor=ACCENT,
            error_kw={"ecolor": MUTED, "elinewidth": 1},
        )
        axes.set_yticks(range(len(names)), [plain(name, 28) for name in names])
        percent = [f"{100 * share:.0f} %" for share in shares]
        axes.bar_label(bars, percent, padding=5, fontsize=8.5, color=INK)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.set_xlim(0, 1.2 * max(map(sum, zip(shares, spreads, strict=True))) + 0.02)

    at = f" at {found.examples:,} examples" if found.examples is not None else ""
    said = (
        "Share of the permutation importance in a random forest, ± standard deviation over "
        f"{SHUFFLES} shuffles; {found.trials} trials{at}, out-of-bag R² {found.fit:.2f}."
    )
    if found.fit <= 0:
        said += " The forest does not explain the objective, so the shares are not meaningful."
    height = 0.8 + 0.27 * len(names)
    return Figure("importance", "Importance of settings", said, draw, height=height)


def parallel(view: View) -> Figure | None:
    """Return parallel coordinates: a line per trial through its settings to its objective."""
    objective = view.summary.objective
    scored = [(t, v) for t in view.ranked if (v := view.value(t)) is not None]
    if len(scored) < 2 or not view.axes:
        return None
    values = [value for _, value in scored]
    last = Axis(objective, low=min(values), high=max(values))
    count = min(MOST_BEST, max(1, round(BEST_SHARE * len(scored))))
    best = {trial.id for trial in [trial for trial, _ in scored if trial.feasible][:count]}
    faint = min(0.75, max(0.15, 25 / len(scored)))

    def draw(axes: Axes) -> None:
        _upright(axes, [*view.axes, last])
        for trial, value in reversed(scored):
            heights = [axis.position(trial.settings.get(axis.name)) for axis in view.axes]
            line = [math.nan if h is None else h for h in (*heights, last.position(value))]
            style = "-" if trial.state is TrialState.COMPLETE else (0, (4, 2))
            if trial.id in best:
                axes.plot(line, color=BEST, ls=style, lw=2.2, zorder=3)
            else:
                axes.plot(line, color=ACCENT, ls=style, lw=1.1, alpha=faint, zorder=2)

    said = (
        f"Each line is a trial, from its settings on the left to {objective} on the right. "
        f"Bold: the best {len(best)} of {len(scored)}. Dashed: trials that are not complete."
    )
    size = max(10.0, min(13.0, 1.05 * (len(view.axes) + 1) + 0.6)), 3.9
    return Figure("parallel", "Settings and result", said, draw, *size, wide=True, framed=False)


def survival(view: View) -> Figure | None:
    """Return the number of trials at each rung; None if the study has no rungs."""
    if not view.rungs or not view.trials:
        return None
    found = view.rung_counts
    said = [f"{r['reached']} of {r['reached'] + r['stopped']}" for r in found.values()]

    def draw(axes: Axes) -> None:
        axes.grid(visible=False)
        left = [0] * len(found)
        for fate, word, face, edge, hatch in (
            ("reached", "reached", ACCENT, MUTED, ""),
            ("stopped", "stopped earlier", LINE, MUTED, ""),
            ("lost", "failed earlier", "none", BEST, "xxxx"),
            ("running", "not there yet", "none", MUTED, "||||"),
        ):
            counts = [rung[fate] for rung in found.values()]
            if any(counts):
                for bar in axes.barh(range(len(found)), counts, 0.62, left=left, label=word):
                    bar.set(facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.6)
            left = [a + b for a, b in zip(left, counts, strict=True)]
        for place, text in enumerate(said):
            axes.annotate(text, (left[place], place), (4, 0), va="center", **BESIDE)
        axes.set_yticks(range(len(found)), [f"{rung:,}" for rung in found])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.18 * max(left))
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.set(xlabel="trials", ylabel="examples")

    told = (
        "Trials that reached each rung, of those that reached it or were stopped earlier. "
        f"{said[-1]} reached the end at {[*found][-1]:,} examples."
    )
    return Figure("survival", "Trials at each rung", told, draw, height=1.0 + 0.42 * len(found))


def finalists(view: View) -> Figure | None:
    """Return the finalists' means over seeds with standard deviations, and each seed's value."""
    objective = view.summary.objective
    shown = [f for f in view.summary.finalists if objective in f.metrics]
    if not shown:
        return None

    def draw(axes: Axes) -> None:
        axes.grid(visible=False)
        axes.grid(axis="x", color=LINE, linewidth=0.8)
        for place, finalist in enumerate(shown):
            over, won = finalist.metrics[objective], finalist is view.winner
            axes.errorbar(
                over.mean,
                place,
                xerr=over.sd if len(over.values) > 1 else None,
                fmt="D" if won else "o",
                color=BEST if won else ACCENT,
                ms=6,
                capsize=4,
                lw=1.6,
            )
            seeds = [place + 0.26] * len(over.values)
            axes.plot(over.values, seeds, "|", color=MUTED, ms=8, mew=1.5)
        axes.plot([], [], "o", color=ACCENT, label="mean ± sd")
        axes.plot([], [], "|", color=MUTED, ms=8, mew=1.5, label="a seed")
        if view.winner is not None:
            axes.plot([], [], "D", color=BEST, label="winner")
        axes.set_yticks(range(len(shown)), [f"trial {f.trial}" for f in shown])
        axes.set_ylim(len(shown) - 0.4, -0.5)
        axes.locator_params(axis="x", nbins=5)
        metric_axis(axes, objective, along="x")

    seeds = counted(max(len(f.seeds) for f in shown), "fresh seed")
    said = f"{objective} on dev over {seeds} each: mean, standard deviation and single values."
    return Figure("finalists", "Finalists", said, draw, height=1.0 + 0.42 * len(shown))


def cost(view: View) -> Figure | None:
    """Return the seconds of each trial as a bar, hollow if it was stopped early."""
    trials = [trial for trial in view.trials if trial.seconds > 0 and not trial.source]
    if not trials:
        return None

    def draw(axes: Axes) -> None:
        for states, word, face, edge in (
            ((TrialState.COMPLETE,), "complete", ACCENT, ACCENT),
            ((TrialState.PRUNED,), "stopped early", "none", MUTED),
            ((TrialState.RUNNING, *WITHOUT_RESULT), "other", BEST, BEST),
        ):
            if of := {t.id: t.seconds for t in trials if t.state in states}:
                axes.bar([*of], [*of.values()], label=word, color=face, edgecolor=edge, lw=0.7)
        _trial_axis(axes, view.trials)
        axes.set_ylabel("seconds")

    total = sum(trial.seconds for trial in trials)
    said = f"Training and validation over all restarts, {total:,.0f} seconds in total."
    return Figure("cost", "Seconds of each trial", said, draw)


def _curve_table(view: View, points: Mapping[int, Mapping[int, float]]) -> Table:
    """Return the objective at the rungs and the end or, without rungs, at spaced milestones."""
    every = sorted({at for curve in points.values() for at in curve})
    wanted = [at for at in (*view.rungs, view.max_examples) if at in every]
    if len(wanted) < 2:
        wanted = every
    shown = wanted[:: max(1, math.ceil(len(wanted) / MOST_COLUMNS))]
    rows = [
        [
            Cell(str(number), number),
            *(metric_cell(view.summary.objective, curve.get(at)) for at in shown),
        ]
        for number, curve in sorted(points.items())
    ]
    return Table(heads=["trial", *(f"{at:,}" for at in shown)], rows=rows, sortable=True)


def _trial_axis(axes: Axes, trials: Sequence[TrialRecord]) -> None:
    axes.set_xlabel("trial")
    axes.set_xlim(-0.7, max(trial.id for trial in trials) + 0.7)
    axes.locator_params(axis="x", nbins=8, integer=True, min_n_ticks=1)


def _upright(axes: Axes, shown: Sequence[Axis]) -> None:
    """Draw a vertical scale for each setting and, last, for the objective."""
    axes.set_axis_off()
    axes.set(xlim=(-0.45, len(shown) - 0.6), ylim=(-0.03, 1.21))
    for place, axis in enumerate(shown):
        labels = {height: plain(label, 14) for height, label in axis.ticks()}
        if axis is shown[-1]:
            span = axis.high - axis.low
            labels = {at: measured(axis.name, axis.low + at * span) for at in labels}
        scale = axes.secondary_yaxis(place, transform=axes.transData, zorder=6)
        scale.spines[:].set(bounds=(0, 1), color=INK)
        box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}
        scale.set_yticks([*labels], [*labels.values()], size=8, color=INK, bbox=box)
        scale.yaxis.tick_left()
        # every other name is placed higher, so that long names do not overlap
        name = f"{axis.name} (log)" if axis.log else axis.name
        high = 1.05 if place % 2 == 0 else 1.14
        axes.text(place, high, plain(name, 30), ha="center", va="bottom", fontsize=8.5, color=INK)
