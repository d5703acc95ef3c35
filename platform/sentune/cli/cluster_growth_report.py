"""A cluster's growth as tables: stages, kinds of nodes, and what fewer trials at a time do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sentune.cluster import Cluster
from sentune.study.planning.capacity_forecast import CapacityForecast, Stage
from sentune.study.planning.plan import Plan


def growth_report(
    plan: Plan,
    cluster: Cluster,
    prices: Mapping[str, float],
    whole: CapacityForecast,
    steps: Mapping[int, CapacityForecast],
    basis: str,
) -> Group:
    """All of it, ready to print; the basis says what hours are reckoned from, empty without."""
    notes = [Text(note) for note in _notes(cluster, whole, basis)]
    kinds = _kinds(cluster, prices, whole)
    return Group(_stages(plan, whole), Text(), kinds, Text(), _steps(steps, prices), Text(), *notes)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.pad_edge, table.padding = False, (0, 2, 0, 0)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _stages(plan: Plan, whole: CapacityForecast) -> Table:
    table = _table(f"Study {plan.study}", "stage", "runs", "at a time", "hours", "nodes")
    for stage in whole.stages:
        runs = plan.trials if stage.name == "search" else plan.finalists
        table.add_row(stage.name, f"{runs:,}", f"{stage.concurrent:,}", _hours(stage.hours),
                      _nodes(stage))  # fmt: skip
    table.columns[-1].justify = "left"
    return table


def _kinds(cluster: Cluster, prices: Mapping[str, float], whole: CapacityForecast) -> Table:
    names = [stage.name for stage in whole.stages]
    columns = ("node type", "each", "at most", *names, "node hours", "$/hour", "$")
    table = _table("Nodes", *columns)
    for name, kind in cluster.kinds.items():
        counts = [f"{stage.nodes[name]:,}" for stage in whole.stages]
        hours = None if whole.node_hours is None else whole.node_hours[name]
        each = f"{kind.cpus} CPU" + (f", {kind.gpus} GPU" if kind.gpus else "")
        price = f"{prices[name]:.3g}" if name in prices else "-"
        table.add_row(name, each, f"{kind.max_nodes:,}", *counts, _hours(hours), price,
                      _dollars(whole.dollars.get(name)))  # fmt: skip
    if whole.total is not None:
        table.add_row("total", *[""] * (len(names) + 4), _dollars(whole.total), style="bold")
    return table


def _steps(steps: Mapping[int, CapacityForecast], prices: Mapping[str, float]) -> Table:
    table = _table("With --concurrent", "trials", "hours", *(("$",) if prices else ()), "nodes")
    table.columns[-1].justify = "left"
    for at_a_time, grown in steps.items():
        dollars = (_dollars(grown.total),) if prices else ()
        table.add_row(f"{at_a_time:,}", _hours(grown.hours), *dollars, _nodes(grown.stages[0]))
    return table


def _notes(cluster: Cluster, whole: CapacityForecast, basis: str) -> Iterator[str]:
    idle = cluster.idle_hours * 60
    if idle:
        yield f"Nodes go {idle:g} minutes after their last work; their start is not reckoned."
    for name, kind in cluster.kinds.items():
        if kind.stands_in_for:
            yield f"{name} stands in where {kind.stands_in_for} is not to be had."
    if whole.stand_in_dollars:
        yield f"If it does throughout, that costs ${whole.stand_in_dollars:,.2f} more."
    if whole.unpriced:
        yield f"No --price for {', '.join(whole.unpriced)}: not in the total."
    if basis:
        yield f"Reckoned from: {basis}."
    else:
        yield "Hours need --probe, or --examples-per-second of one worker."


def _nodes(stage: Stage) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in stage.nodes.items() if count)


def _hours(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:,.2f}"


def _dollars(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
