"""Clusters that grow and shrink: how far they can, and how far they will for a study."""

from sentune.cluster.limits import (
    NodeLimit,
    cluster_limits,
    idle_hours,
    largest_cluster,
    running_cluster_file,
)

__all__ = [
    "NodeLimit",
    "cluster_limits",
    "idle_hours",
    "largest_cluster",
    "running_cluster_file",
]
