"""A study in a few lines of Markdown, for the head of its page in MLflow."""

from __future__ import annotations

from typing import Any

from sentune.formatting import measured
from sentune.formatting import spread as spread_of
from sentune.records import FinalistRecord, Spent, Spread, StudySummary


def describe(summary: StudySummary, address: str) -> str:
    """What was searched, what won, and how to load it.

    Args:
        address: where the registered model is found.
    """
    lines = [
        f"**{summary.method}** tuned for `{summary.objective}` ({summary.mode}imum)"
        f" over {len(summary.trials)} trials; the study is {summary.state}"
        f"{f': {summary.reason}' if summary.reason else ''}.",
        "",
        f"Spent: {spent(summary.spent)}.",
        "",
    ]
    if summary.verdict:
        lines += [summary.verdict, ""]
    winner = winner_of(summary)
    if winner is None:
        return "\n".join([*lines, "No trial has won yet."])
    again = f"trained again from {len(winner.seeds)} seeds" if winner.seeds else "one training run"
    values = {**winner.settings, **{f"{n} (read out)": v for n, v in winner.readouts.items()}}
    lines += [
        f"Winner: trial {winner.trial}, {again}.",
        "",
        "| metric | dev, mean ± sd | test | baseline |",
        "|---|---|---|---|",
        *(_row(summary, name, spread) for name, spread in sorted(winner.metrics.items())),
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {name} | {_short(value)} |" for name, value in sorted(values.items())),
    ]
    if summary.model is not None:
        lines += ["", f'Load it with `Embedder.load("{address}")`.']
    return "\n".join(lines)


def spent(total: Spent) -> str:
    """What a study has used up, in a line; GPU hours where there were any."""
    parts = [f"{total.trials:,} trials", f"{total.examples:,} examples", f"{total.hours:.2f} hours"]
    if total.gpu_hours:
        parts.append(f"{total.gpu_hours:.2f} GPU hours")
    return ", ".join(parts)


def winner_of(summary: StudySummary) -> FinalistRecord | None:
    """The winning finalist; where no finalists were asked for, the best complete trial."""
    if summary.winner is not None:
        return summary.finalists[summary.winner]
    scores = {
        trial.id: trial.metrics[summary.objective]
        for trial in summary.trials
        if trial.state == "complete" and summary.objective in trial.metrics
    }
    if summary.model is None or not scores:
        return None
    best = (min if summary.mode == "min" else max)(scores, key=scores.__getitem__)
    trial = next(trial for trial in summary.trials if trial.id == best)
    return FinalistRecord(
        trial=best,
        settings=trial.settings,
        seeds=[],
        readouts=trial.readouts,
        metrics={
            name: Spread(mean=value, sd=0.0, values=[value])
            for name, value in trial.metrics.items()
        },
    )


def _row(summary: StudySummary, name: str, spread: Spread) -> str:
    test, baseline = summary.test.get(name), summary.baselines.get(name)
    cells = (spread_of(name, spread), _measured(name, test), _measured(name, baseline))
    return f"| {name} | {' | '.join(cells)} |"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _measured(name: str, value: float | None) -> str:
    """In its unit; empty where there is none."""
    return "" if value is None else measured(name, value)
