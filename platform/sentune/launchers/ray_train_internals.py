"""Private names of Ray Train and Ray Data, in one place. Written for Ray 2.60."""

from __future__ import annotations

from typing import Any

# the actor that merges what all Train runs and Data pipelines of a cluster need; no public way in
from ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator import (
    ResourceRequestPriority,
    get_or_create_autoscaling_coordinator,
)
from ray.train import Result
from ray.train.torch import TorchTrainer

# what a ControllerError holds where a group found no place; the public error says it in text alone
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy

__all__ = [
    "PlacedTrainer",
    "ResourceRequestPriority",
    "WorkerGroupStartupTimeoutError",
    "get_or_create_autoscaling_coordinator",
    "unwrapped",
]


class PlacedTrainer(TorchTrainer):  # type: ignore[misc,unused-ignore]  # Ray has no types
    """A trainer of a fixed number of workers, without Ray Train's request to the autoscaler.

    The group's placement group is all that the autoscaler must see. Ray Train also states, for as
    long as the group runs, how many workers the cluster must be able to hold. In Ray 2.60 the
    autoscaler meets that with any node, an idle one too: the idle node then stays beside the one
    that is at work (seen idle for 350 s at a timeout of 6 s).
    """

    def _initialize_and_run_controller(self, **given: Any) -> Result:
        policy = _PlacedPolicy(self.scaling_config)
        return super()._initialize_and_run_controller(**{**given, "scaling_policy": policy})


class _PlacedPolicy(FixedScalingPolicy):  # type: ignore[misc,unused-ignore]  # nor here
    """Decides as Ray Train's own one does, and requests nothing: the placement group has asked."""

    def _send_resource_request(self) -> None:
        """Request nothing."""

    _maybe_send_resource_request = _cancel_resource_request = _send_resource_request


def unwrapped(error: BaseException) -> BaseException:
    """Return the error inside a worker's failure: a user's own, or why a health check failed.

    Ray 2.60 keeps a user's in ``_base_exc`` of ``UserExceptionWithTraceback``.
    """
    for wrapped in ("base_exc", "_base_exc", "health_check_failure"):
        inner = getattr(error, wrapped, None)
        if isinstance(inner, BaseException):
            return inner
    return error
