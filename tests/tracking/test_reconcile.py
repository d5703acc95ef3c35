"""MLflow holds what a study's storage and folder hold, whatever happened in between."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from sentune.records import TrialRecord, TrialState
from sentune.tracking import tracker as sending
from sentune.tracking.client import mlflow_client
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import tracking_uri_in
from sentune.tracking.registry import resolve_model
from sentune.tracking.runs import runs_page
from tests.tracking.story import (
    BEGAN,
    CONSTANT,
    METRIC,
    MILESTONES,
    SPENT,
    Held,
    Story,
    close,
    tracker_in,
    without_ids,
)


def test_a_study_as_runs(storage: Path, story: Story, held: Held) -> None:
    artifacts = storage / "little" / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "note.txt").write_text("content")
    (storage / "little" / "report.html").write_text("page")
    tracker = tracker_in(storage)
    story.tell(tracker)
    runs = held(close(tracker))
    assert len(runs) == 1 + story.trials + 2
    study = runs["little"]
    assert study["status"] == "FINISHED"
    assert study["params"]["corpora.corpus.fingerprint"] == "f" * 16
    assert study["tags"]["sentune.git.commit"] == "c0ffee"
    assert study["tags"]["sentune.packages"] == "ray 2.60.0"
    assert study["points"]["winner/direction/accuracy"] == [(SPENT.examples, 0.8)]
    assert study["points"]["test/direction/accuracy"] == [(SPENT.examples, 0.78)]
    assert study["points"]["spent/gpu_hours"] == [(SPENT.examples, 3.0)]
    reached = [(n, 0.5 + MILESTONES[n % 3] / 10000) for n in range(story.trials)]
    assert study["points"]["trials/direction/accuracy"] == reached
    assert study["tags"]["sentune.verdict"].endswith("within noise")
    assert study["artifacts"] == [
        "artifacts", "lineage.json", "model", "plan.json", "report", "space.json",
    ]  # fmt: skip
    for number in range(story.trials):
        check_trial(runs[f"trial-{number:04d}"], number)
    seed = runs["trial-0002-seed-1"]
    assert seed["parent"] == "trial-0002"
    assert seed["params"]["seed"] == "1"
    assert [step for step, _ in seed["points"]["direction/accuracy"]] == list(MILESTONES)
    assert seed["points"]["selected/direction/accuracy"] == [(0, 0.8)]


def test_the_corpora_are_datasets_of_the_study(storage: Path, story: Story, held: Held) -> None:
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    run = held(close(tracker))["little"]
    (found,) = mlflow_client(tracker.tracking_uri).get_run(run["id"]).inputs.dataset_inputs
    assert (found.dataset.name, found.dataset.digest) == ("builtin:nli", "f" * 16)
    assert [tag.value for tag in found.tags] == ["corpus"]


def test_the_first_page_shows_the_curves_of_the_newest_study(storage: Path, story: Story) -> None:
    uri = tracking_uri_in(str(storage))
    ensure_database(uri)
    assert runs_page(uri) == "/#/experiments?workflowType=machine_learning"
    tracker = tracker_in(storage)
    story.tell(tracker)
    assert tracker.close(120)
    place, _, shown = runs_page(uri).partition("?")
    assert place == "/#/experiments/1/runs"
    assert dict(parse_qsl(shown)) == {
        "workflowType": "machine_learning", "compareRunsMode": "CHART",
        "searchFilter": "tags.`sentune.trial` != ''",
        "orderByKey": "metrics.`direction/accuracy`", "orderByAsc": "false",
    }  # fmt: skip
    described = mlflow_client(uri).get_experiment("1").tags["mlflow.note.content"]
    assert described.startswith("gumbel reaches direction/accuracy 80.0")


def test_a_run_has_the_times_of_its_milestones(storage: Path, story: Story, held: Held) -> None:
    tracker = tracker_in(storage)
    story.trial(2)
    tracker.start(story.snapshot, story.summary())
    run = held(close(tracker))["trial-0002"]
    client = mlflow_client(tracker.tracking_uri)
    found = client.get_metric_history(run["id"], METRIC)
    began = BEGAN + 20_000
    assert [(p.step, p.timestamp) for p in found] == [(at, began + at) for at in MILESTONES]
    info = client.get_run(run["id"]).info
    assert (info.start_time, info.end_time) == (began, began + 5000)


def test_what_a_run_is_told_goes_in_one_call(
    storage: Path, story: Story, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    batch, told = mlflow.MlflowClient.log_batch, Counter[str]()

    def log_batch(self: Any, run_id: str, *args: Any, **given: Any) -> Any:
        told[run_id] += 1
        return batch(self, run_id, *args, **given)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", log_batch)
    monkeypatch.setattr(sending, "GATHER", 3600)
    tracker = tracker_in(storage)
    story.tell(tracker)
    runs = held(close(tracker))
    assert told == {run["id"]: 1 for run in runs.values()}
    assert {run["status"] for run in runs.values()} == {"FINISHED", "KILLED", "FAILED"}


def test_a_study_that_goes_on_is_running_again(storage: Path, story: Story, held: Held) -> None:
    for state, status in (("interrupted", "KILLED"), ("running", "RUNNING")):
        tracker = tracker_in(storage)
        tracker.start(story.snapshot, story.summary(state))
        run = held(close(tracker))["little"]
        assert (run["status"], run["tags"]["sentune.state"]) == (status, state)


def test_a_study_that_an_error_ends_leaves_no_run_running(
    storage: Path, story: Story, held: Held
) -> None:
    story.trial(2)
    story.store(TrialRecord(id=3, state=TrialState.RUNNING, settings={"learning_rate": 1e-3}))
    tracker, begun = tracker_in(storage), replace(story.summary(), trials=[])
    tracker.start(story.snapshot, begun)
    assert tracker.flush(60)
    statuses = {name: run["status"] for name, run in held(tracker.tracking_uri).items()}
    assert sorted(statuses.values()) == ["FINISHED", "RUNNING", "RUNNING"]
    tracker.interrupt("resume it")
    runs = held(close(tracker))
    assert sorted(run["status"] for run in runs.values()) == ["FINISHED", "KILLED", "KILLED"]
    tags = runs["little"]["tags"]
    assert (tags["sentune.state"], tags["sentune.reason"]) == ("interrupted", "resume it")
    assert runs["little"]["points"]["spent/trials"][-1][1] == 2

    tracker = tracker_in(storage)  # the next start
    tracker.start(story.snapshot, begun)
    runs = held(close(tracker))
    assert sorted(run["status"] for run in runs.values()) == ["FINISHED", "RUNNING", "RUNNING"]
    tracker.interrupt("too late")


def check_trial(run: dict[str, Any], number: int) -> None:
    status, state = (("KILLED", "pruned"), ("FAILED", "failed"), ("FINISHED", "complete"))[
        number % 3
    ]
    assert (run["status"], run["tags"]["sentune.state"]) == (status, state)
    assert run["tags"].get("sentune.reason") == (
        None if state == "complete" else f"because of {number}"
    )
    cost = {name: run["points"][name][0][1] for name in ("seconds", "gpu_seconds", "restarts")}
    assert cost == {"seconds": 1.5, "gpu_seconds": 3.0, "restarts": number}
    assert run["tags"]["sentune.notes"] == f"note of {number}"
    assert run["parent"] == "little"
    assert run["params"] == {
        "learning_rate": str(10.0**-number), "pooling": "cls", "deep.er": "[1, 2]",
    }  # fmt: skip
    assert run["tags"][f"setting.{CONSTANT}"] == "32"
    steps = [step for step, _ in run["points"]["direction/accuracy"]]
    assert steps == list(MILESTONES[: 1 + number % 3])


@pytest.mark.parametrize(
    ("state", "status"),
    [("stopped", "FINISHED"), ("interrupted", "KILLED"), ("failed", "FAILED")],
)
def test_how_a_study_ended_is_told_in_the_summary_s_own_words(
    storage: Path, story: Story, held: Held, state: str, status: str
) -> None:
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    summary = story.summary(
        state, reason="--max-hours 2 are used up", spent=SPENT, front=[3, 1], forked_from="older",
        objectives=[{"metric": "a/b", "mode": "max"}, {"metric": "c/d", "mode": "min"}],
        comparison={"p": 0.2}, test_reads=[{"winner": 1}],
    )  # fmt: skip
    tracker.update(summary)
    run = held(close(tracker))["little"]
    assert (run["status"], run["tags"]["sentune.state"]) == (status, state)
    assert run["tags"]["sentune.reason"] == summary.reason
    assert run["tags"]["sentune.front"] == "[3, 1]"
    assert run["points"]["spent/hours"] == [(SPENT.examples, 1.5)]
    assert {"comparison.json", "test_reads.json"} <= set(run["artifacts"])


def test_a_trial_without_memory_and_one_that_breaks_a_constraint(
    storage: Path, story: Story, held: Held
) -> None:
    why = "out of memory on the device at micro-batch 1"
    for number, state in enumerate((TrialState.INFEASIBLE, TrialState.COMPLETE)):
        trial = TrialRecord(id=number, state=state, settings={}, reason=why * (number == 0))
        trial.violations = {"train/seconds<=600": 30.0}
        trial.metrics = {"a/b": 0.5, "c/d": 0.1} if number else {}
        story.store(trial)
    tracker = tracker_in(storage)
    objectives = [{"metric": "a/b", "mode": "max"}, {"metric": "c/d", "mode": "min"}]
    tracker.start(story.snapshot, story.summary(objectives=objectives))
    runs = held(close(tracker))
    small, broken = runs["trial-0000"], runs["trial-0001"]
    assert (small["status"], small["tags"]["sentune.state"]) == ("FAILED", "infeasible")
    assert small["tags"]["sentune.reason"] == why
    assert (broken["status"], broken["tags"]["sentune.state"]) == ("FINISHED", "complete")
    assert broken["tags"]["sentune.feasible"] == "False"
    assert broken["points"]["violation/train/seconds__600"] == [(0, 30.0)]
    assert runs["little"]["points"]["trials/a/b"] == [(1, 0.5)]
    assert runs["little"]["points"]["trials/c/d"] == [(1, 0.1)]


def test_a_resume_adds_and_doubles_nothing(storage: Path, story: Story, held: Held) -> None:
    for number in range(3):
        story.trial(number)
    orphan = TrialRecord(id=3, state=TrialState.RUNNING, settings={"learning_rate": 1e-3})
    orphan.curve = {1000: {METRIC: 0.6}}
    story.store(orphan)
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    before = held(close(tracker))
    assert before["trial-0003"]["status"] == "RUNNING"

    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    orphan.curve = {at: {METRIC: 0.6} for at in MILESTONES}
    orphan.state = TrialState.COMPLETE
    story.store(orphan)
    tracker.notify()
    after = held(close(tracker))
    assert after.keys() == before.keys()
    for name in ("trial-0000", "trial-0001", "trial-0002"):
        assert after[name] == before[name]
    assert after["trial-0003"]["id"] == before["trial-0003"]["id"]
    assert after["trial-0003"]["points"][METRIC] == [(m, 0.6) for m in MILESTONES]


def test_a_second_start_finds_nothing_to_send(
    storage: Path, story: Story, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    tracker = tracker_in(storage)
    story.tell(tracker)
    first = held(close(tracker))
    writes = ("log_batch", "create_run", "update_run", "set_terminated", "log_artifacts",
              "log_artifact", "log_text", "log_inputs", "create_model_version")  # fmt: skip
    for name in writes:
        monkeypatch.setattr(mlflow.MlflowClient, name, None)
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.ending())
    assert held(close(tracker)) == first


def test_a_study_that_is_driven_again_and_finds_nothing_to_do_gets_a_point_of_hours_alone(
    storage: Path, story: Story, held: Held
) -> None:
    tracker = tracker_in(storage)
    story.tell(tracker)
    first = held(close(tracker))
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    assert tracker.flush(120)
    ending = story.ending()
    tracker.update(replace(ending, spent=replace(ending.spent, hours=1.6)))  # of the start itself
    again = held(close(tracker))
    points, hours = first["little"]["points"], [(SPENT.examples, 1.5), (SPENT.examples, 1.6)]
    assert again["little"]["points"] == {**points, "spent/hours": hours}
    assert again.keys() == first.keys()


def test_figures_of_a_second_reading_of_test_replace_those_of_the_first(
    storage: Path, story: Story, held: Held
) -> None:
    story.trial(2)
    for value, digest in ((0.5, "a"), (0.7, "b"), (0.5, "c"), (0.5, "c")):
        ending = story.ending()
        ending.test[METRIC] = value
        ending.corpora["test"] = {"spec": f"snli:{digest}", "fingerprint": digest, "rows": 100}
        tracker = tracker_in(storage)
        tracker.start(story.snapshot, ending)
        run = held(close(tracker))["little"]
        whole = mlflow_client(tracker.tracking_uri).get_run(run["id"]).data
        assert whole.metrics[f"test/{METRIC}"] == value
        assert whole.tags["corpora.test.fingerprint"] == digest
    assert len(run["points"][f"test/{METRIC}"]) == 3
    assert len(run["points"]["spent/hours"]) == 1


def test_storages_that_share_a_database_keep_their_artifacts(
    storage: Path, tmp_path: Path, story: Story, held: Held
) -> None:
    uri = tracking_uri_in(str(storage))
    tracker = tracker_in(tmp_path / "elsewhere", tracking_uri=uri)
    story.tell(tracker)
    before = held(close(tracker))
    assert before["little"]["artifacts"]
    (storage / "mlartifacts").mkdir(exist_ok=True)
    older = tmp_path / "older" / "mlartifacts"  # where earlier versions left them
    (older / "run").mkdir(parents=True)
    places = {older.as_uri(), "s3://bucket/studies/mlartifacts"}
    client = mlflow_client(uri)
    for place in places:
        client.create_experiment(f"sentune/{place[:2]}", place)
    ensure_database(uri)  # as a study of the other storage does
    assert places <= {one.artifact_location for one in client.search_experiments()}
    assert held(uri) == before
    assert (resolve_model("models:/little@champion", uri) / "model.safetensors").is_file()


def test_a_new_server_gets_the_whole_study(
    storage: Path, other: Path, story: Story, held: Held
) -> None:
    tracker = tracker_in(storage)
    story.tell(tracker)
    wanted = held(close(tracker))
    tracker = tracker_in(other)
    tracker.start(story.snapshot, story.ending())
    found = held(close(tracker))
    assert without_ids(found) == without_ids(wanted)


def test_a_study_of_the_same_name_has_runs_of_its_own(
    storage: Path, story: Story, tmp_path: Path
) -> None:
    for identity in ("one", "two"):
        story.identity = identity
        tracker = tracker_in(storage)
        tracker.start(story.snapshot, story.summary())
        close(tracker)
    client = mlflow_client(tracking_uri_in(str(storage)))
    assert len(client.search_runs(["1"], "run_name = 'little'")) == 2


def test_a_metric_that_is_sent_twice_is_stored_once(storage: Path) -> None:
    """Why an answer that was lost does no harm: MLflow knows a value by name, step and time."""
    from mlflow.entities import Metric

    client = mlflow_client(tracking_uri_in(str(storage)))
    run = client.create_run(client.create_experiment("twice")).info.run_id
    for _ in range(2):
        client.log_batch(run, metrics=[Metric("m", 0.25, 1000, 3), Metric("m", 0.5, 2000, 4)])
    assert [(p.step, p.value) for p in client.get_metric_history(run, "m")] == [(3, 0.25), (4, 0.5)]


@pytest.mark.parametrize("swept", [False, True])
def test_a_run_that_was_deleted_does_not_stop_the_rest(
    storage: Path, story: Story, held: Held, swept: bool
) -> None:
    tracker = tracker_in(storage, first_wait=0.001)
    trial = TrialRecord(id=7, state=TrialState.RUNNING, settings={"learning_rate": 0.1})
    trial.curve = {1000: {METRIC: 0.5}}
    story.store(trial)
    tracker.start(story.snapshot, story.summary())
    assert tracker.flush(120)
    runs = held(tracker.tracking_uri)
    mlflow_client(tracker.tracking_uri).delete_run(runs["trial-0007"]["id"])
    trial.curve[2000] = {METRIC: 0.6}
    trial.state = TrialState.COMPLETE
    story.store(trial)
    if swept:
        story.keep_tables("0007", {"rte/sweep.json": SWEEP})
    story.trial(1)
    tracker.notify()
    runs = held(close(tracker))
    check_trial(runs["trial-0001"], 1)
    assert runs["trial-0007"]["status"] == "FINISHED"
    assert [step for step, _ in runs["trial-0007"]["points"][METRIC]] == [1000, 2000]


def test_an_experiment_that_was_renamed_is_found(storage: Path, story: Story) -> None:
    tracker = tracker_in(storage)
    story.trial(1)
    tracker.start(story.snapshot, story.summary())
    client = mlflow_client(close(tracker))
    place = client.get_experiment_by_name("sentune/little").experiment_id
    client.rename_experiment(place, "my paper")
    again = tracker_in(storage)
    story.trial(2)
    again.start(story.snapshot, story.summary())
    close(again)
    assert {e.name for e in client.search_experiments()} == {"Default", "my paper"}
    names = [run.info.run_name for run in client.search_runs([place])]
    assert sorted(names) == ["little", "trial-0001", "trial-0002"]


def test_limits_names_and_numbers_that_are_none(
    storage: Path, story: Story, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {f"setting {n}(x)": n for n in range(150)} | {"long": "x" * 7000}
    many = {f"sts/metric {n}": float(n) for n in range(2500)}
    trial = TrialRecord(id=0, state=TrialState.FAILED, settings=settings, reason="y" * 9000)
    trial.curve = {1000: many | {"sts/nan": math.nan, "../out": 1.0}}
    story.store(trial)
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    run = held(close(tracker))["trial-0000"]
    assert len(run["params"]) == 151
    assert run["params"]["long"].endswith("(7,000 characters)")
    assert len(run["params"]["long"]) == 6000
    assert run["tags"]["sentune.reason"].endswith("(9,000 characters)")
    assert math.isnan(run["points"]["sts/nan"][0][1])
    assert run["points"]["out"] == [(1000, 1.0)]
    assert len([name for name in run["points"] if name.startswith("sts/metric")]) == 2500
    assert "refuses part" not in caplog.text


@pytest.mark.parametrize("code", ["INVALID_PARAMETER_VALUE", "BAD_REQUEST"])
def test_what_the_server_refuses_is_said_once_and_holds_nothing_up(
    storage: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: str,
) -> None:
    import mlflow
    from mlflow.exceptions import MlflowException

    batch = mlflow.MlflowClient.log_batch

    def log_batch(self: Any, run_id: str, metrics: Any, params: Any, tags: Any) -> Any:
        if any(param.key == "pooling" for param in params):
            error = MlflowException("no pooling, http://ann:hush@host")
            error.error_code = code
            raise error
        return batch(self, run_id, metrics=metrics, params=params, tags=tags)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", log_batch)
    tracker = tracker_in(storage, first_wait=0.001)
    story.trial(2)
    tracker.start(story.snapshot, story.summary())
    assert tracker.flush(120)
    story.runs[2] = replace(story.runs[2], record=replace(story.runs[2].record, notes=["more"]))
    tracker.notify()
    run = held(close(tracker))["trial-0002"]
    assert run["tags"]["sentune.notes"] == "more"
    assert run["params"] == {"learning_rate": "0.01", "deep.er": "[1, 2]"}
    assert [step for step, _ in run["points"][METRIC]] == list(MILESTONES)
    told = [r.getMessage() for r in caplog.records if "refuses part" in r.getMessage()]
    assert len(told) == 1
    assert "no pooling" in told[0]
    assert "hush" not in caplog.text


def test_pickles_are_refused(
    storage: Path, story: Story, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    artifacts = storage / "little" / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "weights.pkl").write_text("x")
    tracker = tracker_in(storage)
    story.tell(tracker)
    run = held(close(tracker))["little"]
    assert "may be a pickle" in caplog.text
    assert "artifacts" not in run["artifacts"]
    assert run["status"] == "FINISHED"


SWEEP = {
    "metric": "rte/f1", "axes": {"threshold": [0.1, 0.2, 0.3]}, "values": [0.5, 0.7, 0.6],
    "exact": {}, "best": {"value": 0.7, "threshold": 0.2},
}  # fmt: skip


def test_the_sweeps_of_a_run_are_its_artifacts(storage: Path, story: Story, held: Held) -> None:
    story.trial(2)
    story.finalists()
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, story.summary())
    assert tracker.flush(120)
    for run in ("0002", "finalist-0002-seed-1"):  # written after the end was stored
        story.keep_tables(run, {"rte/sweep.json": SWEEP})
    tracker.notify()
    runs = held(close(tracker))
    for name in ("trial-0002", "trial-0002-seed-1"):
        assert runs[name]["artifacts"] == ["readouts"]
    client = mlflow_client(tracker.tracking_uri)
    run = runs["trial-0002"]["id"]
    names = [found.path for found in client.list_artifacts(run, "readouts/rte")]
    assert names == ["readouts/rte/curve_threshold.png", "readouts/rte/sweep.json"]
    text = Path(client.download_artifacts(run, "readouts/rte/sweep.json")).read_text()
    assert json.loads(text) == SWEEP
    assert runs["trial-0002-seed-2"]["artifacts"] == []
