"""How a cluster grows for a study: nodes as Ray chooses them, hours and dollars run by run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentune.cluster import Cluster, NodeLimit, packing, read_cluster
from sentune.cluster.packing import nodes_for
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, Node, machines
from sentune.study.planning.capacity_forecast import CapacityForecast, forecast, forecasts
from sentune.study.planning.plan import Plan, Probe, estimate, make_plan
from sentune.study.space.space import SearchSpace, Uniform
from tests.ops.conftest import FILE

SPACE = SearchSpace(
    method="toy", objective="direction/accuracy", settings={"rate": Uniform(1e-5, 1e-3)}
)
PROBE = Probe(
    start_seconds=60.0,
    seconds_per_example=0.5,
    seconds_per_validation=30.0,
    checkpoint_bytes=1,
    gpu=True,
    basis="a probe",
)
PRICES = {"head": 0.25, "gpu-spot": 1.0, "gpu-on-demand": 3.0, "data": 0.5}


def config(**changes: Any) -> StudyConfig:
    given = {"name": "s", "storage": "studies", "max_examples": 9000, "gpus_per_worker": 1.0}
    return StudyConfig(**{**given, **changes})


def planned(cluster: Cluster, study: StudyConfig) -> Plan:
    reachable = machines(cluster)
    return make_plan(study, SPACE, Capacity(nodes=(Node(cpus=0),), reachable=reachable))


def grown(
    study: StudyConfig, probe: Probe | None = PROBE, prices: dict[str, float] = PRICES
) -> CapacityForecast:
    cluster = read_cluster(FILE)
    return forecast(planned(cluster, study), study, cluster, probe, prices)


def big(nodes: int) -> Cluster:
    limits = dict(read_cluster(FILE).kinds)
    limits["gpu-spot"] = replace(limits["gpu-spot"], max_nodes=nodes)
    return Cluster(kinds=limits, max_workers=nodes + 2, idle_hours=0.1)


def test_each_stage_has_the_nodes_that_its_runs_need() -> None:
    stages = grown(config(trials=30, finalists=1, seeds=3)).stages
    assert [(stage.name, stage.concurrent) for stage in stages] == [("search", 8), ("finals", 3)]
    assert stages[0].nodes == {"head": 1, "gpu-spot": 8, "gpu-on-demand": 0, "data": 0}
    assert stages[1].nodes["gpu-spot"] == 3


def test_the_hours_of_the_stages_are_those_of_the_estimate() -> None:
    study = config(trials=30, finalists=2, seeds=2)
    found = grown(study)
    plan = planned(read_cluster(FILE), study)
    assert found.hours == pytest.approx(estimate(plan, study, PROBE).hours)
    full = (60 + 9000 * 0.5 + 30 * plan.validations_full) / 3600
    assert found.stages[1].hours == pytest.approx(full)  # four runs at a time: one round


def test_node_hours_and_dollars_reckoned_node_by_node() -> None:
    found = grown(config(trials=30, finalists=1, seeds=3))
    search, finals = (stage.hours or 0.0 for stage in found.stages)
    idle = 5 / 60
    nodes = [search + finals + idle] * 3 + [search + idle] * 5
    assert found.node_hours is not None
    assert found.node_hours["gpu-spot"] == pytest.approx(sum(nodes))
    assert found.node_hours["head"] == pytest.approx(search + finals)
    assert found.node_hours["data"] == 0
    total = 0.25 * (search + finals) + sum(nodes)
    assert found.total == pytest.approx(total)
    assert found.stand_in_dollars == pytest.approx(2 * sum(nodes))


def test_without_a_rate_there_are_nodes_but_no_hours() -> None:
    found = grown(config(), probe=None)
    assert found.stages[0].nodes["gpu-spot"] == 8
    assert (found.hours, found.node_hours, found.total) == (None, None, None)


def test_what_has_no_price_is_named() -> None:
    assert grown(config(), prices={"gpu-spot": 1.0}).unpriced == ("head",)
    assert grown(config(), prices={}).total is None


def test_fewer_trials_at_a_time_need_fewer_nodes_and_more_hours() -> None:
    study, cluster = config(trials=90, finalists=0), read_cluster(FILE)
    steps = forecasts(planned(cluster, study), study, cluster, PROBE, PRICES)
    assert list(steps) == [1, 2, 4, 8]
    assert [step.stages[0].nodes["gpu-spot"] for step in steps.values()] == [1, 2, 4, 8]
    hours = [step.hours or 0.0 for step in steps.values()]
    assert hours == sorted(hours, reverse=True)
    assert hours[0] == pytest.approx(8 * hours[3])


def test_a_corpus_that_streams_brings_a_data_node_only_where_no_cpu_is_free() -> None:
    assert grown(config(trials=30, data_cpus=1.0)).stages[0].nodes["data"] == 0
    free = 8 * 4 - 8  # of the GPU nodes, beside their workers; the head gives no CPU away
    assert grown(config(trials=30, data_cpus=free)).stages[0].nodes["data"] == 0
    assert grown(config(trials=30, data_cpus=free + 1)).stages[0].nodes["data"] == 1


def test_workers_share_a_gpu_and_nodes_that_never_go_are_used_first() -> None:
    kinds = {
        "head": NodeLimit(cpus=2, gpus=0, max_nodes=1, min_nodes=1, head=True),
        "gpu": NodeLimit(cpus=8, gpus=2, max_nodes=5, min_nodes=2),
    }
    cluster = Cluster(kinds=kinds, max_workers=5, idle_hours=0.0)
    assert nodes_for(cluster, 19, cpus=1, gpus=1 / 3) == {"head": 1, "gpu": 4}  # six a node
    assert nodes_for(cluster, 99, cpus=1, gpus=1)["gpu"] == 5
    assert nodes_for(cluster, 2, cpus=1, gpus=0) == {"head": 1, "gpu": 2}


def test_a_thousand_nodes_are_no_more_work_than_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of ten thousand trials on a thousand nodes stays below a second by this."""
    calls = 0
    counted = packing.held

    def held(*sizes: float) -> int:
        nonlocal calls
        calls += 1
        return counted(*sizes)

    monkeypatch.setattr(packing, "held", held)
    seen = []
    for nodes in (10, 1000):
        calls = 0
        found = nodes_for(big(nodes), nodes, cpus=1, gpus=1, data_cpus=1)
        assert found["gpu-spot"] == nodes
        seen.append(calls)
    assert seen[0] == seen[1] < 40


def test_ten_thousand_trials_on_a_thousand_nodes() -> None:
    study, cluster = config(trials=10_000, finalists=10, seeds=3), big(1000)
    plan = planned(cluster, study)
    assert plan.concurrent == 1000
    steps = forecasts(plan, study, cluster, PROBE, PRICES)
    assert steps[1000].stages[0].nodes["gpu-spot"] == 1000
    assert len(steps) == 11
