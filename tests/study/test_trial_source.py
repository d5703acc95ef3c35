"""Where runs come from: points to try first, orphans, and runs of the finals."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from benchmarks.simulate import open_simulated
from sentune.launchers.trial_report import Report
from sentune.records import PART, Spent, TrialRecord, measured_by, with_ends
from sentune.records import TrialState as State
from sentune.study.runner.trial_source import Candidate, FinalsSource, SearchSource
from sentune.study.samplers.per_trial import Draw, PerTrial
from sentune.study.samplers.registry import make_sampler
from sentune.study.schedulers import KINDS, Scheduler
from sentune.study.space.domains import Choice, Uniform
from sentune.study.space.space import SearchSpace
from sentune.study.store.storage import open_storage
from sentune.study.store.trial_codec import MICRO_BATCH
from sentune.study.store.trial_store import TrialStore

SPACE = SearchSpace(
    method="toy",
    objective="toy/score",
    settings={"rate": Uniform(0.0, 2.0), "pooling": Choice("cls", "mean")},
    fixed={"width": 8},
    published={"rate": 1, "pooling": "cls"},
)


@pytest.fixture
def storage() -> optuna.storages.BaseStorage:
    return optuna.storages.InMemoryStorage()


def opened(storage: optuna.storages.BaseStorage) -> TrialStore:
    return open_simulated(SPACE, Scheduler(max_examples=900), storage=storage)


def test_points_to_try_come_first_and_once_however_often_a_study_is_started(storage):
    """One that is added later comes next; a range's 1 is stored as 1.0, and is the same point."""
    given = []
    for tried in ([], [], [{"rate": 0.5}], [{"rate": 0.5}]):
        source = SearchSource(opened(storage), SPACE.with_points(tried), trials=9, seed=0)
        run = source.next(0)
        assert run is not None
        given.append((run.number, run.settings["rate"]))
        source.store.fail(run.number, "lost")
    assert given[0] == (0, 1.0)
    assert given[2] == (2, 0.5)
    assert [number for number, _ in given] == [0, 1, 2, 3]
    assert {given[1][1], given[3][1]}.isdisjoint({1.0, 0.5})


def test_an_orphan_goes_on_under_its_number_with_what_it_ran(storage):
    first = SearchSource(opened(storage), SPACE, trials=3, seed=4)
    runs = [first.next(live) for live in range(2)]
    first.store.restarted(1, "fewer at a time", micro_batch=2, counts=False)
    again = SearchSource(opened(storage), SPACE, trials=3, seed=4)
    assert again.next(0) == runs[0]
    assert again.next(1) == replace(runs[1], micro_batch=2)
    assert first.store.get(1).user_attrs[MICRO_BATCH] == 2
    third = again.next(2)
    assert third is not None
    assert (third.number, third.settings["width"]) == (2, 8)
    assert again.next(3) is None, "planned were three"


class Search:
    """A search of trials with a rung at 100 of 200 examples, half of which go on."""

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        trials: int,
        numbers: Mapping[str, int] = {},
        **source: Any,
    ) -> None:
        numbers = {"first_rung": 100, "eta": 2, "max_examples": 200, "keep": 1, **numbers}
        self.rungs = KINDS["asha-promotion"](**numbers)
        self.store = open_simulated(SPACE, self.rungs, storage=storage)
        self.source = SearchSource(self.store, SPACE, trials=trials, seed=3, **source)

    def next(self, live: int = 0) -> Candidate:
        run = self.source.next(live)
        assert run is not None
        return run

    def stop_two(self) -> None:
        """Let the rung stop trial 0, the better one, and trial 1."""
        for value in (0.5, 0.4):
            self.report(self.next(), value)

    def report(self, run: Candidate, value: float) -> None:
        """Let a run reach its next milestone and end there."""
        examples = run.start_at + 100
        metrics = {"toy/score": value, **({PART: 1.0} if examples == 100 else {})}
        report = Report(examples=examples, final=examples == 200, metrics=metrics)
        stopped = self.store.milestone(run.number, report)
        assert bool(stopped) is (examples == 100)
        if stopped:
            self.store.prune(run.number, stopped)
        else:
            self.store.complete(run.number)


def test_a_stopped_trial_goes_on_when_it_is_among_the_best_of_its_rung(storage):
    search = Search(storage, trials=3)
    good = search.next()
    search.report(good, 0.5)
    search.report(search.next(), 0.4)
    assert "0000" in search.source.needed()
    on = search.next()
    assert (on.number, on.start_from, on.start_at) == (2, "0000", 100)
    assert (on.settings, on.seed) == (good.settings, good.seed)
    killed = Search(storage, trials=3)
    assert killed.next() == on, "a driver that is killed goes on with it"
    assert "0000" in killed.source.needed(), "it may have no checkpoint of its own yet"
    search.report(on, 0.6)
    third = search.next()
    assert (third.number, third.start_from) == (3, ""), "three are drawn"
    search.report(third, 0.1)
    assert search.source.next(0) is None
    assert search.source.finished
    record = search.store.record(2)
    assert (record.begun_at, record.examples) == (100, 200)
    assert record.notes == ["went on from trial 0 at 100 examples"]
    seen = [(t.state, t.value) for t in seen_by_tpe(search.store)]
    stopped, complete = TrialState.PRUNED, TrialState.COMPLETE
    assert seen == [(stopped, 0.4), (complete, 0.6), (stopped, 0.1)]


def test_one_that_goes_on_keeps_the_best_milestone_before_it_was_stopped(storage):
    """As if it had never been stopped, over two rungs, for rankings, samplers and the model."""
    search = Search(storage, trials=3, numbers={"max_examples": 400})
    curve = {50: 0.9, 100: 0.6, 200: 0.5, 400: 0.4}
    others = {100: 0.5, 200: 0.3, 400: 0.2}

    def play(curve: Mapping[int, float]) -> Candidate:
        run = search.next()
        for at in (at for at in curve if at > run.start_at):
            metrics, readouts = {"toy/score": curve[at]}, {"toy/beta": at}
            said = Report(examples=at, final=at == 400, metrics=metrics, readouts=readouts)
            if stopped := search.store.milestone(run.number, said):
                search.store.prune(run.number, stopped)
                return run
        search.store.complete(run.number)
        return run

    played = [play(curve), play(others), play(curve), play(others), play(curve)]
    assert [run.start_from for run in played] == ["", "", "0000", "", "0002"]
    last = search.store.record(4)
    assert (last.state, last.metrics, last.readouts) == (
        State.COMPLETE, {"toy/score": 0.9}, {"toy/beta": 50}
    )  # fmt: skip
    assert search.store.get(4).values == [0.9]
    assert [*last.curve] == [400]
    records = {record.id: record for record in search.store.records()}
    assert measured_by(last, records).id == 0, "its checkpoint is the one to ship"
    (whole,) = [trial for trial in with_ends(records.values()) if trial.id == 4]
    assert (whole.metrics, [*whole.curve]) == (last.metrics, [*curve])


def new_tpe() -> PerTrial:
    sampler = make_sampler("tpe", SPACE, trials=9, seed=0)
    assert isinstance(sampler, PerTrial)
    return sampler


def seen_by_tpe(store: TrialStore, sampler: PerTrial | None = None) -> list[FrozenTrial]:
    sampler = sampler or new_tpe()
    seen: list[FrozenTrial] = []
    sampler.view = lambda trials: seen.extend(trials) or list(trials)
    sampler.draw(store.all_trials(), 9, ())
    return seen


def test_a_search_brings_a_trial_to_its_end_though_others_fail_or_it_is_closed(storage):
    search = Search(storage, trials=2)
    search.stop_two()
    search.source.close()
    on = search.next()
    assert on.start_from == "0000"
    search.store.fail(on.number, "its loss is nan", repeats=True)
    on = search.next()
    assert on.start_from == "0001"
    search.report(on, 0.7)
    assert search.source.next(0) is None
    assert search.source.needed() == set(), "nothing goes on any more"


def test_one_that_finds_no_memory_as_it_goes_on_makes_room_for_the_next(storage):
    search = Search(storage, trials=2)
    search.stop_two()
    search.store.infeasible(search.next().number, "no memory")
    assert search.next().start_from == "0001"


def test_the_last_ones_go_on_side_by_side_and_no_rung_stops_them(storage):
    search = Search(storage, trials=2, numbers={"eta": 3, "max_examples": 900, "keep": 2})
    search.stop_two()
    runs = [search.next(live) for live in range(2)]
    assert [run.start_from for run in runs] == ["0000", "0001"]
    assert search.source.next(2) is None
    assert not search.source.finished
    at_rung = Report(examples=300, metrics={"toy/score": 0.0, PART: 1.0})
    assert search.store.milestone(runs[0].number, at_rung) == ""


def test_the_best_still_go_on_where_the_source_was_asked_before_any_came_to_a_rung(storage):
    search = Search(storage, trials=3, numbers={"eta": 4})
    runs = [search.next(live) for live in range(3)]
    assert search.source.next(3) is None
    for run, value in zip(runs, (0.4, 0.5, 0.3), strict=True):
        search.report(run, value)
    assert search.next().start_from == "0001"


@pytest.mark.parametrize("seed", range(30))
def test_every_search_has_as_many_complete_trials_as_it_keeps_or_leaves_none_stopped(seed: int):
    """Whichever trial reports next, and whenever the source is asked; some trials fail."""
    rng = random.Random(seed)
    trials, places, keep = rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 3)
    numbers = {"eta": rng.choice([2, 3]), "max_examples": 600, "keep": keep, "ahead": seed % 2}
    search = Search(optuna.storages.InMemoryStorage(), trials, numbers)
    live: list[Candidate] = []
    while not search.source.finished:
        if len(live) < places and (run := search.source.next(len(live))) is not None:
            live.append(run)
        elif live:
            run = live.pop(rng.randrange(len(live)))
            reached = max([run.start_at, *search.store.get(run.number).intermediate_values])
            at = next(at for at in search.rungs.milestones if at > reached)
            report = Report(examples=at, final=at == 600, metrics={"toy/score": rng.random()})
            if rng.random() < 0.1:
                search.store.fail(run.number, "its loss is nan", repeats=True)
            elif stopped := search.store.milestone(run.number, report):
                search.store.prune(run.number, stopped)
            elif report.final:
                search.store.complete(run.number)
            else:
                live.append(run)
    records = search.store.records()
    assert sum(record.parent is None for record in records) == trials
    states = [record.state for record in with_ends(records)]
    assert states.count(State.COMPLETE) >= keep or State.PRUNED not in states


def test_one_whose_checkpoint_is_gone_begins_anew(storage):
    search = Search(storage, trials=2, has_checkpoint=lambda run, examples: run != "0000")
    search.stop_two()
    on = search.next()
    assert (on.number, on.start_from, on.start_at) == (2, "", 0)
    record = search.store.record(2)
    assert record.notes == ["trial 0 again from its beginning: its checkpoint at 100 is gone"]
    assert (record.parent, record.begun_at) == (0, 0)


def test_one_that_begins_anew_stands_once_in_the_rung_that_it_comes_to_again(storage):
    """The place of its parent there is left to the next best."""
    more = {"numbers": {"eta": 3, "max_examples": 300}, "has_checkpoint": lambda *_: False}
    search = Search(storage, trials=7, **more)
    values = iter([0.9, 0.8, 0.1, 0.9, 0.2, 0.2, 0.2])

    def reach_rung() -> str:
        value = next(values)
        said = Report(examples=100, metrics={"toy/score": value, PART: 1.0})
        run = search.next()
        if stopped := search.store.milestone(run.number, said):
            search.store.prune(run.number, stopped)
        else:
            final = Report(examples=300, final=True, metrics={"toy/score": value})
            search.store.milestone(run.number, final)
            search.store.complete(run.number)
        return stopped

    stopped = [reach_rung() for _ in range(7)]
    assert [bool(why) for why in stopped] == [True, True, True, False, True, True, True]
    assert search.store.record(3).parent == 0
    assert "the best 1 of 5 go on" in stopped[5], "trials 0 and 3 are one"
    assert search.store.record(search.next().number).parent == 1


def test_one_that_begins_anew_is_not_judged_again_where_it_was_among_the_best(storage):
    """Of equals the earlier ones are better: it would be stopped there for ever."""
    more = {"numbers": {"eta": 3, "max_examples": 300}, "has_checkpoint": lambda *_: False}
    search = Search(storage, trials=6, **more)
    for _ in range(12):
        if (run := search.source.next(0)) is None:
            break
        for at in (100, 300):
            report = Report(examples=at, final=at == 300, metrics={"toy/score": 0.5, PART: 1.0})
            if stopped := search.store.milestone(run.number, report):
                search.store.prune(run.number, stopped)
                break
        else:
            search.store.complete(run.number)
    assert search.source.finished


def test_where_a_budget_is_used_up_only_what_the_search_needs_goes_on(storage):
    search = Search(storage, trials=9)
    search.stop_two()
    promoted = search.next()
    search.next(1)
    killed = Search(storage, trials=9)
    killed.source.close()
    assert killed.next() == promoted, "none has come to its end yet"
    killed.report(promoted, 0.6)
    assert killed.source.next(0) is None, "the other one stays as it is"
    assert killed.source.finished
    more = Search(storage, trials=9)
    more.source.close()
    assert more.source.next(0) is None


class Always:
    """Draws the same point."""

    def draw(self, *_: Any) -> Draw:
        return Draw(point={"rate": 0.5, "pooling": "cls"})


def test_a_sampler_that_repeats_itself_leaves_its_copies_once(storage):
    search = Search(storage, trials=9, sampler=Always())
    search.report(search.next(), 0.5)
    search.next()
    assert search.source.next(1) is None
    stored = len(search.store.all_trials())
    assert search.source.next(1) is None
    assert len(search.store.all_trials()) == stored


def test_a_sampler_sees_one_that_goes_on_once_and_with_all_of_its_curve(storage):
    search = Search(storage, trials=3)
    search.stop_two()

    def curves() -> list[dict[int, float]]:
        return [trial.intermediate_values for trial in seen_by_tpe(search.store)]

    on = search.next()
    assert curves() == [{100: 0.5}, {100: 0.4}], "it has measured nothing more yet"
    search.report(on, 0.6)
    assert curves() == [{100: 0.4}, {100: 0.5, 200: 0.6}]
    records = search.store.records()
    ends = with_ends(replace(one, seconds=2.0**one.id) for one in reversed(records))
    assert [trial.id for trial in ends] == [1, 2]
    assert [[*trial.curve] for trial in ends] == [[100], [100, 200]]
    assert ends[1].notes == ["went on from trial 0 at 100 examples"]
    assert [trial.seconds for trial in ends] == [2, 1 + 4]
    assert Spent.of(records, [], 0.0).trials == 2


@pytest.mark.parametrize("place", ["{}/optuna.journal", "sqlite:///{}/optuna.db"])
def test_a_sampler_that_has_drawn_before_sees_what_a_new_one_sees(tmp_path: Path, place: str):
    storage = open_storage(place.format(tmp_path), driver=True)
    search, kept = Search(storage, trials=4), new_tpe()

    def states() -> list[tuple[TrialState, dict[int, float]]]:
        shown, anew = (seen_by_tpe(search.store, sampler) for sampler in (kept, None))
        assert [vars(trial) for trial in shown] == [vars(trial) for trial in anew]
        return [(trial.state, trial.intermediate_values) for trial in shown]

    first, second = search.next(), search.next(1)
    running, stopped = TrialState.RUNNING, TrialState.PRUNED
    assert states() == [(running, {}), (running, {})]
    search.store.milestone(first.number, Report(examples=50, metrics={"toy/score": 0.3}))
    assert states() == [(running, {50: 0.3}), (running, {})]
    search.report(first, 0.5)
    search.report(second, 0.4)
    assert states() == [(stopped, {50: 0.3, 100: 0.5}), (stopped, {100: 0.4})]
    on = search.next()
    assert (on.start_from, len(states())) == ("0000", 2)
    search.report(on, 0.6)
    whole = {50: 0.3, 100: 0.5, 200: 0.6}
    assert states() == [(stopped, {100: 0.4}), (TrialState.COMPLETE, whole)]


def trial(number: int) -> TrialRecord:
    return TrialRecord(id=number, state=State.COMPLETE, settings={"rate": number / 10})


def test_finals_run_each_seed_once_and_one_more_time_where_that_is_asked(storage):
    store = opened(storage)
    wanted = [(trial(n), seed) for n in (3, 1) for seed in (5, 6)]
    source = FinalsSource(store, wanted)
    names = ["finalist-0003-seed-5", "finalist-0003-seed-6"]
    given = [source.next(live) for live in range(2)]
    assert [(run.name, run.settings, run.seed) for run in given if run] == [
        (names[0], {"rate": 0.3}, 5),
        (names[1], {"rate": 0.3}, 6),
    ]
    store.study.tell(0, 0.1)
    store.fail(1, "a lost worker")
    after = FinalsSource(opened(storage), wanted)
    left = [after.next(live) for live in range(4)]
    assert [run and run.name for run in left] == [
        names[1], "finalist-0001-seed-5", "finalist-0001-seed-6", None
    ]  # fmt: skip
    store.fail(2, "its loss is nan", repeats=True)
    assert FinalsSource(opened(storage), wanted[1:2]).next(0) is None
    once_more = FinalsSource(opened(storage), wanted[:1], again=True)
    run = once_more.next(0)
    assert run is not None
    assert (run.name, run.number) == (names[0], 5)
    orphan = FinalsSource(opened(storage), wanted[:1], again=True)
    assert orphan.next(0) == run, "a driver that was killed meanwhile does not start it twice"
    assert orphan.next(1) is None
    assert not orphan.finished
    assert orphan.next(0) is None
    assert orphan.finished
    states = [t.state for t in store.study.get_trials()]
    assert states.count(TrialState.RUNNING) == 3
