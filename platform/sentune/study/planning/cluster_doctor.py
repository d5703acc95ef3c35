"""Asks every node of the connected Ray cluster what it runs, what it sees and what it reaches.

One actor a node, without a CPU or a GPU: it neither waits for trials nor makes the cluster grow.
"""

from __future__ import annotations

import base64
import configparser
import os
import platform
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec
import ray
import sqlalchemy
import torch
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sentune.cluster.findings import NodeAnswer
from sentune.code import Code, CodeMismatch, compare, loaded_code
from sentune.credentials import without_credentials
from sentune.errors import PlanError
from sentune.io.atomic import StorageError
from sentune.study.config import StudyConfig
from sentune.study.planning.checks import check_database, check_writable
from sentune.study.planning.connect import LOOPBACK

PATIENCE = 120.0
"""Seconds for the answers; a worker's first start ships the packages."""

PINGS = 3
"""The fastest of them bounds a clock best."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a study keeps what it finds; None: not asked about."""

    storage: str | None = None
    optuna: str | None = None
    tracking: str | None = None


class Scout:
    """What runs on a node."""

    def look(self, places: Places, mark: str | None, local: bool) -> dict[str, Any]:
        """Return what is found here.

        Args:
            places: a study's.
            mark: file that the driver left in the storage.
            local: whether places on loopback are asked about, too.
        """
        return {
            **versions(),
            "code": loaded_code(),
            "auth": inherited().get("RAY_AUTH_MODE", "").lower(),
            "gpus_seen": visible_gpus(),
            "reach": dict(_reached(places, mark, local)),
        }

    def clock(self) -> float:
        """Return seconds since 1970 by this node's clock."""
        return time.time()


def ask_nodes(places: Places, *, patience: float = PATIENCE) -> list[NodeAnswer]:
    """An answer of every node that is up, the head first; one that says nothing is an answer, too.

    Args:
        places: that the nodes should reach.
        patience: seconds to wait for all of them.
    """
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: not _is_head(n))
    with _mark_in(places.storage) as (mark, trouble):
        scouts = [_scout(node) for node in nodes]
        looks = [
            scout.look.remote(places, mark, _is_head(node))
            for scout, node in zip(scouts, nodes, strict=True)
        ]
        ready, _ = ray.wait(looks, num_returns=len(looks), timeout=patience)
        answers = [
            _answer(node, scout, look)
            if look in set(ready)
            else NodeAnswer(node=_name(node), trouble=f"no answer within {patience:g} s")
            for node, scout, look in zip(nodes, scouts, looks, strict=True)
        ]
        for scout in scouts:
            ray.kill(scout)
    return [_with_trouble(answer, trouble) for answer in answers]


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


def visible_gpus() -> int:
    """Return GPUs that torch sees with the environment that Ray was started in."""
    before = inherited().get(VISIBLE)
    if before is None:
        os.environ.pop(VISIBLE, None)
    else:
        os.environ[VISIBLE] = before
    return torch.cuda.device_count()


def clock_bounds(readings: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return how far a clock may be ahead: the least and the most seconds.

    Args:
        readings: before asking, the answer, after it.
    """
    return (
        max(answer - after for _, answer, after in readings),
        min(answer - before for before, answer, _ in readings),
    )


def _scout(node: Mapping[str, Any]) -> Any:
    place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return ray.remote(num_cpus=0, max_restarts=0)(Scout).options(scheduling_strategy=place).remote()


def _is_head(node: Mapping[str, Any]) -> bool:
    return "node:__internal_head__" in node["Resources"]


def _name(node: Mapping[str, Any]) -> str:
    return str(node["NodeManagerAddress"])


@contextmanager
def _mark_in(storage: str | None) -> Iterator[tuple[str | None, str]]:
    """The driver's file in the storage, if it is asked about; or why there is none."""
    with ExitStack() as later:
        mark, trouble = None, ""
        if storage is not None:
            try:
                mark = later.enter_context(marked(storage))
            except (PlanError, StorageError) as error:
                trouble = f"the driver cannot write it: {error}"
        yield mark, trouble


def _answer(node: Mapping[str, Any], scout: Any, look: Any) -> NodeAnswer:
    try:
        told = ray.get(look)
        bounds = clock_bounds([_reading(scout) for _ in range(PINGS)])
    except RayError as error:
        return NodeAnswer(node=_name(node), trouble=str(error).strip().splitlines()[-1])
    return NodeAnswer(
        node=_name(node),
        cpus=node["Resources"].get("CPU", 0.0),
        gpus=node["Resources"].get("GPU", 0.0),
        clock=bounds,
        **{**told, "code": _difference(told["code"], _name(node))},
    )


def _reading(scout: Any) -> tuple[float, float, float]:
    before = time.time()
    answer = ray.get(scout.clock.remote(), timeout=PATIENCE)
    return before, answer, time.time()


def _difference(code: Code, where: str) -> str:
    try:
        compare(loaded_code(), code, where=where)
    except CodeMismatch as mismatch:
        return str(mismatch)
    return ""


def _with_trouble(answer: NodeAnswer, storage: str) -> NodeAnswer:
    """What the driver could not write, no node could look for."""
    if not storage or answer.trouble:
        return answer
    return replace(answer, reach={"storage": storage, **answer.reach})


def _reached(places: Places, mark: str | None, local: bool) -> Iterator[tuple[str, str]]:
    if mark is not None:
        yield "storage", storage_trouble(mark)
    if places.optuna is not None and (local or not on_loopback(places.optuna)):
        yield "Optuna", database_trouble(places.optuna)
    if places.tracking is not None and (local or not on_loopback(places.tracking)):
        yield "tracking", tracking_trouble(places.tracking)


PATIENT = 20.0
"""Seconds for MLflow: checking a password for the first time took a small server over four."""

_ASKED = "/api/2.0/mlflow/experiments/search?max_results=1"


@contextmanager
def marked(storage: str) -> Iterator[str]:
    """Leave a file in a storage while the block runs; give its address.

    Raises:
        PlanError, StorageError: it cannot be written.
    """
    check_writable(storage)
    base = storage if "://" in storage else str(Path(storage).resolve())
    address = f"{base.rstrip('/')}/.sentune-check-{uuid.uuid4().hex}"
    filesystem, path = fsspec.core.url_to_fs(address)
    with filesystem.open(path, "wb") as file:
        file.write(b"seen")
    try:
        yield address
    finally:
        filesystem.rm(path)


def storage_trouble(address: str) -> str:
    """Return whether the driver's file is seen here, and another one can be written beside it."""
    try:
        check_writable(address.rpartition("/")[0])
        filesystem, path = fsspec.core.url_to_fs(address)
        there = filesystem.exists(path)
    except (PlanError, StorageError) as error:
        return str(error)
    return "" if there else "it is another folder here: what the driver wrote is not there"


def database_trouble(url: str) -> str:
    """Return whether Optuna's database answers and a table can be made in it."""
    try:
        check_database(StudyConfig(name="check", storage=".", max_examples=1, optuna_url=url))
        if make_url(url).get_backend_name() == "postgresql":
            _make_a_table(url)
    except (PlanError, SQLAlchemyError) as error:
        return without_credentials(str(error).splitlines()[0])
    return ""


def tracking_trouble(uri: str) -> str:
    """Return whether an MLflow server answers, wants a password, and takes the one that is here."""
    if not uri.startswith(("http://", "https://")):
        return ""
    status = _status(uri, {})
    if isinstance(status, str):
        return status
    if status not in (401, 403):
        if status >= 400:
            return f"it answers {status}"
        return "" if on_loopback(uri) else "it lets everyone in who reaches it"
    known = credentials()
    if known is None:
        return "it wants a user and a password, and there are none in ~/.mlflow/credentials"
    status = _status(uri, {"Authorization": f"Basic {base64.b64encode(known).decode()}"})
    return "" if status == 200 else f"it does not take this user and password ({status})"


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


def _make_a_table(url: str) -> None:
    """PostgreSQL makes tables within a transaction, which is not kept."""
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            table = f"sentune_check_{uuid.uuid4().hex}"
            connection.execute(sqlalchemy.text(f"CREATE TABLE {table} (x INTEGER)"))
            connection.rollback()
    finally:
        engine.dispose()


def _status(uri: str, headers: dict[str, str]) -> int | str:
    """Return the status of an answer, or why there is none."""
    request = urllib.request.Request(uri.rstrip("/") + _ASKED, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError) as error:
        return without_credentials(f"it does not answer ({error})")
