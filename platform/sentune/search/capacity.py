"""What a cluster holds: now, and at the most that its cluster file allows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
import yaml

from sentune.errors import InvalidValue


@dataclass(frozen=True, kw_only=True)
class Node:
    """CPUs and GPUs of one machine."""

    cpus: float
    gpus: float = 0.0

    def holds(self, cpus: float, gpus: float) -> int:
        """How many workers of this size fit."""
        by_cpu = self.cpus / cpus if cpus else float("inf")
        by_gpu = self.gpus / gpus if gpus else float("inf")
        # 1e-9: three workers of a third of a GPU each fit on one
        return 0 if by_cpu == by_gpu == float("inf") else int(min(by_cpu, by_gpu) + 1e-9)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The machines of a cluster.

    Attributes:
        nodes: those that are up.
        reachable: all that there can be; the same where nothing grows.
    """

    nodes: tuple[Node, ...]
    reachable: tuple[Node, ...]

    @classmethod
    def fixed(cls, *nodes: Node) -> Capacity:
        """A cluster that does not grow."""
        return cls(nodes=nodes, reachable=nodes)


def available(cluster_file: str | None = None) -> Capacity:
    """The connected Ray cluster, or this machine where none is up.

    Args:
        cluster_file: ``cluster.yaml``, for a cluster that grows.
    """
    if ray.is_initialized():
        nodes = tuple(_node(n["Resources"]) for n in ray.nodes() if n["Alive"])
    else:
        gpus = torch.cuda.device_count()
        nodes = (Node(cpus=os.cpu_count() or 1, gpus=gpus),)
    reachable = nodes_of(cluster_file) if cluster_file is not None else nodes
    return Capacity(nodes=nodes, reachable=reachable)


def nodes_of(cluster_file: str) -> tuple[Node, ...]:
    """Every machine that a cluster file allows.

    Raises:
        InvalidValue: it is no cluster file, or a node type does not say its resources.
    """
    data = yaml.safe_load(Path(cluster_file).read_text(encoding="utf-8"))
    types = data.get("available_node_types") if isinstance(data, dict) else None
    if not types:
        fix = "it needs available_node_types, see Ray's cluster YAML reference"
        raise InvalidValue("cluster file", cluster_file, fix)
    most = int(data.get("max_workers", 2))
    head = data.get("head_node_type", next(iter(types)))
    workers: list[Node] = []
    for name, kind in types.items():
        node = _declared(cluster_file, name, kind)
        count = int(kind.get("max_workers", 0 if name == head else most))
        workers += [node] * count
    # the machines with most GPUs first: max_workers bounds the sum over all types
    chosen = sorted(workers, key=lambda node: (-node.gpus, -node.cpus))[:most]
    return (_declared(cluster_file, head, types[head]), *chosen)


def _declared(cluster_file: str, name: str, kind: dict[str, Any]) -> Node:
    resources = kind.get("resources") or {}
    if "CPU" not in resources:
        fix = f"say the resources of node type {name}: resources: {{CPU: 8, GPU: 1}}"
        raise InvalidValue("cluster file", cluster_file, fix)
    return _node(resources)


def _node(resources: dict[str, float]) -> Node:
    return Node(cpus=float(resources.get("CPU", 0)), gpus=float(resources.get("GPU", 0)))
