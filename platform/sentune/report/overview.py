"""The head of a report: what was found, how sure that is, how the study stands."""

from __future__ import annotations

from sentune.formatting import counted, hours, measured, spread
from sentune.records import TrialState
from sentune.report.document import Block, Cell, Facts, Section, Table, Text, columns
from sentune.report.view import ERROR, WITHOUT_RESULT, View

ENDS = {
    "running": "The study is in progress: what follows is as far as it has come.",
    "stopped": "The study was stopped before its end; the same command goes on.",
    "interrupted": "The study was interrupted; the same command goes on.",
    "failed": "The study failed.",
    "suspended": "The study's driver is suspended: what follows is as far as it has come.",
    "silent": "The study's driver is not heard of: what follows is as far as it has come.",
    "new": "The study has not begun.",
}


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


def of_subset(name: str) -> bool:
    """``sts12/MSRpar/pearson``: a year of STS has up to six subsets with two metrics each."""
    return name.count("/") > 1
