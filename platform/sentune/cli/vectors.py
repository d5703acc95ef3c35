"""A text file to a Parquet file of embeddings, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress

from sentune.embedder.embedder import Embedder
from sentune.errors import CorpusError
from sentune.terminal import Terminal

ROWS = 4096  # of a row group; 4,096 embeddings of 768 numbers are 12.6 MB


def encode_file(embedder: Embedder, source: Path, out: Path, batch_size: int) -> tuple[int, int]:
    """Writes ``text`` and ``embedding`` (a list of D float32) for each line that is not empty.

    The file appears under its name once it is complete.

    Returns:
        How many sentences were written, and how many lines were empty.

    Raises:
        CorpusError: a line is not UTF-8.
    """
    width = len(embedder.encode(""))
    schema = pa.schema([("text", pa.string()), ("embedding", pa.list_(pa.float32(), width))])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            counts = _encode_into(writer, embedder, source, batch_size)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return counts


def _encode_into(
    writer: pq.ParquetWriter, embedder: Embedder, source: Path, batch_size: int
) -> tuple[int, int]:
    width = writer.schema.field("embedding").type.list_size
    written = lines = 0
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("Encoding", total=source.stat().st_size)
        for block, size in _blocks(source):
            kept = [line for line in block if line]
            rows = embedder.encode(kept, batch_size=batch_size, show_progress=False)
            vectors = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), width)
            texts = pa.array(kept, pa.string())
            writer.write_table(pa.table([texts, vectors], schema=writer.schema))
            written, lines = written + len(kept), lines + len(block)
            progress.advance(bar, size)
    return written, lines - written


def _blocks(source: Path) -> Iterator[tuple[list[str], int]]:
    """Lines without white space at their ends, a block at a time, and the block's bytes."""
    with source.open("rb") as stream:
        before = 0
        while lines := list(islice(stream, ROWS)):
            size = sum(map(len, lines))
            yield [_text(source, before + at, line) for at, line in enumerate(lines, 1)], size
            before += len(lines)


def _text(source: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise CorpusError(source, f"not UTF-8: {error.reason}", line=number) from error
