"""What a cluster holds: now, and at the most that its cluster file allows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sentune.cluster import Cluster, read_cluster, running_cluster_file
from sentune.cluster.packing import held


@dataclass(frozen=True, kw_only=True)
class Node:
    """CPUs and GPUs of one machine."""

    cpus: float
    gpus: float = 0.0

    def holds(self, cpus: float, gpus: float) -> int:
        """Return how many workers of this size fit."""
        return held(self.cpus, self.gpus, cpus, gpus)


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
        """Return a cluster that does not grow."""
        return cls(nodes=nodes, reachable=nodes)


def available() -> Capacity:
    """The connected Ray cluster with what ``ray up`` allows it to grow to, or this machine."""
    import ray  # a plan for a cluster file does not need it

    if not ray.is_initialized():
        import torch

        gpus = torch.cuda.device_count()
        return Capacity.fixed(Node(cpus=os.cpu_count() or 1, gpus=gpus))
    nodes = tuple(_node(n["Resources"]) for n in ray.nodes() if n["Alive"])
    file = running_cluster_file()
    return Capacity(nodes=nodes, reachable=grown(file)) if file else Capacity.fixed(*nodes)


def grown(cluster_file: str | Path) -> tuple[Node, ...]:
    """Return every machine that a cluster file allows.

    Raises:
        InvalidValue: it is no cluster file, or a node type does not say its resources.
    """
    return machines(read_cluster(cluster_file))


def machines(cluster: Cluster) -> tuple[Node, ...]:
    """Return every machine of a cluster grown to its limit."""
    return tuple(Node(cpus=n.cpus, gpus=n.gpus) for n in cluster.largest())


def _node(resources: dict[str, float]) -> Node:
    return Node(cpus=float(resources.get("CPU", 0)), gpus=float(resources.get("GPU", 0)))
