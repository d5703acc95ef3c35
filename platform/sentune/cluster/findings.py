"""Evaluates the answers of a cluster's nodes: one finding per check, with a fix if it failed.

Nodes are contacted in ``sentune.study.planning.cluster_doctor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CLOCK_LIMIT = 2.0
"""Largest difference of two clocks in seconds; beats and MLflow's times need similar clocks."""

STOP_SECONDS = 60.0
"""Seconds that a stopped job needs for its trials to write checkpoints."""

SHOWN = 5
"""Largest number of nodes named in a line."""


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: name of the check.
        detail: the result.
        fix: what to do; empty if the check passed.
    """

    subject: str
    detail: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        """Whether the check passed."""
        return not self.fix


@dataclass(frozen=True, kw_only=True)
class NodeAnswer:
    """The answer of a process on a node.

    Attributes:
        node: its address.
        trouble: why there is no answer; then the other fields are empty.
        ray, python: versions.
        code: how its code differs from the driver's; empty if it does not.
        auth: ``RAY_AUTH_MODE`` of Ray's processes.
        stop_seconds: time between SIGTERM and SIGKILL of ``ray job stop``.
        cpus, gpus: Ray's resources; a head that runs no trials has 0 CPUs.
        gpus_seen: GPUs found by torch.
        reach: ``storage``, ``Optuna`` or ``tracking`` -> error of the connection, empty for none.
        clock: lower and upper bound of the seconds that its clock is ahead of the driver's.
    """

    node: str
    trouble: str = ""
    ray: str = ""
    python: str = ""
    code: str = ""
    auth: str = ""
    stop_seconds: float = 3.0
    cpus: float = 0.0
    gpus: float = 0.0
    gpus_seen: int = 0
    reach: Mapping[str, str] = field(default_factory=dict)
    clock: tuple[float, float] = (0.0, 0.0)


FIXES = {
    "storage": "give a bucket or a shared folder that the nodes' account may write to",
    "Optuna": "open the database's port to the nodes, and allow its user to create tables",
    "tracking": "start cluster/mlflow.sh on the head, and put user and password into "
    "~/.mlflow/credentials",
}
_INSTALL = "install requirements.lock on it, and restart Ray with ray up --restart-only"


def findings_of(nodes: Sequence[NodeAnswer], *, ray: str, python: str) -> list[Finding]:
    """Return the findings, in the order in which failures should be fixed.

    ``ray`` and ``python`` are the versions of the driver.
    """
    there = [node for node in nodes if not node.trouble]
    gpus = sum(node.gpus for node in there)
    apart = [max(abs(low), abs(high)) for low, high in (node.clock for node in there)]
    return [
        _all("nodes answer", nodes, lambda n: n.trouble, f"{len(nodes)} up",
             "ray logs raylet.err --node-ip ADDRESS; ray up again replaces the node"),
        _all("authentication", there,
             lambda n: "" if n.auth == "token" else f"RAY_AUTH_MODE={n.auth or 'disabled'}",
             "token on every node", "export RAY_AUTH_MODE=token before ray start, on every node"),
        _all("Ray", there, lambda n: _other(n.ray, ray), ray, _INSTALL),
        _all("Python", there, lambda n: _other(n.python, python), python, _INSTALL),
        _all("code", there, lambda n: n.code, "the driver's on every node",
             "submit it: ray job submit --working-dir . -- python jobs/..."),
        _all("job stop", there,
             lambda n: "" if n.stop_seconds >= STOP_SECONDS else
             f"Ray kills a job {n.stop_seconds:g} s after ray job stop",
             "waits for the checkpoints of trials",
             "export RAY_JOB_STOP_WAIT_TIME_S=300 before ray start; without it a stopped job "
             "resumes from its last checkpoint, that of a milestone"),
        _all("GPUs", there, _gpus, f"{gpus:g}, and torch sees them" if gpus else "none",
             "repair the GPU driver (nvidia-smi), or start Ray with torch's count as --num-gpus"),
        *_reached(there),
        _all("clocks", there, _clock,
             f"within {max([0.001, *apart]):.3g} s of the driver's",
             "run a time service (chrony) on that node"),
    ]  # fmt: skip


def _all(
    subject: str,
    nodes: Sequence[NodeAnswer],
    trouble: Callable[[NodeAnswer], str],
    fine: str,
    fix: str,
) -> Finding:
    """Return the finding of one check, which fails if ``trouble`` is not empty for a node.

    ``fine`` is the detail if the check passes.
    """
    if not nodes:
        return Finding(subject, "no node answered", "see the lines above")
    found = [f"{node.node}: {text}" for node in nodes if (text := trouble(node))]
    if not found:
        return Finding(subject, fine)
    more = [f"and {len(found) - SHOWN} more nodes"] if len(found) > SHOWN else []
    return Finding(subject, "; ".join(found[:SHOWN] + more), fix)


def _reached(nodes: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """Yield a finding per connection; one to a loopback address is tried from the head only."""
    for name, fix in FIXES.items():
        asked = [node for node in nodes if name in node.reach]
        if asked:
            where = "every node" if len(asked) == len(nodes) else ", ".join(n.node for n in asked)
            fine = "answers and accepts the driver" if name == "tracking" else "can be written"
            yield _all(name, asked, lambda n: n.reach[name], f"{fine}, from {where}", fix)  # noqa: B023


def _other(found: str, wanted: str) -> str:
    return "" if found == wanted else f"{found or 'none'}, the driver has {wanted}"


def _gpus(node: NodeAnswer) -> str:
    """Return how Ray's GPUs differ from torch's; a head that runs no trials may differ."""
    if node.gpus_seen == node.gpus or (not node.cpus and not node.gpus):
        return ""
    return f"Ray has {node.gpus:g}, torch sees {node.gpus_seen}"


def _clock(node: NodeAnswer) -> str:
    """Return by how much a clock differs at least; empty if it may be within the limit."""
    low, high = node.clock
    if low > CLOCK_LIMIT:
        return f"{low:.1f} s ahead of the driver's"
    return f"{-high:.1f} s behind the driver's" if high < -CLOCK_LIMIT else ""
