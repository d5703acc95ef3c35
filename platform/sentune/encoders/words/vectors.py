"""Fixed word vectors in the place of a transformer: known words to states.

Legend: N = sentences, L = words, n = width of a word vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sentune.encoders.transformer import TextEncoder
from sentune.encoders.words.fixed import FixedVectors
from sentune.encoders.words.table import META, WordTable
from sentune.encoders.words.whole import load_whole, save_whole
from sentune.errors import InvalidValue


def is_word_table(folder: str | Path) -> bool:
    """Return whether a folder holds a word table, as ``save_whole`` writes it."""
    return Path(folder, META).is_file()


class WordVectors(TextEncoder):
    """The vectors of known words as states; they belong to no checkpoint and are never trained."""

    def __init__(self, table: WordTable) -> None:
        nn.Module.__init__(self)  # there is no transformer
        self.vectors = FixedVectors(table)
        self.width, self.max_length = self.vectors.width, 512
        self.register_buffer("like", torch.zeros(0), persistent=False)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[N, L] rows of the table, [N, L] mask -> [N, L, n], zero where there is no word."""
        return self.vectors(input_ids, self.dtype) * attention_mask.unsqueeze(-1)

    @property
    def dtype(self) -> torch.dtype:
        """The precision that the method was moved to."""
        return self.get_buffer("like").dtype

    def sparse_gradients(self, *, on: bool) -> None:
        """Nothing: there are no gradients."""

    def drops_out(self) -> bool:
        """Return that nothing is dropped out."""
        return False

    def save(self, folder: Path) -> None:
        """Write the whole table."""
        save_whole(self.vectors.table, folder)


class WordTokenizer:
    """Sentences to the rows of their known words; those without one are empty."""

    pad_id = 0

    def __init__(self, path: str) -> None:
        self._table = load_whole(Path(path))

    def check_pooling(self, pooling: str) -> None:
        """Raise ``InvalidValue`` for ``cls``: the first state is that of a word."""
        if pooling == "cls":
            raise InvalidValue("pooling", pooling, "word vectors have no [CLS]; use mean or max")

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Return the rows of the first ``max_length`` known words of each text."""
        found = self._table.ids(texts, max_length)
        return np.split(found.ids, found.offsets[1:-1]) if texts else []

    def save(self, folder: Path, max_length: int | None = None) -> None:
        """Nothing: the encoder writes the table."""
