"""How a study stands: driven by whom, how far, how good; read from its store alone."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as Stored

from sentune.records import FinalistRecord, Spent, Spread, TrialRecord, TrialState
from sentune.study.space.objectives import Objective
from sentune.study.store.driver_lock import Holder, Standing, standing
from sentune.study.store.driver_process import ProcessState
from sentune.study.store.storage import WORLD, open_storage
from sentune.study.store.study_index import FINALS, StudyPlace
from sentune.study.store.trial_codec import (
    SEED,
    TRIAL,
    WARM_FROM,
    known,
    record_of,
    state_of,
)

GOES_ON = "its own command or `sentune study resume` goes on"


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A study at a glance.

    Attributes:
        state: ``running``; ``suspended`` where its driver is stopped; ``silent`` where a driver on
            another machine has not been heard of for too long;
            ``complete``, ``stopped``, ``interrupted`` or ``failed`` as its last start ended;
            ``new`` before its first trial.
        reason: why; empty where there is nothing to say.
        holder: who drives it.
        counts: Optuna's state (``COMPLETE``) -> trials that it ran itself.
        taken_over: trials that other studies ran.
        planned: trials that were asked for; None where only the database is known.
        best: number and objective of the best complete trial.
    """

    name: str
    state: str
    reason: str
    holder: Holder | None
    objective: Objective
    counts: dict[str, int]
    taken_over: int
    planned: int | None
    best: tuple[int, float] | None
    spent: Spent

    @property
    def ended(self) -> int:
        """Trials that have ended."""
        return sum(self.counts.values()) - self.counts.get("RUNNING", 0)

    @property
    def alive(self) -> bool:
        """Whether somebody drives it."""
        return self.state == "running"


class StudyView:
    """A study that is looked at, again and again if need be; nothing is written.

    Args:
        place: of the study.
        storage: its database where that is open already.

    Attributes:
        objectives: that it selects by.
        varied: settings that it searches.
    """

    def __init__(
        self, place: StudyPlace, storage: optuna.storages.BaseStorage | None = None
    ) -> None:
        self.place = place
        self.storage = storage or (open_storage(place.url) if place.url else None)
        world = self._world()
        space = world.get("space", {})
        further = [Objective(**said) for said in world.get("objectives", [])]
        self.objectives = (
            Objective(space.get("objective", ""), space.get("mode", "max")),
            *further,
        )
        self.varied = tuple(space.get("settings", {}))

    def overview(self, *, sums: bool = True) -> Overview:
        """The study as it stands now.

        Args:
            sums: whether examples and GPU hours are added up, which a list can do without.
        """
        held, place, stored = self._standing(), self.place, self._read("")
        own = [trial for trial in stored if WARM_FROM not in trial.user_attrs]
        counts = dict(Counter(map(_state_name, own)))
        best = self._best(stored)[:1]
        state, reason = _state(held, place.summary(), sum(counts.values()))
        return Overview(
            name=place.name,
            state=state,
            reason=place.trouble or reason,
            holder=held.holder,
            objective=self.objective,
            counts=counts,
            taken_over=len(stored) - len(own),
            planned=place.description.get("options", {}).get("trials"),
            best=(best[0].number, best[0].values[0]) if best else None,
            spent=self._spent(held.hours) if sums else Spent(hours=held.hours),
        )

    def trials(self, at_most: int | None = None) -> list[TrialRecord]:
        """The trials by number; where that is too many, those that run, the best and the latest."""
        stored = self._read("")
        if at_most is not None and len(stored) > at_most:
            own = [trial for trial in stored if WARM_FROM not in trial.user_attrs]
            running = [trial for trial in own if not trial.state.is_finished()]
            chosen = [*running, *self._best(stored)[: at_most // 3], *own[::-1]]
            numbers = list(dict.fromkeys(trial.number for trial in chosen))[:at_most]
            stored = [trial for trial in stored if trial.number in set(numbers)]
        return [record_of(trial, self.objective) for trial in stored]

    def _best(self, stored: list[FrozenTrial]) -> list[FrozenTrial]:
        """Complete trials by the first objective, best first."""
        sign = self.objective.sign
        complete = [trial for trial in stored if trial.state is Stored.COMPLETE]
        return sorted(complete, key=lambda trial: (-sign * trial.values[0], trial.number))

    def finalists(self) -> list[FinalistRecord]:
        """Finalists with the runs that have ended so far, best mean first."""
        runs: dict[int, dict[int, TrialRecord]] = defaultdict(dict)
        for (trial, seed), run in self.final_runs().items():
            if run.state is TrialState.COMPLETE:
                runs[trial][seed] = run
        found = [_finalist(trial, dict(sorted(of.items()))) for trial, of in runs.items()]
        metric, sign = self.objective.metric, self.objective.sign
        return sorted(found, key=lambda one: (-sign * one.metrics[metric].mean, one.trial))

    @property
    def has_finals(self) -> bool:
        """Whether the finals have begun."""
        return self._study_id(FINALS) is not None

    def final_runs(self) -> dict[tuple[int, int], TrialRecord]:
        """(trial, seed) -> run of the finals, as it stands; of several the last."""
        stored = self._read(FINALS)
        return {
            (run.user_attrs[TRIAL], run.user_attrs[SEED]): record_of(run, self.objective)
            for run in stored
        }

    def _spent(self, hours: float) -> Spent:
        search, finals = (
            [record_of(trial, self.objective) for trial in self._read(ending)]
            for ending in ("", FINALS)
        )
        own = [record for record in search if not record.source]
        return Spent(
            trials=len(own),
            examples=sum(record.examples for record in own + finals),
            hours=hours,
            gpu_hours=sum(record.gpu_seconds for record in own + finals) / 3600,
        )

    def _standing(self) -> Standing:
        return standing(self.place.url, self.place.name) if self.place.url else Standing()

    @property
    def objective(self) -> Objective:
        """The first one, by which trials are compared."""
        return self.objectives[0]

    def _world(self) -> dict[str, Any]:
        """What its trials share, or, before the first of them, what its description says."""
        number = self._study_id("")
        attributes = (
            self.storage.get_study_user_attrs(number) if self.storage and number is not None else {}
        )
        said: dict[str, Any] = attributes.get(WORLD, {})
        return said or {"space": self.place.description.get("space", {})}

    def _read(self, ending: str) -> list[FrozenTrial]:
        number = self._study_id(ending)
        if self.storage is None or number is None:
            return []
        return list(filter(known, self.storage.get_all_trials(number, deepcopy=False)))

    def _study_id(self, ending: str) -> int | None:
        """Optuna's number; None where the study has no trial yet."""
        if self.storage is None:
            return None
        try:
            return self.storage.get_study_id_from_name(self.place.name + ending)
        except KeyError:
            return None


def _state(held: Standing, summary: dict[str, Any], trials: int) -> tuple[str, str]:
    """State and reason. The holder of the lock counts first, then what the last start said."""
    holder = held.holder
    if holder is not None:
        return _driven(holder)
    said = summary.get("state", "")
    if said in ("", "running"):
        return ("interrupted", GOES_ON) if trials else ("new", "")
    return said, summary.get("reason", "")


def _state_name(trial: FrozenTrial) -> str:
    """Optuna's name, or ours of a trial that found no memory."""
    return "INFEASIBLE" if state_of(trial) is TrialState.INFEASIBLE else trial.state.name


def _driven(holder: Holder) -> tuple[str, str]:
    if holder.gone:
        return "interrupted", f"its driver died ({holder.driver}); {GOES_ON}"
    if holder.state is ProcessState.UNKNOWN:
        return "silent", f"its driver was last heard of {holder.quiet:.0f} s ago ({holder.driver})"
    if holder.state is ProcessState.SUSPENDED:
        return "suspended", f"wake its driver or kill it ({holder.driver})"
    return "running", {"": "", "stop": "asked to stop"}.get(holder.signal, "asked to stop now")


def _finalist(trial: int, runs: dict[int, TrialRecord]) -> FinalistRecord:
    first, *_ = runs.values()
    values = {
        name: [run.metrics[name] for run in runs.values() if name in run.metrics]
        for name in first.metrics
    }
    return FinalistRecord(
        trial=trial,
        settings=first.settings,
        seeds=list(runs),
        readouts=first.readouts,
        metrics={name: _spread(found) for name, found in values.items()},
        seconds=sum(run.seconds for run in runs.values()),
        gpu_seconds=sum(run.gpu_seconds for run in runs.values()),
    )


def _spread(values: list[float]) -> Spread:
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(mean=statistics.fmean(values), sd=sd, values=values)
