"""Studies as tables on the screen and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, clock, measured, short, spread
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.store.study_view import StudySnapshot
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
ORDER = (
    TrialState.COMPLETE,
    TrialState.PRUNED,
    TrialState.INFEASIBLE,
    TrialState.FAILED,
    TrialState.RUNNING,
)
"""Of the states in a count."""
WIDE = 110
"""Columns from which a trial's reason stands beside its settings, not below the table."""


def studies_table(studies: Sequence[StudySnapshot]) -> Table:
    """Return a table with a line for each study."""
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
        table.add_row(
            study.name,
            Text(study.state, COLOURS.get(study.state, "default")),
            f"{study.ended:,}" + (f" of {study.planned:,}" if study.planned else ""),
            _score(study) or "-",
            study.objective.metric,
            f"{study.hours:.1f}",
            f"{driver.user}@{driver.host}:{driver.pid}" if driver else "",
        )
    return table


def study_screen(study: StudySnapshot, width: int, rows: int) -> Group:
    """Return header, at most ``rows`` trials, and finalists of one study."""
    trials = study.shown(rows)
    parts: list[RenderableType] = [_header(study)]
    if trials:
        parts += [Text(), _trials_table(study, trials, width)]
        parts += _reasons(trials) if width < WIDE else []
        left_out = len(study.trials) - len(trials)
        if left_out > 0:
            parts.append(Text(f"and {left_out:,} more; all: sentune study export", "dim"))
    if study.finalists:
        metric = study.objective.metric
        table = plain_table("finalist", metric, "seeds", Column("values", overflow="fold"))
        for finalist in study.finalists:
            found = finalist.metrics[metric]
            values = ", ".join(measured(metric, one) for one in found.values)
            seeds = str(len(found.values))
            table.add_row(f"trial {finalist.trial}", spread(metric, found), seeds, values)
        parts += [Text(), table]
    return Group(*parts)


def _header(study: StudySnapshot) -> Table:
    """Return what is true of the study as a whole, a line each."""
    description = study.place.description
    state = Text(study.state, COLOURS.get(study.state, "default"))
    if study.reason:
        state.append(f": {without_credentials(study.reason)}", "default")
    started = description.get("started", "")
    if started:  # as this machine's clock shows it
        started = f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M:%S}"
    rows: dict[str, RenderableType] = {
        "study": Text(study.name, "bold"),
        "state": state,
        "driver": str(study.holder or ""),
        "method": description.get("space", {}).get("method", ""),
        "objective": ", ".join(f"{one.metric} ({one.mode})" for one in study.objectives),
        "trials": _counted(study),
        "best": f"{_score(study)}, trial {study.best.id}" if study.best else "",
        "spent": _spent(study.spent, description.get("options", {})),
        "started": started,
        "verdict": study.written.get("verdict", ""),
        "folder": without_credentials(study.place.folder),
    }
    table = plain_table(
        Column(style="dim", no_wrap=True), Column(overflow="fold"), show_header=False
    )
    for name, shown in rows.items():
        if shown:
            table.add_row(name, shown if isinstance(shown, Text) else Text(str(shown)))
    return table


def _trials_table(study: StudySnapshot, trials: Sequence[TrialRecord], width: int) -> Table:
    """Return a line for each trial: state, objectives, cost, settings, and, if wide, reason."""
    metrics = [objective.metric for objective in study.objectives]
    gpus = any(trial.gpu_seconds for trial in trials)
    titles = ["trial", "state", *metrics, "examples", "time", *(["GPU h"] if gpus else [])]
    cells: list[list[str | Text]] = []
    for trial in trials:
        word, colour = _marked(trial.state, alive=study.alive)
        scores = [measured(metric, trial.metrics.get(metric)) for metric in metrics]
        spent = [f"{trial.examples:,}", clock(trial.seconds)]
        spent += [f"{trial.gpu_seconds / 3600:.2f}"] if gpus else []
        cells.append([str(trial.id), Text(word, colour), *scores, *spent])
    figures = [Column(title, no_wrap=True) for title in titles[:2]]
    table = plain_table(*figures, *map(number_column, titles[2:]), "settings")
    columns = zip(titles, *([str(cell) for cell in row] for row in cells), strict=True)
    room = width - sum(max(map(len, column)) + 2 for column in columns)
    wide = width >= WIDE and any(trial.reason or trial.source for trial in trials)
    if wide:
        table.add_column("reason", overflow="fold")
        room //= 2
    for row, trial in zip(cells, trials, strict=True):
        varied = {name: it for name, it in trial.settings.items() if name in study.varied}
        settings = Text(short(varied))
        # cut here: a column that must not wrap would squeeze the others to nothing
        settings.truncate(max(16, room), overflow="ellipsis")
        source = f"from {trial.source}" if trial.source else ""
        if not wide:
            table.add_row(*row, settings.append(f"\n{source}" if source else "", "dim"))
            continue
        reason = without_credentials("; ".join(filter(None, (source, trial.reason))))
        colour = "default" if trial.state is TrialState.FAILED else "dim"
        table.add_row(*row, settings, Text(reason, colour))
    return table


def _marked(state: TrialState, *, alive: bool) -> tuple[str, str]:
    """Return word and colour of a state; the next start goes on with what no driver works at."""
    left = state is TrialState.RUNNING and not alive
    return ("unfinished", "yellow") if left else MARKS[state]


def _reasons(trials: Sequence[TrialRecord]) -> list[Text]:
    """Return why trials failed, a line for each reason."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for trial in trials:
        if trial.reason and trial.state is not TrialState.PRUNED:
            found[without_credentials(trial.reason)].append(str(trial.id))
    return [
        Text(f"trial{'s' if len(ids) > 1 else ''} {', '.join(ids)}: {reason}", "red")
        for reason, ids in found.items()
    ]


def as_document(study: StudySnapshot) -> str:
    """Return state, trials and finalists as JSON."""
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
    return json.dumps(without_credentials(content), indent=1, ensure_ascii=False)


def _counted(study: StudySnapshot) -> str:
    """Return how many trials were started, and how many are in each state."""
    planned = f" of {study.planned:,}" if study.planned else ""
    parts = ", ".join(
        f"{study.counts[state]:,} {_marked(state, alive=study.alive)[0]}"
        for state in ORDER
        if study.counts.get(state)
    )
    more = f"; {study.taken_over:,} more of other studies" if study.taken_over else ""
    return f"{study.started:,}{planned}" + (f": {parts}" if parts else "") + more


def _score(study: StudySnapshot) -> str:
    """Return the best objective so far."""
    metric = study.objective.metric
    return measured(metric, study.best.metrics[metric]) if study.best else ""


def _spent(spent: Spent, options: dict[str, Any]) -> str:
    """Return each figure with its limit, where there is one."""
    hours, gpu_hours = options.get("max_hours"), options.get("max_gpu_hours")
    parts = [clock(3600 * spent.hours) + (f" of {clock(3600 * hours)}" if hours else "")]
    if spent.gpu_hours or gpu_hours:
        limit = f" of {gpu_hours:g}" if gpu_hours else ""
        parts.append(f"{spent.gpu_hours:.2f}{limit} GPU hours")
    if most := options.get("max_trials"):
        parts.append(f"{spent.trials:,} of {most:,} trials")
    return ", ".join([*parts, f"{spent.examples:,} examples"])
