"""The parts of a file in ``jobs/``: options, corpora, the study, the product, the report."""

from sentune.job.options import (
    ClosedFormOptions,
    JobOptions,
    OperationOptions,
    WordOptions,
    default_storage,
)
from sentune.job.run import run

__all__ = [
    "ClosedFormOptions",
    "JobOptions",
    "OperationOptions",
    "WordOptions",
    "default_storage",
    "run",
]
