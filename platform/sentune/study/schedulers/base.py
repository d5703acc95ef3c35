"""What every scheduler answers, from the stored curves alone.

Optuna's own pruners keep state between asking and telling and gave another answer after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sentune.errors import InvalidValue

Curves: TypeAlias = Mapping[int, Mapping[int, float]]
"""Trial number -> examples -> objective."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a rung says of a trial; ``reason`` is empty where it goes on."""

    stop: bool
    reason: str = ""


GOES_ON = Verdict(stop=False)


class Scheduler(Protocol):
    """Says at rungs, in examples seen, whether a trial goes on."""

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared."""

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs and the end."""

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """Return whether a trial goes on past a milestone.

        Only trials of a smaller number are compared, so that one which comes later does not
        change the answer.

        Args:
            curves: trial number -> examples -> objective.
            trial: number of the trial asked about.
            examples: the milestone.
        """

    def expected(self, trials: int) -> int:
        """Examples of a search of so many trials, if each rung stops the share that it aims at."""


def check_rungs(first_rung: int, eta: int, max_examples: int) -> None:
    """Whether rungs can be made of these.

    Raises:
        InvalidValue: naming the option.
    """
    if eta < 2:
        raise InvalidValue("eta", eta, "give 2 or more: one trial in eta goes on")
    if max_examples < 1:
        raise InvalidValue("--max-examples", max_examples, "give 1 or more")
    if first_rung < 1:
        raise InvalidValue("first_rung", first_rung, "give 1 or more examples")


@dataclass(frozen=True, kw_only=True)
class GeometricRungs:
    """Rungs in examples seen, each ``eta`` times as far as the one before.

    Attributes:
        first_rung: examples at which trials are first compared.
        eta: one trial in ``eta`` goes on at a rung.
        max_examples: budget of a full trial; there nothing is compared.
        mode: ``max`` or ``min``.
        keep: trials that go on at least, however few have come.
    """

    first_rung: int
    eta: int
    max_examples: int
    mode: str = "max"
    keep: int = 1

    def __post_init__(self) -> None:
        check_rungs(self.first_rung, self.eta, self.max_examples)

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared; none where the first rung is the whole budget."""
        found, rung = [], self.first_rung
        while rung < self.max_examples:
            found.append(rung)
            rung *= self.eta
        return tuple(found)

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs and the end."""
        return (*self.rungs, self.max_examples)


def cascade(trials: int, milestones: Sequence[int], share: int) -> int:
    """Examples of a search in which each rung lets one trial in ``share`` go on, at least one."""
    total, reached, left = 0, 0, trials
    for milestone in milestones:
        total += left * (milestone - reached)
        reached, left = milestone, min(left, max(1, left // share))
    return total
