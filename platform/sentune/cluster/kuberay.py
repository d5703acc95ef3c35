"""A RayCluster of KubeRay as the fields of a file for ``ray up`` that say how far it grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentune.errors import InvalidValue

KIND = "RayCluster"
_HEAD = "head"


def as_launcher_file(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The groups as ``available_node_types``, the head among them as ``head``.

    CPUs and GPUs are what ``rayStartParams`` states: the pods' own limits may be in thousandths.

    Args:
        cluster: the resource, as YAML has it.

    Raises:
        InvalidValue: it has no groups, or a group does not state its CPUs; names the field.
    """
    spec = cluster.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("headGroupSpec"), dict):
        raise InvalidValue("spec.headGroupSpec", None, "a RayCluster has one")
    groups = {group["groupName"]: _group(group) for group in spec.get("workerGroupSpecs", ())}
    seconds = spec.get("autoscalerOptions", {}).get("idleTimeoutSeconds", 60)  # KubeRay's default
    return {
        "head_node_type": _HEAD,
        "max_workers": sum(group["max_workers"] for group in groups.values()),
        "idle_timeout_minutes": seconds / 60,
        "available_node_types": {
            _HEAD: {"resources": _resources(spec["headGroupSpec"], "headGroupSpec")},
            **groups,
        },
    }


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    where = f"workerGroupSpecs.{group['groupName']}"
    return {
        "resources": _resources(group, where),
        "min_workers": _count(group, "minReplicas", where),
        "max_workers": _count(group, "maxReplicas", where),
        "priority": group.get("priority", 0),
    }


def _resources(group: Mapping[str, Any], where: str) -> dict[str, int]:
    stated = group.get("rayStartParams", {})
    found = {}
    for resource, parameter in (("CPU", "num-cpus"), ("GPU", "num-gpus")):
        value = str(stated.get(parameter, "" if resource == "CPU" else "0"))
        if not value.isdigit():
            field = f"{where}.rayStartParams.{parameter}"
            raise InvalidValue(field, stated.get(parameter), 'state it, as in num-cpus: "4"')
        found[resource] = int(value)
    return found


def _count(group: Mapping[str, Any], key: str, where: str) -> int:
    value = group.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidValue(f"{where}.{key}", value, "state it as a whole number")
    return value
