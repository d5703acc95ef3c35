"""A model against the rules that need none: sentence length, a bag of words, the larger class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from sentune.formatting import measured

WORDS = {
    "length": "sentence length",
    "length_words": "length in words",
    "bag_of_words": "bag of words",
    "majority": "larger class",
    "always_both": "always both",
    "copy": "copying",
}
RULES = ("length", "length_words", "bag_of_words", "majority")
"""Rules that are measured by accuracy."""
ACCURACIES = ("accuracy", "by_similarity", "by_extent")
"""Metrics of one task that the rules are measured by as well; often they are equal."""


class RuleVerdict(NamedTuple):
    """Whether a model beats the best rule; ``beaten`` None: within the error bar."""

    text: str
    beaten: bool | None


def rules_of(metric: str, baselines: Mapping[str, float]) -> dict[str, float]:
    """Return rule in words -> its value of a metric, the best first."""
    task, _, name = metric.rpartition("/")
    found = {}
    if (copied := f"{task}/copy_{name}") in baselines:
        found[WORDS["copy"]] = baselines[copied]
    rules = RULES if name in ACCURACIES else ("always_both",) if name == "f1_both" else ()
    found |= {WORDS[r]: baselines[f"{task}/{r}"] for r in rules if f"{task}/{r}" in baselines}
    return dict(sorted(found.items(), key=lambda rule: -rule[1]))


def of_rule(name: str) -> bool:
    """Return whether a baseline is shown beside a metric of its task, not in a row of its own."""
    last = name.rpartition("/")[2]
    return last in WORDS or last.startswith("copy_")


def verdict_on(
    metric: str,
    value: float,
    error: float | None,
    baselines: Mapping[str, float],
    part: str,
) -> RuleVerdict | None:
    """Return whether a value is above that of the best rule by more than its error.

    Args:
        value: of the model, a larger one is better.
        error: standard deviation over seeds or standard error over pairs; None: it is not known.
        baselines: ``task/rule`` -> value, on the same corpus.
        part: of the data, ``test`` or ``dev``.

    Returns:
        None where no rule has this metric.
    """
    rules = rules_of(metric, baselines)
    if not rules or not math.isfinite(value):
        return None
    name, best = next(iter(rules.items()))
    rule = f"{name} ({measured(metric, best)})"
    ours, bar = measured(metric, value), error or 0.0
    if value <= best - bar or value == best:
        return RuleVerdict(f"It does not beat {rule}: {metric} {ours} on {part}.", False)
    if abs(value - best) <= bar:
        text = f"It is not told from {rule}: {metric} {measured(metric, value, error)} on {part}."
        return RuleVerdict(text, None)
    beyond = f", by more than its error of {measured(metric, error)}" if error else ""
    return RuleVerdict(f"It beats {rule}{beyond}: {metric} {ours} on {part}.", True)
