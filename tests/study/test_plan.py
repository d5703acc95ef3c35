"""The plan: what will be asked for, and what is refused before anything starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentune.cluster import read_cluster
from sentune.errors import InvalidValue, PlanError
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, Node, available, machines
from sentune.study.planning.plan import Probe, estimate, make_plan
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="toy",
    objective="direction/accuracy",
    settings={"rate": Uniform(1e-5, 1e-3, log=True), "batch_size": Choice(16, 32)},
    grids={"paper": {"rate": (1e-5, 2e-5, 5e-5), "batch_size": (16, 32)}},
)
LAPTOP = Capacity.fixed(Node(cpus=2))
GPUS = Capacity.fixed(Node(cpus=8), Node(cpus=16, gpus=4), Node(cpus=16, gpus=4))


def config(**changes: Any) -> StudyConfig:
    return StudyConfig(**{"name": "s", "storage": "studies", "max_examples": 900, **changes})


def test_a_plan_says_trials_rungs_examples_and_concurrency():
    plan = make_plan(config(trials=9, finalists=2, seeds=3), SPACE, LAPTOP)
    assert plan.rungs == (100, 300)
    assert (plan.trials, plan.finalists, plan.concurrent, plan.launcher) == (9, 6, 2, "inline")
    # six runs of the finals whole; of the search's nine trials as many as a simulation lets go on
    reached = config(trials=9, finalists=2).search_scheduler(SPACE).expected(9)
    searched = 9 * 100 + reached[300] * 200 + reached[900] * 600
    assert plan.examples_expected == round(searched) + 6 * 900 == 8_222
    assert plan.examples_at_most == 15 * 900
    assert plan.validations_expected == round(sum(reached.values())) + 6 * 3 == 33
    assert plan.validations_at_rungs == round(9 + reached[300]) == 13
    assert json.loads(json.dumps(plan.to_dict())) == plan.to_dict()


@pytest.mark.parametrize(
    ("scheduler", "examples", "validations"), [("median", 7_875, 79), ("hyperband", 8_983, 37)]
)
def test_examples_and_validations_are_of_the_same_search(
    scheduler: str, examples: int, validations: int
) -> None:
    studied = config(trials=17, finalists=0, scheduler=scheduler)
    plan = make_plan(studied, SPACE, LAPTOP)
    reached = studied.search_scheduler(SPACE).expected(17)
    lengths = np.diff([0, *reached])
    assert plan.examples_expected == round(float(lengths @ [*reached.values()])) == examples
    assert plan.validations_expected == round(sum(reached.values())) == validations


def test_a_plan_says_how_many_gpus_no_trial_is_given():
    assert make_plan(config(trials=9), SPACE, GPUS).gpus_unused == 8
    assert make_plan(config(trials=9, gpus_per_worker=0.5), SPACE, GPUS).gpus_unused == 0
    assert make_plan(config(trials=9), SPACE, LAPTOP).gpus_unused == 0


def test_what_to_give_where_no_machine_has_a_gpu() -> None:
    with pytest.raises(PlanError, match=r"--gpus-per-worker.*has 0 GPUs; leave it out"):
        make_plan(config(trials=9, gpus_per_worker=1), SPACE, LAPTOP)


def test_several_objectives_and_no_scheduler_stop_nothing():
    for changes in ({"scheduler": "none"}, {"objectives": (Objective("train/seconds", "min"),)}):
        plan = make_plan(config(trials=5, finalists=0, **changes), SPACE, LAPTOP)
        assert (plan.rungs, plan.scheduler) == ((), "none")
        assert plan.examples_expected == plan.examples_at_most == 5 * 900


PROBE = Probe(
    start_seconds=10.0,
    seconds_per_example=0.5,
    seconds_per_validation=60.0,
    checkpoint_bytes=1_000_000,
    gpu=False,
    basis="a probe",
)


def run_seconds(examples: int, validations: int, workers: int) -> float:
    return 10.0 + examples * 0.5 / workers + 60.0 * validations


def test_rungs_of_the_search_cost_their_share_of_a_validation():
    wanted = config(trials=9, finalists=1, seeds=2)
    plan = make_plan(wanted, SPACE, LAPTOP)
    whole, part = (estimate(plan, wanted, replace(PROBE, rung_share=s)) for s in (1.0, 0.2))
    assert plan.validations_at_rungs == 13
    saved = 0.8 * 60.0 * 13
    assert 3600 * (whole.cpu_hours - part.cpu_hours) == pytest.approx(saved)


@pytest.mark.parametrize("changes", [{}, {"validate_every": 100}, {"population": 4}])
def test_rungs_are_judged_on_a_part_where_they_only_compare(changes: dict[str, int]):
    found = config(rung_rows=500, **({"finalists": 0} | changes if changes else {}))
    assert found.rows_at_rungs == (0 if changes else 500)
    assert config().rows_at_rungs == 0


def test_the_cost_of_a_plan_run_by_run():
    wanted = config(trials=9, finalists=1, seeds=2, eta=3, keep=3)
    plan = make_plan(wanted, SPACE, LAPTOP)
    cost = estimate(plan, wanted, PROBE)
    examples, validations = plan.examples_expected - 2 * 900, plan.validations_expected - 2 * 3
    assert (examples, validations) == (2_326, 14)
    search = 9 * 10.0 + 0.5 * examples + 60.0 * validations
    full = run_seconds(900, 3, 1)
    assert cost.cpu_hours == pytest.approx((search + 2 * full) / 3600)
    assert cost.gpu_hours == 0
    assert cost.hours == pytest.approx((search / 2 + full) / 3600)  # two at a time
    assert cost.hours_now == cost.hours
    # five for each of two at work, three kept, two of the finals, one published; three for each of
    # four that wait at each of two rungs
    assert cost.disk_bytes == (16 + 24) * PROBE.checkpoint_bytes
    assert cost.basis == "a probe; on other machines it will differ"


def test_gpus_cost_while_one_of_them_validates():
    wanted = config(trials=4, finalists=0, scheduler="none", workers=4, gpus_per_worker=1.0)
    cluster = Capacity(nodes=(Node(cpus=4),), reachable=GPUS.nodes)
    cost = estimate(make_plan(wanted, SPACE, cluster), wanted, PROBE)
    each = run_seconds(900, len(wanted.milestones("max")), 4)
    assert cost.gpu_hours == pytest.approx(4 * each * 4 / 3600)
    assert cost.hours == pytest.approx(4 * each / 2 / 3600)
    assert cost.hours_now is None
    assert "upper bound" in cost.basis
    assert "4 workers are assumed to train 4 times as fast" in cost.basis


def test_a_search_takes_no_less_than_its_longest_trial():
    wanted = config(trials=8, finalists=0)
    crowd = Capacity.fixed(Node(cpus=64))
    cost = estimate(make_plan(wanted, SPACE, crowd), wanted, PROBE)
    assert cost.hours == pytest.approx(run_seconds(900, 3, 1) / 3600)


def test_it_needs_no_ray():
    plan = make_plan(config(concurrent=1), SPACE, available())
    assert plan.concurrent == 1


def test_a_grid_tries_nothing_first():
    with pytest.raises(InvalidValue, match=r"--try-first: .*grid keeps its own order"):
        config(sampler="grid", points=({"rate": 0.5},))


def test_a_grid_has_as_many_trials_as_points():
    assert make_plan(config(sampler="grid:paper", trials=99), SPACE, LAPTOP).trials == 6
    assert make_plan(config(sampler="grid:paper", trials=4), SPACE, LAPTOP).trials == 4


@pytest.mark.parametrize(
    ("changes", "concurrent"),
    [
        ({"gpus_per_worker": 1}, 8),
        ({"gpus_per_worker": 0.5}, 16),
        ({"gpus_per_worker": 1 / 3}, 24),
        ({"gpus_per_worker": 0.4}, 16),
        ({"gpus_per_worker": 0.6}, 8),
        ({"gpus_per_worker": 2, "workers": 2}, 2),
        ({"gpus_per_worker": 1, "workers": (1, 8)}, 8),
        ({"gpus_per_worker": 1, "concurrent": 3}, 3),
        ({"workers": 4}, 10),
        ({"workers": 4, "data_cpus": 4}, 9),
    ],
)
def test_concurrency_is_what_the_machines_hold(changes, concurrent):
    assert make_plan(config(trials=99, **changes), SPACE, GPUS).concurrent == concurrent


@pytest.mark.parametrize(
    ("capacity", "changes", "field", "fix"),
    [
        (GPUS, {"gpus_per_worker": 5}, "--gpus-per-worker", "4 GPUs"),
        (LAPTOP, {"gpus_per_worker": 1}, "--gpus-per-worker", "0 GPUs"),
        (GPUS, {"gpus_per_worker": 1, "workers": 9}, "--workers", "holds 8 workers"),
        (LAPTOP, {"workers": 3}, "--workers", "holds 2 workers"),
        (LAPTOP, {"workers": 2, "data_cpus": 1}, "--workers", "Ray Data"),
        (GPUS, {"gpus_per_worker": 3, "concurrent": 3}, "--concurrent", "2"),
    ],
)
def test_what_cannot_run_is_refused_with_the_field_and_the_fix(capacity, changes, field, fix):
    with pytest.raises(PlanError) as refused:
        make_plan(config(**changes), SPACE, capacity)
    assert refused.value.field == field
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"launcher": "inline", "workers": 2}, "--launcher"),
        ({"gpus_per_worker": 1.5}, "--gpus-per-worker"),
        ({"population": 4}, "--population"),
        ({"population": 4, "finalists": 0, "workers": 2}, "--population"),
    ],
)
def test_values_that_contradict_each_other_are_refused(changes, field):
    with pytest.raises(InvalidValue) as refused:
        config(**changes)
    assert refused.value.field == field


def test_a_sampler_that_would_ignore_a_constraint_is_refused():
    numbers = replace(SPACE, settings={"rate": Uniform(1e-5, 1e-3, log=True)}, grids={})
    bound = Constraint(metric="train/seconds", bound=60.0, at_most=True)
    asked = config(sampler="cmaes", trials=2, constraints=(bound,))
    with pytest.raises(InvalidValue, match="constraint") as refused:
        make_plan(asked, numbers, LAPTOP)
    assert refused.value.field == "--sampler"
    assert make_plan(config(sampler="cmaes", trials=2), numbers, LAPTOP).trials == 2


def test_auto_is_inline_for_one_worker():
    assert config().launched_by == "inline"
    assert config(workers=2).launched_by == "train"
    assert config(workers=(1, 4)).launched_by == "train"
    assert config(launcher="train").launched_by == "train"


CLUSTER = """
cluster_name: test
max_workers: 5
head_node_type: head
available_node_types:
  head: {resources: {CPU: 4}}
  gpu: {resources: {CPU: 8, GPU: 1}, min_workers: 0, max_workers: 4}
  data: {resources: {CPU: 16}, max_workers: 4}
"""


def test_a_cluster_file_says_how_far_the_cluster_grows(tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    nodes = machines(read_cluster(file))
    assert set(nodes) >= {Node(cpus=4), Node(cpus=8, gpus=1)}
    assert sum(node.gpus for node in nodes) == 4
    cluster = Capacity(nodes=(Node(cpus=4),), reachable=nodes)
    plan = make_plan(config(trials=99, gpus_per_worker=1), SPACE, cluster)
    assert (plan.concurrent, plan.concurrent_now) == (4, 0)
    with pytest.raises(PlanError, match="holds 4 workers"):
        make_plan(config(gpus_per_worker=1, workers=5), SPACE, cluster)
