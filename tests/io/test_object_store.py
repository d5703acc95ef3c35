"""Which errors of an object store are an outage and tried again, and which are told at once."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from types import SimpleNamespace

import aiohttp
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from sentune.io import object_store
from sentune.io.object_store import StorageError, asked

URI = "s3://bucket/study"


def failing(*errors: Exception) -> tuple[Callable[[], str], list[Exception]]:
    """An action that meets these errors, one at a call, and those that it has not met yet."""
    left = list(errors)

    def action() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return action, left


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the waits, which take none here."""
    waited: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=waited.append)
    monkeypatch.setattr(object_store, "time", clock)  # other threads sleep as they do
    return waited


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://localhost:1"),
        ReadTimeoutError(endpoint_url="http://localhost:1"),
        aiohttp.ServerDisconnectedError(),
        ConnectionResetError(),
        TimeoutError(),
        OSError(errno.EIO, "503 Service Unavailable"),
        OSError(errno.EREMOTEIO, "internal error"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_outage_is_waited_for(error: Exception, waits: list[float]) -> None:
    action, left = failing(error, error, error)
    assert asked(URI, action) == "answer"
    assert (left, waits) == ([], [0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    "error",
    [
        KeyError("ETag"),
        TypeError("unsupported"),
        ValueError("Invalid endpoint"),
        FileNotFoundError("x"),
        FileExistsError("x"),
        IsADirectoryError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_is_no_outage_is_raised_as_it_is(
    error: Exception, waits: list[float]
) -> None:
    action, left = failing(error, error)
    with pytest.raises(type(error)) as caught:
        asked(URI, action)
    assert caught.value is error
    assert (len(left), waits) == (1, [])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError("AccessDenied"), "refuses this user"),
        (NoCredentialsError(), "refuses this user"),
        (OSError(errno.ENOSPC, "full"), "the disk is full"),
    ],
)
def test_what_a_store_refuses_for_good_is_told_at_once(
    error: Exception, told: str, waits: list[float]
) -> None:
    action, left = failing(error, error)
    with pytest.raises(StorageError, match=told):
        asked(URI, action)
    assert (len(left), waits) == (1, [])


def test_an_outage_ends_after_a_minute(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    monkeypatch.setattr(object_store.time, "monotonic", lambda: began + sum(waits))
    action, _ = failing(*[ConnectionRefusedError() for _ in range(100)])
    with pytest.raises(StorageError, match="has not answered for"):
        asked(URI, action)
    assert 50 < sum(waits) <= object_store.PATIENCE
