"""Word vectors that a network looks up and does not train.

Legend: n = width of a word vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sentune.encoders.words.table import WordTable


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
