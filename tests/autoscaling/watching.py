"""What the autoscaler says of its nodes, over time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ray.autoscaler.v2.schema import ClusterStatus, NodeInfo
from ray.autoscaler.v2.sdk import get_cluster_status

HEAD = "ray.head.default"
"""Node type of the head; all others are workers."""

HEAD_ID = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
"""The provider numbers its nodes from this one, the head, upwards."""

EVERY = 0.2
"""Seconds between two looks at the cluster."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the autoscaler said at one moment.

    Attributes:
        at: seconds since the epoch.
        nodes: worker nodes that are up -> seconds that each has been idle, by Ray's own count.
        coming: worker nodes that have been asked for and are not up.
        wanted: bundles that wait for a place.
    """

    at: float
    nodes: dict[str, float]
    coming: int
    wanted: int

    @classmethod
    def of(cls, status: ClusterStatus, at: float) -> Look:
        """From Ray's own report."""
        up = [n for n in (*status.active_nodes, *status.idle_nodes) if n.node_id != HEAD_ID]
        demands = status.resource_demands
        waiting = [*demands.placement_group_demand, *demands.ray_task_actor_demand]
        return cls(
            at=at,
            nodes={str(node.node_id): _idle(node) for node in up},
            coming=sum(launch.count for launch in status.pending_launches)
            + len([node for node in status.pending_nodes if node.ray_node_type_name != HEAD]),
            wanted=sum(b.count for demand in waiting for b in demand.bundles_by_count),
        )


def _idle(node: NodeInfo) -> float:
    return node.resource_usage.idle_time_ms / 1000 if node.resource_usage is not None else 0.0


class Watcher:
    """Looks at the cluster again and again, in a thread of its own."""

    def __init__(self, address: str) -> None:
        self.looks: list[Look] = []
        self._address, self._over = address, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self.looks.append(Look.of(get_cluster_status(self._address), time.time()))

    def wait(self, wanted: Callable[[Look], bool], seconds: float = 120) -> Look:
        """The first look from now on that is as wanted."""
        seen, deadline = len(self.looks), time.monotonic() + seconds
        while time.monotonic() < deadline:
            for look in self.looks[seen:]:
                seen += 1
                if wanted(look):
                    return look
            time.sleep(EVERY / 2)
        raise AssertionError(f"not within {seconds} s; last look: {self.looks[-1:]}")

    def up(self) -> dict[str, tuple[float, float]]:
        """Node -> when it was first and last seen up."""
        times: dict[str, list[float]] = {}
        for look in self.looks:
            for node in look.nodes:
                times.setdefault(node, []).append(look.at)
        return {node: (seen[0], seen[-1]) for node, seen in times.items()}

    def write(self, file: Path, first: int, **more: Any) -> None:
        """The log from the look with this number on, as JSON, with whatever belongs to it."""
        log = [asdict(look) for look in self.looks[first:]]
        file.write_text(json.dumps({"looks": log, **more}, indent=1), encoding="utf-8")
