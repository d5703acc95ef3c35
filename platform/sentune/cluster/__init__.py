"""Clusters that grow and shrink: how far they can, and what of them some work takes."""

from sentune.cluster.limits import (
    Cluster,
    NodeLimit,
    cluster_limits,
    largest_cluster,
    read_cluster,
    running_cluster_file,
)

__all__ = [
    "Cluster",
    "NodeLimit",
    "cluster_limits",
    "largest_cluster",
    "read_cluster",
    "running_cluster_file",
]
