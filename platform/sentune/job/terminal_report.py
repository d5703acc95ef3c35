"""What a job prints at its end: trials, cost, finalists, verdict, winner, test, where it all is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, clock, measured, short, spread
from sentune.job.options import StudyOptions
from sentune.job.test_set import best_run
from sentune.records import FinalistRecord, Spent, Spread, StudySummary, TrialRecord, TrialState
from sentune.report.view import ERROR, View, of_subset
from sentune.study.config import StudyConfig
from sentune.terminal import print_line


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Prints the tables of a study that has ended, best trial first."""
    console.print()
    console.print(_trials(summary, varied))
    for trial in sorted(summary.trials, key=lambda trial: trial.id):
        for event in _events(trial):
            print_line(console, f"trial {trial.id}: {event}")
    console.print()
    console.print(f"spent: {_spent(summary.spent)}", highlight=False)
    if summary.reason:  # what to do about it is the job's last line
        print_line(console, f"the study is {summary.state}: {summary.reason}")
    if summary.model is None:
        return
    if summary.finalists:
        console.print()
        console.print(_finalists(summary))
    if summary.verdict:
        print_line(console, summary.verdict)
    winner = best_run(summary)
    console.print()
    console.print(_configuration(summary, winner))
    console.print()
    console.print(_metrics(summary, winner))


def _events(trial: TrialRecord) -> Iterator[str]:
    """Yield a sentence for the restarts, each note and each broken constraint of a trial."""
    if trial.restarts:
        times = {1: "once", 2: "twice"}.get(trial.restarts, f"{trial.restarts} times")
        yield f"its processes died {times}, it went on each time"
    yield from trial.notes
    for name, by in trial.violations.items():
        if by > 0:
            yield f"breaks {name} by {by:.4g}"


def _spent(spent: Spent) -> str:
    """Return ``8 trials, 120,000 examples, 1:02:03 of wall time, 3.5 GPU hours``."""
    wall = clock(3600 * spent.hours)
    line = f"{spent.trials:,} trials, {spent.examples:,} examples, {wall} of wall time"
    return f"{line}, {spent.gpu_hours:.3g} GPU hours" if spent.gpu_hours else line


def print_commands(console: Console, commands: Mapping[str, str]) -> None:
    """Print the places of results and the next commands, unwrapped and uncoloured."""
    console.print()
    width = max(len(name) for name in commands)
    for name, command in commands.items():
        print_line(console, f"{name:<{width}}  {command}")


def next_commands(
    summary: StudySummary, config: StudyConfig, options: StudyOptions
) -> dict[str, str]:
    """Return name -> place or command; paths below the working folder are relative."""
    beside = Path(sys.executable).parent / "sentune"
    sentune = _from_here(str(beside)) if beside.exists() else "sentune"
    commands = {
        "report": _from_here(f"{config.folder}/report.html"),
        "summary": _from_here(f"{config.folder}/summary.json"),
    }
    if summary.model:
        commands = {"model": _from_here(summary.model), **commands}
    if options.tracking is None and "://" not in config.storage:
        commands["dashboard"] = f"{sentune} dashboard --storage {_from_here(config.storage)}"
    return commands


def _from_here(path: str) -> str:
    """Return a path relative to the working folder if it lies below; a URI without credentials."""
    here = Path.cwd()
    if Path(path).is_relative_to(here):
        return str(Path(path).relative_to(here))
    return str(without_credentials(path))


def plain_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.padding = (0, 2, 0, 0)
    for column in columns:
        table.add_column(column, header_style="dim")
    return table


def _trials(summary: StudySummary, varied: tuple[str, ...]) -> Table:
    table = plain_table(
        "Trials", "trial", "state", summary.objective, "examples", "time", "settings"
    )
    for trial in View(summary=summary).ranked:
        word, colour = MARKS[trial.state]
        lines = [short({name: trial.settings[name] for name in varied if name in trial.settings})]
        if trial.state in (TrialState.FAILED, TrialState.INFEASIBLE):
            lines.append(trial.reason)
        table.add_row(
            str(trial.id),
            Text(word, colour),
            measured(summary.objective, trial.metrics.get(summary.objective)),
            f"{trial.examples:,}",
            clock(trial.seconds),
            Text("\n".join(line for line in without_credentials(lines) if line)),
        )
    return table


def _finalists(summary: StudySummary) -> Table:
    table = plain_table(
        "Finalists, trained again from fresh seeds", "", "trial", summary.objective, "seeds"
    )
    for index, finalist in enumerate(summary.finalists):
        over = finalist.metrics.get(summary.objective)
        table.add_row(
            Text("winner" if index == summary.winner else "", "green"),
            str(finalist.trial),
            spread(summary.objective, over) if over else "-",
            ", ".join(measured(summary.objective, v) for v in over.values) if over else "",
        )
    return table


def _configuration(summary: StudySummary, winner: FinalistRecord | TrialRecord) -> Table:
    table = plain_table("Best configuration", "name", "value")
    for name, value in sorted({**summary.space["fixed"], **winner.settings}.items()):
        table.add_row(name, _value(value))
    for name, value in sorted(winner.readouts.items()):
        table.add_row(f"{name} (read out)", _value(value))
    return table


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _metrics(summary: StudySummary, winner: FinalistRecord | TrialRecord) -> Table:
    """Return the winner on dev, the shipped model on test, and rules without a model."""
    dev = {
        name: over if isinstance(over, Spread) else Spread(mean=over, sd=0.0, values=[over])
        for name, over in winner.metrics.items()
        if not name.startswith("train/")
    }
    error = ", ± sd over seeds" if summary.finalists else ""
    if any(name.endswith(ERROR) for name in dev):
        error = ", ± standard error over pairs"
    table = plain_table("Metrics", "metric", f"dev{error}", "test, shipped model", "baseline")
    for name in sorted({*dev, *summary.test, *summary.baselines}):
        if name.endswith(ERROR) or of_subset(name):
            continue
        over = None if name in summary.baselines else dev.get(name)
        error_of = dev.get(name + ERROR)
        table.add_row(
            name,
            spread(name, over, error_of.mean if error_of else None) if over else "",
            measured(name, summary.test[name]) if name in summary.test else "",
            measured(name, summary.baselines[name]) if name in summary.baselines else "",
        )
    parts = sum(map(of_subset, {*dev, *summary.test}))
    if parts:
        table.caption = f"and {parts} metrics by subset, in summary.json"
        table.caption_justify = "left"
    return table
