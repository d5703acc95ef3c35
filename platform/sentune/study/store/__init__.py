"""A study in Optuna's storage: trials, driver lock and read model."""

JOURNAL, DATABASE = "optuna.journal", "optuna.db"
"""Names of a study's journal in its folder, and of the SQLite file of older versions."""
