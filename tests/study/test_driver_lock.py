"""One driver per study, whatever happens to it."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import driver_locks
import pytest
from driver_locks import FOREIGN, Clock, still
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import OperationalError

from sentune.errors import InvalidValue, StudyConflict
from sentune.study.store import driver_lock
from sentune.study.store.driver_lock import (
    EXPIRY,
    GRACE,
    Backend,
    DriverLock,
    ask,
    backend_of,
    break_lock,
    standing,
)
from sentune.study.store.driver_process import Driver, ProcessState, Record

SPAWN = multiprocessing.get_context("spawn")
POSTGRES = os.environ.get("SENTUNE_POSTGRES")  # an empty database, as URL for SQLAlchemy


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield POSTGRES or f"sqlite:///{tmp_path / 'study' / 'optuna.db'}"
    if POSTGRES:
        with create_engine(POSTGRES).begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS sentune_drivers")


@contextmanager
def held_by(url: str, driver: Driver) -> Iterator[Backend]:
    """The lock in the hands of another process, which leaves it without releasing it."""
    backend = backend_of(url, "study")
    assert backend is not None
    assert backend.lock()
    backend.begin(driver)
    yield backend
    backend.unlock()


@contextmanager
def process(url: str, *, forks: bool = False) -> Iterator[list[int]]:
    """A process that holds the lock: its number and those of its children; dead at the end."""
    ready = SPAWN.Queue()
    running = SPAWN.Process(
        target=driver_locks.hold, args=(url, "study", ready), kwargs={"forks": forks}
    )
    running.start()
    numbers = ready.get(timeout=300)
    try:
        yield numbers
    finally:
        running.kill()
        running.join()


def kill(pid: int) -> None:
    """Kill a child; it is dead and not collected by its parent afterwards: the harder case."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def replaced(url: str) -> float:
    """Seconds after which this process holds the lock."""
    began = time.monotonic()
    with DriverLock(url, "study", beat=3600):
        seconds = time.monotonic() - began
        holder = standing(url, "study").holder
        assert holder is not None
        assert holder.driver == Driver.current()
    return seconds


def test_of_two_drivers_that_start_at_the_same_moment_exactly_one_wins(url: str):
    rounds, racers = 40, 2
    barrier, won = SPAWN.Barrier(racers), SPAWN.Queue()
    arguments = (url, rounds, barrier, won)
    running = [SPAWN.Process(target=driver_locks.race, args=arguments) for _ in range(racers)]
    for one in running:
        one.start()
    said = [won.get(timeout=300) for _ in range(rounds * racers)]
    for one in running:
        one.join()
    assert [one.exitcode for one in running] == [0, 0]
    assert sorted(number for number in said if number is not None) == list(range(rounds))
    assert standing(url, "raced").holder is None


def test_a_killed_driver_is_replaced_at_once(url: str):
    with process(url) as (pid,):
        with pytest.raises(StudyConflict, match=f"process {pid}, since"):
            DriverLock(url, "study").acquire()
        kill(pid)
        found = standing(url, "study").holder
        assert found is not None
        assert found.gone
        assert ask(url, "study", "stop") is None, "nobody is there to be asked"
        assert replaced(url) < GRACE
    assert standing(url, "study").holder is None


def test_a_suspended_driver_is_never_replaced(url: str):
    with process(url) as (pid,):
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        clock = Clock()
        for _ in range(2):
            with pytest.raises(
                StudyConflict, match=rf"suspended; continue it \(kill -CONT {pid}\) or kill it"
            ):
                still(url, clock).acquire()
            clock.now += 10 * EXPIRY
        holder = standing(url, "study").holder
        assert holder is not None
        assert holder.state is ProcessState.SUSPENDED
        with pytest.raises(StudyConflict, match="suspended"):
            break_lock(url, "study", sleep=clock.sleep)
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
        with pytest.raises(StudyConflict, match="Stop it with: sentune study stop study"):
            still(url, clock).acquire()
        kill(pid)
        assert replaced(url) < GRACE


def test_a_forked_child_of_a_dead_driver_does_not_hold_its_lock(url: str):
    with process(url, forks=True) as (pid, _, child):
        with pytest.raises(StudyConflict, match=f"process {pid}"):
            DriverLock(url, "study").acquire()  # the first child's end has not freed it
        kill(pid)
        assert Path(f"/proc/{child}").exists()
        assert replaced(url) < GRACE
        os.kill(child, signal.SIGKILL)


def test_a_process_number_that_was_given_out_again_is_another_process():
    here = Driver.current()
    assert here.state is ProcessState.RUNNING
    assert replace(here, started="1").state is ProcessState.GONE
    for elsewhere in ({"host": "beta"}, {"boot": "later"}, {"namespace": "pid:[2]"}):
        assert replace(here, started="1", **elsewhere).state is ProcessState.UNKNOWN
    assert Record.of({"driver": here.to_json()}).driver == here
    assert (here.user, here.host, here.pid) == (
        getpass.getuser(),
        socket.gethostname(),
        os.getpid(),
    )


def test_a_free_lock_of_another_machine_is_taken_after_a_while_without_a_beat(url: str):
    with held_by(url, FOREIGN):
        pass
    clock = Clock()
    with still(url, clock):
        assert EXPIRY <= sum(clock.waits) < EXPIRY + 1
        assert standing(url, "study").holder.driver == Driver.current()  # type: ignore[union-attr]


@pytest.mark.parametrize("beats_after", [0.5, 19.0])
def test_a_beat_within_that_time_refuses_the_second_driver(url: str, beats_after: float):
    with held_by(url, FOREIGN) as other:
        pass
    clock = Clock()

    def connects_again() -> None:
        if clock.now - 1000.0 == beats_after and other.lock():
            other.beat(1, 0.0)

    clock.meanwhile = connects_again
    with pytest.raises(StudyConflict) as refused:
        still(url, clock).acquire()
    message = str(refused.value)
    assert "ada on alpha, process 4711, since 20" in message
    assert "sentune study stop study" in message
    assert sum(clock.waits) < EXPIRY
    other.unlock()


def test_a_lock_that_a_dead_machine_holds_is_released_by_hand(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock()
    assert "its lock is free" in break_lock(url, "study")
    with held_by(url, FOREIGN) as other:
        with pytest.raises(StudyConflict, match="process 4711"):
            still(url, clock).acquire()
        assert GRACE <= sum(clock.waits) < GRACE + 1
        clock.meanwhile = lambda: other.beat(1, 0.0)
        with pytest.raises(StudyConflict, match="process 4711"):
            break_lock(url, "study", sleep=clock.sleep)  # its beat moves

        clock.meanwhile = lambda: None
        assert standing(url, "study").holder.state is ProcessState.RUNNING  # type: ignore[union-attr]
        monkeypatch.setattr(driver_lock, "EXPIRY", -1.0)
        assert standing(url, "study").holder.state is ProcessState.UNKNOWN  # type: ignore[union-attr]
        with pytest.raises(StudyConflict, match="sentune study release study"):
            still(url, clock).acquire()
        assert "ada on alpha" in break_lock(url, "study", sleep=clock.sleep)
        with still(url, clock) as lock:
            assert lock.generation == 3, "whoever had the second never has it again"
            assert not other.holds(1)
            assert other.beat(1, 1.0) is None
            assert not lock.lost


def test_a_driver_on_this_machine_keeps_its_lock_from_a_release(url: str):
    with still(url, Clock()), pytest.raises(StudyConflict, match=f"process {os.getpid()}"):
        break_lock(url, "study")


def test_a_signal_arrives_with_the_next_beat_and_only_grows(url: str):
    with still(url, Clock()) as lock:
        assert lock.signal == ""
        for given, then in (("stop", "stop"), ("stop now", "stop now"), ("stop", "stop now")):
            asked = ask(url, "study", given)
            assert asked is not None
            assert asked.driver.pid == os.getpid()
            lock.renew()
            assert lock.signal == then
    assert ask(url, "study", "stop") is None
    assert ask(url, "never-driven", "stop") is None
    with still(url, Clock()) as again:
        again.renew()
        assert again.signal == "", "it was meant for the driver before"


def test_the_thread_brings_the_signal_and_writes_the_hours(url: str):
    with DriverLock(url, "study", beat=0.01) as lock:
        assert ask(url, "study", "stop") is not None
        deadline = time.monotonic() + 300
        while lock.signal != "stop" and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        assert lock.signal == "stop"
        assert standing(url, "study").hours > 0
        assert not lock.lost


def test_a_driver_that_was_overtaken_notices_before_it_writes(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_lock, "ASKED_EVERY", 0.0)
    slept = still(url, Clock()).acquire()
    slept.check()
    slept.backend.break_lock()
    with still(url, Clock()) as lock:
        with pytest.raises(StudyConflict, match=f"process {os.getpid()}"):
            slept.check()
        slept.renew()
        slept.release()
        lock.renew()
        assert not lock.lost_because, "the first one's leaving is not ours"
        assert ask(url, "study", "stop") is not None
    assert slept.lost
    assert not slept.signal


def test_the_lock_is_asked_at_most_once_a_second(url: str, monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr(driver_lock, "_awake", lambda: now)
    with still(url, Clock()) as lock:
        asked: list[int] = []
        monkeypatch.setattr(lock.backend, "holds", lambda given: not asked.append(given))
        for _ in range(20):
            now += 0.1
            lock.check()
        assert asked == [1, 1]
        now += 3600.0  # a suspended machine
        lock.check()
        assert asked == [1, 1, 1]


def test_hours_are_counted_over_all_starts(url: str):
    clock = Clock()
    with still(url, clock) as lock:
        clock.now += 3600.0
        assert lock.hours == pytest.approx(1.0)
    assert lock.hours == pytest.approx(1.0)

    killed = still(url, clock).acquire()
    clock.now += 1800.0
    killed.renew()
    clock.now += 900.0  # since the last beat, lost with the process
    killed.backend.unlock()

    with still(url, clock) as last:
        assert last.hours == pytest.approx(1.5)
    with still(url, clock, counted=False) as tidying:
        clock.now += 3600.0
        tidying.renew()
        assert tidying.hours == pytest.approx(1.5)
        assert tidying.generation == 4
    assert standing(url, "study").hours == pytest.approx(1.5)
    killed._left.set()


class Unreachable:
    """A lock behind a network that fails for a while."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.fails = backend, False

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if self.fails:
                raise OperationalError("UPDATE", {}, Exception("server closed the connection"))
            return getattr(self.backend, name)(*given, **named)

        return call


def test_a_database_that_restarts_costs_nothing_and_is_logged_once(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock()
    monkeypatch.setattr(driver_lock, "_awake", clock)
    lock = still(url, clock)
    backend: Any = Unreachable(lock.backend)
    lock.backend = backend
    with lock:
        backend.fails = True
        for _ in range(9):
            clock.now += 2.0
            lock.renew()
        assert not lock.lost
        assert caplog.text.count("beat failed, trying again") == 1
        backend.fails = False
        lock.renew()
        assert lock.hours == pytest.approx(18 / 3600), "the time without answer counts"

        backend.fails = True
        clock.now += 20.0
        assert lock.lost
        assert "has not answered for 20 s" in lock.lost_because
        backend.fails = False
        assert lock.lost, "another start may have it by now"
    assert not backend.locked(), "nor does this process keep it from one"


@pytest.mark.skipif(not POSTGRES, reason="a file's lock ends with its file")
def test_a_lock_is_free_before_the_server_has_seen_its_session_end(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    holder, other = backend_of(url, "study"), backend_of(url, "study")
    assert holder is not None
    assert other is not None
    assert holder.lock()
    assert not other.lock()
    monkeypatch.setattr(Connection, "close", lambda session: None)
    holder.unlock()
    assert other.lock()
    other.unlock()


def test_locks_of_one_database_do_not_meet(url: str):
    with still(url, Clock(), "one"), still(url, Clock(), "two"):
        for name in ("one", "two"):
            assert standing(url, name).holder is not None
    assert standing(url, "study").holder is None


@pytest.mark.parametrize("other", ["mysql://ann:hunter2@db/optuna", "sqlite://"])
def test_a_database_without_such_a_lock_is_refused(other: str):
    with pytest.raises(InvalidValue, match=r"--optuna: .*postgresql://\.\.\. or sqlite:") as said:
        DriverLock(other, "study")
    assert "hunter2" not in str(said.value)
    assert standing(other, "study").holder is None


def test_looking_leaves_no_trace(url: str, tmp_path: Path):
    assert standing(url, "study").holder is None
    assert ask(url, "study", "stop") is None
    assert list(tmp_path.iterdir()) == []
    if POSTGRES:
        with create_engine(POSTGRES).connect() as connection:
            found = connection.exec_driver_sql("SELECT to_regclass('sentune_drivers')")
            assert found.scalar() is None


def test_a_start_s_number_exceeds_what_the_study_s_folder_knows(url: str):
    """The database may be another one, or the lock's file may have been deleted."""
    with still(url, Clock(), last_start=7) as lock:
        assert lock.generation == 8
        lock.check()
    with still(url, Clock(), last_start=3) as lock:
        assert lock.generation == 9
