"""Access object stores (such as S3) through fsspec, with retries during an outage.

No trial fails because a store restarts or a network is down for a minute. Permanent refusals, such
as a wrong key or a missing bucket, are raised at once.
"""

from __future__ import annotations

import errno
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, SentuneError, named
from sentune.io.waits import WAITS

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for which an action on a store without an answer is retried."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the first retry, and the most before a later one."""


class StorageError(SentuneError, OSError):
    """A path or URI cannot be written. What was written there before is unchanged.

    It is an ``OSError`` because the trial's settings are not the cause and may be tried again.

    ``fix`` completes "FIX and run the same command again, or give another OPTION".
    """

    def __init__(self, path: str | Path, why: str, fix: str, option: str = "--storage") -> None:
        super().__init__(
            f"{path}: {why}; what was written before is untouched. "
            f"{fix[0].upper()}{fix[1:]} and run the same command again, or give another {option}"
        )
        self.path, self.why, self.fix, self.option = str(path), why, fix, option


def files_at(uri: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the fsspec file system of a path or URI, and the path within it.

    Listings are not cached, so changes by other processes are seen.

    Raises:
        InvalidValue: the protocol is unknown, or its package is not installed.
    """
    try:
        files, root = fsspec.url_to_fs(uri, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise InvalidValue("path", without_credentials(uri), str(error)) from error
    return files, str(root)


def absolute(place: str) -> str:
    """Return the absolute path of a local folder, for workers that run elsewhere, or the URI."""
    place = place.removeprefix("file://")
    return place if "://" in place else str(Path(place).expanduser().resolve())


def is_local(files: fsspec.AbstractFileSystem) -> bool:
    """Return whether a file system is this machine's."""
    return isinstance(files, LocalFileSystem)


def is_s3(files: fsspec.AbstractFileSystem) -> bool:
    """Return whether a file system is S3, which deletes up to 1,000 objects in one request."""
    return "s3" in files.protocol


def names_in(files: fsspec.AbstractFileSystem, folder: str) -> list[str]:
    """Return the names directly in a folder; an empty list if the folder does not exist.

    On S3 this avoids ``ls``, which pages through the parent folder if the folder does not exist.
    """
    above, _, name = folder.rpartition("/")
    try:
        if is_s3(files) and above:
            paths = files.find(above, maxdepth=1, withdirs=True, prefix=f"{name}/")
        else:
            paths = files.ls(folder, detail=False)
    except FileNotFoundError:
        return []
    return [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]


@contextmanager
def on_this_machine(folder: str) -> Iterator[Path]:
    """Yield a local path of a folder, for an object store that of a temporary copy.

    Raises:
        FileNotFoundError: the folder does not exist.
        StorageError: the store refuses, or does not answer.
    """
    files, root = files_at(folder)
    if is_local(files):
        if not Path(root).is_dir():
            raise FileNotFoundError(folder)
        yield Path(root)
        return
    with tempfile.TemporaryDirectory(prefix="sentune-copy-") as copy:
        download(folder, Path(copy))
        yield Path(copy)


def download(folder: str, into: Path) -> None:
    """Copy the objects below a URI into a local folder; errors as in ``on_this_machine``."""
    files, root = files_at(folder)
    above = f"{root.rstrip('/')}/"
    paths = asked(folder, lambda: files.find(root))
    inside = [path.removeprefix(above) for path in paths if path.startswith(above)]
    if not inside:
        raise FileNotFoundError(folder)
    for within in inside:
        # skip keys that would be written outside of the folder
        if ".." not in PurePosixPath(within).parts and not within.startswith("/"):
            target = into / within
            target.parent.mkdir(parents=True, exist_ok=True)
            asked(folder, partial(files.get_file, above + within, str(target)))


def asked(uri: str, action: Callable[[], T], *, makes: bool = False) -> T:
    """Return the result of an action on a store, retried during an outage.

    s3fs and botocore retry for a few seconds themselves, which is too short for a restarted server
    or an interrupted network.

    Args:
        uri: what is read or written, for messages.
        action: must be safe to repeat.
        makes: whether the action writes; a ``FileNotFoundError`` then means a missing bucket.

    Raises:
        FileNotFoundError: there is no such object, unless ``makes``.
        StorageError: the store refuses, or has not answered for ``PATIENCE`` seconds.
    """
    began, wait = time.monotonic(), FIRST_WAIT
    while True:
        try:
            with WAITS.until(f"the object store at {uri}"):
                return action()
        except SentuneError:
            raise
        except Exception as error:  # each kind of store has errors of its own
            if isinstance(error, FileNotFoundError) and not makes:
                raise
            if (refusal := _refused(uri, error)) is not None:
                raise refusal from error
            if not _is_outage(error):
                raise
            silent = time.monotonic() - began
            if silent + wait > PATIENCE:
                why = f"the store has not answered for {silent:.0f} s ({named(error)})"
                fix = "start it, or check the connection and its address (such as AWS_ENDPOINT_URL)"
                raise StorageError(uri, why, fix) from error
            if wait == FIRST_WAIT:
                store, why = without_credentials(uri), named(error)
                logger.warning("%s: the store does not answer, trying again: %s", store, why)
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _is_outage(error: Exception) -> bool:
    """Return whether an error comes from the network or the server and may be temporary."""
    if isinstance(error, OSError):
        return not isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError)
    import aiohttp  # imported here because it takes half a second, and an outage is rare

    network: list[type[Exception]] = [aiohttp.ClientError]
    with suppress(ImportError):  # only installed for S3
        from botocore.exceptions import ConnectionError as BotoConnectionError
        from s3fs.core import S3_RETRYABLE_ERRORS

        network += [BotoConnectionError, *S3_RETRYABLE_ERRORS]
    return isinstance(error, tuple(network))


def _refused(uri: str, error: Exception) -> StorageError | None:
    """Return the ``StorageError`` of a permanent refusal; None for any other error."""
    if isinstance(error, PermissionError) or type(error).__name__ == "NoCredentialsError":
        fix = "give the key of a user who may read and write there (such as AWS_ACCESS_KEY_ID)"
        return StorageError(uri, f"the store refuses this user ({named(error)})", fix)
    if isinstance(error, FileNotFoundError):
        return StorageError(uri, f"there is no such bucket ({named(error)})", "create it")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return StorageError(uri, "the disk is full", "free some space")
    return None
