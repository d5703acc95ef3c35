"""Study: runs the search and the finals, from the first trial to the winner."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import optuna

from sentune.code import loaded_code
from sentune.errors import InvalidValue
from sentune.formatting import counted
from sentune.launchers.launch import Launch
from sentune.launchers.ray_internals import ClusterStore
from sentune.records import FinalistRecord, Spent, TrialRecord, TrialState
from sentune.study.config import StudyConfig, objectives_of
from sentune.study.fork import fork_from, place_of_trials, refuse_foreign_trials
from sentune.study.planning.capacity import WORKER_CPUS, available
from sentune.study.planning.plan import make_plan, searched
from sentune.study.runner.finals import Finals
from sentune.study.runner.limits import Alone, Limits
from sentune.study.runner.population import Population
from sentune.study.runner.retention import Retention
from sentune.study.runner.sharing import Claim, Sharing
from sentune.study.runner.stalls import StallWatch
from sentune.study.runner.trial_runner import Phase, TrialRunner
from sentune.study.runner.trial_source import Candidate, SearchSource, Source, settle_orphans
from sentune.study.samplers.registry import identity_of_own
from sentune.study.space.objectives import pareto_front
from sentune.study.space.space import SearchSpace
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.journal import StudyJournal
from sentune.study.store.storage import open_storage, open_study, storage_url
from sentune.study.store.study_index import FINALS, StudyPlace
from sentune.study.store.study_view import IDENTITY, StudyView
from sentune.study.store.trial_codec import name_of, run_name
from sentune.study.store.trial_store import TrialStore
from sentune.training import checkpoints
from sentune.training.checkpoint_storage import storage_of
from sentune.training.trial import Program, TrialSpec, identity_of

logger = logging.getLogger(__name__)

__all__ = ["MakeSpec", "Study", "StudyConfig", "StudyOutcome"]

MakeSpec = Callable[[dict[str, Any], str, int, tuple[int, ...]], TrialSpec]
"""(settings, name of the run, seed, milestones) -> ``TrialSpec``. The study sets an empty
``directory``."""


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """Result of a study; fields that ``StudySummary`` has, too, are described there.

    Attributes:
        state: ``complete``; ``stopped`` by a budget or on request before the end of the finals, or
            ``interrupted`` (the same command resumes both); or ``failed``, because too many trials
            failed, or no trial or no run of the finals is complete.
        finalists: finalists, best mean first.
        winner: index of the winner in ``finalists``, 0; None without finalists.
        best_run: name of the run to ship: the winner's best seed on dev, or, without finalists,
            the best trial; None if no trial may win.
        best_checkpoint: local folder of its best checkpoint.
    """

    state: str
    reason: str
    trials: list[TrialRecord]
    finalists: list[FinalistRecord]
    winner: int | None
    best_run: str | None
    best_checkpoint: str | None
    spent: Spent
    front: list[int]
    verdict: str
    comparison: dict[str, Any]


class Study:
    """A study with its plan and open storage; ``run`` starts or resumes it.

    Args:
        space: narrowed search space.
        program: picklable program that trains.
        watchers: functions to call after a start, milestone or end of a run is stored.
        fingerprints: fingerprints of corpora, encoder, method and code, in JSON types.
        held: the driver's lock, if there is one; it counts hours and receives requests to stop.

    Attributes:
        plan: runs and resources of the study.
        begun: called once while the first trial's process starts, or at the end of a shorter run.
        stalls: newest beat of each running run; ends stalled ones.
        watchers, held: as given; a driver may add watchers before ``run``.
        fingerprint: all inputs that make trials comparable, and a user's sampler, in JSON types.
            The number of trials, the package's samplers and the resources may change.

    Raises:
        StudyConflict: a study of this name exists with another fingerprint, or its folder has runs
            that its database does not know.
        PlanError: the cluster cannot run it.
    """

    def __init__(
        self,
        config: StudyConfig,
        space: SearchSpace,
        make_spec: MakeSpec,
        program: Program,
        watchers: Sequence[Callable[[], None]] = (),
        fingerprints: Mapping[str, Any] | None = None,
        held: DriverLock | Alone | None = None,
    ) -> None:
        capacity = available()
        self.plan = make_plan(config, space, capacity)
        claim = Claim(
            study=config.name,
            cpus=self.plan.cpus,
            gpus=self.plan.gpus,
            wanted=self.plan.concurrent,
            weight=config.priority,
        )
        self.sharing = Sharing(claim, capacity, ClusterStore())
        self.config, self.space, self.make_spec = config, searched(config, space), make_spec
        self.watchers = [*watchers]
        self.begun: Callable[[], None] = lambda: None
        self._failed: list[Callable[[], None]] = []
        self.held = held
        self.launch = Launch(
            program=program,
            workers=config.worker_range,
            cpus=WORKER_CPUS,
            gpus=config.gpus_per_worker,
            code=loaded_code().fingerprint,
            storage=config.folder,
        )
        self.stalls = StallWatch(
            control=self.launch.control,
            limit=config.stall_timeout,
            grouped=config.launched_by == "train",
        )
        scheduler = config.search_scheduler(self.space)
        self._fingerprints = fingerprints or {}
        self.fingerprint = {
            **self._fingerprints,
            "space": self.space.identity(),
            "max_examples": config.max_examples,
            "rungs": list(scheduler.rungs),
            "milestones": list(config.milestones(space.mode)),
            "rung_rows": config.rows_at_rungs,
            "seed": config.seed,
            "objectives": [objective.to_dict() for objective in config.objectives],
            "population": [config.population, config.generations],
            "constraints": sorted(map(str, config.constraints)),
            **identity_of_own(config.sampler),
        }
        self.objectives = objectives_of(config, self.space)
        url = storage_url(config.folder, config.optuna_url)
        self.storage = open_storage(url, driver=True)
        if isinstance(held, DriverLock):
            self.storage.guard(held)
        refuse_foreign_trials(config, self.storage, url)
        self.store = TrialStore(
            study=self._open(config.name),
            storage=self.storage,
            objectives=self.objectives,
            budget=config.max_examples,
            scheduler=scheduler,
            constraints=config.constraints,
        )
        if IDENTITY not in self.store.study.user_attrs:
            self.store.study.set_user_attr(IDENTITY, uuid.uuid4().hex)
        self.retention = Retention(config, self.store)
        place = StudyPlace(name=config.name, folder=config.folder, url=url)
        shared = None if isinstance(self.storage, StudyJournal) else self.storage
        self.view = StudyView(place, shared)  # MLflow's thread reads a journal of its own

    def _open(self, name: str) -> optuna.Study:
        return open_study(
            self.storage,
            name,
            modes=[objective.mode for objective in self.objectives],
            fingerprint=self.fingerprint,
            keeps_runs=bool(storage_of(self.config.runs_folder).entries()),
        )

    def run(self) -> StudyOutcome:
        """Run what is left of the search and the finals, and return the outcome.

        Ray must be connected.
        """
        budget = self.config.budget
        if (budget.max_trials or 0) >= self.plan.trials:  # a limit that no planned trial exceeds
            budget = replace(budget, max_trials=None)
        try:
            with self.sharing.watched():
                limits = Limits(
                    self.store,
                    budget=budget,
                    held=self.held,
                    finals=self.config.finalists * self.config.seeds,
                    concurrent=self.plan.concurrent,
                    failed_share=self.config.failed_share,
                )
                outcome = self._outcome(limits, self._run(limits))
            if outcome.state == "complete" and isinstance(self.storage, StudyJournal):
                self.storage.compact()
            return outcome
        finally:
            self.launch.control.close()

    def _run(self, limits: Limits) -> Finals | None:
        """Run what is left of search and finals; return the finals, or None if it was halted."""
        from sentune.methods import CLOSED_FORM
        from sentune.study.runner.tune_adapter import run_trials  # loads Ray Tune

        grouped = self.config.launched_by == "train"
        if grouped:
            from sentune.launchers.ray_train import train_trainable as trainable  # loads Ray Train
        else:
            from sentune.launchers.inline import inline_trainable as trainable
        runner = TrialRunner(
            phases=self._phases(limits),
            limits=limits,
            retire_after=self.config.retire_after,
            max_failures=self.config.max_failures,
            gpus=self.plan.gpus,
            control=self.launch.control,
            grouped=grouped,
            saves=self.space.method not in CLOSED_FORM,
            sharing=self.sharing,
            stalls=self.stalls,
        )
        whole = run_trials(
            trainable(self.launch),
            runner,
            study=self.config.name,
            concurrent=self.plan.concurrent,
            begun=self.begun,
        )
        return self.retention.finals if whole else None

    def _phases(self, limits: Limits) -> Iterator[Phase]:
        """Yield the search, the finals, and the winner once more if its checkpoint is lost."""
        yield self._phase(self.store, self._search())
        limits.check()
        finals = self._finals()
        limits.begin_finals(sum(run.gpu_seconds for run in finals.store.records()) / 3600)
        yield self._phase(finals.store, finals.source)
        if (again := finals.lost()) is not None:
            yield self._phase(finals.store, again)

    def _phase(self, store: TrialStore, source: Source) -> Phase:
        rung_rows = self.config.rows_at_rungs if store is self.store else 0  # finals use all
        return Phase(
            store=store,
            source=source,
            spec_of=partial(self._spec_of, rung_rows=rung_rows),
            stored=partial(self._stored, store),
        )

    def _search(self) -> Source:
        """Take over trials of other studies, and return the source of the search."""
        config = self.config
        for name in config.warm_start:
            try:
                place = place_of_trials(config.storage, name, config.optuna_url)
                taken, left = fork_from(place, self.store.study, self.fingerprint, self.space)
            except InvalidValue as error:
                if not self.store.trials():
                    raise
                logger.warning("no more trials are taken over from study %s: %s", name, error.fix)
                continue
            logger.warning("%s taken over from study %s", counted(taken, "trial"), name)
            for sentence in left:
                logger.warning("%s: %s", name, sentence)
        settle_orphans(self.store)
        space = self.space.with_points(config.points)
        source: Population | SearchSource
        if config.population:
            source = Population(
                self.store,
                space,
                members=config.population,
                generations=config.generations,
                seed=config.seed,
            )
        else:
            source = SearchSource(
                self.store,
                space,
                trials=config.trials,
                seed=config.seed,
                sampler=config.sampler,
                first=config.tries_first,
                has_checkpoint=self._has_checkpoint,
            )
        self.retention.needed = source.needed
        known = {run_name(trial.id): trial for trial in self.store.records()}
        self.retention.keep_tables(self.view, known)
        self.retention.apply()
        self._changed()
        return source

    def _finals(self) -> Finals:
        """Return the finals of the best trials so far."""
        study = self._open(self.config.name + FINALS)
        finals = Finals(study=study, store=self.store, config=self.config)
        self.retention.keep_tables(self.view, finals.runs())
        self.retention.finals = finals
        return finals

    def _spec_of(self, candidate: Candidate, rung_rows: int) -> TrialSpec:
        """Return the training run of a candidate."""
        usual = {*self.config.milestones(self.space.mode), candidate.stop_at}
        milestones = tuple(sorted(at for at in usual if at > candidate.start_at))
        settings = dict(candidate.settings)
        spec = self.make_spec(settings, candidate.name, candidate.seed, milestones)
        return replace(
            spec,
            identity=identity_of(spec, settings, self._fingerprints, self.space.live),
            directory=spec.directory or self.config.directory(candidate.name),
            checkpoint_every=self.config.checkpoint_every,
            micro_batch=candidate.micro_batch,
            rung_rows=rung_rows,
            generation=self.held.generation if self.held else 0,
            start_from=candidate.start_from and self.config.directory(candidate.start_from),
            start_at=candidate.start_at,
        )

    def _has_checkpoint(self, run: str, examples: int) -> bool:
        return storage_of(self.config.directory(run)).has(checkpoints.name_of(examples))

    def _stored(self, store: TrialStore, number: int) -> None:
        """Call watchers after a change of a run; at its end also write tables, drop checkpoints."""
        run = store.get(number)
        if run.state.is_finished():
            record = store.record(number)
            name = name_of(run)
            if store is not self.store and record.state is not TrialState.COMPLETE:
                logger.warning("%s failed: %s", name, record.reason)
            self.retention.keep_tables(self.view, {name: record})
            self.retention.apply()
        self._changed()

    def _changed(self) -> None:
        """Call the watchers. A failing one is logged once, and the study continues."""
        for watcher in self.watchers:
            try:
                watcher()
            except Exception:
                if watcher not in self._failed:
                    self._failed.append(watcher)
                    logger.exception("watcher %r failed; the study goes on", watcher)

    def _outcome(self, limits: Limits, finals: Finals | None) -> StudyOutcome:
        """Return the outcome from the store; ``finals`` is None if the study was halted."""
        trials = self.store.records()
        finalists = finals.records() if finals is not None else []
        if finals is not None:
            runs = finals.store.records()
        else:  # they may have begun
            runs = [run.record for run in self.view.snapshot(driven=True).finals]
        state, reason = self._ending(trials, limits, finals)
        verdict, comparison = finals.compared(finalists) if finals is not None else ("", {})
        front = pareto_front(trials, self.objectives) if len(self.objectives) > 1 else []
        return StudyOutcome(
            state=state,
            trials=trials,
            finalists=finalists,
            winner=0 if finalists else None,
            best_run=finals.winning_run() if finals is not None else None,
            best_checkpoint=finals.best_checkpoint() if finals is not None else None,
            reason=reason,
            spent=Spent.of(trials, runs, limits.used().hours),
            front=[trial.id for trial in front],
            verdict=verdict,
            comparison=comparison,
        )

    def _ending(
        self, trials: list[TrialRecord], limits: Limits, finals: Finals | None
    ) -> tuple[str, str]:
        """Return state and reason of the outcome."""
        if finals is None:
            halt = limits.halt
            return (halt.state, halt.reason) if halt is not None else ("interrupted", "")
        best = finals.best_trials()
        if finals.records() or (best and not self.config.finalists):
            return "complete", limits.ended_early
        if not any(trial.state is TrialState.COMPLETE for trial in trials):
            reasons = sorted({trial.reason for trial in trials if trial.reason})
            return "failed", f"no trial is complete: {'; '.join(reasons) or 'no reason given'}"
        if not best:
            return "failed", "no complete trial meets every constraint"
        return "failed", "no run of the finals is complete; the same command tries them again"
