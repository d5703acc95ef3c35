"""A study in a few lines of Markdown, for the head of its page in MLflow."""

from __future__ import annotations

from typing import Any

from sentune.records import Spread, StudySummary


def describe(summary: StudySummary, address: str) -> str:
    """What was searched, what won, and how to load it.

    Args:
        address: where the registered model is found.
    """
    lines = [
        f"**{summary.method}** tuned for `{summary.objective}` ({summary.mode}imum)"
        f" over {len(summary.trials)} trials; the study is {summary.state}.",
        "",
    ]
    if summary.winner is None:
        return "\n".join([*lines, "No trial has won yet."])
    winner = summary.finalists[summary.winner]
    values = {**winner.settings, **{f"{n} (read out)": v for n, v in winner.readouts.items()}}
    lines += [
        f"Winner: trial {winner.trial}, trained again from {len(winner.seeds)} seeds.",
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


def _row(summary: StudySummary, name: str, spread: Spread) -> str:
    test, baseline = summary.test.get(name), summary.baselines.get(name)
    dev = f"{_percent(spread.mean)} ± {_percent(spread.sd)}"
    return f"| {name} | {dev} | {_percent(test)} | {_percent(baseline)} |"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
