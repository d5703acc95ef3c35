"""The summary of a job's study: what is known before its first trial, and what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sentune.credentials import without_credentials
from sentune.job.families.base import JobFamily
from sentune.job.options import StudyOptions
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Plan
from sentune.study.study import StudyOutcome, objectives_of
from sentune.tracking import lineage


def start_summary(
    job: JobFamily, options: StudyOptions, forked_from: str | None = None
) -> StudySummary:
    """What is known of the study before its first trial."""
    return StudySummary(
        study=job.config.name,
        method=job.space.method,
        state="running",
        objective=job.space.objective,
        mode=job.space.mode,
        corpora={role: dict(corpus) for role, corpus in job.corpora().items()},
        space=job.space.to_dict(),
        lineage={**lineage(), "encoder": _made_from(options)},
        objectives=[objective.to_dict() for objective in objectives_of(job.config, job.space)],
        warm_start=list(job.config.warm_start),
        forked_from=forked_from,
    )


def planned(plan: Plan, config: StudyConfig) -> dict[str, Any]:
    """The plan with the limits that there are; what is empty is left out."""
    budget = {name: limit for name, limit in asdict(config.budget).items() if limit is not None}
    told = {**plan.to_dict(), "eta": config.eta, "budget": budget}
    return {name: value for name, value in told.items() if value not in (None, "", {})}


def finish(summary: StudySummary, outcome: StudyOutcome) -> None:
    """Takes over what the search found."""
    summary.state, summary.reason = outcome.state, outcome.reason
    summary.trials, summary.finalists = outcome.trials, outcome.finalists
    summary.winner, summary.front = outcome.winner, outcome.front
    summary.verdict, summary.comparison = outcome.verdict, outcome.comparison
    summary.spent = outcome.spent


def _made_from(options: StudyOptions) -> str:
    """The encoder, or the word vectors, that the method starts from."""
    named = options.model_dump()
    vectors = named.get("vectors", ())
    given = named.get("encoder") or (vectors if isinstance(vectors, str) else " ".join(vectors))
    return str(without_credentials(given))
