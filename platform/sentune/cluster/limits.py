"""Reads the node types and the largest size of a cluster from its configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sentune.errors import InvalidValue

HEAD = "head"
"""Name given to the head's node type of a KubeRay file."""

RAYS_IDLE_MINUTES = 5
"""Ray's default of ``idle_timeout_minutes``."""


@dataclass(frozen=True, kw_only=True)
class NodeLimit:
    """A node type: the resources of a node, and the number of nodes.

    Attributes:
        cpus: CPUs per node that Ray schedules; 0 for a head that runs no trials.
        gpus: GPUs per node.
        max_nodes: largest number of nodes.
        min_nodes: number of nodes that are always up; 1 for the head.
        head: whether it is the node that runs the drivers of jobs.
        priority: among types of the same size, the one with the highest priority starts first.
        stands_in_for: type of the same size and higher priority that this one replaces if it is not
            available; this one is not counted in addition to it.
    """

    cpus: int
    gpus: int
    max_nodes: int
    min_nodes: int = 0
    head: bool = False
    priority: int = 0
    stands_in_for: str = ""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The node types of a cluster.

    Attributes:
        kinds: name of the node type -> its limits.
        max_workers: largest number of nodes of all types, without the head.
        idle_hours: hours after its last work until a node is removed.
    """

    kinds: Mapping[str, NodeLimit]
    max_workers: int
    idle_hours: float

    def largest(self) -> list[NodeLimit]:
        """Return all nodes of the cluster at its largest, one entry per node, the head first.

        If ``max_workers`` does not allow all nodes, those with most GPUs are taken. Types that
        stand in for others are left out, because they are started instead of them.
        """
        counted = [kind for kind in self.kinds.values() if not kind.stands_in_for]
        workers = [kind for kind in counted if not kind.head for _ in range(kind.max_nodes)]
        workers.sort(key=lambda node: (-node.gpus, -node.cpus))
        return [*(kind for kind in counted if kind.head), *workers[: self.max_workers]]


def read_cluster(path: str | Path) -> Cluster:
    """Read the node types of a cluster.

    Args:
        path: a file for ``ray up``, or a RayCluster for ``kubectl apply``.

    Raises:
        InvalidValue: the file is not a cluster configuration, or it lacks a number that Ray would
            get from the cloud provider; names the field.
    """
    config = _load(Path(path))
    total = _count(config.get("max_workers"), "max_workers")
    head = config.get("head_node_type")
    kinds = {
        name: _limit(node_type, f"available_node_types.{name}", head=name == head, total=total)
        for name, node_type in config["available_node_types"].items()
    }
    if head not in kinds:
        raise InvalidValue("head_node_type", head, f"it must be one of {', '.join(kinds)}")
    minutes = config.get("idle_timeout_minutes", RAYS_IDLE_MINUTES)
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or minutes < 0:
        raise InvalidValue("idle_timeout_minutes", minutes, "give a number of 0 or more")
    return Cluster(
        kinds={n: replace(k, stands_in_for=_stands_in(k, kinds)) for n, k in kinds.items()},
        max_workers=total,
        idle_hours=minutes / 60,
    )


def running_cluster_file() -> Path | None:
    """Return the configuration of the cluster whose head is this machine.

    ``ray up`` writes it to the head's home folder, with the limits that are in effect.

    Returns:
        None if the cluster was not started by ``ray up``, or consists of the user's own machines,
        whose resources are not in the file.
    """
    path = Path.home() / "ray_bootstrap_config.yaml"
    return path if path.is_file() and not _own_machines(_read(path)) else None


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("cluster file", str(path), f"it cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InvalidValue("cluster file", str(path), f"it is not YAML: {error}") from error


def _own_machines(config: Any) -> bool:
    provider = config.get("provider") if isinstance(config, dict) else None
    return isinstance(provider, dict) and provider.get("type") == "local"


def _load(path: Path) -> Mapping[str, Any]:
    config = _read(path)
    if _own_machines(config):
        fix = "it has no resources of its machines; give them as --node NAME=CPUS,GPUS,COUNT"
        raise InvalidValue("cluster file", str(path), fix)
    if isinstance(config, dict) and config.get("kind") == "RayCluster":
        config = _as_launcher_file(config)
    types = config.get("available_node_types") if isinstance(config, dict) else None
    if not isinstance(types, dict) or not all(isinstance(t, dict) for t in types.values()):
        raise InvalidValue("cluster file", str(path), "it must have available_node_types")
    return dict(config)


def _limit(node_type: Mapping[str, Any], where: str, *, head: bool, total: int) -> NodeLimit:
    resources = _mapping(node_type.get("resources"), f"{where}.resources")
    least = most = 1
    if not head:
        least = _count(node_type.get("min_workers", 0), f"{where}.min_workers")
        most = min(_count(node_type.get("max_workers", total), f"{where}.max_workers"), total)
    return NodeLimit(
        cpus=_count(resources.get("CPU"), f"{where}.resources.CPU"),
        gpus=_count(resources.get("GPU", 0), f"{where}.resources.GPU"),
        max_nodes=most,
        min_nodes=least,
        head=head,
        priority=node_type.get("priority", 0),
    )


def _stands_in(limit: NodeLimit, limits: Mapping[str, NodeLimit]) -> str:
    """Return the type of the same size with the highest priority above this one's, or empty."""
    before = [
        name
        for name, other in limits.items()
        if (other.cpus, other.gpus) == (limit.cpus, limit.gpus)
        and other.priority > limit.priority
        and not (other.head or limit.head)
    ]
    return min(before, key=lambda name: (-limits[name].priority, name), default="")


def _count(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidValue(field, value, "give a whole number of 0 or more in the cluster file")
    return value


def _mapping(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise InvalidValue(field, value, "give names with values, as in {CPU: 4}")
    return value or {}


def _as_launcher_file(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a RayCluster of KubeRay to the fields of a file for ``ray up``.

    CPUs and GPUs are read from ``rayStartParams``, because the pods' limits may be in thousandths.
    """
    spec = _mapping(cluster.get("spec"), "spec")
    if not isinstance(spec.get("headGroupSpec"), dict):
        raise InvalidValue("spec.headGroupSpec", "", "a RayCluster has one")
    groups = {}
    stated = spec.get("workerGroupSpecs") or []
    if not isinstance(stated, list):
        raise InvalidValue("workerGroupSpecs", stated, "give a list of worker groups")
    for index, group in enumerate(stated):
        entry = f"workerGroupSpecs[{index}]"
        if not (name := _mapping(group, entry).get("groupName")):
            raise InvalidValue(f"{entry}.groupName", name, "give the worker group a name")
        where = f"workerGroupSpecs.{name}"
        groups[name] = {
            "resources": _stated_resources(group, where),
            "min_workers": _count(group.get("minReplicas"), f"{where}.minReplicas"),
            "max_workers": _count(group.get("maxReplicas"), f"{where}.maxReplicas"),
            "priority": group.get("priority", 0),
        }
    options = _mapping(spec.get("autoscalerOptions"), "autoscalerOptions")
    idle = options.get("idleTimeoutSeconds", 60)  # KubeRay's default
    seconds = _count(idle, "autoscalerOptions.idleTimeoutSeconds")
    return {
        "head_node_type": HEAD,
        "max_workers": sum(group["max_workers"] for group in groups.values()),
        "idle_timeout_minutes": seconds / 60,
        "available_node_types": {
            HEAD: {"resources": _stated_resources(spec["headGroupSpec"], "headGroupSpec")},
            **groups,
        },
    }


def _stated_resources(group: Mapping[str, Any], where: str) -> dict[str, int]:
    stated = _mapping(group.get("rayStartParams"), f"{where}.rayStartParams")
    found = {}
    for resource, parameter in (("CPU", "num-cpus"), ("GPU", "num-gpus")):
        value = str(stated.get(parameter, "" if resource == "CPU" else "0"))
        if not value.isdigit():
            field = f"{where}.rayStartParams.{parameter}"
            raise InvalidValue(field, stated.get(parameter), 'give it as in num-cpus: "4"')
        found[resource] = int(value)
    return found
