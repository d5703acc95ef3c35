"""What a study cost: per trial, in all, against its budget, and what its rungs saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentune.formatting import clock, counted, hours
from sentune.records import TrialState
from sentune.report.axes import legend, trial_axis
from sentune.report.document import Block, Cell, Picture, Section, Table, Text, columns
from sentune.report.drawing import ACCENT, BEST, MUTED, figure, to_svg
from sentune.report.view import View


def costs(view: View) -> Section | None:
    """Totals against limits, savings, and the seconds of each trial."""
    if not view.summary.trials:
        return None
    saved, drawing = _saved(view), seconds(view)
    blocks: list[Block] = [Text(text=saved)] if saved else []
    blocks += [drawing] if drawing else []
    blocks.append(_totals(view))
    return Section(name="cost", title="Cost", blocks=blocks)


def _totals(view: View) -> Table:
    """What was used beside what was allowed; a study of old knows only its trials' sums."""
    summary, plan = view.summary, view.summary.plan
    allowed: Mapping[str, Any] = plan.get("budget") or plan
    spent, finals = summary.spent, summary.finalists
    trials = spent.trials or len(summary.trials)
    examples = spent.examples or sum(trial.examples for trial in summary.trials)
    runs = [*(t.gpu_seconds for t in summary.trials), *(f.gpu_seconds for f in finals)]
    gpu = spent.gpu_hours or sum(runs) / 3600
    lines = [
        ("trials", f"{trials:,}", _limit(allowed, "max_trials"), _planned(plan, "trials")),
        ("examples", f"{examples:,}", "", _planned(plan, "examples_at_most")),
        ("wall time", hours(spent.hours), _limit(allowed, "max_hours", " h"), ""),
        ("GPU time", hours(gpu), _limit(allowed, "max_gpu_hours", " h"), ""),
        ("seconds of trials", clock(sum(t.seconds for t in summary.trials)), "", ""),
        ("seconds of finalists", clock(sum(f.seconds for f in finals)) if finals else "", "", ""),
    ]
    rows = [
        [Cell(text=name), Cell(text=used), Cell(text=limit), Cell(text=planned)]
        for name, used, limit, planned in lines
        if used and (used != "0 s" or limit)
    ]
    return Table(
        columns=columns(
            "", "used", "limit", "planned at most", numbers=("used", "limit", "planned at most")
        ),
        rows=rows,
        beside=True,
    )


def _limit(allowed: Mapping[str, Any], name: str, unit: str = "") -> str:
    value = allowed.get(name)
    return f"{value:,}{unit}" if value is not None else "none"


def _planned(plan: Mapping[str, Any], name: str) -> str:
    value = plan.get(name)
    return f"{value:,}" if isinstance(value, int) else ""


def _saved(view: View) -> str:
    """Examples that stopped trials did not see, and about how long they would have taken."""
    full = view.max_examples
    stopped = [t for t in view.summary.trials if t.state is TrialState.PRUNED]
    if not stopped or not full:
        return ""
    saved = sum(max(0, full - trial.examples) for trial in stopped)
    used = sum(trial.examples for trial in view.summary.trials)
    time = sum(t.seconds / t.examples * max(0, full - t.examples) for t in stopped if t.examples)
    return (
        f"The rungs stopped {counted(len(stopped), 'trial')} and saved {saved:,} of "
        f"{saved + used:,} examples of the search ({saved / (saved + used):.0%}), about "
        f"{clock(time)} of training at those trials' own speed."
    )


def seconds(view: View) -> Picture | None:
    """Seconds of each trial; hollow where it was stopped early."""
    trials = [trial for trial in view.summary.trials if trial.seconds > 0]
    if not trials:
        return None
    drawn, axes = figure()
    for states, word, face, edge in (
        ((TrialState.COMPLETE,), "complete", ACCENT, ACCENT),
        ((TrialState.PRUNED,), "stopped early", "none", MUTED),
        ((TrialState.RUNNING, TrialState.FAILED, TrialState.INFEASIBLE), "other", BEST, BEST),
    ):
        of = [trial for trial in trials if trial.state in states]
        if of:
            numbers, times = [t.id for t in of], [t.seconds for t in of]
            axes.bar(numbers, times, 0.8, label=word, facecolor=face, edgecolor=edge, linewidth=0.7)
    trial_axis(axes, view)
    axes.set_ylabel("seconds", fontsize=9)
    legend(axes)
    title = "Seconds of each trial"
    total = sum(trial.seconds for trial in trials)
    said = f"Training and validation, over all starts; {total:,.0f} seconds in all."
    return Picture(title=title, description=said, svg=to_svg(drawn, "cost", f"{title}: {said}"))
