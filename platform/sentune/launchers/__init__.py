"""Launchers of training runs: in the Tune trial's own process, or on a Ray Train group."""
