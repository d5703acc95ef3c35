"""A study of 200 short trials over PostgreSQL and S3 against SQLite and a disk.

Each trial works for half a second of one CPU, says two milestones with a checkpoint of 100 kB each,
and is told to MLflow; two run at a time on the inline launcher. Timed from the first trial until
MLflow has everything. Both servers run on this machine and take their share of its cores: what a
trial costs beside its work, some 0.05 s more over them, is the same for a longer one.

    .venv/bin/python -m benchmarks.servers [TRIALS [ROUNDS [SECONDS OF A TRIAL]]]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace, Uniform
from sentune.study.study import Study
from sentune.summary import write_summary
from sentune.tracking import Tracker
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import quieten_mlflow, tracking_uri_in
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec
from tests.servers import Bucket, Postgres, bucket, postgres
from tests.toy_trials import OBJECTIVE, cluster_of_two_cpus, toy_spec

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
WORK_SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0.5
AT_A_TIME, LIMIT, WARM_UP = 2, 1.15, 4
CHECKPOINT_BYTES = 100_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a study is kept."""

    storage: str
    optuna: str | None
    tracking: str


def short(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """Works, says a number, and leaves a checkpoint, twice."""

    def save(folder: Path) -> None:
        (folder / "state").write_bytes(os.urandom(CHECKPOINT_BYTES))

    for examples in spec.milestones:
        until = time.thread_time() + spec.settings["seconds"] / len(spec.milestones)
        while time.thread_time() < until:
            sum(range(1000))
        score = -((spec.settings["x"] - 0.5) ** 2) + examples / 1e6
        yield Progress(
            examples=examples,
            metrics={OBJECTIVE: score, "train/loss": -score},
            final=examples == spec.max_examples,
            save=save,
        )


def make_spec(
    settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
) -> TrialSpec:
    """A short trial."""
    return toy_spec({**settings, "seconds": WORK_SECONDS}, name, seed, milestones)


def study(place: Place, name: str, trials: int) -> float:
    """Seconds of a study."""
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings={"x": Uniform(0.0, 1.0)})
    config = StudyConfig(
        name=name, storage=place.storage, optuna_url=place.optuna, max_examples=200,
        validate_every=100, scheduler="none", sampler="random", trials=trials, finalists=0,
        concurrent=AT_A_TIME,
    )  # fmt: skip
    tracker = Tracker(name, place.storage, tracking_uri=place.tracking)
    asked = Study(config, space, make_spec, short, (tracker.notify,), {})
    summary = StudySummary(
        study=name, method="toy", state="running", objective=OBJECTIVE, mode="max", corpora={},
        space=space.to_dict(),
    )  # fmt: skip
    started = time.monotonic()
    summary.plan = asked.plan.to_dict()
    tracker.start(partial(asked.view.snapshot, driven=True), summary)
    outcome = asked.run()
    assert [trial.state for trial in outcome.trials] == ["complete"] * trials
    summary.state, summary.trials = outcome.state, outcome.trials
    write_summary(summary, config.folder)
    tracker.update(summary)
    assert tracker.close(600)
    return time.monotonic() - started


def places(folder: Path, database: Postgres, s3: Bucket) -> dict[str, Place]:
    """Both, with MLflow's tables made."""
    local, stores = str(folder), s3.make("studies")
    ensure_database(tracking_uri_in(local))
    tracking = database.make("mlflow")
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(tracking, f"{stores}/mlartifacts").engine.dispose()
    return {
        "SQLite and a disk": Place(storage=local, optuna=None, tracking=tracking_uri_in(local)),
        "PostgreSQL and S3": Place(
            storage=stores, optuna=database.make("optuna"), tracking=tracking
        ),
    }


def timed(trials: int, rounds: int) -> dict[str, float]:
    """Seconds by place, summed over rounds that take turns."""
    quieten_mlflow()
    with postgres() as database, bucket() as s3, tempfile.TemporaryDirectory() as folder:
        os.environ.update({**database.variables, **s3.variables})  # before Ray: workers inherit it
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        known = places(Path(folder), database, s3)
        with cluster_of_two_cpus(logging_level="ERROR"):
            for place in known.values():
                study(place, "warm-up", WARM_UP)
            seconds = dict.fromkeys(known, 0.0)
            for turn in range(rounds):
                for name, place in known.items():
                    took = study(place, f"short-{turn}", trials)
                    print(f"  round {turn + 1}, {name}: {took:.1f} s", flush=True)
                    seconds[name] += took
    return seconds


def main() -> None:
    print(f"{TRIALS:,} trials of {WORK_SECONDS} s, {AT_A_TIME} at a time")
    seconds = timed(TRIALS, ROUNDS)
    local, servers = seconds.values()
    for name, took in seconds.items():
        print(f"  {name:<20} {took:7.1f} s")
    print(f"  ratio {servers / local:.3f} (at most {LIMIT})")
    if servers > LIMIT * local:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
