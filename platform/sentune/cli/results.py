"""Results of tasks, as a table on the screen and as a file."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from rich.console import Console

from sentune.io.folders import write_json
from sentune.tasks import Result
from sentune.terminal import number_column, plain_table, print_line

# everything else among the metrics is a share, shown in per cent
CORRELATIONS_AND_AREAS = ("auc", "average_precision", "spearman", "pearson", "mse")


def report_results(result: Result, console: Console, json: Path | None = None) -> None:
    """Print a line for each metric, the readouts that were applied, and what was left out.

    Args:
        result: of tasks.
        console: to print on.
        json: a file for ``{task: {metric: fraction}}``.
    """
    by_task: defaultdict[str, dict[str, float]] = defaultdict(dict)
    table = plain_table(
        "task", "metric", number_column("value"), number_column("pairs"), header_style="dim"
    )
    for name, value in result.metrics.items():
        task, _, metric = name.partition("/")
        by_task[task][metric] = value
        # how many pairs it was measured on: those of its stratum, or all of the task
        counts = result.tables.get(f"{task}/counts.json", {})
        pairs = counts.get(metric, counts.get("pairs"))
        shown = f"{pairs:,}" if isinstance(pairs, int) else ""
        table.add_row(task, metric, _value(metric, value), shown)
    console.print(table)
    for name, readout in result.readouts.items():
        shown = f"{readout:.4g}" if isinstance(readout, float) else readout
        print_line(console, f"readout {name}: {shown}")
    for reason, names in _by_reason(result).items():
        print_line(console, f"without {names}: {reason}")
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        write_json(json, by_task)


def _by_reason(result: Result) -> dict[str, str]:
    """Return what is missing for each reason: ``ambiguous-rte/macro_f1, accuracy``."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, reason in result.skipped.items():
        task, _, metric = name.partition("/")
        found[reason].setdefault(task, []).extend([metric] if metric else [])
    return {
        reason: "; ".join(f"{task}/{', '.join(m)}" if m else task for task, m in tasks.items())
        for reason, tasks in found.items()
    }


def _value(metric: str, value: float) -> str:
    """``MSRpar/pearson``, ``pearson_weighted_mean``, ``sen_`` and ``dev_pearson``: no shares."""
    base = metric.rpartition("/")[2].removesuffix("_mean").removesuffix("_weighted")
    known = base.removeprefix("sen_").removeprefix("dev_") in CORRELATIONS_AND_AREAS
    return f"{value:.4f}" if known else f"{value:.2%}"
