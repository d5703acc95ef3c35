"""The report of a study: its sections, and the HTML and Markdown files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from sentune.formatting import counted, ended_of, hours, spread
from sentune.io.atomic import write_document
from sentune.records import TrialState
from sentune.report import behaviour, trial_sections
from sentune.report.blocks import Block, Cell, Facts, Section, StudyReport, Table, Text, is_empty
from sentune.report.comparison import comparison
from sentune.report.provenance import costs, lineage
from sentune.report.render import to_html, to_markdown
from sentune.report.view import WITHOUT_RESULT, View

ENDS = {
    "running": "The study is running. This report shows its progress so far.",
    "stopped": "The study was stopped before its end. Run the same command again to continue, "
    "with a larger limit if one was reached.",
    "interrupted": "The study was interrupted. Run the same command again to continue.",
    "failed": "The study failed.",
    "suspended": "The study's driver is suspended. This report shows its progress so far.",
    "silent": "The study's driver does not respond. This report shows its progress so far.",
    "new": "The study has not started.",
}
"""State of a study that is not complete -> its explanation."""


def build(seen: View) -> StudyReport:
    """Return the report of a study in any state.

    Raises:
        InvalidValue: a file among the study's artifacts is damaged.
    """
    made = [
        Section(name, title, [b for b in blocks(seen) if b is not None and not is_empty(b)])
        for name, title, blocks in SECTIONS
    ]
    return StudyReport(
        title=seen.summary.study,
        state=seen.summary.state,
        subtitle=f"{seen.summary.method}, selected by {seen.summary.objective}",
        sections=[section for section in made if section.blocks],
    )


def write(report: StudyReport, folder: Path, option: str = "--storage") -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, each atomically.

    ``option`` is the option that names the folder, for messages.

    Returns:
        The paths of both files.

    Raises:
        StorageError: the disk is full, read-only or faulty; existing files are unchanged.
    """
    pages = {"report.html": to_html(report), "report.md": to_markdown(report)}
    html, md = (write_document(str(folder), *page, option) for page in pages.items())
    return Path(html), Path(md)


def overview(view: View) -> list[Block | None]:
    """Return the summary: result, verdicts, state, facts and metrics."""
    summary, against = view.summary, view.against_rules
    state = Text(summary.reason)
    if summary.state in ENDS:
        why = f" Reason: {summary.reason}" if summary.reason else ""
        state = Text(ENDS[summary.state] + why, "warning")
    return [
        Text(finding(view), "lead"),
        Text(against.text, "good" if against.beaten else "bad") if against is not None else None,
        Text(summary.verdict),
        state,
        Facts(_facts(view)),
        _figures(view),
        Text(_about(view), "note"),
    ]


def finding(view: View) -> str:
    """Return a sentence on the best result, with its error."""
    summary, objective = view.summary, view.summary.objective
    winner, best = view.winner, view.best
    if winner is not None and objective in winner.metrics:
        over = winner.metrics[objective]
        how = "mean ± standard deviation over" if len(over.values) > 1 else "from"
        seeds = counted(len(over.values), "fresh seed")
        trials = counted(len(view.trials), "trial")
        return (
            f"{summary.method} reaches {objective} {spread(objective, over)} on dev: {how} "
            f"{seeds} of trial {winner.trial}, among {trials}."
        )
    is_open = summary.state not in ("complete", "failed")
    if best is None:
        return f"No trial has a value of {objective}{' yet' if is_open else ''}."
    error, value = view.error(objective), view.on_dev(objective)
    kind = "one run, no error bar" if error is None else "± standard error over the pairs"
    so_far = "So far the best" if is_open else "The best"
    state = "" if best.state is TrialState.COMPLETE else ", which is not complete"
    state += "" if best.feasible else ", which violates a constraint"
    return f"{so_far} {objective} on dev: {value} ({kind}), trial {best.id}{state}."


def _facts(view: View) -> dict[str, str]:
    summary = view.summary
    own = Counter(trial.state for trial in view.trials if not trial.source)
    ended = own.total() - own[TrialState.RUNNING]
    examples = summary.spent.examples or sum(trial.examples for trial in view.trials)
    facts = {
        "objective": ", ".join(f"{metric} ({mode})" for metric, mode in view.objectives),
        "trials ended": ended_of(ended, own.total(), summary.plan.get("trials")),
        "stopped early": f"{own[TrialState.PRUNED]:,}",
        "without result": f"{sum(own[state] for state in WITHOUT_RESULT):,}",
        "finalists": f"{len(summary.finalists):,}",
        "examples": f"{examples:,}",
        "wall time": hours(summary.spent.hours) if summary.spent.hours else "",
        "GPU time": hours(summary.spent.gpu_hours) if summary.spent.gpu_hours else "",
        "encoder": view.encoder,
        "decoder": view.decoder,
    }
    return {name: value for name, value in facts.items() if value not in ("", "0")}


def _figures(view: View) -> Table:
    """Return a table of the winner's metrics and those of baseline rules."""
    rows = []
    for names, on_dev, on_test, without in view.metric_rows:
        name = names.partition(",")[0]
        over, test = view.measured.get(name), view.summary.test.get(name)
        dev = Cell(on_dev, over.mean if over is not None else None)
        strong = Cell(names, strong=name == view.summary.objective)
        rows.append((strong, dev, Cell(on_test, test), without))
    parts = (f"dev, {view.error_kind}", f"test, {view.test_kind}")
    heads = ("metric", *parts, "baseline rules")
    return Table(heads=heads, rows=rows)


def _about(view: View) -> str:
    """Return notes on the use of test data and on metrics that the table omits."""
    summary = view.summary
    said = []
    times = len(summary.test_reads)
    if summary.test and times:
        forced = sum(bool(read.get("forced")) for read in summary.test_reads)
        once = "The test data were used once, at the end, for the winner."
        more = f"The test data were used {times} times, {forced} of them forced: see Lineage."
        said.append(once if times == 1 else more)
    elif times:
        before = counted(times, "earlier time")
        said.append(f"This start used no test data; they were used {before}: see Lineage.")
    elif view.winner is not None and not summary.test:
        said.append("No test data were used.")
    if view.subsets:
        said.append(f"The {view.subsets} metrics of subsets are in summary.json.")
    return " ".join(said)


Blocks: TypeAlias = Callable[[View], Sequence[Block | None]]
SECTIONS: tuple[tuple[str, str, Blocks], ...] = (
    ("summary", "Summary", overview),
    ("trials", "Trials", trial_sections.trials),
    ("search", "Search", trial_sections.search),
    ("front", "Pareto front", trial_sections.pareto),
    ("settings", "Settings", trial_sections.settings),
    ("rungs", "Rungs", trial_sections.rungs),
    ("finalists", "Finalists", trial_sections.finals),
    ("readouts", "Readouts", trial_sections.readouts),
    ("model", "Model behaviour", behaviour.chapter),
    ("paper", "Comparison with the paper", comparison),
    ("cost", "Cost", costs),
    ("notes", "Events", trial_sections.notes),
    ("lineage", "Lineage", lineage),
)
"""Anchor, title and blocks of each section, in the order of the page."""
