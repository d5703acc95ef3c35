"""What the run of a trial says at its end: what it reached, what it cost, how it ended."""

from __future__ import annotations

from typing import Any

from sentune.records import TrialRecord


def figures_of(trial: TrialRecord) -> dict[str, float]:
    """Metrics at the best milestone, what the trial cost, and by how much constraints are broken.

    ``selected/...`` as ``task/metric``, ``violation/...`` by constraint (0 or less: it holds).
    """
    cost = {
        "examples": float(trial.examples),
        "seconds": trial.seconds,
        "gpu_seconds": trial.gpu_seconds,
        "restarts": float(trial.restarts),
    }
    selected = {f"selected/{name}": value for name, value in trial.metrics.items()}
    broken = {f"violation/{name}": by for name, by in trial.violations.items()}
    return {**selected, **broken, **cost}


def tags_of(trial: TrialRecord) -> dict[str, Any]:
    """State, reason and notes in the summary's own words."""
    tags: dict[str, Any] = {"readout": trial.readouts, "sentune.state": trial.state}
    if trial.reason:
        tags["sentune.reason"] = trial.reason
    if trial.notes:
        tags["sentune.notes"] = "\n".join(trial.notes)
    if trial.violations:
        tags["sentune.feasible"] = trial.feasible
    return tags
