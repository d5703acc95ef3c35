"""A job from its options to its report, read top to bottom."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from sentune.encoders import prepare
from sentune.errors import SentuneError
from sentune.job.assembly import make_study, tokenised
from sentune.job.data import Corpora, read_corpora, test_specs
from sentune.job.display import Display
from sentune.job.exhibits import exhibit, exhibits_folder
from sentune.job.options import JobOptions
from sentune.job.product import Product
from sentune.job.report import plan_table, pointers, report
from sentune.job.request import cache_folder, check_batch, narrowed, study_config
from sentune.records import (
    FinalistRecord,
    StudyListener,
    StudySummary,
    TrialRecord,
    TrialState,
)
from sentune.search.capacity import available
from sentune.search.cluster import connected
from sentune.search.config import StudyConfig
from sentune.search.plan import make_plan
from sentune.search.space import SearchSpace
from sentune.search.study import StudyOutcome
from sentune.summary import write_summary
from sentune.tracking import MlflowListener, lineage


def tune(options: JobOptions, space: SearchSpace) -> None:
    """Searches, trains the best again from fresh seeds, tests the winner, leaves the product.

    Raises:
        SentuneError: what cannot be done, said before anything is trained where that can be known.
    """
    console = screen()
    space = narrowed(space, options)
    config = study_config(options)
    if options.dry_run:
        with connected() if os.environ.get("RAY_ADDRESS") else contextlib.nullcontext():
            console.print(plan_table(make_plan(config, space, available()).to_dict()))
        return
    corpora = read_corpora(options, space.method)
    check_batch(space, corpora)
    for role, corpus in corpora.described().items():
        line = f"{role:<7} {corpus['spec']}: {corpus['rows']:,} {corpus['kind'].replace('-', ' ')}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    encoder = prepare(options.encoder, corpora.sentences(), cache_folder(config))
    tokens = tokenised(space, corpora, encoder, cache_folder(config))
    if tokens.nbytes > options.share_mb << 20:
        config = replace(config, data_cpus=1.0)
    display = Display(console, varied=tuple(space.settings))
    summary = start_summary(config, space, corpora)
    with connected(), listening(config, options, display) as listeners:
        study = make_study(config, space, corpora, tokens, encoder, options, listeners)
        for listener in listeners:
            listener.study_started(summary, study.plan.to_dict())
        with display.shown():
            outcome = study.run()
        finish(summary, outcome)
        if outcome.state == "complete":
            tables = product(outcome, config, space, options, encoder).publish(summary, corpora)
            folder = exhibits_folder(config.storage, config.name)
            exhibit(summary, tables, folder, listeners)
        write_summary(summary, config.folder)
        for listener in listeners:
            listener.study_ended(summary)
    report(summary, console, varied=tuple(space.settings))
    pointers(summary, console, commands=next_commands(summary, config, options))
    exit_as(summary)


def screen() -> Console:
    """The terminal; where there is none (a job's log), tables are 120 characters wide."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


def start_summary(config: StudyConfig, space: SearchSpace, corpora: Corpora) -> StudySummary:
    """What is known of the study before its first trial."""
    return StudySummary(
        study=config.name,
        method=space.method,
        state="running",
        objective=space.objective,
        mode=space.mode,
        corpora=corpora.described(),
        space=space.to_dict(),
        lineage=lineage(),
    )


@contextlib.contextmanager
def listening(
    config: StudyConfig, options: JobOptions, display: Display
) -> Iterator[Sequence[StudyListener]]:
    """Who is told of the study: the display, and MLflow until all is sent."""
    tracker = MlflowListener.in_storage(config.name, config.storage, tracking_uri=options.tracking)
    try:
        yield (display, tracker)
    finally:
        if not tracker.close():
            display.console.print("MLflow has not got everything yet; resuming the study sends it")


def finish(summary: StudySummary, outcome: StudyOutcome) -> None:
    """Takes over what the search found."""
    summary.state = outcome.state
    summary.trials, summary.finalists = outcome.trials, outcome.finalists
    summary.winner = outcome.winner


def best_run(outcome: StudyOutcome, space: SearchSpace) -> FinalistRecord | TrialRecord:
    """The winning finalist, or the best complete trial where no finals were asked for."""
    if outcome.winner is not None:
        return outcome.finalists[outcome.winner]
    sign = 1 if space.mode == "max" else -1
    complete = [trial for trial in outcome.trials if trial.state is TrialState.COMPLETE]
    return max(complete, key=lambda trial: (sign * trial.metrics[space.objective], -trial.id))


def product(
    outcome: StudyOutcome,
    config: StudyConfig,
    space: SearchSpace,
    options: JobOptions,
    encoder: str,
) -> Product:
    """How the winner becomes a model folder; without finalists the best trial is the winner."""
    best = best_run(outcome, space)
    return Product(
        settings={**space.fixed, **best.settings},
        readouts=best.readouts,
        checkpoint=Path(outcome.best_checkpoint or ""),
        encoder=encoder,
        storage=config.folder,
        test=test_specs(options),
        gpus=options.gpus_per_worker,
    )


def next_commands(
    summary: StudySummary, config: StudyConfig, options: JobOptions
) -> dict[str, str]:
    """What to look at and type next; paths below this folder are written from here."""
    beside = Path(sys.executable).parent / "sentune"
    sentune = from_here(str(beside)) if beside.exists() else "sentune"
    commands = {"summary": from_here(f"{config.folder}/summary.json")}
    if summary.model:
        commands = {"model": from_here(summary.model), **commands}
    if options.tracking is None and "://" not in config.storage:
        commands["dashboard"] = f"{sentune} dashboard --storage {from_here(config.storage)}"
    return commands


def from_here(path: str) -> str:
    """A path relative to the working folder where it lies below it, else as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def exit_as(summary: StudySummary) -> None:
    """0 for a complete study; 1 where no trial came to its end, 130 where it was interrupted."""
    if summary.state == "interrupted":
        raise KeyboardInterrupt
    if summary.state != "complete":
        if any(trial.state is TrialState.COMPLETE for trial in summary.trials):
            raise StudyFailed("no finalist came to its end; the same command tries them again")
        reasons = sorted({trial.reason for trial in summary.trials if trial.reason})
        raise StudyFailed(f"no trial came to its end: {'; '.join(reasons) or 'no reason given'}")


class StudyFailed(SentuneError):
    """A study without a single complete trial."""
