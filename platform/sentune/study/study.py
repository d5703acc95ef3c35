"""One study from its first trial to its winner; the same call resumes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import optuna

from sentune.code import code_fingerprint
from sentune.launchers.launch import Launch
from sentune.launchers.ray_internals import ClusterStore
from sentune.records import Spent, StudyListener
from sentune.study.config import StudyConfig
from sentune.study.fork import fork_from
from sentune.study.planning.capacity import available
from sentune.study.planning.plan import make_plan, searched
from sentune.study.runner.budget import expected_finals
from sentune.study.runner.finals import Finals
from sentune.study.runner.limits import Held, Limits
from sentune.study.runner.outcome import StudyOutcome, outcome_of
from sentune.study.runner.population import Plan as PopulationPlan
from sentune.study.runner.population import Population
from sentune.study.runner.prewarm import Prewarm
from sentune.study.runner.retention import Retention
from sentune.study.runner.sharing import CLAIMS, Claim, Sharing
from sentune.study.runner.trial_runner import Conductor
from sentune.study.runner.trial_source import Candidate, SearchSource, Source, settle_orphans
from sentune.study.space.objectives import Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.audience import Audience
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.events import TrialEvents
from sentune.study.store.fingerprint import world_of
from sentune.study.store.journal import StudyJournal
from sentune.study.store.storage import open_storage, open_study, storage_url
from sentune.study.store.study_index import find_study
from sentune.study.store.trial_store import TrialStore
from sentune.training.trial import Program, TrialSpec

logger = logging.getLogger(__name__)

__all__ = ["MakeSpec", "Study", "StudyConfig", "StudyOutcome", "run_study"]

MakeSpec = Callable[[dict[str, Any], str, int, tuple[int, ...]], TrialSpec]
"""(settings, name of the run, seed, milestones) -> the training run. Where it leaves ``directory``
empty, the study gives it one."""


def objectives_of(config: StudyConfig, space: SearchSpace) -> tuple[Objective, ...]:
    """The space's, and further ones."""
    return (Objective(space.objective, space.mode), *config.objectives)


def run_study(
    config: StudyConfig,
    space: SearchSpace,
    make_spec: MakeSpec,
    program: Program,
    listeners: Sequence[StudyListener] = (),
    world: Mapping[str, Any] | None = None,
) -> StudyOutcome:
    """Searches, trains the best again from fresh seeds, and says which one won.

    Ray must be up. Trials and finalists are told to the listeners, also those that an earlier
    start has finished; the study's own start and end are the caller's to tell.

    See ``Study`` for the arguments and what it raises.
    """
    return Study(config, space, make_spec, program, listeners, world).run()


class Study:
    """A study that can run: planned, and its storage opened.

    Args:
        config: what is asked for.
        space: what is searched, already narrowed.
        make_spec: makes the training run of a configuration.
        program: trains; picklable.
        listeners: told of every trial and finalist.
        world: fingerprints of corpora, encoder, method and code, JSON types.

    Attributes:
        plan: what it will ask for.
        held: the driver's lock, where it has one: the hours of all starts, and what is asked.

    Raises:
        StudyConflict: a study of this name exists and belongs to another world.
        PlanError: the cluster cannot run it.
    """

    def __init__(
        self,
        config: StudyConfig,
        space: SearchSpace,
        make_spec: MakeSpec,
        program: Program,
        listeners: Sequence[StudyListener] = (),
        world: Mapping[str, Any] | None = None,
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
        self.audience = Audience(listeners)
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
        self.storage = open_storage(storage_url(config.folder, config.optuna_url), driver=True)
        self.world = world_of(config, self.space, world or {})
        self.objectives = objectives_of(config, self.space)
        self.scheduler = config.scheduling(space.mode)
        self.held: Held | None = None
        self.ledger = self._ledger()
        self.retention = Retention(config, self.ledger)

    def _ledger(self) -> TrialStore:
        return TrialStore(
            study=self._open(self.config.name),
            storage=self.storage,
            objectives=self.objectives,
            budget=self.config.max_examples,
            scheduler=self.scheduler,
            constraints=self.config.constraints,
        )

    def _open(self, name: str) -> optuna.Study:
        return open_study(
            self.storage,
            name,
            modes=[objective.mode for objective in self.objectives],
            sampler=None,
            world=self.world,
        )

    def run(self) -> StudyOutcome:
        """Runs what is left of the search and of the finals."""
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
            self.launch.close()

    def _whole(self) -> StudyOutcome:
        limits = self._limits()
        searched_whole = self._search(limits)
        if not searched_whole:
            return outcome_of(self.ledger, limits)
        finals = Finals(
            study=self._open(f"{self.config.name}/finalists"),
            ledger=self.ledger,
            config=self.config,
            audience=self.audience,
            tidy=self.retention.apply,
        )
        self.retention.finals = finals
        used = sum(run.gpu_seconds for run in finals.ledger.records()) / 3600
        of_finals = limits.for_finals(used)
        whole = self._run(finals.ledger, finals.source, finals, of_finals)
        if whole and (again := finals.lost()) is not None:
            whole = self._run(finals.ledger, again, finals, of_finals)
        return outcome_of(self.ledger, of_finals, finals if whole else None)

    def _runs_left(self) -> int:
        """Of the search; what a population has left is not known before it is at work."""
        ended = sum(trial.state.is_finished() for trial in self.ledger.trials())
        return self.config.population or max(0, self.config.trials - ended)

    def _limits(self) -> Limits:
        """What every start has used up counts."""
        records = self.ledger.records()

        def reserve() -> Spent:
            finals = self.config.finalists * self.config.seeds
            found = self.ledger.records()
            return expected_finals(found, finals, self.config.max_examples, self.plan.concurrent)

        def gain() -> str:
            return self.config.budget.no_gain_in(self.ledger.records(), *self.objectives)

        return Limits(
            budget=self.config.budget,
            held=self.held,
            spent=Spent(gpu_hours=sum(r.gpu_seconds for r in records) / 3600),
            trials=lambda: len(self.ledger.trials()),
            reserve=reserve,
            no_gain=gain,
            failed_share=self.config.failed_share,
        )

    def _take_over(self) -> None:
        """Trials of other studies that still hold, each once; the sampler learns from them."""
        for name in self.config.warm_start:
            place = find_study(self.config.storage, name, self.config.optuna_url)
            found = fork_from(place, self.ledger.study, self.world, self.space)
            logger.warning("%d trials taken over from study %s", found.taken, name)
            for sentence in found.left:
                logger.warning("%s: %s", name, sentence)

    def _search(self, limits: Limits) -> bool:
        self._take_over()
        settle_orphans(self.ledger)
        source = self._source()
        if isinstance(source, Population):
            self.retention.needed = source.needed
        events = TrialEvents(self.ledger, self.audience, self.config, self.retention.apply)
        events.replay()
        return self._run(self.ledger, source, events, limits)

    def _source(self) -> SearchSource | Population:
        space, config = self.space.with_points(self.config.points), self.config
        if config.population:
            members = PopulationPlan(members=config.population, generations=config.generations)
            return Population(self.ledger, space, members, seed=config.seed)
        return SearchSource(
            self.ledger,
            space,
            trials=config.trials,
            seed=config.seed,
            sampler=config.sampler,
            first=not config.sampler.startswith("grid"),
        )

    def _run(
        self, ledger: TrialStore, source: Source, events: TrialEvents | Finals, limits: Limits
    ) -> bool:
        conductor = Conductor(
            ledger=ledger,
            source=source,
            spec_of=self._spec_of,
            events=events,
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
        return run_trials(trainable, conductor, concurrent=self.plan.concurrent)

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
