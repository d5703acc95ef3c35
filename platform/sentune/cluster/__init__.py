"""Limits of clusters that grow and shrink."""

from sentune.cluster.limits import Cluster, NodeLimit, read_cluster, running_cluster_file

__all__ = ["Cluster", "NodeLimit", "read_cluster", "running_cluster_file"]
