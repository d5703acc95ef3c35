"""What a job prints at its end: trials, winner, finalists, test, where the model is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sentune.job.display import MARKS, clock, percent, short
from sentune.records import FinalistRecord, Spread, StudySummary, TrialRecord

ERROR = "_standard_error"


def plan_table(plan: dict[str, Any]) -> Table:
    """What a study will ask for, before it starts."""
    table = _plain("Plan", "", "")
    for name, value in plan.items():
        if value not in ("", None):
            shown = (
                ", ".join(_value(v) for v in value) if isinstance(value, list) else _value(value)
            )
            table.add_row(name.replace("_", " "), shown)
    return table


def report(summary: StudySummary, console: Console, *, varied: tuple[str, ...]) -> None:
    """Prints the tables of a study that has ended, best trial first."""
    console.print()
    console.print(_trials(summary, varied))
    if summary.model is None:  # interrupted or failed; the job says which, and what to do
        return
    if summary.finalists:
        console.print()
        console.print(_finalists(summary))
    winner = summary.finalists[summary.winner] if summary.winner is not None else None
    best = _ranked(summary)[0]
    measured = winner.metrics if winner else {n: _single(v) for n, v in best.metrics.items()}
    console.print()
    console.print(_configuration(summary, winner or best))
    console.print()
    console.print(_metrics(summary, measured))


def pointers(summary: StudySummary, console: Console, *, commands: dict[str, str]) -> None:
    """Where things are and what to type next; paths are never wrapped or coloured."""
    console.print()
    width = max(len(name) for name in commands)
    for name, command in commands.items():
        console.print(f"{name:<{width}}  {command}", soft_wrap=True, highlight=False, markup=False)


def _single(value: float) -> Spread:
    """What one run measured."""
    return Spread(mean=value, sd=0.0, values=[value])


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


def _configuration(summary: StudySummary, winner: FinalistRecord | TrialRecord) -> Table:
    table = _plain("Best configuration", "name", "value")
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
    table = _plain("Metrics", "metric", f"dev{error}", "test, shipped model", "baseline")
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
