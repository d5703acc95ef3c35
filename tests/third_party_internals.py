"""Private names of Ray and torch that tests need; no other test file uses one.

Written for Ray 2.60 and torch 2.13, which have no public names for them.
"""

from __future__ import annotations

from typing import Any

import optuna
import ray._private.state
from ray._private.runtime_env.packaging import create_package  # what an upload holds
from ray._private.runtime_env.working_dir import upload_working_dir_if_needed
from ray._raylet import GcsClient  # takes a machine back as a cloud does
from ray.autoscaler._private.kuberay.autoscaling_config import (
    _derive_autoscaling_config_from_ray_cr as read_kuberay,
)
from ray.autoscaler._private.util import prepare_config, validate_config  # what `ray up` does first
from ray.train.v2._internal.exceptions import (  # parts of the public errors of a group
    UserExceptionWithTraceback,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
)
from ray.tune.search.optuna import OptunaSearch
from torch.utils._python_dispatch import TorchDispatchMode  # sees every tensor that is made
from torch.utils._pytree import tree_leaves  # its companion

FAKE_NODES = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
"""Starts and ends nodes of a cluster on this machine, as Ray's own tests do."""


def actors() -> list[dict[str, Any]]:
    """Return all actors of the connected cluster; the public call needs the dashboard."""
    return list(ray._private.state.actors().values())


def study_of(searcher: OptunaSearch) -> optuna.Study:
    """Return the Optuna study in a searcher of Ray Tune, which does not hand it out."""
    study: optuna.Study = searcher._ot_study
    return study


__all__ = [
    "FAKE_NODES",
    "GcsClient",
    "TorchDispatchMode",
    "UserExceptionWithTraceback",
    "WorkerGroupStartupTimeoutError",
    "WorkerHealthCheckFailedError",
    "actors",
    "create_package",
    "prepare_config",
    "read_kuberay",
    "study_of",
    "tree_leaves",
    "upload_working_dir_if_needed",
    "validate_config",
]
