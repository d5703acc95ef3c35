"""Results of tasks, as a table on the screen and as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sentune.tasks import Result

# everything else among the metrics is a share, shown in per cent
CORRELATIONS_AND_AREAS = ("auc", "average_precision", "spearman", "pearson", "mse")


def show(result: Result, console: Console) -> None:
    """A line for each metric, then the readouts that were applied and what was left out."""
    table = Table(box=None, pad_edge=False)
    for title in ("task", "metric"):
        table.add_column(title, header_style="dim")
    for title in ("value", "pairs"):
        table.add_column(title, header_style="dim", justify="right")
    for task, metrics in by_task(result).items():
        for metric, value in metrics.items():
            table.add_row(task, metric, _text(metric, value), _pairs(result, task, metric))
    console.print(table)
    for name, value in result.readouts.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        console.print(f"readout {name}: {shown}", highlight=False, soft_wrap=True)
    for reason, names in _by_reason(result).items():
        console.print(f"without {names}: {reason}", highlight=False, soft_wrap=True)


def _by_reason(result: Result) -> dict[str, str]:
    """Reason -> what is missing for it: ``ambiguous-rte/macro_f1, accuracy``."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, reason in result.skipped.items():
        task, _, metric = name.partition("/")
        metrics = found.setdefault(reason, {}).setdefault(task, [])
        metrics += [metric] if metric else []
    return {
        reason: "; ".join(
            "/".join([task, *([", ".join(m)] if m else [])]) for task, m in tasks.items()
        )
        for reason, tasks in found.items()
    }


def by_task(result: Result) -> dict[str, dict[str, float]]:
    """``{task: {metric: fraction}}``."""
    tasks: dict[str, dict[str, float]] = {}
    for name, value in result.metrics.items():
        task, _, metric = name.partition("/")
        tasks.setdefault(task, {})[metric] = value
    return tasks


def write_json(result: Result, path: Path) -> None:
    """The metrics by task, in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(by_task(result), indent=2) + "\n", encoding="utf-8")


def _pairs(result: Result, task: str, metric: str) -> str:
    """How many pairs the metric was measured on: those of its stratum, or all of the task."""
    counts: dict[str, Any] = result.tables.get(f"{task}/counts.json", {})
    count = counts.get(metric, counts.get("pairs"))
    return f"{count:,}" if isinstance(count, int) else ""


def _text(metric: str, value: float) -> str:
    """``MSRpar/pearson``, ``pearson_weighted_mean``, ``sen_`` and ``dev_pearson``: no shares."""
    base = metric.rpartition("/")[2].removesuffix("_mean").removesuffix("_weighted")
    known = base.removeprefix("sen_").removeprefix("dev_") in CORRELATIONS_AND_AREAS
    return f"{value:.4f}" if known else f"{value:.2%}"
