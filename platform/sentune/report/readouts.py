"""Readouts of the winner: heat maps and curves of what was swept on its frozen model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue
from sentune.readouts.sweep import SWEEP_FILE
from sentune.report.document import Block, Picture, Section, Table, Text, columns, row
from sentune.report.drawing import ACCENT, BEST, INK, figure, plain, to_svg
from sentune.report.view import View
from sentune.report.wording import percent, setting
from sentune.tracking.plots import precision_recall
from sentune.tracking.sweeps import FEWEST, HEAT

CURVE_FILE = "precision_recall.json"
MARKED = 20
"""Values up to which each has a mark on a curve."""


def readouts(view: View) -> Section | None:
    """Best readouts, a picture for each sweep in the exhibits, and precision and recall."""
    winner = view.winner or view.best
    chosen = winner.readouts if winner is not None else {}
    pictures = _pictures(view.folder) if view.folder is not None else []
    if not chosen and not pictures:
        return None
    rows = [row(name, setting(value)) for name, value in sorted(chosen.items())]
    table = Table(
        columns=columns("readout", "best value", numbers=("best value",)), rows=rows, beside=True
    )
    said = "Hyperparameters that need no training run: swept exhaustively on the frozen model."
    blocks: list[Block] = [Text(text=said, tone="note"), *pictures, *([table] if rows else [])]
    return Section(name="readouts", title="Readouts", blocks=blocks)


def _pictures(folder: Path) -> list[Picture]:
    found = []
    for place, file in enumerate(sorted(folder.rglob(SWEEP_FILE))):
        found += _sweep(_read(file), f"sweep{place}")
    for place, file in enumerate(sorted(folder.rglob(CURVE_FILE))):
        found.append(_precision_recall(_read(file), file.parent.name, f"recall{place}"))
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        fix = f"it is damaged ({error}); the study's command, run again, writes it anew"
        raise InvalidValue("exhibit", str(file), fix) from error
    return content


def _sweep(table: Mapping[str, Any], name: str) -> list[Picture]:
    """A heat map over the alphas, and a curve over each other readout that is a number."""
    axes: dict[str, list[Any]] = table["axes"]
    values = np.array(table["values"], dtype=np.float64)
    found = []
    if all(len(axes.get(axis, ())) >= FEWEST for axis in HEAT):
        found.append(_heat(table, values, f"{name}heat"))
    for place, (axis, grid) in enumerate(axes.items()):
        if axis not in HEAT and len(grid) >= FEWEST and not isinstance(grid[0], str):
            found.append(_curve(table, values, axis, f"{name}curve{place}"))
    return found


def _at_best(
    table: Mapping[str, Any], values: NDArray[np.float64], shown: Sequence[str]
) -> NDArray[np.float64]:
    """The part of the table in which every readout that is not shown has its best value."""
    best = table["best"]
    place = tuple(
        slice(None) if axis in shown else grid.index(best[axis])
        for axis, grid in table["axes"].items()
    )
    part: NDArray[np.float64] = values[place]
    return part


def _heat(table: Mapping[str, Any], values: NDArray[np.float64], name: str) -> Picture:
    """alpha_1 in rows and alpha_2 in columns; empty where alpha_1 is not below alpha_2."""
    lower, upper = (table["axes"][axis] for axis in HEAT)
    plane = _at_best(table, values, HEAT)
    if list(table["axes"]).index(HEAT[0]) > list(table["axes"]).index(HEAT[1]):
        plane = plane.T
    drawn, axes = figure(max(3.6, 1.4 + 0.47 * len(upper)), 1.2 + 0.33 * len(lower))
    axes.grid(visible=False)
    axes.pcolormesh(np.ma.masked_invalid(plane), cmap="cividis", edgecolors="none")
    axes.set_xticks(np.arange(len(upper)) + 0.5, [f"{value:g}" for value in upper])
    axes.set_yticks(np.arange(len(lower)) + 0.5, [f"{value:g}" for value in lower])
    axes.set_xlabel(HEAT[1], fontsize=9)
    axes.set_ylabel(HEAT[0], fontsize=9)
    axes.invert_yaxis()
    low, high = np.nanmin(plane), np.nanmax(plane)
    for (line, place), value in np.ndenumerate(plane):
        if np.isfinite(value):
            # of fixed colours: what stands in a cell does not follow the page's paper
            colour = "#fefefe" if value < low + 0.6 * (high - low) else "#101010"
            at = (place + 0.5, line + 0.5)
            axes.text(*at, f"{100 * value:.1f}", ha="center", va="center", fontsize=8, color=colour)
    best = table["best"]
    corner = upper.index(best[HEAT[1]]), lower.index(best[HEAT[0]])
    _frame(axes, corner)
    said = f"In percent, over {HEAT[0]} and {HEAT[1]}{_fixed(table, HEAT)}; the best is framed."
    title = f"{table['metric']} by readout"
    return Picture(title=title, description=said, svg=to_svg(drawn, name, f"{title}. {said}"))


def _frame(axes: Any, corner: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=BEST, lw=2.5, zorder=5))


def _curve(table: Mapping[str, Any], values: NDArray[np.float64], axis: str, name: str) -> Picture:
    """The metric over one readout, the best value marked."""
    grid = [float(value) for value in table["axes"][axis]]
    line, best = _at_best(table, values, (axis,)), table["best"]
    drawn, axes = figure()
    axes.plot(grid, line, "-" if len(grid) > MARKED else "o-", color=ACCENT, ms=4)
    axes.plot(best[axis], best["value"], "D", color=BEST, zorder=3)
    _spread_out(axes, grid)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.1f} %")
    axes.set_xlabel(plain(axis), fontsize=9)
    axes.margins(y=0.12)
    at = f"{best['value']:.1%}".replace("%", " %")
    said = f"Best {at} at {setting(best[axis])}{_fixed(table, (axis,))}."
    title = f"{table['metric']} by {axis}"
    return Picture(title=title, description=said, svg=to_svg(drawn, name, f"{title}. {said}"))


def _spread_out(axes: Any, grid: Sequence[float]) -> None:
    """A logarithmic axis for values that are far apart; a range of all integers stays linear."""
    gaps = max(grid) - min(grid) > len(grid) - 1
    if gaps and max(grid) > 20 * max(min(grid), 1):
        axes.set_xscale("symlog" if min(grid) == 0 else "log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")


def _fixed(table: Mapping[str, Any], shown: Sequence[str]) -> str:
    """What the readouts that are not shown stand at."""
    left = {k: v for k, v in table["best"].items() if k not in (*shown, "value")}
    return " with " + ", ".join(f"{k} {setting(v)}" for k, v in left.items()) if left else ""


def _precision_recall(curve: Mapping[str, Any], task: str, name: str) -> Picture:
    drawn = precision_recall({plain(task): (curve["precision"], curve["recall"])})
    drawn.set_size_inches(5.0, 3.3)
    axes = drawn.axes[0]
    axes.set_title("", loc="left")
    area = abs(float(np.trapezoid(curve["precision"], curve["recall"])))
    if (legend := axes.get_legend()) is not None:
        legend.remove()
    axes.tick_params(labelsize=9, labelcolor=INK)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(9)
    title = f"Precision and recall of the winner, {task}"
    said = f"Area {percent(area)}, by the trapezoid rule."
    return Picture(title=title, description=said, svg=to_svg(drawn, name, f"{title}. {said}"))
