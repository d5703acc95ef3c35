"""Connects to a Ray cluster, or starts one of this process's own, with the driver's code.

The second half connects step by step, so that each way to fail has its own line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import ray
from ray.exceptions import AuthenticationError

from sentune.cluster.findings import Finding
from sentune.code import assert_same_code, runtime_env
from sentune.errors import InvalidValue, SentuneError


@contextmanager
def connected() -> Iterator[None]:
    """Join the cluster that ``RAY_ADDRESS`` names (a submitted job has it), else start one here.

    A cluster started here is this process's own and ends with it. A plain ``ray.init()`` would join
    whatever cluster runs on the machine, someone else's too. Ray 2.60 listens on every network
    interface, whatever address it is given, and a token keeps strangers out: a cluster started here
    has a token of its own, and no metrics port, which would answer without one.

    Raises:
        InvalidValue: nothing answers at ``RAY_ADDRESS``, or it is no ``HOST:PORT``.
        SentuneError: the token's file can be read by others, or a worker runs other code than this
            driver.
    """
    address = os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    if address == "local":
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_enable_metrics_collection", "0")
    else:
        if address != "auto" and (trouble := _silent(address, "RAY_ADDRESS")):
            raise InvalidValue("RAY_ADDRESS", address, f"{trouble}: {START_FIX}")
        token()  # refuses a file that others can read
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


LOOPBACK = ("localhost", "127.0.0.1", "::1")

ANSWER_SECONDS = 8.0
"""Seconds that a cluster's head has to answer."""

TOKEN_FIX = (
    "export RAY_AUTH_MODE=token, and copy the cluster's token to ~/.ray/auth_token (on its head: "
    "ray get-auth-token)"
)
START_FIX = "start it (ray up cluster.yaml), or name its head with --address HOST:6379"


def address_of(given: str | None) -> str:
    """``--address``, else ``RAY_ADDRESS``, else the cluster that runs on this machine.

    Raises:
        InvalidValue: an address of Ray's client, which cannot say on which node something runs.
    """
    address = given or os.environ.get("RAY_ADDRESS") or "auto"
    if address.startswith("ray://"):
        fix = "give HOST:PORT on a node of the cluster, or http://HOST:8265 of its job server"
        raise InvalidValue("--address", address, fix)
    return address


def joined(address: str) -> list[Finding]:
    """Join a cluster with the driver's code; on success all lines are ticks.

    Args:
        address: ``HOST:PORT`` or ``auto``.
    """
    if address != "auto" and (trouble := _silent(address, "--address")):
        return [Finding(subject="reachable", ok=False, said=trouble, fix=START_FIX)]
    try:
        context = ray.init(
            address=address,
            runtime_env=runtime_env(),
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, AuthenticationError) as error:
        return list(_refused(address, " ".join(str(error).split())))
    return [_reached(context.address_info["gcs_address"]), _pages(context.dashboard_url)]


def left() -> None:
    """Leave the cluster, which goes on."""
    ray.shutdown()


def job_server(address: str) -> list[Finding]:
    """Return what can be told of a cluster through its job server, from outside.

    Args:
        address: ``http://HOST:8265``.
    """
    refused = _version(address, {})
    if isinstance(refused, str):
        fix = "open the way: ray dashboard cluster.yaml, or ssh -L 8265:127.0.0.1:8265 HEAD"
        return [Finding(subject="reachable", ok=False, said=refused, fix=fix)]
    told = _version(address, {"Authorization": f"Bearer {token()}"})
    status, body = (0, "") if isinstance(told, str) else told
    door = _door(refused[0], status)
    return [_reached(address), door, *([_same_ray(body)] if door.ok else [])]


def _door(without: int, having: int) -> Finding:
    """Return whether the token is wanted, and taken: the statuses without it and with it."""
    subject = "authentication"
    if without == 200:
        fix = "export RAY_AUTH_MODE=token before ray start, on every node"
        said = "the job server answers without a token"
        return Finding(subject=subject, ok=False, said=said, fix=fix)
    if having != 200:
        said = "the job server does not take this machine's token"
        return Finding(subject=subject, ok=False, said=said, fix=TOKEN_FIX)
    return Finding(subject=subject, ok=True, said="with the token, and not without")


def _same_ray(body: str) -> Finding:
    found = json.loads(body)["ray_version"]
    if found == ray.__version__:
        return Finding(subject="Ray", ok=True, said=found)
    said, fix = f"{found}, here {ray.__version__}", "install requirements.lock on both sides"
    return Finding(subject="Ray", ok=False, said=said, fix=fix)


def token() -> str:
    """Return the token that this machine has, as Ray finds it; empty for none.

    Raises:
        SentuneError: its file can be read by every user of this machine, as ``ray get-auth-token
            --generate`` of Ray 2.60 leaves it.
    """
    if known := os.environ.get("RAY_AUTH_TOKEN"):
        return known
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray/auth_token")
    file = file.expanduser()
    if not file.is_file():
        return ""
    if file.stat().st_mode & stat.S_IROTH:
        raise SentuneError(f"{file}: every user of this machine can read it: chmod 600 {file}")
    return file.read_text(encoding="utf-8").strip()


def _silent(address: str, option: str) -> str:
    """Return why no gRPC server answers, else ""; Ray itself tries for minutes.

    With Ray's TLS, whose certificates are Ray's to check, nothing is asked.

    Raises:
        InvalidValue: the option's address is no ``HOST:PORT``.
    """
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


def _refused(address: str, words: str) -> tuple[Finding, ...]:
    if "ersion mismatch" in words:
        fix = "install requirements.lock here and there"
        return (_reached(address), Finding(subject="Ray", ok=False, said=words, fix=fix))
    if address == "auto" and "token" not in words:
        said = f"no cluster runs on this machine ({words})"
        return (Finding(subject="reachable", ok=False, said=said, fix=START_FIX),)
    said = f"the cluster does not let this machine in ({words})"
    door = Finding(subject="authentication", ok=False, said=said, fix=TOKEN_FIX)
    return (_reached(address), door)


def _reached(address: str) -> Finding:
    return Finding(subject="reachable", ok=True, said=address)


def _pages(url: str | None) -> Finding:
    host = urlsplit(f"//{url}").hostname if url else None
    ok = host is None or host in LOOPBACK
    return Finding(
        subject="dashboard",
        ok=ok,
        said="none" if host is None else f"{url}, on {'loopback' if ok else 'an open address'}",
        fix="" if ok else "start the head with --dashboard-host=127.0.0.1",
    )


def _version(address: str, headers: dict[str, str]) -> tuple[int, str] | str:
    """Return status and body, or why there is no answer."""
    request = urllib.request.Request(f"{address.rstrip('/')}/api/version", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (OSError, ValueError) as error:
        return f"nothing answers at {address} ({error})"
