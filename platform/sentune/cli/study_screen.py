"""Displays of studies for ``sentune study``: tables, a live view, and JSON."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import clock, ended_of, measured
from sentune.job.trial_table import WIDE, finalists_table, marked, trials_table
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.store.study_view import StudySnapshot, StudyView
from sentune.summary import as_written
from sentune.terminal import number_column, plain_table

COLOURS = {
    "running": "cyan",
    "suspended": "red",
    "silent": "red",
    "complete": "green",
    "stopped": "yellow",
    "interrupted": "yellow",
    "failed": "red",
    "new": "dim",
}
ORDER = tuple(map(TrialState, ("complete", "pruned", "infeasible", "failed", "running")))
"""Order of the states in the line that counts trials."""
SECONDS = 2.0
"""Time between two updates of the live view."""


def studies_table(studies: Sequence[StudySnapshot]) -> Table:
    """Return a table with one row per study."""
    table = plain_table(
        Column("study", no_wrap=True),
        Column("state", no_wrap=True),
        number_column("trials"),
        number_column("best"),
        Column("objective", no_wrap=True),
        number_column("hours"),
        Column("driver", overflow="ellipsis"),
    )
    for study in studies:
        driver = study.holder.driver if study.holder else None
        metric = study.objective.metric
        table.add_row(
            study.name,
            Text(study.state, COLOURS.get(study.state, "default")),
            ended_of(study.ended, study.started, study.planned),
            measured(metric, study.best.metrics[metric] if study.best else None),
            metric,
            f"{study.hours:.2f}",
            f"{driver.user}@{driver.host}:{driver.pid}" if driver else "",
        )
    return table


def study_screen(study: StudySnapshot, width: int, rows: int) -> Group:
    """Return the header, at most ``rows`` trials, and the finalists of a study."""
    trials = study.shown(rows)
    parts: list[RenderableType] = [_header(study)]
    if trials:
        metrics = [objective.metric for objective in study.objectives]
        table = trials_table(trials, metrics, study.varied, width=width, alive=study.alive)
        parts += [Text(), table]
        parts += _reasons(trials) if width < WIDE else []
        left_out = len(study.ends) - len(trials)
        if left_out > 0:
            parts.append(Text(f"and {left_out:,} more; sentune study export writes all", "dim"))
    if study.finalists:
        parts += [Text(), finalists_table(study.finalists, study.objective.metric)]
    return Group(*parts)


def _header(study: StudySnapshot) -> Table:
    """Return a table of a study's state, driver, objective, counts and costs."""
    description = study.place.description
    state = Text(study.state, COLOURS.get(study.state, "default"))
    if study.reason:
        state.append(f": {without_credentials(study.reason)}", "default")
    started = description.get("started", "")
    if started:  # in local time
        started = f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M:%S}"
    rows: dict[str, RenderableType] = {
        "study": Text(study.name, "bold"),
        "state": state,
        "driver": str(study.holder or ""),
        "method": description.get("space", {}).get("method", ""),
        "objective": ", ".join(f"{one.metric} ({one.mode})" for one in study.objectives),
        "trials": _counted(study),
        "best": _best(study),
        "spent": _spent(study.spent, description.get("options", {})),
        "last start": started,
        "verdict": study.written.get("verdict", ""),
        "folder": without_credentials(study.place.folder),
    }
    names = Column(style="dim", no_wrap=True)
    table = plain_table(names, Column(overflow="fold"), show_header=False)
    for name, shown in rows.items():
        if shown:
            table.add_row(name, shown if isinstance(shown, Text) else Text(str(shown)))
    return table


def _reasons(trials: Sequence[TrialRecord]) -> list[Text]:
    """Return one line per reason of trials that were not just stopped at a rung."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for trial in trials:
        if trial.reason and trial.state is not TrialState.PRUNED:
            found[without_credentials(trial.reason)].append(str(trial.id))
    return [
        Text(f"trial{'s' if len(ids) > 1 else ''} {', '.join(ids)}: {reason}", "red")
        for reason, ids in found.items()
    ]


def as_document(study: StudySnapshot) -> str:
    """Return a study's state, trials and finalists as JSON."""
    content = {
        "study": study.name,
        "state": study.state,
        "reason": study.reason,
        "driver": str(study.holder) if study.holder else None,
        "objectives": [objective.to_dict() for objective in study.objectives],
        "planned": study.planned,
        "best": study.best.id if study.best else None,
        "spent": asdict(study.spent),
        "trials": [asdict(trial) for trial in study.trials],
        "finalists": [asdict(finalist) for finalist in study.finalists],
        "folder": study.place.folder or None,
    }
    return json.dumps(as_written(content), indent=1, ensure_ascii=False)


def _counted(study: StudySnapshot) -> str:
    """Return the number of trials that have ended, and the number in each state."""
    parts = ", ".join(
        f"{study.counts[state]:,} {marked(state, alive=study.alive)[0]}"
        for state in ORDER
        if study.counts.get(state)
    )
    more = f"; {study.taken_over:,} more of other studies" if study.taken_over else ""
    ended = ended_of(study.ended, study.started, study.planned)
    return f"{ended} ended" + (f": {parts}" if parts else "") + more


def _best(study: StudySnapshot) -> str:
    """Return the best objective and its trial; if none is complete, the best one so far."""
    best, metric = study.best or study.leading, study.objective.metric
    if best is None:
        return ""
    so_far, left = ("", "") if study.best else (" so far", ", not complete")
    return f"{measured(metric, best.metrics[metric])}{so_far}, trial {best.id}{left}"


def _spent(spent: Spent, options: dict[str, Any]) -> str:
    """Return the costs of a study, each with its limit if it has one."""
    hours, gpu_hours = options.get("max_hours"), options.get("max_gpu_hours")
    parts = [clock(3600 * spent.hours) + (f" of {clock(3600 * hours)}" if hours else "")]
    if spent.gpu_hours or gpu_hours:
        limit = f" of {gpu_hours:g}" if gpu_hours else ""
        parts.append(f"{spent.gpu_hours:.2f}{limit} GPU hours")
    if most := options.get("max_trials"):
        parts.append(f"{spent.trials:,} of {most:,} trials")
    return ", ".join([*parts, f"{spent.examples:,} examples"])


def watch(view: StudyView, console: Console, rows: int) -> None:
    """Update the study's display until it has no driver or on Ctrl-C; a file gets the last one."""
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        alive = True
        while alive:
            study = view.snapshot()
            alive = study.alive
            fits = max(3, min(rows, console.height - 18)) if console.is_terminal else rows
            screen = study_screen(study, console.width, fits)
            if alive:
                screen.renderables.append(Text("Ctrl-C closes this view; the study goes on", "dim"))
            live.update(screen, refresh=True)
            if alive:
                time.sleep(SECONDS)
    if not console.is_terminal:
        console.line()  # ``Live`` does not end the last line of a file
