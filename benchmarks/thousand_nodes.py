"""A driver's load in a study of 10,000 trials on 1,000 nodes: plan, processor and memory.

Simulated: the clock, the nodes, and Ray Tune, in whose place a queue of events calls the driver
just as Tune does. Real: plan, sampler (TPE), rungs (ASHA), store and its journal, claims
of eight studies on the cluster, terminal lines and MLflow. A trial trains at 300
examples a second, starts in 10 s and validates at three rungs, so a whole one takes 15 minutes.

python benchmarks/thousand_nodes.py [TRIALS] [NODES]
"""

from __future__ import annotations

import heapq
import logging
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from measure import machine
from rich.console import Console

from sentune.cluster import Cluster, NodeLimit
from sentune.job.progress import Display
from sentune.launchers.trial_report import Report
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.planning.capacity import Capacity, machines
from sentune.study.planning.capacity_forecast import forecast
from sentune.study.planning.plan import make_plan
from sentune.study.runner.limits import Limits
from sentune.study.runner.sharing import Claim, Sharing
from sentune.study.runner.trial_runner import Phase, TrialRunner
from sentune.study.runner.trial_source import SearchSource
from sentune.study.space.objectives import Objective
from sentune.study.space.space import Choice, SearchSpace, Uniform
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StudyView
from sentune.study.store.trial_store import TrialStore
from sentune.tracking import Tracker
from sentune.training.trial import TrialSpec

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
NODES = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
STUDIES, START, SPEED, BUDGET, TOLD_EVERY = 8, 10.0, 300.0, 270_000, 1_000
OBJECTIVE = "direction/accuracy"
SPACE = SearchSpace(
    method="gumbel",
    objective=OBJECTIVE,
    settings={
        "learning_rate": Uniform(1e-6, 1e-3, log=True),
        "batch_size": Choice(64, 128, 256, 512),
        "dimension": Choice(16, 32, 64, 128),
        "dropout": Uniform(0.0, 0.3),
    },
)


class Wall(dict[str, str]):
    """The claims of the studies, in memory."""

    def write(self, key: str, text: str) -> None:
        self[key] = text

    def read(self) -> dict[str, str]:
        return dict(self)

    def remove(self, key: str) -> None:
        self.pop(key, None)


@dataclass
class Clock:
    """Simulated seconds, and the real ones that the driver has worked."""

    now: float = 0.0
    working: float = 0.0
    events: int = 0
    queue: list[tuple[float, int, str]] = field(default_factory=list)


def cluster() -> Cluster:
    """A head, and as many nodes as asked for with a GPU each."""
    kinds = {
        "head": NodeLimit(cpus=0, gpus=0, min_nodes=1, max_nodes=1, head=True),
        "gpu": NodeLimit(cpus=4, gpus=1, min_nodes=0, max_nodes=NODES),
    }
    return Cluster(kinds=kinds, max_workers=NODES, idle_hours=1 / 12)


def score(settings: dict[str, Any], examples: int) -> float:
    """A curve that rises to a height of the settings, with a little noise."""
    height = 0.95 - 0.05 * abs(settings["dropout"] - 0.1) - 0.02 * (settings["dimension"] < 64)
    return height * (1 - 0.5 * 0.1 ** (examples / BUDGET)) + random.gauss(0, 0.005)


def play(runner: TrialRunner, concurrent: int, clock: Clock) -> None:
    """Runs the study as Tune would, an event at a time, each with a look at the limits."""
    rungs = BUDGET // 9, BUDGET // 3, BUDGET
    reached: dict[str, int] = {}
    given = 0
    while True:
        started = time.thread_time()
        runner.watch()
        while len(runner.live) < concurrent:
            if runner.give(f"t{given}") is None:
                break
            first = clock.now + START + rungs[0] / SPEED * random.uniform(0.8, 1.2)
            heapq.heappush(clock.queue, (first, given, f"t{given}"))
            reached[f"t{given}"] = 0
            given += 1
        if not clock.queue:
            clock.working += time.thread_time() - started
            return
        clock.now, number, trial = heapq.heappop(clock.queue)
        place = reached[trial]
        examples = rungs[place]
        settings = dict(runner.live[trial].settings)
        report = Report(
            examples=examples,
            metrics={OBJECTIVE: score(settings, examples), "train/loss": 1 / examples},
            readouts={"direction/rule": "volume"},
            final=examples == BUDGET,
            seconds=examples / SPEED,
            gpus=1.0,
        )
        goes_on = runner.hear(trial, {**report.to_result(), "time_total_s": clock.now})
        if goes_on and examples < BUDGET:
            reached[trial] += 1
            more = (rungs[place + 1] - examples) / SPEED * random.uniform(0.8, 1.2)
            heapq.heappush(clock.queue, (clock.now + more, number, trial))
        else:
            runner.end(trial)
        clock.events += 1
        clock.working += time.thread_time() - started
        if clock.events % TOLD_EVERY == 0:
            share = f"{100 * clock.working / clock.now:.0f} % of a core"
            print(f"  {clock.events:,} milestones of {given:,} trials: {share}", flush=True)


def spec_of(candidate: Any) -> TrialSpec:
    """A training run that is only simulated."""
    return TrialSpec(
        trial=candidate.name, method="gumbel", settings=dict(candidate.settings),
        encoder="", corpus=None, dev=None, max_examples=BUDGET, milestones=(BUDGET,),  # type: ignore[arg-type]
        objective=OBJECTIVE,
    )  # fmt: skip


def neighbourhood(concurrent: int, capacity: Capacity, wall: Wall) -> float:
    """Seconds of a look at seven other studies of the same size, once a second."""
    claim = Claim(study="large", cpus=1.0, gpus=1.0, wanted=concurrent)
    studies = [Sharing(claim, capacity, wall) for _ in range(STUDIES)]
    for one in studies:
        one.look()
    started = time.thread_time()
    for _ in range(5):
        studies[0].look()
    return (time.thread_time() - started) / 5


def main() -> None:
    logging.disable(logging.WARNING)
    random.seed(0)
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as folder:
        config = StudyConfig(
            name="large", storage=folder, max_examples=BUDGET, trials=TRIALS, finalists=0,
            gpus_per_worker=1.0, scheduler="asha",
        )  # fmt: skip
        started = time.perf_counter()
        capacity = Capacity(nodes=machines(cluster())[:1], reachable=machines(cluster()))
        plan = make_plan(config, SPACE, capacity)
        forecast(plan, config, cluster(), None, {})
        planning = time.perf_counter() - started
        storage = open_storage(f"{folder}/optuna.journal", driver=True)
        store = TrialStore(
            storage=storage,
            study=open_study(
                storage, "large", modes=["max"], fingerprint={"space": SPACE.to_dict()},
            ),
            objectives=(Objective(OBJECTIVE, "max"),),
            budget=BUDGET,
            scheduler=config.scheduling("max"),
        )  # fmt: skip
        tracker = Tracker("large", folder)
        place = StudyPlace(name="large", folder=folder, url="")
        view = StudyView(place, storage)
        look = partial(view.snapshot, driven=True)
        with Path(folder, "log").open("w") as log:
            summary = StudySummary(
                study="large", method="gumbel", state="running", objective=OBJECTIVE, mode="max",
                corpora={}, space=SPACE.to_dict(),
            )  # fmt: skip
            summary.plan = plan.to_dict()
            tracker.start(look, summary)
            lines, varied = Console(file=log, width=120), tuple(SPACE.settings)
            display = Display(lines, summary, plan.to_dict(), look, varied=varied)

            def stored(_: int) -> None:
                display.refresh()
                tracker.notify()

            runner = TrialRunner(
                phases=[
                    Phase(
                        store=store,
                        source=SearchSource(store, SPACE, trials=TRIALS, seed=0),
                        spec_of=spec_of,
                        stored=stored,
                    )
                ],
                limits=Limits(store),
                retire_after=config.retire_after,
            )
            clock, before = Clock(), time.process_time()
            play(runner, plan.concurrent, clock)
            whole = time.process_time() - before
            wait = time.perf_counter()
            sent = tracker.close(timeout=3600)
            wait = time.perf_counter() - wait
        counts = len(store.trials())
        looks = neighbourhood(plan.concurrent, capacity, Wall()) * clock.now
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    per_event = 1e3 * clock.working / clock.events
    loop = (clock.working + looks) / clock.now
    console.print(f"{counts:,} trials on {NODES:,} simulated nodes, {clock.events:,} milestones")
    console.print(f"  plan                    {planning:8.2f} s (at most 1)")
    console.print(f"  simulated               {clock.now / 3600:8.2f} h")
    console.print(
        f"  driver's loop           {clock.working:8.1f} s, {per_event:.1f} ms a milestone"
    )
    console.print(f"  looks at other studies  {looks:8.1f} s")
    console.print(f"  of one core             {100 * loop:8.1f} % (at most 50)")
    console.print(f"  with MLflow's thread    {100 * (whole + looks) / clock.now:8.1f} %")
    console.print(f"  MLflow has everything   {wait:8.1f} s after the last trial ({sent})")
    console.print(f"  memory                  {memory:8.2f} GiB (at most 2 GB)")
    console.print(machine(1))
    if planning > 1 or loop > 0.5 or memory * 2**30 > 2e9:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
