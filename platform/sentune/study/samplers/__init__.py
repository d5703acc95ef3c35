"""Samplers of trial settings."""

SAMPLERS = ("tpe", "random", "grid", "qmc", "gp", "cmaes", "nsga2")
"""Names that ``--sampler`` takes; ``grid:NAME`` is a paper's own grid."""
