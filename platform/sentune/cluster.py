"""What the cluster of a cluster.yaml can grow to, read without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sentune.errors import InvalidValue


@dataclass(frozen=True, kw_only=True)
class NodeLimit:
    """One kind of node: what each has, and how many there can be.

    Attributes:
        cpus: CPUs of one node that Ray may give away; 0 for a head without trial work.
        gpus: GPUs of one node.
        max_nodes: nodes of this kind at most; 1 for the head.
        head: the node that jobs' drivers run on.
    """

    cpus: int
    gpus: int
    max_nodes: int
    head: bool = False


def cluster_limits(path: str | Path) -> dict[str, NodeLimit]:
    """Reads the node types of a Ray cluster configuration.

    Args:
        path: a file for ``ray up``.

    Returns:
        name of the node type -> what one node has and how many there can be.

    Raises:
        InvalidValue: the file is no cluster configuration, or leaves out a number that Ray would
            only learn from the cloud; the message names the field.
    """
    config = _load(Path(path))
    total = _number(config, "max_workers", "max_workers", default=None)
    head = config.get("head_node_type")
    limits = {
        name: _limit(node_type, f"available_node_types.{name}", head=name == head, total=total)
        for name, node_type in config["available_node_types"].items()
    }
    if head not in limits:
        raise InvalidValue("head_node_type", head, f"it must be one of {', '.join(limits)}")
    return limits


def largest_cluster(path: str | Path) -> list[NodeLimit]:
    """Every node of the cluster grown to its limit, one entry a node, the head first.

    ``max_workers`` bounds the sum over all kinds: the nodes with most GPUs come first.
    """
    total = _number(_load(Path(path)), "max_workers", "max_workers", default=None)
    limits = cluster_limits(path).values()
    workers = [limit for limit in limits if not limit.head for _ in range(limit.max_nodes)]
    workers.sort(key=lambda node: (-node.gpus, -node.cpus))
    return [*(limit for limit in limits if limit.head), *workers[:total]]


def running_cluster_file() -> Path | None:
    """The configuration of the cluster that this machine is the head of.

    ``ray up`` leaves it in the head's home folder, with the limits that the cluster really has;
    None where no ``ray up`` made the cluster, which then cannot grow.
    """
    path = Path.home() / "ray_bootstrap_config.yaml"
    return path if path.is_file() else None


def _load(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("cluster file", str(path), f"it cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InvalidValue("cluster file", str(path), f"it is not YAML: {error}") from error
    types = config.get("available_node_types") if isinstance(config, dict) else None
    if not isinstance(types, dict) or not all(isinstance(t, dict) for t in types.values()):
        raise InvalidValue("cluster file", str(path), "it must have available_node_types")
    return dict(config)


def _limit(node_type: Mapping[str, Any], where: str, *, head: bool, total: int) -> NodeLimit:
    resources = node_type.get("resources") or {}
    max_nodes = 1 if head else _number(node_type, "max_workers", f"{where}.max_workers", total)
    return NodeLimit(
        cpus=_number(resources, "CPU", f"{where}.resources.CPU", default=None),
        gpus=_number(resources, "GPU", f"{where}.resources.GPU", default=0),
        max_nodes=max_nodes if head else min(max_nodes, total),
        head=head,
    )


def _number(values: Mapping[str, Any], key: str, where: str, default: int | None) -> int:
    value = values.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidValue(where, value, "state it as a whole number in the cluster file")
    return value
