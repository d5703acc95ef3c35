"""Runs a job from its options to its report.

Slow imports (torch, Ray, Optuna) are made inside functions, so that ``--help`` and errors in
options do not wait for them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from sentune.credentials import without_credentials
from sentune.errors import Overtaken, named
from sentune.job.command import JobDefinition, check_ending, command
from sentune.job.notebook import NotebookCell, output
from sentune.job.options import StudyOptions, forked
from sentune.lazy_import import collect_rarely
from sentune.terminal import print_line

if TYPE_CHECKING:
    from sentune.corpora.schema import Corpus
    from sentune.job.families import JobFamily
    from sentune.records import StudySummary
    from sentune.study.config import StudyConfig
    from sentune.study.space.space import SearchSpace
    from sentune.study.store.driver_lock import DriverLock
    from sentune.tracking import Tracker


def run(
    space: SearchSpace, defaults: StudyOptions, *, quick: Mapping[str, Any] | None = None
) -> None:
    """Run a job from the command line: parse, check, tune, report.

    Args:
        space: what is searched.
        defaults: values of the options that the command line does not give.
        quick: options that ``--quick`` sets, for a study of a few minutes; options on the command
            line take precedence. None: the job has no such flag.

    Exit codes: 0 the study is complete; 1 it failed; 2 it was refused (a wrong value, an impossible
    plan, another driver of the study); 3 it was stopped before its finals (by a budget or
    ``sentune study stop``) or taken over by another start; 130 it was interrupted. After 1, 3 and
    130 the same command resumes the study; an exhausted budget must be raised.
    """
    collect_rarely()
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(command(JobDefinition(space=space, defaults=defaults, quick=quick), tune))
    app()


def tune(options: StudyOptions, space: SearchSpace) -> None:
    """Search, train the best trials again from fresh seeds, test the winner, export its model.

    Raises:
        SentuneError: the job cannot run; raised before any training if possible.
        Ended: the study ended before it was complete.
    """
    console, forked_from = output(), options.study if options.fork else None
    options = forked(options)
    if not options.dry_run:  # before what takes seconds to import
        where = without_credentials(options.storage)
        print_line(console, f"study   {options.study} ({space.method}) in {where}")

    from sentune.job.families import make_job
    from sentune.job.plan import show_plan
    from sentune.job.terminal_report import next_commands, print_commands, report

    job = make_job(options, space)
    test = check_early(job)
    if options.dry_run:
        show_plan(job, console)
        return
    with contextlib.ExitStack() as held:
        summary = _study(job, test, console, held, forked_from)
    if not isinstance(console, NotebookCell):  # a notebook shows the study that it gets
        report(summary, console, varied=tuple(job.space.settings))
        print_commands(console, next_commands(summary, job.config, options))
    check_ending(summary)


def check_early(job: JobFamily) -> tuple[Corpus, ...]:
    """Make the checks that need neither a cluster nor prepared corpora.

    Returns:
        The test corpora; empty if an earlier start of the study has been measured on them.

    Raises:
        SentuneError: an option, a file, an encoder, an objective, the machine, the database or the
            storage cannot be used.
    """
    from sentune.job import study_files
    from sentune.job.corpora import check_measured, refuse_equal_corpora
    from sentune.job.product import check_test
    from sentune.study.fork import place_of_trials
    from sentune.study.planning import checks
    from sentune.study.planning.capacity import available
    from sentune.study.planning.plan import make_plan

    refuse_equal_corpora(job.options)
    job.check()
    check_measured(job.dev, job.config, job.space)
    test = check_test(job)
    elsewhere = os.environ.get("RAY_ADDRESS")  # its resources are known once it is joined
    plan = None if elsewhere else make_plan(job.config, job.space, available())
    size = job.checkpoint_bytes()  # builds the first model, which may refuse its settings
    checks.check_database(job.config.optuna_url)
    for name in set(job.config.warm_start) - study_files.warm_started(job.config):
        place_of_trials(job.config.storage, name, job.config.optuna_url)
    checks.check_writable(job.config.storage)
    if plan is not None:
        checks.check_disk(job.config, plan, size)
    if job.options.tracking:  # ``checked_plan`` checks that it answers
        checks.tracking_kind(job.options.tracking)
    return test


def _study(
    job: JobFamily,
    test: tuple[Corpus, ...],
    console: Console,
    held: contextlib.ExitStack,
    forked_from: str | None,
) -> StudySummary:
    """Run the study, from its corpora to its summary.

    A study that exists already is locked at once, a new one after its plan is checked, so that a
    refused job leaves no file behind.

    Args:
        job: not prepared yet.
        test: the test corpora; empty if an earlier start has been measured on them.
        console: to print on.
        held: releases the driver lock.
        forked_from: the study that this start forks; None: the one named by an earlier start.
    """
    from sentune.job import artifacts, corpora, study_files
    from sentune.job.history import take_history
    from sentune.job.plan import checked_plan
    from sentune.job.product import publish
    from sentune.job.progress import Display
    from sentune.job.time_left import TimeLeft
    from sentune.study.planning.connect import connected
    from sentune.study.store import DATABASE
    from sentune.study.store.file_lock import LOCK_FILE
    from sentune.study.study import Study
    from sentune.summary import write_summary
    from sentune.tracking import Tracker
    from sentune.tracking.machine import MachineMetrics

    own = [Path(job.config.folder, name) for name in (LOCK_FILE, DATABASE)]
    begun = job.config.optuna_url or any(path.exists() for path in own)
    lock = _lock(job.config, held) if begun else None
    forked_from = forked_from or study_files.origin(job.config)
    with contextlib.ExitStack() as preparing:
        small = None
        if os.environ.get("RAY_ADDRESS"):  # a running cluster tokenises the corpora
            small = corpora.small_corpora(job.options, job.method.kind)
            if small is not None:  # warn before the cluster is joined
                corpora.print_overlap(small, job.dev, test, console)
            preparing.enter_context(connected())
        job.prepare(console)
        corpora.print_corpora(job.corpora(), console)
        if small is None:
            trained = corpora.prepared_corpora(job.sources)
            corpora.print_overlap(trained, job.dev, test, console)
        config, history = job.config, take_history(job)
        summary = study_files.start_summary(job, forked_from)
        cluster = preparing.pop_all()
    with cluster, connected(), contextlib.ExitStack() as later:
        checked_plan(job, console)
        lock = lock or _lock(config, held)
        summary.lineage["generation"] = lock.generation
        tracker = Tracker(config.name, config.storage, job.options.tracking, machine=MachineMetrics)
        later.push(partial(_close, tracker, console))
        work = job.spec_maker(), job.program()
        study = Study(config, job.space, *work, fingerprints=job.fingerprints(), held=lock)
        if damage := study_files.mend_summary(config.folder):
            print_line(console, f"warning: {damage}", "yellow")
        study_files.describe(config, *job.given, forked_from, lock.generation, history)
        plan = study.plan.to_dict()
        limits = {name: most for name, most in asdict(config.budget).items() if most is not None}
        full = {**plan, "eta": config.eta, "budget": limits}
        summary.plan = {name: value for name, value in full.items() if value not in (None, "", {})}
        look = partial(study.view.snapshot, driven=True)
        judged = sum(corpus.table.num_rows for corpus in job.dev)
        study.begun = partial(tracker.start, look, summary, check=lock.check)
        display = Display(
            console,
            summary,
            plan,
            look,
            varied=tuple(job.space.settings),
            beats=lambda: study.stalls.beats,
            time_left=TimeLeft.of_plan(config, job.space, plan, judged),
        )
        study.watchers += (display.refresh, tracker.notify)
        with display.shown():
            found = dict(vars(study.run()))
        run = found.pop("best_run")
        checkpoint = Path(found.pop("best_checkpoint") or config.directory(run))
        summary = replace(summary, **found)
        lock.check()
        if summary.state == "complete":
            tables = publish(job, run, checkpoint, summary)
            folder = artifacts.artifacts_folder(config.storage, config.name)
            artifacts.write_artifacts(summary, tables, folder)
        lock.check()
        study_files.refuse_late(config.folder, lock.generation)
        study.retention.apply(everything=True)
        summary.spent = replace(summary.spent, hours=lock.hours)  # includes test and export
        write_summary(summary, config.folder)
        artifacts.write_page(summary, config.storage)
        tracker.update(summary)
    return summary


def _lock(config: StudyConfig, held: contextlib.ExitStack) -> DriverLock:
    """Acquire the study's driver lock; closing ``held`` releases it.

    Raises:
        StudyConflict: another process drives the study; names that process.
    """
    from sentune.job.study_files import last_start
    from sentune.study.store.driver_lock import DriverLock
    from sentune.study.store.storage import storage_url

    url, known = storage_url(config.folder, config.optuna_url), last_start(config.folder)
    return held.enter_context(DriverLock(url, config.name, last_start=known))


def _close(
    tracker: Tracker, console: Console, _kind: object, error: BaseException | None, _trace: object
) -> None:
    """Wait until MLflow has the whole study; print a line before, if it has failed so far, and
    after, if it has not. An error that ends this start interrupts the study."""
    from sentune.tracking.tracker import LAST_WAIT

    if error is not None and not isinstance(error, Overtaken):
        tracker.interrupt(named(error) if isinstance(error, Exception) else "")
    if tracker.trouble:
        print_line(
            console, f"waiting up to {LAST_WAIT:g} s for MLflow: {tracker.trouble}", "yellow"
        )
    if not tracker.close():
        console.print("MLflow has not received everything; resuming the study sends the rest")
