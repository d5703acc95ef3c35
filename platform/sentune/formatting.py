"""Formats numbers, metrics and settings for the terminal and for reports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from sentune.records import Spent, Spread, TrialState

MARKS = {
    TrialState.RUNNING: ("running", "cyan"),
    TrialState.COMPLETE: ("complete", "green"),
    TrialState.PRUNED: ("stopped early", "yellow"),
    TrialState.FAILED: ("failed", "red"),
    TrialState.INFEASIBLE: ("no memory", "red"),
}
"""State -> its word and colour on a terminal."""

STATES = {state: word for state, (word, _) in MARKS.items()}
STATES[TrialState.INFEASIBLE] = "infeasible"
"""State -> its word in a report."""

SIGNS = {
    TrialState.RUNNING: "○",
    TrialState.COMPLETE: "●",
    TrialState.PRUNED: "▽",
    TrialState.FAILED: "✕",
    TrialState.INFEASIBLE: "◇",
}
"""State -> its symbol, which distinguishes states without colours."""

NO_SHARES = (
    "loss", "deviation", "examples_per_second", "mse", "perplexity", "references_per_sentence",
)  # fmt: skip
"""Last parts of the names of metrics that are not fractions."""


def percent(value: float | None, sd: float | None = None) -> str:
    """Format 0.9312 as ``93.1 %``, or with a standard deviation as ``93.1 ± 0.4 %``."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{100 * value:.1f} %" if sd is None else f"{100 * value:.1f} ± {100 * sd:.1f} %"


def short(settings: dict[str, Any]) -> str:
    """Format settings on one line, with three digits of floats."""
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )


def clock(seconds: float) -> str:
    """Format 75 seconds as ``1:15``, 4000 as ``1:06:40``, and -20 as ``-0:20``."""
    hours, rest = divmod(abs(round(seconds)), 3600)
    sign, whole = "-" if round(seconds) < 0 else "", f"{hours}:" if hours else ""
    minutes = f"{rest // 60:02}" if hours else f"{rest // 60}"
    return f"{sign}{whole}{minutes}:{rest % 60:02}"


ON_PART = "~"
"""Prefix of a metric that was measured on a part of dev."""


def measured(metric: str, value: float | None, sd: float | None = None) -> str:
    """Format a metric: fractions in percent, seconds as a clock, others as plain numbers."""
    if value is None or not math.isfinite(value):
        return "-"
    if is_share(metric):
        return percent(value, sd)
    if metric.endswith("seconds"):
        return clock(value) if sd is None else f"{clock(value)} ± {clock(sd)}"
    return _plain(value) if sd is None else f"{_plain(value)} ± {_plain(sd, 2)}"


def is_share(metric: str) -> bool:
    """Return whether a metric is a fraction, judging by the last part of its name."""
    last = metric.rpartition("/")[2]
    return not (last.endswith("seconds") or last in NO_SHARES)


def _plain(value: float, digits: int = 4) -> str:
    """Format a number that is not a fraction, as in 128,569 and 39.9."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def spread(metric: str, over: Spread, error: float | None = None) -> str:
    """Format a metric over seeds; with a single seed ``error`` is its error, if known."""
    return measured(metric, over.mean, over.sd if len(over.values) > 1 else error)


def setting(value: Any) -> str:
    """Format a setting: three digits of floats, lists as JSON."""
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield ``field: was X, is now Y`` for each difference between two JSON trees.

    For the field ``code``, a mapping from files to digests, one line names the changed files.
    """
    if path == "code" and isinstance(now, dict):
        if not isinstance(was, dict):
            yield "code: was recorded by another version of sentune"
        elif changed := sorted(file for file in {*was, *now} if was.get(file) != now.get(file)):
            more = f" and {len(changed) - 5} more files" if len(changed) > 5 else ""
            yield f"code: another {', '.join(changed[:5])}{more}"
    elif isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            below = f"{path}.{key}" if path else key
            yield from differences(was.get(key), now.get(key), below)
    elif was != now:
        yield f"{path}: was {json.dumps(was)}, is now {json.dumps(now)}"


def counted(number: int, noun: str) -> str:
    """Format a count with its noun, as in ``1 trial`` and ``3 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ended_of(ended: int, started: int, planned: object) -> str:
    """Format the number of ended trials, as ``3 of 8`` if at least all started ones are planned."""
    of = f" of {planned:,}" if isinstance(planned, int) and planned >= max(1, started) else ""
    return f"{ended:,}{of}"


def unused_gpus(plan: Mapping[str, Any]) -> str:
    """Return a hint at GPUs of the cluster that a plan does not use; empty if there are none."""
    count = plan.get("gpus_unused")  # summaries of older studies lack it
    return f"{count:g} up, none used: give --gpus-per-worker 1 to train on them" if count else ""


def population(plan: Mapping[str, Any]) -> str:
    """Return ``population of 4`` for a plan of population-based training; empty for others."""
    said = str(plan.get("scheduler", ""))
    return said if said.startswith("population") else ""


def cost(spent: Spent) -> str:
    """Format costs: ``8 trials, 120,000 examples, 1:02:03 of wall time, 3.5 GPU hours``."""
    wall = clock(3600 * spent.hours)
    line = f"{counted(spent.trials, 'trial')}, {spent.examples:,} examples, {wall} of wall time"
    return f"{line}, {spent.gpu_hours:.3g} GPU hours" if spent.gpu_hours else line


def hours(value: float) -> str:
    """Format hours in a suitable unit: ``42 s``, ``12.3 min``, ``4.2 h``."""
    seconds = 3600 * value
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if value < 2 else f"{value:,.1f} h"
