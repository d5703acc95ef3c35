"""Reproduction of the papers' tables and figures: studies, evaluations and comparisons."""
