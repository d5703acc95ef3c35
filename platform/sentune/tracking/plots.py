"""A study in pictures: what was found when, what mattered, what belongs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.tracking.figures import GREY, empty, new_figure, scored_trials
from sentune.tracking.importance import FEWEST, importance
from sentune.tracking.parallel import parallel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {
    TrialState.COMPLETE: ("complete", "o", "#1f6f4a"),
    TrialState.PRUNED: ("stopped early", "v", "#c98a1b"),
    TrialState.RUNNING: ("running", "o", "#3b6ea8"),
    TrialState.FAILED: ("failed", "s", "#b3372e"),
    TrialState.INFEASIBLE: ("no memory", "D", "#b3372e"),
}
"""State -> word in the legend, shape and colour; filled where a trial is complete."""

LOST = {TrialState.FAILED: "x", TrialState.INFEASIBLE: "+"}
"""States in which a trial may end without a value -> its mark at the foot."""

Curve = tuple[Sequence[float], Sequence[float]]
"""Precision and recall, point by point."""


def draw(
    summary: StudySummary, folder: Path, *, curves: Mapping[str, Curve] | None = None
) -> list[Path]:
    """Writes the study's pictures as PNG files.

    ``history.png``, ``importance.png``, ``parallel.png``, and ``precision_recall.png`` where
    curves are given. A picture that has nothing to show says why.

    Args:
        curves: name of a curve (a task, a seed) -> precision and recall of the winner.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "history": history(summary),
        "importance": importances(summary),
        "parallel": parallel(summary),
    }
    if curves:
        figures["precision_recall"] = precision_recall(curves)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120, facecolor="white")
    return [folder / f"{name}.png" for name in figures]


def history(summary: StudySummary) -> Figure:
    """The objective of each trial and the best so far, in the order in which trials began."""
    figure, axes = new_figure(8, 4.5)
    scored = [(t, t.metrics[summary.objective]) for t in scored_trials(summary)]
    known = {trial.id for trial, _ in scored}
    lost = [t for t in summary.trials if t.state in LOST and t.id not in known]
    axes.set_title(f"{summary.study}: {summary.objective} by trial", loc="left")
    if not scored:
        return empty(figure, axes, f"none of {len(summary.trials)} trials has a value")
    for state in MARKS:
        _mark(axes, state, [(trial.id, value) for trial, value in scored if trial.state is state])
    _best_line(axes, summary, scored)
    _at_the_foot(axes, lost)
    axes.set_xlabel("trial")
    axes.set_ylabel(summary.objective)
    axes.set_xlim(-0.5, max(trial.id for trial in summary.trials) + 0.5)
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def importances(summary: StudySummary) -> Figure:
    """Permutation importance as bars, with what it rests on in the title."""
    found = importance(summary)
    rows = len(found.shares) if found else 4
    figure, axes = new_figure(8, 1.7 + 0.36 * rows)
    axes.set_title(f"{summary.study}: what moved {summary.objective}", loc="left")
    if found is None:
        return empty(
            figure, axes, f"needs {FEWEST} comparable trials that differ in settings and result"
        )
    names = sorted(found.shares, key=lambda name: found.shares[name])
    bars = axes.barh(
        names,
        [found.shares[name] for name in names],
        xerr=[found.spreads[name] for name in names],
        color="#3b6ea8" if found.fit > 0 else "#b9bec4",
        error_kw={"ecolor": GREY, "elinewidth": 1},
    )
    labels = [f"{found.shares[name]:.0%}" for name in names]
    axes.bar_label(bars, labels, padding=6, fontsize=9)
    reach = 1.15 * max(found.shares[name] + found.spreads[name] for name in names) + 0.02
    axes.set_xlim(0, reach)
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= 1])
    axes.set_xlim(0, reach)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share of permutation importance in a random forest, ± sd over 20 shuffles")
    at = f" at {found.examples:,} examples" if found.examples is not None else ""
    note = f"{found.trials} trials{at}; out-of-bag R² {found.fit:.2f}"
    if found.fit <= 0:
        note += ": the forest explains nothing yet"
    axes.text(0, 1.01, note, transform=axes.transAxes, color=GREY, fontsize=9, va="bottom")
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=20)
    return figure


def precision_recall(curves: Mapping[str, Curve]) -> Figure:
    """Precision against recall, with the area by the trapezoid rule."""
    figure, axes = new_figure(6.5, 4.8)
    axes.set_title("Precision and recall of the winner", loc="left")
    for name, (precision, recall) in curves.items():
        axes.plot(recall, precision, label=f"{name}: area {_area(precision, recall):.3f}")
    axes.set(xlim=(0, 1.01), ylim=(0, 1.03), xlabel="recall", ylabel="precision")
    axes.legend(frameon=False, loc="lower left")
    return figure


def _mark(axes: Axes, state: TrialState, points: Sequence[tuple[int, float]]) -> None:
    if points:
        word, shape, colour = MARKS[state]
        x, y = zip(*points, strict=True)
        face = colour if state is TrialState.COMPLETE else "none"
        axes.scatter(x, y, 34, marker=shape, label=word, edgecolors=colour, fc=face, zorder=3)


def _at_the_foot(axes: Axes, lost: Sequence[TrialRecord]) -> None:
    """Trials without a value have no place on the scale; one mark for each state."""
    for state, shape in LOST.items():
        x = [trial.id for trial in lost if trial.state is state]
        if x:
            word, _, colour = MARKS[state]
            foot = axes.get_xaxis_transform()
            axes.plot(
                x, [0.02] * len(x), shape, c=colour, transform=foot, label=f"{word}, no value"
            )


def _best_line(axes: Axes, summary: StudySummary, scored: list[tuple[TrialRecord, float]]) -> None:
    pick = min if summary.mode == "min" else max
    best: list[float] = []
    for _, value in scored:
        best.append(pick([*best[-1:], value]))
    ids = [trial.id for trial, _ in scored]
    axes.step(ids, best, where="post", color=GREY, linewidth=1.2, label="best so far", zorder=2)


def _area(precision: Sequence[float], recall: Sequence[float]) -> float:
    import numpy as np

    return abs(float(np.trapezoid(precision, recall)))
