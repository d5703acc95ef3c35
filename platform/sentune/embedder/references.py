"""Reference sentences and their embeddings, stored with a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.tasks.references import References

REFERENCES_FILE = "references.parquet"
SIZES = "sizes"


@dataclass(frozen=True)
class StoredReferences:
    """Reference sentences of interpretations, with their embeddings.

    Attributes:
        sentences: R distinct sentences.
        embeddings: packed embeddings by the model that they are stored with, [R, D].
        sizes: number of drawn rows n -> number of their sentences, a prefix of ``sentences``.

    Raises:
        InvalidValue: the numbers of sentences and embeddings differ.
    """

    sentences: Sequence[str]
    embeddings: Tensor
    sizes: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentences", tuple(self.sentences))
        if len(self.sentences) != len(self.embeddings):
            sizes = f"{len(self.sentences)} sentences and {len(self.embeddings)} embeddings"
            raise InvalidValue("references", sizes, "give one embedding for each sentence")

    def for_tasks(self) -> References:
        """Return the sentences and sizes as ``References`` for tasks."""
        every = len(self.sentences)
        return References(tuple(self.sentences), dict(self.sizes) or {every: every})

    def save(self, folder: Path) -> None:
        """Write ``references.parquet`` with the columns ``text`` and ``embedding``, D float32."""
        numbers = self.embeddings.detach().float().cpu().contiguous()
        vectors = pa.FixedSizeListArray.from_arrays(numbers.flatten().numpy(), numbers.shape[1])
        columns = {"text": pa.array(self.sentences, pa.string()), "embedding": vectors}
        table = pa.table(columns, metadata={SIZES: json.dumps(dict(self.sizes))})
        pq.write_table(table, folder / REFERENCES_FILE)

    @classmethod
    def load(cls, folder: Path) -> StoredReferences | None:
        """Return the references that ``save`` wrote, or None if the model has none.

        Raises:
            InvalidValue: the file is damaged.
        """
        path = folder / REFERENCES_FILE
        if not path.is_file():
            return None
        try:
            table = pq.read_table(path, columns=["text", "embedding"])
            texts, embeddings = table["text"].to_pylist(), rows_of(table["embedding"])
            said = json.loads((table.schema.metadata or {}).get(SIZES.encode(), b"{}"))
        except (pa.ArrowException, AttributeError, OSError) as error:
            fix = f"{REFERENCES_FILE} is damaged: {error}"
            raise InvalidValue("model", str(folder), fix) from error
        sizes = {int(rows): size for rows, size in said.items()}
        return cls(texts, torch.from_numpy(embeddings), sizes)


def rows_of(column: Any) -> NDArray[np.float32]:
    """Return a column of lists of one length as a new array, [N, D]."""
    numbers = column.combine_chunks() if hasattr(column, "chunks") else column
    flat = numbers.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    width = getattr(column.type, "list_size", -1)  # other programs write lists of any size
    found: NDArray[np.float32] = flat.reshape(len(numbers), width)
    return found
