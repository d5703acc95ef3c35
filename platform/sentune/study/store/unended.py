"""Going through a study's trials without looking twice at those that have ended."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.trial import FrozenTrial


class Unended:
    """The trials of a study that may have changed; one that has ended never does.

    Attributes:
        numbers: of those that had not ended at the last look.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._until = 0

    def look(self, stored: Sequence[FrozenTrial], until: int | None = None) -> list[FrozenTrial]:
        """Those that are new, or had not ended at the last look, by number.

        Args:
            stored: all trials by number.
            until: number before which they are looked at; never less than before.
        """
        end = len(stored) if until is None else until
        numbers = [*self.numbers, *range(self._until, end)]
        self._until = end
        self.numbers = [n for n in numbers if not stored[n].state.is_finished()]
        return [stored[n] for n in numbers]
