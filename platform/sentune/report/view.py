"""A study as its report sees it: the summary, the trials' curves, and what follows from both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sentune.errors import InvalidValue
from sentune.formatting import ON_PART, STATES, measured, spread
from sentune.records import (
    PART,
    FinalistRecord,
    Spread,
    StudySummary,
    TrialRecord,
    TrialState,
    with_ends,
)
from sentune.report.axes import Axis, axes_of
from sentune.report.importance import Importance, importance
from sentune.report.rules import (
    ACCURACIES,
    RuleVerdict,
    half_interval,
    of_rule,
    rules_of,
    verdict_on,
)

ERROR = "_standard_error"
"""Ending of a metric that is the standard error of another one, over the pairs of a task."""

WITHOUT_RESULT = (TrialState.FAILED, TrialState.INFEASIBLE)

FATES = {
    TrialState.PRUNED: "stopped",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    **dict.fromkeys(WITHOUT_RESULT, "lost"),
}
"""What became of a trial that did not reach a rung."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A study and what its report asks of it.

    Attributes:
        summary: with the curves of its trials, where they are known.
        folder: of the artifacts that a finished study leaves, if it has any.
    """

    summary: StudySummary
    folder: Path | None = None

    @property
    def objectives(self) -> list[tuple[str, str]]:
        """Metric and mode of each objective, the first one first."""
        summary = self.summary
        listed = [(o["metric"], o["mode"]) for o in summary.objectives]
        return listed or [(summary.objective, summary.mode)]

    @property
    def alive(self) -> bool:
        """Return whether a process drives the study."""
        return self.summary.state == "running"

    def word(self, state: TrialState) -> str:
        """Return the word of a trial's state; the next start goes on with an unfinished one."""
        left = state is TrialState.RUNNING and not self.alive
        return "unfinished" if left else STATES[state]

    @cached_property
    def trials(self) -> list[TrialRecord]:
        """Trials by number, one that was stopped and went on once; see ``with_ends``."""
        return with_ends(self.summary.trials)

    @cached_property
    def ranked(self) -> list[TrialRecord]:
        """Trials with the best objective first, then those that were judged on a part of dev, then
        those without one; of equals the earlier first."""
        sign = 1.0 if self.summary.mode == "min" else -1.0

        def rank(trial: TrialRecord) -> tuple[bool, bool, float, int]:
            value = self.value(trial)
            return value is None, trial.on_part, sign * (value or 0.0), trial.id

        return sorted(self.trials, key=rank)

    def value(self, trial: TrialRecord, metric: str | None = None) -> float | None:
        """A trial's objective (or another metric), None where it is no finite number."""
        found = trial.metrics.get(metric or self.summary.objective)
        return found if found is not None and math.isfinite(found) else None

    @cached_property
    def best(self) -> TrialRecord | None:
        """The trial that was shipped without finals; else the best complete one that holds every
        constraint, and while there is none, any trial."""
        scored = [trial for trial in self.ranked if self.value(trial) is not None]
        complete = [trial for trial in scored if trial.state is TrialState.COMPLETE]
        shipped = [t for t in complete if t.id == self.summary.best and self.winner is None]
        feasible = (trial for trial in complete if trial.feasible)
        return next(iter([*shipped, *feasible, *complete, *scored]), None)

    @property
    def winner(self) -> FinalistRecord | None:
        """The finalist that won."""
        at = self.summary.winner
        return self.summary.finalists[at] if at is not None else None

    @cached_property
    def measured(self) -> dict[str, Spread]:
        """The winner's metrics on dev: over seeds, or of the best trial's one run."""
        if self.winner is not None:
            return self.winner.metrics
        metrics = self.best.metrics if self.best is not None else {}
        return {name: Spread(mean=value, sd=0.0, values=[value]) for name, value in metrics.items()}

    @property
    def judged_on(self) -> str:
        """Part of the data on which the shipped model was measured last: ``test`` or ``dev``."""
        return "test" if self.summary.test else "dev"

    @property
    def on_test(self) -> dict[str, float]:
        """Metrics of the shipped model on test, and of rules without a model; none before that was
        read: the rules' are of dev then."""
        return {**self.summary.baselines, **self.summary.test} if self.summary.test else {}

    def error(self, metric: str) -> float | None:
        """The standard error over pairs that was measured beside a metric, if any."""
        found = self.measured.get(metric + ERROR)
        return found.mean if found is not None else None

    def test_error(self, metric: str) -> float | None:
        """The standard error over pairs of a metric of the shipped model on test, if any."""
        return self.summary.test.get(metric + ERROR)

    @property
    def test_kind(self) -> str:
        """What was measured on test, and the kind of its ±, if any."""
        pairs = any(name.endswith(ERROR) for name in self.summary.test)
        return f"shipped model{', ± se over pairs' if pairs else ''}"

    @property
    def error_kind(self) -> str:
        """Kind of the ± of ``metric_rows``."""
        if self.winner is not None and len(self.winner.seeds) > 1:
            return "± sd over seeds"
        pairs = any(name.endswith(ERROR) for name in self.measured)
        return "± se over pairs" if pairs else "one run"

    def on_dev(self, metric: str) -> str:
        """A metric of the winner on dev with its error; empty where there is none."""
        over, sign = self.measured.get(metric), ON_PART if PART in self.measured else ""
        return sign + spread(metric, over, self.error(metric)) if over is not None else ""

    @cached_property
    def metric_groups(self) -> list[tuple[list[str], str, str]]:
        """Metrics of each row of a table, with the winner on dev and the shipped model on test.

        There are neither costs, nor standard errors, nor metrics of a subset. Accuracies of a task
        that are equal are one row.
        """
        rules, test = self.summary.baselines, self.summary.test
        own = {name for name in rules if not of_rule(name)}
        dev = {n for n in self.measured if n not in rules and not n.startswith("train/")}
        groups: dict[tuple[str, str, str], list[str]] = {}
        for name in sorted({*dev, *test, *own}):
            if name.endswith(ERROR) or of_subset(name):
                continue
            on_dev = self.on_dev(name) if name in dev else ""
            on_test = measured(name, test[name], self.test_error(name)) if name in test else ""
            task, _, last = name.rpartition("/")
            alike = task if last in ACCURACIES else name
            groups.setdefault((alike, on_dev, on_test), []).append(name)
        return [(names, on_dev, on_test) for (_, on_dev, on_test), names in groups.items()]

    @property
    def metric_rows(self) -> list[tuple[str, str, str, str]]:
        """Names of each group, the winner on dev, the shipped model on test, and what rules
        without a model reach, as text."""
        rules = self.summary.baselines
        rows = []
        for (name, *others), on_dev, on_test in self.metric_groups:
            names = ", ".join([name, *(other.rpartition("/")[2] for other in others)])
            beside = (f"{measured(name, v)} {rule}" for rule, v in rules_of(name, rules).items())
            is_rule = name in rules and not of_rule(name)
            without = measured(name, rules[name]) if is_rule else ", ".join(beside)
            rows.append((names, on_dev, on_test, without))
        return rows

    @property
    def against_rules(self) -> RuleVerdict | None:
        """Return the verdict on the winner against the best rule, on test where that was read."""
        summary, objective = self.summary, self.summary.objective
        over = self.measured.get(objective)
        if over is None or summary.mode != "max" or summary.model is None:
            return None
        runs, on_test = len(over.values), objective in summary.test
        if runs > 1:  # what is shipped, and measured on test, is one of them
            bar = half_interval(over.sd / math.sqrt(1 if on_test else runs), runs - 1)
        else:
            bar = half_interval(self.error(objective))
        if not on_test:
            return verdict_on(objective, over.mean, bar, summary.baselines, "dev")
        value, own = summary.test[objective], half_interval(self.test_error(objective))
        paired = summary.against_rules.get(objective, {})
        bar, error_on = (bar, "dev") if own is None else (own, "test")
        rules = summary.baselines
        return verdict_on(objective, value, bar, rules, "test", paired, error_on=error_on)

    @property
    def subsets(self) -> int:
        """Metrics of subsets, which ``summary.json`` alone has."""
        return sum(map(of_subset, {*self.measured, *self.summary.test}))

    @cached_property
    def axes(self) -> list[Axis]:
        """Axes of the settings that took several values, in the order of the space."""
        return axes_of(self.summary)

    @property
    def varied(self) -> list[str]:
        """Names of the settings that took several values."""
        return [axis.name for axis in self.axes]

    @cached_property
    def importance(self) -> Importance | None:
        """Return the settings' importance for the objective, where that can be said."""
        return importance(replace(self.summary, trials=self.trials))

    @property
    def max_examples(self) -> int:
        """Budget of a full trial; what the longest trial saw where the plan does not say."""
        told = self.summary.plan.get("max_examples")
        return int(told) if told else max((t.examples for t in self.trials), default=0)

    @property
    def rungs(self) -> list[int]:
        """Examples at which trials were compared."""
        return sorted(int(rung) for rung in self.summary.plan.get("rungs") or ())

    @cached_property
    def rung_counts(self) -> dict[int, Counter[str]]:
        """Return rung (and the end), in examples -> number of trials by what became of them there.

        ``reached`` it, or before it ``stopped``, ``lost`` or ``running``; ``judged`` were stopped
        at it. A trial has come as far as its last milestone; without its curve, as the examples it
        saw.
        """
        trials = self.trials
        far = {trial.id: max(trial.curve, default=trial.examples) for trial in trials}
        found = {}
        for rung in dict.fromkeys((*self.rungs, self.max_examples)):
            found[rung] = Counter(
                "reached" if far[t.id] >= rung else FATES[t.state] for t in trials
            )
            here = (trial for trial in trials if far[trial.id] == rung)
            found[rung]["judged"] = sum(trial.state is TrialState.PRUNED for trial in here)
        return found

    @property
    def encoder(self) -> str:
        """Return the study's encoder or word vectors; empty if that is not said."""
        summary = self.summary
        named = summary.lineage.get("encoder") or summary.plan.get("encoder")
        return str(named or summary.space.get("fixed", {}).get("vectors", ""))

    @property
    def decoder(self) -> str:
        """Return the decoder of a method that decodes; empty if it has none, or it is not said."""
        return str(self.summary.lineage.get("decoder", ""))

    def count(self, *states: TrialState) -> int:
        """Trials in any of these states."""
        return sum(trial.state in states for trial in self.trials)


def of_subset(name: str) -> bool:
    """``sts12/MSRpar/pearson``: a year of STS has up to six subsets with two metrics each."""
    return name.count("/") > 1


def view(
    summary: StudySummary | Mapping[str, Any],
    records: Sequence[TrialRecord] = (),
    folder: Path | None = None,
) -> View:
    """Put a summary and the trials' records together.

    Args:
        summary: or the content of a ``summary.json``.
        records: trials with their curves, from the store; those that the summary alone knows have
            none.
        folder: where a study left its sweeps (``artifacts/``); without a model they are those of
            an earlier end, and are left out.

    Raises:
        InvalidValue: the summary is of a later version, or lacks a field.
    """
    whole = summary if isinstance(summary, StudySummary) else _summary(summary)
    trials = {trial.id: trial for trial in whole.trials}
    trials |= {record.id: record for record in sorted(records, key=lambda record: record.id)}
    ended = whole.model is not None and folder is not None and folder.is_dir()
    whole = replace(whole, trials=[*trials.values()])
    return View(summary=whole, folder=folder if ended else None)


def _summary(content: Mapping[str, Any]) -> StudySummary:
    newest = StudySummary.version
    if content.get("version", newest) > newest:
        fix = f"this report reads versions up to {newest}; update sentune"
        raise InvalidValue("version of the summary", content["version"], fix)
    try:
        return TypeAdapter(StudySummary).validate_python(dict(content))
    except ValidationError as error:
        first = error.errors()[0]
        given = "" if first["type"] == "missing" else f", not {first['input']!r:.80}"
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}{given}"
        fix = f"it is damaged ({what}); the study's own command writes it again"
        raise InvalidValue("summary", content.get("study"), fix) from error
