"""Studies on one cluster, one PostgreSQL, one S3 and one MLflow server.

Five of them; eight in ``make soak``.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest
import ray
from mlflow import MlflowClient
from optuna.trial import TrialState

from sentune.study.store.storage import open_storage
from tests.backends import BUCKET
from tests.forked import Program
from tests.servers import closing_connection
from tests.sharing.conftest import Team
from tests.sharing.driven import OBJECTIVE, TRIALS
from tests.soak import SOAK

pytestmark = pytest.mark.timeout(1800)
ROOT, SCRIPT = Path(__file__).parents[2], Path(__file__).with_name("driven.py")
STUDIES = tuple(f"study-{number}" for number in range(8 if SOAK else 5))
*_, FAVOURED, MODEST = STUDIES
PLACES = len(STUDIES) + 1  # one each, and one more for the favoured


@dataclass(frozen=True, kw_only=True)
class Past:
    """What the studies have left.

    Attributes:
        spans: study -> when each of its trials began and ended.
        outputs: study -> last line of its driver.
        seconds: from the first trial to the end of the last driver.
    """

    spans: dict[str, list[tuple[float, float]]]
    outputs: dict[str, str]
    seconds: float
    trials: str
    team: Team


@pytest.fixture(scope="module")
def cluster(team: Team) -> Iterator[str]:
    del team  # its variables are there before Ray's processes start
    ray.init(
        address="local", num_cpus=PLACES, include_dashboard=False, log_to_driver=False,
        logging_level=logging.ERROR,
    )  # fmt: skip
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def past(team: Team, cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("shared")
    trials = team.servers.postgres.make("shared")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
        "XDG_STATE_HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }

    def start(name: str) -> Program:
        priority = "2" if name == FAVOURED else "1"
        most = "1" if name == MODEST else "0"
        words = [
            str(SCRIPT), cluster, str(folder), f"s3://{BUCKET}/shared", trials, team.uri, name,
            priority, most,
        ]  # fmt: skip
        return Program(words, cwd=folder, env=environment, log=folder / f"{name}.driver")

    drivers = {name: start(name) for name in STUDIES}
    try:
        while not all((folder / f"{name}.ready").exists() for name in STUDIES):
            ended = {n: d.communicate() for n, d in drivers.items() if d.poll() is not None}
            assert not ended
            time.sleep(0.2)
        (folder / "go").touch()
        started = time.monotonic()
        outputs = {name: driver.communicate()[0] for name, driver in drivers.items()}
    finally:
        for driver in drivers.values():
            driver.kill()
    return Past(
        spans={name: spans_of(folder / f"{name}.log") for name in STUDIES},
        outputs=outputs,
        seconds=time.monotonic() - started,
        trials=trials,
        team=team,
    )


def spans_of(log: Path) -> list[tuple[float, float]]:
    begins: dict[str, float] = {}
    spans = []
    for line in log.read_text().splitlines():
        trial, what, at = line.split()
        if what == "begins":
            assert trial not in begins, "a trial was run twice"
            begins[trial] = float(at)
        else:
            spans.append((begins[trial], float(at)))
    return spans


def at_once(spans: list[tuple[float, float]], when: float) -> int:
    return sum(begin <= when < end for begin, end in spans)


def seconds_in(spans: list[tuple[float, float]], since: float, until: float) -> float:
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans)


def test_each_ends_with_all_of_its_trials(past: Past) -> None:
    for name in STUDIES:
        assert past.outputs[name].splitlines()[-1:] == ["complete"], past.outputs[name]
        assert len(past.spans[name]) == TRIALS
        stored = optuna.load_study(study_name=name, storage=open_storage(past.trials)).trials
        assert Counter(trial.state for trial in stored) == {TrialState.COMPLETE: TRIALS}
        assert len({trial.params["x"] for trial in stored}) == TRIALS


def test_one_that_asks_for_no_more_has_one_at_a_time(past: Past) -> None:
    begins = [begin for begin, _ in past.spans[MODEST]]
    assert max(at_once(past.spans[MODEST], when) for when in begins) == 1


def test_nobody_waits_until_another_is_through(past: Past) -> None:
    """When the first is through, each of the others has had its part, not its leavings."""
    through = {name: max(end for _, end in spans) for name, spans in past.spans.items()}
    first = min(through.values())
    had = {name: sum(end <= first for _, end in spans) for name, spans in past.spans.items()}
    assert min(had.values()) >= 1, had
    equals = [had[name] for name in STUDIES if name not in (FAVOURED, MODEST)]
    assert sum(equals) / len(equals) >= TRIALS / 4, had


def test_the_favoured_one_has_more_of_the_cluster(past: Past) -> None:
    """Seconds of trials, against those of the others, from when its second process is up.

    Until it begins its last trial: after that it cannot use two places. Half of its trials, at
    least, begin in that time.
    """
    favoured = past.spans[FAVOURED]
    begins = sorted(begin for begin, _ in favoured)
    pairs = [begin for begin in begins if at_once(favoured, begin) == 2]
    since = min(pairs, default=begins[-1])
    assert begins.index(since) <= TRIALS // 2, past.spans
    had = {name: seconds_in(spans, since, begins[-1]) for name, spans in past.spans.items()}
    equals = [had[name] for name in STUDIES if name not in (FAVOURED, MODEST)]
    assert had[FAVOURED] > 1.3 * sum(equals) / len(equals), past.spans


def test_mlflow_has_every_run_once_with_its_whole_curve(past: Past) -> None:
    client = MlflowClient(past.team.uri)
    experiments = client.search_experiments(filter_string="name LIKE 'sentune/%'")
    assert {experiment.name for experiment in experiments} == {f"sentune/{s}" for s in STUDIES}
    runs = client.search_runs([e.experiment_id for e in experiments], max_results=1000)
    names = Counter(
        (run.data.tags["sentune.study"], run.data.tags.get("sentune.run")) for run in runs
    )
    assert set(names.values()) == {1}
    assert Counter(study for study, _ in names) == dict.fromkeys(STUDIES, TRIALS + 1)
    trials = [run for run in runs if OBJECTIVE in run.data.metrics]
    for run in trials[:: max(1, len(trials) // 8)]:
        steps = [point.step for point in client.get_metric_history(run.info.run_id, OBJECTIVE)]
        assert steps == [300, 600, 900]


def test_no_server_has_refused_or_failed_at_anything(
    past: Past, record_testsuite_property: pytest.RecordProperty
) -> None:
    said = past.team.tracking.log.read_text()
    answers = Counter(re.findall(r'HTTP/1\.1" (\d)\d\d', said))
    assert answers["5"] == 0, past.team.tracking.told("failed")
    with closing_connection(past.team.servers.postgres, "shared") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT xact_commit, deadlocks FROM pg_stat_database WHERE datname='shared'")
        commits, deadlocks = cursor.fetchone()
    assert deadlocks == 0
    requests = sum(answers.values())
    assert requests > len(STUDIES) * TRIALS
    logging.getLogger(__name__).info(
        "%d requests to MLflow (%.1f a second), %d transactions of Optuna (%.1f a second), %.0f s",
        requests, requests / past.seconds, commits, commits / past.seconds, past.seconds,
    )  # fmt: skip
    record_testsuite_property("mlflow_requests_per_second", requests / past.seconds)
