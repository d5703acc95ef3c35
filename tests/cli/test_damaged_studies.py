"""Studies with a damaged file, as the commands of a user show them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentune.cli import app
from sentune.errors import DamagedFile, InvalidValue, SentuneError
from sentune.study.planning.checks import check_database
from sentune.study.store.storage import open_storage
from tests.cli.test_study_commands import FINALS, told
from tests.study.study_folders import make_study

PAGE = 4096
SUMMARIES = {
    "half": b'{"state": "comple',
    "no UTF-8": b'{"state": "complete", "reason": "\xff"}',
    "no object": b"[]",
    "empty": b"",
    "other types": b'{"state": ["complete"]}',
}


def printed(*command: str) -> tuple[int, str]:
    """Exit code and output; what is no sentence of ours ends the test."""
    done = CliRunner().invoke(app, list(command))
    if isinstance(done.exception, SentuneError):
        return 2, " ".join(str(done.exception).split())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("content", SUMMARIES.values(), ids=list(SUMMARIES))
def test_every_reader_goes_on_without_a_damaged_summary(content: bytes, tmp_path: Path) -> None:
    folder = make_study(tmp_path, told=told(), finals=FINALS)
    (folder / "summary.json").write_bytes(content)
    at = ("--storage", str(tmp_path))
    code, shown = printed("study", "show", "toy", *at)
    assert code == 0
    assert "summary.json is damaged" in " ".join(shown.split())
    assert "writes it again" in " ".join(shown.split())
    for command in (
        ("study", "ls"),
        ("study", "show", "toy", "--json"),
        ("study", "export", "toy", "--out", str(tmp_path / "trials.csv")),
        ("study", "gc", "toy", "--dry-run"),
    ):
        code, shown = printed(*command, *at)
        assert code == 0, shown
    assert (folder / "summary.json").read_bytes() == content, "who looks changes nothing"


def test_a_report_is_made_from_the_store_where_the_summary_is_damaged(tmp_path: Path) -> None:
    folder = make_study(tmp_path, told=told(), finals=FINALS)
    (folder / "summary.json").write_bytes(SUMMARIES["half"])
    code, shown = printed("report", "toy", "--storage", str(tmp_path))
    assert code == 0, shown
    assert "97.0" in (folder / "report.md").read_text()


@pytest.mark.parametrize("text", ["{", "[3]", '[{"run": "0001"}]'])
def test_damaged_readings_are_named_unless_the_summary_has_them(text: str, tmp_path: Path) -> None:
    folder = make_study(tmp_path, told=told())
    (folder / "test_reads.json").write_text(text)
    at = ("--storage", str(tmp_path))
    code, shown = printed("study", "show", "toy", "--json", *at)
    assert code == 0
    assert "test_reads.json: it is damaged" in json.loads(shown)["reason"]
    kept = [{"run": "0001", "test": [], "time": "2026-01-02T03:04:05+00:00", "forced": False}]
    (folder / "summary.json").write_text(json.dumps({"state": "stopped", "test_reads": kept}))
    _, shown = printed("study", "show", "toy", "--json", *at)
    assert json.loads(shown)["reason"] == ""


def damaged_line(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = lines[middle][:10] + b"\x01" + lines[middle][11:]
    file.write_bytes(b"".join(lines))


COMMANDS = (("show", "toy"), ("export", "toy", "--out", "x.csv"), ("gc", "toy"), ("resume", "toy"))


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_damaged_journal_is_one_sentence_with_file_line_and_fix(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    journal = make_study(tmp_path, told=told()) / "optuna.journal"
    damaged_line(journal)
    before = journal.read_bytes()
    code, shown = printed("study", *command, "--storage", str(tmp_path))
    assert code == 2
    line = before.count(b"\n") // 2 + 1
    assert f"{journal}:{line}: the line is damaged" in shown
    assert "from a copy" in shown
    assert journal.read_bytes() == before


def test_the_command_that_gives_up_what_is_damaged_holds_as_it_is_printed(tmp_path: Path) -> None:
    storage = tmp_path / "all studies"
    damaged_line(make_study(storage, told=told()) / "optuna.journal")
    show = ("study", "show", "toy", "--storage", str(storage))
    code, shown = printed(*show)
    assert code == 2
    subprocess.run(shown[shown.index("head -n") :], shell=True, check=True)
    assert printed(*show)[0] == 0


def test_a_damaged_study_does_not_hide_the_others(tmp_path: Path) -> None:
    make_study(tmp_path, "other", told=told())
    journal = make_study(tmp_path, told=told()) / "optuna.journal"
    damaged_line(journal)
    code, shown = printed("study", "ls", "--storage", str(tmp_path))
    assert code == 1
    assert "interrupted" in shown
    assert f"toy: {journal}:" in "".join(shown.splitlines())


@pytest.mark.parametrize("content", ['{"options": null}', '{"options": []}', "[]", "{"])
def test_a_damaged_description_does_not_hide_the_others(content: str, tmp_path: Path) -> None:
    make_study(tmp_path, "other", told=told())
    (make_study(tmp_path, told=told()) / "study.json").write_text(content)
    code, shown = printed("study", "ls", "--storage", str(tmp_path))
    assert code == 0
    assert [line.split()[:2] for line in shown.splitlines()[1:]] == [
        ["other", "interrupted"],
        ["toy", "interrupted"],
    ]


@pytest.mark.parametrize("key", ["job", "options", "space"])
def test_a_description_that_lacks_a_part_resumes_nothing(key: str, tmp_path: Path) -> None:
    whole = {"job": "TripletJob", "options": {}, "space": {}}
    lacking = json.dumps({name: value for name, value in whole.items() if name != key})
    (make_study(tmp_path, told=told()) / "study.json").write_text(lacking)
    for command in (["resume", "toy"], ["fork", "toy", "new"]):
        done = CliRunner().invoke(app, ["study", *command, "--storage", str(tmp_path)])
        assert isinstance(done.exception, InvalidValue)
        assert f"its study.json lacks {key}; run the command" in str(done.exception)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: 2 * PAGE + 100])


def pages(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for page in range(1, len(content) // PAGE):
        content[page * PAGE : page * PAGE + 64] = b"\xa5" * 64
    file.write_bytes(content)


def garbage(file: Path) -> None:
    file.write_bytes(b"not what SQLite writes" * 1000)


def start(url: str) -> None:
    """Open a study's database as a driver does."""
    check_database(url)
    storage = open_storage(url, driver=True)
    storage.get_all_trials(storage.get_study_id_from_name("toy"))


@pytest.mark.parametrize("harm", [truncated, pages, garbage])
def test_a_damaged_database_is_one_sentence_with_file_and_fix(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    file = tmp_path / "optuna.db"
    url = f"sqlite:///{file}"
    make_study(tmp_path, told=told(), url=url)
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    harm(file)
    for command in (("show", "toy"), ("export", "toy", "--out", "x.csv")):
        at = ("--storage", str(tmp_path), "--optuna", url)
        code, shown = printed("study", *command, *at)
        assert code == 2
        assert f"{file}: the database is damaged (" in shown
        assert "from a copy" in shown
    code, shown = printed("study", "ls", "--storage", str(tmp_path), "--optuna", url)
    assert code == 1
    assert "the database is damaged" in " ".join(shown.split())
    with pytest.raises(SentuneError, match=r"optuna\.db.*from a copy"):
        start(url)


@pytest.mark.parametrize(
    ("table", "column", "stored", "flipped"),
    [
        ("trial_user_attributes", "value_json", '"settings"', '"settings'),
        ("trial_params", "distribution_json", "FloatDistribution", "FloqtDistribution"),
        ("trial_intermediate_values", "intermediate_value_type", "FINITE", "FINItE"),
        ("trial_user_attributes", "key", "milestone:0", "milestone:x"),
    ],
)
def test_a_flipped_bit_in_a_stored_text_is_one_sentence(
    table: str, column: str, stored: str, flipped: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/optuna.db"
    make_study(tmp_path, told=told(), url=url)
    with closing(sqlite3.connect(tmp_path / "optuna.db")) as database:
        if column == "value_json":
            database.execute(f"UPDATE {table} SET value_json = substr(value_json, 2)")
        else:
            database.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (stored, flipped)
            )
        database.commit()
    code, shown = printed("study", "show", "toy", "--storage", str(tmp_path), "--optuna", url)
    assert code == 2
    assert "optuna.db: " in shown
    assert "from a copy" in shown


def test_damage_is_no_lock(tmp_path: Path) -> None:
    """What another process writes at the moment is not called damaged."""
    url = f"sqlite:///{tmp_path}/optuna.db"
    make_study(tmp_path, told=told(), url=url)
    with closing(sqlite3.connect(tmp_path / "optuna.db")) as database:
        database.execute("BEGIN IMMEDIATE")
        assert printed("study", "show", "toy", "--storage", str(tmp_path), "--optuna", url)[0] == 0
    assert issubclass(DamagedFile, SentuneError)
