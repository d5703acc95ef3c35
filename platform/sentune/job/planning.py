"""A job's plan: checked against the world before a study starts, and shown for ``--dry-run``."""

from __future__ import annotations

import contextlib
import os

from rich.console import Console

from sentune.errors import TrialFailed
from sentune.job.kinds import Job
from sentune.job.options import StudyOptions
from sentune.job.plan_report import plan_table
from sentune.job.probing import SECONDS, checkpoint_bytes, probed
from sentune.study.planning.capacity import available
from sentune.study.planning.checks import check_world
from sentune.study.planning.connect import connected
from sentune.study.planning.plan import Plan, make_plan


def checked_plan(job: Job, options: StudyOptions, console: Console) -> Plan:
    """The plan of a job that has been prepared, on the cluster that this process has joined.

    Prints a warning where training goes on all the same.

    Raises:
        PlanError, StorageError: what cannot run, naming the option and the fix.
    """
    plan = make_plan(job.config, job.space, available())
    size = checkpoint_bytes(job)
    for warning in check_world(job.config, plan, tracking=options.tracking, checkpoint_bytes=size):
        line = f"warning: {warning}"
        console.print(line, style="yellow", soft_wrap=True, markup=False, highlight=False)
    return plan


def show_plan(
    job: Job, options: StudyOptions, console: Console, *, seconds: float = SECONDS
) -> None:
    """Prints what a study will ask for and cost; leaves nothing but the cache in the storage.

    Args:
        job: not prepared yet.
        options: that the job was made from.
        console: to print on.
        seconds: that the probe behind the cost may take.
    """
    job.prepare(console)
    with connected() if os.environ.get("RAY_ADDRESS") else contextlib.nullcontext():
        plan = checked_plan(job, options, console)
    trouble = ""
    try:
        plan = plan.estimated(job.config, probed(job, seconds=seconds))
    except TrialFailed as failure:
        trouble = f"its cost cannot be told: {failure}"
    console.print(plan_table(plan.to_dict()))
    if trouble:
        console.print(trouble, soft_wrap=True, markup=False, highlight=False)
