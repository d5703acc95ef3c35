"""Private names of Ray that are light to import: the cluster's state and its key-value store.

Written for Ray 2.60, which has no public calls for them. Private names of Ray Train and Ray Data
are in ``ray_train_internals``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import ray
import ray._private.services
import ray._private.state
from ray.experimental import internal_kv

from sentune.io.waits import WAITS

_SPACE = b"sentune"


def draining_nodes() -> frozenset[str]:
    """Return the ids of the nodes that are being drained, by the call of Ray Train's watcher."""
    return frozenset(ray._private.state.state.get_draining_nodes())


def last_started() -> str | None:
    """Return Ray's address for ``auto``: the cluster last started here, which may be gone."""
    address: str | None = ray._private.services.find_bootstrap_address(None)
    return address


def free_resources() -> Mapping[str, Mapping[str, float]]:
    """Return node id -> free resources; Ray's public call gives only the sum over all nodes."""
    free: Mapping[str, Mapping[str, float]] = ray._private.state.available_resources_per_node()
    return free


class ClusterStore:
    """Key-value store of the connected cluster, in a namespace of its own."""

    def write(self, key: str, text: str) -> None:
        """Store a text under a key, replacing an earlier one."""
        with self._asked():
            internal_kv._internal_kv_put(key.encode(), text.encode(), namespace=_SPACE)

    def read(self) -> dict[str, str]:
        """Return all keys with their texts."""
        with self._asked():
            keys = internal_kv._internal_kv_list(b"", namespace=_SPACE)
            found = {key: internal_kv._internal_kv_get(key, namespace=_SPACE) for key in keys}
        return {key.decode(): text.decode() for key, text in found.items() if text is not None}

    def remove(self, key: str) -> None:
        """Delete a key if it exists."""
        with self._asked():
            internal_kv._internal_kv_del(key.encode(), namespace=_SPACE)

    @staticmethod
    def _asked() -> AbstractContextManager[None]:
        """Report if Ray's head does not answer."""
        return WAITS.until(
            f"Ray's head (GCS) at {ray.get_runtime_context().gcs_address}",
            "if it has died, Ray ends this process after a minute; then run the same command again",
        )
