"""Joins a Ray cluster step by step, and asks its nodes what they run, what they see and reach.

One actor a node, without a CPU or a GPU: it neither waits for trials nor makes the cluster grow.
"""

from __future__ import annotations

import base64
import configparser
import json
import os
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray
import sqlalchemy
import torch
from ray.exceptions import AuthenticationError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sentune.cluster.findings import Finding, NodeAnswer
from sentune.code import CodeMismatch, compare, loaded_code
from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, PlanError, first_line, last_line
from sentune.io.object_store import StorageError, files_at
from sentune.study.planning import checks
from sentune.study.planning.checks import check_database, check_writable, http_answer, within
from sentune.study.planning.connect import ANSWER_SECONDS, START_FIX, join, silent_head, token

PATIENCE = 120.0
"""Seconds for the answers of all nodes; a worker's first start ships the packages."""

CLOCK_PATIENCE = 5.0
"""Seconds for each question to a node that has answered."""

MLFLOW_PATIENCE = 20.0
"""Seconds for MLflow: checking a password for the first time took a small server over four."""

PINGS = 3
"""The fastest of them bounds a clock best."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOPBACK = ("localhost", "127.0.0.1", "::1")

TOKEN_FIX = (
    "export RAY_AUTH_MODE=token, and copy the cluster's token to ~/.ray/auth_token (on its head: "
    "ray get-auth-token)"
)


def address_of(given: str | None) -> str:
    """``--address``, else ``RAY_ADDRESS``, else the cluster that runs on this machine.

    Raises:
        InvalidValue: an address of Ray's client, which cannot say on which node something runs.
    """
    address = given or "auto"
    if address == "auto":  # Ray does likewise
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address.startswith("ray://"):
        fix = "give HOST:PORT on a node of the cluster, or http://HOST:8265 of its job server"
        raise InvalidValue("--address", address, fix)
    return address


def joined(address: str) -> list[Finding]:
    """Join a cluster, ``HOST:PORT`` or ``auto``, with the driver's code; return what was found.

    Raises:
        SentuneError: the token's file can be read by others.
    """
    token()
    if silence := silent_head(address, "--address"):
        return [Finding("reachable", silence, START_FIX)]
    try:
        context = join(address)
    except (ConnectionError, RuntimeError, AuthenticationError) as error:
        words = " ".join(str(error).split())
        if "ersion mismatch" in words:
            refusal = Finding("Ray", words, "install requirements.lock here and there")
        elif address == "auto" and "token" not in words:
            return [Finding("reachable", f"no cluster runs on this machine ({words})", START_FIX)]
        else:
            why = f"the cluster does not let this machine in ({words})"
            refusal = Finding("authentication", why, TOKEN_FIX)
        return [Finding("reachable", address), refusal]
    reached, url = Finding("reachable", context.address_info["gcs_address"]), context.dashboard_url
    if not url:
        return [reached, Finding("dashboard", "none")]
    if urlsplit(f"//{url}").hostname in LOOPBACK:
        return [reached, Finding("dashboard", f"{url}, on loopback")]
    fix = "start the head with --dashboard-host=127.0.0.1"
    return [reached, Finding("dashboard", f"{url}, on an open address", fix)]


def left() -> None:
    """Leave the cluster, which goes on."""
    ray.shutdown()


def job_server(address: str) -> list[Finding]:
    """Return what a job server, ``http://HOST:8265``, shows of its cluster from outside."""
    version = f"{address.rstrip('/')}/api/version"
    without = http_answer(version, patience=ANSWER_SECONDS)
    if isinstance(without, Exception):
        fix = "open the way: ray dashboard cluster.yaml, or ssh -L 8265:127.0.0.1:8265 HEAD"
        return [Finding("reachable", f"nothing answers at {address} ({without})", fix)]
    reached = Finding("reachable", address)
    if without[0] == 200:
        fix = "export RAY_AUTH_MODE=token before ray start, on every node"
        trouble = "the job server answers without a token"
        return [reached, Finding("authentication", trouble, fix)]
    having = {"Authorization": f"Bearer {token()}"}
    answer = http_answer(version, having, patience=ANSWER_SECONDS)
    if isinstance(answer, Exception) or answer[0] != 200:
        trouble = "the job server does not take this machine's token"
        return [reached, Finding("authentication", trouble, TOKEN_FIX)]
    door = Finding("authentication", "with the token, and not without")
    found = str(json.loads(answer[1])["ray_version"])
    if found == ray.__version__:
        return [reached, door, Finding("Ray", found)]
    fix = "install requirements.lock on both sides"
    return [reached, door, Finding("Ray", f"{found}, here {ray.__version__}", fix)]


@dataclass(frozen=True, kw_only=True)
class StudyAddresses:
    """Where a study keeps its files, trials and runs; None: not asked about."""

    storage: str | None = None
    optuna: str | None = None
    tracking: str | None = None


class NodeInspector:
    """An actor on a node, which reports what it finds there."""

    def inspect(self, addresses: StudyAddresses, mark: str | None, local: bool) -> dict[str, Any]:
        """Return the fields of a ``NodeAnswer`` that are seen from within the node.

        Args:
            addresses: a study's.
            mark: file that the driver left in the storage.
            local: whether addresses on loopback are asked about, too.
        """
        reach: dict[str, str] = {}
        if mark is not None:
            reach["storage"] = storage_trouble(mark)
        optuna, tracking = addresses.optuna, addresses.tracking
        if optuna is not None and (local or not on_loopback(optuna)):
            reach["Optuna"] = database_trouble(optuna)
        if tracking is not None and (local or not on_loopback(tracking)):
            reach["tracking"] = tracking_trouble(tracking)
        environment = dict(inherited())
        os.environ.pop(VISIBLE, None)  # torch sees the GPUs of the environment Ray was started in
        if VISIBLE in environment:
            os.environ[VISIBLE] = environment[VISIBLE]
        return {
            **versions(),
            "code": loaded_code(),
            "auth": environment.get("RAY_AUTH_MODE", "").lower(),
            "stop_seconds": float(environment.get("RAY_JOB_STOP_WAIT_TIME_S") or 3),
            "gpus_seen": torch.cuda.device_count(),
            "reach": reach,
        }

    def clock(self) -> float:
        """Return seconds since 1970 by this node's clock."""
        return time.time()


def ask_nodes(addresses: StudyAddresses) -> list[NodeAnswer]:
    """Return an answer of every node that is up, the head first; silence is an answer, too."""
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: not _is_head(n))
    with ExitStack() as later:
        mark, unwritable = None, {}
        if addresses.storage is not None:
            try:
                mark = later.enter_context(marked(addresses.storage))
            except (PlanError, StorageError) as error:  # then no node can look for it
                unwritable = {"storage": f"the driver cannot write it: {error}"}
        actor = ray.remote(num_cpus=0, max_restarts=0)(NodeInspector)
        places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        inspectors = [actor.options(scheduling_strategy=place).remote() for place in places]
        found = [
            inspector.inspect.remote(addresses, mark, _is_head(node))
            for inspector, node in zip(inspectors, nodes, strict=True)
        ]
        ready, _ = ray.wait(found, num_returns=len(found), timeout=PATIENCE)
        answers = [
            _answer(node, inspector, one if one in set(ready) else None)
            for node, inspector, one in zip(nodes, inspectors, found, strict=True)
        ]
        for inspector in inspectors:
            ray.kill(inspector)
    return [
        answer if answer.trouble else replace(answer, reach={**unwritable, **answer.reach})
        for answer in answers
    ]


def _is_head(node: Mapping[str, Any]) -> bool:
    return "node:__internal_head__" in node["Resources"]


def _answer(node: Mapping[str, Any], inspector: Any, found: Any) -> NodeAnswer:
    name, readings = str(node["NodeManagerAddress"]), []
    if found is None:
        return NodeAnswer(node=name, trouble=f"no answer within {PATIENCE:g} s")
    try:
        seen = ray.get(found, timeout=CLOCK_PATIENCE)
        for _ in range(PINGS):
            before = time.time()
            answer = ray.get(inspector.clock.remote(), timeout=CLOCK_PATIENCE)
            readings.append((before, answer, time.time()))
    except GetTimeoutError:
        return NodeAnswer(node=name, trouble=f"no second answer within {CLOCK_PATIENCE:g} s")
    except RayError as error:
        return NodeAnswer(node=name, trouble=last_line(error) or repr(error))
    difference = ""
    try:
        compare(loaded_code(), seen["code"], where=name)
    except CodeMismatch as mismatch:
        difference = str(mismatch)
    return NodeAnswer(
        node=name,
        cpus=node["Resources"].get("CPU", 0.0),
        gpus=node["Resources"].get("GPU", 0.0),
        clock=clock_bounds(readings),
        **{**seen, "code": difference},
    )


def versions() -> dict[str, str]:
    """Of Ray and Python in this process."""
    return {"ray": ray.__version__, "python": platform.python_version()}


def inherited() -> Mapping[str, str]:
    """Return the environment that this process was started with: that of Ray's own processes.

    Ray hides the GPUs from a worker that asked for none by changing ``os.environ`` later.
    """
    file = Path("/proc/self/environ")
    if not file.exists():
        return os.environ
    pairs = (entry.partition("=") for entry in file.read_text(errors="replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def clock_bounds(readings: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return how far a clock may be ahead, the least and the most seconds, by readings of the time
    before asking, the answer, and the time after it."""
    return (
        max(answer - after for _, answer, after in readings),
        min(answer - before for before, answer, _ in readings),
    )


@contextmanager
def marked(storage: str) -> Iterator[str]:
    """Leave a file in a storage while the block runs; give its address.

    Raises:
        PlanError, StorageError: it cannot be written.
    """
    check_writable(storage)
    base = storage if "://" in storage else str(Path(storage).resolve())
    address = f"{base.rstrip('/')}/.sentune-check-{uuid.uuid4().hex}"
    filesystem, path = files_at(address)

    def bounded(action: Callable[[], object]) -> None:
        try:
            within(checks.PATIENCE, action)
        except TimeoutError as error:
            raise PlanError("--storage", without_credentials(storage), str(error)) from error

    bounded(lambda: filesystem.pipe_file(path, b"seen"))
    try:
        yield address
    finally:
        bounded(lambda: filesystem.rm(path))


def storage_trouble(address: str) -> str:
    """Return whether the driver's file is seen here, and another one can be written beside it."""
    try:
        check_writable(address.rpartition("/")[0])
        filesystem, path = files_at(address)
        there = within(checks.PATIENCE, lambda: filesystem.exists(path))
    except (PlanError, StorageError, TimeoutError) as error:
        return str(error)
    return "" if there else "it is another folder here: what the driver wrote is not there"


def database_trouble(url: str) -> str:
    """Return whether Optuna's database answers and a table can be made in it."""
    try:
        check_database(url)
        if make_url(url).get_backend_name() == "postgresql":  # makes tables within a transaction
            within(checks.PATIENCE, lambda: _make_table(url))
    except (PlanError, SQLAlchemyError, TimeoutError) as error:
        return first_line(error)
    return ""


def _make_table(url: str) -> None:
    """Make a table, and roll it back."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        table = f"sentune_check_{uuid.uuid4().hex}"
        connection.execute(sqlalchemy.text(f"CREATE TABLE {table} (x INTEGER)"))
        connection.rollback()


def tracking_trouble(uri: str) -> str:
    """Return whether an MLflow server answers, wants a password, and takes the one that is here."""
    if not uri.startswith(("http://", "https://")):
        return ""
    search = f"{uri.rstrip('/')}/api/2.0/mlflow/experiments/search?max_results=1"

    def status(**headers: str) -> int | str:
        answer = http_answer(search, headers, patience=MLFLOW_PATIENCE)
        if isinstance(answer, Exception):
            return str(without_credentials(f"it does not answer ({answer})"))
        return answer[0]

    open_door = status()
    if isinstance(open_door, str):
        return open_door
    if open_door not in (401, 403):
        if open_door >= 400:
            return f"it answers {open_door}"
        return "" if on_loopback(uri) else "it lets everyone in who reaches it"
    known = credentials()
    if known is None:
        return "it wants a user and a password, and there are none in ~/.mlflow/credentials"
    having = status(Authorization=f"Basic {base64.b64encode(known).decode()}")
    return "" if having == 200 else f"it does not take this user and password ({having})"


def on_loopback(address: str) -> bool:
    """Return whether an address means another place on every machine."""
    try:
        url = make_url(address)
    except ArgumentError:
        return False
    if url.get_backend_name() == "sqlite":
        return True
    return (url.host or urlsplit(address).hostname or "localhost") in LOOPBACK


def credentials() -> bytes | None:
    """``user:password`` as MLflow's client finds them: the environment, then its file."""
    names = ("mlflow_tracking_username", "mlflow_tracking_password")
    found = [os.environ.get(name.upper(), "") for name in names]
    if not all(found):
        file = configparser.ConfigParser(interpolation=None)
        file.read(Path.home() / ".mlflow/credentials", encoding="utf-8")
        found = [file.get("mlflow", name, fallback="") for name in names]
    return ":".join(found).encode() if all(found) else None
