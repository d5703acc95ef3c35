"""Work on a cluster with Ray Data: its settings, and the parts of a large evaluation."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

import ray
from ray.data import DataContext, ExecutionResources

from sentune.errors import SentuneError

Part = TypeVar("Part")
Found = TypeVar("Found")


TASK_CPUS = 0.25
"""What a reading task asks for. Where trials hold every whole CPU, a task that asked for one
would wait for ever, and its trial with it (measured: no batch in 45 s); it mostly waits for the
disk anyway. One CPU of the cluster stays free for up to four readers."""

AHEAD = 16
"""Parts of a stream that are worked on, or done and waited for, at the same time."""

REPORT_SECONDS = 3.0
"""How long a CPU that has become free may be reported as taken."""

READERS = 2
"""Shards that are read at the same time."""


def quiet_context(kept: int | None = None, *, in_order: bool = True) -> DataContext:
    """Return Ray Data's settings for one stream, without progress bars.

    Args:
        kept: bytes that may lie ready in the object store.
        in_order: whether results come in the order of their tasks.
    """
    context = DataContext.get_current().copy()
    context.execution_options.preserve_order = in_order
    if kept is not None:
        limits = ExecutionResources.for_limits(object_store_memory=kept)
        context.execution_options.resource_limits = limits
    context.raise_original_map_exception = True  # for ``own_errors``
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return context


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise an error of this package from one of the block's tasks as itself, not as Ray's."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SentuneError):
            raise error.cause from None
        raise


def on_worker(work: Callable[..., Found], *arguments: Any) -> Found:
    """Return ``work(*arguments)`` from a node with CPUs; from here without a cluster."""
    if not ray.is_initialized():
        return work(*arguments)
    found: Found = _result(ray.remote(num_cpus=TASK_CPUS)(work).remote(*arguments))
    return found


def _result(reference: Any) -> Any:
    with own_errors():
        return ray.get(reference)


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

    with DataContext.current(quiet_context()):
        places = [{"at": place} for place in range(len(parts))]
        rows = ray.data.from_items(places, override_num_blocks=max(1, len(parts)))
        found = rows.map(one, num_cpus=1)
    for row in found.iter_rows():
        yield pickle.loads(row["found"])


def in_turn(work: Callable[[Part], Found], parts: Iterable[Part]) -> Iterator[Found]:
    """``map(work, parts)`` on the free CPUs of the cluster, results in order, of a long stream.

    Parts and results travel through the object store, so that no worker needs this machine's disk;
    at most ``AHEAD`` are there at a time. A single part, or all where this process has joined no
    cluster or no CPU is free, are worked on in this process.

    Args:
        work: picklable.
        parts: picklable; each is one task of one CPU.
    """
    stream = iter(parts)
    first = list(islice(stream, 2))
    most = min(AHEAD, 2 * _free_cpus()) if len(first) == 2 and ray.is_initialized() else 0
    if not most:
        yield from map(work, chain(first, stream))
        return
    task, held = ray.remote(num_cpus=1)(_apply), ray.put(work)
    pending: deque[ray.ObjectRef[Found]] = deque()
    for part in chain(first, stream):
        pending.append(task.remote(held, part))
        if len(pending) == most:
            yield _result(pending.popleft())
    while pending:
        yield _result(pending.popleft())


def _free_cpus() -> int:
    """Return the free CPUs of the cluster; Ray reports those of tasks that just ended late."""
    deadline = time.monotonic() + REPORT_SECONDS
    while not (free := int(ray.available_resources().get("CPU", 0))):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return free


def _apply(work: Callable[[Part], Found], part: Part) -> Found:
    return work(part)


def several_machines() -> bool:
    """Return whether there is more than this machine to share work with."""
    return bool(ray.is_initialized() and sum(node["Alive"] for node in ray.nodes()) > 1)
