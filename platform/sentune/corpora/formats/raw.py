"""The lines of a file before they are decoded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from sentune.errors import CorpusError
from sentune.io.bounded_read import bounded_lines


def raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Numbered lines (from 1), local or fsspec, plain or compressed (``.gz``).

    Lines end at a newline only, and keep it.

    Raises:
        CorpusError: when the file is missing, cannot be read, is cut short, or breaks a limit of
            ``sentune.io.bounded_read``.
    """
    number = 0
    try:
        for number, raw in enumerate(bounded_lines(path), start=1):
            yield number, raw
    except FileNotFoundError as error:
        raise CorpusError(path, "there is no such file") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(path, f"the compressed file is damaged: {error}", line=number) from error
    except OSError as error:
        raise CorpusError(path, f"cannot be read: {error}", line=number or None) from error
