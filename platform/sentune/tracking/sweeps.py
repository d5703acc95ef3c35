"""Sweeps of readouts as files and pictures: a heat map over the alphas, a curve over each number.

A picture shows two readouts or one; the others stand at their best values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sentune.tracking.figures import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAT = ("alpha_1", "alpha_2")
FEWEST = 2
"""Values that a readout needs for a curve."""
MARKED = 20
"""Values up to which each has a mark on the curve."""


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
    values = np.array(table["values"], dtype=np.float64)
    figures: dict[str, Figure] = {}
    axes: dict[str, list[Any]] = table["axes"]
    if all(len(axes.get(name, ())) >= FEWEST for name in HEAT):
        figures["heat"] = heat(table, values)
    for name, grid in axes.items():
        if name not in HEAT and len(grid) >= FEWEST and not isinstance(grid[0], str):
            figures[f"curve_{name}"] = curve(table, values, name)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120, facecolor="white")
    return [folder / f"{name}.png" for name in figures]


def heat(table: Mapping[str, Any], values: NDArray[np.float64]) -> Figure:
    """The metric over alpha_1 (rows) and alpha_2 (columns); empty where alpha_1 is not below."""
    plane = _at_best(table, values, HEAT)
    rows, columns = (table["axes"][name] for name in HEAT)
    figure, axes = new_figure(2.2 + 0.62 * len(columns), 1.9 + 0.42 * len(rows))
    axes.grid(visible=False)
    image = axes.imshow(np.ma.masked_invalid(plane), cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axes.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axes.set_xlabel("alpha_2")
    axes.set_ylabel("alpha_1")
    low, high = np.nanmin(plane), np.nanmax(plane)
    for row, column in np.argwhere(np.isfinite(plane)):
        value = plane[row, column]
        dark = value < low + 0.6 * (high - low)
        text = _text(value)
        colour = "white" if dark else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    best = table["best"]
    at = columns.index(best["alpha_2"]), rows.index(best["alpha_1"])
    axes.plot(*at, "s", ms=24, mfc="none", mec="#d1495b", mew=2, label="best")
    figure.colorbar(image, ax=axes, shrink=0.85, format=lambda v, _: _text(v))
    _title(axes, table, HEAT)
    return figure


def curve(table: Mapping[str, Any], values: NDArray[np.float64], name: str) -> Figure:
    """The metric over one readout, with a mark at the best value."""
    grid = [float(value) for value in table["axes"][name]]
    line = _at_best(table, values, (name,))
    figure, axes = new_figure(7.5, 4.2)
    axes.plot(grid, line, "-" if len(grid) > MARKED else "o-", color="#3b6ea8", ms=4)
    best = table["best"]
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
    gaps = max(grid) - min(grid) > len(grid) - 1
    if gaps and max(grid) > 20 * max(min(grid), 1):
        axes.set_xscale("symlog" if min(grid) == 0 else "log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: _text(value))
    axes.set_xlabel(name)
    axes.set_ylabel("in percent")
    _title(axes, table, (name,))
    return figure


def _at_best(
    table: Mapping[str, Any], values: NDArray[np.float64], shown: Sequence[str]
) -> NDArray[np.float64]:
    """The part of the table in which every other readout has its best value."""
    best = table["best"]
    place = tuple(
        slice(None) if name in shown else grid.index(best[name])
        for name, grid in table["axes"].items()
    )
    part: NDArray[np.float64] = values[place]
    return part


def _title(axes: Any, table: Mapping[str, Any], shown: Sequence[str]) -> None:
    """The metric, and what the readouts that are not shown stand at."""
    fixed = {k: v for k, v in table["best"].items() if k not in (*shown, "value")}
    axes.set_title(table["metric"], loc="left", pad=22 if fixed else 8)
    note = ", ".join(f"{name} {_short(value)}" for name, value in fixed.items())
    axes.text(0, 1.02, note, transform=axes.transAxes, color=GREY, fontsize=9, va="bottom")


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _text(value: float) -> str:
    """Correlations and F1 as the papers print them: in percent with one decimal."""
    return f"{100 * value:.1f}"
