"""Finalists: means with error bars, single seeds, and the test behind the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentune.formatting import counted, measured, setting, spread
from sentune.records import FinalistRecord
from sentune.report.axes import legend, metric_axis
from sentune.report.document import Block, Cell, Picture, Section, Table, columns
from sentune.report.drawing import ACCENT, BEST, LINE, MUTED, figure, to_svg
from sentune.report.view import View


def finals(view: View) -> Section | None:
    """Finalists by mean, best first; None where none has run."""
    if not view.summary.finalists:
        return None
    drawing = _picture(view)
    blocks: list[Block] = [drawing] if drawing else []
    if view.summary.comparison.get("runner_up") is not None:
        blocks.append(_comparison(view.summary.comparison))
    blocks.append(_table(view))
    return Section(name="finalists", title="Finalists", blocks=blocks)


def _picture(view: View) -> Picture | None:
    objective = view.summary.objective
    shown = [f for f in view.summary.finalists if objective in f.metrics]
    if not shown:
        return None
    drawn, axes = figure(5.0, 1.0 + 0.42 * len(shown))
    axes.grid(visible=False)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    for place, finalist in enumerate(shown):
        over = finalist.metrics[objective]
        won = finalist is view.winner
        colour = BEST if won else ACCENT
        axes.errorbar(
            over.mean,
            place,
            xerr=over.sd if len(over.values) > 1 else None,
            fmt="D" if won else "o",
            color=colour,
            ms=6,
            capsize=4,
            lw=1.6,
        )
        axes.plot(over.values, [place + 0.26] * len(over.values), "|", color=MUTED, ms=8, mew=1.5)
    axes.plot([], [], "o", color=ACCENT, label="mean ± sd")
    axes.plot([], [], "|", color=MUTED, ms=8, mew=1.5, ls="none", label="a seed")
    if view.winner is not None:
        axes.plot([], [], "D", color=BEST, label="winner")
    axes.set_yticks(range(len(shown)), [f"trial {f.trial}" for f in shown])
    axes.set_ylim(len(shown) - 0.4, -0.5)
    axes.locator_params(axis="x", nbins=5)
    metric_axis(axes, objective, along="x")
    legend(axes)
    title = "Finalists"
    seeds = counted(max(len(f.seeds) for f in shown), "fresh seed")
    said = f"{objective} on dev over {seeds} each: mean, standard deviation and every seed."
    return Picture(title=title, description=said, svg=to_svg(drawn, "finals", f"{title}: {said}"))


def _table(view: View) -> Table:
    objective = view.summary.objective
    heads = columns("trial", "", objective, "seeds", *view.varied, numbers=("trial", objective))
    rows = [_row(view, finalist, objective) for finalist in view.summary.finalists]
    return Table(columns=heads, rows=rows)


def _row(view: View, finalist: FinalistRecord, objective: str) -> list[Cell]:
    over, won = finalist.metrics.get(objective), finalist is view.winner
    pairs = zip(finalist.seeds, over.values if over is not None else (), strict=False)
    return [
        Cell(text=str(finalist.trial)),
        Cell(text="winner" if won else "", strong=won),
        Cell(text=spread(objective, over) if over is not None else "-"),
        Cell(text=", ".join(f"{seed}: {measured(objective, value)}" for seed, value in pairs)),
        *(Cell(text=setting(finalist.settings.get(name))) for name in view.varied),
    ]


def _comparison(comparison: Mapping[str, Any]) -> Table:
    metric = comparison["metric"]
    shown = {
        "runner-up": setting(comparison["runner_up"]),
        "difference": measured(metric, comparison["difference"]),
        "95 % interval": " to ".join(measured(metric, end) for end in comparison["interval"] or ()),
        "p": setting(comparison["p"]),
        "test": comparison["test"],
        "seeds": ", ".join(map(str, comparison["seeds"])),
    }
    rows = [[Cell(text=name), Cell(text=value)] for name, value in shown.items()]
    heads = columns("winner against runner-up", "")
    return Table(columns=heads, rows=rows, beside=True)
