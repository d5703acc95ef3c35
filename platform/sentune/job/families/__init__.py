"""Families of methods, each of which reads, probes, trains and exports in its own way."""

from __future__ import annotations

from sentune.job.families.base import JobFamily
from sentune.job.families.closed_form import ClosedFormFamily
from sentune.job.families.sentences import SentenceFamily
from sentune.job.families.trained import TrainedFamily
from sentune.job.options import (
    ClosedFormOptions,
    JobOptions,
    OperationOptions,
    StudyOptions,
    WordOptions,
)
from sentune.study.space.space import SearchSpace

FAMILIES: dict[type[StudyOptions], type[JobFamily]] = {
    ClosedFormOptions: ClosedFormFamily,
    JobOptions: SentenceFamily,
    OperationOptions: TrainedFamily,
    WordOptions: TrainedFamily,
}


def make_job(options: StudyOptions, space: SearchSpace) -> JobFamily:
    """Return a job of the family that the options belong to."""
    return FAMILIES[type(options)](options, space)


__all__ = ["FAMILIES", "JobFamily", "make_job"]
