"""A model against the rules that need none: sentence length, a bag of words, the larger class."""

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
"""Rules with a value of each metric of a task: ``task/RULE_metric``."""
RULES = ("length", "length_words", "bag_of_words", "majority")
"""Rules that are measured by accuracy."""
ACCURACIES = ("accuracy", "by_similarity", "by_extent")
"""Metrics of one task that the rules are measured by as well; often they are equal."""


SIGNIFICANT = 0.05
"""Largest p of a paired test that tells a model from a rule."""


class RuleVerdict(NamedTuple):
    """Verdict on a model against the best rule; ``beaten`` None: within the error bar, or there is
    none."""

    text: str
    beaten: bool | None


def rules_of(metric: str, baselines: Mapping[str, float]) -> dict[str, float]:
    """Return rule in words -> its value of a metric, the best first."""
    return {words: baselines[name] for words, name in _names(metric, baselines).items()}


def _names(metric: str, baselines: Mapping[str, float]) -> dict[str, str]:
    """Return rule in words -> its name among the baselines, the best first."""
    task, _, last = metric.rpartition("/")
    names = {WORDS[of]: f"{task}/{of}_{last}" for of in MEASURED_ALIKE}
    rules = RULES if last in ACCURACIES else ("always_both",) if last == "f1_both" else ()
    names |= {WORDS[rule]: f"{task}/{rule}" for rule in rules}
    known = {words: name for words, name in names.items() if name in baselines}
    return dict(sorted(known.items(), key=lambda rule: -baselines[rule[1]]))


def of_rule(name: str) -> bool:
    """Return whether a baseline is shown beside a metric of its task, not in a row of its own."""
    last = name.rpartition("/")[2]
    return last in WORDS or last.startswith(tuple(f"{of}_" for of in MEASURED_ALIKE))


def half_interval(error: float | None, freedom: float = math.inf) -> float | None:
    """Return half of the 95 % interval (Student 1908) that goes with a standard error, or of one
    run with a standard deviation, of so many degrees of freedom; None where there is none."""
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
    """Return whether a value is above that of the best rule by more than its error, at 95 %.

    Where the two were compared on the same items, the error is the difference's own, and the
    difference has to be significant, too (p < 0.05). One run without an error and without a
    comparison tells nothing.

    Args:
        value: of the model, a larger one is better.
        error: half of the value's 95 % interval, see ``half_interval``; None: it is not known.
        baselines: ``task/rule`` -> value, on the same corpus.
        part: of the data, ``test`` or ``dev``.
        paired: ``task/rule`` -> fields of the paired test against it.
        error_on: part that the error was measured on.

    Returns:
        None where no rule has this metric.
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
    if abs(value - best) <= bar or (test is not None and test["p"] >= SIGNIFICANT):
        within = f", with {own}" if own else ""
        return RuleVerdict(f"Whether it beats {rule} is open: {found}{within}.", None)
    if error is None and test is None:
        text = f"Whether it beats {rule} is open: {found} (one run, no error bar)."
        return RuleVerdict(text, None)
    beyond = f", by more than {own}" if own else ""
    return RuleVerdict(f"It beats {rule}{beyond}: {found}.", True)


def _paired(metric: str, test: Mapping[str, float]) -> str:
    p = f"p = {test['p']:.2g}" if test["p"] >= 0.001 else "p < 0.001"
    by = measured(metric, test["difference"], test["standard_error"])
    return f"paired: difference {by}, {p}, {test['items']:,.0f} pairs"
