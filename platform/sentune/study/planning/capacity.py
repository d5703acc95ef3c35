"""CPUs and GPUs of a cluster: now, and grown to the limit of its cluster file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sentune.cluster import Cluster, read_cluster, running_cluster_file
from sentune.cluster.packing import held

WORKER_CPUS = 1.0
"""CPUs of a worker, which trains with one thread."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """CPUs and GPUs of one machine."""

    cpus: float
    gpus: float = 0.0

    def holds(self, gpus: float) -> int:
        """Return how many workers with so many GPUs each fit on the machine."""
        return held(self.cpus, self.gpus, WORKER_CPUS, gpus)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The machines of a cluster: those that are up (``nodes``), and all that it can grow to."""

    nodes: tuple[Node, ...]
    reachable: tuple[Node, ...]

    @classmethod
    def fixed(cls, *nodes: Node) -> Capacity:
        """Return a cluster that does not grow."""
        return cls(nodes=nodes, reachable=nodes)


def available() -> Capacity:
    """Return the capacity of the connected Ray cluster, or of this machine without one."""
    import ray  # a plan for a cluster file does not need it

    from sentune.study.planning.connect import STARTED_HERE

    if not ray.is_initialized():
        import torch

        gpus = torch.cuda.device_count()
        return Capacity.fixed(Node(cpus=os.cpu_count() or 1, gpus=gpus))
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    nodes = tuple(Node(cpus=n.get("CPU", 0.0), gpus=n.get("GPU", 0.0)) for n in alive)
    file = None if STARTED_HERE.is_set() else running_cluster_file()
    return Capacity(nodes=nodes, reachable=machines(read_cluster(file)) if file else nodes)


def machines(cluster: Cluster) -> tuple[Node, ...]:
    """Return all machines of a cluster that has grown to its limit."""
    return tuple(Node(cpus=n.cpus, gpus=n.gpus) for n in cluster.largest())
