"""Runs the trials and finals of a study under Ray Tune."""
