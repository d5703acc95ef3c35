"""A study's journal: whole batches or nothing, whatever ends the driver; Optuna reads it too."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.testing.pytest_storages import StorageTestCase
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentune.errors import DamagedFile, InvalidValue, StudyConflict
from sentune.io.atomic import StorageError
from sentune.study.store.journal import StudyJournal
from sentune.study.store.storage import open_storage

MAXIMIZE = [StudyDirection.MAXIMIZE]
WRITER = """
import sys
from optuna.study import StudyDirection
from optuna.trial import TrialState
from sentune.study.store.journal import StudyJournal
journal = StudyJournal(sys.argv[1], driver=True)
if not journal.get_all_studies():
    journal.create_new_study([StudyDirection.MAXIMIZE], "s")
study = journal.get_study_id_from_name("s")
while True:
    with journal.together():
        trial = journal.create_new_trial(study)
        journal.set_trial_user_attr(trial, "pad", "x" * 20_000)  # pages: a kill can land inside
        journal.set_trial_state_values(trial, TrialState.COMPLETE, [1.0])
    print(trial, flush=True)
"""


class TestJournal(StorageTestCase):
    """Optuna's own cases for a storage."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> StudyJournal:
        return StudyJournal(str(tmp_path / "optuna.journal"), driver=True)


class TestDatabase(StorageTestCase):
    """The same for a database, behind what waits for it."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Any:
        return open_storage(f"sqlite:///{tmp_path}/optuna.db", driver=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "optuna.journal")


@pytest.fixture
def journal(path: str) -> StudyJournal:
    """With a study ``s``, whose id is 0."""
    made = StudyJournal(path, driver=True)
    made.create_new_study(MAXIMIZE, "s")
    return made


def trials_in(path: str) -> list[FrozenTrial]:
    """As one finds them who only looks."""
    return StudyJournal(path).get_all_trials(0)


def plainly(path: str) -> list[FrozenTrial]:
    """As Optuna itself reads them."""
    storage = JournalStorage(JournalFileBackend(path))
    return optuna.load_study(study_name="s", storage=storage).trials


def end_one(journal: StudyJournal, **notes: Any) -> None:
    """A trial in one batch."""
    with journal.together():
        trial = journal.create_new_trial(0)
        for name, value in notes.items():
            journal.set_trial_user_attr(trial, name, value)
        journal.set_trial_state_values(trial, TrialState.COMPLETE, [1.0])


def test_a_batch_that_is_torn_at_any_byte_is_not_there_and_writing_goes_on(
    path: str, journal: StudyJournal, tmp_path: Path
) -> None:
    before = Path(path).stat().st_size
    end_one(journal, reason="r")
    whole, torn = Path(path).read_bytes(), str(tmp_path / "torn")
    for size in range(before, len(whole)):
        Path(torn).write_bytes(whole[:size])
        assert trials_in(torn) == []
        assert Path(torn).stat().st_size == size, "who looks changes nothing"
        again = StudyJournal(torn, driver=True)
        assert again.get_all_trials(0) == []
        end_one(again)
        assert len(trials_in(torn)) == len(plainly(torn)) == 1
    assert [trial.user_attrs for trial in trials_in(path)] == [{"reason": "r"}]


def test_a_killed_driver_leaves_whole_batches_and_all_that_it_was_told_of(path: str) -> None:
    for kill in range(5):
        command = [sys.executable, "-c", WRITER, path]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(kill + 1)]
        child.kill()
        told += map(int, child.stdout.read().split())
        child.wait()
        assert len(trials_in(path)) > told[-1]
        for trial in plainly(path):
            assert trial.state is TrialState.COMPLETE
            assert len(trial.user_attrs["pad"]) == 20_000


@pytest.mark.parametrize("fault", ["short", "refused", "unsynced"])
def test_a_full_disk_leaves_nothing_of_a_write(
    path: str, journal: StudyJournal, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    end_one(journal)
    before, write = Path(path).read_bytes(), os.write

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if fault == "unsynced":
            patch.setattr(os, "fsync", full)
        else:
            short = lambda fd, text: write(fd, text[:-7])  # noqa: E731
            patch.setattr(os, "write", full if fault == "refused" else short)
        for attempt in (lambda: end_one(journal), lambda: journal.create_new_trial(0)):
            with pytest.raises(StorageError, match="the disk is full"):
                attempt()
            assert Path(path).read_bytes() == before
            assert len(journal.get_all_trials(0)) == 1, "it is not remembered either"
    end_one(journal)
    assert len(trials_in(path)) == len(plainly(path)) == 2


def test_what_is_done_together_is_known_inside_and_written_whole_or_not_at_all(
    path: str, journal: StudyJournal
) -> None:
    with journal.together():
        trial = journal.create_new_trial(0)
        with journal.together():
            journal.set_trial_user_attr(trial, "a", (1, 2))
        assert journal.get_trial(trial).user_attrs == {"a": [1, 2]}
        assert trials_in(path) == []
    assert journal.get_all_trials(0) == trials_in(path)

    def half() -> None:
        with journal.together():
            journal.set_trial_state_values(trial, TrialState.COMPLETE, [1.0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert [t.state for t in journal.get_all_trials(0)] == [TrialState.RUNNING]
    assert journal.get_all_trials(0) == trials_in(path)


def test_a_thread_that_reads_while_batches_are_written_sees_each_trial_once(
    path: str, journal: StudyJournal
) -> None:
    """MLflow's thread takes snapshots while the driver writes, and while it forgets a batch."""
    seen: list[int] = []
    reading = StudyJournal(path)
    ended, interval = threading.Event(), sys.getswitchinterval()

    def look() -> None:
        while not ended.is_set():
            seen.append(len(reading.get_all_trials(0, deepcopy=False)))

    def interrupted() -> None:
        with journal.together():
            journal.create_new_trial(0)
            raise KeyboardInterrupt

    thread = threading.Thread(target=look)
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        for _ in range(200):
            end_one(journal, pad="x" * 300)
            with suppress(KeyboardInterrupt):
                interrupted()
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert seen == sorted(seen), "a trial was gone again"
    assert len(journal.get_all_trials(0)) == len(trials_in(path)) == 200


@pytest.mark.parametrize("inside", [False, True])
def test_a_note_that_a_dashboard_adds_is_kept(
    path: str, journal: StudyJournal, inside: bool
) -> None:
    dashboard = JournalStorage(JournalFileBackend(path))
    if inside:
        with journal.together():
            journal.create_new_trial(0)
            dashboard.set_study_system_attr(0, "note", "hello")
    else:
        dashboard.set_study_system_attr(0, "note", "hello")
        end_one(journal)
    for _ in range(2):
        assert journal.get_study_system_attrs(0) == {"note": "hello"}
        assert [t.number for t in journal.get_all_trials(0)] == [0]
        journal = StudyJournal(path, driver=True)


def test_a_trial_that_another_process_adds_under_a_batch_is_a_conflict(
    path: str, journal: StudyJournal
) -> None:
    """The batch names its own trial by a number that is the other one's by then."""

    def both() -> None:
        with journal.together():
            journal.create_new_trial(0)
            JournalStorage(JournalFileBackend(path)).create_new_trial(0)

    with pytest.raises(StudyConflict, match="another process has added"):
        both()
    assert len(journal.get_all_trials(0)) == len(plainly(path)) == 1


def test_a_compacted_journal_holds_the_same_in_fewer_bytes(
    path: str, journal: StudyJournal
) -> None:
    journal.create_new_study([StudyDirection.MINIMIZE], "s/finalists")
    journal.set_study_user_attr(0, "attribute", {"a": [1]})
    for number in range(20):
        for study in (0, 1):
            template = create_trial(
                value=float(number), constraints={"c": 0.5}, intermediate_values={100: 0.5}
            )
            trial = journal.create_new_trial(study, None if number % 2 else template)
            if number % 2:
                for seconds in range(10):
                    journal.set_trial_user_attr(trial, "cost", {"seconds": seconds})
    before = [journal.get_all_trials(study) for study in (0, 1)]
    size, looking, plain = Path(path).stat().st_size, StudyJournal(path), plainly(path)
    journal.compact()
    assert Path(path).stat().st_size < size / 2
    assert not list(Path(path).parent.glob("*.partial"))
    for storage in (journal, looking, StudyJournal(path)):
        assert [storage.get_all_trials(study) for study in (0, 1)] == before, "ids too"
        assert storage.get_study_user_attrs(0) == {"attribute": {"a": [1]}}
        assert storage.get_study_directions(1) == [StudyDirection.MINIMIZE]
    assert plainly(path) == plain
    end_one(journal)
    assert len(looking.get_all_trials(0)) == 21, "who looked before goes on with the new file"


def test_a_note_that_a_dashboard_adds_under_a_compaction_is_kept(
    path: str, journal: StudyJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_one(journal)
    dashboard = JournalStorage(JournalFileBackend(path))
    note = threading.Thread(target=dashboard.set_study_system_attr, args=(0, "note", "hello"))
    replace = Path.replace

    def noted(self: Path, target: str) -> Path:
        note.start()
        note.join(0.5)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    journal.compact()
    note.join()
    assert journal.get_study_system_attrs(0) == {"note": "hello"}
    assert [file.name for file in Path(path).parent.iterdir()] == ["optuna.journal"]


@pytest.mark.timeout(60)
def test_a_lock_of_a_dashboard_that_was_killed_before_the_storage_was_moved_is_removed(
    path: str, journal: StudyJournal
) -> None:
    end_one(journal)
    Path(f"{path}.lock").symlink_to("/moved/optuna.journal")
    before = journal.get_all_trials(0)
    journal.compact()
    assert StudyJournal(path).get_all_trials(0) == before
    assert [file.name for file in Path(path).parent.iterdir()] == ["optuna.journal"]


def test_a_journal_is_compacted_on_a_file_system_without_links(
    path: str, journal: StudyJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    for _ in range(9):
        end_one(journal)
    before, size = journal.get_all_trials(0), Path(path).stat().st_size
    monkeypatch.setattr(os, "symlink", refuse)
    journal.compact()
    assert Path(path).stat().st_size < size
    assert StudyJournal(path).get_all_trials(0) == before


def test_a_compaction_that_finds_the_disk_full_changes_nothing(
    path: str, journal: StudyJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_one(journal)
    before = Path(path).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, text: 0)
        journal.compact()
    assert [file.name for file in Path(path).parent.iterdir()] == ["optuna.journal"]
    assert Path(path).read_bytes() == before
    end_one(journal)
    assert len(trials_in(path)) == 2


def test_what_a_driver_writes_that_has_lost_its_lock_is_not_read(path: str) -> None:
    early, late = StudyJournal(path, driver=True), StudyJournal(path, driver=True)
    early.file.generation, late.file.generation = 1, 2
    early.create_new_study(MAXIMIZE, "s")
    early.create_new_trial(0)
    late.create_new_trial(0)
    with pytest.raises(StudyConflict, match="another driver has taken over the study"):
        early.create_new_trial(0)
    line = Path(path).read_bytes().splitlines(keepends=True)[1]
    with Path(path).open("ab") as file:
        file.write(line)  # as if it had been on its way
    late.create_new_trial(0)
    assert len(late.get_all_trials(0)) == len(trials_in(path)) == 3
    late.compact()
    assert len(plainly(path)) == 3


def test_who_looks_makes_no_file_and_writes_none(path: str, journal: StudyJournal) -> None:
    with pytest.raises(InvalidValue, match="no such journal"):
        StudyJournal(f"{path}.other")
    assert not Path(f"{path}.other").exists()
    before = Path(path).read_bytes()
    with pytest.raises(OSError, match="open for reading only"):
        StudyJournal(path).create_new_trial(0)
    assert Path(path).read_bytes() == before


def test_no_flipped_bit_of_a_journal_changes_a_trial(path: str, journal: StudyJournal) -> None:
    """Of the last end of a line alone a flip looks like a line that a kill has torn."""
    end_one(journal)
    end_one(journal)
    text, trials = Path(path).read_bytes(), trials_in(path)
    refused: list[tuple[int, str]] = []
    for place in range(len(text) - 1):
        damaged = bytearray(text)
        damaged[place] ^= 1 << place % 8
        Path(path).write_bytes(damaged)
        line = text[:place].count(b"\n") + 1
        try:
            assert trials_in(path) == trials, damaged
        except DamagedFile as error:
            refused.append((line, str(error)))
    assert len(refused) > 0.9 * len(text)
    assert all(f"optuna.journal:{line}: the line is damaged" in told for line, told in refused)


def test_the_trials_before_a_damaged_line_can_be_kept(path: str, journal: StudyJournal) -> None:
    for _ in range(3):
        end_one(journal)
    lines = Path(path).read_bytes().splitlines(keepends=True)
    damaged = lines[-2].replace(b"op_code", b"op_kode")
    Path(path).write_bytes(b"".join([*lines[:-2], damaged, lines[-1]]))
    with pytest.raises(DamagedFile, match=f":{len(lines) - 1}: .*all later lines: head -n") as told:
        StudyJournal(path, driver=True)
    subprocess.run(str(told.value).rpartition("all later lines: ")[2], shell=True, check=True)
    kept = trials_in(path)
    assert len(kept) == 2
    assert all(trial.state is TrialState.COMPLETE for trial in kept)
    end_one(StudyJournal(path, driver=True))


def test_a_journal_without_checksums_still_reads(path: str, journal: StudyJournal) -> None:
    end_one(journal)
    lines, trials = Path(path).read_bytes().splitlines(), trials_in(path)
    assert all(b',"crc":' in line for line in lines)
    old = [line.rpartition(b',"crc":')[0] + b"}\n" for line in lines]
    Path(path).write_bytes(b"".join(old))
    assert trials_in(path) == trials


def test_a_relative_path_holds_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = StudyJournal("optuna.journal", driver=True)
    journal.create_new_study(MAXIMIZE, "s")
    monkeypatch.chdir("/")
    end_one(journal)
    journal.compact()
    assert len(plainly(str(tmp_path / "optuna.journal"))) == 1
