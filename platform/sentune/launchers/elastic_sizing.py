"""Sizing of elastic groups: as many workers as the cluster has room for.

Ray Train has elastic groups, too. In Ray 2.60 their resize kills the workers with their progress
since the last checkpoint, draining machines count as room, and a GPU has room for four workers with
a fifth of it (1.0 // 0.2). Here a group has a fixed size from its start to its end. If there has
been room for more workers for a while, it writes a checkpoint, leaves and starts again with them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import ray
from ray.util import placement_group, remove_placement_group

from sentune.beats import repeated
from sentune.cluster.packing import held
from sentune.launchers.ray_internals import draining_nodes, free_resources
from sentune.launchers.ray_train_internals import (
    ResourceRequestPriority,
    get_or_create_autoscaling_coordinator,
)

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
"""Seconds that a starting group waits for the claims of groups that start at the same time."""

PLACE_SECONDS = 15.0
"""Seconds that Ray may take to place workers: a machine that has just died counts as room at first.
"""

ANSWER_SECONDS, EXPIRE_SECONDS, LOOKS = 10.0, 180.0, 4
"""Ray's coordinator: seconds to answer, seconds until a claim expires; checks for room within
``grow_seconds``."""


class ElasticSizing:
    """Finds the size of one trial's elastic group.

    It makes claims at Ray's autoscaling coordinator, an actor that merges the needs of all Train
    runs and Data pipelines of a cluster. The coordinator passes them to the autoscaler and promises
    no place twice. Workers beyond the fewest are claimed with the lowest priority.

    Args:
        name: name of the claims.
        workers: fewest and most workers.
        needs: resources of a worker.
        grow_seconds: see ``sentune.launchers.launch.GROW_SECONDS``.
    """

    def __init__(
        self, name: str, workers: tuple[int, int], needs: dict[str, float], grow_seconds: float
    ) -> None:
        self._fewest, self._most = workers
        self._needs, self._grow_seconds = needs, grow_seconds
        self._must = _Claim(f"{name} at least", needs, ResourceRequestPriority.HIGH)
        self._may = _Claim(f"{name} at most", needs, ResourceRequestPriority.LOW)

    def size(self) -> int:
        """Return the number of workers to start with; the fewest, which then wait, without room."""
        self._must.ask(self._fewest)
        self._may.ask(self._most - self._fewest)
        time.sleep(SETTLE_SECONDS)
        size = min(self._most, self._found(self._must, self._may))
        while size > self._fewest and not self._placed(size):
            size = min(size - 1, self._found(self._must, self._may))
        self._must.cancel()
        return max(size, self._fewest)

    @contextmanager
    def watched(self, size: int, control: Any, trial: str) -> Iterator[None]:
        """Watch a running group of this size; ask it to leave if there is room for more workers."""
        since = time.monotonic()

        def look() -> None:
            nonlocal since
            try:
                self._may.ask(self._most - size)
                # until it runs, its own places count as free
                found = ray.get(control.running.remote(trial)) and self._found(self._may)
            except ray.exceptions.RayError as error:
                logger.warning("cannot check for room for more workers: %s", error)
                found = False
            if not found:
                since = time.monotonic()
            elif time.monotonic() - since >= self._grow_seconds:
                control.resize.remote(trial)

        looks = repeated(look, self._grow_seconds / LOOKS, "sentune-sizing")
        try:
            with looks if size < self._most else nullcontext():
                yield
        finally:
            self._may.cancel()

    def _found(self, *claims: _Claim) -> int:
        """Return how many claimed workers have a promised place and fit into free resources."""
        promised = sum(claim.promised() for claim in claims)
        return min(promised, free_places(self._needs))

    def _placed(self, size: int) -> bool:
        """Return whether Ray can place a group of this size now."""
        group = placement_group([self._needs] * size, strategy="PACK")
        try:
            return bool(group.wait(PLACE_SECONDS))
        finally:
            remove_placement_group(group)


class _Claim:
    """A request for workers at Ray's autoscaling coordinator; it expires unless renewed."""

    def __init__(
        self, name: str, needs: dict[str, float], priority: ResourceRequestPriority
    ) -> None:
        self._name, self._needs, self._priority = f"sentune {name}", needs, priority
        self._coordinator = get_or_create_autoscaling_coordinator()

    def ask(self, workers: int) -> None:
        request = self._coordinator.request_resources.remote(
            requester_id=self._name,
            resources=[self._needs] * workers,
            expire_after_s=EXPIRE_SECONDS,
            priority=self._priority,
        )
        ray.get(request, timeout=ANSWER_SECONDS)

    def promised(self) -> int:
        """Return how many claimed workers have been promised a place on a live machine."""
        request = self._coordinator.get_reserved_resources.remote(self._name, recompute=True)
        nodes = ray.get(request, timeout=ANSWER_SECONDS)
        return sum(_held(resources, self._needs) for resources in nodes.values())

    def cancel(self) -> None:
        self._coordinator.cancel_request.remote(self._name)


def free_places(needs: Mapping[str, float]) -> int:
    """Return how many workers fit into free resources, without those of draining machines."""
    going, free = draining_nodes(), free_resources().items()
    return sum(_held(there, needs) for node, there in free if node not in going)


def _held(there: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return held(
        there.get("CPU", 0.0), there.get("GPU", 0.0), needs.get("CPU", 0.0), needs.get("GPU", 0.0)
    )
