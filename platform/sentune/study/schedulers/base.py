"""What every scheduler answers, from the stored curves alone.

Optuna's own pruners keep state between asking and telling and gave another answer after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sentune.errors import InvalidValue

Curves: TypeAlias = Mapping[int, Mapping[int, float]]
"""Trial number -> examples -> objective."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a rung says of a trial; ``reason`` is empty where it goes on."""

    stop: bool
    reason: str = ""


GOES_ON = Verdict(stop=False)


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """Runs every trial to its end; a subclass stops some at its rungs.

    Attributes:
        max_examples: budget of a full trial; there nothing is compared.
        first_rung: examples at which trials are first compared.
        eta: one trial in ``eta`` goes on at a rung.
        mode: ``max`` or ``min``.
        keep: trials that go on at least, however few have come.

    Raises:
        InvalidValue: no rungs can be made of these; names the option.
    """

    max_examples: int
    first_rung: int = 1
    eta: int = 2
    mode: str = "max"
    keep: int = 1

    def __post_init__(self) -> None:
        if self.eta < 2:
            raise InvalidValue("eta", self.eta, "give 2 or more: one trial in eta goes on")
        if self.max_examples < 1:
            raise InvalidValue("--max-examples", self.max_examples, "give 1 or more")
        if self.first_rung < 1:
            raise InvalidValue("first_rung", self.first_rung, "give 1 or more examples")

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at which trials are compared."""
        return ()

    @property
    def milestones(self) -> tuple[int, ...]:
        """The rungs and the end."""
        return (*self.rungs, self.max_examples)

    @property
    def sign(self) -> float:
        """The factor that makes more of the objective better."""
        return 1.0 if self.mode == "max" else -1.0

    def verdict(self, curves: Curves, trial: int, examples: int) -> Verdict:
        """Return whether a trial goes on past a milestone.

        Only trials of a smaller number are compared, so that one which comes later does not
        change the answer.

        Args:
            curves: trial number -> examples -> objective.
            trial: number of the trial asked about.
            examples: the milestone.
        """
        del curves, trial, examples
        return GOES_ON

    def expected(self, trials: int) -> int:
        """Return the examples of a search if each rung stops the share that it aims at."""
        return trials * self.max_examples


def cascade(trials: int, milestones: Sequence[int], share: int) -> int:
    """Return the examples of a search whose rungs let one in ``share`` go on, at least one."""
    total, reached, left = 0, 0, trials
    for milestone in milestones:
        total += left * (milestone - reached)
        reached, left = milestone, min(left, max(1, left // share))
    return total
