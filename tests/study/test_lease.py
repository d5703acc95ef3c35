"""One driver per study, whatever happens to it."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lease_racers
import optuna
import pytest
from sqlalchemy.exc import OperationalError

from sentune.errors import InvalidValue, StudyConflict
from sentune.study.store.driver import Driver
from sentune.study.store.driver_lock import Lease, ask
from sentune.study.store.holders import holder, standing, standings
from sentune.study.store.lease_table import LeaseTable
from sentune.study.store.storage import open_storage

SPAWN = multiprocessing.get_context("spawn")
FOREIGN = Driver(
    user="ada", host="alpha", pid=4711, started="1", boot="another boot", namespace="pid:[1]"
)


@dataclass
class Clock:
    """Time that passes only where somebody waits; each wait may do something first."""

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.meanwhile()
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def url(tmp_path: Path) -> str:
    named = os.environ.get("SENTUNE_POSTGRES")  # an empty database, as URL for SQLAlchemy
    return named or f"sqlite:///{tmp_path / 'optuna.db'}"


@pytest.fixture
def storage(url: str) -> Iterator[optuna.storages.BaseStorage]:
    opened = open_storage(url)
    table = LeaseTable.of(opened)
    yield opened
    with table.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS sentune_leases")


def still(storage: Any, clock: Clock, study: str = "study", **given: Any) -> Lease:
    """A lease whose thread sleeps: what it does, the test asks for."""
    return Lease(storage, study, beat=2000.0, clock=clock, sleep=clock.sleep, **given)


def held_by(storage: Any, driver: Driver, study: str = "study") -> str:
    """A lease in the hands of another process; its token."""
    table = LeaseTable.of(storage)
    table.prepare(study)
    seen = table.read(study)
    assert seen is not None
    assert table.take(study, seen, "another", driver.to_json()) is not None
    return "another"


def test_of_two_drivers_that_start_at_the_same_moment_exactly_one_wins(url: str, storage: Any):
    rounds, racers = 40, 2
    barrier, won = SPAWN.Barrier(racers), SPAWN.Queue()
    arguments = (url, rounds, barrier, won)
    running = [SPAWN.Process(target=lease_racers.race, args=arguments) for _ in range(racers)]
    for process in running:
        process.start()
    said = [won.get(timeout=300) for _ in range(rounds * racers)]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0]
    assert sorted(number for number in said if number is not None) == list(range(rounds))
    assert standing(storage, "raced").holder is None


def test_a_killed_driver_is_taken_over_at_once(url: str, storage: Any):
    ready = SPAWN.Queue()
    process = SPAWN.Process(target=lease_racers.hold, args=(url, "study", ready))
    process.start()
    driver = Driver.from_json(ready.get(timeout=300))
    assert driver.pid == process.pid
    with pytest.raises(StudyConflict, match=f"process {process.pid}, since"):
        Lease(storage, "study", beat=0.02, expiry=300).acquire()

    os.kill(driver.pid, signal.SIGKILL)
    # dead and not collected yet by its parent: the harder case
    os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)
    found = holder(storage, "study")
    assert found is not None
    assert found.gone
    assert ask(storage, "study", "stop") is None, "nobody is there to be asked"
    clock = Clock()
    with still(storage, clock):
        assert clock.waits == []
        assert holder(storage, "study").driver == Driver.current()  # type: ignore[union-attr]
    process.join()
    assert holder(storage, "study") is None


def test_a_process_number_that_was_given_out_again_is_another_process():
    here = Driver.current()
    assert not here.dead
    assert replace(here, started="1").dead
    for elsewhere in ({"host": "beta"}, {"boot": "later"}, {"namespace": "pid:[2]"}):
        assert not replace(here, started="1", **elsewhere).dead, "nothing is known of it"
    assert Driver.from_json(here.to_json()) == here
    assert (here.user, here.host, here.pid) == (
        getpass.getuser(),
        socket.gethostname(),
        os.getpid(),
    )


def test_another_machines_lease_expires_by_the_clock_of_who_looks(storage: Any):
    held_by(storage, FOREIGN)
    clock = Clock()
    with Lease(storage, "study", beat=2.0, expiry=20.0, clock=clock, sleep=clock.sleep):
        assert sum(clock.waits) == pytest.approx(20.0)
        assert holder(storage, "study").driver == Driver.current()  # type: ignore[union-attr]


@pytest.mark.parametrize("beats_after", [0.5, 19.0])
def test_a_beat_within_that_time_refuses_the_second_driver(storage: Any, beats_after: float):
    token, clock = held_by(storage, FOREIGN), Clock()

    def meanwhile() -> None:
        if clock.now - 1000.0 == beats_after:
            LeaseTable.of(storage).renew("study", token, 0.0)

    clock.meanwhile = meanwhile
    with pytest.raises(StudyConflict) as refused:
        Lease(storage, "study", beat=2.0, expiry=20.0, clock=clock, sleep=clock.sleep).acquire()
    message = str(refused.value)
    assert "ada on alpha, process 4711, since 20" in message
    assert "sentune study stop study" in message
    assert "20 s after its last beat" in message
    assert sum(clock.waits) < 20.0


def test_a_wish_arrives_with_the_next_beat_and_only_grows(storage: Any):
    with still(storage, Clock()) as lease:
        assert lease.wish == ""
        for wish, then in (("stop", "stop"), ("stop now", "stop now"), ("stop", "stop now")):
            asked = ask(storage, "study", wish)
            assert asked is not None
            assert asked.driver.pid == os.getpid()
            lease.renew()
            assert lease.wish == then
    assert ask(storage, "study", "stop") is None
    assert ask(storage, "never driven", "stop") is None
    with still(storage, Clock()) as again:
        again.renew()
        assert again.wish == "", "it was meant for the driver before"


def test_the_thread_brings_the_wish(storage: Any):
    with Lease(storage, "study", beat=0.01) as lease:
        ask(storage, "study", "stop")
        waiting = threading.Event()
        while lease.wish != "stop":
            waiting.wait(0.01)


def test_a_driver_that_slept_too_long_notices_that_it_was_replaced(storage: Any):
    first, second = Clock(), Clock()
    slept = still(storage, first, expiry=20.0).acquire()
    with still(storage, second, expiry=20.0) as lease:
        assert sum(second.waits) >= 20.0
        assert not slept.lost, "by its own clock nothing has happened yet"
        first.now += 20.0
        assert slept.lost
        assert f"process {os.getpid()}" in slept.lost_because
        slept.release()
        lease.renew()
        assert not lease.lost_because, "the first one's leaving is not ours"
    slept.renew()
    assert slept.lost


def test_a_driver_that_slept_and_was_not_replaced_goes_on(storage: Any):
    clock = Clock()
    with still(storage, clock) as lease:
        clock.now += 500.0
        assert not lease.lost
        assert holder(storage, "study") is not None


def test_hours_are_counted_over_all_starts(storage: Any):
    clock = Clock()
    with still(storage, clock) as lease:
        clock.now += 3600.0
        assert lease.hours == pytest.approx(1.0)
    assert lease.hours == pytest.approx(1.0)

    killed = still(storage, clock).acquire()
    clock.now += 1800.0
    killed.renew()
    clock.now += 900.0  # since the last beat, lost with the process
    killed._left.set()

    with still(storage, clock, expiry=20.0) as last:
        assert last.hours == pytest.approx(1.5)
    with still(storage, clock, counted=False) as tidying:
        clock.now += 3600.0
        tidying.renew()
        assert tidying.hours == pytest.approx(1.5)
    assert standings(storage)["study"].hours == pytest.approx(1.5)


class Unreachable:
    """A table behind a network that fails for a while."""

    def __init__(self, table: LeaseTable) -> None:
        self.table, self.fails = table, False

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            if self.fails:
                raise OperationalError("UPDATE", {}, Exception("server closed the connection"))
            return getattr(self.table, name)(*given)

        return call


def test_a_database_that_restarts_costs_nothing_and_is_logged_once(storage: Any, caplog: Any):
    clock = Clock()
    lease = still(storage, clock, expiry=20.0)
    table: Any = Unreachable(lease.table)
    lease.table = table
    with lease:
        table.fails = True
        for _ in range(9):
            clock.now += 2.0
            lease.renew()
        assert not lease.lost
        assert caplog.text.count("no beat, trying again") == 1
        table.fails = False
        lease.renew()
        assert lease.hours == pytest.approx(18 / 3600), "the time without answer counts"

        table.fails = True
        clock.now += 20.0
        assert lease.lost
        assert "has not answered for 20 s" in lease.lost_because
        table.fails = False
        assert lease.lost, "somebody else may have it by now"


def test_leases_of_one_database_do_not_meet(storage: Any):
    with still(storage, Clock(), "one"), still(storage, Clock(), "two"):
        assert {name for name, found in standings(storage).items() if found.holder} == {
            "one",
            "two",
        }


def test_a_storage_that_is_no_database_is_refused():
    with pytest.raises(InvalidValue, match=r"InMemoryStorage.*postgresql://"):
        Lease(optuna.storages.InMemoryStorage(), "study")


def test_looking_at_a_database_leaves_no_table(storage: Any):
    assert standings(storage) == {}
    assert holder(storage, "study") is None
    assert not LeaseTable.of(storage).exists()
