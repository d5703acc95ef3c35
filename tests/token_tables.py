"""Token ids of a whole corpus in memory, and batches of them as they can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sentune.corpora import Corpus
from sentune.corpora.batches import Batch
from sentune.corpora.tokens import SHARD_ROWS, TableEncoder, TokenTable, tokenise_batches


def tokenise(
    corpus: Corpus, encoder: TableEncoder, cache: Path | None, *, shard_rows: int = SHARD_ROWS
) -> TokenTable:
    """The token ids of a corpus in memory, from a folder of a cache where they are there."""
    batches = corpus.table.to_batches(max_chunksize=shard_rows)
    with TemporaryDirectory() as scratch:
        place = cache or Path(scratch)
        made = tokenise_batches(batches, corpus.fingerprint, encoder, place, shard_rows=shard_rows)
        return made.load()


def plain(batches: Iterator[Batch], count: int) -> list[Any]:
    return [
        (b.epoch, b.first, {k: [ids.tolist() for ids in v] for k, v in b.columns.items()})
        for b in islice(batches, count)
    ]
