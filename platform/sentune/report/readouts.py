"""Readouts of the winner: heat maps and curves of what was swept on its frozen model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sentune.errors import InvalidValue
from sentune.formatting import percent, setting
from sentune.readouts.sweep import SWEEP_FILE
from sentune.report.document import Block, Picture, Section, Table, Text, columns, row
from sentune.report.drawing import ACCENT, BEST, INK, figure, plain, to_svg
from sentune.report.view import View
from sentune.tracking.plots import precision_recall
from sentune.tracking.sweep_table import HEAT, MARKED, SweepTable, dark_cells, scale_of

CURVE_FILE = "precision_recall.json"


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
        found += _sweep(SweepTable.read(_read(file)), f"sweep{place}")
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


def _sweep(table: SweepTable, name: str) -> list[Picture]:
    """A heat map over the alphas, and a curve over each other readout that is a number."""
    found = [_heat(table, f"{name}heat")] if table.has_heat else []
    return found + [_curve(table, axis, f"{name}curve{i}") for i, axis in enumerate(table.curves)]


def _heat(table: SweepTable, name: str) -> Picture:
    """alpha_1 in rows and alpha_2 in columns; empty where alpha_1 is not below alpha_2."""
    lower, upper = (table.axes[axis] for axis in HEAT)
    plane = table.at_best(*HEAT)
    drawn, axes = figure(max(3.6, 1.4 + 0.47 * len(upper)), 1.2 + 0.33 * len(lower))
    axes.grid(visible=False)
    axes.pcolormesh(np.ma.masked_invalid(plane), cmap="cividis", edgecolors="none")
    axes.set_xticks(np.arange(len(upper)) + 0.5, [f"{value:g}" for value in upper])
    axes.set_yticks(np.arange(len(lower)) + 0.5, [f"{value:g}" for value in lower])
    axes.set_xlabel(HEAT[1], fontsize=9)
    axes.set_ylabel(HEAT[0], fontsize=9)
    axes.invert_yaxis()
    dark = dark_cells(plane)
    for line, place in np.argwhere(np.isfinite(plane)):
        # of fixed colours: what stands in a cell does not follow the page's paper
        colour = "#fefefe" if dark[line, place] else "#101010"
        text, at = f"{100 * plane[line, place]:.1f}", (place + 0.5, line + 0.5)
        axes.text(*at, text, ha="center", va="center", fontsize=8, color=colour)
    _frame(axes, (upper.index(table.best[HEAT[1]]), lower.index(table.best[HEAT[0]])))
    said = f"In percent, over {HEAT[0]} and {HEAT[1]}{_fixed(table, *HEAT)}; the best is framed."
    title = f"{table.metric} by readout"
    return Picture(title=title, description=said, svg=to_svg(drawn, name, f"{title}. {said}"))


def _frame(axes: Any, corner: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=BEST, lw=2.5, zorder=5))


def _curve(table: SweepTable, axis: str, name: str) -> Picture:
    """The metric over one readout, the best value marked."""
    grid = [float(value) for value in table.axes[axis]]
    line, best = table.at_best(axis), table.best
    drawn, axes = figure()
    axes.plot(grid, line, "-" if len(grid) > MARKED else "o-", color=ACCENT, ms=4)
    axes.plot(best[axis], best["value"], "D", color=BEST, zorder=3)
    axes.set_xscale(scale_of(grid))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.1f} %")
    axes.set_xlabel(plain(axis), fontsize=9)
    axes.margins(y=0.12)
    at = f"{best['value']:.1%}".replace("%", " %")
    said = f"Best {at} at {setting(best[axis])}{_fixed(table, axis)}."
    title = f"{table.metric} by {axis}"
    return Picture(title=title, description=said, svg=to_svg(drawn, name, f"{title}. {said}"))


def _fixed(table: SweepTable, *shown: str) -> str:
    """What the readouts that are not shown stand at."""
    left = table.fixed(*shown)
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
