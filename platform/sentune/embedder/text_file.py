"""Embeddings of a text file's sentences, written to a Parquet file in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sentune.embedder.embedder import Embedder
from sentune.errors import CorpusError, InvalidValue

ROWS = 4096  # of a row group; 4,096 embeddings of 768 numbers are 12.6 MB


def write_embeddings(
    embedder: Embedder,
    source: Path,
    out: Path,
    *,
    batch_size: int = 64,
    advance: Callable[[int], object] = lambda size: None,
) -> tuple[int, int]:
    """Encode the lines of a text file into a Parquet file of columns ``text`` and ``embedding``.

    Args:
        source: one sentence a line, UTF-8; empty lines are left out.
        out: appears under its name once it is complete.
        advance: gets the bytes of each block of lines that was written.

    Returns:
        Sentences written, and empty lines.

    Raises:
        InvalidValue: there is no such file.
        CorpusError: a line is not UTF-8.
    """
    if not source.is_file():
        raise InvalidValue("IN.txt", str(source), "name a text file with one sentence a line")
    width = len(embedder.encode(""))
    schema = pa.schema([("text", pa.string()), ("embedding", pa.list_(pa.float32(), width))])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    written = lines = 0
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            for block, size in _blocks(source):
                kept = [line for line in block if line]
                rows = embedder.encode(kept, batch_size=batch_size, show_progress=False)
                vectors = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), width)
                writer.write_table(pa.table([pa.array(kept, pa.string()), vectors], schema=schema))
                written, lines = written + len(kept), lines + len(block)
                advance(size)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return written, lines - written


def _blocks(source: Path) -> Iterator[tuple[list[str], int]]:
    """Yield lines without white space at their ends, a block at a time, and the block's bytes.

    Raises:
        CorpusError: a line is not UTF-8.
    """
    number = 0
    with source.open("rb") as stream:
        while lines := list(islice(stream, ROWS)):
            texts = []
            for line in lines:
                number += 1
                try:
                    texts.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
                except UnicodeDecodeError as error:
                    reason = f"not UTF-8: {error.reason}"
                    raise CorpusError(source, reason, line=number) from error
            yield texts, sum(map(len, lines))
