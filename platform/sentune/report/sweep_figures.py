"""Figures of readout sweeps on a frozen model: heat maps over the alphas, curves over numbers.

A figure shows one or two readouts, with the others at their best values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue
from sentune.formatting import percent, setting
from sentune.readouts.sweep import SWEEP_FILE
from sentune.report.blocks import Figure, Table, metric_cell, setting_cell
from sentune.report.drawing import ACCENT, BEST, MUTED, percent_axis, plain, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_FILE = "precision_recall.json"
HEAT = ("alpha_1", "alpha_2")
"""Readouts of the rows and columns of a heat map."""
RECALLS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Recall levels for which the table of a curve has the best precision."""
MARKED = 20
"""Largest number of points of a curve to draw with markers."""

Curve = tuple[Sequence[float], Sequence[float]]
"""Precision and recall of each point."""


class SweepTable(NamedTuple):
    """A sweep as stored by ``Sweep.to_table()``.

    Attributes:
        axes: readout -> grid.
        best: readout -> best value, and ``value`` -> the metric there.
        values: the metric, one dimension per readout; NaN for invalid combinations.
    """

    metric: str
    axes: Mapping[str, Sequence[Any]]
    best: Mapping[str, Any]
    values: NDArray[np.float64]

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> SweepTable:
        """Return the sweep of a table in JSON types."""
        values = np.array(table["values"], dtype=np.float64)
        return cls(table["metric"], table["axes"], table["best"], values)

    def at_best(self, *shown: str) -> NDArray[np.float64]:
        """Return the metric over the readouts ``shown``, in that order, with the others at best."""
        names = [*self.axes]
        others = [name for name in names if name not in shown]
        ordered = self.values.transpose([names.index(name) for name in (*others, *shown)])
        best = tuple(self.axes[name].index(self.best[name]) for name in others)
        return np.asarray(ordered[best])

    def fixed(self, *shown: str) -> str:
        """Return the best values of the readouts that are not shown, as text."""
        left = {name: at for name, at in self.best.items() if name not in (*shown, "value")}
        return " with " + ", ".join(f"{n} {setting(v)}" for n, v in left.items()) if left else ""

    def passed_over(self, shown: NDArray[np.float64]) -> str:
        """Return why higher values than the chosen one were rejected; empty without any."""
        reason = " Higher values leave more than half of the sentences without an interpretation."
        return reason if np.nanmax(shown) > self.best["value"] else ""


def write_tables(tables: Mapping[str, Any], folder: Path) -> None:
    """Write tables as JSON files by name, with PNG figures of sweeps beside them."""
    for name, table in tables.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(table), encoding="utf-8")
        if file.name == SWEEP_FILE:
            for figure in sweep_figures(SweepTable.read(table)):
                write_png(figure, file.parent)


def figures_in(folder: Path, part: str) -> list[Figure]:
    """Return figures of all sweeps and of precision and recall in a study's folder of artifacts.

    ``part`` is the part of the data of precision and recall, ``test`` or ``dev``.

    Raises:
        InvalidValue: a file is damaged.
    """
    found = []
    for place, table in enumerate(sweeps_in(folder).values()):
        figures = sweep_figures(table)
        found += [replace(figure, name=f"sweep{place}_{i}") for i, figure in enumerate(figures)]
    recall = precision_recall(curves_in(folder), part)
    return found if recall is None else [*found, recall]


def sweeps_in(folder: Path) -> dict[str, SweepTable]:
    """Return task -> sweep, of all sweeps in a folder of artifacts."""
    files = sorted(folder.rglob(SWEEP_FILE))
    return {
        str(file.parent.relative_to(folder)): SweepTable.read(read_artifact(file)) for file in files
    }


def curves_in(folder: Path) -> dict[str, Curve]:
    """Return task -> precision and recall, of all tasks with a curve in a folder of artifacts."""
    read = {file.parent.name: read_artifact(file) for file in sorted(folder.rglob(CURVE_FILE))}
    return {task: (curve["precision"], curve["recall"]) for task, curve in read.items()}


def sweep_figures(table: SweepTable) -> list[Figure]:
    """Return a heat map over the alphas and a curve over each other numeric readout."""
    several = [name for name, grid in table.axes.items() if len(grid) > 1]
    curves = [
        curve(table, name)
        for name in several
        if name not in HEAT and not isinstance(table.axes[name][0], str)
    ]
    return [heat(table), *curves] if {*HEAT} <= {*several} else curves


def heat(table: SweepTable) -> Figure:
    """Return a heat map over alpha_1 (rows) and alpha_2 (columns); NaN cells are blank."""
    lower, upper = (table.axes[axis] for axis in HEAT)
    plane = table.at_best(*HEAT)
    dark = plane < np.nanmin(plane) + 0.6 * (np.nanmax(plane) - np.nanmin(plane))

    def draw(axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        axes.grid(visible=False)
        axes.pcolormesh(np.ma.masked_invalid(plane), cmap="cividis", edgecolors="none")
        axes.set_xticks(np.arange(len(upper)) + 0.5, [f"{value:g}" for value in upper])
        axes.set_yticks(np.arange(len(lower)) + 0.5, [f"{value:g}" for value in lower])
        axes.set(xlabel=HEAT[1], ylabel=HEAT[0])
        axes.invert_yaxis()
        for line, place in np.argwhere(np.isfinite(plane)):
            # colours outside COLOURS, so that the page's theme does not change them
            colour = "#fefefe" if dark[line, place] else "#101010"
            text = f"{100 * plane[line, place]:.1f}"
            at = place + 0.5, line + 0.5
            axes.text(*at, text, ha="center", va="center", fontsize=8, color=colour)
        corner = upper.index(table.best[HEAT[1]]), lower.index(table.best[HEAT[0]])
        look: dict[str, Any] = {"fill": False, "edgecolor": BEST, "lw": 2.5, "clip_on": False}
        axes.add_patch(Rectangle(corner, 1, 1, zorder=5, **look))

    higher = table.passed_over(plane)
    framed = f"The {'chosen' if higher else 'best'} value is framed.{higher}"
    said = f"In percent, over {HEAT[0]} and {HEAT[1]}{table.fixed(*HEAT)}. {framed}"
    size = max(5.0, 1.4 + 0.47 * len(upper)), 1.2 + 0.33 * len(lower)
    rows = [
        [setting_cell(value), *(metric_cell(table.metric, one) for one in line)]
        for value, line in zip(lower, plane.tolist(), strict=True)
    ]
    numbers = Table(heads=[HEAT[0], *(f"{HEAT[1]} {value:g}" for value in upper)], rows=rows)
    return Figure("heat", f"{table.metric} by readout", said, draw, *size, table=numbers)


def curve(table: SweepTable, name: str) -> Figure:
    """Return the metric over one readout, with the best value marked."""
    grid, best = [float(value) for value in table.axes[name]], table.best
    values = table.at_best(name)

    def draw(axes: Axes) -> None:
        marks = "-" if len(grid) > MARKED else "o-"
        axes.plot(grid, values, marks, color=ACCENT, ms=4)
        axes.plot(best[name], best["value"], "D", color=BEST, zorder=3)
        axes.set_xscale(scale_of(grid))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        percent_axis(axes.yaxis)
        axes.set_xlabel(plain(name))
        axes.margins(y=0.12)

    higher = table.passed_over(values)
    at = f"{percent(best['value'])} at {setting(best[name])}{table.fixed(name)}"
    said = f"{'Chosen:' if higher else 'Best'} {at}.{higher}"
    rows = [
        (setting_cell(value), metric_cell(table.metric, one))
        for value, one in zip(table.axes[name], values.tolist(), strict=True)
    ]
    numbers = Table(heads=(name, table.metric), rows=rows)
    return Figure(f"curve_{name}", f"{table.metric} by {name}", said, draw, table=numbers)


def precision_recall(curves: Mapping[str, Curve], part: str) -> Figure | None:
    """Return precision against recall of each task, with the area by the trapezoid rule."""
    if not curves:
        return None
    looks = [(ACCENT, "-"), (BEST, "--"), (MUTED, ":")]

    def draw(axes: Axes) -> None:
        tasks = zip(cycle(looks), curves.items(), strict=False)
        for (colour, style), (task, (precision, recall)) in tasks:
            label = plain(task) if len(curves) > 1 else ""
            axes.plot(recall, precision, style, color=colour, label=label)
        axes.set(xlim=(0, 1.01), ylim=(0, 1.03), xlabel="recall", ylabel="precision")

    areas = "; ".join(
        f"{task}: area {percent(abs(float(np.trapezoid(precision, recall))))}"
        for task, (precision, recall) in curves.items()
    )
    said = f"{areas}, by the trapezoid rule."
    rows = [
        (task, percent(level), percent(max(p for p, r in zip(*curve, strict=True) if r >= level)))
        for task, curve in curves.items()
        for level in RECALLS
        if level <= max(curve[1])
    ]
    numbers = Table(heads=("task", "recall at least", "precision"), rows=rows)
    title = f"Precision and recall of the winner on {part}"
    return Figure("precision_recall", title, said, draw, table=numbers)


def scale_of(grid: Sequence[float]) -> str:
    """Return the matplotlib scale of a grid: linear for consecutive integers or a small range."""
    gaps = max(grid) - min(grid) > len(grid) - 1
    if not gaps or max(grid) <= 20 * max(min(grid), 1):
        return "linear"
    return "symlog" if min(grid) == 0 else "log"


def read_artifact(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file among a study's artifacts; empty without the file.

    Raises:
        InvalidValue: the file is damaged.
    """
    try:
        content: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except ValueError as error:  # also of bytes that are no text
        fix = f"the file is damaged ({error}); run the study's command again to rewrite it"
        raise InvalidValue("artifact", str(file), fix) from error
    return content
