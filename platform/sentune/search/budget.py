"""What a study may use up, counted over all of its starts."""

from __future__ import annotations

from dataclasses import dataclass

from sentune.errors import InvalidValue


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a study; None: no such limit.

    Attributes:
        max_trials: trials of the search that may be started.
        max_hours: wall time in which a driver runs it.
        max_gpu_hours: GPU hours of all trials and finalists.
        no_gain: trials in a row that end without a new best one, after which the search ends.
    """

    max_trials: int | None = None
    max_hours: float | None = None
    max_gpu_hours: float | None = None
    no_gain: int | None = None

    def __post_init__(self) -> None:
        for option, value in (
            ("--max-trials", self.max_trials),
            ("--max-hours", self.max_hours),
            ("--max-gpu-hours", self.max_gpu_hours),
            ("--stop-after-no-gain", self.no_gain),
        ):
            if value is not None and value <= 0:
                raise InvalidValue(option, value, "give more than 0, or leave it out")
