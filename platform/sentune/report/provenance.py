"""Report sections on a study's cost and lineage: corpora, code, packages, use of test data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentune.formatting import clock, counted, hours, percent, setting
from sentune.records import FinalistRecord, StudySummary, TrialRecord, TrialState
from sentune.report.blocks import Block, Cell, Row, Table, Text
from sentune.report.figures import cost
from sentune.report.view import View


def costs(view: View) -> list[Block | None]:
    """Return the blocks on cost: savings by rungs, seconds of each trial, totals and limits."""
    if not view.trials:
        return []
    return [Text(_saved(view)), cost(view), _totals(view)]


def _totals(view: View) -> Table:
    """Return a table of used, allowed and planned resources.

    Trials that were taken over from other studies do not count. Studies of older versions have no
    recorded totals, so their trials are summed.
    """
    summary, plan = view.summary, view.summary.plan
    own = [trial for trial in view.trials if not trial.source]
    allowed: Mapping[str, Any] = plan.get("budget") or plan
    spent, finals = summary.spent, summary.finalists
    examples = spent.examples or sum(trial.examples for trial in own)
    runs = [*(t.gpu_seconds for t in own), *(f.gpu_seconds for f in finals)]
    gpu = spent.gpu_hours or sum(runs) / 3600

    def limit(name: str, unit: str = "") -> Cell | str:
        most = allowed.get(name)
        return "none" if most is None else Cell(f"{most:,}{unit}", most)

    def planned(name: str) -> int | str:
        return plan[name] if isinstance(plan.get(name), int) else ""

    def seconds(of: Sequence[TrialRecord | FinalistRecord]) -> Cell:
        total = sum(one.seconds for one in of)
        return Cell(clock(total), total)

    rows: list[Row] = [
        ["trials", spent.trials or len(own), limit("max_trials"), planned("trials")],
        ["examples", examples, "", planned("examples_at_most")],
        ["wall time", Cell(hours(spent.hours), spent.hours), limit("max_hours", " h"), ""],
        ["GPU time", Cell(hours(gpu), gpu), limit("max_gpu_hours", " h"), ""],
        ["seconds of trials", seconds(own), "", ""],
    ]
    if finals:
        rows.append(["seconds of finalists", seconds(finals), "", ""])
    return Table(heads=("", "used", "limit", "planned at most"), rows=rows, beside=True)


def _saved(view: View) -> str:
    """Return a sentence on the examples and the time that stopped trials saved."""
    full, own = view.max_examples, [trial for trial in view.trials if not trial.source]
    stopped = [trial for trial in own if trial.state is TrialState.PRUNED]
    if not stopped or not full:
        return ""
    saved = sum(max(0, full - trial.examples) for trial in stopped)
    used = sum(trial.examples for trial in own)
    time = sum(t.seconds / t.examples * max(0, full - t.examples) for t in stopped if t.examples)
    return (
        f"The rungs stopped {counted(len(stopped), 'trial')} and saved {saved:,} of "
        f"{saved + used:,} examples of the search ({percent(saved / (saved + used))}), about "
        f"{clock(time)} of training at those trials' own speed."
    )


def lineage(view: View) -> list[Block]:
    """Return the blocks on the origin of the result."""
    summary, found = view.summary, view.summary.lineage
    heads = [*dict.fromkeys(name for read in summary.test_reads for name in read)]
    reads = [[_read(read.get(name)) for name in heads] for read in summary.test_reads]
    said = "Evaluations on the test corpora." if reads else ""
    packages = [(name, str(v)) for name, v in sorted(found.get("packages", {}).items())]
    runs = {"finalists": "finalist runs"}
    plan = [(runs.get(n, n.replace("_", " ")), setting(v)) for n, v in summary.plan.items()]
    return [
        _corpora(summary),
        _code(view),
        Text(str(found.get("command") or ""), "code"),
        Table(heads=heads, rows=reads, caption=said),
        Table(heads=("package", "version"), rows=packages, folded="Packages"),
        _space(summary.space),
        Table(heads=("plan", ""), rows=plan, folded="Plan"),
    ]


def _corpora(summary: StudySummary) -> Table:
    rows = [
        (
            role,
            str(corpus.get("spec", "")),
            str(corpus.get("kind", "")).replace("-", " "),
            int(corpus.get("rows", 0)),
            str(corpus.get("fingerprint", "")),
        )
        for role, corpus in summary.corpora.items()
    ]
    return Table(heads=("role", "corpus", "kind", "rows", "fingerprint"), rows=rows)


def _read(value: Any) -> str:
    """Return a field of a test evaluation as text; lists are joined, corpora shown by name."""
    if not isinstance(value, list):
        return setting(value)
    return ", ".join(str(one["spec"]) if isinstance(one, dict) else str(one) for one in value)


def _code(view: View) -> Table:
    found, summary = view.summary.lineage, view.summary
    git: Mapping[str, Any] = found.get("git") or {}
    changed = ", with uncommitted changes" if git.get("dirty") else ""
    lines = {
        "method": summary.method,
        "encoder": view.encoder,
        "decoder": view.decoder,
        "code": f"commit {git['commit']}{changed}" if git.get("commit") else "",
        "branch": git.get("branch", ""),
        "Python": found.get("python", ""),
        "platform": found.get("platform", ""),
        "forked from": summary.forked_from or "",
        "warm start from": ", ".join(summary.warm_start),
        "model": summary.model or "",
    }
    rows = [(name, str(value)) for name, value in lines.items() if value]
    return Table(heads=("", "value"), rows=rows)


def _space(space: Mapping[str, Any]) -> Table:
    conditions = space.get("conditions", {})
    searched = {
        name: _range(dimension) + _when(conditions.get(name, {}))
        for name, dimension in space.get("settings", {}).items()
    }
    fixed = {name: f"fixed at {setting(v)}" for name, v in space.get("fixed", {}).items()}
    published = space.get("published", {})
    rows = [
        (name, said, setting(published[name]) if name in published else "")
        for name, said in (*searched.items(), *fixed.items())
    ]
    heads = ("setting", "searched", "published")
    return Table(heads=heads, rows=rows, folded="Search space")


def _range(dimension: Mapping[str, Any]) -> str:
    if "choice" in dimension:
        return ", ".join(setting(value) for value in dimension["choice"])
    low, high = dimension.get("uniform") or dimension["integer"]
    return f"{setting(low)} to {setting(high)}{', logarithmic' if dimension.get('log') else ''}"


def _when(asked: Mapping[str, Sequence[Any]]) -> str:
    """Return the condition under which a setting is active, as text; empty if it always is."""
    said = [f"{name} is {' or '.join(map(setting, values))}" for name, values in asked.items()]
    return f", if {' and '.join(said)}" if said else ""
