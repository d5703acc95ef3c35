"""Negative samples: words by how often they occur, raised to a power.

Legend: W = words of the table.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue

POWER = 0.75
"""Mikolov et al. (2013b), whom Tang and de Sa follow (section 3.1)."""


class Negatives:
    """The unigram distribution raised to the power 0.75.

    A draw is a binary search among cumulative probabilities: 30,000 of them, a step's worth, take
    2 ms of a CPU, and nothing but one number for each word is held.

    Args:
        counts: [W] how often each word occurs in the training corpus.
        device: where samples are drawn.

    Raises:
        InvalidValue: no word occurs.
    """

    def __init__(self, counts: NDArray[np.int64], device: torch.device) -> None:
        if not counts.any():
            raise InvalidValue("counts", int(counts.sum()), "count the words of a training corpus")
        weights = np.cumsum(counts.astype(np.float64) ** POWER)
        self._cumulative = torch.from_numpy(weights / weights[-1]).to(device)

    def draw(self, count: int, seed: int) -> Tensor:
        """[count] rows of the table; the same for the same seed on devices of one kind."""
        device = self._cumulative.device
        generator = torch.Generator(device).manual_seed(seed)
        places = torch.rand(count, generator=generator, dtype=torch.float64, device=device)
        # right: the first word whose cumulative probability is above; never one that has none
        return torch.searchsorted(self._cumulative, places, right=True)
