"""``sentune cluster plan``: how a cluster will grow for a study, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console, Group

from sentune.cli.cluster_growth_report import growth_report
from sentune.cli.cluster_job import options_of, read_job
from sentune.cluster import Cluster, NodeLimit, read_cluster
from sentune.errors import InvalidValue
from sentune.job.families import JobFamily, make_job
from sentune.job.plan import SECONDS
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, machines
from sentune.study.planning.capacity_forecast import forecast, forecasts
from sentune.study.planning.plan import Probe, estimate, make_plan
from sentune.study.space.space import SearchSpace


@dataclass(frozen=True, kw_only=True)
class ClusterPlanRequest:
    """What is known beside the job.

    Attributes:
        cluster: its kinds of nodes.
        prices: name of the node type -> dollars an hour of one node.
        examples_per_second: of one worker; None: not stated.
        validation_seconds: of one validation.
        probe: whether to try the first configuration on this machine.
        streams: whether the corpus is too large to share, so that Ray Data needs a CPU.
    """

    cluster: Cluster
    prices: dict[str, float] = field(default_factory=dict)
    examples_per_second: float | None = None
    validation_seconds: float = 0.0
    probe: bool = False
    streams: bool = False

    def __post_init__(self) -> None:
        for name in self.prices:
            if name not in self.cluster.kinds:
                fix = f"the cluster has {', '.join(self.cluster.kinds)}"
                raise InvalidValue("--price", name, fix)
        if self.probe and self.examples_per_second is not None:
            raise InvalidValue("--probe", True, "or state --examples-per-second, not both")


def show_cluster_plan(
    script: Path, arguments: Sequence[str], request: ClusterPlanRequest, console: Console
) -> None:
    """Prints how the cluster grows for the job; starts nothing.

    Raises:
        PlanError: the cluster cannot run it, not even grown to its limit; names the option.
        InvalidValue: an option that cannot be used.
    """
    asked = read_job(script)
    options = options_of(asked, arguments)
    job = make_job(options, asked.space)
    probe = _probe(job, request, console)
    streams = request.streams or bool(job.config.data_cpus)
    config = replace(job.config, data_cpus=1.0 if streams else 0.0)
    console.print(cluster_report(config, job.space, request, probe))


def cluster_report(
    config: StudyConfig, space: SearchSpace, request: ClusterPlanRequest, probe: Probe | None
) -> Group:
    """The tables of a study on a cluster."""
    start = tuple(kind for kind in request.cluster.kinds.values() for _ in range(kind.min_nodes))
    up = machines(replace(request.cluster, kinds={str(n): kind for n, kind in enumerate(start)}))
    plan = make_plan(config, space, Capacity(nodes=up, reachable=machines(request.cluster)))
    whole = forecast(plan, config, request.cluster, probe, request.prices)
    steps = forecasts(plan, config, request.cluster, probe, request.prices)
    basis = estimate(plan, config, probe).basis if probe else ""
    return growth_report(plan, request.cluster, request.prices, whole, steps, basis)


def parse_prices(texts: Iterable[str]) -> dict[str, float]:
    """``gpu-spot=0.35`` -> dollars an hour by node type.

    Raises:
        InvalidValue: it is no NODE_TYPE=DOLLARS, or the same type stands twice.
    """
    prices: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if not name or not 0 <= price < float("inf") or name in prices:
            fix = "give NODE_TYPE=DOLLARS_PER_HOUR, each node type once"
            raise InvalidValue("--price", text, fix)
        prices[name] = price
    return prices


def described_cluster(texts: Sequence[str]) -> Cluster:
    """Machines that no file describes: ``gpu=8,1,4`` is four nodes of 8 CPUs and 1 GPU.

    They are up from the start and stay.

    Raises:
        InvalidValue: it is no NAME=CPUS,GPUS,MOST.
    """
    kinds = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        parts = numbers.split(",")
        if not name or len(parts) != 3 or not all(part.isdigit() for part in parts):
            raise InvalidValue("--node", text, "give NAME=CPUS,GPUS,MOST, as in gpu=8,1,4")
        cpus, gpus, most = map(int, parts)
        kinds[name] = NodeLimit(cpus=cpus, gpus=gpus, max_nodes=most, min_nodes=most)
    total = sum(kind.max_nodes for kind in kinds.values())
    return Cluster(kinds=kinds, max_workers=total, idle_hours=0.0)


def cluster_of(file: Path | None, nodes: Sequence[str]) -> Cluster:
    """The cluster that is asked about: ``cluster.yaml`` here where nothing is named.

    Raises:
        InvalidValue: both are given, or the file is no cluster file.
    """
    if file is not None and nodes:
        raise InvalidValue("--node", nodes[0], "give a --cluster-file or nodes, not both")
    return described_cluster(nodes) if nodes else read_cluster(file or Path("cluster.yaml"))


def _probe(job: JobFamily, request: ClusterPlanRequest, console: Console) -> Probe | None:
    if request.probe:
        job.prepare(console)
        return job.probe(SECONDS)
    if request.examples_per_second is None:
        return None
    return job.stated_cost(request.examples_per_second, request.validation_seconds)
