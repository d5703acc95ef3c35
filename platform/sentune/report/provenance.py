"""What a study cost, and its lineage: corpora, code, packages, readings of the test corpora."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sentune.formatting import clock, counted, hours, setting
from sentune.records import StudySummary, TrialState
from sentune.report.drawing import to_picture
from sentune.report.figures import cost
from sentune.report.render import Block, CodeBlock, Folded, Section, Table, Text, columns, row
from sentune.report.view import View


def costs(view: View) -> Section | None:
    """Totals against limits, savings, and the seconds of each trial."""
    if not view.summary.trials:
        return None
    saved, drawn = _saved(view), cost(view)
    blocks: list[Block] = [Text(text=saved)] if saved else []
    blocks += [to_picture(drawn)] if drawn else []
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
    rows = [row(*line) for line in lines if line[1] and (line[1] != "0 s" or line[2])]
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


def lineage(view: View) -> Section:
    """Where the result came from."""
    summary = view.summary
    blocks: list[Block] = [_corpora(summary), _code(view)]
    command = summary.lineage.get("command")
    if command:
        blocks.append(CodeBlock(text=str(command)))
    if summary.test_reads:
        blocks.append(_reads(summary))
    packages: Mapping[str, Any] = summary.lineage.get("packages", {})
    if packages:
        rows = [row(name, str(version)) for name, version in sorted(packages.items())]
        table = Table(columns=columns("package", "version"), rows=rows)
        blocks.append(Folded(title="Packages", blocks=[table]))
    if summary.space:
        blocks.append(Folded(title="Search space", blocks=_space(summary.space)))
    if summary.plan:
        rows = [row(name.replace("_", " "), setting(v)) for name, v in summary.plan.items()]
        table = Table(columns=columns("plan", "", wide=("",)), rows=rows)
        blocks.append(Folded(title="Plan", blocks=[table]))
    return Section(name="lineage", title="Lineage", blocks=blocks)


def _corpora(summary: StudySummary) -> Table:
    rows = [
        row(
            role,
            str(corpus.get("spec", "")),
            str(corpus.get("kind", "")).replace("-", " "),
            f"{corpus.get('rows', 0):,}",
            str(corpus.get("fingerprint", "")),
        )
        for role, corpus in summary.corpora.items()
    ]
    heads = columns(
        "role", "corpus", "kind", "rows", "fingerprint", numbers=("rows",), wide=("corpus",)
    )
    return Table(columns=heads, rows=rows)


def _code(view: View) -> Table:
    found, summary = view.summary.lineage, view.summary
    git: Mapping[str, Any] = found.get("git") or {}
    changed = ", with changes that are not committed" if git.get("dirty") else ""
    lines = {
        "method": summary.method,
        "encoder": view.encoder,
        "code": f"commit {git['commit']}{changed}" if git.get("commit") else "",
        "branch": git.get("branch", ""),
        "Python": found.get("python", ""),
        "platform": found.get("platform", ""),
        "forked from": summary.forked_from or "",
        "warm start from": ", ".join(summary.warm_start),
        "model": summary.model or "",
    }
    rows = [row(name, str(value)) for name, value in lines.items() if value]
    return Table(columns=columns("", "value", wide=("value",)), rows=rows)


def _reads(summary: StudySummary) -> Table:
    """Every reading of the test corpora; more than one was forced."""
    names = list(dict.fromkeys(name for read in summary.test_reads for name in read))
    rows = [row(*(setting(read.get(name)) for name in names)) for read in summary.test_reads]
    caption = "Readings of the test corpora."
    return Table(columns=columns(*names), rows=rows, caption=caption)


def _space(space: Mapping[str, Any]) -> list[Table | Text | CodeBlock]:
    published: Mapping[str, Any] = space.get("published", {})
    settings: Mapping[str, Any] = space.get("settings", {})
    searched = [
        row(name, _range(dimension), setting(published[name]) if name in published else "")
        for name, dimension in settings.items()
    ]
    fixed = [
        row(
            name,
            f"fixed at {setting(value)}",
            setting(published[name]) if name in published else "",
        )
        for name, value in space.get("fixed", {}).items()
    ]
    heads = columns("setting", "searched", "the paper's", wide=("searched",))
    return [Table(columns=heads, rows=[*searched, *fixed])]


def _range(dimension: Any) -> str:
    if not isinstance(dimension, dict):
        return setting(dimension)
    if "choice" in dimension:
        said = ", ".join(setting(value) for value in dimension["choice"])
    elif ends := dimension.get("uniform") or dimension.get("integer"):
        said = f"{setting(ends[0])} to {setting(ends[1])}" + (
            ", logarithmic" if dimension.get("log") else ""
        )
    else:
        return json.dumps(dimension, ensure_ascii=False)
    when = dimension.get("when")
    return f"{said}, where {setting(when)}" if when else said
