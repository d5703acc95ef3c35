"""Operations on sentences as ids: what the encoder reads and what the decoder has to say."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentune.corpora.encode import Encoder
from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS
from sentune.errors import InvalidValue

_VERSION = 1
"""Of the columns; another one is tokenised anew."""


class OperationEncoder:
    """Tokenises record batches of ``Kind.OPERATIONS``, the targets twice.

    Args:
        encoder_folder: folder or name of the encoder's tokenizer.
        decoder_folder: folder or name of the decoder's tokenizer.
        max_length: longest sequence of either, special tokens included.

    Raises:
        InvalidValue: ``max_length`` leaves no room beside the special tokens, or the decoder's
            tokenizer does not end texts with a token of its own.
    """

    def __init__(self, encoder_folder: str, decoder_folder: str, max_length: int) -> None:
        self._encoder = Encoder(encoder_folder, max_length)
        self._decoder = Encoder(decoder_folder, max_length)
        if not self._decoder.ends_texts():
            fix = "its tokenizer must end every text with an end-of-sequence token (BART, T5, BERT)"
            raise InvalidValue("decoder", decoder_folder, fix)
        self.max_length = max_length
        parts = f"{_VERSION} {self._encoder.fingerprint} {self._decoder.fingerprint}"
        self.fingerprint = sha256(parts.encode()).hexdigest()[:16]

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Columns of ids for the rows of the batch.

        ``operation`` has one id, the place in ``OPERATIONS``; ``second`` has none where the
        operation takes one sentence; ``first``, ``second`` and ``target`` are of the encoder's
        tokenizer, ``decoded`` is the target by the decoder's, with its special tokens.

        Raises:
            InvalidValue: an unknown operation, or one with too few or too many sentences.
        """
        _check(batch)
        names = ("first", "second", "target")
        columns = {name: self._encoder.column(batch.column(name)) for name in names}
        decoded = self._decoder.column(batch.column("target"))
        return pa.table({"operation": _codes(batch), **columns, "decoded": decoded})


def _check(batch: pa.RecordBatch) -> None:
    operations = batch.column("operation")
    for name in pc.unique(operations).to_pylist():
        if name not in OPERATIONS:
            raise InvalidValue("operation", name, f"use one of {', '.join(OPERATIONS)}")
    pairs = pc.is_in(operations, pa.array(PAIR_OPERATIONS))
    wrong = pc.not_equal(pairs, batch.column("second").is_valid())
    if pc.any(wrong).as_py():
        row = batch.filter(wrong).slice(0, 1).to_pylist()[0]
        count = 2 if row["operation"] in PAIR_OPERATIONS else 1
        raise InvalidValue("second", row["second"], f"{row['operation']} takes {count} sentence(s)")


def _codes(batch: pa.RecordBatch) -> pa.ListArray:
    places = pc.index_in(batch.column("operation"), pa.array(OPERATIONS)).cast(pa.int32())
    return pa.ListArray.from_arrays(np.arange(batch.num_rows + 1, dtype=np.int32), places)
