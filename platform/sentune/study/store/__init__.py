"""A study in Optuna's storage: trials, driver lock and read model."""
