"""Studies: search space, samplers, schedulers, trial store, runner and plan."""

from __future__ import annotations

from typing import Literal, get_args

SchedulerName = Literal["asha", "asha-promotion", "hyperband", "median", "none"]
LauncherName = Literal["auto", "inline", "train"]

SCHEDULERS: tuple[str, ...] = get_args(SchedulerName)
LAUNCHERS: tuple[str, ...] = get_args(LauncherName)

SAMPLERS = ("tpe", "random", "grid", "qmc", "gp", "cmaes", "nsga2", "priorband")
"""Names that ``--sampler`` takes; ``grid:NAME`` is a paper's own grid."""
