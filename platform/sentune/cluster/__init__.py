"""Limits of clusters that grow and shrink."""

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
