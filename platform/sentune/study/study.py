"""One study from its first trial to its winner; the same call resumes it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import optuna

from sentune.code import code_fingerprint
from sentune.io.atomic import StorageError, read_document, write_document
from sentune.launchers.launch import Launch
from sentune.launchers.ray_internals import ClusterStore
from sentune.records import Spent, TrialRecord, TrialState
from sentune.study.config import StudyConfig
from sentune.study.fork import fork_from
from sentune.study.planning.capacity import available
from sentune.study.planning.plan import make_plan, searched
from sentune.study.runner.budget import expected_finals
from sentune.study.runner.finals import Finals
from sentune.study.runner.limits import HeldLock, Limits
from sentune.study.runner.outcome import StudyOutcome, outcome_of
from sentune.study.runner.population import Population, PopulationPlan
from sentune.study.runner.prewarm import Prewarm
from sentune.study.runner.retention import Retention
from sentune.study.runner.sharing import CLAIMS, Claim, Sharing
from sentune.study.runner.trial_runner import TrialRunner
from sentune.study.runner.trial_source import (
    Candidate,
    SearchSource,
    Source,
    identity,
    settle_orphans,
)
from sentune.study.space.objectives import Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.journal import StudyJournal
from sentune.study.store.storage import open_storage, open_study, storage_url
from sentune.study.store.study_index import StudyPlace, find_study
from sentune.study.store.study_view import IDENTITY, TABLES, StudyView
from sentune.study.store.trial_codec import run_name
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import sweeps_in
from sentune.training.trial import Program, TrialSpec

logger = logging.getLogger(__name__)

__all__ = ["MakeSpec", "Study", "StudyConfig", "StudyOutcome", "run_study"]

MakeSpec = Callable[[dict[str, Any], str, int, tuple[int, ...]], TrialSpec]
"""(settings, name of the run, seed, milestones) -> the training run. Where it leaves ``directory``
empty, the study gives it one."""


Watcher = Callable[[], None]
"""Called after something of a run is stored."""


def objectives_of(config: StudyConfig, space: SearchSpace) -> tuple[Objective, ...]:
    """Return the objective of the space, and the further ones."""
    return (Objective(space.objective, space.mode), *config.objectives)


def fingerprint_of(
    config: StudyConfig, space: SearchSpace, fingerprints: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that makes two trials comparable, as JSON types.

    How many trials, which sampler and which resources do not belong to it: they may change from
    one start to the next.

    Args:
        config: budget and seed count.
        space: what is searched, and by which objective.
        fingerprints: of corpora, encoder and code.
    """
    return {
        **fingerprints,
        "space": space.identity(),
        "max_examples": config.max_examples,
        "rungs": list(config.scheduling(space.mode).rungs),
        "milestones": list(config.milestones(space.mode)),
        "seed": config.seed,
        "objectives": [objective.to_dict() for objective in config.objectives],
        "population": [config.population, config.generations],
        "constraints": sorted(map(str, config.constraints)),
    }


def run_study(
    config: StudyConfig,
    space: SearchSpace,
    make_spec: MakeSpec,
    program: Program,
    watchers: Sequence[Watcher] = (),
    fingerprints: Mapping[str, Any] | None = None,
) -> StudyOutcome:
    """Search, train the best again from fresh seeds, and say which one won.

    Ray must be up. See ``Study`` for the arguments and what it raises.
    """
    return Study(config, space, make_spec, program, watchers, fingerprints).run()


class Study:
    """A study that can run: planned, and its storage opened.

    Args:
        config: what is asked for.
        space: what is searched, already narrowed.
        make_spec: makes the training run of a configuration.
        program: trains; picklable.
        watchers: called after something of a run is stored; they look at a snapshot.
        fingerprints: of corpora, encoder, method and code, JSON types.

    Attributes:
        plan: what it will ask for.
        view: takes snapshots of the study.
        watchers: as given; a driver adds its own before it runs.
        held: the driver's lock, where it has one: the hours of all starts, and what is asked.

    Raises:
        StudyConflict: a study of this name exists and has another fingerprint.
        PlanError: the cluster cannot run it.
    """

    def __init__(
        self,
        config: StudyConfig,
        space: SearchSpace,
        make_spec: MakeSpec,
        program: Program,
        watchers: Sequence[Watcher] = (),
        fingerprints: Mapping[str, Any] | None = None,
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
        self.sharing = Sharing(claim, capacity, ClusterStore(CLAIMS))
        self.prewarm = Prewarm(self.plan, capacity)
        self.config, self.space, self.make_spec = config, searched(config, space), make_spec
        self.watchers = [*watchers]
        self._failed: list[Watcher] = []
        self.launch = Launch(
            program=program,
            launcher=config.launched_by,
            workers=config.workers,
            cpus=config.cpus_per_worker,
            gpus=config.gpus_per_worker,
            max_failures=config.max_failures,
            code=code_fingerprint(),
            storage=config.folder,
        )
        url = storage_url(config.folder, config.optuna_url)
        self.storage = open_storage(url, driver=True)
        self.fingerprint = fingerprint_of(config, self.space, fingerprints or {})
        self.objectives = objectives_of(config, self.space)
        self.held: HeldLock | None = None
        self.store = TrialStore(
            study=self._open(config.name),
            storage=self.storage,
            objectives=self.objectives,
            budget=config.max_examples,
            scheduler=config.scheduling(space.mode),
            constraints=config.constraints,
        )
        self.retention = Retention(config, self.store)
        self._identify()
        place = StudyPlace(name=config.name, folder=config.folder, url=url)
        self.view = StudyView(place, self.storage)

    def _identify(self) -> None:
        """Give the study its identity on an MLflow server, once.

        Studies of earlier versions have it in a file of their folder.
        """
        study = self.storage.get_study_id_from_name(self.config.name)
        if IDENTITY not in self.storage.get_study_user_attrs(study):
            folder = self.config.folder
            known = read_document(f"{folder}/tracking", "identity")
            known = known or read_document(folder, "identity")
            self.storage.set_study_user_attr(study, IDENTITY, known or uuid.uuid4().hex)

    def _open(self, name: str) -> optuna.Study:
        return open_study(
            self.storage,
            name,
            modes=[objective.mode for objective in self.objectives],
            fingerprint=self.fingerprint,
        )

    def run(self) -> StudyOutcome:
        """Run what is left of the search and of the finals."""
        if isinstance(self.held, DriverLock):
            self.storage.guard(self.held)
        try:
            with self.sharing.watched():
                self.prewarm.ask(min(self.sharing.allowed, self._runs_left()))
                outcome = self._whole()
            if outcome.state == "complete" and isinstance(self.storage, StudyJournal):
                self.storage.compact()
            return outcome
        finally:
            self.prewarm.release()
            self.launch.control.close()

    def _whole(self) -> StudyOutcome:
        limits = self._limits()
        searched_whole = self._search(limits)
        if not searched_whole:
            return outcome_of(self.store, limits)
        finals = Finals(
            study=self._open(f"{self.config.name}/finalists"),
            store=self.store,
            config=self.config,
        )
        self._keep_tables(finals.runs())
        self.retention.finals = finals
        used = sum(run.gpu_seconds for run in finals.store.records()) / 3600
        of_finals = limits.for_finals(used)
        whole = self._run(finals.store, finals.source, of_finals)
        if whole and (again := finals.lost()) is not None:
            whole = self._run(finals.store, again, of_finals)
        return outcome_of(self.store, of_finals, finals if whole else None)

    def _runs_left(self) -> int:
        """Return the runs left of the search; of a population, its members."""
        ended = sum(trial.state.is_finished() for trial in self.store.trials())
        return self.config.population or max(0, self.config.trials - ended)

    def _limits(self) -> Limits:
        """Return the limits; what every start has used up counts."""
        records = self.store.records()

        def reserve() -> Spent:
            finals = self.config.finalists * self.config.seeds
            found = self.store.records()
            return expected_finals(found, finals, self.config.max_examples, self.plan.concurrent)

        def gain() -> str:
            return self.config.budget.no_gain_in(self.store.records(), *self.objectives)

        return Limits(
            budget=self.config.budget,
            held=self.held,
            spent=Spent(gpu_hours=sum(r.gpu_seconds for r in records) / 3600),
            trials=lambda: len(self.store.trials()),
            reserve=reserve,
            no_gain=gain,
            failed_share=self.config.failed_share,
        )

    def _take_over(self) -> None:
        """Take over the trials of other studies that still hold, each once."""
        for name in self.config.warm_start:
            place = find_study(self.config.storage, name, self.config.optuna_url)
            found = fork_from(place, self.store.study, self.fingerprint, self.space)
            logger.warning("%d trials taken over from study %s", found.taken, name)
            for sentence in found.left:
                logger.warning("%s: %s", name, sentence)

    def _search(self, limits: Limits) -> bool:
        self._take_over()
        settle_orphans(self.store)
        source = self._source()
        if isinstance(source, Population):
            self.retention.needed = source.needed
        self._keep_tables({f"{trial.id:04d}": trial for trial in self.store.records()})
        self.retention.apply()
        self._changed()
        return self._run(self.store, source, limits)

    def _stored(self, store: TrialStore, number: int) -> None:
        """Write tables, drop checkpoints and call watchers after something of a run is stored."""
        run = store.get(number)
        if run.state.is_finished():
            record = store.record(number)
            name = f"{number:04d}" if store is self.store else run_name(*identity(run))
            if store is not self.store and record.state is not TrialState.COMPLETE:
                logger.warning("%s failed: %s", name, record.reason)
            self._keep_tables({name: record})
            self.retention.apply()
        self._changed()

    def _changed(self) -> None:
        """Call the watchers. One that fails is said once; the study goes on."""
        for watcher in self.watchers:
            try:
                watcher()
            except Exception:
                if watcher not in self._failed:
                    logger.exception("%r failed; the study goes on", watcher)
                self._failed.append(watcher)

    def _keep_tables(self, runs: Mapping[str, TrialRecord]) -> None:
        """Write ``readouts.json`` of the runs that have ended, before their checkpoints go.

        Args:
            runs: name -> run; most have no sweeps, or have left nothing, or have it already.
        """
        kept = self.view.with_tables()
        due = [
            name
            for name, run in runs.items()
            if run.readouts and run.state is not TrialState.RUNNING and name not in kept
        ]
        if len(due) > 1:
            there = set(storage_of(self.config.runs_folder).entries())
            due = [name for name in due if name in there]
        for name in due:
            folder = self.config.directory(name)
            try:
                if tables := sweeps_in(folder):
                    write_document(folder, TABLES, json.dumps(tables))
                    kept.add(name)
            except StorageError as error:  # MLflow and the report do without these pictures
                logger.warning("%s: its readout tables could not be kept: %s", name, error)

    def _source(self) -> SearchSource | Population:
        space, config = self.space.with_points(self.config.points), self.config
        if config.population:
            members = PopulationPlan(members=config.population, generations=config.generations)
            return Population(self.store, space, members, seed=config.seed)
        return SearchSource(
            self.store,
            space,
            trials=config.trials,
            seed=config.seed,
            sampler=config.sampler,
            first=not config.sampler.startswith("grid"),
        )

    def _run(self, store: TrialStore, source: Source, limits: Limits) -> bool:
        runner = TrialRunner(
            store=store,
            source=source,
            spec_of=self._spec_of,
            stored=partial(self._stored, store),
            retire_after=self.config.retire_after,
            verdicts=self.launch.verdicts,
            control=self.launch.control,
            limits=limits,
            max_failures=self.config.max_failures,
            place=self.sharing,
        )
        from sentune.study.runner.tune_adapter import run_trials  # loads Ray Tune

        trainable = self.launch.trainable()
        self.prewarm.release()
        return run_trials(trainable, runner, concurrent=self.plan.concurrent)

    def _spec_of(self, candidate: Candidate) -> TrialSpec:
        settings = dict(candidate.settings)
        usual = {*self.config.milestones(self.space.mode), candidate.stop_at}
        milestones = tuple(sorted(at for at in usual if at > candidate.start_at))
        spec = self.make_spec(settings, candidate.name, candidate.seed, milestones)
        start = candidate.start_from and self.config.directory(candidate.start_from)
        return replace(
            spec,
            directory=spec.directory or self.config.directory(candidate.name),
            checkpoint_every=self.config.checkpoint_every,
            micro_batch=candidate.micro_batch,
            generation=self.held.generation if self.held else 0,
            start_from=start,
            start_at=candidate.start_at,
        )
