"""A job from its options to its report, read top to bottom."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sentune.credentials import without_credentials
from sentune.job.closed_form import ClosedFormJob
from sentune.job.driving import Turn, describe, origin
from sentune.job.ending import check_ending
from sentune.job.exhibits import exhibit, exhibits_folder, write_page
from sentune.job.gradient import GradientJob
from sentune.job.kinds import Job
from sentune.job.operations import OperationsJob
from sentune.job.options import (
    ClosedFormOptions,
    JobOptions,
    OperationOptions,
    StudyOptions,
    WordOptions,
)
from sentune.job.planning import checked_plan, show_plan
from sentune.job.progress import Display
from sentune.job.report import pointers, report
from sentune.job.words import WordsJob
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.planning.connect import connected
from sentune.study.planning.plan import Plan
from sentune.study.space.space import SearchSpace
from sentune.study.study import StudyOutcome, objectives_of
from sentune.summary import write_summary
from sentune.terminal import screen
from sentune.tracking import Tracker, lineage


def tune(options: StudyOptions, space: SearchSpace) -> None:
    """Searches, trains the best again from fresh seeds, tests the winner, leaves the product.

    Raises:
        SentuneError: what cannot be done, said before anything is trained where that can be known.
    """
    console = screen()
    old = options.study if options.fork else None
    options = forked(options)
    job = make_job(options, space)
    if options.dry_run:
        show_plan(job, options, console)
        return
    with Turn(job.config) as turn:
        forked_from = old or origin(job.config)
        summary = run(job, options, space, console, turn, forked_from)
    report(summary, console, varied=tuple(job.space.settings))
    pointers(summary, console, commands=next_commands(summary, job.config, options))
    check_ending(summary)


def run(
    job: Job,
    options: StudyOptions,
    space: SearchSpace,
    console: Console,
    turn: Turn,
    forked_from: str | None,
) -> StudySummary:
    """The study, from its corpora to its summary."""
    job.prepare(console)
    for role, corpus in job.corpora().items():
        line = f"{role:<7} {corpus['spec']}: {corpus['rows']:,} {corpus['kind'].replace('-', ' ')}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    display = Display(console, varied=tuple(job.space.settings))
    summary = start_summary(job, options)
    summary.forked_from = forked_from
    with connected(), contextlib.ExitStack() as later:
        checked_plan(job, options, console)
        lease = turn.take()
        tracker = later.enter_context(tracking(job.config, options, console))
        study = job.study()
        study.held = lease
        describe(job.config, options, space, forked_from)
        summary.plan = planned(study.plan, job.config)
        look = partial(study.view.snapshot, driven=True)
        tracker.follow(look, summary)
        display.begin(summary, study.plan.to_dict(), look)
        study.watchers += (display.changed, tracker.changed)
        with display.shown():
            outcome = study.run()
        finish(summary, outcome)
        if outcome.state == "complete":
            tables = job.product(outcome).publish(summary)
            folder = exhibits_folder(job.config.storage, job.config.name)
            exhibit(summary, tables, folder)
        study.retention.apply(everything=True)
        write_summary(summary, job.config.folder)
        write_page(summary, outcome.trials, job.config.storage)
        tracker.tell(summary)
    return summary


def forked(options: StudyOptions) -> StudyOptions:
    """``--study OLD --fork NEW`` is the study NEW, which learns from OLD."""
    if options.fork is None:
        return options
    known = (*options.warm_start, options.study)
    return options.model_copy(update={"study": options.fork, "fork": None, "warm_start": known})


def make_job(options: StudyOptions, space: SearchSpace) -> Job:
    """The kind of job that the options are of."""
    if isinstance(options, ClosedFormOptions):
        return ClosedFormJob(options.complete(), space)
    if isinstance(options, OperationOptions):
        return OperationsJob(options, space)
    if isinstance(options, WordOptions):
        return WordsJob(options, space)
    assert isinstance(options, JobOptions)
    return GradientJob(options, space)


def start_summary(job: Job, options: StudyOptions) -> StudySummary:
    """What is known of the study before its first trial."""
    return StudySummary(
        study=job.config.name,
        method=job.space.method,
        state="running",
        objective=job.space.objective,
        mode=job.space.mode,
        corpora={role: dict(corpus) for role, corpus in job.corpora().items()},
        space=job.space.to_dict(),
        lineage={**lineage(), "encoder": made_from(options)},
        objectives=[objective.to_dict() for objective in objectives_of(job.config, job.space)],
        warm_start=list(job.config.warm_start),
    )


@contextlib.contextmanager
def tracking(config: StudyConfig, options: StudyOptions, console: Console) -> Iterator[Tracker]:
    """MLflow, until it holds all of the study."""
    tracker = Tracker.in_storage(config.name, config.storage, tracking_uri=options.tracking)
    try:
        yield tracker
    finally:
        if not tracker.close():
            console.print("MLflow has not got everything yet; resuming the study sends it")


def made_from(options: StudyOptions) -> str:
    """The encoder, or the word vectors, that the method starts from."""
    named = options.model_dump()
    vectors = named.get("vectors", ())
    given = named.get("encoder") or (vectors if isinstance(vectors, str) else " ".join(vectors))
    return str(without_credentials(given))


def planned(plan: Plan, config: StudyConfig) -> dict[str, Any]:
    """The plan with the limits that there are; what is empty is left out."""
    budget = {name: limit for name, limit in asdict(config.budget).items() if limit is not None}
    told = {**plan.to_dict(), "eta": config.eta, "budget": budget}
    return {name: value for name, value in told.items() if value not in (None, "", {})}


def finish(summary: StudySummary, outcome: StudyOutcome) -> None:
    """Takes over what the search found."""
    summary.state = outcome.state
    summary.trials, summary.finalists = outcome.trials, outcome.finalists
    summary.winner = outcome.winner
    summary.reason, summary.spent = outcome.reason, outcome.spent
    summary.front, summary.verdict = outcome.front, outcome.verdict
    summary.comparison = outcome.comparison


def next_commands(
    summary: StudySummary, config: StudyConfig, options: StudyOptions
) -> dict[str, str]:
    """What to look at and type next; paths below this folder are written from here."""
    beside = Path(sys.executable).parent / "sentune"
    sentune = from_here(str(beside)) if beside.exists() else "sentune"
    commands = {
        "report": from_here(f"{config.folder}/report.html"),
        "summary": from_here(f"{config.folder}/summary.json"),
    }
    if summary.model:
        commands = {"model": from_here(summary.model), **commands}
    if options.tracking is None and "://" not in config.storage:
        commands["dashboard"] = f"{sentune} dashboard --storage {from_here(config.storage)}"
    return commands


def from_here(path: str) -> str:
    """A path relative to the working folder where it lies below it; a URI without credentials."""
    here = Path.cwd()
    return (
        str(Path(path).relative_to(here))
        if Path(path).is_relative_to(here)
        else str(without_credentials(path))
    )
