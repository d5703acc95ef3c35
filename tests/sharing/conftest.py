"""PostgreSQL, S3 and an MLflow server over both, as a team has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.backends import BUCKET, Servers
from tests.servers import HOST, Server, folder_of, free_port, mlflow_server


@dataclass(frozen=True, kw_only=True)
class Team:
    """What studies of a team share."""

    servers: Servers
    tracking: Server

    @property
    def uri(self) -> str:
        """Of the MLflow server."""
        return f"http://{HOST}:{self.tracking.port}"


@pytest.fixture(scope="session")
def team(both_servers: Servers) -> Iterator[Team]:
    """The three servers."""
    with (
        folder_of("mlflow", None) as folder,
        mlflow_server(
            folder, free_port(), workers=2, artifacts=f"s3://{BUCKET}/mlflow",
            backend=both_servers.postgres.make("mlflow", "template_mlflow"),
        ) as server,
    ):  # fmt: skip
        yield Team(servers=both_servers, tracking=server)
