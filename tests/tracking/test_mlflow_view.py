from __future__ import annotations

import logging
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentune.errors import InvalidValue
from sentune.records import TrialRecord, TrialState
from sentune.tracking import mlflow_view
from sentune.tracking.mlflow_view import MlflowListener
from tests.tracking.story import MILESTONES, SPENT, Story

Held = Callable[[str], dict[str, Any]]


def listener_in(storage: Path, **options: Any) -> MlflowListener:
    return MlflowListener.in_storage("little", str(storage), **options)


def close(listener: MlflowListener) -> str:
    assert listener.close(120)
    return listener.tracking_uri


def test_a_study_as_runs(storage: Path, story: Story, held: Held) -> None:
    listener = listener_in(storage)
    story.tell(listener)
    runs = held(close(listener))
    assert len(runs) == 1 + story.trials + 2
    study = runs["little"]
    assert study["status"] == "FINISHED"
    assert study["params"]["corpora.corpus.fingerprint"] == "f" * 16
    assert study["tags"]["sentune.git.commit"] == "c0ffee"
    assert study["tags"]["sentune.packages"] == "ray 2.60.0"
    assert study["points"]["winner/direction/accuracy"] == [(SPENT.examples, 0.8)]
    assert study["points"]["test/direction/accuracy"] == [(SPENT.examples, 0.78)]
    assert study["points"]["spent/gpu_hours"] == [(SPENT.examples, 3.0)]
    assert study["tags"]["sentune.verdict"].endswith("within noise")
    assert study["artifacts"] == ["lineage.json", "model", "notes", "plan.json", "space.json"]
    for number in range(story.trials):
        check_trial(runs[f"trial-{number:04d}"], number)
    seed = runs["trial-0002-seed-1"]
    assert seed["parent"] == "trial-0002"
    assert seed["params"]["seed"] == "1"
    assert [step for step, _ in seed["points"]["direction/accuracy"]] == list(MILESTONES)


def test_what_a_run_is_told_goes_in_one_call(
    storage: Path, story: Story, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    batch, told = mlflow.MlflowClient.log_batch, Counter[str]()

    def log_batch(self: Any, run_id: str, *args: Any, **given: Any) -> Any:
        told[run_id] += 1
        return batch(self, run_id, *args, **given)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", log_batch)
    monkeypatch.setattr(mlflow_view, "GATHER", 3600)
    listener = listener_in(storage)
    story.tell(listener)
    runs = held(close(listener))
    assert told == {run["id"]: 1 for run in runs.values()}
    assert {run["status"] for run in runs.values()} == {"FINISHED", "KILLED", "FAILED"}


def test_an_end_and_the_next_start_in_one_call_leave_the_study_running(
    storage: Path, story: Story, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_view, "GATHER", 3600)
    listener = listener_in(storage)
    story.start(listener)
    listener.study_ended(story.summary("interrupted"))
    story.start(listener)
    assert held(close(listener))["little"]["status"] == "RUNNING"


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
    assert run["params"]["deep.er"] == "[1, 2]"
    steps = [step for step, _ in run["points"]["direction/accuracy"]]
    assert steps == list(MILESTONES[: 1 + number % 3])


@pytest.mark.parametrize(
    ("state", "status"),
    [("stopped", "FINISHED"), ("interrupted", "KILLED"), ("failed", "FAILED")],
)
def test_how_a_study_ended_is_told_in_the_summary_s_own_words(
    storage: Path, story: Story, held: Held, state: str, status: str
) -> None:
    listener = listener_in(storage)
    story.start(listener)
    summary = story.summary(state)
    summary.reason, summary.spent = "--max-hours 2 are used up", SPENT
    summary.objectives = [{"metric": "a/b", "mode": "max"}, {"metric": "c/d", "mode": "min"}]
    summary.front, summary.forked_from = [3, 1], "older"
    summary.comparison, summary.test_reads = {"p": 0.2}, [{"winner": 1}]
    listener.study_ended(summary)
    run = held(close(listener))["little"]
    assert (run["status"], run["tags"]["sentune.state"]) == (status, state)
    assert run["tags"]["sentune.reason"] == summary.reason
    assert run["tags"]["sentune.front"] == "[3, 1]"
    assert run["points"]["spent/hours"] == [(SPENT.examples, 1.5)]
    assert {"comparison.json", "test_reads.json"} <= set(run["artifacts"])


def test_a_trial_without_memory_and_one_that_breaks_a_constraint(
    storage: Path, story: Story, held: Held
) -> None:
    listener = listener_in(storage)
    summary = story.summary()
    summary.objectives = [{"metric": "a/b", "mode": "max"}, {"metric": "c/d", "mode": "min"}]
    listener.study_started(summary, {})
    why = "out of memory on the device at micro-batch 1"
    for number, state in enumerate((TrialState.INFEASIBLE, TrialState.COMPLETE)):
        trial = TrialRecord(id=number, state=state, settings={}, reason=why * (number == 0))
        trial.violations = {"train/seconds<=600": 30.0}
        trial.metrics = {"a/b": 0.5, "c/d": 0.1} if number else {}
        listener.trial_ended(trial)
    runs = held(close(listener))
    small, broken = runs["trial-0000"], runs["trial-0001"]
    assert (small["status"], small["tags"]["sentune.state"]) == ("FAILED", "infeasible")
    assert small["tags"]["sentune.reason"] == why
    assert (broken["status"], broken["tags"]["sentune.state"]) == ("FINISHED", "complete")
    assert broken["tags"]["sentune.feasible"] == "False"
    assert broken["points"]["violation/train/seconds__600"] == [(0, 30.0)]
    assert runs["little"]["points"]["trials/a/b"] == [(1, 0.5)]
    assert runs["little"]["points"]["trials/c/d"] == [(1, 0.1)]


def test_a_resume_adds_and_doubles_nothing(storage: Path, story: Story, held: Held) -> None:
    listener = listener_in(storage)
    story.start(listener)
    for number in range(3):
        story.trial(listener, number)
    orphan = TrialRecord(id=3, state=TrialState.RUNNING, settings={"learning_rate": 1e-3})
    listener.trial_started(orphan)
    listener.trial_progressed(orphan, 1000, {"direction/accuracy": 0.6})
    before = held(close(listener))
    assert before["trial-0003"]["status"] == "RUNNING"

    listener = listener_in(storage)
    story.start(listener)  # knows the ended trials
    orphan.curve = {1000: {"direction/accuracy": 0.6}}
    listener.trial_started(orphan)
    for examples in MILESTONES:  # the first one is said again
        listener.trial_progressed(orphan, examples, {"direction/accuracy": 0.6})
    orphan.state = TrialState.COMPLETE
    listener.trial_ended(orphan)
    after = held(close(listener))
    assert after.keys() == before.keys()
    for name in ("trial-0000", "trial-0001", "trial-0002"):
        assert after[name] == before[name]
    assert after["trial-0003"]["id"] == before["trial-0003"]["id"]
    assert after["trial-0003"]["points"]["direction/accuracy"] == [(m, 0.6) for m in MILESTONES]


def test_told_twice_is_as_told_once(storage: Path, story: Story, held: Held) -> None:
    for _ in range(2):
        listener = listener_in(storage)
        story.tell(listener)
        close(listener)
    first = held(listener.tracking_uri)
    (storage / "little" / "tracking" / "entries.jsonl").write_text("")
    (storage / "little" / "tracking" / "sent.json").unlink()  # the spool is lost, not the store
    listener = listener_in(storage)
    story.tell(listener)
    assert held(close(listener)) == first


def test_milestones_before_tracking_began_are_caught_up(storage: Path, held: Held) -> None:
    listener = listener_in(storage)
    curve = {step: {"direction/accuracy": step / 1e4} for step in MILESTONES}
    settings = {"learning_rate": 0.1}
    listener.trial_ended(
        TrialRecord(id=0, state=TrialState.COMPLETE, settings=settings, curve=curve)
    )
    run = held(close(listener))["trial-0000"]
    assert [step for step, _ in run["points"]["direction/accuracy"]] == list(MILESTONES)
    assert run["params"] == {"learning_rate": "0.1"}


class Flaky:
    """An ``MlflowClient`` of which calls fail at random, half of them after they were done."""

    def __init__(self, client: Any, dice: random.Random) -> None:
        self._client, self._dice = client, dice

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def flaky(*args: Any, **kwargs: Any) -> Any:
            luck = self._dice.random()
            if luck < 0.02:
                raise ConnectionError("the request was lost")
            result = call(*args, **kwargs)
            if luck < 0.04:
                raise TimeoutError("the answer was lost")
            return result

        return flaky


@pytest.mark.parametrize("seed", range(3))
def test_lost_requests_and_lost_answers_change_nothing(
    storage: Path,
    other: Path,
    story: Story,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    import mlflow

    calm = listener_in(storage)
    story.tell(calm)
    wanted = held(close(calm))
    client, dice = mlflow.MlflowClient, random.Random(seed)
    with monkeypatch.context() as patch:
        patch.setattr(mlflow, "MlflowClient", lambda *a, **k: Flaky(client(*a, **k), dice))
        listener = listener_in(other, first_wait=0.001)
        story.tell(listener)
        close(listener)
    found = held(listener.tracking_uri)
    for runs in (wanted, found):
        for run in runs.values():
            del run["id"], run["tags"]["sentune.identity"]
    assert found == wanted


def test_a_run_that_was_deleted_does_not_stop_the_rest(
    storage: Path, story: Story, held: Held
) -> None:
    import mlflow

    listener = listener_in(storage, first_wait=0.001)
    story.start(listener)
    trial = TrialRecord(id=7, state=TrialState.RUNNING, settings={"learning_rate": 0.1})
    listener.trial_started(trial)
    listener.trial_progressed(trial, 1000, {"direction/accuracy": 0.5})
    assert listener._spool.flush(120)
    runs = held(listener.tracking_uri)
    mlflow.MlflowClient(listener.tracking_uri).delete_run(runs["trial-0007"]["id"])
    listener.trial_progressed(trial, 2000, {"direction/accuracy": 0.6})
    trial.state = TrialState.COMPLETE
    listener.trial_ended(trial)
    story.trial(listener, 1)
    runs = held(close(listener))
    check_trial(runs["trial-0001"], 1)
    assert runs["trial-0007"]["status"] == "FINISHED"


def test_limits_names_and_numbers_that_are_none(storage: Path, held: Held) -> None:
    listener = listener_in(storage)
    settings = {f"setting {n}(x)": n for n in range(150)} | {"long": "x" * 7000}
    trial = TrialRecord(id=0, state=TrialState.RUNNING, settings=settings)
    listener.trial_started(trial)
    many = {f"sts/metric {n}": float(n) for n in range(2500)}
    listener.trial_progressed(trial, 1000, many | {"sts/nan": math.nan, "../out": 1.0})
    trial.state, trial.reason = TrialState.FAILED, "y" * 9000
    listener.trial_ended(trial)
    run = held(close(listener))["trial-0000"]
    assert len(run["params"]) == 151
    assert run["params"]["long"].endswith("(7,000 characters)")
    assert len(run["params"]["long"]) == 6000
    assert run["tags"]["sentune.reason"].endswith("(9,000 characters)")
    assert math.isnan(run["points"]["sts/nan"][0][1])
    assert run["points"]["out"] == [(1000, 1.0)]
    assert len([name for name in run["points"] if name.startswith("sts/metric")]) == 2500
    assert not (storage / "little" / "tracking" / "refused.jsonl").exists()


def test_no_credential_leaves(storage: Path, story: Story) -> None:
    listener = listener_in(storage)
    summary = story.summary()
    summary.corpora["corpus"]["spec"] = "parquet:s3://key:hush@bucket/x"
    summary.lineage["command"] = "tune.py --tracking http://ann:hush@host --token hush"
    listener.study_started(summary, {"optuna": "postgresql://ann:hush@db/x"})
    settings = {"encoder": "https://u:hush@hub/x", "list": ["http://u:hush@h"]}
    trial = TrialRecord(id=0, state=TrialState.FAILED, settings=settings)
    trial.reason = "cannot open http://u:hush@h/x?sig=hush"
    listener.trial_ended(trial)
    close(listener)
    files = [path for path in storage.rglob("*") if path.is_file()]
    assert any(path.name == "mlflow.db" for path in files)
    assert [path for path in files if b"hush" in path.read_bytes()] == []


def test_an_odd_call_is_logged_and_harmless(
    storage: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listener_in(storage)
    trial = TrialRecord(id=0, state=TrialState.RUNNING, settings={})
    with caplog.at_level(logging.WARNING, logger="sentune"):
        listener.trial_progressed(trial, 1, {"a": "no number"})  # type: ignore[dict-item]
    assert "trial_progressed" in caplog.text
    assert listener.close(120)


def test_pickles_and_files_that_are_gone_are_refused(
    storage: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (storage / "weights.pkl").write_text("x")
    listener = listener_in(storage)
    listener.artifact(storage / "weights.pkl", "model")
    listener.artifact(storage / "never.json", "")
    close(listener)
    assert "may be a pickle" in caplog.text
    assert "never.json is gone" in caplog.text


def test_a_trial_can_have_artifacts_of_its_own(storage: Path, story: Story, held: Held) -> None:
    listener = listener_in(storage)
    listener.artifact(story.note(), "trials/0003/tables")
    assert held(close(listener))["trial-0003"]["artifacts"] == ["tables"]


def test_a_remote_storage_needs_a_server() -> None:
    with pytest.raises(InvalidValue, match="--tracking"):
        MlflowListener.in_storage("little", "s3://bucket/studies")


def test_nothing_slow_is_imported_before_a_study_starts() -> None:
    code = (
        "import sys, sentune.tracking, sentune.report.figures;"
        "print([m for m in ('mlflow', 'matplotlib', 'sklearn', 'ray', 'optuna') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_is_quiet(tmp_path: Path) -> None:
    code = (
        "import sys; from sentune.records import *; from sentune.tracking import MlflowListener;"
        f"l = MlflowListener.in_storage('little', {str(tmp_path)!r});"
        "l.trial_ended(TrialRecord(id=0, state=TrialState.COMPLETE, settings={'a': 1}));"
        "sys.exit(0 if l.close(120) else 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
