"""How far a study is, reckoned on from trial to trial: it may have ten thousand of them."""

from __future__ import annotations

from sentune.records import TrialRecord, TrialState


class Tally:
    """The trials of a study as they were last told.

    Attributes:
        trials: number -> trial.
        own: how many of them this study plans; it has others from another one.
        ended: how many of those are over.
    """

    def __init__(self) -> None:
        self.trials: dict[int, TrialRecord] = {}
        self.own = self.ended = 0
        self._examples = 0
        self._running: set[int] = set()
        self._best: tuple[float, int] | None = None

    def take(self, trial: TrialRecord, score: float | None) -> None:
        """What is told of a trial.

        Args:
            trial: in the place of what was told before.
            score: higher is better; None where it has none.
        """
        self._count(self.trials.get(trial.id), -1)
        self._count(trial, 1)
        self.trials[trial.id] = trial
        if trial.state is TrialState.RUNNING:
            self._running.add(trial.id)
        else:
            self._running.discard(trial.id)
        if score is not None:
            self._best = max(self._best or (score, -trial.id), (score, -trial.id))

    def _count(self, trial: TrialRecord | None, by: int) -> None:
        if trial is None or trial.source:
            return
        self.own += by
        if trial.state is not TrialState.RUNNING:
            self.ended += by
            self._examples += by * trial.examples

    @property
    def best(self) -> TrialRecord | None:
        """The trial with the highest score so far, the first of equals."""
        return self.trials[-self._best[1]] if self._best is not None else None

    @property
    def running(self) -> list[int]:
        """Numbers of those that are at work."""
        return list(self._running)

    def usual(self, full: int) -> float:
        """Examples of an ended trial in the mean; of a full one while none has ended."""
        return self._examples / self.ended if self.ended else full
