"""Trials that are stopped early leave nothing behind: CPUs, placement groups, actors, memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import placement_group_table

from sentune.records import TrialState
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.study import Study, StudyConfig
from sentune.training.group import Group
from sentune.training.trial import Program, Progress, TrialSpec
from tests import third_party_internals
from tests.faults.conftest import Place
from tests.soak import SOAK
from tests.toy_trials import OBJECTIVE, cluster_of_two_cpus, toy_spec

pytestmark = pytest.mark.timeout(1800)
TRIALS = {"inline": 50, "train": 50 if SOAK else 3}
"""A group of Ray Train takes twenty seconds to start and holds both CPUs here: one that were left
would block the next. The first trial goes to its end, the others are stopped."""

RAYS_OWN = "_AutoscalingCoordinatorActor"
"""Ray Train starts one in a cluster with its first group and leaves it, without CPUs, for all."""

BACK_WITHIN_SECONDS = 15.0
HELD_BYTES = 64 * 2**20
"""Of each trial; more than 32 MiB, which glibc always gives back, whichever thread had them."""

WARM_UP, GROWTH_BYTES = 10, HELD_BYTES // 2
"""One trial in fifty that were kept would show. Each trial has a thread of its own, and glibc keeps
a few MiB for each of its arenas."""


@pytest.fixture(scope="module")
def cluster(kind: str) -> Iterator[None]:
    del kind  # its servers are in the environment that the workers get
    with cluster_of_two_cpus():
        yield


def make_program(folder: Path) -> Program:
    """Worse from trial to trial, so that all but the first leave at the first rung.

    Each holds 64 MiB while it runs, and writes down its process and what that holds resident.
    """

    def program(spec: TrialSpec, group: Group) -> Iterator[Progress]:

        import torch

        x = float(spec.settings["x"])
        held = torch.full((HELD_BYTES // 8,), x, dtype=torch.float64)
        for examples in spec.milestones:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            with (folder / "resident").open("a") as file:
                file.write(f"{os.getpid()} {pages * os.sysconf('SC_PAGE_SIZE')}\n")
            yield Progress(
                examples=examples,
                metrics={OBJECTIVE: examples / 1000 - x + float(held[0] - x)},
                final=examples == spec.max_examples,
                save=lambda folder: None,
            )

    return program


def stopped_early(place: Place, trials: int, **config: Any) -> list[TrialState]:
    space = SearchSpace(
        method="toy", objective=OBJECTIVE, settings={"x": Choice(*range(1, trials + 1))}
    )
    outcome = Study(
        StudyConfig(
            name="leaks", **place.config, max_examples=900, first_rung=100, sampler="grid",
            scheduler="asha", trials=trials, finalists=0, concurrent=1, retire_after=trials + 1,
            **config,
        ),
        space,
        toy_spec,
        make_program(place.scratch),
        (),
        {},
    ).run()  # fmt: skip
    return [record.state for record in outcome.trials]


def back(value: Callable[[], Any], wanted: Any) -> Any:
    """A value once it is as wanted, or what it is when the time is up."""
    until = time.monotonic() + BACK_WITHIN_SECONDS
    while (found := value()) != wanted and time.monotonic() < until:
        time.sleep(0.2)
    return found


def groups() -> int:
    """Placement groups that hold something."""
    return sum(group["state"] != "REMOVED" for group in placement_group_table().values())


def actors() -> list[str]:
    """Classes of the actors that are not dead."""
    found = [a for a in third_party_internals.actors() if a["State"] != "DEAD"]
    return sorted(a["ActorClassName"] for a in found if a["ActorClassName"] != RAYS_OWN)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("launcher", "workers"), [("inline", 1), ("train", 2)])
def test_what_stopped_trials_held_comes_back(place: Place, launcher: str, workers: int) -> None:
    trials = TRIALS[launcher]
    before = {"cpus": 2.0, "groups": groups(), "actors": actors()}
    states = stopped_early(place, trials, launcher=launcher, workers=workers)

    assert states.count(TrialState.PRUNED) == trials - 1
    assert back(lambda: ray.available_resources().get("CPU"), before["cpus"]) == before["cpus"]
    assert back(groups, before["groups"]) == before["groups"]
    assert back(actors, before["actors"]) == before["actors"]
    if launcher == "inline":
        check_memory(
            [line.split() for line in (place.scratch / "resident").read_text().splitlines()]
        )


def check_memory(lines: list[list[str]]) -> None:
    """The one process that ran them all is no larger in its last trials than after its first."""
    assert len({process for process, _ in lines}) == 1, "one actor ran all of them"
    resident = [int(held) for _, held in lines][WARM_UP:]
    third = len(resident) // 3
    early, late = (statistics.median(part) for part in (resident[:third], resident[-third:]))
    assert late - early < GROWTH_BYTES
