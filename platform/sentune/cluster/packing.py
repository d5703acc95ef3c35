"""Computes which nodes Ray's autoscaler starts for a number of workers.

The order of preference is Ray's (autoscaler v2, ``SchedulingNode._compute_score``): types without
GPUs first for workers without GPUs, then the type of which the workers use the most resources and
the largest share, then the highest priority. All nodes of a type are added in one step.
"""

from __future__ import annotations

import math

from sentune.cluster.limits import Cluster, NodeLimit


def held(node_cpus: float, node_gpus: float, cpus: float, gpus: float) -> int:
    """Return how many workers fit on a node; 0 if a worker needs neither CPUs nor GPUs.

    As in Ray, a worker with a fraction of a GPU gets that fraction of a single GPU.
    """
    by_cpu = node_cpus / cpus if cpus else float("inf")
    by_gpu = node_gpus / gpus if gpus else float("inf")
    if 0 < gpus < 1:
        whole, rest = divmod(node_gpus, 1)
        by_gpu = whole * int(1 / gpus + 1e-9) + rest / gpus  # 1e-9: three thirds fit on one
    return 0 if by_cpu == by_gpu == float("inf") else int(min(by_cpu, by_gpu) + 1e-9)


def nodes_for(
    cluster: Cluster, workers: int, *, cpus: float, gpus: float, data_cpus: float = 0.0
) -> dict[str, int]:
    """Return node type -> number of nodes that are up while ``workers`` run at the same time.

    Nodes that are always up are included. Workers for which there is no room wait. ``cpus`` and
    ``gpus`` are of each worker; each of the further ``data_cpus`` may be on any node.
    """
    up = {name: kind.min_nodes for name, kind in cluster.kinds.items()}
    there = sum(
        held(kind.cpus, kind.gpus, cpus, gpus) * kind.min_nodes for kind in cluster.kinds.values()
    )
    waiting = _start(cluster, up, max(0, workers - there), cpus, gpus)
    taken = (workers - waiting) * cpus
    free = sum(cluster.kinds[name].cpus * count for name, count in up.items()) - taken
    _start(cluster, up, max(0, math.ceil(data_cpus - free)), 1.0, 0.0)
    return up


def _start(cluster: Cluster, up: dict[str, int], left: int, cpus: float, gpus: float) -> int:
    """Add nodes to ``up`` for ``left`` workers; return the number of workers without room."""
    kinds = {name: kind for name, kind in cluster.kinds.items() if not kind.head}
    fit = {name: held(kind.cpus, kind.gpus, cpus, gpus) for name, kind in kinds.items()}
    while left > 0:
        room = cluster.max_workers - sum(up[name] for name in kinds)
        free = [name for name, kind in kinds.items() if fit[name] and up[name] < kind.max_nodes]
        if room <= 0 or not free:
            return left
        name = max(free, key=lambda n: _score(kinds[n], left, cpus, gpus))
        # full nodes only: for a last node that is partly full another type may be better
        count = min(max(1, left // fit[name]), kinds[name].max_nodes - up[name], room)
        up[name] += count
        left -= min(left, count * fit[name])
    return 0


def _score(
    kind: NodeLimit, left: int, cpus: float, gpus: float
) -> tuple[bool, int, float, float, int]:
    """Return Ray's score of a node type; the largest is preferred, then the first of equals."""
    workers = min(left, held(kind.cpus, kind.gpus, cpus, gpus))
    has, takes = (kind.cpus, kind.gpus), (workers * cpus, workers * gpus)
    used = [total * (part / total) ** 3 for total, part in zip(has, takes, strict=True) if total]
    matching = sum(1 for total, part in zip(has, takes, strict=True) if total and part)
    return (
        bool(gpus) or not kind.gpus,
        matching,
        min(used, default=0.0),
        sum(used) / len(used) if used else 0.0,
        kind.priority,
    )
