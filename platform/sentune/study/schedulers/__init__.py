"""Which rungs stop trials, by name."""

from __future__ import annotations

from sentune.errors import InvalidValue
from sentune.study import SCHEDULERS
from sentune.study.schedulers.base import GOES_ON, Scheduler, Verdict
from sentune.study.schedulers.halving import Halving, Hyperband, default_first_rung
from sentune.study.schedulers.median import MedianStopping

__all__ = [
    "GOES_ON",
    "SCHEDULERS",
    "Halving",
    "Hyperband",
    "MedianStopping",
    "Scheduler",
    "Verdict",
    "default_first_rung",
    "make_scheduler",
]


def make_scheduler(
    name: str, *, first_rung: int, eta: int, max_examples: int, mode: str, keep: int
) -> Scheduler:
    """Return the scheduler of a search; see ``Scheduler`` for the numbers.

    Args:
        name: ``asha``, ``hyperband``, ``median`` or ``none``; ``eta`` is for the first two, and
            ``first_rung`` for ``median`` the step from one rung to the next.

    Raises:
        InvalidValue: an unknown name, or numbers that make no rungs.
    """
    if name == "none":
        return Scheduler(max_examples=max_examples)
    if name == "median":
        return MedianStopping(
            first_rung=first_rung, max_examples=max_examples, mode=mode, keep=keep
        )
    kinds: dict[str, type[Scheduler]] = {"asha": Halving, "hyperband": Hyperband}
    if name not in kinds:
        raise InvalidValue("--scheduler", name, f"give one of {', '.join(SCHEDULERS)}")
    return kinds[name](
        first_rung=first_rung, eta=eta, max_examples=max_examples, mode=mode, keep=keep
    )
