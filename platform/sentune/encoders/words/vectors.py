"""Fixed word vectors, as a lookup and as an encoder in place of a transformer.

Legend: N = sentences, L = words, n = width of a word vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sentune.encoders.transformer import TextEncoder
from sentune.encoders.words.table import META, WordTable
from sentune.encoders.words.whole import load_whole, save_whole
from sentune.errors import InvalidValue


class FixedVectors:
    """A lookup of a word table's vectors, which are no parameter and in no checkpoint.

    On a CPU, vectors are read from the memory-mapped file. Another device gets a copy at the first
    lookup, because sending a step's 40,000 vectors each time would take longer than the step.
    """

    def __init__(self, table: WordTable) -> None:
        self.table = table
        self._copies: dict[torch.device, Tensor] = {}

    @property
    def width(self) -> int:
        return int(self.table.vectors.shape[1])

    def __call__(self, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the vectors [..., n] of table rows [...], on the device of the ids."""
        if ids.device.type == "cpu":
            found = np.asarray(self.table.vectors)[ids.numpy()]
            return torch.from_numpy(found).to(dtype)
        if ids.device not in self._copies:
            copy = torch.from_numpy(np.array(self.table.vectors))
            self._copies[ids.device] = copy.to(ids.device)
        return self._copies[ids.device][ids].to(dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> FixedVectors:
        """Return itself, because the table is constant."""
        return self


def is_word_table(folder: str | Path) -> bool:
    """Return whether a folder has a word table from ``save_whole``."""
    return Path(folder, META).is_file()


class WordVectors(TextEncoder):
    """An encoder whose states are fixed vectors of the known words."""

    def __init__(self, table: WordTable) -> None:
        nn.Module.__init__(self)  # there is no transformer
        self.vectors = FixedVectors(table)
        self.width, self.max_length = self.vectors.width, 512
        self.register_buffer("like", torch.zeros(0), persistent=False)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the word vectors [N, L, n] of table rows and mask [N, L], zero on padding."""
        return self.vectors(input_ids, self.dtype) * attention_mask.unsqueeze(-1)

    @property
    def dtype(self) -> torch.dtype:
        """The precision that the module was moved to."""
        return self.get_buffer("like").dtype

    def sparse_gradients(self, *, on: bool) -> None:
        """Do nothing, because there are no gradients."""

    def drops_out(self) -> bool:
        """Return False, because there is no dropout."""
        return False

    def save(self, folder: Path) -> None:
        """Write the whole table."""
        save_whole(self.vectors.table, folder)


class WordTokenizer:
    """Tokenises sentences to the table rows of their known words."""

    pad_id = 0

    def __init__(self, path: str) -> None:
        self._table = load_whole(Path(path))

    def check_pooling(self, pooling: str) -> None:
        """Raise ``InvalidValue`` for ``cls``, because there is no [CLS] token."""
        if pooling == "cls":
            raise InvalidValue("pooling", pooling, "word vectors have no [CLS]; use mean or max")

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Return the rows of the first ``max_length`` known words of each text, maybe none."""
        found = self._table.ids(texts, max_length)
        return np.split(found.ids, found.offsets[1:-1]) if texts else []

    def save(self, folder: Path, max_length: int | None = None) -> None:
        """Do nothing, because the encoder writes the table."""
