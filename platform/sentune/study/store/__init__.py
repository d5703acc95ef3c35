"""A study in Optuna's storage: trials, driver lock and read model."""

JOURNAL, DATABASE = "optuna.journal", "optuna.db"
"""Files of a study's trials, in its folder; the second as older versions made it."""
