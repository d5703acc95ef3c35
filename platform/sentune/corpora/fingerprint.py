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
    little-endian; a column of lists has a third one of the lists' lengths. Concatenation of
    batches is concatenation of all of them, so equal rows give equal fingerprints however they
    are cut.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._hashes = {
            field.name: tuple(sha256() for _ in range(3 if pa.types.is_list(field.type) else 2))
            for field in SCHEMAS[kind]
        }

    def update(self, batch: pa.RecordBatch) -> None:
        """Add rows that have the kind's schema."""
        for name, (values, lengths, *lists) in self._hashes.items():
            column = batch.column(name)
            for counts in lists:
                counts.update(_sizes(pc.list_value_length(column)))
                column = column.flatten()
            if pa.types.is_floating(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<f8").tobytes())
                continue
            lengths.update(_sizes(pc.binary_length(column)))
            values.update(_bytes(pc.fill_null(column, "")))

    def hexdigest(self) -> str:
        """32 hexadecimal digits of what was added so far."""
        whole = sha256(self._kind.value.encode())
        for name, hashes in self._hashes.items():
            whole.update(name.encode() + b"".join(part.digest() for part in hashes))
        return whole.hexdigest()[:32]


def fingerprint(kind: Kind, table: pa.Table) -> str:
    """Return the fingerprint of a whole table of the kind's schema."""
    state = Fingerprint(kind)
    for batch in table.to_batches():
        state.update(batch)
    return state.hexdigest()


def _sizes(lengths: pa.Array) -> bytes:
    """Little-endian lengths, -1 for a null."""
    sizes = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False)
    return bytes(sizes.astype("<i4").tobytes())


def _bytes(column: pa.Array) -> bytes:
    """Return the concatenated UTF-8 of a string array without nulls."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])
