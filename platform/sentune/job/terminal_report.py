"""Prints the results of a job at its end: trials, cost, finalists, verdict, winner and test."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sentune.credentials import without_credentials
from sentune.formatting import cost, setting
from sentune.job.options import StudyOptions
from sentune.job.trial_table import finalists_table, trials_table
from sentune.records import StudySummary
from sentune.report.study_page import finding
from sentune.report.trial_sections import events
from sentune.report.view import View
from sentune.study.config import StudyConfig
from sentune.terminal import plain_table, print_line


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Print the tables of a study that has ended, best trial first."""
    console.print()
    seen = View(summary=summary)
    if (against := seen.against_rules) is not None:
        colour = {True: "green", None: "yellow", False: "bold red"}[against.beaten]
        print_line(console, f"{finding(seen)} {against.text}", colour)
        console.print()
    elif summary.model is not None:  # no rule without a model has the objective
        print_line(console, finding(seen), "bold")
        console.print()
    metrics = [metric for metric, _ in seen.objectives]
    dim: dict[str, Any] = {"title": "Trials", "header_style": "dim"}
    console.print(trials_table(seen.ranked, metrics, varied, alive=seen.alive, **dim))
    for trial in seen.trials:
        for _, said in events(trial):
            print_line(console, f"trial {trial.id}: {without_credentials(said)}")
    console.print()
    console.print(f"spent: {cost(summary.spent)}", highlight=False)
    if summary.reason and summary.state == "complete":  # else it is in the job's last line
        print_line(console, f"the study is {summary.state}: {summary.reason}")
    if summary.model is None:
        return
    if summary.finalists:
        console.print()
        title = "Finalists, trained again from fresh seeds"
        shown = summary.finalists, summary.objective, summary.winner
        console.print(finalists_table(*shown, title=title, header_style="dim"))
    if summary.verdict:
        print_line(console, summary.verdict)
    for table in (_configuration(seen), _metrics(seen)):
        console.print()
        console.print(table)


def print_commands(console: Console, commands: Mapping[str, str]) -> None:
    """Print the paths of results and the next commands, without wrapping or colour."""
    console.print()
    width = max(len(name) for name in commands)
    for name, command in commands.items():
        print_line(console, f"{name:<{width}}  {command}")


def next_commands(
    summary: StudySummary, config: StudyConfig, options: StudyOptions
) -> dict[str, str]:
    """Return name -> path or command; paths below the working folder are relative."""
    beside = Path(sys.executable).parent / "sentune"
    sentune = _from_here(str(beside)) if beside.exists() else "sentune"
    commands = {"model": _from_here(summary.model)} if summary.model else {}
    commands["report"] = _from_here(f"{config.folder}/report.html")
    commands["summary"] = _from_here(f"{config.folder}/summary.json")
    if options.tracking is None and "://" not in config.storage:
        storage = shlex.quote(_from_here(config.storage))
        commands["dashboard"] = f"{shlex.quote(sentune)} dashboard --storage {storage}"
    return commands


def _from_here(path: str) -> str:
    """Return a path, relative if it is in the working folder, or a URI without credentials."""
    here = Path.cwd()
    if Path(path).is_relative_to(here):
        return str(Path(path).relative_to(here))
    return str(without_credentials(path))


def _configuration(seen: View) -> Table:
    winner = seen.winner or seen.best
    assert winner is not None, "a study with a model has a winner"
    table = plain_table("name", "value", title="Best configuration", header_style="dim")
    for name, value in sorted({**seen.summary.space["fixed"], **winner.settings}.items()):
        table.add_row(name, setting(value))
    for name, value in sorted(winner.readouts.items()):
        table.add_row(f"{name} (read out)", setting(value))
    return table


def _metrics(seen: View) -> Table:
    """Return a table of the winner on dev, the exported model on test, and the baselines."""
    columns = "metric", f"dev, {seen.error_kind}", f"test, {seen.test_kind}", "baseline"
    table = plain_table(*columns, title="Metrics", header_style="dim")
    for row in seen.metric_rows:
        table.add_row(*row)
    if seen.subsets:
        table.caption = f"and {seen.subsets} metrics by subset, in summary.json"
        table.caption_justify = "left"
    return table
