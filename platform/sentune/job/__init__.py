"""The parts of a file in ``jobs/``: options, corpora, the study, the product, the report."""

from sentune.job.run import run

__all__ = ["run"]
