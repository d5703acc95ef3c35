"""Findings from the answers of a cluster's nodes: one for each check, a failed one with its fix.

No node is contacted here; see ``sentune.study.planning.cluster_doctor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CLOCK_LIMIT = 2.0
"""Seconds between two clocks: beats and MLflow's times are compared across machines."""

STOP_SECONDS = 60.0
"""Seconds that a stopped job gets at least, to let its trials write checkpoints."""

SHOWN = 5
"""Nodes that a line names."""


@dataclass(frozen=True)
class Finding:
    """One line of the table: name of the check, what was found, and what to do about it, if not
    all is well."""

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
        trouble: why there is no answer; the rest is empty then.
        ray, python: versions.
        code: how its code differs from the driver's; empty where it is the same.
        auth: ``RAY_AUTH_MODE`` of Ray's own processes there.
        stop_seconds: between SIGTERM and SIGKILL of ``ray job stop`` there.
        cpus, gpus: that Ray gives away; 0 CPUs on a head without trial work.
        gpus_seen: by torch.
        reach: what was tried (``storage``, ``Optuna``, ``tracking``) -> trouble, empty for none.
        clock: the least and the most seconds that its clock may be ahead of the driver's.
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
    "storage": "name a bucket or a shared folder, and let the nodes' account write there",
    "Optuna": "open the database's port to the nodes, and let its user create tables",
    "tracking": "start cluster/mlflow.sh on the head, and put user and password into "
    "~/.mlflow/credentials",
}
_INSTALL = "install requirements.lock there; ray up --restart-only starts Ray again"


def findings_of(nodes: Sequence[NodeAnswer], *, ray: str, python: str) -> list[Finding]:
    """Return the findings in the order of repair, against the driver's versions."""
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
             "mend the driver (nvidia-smi), or start Ray with --num-gpus as torch counts them"),
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
    """Return a tick if no node has trouble; a cross that names those which do."""
    if not nodes:
        return Finding(subject, "no node answered", "see the lines above")
    found = [f"{node.node}: {text}" for node in nodes if (text := trouble(node))]
    if not found:
        return Finding(subject, fine)
    more = f"; and {len(found) - SHOWN} nodes more" if len(found) > SHOWN else ""
    return Finding(subject, "; ".join(found[:SHOWN]) + more, fix)


def _reached(nodes: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """Yield a line for each place that was asked about; a place on loopback is asked of one."""
    for name, fix in FIXES.items():
        asked = [node for node in nodes if name in node.reach]
        if asked:
            where = "every node" if len(asked) == len(nodes) else ", ".join(n.node for n in asked)
            fine = "answers, and lets the driver in" if name == "tracking" else "can be written"
            yield _all(name, asked, lambda n: n.reach[name], f"{fine}, from {where}", fix)  # noqa: B023


def _other(found: str, wanted: str) -> str:
    return "" if found == wanted else f"{found or 'none'}, the driver has {wanted}"


def _gpus(node: NodeAnswer) -> str:
    """A head without trial work may keep its GPU to itself."""
    if node.gpus_seen == node.gpus or (not node.cpus and not node.gpus):
        return ""
    return f"Ray has {node.gpus:g}, torch sees {node.gpus_seen}"


def _clock(node: NodeAnswer) -> str:
    """Return what is surely too far apart: a slow answer alone is no cross."""
    low, high = node.clock
    if low > CLOCK_LIMIT:
        return f"{low:.1f} s ahead of the driver's"
    return f"{-high:.1f} s behind the driver's" if high < -CLOCK_LIMIT else ""
