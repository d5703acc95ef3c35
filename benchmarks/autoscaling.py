"""A study takes a cluster from no node to three, and back to none: how long, and a picture of it.

    .venv/bin/python -m benchmarks.autoscaling [PICTURE]

Ray's own autoscaler runs with a provider whose nodes are real raylets on this machine. Two times
are compared in the same run: from a study's start to all of its trials running, and what the
provider needs by itself, from the moment at which the autoscaler sees the demand until all nodes
are up. Limits: 10 s between the two, and no node idle for longer than its timeout and one look of
the autoscaler. Beside it: bare placement groups, and both by ``ray job submit``. A driver is forked
from a process that has imported what it needs; a submitted one imports it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.autoscaling.growing import ROOT, UPDATE_SECONDS, Growing, growing_cluster
from tests.autoscaling.toy_runs import ToyRun
from tests.autoscaling.watching import Look, Watcher
from tests.forked import Program

NODES, TRIALS, LAST, IDLE_SECONDS, LIMIT = 3, 5, "0004", 10.0, 10.0
PATIENCE = 300.0
OPTIONS = {"trials": TRIALS, "gpus_per_worker": 1}
BARE = """
import pathlib, time
import ray
ray.init(log_to_driver=False, logging_level="ERROR")
groups = [ray.util.placement_group([{{"CPU": 1, "GPU": 1}}]) for _ in range({nodes})]
ray.get([group.ready() for group in groups])
pathlib.Path({placed!r}).touch()
while not pathlib.Path({over!r}).exists():
    time.sleep(0.05)
"""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Moments of one start from no node, in seconds since the epoch.

    Attributes:
        submitted: the driver's process was started.
        wanted: the autoscaler could see the demand.
        up: all nodes were.
        running: all trials were at work, or all placement groups in place.
    """

    submitted: float
    wanted: float
    up: float
    running: float

    @property
    def provider(self) -> float:
        """Seconds that the nodes took from the demand on."""
        return self.up - self.wanted

    @property
    def more(self) -> float:
        """Seconds beside the provider's own."""
        return self.running - self.submitted - self.provider

    def line(self, name: str) -> str:
        """As a row of the table."""
        before, after = self.wanted - self.submitted, self.running - self.up
        times = (self.running - self.submitted, before, self.provider, after, self.more)
        return f"  {name:<28}" + "".join(f"{seconds:9.1f}" for seconds in times)


def start_of(looks: list[Look], submitted: float, running: float) -> Start:
    """When the autoscaler saw what, of its looks from a driver's start on."""
    wanted = next(look.at for look in looks if look.wanted)
    up = next(look.at for look in looks if len(look.nodes) == NODES)
    return Start(submitted=submitted, wanted=wanted, up=up, running=running)


def none(look: Look) -> bool:
    """Whether there is no node, and none is coming."""
    return not look.nodes and not look.coming


def bare(
    start: Callable[[str], Program | subprocess.Popen[str]], watcher: Watcher, folder: Path
) -> Start:
    """The same demand without a study; places are held until the file ``over`` is there."""
    script, placed, over = (folder / name for name in ("bare.py", "placed", "over"))
    for left in (placed, over):
        left.unlink(missing_ok=True)
    script.write_text(BARE.format(nodes=NODES, placed=str(placed), over=str(over)))
    seen, submitted = len(watcher.looks), time.time()
    driver = start(str(script))
    while not placed.exists():
        assert driver.poll() is None, driver.communicate()[0]
        assert time.time() < submitted + PATIENCE
        time.sleep(0.05)
    running = time.time()
    over.touch()
    assert driver.wait(PATIENCE) == 0, driver.communicate()[0]
    return start_of(watcher.looks[seen:], submitted, running)


def by_job(cluster: Growing, watcher: Watcher, folder: Path) -> Start:
    """The study as a user submits it."""
    run, seen = ToyRun(cluster, folder, hold={"all": 0}, by_job=True, **OPTIONS), len(watcher.looks)
    running = run.wait(lambda: len(run.running()) == NODES)
    run.release("all")
    run.end()
    return start_of(watcher.looks[seen:], run.submitted, running)


@dataclass(frozen=True, kw_only=True)
class Story:
    """A whole study: its start, and what came after.

    Attributes:
        start: from no node.
        ended: the last trial was over.
        gone: the last node was seen for the last time.
        looks: at the cluster.
        work: trial -> when it started and ended.
    """

    start: Start
    ended: float
    gone: float
    looks: list[Look]
    work: dict[str, tuple[float, float]]


def whole(cluster: Growing, watcher: Watcher, folder: Path) -> Story:
    """Five trials on three nodes; the last one goes on until the other nodes have gone."""
    seen = max(0, len(watcher.looks) - 5)
    run = ToyRun(cluster, folder, hold={"all": 0, LAST: 0}, **OPTIONS)
    running = run.wait(lambda: len(run.running()) == NODES)
    time.sleep(10)
    run.release("all")
    run.wait(lambda: len(run.log("end")) == TRIALS - 1)
    watcher.wait(lambda look: len(look.nodes) == 1, PATIENCE)
    time.sleep(5)
    run.release(LAST)
    run.end()
    gone = watcher.wait(none, PATIENCE).at
    looks, starts, ends = watcher.looks[seen:], run.log("start"), run.log("end")
    work = {entry.trial: (entry.at, end.at) for entry in starts for end in ends
            if end.trial == entry.trial}  # fmt: skip
    start = start_of([look for look in looks if look.at > run.submitted], run.submitted, running)
    return Story(start=start, ended=ends[-1].at, gone=gone, looks=looks, work=work)


def draw(story: Story, picture: Path) -> None:
    """Nodes and trials over time, with the moments that matter."""
    zero = story.start.submitted
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes: Axes = figure.subplots()
    times = [look.at - zero for look in story.looks]
    nodes = [len(look.nodes) for look in story.looks]
    trials = [sum(a <= look.at < b for a, b in story.work.values()) for look in story.looks]
    axes.fill_between(times, nodes, step="post", color="#c9d8ea", label="nodes up")
    axes.step(times, trials, where="post", color="#b3442e", linewidth=1.8, label="trials running")
    marks = {
        "submitted": zero, "all trials running": story.start.running,
        "study ended": story.ended, "last node gone": story.gone,
    }  # fmt: skip
    for name, at in marks.items():
        axes.axvline(at - zero, color="#888888", linewidth=0.8, linestyle=":")
        axes.annotate(
            name,
            (at - zero, NODES + 0.62),
            ha="center",
            va="bottom",
            fontsize=9,
            color="#333333",
            annotation_clip=False,
        )
    axes.set(ylim=(0, NODES + 0.55), yticks=range(NODES + 1), xlim=(min(times), times[-1] + 1))
    axes.set_xlabel("seconds from submitting the study")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, ncols=2, fontsize=9)
    figure.savefig(picture, metadata={"Date": None})


def idle_times(log: str) -> list[float]:
    """Seconds that each node was idle when the autoscaler took it back, by its own count."""
    return [float(seconds) for seconds in re.findall(r"idle for ([\d.]+) secs", log)]


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/autoscaling.svg"
    with (
        tempfile.TemporaryDirectory() as scratch,
        growing_cluster(most=NODES, idle_seconds=IDLE_SECONDS, dashboard=True) as cluster,
        Watcher(cluster.address) as watcher,
    ):
        folder = Path(scratch)
        cluster.start("-m", "this").wait(PATIENCE)  # makes the process that drivers are forked from
        story = whole(cluster, watcher, folder / "study")
        groups = bare(cluster.start, watcher, folder)
        watcher.wait(none, PATIENCE)
        submitted = by_job(cluster, watcher, folder / "job")
        watcher.wait(none, PATIENCE)
        groups_submitted = bare(cluster.submit, watcher, folder)
        watcher.wait(none, PATIENCE)
        idle = idle_times(cluster.autoscaler_log())
    draw(story, picture)
    print(f"{NODES} nodes from none, seconds: to the demand, the provider's own, and after it")
    print(f"  {'':<28}" + "".join(f"{n:>9}" for n in ("all", "before", "nodes", "after", "more")))
    print(story.start.line("a study"))
    print(submitted.line("the same by ray job submit"))
    print(groups.line("bare placement groups"))
    print(groups_submitted.line("these by ray job submit"))
    print(f"a study: {story.start.more:.1f} s more than the provider's own (at most {LIMIT:g})")
    longest = IDLE_SECONDS + UPDATE_SECONDS
    print(f"idle when taken back: {max(idle):.1f} s at most, of {len(idle)} nodes; "
          f"timeout and one look: {longest:g} s")  # fmt: skip
    if story.start.more > LIMIT or max(idle) > longest + 1:  # the look itself takes its time
        raise SystemExit(1)


if __name__ == "__main__":
    main()
