"""The plan as a person reads it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from sentune.job.plan import plan_table
from sentune.study.planning.capacity import Capacity, Node
from sentune.study.planning.plan import estimate, make_plan
from tests.study.test_plan import PROBE, SPACE, config


def printed(plan: dict[str, Any], width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(plan_table(plan))
    return text.getvalue()


def test_trials_of_a_population_are_segments_which_no_sampler_draws() -> None:
    wanted = config(population=4, generations=3, finalists=0)
    plan = make_plan(wanted, SPACE, Capacity.fixed(Node(cpus=4)))
    shown = printed(plan.to_dict(), 120)
    assert "segments of its members" in shown
    assert "drawn by" not in shown


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_asked_for_and_what_it_costs(width: int) -> None:
    wanted = config(trials=9, workers=2, gpus_per_worker=0.5, data_cpus=1, finalists=1, seeds=3)
    cluster = Capacity(nodes=(Node(cpus=4, gpus=1),), reachable=(Node(cpus=64, gpus=8),))
    plan = make_plan(wanted, SPACE, cluster)
    plan = replace(plan, estimate=estimate(plan, wanted, PROBE)).to_dict()
    shown = printed(plan, width)
    for text in (
        "9, drawn by tpe",
        "100, 300 examples (asha-promotion)",
        "3 full runs from fresh seeds",
        "2 a trial (train), each 1 CPU and 0.5 GPUs",
        "1 CPU stays free",
        "1 now, 8 at full scale",
        " at full scale, ",
        "GPU hours",
        "up to 71.0 MB, 1.0 MB a checkpoint",
        "a probe; 2 workers",
    ):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= width


def test_a_plan_without_a_probe_or_rungs() -> None:
    wanted = config(scheduler="none", finalists=0)
    shown = printed(make_plan(wanted, SPACE, Capacity.fixed(Node(cpus=2))).to_dict(), 80)
    assert "none (none)" not in shown
    assert "no rungs" in shown
    for text in ("hours", "disk", "finals", "Ray Data"):
        assert text not in shown


def test_gpus_that_no_trial_is_given_are_named() -> None:
    laptop = Capacity.fixed(Node(cpus=2, gpus=1))
    shown = printed(make_plan(config(), SPACE, laptop).to_dict(), 80)
    assert "1 up, none used: give --gpus-per-worker 1" in shown
    plan = make_plan(config(gpus_per_worker=1), SPACE, laptop)
    assert "none used" not in printed(plan.to_dict(), 80)
