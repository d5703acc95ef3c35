from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from sentune.errors import StudyConflict
from sentune.tracking.journal import Entry, Journal
from sentune.tracking.spool import Refused, Spool

HOST = "http://ann:pw@host:5000"


class Server:
    """Takes entries while it is up; ``asked`` is set when a sending was tried in vain."""

    def __init__(self, *, up: bool = True) -> None:
        self.got: list[Entry] = []
        self.up, self.asked = up, threading.Event()

    def __call__(self, entries: Sequence[Entry]) -> None:
        if not self.up:
            self.asked.set()
            raise ConnectionError("http://ann:pw@host is down")
        for entry in entries:
            if entry.get("bad"):
                raise Refused("the name is too long")
        self.got += entries


def entries(*numbers: int) -> list[Entry]:
    return [{"n": n} for n in numbers]


def test_all_arrive_in_order(tmp_path: Path) -> None:
    server = Server()
    spool = Spool(tmp_path, server, most=7)
    for n in range(100):
        spool.put({"n": n})
    assert spool.close(30)
    assert server.got == entries(*range(100))


def test_entries_wait_for_others_to_go_with_but_nobody_waits_for_that(tmp_path: Path) -> None:
    calls: list[Sequence[Entry]] = []
    spool = Spool(tmp_path, calls.append, gather=3600)
    for n in range(50):
        spool.put({"n": n})
    assert spool.flush(60)
    spool.put({"n": 50})
    assert spool.close(60)
    assert calls == [entries(*range(50)), entries(50)]


def test_put_returns_while_the_server_hangs(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hangs(_: Sequence[Entry]) -> None:
        inside.set()
        assert go_on.wait(60)

    spool = Spool(tmp_path, hangs)
    spool.put({"n": 0})
    assert inside.wait(60)
    for n in range(1000):
        spool.put({"n": n})
    assert not go_on.is_set()  # all of it was put while the first sending still hung
    assert not spool.flush(0)
    go_on.set()
    assert spool.close(30)


def test_an_outage_loses_nothing_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(up=False)
    spool = Spool(tmp_path, server, destination=HOST, first_wait=0.001, longest_wait=0.001)
    with caplog.at_level(logging.INFO, logger="sentune"):
        spool.put({"n": 0})
        for n in range(1, 20):
            assert server.asked.wait(60)
            server.asked.clear()
            spool.put({"n": n})
        server.up = True
        assert spool.close(30)
    assert server.got == entries(*range(20))
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert str(tmp_path) in warnings[0]
    assert "pw" not in caplog.text
    assert "answers again" in caplog.text


def test_what_is_left_says_where_it_is_and_goes_first_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(up=False)
    spool = Spool(tmp_path, server, first_wait=0.001)
    for n in range(5):
        spool.put({"n": n})
    assert not spool.close(0.05)
    assert f"waits in {tmp_path}" in caplog.text
    assert "resumed" in caplog.text
    spool._thread.join(30)
    again = Server()
    spool = Spool(tmp_path, again)
    spool.put({"n": 5})
    assert spool.close(30)
    assert again.got == entries(*range(6))
    third = Server()
    assert Spool(tmp_path, third).close(30)
    assert third.got == []
    assert (tmp_path / "entries.jsonl").stat().st_size == 0


def test_a_refused_entry_is_set_aside_and_the_others_arrive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(up=False)
    spool = Spool(tmp_path, server, first_wait=0.001)
    for n in range(10):
        spool.put({"n": n, "bad": True} if n == 4 else {"n": n})
    server.up = True
    assert spool.close(30)
    assert server.got == [{"n": n} for n in range(10) if n != 4]
    kept = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert kept == [{"reason": "the name is too long", "entry": {"n": 4, "bad": True}}]
    assert "refused.jsonl" in caplog.text


def test_what_is_no_json_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    spool = Spool(tmp_path, server)
    spool.put({("a", "tuple"): 1})
    spool.put({"n": 1})
    assert spool.close(30)
    spool.put({"n": 2})  # after the end: said, not raised
    assert server.got == entries(1)
    assert "no JSON" in caplog.text
    assert "after the end" in caplog.text


def test_one_process_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(StudyConflict, match="in use by another process"):
        Spool(tmp_path, Server())
    journal.close()
    assert Spool(tmp_path, Server()).close(30)


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for entry in entries(0, 1):
        journal.append(entry)
    journal.close()
    with (tmp_path / "entries.jsonl").open("ab") as file:
        file.write(b'{"n": 2, "killed in the mid')
    journal = Journal(tmp_path)
    journal.append({"n": 3})
    assert journal.unsent(10) == (entries(0, 1, 3), journal.end)
    journal.close()


def test_the_mark_holds_over_a_restart_and_a_lost_mark_sends_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for entry in entries(0, 1, 2):
        journal.append(entry)
    _, mark = journal.unsent(2)
    journal.mark(mark)
    journal.close()
    journal = Journal(tmp_path)
    assert journal.unsent(10)[0] == entries(2)
    journal.close()
    (tmp_path / "sent.json").unlink()
    journal = Journal(tmp_path)
    assert journal.unsent(10)[0] == entries(0, 1, 2)
    journal.close()
