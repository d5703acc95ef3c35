"""Sweeps of readouts as files and pictures: a heat map over the alphas, a curve over each number.

A picture shows two readouts or one; the others stand at their best values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sentune.tracking.figures import GREY, new_figure
from sentune.tracking.sweep_table import HEAT, MARKED, SweepTable, dark_cells, scale_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_sweeps(tables: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes ``TASK/sweep.json`` tables and their pictures.

    Args:
        tables: file name -> ``Sweep.to_table()``.

    Returns:
        The pictures.
    """
    pictures: list[Path] = []
    for name, table in tables.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(table), encoding="utf-8")
        pictures += draw_sweep(table, file.parent)
    return pictures


def draw_sweep(table: Mapping[str, Any], folder: Path) -> list[Path]:
    """One PNG for each picture that the table has: ``heat.png``, ``curve_components.png``."""
    sweep = SweepTable.read(table)
    figures = {"heat": heat(sweep)} if sweep.has_heat else {}
    figures |= {f"curve_{name}": curve(sweep, name) for name in sweep.curves}
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120, facecolor="white")
    return [folder / f"{name}.png" for name in figures]


def heat(table: SweepTable) -> Figure:
    """The metric over alpha_1 (rows) and alpha_2 (columns); empty where alpha_1 is not below."""
    plane = table.at_best(*HEAT)
    rows, columns = (table.axes[name] for name in HEAT)
    figure, axes = new_figure(2.2 + 0.62 * len(columns), 1.9 + 0.42 * len(rows))
    axes.grid(visible=False)
    image = axes.imshow(np.ma.masked_invalid(plane), cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axes.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axes.set_ylabel(HEAT[0])
    axes.set_xlabel(HEAT[1])
    dark = dark_cells(plane)
    for row, column in np.argwhere(np.isfinite(plane)):
        text, colour = _text(plane[row, column]), "white" if dark[row, column] else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    at = columns.index(table.best[HEAT[1]]), rows.index(table.best[HEAT[0]])
    axes.plot(*at, "s", ms=24, mfc="none", mec="#d1495b", mew=2, label="best")
    figure.colorbar(image, ax=axes, shrink=0.85, format=lambda v, _: _text(v))
    _title(axes, table, *HEAT)
    return figure


def curve(table: SweepTable, name: str) -> Figure:
    """The metric over one readout, with a mark at the best value."""
    grid = [float(value) for value in table.axes[name]]
    line, best = table.at_best(name), table.best
    figure, axes = new_figure(7.5, 4.2)
    axes.plot(grid, line, "-" if len(grid) > MARKED else "o-", color="#3b6ea8", ms=4)
    axes.plot(best[name], best["value"], "o", color="#d1495b", zorder=3)
    axes.annotate(
        f"{best[name]:,}: {_text(best['value'])}",
        (best[name], best["value"]),
        xytext=(0, 9),
        textcoords="offset points",
        ha="right" if best[name] == max(grid) else "left" if best[name] == min(grid) else "center",
        color="#d1495b",
    )
    axes.margins(y=0.15)
    if (scale := scale_of(grid)) != "linear":
        axes.set_xscale(scale)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: _text(value))
    axes.set_xlabel(name)
    axes.set_ylabel("in percent")
    _title(axes, table, name)
    return figure


def _title(axes: Any, table: SweepTable, *shown: str) -> None:
    """The metric, and what the readouts that are not shown stand at."""
    fixed = table.fixed(*shown)
    axes.set_title(table.metric, loc="left", pad=22 if fixed else 8)
    note = ", ".join(f"{name} {_short(value)}" for name, value in fixed.items())
    axes.text(0, 1.02, note, transform=axes.transAxes, color=GREY, fontsize=9, va="bottom")


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _text(value: float) -> str:
    """Correlations and F1 as the papers print them: in percent with one decimal."""
    return f"{100 * value:.1f}"
