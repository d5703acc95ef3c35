"""Requests nodes for a study's first runs while its driver is still getting ready."""

from __future__ import annotations

from ray.util import placement_group, remove_placement_group
from ray.util.placement_group import PlacementGroup

from sentune.study.planning.capacity import Capacity
from sentune.study.planning.plan import Plan


class Prewarm:
    """Placement groups of the first runs, held on a cluster that can grow until the runs start.

    The autoscaler so starts nodes while this process still imports Ray Tune and opens its
    databases. The groups are released right before the runs request their own: both together would
    start twice the nodes. There are none for groups of workers: each is requested by a process of
    its own, which takes longer to start than a node with a short idle timeout waits.
    """

    def __init__(self, plan: Plan, capacity: Capacity) -> None:
        grows = plan.launcher == "inline" and capacity.reachable != capacity.nodes
        self._most = plan.concurrent if grows and plan.concurrent > plan.concurrent_now else 0
        needs = {"CPU": plan.cpus, "GPU": plan.gpus}
        self._bundle = {name: amount for name, amount in needs.items() if amount}
        self._held: list[PlacementGroup] = []

    def ask(self, runs: int) -> None:
        """Ask for the places of so many runs, if there are not as many already."""
        self._held = [placement_group([self._bundle]) for _ in range(min(runs, self._most))]

    def release(self) -> None:
        """Give back what is held."""
        while self._held:
            remove_placement_group(self._held.pop())
