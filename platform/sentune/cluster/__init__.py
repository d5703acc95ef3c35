"""Limits of autoscaling clusters, read from their configuration files."""

from sentune.cluster.limits import Cluster, NodeLimit, read_cluster, running_cluster_file

__all__ = ["Cluster", "NodeLimit", "read_cluster", "running_cluster_file"]
