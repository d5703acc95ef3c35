"""Reads the search space and the options of a job's script, without running the job."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from sentune import job
from sentune.errors import InvalidValue
from sentune.job.command import command, options_given
from sentune.job.definition import JobDefinition
from sentune.job.options import StudyOptions
from sentune.study.space.space import SearchSpace


def read_job(script: Path) -> JobDefinition:
    """Run a job's script up to its ``job.run``, which only takes note here.

    Raises:
        InvalidValue: there is no such file, or it starts no job.
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
        raise InvalidValue("JOB", str(script), "it never calls sentune.job.run")
    return found[0]


def options_of(script_job: JobDefinition, arguments: Sequence[str]) -> StudyOptions:
    """Return the options of a command line (``--trials 40 ...``), as the script would have them.

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    app = typer.Typer(add_completion=False)
    app.command()(command(script_job))
    try:
        given = typer.main.get_command(app).make_context("JOB", [*arguments]).params
    except typer.TyperException as error:
        option = getattr(error, "option_name", "JOB")
        fix = f"{script_job.space.method}'s job: {error.format_message()}"
        raise InvalidValue(option, " ".join(arguments), fix) from error
    return options_given(given, script_job)
