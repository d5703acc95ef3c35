"""A job from its options to its report, read top to bottom.

What takes long to import (torch, Ray, Optuna) is imported where it is needed: ``--help`` and a
wrong option do not wait for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sentune.job.exit_codes import check_ending
from sentune.job.options import StudyOptions, forked
from sentune.terminal import print_line, screen

if TYPE_CHECKING:
    from sentune.job.families import JobFamily
    from sentune.job.study_session import StudySession
    from sentune.records import StudySummary
    from sentune.study.config import StudyConfig
    from sentune.study.space.space import SearchSpace
    from sentune.tracking import Tracker


def run(
    space: SearchSpace, defaults: StudyOptions, *, quick: Mapping[str, Any] | None = None
) -> None:
    """Runs a job from the command line: parses, checks, tunes, reports.

    Args:
        space: what is searched.
        defaults: the options where the command line says nothing.
        quick: options that ``--quick`` sets, for a first look within minutes; what is given beside
            it holds. None: the job has no such flag.

    Exit codes: 0 the study is complete, 1 it failed, 2 a wrong value or an impossible plan, 3 it
    was stopped before its finals (a budget, or ``sentune study stop``), 130 interrupted. After
    the last two the same command goes on.
    """
    from sentune.cli.job_command import run_command

    run_command(space, defaults, quick)


def tune(options: StudyOptions, space: SearchSpace) -> None:
    """Searches, trains the best again from fresh seeds, tests the winner, leaves the product.

    Raises:
        SentuneError: what cannot be done, said before anything is trained where that can be known.
        Ended: the study did not come to its end.
    """
    from sentune.job.families import make_job
    from sentune.job.plan import show_plan
    from sentune.job.study_session import StudySession, origin
    from sentune.job.terminal_report import next_commands, print_commands, report

    console = screen()
    old = options.study if options.fork else None
    options = forked(options)
    job = make_job(options, space)
    if options.dry_run:
        show_plan(job, options, console)
        return
    with StudySession(job.config) as session:
        summary = _study(job, options, space, console, session, old or origin(job.config))
    report(summary, console, varied=tuple(job.space.settings))
    print_commands(summary, console, commands=next_commands(summary, job.config, options))
    check_ending(summary)


def _study(
    job: JobFamily,
    options: StudyOptions,
    space: SearchSpace,
    console: Console,
    session: StudySession,
    forked_from: str | None,
) -> StudySummary:
    """The study, from its corpora to its summary."""
    from sentune.job.artifacts import artifacts_folder, write_artifacts, write_page
    from sentune.job.plan import checked_plan
    from sentune.job.progress import Display
    from sentune.job.study_session import describe
    from sentune.job.study_summary import finish, planned, start_summary
    from sentune.study.planning.connect import connected
    from sentune.study.study import Study
    from sentune.summary import write_summary

    job.prepare(console)
    for role, corpus in job.corpora().items():
        line = f"{role:<7} {corpus['spec']}: {corpus['rows']:,} {corpus['kind'].replace('-', ' ')}"
        print_line(console, line)
    display = Display(console, varied=tuple(job.space.settings))
    summary = start_summary(job, options, forked_from)
    with connected(), contextlib.ExitStack() as later:
        checked_plan(job, options, console)
        lock = session.take()
        summary.lineage["generation"] = lock.generation
        tracker = later.enter_context(tracking(job.config, options, console))
        study = Study(
            job.config, job.space, job.spec_maker(), job.program(), fingerprints=job.fingerprints()
        )
        study.held = lock
        describe(job.config, options, space, forked_from)
        summary.plan = planned(study.plan, job.config)
        look = partial(study.view.snapshot, driven=True)
        tracker.start(look, summary)
        display.begin(summary, study.plan.to_dict(), look)
        study.watchers += (display.refresh, tracker.notify)
        with display.shown():
            outcome = study.run()
        finish(summary, outcome)
        if outcome.state == "complete":
            tables = job.product(outcome).publish(summary)
            folder = artifacts_folder(job.config.storage, job.config.name)
            write_artifacts(summary, tables, folder)
        study.retention.apply(everything=True)
        write_summary(summary, job.config.folder)
        write_page(summary, outcome.trials, job.config.storage)
        tracker.update(summary)
    return summary


@contextlib.contextmanager
def tracking(config: StudyConfig, options: StudyOptions, console: Console) -> Iterator[Tracker]:
    """MLflow, until it holds all of the study."""
    from sentune.tracking import Tracker

    tracker = Tracker.in_storage(config.name, config.storage, tracking_uri=options.tracking)
    try:
        yield tracker
    finally:
        if not tracker.close():
            console.print("MLflow has not got everything yet; resuming the study sends it")
