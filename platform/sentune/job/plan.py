"""Checks a job's plan against the cluster, and prints it for ``--dry-run``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.errors import DamagedFile, InvalidValue, PlanError, TrialFailed
from sentune.formatting import counted, hours, population, unused_gpus
from sentune.job.families.base import JobFamily
from sentune.job.history import take_history
from sentune.study.config import objectives_of
from sentune.study.planning.capacity import available
from sentune.study.planning.checks import check_disk, tracking_silence
from sentune.study.planning.connect import connected
from sentune.study.planning.plan import Plan, estimate, make_plan
from sentune.tasks import TRAINING
from sentune.terminal import plain_table, print_line
from sentune.tracking.database import check_tracking_file
from sentune.tracking.environment import tracking_uri_in

SECONDS = 60.0
"""Time limit of a probe. With the built-in corpus and encoder it takes 3 to 20 s; BERT reaches the
limit."""


def checked_plan(job: JobFamily, console: Console, *, dry: bool = False) -> Plan:
    """Return the plan of a prepared job on the cluster that this process has joined.

    If MLflow's server or database does not answer, a warning is printed, because training does not
    depend on it. In a dry run it is an error.

    Raises:
        PlanError: the plan does not fit on the cluster, or MLflow does not answer in a dry run.
        StorageError: the disk is too small.
    """
    plan = make_plan(job.config, job.space, available())
    check_disk(job.config, plan, job.checkpoint_bytes())
    tracking = job.options.tracking or tracking_uri_in(job.config.storage)
    try:
        trouble = tracking_silence(tracking)
        check_tracking_file(tracking)
    except DamagedFile as error:
        trouble = str(error)
    if trouble and dry:
        raise PlanError("--tracking", without_credentials(tracking), trouble)
    if trouble:
        later = "training starts anyway, and MLflow gets the results once it answers"
        warning = f"warning: --tracking {without_credentials(tracking)}: {trouble}; {later}"
        print_line(console, warning, "yellow")
    return plan


def show_plan(job: JobFamily, console: Console, *, seconds: float = SECONDS) -> None:
    """Print the resources and the estimated cost of a study; only the cache is written.

    The cost is estimated from a probe of up to ``seconds``. The job is not prepared yet.
    """
    with connected() if os.environ.get("RAY_ADDRESS") else contextlib.nullcontext():
        job.prepare(console)
        take_history(job)
        plan = checked_plan(job, console, dry=True)
    try:
        probe = job.probe(seconds)
        cost = estimate(plan, job.config, probe)
    except TrialFailed as failure:
        console.print(plan_table(plan.to_dict()))
        print_line(console, f"the cost cannot be estimated: {failure}")
    else:
        _check_metrics(job, probe.metrics)
        console.print(plan_table(replace(plan, estimate=cost).to_dict()))


def _check_metrics(job: JobFamily, measured: Collection[str]) -> None:
    """Refuse an objective or a constraint whose task was measured without that metric."""
    objectives = [objective.metric for objective in objectives_of(job.config, job.space)]
    limits = [constraint.metric for constraint in job.config.constraints]
    for option, names in (("--objective", objectives), ("--constraint", limits)):
        for name in names:
            task = name.partition("/")[0]
            known = [metric for metric in measured if metric.partition("/")[0] == task]
            if known and name not in known and task != TRAINING:  # a launcher adds to these
                raise InvalidValue(option, name, f"{task} has {', '.join(known)}")


def plan_table(plan: Mapping[str, Any]) -> Table:
    """Return a table of a plan's resources and, if it was probed, its estimated cost.

    ``plan`` is as in ``summary.json``, and as returned by ``Plan.to_dict``.
    """
    label = Column(style="dim", no_wrap=True)
    table = plain_table(label, Column(), title="Plan", show_header=False)
    for name, text in (*_asked(plan), *_cost(plan["estimate"] or {})):
        table.add_row(name, Text(text))
    return table


def _asked(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "study", plan["study"]
    drawn = "segments of its members" if population(plan) else f"drawn by {plan['sampler']}"
    yield "trials", f"{plan['trials']:,}, {drawn}"
    judged = counted(plan["validations_full"], "validation")
    yield "full trial", f"{plan['max_examples']:,} examples, {judged}"
    rungs = ", ".join(f"{rung:,}" for rung in plan["rungs"])
    stops = f"{rungs} examples ({plan['scheduler']})"
    yield "rungs", stops if rungs else "no rungs, every trial runs to its end"
    if plan["finalists"]:
        yield "finals", f"{counted(plan['finalists'], 'full run')} from fresh seeds"
    yield "examples", f"about {plan['examples_expected']:,}, at most {plan['examples_at_most']:,}"
    low, high = plan["workers"]
    count = f"{low}" if low == high else f"{low} to {high}"
    gpus = f" and {plan['gpus'] / low:g} GPUs" if plan["gpus"] else ""
    each = f"{plan['cpus'] / low:g} CPU{gpus}"
    yield "workers", f"{count} a trial ({plan['launcher']}), each {each}"
    if idle := unused_gpus(plan):
        yield "GPUs", idle
    if plan["data_cpus"]:
        yield "Ray Data", f"{plan['data_cpus']:g} CPU stays free for it"
    yield "at a time", f"{plan['concurrent_now']} now, {plan['concurrent']} at full scale"
    if plan["note"]:
        yield "first", plan["note"]


def _cost(cost: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not cost:
        return
    full, now = cost["hours"], cost["hours_now"]
    rest = f" at full scale, {hours(now)} now" if now not in (None, full) else ""
    yield "time", f"about {hours(full)}{rest}"
    if cost["gpu_hours"]:
        yield "GPU hours", f"about {cost['gpu_hours']:.3g}"
    yield "CPU hours", f"about {cost['cpu_hours']:.3g}"
    most, each = decimal(cost["disk_bytes"]), decimal(cost["checkpoint_bytes"])
    yield "disk", f"up to {most}, {each} a checkpoint"
    yield "basis", cost["basis"]
