"""What a job prints at its end: trials, winner, finalists, test, where the model is."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from sentune.job.display import MARKS, clock, percent, short
from sentune.records import FinalistRecord, StudySummary, TrialRecord


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Prints the tables of a study that has ended, best trial first."""
    console.print()
    console.print(_trials(summary, varied))
    if summary.winner is None:
        console.print("No trial reached the end of its budget; see the reasons above.")
        return
    winner = summary.finalists[summary.winner]
    console.print()
    console.print(_finalists(summary))
    console.print()
    console.print(_configuration(winner))
    if summary.test or summary.baselines:
        console.print()
        console.print(_metrics(summary, winner))


def pointers(summary: StudySummary, console: Console, *, commands: dict[str, str]) -> None:
    """Where things are and what to type next; paths are never wrapped or coloured."""
    console.print()
    width = max(len(name) for name in commands)
    for name, command in commands.items():
        console.print(f"{name:<{width}}  {command}", soft_wrap=True, highlight=False, markup=False)


def _plain(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.padding = (0, 2, 0, 0)
    for column in columns:
        table.add_column(column, header_style="dim")
    return table


def _ranked(summary: StudySummary) -> list[TrialRecord]:
    sign = 1 if summary.mode == "min" else -1

    def rank(trial: TrialRecord) -> tuple[bool, float]:
        value = trial.metrics.get(summary.objective)
        return value is None, sign * value if value is not None else 0.0

    return sorted(summary.trials, key=rank)


def _trials(summary: StudySummary, varied: tuple[str, ...]) -> Table:
    table = _plain("Trials", "trial", "state", summary.objective, "examples", "time", "settings")
    for trial in _ranked(summary):
        word, colour = MARKS[trial.state]
        settings = {name: trial.settings[name] for name in varied if name in trial.settings}
        table.add_row(
            str(trial.id),
            f"[{colour}]{word}[/]",
            percent(trial.metrics.get(summary.objective)),
            f"{trial.examples:,}",
            clock(trial.seconds),
            short(settings) + (f"\n{trial.reason}" if trial.state == "failed" else ""),
        )
    return table


def _finalists(summary: StudySummary) -> Table:
    table = _plain(
        "Finalists, trained again from fresh seeds", "", "trial", summary.objective, "seeds"
    )
    for index, finalist in enumerate(summary.finalists):
        spread = finalist.metrics.get(summary.objective)
        table.add_row(
            "[green]winner[/]" if index == summary.winner else "",
            str(finalist.trial),
            percent(spread.mean, spread.sd) if spread else "-",
            ", ".join(percent(value) for value in spread.values) if spread else "",
        )
    return table


def _configuration(winner: FinalistRecord) -> Table:
    table = _plain("Best configuration", "name", "value")
    for name, value in sorted(winner.settings.items()):
        table.add_row(name, _value(value))
    for name, value in sorted(winner.readouts.items()):
        table.add_row(f"{name} (read out)", _value(value))
    return table


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _metrics(summary: StudySummary, winner: FinalistRecord) -> Table:
    """Dev over seeds, the shipped model on test, and what a rule without a model reaches."""
    table = _plain(
        "Metrics", "metric", "dev, mean ± sd over seeds", "test, shipped model", "baseline"
    )
    names = [n for n in winner.metrics if "/" in n and not n.startswith("train/")]
    for name in sorted({*names, *summary.test, *summary.baselines}):
        spread = winner.metrics.get(name)
        table.add_row(
            name,
            percent(spread.mean, spread.sd) if spread else "",
            percent(summary.test[name]) if name in summary.test else "",
            percent(summary.baselines[name]) if name in summary.baselines else "",
        )
    return table
