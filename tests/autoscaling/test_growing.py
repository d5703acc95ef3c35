"""A study takes a cluster from no node to three, and back; nodes that die are replaced."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sentune.records import TrialState
from tests.autoscaling.growing import Growing, growing_cluster
from tests.autoscaling.toy_runs import PATIENCE, ToyRun
from tests.autoscaling.toy_study import BUDGET, EVERY
from tests.autoscaling.watching import Look, Watcher

pytestmark = pytest.mark.timeout(1200)
NODES = 3
MILESTONES = list(range(EVERY, BUDGET + EVERY, EVERY))
TRIALS = {"inline": 5, "train": 3}
"""A group's start takes a while, in which its node would go."""
REPORTS = 2.0
"""Seconds until what a node has told its cluster is seen by the autoscaler, at most."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Growing]:
    # longer than a trial's process takes to start on a node that has come
    with growing_cluster(most=NODES, idle_seconds=12) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def watcher(cluster: Growing) -> Iterator[Watcher]:
    with Watcher(cluster.address) as watcher:
        yield watcher


def none(look: Look) -> bool:
    return not look.nodes and not look.coming


@dataclass(frozen=True, kw_only=True)
class AutoscalerLog:
    """What the autoscaler wrote during a study.

    Args:
        text: the whole of it.
        starting: the part until the first trials all ran.
    """

    text: str
    starting: str

    @property
    def asked(self) -> set[str]:
        """Nodes that were asked for."""
        return set(re.findall(r"New instance QUEUED \(id=([\w-]+), type=(?:gpu|cpu)", self.text))

    @property
    def given_up(self) -> set[str]:
        """Nodes that failed to start, or went as idle before a slow trial came."""
        ends = "RAY_STOP_REQUESTED|TERMINATING|TERMINATED|ALLOCATION_FAILED"
        return set(re.findall(rf"->(?:{ends}) \(id=([\w-]+), type=(?:gpu|cpu)", self.starting))

    @property
    def idle(self) -> list[float]:
        """Seconds for which each node that went as idle had been without work."""
        return [float(seconds) for seconds in re.findall(r"idle for ([\d.]+) secs", self.text)]

    @property
    def longest_pause(self) -> float:
        """Seconds between two looks at the cluster: it writes at each."""
        times = re.findall(r"^(\d{4}-\d\d-\d\d [\d:]+,\d+)\t", self.text, re.MULTILINE)
        looks = [datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f") for time in times]
        return max((b - a).total_seconds() for a, b in pairwise(looks))


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened in one study, and when."""

    launcher: str
    trials: list[str]
    tail: float
    ended: float
    outcome: dict[str, Any]
    run: ToyRun
    looks: list[Look]
    autoscaler: AutoscalerLog


@pytest.fixture(scope="module", params=["inline", "train"])
def story(
    request: pytest.FixtureRequest, cluster: Growing, watcher: Watcher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Story:  # fmt: skip
    """Three trials run at once; the last of all is alone until the other nodes have gone."""
    watcher.wait(none, PATIENCE)
    folder, launcher = tmp_path_factory.mktemp("study"), request.param
    seen, said = len(watcher.looks), len(cluster.autoscaler_log())
    trials = [f"{number:04d}" for number in range(TRIALS[launcher])]
    gpus = 1 if launcher == "inline" else 0  # of torch a group with GPUs wants real ones
    run = ToyRun(
        cluster, folder, hold={"all": 0, trials[-1]: 0}, trials=len(trials), gpus_per_worker=gpus,
        launcher=launcher,
    )  # fmt: skip
    running = run.wait(lambda: len(run.running()) == NODES)
    starting = cluster.autoscaler_log()[said:]
    run.release("all")
    tail = run.wait(lambda: len(run.log("end")) == len(trials) - 1)
    watcher.wait(lambda look: len(look.nodes) == 1, PATIENCE)
    run.release(trials[-1])
    outcome = run.end()
    ended, gone = run.log("end")[-1].at, watcher.wait(none, PATIENCE).at
    artifacts = Path(os.environ.get("SENTUNE_ARTIFACTS", folder))
    watcher.write(
        artifacts / f"nodes-{launcher}.json", seen, submitted=run.submitted, running=running,
        ended=ended, gone=gone, trials=[vars(entry) for entry in run.log()],
    )  # fmt: skip
    return Story(
        launcher=launcher, trials=trials, tail=tail, ended=ended, outcome=outcome, run=run,
        looks=watcher.looks[seen:],
        autoscaler=AutoscalerLog(text=cluster.autoscaler_log()[said:], starting=starting),
    )  # fmt: skip


def test_it_goes_from_no_node_to_three_and_back(story: Story) -> None:
    assert story.outcome["state"] == "complete"
    assert [trial["state"] for trial in story.outcome["trials"]] == [
        TrialState.COMPLETE for _ in story.trials
    ]
    counts = [len(look.nodes) for look in story.looks]
    assert (counts[0], max(counts), counts[-1]) == (0, NODES, 0)
    work = Counter((entry.trial, entry.examples) for entry in story.run.log("work"))
    assert work == {(trial, at): 1 for trial in story.trials for at in MILESTONES}


def test_all_nodes_are_asked_for_at_once(story: Story) -> None:
    """The autoscaler looked when all demand was there, or, at worst, in the middle of it.

    Groups are asked for by three processes, each when it has come up.
    """
    log = story.autoscaler
    assert len(log.asked - log.given_up) == NODES, log.text
    asked = [int(count) for count in re.findall(r"Adding (\d+) node", log.starting)]
    assert sum(asked[:2]) >= NODES or story.launcher == "train", "never one after the other"


def test_idle_nodes_go_while_the_last_trial_runs(story: Story) -> None:
    alone = [look for look in story.looks if story.tail < look.at < story.ended]
    (node,) = {entry.node for entry in story.run.log() if entry.trial == story.trials[-1]}
    assert list(alone[-1].nodes) == [node]
    assert alone[-1].nodes[node] == 0, "it is at work"


def test_no_node_is_idle_for_longer_than_its_time(cluster: Growing, story: Story) -> None:
    """By the autoscaler's own clock. It looks every second, and later where the machine is slow."""
    log = story.autoscaler
    assert len(log.idle) == len(log.asked), "no node went for another reason"
    assert min(log.idle) >= cluster.idle_seconds
    assert max(log.idle) <= cluster.idle_seconds + log.longest_pause + REPORTS


def test_no_node_is_asked_for_twice(cluster: Growing, watcher: Watcher, tmp_path: Path) -> None:
    """But for a node that failed to start, or that went as idle before a slow trial came."""
    watcher.wait(none, PATIENCE)
    seen, said = len(watcher.looks), len(cluster.autoscaler_log())
    run = ToyRun(cluster, tmp_path, hold={"all": 0}, trials=2, gpus_per_worker=1)
    run.wait(lambda: len(run.running()) == 2)
    starting = cluster.autoscaler_log()[said:]
    run.release("all")
    assert run.end()["state"] == "complete"
    log = AutoscalerLog(text=cluster.autoscaler_log()[said:], starting=starting)
    assert len(log.asked - log.given_up) == 2, log.text
    assert max(len(look.nodes) for look in watcher.looks[seen:]) == 2


def test_five_nodes_are_killed(cluster: Growing, watcher: Watcher, tmp_path: Path) -> None:
    """Each with SIGKILL and while a trial stands behind a checkpoint; never one trial thrice."""
    watcher.wait(none, PATIENCE)
    seen = set(watcher.up())
    trials = ["0000", "0001", "0002"]
    run = ToyRun(cluster, tmp_path, hold=dict.fromkeys(trials, 200), trials=4, gpus_per_worker=1)
    deaths: Counter[str] = Counter()
    for stand, killed in ((200, trials[:1]), (200, trials[1:]), (400, trials[:2])):
        for trial in killed:
            run.hold(trial, stand)
        run.wait(lambda stand=stand, killed=killed: {run.reached(t) for t in killed} == {stand})
        for node in [run.running()[trial] for trial in killed]:
            cluster.kill_node(node)
        deaths.update(killed)
        run.wait(lambda: all(len(run.starts(trial)) == 1 + deaths[trial] for trial in trials))
    for trial in trials:
        run.release(trial)
    found = run.end()["trials"]
    assert [trial["state"] for trial in found] == [TrialState.COMPLETE] * 4
    assert [trial["restarts"] for trial in found] == [2, 2, 1, 0]
    assert [run.starts(f"{n:04d}") for n in range(4)] == [
        [0, 200, 400],
        [0, 200, 400],
        [0, 200],
        [0],
    ]
    work = Counter((entry.trial, entry.examples) for entry in run.log("work"))
    assert work == {(f"{n:04d}", at): 1 for n in range(4) for at in MILESTONES}, "nothing twice"
    assert len(set(watcher.up()) - seen) >= NODES + 5, "each was replaced"


def test_what_no_node_can_hold_is_refused(
    cluster: Growing, watcher: Watcher, tmp_path: Path
) -> None:
    before = len(watcher.looks)
    run = ToyRun(cluster, tmp_path, hold={}, trials=4, gpus_per_worker=2)
    said, _ = run.driver.communicate(timeout=PATIENCE)
    assert run.driver.returncode == 1
    assert "PlanError: --gpus-per-worker: 2 cannot be used; the largest machine has 1 GPUs" in said
    assert not any(look.wanted for look in watcher.looks[before:]), "nothing was asked for"
