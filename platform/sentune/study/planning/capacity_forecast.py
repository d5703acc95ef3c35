"""The forecast of a cluster's growth for a study: nodes, hours and dollars of each node type.

A study has two stages, the search and the finals. Each asks for all of its workers at once, and its
nodes are counted as up for the whole of it, though those of a search's last trials go earlier:
hours are an upper bound in that. How long a node takes to start is not in them.
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
    """A part of a study.

    Attributes:
        name: ``search`` or ``finals``.
        concurrent: runs at a time.
        nodes: name of the node type -> nodes that are up.
        hours: of wall time; None where nothing says how fast a trial trains.
    """

    name: str
    concurrent: int
    nodes: Mapping[str, int]
    hours: float | None


@dataclass(frozen=True, kw_only=True)
class CapacityForecast:
    """A cluster over the time of a study.

    Attributes:
        stages: one after the other.
        node_hours: name of the node type -> hours of all its nodes, idle ones too; None
            where nothing says how fast a trial trains.
        dollars: name of the node type -> hours times the price that was stated; empty without.
        unpriced: node types that are used and have no price.
        stand_in_dollars: that the kinds which stand in would cost beyond, if all nodes were theirs.
    """

    stages: tuple[Stage, ...]
    node_hours: Mapping[str, float] | None
    dollars: Mapping[str, float]
    unpriced: tuple[str, ...]
    stand_in_dollars: float

    @property
    def hours(self) -> float | None:
        """Wall time; None where nothing says how fast a trial trains."""
        return sum(stage.hours or 0.0 for stage in self.stages) if self.node_hours else None

    @property
    def total(self) -> float | None:
        """Dollars of all node types that have a price; None where none was stated."""
        return sum(self.dollars.values()) if self.dollars else None


def forecast(
    plan: Plan,
    config: StudyConfig,
    cluster: Cluster,
    probe: Probe | None,
    prices: Mapping[str, float],
) -> CapacityForecast:
    """Return how the cluster that a plan was made for grows.

    Args:
        probe: how fast a trial trains; None: not known.
        prices: name of the node type -> dollars an hour of one node.
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
    """Trials at a time -> growth: for one, two, four, ... up to what the plan has."""
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
    """A node that came for the study idles once, after the last stage that it has work in."""
    found = {}
    for name, kind in cluster.kinds.items():
        counts = [stage.nodes[name] for stage in stages]
        working = sum(n * (stage.hours or 0.0) for n, stage in zip(counts, stages, strict=True))
        found[name] = working + (max(counts) - kind.min_nodes) * cluster.idle_hours
    return found
