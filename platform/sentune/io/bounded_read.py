"""Read files from untrusted sources in bounded memory, plain or compressed."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from gzip import BadGzipFile
from lzma import LZMAError
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from sentune.errors import CorpusError
from sentune.io.object_store import files_at

LINE_BYTES = 1 << 24
"""Maximum length of a line. A whole book on one line has about 3 MB (War and Peace)."""

EXPANSION = 200
"""Maximum decompressed size over compressed size. Natural text has 3 to 10, gzip at most 1,032."""

FREE_BYTES = 1 << 26
"""Decompressed size up to which ``EXPANSION`` is ignored: small repetitive files are no bombs."""

_BLOCK = 1 << 16

_NO_TEXT = {
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
}
"""First bytes of binary formats -> description. Checked if the file's suffix names none."""


def bounded_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a local or fsspec file, decompressed, with their newlines.

    Raises:
        CorpusError: as in ``bounded_blocks``, or a line is longer than ``LINE_BYTES``.
    """
    return _raising(path, _lines(path), lines=True)


def bounded_blocks(path: str) -> Iterator[bytes]:
    """Yield the content of a local or fsspec file, decompressed, in blocks.

    Raises:
        CorpusError: the file is missing, unreadable or truncated, a compressed file expands more
            than ``EXPANSION`` times or lacks the suffix of its compression, or a zip archive does
            not contain exactly one file.
    """
    return _raising(path, _blocks(path), lines=False)


def _raising(path: str, parts: Iterator[bytes], *, lines: bool) -> Iterator[bytes]:
    number = 0  # lines yielded so far
    try:
        for part in parts:
            number += lines
            yield part
    except FileNotFoundError as error:
        raise CorpusError(path, "there is no such file; check the path") from error
    except IsADirectoryError as error:
        raise CorpusError(path, "it is a folder; name a file") from error
    except (EOFError, BadGzipFile, BadZipFile, LZMAError, zlib.error) as error:
        reason = f"the compressed file is damaged: {error}; fetch or write it again"
        raise CorpusError(path, reason, line=number or None) from error
    except OSError as error:
        raise CorpusError(path, f"cannot be read: {error}", line=number or None) from error


def _lines(path: str) -> Iterator[bytes]:
    number, size, held = 1, 0, list[bytes]()
    for block in _blocks(path):
        *whole, rest = block.split(b"\n")
        for line in whole:
            yield b"".join((*held, line, b"\n"))
            number, size, held = number + 1, 0, []
        if rest:
            held.append(rest)
            size += len(rest)
        if size > LINE_BYTES:
            reason = f"the line has more than {LINE_BYTES:,} bytes, which is the limit"
            raise CorpusError(path, f"{reason}; break it into shorter lines", line=number)
    if held:
        yield b"".join(held)


def check_regular(path: str) -> None:
    """Raise an error for a local path that is neither a file nor a folder.

    Raises:
        CorpusError: the path is a named pipe, a device or a socket; reading it may never end.
    """
    files, inner = files_at(path)
    if not isinstance(files, LocalFileSystem):
        return
    with suppress(OSError):
        mode = Path(inner).stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe or socket"
            raise CorpusError(path, f"it is {what}; write its content to a file and give that")


def _blocks(path: str) -> Iterator[bytes]:
    """Yield blocks of at most ``_BLOCK`` bytes; see ``bounded_blocks``."""
    check_regular(path)
    most, seen = None, 0
    files, inner = files_at(path)
    compression = infer_compression(inner)
    if compression == "zip":
        with files.open(inner, "rb") as archive:
            names = ZipFile(archive).namelist()
        if len(names) != 1:
            fix = f"name one file as zip://FILE::{path}, or extract it"
            content = ", ".join(names[:9]) or "no file"
            raise CorpusError(path, f"the archive contains {content}; {fix}")
    if compression is not None:
        # size() is None if a server does not tell the size
        most = max(FREE_BYTES, EXPANSION * (files.size(inner) or 0))
    with fsspec.open(path, "rb", compression="infer") as stream:
        # read1 returns the data before a damaged place, where read would raise at once
        read = getattr(stream, "read1", stream.read)
        while block := bytes(read(_BLOCK)):
            starts = _NO_TEXT if compression is None and not seen else {}
            if what := next((w for start, w in starts.items() if block.startswith(start)), ""):
                raise CorpusError(path, f"it is {what}; extract its text and give that")
            seen += len(block)
            if most is not None and seen > most:
                reason = (
                    f"it grows to more than {most:,} bytes when decompressed, over {EXPANSION} "
                    "times its size; if that is intended, decompress it first"
                )
                raise CorpusError(path, reason)
            yield block
