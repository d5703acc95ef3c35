"""Connects to a Ray cluster, or starts one of this process's own, with the driver's code."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray

from sentune.code import assert_same_code, runtime_env


@contextmanager
def connected() -> Iterator[None]:
    """Join the cluster that ``RAY_ADDRESS`` names (a submitted job has it), else start one here.

    A cluster started here is this process's own, closed to the network, and ends with it. A plain
    ``ray.init()`` would join whatever cluster runs on the machine, someone else's too.

    Raises:
        SentuneError: a worker runs other code than this driver.
    """
    address = os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    ray.init(
        address=address,
        runtime_env=runtime_env(),
        logging_level=logging.ERROR,
        log_to_driver=False,
        **own,
    )
    try:
        if address != "local":
            assert_same_code()
        yield
    finally:
        ray.shutdown()


def run_on_worker(function: Callable[..., Any], *arguments: Any, gpus: float = 0) -> Any:
    """Return the result of ``function(*arguments)`` from a process with the resources of a trial.

    A head node without a GPU can so test and save a model that was trained on one.
    """
    task = ray.remote(num_cpus=1, num_gpus=gpus)(function)
    return ray.get(task.remote(*arguments))
