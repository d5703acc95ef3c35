"""A hash of kind and content that no chunking, file format or machine changes."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentune.corpora.schema import SCHEMAS, Kind


class Fingerprint:
    """Hashes a corpus batch by batch.

    Each column has a hash of its values' bytes and one of their lengths (-1 for a null), both
    little-endian; concatenation of batches is concatenation of both, so equal rows give equal
    fingerprints however they are cut.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._hashes = {name: (sha256(), sha256()) for name in SCHEMAS[kind].names}

    def update(self, batch: pa.RecordBatch) -> None:
        """Adds rows that have the kind's schema."""
        for name, (values, lengths) in self._hashes.items():
            column = batch.column(name)
            if pa.types.is_floating(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<f8").tobytes())
                continue
            sizes = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
            lengths.update(sizes.astype("<i4").tobytes())
            values.update(_bytes(pc.fill_null(column, "")))

    def hexdigest(self) -> str:
        """32 hexadecimal digits of what was added so far."""
        whole = sha256(self._kind.value.encode())
        for name, (values, lengths) in self._hashes.items():
            whole.update(name.encode() + values.digest() + lengths.digest())
        return whole.hexdigest()[:32]


def fingerprint(kind: Kind, table: pa.Table) -> str:
    """The fingerprint of a whole table of the kind's schema."""
    state = Fingerprint(kind)
    for batch in table.to_batches():
        state.update(batch)
    return state.hexdigest()


def _bytes(column: pa.Array) -> bytes:
    """The concatenated UTF-8 of a string array without nulls."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])
