"""A driver's lock in a file: where it lies, and what happens to the file."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path

import pytest
from driver_locks import FOREIGN, Clock, still

from sentune.errors import InvalidValue, Overtaken
from sentune.study.store import driver_lock, file_lock
from sentune.study.store.driver_lock import EXPIRY, DriverLock, standing
from sentune.study.store.driver_process import Driver
from sentune.study.store.file_lock import LOCK_FILE


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study' / 'optuna.db'}"


def test_a_study_has_its_lock_in_its_folder_and_a_shared_file_one_for_each(tmp_path: Path):
    shared = f"sqlite:///{tmp_path}/all.db"
    for url, study, place in (
        (f"sqlite:///{tmp_path}/toy/optuna.db", "toy", f"toy/{LOCK_FILE}"),
        (f"{tmp_path}/toy/journal.log", "toy", f"toy/{LOCK_FILE}"),
        (shared, "toy", "all.db.toy.lock"),
        (shared, "a/b", "all.db.a%2Fb.lock"),
    ):
        with still(url, Clock(), study):
            assert (tmp_path / place).is_file()


@pytest.mark.parametrize("way", ["unlink", "break_lock"])
def test_a_lock_file_that_goes_is_a_lock_that_is_lost(
    url: str, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_lock, "ASKED_EVERY", 0.0)
    with still(url, Clock()) as lock:
        if way == "unlink":
            (tmp_path / "study" / LOCK_FILE).unlink()
        else:
            lock.backend.break_lock()
        assert lock.lost
        assert "sentune study release" in lock.lost_because


def test_where_the_file_system_does_not_lock_a_later_start_ends_the_earlier_driver(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    """Another machine's network disk: both can take the lock, and the first one is suspended."""
    monkeypatch.setattr(driver_lock, "ASKED_EVERY", 0.0)
    monkeypatch.setattr(file_lock.fcntl, "flock", lambda *given: None)
    clock = Clock()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Driver, "current", classmethod(lambda cls: FOREIGN))
        first = still(url, clock).acquire()
    first.check()
    with still(url, clock) as second:
        assert sum(clock.waits) >= EXPIRY, "its beat was waited for"
        with pytest.raises(Overtaken, match=f"process {os.getpid()}, since"):
            first.check()
        first.renew()
        first.release()
        assert standing(url, "study").holder.generation == second.generation == 2  # type: ignore[union-attr]
        second.check()


def test_a_request_that_is_being_written_does_not_cost_the_lock(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_lock, "ASKED_EVERY", 0.0)
    with still(url, Clock()) as lock:
        with (tmp_path / "study" / LOCK_FILE).open("r+b") as file:
            file.seek(file_lock.SLOT)
            file.write(b'{"generation": 1, "sig')
        lock.check()
        lock.renew()
        assert not lock.lost


def test_after_a_record_that_a_power_cut_has_torn_the_generation_still_grows(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR)
    for _ in range(3):
        with still(url, Clock()) as lock:
            pass
    assert lock.generation == 3
    with (tmp_path / "study" / LOCK_FILE).open("r+b") as file:
        file.write(b'{"generation": 3, "dri\0\0\0')
    with still(url, Clock()) as lock:
        assert lock.generation > 3


def test_fields_that_only_a_newer_version_knows_are_left_out(url: str, tmp_path: Path):
    place = tmp_path / "study" / LOCK_FILE
    with still(url, Clock()):
        record = json.loads(place.read_bytes()[: file_lock.SLOT])
        driver = {**json.loads(record["driver"]), "cgroup": "a"}
        record |= {"driver": json.dumps(driver), "colour": "green"}
        with place.open("r+b") as file:
            file.write(json.dumps(record).ljust(file_lock.SLOT).encode())
        assert standing(url, "study").holder.driver == Driver.current()  # type: ignore[union-attr]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "study").write_text("a file")
    with pytest.raises(InvalidValue, match=r"--storage: .*study.* cannot be written there"):
        DriverLock(f"{tmp_path}/study/optuna.db", "study").acquire()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(file_lock.fcntl, "flock", refuse)
    with pytest.raises(InvalidValue, match=r"--storage: .*study.*No locks available"):
        DriverLock(f"{tmp_path}/study/optuna.journal", "study").acquire()
