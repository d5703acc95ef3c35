"""Connection to a Ray cluster, or to one that this process starts, with the driver's code."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import ray
from ray.exceptions import AuthenticationError

from sentune.code import assert_same_code, runtime_env
from sentune.errors import InvalidValue, SentuneError
from sentune.launchers.ray_internals import last_started

ANSWER_SECONDS = 8.0
"""Seconds that a cluster's head has to answer."""

OWN_CLUSTER = {
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
    "DASHBOARD_METRIC_PORT": "-1",
    "AUTOSCALER_METRIC_PORT": "-1",
}
"""Environment of a cluster started here. No worker per CPU starts in advance, because these would
lack the job's runtime environment. No metrics ports are open (exporter, dashboard, autoscaler),
which answer without a token; in Ray 2.60 nothing else closes the latter two."""


STARTED_HERE = threading.Event()
"""Set while this process is connected to a cluster that it has started, which does not grow."""


@contextmanager
def connected() -> Iterator[None]:
    """Join the cluster at ``RAY_ADDRESS`` (set in submitted jobs), or start one on this machine.

    A cluster started here ends with this process; a plain ``ray.init()`` would join any cluster on
    this machine, even another user's. Ray 2.60 listens on every network interface, so a cluster
    started here has a token of its own and no metrics ports, which answer without one. A process
    that has joined a cluster stays in it.

    Raises:
        InvalidValue: nothing answers at ``RAY_ADDRESS``, it refuses this process, or it is not
            ``HOST:PORT``.
        SentuneError: other users can read the token's file, or a worker runs other code than this
            driver.
    """
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        for name, value in {"RAY_AUTH_TOKEN": secrets.token_hex(32), **OWN_CLUSTER}.items():
            os.environ.setdefault(name, value)
        join(address, include_dashboard=False)
        STARTED_HERE.set()
    else:
        if address.startswith(("http://", "https://")):
            fix = "`ray job submit` takes a job server; unset it to run here"
            raise InvalidValue("RAY_ADDRESS", address, f"give HOST:PORT; {fix}")
        if trouble := silent_head(address, "RAY_ADDRESS"):
            fix = "start it (ray up cluster.yaml), name its HOST:PORT, or unset it to run here"
            raise InvalidValue("RAY_ADDRESS", address, f"{trouble}: {fix}")
        token()  # refuses a file that others can read
        try:
            join(address)
        except (ConnectionError, RuntimeError, AuthenticationError) as error:
            why = " ".join(str(error).split())
            fix = f"`sentune cluster check --address {address}` says what to do"
            raise InvalidValue("RAY_ADDRESS", address, f"{why}; {fix}") from error
    try:
        if address != "local":
            assert_same_code()
        yield
    finally:
        STARTED_HERE.clear()
        ray.shutdown()


def join(address: str, **others: Any) -> Any:
    """Start or join a cluster with the driver's code, and return Ray's context."""
    # without it Ray refuses a submitted job whose own runtime environment also has ``excludes``
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    return ray.init(
        address=address,
        runtime_env=runtime_env(),
        logging_level=logging.ERROR,
        log_to_driver=False,
        **others,
    )


def token() -> str:
    """Return the token of this machine, found as Ray does; empty if there is none.

    Raises:
        SentuneError: every user of this machine can read its file, as ``ray get-auth-token
            --generate`` of Ray 2.60 leaves it.
    """
    if known := os.environ.get("RAY_AUTH_TOKEN"):
        return known
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray/auth_token")
    file = file.expanduser()
    if not file.is_file():
        return ""
    if file.stat().st_mode & stat.S_IROTH:
        raise SentuneError(f"{file}: every user of this machine can read it; chmod 600 {file}")
    return file.read_text(encoding="utf-8").strip()


def silent_head(address: str, option: str) -> str:
    """Return why no gRPC server answers at an address, or ``""``; Ray itself would try for minutes.

    ``auto`` is the cluster last started on this machine, which may be gone. With Ray's TLS there is
    no check, because Ray has the certificates.

    Raises:
        InvalidValue: the address is not ``HOST:PORT``; names the option.
    """
    if address == "auto" and not (address := last_started() or ""):
        return ""  # Ray reports at once that there is none
    if not re.fullmatch(r"[^/]+:\d+", address):
        raise InvalidValue(option, address, "give HOST:PORT, such as 10.0.0.10:6379")
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return ""
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
        except grpc.FutureTimeoutError:
            return f"nothing answers at {address} within {ANSWER_SECONDS:.0f} s"
    return ""
