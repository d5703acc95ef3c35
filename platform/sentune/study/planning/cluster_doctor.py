"""Asks every node of the connected Ray cluster what it runs, what it sees and what it reaches.

One actor a node, without a CPU or a GPU: it neither waits for trials nor makes the cluster grow.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentune.cluster.judging import NodeAnswer
from sentune.code import Code, CodeMismatch, compare, loaded_code
from sentune.errors import PlanError
from sentune.io.atomic import StorageError
from sentune.study.planning.reach import (
    database_trouble,
    marked,
    on_loopback,
    storage_trouble,
    tracking_trouble,
)

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
        """What is found here.

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
        """Seconds since 1970 by this node's clock."""
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
    """The environment that this process was started with: that of Ray's own processes.

    Ray hides the GPUs from a worker that asked for none by changing ``os.environ`` later.
    """
    file = Path("/proc/self/environ")
    if not file.exists():
        return os.environ
    pairs = (entry.partition("=") for entry in file.read_text(errors="replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def visible_gpus() -> int:
    """GPUs that torch sees with the environment that Ray was started in."""
    before = inherited().get(VISIBLE)
    if before is None:
        os.environ.pop(VISIBLE, None)
    else:
        os.environ[VISIBLE] = before
    return torch.cuda.device_count()


def clock_bounds(readings: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """How far a clock may be ahead: the least and the most seconds.

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
