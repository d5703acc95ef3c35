"""What is asked of a growing cluster before a study's first runs, and given back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import ray
from ray.util import placement_group_table

from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.planning.plan import make_plan
from sentune.study.runner.prewarm import Prewarm
from sentune.study.space.space import SearchSpace, Uniform

pytestmark = pytest.mark.cluster

SPACE = SearchSpace(method="toy", objective="toy/score", settings={"x": Uniform(0.0, 1.0)})
GROWS = Capacity(nodes=(Node(cpus=1),), reachable=(Node(cpus=1), *[Node(cpus=2)] * 3))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def prewarm(capacity: Capacity, launcher: str = "auto") -> Prewarm:
    config = StudyConfig(
        name="s", storage="studies", max_examples=900, trials=8, launcher=launcher, max_concurrent=3
    )
    return Prewarm(make_plan(config, SPACE, capacity), capacity)


def asked() -> list[dict[str, float]]:
    """What each place that is asked for, or held, has."""
    groups = [g for g in placement_group_table().values() if g["state"] != "REMOVED"]
    return [bundle for group in groups for bundle in group["bundles"].values()]


def give_back(asks: Prewarm) -> None:
    asks.release()
    deadline = time.monotonic() + 60
    while asked():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_so_many_places_are_held_until_they_are_given_back() -> None:
    asks = prewarm(GROWS)
    asks.ask(2)
    assert asked() == [{"CPU": 1.0}] * 2
    give_back(asks)
    asks.release()  # once more does nothing


def test_never_for_more_than_run_at_a_time() -> None:
    asks = prewarm(GROWS)
    asks.ask(100)
    assert asked() == [{"CPU": 1.0}] * 3
    give_back(asks)


@pytest.mark.parametrize(
    "capacity",
    [
        pytest.param(Capacity.fixed(Node(cpus=2)), id="cannot-grow"),
        pytest.param(
            Capacity(nodes=(Node(cpus=8),), reachable=(Node(cpus=8), Node(cpus=8))), id="has-enough"
        ),
    ],
)
def test_nothing_is_asked_of_a_cluster_that(capacity: Capacity) -> None:
    prewarm(capacity).ask(3)
    assert asked() == []


def test_nothing_is_asked_for_groups() -> None:
    """They ask for themselves, when each of them has come up."""
    prewarm(GROWS, launcher="train").ask(3)
    assert asked() == []
