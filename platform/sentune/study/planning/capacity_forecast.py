"""Forecast of a cluster's growth for a study: nodes, hours and dollars of each node type.

A study has two stages, the search and the finals. Each asks for all of its workers at once. Its
nodes count for the whole stage, though some end earlier, so hours are an upper bound in that. The
time in which nodes start is not included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sentune.cluster import Cluster
from sentune.cluster.packing import nodes_for
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import WORKER_CPUS
from sentune.study.planning.plan import Plan, Probe, stage_hours


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a study.

    Attributes:
        name: ``search`` or ``finals``.
        concurrent: runs at a time.
        nodes: name of the node type -> number of nodes.
        hours: wall time; None if the speed of a trial is unknown.
    """

    name: str
    concurrent: int
    nodes: Mapping[str, int]
    hours: float | None


@dataclass(frozen=True, kw_only=True)
class CapacityForecast:
    """Nodes, hours and dollars of a cluster over the time of a study.

    Attributes:
        stages: stages in their order.
        node_hours: name of the node type -> hours of all its nodes, also idle ones; None if the
            speed of a trial is unknown.
        dollars: name of the node type -> hours times its price; empty without prices.
        unpriced: node types that are used and have no price.
        stand_in_dollars: additional dollars if all nodes were of the types that stand in for them.
    """

    stages: tuple[Stage, ...]
    node_hours: Mapping[str, float] | None
    dollars: Mapping[str, float]
    unpriced: tuple[str, ...]
    stand_in_dollars: float

    @property
    def hours(self) -> float | None:
        """Wall time of all stages; None if the speed of a trial is unknown."""
        return sum(stage.hours or 0.0 for stage in self.stages) if self.node_hours else None

    @property
    def total(self) -> float | None:
        """Dollars of all node types with a price; None without prices."""
        return sum(self.dollars.values()) if self.dollars else None


def forecast(
    plan: Plan,
    config: StudyConfig,
    cluster: Cluster,
    probe: Probe | None,
    prices: Mapping[str, float],
) -> CapacityForecast:
    """Return the forecast of a cluster's growth under a plan.

    ``probe`` is None if the speed of a trial is unknown. ``prices`` has, for a node type, the
    dollars per hour of one node.
    """
    stages = tuple(_stages(plan, config, cluster, probe))
    hours = None if probe is None else _node_hours(stages, cluster)
    used = {name: value for name, value in (hours or {}).items() if value}
    stand_ins = {kind.stands_in_for: name for name, kind in cluster.kinds.items()}
    stand_in_dollars = sum(
        value * max(0.0, prices[stand_ins[name]] - prices[name])
        for name, value in used.items()
        if name in prices and stand_ins.get(name) in prices
    )
    return CapacityForecast(
        stages=stages,
        node_hours=hours,
        dollars={name: value * prices[name] for name, value in used.items() if name in prices},
        unpriced=tuple(name for name in used if name not in prices) if prices else (),
        stand_in_dollars=stand_in_dollars,
    )


def forecasts(
    plan: Plan,
    config: StudyConfig,
    cluster: Cluster,
    probe: Probe | None,
    prices: Mapping[str, float],
) -> dict[int, CapacityForecast]:
    """Return trials at a time -> forecast, for 1, 2, 4, ... up to the plan's number."""
    steps = [1 << n for n in range(plan.concurrent.bit_length()) if 1 << n < plan.concurrent]
    return {
        at_a_time: forecast(replace(plan, concurrent=at_a_time), config, cluster, probe, prices)
        for at_a_time in (*steps, plan.concurrent)
    }


def _stages(
    plan: Plan, config: StudyConfig, cluster: Cluster, probe: Probe | None
) -> Iterator[Stage]:
    workers, _ = config.worker_range
    hours = stage_hours(plan, config, probe, plan.concurrent) if probe else (None, None)
    runs = {"search": config.population or plan.trials, "finals": plan.finalists}
    for (name, count), took in zip(runs.items(), hours, strict=True):
        if count:
            concurrent = min(plan.concurrent, count)
            nodes = nodes_for(
                cluster,
                concurrent * workers,
                cpus=WORKER_CPUS,
                gpus=config.gpus_per_worker,
                data_cpus=config.data_cpus,
            )
            yield Stage(name=name, concurrent=concurrent, nodes=nodes, hours=took)


def _node_hours(stages: tuple[Stage, ...], cluster: Cluster) -> dict[str, float]:
    """Return name of the node type -> hours.

    Each node that is added for the study is idle once, after its last stage.
    """
    found = {}
    for name, kind in cluster.kinds.items():
        counts = [stage.nodes[name] for stage in stages]
        working = sum(n * (stage.hours or 0.0) for n, stage in zip(counts, stages, strict=True))
        found[name] = working + (max(counts) - kind.min_nodes) * cluster.idle_hours
    return found
