"""What a script in ``jobs/`` runs: options, corpora, study, model and report."""

from sentune.job.run import run

__all__ = ["run"]
