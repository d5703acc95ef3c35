"""A toy program and a Tune without Ray, so that a study can be broken anywhere in seconds."""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from sentune.code import loaded_code
from sentune.launchers.run_trial import guarded
from sentune.study.runner.limits import Limits
from sentune.study.runner.trial_runner import Phase, TrialRunner
from sentune.study.runner.trial_source import Candidate, SearchSource, settle_orphans
from sentune.study.samplers.per_trial import Draw, Sampler
from sentune.study.samplers.study_adapter import SAMPLER, distribution
from sentune.study.schedulers import AshaPromotion, Halving, Scheduler
from sentune.study.space.domains import Value
from sentune.study.space.objectives import Objective
from sentune.study.space.space import Choice, Integer, SearchSpace
from sentune.study.store.journal import StudyJournal
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_codec import key
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.toy_trials import OBJECTIVE, toy_spec

SPACE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={"x": Integer(0, 9), "y": Choice(0, 1, 2)},
    published={"x": 3, "y": 0},
)
HALVING = Halving(first_rung=100, eta=3, max_examples=900)
PROMOTION = AshaPromotion(first_rung=100, eta=3, max_examples=900, ahead=1)
"""A study's own, which goes on with stopped trials at its end too, however few there are."""


def toy(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Scores by a formula; x = 9 gives NaN, x = 8 an exception. Resumes like the real loop."""
    last = CheckpointStore(spec.directory).last_progress()
    if last is not None:
        yield last.again(lambda folder: None)
    x, y = spec.settings["x"], spec.settings["y"]
    for examples in spec.milestones:
        if last is not None and examples <= last.examples:
            continue
        if x == 8:
            raise ValueError("eight is too much\nsecond line")
        score = -((x - 3) ** 2) / 100 - y / 10 + examples / 10_000 + spec.seed / 1000
        yield Progress(
            examples=examples,
            metrics={OBJECTIVE: math.nan if x == 9 else score, "train/seconds": examples / 100},
            readouts={"toy/beta": examples / 1000},
            final=examples == spec.max_examples,
            save=lambda folder: None,
        )


def swept(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """The toy, with the table of a sweep at each milestone."""
    for progress in toy(spec, group):
        table = {"best": {"beta": progress.examples / 1000}}
        yield replace(progress, tables={"toy/sweep.json": table, "toy/counts.json": {}})


def heavy(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Takes 40 MB, and says in which process it is and what that process holds."""
    held = np.ones(5_000_000)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    for examples in spec.milestones:
        metrics = {OBJECTIVE: float(held[0]), "toy/pid": os.getpid(), "toy/pages": pages}
        yield Progress(
            examples=examples,
            metrics=metrics,
            final=examples == spec.max_examples,
            save=lambda folder: None,
        )


def mortal(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Its process dies: once for x = 1, each time for x = 2."""
    died = Path(spec.directory).parent / f"died-{spec.trial}"
    for progress in toy(spec, group):
        yield progress
        if progress.examples == 100 and (spec.settings["x"] == 2 or not died.exists()):
            died.touch()
            if spec.settings["x"] != 3:
                os._exit(1)


def make_spec(folder: Path, candidate: Candidate) -> TrialSpec:
    """The toy's training run of a candidate."""
    milestones = tuple(at for at in HALVING.milestones if at > candidate.start_at)
    directory = str(folder / "trials" / candidate.name)
    settings = dict(candidate.settings)
    return toy_spec(settings, candidate.name, candidate.seed, milestones, directory=directory)


class Given:
    """A sampler that draws given points in turn, whatever is known."""

    def __init__(self, *points: dict[str, Value]) -> None:
        self._points = iter(points)

    def draw(self, trials: Sequence[FrozenTrial], number: int, known: Container[str]) -> Draw:
        return Draw(point=next(self._points))


class Drawn:
    """A sampler's draws, each of which is stored before the next one."""

    def __init__(self, sampler: Sampler, space: SearchSpace, modes: Sequence[str] = ()) -> None:
        self.sampler, self.space = sampler, space
        directions = {"max": "maximize", "min": "minimize"}
        self.study = optuna.create_study(directions=[directions[m] for m in modes or [space.mode]])

    def next(self) -> dict[str, Value]:
        """The next point; ``ends`` stores it."""
        trials = self.study.get_trials(deepcopy=False)
        known = {key(t.params) for t in trials}
        self.draw = self.sampler.draw(trials, len(trials), known)
        return self.draw.point

    def ends(self, **ending: Any) -> None:
        """Stores the point with its end, as ``optuna.create_trial`` has it."""
        point = self.draw.point
        axes = {name: distribution(self.space.settings[name]) for name in point}
        notes = {SAMPLER: self.draw.notes}
        template = optuna.create_trial(params=point, distributions=axes, user_attrs=notes, **ending)
        self.study.add_trial(template)


class Killed(BaseException):
    """The driver is gone."""


@dataclass
class Heard:
    """Runs of which a runner says that something is stored: number, state, examples."""

    store: TrialStore
    said: list[tuple[int, str, int]] = field(default_factory=list)

    def __call__(self, number: int) -> None:
        record = self.store.record(number)
        self.said.append((number, record.state.value, record.examples))


def open_store(
    folder: Path,
    *,
    space: SearchSpace = SPACE,
    writes: int | None = None,
    database: bool = False,
    scheduler: Scheduler = HALVING,
) -> TrialStore:
    """The store in a folder.

    Args:
        writes: of the store, after which the driver is killed; a journal counts batches.
        database: instead of a journal: SQLite, or PostgreSQL where ``SENTUNE_POSTGRES`` names one,
            with a study for each folder.
    """
    url, name = f"{folder / 'optuna.journal'}", "toy"
    if database and (server := os.environ.get("SENTUNE_POSTGRES")):
        url, name = server, f"toy{folder}"
    elif database:
        url = f"sqlite:///{folder / 'optuna.db'}"
    storage = open_storage(url, driver=True)
    if writes is not None:
        kill_after(storage, writes)
    study = open_study(
        storage,
        name,
        modes=[space.mode],
        fingerprint={"space": space.identity()},
    )
    objective = Objective(OBJECTIVE, space.mode)
    return TrialStore(
        study=study, storage=storage, objectives=[objective], budget=900, scheduler=scheduler
    )


def kill_after(storage: Any, writes: int) -> None:
    left = [writes]

    def counted(write: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return write(*args, **kwargs)

        return call

    if isinstance(storage, StudyJournal):
        place, names = storage.file, ["_write"]
    else:
        place, names = storage, [n for n in dir(BaseStorage) if n.startswith(("create_", "set_"))]
    for name in names:
        setattr(place, name, counted(getattr(place, name)))


def play(
    store: TrialStore,
    folder: Path,
    *,
    trials: int = 12,
    space: SearchSpace = SPACE,
    sampler: Sampler | str = "tpe",
    first: bool = True,
) -> Heard:
    """Runs a study as Tune does at concurrency 1, in this process."""
    heard = Heard(store)
    settle_orphans(store)
    runner = TrialRunner(
        phases=[
            Phase(
                store=store,
                source=SearchSource(
                    store, space, trials=trials, seed=7, sampler=sampler, first=first
                ),
                spec_of=lambda candidate: make_spec(folder, candidate),
                stored=heard,
            )
        ],
        limits=Limits(store),
        retire_after=5,
    )
    place = 0
    while (config := runner.give(str(place))) is not None:
        for report in guarded(
            toy, config["spec"].value, Group.single("cpu"), loaded_code().fingerprint
        ):
            if not runner.hear(str(place), report.to_result()):
                break
        runner.end(str(place))
        place += 1
    assert runner.finished
    return heard


def table(store: TrialStore) -> list[tuple[Any, ...]]:
    """All that must come out the same however often the driver was killed."""
    return [
        (r.id, r.state, r.reason, r.settings, r.readouts, r.metrics, r.examples, r.curve)
        for r in store.records()
    ]
