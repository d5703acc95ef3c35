"""Sharing the parts of a large evaluation over a cluster with Ray Data."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray
from ray.data import DataContext

Part = TypeVar("Part")
Found = TypeVar("Found")


def over_cluster(work: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[Found]:
    """``map(work, parts)`` on all free CPUs of the cluster, results in order.

    What ``work`` carries (boxes of reference sentences, say) goes to the object store once.

    Args:
        work: picklable.
        parts: picklable; each is one task of one CPU.
    """
    held = [ray.put((work, list(parts)))]

    def one(row: dict[str, Any]) -> dict[str, Any]:
        function, every = ray.get(held[0])
        return {"found": pickle.dumps(function(every[row["at"]]))}

    context = DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with DataContext.current(context):
        places = [{"at": place} for place in range(len(parts))]
        rows = ray.data.from_items(places, override_num_blocks=max(1, len(parts)))
        found = rows.map(one, num_cpus=1)
    for row in found.iter_rows():
        yield pickle.loads(row["found"])


def several_machines() -> bool:
    """Return whether there is more than this machine to share work with."""
    return ray.is_initialized() and sum(node["Alive"] for node in ray.nodes()) > 1
