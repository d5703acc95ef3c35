"""Private names of Ray Train and Ray Data, in one place. Written for Ray 2.60."""

from __future__ import annotations

from typing import Any

# the actor that merges the needs of all Train runs and Data pipelines of a cluster
from ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator import (
    ResourceRequestPriority,
    get_or_create_autoscaling_coordinator,
)
from ray.train import Result
from ray.train.torch import TorchTrainer

# the cause of a ControllerError if a group got no place; the public error has only its text
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
    """Trainer of a fixed number of workers, without Ray Train's own request to the autoscaler.

    The placement group tells the autoscaler all it needs. Ray Train also requests, for as long as
    the group runs, a cluster that can hold its workers. In Ray 2.60 the autoscaler keeps any nodes
    for that request, also idle ones (one stayed for 350 s at an idle timeout of 6 s).
    """

    def _initialize_and_run_controller(self, **given: Any) -> Result:
        policy = _PlacedPolicy(self.scaling_config)
        return super()._initialize_and_run_controller(**{**given, "scaling_policy": policy})


class _PlacedPolicy(FixedScalingPolicy):  # type: ignore[misc,unused-ignore]  # nor here
    """Ray Train's fixed scaling policy without resource requests."""

    def _send_resource_request(self) -> None:
        """Do nothing."""

    _maybe_send_resource_request = _cancel_resource_request = _send_resource_request


def unwrapped(error: BaseException) -> BaseException:
    """Return the error inside a worker's failure: of the user's code, or of a health check.

    Ray 2.60 keeps the former in ``_base_exc`` of ``UserExceptionWithTraceback``.
    """
    for wrapped in ("base_exc", "_base_exc", "health_check_failure"):
        inner = getattr(error, wrapped, None)
        if isinstance(inner, BaseException):
            return inner
    return error
