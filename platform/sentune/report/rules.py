"""Comparison of a model with baseline rules: sentence length, bag of words, majority class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import scipy

from sentune.formatting import measured

WORDS = {
    "length": "sentence length",
    "length_words": "length in words",
    "bag_of_words": "bag of words",
    "majority": "larger class",
    "always_both": "always both",
    "copy": "copying",
    "word_average": "averaged word vectors",
}
MEASURED_ALIKE = ("copy", "word_average")
"""Rules that are measured by every metric of a task: ``task/RULE_metric``."""
RULES = ("length", "length_words", "bag_of_words", "majority")
"""Rules that are measured by accuracy alone."""
ACCURACIES = ("accuracy", "by_similarity", "by_extent")
"""Accuracies of a task, which are compared with ``RULES``; their values are often equal."""


SIGNIFICANT = 0.05
"""Significance level: a difference is significant if p is below it."""


class RuleVerdict(NamedTuple):
    """Verdict on a model against the best rule; ``beaten`` is None if it is inconclusive."""

    text: str
    beaten: bool | None


def rules_of(metric: str, baselines: Mapping[str, float]) -> dict[str, float]:
    """Return the rules' values of a metric by the rules' names in words, best first."""
    return {words: baselines[name] for words, name in _names(metric, baselines).items()}


def _names(metric: str, baselines: Mapping[str, float]) -> dict[str, str]:
    """Return the rules' keys in ``baselines`` by the rules' names in words, best first."""
    task, _, last = metric.rpartition("/")
    names = {WORDS[of]: f"{task}/{of}_{last}" for of in MEASURED_ALIKE}
    rules = RULES if last in ACCURACIES else ("always_both",) if last == "f1_both" else ()
    names |= {WORDS[rule]: f"{task}/{rule}" for rule in rules}
    known = {words: name for words, name in names.items() if name in baselines}
    return dict(sorted(known.items(), key=lambda rule: -baselines[rule[1]]))


def of_rule(name: str) -> bool:
    """Return whether a baseline metric is a rule's, which has no row of its own in tables."""
    last = name.rpartition("/")[2]
    return last in WORDS or last.startswith(tuple(f"{of}_" for of in MEASURED_ALIKE))


def half_interval(error: float | None, freedom: float = math.inf) -> float | None:
    """Return half the width of the 95 % confidence interval by Student's t (Student 1908).

    Args:
        error: standard error, or standard deviation for the value of a single run; None: unknown.
        freedom: degrees of freedom.
    """
    return None if error is None else error * float(scipy.stats.t.ppf(1 - SIGNIFICANT / 2, freedom))


def verdict_on(
    metric: str,
    value: float,
    error: float | None,
    baselines: Mapping[str, float],
    part: str,
    paired: Mapping[str, Mapping[str, float]] | None = None,
    *,
    error_on: str = "dev",
) -> RuleVerdict | None:
    """Return whether a model beats the best rule by more than the error of its metric.

    With a paired test the error is the standard error of the difference, and the difference must
    also be significant (p < 0.05). Without a paired test and without an error, a higher value is
    inconclusive.

    Args:
        value: the model's metric, larger is better.
        error: half of the 95 % interval of ``value``, see ``half_interval``; None: unknown.
        baselines: ``task/rule`` -> value on the same corpus.
        part: part of the data, ``test`` or ``dev``.
        paired: ``task/rule`` -> fields of the ``PairedTest`` against it.
        error_on: part of the data that ``error`` was measured on.

    Returns:
        None if no rule has this metric.
    """
    rules = _names(metric, baselines)
    if not rules or not math.isfinite(value):
        return None
    name, key = next(iter(rules.items()))
    best, test = baselines[key], (paired or {}).get(key)
    rule = f"{name} ({measured(metric, best)})"
    found, bar = f"{metric} {measured(metric, value)} on {part}", error or 0.0
    where = "" if error_on == part else f" on {error_on}"
    own = f"its 95 % interval of ± {measured(metric, error)}{where}" if error else ""
    if test is not None:
        found, bar, own = f"{found} ({_paired(metric, test)})", test["standard_error"], ""
    if value <= best - bar or value == best:
        return RuleVerdict(f"It does not beat {rule}: {found}.", False)
    alone = error is None and test is None
    if alone or abs(value - best) <= bar or (test is not None and test["p"] >= SIGNIFICANT):
        within = " (one run, no error bar)" if alone else f", with {own}" if own else ""
        text = f"The comparison with {rule} is inconclusive: {found}{within}."
        return RuleVerdict(text, None)
    beyond = f", by more than {own}" if own else ""
    return RuleVerdict(f"It beats {rule}{beyond}: {found}.", True)


def _paired(metric: str, test: Mapping[str, float]) -> str:
    p = f"p = {test['p']:.2g}" if test["p"] >= 0.001 else "p < 0.001"
    by = measured(metric, test["difference"], test["standard_error"])
    return f"paired: difference {by}, {p}, {test['items']:,.0f} pairs"
