"""A driver killed again and again: at the end its study is the undisturbed one's."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import ray
from mlflow import MlflowClient
from optuna.trial import TrialState

from sentune.tracking.environment import tracking_uri_in

SCRIPT = Path(__file__).with_name("driven.py")
ROOT = Path(__file__).parents[2]
KILLS = 20
SEED = int(os.environ.get("SENTUNE_KILL_SEED", "0"))
MOMENTS = (("trial_started", 1.0), ("trial_progressed", 2.5))
"""Events of a start and how many seconds after them it is killed at the latest."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a cluster that outlives its drivers."""
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level=logging.ERROR,
    )  # fmt: skip
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def drive(
    cluster: str, folder: Path, concurrent: int, *killed: str
) -> subprocess.CompletedProcess[str]:
    """One start of the study, the same command each time."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), cluster, str(folder), str(concurrent), *killed],
        capture_output=True, text=True, timeout=400, env=environment, check=False,
    )  # fmt: skip


def killed_and_finished(cluster: str, folder: Path, concurrent: int, kills: int) -> int:
    """Starts a study, kills its driver at random moments, and lets the last start end.

    Returns:
        How often it really was killed: a study may be through before.
    """
    moments = random.Random(SEED)
    done = 0
    for _ in range(kills):
        event, latest = moments.choice(MOMENTS)
        end = drive(cluster, folder, concurrent, event, str(moments.uniform(0, latest)))
        if end.returncode == 0:
            break
        assert end.returncode == -signal.SIGKILL, end.stderr
        done += 1
    last = drive(cluster, folder, concurrent)
    assert last.stdout.split() == ["complete"], last.stderr
    return done


def stored(folder: Path, name: str = "toy") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(
        study_name=name, storage=f"sqlite:///{folder / 'toy' / 'optuna.db'}"
    ).trials


def table(folder: Path) -> list[tuple[Any, ...]]:
    """The trial table and the winner, as summary.json has them, without seconds."""
    summary = json.loads((folder / "toy" / "summary.json").read_text())
    rows = [
        (t["id"], t["state"], t["reason"], t["settings"], t["metrics"], t["examples"])
        for t in summary["trials"]
    ]
    finals = [(f["trial"], f["seeds"], f["metrics"]) for f in summary["finalists"]]
    return [*rows, *finals, summary["winner"]]


def check_whole(folder: Path) -> None:
    """Nothing lost, nothing twice, in Optuna, on disk and in MLflow."""
    search, finals = stored(folder), stored(folder, "toy/finalists")
    left = [t.number for t in (*search, *finals) if not t.state.is_finished()]
    assert not left, "no trial is left running"
    assert len(search) == 14
    assert len(finals) == 4
    configurations = Counter(json.dumps(t.params, sort_keys=True) for t in search)
    assert set(configurations.values()) == {1}, "no configuration was run twice"
    assert all(t.state is TrialState.COMPLETE for t in finals)
    for t in search:
        told = sorted(int(k.removeprefix("milestone:")) for k in t.user_attrs if "milestone:" in k)
        assert told == [100, 300, 900][: len(told)], "gapless"
        assert (len(told) == 3) == (t.state is TrialState.COMPLETE)
    check_mlflow(folder)


def check_mlflow(folder: Path) -> None:
    client = MlflowClient(tracking_uri_in(str(folder)))
    (experiment,) = [e for e in client.search_experiments() if e.name == "sentune"]
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    names = Counter(run.data.tags["sentune.run"] for run in runs)
    assert set(names.values()) == {1}, "one run a trial"
    assert len(names) == 1 + 14 + 4
    for run in runs:
        if "sentune.trial" not in run.data.tags:
            continue
        assert run.info.status in ("FINISHED", "KILLED"), run.data.tags["sentune.run"]
        steps = [m.step for m in client.get_metric_history(run.info.run_id, "toy/score")]
        assert steps == [100, 300, 900][: len(steps)], "gapless, nothing twice"
        assert steps, run.data.tags["sentune.run"]


def worked_at(folder: Path) -> Counter[str]:
    return Counter((folder / "toy" / "worked.log").read_text().splitlines())


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_killed_twenty_times_one_trial_at_a_time_the_study_is_the_undisturbed_one(
    cluster: str, tmp_path: Path
) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    kills = killed_and_finished(cluster, broken, 1, KILLS)
    assert kills >= 10, "else little was tried"
    check_whole(broken)
    assert drive(cluster, whole, 1).stdout.split() == ["complete"]
    check_whole(whole)
    assert table(broken) == table(whole)
    again = sum(worked_at(broken).values()) - sum(worked_at(whole).values())
    assert 0 <= again <= kills, "a kill costs at most the milestone that was worked at"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_with_two_trials_at_a_time_nothing_is_lost_or_run_twice(
    cluster: str, tmp_path: Path
) -> None:
    kills = killed_and_finished(cluster, tmp_path, 2, 5)
    assert kills >= 2
    check_whole(tmp_path)
    again = sum(count - 1 for count in worked_at(tmp_path).values())
    assert again <= 2 * kills
