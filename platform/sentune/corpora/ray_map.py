"""Work on a cluster with Ray Data: its settings, and the parts of a large evaluation."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

import ray
from ray.data import DataContext, ExecutionResources, TaskPoolStrategy

from sentune.errors import SentuneError

Part = TypeVar("Part")
Found = TypeVar("Found")


TASK_CPUS = 0.25
"""What a reading task asks for, as it mostly waits for the disk. Where trials hold every whole CPU,
a task that asked for one would wait for ever, and its trial with it (measured: none in 45 s)."""

AHEAD = 16
"""Parts of a stream that are at most in the object store, as texts or as results."""

REPORT_SECONDS = 3.0
"""How long a CPU that has become free may be reported as taken."""

READERS = 2
"""Shards that are read at the same time."""


def read_in_order(
    read: Callable[..., Any], tasks: Sequence[dict[str, Any]], at_once: int, kept: int
) -> ray.data.Dataset:
    """Return the tables that Ray Data reads, ``at_once`` tasks at a time, in the tasks' order.

    Args:
        read: a table of one task -> a table, or several.
        kept: bytes that may lie ready in the object store.
    """
    context = DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    limits = ExecutionResources.for_limits(object_store_memory=kept)
    context.execution_options.resource_limits = limits
    context.raise_original_map_exception = True  # for ``own_errors``
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with DataContext.current(context):
        return ray.data.from_items(tasks, override_num_blocks=len(tasks)).map_batches(
            read,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=TASK_CPUS,
            compute=TaskPoolStrategy(size=at_once),
        )


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise an error of this package from one of the block's tasks as itself, not as Ray's."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SentuneError):
            raise error.cause from None
        raise


def on_worker(
    work: Callable[..., Found], *arguments: Any, cpus: float = TASK_CPUS, gpus: float = 0
) -> Found:
    """Return ``work(*arguments)`` from a node with CPUs, and the GPU that the driver's machine may
    lack; from here without a cluster."""
    if not ray.is_initialized():
        return work(*arguments)
    task = ray.remote(num_cpus=cpus, num_gpus=gpus)(work)
    found: Found = _result(task.remote(*arguments))
    return found


def _result(reference: Any) -> Any:
    with own_errors():
        return ray.get(reference)


def over_cluster(work: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[Found]:
    """``in_turn`` for parts that are all there, as many at a time as the cluster has CPUs for."""
    return in_turn(work, parts, len(parts))


def in_turn(
    work: Callable[[Part], Found], parts: Iterable[Part], ahead: int = AHEAD
) -> Iterator[Found]:
    """``map(work, parts)`` on the free CPUs of the cluster, results in order, of a long stream.

    Parts and results travel through the object store, so that no worker needs this machine's disk;
    what ``work`` carries (boxes of reference sentences, say) goes there once. A single part, or all
    where this process has joined no cluster or no CPU is free, are worked on in this process. Each
    part is one task of one CPU; ``ahead`` of them are worked on, or done and waited for, at once.
    """
    stream = iter(parts)
    first = list(islice(stream, 2))
    most = min(ahead, 2 * _free_cpus()) if len(first) == 2 and ray.is_initialized() else 0
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
