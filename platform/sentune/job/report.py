"""What a job prints at its end: trials, cost, finalists, verdict, winner, test, where it all is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sentune.job.display import MARKS, short
from sentune.job.plan_report import plan_table
from sentune.records import FinalistRecord, Spent, Spread, StudySummary, TrialRecord, TrialState
from sentune.report.wording import clock, percent

__all__ = ["plan_table", "pointers", "report"]

ERROR = "_standard_error"


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Prints the tables of a study that has ended, best trial first."""
    console.print()
    console.print(_trials(summary, varied))
    for line in happenings(summary):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print()
    console.print(f"spent: {spent_line(summary.spent)}", highlight=False)
    if summary.reason:  # the job says last what to do about it
        told = f"the study is {summary.state}: {summary.reason}"
        console.print(told, soft_wrap=True, markup=False, highlight=False)
    if summary.model is None:
        return
    if summary.finalists:
        console.print()
        console.print(_finalists(summary))
    if summary.verdict:
        console.print(summary.verdict, soft_wrap=True, markup=False, highlight=False)
    winner = summary.finalists[summary.winner] if summary.winner is not None else None
    best = _ranked(summary)[0]
    measured = winner.metrics if winner else {n: _single(v) for n, v in best.metrics.items()}
    console.print()
    console.print(_configuration(summary, winner or best))
    console.print()
    console.print(_metrics(summary, measured))


def happenings(summary: StudySummary) -> list[str]:
    """What happened to trials beside their curves: restarts, notes, constraints that they break."""
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


def pointers(summary: StudySummary, console: Console, *, commands: dict[str, str]) -> None:
    """Where things are and what to type next; paths are never wrapped or coloured."""
    console.print()
    width = max(len(name) for name in commands)
    for name, command in commands.items():
        console.print(f"{name:<{width}}  {command}", soft_wrap=True, highlight=False, markup=False)


def _single(value: float) -> Spread:
    """What one run measured."""
    return Spread(mean=value, sd=0.0, values=[value])


def plain_table(title: str, *columns: str) -> Table:
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
    table = plain_table(
        "Trials", "trial", "state", summary.objective, "examples", "time", "settings"
    )
    for trial in _ranked(summary):
        word, colour = MARKS[trial.state]
        settings = {name: trial.settings[name] for name in varied if name in trial.settings}
        table.add_row(
            str(trial.id),
            f"[{colour}]{word}[/]",
            percent(trial.metrics.get(summary.objective)),
            f"{trial.examples:,}",
            clock(trial.seconds),
            _settings(trial, settings),
        )
    return table


def _settings(trial: TrialRecord, shown: Mapping[str, Any]) -> Text:
    """Of a trial that failed, below them why; its words are no markup."""
    why = trial.reason if trial.state in (TrialState.FAILED, TrialState.INFEASIBLE) else ""
    return Text("\n".join(part for part in (short(dict(shown)), why) if part))


def _finalists(summary: StudySummary) -> Table:
    table = plain_table(
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


def _metrics(summary: StudySummary, measured: Mapping[str, Spread]) -> Table:
    """The winner on dev, the shipped model on test, and what a rule without a model reaches."""
    error = ", ± sd over seeds" if summary.finalists else ""
    if any(name.endswith(ERROR) for name in measured):
        error = ", ± standard error over pairs"
    table = plain_table("Metrics", "metric", f"dev{error}", "test, shipped model", "baseline")
    kept = {n: v for n, v in measured.items() if not n.startswith("train/")}
    for name in sorted({*kept, *summary.test, *summary.baselines}):
        if name.endswith(ERROR) or _of_subset(name):
            continue
        spread = None if name in summary.baselines else kept.get(name)
        table.add_row(
            name,
            _with_error(spread, kept.get(name + ERROR)) if spread else "",
            percent(summary.test[name]) if name in summary.test else "",
            percent(summary.baselines[name]) if name in summary.baselines else "",
        )
    parts = sum(map(_of_subset, {*kept, *summary.test}))
    if parts:
        table.caption = f"and {parts} metrics by subset, in summary.json"
        table.caption_justify = "left"
    return table


def _of_subset(name: str) -> bool:
    """``sts12/MSRpar/pearson``: a year of STS has up to six subsets with two metrics each."""
    return name.count("/") > 1


def _with_error(spread: Spread, error: Spread | None) -> str:
    """Over seeds; for a single run with the standard error that was measured beside it, if any."""
    if len(spread.values) > 1:
        return percent(spread.mean, spread.sd)
    return percent(spread.mean, error.mean if error is not None else None)
