"""Studies as tables on the screen and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sentune.credentials import without_credentials
from sentune.formatting import MARKS, clock, measured, short, spread
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.store.study_view import StudySnapshot

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
    """A line for each study."""
    table = _plain("study", "state", "trials", "best", "objective", "hours", "driver")
    for place, column in enumerate(table.columns):
        column.justify = "right" if place in (2, 3, 5) else "left"
        column.no_wrap = place < 6
    table.columns[6].overflow = "ellipsis"
    for study in studies:
        driver = study.holder.driver if study.holder else None
        table.add_row(
            study.name,
            _coloured(study.state),
            f"{study.ended:,}" + (f" of {study.planned:,}" if study.planned else ""),
            _score(study) or "-",
            study.objective.metric,
            f"{study.hours:.1f}",
            f"{driver.user}@{driver.host}:{driver.pid}" if driver else "",
        )
    return table


def study_screen(study: StudySnapshot, width: int, rows: int) -> Group:
    """Header, trials and finalists of one study."""
    trials = study.shown(rows)
    parts: list[RenderableType] = [header(study)]
    if trials:
        parts += [Text(), trials_table(study, trials, width)]
        parts += reasons(trials) if width < WIDE else []
        left_out = len(study.trials) - len(trials)
        if left_out > 0:
            parts.append(Text(f"and {left_out:,} more; all: sentune study export", "dim"))
    if study.finalists:
        parts += [Text(), finalists_table(study)]
    return Group(*parts)


def header(study: StudySnapshot) -> Table:
    """What is true of the study as a whole, a line each."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    state = _coloured(study.state)
    if study.reason:
        state.append(f": {without_credentials(study.reason)}", "default")
    rows: dict[str, RenderableType] = {
        "study": Text(study.name, "bold"),
        "state": state,
        "driver": str(study.holder or ""),
        "method": study.place.description.get("space", {}).get("method", ""),
        "objective": ", ".join(f"{one.metric} ({one.mode})" for one in study.objectives),
        "trials": _counted(study),
        "best": f"{_score(study)}, trial {study.best.id}" if study.best else "",
        "spent": _spent(study.spent, study.place.description.get("options", {})),
        "started": _local(study.place.description.get("started", "")),
        "verdict": study.written.get("verdict", ""),
        "folder": without_credentials(study.place.folder),
    }
    for name, shown in rows.items():
        if shown:
            table.add_row(name, shown if isinstance(shown, Text) else Text(str(shown)))
    return table


def trials_table(study: StudySnapshot, trials: Sequence[TrialRecord], width: int) -> Table:
    """A line for each trial: state, objectives, cost, settings, and, where it is wide, reason."""
    metrics = [objective.metric for objective in study.objectives]
    gpus = any(trial.gpu_seconds for trial in trials)
    titles = ["trial", "state", *metrics, "examples", "time", *(["GPU h"] if gpus else [])]
    cells = [_figures(trial, metrics, gpus=gpus, alive=study.alive) for trial in trials]
    table = _plain(*titles)
    for place, column in enumerate(table.columns):
        column.no_wrap, column.justify = True, "right" if place > 1 else "left"
    columns = zip(titles, *([str(cell) for cell in row] for row in cells), strict=True)
    room = width - sum(max(map(len, column)) + 2 for column in columns)
    wide = width >= WIDE and any(trial.reason or trial.source for trial in trials)
    table.add_column("settings")
    if wide:
        table.add_column("reason", overflow="fold")
        room //= 2
    for row, trial in zip(cells, trials, strict=True):
        settings = _settings(study, trial, max(16, room), wide=wide)
        table.add_row(*row, settings, *([_reason(trial)] if wide else []))
    return table


def _figures(
    trial: TrialRecord, metrics: Sequence[str], *, gpus: bool, alive: bool
) -> list[str | Text]:
    word, colour = _marked(trial.state, alive=alive)
    scores = [measured(metric, trial.metrics.get(metric)) for metric in metrics]
    spent = [f"{trial.examples:,}", clock(trial.seconds)]
    spent += [f"{trial.gpu_seconds / 3600:.2f}"] if gpus else []
    return [str(trial.id), Text(word, colour), *scores, *spent]


def _marked(state: TrialState, *, alive: bool) -> tuple[str, str]:
    """Word and colour; the next start goes on with what no driver works at."""
    left = state is TrialState.RUNNING and not alive
    return ("unfinished", "yellow") if left else MARKS[state]


def _settings(study: StudySnapshot, trial: TrialRecord, room: int, *, wide: bool) -> Text:
    """What is searched, and, where no other column has room, which study ran it."""
    source = Text(f"\nfrom {trial.source}" if trial.source and not wide else "", "dim")
    varied = {name: it for name, it in trial.settings.items() if name in study.varied}
    return _cut(short(varied), room).append(source)


def _reason(trial: TrialRecord) -> Text:
    said = [*([f"from {trial.source}"] if trial.source else []), trial.reason]
    shown = without_credentials("; ".join(part for part in said if part))
    return Text(shown, "default" if trial.state is TrialState.FAILED else "dim")


def reasons(trials: Sequence[TrialRecord]) -> list[Text]:
    """Why trials failed, a line for each reason; for tables that have no room for them."""
    found: dict[str, list[str]] = {}
    for trial in trials:
        if trial.reason and trial.state is not TrialState.PRUNED:
            found.setdefault(without_credentials(trial.reason), []).append(str(trial.id))
    return [
        Text(f"trial{'s' if len(ids) > 1 else ''} {', '.join(ids)}: {reason}", "red")
        for reason, ids in found.items()
    ]


def finalists_table(study: StudySnapshot) -> Table:
    """Finalists so far: mean and standard deviation over seeds, and the seeds' own values."""
    metric = study.objective.metric
    table = _plain("finalist", metric, "seeds", "values")
    for finalist in study.finalists:
        found = finalist.metrics[metric]
        shown = Text(", ".join(measured(metric, one) for one in found.values), overflow="fold")
        mean, seeds = spread(metric, found), str(len(found.values))
        table.add_row(f"trial {finalist.trial}", mean, seeds, shown)
    return table


def as_document(study: StudySnapshot) -> str:
    """State, trials and finalists as JSON."""
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


def _local(moment: str) -> str:
    """An ISO time as this machine's clock shows it."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""


def _counted(study: StudySnapshot) -> str:
    planned = f" of {study.planned:,}" if study.planned else ""
    parts = ", ".join(
        f"{study.counts[state]:,} {_marked(state, alive=study.alive)[0]}"
        for state in ORDER
        if study.counts.get(state)
    )
    more = f"; {study.taken_over:,} more of other studies" if study.taken_over else ""
    return f"{study.started:,}{planned}" + (f": {parts}" if parts else "") + more


def _score(study: StudySnapshot) -> str:
    """The best objective so far."""
    metric = study.objective.metric
    return measured(metric, study.best.metrics[metric]) if study.best else ""


def _spent(spent: Spent, options: dict[str, Any]) -> str:
    """Each figure with its limit, where there is one."""
    hours, gpu_hours = options.get("max_hours"), options.get("max_gpu_hours")
    parts = [clock(3600 * spent.hours) + (f" of {clock(3600 * hours)}" if hours else "")]
    if spent.gpu_hours or gpu_hours:
        limit = f" of {gpu_hours:g}" if gpu_hours else ""
        parts.append(f"{spent.gpu_hours:.2f}{limit} GPU hours")
    if most := options.get("max_trials"):
        parts.append(f"{spent.trials:,} of {most:,} trials")
    return ", ".join([*parts, f"{spent.examples:,} examples"])


def _coloured(state: str) -> Text:
    return Text(state, COLOURS.get(state, "default"))


def _cut(text: str, room: int) -> Text:
    """Cut here: a column that must not wrap would squeeze the others to nothing."""
    shown = Text(text)
    shown.truncate(room, overflow="ellipsis")
    return shown


def _plain(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table
