"""What a study may use up, counted over all of its starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentune.errors import InvalidValue
from sentune.records import FinalistRecord, Spent, TrialRecord, TrialState
from sentune.study.space.objectives import Objective


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

    def exhausted(self, spent: Spent, reserve: Spent) -> str:
        """Return which limit is used up, in a sentence; empty while there is room.

        Args:
            spent: so far.
            reserve: what is kept free for the runs that are still to come (the finals).
        """
        gpu = ("--max-gpu-hours", "GPU hours", self.max_gpu_hours)
        for (option, unit, most), used, kept in (
            (("--max-trials", "trials", self.max_trials), spent.trials, 0.0),
            (("--max-hours", "hours", self.max_hours), spent.hours, reserve.hours),
            (gpu, spent.gpu_hours, reserve.gpu_hours),
        ):
            if most is not None and used + kept >= most:
                free = f", {round(kept, 2):g} are kept for the finals" if kept else ""
                return f"{option} {most:g} is used up: {round(used, 2):g} {unit} so far{free}"
        return ""

    def no_gain_in(self, records: Sequence[TrialRecord], *objectives: Objective) -> str:
        """Return why more trials are not worth it, in a sentence; empty while they may be.

        Trials are taken in the order of their numbers. Those that still run or have failed say
        nothing about the search and are not counted. With several objectives a trial is a gain
        where none before it is at least as good in all of them.
        """
        best: list[tuple[float, ...]] = []
        without = 0
        for record in records if self.no_gain is not None else ():
            if record.state in (TrialState.RUNNING, TrialState.FAILED):
                continue
            without += 1
            if record.state is TrialState.COMPLETE and record.feasible:
                point = tuple(objective.of(record.metrics) for objective in objectives)
                if not any(_covers(known, point) for known in best):
                    best = [known for known in best if not _covers(point, known)] + [point]
                    without = 0
        if self.no_gain is None or without < self.no_gain:
            return ""
        told = f"{without} trials in a row found nothing better"
        return f"--stop-after-no-gain {self.no_gain}: {told}"


def _covers(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether one point is at least as good as the other in every objective."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def expected_finals(
    records: Sequence[TrialRecord], runs: int, max_examples: int, concurrent: int
) -> Spent:
    """Return what the finals will use up, by the seconds that complete trials took per example.

    Args:
        records: of the search.
        runs: of the finals.
        max_examples: of each.
        concurrent: runs at a time.

    Returns:
        Nothing as long as no trial has seen an example. Before the first
        complete trial, what the others took.
    """
    seen = [r for r in records if r.examples]
    known = [r for r in seen if r.state is TrialState.COMPLETE] or seen
    if not known:
        return Spent()
    examples = sum(r.examples for r in known)
    each = sum(r.seconds for r in known) / examples * max_examples
    gpu_each = sum(r.gpu_seconds for r in known) / examples * max_examples
    rounds = -(-runs // max(1, concurrent))
    return Spent(
        examples=runs * max_examples, hours=rounds * each / 3600, gpu_hours=runs * gpu_each / 3600
    )


def spent_of(
    records: Sequence[TrialRecord],
    finalists: Sequence[FinalistRecord],
    max_examples: int,
    hours: float,
) -> Spent:
    """Return what a study has used up, from what is stored and the hours of its drivers.

    What was taken over from other studies has been paid for there.
    """
    records = [record for record in records if not record.source]
    runs = sum(len(finalist.seeds) for finalist in finalists)
    gpu = sum(r.gpu_seconds for r in records) + sum(f.gpu_seconds for f in finalists)
    return Spent(
        trials=len(records),
        examples=sum(r.examples - r.begun_at for r in records) + runs * max_examples,
        hours=hours,
        gpu_hours=gpu / 3600,
    )
