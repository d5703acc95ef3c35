"""Whole studies under Ray Tune, the toy program in reused actors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import ray
import toys
from ray.util import placement_group, placement_group_table, remove_placement_group
from toys import HALVING, OBJECTIVE, PROMOTION, SPACE, open_store, play

from sentune.errors import InvalidValue, StudyConflict
from sentune.records import TrialState
from sentune.study import study as study_module
from sentune.study.config import Budget
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.store.storage import open_storage
from sentune.study.store.study_index import find_study
from sentune.study.store.study_view import StudyView
from sentune.study.study import Study, StudyConfig, StudyOutcome
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests import forked
from tests.toy_trials import cluster_of_two_cpus, toy_spec

ray.cloudpickle.register_pickle_by_value(toys)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with cluster_of_two_cpus():
        yield


class Looks:
    """A watcher that counts its calls, and may break."""

    def __init__(self, breaks: bool = False) -> None:
        self.calls, self.breaks = 0, breaks

    def __call__(self) -> None:
        self.calls += 1
        if self.breaks:
            raise OSError("the terminal is gone")


def study(
    folder: Path,
    program: Any = toys.toy,
    watchers: tuple[Any, ...] = (),
    space: SearchSpace = SPACE,
    **changes: Any,
) -> StudyOutcome:
    given = {"trials": 8, "concurrent": 1, "finalists": 0, "seeds": 3, "seed": 7}
    given |= {"scheduler": "asha", **changes}
    config = StudyConfig(**{"name": "toy", **given}, storage=str(folder), max_examples=900)
    return Study(config, space, toy_spec, program, watchers, {"code": "1"}).run()


def rows(outcome: StudyOutcome) -> list[tuple[Any, ...]]:
    return [
        (r.id, r.state, r.reason, r.settings, r.readouts, r.metrics, r.examples, r.curve)
        for r in outcome.trials
    ]


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_study_finds_trains_again_and_resumes_without_running_anything(
    tmp_path: Path, capfd, caplog
):
    looks, broken = Looks(), Looks(breaks=True)
    outcome = study(tmp_path, watchers=(broken, looks), finalists=2)
    assert outcome.state == "complete"
    assert capfd.readouterr().out == "", "Tune keeps quiet"

    complete = [r for r in outcome.trials if r.state == TrialState.COMPLETE]
    best = sorted(complete, key=lambda r: -r.metrics[OBJECTIVE])[:2]
    assert [f.trial for f in outcome.finalists] == [r.id for r in best]
    for finalist, trial in zip(outcome.finalists, best, strict=True):
        assert finalist.seeds == [8, 9, 10], "fresh seeds: the search had 7"
        # the toy adds a thousandth per seed, and its last milestone is its best
        values = [trial.metrics[OBJECTIVE] + (seed - 7) / 1000 for seed in finalist.seeds]
        shown = finalist.metrics[OBJECTIVE]
        assert shown.values == pytest.approx(values)
        assert shown.mean == pytest.approx(np.mean(values))
        assert shown.sd == pytest.approx(np.std(values, ddof=1))
        assert finalist.readouts == {"toy/beta": 0.9}
    assert outcome.winner == 0
    winner = outcome.finalists[0].trial
    assert outcome.best_checkpoint is not None
    assert Path(outcome.best_checkpoint).parent.name == f"finalist-{winner:04d}-seed-10"
    assert json.loads(Path(outcome.best_checkpoint, "progress.json").read_text())["final"]

    milestones = sum(len(trial.curve) for trial in outcome.trials) + 6 * 3
    assert looks.calls == broken.calls == 1 + milestones + 2 * (8 + 6)
    assert caplog.text.count("the study goes on") == 1, "said once"

    seen = StudyView(find_study(str(tmp_path), "toy")).snapshot()
    assert [trial.metrics for trial in seen.trials] == [r.metrics for r in outcome.trials]
    assert len(seen.finals) == 6
    for run in (*seen.runs, *seen.finals):
        assert run.ended is not None
        moments = [run.began, *run.times.values(), run.ended]
        assert moments == sorted(moments)

    again = Looks()
    resumed = study(tmp_path, watchers=(again,), finalists=2)
    assert rows(resumed) == rows(outcome)
    assert resumed.finalists == outcome.finalists
    assert again.calls == 1
    assert StudyView(find_study(str(tmp_path), "toy")).snapshot().identity == seen.identity != ""

    stopped = study(tmp_path, finalists=2, trials=9, budget=Budget(max_hours=1e-9))
    assert (stopped.state, stopped.finalists) == ("stopped", [])
    assert stopped.spent.examples == outcome.spent.examples, "the finals were paid for"
    assert len(list((tmp_path / "toy" / "trials").iterdir())) >= 6


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_ctrl_c_while_a_run_is_given_to_tune_leaves_a_study_that_goes_on(tmp_path: Path):
    looks = count()

    def interrupt() -> None:
        if next(looks) == 1:  # the first run is given
            os.kill(os.getpid(), signal.SIGINT)

    outcome = study(tmp_path, watchers=(interrupt,), trials=2)
    assert outcome.state == "interrupted"
    assert [trial.state for trial in outcome.trials] == [TrialState.RUNNING]


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_rungs_of_the_search_are_judged_on_a_part_and_the_finals_on_all_of_dev(tmp_path: Path):
    def rows_of(spec: TrialSpec, group: Group) -> Iterator[Progress]:
        for progress in toys.toy(spec, group):
            progress.metrics["toy/rows"] = float(spec.rung_rows)
            yield progress

    outcome = study(tmp_path, program=rows_of, rung_rows=50, finalists=1, trials=4)
    assert {r.metrics["toy/rows"] for r in outcome.trials} == {50.0}
    assert {v for f in outcome.finalists for v in f.metrics["toy/rows"].values} == {0.0}
    with pytest.raises(StudyConflict, match="rung_rows"):
        study(tmp_path, program=rows_of, rung_rows=60, finalists=1, trials=4)


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_the_tables_of_every_run_stay(tmp_path: Path):
    outcome = study(tmp_path, toys.swept, trials=5, finalists=1, seeds=1, keep=1)
    seen = StudyView(find_study(str(tmp_path), "toy")).snapshot()
    ended = {run.name: run for run in (*seen.runs, *seen.finals) if run.record.readouts}
    assert len(ended) > 2, "more than have a checkpoint"
    assert seen.tables == ended.keys()
    for name, run in ended.items():
        tables = json.loads((tmp_path / "toy" / "trials" / name / "readouts.json").read_text())
        assert tables == {"toy/sweep.json": {"best": {"beta": run.record.readouts["toy/beta"]}}}

    lost = tmp_path / "toy" / "trials" / seen.finals[0].name / "readouts.json"
    lost.unlink()  # as after a kill between the end of a run and its file
    again = study(tmp_path, toys.swept, trials=5, finalists=1, seeds=1, keep=1)
    assert again.finalists == outcome.finalists
    assert lost.exists()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("known", [True, False])
def test_under_tune_a_study_has_the_table_that_it_has_without(tmp_path: Path, known: bool):
    """The same runner, driven by a loop of twenty lines and by Tune; only a known first point
    passes the rungs before there is another one."""
    (tmp_path / "plain").mkdir()
    space = SPACE if known else replace(SPACE, published={})
    scheduler = replace(PROMOTION, ahead=int(known))
    store = open_store(tmp_path / "plain", space=space, scheduler=scheduler)
    play(store, tmp_path / "plain", space=space)
    expected = [
        (r.id, r.state, r.reason, r.settings, r.readouts, r.metrics, r.examples, r.curve)
        for r in store.records()
    ]
    assert {row[1] for row in expected} >= {TrialState.COMPLETE, TrialState.PRUNED}
    assert expected[0][1] == (TrialState.COMPLETE if known else TrialState.PRUNED)
    found = study(tmp_path, space=space, trials=12, scheduler="asha-promotion")
    assert rows(found) == expected


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("published", "changes", "ahead"),
    [
        ({"x": 3, "y": 0}, {}, 1),
        ({"x": 3, "y": 0}, {"sampler": "grid"}, 0),
        ({}, {}, 0),
        ({}, {"points": ({"x": 2, "y": 1},)}, 1),
        ({}, {"trials": 2}, 1),
    ],
)
def test_a_first_point_waits_for_no_others(
    tmp_path: Path, published: dict[str, int], changes: dict[str, Any], ahead: int
):
    config = StudyConfig(name="toy", storage=str(tmp_path), max_examples=900, **changes)
    space = replace(SPACE, settings={"x": Choice(*range(10)), "y": Choice(0, 1)})
    made = Study(config, replace(space, published=published), toy_spec, toys.toy, (), {})
    assert made.store.scheduler == replace(PROMOTION, ahead=ahead)


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_actors_are_used_again_do_not_leak_and_retire(tmp_path: Path):
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(*range(6))})
    outcome = study(tmp_path, toys.heavy, space=space, sampler="grid", trials=6, retire_after=3)
    pids = [record.metrics["toy/pid"] for record in outcome.trials]
    assert len(set(pids[:3])) == len(set(pids[3:])) == 1
    assert pids[0] != pids[3]
    pages = [record.metrics["toy/pages"] for record in outcome.trials]
    assert (pages[2] - pages[1]) * 4096 < 20e6, "a trial's 40 MB went back before the next"


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_places_are_asked_for_all_at_once(tmp_path: Path):
    """So that an autoscaler starts all nodes, and Ray all processes, side by side."""
    held = placement_group([{"CPU": 2}])
    ray.get(held.ready())

    def pending() -> int:
        states = [group["state"] for group in placement_group_table().values()]
        return states.count("PENDING")

    seen: list[int] = []

    def watch() -> None:
        deadline = time.monotonic() + 600
        while pending() < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        seen.append(pending())
        remove_placement_group(held)

    watcher = Thread(target=watch)
    watcher.start()
    outcome = study(tmp_path, trials=3, concurrent=2)
    watcher.join()
    assert (seen, outcome.state) == ([2], "complete")


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_finalist_is_trained_by_a_process_of_the_search(tmp_path: Path):
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Choice(*range(2))})
    outcome = study(
        tmp_path, toys.heavy, space=space, sampler="grid", trials=2, finalists=1, seeds=2
    )
    pids = {record.metrics["toy/pid"] for record in outcome.trials}
    (finalist,) = outcome.finalists
    assert len(pids) == 1
    assert {*finalist.metrics["toy/pid"].values} == pids


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_trial_whose_process_dies_goes_on_and_fails_when_it_dies_again(tmp_path: Path):
    space = SearchSpace(
        method="toy", objective=OBJECTIVE, settings={"x": Choice(1, 2, 3)}, fixed={"y": 0}
    )
    outcome = study(tmp_path, toys.mortal, space=space, sampler="grid", trials=3, max_failures=1,
                    first_rung=100, eta=9)  # fmt: skip
    once, always, never = outcome.trials
    assert once.state == never.state == TrialState.COMPLETE
    assert list(once.curve) == [100, 900]
    assert always.state == TrialState.FAILED
    assert "process died" in always.reason


DRIVER = """
import os, signal, sys
from pathlib import Path

sys.path[:0] = {path!r}
import ray, toys
from sentune.code import runtime_env
from sentune.study.store.study_index import find_study
from sentune.study.store.study_view import StudyView
from test_study import Looks, study

class Killer(Looks):
    def __call__(self):
        super().__call__()
        finals = StudyView(find_study(sys.argv[1], "toy")).snapshot().finals
        in_finals = sys.argv[2] == "finals" and any(run.times for run in finals)
        if in_finals or sys.argv[2] == str(self.calls):
            os.kill(os.getpid(), signal.SIGKILL)

ray.cloudpickle.register_pickle_by_value(toys)
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
         runtime_env=runtime_env())
outcome = study(Path(sys.argv[1]), watchers=(Killer(),), finalists=1, seeds=2)
print(outcome.state)
"""


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_driver_killed_with_9_leaves_a_study_that_goes_on(tmp_path: Path):
    """Killed in the search and in the finals; the table is that of an undisturbed study."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.format(path=[str(Path(__file__).parent), *sys.path]))
    (tmp_path / "study").mkdir()

    def drive(kill_at: str) -> subprocess.CompletedProcess[str]:
        words = [str(script), str(tmp_path / "study"), kill_at]
        return forked.run(words, cwd=tmp_path, env=os.environ, timeout=300)

    for kill_at in ("6", "finals"):
        assert drive(kill_at).returncode == -signal.SIGKILL
    last = drive("never")
    assert last.stdout.split() == ["complete"], last.stderr
    assert study(tmp_path / "whole", finalists=1, seeds=2).state == "complete"
    assert _table(tmp_path / "study") == _table(tmp_path / "whole")


def _table(folder: Path) -> list[Any]:
    import optuna

    storage = open_storage(str(folder / "toy" / "optuna.journal"))
    found = []
    for name in ("toy", "toy/finalists"):
        for t in optuna.load_study(study_name=name, storage=storage).trials:
            left_out = ("milestone:", "token", "cost:")
            notes = {k: v for k, v in t.user_attrs.items() if not k.startswith(left_out)}
            notes["end"] = {k: v for k, v in notes["end"].items() if k != "traceback"}
            found.append((name, t.number, t.state, t.params, t.value, t.intermediate_values, notes))
    return found


def only(y: int) -> SearchSpace:
    """A space of one point, which scores the worse the larger y is."""
    settings = {"x": Choice(3), "y": Choice(y)}
    return SearchSpace(method="toy", objective=OBJECTIVE, settings=settings)


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_checkpoints_of_another_study_are_not_met_in_the_search_nor_in_the_finals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given = {"sampler": "grid", "trials": 1, "finalists": 1, "seeds": 1}
    study(tmp_path, space=only(0), **given)
    other = f"sqlite:///{tmp_path}/other.db"
    with pytest.raises(StudyConflict, match=r"other\.db has no such study"):
        study(tmp_path, space=only(2), optuna_url=other, **given)
    with monkeypatch.context() as blind:  # as if its trials had come after the start
        blind.setattr(study_module, "refuse_foreign_trials", lambda *_: None)
        found = study(tmp_path, space=only(2), optuna_url=other, **given)
    undisturbed = study(tmp_path / "undisturbed", space=only(2), **given)
    assert [r.curve for r in found.trials] == [r.curve for r in undisturbed.trials]
    assert found.finalists[0].metrics == undisturbed.finalists[0].metrics
    seen = StudyView(find_study(str(tmp_path), "toy", other)).snapshot()
    for run in (*seen.runs, *seen.finals):
        assert "of another run (settings.y: was 0, is now 2)" in run.record.notes[0]


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_study_that_is_kept_in_another_database_can_be_forked_into_this_one(tmp_path: Path):
    first = study(tmp_path, trials=4)
    other = {"optuna_url": f"sqlite:///{tmp_path}/other.db"}
    with pytest.raises(StudyConflict, match="--fork NAME"):
        study(tmp_path, trials=4, **other)
    new = study(tmp_path, name="new", warm_start=("toy",), trials=1, **other)
    assert [record.source for record in new.trials].count("toy/0") == 1
    assert sum(bool(record.source) for record in new.trials) == sum(
        record.state in (TrialState.COMPLETE, TrialState.PRUNED) for record in first.trials
    )


@pytest.mark.usefixtures("cluster")
def test_a_study_goes_on_without_the_one_that_it_was_forked_from(tmp_path: Path):
    study(tmp_path, trials=2)
    new = study(tmp_path, name="new", warm_start=("toy",), trials=1)
    shutil.rmtree(tmp_path / "toy")
    more = study(tmp_path, name="new", warm_start=("toy",), trials=2)
    taken = [[record.source for record in found.trials if record.source] for found in (new, more)]
    assert taken[0] == taken[1] != []
    with pytest.raises(InvalidValue, match="'toy'"):
        study(tmp_path, name="newer", warm_start=("toy",), trials=1)


@pytest.mark.usefixtures("cluster")
def test_a_limit_of_as_many_trials_as_are_planned_ends_no_study_early(tmp_path: Path):
    plain = study(tmp_path, trials=9, scheduler="asha-promotion")
    limited = study(
        tmp_path, name="limited", trials=9, scheduler="asha-promotion",
        budget=Budget(max_trials=9),
    )  # fmt: skip
    assert (limited.state, limited.reason) == ("complete", "")
    assert rows(limited) == rows(plain)


def test_the_toy_has_the_studys_rungs():
    config = StudyConfig(name="s", storage="x", max_examples=900)
    assert config.scheduling("max").rungs == HALVING.rungs
