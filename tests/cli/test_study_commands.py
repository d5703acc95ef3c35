"""``sentune study`` as its users type it."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from optuna.trial import TrialState as State
from rich.console import Console
from typer.testing import CliRunner

from sentune.cli import app, main, study_export, study_screen
from sentune.cli.study import stored_options
from sentune.cli.study_export import write_trials
from sentune.errors import InvalidValue, SentuneError, StudyConflict
from sentune.io.atomic import StorageError
from sentune.job.command import Ended
from sentune.job.options import ClosedFormOptions, JobOptions
from sentune.records import TrialRecord, TrialState
from sentune.study.store.driver_lock import DriverLock
from sentune.study.store.driver_process import Driver
from sentune.study.store.file_lock import LOCK_FILE, FileLock

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
from study_folders import OBJECTIVE, SPACE, make_study, trial_of

FINALS = ((2, 1, 0.31), (2, 2, 0.35))


def told(**options: Any) -> dict[str, Any]:
    """``study.json`` of a job with these options."""
    given = JobOptions(study="toy", trials=30, max_hours=2.0, set=("layers=2",)).model_copy(
        update=options
    )
    return {
        "job": "JobOptions",
        "options": given.model_dump(mode="json"),
        "space": SPACE.to_dict(),
        "command": ["jobs/toy.py"],
        "started": "2026-01-02T03:04:05+00:00",
    }


def run(storage: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    command = ["study", *arguments, "--storage", str(storage)]
    done = CliRunner().invoke(app, command)
    if isinstance(done.exception, SentuneError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def held(storage: Path) -> DriverLock:
    """The lock of the study, in this process."""
    url = str(storage / "toy" / "optuna.journal")
    return DriverLock(url, "toy", beat=0.02)


@pytest.fixture
def tuned(monkeypatch: Any) -> list[tuple[Any, Any]]:
    """What was handed to the job's flow instead of running it."""
    calls: list[tuple[Any, Any]] = []
    replace_job(monkeypatch, lambda *given: calls.append(given))
    return calls


def replace_job(monkeypatch: Any, tune: Callable[..., object]) -> None:
    """Without Ray and MLflow, which the real one imports."""
    monkeypatch.setitem(sys.modules, "sentune.job.run", SimpleNamespace(tune=tune))


def test_ls_lists_every_study(tmp_path: Path):
    make_study(tmp_path, told=told(), summary={"state": "stopped", "reason": ""})
    make_study(tmp_path, "other")
    lines = run(tmp_path, "ls").splitlines()
    assert lines[1].split() == ["other", "interrupted", "4", "100.0", "%", OBJECTIVE, "0.00"]
    assert lines[2].split() == ["toy", "stopped", "4", "of", "30", "100.0", "%", OBJECTIVE, "0.00"]
    (tmp_path / "empty").mkdir()
    assert "no study in" in run(tmp_path / "empty", "ls")


def test_a_study_whose_database_does_not_open_does_not_hide_the_others(tmp_path: Path):
    gone = f"sqlite:///{tmp_path}/gone.db"
    make_study(tmp_path, told=told())
    make_study(tmp_path, "lost", url=gone, told=told(optuna=gone))
    (tmp_path / "gone.db").unlink()
    listed = run(tmp_path, "ls", code=1)
    assert "toy    interrupted" in listed
    assert f"lost: --optuna: '{gone}' cannot be used; there is no such file" in listed
    assert not (tmp_path / "gone.db").exists()


def test_only_studies_are_listed_beside_a_database(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/shared.db"
    make_study(tmp_path, url=url, told=told())
    make_study(tmp_path, "without-description", url=url)
    (tmp_path / "without-description" / "trials").mkdir()
    for other in (".cache", "mlartifacts"):
        (tmp_path / other).mkdir()
    (tmp_path / "mlflow.db").touch()
    lines = run(tmp_path, "ls", "--optuna", url).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["toy", "without-description"]


def test_a_relative_database_counts_from_where_the_study_was_started(
    tmp_path: Path, tuned: Any, monkeypatch: pytest.MonkeyPatch
):
    started, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (started, elsewhere):
        folder.mkdir()
    url = "sqlite:///own.db"
    monkeypatch.chdir(started)
    make_study(tmp_path / "s", url=url, told={**told(optuna=url), "folder": str(started)})
    monkeypatch.chdir(elsewhere)
    assert run(tmp_path / "s", "ls").splitlines()[1].split()[2:5] == ["4", "of", "30"]
    given = "sqlite:///../project/own.db"
    run(tmp_path / "s", "resume", "toy", "--optuna", given, "--tracking", "sqlite:///m.db")
    ((options, _),) = tuned
    assert options.optuna == f"sqlite:///{elsewhere}/../project/own.db"
    assert options.tracking == f"sqlite:///{elsewhere}/m.db"
    assert not [*elsewhere.iterdir()]


def test_show_says_all_of_a_study(tmp_path: Path):
    make_study(tmp_path, told=told(), finals=FINALS, summary={"state": "running"})
    shown = run(tmp_path, "show", "toy")
    for line in (
        "interrupted: its own command or `sentune study resume` continues it",
        "4 of 30 ended: 2 complete, 1 stopped early, 1 failed, 1 unfinished; 1 more of other",
        "100.0 %, trial 5",
        "rate=0.3, pooling=mean  from older/8",
        "0:00 of 2:00:00, 0.23 GPU hours, 4,100 examples",
        "0.4 at 100 examples; too little",
        "the loss is not a number",
        "rate=0.31, pooling=cls",
        "97.0 ± 2.8 %",
    ):
        assert line in shown
    assert "layers" not in shown, "only what is searched"
    assert "and 3 more" in run(tmp_path, "show", "toy", "--rows", "3")


def test_before_a_trial_is_complete_the_best_so_far_is_shown(tmp_path: Path):
    left = tuple(trial_of(rate, state=State.RUNNING, examples=100) for rate in (0.9, 0.4))
    make_study(tmp_path, trials=left)
    assert "45.0 % so far, trial 1, not complete" in run(tmp_path, "show", "toy")
    assert run(tmp_path, "ls").splitlines()[1].split()[2:4] == ["0", "-"]


def test_more_trials_than_were_asked_for_last_are_counted_alone(tmp_path: Path):
    make_study(tmp_path, told=told(trials=2))
    assert run(tmp_path, "ls").splitlines()[1].split()[1:4] == ["interrupted", "4", "100.0"]
    shown = run(tmp_path, "show", "toy")
    assert " 4 ended: 2 complete" in shown
    assert "last start" in shown


def test_show_fits_a_narrow_terminal(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr("sentune.cli.study.screen", lambda: Console(width=80))
    make_study(tmp_path, told=told(), finals=FINALS)
    shown = run(tmp_path, "show", "toy")
    assert max(map(len, shown.splitlines())) <= 80
    assert "trial 4: the loss is not a number" in shown
    assert "from older/8" in shown


def test_show_as_json_has_every_trial(tmp_path: Path):
    make_study(tmp_path, told=told(), finals=FINALS)
    content = json.loads(run(tmp_path, "show", "toy", "--json"))
    assert [trial["id"] for trial in content["trials"]] == [0, 1, 2, 4, 5, 6]
    assert content["best"] == 5
    assert content["finalists"][0]["metrics"][OBJECTIVE]["values"] == pytest.approx([0.99, 0.95])
    assert content["objectives"] == [{"metric": OBJECTIVE, "mode": "max"}]


def test_json_of_a_study_is_json_where_a_metric_is_not_a_number(tmp_path: Path):
    trial = trial_of(0.4)
    trial.user_attrs["milestone:000000000900"]["metrics"]["toy/loss"] = float("nan")
    make_study(tmp_path, told=told(), trials=(trial,))

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    content = json.loads(run(tmp_path, "show", "toy", "--json"), parse_constant=refuse)
    assert [*content["trials"][0]["metrics"]] == [OBJECTIVE]


def test_the_last_line_of_a_watched_study_ends_in_a_file_too(tmp_path: Path):
    make_study(tmp_path, told=told())
    assert run(tmp_path, "show", "toy", "--watch").endswith("\n")


def test_watching_ends_with_the_study(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(study_screen, "SECONDS", 0.01)
    monkeypatch.setattr("sentune.cli.study.screen", lambda: Console(width=100, force_terminal=True))
    make_study(tmp_path, told=told())
    lock = held(tmp_path).acquire()
    drawn: list[str] = []
    inner = study_screen.study_screen

    def screen(*given: Any) -> Any:
        drawn.append(given[0].state)
        if len(drawn) == 2:
            lock.release()
        return inner(*given)

    monkeypatch.setattr(study_screen, "study_screen", screen)
    shown = run(tmp_path, "show", "toy", "--watch")
    assert drawn == ["running", "running", "interrupted"]
    assert "Ctrl-C closes this view; the study goes on" in shown


def test_stop_waits_until_the_driver_has_left(tmp_path: Path):
    tmp_path /= "all studies"
    make_study(tmp_path, told=told())
    lock = held(tmp_path).acquire()
    seen: list[str] = []

    def drive() -> None:
        while not lock.signal:
            threading.Event().wait(0.01)
        seen.append(lock.signal)
        (tmp_path / "toy" / "summary.json").write_text(
            json.dumps({"state": "stopped", "reason": "by request"})
        )
        lock.release()

    driver = threading.Thread(target=drive)
    driver.start()
    said = run(tmp_path, "stop", "toy", "--now")
    driver.join()
    assert seen == ["stop now"]
    assert "to stop toy at once" in said
    assert "toy is stopped (by request); trials that have ended: 4" in said
    assert f"sentune study resume toy --storage '{tmp_path}'\n" in said
    assert "toy has no driver: it is stopped" in run(tmp_path, "stop", "toy")


def test_a_lock_is_released_where_the_driver_is_not_alive_here(tmp_path: Path):
    folder = make_study(tmp_path, told=told())
    assert "its lock is free" in run(tmp_path, "release", "toy")
    with held(tmp_path), pytest.raises(StudyConflict, match=f"process {os.getpid()}"):
        run(tmp_path, "release", "toy", "--yes")
    other = FileLock(folder / LOCK_FILE)
    assert other.lock()
    generation = other.begin(replace(Driver.current(), started="1")).generation
    refused = CliRunner().invoke(
        app, ["study", "release", "toy", "--storage", str(tmp_path)], input="n\n"
    )
    assert refused.exit_code == 1
    assert other.holds(generation)
    assert f"it was held by {Driver.current()}" in run(tmp_path, "release", "toy", "--yes")
    assert not other.holds(generation)
    other.unlock()


def test_resume_runs_the_stored_options_with_another_budget(tmp_path: Path, tuned: Any):
    moved = tmp_path / "moved"
    make_study(moved, told=told(storage="elsewhere"))
    run(moved, "resume", "toy", "--max-hours", "5", "--trials", "40", "--concurrent", "auto")
    ((options, space),) = tuned
    assert isinstance(options, JobOptions)
    assert (options.max_hours, options.trials, options.concurrent) == (5.0, 40, None)
    assert (options.study, options.storage, options.set) == ("toy", str(moved), ("layers=2",))
    assert space == SPACE


@pytest.mark.parametrize(
    ("ends", "code"), [(Ended(3, "stopped: 2 hours"), 3), (KeyboardInterrupt(), 130)]
)
def test_resume_ends_as_the_job_does(tmp_path: Path, monkeypatch: Any, ends: Any, code: int):
    def ending(*given: Any) -> None:
        raise ends

    replace_job(monkeypatch, ending)
    make_study(tmp_path, told=told())
    run(tmp_path, "resume", "toy", code=code)


def test_relative_paths_count_from_where_the_study_was_started(tmp_path: Path, monkeypatch: Any):
    here: list[Path] = []
    replace_job(monkeypatch, lambda *given: here.append(Path.cwd()))
    started = tmp_path / "project"
    started.mkdir()
    make_study(tmp_path, told={**told(), "folder": str(started)})
    before = Path.cwd()
    run(tmp_path, "resume", "toy")
    assert (here, Path.cwd()) == ([started], before)
    started.rmdir()
    assert f"{started} is not on this machine" in run(tmp_path, "resume", "toy")


@pytest.mark.parametrize("arguments", [("resume", "toy"), ("fork", "toy", "new")])
def test_a_class_beside_the_command_is_found_again(
    tmp_path: Path, monkeypatch: Any, arguments: tuple[str, ...]
):
    (tmp_path / "task_beside_the_command.py").write_text("class Match: ...\n")
    make_study(tmp_path, told={**told(), "folder": str(tmp_path)})
    found: list[Any] = []
    replace_job(monkeypatch, lambda *given: found.append(import_module("task_beside_the_command")))
    monkeypatch.setattr(sys, "path", [*sys.path])
    run(tmp_path, *arguments)
    monkeypatch.delitem(sys.modules, "task_beside_the_command")
    assert found[0].Match


def test_fork_replaces_settings_and_names_the_old_study(tmp_path: Path, tuned: Any):
    make_study(tmp_path, told=told(set=("layers=2", "rate=0.1..0.9")))
    run(tmp_path, "fork", "toy", "new", "--set", "rate=0.2..0.4", "--trials", "5", "--seed", "3")
    ((options, _),) = tuned
    assert options.set == ("layers=2", "rate=0.2..0.4")
    assert (options.study, options.fork, options.trials, options.seed) == ("toy", "new", 5, 3)


def test_points_that_a_grid_has_ignored_are_left_out(tmp_path: Path, tuned: Any):
    make_study(tmp_path, told=told(sampler="grid:table-1", try_first=("rate=0.5",)))
    run(tmp_path, "resume", "toy")
    assert [options.try_first for options, _ in tuned] == [()]


def test_a_fork_of_a_fork_needs_no_study_that_is_gone(tmp_path: Path, tuned: Any):
    make_study(tmp_path, "alive")
    make_study(tmp_path, told=told(warm_start=("gone", "alive")))
    said = run(tmp_path, "fork", "toy", "new")
    assert "trials of study gone are not taken over, because it is gone" in said
    run(tmp_path, "resume", "toy")
    assert [options.warm_start for options, _ in tuned] == [("alive",), ("gone", "alive")]


@pytest.mark.parametrize("arguments", [("resume", "toy"), ("fork", "toy", "new")])
def test_a_dry_run_is_one_of_the_job(tmp_path: Path, tuned: Any, arguments: tuple[str, ...]):
    make_study(tmp_path, told=told())
    run(tmp_path, *arguments)
    run(tmp_path, *arguments, "--dry-run")
    assert [options.dry_run for options, _ in tuned] == [False, True]


@pytest.mark.parametrize("arguments", [("resume", "toy"), ("fork", "toy", "new")])
def test_the_database_is_the_one_that_is_given_else_the_stored_one(
    tmp_path: Path, tuned: Any, arguments: tuple[str, ...]
):
    stored, given = (f"sqlite:///{tmp_path}/{name}.db" for name in ("stored", "given"))
    make_study(tmp_path, url=stored, told=told(optuna=stored))
    shutil.copy(tmp_path / "stored.db", tmp_path / "given.db")
    run(tmp_path, *arguments)
    run(tmp_path, *arguments, "--optuna", given)
    assert [options.optuna for options, _ in tuned] == [stored, given]


def test_every_kind_of_job_comes_back_as_it_was_written():
    for options in (
        ClosedFormOptions(study="toy", corpus="a:b", dev=("c:d",), vectors=("glove:x", "glove:y")),
        JobOptions(study="toy", workers=(1, 4), concurrent=2, gpus_per_worker=0.5),
    ):
        place = Stored(options)
        assert stored_options(place) == options  # type: ignore[arg-type]


class Stored:
    """A place whose description is that of a job."""

    name, folder, trouble = "toy", "studies/toy", ""

    def __init__(self, options: Any) -> None:
        content = {**told(), "job": type(options).__name__}
        self.description = json.loads(
            json.dumps({**content, "options": options.model_dump(mode="json")})
        )


def test_export_writes_the_same_rows_in_every_format(tmp_path: Path):
    make_study(tmp_path)
    for ending in ("csv", "json", "parquet"):
        out = tmp_path / f"trials.{ending}"
        assert "6 trials" in run(tmp_path, "export", "toy", "--out", str(out), "--curves")
    with (tmp_path / "trials.csv").open(newline="") as file:
        from_csv = list(csv.DictReader(file))
    from_json = json.loads((tmp_path / "trials.json").read_text())
    from_parquet = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    assert len(from_csv) == len(from_json) == len(from_parquet) == 6
    for text, row, typed in zip(from_csv, from_json, from_parquet, strict=True):
        assert {name: value for name, value in typed.items() if value is not None} == row
        assert {name: str(value) for name, value in row.items()} == {
            name: value for name, value in text.items() if name in row
        }
    assert from_json[2]["settings.pooling"] == "cls"
    assert from_json[2][f"metrics.{OBJECTIVE}"] == pytest.approx(0.99)
    assert json.loads(from_json[1]["curve"]) == {"100": {OBJECTIVE: 0.4, "toy/loss": 0.6}}
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_export_to_a_full_disk_names_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    make_study(tmp_path)
    monkeypatch.setitem(study_export._WRITERS, ".csv", full)
    with pytest.raises(StorageError, match=r"the disk is full.* or give another --out"):
        run(tmp_path, "export", "toy", "--out", str(tmp_path / "trials.csv"))


def test_export_to_a_database_that_cannot_be_opened_names_out(tmp_path: Path):
    make_study(tmp_path)
    with pytest.raises(InvalidValue, match=r"^--out: 'sqlite.*cannot be opened"):
        run(tmp_path, "export", "toy", "--out", f"sqlite:///{tmp_path}")


def test_gc_names_what_a_killed_driver_left_before_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch, other = (tmp_path / f"sentune-tune-999999999-{name}-a" for name in ("toy", "other"))
    other.mkdir()
    scratch.mkdir()
    (scratch / "state").write_bytes(b"x" * 2500)
    make_study(tmp_path, told=told())
    for options, stays in ((["--dry-run"], True), ([], False)):
        said = run(tmp_path, "gc", "toy", *options)
        assert f"{scratch}: temporary files of a killed driver, 2.5 kB\n2.5 kB" in said
        assert scratch.exists() is stays
    assert other.exists()
    assert f"{other}: temporary files" in run(tmp_path, "gc", "--all")


def test_gc_says_what_went_and_leaves_a_driven_study_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = make_study(tmp_path, told=told())
    waste = folder / "trials" / "0001" / ".partial-x"
    waste.mkdir(parents=True)
    (waste / "weights").write_bytes(b"x" * 2_000_000)
    assert "2.0 MB could be freed" in run(tmp_path, "gc", "toy", "--dry-run")
    with held(tmp_path):
        assert "toy: skipped, it is driven by" in run(tmp_path, "gc", "--all")
    assert waste.exists()
    said = run(tmp_path, "gc", "--all")
    assert "toy: written in part: 1, 2.0 MB" in said
    assert "2.0 MB freed" in said
    assert not waste.exists()


def test_lists_and_tables_are_json_in_every_cell(tmp_path: Path):
    record = TrialRecord(id=0, state=TrialState.COMPLETE, settings={"sizes": [1, 2], "by": "a"})
    out = tmp_path / "trials.csv"
    assert write_trials([record], str(out), curves=False) == 1
    with out.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["settings.sizes"]) == [1, 2]
    assert row["settings.by"] == "a"


def test_json_has_null_for_what_is_not_a_number(tmp_path: Path):
    values = {"a": float("nan"), "b": float("inf"), "c": 0.5}
    record = TrialRecord(id=0, state=TrialState.FAILED, settings={"s": [1.0]}, metrics=values)
    out = tmp_path / "trials.json"
    assert write_trials([record], str(out), curves=False) == 1

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    (row,) = json.loads(out.read_text(), parse_constant=refuse)
    assert [row[f"metrics.{name}"] for name in "abc"] == [None, None, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "../toy"), r"STUDY: '../toy' .* no path"),
        (("show", "nothing"), r"the studies in .* are: toy"),
        (("fork", "toy", "a/b"), r"NEW: 'a/b' .* no path"),
        (("resume", "toy"), r"STUDY: 'toy' .* no study.json; run the command that started it"),
        (("export", "toy", "--out", "x.txt"), r"--out: 'x.txt' .* in .csv, .json"),
        (("export", "toy", "--out", "no/where.csv"), r"--out: .* its folder does not exist"),
        (("gc",), r"STUDY: missing; give the name of a study, or --all"),
        (("gc", "toy", "--all"), r"give the name of a study, or --all"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], message: str):
    make_study(tmp_path)
    with pytest.raises(InvalidValue, match=message):
        run(tmp_path, *arguments)


def test_what_a_user_did_wrong_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: Any, capsys: Any
):
    command = ["sentune", "study", "ls", "--storage", str(tmp_path / "no")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("sentune: --storage: ")
    assert len(error.splitlines()) == 1
