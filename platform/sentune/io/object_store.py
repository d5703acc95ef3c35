"""Object stores (S3 and its like) through fsspec: asked again while they are silent.

A store that restarts, or a network that is cut off for a minute, costs a study no trial. A refusal
for good (key, bucket) is raised at once.
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
"""Seconds for which a silent store is asked again."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0


class StorageError(SentuneError, OSError):
    """A place that cannot be written. What was written there before is untouched.

    An ``OSError``: it says nothing about a trial's settings, which may be tried again.

    Args:
        path: what could not be written.
        why: what is wrong with it.
        fix: in "... FIX and run the same command again".
        option: what may name another place instead.
    """

    def __init__(self, path: str | Path, why: str, fix: str, option: str = "--storage") -> None:
        super().__init__(
            f"{path}: {why}; what was written before is untouched. "
            f"{fix[0].upper()}{fix[1:]} and run the same command again, or give another {option}"
        )
        self.path, self.why, self.fix, self.option = str(path), why, fix, option


def files_at(uri: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system of a path or URI, and the path in it.

    Without fsspec's cache of listings: what another process has written or dropped is seen.

    Raises:
        InvalidValue: no file system has its protocol, or the package of that one is missing.
    """
    try:
        files, root = fsspec.url_to_fs(uri, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise InvalidValue("path", without_credentials(uri), str(error)) from error
    return files, str(root)


def absolute(place: str) -> str:
    """Return a folder as an absolute path, as workers run elsewhere; a URI as it is."""
    place = place.removeprefix("file://")
    return place if "://" in place else str(Path(place).expanduser().resolve())


def is_local(files: fsspec.AbstractFileSystem) -> bool:
    """Return whether it is a disk of this machine."""
    return isinstance(files, LocalFileSystem)


def is_s3(files: fsspec.AbstractFileSystem) -> bool:
    """Return whether a thousand objects go in one request, which no client's death halves."""
    return "s3" in files.protocol


def names_in(files: fsspec.AbstractFileSystem, folder: str) -> list[str]:
    """Return the names directly in a folder; none where it is not there.

    S3's own ``ls`` looks for such a folder in the one above, page after page.
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
    """Yield a folder's path; of one in an object store a copy, which goes at the block's end.

    Raises:
        FileNotFoundError: nothing lies there.
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
    """Copy the objects below a URI into a local folder; errors as of ``on_this_machine``."""
    files, root = files_at(folder)
    above = f"{root.rstrip('/')}/"
    paths = asked(folder, lambda: files.find(root))
    inside = [path.removeprefix(above) for path in paths if path.startswith(above)]
    if not inside:
        raise FileNotFoundError(folder)
    for within in inside:
        # a key that leads out of the folder is none of ours
        if ".." not in PurePosixPath(within).parts and not within.startswith("/"):
            target = into / within
            target.parent.mkdir(parents=True, exist_ok=True)
            asked(folder, partial(files.get_file, above + within, str(target)))


def asked(uri: str, action: Callable[[], T], *, makes: bool = False) -> T:
    """Return the result of an action on a store, tried again during an outage of the store.

    s3fs and botocore try again for some seconds by themselves; a server that restarts, or a network
    that is cut off, takes longer.

    Args:
        uri: what is read or written, for messages.
        action: does no harm when it is done twice.
        makes: something is written, so that what is not found is the bucket.

    Raises:
        FileNotFoundError: there is no such object; not where one is written.
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
                fix = "start it, or mend the way to it (AWS_ENDPOINT_URL and its like)"
                raise StorageError(uri, why, fix) from error
            if wait == FIRST_WAIT:
                logger.warning("%s: asked again: %s", without_credentials(uri), named(error))
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _is_outage(error: Exception) -> bool:
    """Return whether the error is one of a network or a server, which may pass."""
    if isinstance(error, OSError):
        return not isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError)
    import aiohttp  # these take half a second, and an outage is rare

    network: list[type[Exception]] = [aiohttp.ClientError]
    with suppress(ImportError):  # stores other than S3 do without these
        from botocore.exceptions import ConnectionError as BotoConnectionError
        from s3fs.core import S3_RETRYABLE_ERRORS

        network += [BotoConnectionError, *S3_RETRYABLE_ERRORS]
    return isinstance(error, tuple(network))


def _refused(uri: str, error: Exception) -> StorageError | None:
    """Return the refusal that will be the same next time; None for any other error."""
    if isinstance(error, PermissionError) or type(error).__name__ == "NoCredentialsError":
        fix = "give the key of a user who may read and write there (AWS_ACCESS_KEY_ID and its like)"
        return StorageError(uri, f"the store refuses this user ({named(error)})", fix)
    if isinstance(error, FileNotFoundError):
        return StorageError(uri, f"there is no such bucket ({named(error)})", "make it")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return StorageError(uri, "the disk is full", "free some space")
    return None
