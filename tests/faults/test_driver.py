"""A driver killed again and again: at the end its study is the undisturbed one's.

Over SQLite and a disk, and over PostgreSQL and an S3 server.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import ray
from mlflow import MlflowClient
from optuna.trial import TrialState

from sentune.study.store.storage import open_storage
from sentune.study.store.trial_codec import BEGUN_AT, PARENT
from sentune.summary import read_summary
from tests import forked
from tests.faults.conftest import Place, environment_of, new_place
from tests.soak import SOAK

SCRIPT = Path(__file__).with_name("driven.py")
ROOT = Path(__file__).parents[2]
KILLS = 20 if SOAK else 5

SEED = int(os.environ.get("SENTUNE_KILL_SEED", "0"))
MOMENTS = (("trial_started", 1.0), ("trial_progressed", 2.5))
"""Events of a start and how many seconds after them it is killed at the latest."""


@pytest.fixture(scope="module")
def cluster(kind: str) -> Iterator[str]:
    """Address of a cluster that outlives its drivers."""
    del kind  # its servers are in the environment that the workers get
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level=logging.ERROR,
    )  # fmt: skip
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def drive(
    cluster: str, place: Place, concurrent: int, *killed: str
) -> subprocess.CompletedProcess[str]:
    """One start of the study, the same command each time."""
    environment = environment_of(place, PYTHONPATH=f"{ROOT / 'platform'}{os.pathsep}{ROOT}")
    where = {
        "storage": place.storage, "optuna": place.optuna, "tracking": place.tracking,
        "scratch": str(place.scratch),
    }  # fmt: skip
    words = [str(SCRIPT), cluster, json.dumps(where), str(concurrent), *killed]
    return forked.run(words, cwd=ROOT, env=environment, timeout=400)


def killed_and_finished(cluster: str, place: Place, concurrent: int, kills: int) -> int:
    """Starts a study, kills its driver at random moments, and lets the last start end.

    Returns:
        How often it really was killed: a study may be through before.
    """
    moments = random.Random(SEED)
    done = 0
    for _ in range(kills):
        event, latest = moments.choice(MOMENTS)
        end = drive(cluster, place, concurrent, event, str(moments.uniform(0, latest)))
        if end.returncode == 0:
            break
        assert end.returncode == -signal.SIGKILL, end.stderr
        done += 1
    last = drive(cluster, place, concurrent)
    assert last.stdout.split() == ["complete"], last.stderr
    return done


def stored(place: Place, name: str = "toy") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=name, storage=open_storage(place.trials_of("toy"))).trials


def table(place: Place) -> list[tuple[Any, ...]]:
    """The trial table and the winner, as summary.json has them, without seconds."""
    summary = read_summary(f"{place.storage}/toy")
    rows = [
        (t["id"], t["state"], t["reason"], t["settings"], t["metrics"], t["examples"])
        for t in summary["trials"]
    ]
    finals = [(f["trial"], f["seeds"], f["metrics"]) for f in summary["finalists"]]
    return [*rows, *finals, summary["winner"]]


def check_whole(place: Place) -> None:
    """Nothing lost, nothing twice, in Optuna, on disk and in MLflow."""
    search, finals = stored(place), stored(place, "toy/finalists")
    left = [t.number for t in (*search, *finals) if not t.state.is_finished()]
    assert not left, "no trial is left running"
    drawn = [t for t in search if PARENT not in t.user_attrs]
    assert len(drawn) == 14
    assert len(finals) == 4
    configurations = Counter(json.dumps(t.params, sort_keys=True) for t in drawn)
    assert set(configurations.values()) == {1}, "no configuration was run twice"
    parents = Counter(t.user_attrs[PARENT] for t in search if PARENT in t.user_attrs)
    assert set(parents.values()) == {1}, "some go on, each once"
    assert all(t.state is TrialState.COMPLETE for t in finals)
    for t in search:
        told = sorted(int(k.removeprefix("milestone:")) for k in t.user_attrs if "milestone:" in k)
        assert told == milestones_of(t)[: len(told)], "gapless"
        assert (told[-1] == 900) == (t.state is TrialState.COMPLETE)
    check_mlflow(place, {f"trial-{t.number:04d}": milestones_of(t) for t in search})


def milestones_of(trial: optuna.trial.FrozenTrial) -> list[int]:
    """All that a trial may come to."""
    return [at for at in (100, 300, 900) if at > trial.user_attrs.get(BEGUN_AT, 0)]


def check_mlflow(place: Place, search: dict[str, list[int]]) -> None:
    """``search``: run of each trial -> its milestones; the finals have all."""
    client = MlflowClient(place.tracking)
    (experiment,) = [e for e in client.search_experiments() if e.name == "sentune/toy"]
    assert experiment.artifact_location == place.artifacts
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    names = Counter(run.data.tags["sentune.run"] for run in runs)
    assert set(names.values()) == {1}, "one run a trial"
    assert len(names) == 1 + len(search) + 4
    assert search.keys() < names.keys()
    (whole,) = [run for run in runs if "sentune.trial" not in run.data.tags]
    files = {file.path for file in client.list_artifacts(whole.info.run_id)}
    assert {"space.json", "plan.json"} <= files
    for run in runs:
        if "sentune.trial" not in run.data.tags:
            continue
        assert run.info.status in ("FINISHED", "KILLED"), run.data.tags["sentune.run"]
        steps = [m.step for m in client.get_metric_history(run.info.run_id, "toy/score")]
        wanted = search.get(run.data.tags["sentune.run"], [100, 300, 900])
        assert steps == wanted[: len(steps)], "gapless, nothing twice"
        assert steps, run.data.tags["sentune.run"]


def worked_at(place: Place) -> Counter[str]:
    return Counter((place.scratch / "worked.log").read_text().splitlines())


@pytest.mark.timeout(2400)
def test_killed_again_and_again_one_trial_at_a_time_the_study_is_the_undisturbed_one(
    cluster: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broken = new_place(kind, request, tmp_path / "broken")
    whole = new_place(kind, request, tmp_path / "whole")
    kills = killed_and_finished(cluster, broken, 1, KILLS)
    assert kills >= KILLS // 2, "else little was tried"
    check_whole(broken)
    assert drive(cluster, whole, 1).stdout.split() == ["complete"]
    check_whole(whole)
    assert table(broken) == table(whole)
    again = sum(worked_at(broken).values()) - sum(worked_at(whole).values())
    assert 0 <= again <= kills, "a kill costs at most the milestone that was worked at"


@pytest.mark.timeout(1200)
def test_killed_with_two_trials_at_a_time_nothing_is_lost_or_run_twice(
    cluster: str, place: Place
) -> None:
    kills = killed_and_finished(cluster, place, 2, 5)
    assert kills >= 2
    check_whole(place)
    again = sum(count - 1 for count in worked_at(place).values())
    assert again <= 2 * kills
