"""Which rungs stop trials, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sentune.errors import InvalidValue
from sentune.study import SCHEDULERS
from sentune.study.schedulers.base import GOES_ON, Curves, Scheduler, Verdict, check_rungs
from sentune.study.schedulers.halving import Halving, Hyperband, default_first_rung
from sentune.study.schedulers.median import MedianStopping

__all__ = [
    "GOES_ON",
    "SCHEDULERS",
    "Curves",
    "Halving",
    "Hyperband",
    "MedianStopping",
    "NoRungs",
    "Scheduler",
    "Verdict",
    "default_first_rung",
    "make_scheduler",
]


@dataclass(frozen=True, kw_only=True)
class NoRungs:
    """Every trial runs to its end, ``max_examples``."""

    max_examples: int

    def __post_init__(self) -> None:
        check_rungs(1, 2, self.max_examples)

    @property
    def rungs(self) -> tuple[int, ...]:
        """None."""
        return ()

    @property
    def milestones(self) -> tuple[int, ...]:
        """The end."""
        return (self.max_examples,)

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """It goes on."""
        del curves, trial, examples
        return GOES_ON

    def expected(self, trials: int) -> int:
        """Return the examples of all trials, whole."""
        return trials * self.max_examples


def make_scheduler(
    name: str, *, first_rung: int, eta: int, max_examples: int, mode: str, keep: int
) -> Scheduler:
    """Return the scheduler of a search.

    Args:
        name: ``asha``, ``hyperband``, ``median`` or ``none``.
        first_rung: examples at which trials are first compared; for ``median`` from one rung to
            the next.
        eta: one trial in ``eta`` goes on at a rung; not used by ``median``.
        max_examples: budget of a full trial.
        mode: ``max`` or ``min``.
        keep: trials that go on at least.

    Raises:
        InvalidValue: an unknown name, or numbers that make no rungs.
    """
    make: dict[str, Callable[[], Scheduler]] = {
        "asha": lambda: Halving(
            first_rung=first_rung, eta=eta, max_examples=max_examples, mode=mode, keep=keep
        ),
        "hyperband": lambda: Hyperband(
            first_rung=first_rung, eta=eta, max_examples=max_examples, mode=mode, keep=keep
        ),
        "median": lambda: MedianStopping(
            first_rung=first_rung, max_examples=max_examples, mode=mode, keep=keep
        ),
        "none": lambda: NoRungs(max_examples=max_examples),
    }
    if name not in make:
        raise InvalidValue("--scheduler", name, f"give one of {', '.join(SCHEDULERS)}")
    return make[name]()
