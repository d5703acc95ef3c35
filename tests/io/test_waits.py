"""What is said of a call that does not return, by a clock of the test's own."""

from __future__ import annotations

import pytest

from sentune.io.waits import MOST_TICK, SAID_AFTER, Waits


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Without its thread: the test ticks."""
    found = Waits()
    monkeypatch.setattr(found, "_run", lambda: None)
    return found


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def test_a_wait_is_said_once_without_credentials_and_its_end(
    waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    with waits.until("the database at postgresql://ann:secret@db/optuna", "start it"):
        for _ in range(29):
            waits.tick(1.0)
        assert said(caplog) == []
        waits.tick(1.0)
        waits.tick(1.0)
        expected = "waiting for the database at postgresql://db/optuna since 30 s: start it"
        assert said(caplog) == [expected]
    assert said(caplog) == ["the database at postgresql://db/optuna: answered after 31 s"]
    waits.tick(100.0)
    assert said(caplog) == []


def test_a_suspended_process_has_not_waited(waits: Waits, caplog: pytest.LogCaptureFixture) -> None:
    with waits.until("the disk"):
        for _ in range(int(SAID_AFTER / MOST_TICK) - 1):
            waits.tick(3600.0)
        assert said(caplog) == []
        waits.tick(3600.0)
        assert len(said(caplog)) == 1


def test_several_threads_that_wait_for_the_same_say_it_once(
    waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    with waits.until("the disk"), waits.until("the disk"), waits.until("MLflow"):
        for _ in range(40):
            waits.tick(1.0)
        assert said(caplog) == ["waiting for MLflow since 30 s", "waiting for the disk since 30 s"]
    assert said(caplog) == ["MLflow: answered after 40 s", "the disk: answered after 40 s"]


def test_an_error_passes_and_ends_the_wait(waits: Waits, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OSError, match="gone"), waits.until("the disk"):
        raise OSError("gone")
    for _ in range(40):
        waits.tick(1.0)
    assert said(caplog) == []


def test_the_thread_ticks_while_something_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import threading

    from sentune.io import waits as module

    spoken = threading.Event()
    monkeypatch.setattr(module, "LOOK", 0.01)
    monkeypatch.setattr(module.logger, "warning", lambda *words: spoken.set())
    monkeypatch.setattr(module, "SAID_AFTER", 0.05)
    with Waits().until("the disk"):
        assert spoken.wait(60)
