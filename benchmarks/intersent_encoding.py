"""What InterSent sends through its encoder, against encoding three sentences for every item.

A batch with the four operations equally often. The plain way has a column for each sentence: first,
second (the first again where an operation takes one) and target, each padded to its longest. Ours
encodes what an operation needs, an equal sentence once where nothing is dropped out, and sentences
of like length together. Tokens are counted with their padding. Then both are timed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from measure import machine, show, table_of, time_ratio

from sentune.corpora import Kind, read
from sentune.corpora.batches import SharedSource
from sentune.corpora.tokens import tokenise_batches
from sentune.encoders import Chunk, TextEncoder, length_sorted_chunks, load, prepare
from sentune.encoders.prepare import bundle, prepare_decoder
from sentune.encoders.tokenizing import pad
from sentune.training.precision import sentences_at_a_time
from sentune.training.recipes.base import Rows
from sentune.training.recipes.intersent import needed_rows, operation_encoder

BATCH, LENGTH, BOUND = 256, 64, 2 / 3
ENCODER = "builtin:tiny?layers=2&width=128&heads=4&inner=512"
Columns = dict[str, Rows]


def prepared(corpus: str, scratch: Path) -> tuple[Columns, TextEncoder]:
    """One batch, the operations equally often, and an encoder with new weights."""
    table = read(corpus, Kind.OPERATIONS)
    columns = (table.table[name].to_pylist() for name in ("first", "second", "target"))
    texts = [text for column in columns for text in column if text is not None]
    folder = bundle(
        prepare(ENCODER, texts, scratch), prepare_decoder("builtin:tiny", texts, scratch), scratch
    )
    encoder, batches = operation_encoder(folder, LENGTH), table.table.to_batches()
    tokens = tokenise_batches(batches, table.fingerprint, encoder, scratch / "tokens").load()
    batch = next(iter(SharedSource(tokens).batches(BATCH, seed=0)))
    return dict(batch.columns), load(f"{folder}/encoder")


def three(batch: Columns) -> list[Rows]:
    """Three sentences for every item."""
    seconds = [b if len(b) else a for a, b in zip(batch["first"], batch["second"], strict=True)]
    return [batch["first"], seconds, batch["target"]]


def sort(rows: Rows) -> list[Chunk]:
    """Sentences of like length together."""
    return length_sorted_chunks(rows, sentences_at_a_time(torch.device("cpu")), 0)[0]


def ours(batch: Columns, *, merge: bool, targets: bool = True) -> list[Chunk]:
    """What the training sends through the encoder."""
    return sort(needed_rows(batch, slice(0, BATCH), targets=targets, merge=merge).rows)


def tokens(chunks: Iterable[Chunk]) -> int:
    return sum(chunk.input_ids.numel() for chunk in chunks)


def encode(encoder: TextEncoder, chunks: Sequence[Chunk]) -> None:
    """Forward and backward."""
    torch.cat([encoder(*chunk, "mean") for chunk in chunks]).sum().backward()


def main() -> None:
    """Prints a table; ends with an error where the bound is broken."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = os.environ.get("SENTUNE_OPERATIONS", f"builtin:operations?size={BATCH}")
        batch, encoder = prepared(corpus, Path(scratch))
    plain = [pad(rows, 0) for rows in three(batch)]
    ways = {
        "three sentences, sorted by length": sort([row for rows in three(batch) for row in rows]),
        "contrastive and generative": ours(batch, merge=True),
        "the same, with dropout": ours(batch, merge=False),
        "generative alone": ours(batch, merge=True, targets=False),
    }
    counts = np.unique([int(row[0]) for row in batch["operation"]], return_counts=True)[1]
    title = f"{BATCH} items of {corpus}, {counts.tolist()} of each operation"
    columns = ("", "sentences", "tokens", "of plain", "times faster")
    table = table_of(title, *columns, caption=machine(1))
    table.add_row("plain", str(3 * BATCH), f"{tokens(plain):,}", "1.00", "1.0")
    for name, chunks in ways.items():
        faster = time_ratio(lambda: encode(encoder, plain), lambda c=chunks: encode(encoder, c))
        share = tokens(chunks) / tokens(plain)
        sentences = sum(len(chunk.input_ids) for chunk in chunks)
        table.add_row(name, str(sentences), f"{tokens(chunks):,}", f"{share:.2f}", f"{faster:.1f}")
    show(table)
    if tokens(ways["contrastive and generative"]) > BOUND * tokens(plain):
        raise SystemExit("more than two thirds of the plain way's tokens")


if __name__ == "__main__":
    main()
