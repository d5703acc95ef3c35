"""Loss and gradient of a batch of adjacent sentences, with negative samples.

Legend: K = negative samples of a word, W = words of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.methods.invertible import Invertible
from sentune.training.gradients import average_gradients, send_parameters
from sentune.training.group import Group
from sentune.training.precision import autocast
from sentune.training.recipes.base import Rows
from sentune.training.settings import TrainingSettings

POWER = 0.75
"""Mikolov et al. (2013b), whom Tang and de Sa follow (section 3.1)."""


class InvertibleBackward:
    """See ``sentune.training.recipes.base.Backward``.

    The loss is a mean over the pairs of the global batch whose sentences both have known words.
    Every worker knows the whole batch, and draws the negative samples of all of it from the first
    worker's seed: whatever their number, they compute the same. A batch without such a pair
    has loss 0 and no gradient. With ``micro_batch`` gradients of parts are added up.
    """

    def __init__(
        self,
        method: Invertible,
        settings: TrainingSettings,
        group: Group,
        counts: NDArray[np.int64],
    ) -> None:
        self.method, self._settings, self._group = method, settings, group
        self._negatives = Negatives(counts, group.device)
        send_parameters(method, group)

    def __call__(self, columns: Mapping[str, Rows]) -> Tensor:
        pairs = [
            (text, following)
            for text, following in zip(columns["text"], columns["following"], strict=True)
            if len(text) and len(following)
        ]
        total = torch.zeros((), dtype=self.method.dtype, device=self._group.device)
        for texts, followings, negatives in self._parts(pairs):
            with autocast(self._settings.precision, self._group.device):
                loss = self.method.loss(texts, followings, negatives)
            loss = loss * (self._group.world_size / len(pairs))
            torch.autograd.backward(loss)
            total += loss.detach()
        average_gradients(self.method.parameters(), self._group)
        return total

    def _parts(
        self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[list[np.ndarray], list[np.ndarray], Tensor]]:
        """This worker's pairs with their samples, as many at a time as memory holds."""
        ends = np.cumsum([0, *(len(following) for _, following in pairs)])
        each = self.method.settings.negatives
        seed = self._group.agree(torch.initial_seed())
        drawn = self._negatives.draw(int(ends[-1]) * each, seed).view(-1, each)
        local = self._group.slice(len(pairs))
        size = self._settings.micro_batch or max(1, len(pairs))
        for start in range(local.start, local.stop, size):
            stop = min(start + size, local.stop)
            texts, followings = zip(*pairs[start:stop], strict=True)
            yield list(texts), list(followings), drawn[ends[start] : ends[stop]]


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
