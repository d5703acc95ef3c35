"""What a job prints at its end: trials, cost, finalists, verdict, winner, test, where it all is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, clock, measured, short, spread
from sentune.job.options import StudyOptions
from sentune.job.test_set import Winner
from sentune.records import FinalistRecord, Spent, Spread, StudySummary, TrialRecord, TrialState
from sentune.report.view import ERROR, View, of_subset
from sentune.study.config import StudyConfig
from sentune.terminal import print_line


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Prints the tables of a study that has ended, best trial first."""
    console.print()
    console.print(_trials(summary, varied))
    for line in trial_events(summary):
        print_line(console, line)
    console.print()
    console.print(f"spent: {spent_line(summary.spent)}", highlight=False)
    if summary.reason:  # the job says last what to do about it
        told = f"the study is {summary.state}: {summary.reason}"
        print_line(console, told)
    if summary.model is None:
        return
    if summary.finalists:
        console.print()
        console.print(_finalists(summary))
    if summary.verdict:
        print_line(console, summary.verdict)
    winner, dev = _winner(summary)
    console.print()
    console.print(_configuration(summary, winner))
    console.print()
    console.print(_metrics(summary, dev))


def trial_events(summary: StudySummary) -> list[str]:
    """Return a line for each restart, note and broken constraint of the trials."""
    lines = []
    for trial in sorted(summary.trials, key=lambda trial: trial.id):
        told = list(trial.notes)
        if trial.restarts:
            told.insert(0, f"its processes died {_times(trial.restarts)}, it went on each time")
        told += [f"breaks {name} by {by:.4g}" for name, by in trial.violations.items() if by > 0]
        lines += [f"trial {trial.id}: {sentence}" for sentence in told]
    return lines


def spent_line(spent: Spent) -> str:
    """``8 trials, 120,000 examples, 1:02:03 hours, 3.5 GPU hours``."""
    parts = [
        f"{spent.trials:,} trials",
        f"{spent.examples:,} examples",
        f"{clock(3600 * spent.hours)} of wall time",
    ]
    if spent.gpu_hours:
        parts.append(f"{spent.gpu_hours:.3g} GPU hours")
    return ", ".join(parts)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def print_commands(summary: StudySummary, console: Console, *, commands: dict[str, str]) -> None:
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
    """A path relative to the working folder where it lies below it; a URI without credentials."""
    here = Path.cwd()
    return (
        str(Path(path).relative_to(here))
        if Path(path).is_relative_to(here)
        else str(without_credentials(path))
    )


def _winner(summary: StudySummary) -> tuple[FinalistRecord | TrialRecord, Mapping[str, Spread]]:
    """Return the run whose model was shipped and its dev metrics, over seeds or of its one run."""
    if summary.winner is not None:
        finalist = summary.finalists[summary.winner]
        return finalist, finalist.metrics
    number = Winner.of(summary).trial
    (best,) = (trial for trial in summary.trials if trial.id == number)
    return best, {n: Spread(mean=v, sd=0.0, values=[v]) for n, v in best.metrics.items()}


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
        settings = {name: trial.settings[name] for name in varied if name in trial.settings}
        table.add_row(
            str(trial.id),
            Text(word, colour),
            measured(summary.objective, trial.metrics.get(summary.objective)),
            f"{trial.examples:,}",
            clock(trial.seconds),
            _settings(trial, settings),
        )
    return table


def _settings(trial: TrialRecord, shown: Mapping[str, Any]) -> Text:
    """Return the settings, and below them the reason of a trial that failed."""
    why = trial.reason if trial.state in (TrialState.FAILED, TrialState.INFEASIBLE) else ""
    parts = without_credentials([short(dict(shown)), why])
    return Text("\n".join(part for part in parts if part))


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


def _metrics(summary: StudySummary, dev: Mapping[str, Spread]) -> Table:
    """The winner on dev, the shipped model on test, and what a rule without a model reaches."""
    error = ", ± sd over seeds" if summary.finalists else ""
    if any(name.endswith(ERROR) for name in dev):
        error = ", ± standard error over pairs"
    table = plain_table("Metrics", "metric", f"dev{error}", "test, shipped model", "baseline")
    kept = {n: v for n, v in dev.items() if not n.startswith("train/")}
    for name in sorted({*kept, *summary.test, *summary.baselines}):
        if name.endswith(ERROR) or of_subset(name):
            continue
        over = None if name in summary.baselines else kept.get(name)
        error_of = kept.get(name + ERROR)
        table.add_row(
            name,
            spread(name, over, error_of.mean if error_of else None) if over else "",
            measured(name, summary.test[name]) if name in summary.test else "",
            measured(name, summary.baselines[name]) if name in summary.baselines else "",
        )
    parts = sum(map(of_subset, {*kept, *summary.test}))
    if parts:
        table.caption = f"and {parts} metrics by subset, in summary.json"
        table.caption_justify = "left"
    return table
