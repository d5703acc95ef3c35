"""What a cluster holds: now, and at the most that its cluster file allows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import ray
import torch

from sentune.cluster import largest_cluster, running_cluster_file


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


def available() -> Capacity:
    """The connected Ray cluster with what ``ray up`` allows it to grow to, or this machine."""
    if not ray.is_initialized():
        gpus = torch.cuda.device_count()
        return Capacity.fixed(Node(cpus=os.cpu_count() or 1, gpus=gpus))
    nodes = tuple(_node(n["Resources"]) for n in ray.nodes() if n["Alive"])
    file = running_cluster_file()
    return Capacity(nodes=nodes, reachable=grown(file)) if file else Capacity.fixed(*nodes)


def grown(cluster_file: str | Path) -> tuple[Node, ...]:
    """Every machine that a cluster file allows.

    Raises:
        InvalidValue: it is no cluster file, or a node type does not say its resources.
    """
    return tuple(Node(cpus=n.cpus, gpus=n.gpus) for n in largest_cluster(cluster_file))


def _node(resources: dict[str, float]) -> Node:
    return Node(cpus=float(resources.get("CPU", 0)), gpus=float(resources.get("GPU", 0)))
