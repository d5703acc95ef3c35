"""Run work on a cluster: ordered reads with Ray Data, and functions mapped over parts."""

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
"""CPUs that a reading task requests; it mostly waits for the disk. If trials occupy all CPUs, a
task that requests a whole one never starts, and its trial hangs (measured: no start in 45 s)."""

AHEAD = 16
"""Maximum number of parts of a stream in the object store, unprocessed or as results."""

REPORT_SECONDS = 3.0
"""How long Ray may still report a CPU as taken after it has become free."""

READERS = 2
"""Shards that are read at the same time."""


def read_in_order(
    read: Callable[..., Any], tasks: Sequence[dict[str, Any]], at_once: int, kept: int
) -> ray.data.Dataset:
    """Return a dataset of the tables that ``read`` returns for the tasks, in the tasks' order.

    Args:
        read: maps a table with one task to a table, or yields several.
        at_once: number of tasks that run at the same time.
        kept: maximum bytes of results in the object store.
    """
    context = DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    limits = ExecutionResources.for_limits(object_store_memory=kept)
    context.execution_options.resource_limits = limits
    context.raise_original_map_exception = True  # for ``own_errors``
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with DataContext.current(context):
        given = ray.data.from_items(tasks, override_num_blocks=len(tasks))
        pool = TaskPoolStrategy(size=at_once)
        return given.map_batches(
            read, batch_size=1, batch_format="pyarrow", num_cpus=TASK_CPUS, compute=pool
        )


@contextmanager
def own_errors() -> Iterator[None]:
    """Unwrap errors of this package from the ``RayTaskError`` in which Ray raises them."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SentuneError):
            raise error.cause from None
        raise


def on_worker(
    work: Callable[..., Found], *arguments: Any, cpus: float = TASK_CPUS, gpus: float = 0
) -> Found:
    """Return ``work(*arguments)``, run on a node with the CPUs and GPUs; here without a cluster."""
    if not ray.is_initialized():
        return work(*arguments)
    found: Found = _result(ray.remote(num_cpus=cpus, num_gpus=gpus)(work).remote(*arguments))
    return found


def _result(reference: Any) -> Any:
    with own_errors():
        return ray.get(reference)


def over_cluster(work: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[Found]:
    """Do as ``in_turn`` with as many parts at a time as the cluster has free CPUs for."""
    return in_turn(work, parts, len(parts))


def in_turn(
    work: Callable[[Part], Found], parts: Iterable[Part], ahead: int = AHEAD
) -> Iterator[Found]:
    """Do ``map(work, parts)`` for a stream on the free CPUs of the cluster; keep the order.

    Each part is a task of one CPU. Parts and results pass through the object store, so that workers
    do not need this machine's disk. The data that ``work`` holds, such as boxes of reference
    sentences, is sent once. At most ``ahead`` parts are being processed, or finished but not yet
    consumed. A single part is processed in this process, and so are all parts without a cluster or
    a free CPU.
    """
    stream = iter(parts)
    first = list(islice(stream, 2))
    most = min(ahead, 2 * _free_cpus()) if len(first) == 2 and ray.is_initialized() else 0
    if not most:
        yield from map(work, chain(first, stream))
        return
    task, held = ray.remote(num_cpus=1)(_on_part), ray.put(work)
    pending: deque[ray.ObjectRef[Found]] = deque()
    for part in chain(first, stream):
        pending.append(task.remote(held, part))
        if len(pending) == most:
            yield _result(pending.popleft())
    while pending:
        yield _result(pending.popleft())


def _free_cpus() -> int:
    """Return the number of free CPUs of the cluster, after waiting for Ray's delayed reports."""
    deadline = time.monotonic() + REPORT_SECONDS
    while not (free := int(ray.available_resources().get("CPU", 0))):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return free


def _on_part(work: Callable[[Part], Found], part: Part) -> Found:
    return work(part)


def several_machines() -> bool:
    """Return whether the cluster has more than one machine."""
    return bool(ray.is_initialized() and sum(node["Alive"] for node in ray.nodes()) > 1)
