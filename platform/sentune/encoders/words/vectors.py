"""Word vectors that are looked up and not trained, by themselves and in place of a transformer.

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
    """The vectors of a word table: no parameter, no buffer, in no checkpoint.

    On a CPU they stay in the file that the table is mapped from. Another device gets a copy at the
    first lookup: sending a step's 40,000 vectors each time would take longer than the step.
    """

    def __init__(self, table: WordTable) -> None:
        self.table = table
        self._copies: dict[torch.device, Tensor] = {}

    @property
    def width(self) -> int:
        return int(self.table.vectors.shape[1])

    def __call__(self, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """[...] rows of the table -> [..., n], on the device of the ids."""
        if ids.device.type == "cpu":
            found = np.asarray(self.table.vectors)[ids.numpy()]
            return torch.from_numpy(found).to(dtype)
        if ids.device not in self._copies:
            copy = torch.from_numpy(np.array(self.table.vectors))
            self._copies[ids.device] = copy.to(ids.device)
        return self._copies[ids.device][ids].to(dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> FixedVectors:
        """Itself: nothing in it changes, and a copy of a method needs no second table."""
        return self


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
