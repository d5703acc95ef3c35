"""What is read from a cluster's file: how many nodes of which size there can be."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml

from sentune.cluster import (
    NodeLimit,
    read_cluster,
    running_cluster_file,
)
from sentune.errors import InvalidValue
from sentune.study.planning import connect
from sentune.study.planning.capacity import Capacity, Node, available
from tests.ops.conftest import FILE, ROOT, read
from tests.third_party_internals import prepare_config

ONPREM, KUBERAY = (ROOT / f"cluster/{name}.yaml" for name in ("onprem", "kuberay"))


def test_limits_are_read() -> None:
    limits = read_cluster(FILE).kinds
    assert limits["head"] == NodeLimit(cpus=0, gpus=0, max_nodes=1, min_nodes=1, head=True)
    assert limits["gpu-spot"] == NodeLimit(cpus=4, gpus=1, max_nodes=8, priority=1)
    assert limits["gpu-on-demand"].stands_in_for == "gpu-spot"
    assert limits["data"].gpus == 0


def test_nodes_that_stand_in_are_not_counted_beside_those_they_stand_in_for() -> None:
    nodes = read_cluster(FILE).largest()
    assert sum(node.gpus for node in nodes) == 8
    assert len(nodes) == 1 + 8 + 2


def test_groups_of_one_size_and_priority_are_all_counted(
    config: dict[str, Any], tmp_path: Path
) -> None:
    config["available_node_types"]["gpu-spot"]["priority"] = 0
    config["max_workers"] = 18
    assert sum(node.gpus for node in read_cluster(_written(config, tmp_path)).largest()) == 16


def test_a_head_knows_its_own_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert running_cluster_file() is None
    (tmp_path / "ray_bootstrap_config.yaml").write_text(FILE.read_text())
    found = running_cluster_file()
    assert found is not None
    assert read_cluster(found).kinds == read_cluster(FILE).kinds


def test_a_ray_that_is_started_on_a_head_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray_bootstrap_config.yaml").write_text(FILE.read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    connections: list[str] = []
    monkeypatch.setattr(connect, "join", lambda address, **_: connections.append(address))
    monkeypatch.setattr(ray, "shutdown", connections.clear)
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(connections))
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 4.0}}])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("RAY_AUTH_TOKEN", *connect.OWN_CLUSTER):
        monkeypatch.setenv(name, "0")
    with connect.connected():
        assert connections == ["local"]
        assert available() == Capacity.fixed(Node(cpus=4))
    connections.append("auto")  # a user's own ``ray.init``
    with connect.connected():
        assert len(available().reachable) == len(read_cluster(FILE).largest())


def test_own_machines_are_counted_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray leaves out what they have: a plan from that file would refuse every study."""
    monkeypatch.setenv("HOME", str(tmp_path))
    prepared = yaml.safe_dump(prepare_config(read(ONPREM)))
    (tmp_path / "ray_bootstrap_config.yaml").write_text(prepared)
    assert running_cluster_file() is None
    with pytest.raises(InvalidValue, match="--node"):
        read_cluster(ONPREM)


def _written(config: Any, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


def test_the_whole_clusters_maximum_bounds_each_group(
    config: dict[str, Any], tmp_path: Path
) -> None:
    config["max_workers"] = 3
    assert read_cluster(_written(config, tmp_path)).kinds["gpu-spot"].max_nodes == 3


def test_a_group_without_its_own_maximum_has_the_clusters(
    config: dict[str, Any], tmp_path: Path
) -> None:
    del config["available_node_types"]["gpu-spot"]["max_workers"]
    assert read_cluster(_written(config, tmp_path)).kinds["gpu-spot"].max_nodes == 10


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("available_node_types.gpu-spot.resources.CPU", {"resources": {"GPU": 1}}),
        ("available_node_types.gpu-spot.resources.GPU", {"resources": {"CPU": 1, "GPU": "two"}}),
        ("available_node_types.gpu-spot.max_workers", {"max_workers": -1}),
        ("available_node_types.gpu-spot.resources", {"resources": 4}),
        ("available_node_types.gpu-spot.resources", {"resources": ["CPU"]}),
    ],
)
def test_a_number_that_cannot_be_known_is_named(
    config: dict[str, Any], tmp_path: Path, field: str, change: dict[str, Any]
) -> None:
    config = deepcopy(config)
    config["available_node_types"]["gpu-spot"].update(change)
    with pytest.raises(InvalidValue) as error:
        read_cluster(_written(config, tmp_path))
    assert error.value.field == field


@pytest.mark.parametrize("content", ["a: [", "just text", "provider: {type: aws}", ""])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidValue, match="cluster file"):
        read_cluster(_written(content, tmp_path))


def test_an_unknown_head_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    config["head_node_type"] = "boss"
    with pytest.raises(InvalidValue, match="head_node_type"):
        read_cluster(_written(config, tmp_path))


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="not YAML"):
        read_cluster(_written("a: !!python/object/apply:os.getcwd []", tmp_path))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("workerGroupSpecs.data.rayStartParams.num-cpus", {"rayStartParams": {}}),
        ("workerGroupSpecs.data.rayStartParams.num-cpus", {"rayStartParams": None}),
        ("workerGroupSpecs.data.maxReplicas", {"maxReplicas": None}),
        ("workerGroupSpecs[2].groupName", {"groupName": None}),
        ("workerGroupSpecs.data.rayStartParams", {"rayStartParams": "num-cpus"}),
    ],
)
def test_a_group_of_kuberay_that_does_not_say_its_size_is_named(
    tmp_path: Path, field: str, change: dict[str, Any]
) -> None:
    cluster = read(KUBERAY)
    cluster["spec"]["workerGroupSpecs"][2].update(change)
    with pytest.raises(InvalidValue) as error:
        read_cluster(_written(cluster, tmp_path))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("spec", "large"),
        ("workerGroupSpecs[0]", {"workerGroupSpecs": ["gpu"]}),
        ("workerGroupSpecs", {"workerGroupSpecs": 5}),
        ("autoscalerOptions", {"autoscalerOptions": "60"}),
    ],
)
def test_a_part_of_kuberay_that_is_no_mapping_is_named(
    tmp_path: Path, field: str, change: Any
) -> None:
    cluster = read(KUBERAY)
    cluster["spec"] = {**cluster["spec"], **change} if isinstance(change, dict) else change
    with pytest.raises(InvalidValue) as error:
        read_cluster(_written(cluster, tmp_path))
    assert error.value.field == field


def test_an_idle_time_of_kuberay_that_is_no_number_is_refused(tmp_path: Path) -> None:
    cluster = read(KUBERAY)
    cluster["spec"]["autoscalerOptions"] = {"idleTimeoutSeconds": "5m"}
    with pytest.raises(InvalidValue, match="idleTimeoutSeconds: '5m'"):
        read_cluster(_written(cluster, tmp_path))


def test_a_field_of_kuberay_whose_lines_are_all_comments_is_one_left_out(tmp_path: Path) -> None:
    cluster = read(KUBERAY)
    cluster["spec"] |= {"autoscalerOptions": None, "workerGroupSpecs": None}
    found = read_cluster(_written(cluster, tmp_path))
    assert found.idle_hours == pytest.approx(1 / 60)
    assert set(found.kinds) == {"head"}
