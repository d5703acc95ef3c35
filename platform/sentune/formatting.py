"""Numbers and settings as people read them, the same on the terminal and in a report."""

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
"""Word and colour of a state on a terminal."""

STATES = {state: word for state, (word, _) in MARKS.items()}
STATES[TrialState.INFEASIBLE] = "infeasible"
"""Word of a state in a report."""

SIGNS = {
    TrialState.RUNNING: "○",
    TrialState.COMPLETE: "●",
    TrialState.PRUNED: "▽",
    TrialState.FAILED: "✕",
    TrialState.INFEASIBLE: "◇",
}
"""A shape for each state, so that none depends on colour."""

NO_SHARES = (
    "loss", "deviation", "examples_per_second", "mse", "perplexity", "references_per_sentence",
)  # fmt: skip
"""Metrics that are no fractions, by the last part of their names."""


def percent(value: float | None, sd: float | None = None) -> str:
    """Return 0.9312 as ``93.1 %``; with a standard deviation ``93.1 ± 0.4 %``."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{100 * value:.1f} %" if sd is None else f"{100 * value:.1f} ± {100 * sd:.1f} %"


def short(settings: dict[str, Any]) -> str:
    """Return settings on one line, floats to three digits."""
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )


def clock(seconds: float) -> str:
    """Return 75 seconds as ``1:15``, 4000 as ``1:06:40``, a difference of -20 as ``-0:20``."""
    hours, rest = divmod(abs(round(seconds)), 3600)
    sign, whole = "-" if round(seconds) < 0 else "", f"{hours}:" if hours else ""
    minutes = f"{rest // 60:02}" if hours else f"{rest // 60}"
    return f"{sign}{whole}{minutes}:{rest % 60:02}"


ON_PART = "~"
"""Before a metric that was measured on a part of dev."""


def measured(metric: str, value: float | None, sd: float | None = None) -> str:
    """Return a metric in its unit: a share in percent, seconds as a clock, a loss as it is."""
    if value is None or not math.isfinite(value):
        return "-"
    if is_share(metric):
        return percent(value, sd)
    if metric.endswith("seconds"):
        return clock(value) if sd is None else f"{clock(value)} ± {clock(sd)}"
    return _plain(value) if sd is None else f"{_plain(value)} ± {_plain(sd, 2)}"


def is_share(metric: str) -> bool:
    """Return whether a metric is a fraction, by the last part of its name."""
    last = metric.rpartition("/")[2]
    return not (last.endswith("seconds") or last in NO_SHARES)


def _plain(value: float, digits: int = 4) -> str:
    """Return a number that is no share: 128,569 and 39.9."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def spread(metric: str, over: Spread, error: float | None = None) -> str:
    """Return a metric over seeds; for one run with the error measured beside it, if any."""
    return measured(metric, over.mean, over.sd if len(over.values) > 1 else error)


def setting(value: Any) -> str:
    """Return a setting: floats to three digits, lists as JSON."""
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield ``field: was X, is now Y`` for everything that differs between two JSON trees.

    Of code, a mapping from files to digests, one line names the files.
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
    """Return ``1 trial``, ``3 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ended_of(ended: int, started: int, planned: object) -> str:
    """Return how many trials have ended, of those that are planned where that is no fewer."""
    of = f" of {planned:,}" if isinstance(planned, int) and planned >= max(1, started) else ""
    return f"{ended:,}{of}"


def unused_gpus(plan: Mapping[str, Any]) -> str:
    """Return what a plan says of GPUs that no trial is given; empty where there are none."""
    count = plan.get("gpus_unused")  # summaries of older studies lack it
    return f"{count:g} up, none used: give --gpus-per-worker 1 to train on them" if count else ""


def population(plan: Mapping[str, Any]) -> str:
    """Return ``population of 4`` where a plan is of one; empty for a search."""
    said = str(plan.get("scheduler", ""))
    return said if said.startswith("population") else ""


def cost(spent: Spent) -> str:
    """Return ``8 trials, 120,000 examples, 1:02:03 of wall time, 3.5 GPU hours``."""
    wall = clock(3600 * spent.hours)
    line = f"{counted(spent.trials, 'trial')}, {spent.examples:,} examples, {wall} of wall time"
    return f"{line}, {spent.gpu_hours:.3g} GPU hours" if spent.gpu_hours else line


def hours(value: float) -> str:
    """Return hours with a unit that fits: ``42 s``, ``12.3 min``, ``4.2 h``."""
    seconds = 3600 * value
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if value < 2 else f"{value:,.1f} h"
