"""A study's report: its sections in order, and the two files that it is written to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentune.formatting import counted, hours, measured, setting, spread
from sentune.io.atomic import write_document
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report import figures
from sentune.report.comparison import comparison
from sentune.report.drawing import Figure, to_picture
from sentune.report.importance import FEWEST
from sentune.report.provenance import costs, lineage
from sentune.report.render import (
    Block,
    Cell,
    Facts,
    Picture,
    Section,
    StudyReport,
    Table,
    Text,
    columns,
    row,
    to_html,
    to_markdown,
)
from sentune.report.sweep_figures import figures_in
from sentune.report.trial_tables import (
    comparison_table,
    finalist_table,
    front_table,
    notes,
    rung_table,
    trials,
)
from sentune.report.view import ERROR, WITHOUT_RESULT, View, of_subset, view

HTML, MARKDOWN = "report.html", "report.md"

ENDS = {
    "running": "The study is in progress: what follows is as far as it has come.",
    "stopped": "The study was stopped before its end; the same command goes on.",
    "interrupted": "The study was interrupted; the same command goes on.",
    "failed": "The study failed.",
    "suspended": "The study's driver is suspended: what follows is as far as it has come.",
    "silent": "The study's driver is not heard of: what follows is as far as it has come.",
    "new": "The study has not begun.",
}


def build(
    summary: StudySummary | Mapping[str, Any],
    records: Sequence[TrialRecord] = (),
    artifacts: Path | None = None,
) -> StudyReport:
    """The report of a study in any state.

    Args:
        summary: of the study, or the content of its ``summary.json``.
        records: its trials with their curves, from the store; a trial that is missing here is
            shown as the summary has it, without a curve.
        artifacts: where a finished study left its sweeps (``exhibits/``).

    Raises:
        InvalidValue: the summary is of a later version or damaged, or an exhibit is.
    """
    seen = view(summary, records, artifacts)
    made = [make(seen) for make in SECTIONS]
    return StudyReport(
        title=seen.summary.study,
        state=seen.summary.state,
        subtitle=f"{seen.summary.method}, selected by {seen.summary.objective}",
        sections=[section for section in made if section is not None],
    )


def write(report: StudyReport, folder: Path) -> tuple[Path, Path]:
    """Writes ``report.html`` and ``report.md`` into a folder, each at once or not at all.

    Returns:
        Where they stand.

    Raises:
        StorageError: the disk is full, read-only or at fault; the old files are as they were.
    """
    page = write_document(str(folder), HTML, to_html(report))
    return Path(page), Path(write_document(str(folder), MARKDOWN, to_markdown(report)))


def overview(view: View) -> Section:
    """Finding, verdict, state, figures."""
    summary = view.summary
    blocks: list[Block] = [Text(text=finding(view), tone="lead")]
    if summary.verdict:
        blocks.append(Text(text=summary.verdict))
    if summary.state in ENDS:
        why = f" Why: {summary.reason}" if summary.reason else ""
        blocks.append(Text(text=ENDS[summary.state] + why, tone="warning"))
    elif summary.reason:
        blocks.append(Text(text=summary.reason))
    blocks.append(Facts(facts=_facts(view)))
    if view.measured or summary.test:
        blocks.append(_figures(view))
        blocks += _about(view)
    return Section(name="summary", title="Summary", blocks=blocks)


def finding(view: View) -> str:
    """What was found, in one sentence with its error."""
    summary, objective = view.summary, view.summary.objective
    winner, best = view.winner, view.best
    if winner is not None and objective in winner.metrics:
        over = winner.metrics[objective]
        error = "mean ± standard deviation over" if len(over.values) > 1 else "from"
        seeds = counted(len(over.values), "fresh seed")
        return (
            f"{summary.method} reaches {objective} {spread(objective, over)} on dev: {error} "
            f"{seeds} of trial {winner.trial}, among {counted(len(summary.trials), 'trial')}."
        )
    if best is None:
        return (
            f"No trial has a value of {objective} yet."
            if _open(view)
            else (f"No trial came to a value of {objective}.")
        )
    error_of = view.error(objective)
    value = spread(objective, view.measured[objective], error_of)
    kind = "one run, so no error bar" if error_of is None else "± standard error over the pairs"
    so_far = "So far the best" if _open(view) else "The best"
    state = "" if best.state is TrialState.COMPLETE else ", which has not come to its end"
    return f"{so_far} {objective} on dev: {value} ({kind}), trial {best.id}{state}."


def _open(view: View) -> bool:
    return view.summary.state not in ("complete", "failed")


def _facts(view: View) -> list[tuple[str, str]]:
    summary = view.summary
    ended = len(summary.trials) - view.count(TrialState.RUNNING)
    planned = summary.plan.get("trials")
    of = f" of {planned:,}" if isinstance(planned, int) else ""
    examples = summary.spent.examples or sum(trial.examples for trial in summary.trials)
    facts = [
        ("objective", ", ".join(f"{metric} ({mode})" for metric, mode in view.objectives)),
        ("trials ended", f"{ended:,}{of}"),
        ("stopped early", f"{view.count(TrialState.PRUNED):,}"),
        ("without result", f"{view.count(*WITHOUT_RESULT):,}"),
        ("finalists", f"{len(summary.finalists):,}"),
        ("examples", f"{examples:,}"),
        ("wall time", hours(summary.spent.hours) if summary.spent.hours else ""),
        ("GPU time", hours(summary.spent.gpu_hours) if summary.spent.gpu_hours else ""),
        ("encoder", view.encoder),
    ]
    return [(name, value) for name, value in facts if value not in ("", "0")]


def _figures(view: View) -> Table:
    """The winner on dev, the shipped model on test, and what a rule without a model reaches."""
    summary = view.summary
    kept = {n: v for n, v in view.measured.items() if not n.startswith("train/")}
    names = [
        name
        for name in sorted({*kept, *summary.test, *summary.baselines})
        if not name.endswith(ERROR) and not of_subset(name)
    ]
    columns_ = {
        f"dev, {_error(view)}": {
            name: spread(name, kept[name], view.error(name))
            for name in names
            if name in kept and name not in summary.baselines
        },
        "test, shipped model": {n: measured(n, v) for n, v in summary.test.items()},
        "without a model": {n: measured(n, v) for n, v in summary.baselines.items()},
    }
    shown = {head: values for head, values in columns_.items() if any(values.values())}
    rows = [
        [
            Cell(text=name, strong=name == summary.objective),
            *(Cell(text=values.get(name, "")) for values in shown.values()),
        ]
        for name in names
    ]
    return Table(columns=columns("metric", *shown, numbers=[*shown]), rows=rows)


def _error(view: View) -> str:
    if view.winner is not None:
        return "± sd over seeds"
    return "± standard error" if any(name.endswith(ERROR) for name in view.measured) else "one run"


def _about(view: View) -> list[Text]:
    """How often test was read, and what the table leaves out."""
    summary = view.summary
    said = []
    times = len(summary.test_reads)
    if summary.test and times:
        forced = sum(bool(read.get("forced")) for read in summary.test_reads)
        once = "Test was read once, at the end, for the winner."
        more = f"Test was read {times} times, {forced} of them forced: see Lineage."
        said.append(once if times == 1 else more)
    elif view.winner is not None and not summary.test:
        said.append("No test corpus was read.")
    parts = sum(map(of_subset, {*view.measured, *summary.test}))
    if parts:
        said.append(f"Metrics by subset ({parts}) are in summary.json.")
    return [Text(text=" ".join(said), tone="note")] if said else []


def search(view: View) -> Section | None:
    """When what was found, and how trials learned."""
    drawn = _pictures(figures.history(view), figures.curves(view))
    return Section(name="search", title="Search", blocks=drawn) if drawn else None


def pareto(view: View) -> Section | None:
    """Several objectives: the front as a figure of the first two and a table of all of them."""
    if len(view.objectives) < 2:
        return None
    blocks: list[Block] = [*_pictures(figures.front(view)), front_table(view)]
    return Section(name="front", title="Pareto front", blocks=blocks)


def settings(view: View) -> Section | None:
    """Which settings mattered: importance, and parallel coordinates; None where nothing varied."""
    if not view.varied:
        return None
    why = f"Importance needs {FEWEST} comparable trials that differ in settings and result."
    blocks: list[Block] = [Text(text=why, tone="note")]
    if (found := view.importance) is not None:
        names = sorted(found.shares, key=lambda name: -found.shares[name])
        shares = [
            row(name, f"{100 * found.shares[name]:.0f} ± {100 * found.spreads[name]:.0f} %")
            for name in names
        ]
        heads = columns("setting", "importance", numbers=("importance",))
        table = Table(columns=heads, rows=shares, beside=True)
        blocks = [*_pictures(figures.importance(view)), table]
    blocks += _pictures(figures.parallel(view))
    return Section(name="settings", title="Settings", blocks=blocks)


def rungs(view: View) -> Section | None:
    """Survival as a figure and a table; None where trials were not compared on the way."""
    drawn = _pictures(figures.survival(view))
    if not drawn:
        return None
    plan = view.summary.plan
    scheduler = plan.get("scheduler") or "asha"
    if isinstance(scheduler, dict):
        scheduler = scheduler.get("name", "asha")
    eta = f", one in {plan['eta']} goes on" if plan.get("eta") else ""
    said = f"Scheduler {scheduler}{eta}; a full trial sees {view.max_examples:,} examples."
    return Section(name="rungs", title="Rungs", blocks=[Text(text=said), *drawn, rung_table(view)])


def finals(view: View) -> Section | None:
    """Finalists by mean, best first; None where none has run."""
    if not view.summary.finalists:
        return None
    blocks: list[Block] = [*_pictures(figures.finalists(view))]
    if view.summary.comparison.get("runner_up") is not None:
        blocks.append(comparison_table(view.summary.comparison))
    blocks.append(finalist_table(view))
    return Section(name="finalists", title="Finalists", blocks=blocks)


def readouts(view: View) -> Section | None:
    """Best readouts, and figures of what was swept on the winner's frozen model."""
    winner = view.winner or view.best
    chosen = winner.readouts if winner is not None else {}
    drawn = _pictures(*figures_in(view.folder)) if view.folder is not None else []
    if not chosen and not drawn:
        return None
    rows = [row(name, setting(value)) for name, value in sorted(chosen.items())]
    heads = columns("readout", "best value", numbers=("best value",))
    table = [Table(columns=heads, rows=rows, beside=True)] if rows else []
    said = "Hyperparameters that need no training run: swept exhaustively on the frozen model."
    blocks: list[Block] = [Text(text=said, tone="note"), *drawn, *table]
    return Section(name="readouts", title="Readouts", blocks=blocks)


def _pictures(*drawn: Figure | None) -> list[Picture]:
    return [to_picture(figure) for figure in drawn if figure is not None]


SECTIONS: tuple[Callable[[View], Section | None], ...] = (
    overview,
    trials,
    search,
    pareto,
    settings,
    rungs,
    finals,
    readouts,
    comparison,
    costs,
    notes,
    lineage,
)
"""In the order of the page."""
