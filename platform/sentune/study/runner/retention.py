"""Which checkpoints stay on disk, over a whole study.

Checkpoints of trials that do not go on fill disks (ray#4381, ray#30506). What a trial said
is in the store, so a stopped trial's weights are of no use.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from sentune.io.atomic import read_document, write_document
from sentune.records import TrialRecord, TrialState
from sentune.study.config import StudyConfig
from sentune.study.space.objectives import Objective, feasible, pareto_front
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import CheckpointStore

logger = logging.getLogger(__name__)

PUBLISHED = "published.json"
MANY = 20
"""Runs that are due at once, from which on their folders are listed first."""

PER_RUN = 5
"""Checkpoints of a run at work: best, newest, newest of a milestone, a damaged one, and the one
that is being written."""


class Stays(StrEnum):
    """What stays of a run."""

    ALL = "all"
    BEST = "best"
    NOTHING = "nothing"


class Search(Protocol):
    """A store as retention sees it."""

    @property
    def objectives(self) -> Sequence[Objective]:
        """By which trials are compared."""

    def records(self) -> list[TrialRecord]:
        """Return all trials, as the store has them."""


class FinalRuns(Protocol):
    """The finals as retention sees them."""

    def runs(self) -> dict[str, TrialRecord]:
        """Name -> run, all that are stored."""

    def winning_run(self) -> str | None:
        """Return the name of the run whose model is shipped, as things stand."""


def ranked(trials: Sequence[TrialRecord], objectives: Sequence[Objective]) -> list[TrialRecord]:
    """Return trials that may win, best first, the earlier first among equals.

    They are complete and hold every constraint; with several objectives they are on the front.
    """
    if len(objectives) > 1:
        return pareto_front(trials, objectives)
    return sorted(feasible(trials), key=lambda t: (-objectives[0].of(t.metrics), t.id))


def bytes_bound(
    checkpoint_bytes: int, *, concurrent: int, keep: int, finals: int = 0, needed: int = 0
) -> int:
    """Return bytes of checkpoints that a study never exceeds.

    Args:
        checkpoint_bytes: of the largest one.
        concurrent: runs at a time, the most of all starts.
        keep: best trials whose checkpoints stay.
        finals: runs of the finals.
        needed: runs that a scheduler may want to go on from.
    """
    at_work, published = PER_RUN * concurrent, 1
    return checkpoint_bytes * (at_work + keep + finals + published + PER_RUN * needed)


class Retention:
    """Drops what is not needed; safe to call at any time, and after a kill.

    Args:
        config: how many to keep, and where.
        search: all trials.
        needed: names of runs whose checkpoints other runs may still go on from.

    Attributes:
        finals: None until they have begun; before, their runs are left alone.
    """

    def __init__(
        self, config: StudyConfig, search: Search, needed: Callable[[], set[str]] = set
    ) -> None:
        self.config, self.search, self.needed = config, search, needed
        self.finals: FinalRuns | None = None
        self._applied: dict[str, Stays] = {}
        self._dropped: set[int] = set()
        self._published: tuple[str | None] | None = None

    def apply(self, *, everything: bool = False) -> None:
        """Drop what the rule does not keep.

        Args:
            everything: also look again at runs that were tidied before, and at what is published;
                to be called so after a model was.
        """
        if everything:
            self._applied.clear()
            self._dropped.clear()
            self._published = None
        rule = self.rule()
        due = {
            name: stays
            for name, stays in rule.items()
            if stays is not Stays.ALL and self._applied.get(name) is not stays
        }
        if len(due) > MANY:  # a start of a long study, most of whose runs have left nothing
            there = set(storage_of(self.config.runs_folder).entries())
            self._applied |= {name: stays for name, stays in due.items() if name not in there}
            due = {name: stays for name, stays in due.items() if name in there}
        for name, stays in due.items():
            self._tidy(name, stays)
        dropped = (name for name in rule if self._applied.get(name) is Stays.NOTHING)
        self._dropped |= {int(name) for name in dropped if name.isdecimal()}  # no finalists

    def rule(self) -> dict[str, Stays]:
        """Run -> what stays of it. A run that is not named is not touched.

        Trials whose checkpoints were dropped are left out: those that were better then still are.
        """
        trials = [t for t in self.search.records() if t.id not in self._dropped]
        best = {t.id for t in ranked(trials, self.search.objectives)[: self.config.keep]}
        rule = {f"{t.id:04d}": _of_trial(t, best) for t in trials}
        rule |= self._of_finals() | self._shipped()
        return rule | dict.fromkeys(self.needed(), Stays.ALL)

    def _of_finals(self) -> dict[str, Stays]:
        """Return all runs' best until the winner is published, then the winner's alone."""
        if self.finals is None:
            return {}
        winner = self.finals.winning_run()
        over = winner is not None and self._run_published() == winner
        return {
            name: _of_run(run, keep=not over or name == winner)
            for name, run in self.finals.runs().items()
        }

    def _shipped(self) -> dict[str, Stays]:
        """Of the model that stands in the study's folder, whatever else has won since."""
        run = self._run_published()
        return {run: Stays.BEST} if run is not None else {}

    def _run_published(self) -> str | None:
        """As of the last look at everything: nothing is published while runs are at work."""
        if self._published is None:
            self._published = (published(self.config.folder),)
        return self._published[0]

    def _tidy(self, name: str, stays: Stays) -> None:
        store = CheckpointStore(self.config.directory(name))
        try:
            if stays is Stays.BEST:
                store.keep_best_only()
            else:
                store.drop_all()
        except OSError as error:  # a busy file system: no reason to end a study, tried again
            logger.warning("%s: its checkpoints could not be dropped: %s", name, error)
        else:
            self._applied[name] = stays


def note_published(folder: str, run: str) -> None:
    """Note from which run the model in the study's folder came."""
    write_document(folder, PUBLISHED, json.dumps({"run": run}) + "\n")


def published(folder: str) -> str | None:
    """Return the run that the model in the study's folder came from."""
    text = read_document(folder, PUBLISHED)
    return str(json.loads(text)["run"]) if text is not None else None


def _of_trial(trial: TrialRecord, best: set[int]) -> Stays:
    if trial.state is TrialState.RUNNING:
        return Stays.ALL
    return Stays.BEST if trial.id in best else Stays.NOTHING


def _of_run(run: TrialRecord, *, keep: bool) -> Stays:
    if run.state is TrialState.RUNNING:
        return Stays.ALL
    return Stays.BEST if run.state is TrialState.COMPLETE and keep else Stays.NOTHING
