"""Where a study that is broken lies: SQLite and a disk, or PostgreSQL and an S3 server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from sentune.tracking.environment import artifact_root_in, tracking_uri_in
from tests.backends import BUCKET, Servers
from tests.faults.scenes import cluster_of
from tests.ray_nodes import end
from tests.soak import SOAK

OVER_SERVERS = {
    "test_killed_with_two_trials_at_a_time_nothing_is_lost_or_run_twice",
    "test_it_leaves_with_a_checkpoint_and_goes_on_at_the_next_step",
}
"""Tests that run over PostgreSQL and S3 outside of ``make soak``; the others run on a disk."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one test's studies are kept.

    Attributes:
        storage: folder or URI.
        optuna: database of its trials; None: a journal in each study's folder.
        tracking: MLflow's database.
        scratch: local folder for what the test writes down.
        servers: behind it; None on a disk.
    """

    storage: str
    optuna: str | None
    tracking: str
    scratch: Path
    servers: Servers | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Where a ``StudyConfig`` says so."""
        return {"storage": self.storage, "optuna_url": self.optuna}

    @property
    def options(self) -> list[str]:
        """The same for a job, with its tracking where that is not the storage's own."""
        given = ["--storage", self.storage]
        more = ["--optuna", self.optuna, "--tracking", self.tracking] if self.optuna else []
        return [*given, *more]

    def trials_of(self, study: str) -> str:
        """URL of the database, or path of the journal, with a study's trials."""
        return self.optuna or f"{self.storage}/{study}/optuna.journal"

    @property
    def artifacts(self) -> str:
        """Where MLflow's artifacts lie."""
        return artifact_root_in(self.storage)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves one kind of storage for each test, except in ``make soak``."""
    if not SOAK:
        left = [item for item in items if not in_one_kind_of_storage(item)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def in_one_kind_of_storage(item: pytest.Item) -> bool:
    """Whether a test runs outside of ``make soak``: no second time over another storage."""
    if not isinstance(item, pytest.Function) or "kind" not in item.fixturenames:
        return True
    wanted = "servers" if item.originalname in OVER_SERVERS else "local"
    return item.callspec.params["kind"] == wanted


@pytest.fixture(scope="session", params=["local", "servers"])
def kind(request: pytest.FixtureRequest) -> str:
    """What a place is made of; a cluster of Ray starts after it, and knows its environment."""
    if request.param == "servers":
        request.getfixturevalue("both_servers")
    return str(request.param)


@pytest.fixture(scope="module")
def machines(kind: str) -> Iterator[Cluster]:
    """Three of one CPU each; its servers are in the environment that the workers get."""
    del kind
    with cluster_of(3) as machines:
        yield machines


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place of the test's own."""
    return new_place(kind, request, tmp_path)


@pytest.fixture
def place_on_servers(both_servers: Servers, tmp_path: Path) -> Place:
    """The same, where it matters that a server can be ended."""
    return on_servers(both_servers, tmp_path)


def new_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """A further place of a test, over the same servers."""
    if kind == "servers":
        return on_servers(request.getfixturevalue("both_servers"), folder)
    folder.mkdir(exist_ok=True)
    return Place(
        storage=str(folder), optuna=None, tracking=tracking_uri_in(str(folder)), scratch=folder
    )


def on_servers(servers: Servers, folder: Path) -> Place:
    """Databases and a prefix of the bucket of its own."""
    folder.mkdir(exist_ok=True)
    name = f"t{uuid.uuid4().hex[:12]}"
    return Place(
        storage=f"s3://{BUCKET}/{name}",
        optuna=servers.postgres.make(f"{name}_optuna"),
        tracking=servers.postgres.make(f"{name}_mlflow", template="template_mlflow"),
        scratch=folder,
        servers=servers,
    )


def environment_of(place: Place, **more: str) -> dict[str, str]:
    """Of a process that drives a study there: what it keeps at home is the test's."""
    return {**os.environ, "XDG_STATE_HOME": str(place.scratch / "state"), **more}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of a study's processes, which are found by their mark and ended with the test."""
    mark = uuid.uuid4().hex
    yield {
        **os.environ,
        "SENTUNE_TEST_MARK": mark,
        "PYTHONPATH": str(Path(__file__).parents[2] / "platform"),
        "OMP_NUM_THREADS": "1",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    end(mark)
