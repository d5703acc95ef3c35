"""The names of schedulers and launchers, for options, studies and their errors."""

from __future__ import annotations

from typing import Literal, get_args

SchedulerName = Literal["asha", "hyperband", "median", "none"]
LauncherName = Literal["auto", "inline", "train"]

SCHEDULERS: tuple[str, ...] = get_args(SchedulerName)
LAUNCHERS: tuple[str, ...] = get_args(LauncherName)
