"""What Ray's own autoscaler starts of cluster.yaml: spot first, others where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated.autoscaler_pb2 import ResourceRequestByCount

from sentune.cluster import read_cluster
from sentune.cluster.packing import nodes_for
from tests.ops.conftest import FILE


def started(
    config: Mapping[str, Any], *demands: tuple[int, dict[str, float]], **availability: float
) -> dict[str, int]:
    """Node type -> how many Ray's autoscaler would start for these bundles."""
    read = AutoscalingConfig(configs=dict(config), skip_content_hash=True)
    request = SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=read.get_node_type_configs(),
        max_num_nodes=read.get_max_num_nodes(),
        resource_requests=[
            ResourceRequestByCount(request=ResourceRequestUtil.make(bundle), count=count)
            for count, bundle in demands
        ],
        recoverable_resource_availabilities={
            name.replace("_", "-"): score for name, score in availability.items()
        },
    )
    launches = ResourceDemandScheduler().schedule(request).to_launch
    return {launch.instance_type: launch.count for launch in launches}


def test_spot_machines_come_first(config: dict[str, Any]) -> None:
    assert started(config, (3, {"CPU": 1, "GPU": 1})) == {"gpu-spot": 3}


def test_on_demand_machines_stand_in_after_a_failed_start(config: dict[str, Any]) -> None:
    bundle = {"CPU": 1.0, "GPU": 1.0}
    assert started(config, (3, bundle), gpu_spot=0.1) == {"gpu-on-demand": 3}


def test_work_without_gpus_goes_to_machines_without(config: dict[str, Any]) -> None:
    assert started(config, (10, {"CPU": 1})) == {"data": 2}


@pytest.mark.parametrize(
    ("count", "cpus", "gpus"),
    [(1, 1, 1), (5, 4, 1), (8, 1, 1), (7, 1, 0.5), (3, 3, 0), (16, 1, 0), (1, 8, 0)],
)
def test_the_plan_expects_the_nodes_that_ray_starts(
    config: dict[str, Any], count: int, cpus: float, gpus: float
) -> None:
    bundle = {"CPU": float(cpus), **({"GPU": float(gpus)} if gpus else {})}
    expected = nodes_for(read_cluster(FILE), count, cpus=cpus, gpus=gpus)
    del expected["head"]
    assert started(config, (count, bundle)) == {n: c for n, c in expected.items() if c}


def test_the_plan_expects_the_kind_that_fits_best_as_ray_does(
    config: dict[str, Any], tmp_path: Path
) -> None:
    """Four GPUs on one node where four are wanted, single ones for the rest."""
    changed = dict(config, max_workers=30)
    spot = config["available_node_types"]["gpu-spot"]
    large = {**spot, "resources": {"CPU": 16, "GPU": 4}, "max_workers": 3}
    changed["available_node_types"] = {**config["available_node_types"], "large": large}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(changed))
    for count in (1, 3, 4, 6, 9, 14, 20):
        expected = nodes_for(read_cluster(file), count, cpus=1, gpus=1)
        del expected["head"]
        found = started(changed, (count, {"CPU": 1.0, "GPU": 1.0}))
        assert found == {n: c for n, c in expected.items() if c}, count
