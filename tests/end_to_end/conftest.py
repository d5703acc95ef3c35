"""The cluster that jobs join here, as submitted ones do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One for the jobs of a file: each of them would spend seconds on starting its own."""
    head = {"num_cpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ADDRESS", cluster.address)
        yield
    cluster.shutdown()
