"""The names that options, studies and their errors choose from, each list once."""

from __future__ import annotations

from typing import Literal, get_args

SamplerName = Literal["tpe", "random", "grid", "qmc", "gp", "cmaes", "nsga2"]
SchedulerName = Literal["asha", "hyperband", "median", "none"]
LauncherName = Literal["auto", "inline", "train"]

SAMPLERS: tuple[str, ...] = get_args(SamplerName)
SCHEDULERS: tuple[str, ...] = get_args(SchedulerName)
LAUNCHERS: tuple[str, ...] = get_args(LauncherName)
