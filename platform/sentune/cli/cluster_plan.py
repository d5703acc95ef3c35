"""``sentune cluster plan``: forecast of the nodes, hours and cost of a study on a cluster."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from sentune import job
from sentune.cli.options import key_and_value
from sentune.cluster import Cluster, NodeLimit, read_cluster
from sentune.errors import InvalidValue
from sentune.job.command import JobDefinition, command, options_given
from sentune.job.options import StudyOptions
from sentune.job.run import tune
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, machines
from sentune.study.planning.capacity_forecast import CapacityForecast, Stage, forecasts
from sentune.study.planning.plan import Plan, Probe, estimate, make_plan
from sentune.study.space.space import SearchSpace
from sentune.terminal import number_column, plain_table


def read_job(script: Path) -> JobDefinition:
    """Return the definition of a job by running its script with ``job.run`` replaced.

    Raises:
        InvalidValue: there is no such file, or it does not call ``job.run``.
    """
    if not script.is_file():
        raise InvalidValue("JOB", str(script), "give a job's script, such as jobs/tune_gumbel.py")
    found: list[JobDefinition] = []

    def note(space: SearchSpace, defaults: StudyOptions, **quick: Any) -> None:
        found.append(JobDefinition(space=space, defaults=defaults, **quick))

    run, path = job.run, [*sys.path]
    job.run = note
    sys.path.insert(0, str(script.resolve().parent))  # as Python does for a script
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        job.run, sys.path[:] = run, path
    if not found:
        raise InvalidValue("JOB", str(script), "it does not call sentune.job.run")
    return found[0]


def options_of(script_job: JobDefinition, arguments: Sequence[str]) -> StudyOptions:
    """Parse a job's command line (``--trials 40 ...``).

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    app = typer.Typer(add_completion=False)
    app.command()(command(script_job, tune))
    try:
        given = typer.main.get_command(app).make_context("JOB", [*arguments]).params
    except typer.TyperException as error:
        option = getattr(error, "option_name", "JOB")
        fix = f"{script_job.space.method}'s job: {error.format_message()}"
        raise InvalidValue(option, " ".join(arguments), fix) from error
    return options_given(given, script_job)


def cluster_of(file: Path | None, nodes: Sequence[str]) -> Cluster:
    """Return the cluster of a file or a list of nodes; without either that of ``cluster.yaml``.

    The file is for ``ray up`` or KubeRay. The node ``gpu=8,1,4`` stands for four nodes of 8 CPUs
    and 1 GPU, which are always up.

    Raises:
        InvalidValue: both are given, a text is not NAME=CPUS,GPUS,COUNT, a name is given twice, or
            the file is not a cluster file.
    """
    if not nodes:
        return read_cluster(file or Path("cluster.yaml"))
    if file is not None:
        raise InvalidValue("--node", nodes[0], "give a --cluster-file or nodes, not both")
    kinds, fix = {}, "give NAME=CPUS,GPUS,COUNT, as in gpu=8,1,4, each name once"
    for text in nodes:
        name, numbers = key_and_value("--node", text, fix)
        parts = numbers.split(",")
        if len(parts) != 3 or not all(part.isdigit() for part in parts) or name in kinds:
            raise InvalidValue("--node", text, fix)
        cpus, gpus, most = map(int, parts)
        kinds[name] = NodeLimit(cpus=cpus, gpus=gpus, max_nodes=most, min_nodes=most)
    total = sum(kind.max_nodes for kind in kinds.values())
    return Cluster(kinds=kinds, max_workers=total, idle_hours=0.0)


def parse_prices(texts: Iterable[str], kinds: Collection[str]) -> dict[str, float]:
    """Return node type -> dollars per hour from texts like ``gpu-spot=0.35``.

    Raises:
        InvalidValue: a text is not NODE_TYPE=DOLLARS, a type is given twice, or the cluster does
            not have it.
    """
    prices: dict[str, float] = {}
    fix = "give NODE_TYPE=DOLLARS_PER_HOUR, each node type once"
    for text in texts:
        name, value = key_and_value("--price", text, fix)
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if not 0 <= price < float("inf") or name in prices:
            raise InvalidValue("--price", text, fix)
        if name not in kinds:
            raise InvalidValue("--price", name, f"the cluster has {', '.join(kinds)}")
        prices[name] = price
    return prices


def growth_report(
    config: StudyConfig,
    space: SearchSpace,
    cluster: Cluster,
    prices: Mapping[str, float],
    probe: Probe | None,
) -> Group:
    """Return tables of a forecast: by stage, by node type, and for fewer trials at a time.

    Args:
        prices: node type -> dollars per hour.
        probe: measured costs; None: no hours are shown.

    Raises:
        PlanError: the cluster cannot run the study even at its largest; names the option.
    """
    start = tuple(kind for kind in cluster.kinds.values() for _ in range(kind.min_nodes))
    up = machines(replace(cluster, kinds={str(n): kind for n, kind in enumerate(start)}))
    plan = make_plan(config, space, Capacity(nodes=up, reachable=machines(cluster)))
    steps = forecasts(plan, config, cluster, probe, prices)
    whole = steps[plan.concurrent]
    basis = estimate(plan, config, probe).basis if probe else ""
    notes = [Text(note) for note in _notes(cluster, whole, basis)]
    tables = (_stages(plan, whole), _kinds(cluster, prices, whole), _steps(steps, prices))
    return Group(*(part for table in tables for part in (table, Text())), *notes)


def _table(title: str, first: str, numbers: Iterable[str], *last: str) -> Table:
    words = [Column(name, no_wrap=True) for name in (first, *last)]
    return plain_table(words[0], *map(number_column, numbers), *words[1:], title=title)


def _stages(plan: Plan, whole: CapacityForecast) -> Table:
    table = _table(f"Study {plan.study}", "stage", ("runs", "at a time", "hours"), "nodes")
    for stage in whole.stages:
        runs = plan.trials if stage.name == "search" else plan.finalists
        hours = _amount(stage.hours)
        table.add_row(stage.name, f"{runs:,}", f"{stage.concurrent:,}", hours, _nodes(stage))
    return table


def _kinds(cluster: Cluster, prices: Mapping[str, float], whole: CapacityForecast) -> Table:
    names = [stage.name for stage in whole.stages]
    numbers = ("each", "at most", *names, "node hours", "$/hour", "$")
    table = _table("Nodes", "node type", numbers)
    for name, kind in cluster.kinds.items():
        counts = [f"{stage.nodes[name]:,}" for stage in whole.stages]
        hours = _amount(None if whole.node_hours is None else whole.node_hours[name])
        each = f"{kind.cpus} CPU" + (f", {kind.gpus} GPU" if kind.gpus else "")
        price = f"{prices[name]:.3g}" if name in prices else "-"
        dollars = _amount(whole.dollars.get(name))
        table.add_row(name, each, f"{kind.max_nodes:,}", *counts, hours, price, dollars)
    if whole.total is not None:
        table.add_row("total", *[""] * (len(names) + 4), _amount(whole.total), style="bold")
    return table


def _steps(steps: Mapping[int, CapacityForecast], prices: Mapping[str, float]) -> Table:
    numbers = ("hours", *(("$",) if prices else ()))
    table = _table("With --concurrent", "trials", numbers, "nodes")
    for at_a_time, grown in steps.items():
        dollars = (_amount(grown.total),) if prices else ()
        table.add_row(f"{at_a_time:,}", _amount(grown.hours), *dollars, _nodes(grown.stages[0]))
    return table


def _notes(cluster: Cluster, whole: CapacityForecast, basis: str) -> Iterator[str]:
    if idle := cluster.idle_hours * 60:
        yield f"Nodes are removed {idle:g} minutes after their last work; startup is not included."
    for name, kind in cluster.kinds.items():
        if kind.stands_in_for:
            yield f"{name} is used if {kind.stands_in_for} is not available."
    if whole.stand_in_dollars:
        yield f"If it is used throughout, the study costs ${whole.stand_in_dollars:,.2f} more."
    if whole.unpriced:
        yield f"No --price for {', '.join(whole.unpriced)}: not in the total."
    if basis:
        yield f"Estimated from: {basis}."
    else:
        yield "Give --probe or --examples-per-second to estimate hours."


def _nodes(stage: Stage) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in stage.nodes.items() if count)


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
