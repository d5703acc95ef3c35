"""One study from its first trial to its winner; the same call resumes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import optuna

from sentune.code import code_fingerprint
from sentune.records import FinalistRecord, StudyListener, TrialRecord
from sentune.search.audience import Audience
from sentune.search.capacity import available
from sentune.search.config import StudyConfig
from sentune.search.finalists import Finals
from sentune.search.ledger import Ledger
from sentune.search.plan import make_plan, searched
from sentune.search.sampling import make_sampler
from sentune.search.searcher import Conductor
from sentune.search.source import Candidate, SearchSource, Source, settle_orphans
from sentune.search.space import SearchSpace
from sentune.search.store import open_storage, open_study, storage_url
from sentune.search.tuning import run_trials
from sentune.search.world import world_of
from sentune.training.checkpoints import sweeps_in
from sentune.training.launchers.launch import Launch
from sentune.training.launchers.report import Report
from sentune.training.trial import Program, TrialSpec

__all__ = ["MakeSpec", "Study", "StudyConfig", "StudyOutcome", "run_study"]

MakeSpec = Callable[[dict[str, Any], str, int, tuple[int, ...]], TrialSpec]
"""(settings, name of the run, seed, milestones) -> the training run. Where it leaves ``directory``
empty, the study gives it one."""


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """What a study found.

    Attributes:
        state: ``complete``, ``interrupted`` (the same command resumes) or ``failed`` (no trial
            or no run of the finals, came to its end).
        trials: all of them, by number.
        finalists: best by mean first.
        winner: index into ``finalists``; None without finalists.
        best_checkpoint: local folder of the checkpoint to ship: of the winner's best seed on dev,
            or, without finalists, of the best trial.
    """

    state: str
    trials: list[TrialRecord]
    finalists: list[FinalistRecord] = field(default_factory=list)
    winner: int | None = None
    best_checkpoint: str | None = None


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
        self.plan = make_plan(config, space, available())
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
        self.storage = open_storage(storage_url(config.folder, config.optuna_url))
        self.world = world_of(config, self.space, world or {})
        self.halving = config.halving(space.mode)
        self.ledger = self._ledger()

    def _ledger(self) -> Ledger:
        sampler = make_sampler(
            self.config.sampler, self.space, trials=self.config.trials, seed=self.config.seed
        )
        study = self._open(self.config.name, sampler)
        return Ledger(
            study=study,
            objective=self.space.objective,
            mode=self.space.mode,
            budget=self.config.max_examples,
            halving=self.halving,
        )

    def _open(self, name: str, sampler: optuna.samplers.BaseSampler | None) -> optuna.Study:
        return open_study(
            self.storage, name, mode=self.space.mode, sampler=sampler, world=self.world
        )

    def run(self) -> StudyOutcome:
        """Runs what is left of the search and of the finals."""
        if not self._search():
            return StudyOutcome(state="interrupted", trials=self.ledger.records())
        finals = Finals(
            study=self._open(f"{self.config.name}/finalists", None),
            ledger=self.ledger,
            config=self.config,
            audience=self.audience,
        )
        done = self._run(finals.ledger, finals.source, finals)
        trials = self.ledger.records()
        if not done:
            return StudyOutcome(state="interrupted", trials=trials)
        records = finals.records()
        return StudyOutcome(
            state="complete"
            if records or (finals.best_trials() and not self.config.finalists)
            else "failed",
            trials=trials,
            finalists=records,
            winner=0 if records else None,
            best_checkpoint=finals.best_checkpoint(),
        )

    def _search(self) -> bool:
        settle_orphans(self.ledger)
        events = _TrialEvents(self.ledger, self.audience, self.config)
        events.replay()
        source = SearchSource(
            self.ledger,
            self.space,
            trials=self.config.trials,
            seed=self.config.seed,
            first=not self.config.sampler.startswith("grid"),
        )
        return self._run(self.ledger, source, events)

    def _run(self, ledger: Ledger, source: Source, events: _TrialEvents | Finals) -> bool:
        conductor = Conductor(
            ledger=ledger,
            source=source,
            spec_of=self._spec_of,
            events=events,
            retire_after=self.config.retire_after,
            judge=self.launch.judge,
        )
        return run_trials(
            self.launch.trainable(),
            conductor,
            concurrent=self.plan.concurrent,
            max_failures=self.launch.tune_failures,
        )

    def _spec_of(self, candidate: Candidate) -> TrialSpec:
        settings = dict(candidate.settings)
        milestones = self.config.milestones(self.space.mode)
        spec = self.make_spec(settings, candidate.name, candidate.seed, milestones)
        return replace(spec, directory=spec.directory or self.config.directory(candidate.name))


class _TrialEvents:
    """Tells the audience of a search's trials."""

    def __init__(self, ledger: Ledger, audience: Audience, config: StudyConfig) -> None:
        self.ledger, self.audience, self.config = ledger, audience, config

    def replay(self) -> None:
        """Tells what earlier starts have finished; whoever missed it has it now."""
        for record in self.ledger.records():
            if record.state == "running":
                continue
            self.audience.trial_started(record)
            for examples, metrics in record.curve.items():
                self.audience.trial_progressed(record, examples, metrics)
            self._ended(record)

    def started(self, number: int) -> None:
        self.audience.trial_started(self.ledger.record(number))

    def progressed(self, number: int, report: Report) -> None:
        record = self.ledger.record(number)
        self.audience.trial_progressed(record, report.examples, report.metrics)

    def ended(self, number: int) -> None:
        self._ended(self.ledger.record(number))

    def _ended(self, record: TrialRecord) -> None:
        self.audience.trial_ended(record)
        tables = sweeps_in(self.config.directory(f"{record.id:04d}"))
        if tables:
            self.audience.run_tables(record.id, None, tables)
