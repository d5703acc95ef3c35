"""Token ids of a whole corpus in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from sentune.corpora import Corpus
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
