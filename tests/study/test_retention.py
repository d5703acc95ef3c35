"""What stays on disk over a study: the best, what runs, the winner; never more than the bound."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pytest
from toys import SPACE

from sentune.records import TrialRecord, TrialState
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.planning.plan import bytes_bound, make_plan
from sentune.study.runner.retention import (
    Retention,
    Stays,
    note_published,
    published,
)
from sentune.study.space.objectives import Objective, ranked
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress

SCORE = Objective("toy/score")
STATE, LARGEST = 1000, 1700
"""Bytes of a trial's state, and at most of its checkpoint with the document."""


@pytest.fixture(params=["folder", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path)
    else:
        yield "memory://bucket"
        fsspec.filesystem("memory").store.clear()


@dataclass
class Toys:
    """Trials and runs of the finals as the store would have them."""

    config: StudyConfig
    trials: list[TrialRecord] = field(default_factory=list)
    finals: dict[str, TrialRecord] = field(default_factory=dict)
    objectives: Sequence[Objective] = (SCORE,)
    winner: str | None = None

    def records(self) -> list[TrialRecord]:
        return self.trials

    def runs(self) -> dict[str, TrialRecord]:
        return self.finals

    def winning_run(self) -> str | None:
        return self.winner

    def store(self, name: str) -> CheckpointStore:
        return CheckpointStore(self.config.directory(name))

    def save(self, name: str, examples: int, score: float, milestone: bool = True) -> None:
        def write(folder: Path) -> None:
            (folder / "state").write_bytes(b"x" * STATE)

        said = Progress(examples=examples, metrics={}, save=write, milestone=milestone)
        self.store(name).save(said, score)

    def add(
        self, value: float, state: TrialState = TrialState.COMPLETE, broken: float = -1.0
    ) -> str:
        """A trial with a best, a newest and a milestone's checkpoint."""
        record = TrialRecord(
            id=len(self.trials), state=state, settings={}, metrics={SCORE.metric: value},
            violations={"toy/cost<=1": broken},
        )  # fmt: skip
        self.trials.append(record)
        return self.written(f"{record.id:04d}", value)

    def written(self, name: str, value: float) -> str:
        self.save(name, 100, value)
        self.save(name, 200, value - 0.1)
        self.save(name, 210, 0.0, milestone=False)
        return name

    def kept(self) -> dict[str, list[str]]:
        """Run -> its checkpoints, without the runs that have none."""
        files, root = fsspec.url_to_fs(f"{self.config.folder}/trials")
        if not files.isdir(root):
            return {}
        found: dict[str, list[str]] = {}
        for path in sorted(files.find(root)):
            name, checkpoint = path.split("/trials/", 1)[1].split("/")[:2]
            if checkpoint not in found.setdefault(name, []):
                found[name].append(checkpoint)
        return found

    def bytes(self) -> int:
        files, root = fsspec.url_to_fs(f"{self.config.folder}/trials")
        return sum(files.size(path) for path in files.find(root))


def toys(storage: str, keep: int = 2) -> Toys:
    return Toys(StudyConfig(name="s", storage=storage, max_examples=300, keep=keep))


ALL = ["examples_000000100", "examples_000000200", "examples_000000210"]
BEST = ALL[:1]


def test_the_best_trials_keep_their_best_what_runs_keeps_all_the_rest_nothing(
    storage: str,
) -> None:
    study = toys(storage)
    for value in (0.5, 0.9, 0.7, 0.9):
        study.add(value)
    study.add(0.99, broken=3.0)
    running = study.add(0.1, TrialState.RUNNING)
    for state in (TrialState.PRUNED, TrialState.FAILED, TrialState.INFEASIBLE):
        study.add(1.0, state)
    study.written("of-somebody-else", 1.0)
    retention = Retention(study.config, study)
    kept = {"0001": BEST, "0003": BEST, running: ALL, "of-somebody-else": ALL}
    for _ in range(2):
        retention.apply()
        assert study.kept() == kept
    Retention(study.config, study).apply()
    assert study.kept() == kept


def test_what_a_late_process_wrote_is_found_at_the_study_s_end(storage: str) -> None:
    study = toys(storage)
    stopped = study.add(0.5, TrialState.PRUNED)
    retention = Retention(study.config, study)
    retention.apply()
    study.save(stopped, 300, 0.6)
    retention.apply()
    assert stopped in study.kept()
    retention.apply(everything=True)
    assert study.kept() == {}


def test_what_a_scheduler_may_go_on_from_stays_whatever_became_of_it(storage: str) -> None:
    study, needed = toys(storage), {"0000", "0001"}
    study.add(0.1, TrialState.PRUNED)
    study.add(0.9)
    study.add(0.2, TrialState.PRUNED)
    retention = Retention(study.config, study, needed=lambda: needed)
    retention.apply()
    assert study.kept() == {"0000": ALL, "0001": ALL}
    needed.clear()
    retention.apply()
    assert study.kept() == {"0001": BEST}


def test_of_one_that_went_on_the_run_with_its_best_milestone_is_kept(storage: str) -> None:
    study, needed = toys(storage, keep=1), {"0001"}
    study.add(0.9, TrialState.PRUNED)
    study.trials[0].curve = {50: {SCORE.metric: 0.9}}
    retention = Retention(study.config, study, needed=lambda: needed)
    for parent, state in ((0, TrialState.PRUNED), (1, TrialState.RUNNING)):
        study.add(0.9, state)
        study.trials[-1].parent, study.trials[-1].begun_at = parent, 100
        if state is TrialState.PRUNED:
            retention.apply()
            assert study.kept() == {"0000": BEST, "0001": ALL}, "0001 waits to go on"
    retention.apply()
    assert study.kept() == {"0000": BEST, "0001": ALL, "0002": ALL}
    needed.clear()
    study.trials[-1].state = TrialState.COMPLETE
    for _ in range(2):
        retention.apply()
        assert study.kept() == {"0000": BEST}
    study.add(0.95)
    retention.apply()
    assert study.kept() == {"0003": BEST}


def test_finalists_keep_their_best_until_the_winner_is_published(storage: str) -> None:
    study = toys(storage, keep=1)
    study.add(0.9)
    runs = {"finalist-0000-seed-1": 0.8, "finalist-0000-seed-2": 0.7, "finalist-0001-seed-1": 0.6}
    for name, value in runs.items():
        study.written(name, value)
    retention = Retention(study.config, study)
    retention.apply()
    assert study.kept() == {"0000": BEST, **dict.fromkeys(runs, ALL)}  # nobody knows them yet
    states = [TrialState.COMPLETE, TrialState.RUNNING, TrialState.COMPLETE]
    study.finals = {
        name: TrialRecord(id=n, state=state, settings={})
        for n, (name, state) in enumerate(zip(runs, states, strict=True))
    }
    study.winner, retention.finals = "finalist-0000-seed-1", study
    retention.apply()
    assert list(study.kept().values()) == [BEST, BEST, ALL, BEST]
    study.finals["finalist-0000-seed-2"].state = TrialState.FAILED
    note_published(study.config.folder, "finalist-0000-seed-1")
    retention.apply(everything=True)
    assert study.kept() == {"0000": BEST, "finalist-0000-seed-1": BEST}


def test_the_published_model_s_checkpoint_stays_when_another_run_wins(storage: str) -> None:
    study = toys(storage, keep=1)
    study.add(0.9)
    retention = Retention(study.config, study)
    retention.finals = study
    for number, name in enumerate(("finalist-0000-seed-1", "finalist-0003-seed-1")):
        study.written(name, 0.5)
        study.finals[name] = TrialRecord(id=number, state=TrialState.COMPLETE, settings={})
    note_published(study.config.folder, "finalist-0000-seed-1")
    study.winner = "finalist-0003-seed-1"
    retention.apply(everything=True)
    assert len(study.kept()) == 3
    note_published(study.config.folder, study.winner)
    retention.apply(everything=True)
    assert list(study.kept()) == ["0000", "finalist-0003-seed-1"]
    assert published(study.config.folder) == study.winner


def test_without_finals_the_published_trial_stays_when_better_ones_push_it_out(
    storage: str,
) -> None:
    study = toys(storage, keep=1)
    study.add(0.5)
    retention = Retention(study.config, study)
    note_published(study.config.folder, "0000")
    study.add(0.6)
    retention.apply(everything=True)
    assert study.kept() == {"0000": BEST, "0001": BEST}


def test_with_several_objectives_the_front_is_kept_best_first() -> None:
    cost = Objective("toy/cost", "min")
    points = [(0.9, 5.0), (0.8, 1.0), (0.7, 2.0), (0.9, 6.0), (0.2, 0.5)]
    trials = [
        TrialRecord(
            id=n, state=TrialState.COMPLETE, settings={}, metrics={"toy/score": s, "toy/cost": c}
        )
        for n, (s, c) in enumerate(points)
    ]
    assert [t.id for t in ranked(trials, (SCORE, cost))] == [0, 1, 4]
    assert [t.id for t in ranked(trials, (SCORE,))] == [0, 3, 1, 2, 4]
    assert [t.id for t in ranked(trials, (cost,))] == [4, 1, 2, 0, 3]


def test_a_folder_that_cannot_be_dropped_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study = toys(str(tmp_path))
    study.add(0.5, TrialState.PRUNED)
    retention = Retention(study.config, study)

    def busy(store: CheckpointStore) -> None:
        raise OSError(16, "Device or resource busy")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(CheckpointStore, "drop_all", busy)
        retention.apply()
    assert "0000: its checkpoints could not be dropped: [Errno 16]" in caplog.text
    retention.apply()
    assert study.kept() == {}


class Simulation:
    """A study of forty trials on disk, measured after every event and during every write.

    Trials are stopped, fail and leave damaged checkpoints at random; the driver dies now and then.
    """

    CONCURRENT, KEEP, TRIALS = 3, 2, 40

    def __init__(self, storage: str, seed: int) -> None:
        self.random, self.study = random.Random(seed), toys(storage, self.KEEP)
        self.retention = Retention(self.study.config, self.study)
        self.most = 0
        self.reached: dict[str, int] = {}

    def run(self) -> None:
        while len(self.study.trials) < self.TRIALS or self._live():
            if len(self._live()) < self.CONCURRENT and len(self.study.trials) < self.TRIALS:
                number = len(self.study.trials)
                self.study.trials.append(
                    TrialRecord(id=number, state=TrialState.RUNNING, settings={})
                )
            else:
                self._step(self.random.choice(self._live()))
            if self.random.random() < 0.05:
                self.retention = Retention(self.study.config, self.study)
                self.retention.apply()
            self._measure()
            self._winner_is_there()

    def _live(self) -> list[TrialRecord]:
        return [t for t in self.study.trials if t.state is TrialState.RUNNING]

    def _step(self, trial: TrialRecord) -> None:
        name = f"{trial.id:04d}"
        self.reached[name] = at = self.reached.get(name, 0) + 50
        if at % 100:
            self._write(name, at, 0.0, milestone=False)
            if self.random.random() < 0.3:
                self._damage_newest(name)
            return
        value = round(self.random.random(), 2)
        self._write(name, at, value, milestone=True)
        best = max(value, trial.metrics.get(SCORE.metric, 0.0))
        trial.metrics[SCORE.metric] = best
        if at == 300:
            trial.state = TrialState.COMPLETE
        elif self.random.random() < 0.3:
            trial.state = self.random.choice((TrialState.PRUNED, TrialState.FAILED))
        if trial.state is not TrialState.RUNNING:
            self._measure()
            self.retention.apply()

    def _write(self, name: str, examples: int, score: float, *, milestone: bool) -> None:
        def write(folder: Path) -> None:
            (folder / "state").write_bytes(b"x" * STATE)
            self._measure()

        said = Progress(examples=examples, metrics={}, save=write, milestone=milestone)
        self.study.store(name).save(said, score)

    def _damage_newest(self, name: str) -> None:
        store = self.study.store(name)
        folder = store.last()
        assert folder is not None
        (folder / "state").write_bytes(b"y" * STATE)
        store = self.study.store(name)
        store.last()
        assert len(store.notes) == 1

    def _measure(self) -> None:
        self.most = max(self.most, self.study.bytes())

    def _winner_is_there(self) -> None:
        if best := ranked(self.study.trials, self.study.objectives):
            assert self.study.store(f"{best[0].id:04d}").best() is not None


def bound(each: int, **changes: int) -> int:
    """The bound of a study without trials that may go on."""
    config = StudyConfig(
        name="s", storage="", max_examples=300, scheduler="asha", **{"finalists": 0, **changes}
    )
    return bytes_bound(each, make_plan(config, SPACE, Capacity.fixed(Node(cpus=4))), config)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_on_disk_never_exceed_the_bound_and_the_winner_is_always_there(
    seed: int, tmp_path: Path
) -> None:
    simulation = Simulation(str(tmp_path), seed)
    simulation.run()
    most = bound(LARGEST, concurrent=Simulation.CONCURRENT, keep=Simulation.KEEP)
    assert STATE * Simulation.KEEP < simulation.most <= most
    assert set(simulation.study.kept()) == {
        f"{t.id:04d}" for t in ranked(simulation.study.trials, [SCORE])[: Simulation.KEEP]
    }
    sizes = [p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()]
    assert sum(sizes) <= LARGEST * Simulation.KEEP


def test_the_bound_counts_finals() -> None:
    assert bound(10, concurrent=2, keep=3) == 10 * (10 + 3 + 1)
    assert bound(10, concurrent=2, keep=3, finalists=2, seeds=2) == 10 * (10 + 3 + 4 + 1)


def test_a_run_that_must_stay_is_never_dropped_by_a_weaker_rule(tmp_path: Path) -> None:
    study = toys(str(tmp_path))
    name = study.add(0.1, TrialState.PRUNED)
    note_published(study.config.folder, name)
    assert Retention(study.config, study).rule()[name] is Stays.BEST
    assert Retention(study.config, study, needed=lambda: {name}).rule()[name] is Stays.ALL
