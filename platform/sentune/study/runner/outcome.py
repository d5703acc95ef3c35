"""What a study found, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sentune.records import FinalistRecord, Spent, TrialRecord, TrialState
from sentune.study.runner.budget import spent_of
from sentune.study.runner.finals import Finals
from sentune.study.runner.limits import Limits, Why
from sentune.study.space.objectives import pareto_front
from sentune.study.store.trial_store import TrialStore

STATES = {
    Why.BUDGET: "stopped",
    Why.ASKED: "stopped",
    Why.INTERRUPTED: "interrupted",
    Why.FAILURES: "failed",
    Why.STORAGE: "failed",
}


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """What a study found.

    Attributes:
        state: ``complete``, ``stopped`` (by a budget or on request, before the finals were
            through), ``interrupted`` (the same command resumes these two) or ``failed`` (too many
            trials failed, or no trial, or no run of the finals, came to its end).
        trials: all of them, by number.
        finalists: best by mean first.
        winner: index into ``finalists``; None without finalists.
        best_checkpoint: local folder of the checkpoint to ship: of the winner's best seed on dev,
            or, without finalists, of the best trial.
        reason: why it ended before all was done.
        spent: over all starts.
        front: trials that no other one beats in every objective.
        verdict, comparison: of winner and runner-up.
    """

    state: str
    trials: list[TrialRecord]
    finalists: list[FinalistRecord] = field(default_factory=list)
    winner: int | None = None
    best_checkpoint: str | None = None
    reason: str = ""
    spent: Spent = field(default_factory=Spent)
    front: list[int] = field(default_factory=list)
    verdict: str = ""
    comparison: dict[str, Any] = field(default_factory=dict)


def outcome_of(store: TrialStore, limits: Limits, finals: Finals | None = None) -> StudyOutcome:
    """Return the outcome from the store.

    Args:
        store: of the search.
        limits: which may have ended the study.
        finals: None where they did not come to their end.
    """
    trials = store.records()
    records = finals.records() if finals is not None else []
    state, reason = _state(trials, limits, finals, records)
    comparison = finals.comparison() if finals is not None else None
    front = pareto_front(trials, store.objectives) if len(store.objectives) > 1 else []
    return StudyOutcome(
        state=state,
        trials=trials,
        finalists=records,
        winner=0 if records else None,
        best_checkpoint=finals.best_checkpoint() if finals is not None else None,
        reason=reason,
        spent=spent_of(trials, records, store.budget, limits.spent().hours),
        front=[trial.id for trial in front],
        verdict=comparison.verdict if comparison is not None else "",
        comparison=comparison.to_dict() if comparison is not None else {},
    )


def _state(
    trials: list[TrialRecord],
    limits: Limits,
    finals: Finals | None,
    records: list[FinalistRecord],
) -> tuple[str, str]:
    if finals is None:
        halt = limits.halt
        return (STATES[halt.why], halt.reason) if halt is not None else ("interrupted", "")
    if records or (finals.best_trials() and not finals.config.finalists):
        return "complete", limits.ended_early
    if not any(trial.state is TrialState.COMPLETE for trial in trials):
        reasons = sorted({trial.reason for trial in trials if trial.reason})
        return "failed", f"no trial came to its end: {'; '.join(reasons) or 'no reason given'}"
    if not finals.best_trials():
        return "failed", "no trial that came to its end holds every constraint"
    return "failed", "no finalist came to its end; the same command tries them again"
