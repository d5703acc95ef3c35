"""``View``: a study's summary and trials with the quantities that reports derive from them."""

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
"""Suffix of a metric's standard error over the pairs of its task."""

WITHOUT_RESULT = (TrialState.FAILED, TrialState.INFEASIBLE)

FATES = {
    TrialState.PRUNED: "stopped",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    **dict.fromkeys(WITHOUT_RESULT, "lost"),
}
"""State of a trial that did not reach a rung -> its key in ``View.rung_counts``."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A study's summary with derived quantities for reports.

    Attributes:
        summary: the summary; its trials have their curves, if known.
        folder: artifacts of a finished study, or None.
    """

    summary: StudySummary
    folder: Path | None = None

    @property
    def objectives(self) -> list[tuple[str, str]]:
        """Return metric and mode of each objective."""
        summary = self.summary
        listed = [(o["metric"], o["mode"]) for o in summary.objectives]
        return listed or [(summary.objective, summary.mode)]

    @property
    def alive(self) -> bool:
        """Return whether a process drives the study."""
        return self.summary.state == "running"

    def word(self, state: TrialState) -> str:
        """Return the word for a trial's state: ``unfinished`` if it runs but its study does not."""
        left = state is TrialState.RUNNING and not self.alive
        return "unfinished" if left else STATES[state]

    @cached_property
    def trials(self) -> list[TrialRecord]:
        """Return the trials by number, each resumed one only once; see ``with_ends``."""
        return with_ends(self.summary.trials)

    @cached_property
    def ranked(self) -> list[TrialRecord]:
        """Return the trials by objective, the best first.

        Trials evaluated on a part of dev come after the others, trials without a value last.
        """
        sign = 1.0 if self.summary.mode == "min" else -1.0

        def rank(trial: TrialRecord) -> tuple[bool, bool, float, int]:
            value = self.value(trial)
            return value is None, trial.on_part, sign * (value or 0.0), trial.id

        return sorted(self.trials, key=rank)

    def value(self, trial: TrialRecord, metric: str | None = None) -> float | None:
        """Return a trial's value of a metric (default: the objective); None if it is not finite."""
        found = trial.metrics.get(metric or self.summary.objective)
        return found if found is not None and math.isfinite(found) else None

    @cached_property
    def best(self) -> TrialRecord | None:
        """Return the best trial.

        In order of preference: the trial that was shipped without finals, the best complete
        feasible trial, the best complete trial, the best trial.
        """
        scored = [trial for trial in self.ranked if self.value(trial) is not None]
        complete = [trial for trial in scored if trial.state is TrialState.COMPLETE]
        shipped = [t for t in complete if t.id == self.summary.best and self.winner is None]
        feasible = (trial for trial in complete if trial.feasible)
        return next(iter([*shipped, *feasible, *complete, *scored]), None)

    @property
    def winner(self) -> FinalistRecord | None:
        """Return the winning finalist; None before the finals have ended."""
        at = self.summary.winner
        return self.summary.finalists[at] if at is not None else None

    @cached_property
    def measured(self) -> dict[str, Spread]:
        """Return metric -> values on dev of the winner over seeds, or of the best trial."""
        if self.winner is not None:
            return self.winner.metrics
        metrics = self.best.metrics if self.best is not None else {}
        return {name: Spread(mean=value, sd=0.0, values=[value]) for name, value in metrics.items()}

    @property
    def judged_on(self) -> str:
        """Return the part of the data of the last evaluation: ``test`` or ``dev``."""
        return "test" if self.summary.test else "dev"

    @property
    def on_test(self) -> dict[str, float]:
        """Return metrics of the shipped model and of baseline rules on test; empty before test."""
        return {**self.summary.baselines, **self.summary.test} if self.summary.test else {}

    def error(self, metric: str) -> float | None:
        """Return a metric's standard error over pairs on dev, or None."""
        found = self.measured.get(metric + ERROR)
        return found.mean if found is not None else None

    def test_error(self, metric: str) -> float | None:
        """Return a metric's standard error over pairs on test, or None."""
        return self.summary.test.get(metric + ERROR)

    @property
    def test_kind(self) -> str:
        """Return a heading for metrics on test that says what ± is, if there is any."""
        pairs = any(name.endswith(ERROR) for name in self.summary.test)
        return f"shipped model{', ± se over pairs' if pairs else ''}"

    @property
    def error_kind(self) -> str:
        """Return a heading for metrics on dev that says what ± is."""
        if self.winner is not None and len(self.winner.seeds) > 1:
            return "± sd over seeds"
        pairs = any(name.endswith(ERROR) for name in self.measured)
        return "± se over pairs" if pairs else "one run"

    def on_dev(self, metric: str) -> str:
        """Return a metric of the winner on dev with its error, as text; empty without a value."""
        over, sign = self.measured.get(metric), ON_PART if PART in self.measured else ""
        return sign + spread(metric, over, self.error(metric)) if over is not None else ""

    @cached_property
    def metric_groups(self) -> list[tuple[list[str], str, str]]:
        """Return rows of metric names, the winner on dev and the shipped model on test, as text.

        Costs, standard errors and metrics of subsets are left out. Equal accuracies of a task
        share a row.
        """
        rules, test = self.summary.baselines, self.summary.test
        own = {name for name in rules if not of_rule(name)}
        # a study without a model has no baselines yet, though its tasks measure some of them
        left_out = rules or {name for name in self.measured if of_rule(name)}
        dev = {n for n in self.measured if n not in left_out and not n.startswith("train/")}
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
        """Return rows of names, the winner on dev, the shipped model on test, and baseline rules.

        All are texts.
        """
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
        """Return the verdict on the winner against the best rule, on test if it was evaluated."""
        summary, objective = self.summary, self.summary.objective
        over = self.measured.get(objective)
        if over is None or summary.mode != "max" or summary.model is None:
            return None
        runs, on_test = len(over.values), objective in summary.test
        if runs > 1:  # the model that is shipped, and measured on test, is one of these runs
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
        """Return the number of metrics of subsets, which reports leave out."""
        return sum(map(of_subset, {*self.measured, *self.summary.test}))

    @cached_property
    def axes(self) -> list[Axis]:
        """Return the axes of the settings that took several values, in the order of the space."""
        return axes_of(self.summary)

    @property
    def varied(self) -> list[str]:
        """Return the names of the settings that took several values."""
        return [axis.name for axis in self.axes]

    @cached_property
    def importance(self) -> Importance | None:
        """Return the settings' importance for the objective, or None if it cannot be computed."""
        return importance(replace(self.summary, trials=self.trials))

    @property
    def max_examples(self) -> int:
        """Return the budget of a full trial in examples; if unknown, that of the longest trial."""
        told = self.summary.plan.get("max_examples")
        return int(told) if told else max((t.examples for t in self.trials), default=0)

    @property
    def rungs(self) -> list[int]:
        """Return the examples at which trials are compared, sorted."""
        return sorted(int(rung) for rung in self.summary.plan.get("rungs") or ())

    @cached_property
    def rung_counts(self) -> dict[int, Counter[str]]:
        """Return rung or end, in examples -> number of trials by outcome.

        The outcomes are ``reached``, for those that did not reach it ``stopped``, ``lost``,
        ``running`` or ``complete``, and ``judged`` for those that were stopped at it. The reach of
        a trial is its last milestone or, without a curve, the examples that it saw.
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
        """Return the study's encoder or word vectors; empty if unknown."""
        summary = self.summary
        named = summary.lineage.get("encoder") or summary.plan.get("encoder")
        return str(named or summary.space.get("fixed", {}).get("vectors", ""))

    @property
    def decoder(self) -> str:
        """Return the study's decoder; empty if it has none or it is unknown."""
        return str(self.summary.lineage.get("decoder", ""))

    def count(self, *states: TrialState) -> int:
        """Return the number of trials in any of these states."""
        return sum(trial.state in states for trial in self.trials)


def of_subset(name: str) -> bool:
    """Return whether a metric is of a subset of a task, as ``sts12/MSRpar/pearson`` is."""
    return name.count("/") > 1


def view(
    summary: StudySummary | Mapping[str, Any],
    records: Sequence[TrialRecord] = (),
    folder: Path | None = None,
) -> View:
    """Return the view of a summary, with the trials' records from the store.

    Args:
        summary: a summary or the content of ``summary.json``.
        records: trials with their curves; they replace those of the summary.
        folder: the study's ``artifacts/``, ignored unless the study has a model, because they
            would be those of an earlier end.

    Raises:
        InvalidValue: the summary is of a later version or lacks a field.
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
        fix = f"it is damaged ({what}); run the study's command again to rewrite it"
        raise InvalidValue("summary", content.get("study"), fix) from error
