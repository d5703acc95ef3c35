"""What the runner makes of deaths, departures, bad trials and limits; no process is started."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from test_sharing import Wall
from toys import OBJECTIVE, Heard, open_store

from sentune.errors import CheckpointGone, Overtaken, StudyConflict
from sentune.launchers.trial_report import Report, died, failed
from sentune.records import TrialState
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.runner.limits import Halt, Limits
from sentune.study.runner.sharing import Claim, Sharing
from sentune.study.runner.trial_runner import Phase, TrialRunner
from sentune.study.runner.trial_source import Candidate, SearchSource
from sentune.study.samplers.study_adapter import distribution
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.store.trial_store import TrialStore

SPACE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={"x": Choice(*range(30))},
    fixed={"batch_size": 6},
)


@dataclass
class Control:
    asked: int = 0
    forgotten: list[str] = field(default_factory=list)
    kept: dict[str, list[bool]] = field(default_factory=dict)

    def ask_to_leave(self) -> None:
        self.asked += 1

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        self.kept.setdefault(trial, []).append(goes_on)

    def forget(self, trial: str) -> None:
        self.forgotten.append(trial)
        self.kept.pop(trial, None)


@dataclass
class Held:
    """A lock that says what a test wants."""

    signal: str = ""
    lost: bool = False
    lost_because: str = ""
    hours: float = 0.0
    generation: int = 1


class Study:
    """A runner over a real store, whose trials are played by hand."""

    def __init__(self, folder: Path, *, trials: int = 8, **limits: Any) -> None:
        self.store: TrialStore = open_store(folder, space=SPACE)
        self.given: list[Candidate] = []
        self.now = 0.0
        self.heard, self.control = Heard(self.store), Control()
        self.runner = TrialRunner(
            phases=[
                Phase(
                    store=self.store,
                    source=SearchSource(self.store, SPACE, trials=trials, seed=7, sampler="random"),
                    spec_of=self._spec,
                    stored=self.heard,
                )
            ],
            retire_after=100,
            control=self.control,
            limits=Limits(self.store, clock=lambda: self.now, **limits),
            max_failures=2,
            gpus=2.0,
        )

    def _spec(self, candidate: Candidate) -> Any:
        self.given.append(candidate)
        return SimpleNamespace(
            method="toy", settings=candidate.settings, micro_batch=candidate.micro_batch
        )

    def constrain(self, constraint: str) -> None:
        store = replace(self.store, constraints=(Constraint.parse(constraint),))
        self.runner.phase = replace(self.runner.phase, store=store)

    def start(self, name: str) -> Candidate | None:
        return self.given[-1] if self.runner.give(name) is not None else None

    def say(self, name: str, examples: int = 900, **said: Any) -> bool:
        metrics = {OBJECTIVE: 0.5, "train/seconds": 1.0}
        report = Report(**{"examples": examples, "metrics": metrics, "gpus": 2.0, **said})
        return self.runner.hear(name, {**report.to_result(), "time_total_s": 30.0})

    def whole(self, name: str, value: float = 0.5, **said: Any) -> None:
        self.start(name)
        metrics = {OBJECTIVE: value, "train/seconds": 1.0}
        self.say(name, final=True, metrics=metrics, **said)
        self.runner.end(name)

    def fail(self, name: str, why: str = "loss is nan") -> None:
        self.start(name)
        self.say(name, 0, failure=why, repeats=True, metrics={})
        self.runner.end(name)

    def state(self, number: int = 0) -> TrialState:
        return self.store.record(number).state


def test_a_run_whose_process_dies_is_given_out_again_and_then_fails(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=1)
    for death in range(3):
        candidate = study.start(f"t{death}")
        assert candidate is not None, "two deaths are forgiven"
        assert candidate.number == 0
        study.say(f"t{death}", 100)
        study.runner.end(f"t{death}", Report(failure="its process died: signal 9"))
    record = study.store.record(0)
    assert record.state is TrialState.FAILED
    assert record.restarts == 2
    assert record.reason == "its process died: signal 9"
    assert all("signal 9" in note for note in record.notes)
    assert record.gpu_seconds == pytest.approx(3 * 30 * 2), "every attempt is paid for"
    assert study.start("more") is None
    assert study.runner.finished


@pytest.mark.parametrize(
    ("saves", "how"),
    [(True, "from its newest checkpoint, if it has one"), (False, "from its beginning")],
)
def test_a_run_that_starts_again_says_from_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, saves: bool, how: str
) -> None:
    study = Study(tmp_path, trials=1)
    study.runner.saves = saves
    study.start("a")
    study.runner.end("a", Report(failure="its process died"))
    assert caplog.messages == [f"run 0000: its process died; it starts again {how}"]


def test_gpu_seconds_count_while_a_run_works_and_until_its_process_dies(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=1)
    limits, beats = study.runner.limits, dict[str, Any]()
    stalls: Any = SimpleNamespace(look=lambda actors: {}, beats=beats, forget=beats.pop)
    study.runner.stalls = stalls

    def used(at: float) -> float:
        study.now = at
        study.runner.watch()
        return 3600 * limits.used().gpu_hours

    study.start("a")
    assert used(100.0) == 0, "it waits for a machine"
    beats["0000"] = "its first one"
    assert used(150.0) == 0
    assert used(160.0) == pytest.approx(20)
    study.say("a", 100)  # in its 30th second
    assert used(200.0) == pytest.approx(60 + 80)
    study.runner.end("a", Report(failure="its process died"))
    assert study.store.record(0).gpu_seconds == pytest.approx(140)
    study.start("b")
    assert used(900.0) == pytest.approx(140), "its last process's beat says nothing"
    beats["0000"] = "its first one"
    assert used(1000.0) == pytest.approx(140)
    study.now = 1100.0
    study.runner.end("b", Report(failure="its process died"))
    assert used(2000.0) == pytest.approx(140 + 200)
    assert study.store.record(0).gpu_seconds == pytest.approx(140 + 200)
    study.start("c")
    beats["0000"] = "its first one"
    study.say("c", final=True)
    study.runner.end("c")
    assert used(2200.0) == pytest.approx(140 + 200 + 60)
    assert Limits(study.store).used().gpu_hours == pytest.approx(400 / 3600)


def test_the_next_phase_begins_when_no_run_of_the_one_before_is_left(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("search", "finals")]
    for folder in folders:
        folder.mkdir()
    study, finals = (Study(folder, trials=1) for folder in folders)
    begun: list[TrialState] = []

    def phases() -> Iterator[Phase]:
        yield study.runner.phase
        begun.append(study.state())
        yield finals.runner.phase

    study.runner = TrialRunner(
        phases=phases(), limits=Limits(study.store), retire_after=100, max_failures=1
    )
    assert study.start("t0") is not None
    assert study.start("t1") is None, "one is at work"
    study.runner.end("t0", Report(failure="its process died: signal 9"))
    assert study.start("t2") is not None, "it goes on"
    assert not begun
    study.say("t2", final=True)
    study.runner.end("t2")
    assert study.runner.give("f0") is not None
    assert begun == [TrialState.COMPLETE]
    study.say("f0", final=True)
    study.runner.end("f0")
    assert study.runner.give("f1") is None
    assert study.runner.finished
    assert [len(each.store.records()) for each in (study, finals)] == [1, 1]
    assert finals.state() is TrialState.COMPLETE


def test_a_machine_that_is_taken_back_costs_no_failure(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=1)
    for death in range(4):
        assert study.start(f"t{death}") is not None
        if death % 2:
            study.say(f"t{death}", 250, left=True, preempted=True, metrics={})
            study.runner.end(f"t{death}")
        else:
            study.runner.end(f"t{death}", Report(failure="taken back", preempted=True))
    study.whole("last")
    record = study.store.record(0)
    assert (record.state, record.restarts) == (TrialState.COMPLETE, 0)
    assert len(record.notes) == 4
    assert any("250 examples" in note for note in record.notes)


def test_a_run_that_died_of_memory_goes_on_with_half_as_much_until_there_is_nothing_to_halve(
    tmp_path: Path,
) -> None:
    study = Study(tmp_path, trials=2)
    sizes = []
    for death in range(4):
        candidate = study.start(f"t{death}")
        assert candidate is not None
        assert candidate.number == 0
        sizes.append(candidate.micro_batch)
        study.runner.end(f"t{death}", Report(failure="out of memory", out_of_memory=True))
    assert sizes == [0, 3, 2, 1], "0: as the settings say, here batches of 6"
    record = study.store.record(0)
    assert record.state is TrialState.INFEASIBLE
    assert not record.feasible
    assert study.store.get(0).constraints == {"fits_in_memory": 1.0}, "the sampler learns it"
    assert record.restarts == 0
    study.whole("next")
    assert study.state(1) is TrialState.COMPLETE, "the study goes on"


def test_verdicts_on_a_run_are_forgotten_when_it_has_ended(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=3)
    study.runner.grouped = True
    study.start("t0")
    study.start("t1")
    for tune_id in ("t0", "t1"):
        study.say(tune_id, 250)
    assert study.control.kept == {"0000": [True], "0001": [True]}
    study.runner.end("t0", Report(failure="taken back", preempted=True))
    assert study.control.kept == {"0001": [True]}


def test_another_driver_goes_on_with_the_smaller_micro_batch(tmp_path: Path) -> None:
    first = Study(tmp_path, trials=1)
    first.start("t")
    first.runner.end("t", Report(out_of_memory=True))
    candidate = Study(tmp_path, trials=1).start("t")
    assert candidate is not None
    assert (candidate.number, candidate.micro_batch) == (0, 3)


def test_a_device_without_memory_is_infeasible_and_no_failure(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("t")
    study.say("t", 0, failure="out of memory on the device", out_of_memory=True, metrics={})
    study.runner.end("t")
    assert study.state() is TrialState.INFEASIBLE
    assert study.store.record(0).reason == "out of memory on the device"


def test_what_a_run_says_beside_its_curve_is_kept_once(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("t")
    for examples in (100, 300):
        study.say("t", examples, notes=["micro-batch 6 -> 3 after out of memory on the device"])
    assert study.store.record(0).notes == ["micro-batch 6 -> 3 after out of memory on the device"]


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({"train/seconds": 1.0}, f"{OBJECTIVE} is not measured at 100 examples"),
        ({OBJECTIVE: 0.5}, "train/seconds is not measured"),
        ({OBJECTIVE: 0.5, "train/seconds": math.inf}, "train/seconds is inf"),
        ({OBJECTIVE: 0.5, "train/seconds": math.nan}, "train/seconds is nan"),
    ],
)
def test_a_metric_that_is_missing_ends_a_trial_at_its_first_milestone(
    tmp_path: Path, metrics: dict[str, float], told: str
) -> None:
    study = Study(tmp_path)
    study.constrain("train/seconds<=9")
    study.start("t")
    assert not study.say("t", 100, metrics=metrics)
    study.runner.end("t")
    record = study.store.record(0)
    assert record.state is TrialState.FAILED
    assert told in record.reason


def test_a_broken_constraint_is_told_to_the_sampler_and_the_trial_cannot_win(
    tmp_path: Path,
) -> None:
    study = Study(tmp_path)
    study.constrain("train/seconds<=0.5")
    study.whole("t")
    assert study.store.get(0).constraints == {"train/seconds<=0.5": 0.5}
    record = study.store.record(0)
    assert record.state is TrialState.COMPLETE
    assert record.violations == {"train/seconds<=0.5": 0.5}
    assert not record.feasible


def test_a_run_that_was_asked_to_leave_is_continued_by_the_next_start(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("t")
    study.runner.halt(Halt(state="interrupted", reason="interrupted"))
    assert study.control.asked == 1
    assert not study.runner.finished, "it still writes its checkpoint"
    study.say("t", 150, left=True, metrics={})
    study.runner.end("t")
    assert study.start("next") is None
    assert study.runner.finished
    assert study.state() is TrialState.RUNNING
    assert {state for _, state, _ in study.heard.said} == {"running"}
    resumed = Study(tmp_path).start("t")
    assert resumed is not None
    assert resumed.number == 0


def test_too_many_failures_end_the_study_and_say_why(tmp_path: Path) -> None:
    study = Study(tmp_path, failed_share=0.5)
    study.whole("a")
    study.whole("b")
    for name in "cd":
        study.fail(name)
    study.runner.watch()
    assert study.runner.limits.halt is None, "half of four trials"
    study.fail("e", "loss is inf")
    study.runner.watch()
    halt = study.runner.limits.halt
    assert halt is not None
    assert halt.state == "failed"
    for part in ("3 of 5 trials failed", "loss is nan", "loss is inf", "0.5"):
        assert part in halt.reason
    assert study.start("f") is None


def test_a_full_disk_ends_the_study_and_its_trial_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("t")
    study.say("t", 0, failure="/data: the disk is full", storage=True, metrics={})
    study.runner.end("t")
    halt = study.runner.limits.halt
    assert halt == Halt(state="failed", reason="/data: the disk is full")
    assert study.control.asked == 1
    assert study.start("u") is None
    assert study.runner.finished
    resumed = Study(tmp_path).start("t")
    assert resumed is not None
    assert resumed.number == 0


def test_a_worker_that_knows_what_would_fit_is_given_out_again_with_that(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.start("t")
    said = {"failure": "out of memory on the host", "out_of_memory": True, "micro_batch": 2}
    study.say("t", 0, metrics={}, **said)
    study.runner.end("t")
    assert study.state() is TrialState.RUNNING
    candidate = study.start("u")
    assert candidate is not None
    assert (candidate.number, candidate.micro_batch) == (0, 2)


def test_one_that_goes_on_from_a_damaged_checkpoint_begins_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path, space=SPACE)
    drawn = {"x": 1}, {"x": distribution(SPACE.settings["x"])}
    said: dict[str, Any] = {"settings": {"x": 1}, "seed": 7}
    store.create(*drawn, **said)
    store.milestone(0, Report(examples=100, metrics={OBJECTIVE: 0.5}))
    store.prune(0, "it waits")
    best = {"metrics": {OBJECTIVE: 0.5}, "readouts": {}}
    notes = {"parent": 0, "begun_at": 100, "inherited": best, "notes": ["went on"]}
    store.create(*drawn, **said, attributes=notes)
    study = Study(tmp_path)
    candidate = study.start("t")
    assert candidate is not None
    assert (candidate.number, candidate.start_from, candidate.start_at) == (1, "0000", 100)
    gone = failed(CheckpointGone("start_from", "0000", "it was damaged"))
    study.runner.hear("t", gone.to_result())
    study.runner.end("t")
    assert study.start("u") == replace(candidate, start_from="", start_at=0)
    record = study.store.record(1)
    assert (record.state, record.begun_at, record.metrics) == (TrialState.RUNNING, 0, {})
    assert "again from its beginning: start_from: '0000'" in record.notes[1]


def test_a_signal_halts_and_a_lost_lock_stops_at_once(tmp_path: Path) -> None:
    held = Held()
    study = Study(tmp_path, held=held)
    study.start("t")
    study.runner.watch()
    assert study.control.asked == 0
    held.signal = "stop"
    study.runner.watch()
    study.runner.watch()
    assert study.control.asked == 1, "asked once"
    asked = Halt(state="stopped", reason="stopped by `sentune study stop`")
    assert study.runner.limits.halt == asked
    other = Study(tmp_path, held=Held(lost=True, lost_because="pid 7 on b has it"))
    with pytest.raises(StudyConflict, match="pid 7 on b has it"):
        other.runner.watch()


def test_a_trial_that_meets_a_later_start_ends_the_driver_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    study = Study(tmp_path)
    study.start("t")
    before = study.store.get(0)
    report = failed(Overtaken("start 5 of the study has written; this is start 4"))
    study.runner.hear("t", report.to_result())
    study.runner.end("t")
    after = study.store.get(0)
    assert (after.state, after.user_attrs) == (before.state, before.user_attrs), "it goes on there"
    for _ in range(2):
        with pytest.raises(StudyConflict, match=r"lost its study.*start 5"):
            study.runner.watch()
        study.runner.halt(Halt(state="interrupted", reason="interrupted"))


def test_a_group_whose_worker_died_is_given_out_again_and_then_fails(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=1)
    study.runner.grouped = True
    for death in range(3):
        assert study.start(f"t{death}") is not None, "two deaths are forgiven"
        study.say(f"t{death}", 100)
        study.say(f"t{death}", 0, failure="the process of rank 1 died: gone", died=True, metrics={})
        study.runner.end(f"t{death}")
    record = study.store.record(0)
    assert (record.state, record.restarts) == (TrialState.FAILED, 2)
    assert record.reason == "the process of rank 1 died: gone"
    assert record.notes == ["started again: the process of rank 1 died: gone"] * 2
    assert record.gpu_seconds == pytest.approx(3 * 30 * 2), "every attempt is paid for"


def test_a_group_that_was_ended_for_its_silence_says_so_and_counts_as_dead(tmp_path: Path) -> None:
    study = Study(tmp_path, trials=1)
    for death in range(3):
        study.start(f"t{death}")
        study.runner.crashes["0000"] = Report(failure="no beat for 300 s")
        study.say(f"t{death}", 0, failure="the process of rank 0 died", died=True, metrics={})
        study.runner.end(f"t{death}")
    record = study.store.record(0)
    assert (record.restarts, record.reason) == (2, "no beat for 300 s")
    assert record.notes == ["started again: no beat for 300 s"] * 2


def test_an_elastic_group_that_found_no_room_tries_again_and_that_counts_for_nothing(
    tmp_path: Path,
) -> None:
    study = Study(tmp_path, trials=1)
    why = "there was no room for 3 workers after all"
    for start in range(4):
        assert study.start(f"t{start}") is not None
        study.say(f"t{start}", 0, failure=why, preempted=True, died=True, metrics={})
        study.runner.end(f"t{start}")
    record = study.store.record(0)
    assert (record.state, record.restarts) == (TrialState.RUNNING, 0)
    assert record.notes == [f"went on elsewhere: {why}"] * 4


def test_what_ray_says_of_a_death_is_understood() -> None:
    assert died(ray.exceptions.OutOfMemoryError("x")).out_of_memory
    taken = ray.exceptions.ActorDiedError()
    taken._preempted = True
    assert died(taken).preempted
    assert died().failure == "its process died"
    assert "signal 9" in died(RuntimeError("first\nsignal 9\n")).failure


def test_a_study_that_shares_a_cluster_takes_its_places_only(tmp_path: Path) -> None:
    claim = Claim(study="a", cpus=1.0, gpus=0.0, wanted=4)
    place = Sharing(claim, Capacity.fixed(Node(cpus=4)), Wall())
    study, place.allowed = Study(tmp_path, trials=5), 2
    study.runner.sharing = place
    assert study.start("a") is not None
    assert study.start("b") is not None
    assert study.start("c") is None
    assert not study.runner.finished
    study.runner.watch()
    assert place.live == 2
    place.allowed = 1
    study.say("a", final=True)
    study.runner.end("a")
    assert study.start("c") is None, "b is still at work"
    place.allowed = 4
    assert [study.start(name) is None for name in "cde"] == [False] * 3
    assert place.wanted == 4
    assert study.start("f") is None
    assert place.wanted == 4, "the last one of five is at work, and so are three others"
    for name in "bcd":
        study.say(name, final=True)
        study.runner.end(name)
    assert study.start("f") is None
    assert place.wanted == 1, "others may have the rest"
    study.say("e", final=True)
    study.runner.end("e")
    assert study.start("f") is None
    assert study.runner.finished
