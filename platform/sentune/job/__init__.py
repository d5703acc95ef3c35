"""What a file in ``jobs/`` is made of: options, corpora, the study, the product, the report."""

from sentune.job.command import run
from sentune.job.options import ClosedFormOptions, JobOptions, default_storage

__all__ = ["ClosedFormOptions", "JobOptions", "default_storage", "run"]
