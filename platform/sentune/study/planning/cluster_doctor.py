"""Check of a Ray cluster: joins it step by step, and inspects code, GPUs and access of each node.

The tasks request no CPU and no GPU, so they neither wait for trials nor make the cluster grow.
"""

from __future__ import annotations

import configparser
import json
import os
import platform
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import ray
import torch
from ray.exceptions import AuthenticationError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentune.cluster.findings import Finding, NodeAnswer, findings_of
from sentune.code import Code, CodeMismatch, compare, loaded_code
from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, PlanError, last_line
from sentune.formatting import counted
from sentune.io.atomic import read_document, written_for_now
from sentune.io.object_store import StorageError, absolute
from sentune.study.planning import checks
from sentune.study.planning.connect import ANSWER_SECONDS, join, silent_head, token

RAY_FIX = "install requirements.lock on both sides"
START_FIX = "start it (ray up cluster.yaml), or name its head with --address HOST:6379"

PATIENCE = 120.0
"""Seconds for the answers of all nodes; the first start of a worker downloads the code."""

CLOCK_PATIENCE = 5.0
"""Seconds for a node that has answered to tell its time."""

MLFLOW_PATIENCE = 20.0
"""Seconds for MLflow; a small server took over four to check a password for the first time."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOPBACK = ("localhost", "127.0.0.1", "::1")

TOKEN_FIX = (
    "export RAY_AUTH_MODE=token, and copy the cluster's token to ~/.ray/auth_token (on its head: "
    "ray get-auth-token)"
)


def address_of(given: str | None) -> str:
    """Return ``--address``, else ``RAY_ADDRESS``, else ``auto`` for the cluster of this machine.

    Raises:
        InvalidValue: an address of Ray's client, with which tasks cannot be placed on nodes.
    """
    address = given or "auto"
    if address == "auto":  # as Ray does
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address.startswith("ray://"):
        fix = "give HOST:PORT on a node of the cluster, or http://HOST:8265 of its job server"
        raise InvalidValue("--address", address, fix)
    return address


def joined(address: str) -> list[Finding]:
    """Join a cluster, ``HOST:PORT`` or ``auto``, with the driver's code; return the findings.

    Raises:
        SentuneError: other users can read the token's file.
    """
    token()
    if silence := silent_head(address, "--address"):
        return [Finding("reachable", silence, START_FIX)]
    try:
        context = join(address)
    except (ConnectionError, RuntimeError, AuthenticationError) as error:
        words = " ".join(str(error).split())
        if "ersion mismatch" in words:
            refusal = Finding("Ray", words, RAY_FIX)
        elif address == "auto" and "token" not in words:
            return [Finding("reachable", f"no cluster runs on this machine ({words})", START_FIX)]
        else:
            why = f"the cluster does not let this machine in ({words})"
            refusal = Finding("authentication", why, TOKEN_FIX)
        return [Finding("reachable", address), refusal]
    reached, url = Finding("reachable", context.address_info["gcs_address"]), context.dashboard_url
    if not url or urlsplit(f"//{url}").hostname in LOOPBACK:
        return [reached, Finding("dashboard", f"{url}, on loopback" if url else "none")]
    fix = "start the head with --dashboard-host=127.0.0.1"
    return [reached, Finding("dashboard", f"{url}, on an open address", fix)]


def from_within(address: str, places: Mapping[str, str | None]) -> tuple[list[Finding], str]:
    """Join a cluster; return the findings of its nodes, and a note for the user."""
    findings = joined(address)
    if not all(finding.ok for finding in findings if finding.subject != "dashboard"):
        return findings, "The nodes were not checked."
    try:
        nodes = ask_nodes(places)
    finally:
        ray.shutdown()
    findings += findings_of(nodes, ray=ray.__version__, python=platform.python_version())
    late = "Nodes that come later are not: check again while a study runs."
    return findings, f"{counted(len(nodes), 'node')} checked. {late}"


def job_server(address: str) -> list[Finding]:
    """Return the findings on a job server, ``http://HOST:8265``, without joining its cluster."""
    url = f"{address.rstrip('/')}/api/version"
    reached = Finding("reachable", address)
    try:
        status, answer = checks.http_answer(url, patience=ANSWER_SECONDS)
        if status == 200 and _ray_version(answer):
            fix = "export RAY_AUTH_MODE=token before ray start, on every node"
            trouble = "the job server answers without a token"
            return [reached, Finding("authentication", trouble, fix)]
        if status != 200:
            having = {"Authorization": f"Bearer {token()}"}
            status, answer = checks.http_answer(url, having, patience=ANSWER_SECONDS)
    except OSError as error:
        fix = "forward its port: ray dashboard cluster.yaml, or ssh -L 8265:127.0.0.1:8265 HEAD"
        return [Finding("reachable", f"nothing answers at {address} ({error})", fix)]
    if status not in (401, 403) and not (version := _ray_version(answer)):
        fix = "name a head's dashboard: http://HOST:8265"
        return [Finding("reachable", f"{address} is not a job server (status {status})", fix)]
    if status != 200:
        trouble = "the job server does not accept this machine's token"
        return [reached, Finding("authentication", trouble, TOKEN_FIX)]
    ray_version = Finding("Ray", ray.__version__)
    if version != ray.__version__:
        ray_version = Finding("Ray", f"{version}, here {ray.__version__}", RAY_FIX)
    return [reached, Finding("authentication", "with the token, and not without"), ray_version]


def _ray_version(answer: str) -> str:
    """Return the version in a job server's answer; empty if another server gave it."""
    try:
        return str(json.loads(answer)["ray_version"])
    except (ValueError, TypeError, KeyError):
        return ""


def ask_nodes(places: Mapping[str, str | None]) -> list[NodeAnswer]:
    """Return the answer of every node that is up, the head first, or that it did not answer.

    Args:
        places: ``storage``, ``Optuna`` and ``tracking`` -> address; None if it is not checked.
    """
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: not _is_head(n))
    tried, unwritable = {name: place for name, place in places.items() if place}, {}
    with ExitStack() as later:
        if storage := tried.pop("storage", None):
            try:
                tried["storage"] = later.enter_context(marked(storage))
            except (PlanError, StorageError) as error:  # the nodes cannot check it then
                unwritable = {"storage": f"the driver cannot write it: {error}"}
        inspect = ray.remote(num_cpus=0, max_retries=0)(inspected)
        asked = {}
        for node in nodes:
            known = NodeAnswer(
                node=str(node["NodeManagerAddress"]),
                cpus=node["Resources"].get("CPU", 0.0),
                gpus=node["Resources"].get("GPU", 0.0),
                reach=unwritable,
            )
            reached = {
                name: place
                for name, place in tried.items()
                if name == "storage" or _is_head(node)  # only drivers, on the head, use the others
            }
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = inspect.options(scheduling_strategy=there)
            asked[task.remote(known, loaded_code(), reached)] = known.node, there
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=PATIENCE)
        return [
            _answer(answer, name, there)
            if answer in set(ready)
            else NodeAnswer(node=name, trouble=f"no answer within {PATIENCE:g} s")
            for answer, (name, there) in asked.items()
        ]


def _is_head(node: Mapping[str, Any]) -> bool:
    return "node:__internal_head__" in node["Resources"]


def _answer(found: Any, node: str, there: NodeAffinitySchedulingStrategy) -> NodeAnswer:
    """Return the answer of a node, with lower and upper bound of its clock's deviation."""
    task = ray.remote(num_cpus=0, max_retries=0)(clock).options(scheduling_strategy=there)
    try:
        answer: NodeAnswer = ray.get(found, timeout=CLOCK_PATIENCE)
        before = time.time()
        told = ray.get(task.remote(), timeout=CLOCK_PATIENCE)
    except GetTimeoutError:
        return NodeAnswer(node=node, trouble=f"no second answer within {CLOCK_PATIENCE:g} s")
    except RayError as error:
        return NodeAnswer(node=node, trouble=last_line(error) or repr(error))
    return replace(answer, clock=(told - time.time(), told - before))


def clock() -> float:
    """Return the Unix time of this machine's clock."""
    return time.time()


def inspected(known: NodeAnswer, driver: Code, places: Mapping[str, str]) -> NodeAnswer:
    """Inspect the node that this process runs on; return its answer without the clock.

    Args:
        known: fields of the answer that the driver knows.
        places: ``storage`` (the file that the driver wrote there), ``Optuna`` and ``tracking`` ->
            address, as far as this node checks it.
    """
    reach = {name: TROUBLE[name](place) for name, place in places.items()}
    # Ray hides all GPUs from this worker, which requested none, by changing os.environ; torch must
    # see those of the environment in which Ray's own processes were started
    environment = psutil.Process().environ()
    os.environ.pop(VISIBLE, None)
    if VISIBLE in environment:
        os.environ[VISIBLE] = environment[VISIBLE]
    difference = ""
    try:
        compare(driver, loaded_code(), where=known.node)
    except CodeMismatch as mismatch:
        difference = str(mismatch)
    return replace(
        known,
        ray=ray.__version__,
        python=platform.python_version(),
        code=difference,
        auth=environment.get("RAY_AUTH_MODE", "").lower(),
        stop_seconds=float(environment.get("RAY_JOB_STOP_WAIT_TIME_S") or 3),
        gpus_seen=torch.cuda.device_count(),
        reach={**known.reach, **reach},
    )


@contextmanager
def marked(storage: str) -> Iterator[str]:
    """Write a file into a storage, yield its address, and remove it afterwards.

    Raises:
        PlanError, StorageError: the storage cannot be written.
    """
    checks.check_writable(storage)
    folder = absolute(storage).rstrip("/")
    with written_for_now(folder, f".sentune-check-{uuid.uuid4().hex}") as mark:
        yield mark


def storage_trouble(mark: str) -> str:
    """Return why this node cannot see the driver's file or write beside it; empty if it can."""
    folder, _, name = mark.rpartition("/")
    try:
        checks.check_writable(folder)
        seen = read_document(folder, name) is not None
    except (PlanError, StorageError) as error:
        return str(error)
    return "" if seen else "it is another folder here: the driver's file is not there"


def database_trouble(url: str) -> str:
    """Return why Optuna's database does not answer or accept a new table; empty if it does."""
    statement = "SELECT 1"
    if url.startswith("postgresql"):  # rolls back the creation of a table
        statement = f"CREATE TABLE sentune_check_{uuid.uuid4().hex} (x INTEGER)"
    try:
        checks.check_database(url, statement=statement)
    except PlanError as error:
        return str(error)
    return ""


def tracking_trouble(uri: str) -> str:
    """Return why an MLflow server or database is of no use: it does not answer, lets everyone in,
    or refuses this user's password. Empty if it works."""
    if not uri.startswith(("http://", "https://")):
        try:
            return checks.tracking_silence(uri)
        except PlanError as error:
            return str(error)
    path = "/api/2.0/mlflow/experiments/search?max_results=1"
    search, address = f"{uri.rstrip('/')}{path}", urlsplit(uri)
    host = address.netloc.rpartition("@")[2]
    anonymous = f"{address._replace(netloc=host).geturl().rstrip('/')}{path}"
    try:
        status, _ = checks.http_answer(anonymous, patience=MLFLOW_PATIENCE)
        if status < 400:
            open_to_all = "it needs no password, so anyone who reaches it gets in"
            return "" if address.hostname in LOOPBACK else open_to_all
        if status not in (401, 403):
            return f"it answers with status {status}"
        known = credentials() if address.username is None else b""  # those of the URI are sent
        if known is None:
            return "it asks for a user and password, and ~/.mlflow/credentials has none"
        having = {"Authorization": checks.basic_authentication(known)} if known else {}
        status, _ = checks.http_answer(search, having, patience=MLFLOW_PATIENCE)
    except OSError as error:
        return str(without_credentials(f"it does not answer ({error})"))
    return "" if status == 200 else f"it does not accept this user and password ({status})"


def credentials() -> bytes | None:
    """Return ``user:password`` from MLflow's environment variables or its credentials file."""
    file = configparser.ConfigParser(interpolation=None)
    file.read(Path.home() / ".mlflow/credentials", encoding="utf-8")
    found = [
        os.environ.get(name.upper()) or file.get("mlflow", name, fallback="") or ""
        for name in ("mlflow_tracking_username", "mlflow_tracking_password")
    ]
    return ":".join(found).encode() if all(found) else None


TROUBLE = {"storage": storage_trouble, "Optuna": database_trouble, "tracking": tracking_trouble}
"""Name of a place -> function that checks it on a node and returns the problem, or ``""``."""
