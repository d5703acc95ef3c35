"""``sentune encode``: a text file to a Parquet file of embeddings, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress
from typer import Argument

from sentune.cli.options import BatchSize, Device, Model
from sentune.errors import CorpusError, InvalidValue
from sentune.terminal import Terminal, say

ROWS = 4096  # of a row group; 4,096 embeddings of 768 numbers are 12.6 MB


def encode(
    model: Model,
    source: Annotated[Path, Argument(metavar="IN.txt", help="One sentence a line, UTF-8.")],
    out: Annotated[Path, Argument(metavar="OUT.parquet", help="Columns text, embedding.")],
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Encode the sentences of a text file; empty lines are left out."""
    from sentune.embedder.embedder import Embedder

    if not source.is_file():
        raise InvalidValue("IN.txt", str(source), "name a text file with one sentence a line")
    embedder = Embedder.load(model, device)
    width = len(embedder.encode(""))
    schema = pa.schema([("text", pa.string()), ("embedding", pa.list_(pa.float32(), width))])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    console = Terminal(stderr=True)
    written = lines = 0
    try:
        with (
            pq.ParquetWriter(partial, schema) as writer,
            Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            bar = progress.add_task("Encoding", total=source.stat().st_size)
            for block, size in _blocks(source):
                kept = [line for line in block if line]
                rows = embedder.encode(kept, batch_size=batch_size, show_progress=False)
                vectors = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), width)
                writer.write_table(pa.table([pa.array(kept, pa.string()), vectors], schema=schema))
                written, lines = written + len(kept), lines + len(block)
                progress.advance(bar, size)
        partial.replace(out)  # the file appears under its name once it is complete
    finally:
        partial.unlink(missing_ok=True)
    note = f", {lines - written} empty lines left out" if lines > written else ""
    say(f"{out}: {written} sentences{note}")


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
