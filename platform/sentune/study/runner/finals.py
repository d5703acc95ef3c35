"""Finals of a study: the best trials are trained again with fresh seeds.

Results of these methods vary by about two points across seeds, more than most published
differences, so the trial that won the search may owe it to its seed. Finalists never use the
search's seed, and the winner has the best mean on dev of those that meet the constraints. The
shipped model is the winner's best seed on dev; reported are mean and standard deviation over all of
its seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np
import optuna
import scipy
from optuna.trial import TrialState as Stored

from sentune.errors import DamagedFile
from sentune.formatting import is_share, measured
from sentune.records import FinalistRecord, TrialRecord, measured_by
from sentune.study.config import StudyConfig
from sentune.study.runner.trial_source import FinalsSource, running_of, settle_orphans
from sentune.study.schedulers import NO_RUNGS
from sentune.study.space.objectives import Objective, broken, ranked, ranked_finalists
from sentune.study.store.trial_codec import MEMBER, SEED, identity, name_of, run_name
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoints import CheckpointStore

logger = logging.getLogger(__name__)

LEVEL = 0.95
SAME = 1e-12
"""Largest difference between two values that counts as rounding."""

_OPEN: list[CheckpointStore] = []
"""Stores of the shipped checkpoints: a downloaded checkpoint is deleted with its store."""


class Finals:
    """Finals of a study: their runs, in an Optuna study of their own, and the winner."""

    def __init__(self, *, study: optuna.Study, store: TrialStore, config: StudyConfig) -> None:
        self.search, self.config = store, config
        self.store = replace(store, study=study, scheduler=NO_RUNGS, constraints=())
        settle_orphans(self.store)
        wanted = [(trial, seed) for trial in self._chosen() for seed in self.seeds()]
        known = {(trial.id, seed) for trial, seed in wanted}
        for run in running_of(self.store):
            if identity(run) not in known:
                self.store.fail(run.number, "no longer among the finalists")
        self.source = FinalsSource(self.store, wanted)

    def best_trials(self) -> list[TrialRecord]:
        """Return the complete trials that may win, best first; see ``ranked``."""
        return ranked(self.search.records(), self.search.objectives)

    def seeds(self) -> list[int]:
        """Return the seeds of the finals, above the study's own and unused by the search."""
        used = {trial.user_attrs.get(SEED) for trial in self.search.all_trials()}
        fresh = (seed for seed in count(self.config.seed + 1) if seed not in used)
        return [*islice(fresh, self.config.seeds)]

    def _chosen(self) -> list[TrialRecord]:
        return self.best_trials()[: self.config.finalists]

    def _complete(self, trial: int) -> dict[int, TrialRecord]:
        """Return seed -> record of a trial's complete runs."""
        runs = [run for run in self.store.trials() if run.state == Stored.COMPLETE]
        found = {identity(run): self.store.record(run) for run in runs}
        return {seed: run for (of, seed), run in sorted(found.items()) if of == trial}

    def _best_seed(self, runs: Mapping[int, TrialRecord]) -> int:
        """Return the fresh seed of the best run, the first of equals."""
        fresh = [seed for seed in self.seeds() if seed in runs]
        return max(fresh, key=lambda seed: self.search.first.of(runs[seed].metrics))

    def records(self) -> list[FinalistRecord]:
        """Return finalists that have a complete run, the winner first; see ``ranked_finalists``."""
        found = []
        for trial in self._chosen():
            complete = self._complete(trial.id)
            runs = {seed: complete[seed] for seed in self.seeds() if seed in complete}
            if not runs:
                continue
            started = [run for run in self.store.trials() if identity(run)[0] == trial.id]
            attempts = [self.store.record(run) for run in started]  # failed runs cost, too
            known = {"settings": trial.settings, "readouts": runs[self._best_seed(runs)].readouts}
            found.append(FinalistRecord.of(runs, attempts, trial=trial.id, **known))
        return ranked_finalists(found, self.search.first, self.search.constraints)

    def compared(self, finalists: Sequence[FinalistRecord]) -> tuple[str, dict[str, Any]]:
        """Return what ``compare`` says of ``records``, which constraints the winner breaks in the
        mean over its seeds, and why a finalist with a better mean did not win."""
        first, constraints = self.search.first, self.search.constraints
        verdict, comparison = compare(finalists, first)

        def named(finalist: FinalistRecord) -> str:
            broke = broken(finalist, constraints)
            return ", ".join(f"{constraint} by {by:.4g}" for constraint, by in broke.items())

        for winner in finalists[:1]:
            if breaks := named(winner):
                verdict += f" In the mean over its seeds it breaks {breaks}."
            best = first.sign * winner.metrics[first.metric].mean
            for other in finalists[1:]:
                if first.sign * other.metrics[first.metric].mean > best:
                    breaks = named(other)
                    why = f"it breaks {breaks}" if breaks else "only one of its seeds is complete"
                    verdict += f" Trial {other.trial} has a better mean, but {why}."
        return verdict, comparison

    def runs(self) -> dict[str, TrialRecord]:
        """Return name -> record of all stored runs, including those of former finalists."""
        return {name_of(run): self.store.record(run) for run in self.store.trials()}

    def _winner(self) -> tuple[TrialRecord, int, str] | None:
        """Return the winning trial, and seed and name of the run whose model is shipped.

        None if no trial may win.
        """
        best = self.best_trials()
        if records := self.records():
            (trial,) = [trial for trial in best if trial.id == records[0].trial]
            seed = self._best_seed(self._complete(trial.id))
            return trial, seed, run_name(trial.id, seed)
        if not best:
            return None
        trial = best[0]  # without finalists; ``lost`` may have run it again
        seed = self.search.get(trial.id).user_attrs.get(SEED, self.config.seed)
        if seed in self._complete(trial.id):
            return trial, seed, run_name(trial.id, seed)
        run = measured_by(trial, {one.id: one for one in self.search.records()})
        return trial, seed, run_name(run.id)

    def winning_run(self) -> str | None:
        """Return the name of the run whose model would be shipped now; None if no trial may win."""
        winner = self._winner()
        return winner[2] if winner is not None else None

    def best_checkpoint(self) -> str | None:
        """Return the local folder of the checkpoint to ship; None if there is none."""
        run = self.winning_run()
        if run is None:
            return None
        store = CheckpointStore(self.config.directory(run))
        found = store.best()
        _OPEN.append(store)
        return str(found) if found is not None else None

    def lost(self) -> FinalsSource | None:
        """Return a source that repeats the winning run if its best checkpoint is gone; else None.

        It may be gone for three reasons: after a winner is published the other runs' checkpoints
        are dropped, and with further trials or seeds another run may win; a disk damaged it; or,
        without finalists, the winner was taken over from another study. The same seed trains the
        same model from the start. A newer checkpoint is of no use, since it is past the best one.

        Raises:
            DamagedFile: the winner is a member of a population, whose settings changed in training.
        """
        winner = self._winner()
        if winner is None:
            return None
        trial, seed, run = winner
        store = CheckpointStore(self.config.directory(run))
        if store.best() is not None and not store.notes:
            return None
        if MEMBER in self.search.get(trial.id).user_attrs:
            why = "the winner's best checkpoint is gone"
            fix = (
                "a member of a population cannot be trained again alone; give another --study NAME"
            )
            raise DamagedFile(self.config.directory(run), why, fix)
        store.drop_all()
        where = f"with {trial.source}" if trial.source else "gone"
        logger.warning("the winner %s is trained again: its best checkpoint is %s", run, where)
        return FinalsSource(self.store, [(trial, seed)], again=True)


def compare(
    finalists: Sequence[FinalistRecord], objective: Objective
) -> tuple[str, dict[str, Any]]:
    """Compare the first two finalists by a paired t test (Student 1908) on the objective.

    Args:
        finalists: finalists, best mean first.

    Returns:
        The verdict as a sentence, and its data in JSON types: the trials ``winner`` and
        ``runner_up``, the ``metric``, the ``seeds`` that both have, the mean ``difference`` over
        these (over all seeds if none is shared; above 0 if the winner is better), its 95 %
        confidence ``interval``, the two-sided ``p`` and the name of the ``test``. Entries that are
        unknown are None or empty. Without finalists both are empty.
    """
    if not finalists:
        return "", {}
    winner, metric = finalists[0].trial, objective.metric
    found: dict[str, Any] = dict.fromkeys(("runner_up", "difference", "interval", "p"))
    found |= {"winner": winner, "metric": metric, "seeds": [], "test": ""}
    if len(finalists) == 1:
        return f"Trial {winner} is the only finalist; a comparison needs two.", found
    other = finalists[1].trial
    ours, theirs = (
        {s: objective.sign * v for s, v in zip(one.seeds, one.metrics[metric].values, strict=True)}
        for one in finalists[:2]
    )
    seeds = [seed for seed in ours if seed in theirs]
    apart = np.array([ours[seed] - theirs[seed] for seed in seeds])
    means = float(np.mean(list(ours.values())) - np.mean(list(theirs.values())))
    difference = float(apart.mean()) if seeds else means
    share = is_share(metric)
    found |= {"runner_up": other, "seeds": seeds, "difference": difference}

    def number(value: float) -> str:
        return f"{100 * value:.1f}" if share else measured(metric, value)

    if len(seeds) < 2:
        shared = "one seed" if seeds else "seeds that they do not share"
        over = f"over {shared}: that says nothing about noise; give --seeds 2 or more."
    elif np.ptp(apart) <= SAME:
        equal = abs(apart[0]) <= SAME
        same = "neither is better" if equal else "no seed changes the difference"
        over = f"on each of {len(seeds)} seeds: {same}."
    else:
        test = scipy.stats.ttest_1samp(apart, 0.0)
        low, high = (float(end) for end in test.confidence_interval(LEVEL))
        p = float(test.pvalue)
        found |= {"interval": [low, high], "p": p, "test": "paired t test"}
        noise = "within noise; either may be better"
        meaning = noise if low <= 0 <= high else f"more than noise (p = {p:.2g})"
        ends = f"{100 * LEVEL:.0f} % interval {number(low)} to {number(high)}"
        over = f"({ends} over {len(seeds)} seeds): {meaning}."
    # over the seeds that both have the other may be ahead: the winner has the better mean of all of
    # its own, or the other one breaks a constraint
    place = "behind" if difference < 0 else "ahead of"
    by = f"{number(abs(difference))} {'points' if share else f'in {metric}'}"
    return f"Trial {winner} is {place} trial {other} by {by} {over}", found
