"""Loss and gradient of a batch of adjacent sentences.

Legend: K = negative samples of a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.methods.invertible import Invertible
from sentune.training.gradients import average_gradients, send_parameters
from sentune.training.group import Group
from sentune.training.precision import autocast
from sentune.training.recipes.invertible_negatives import Negatives
from sentune.training.settings import TrainingSettings
from sentune.training.step import Rows


class InvertibleBackward:
    """See ``sentune.training.step.Backward``.

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
            loss.backward()
            total += loss.detach()
        average_gradients(self.method.parameters(), self._group)
        return total

    def _parts(
        self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[list[np.ndarray], list[np.ndarray], Tensor]]:
        """This worker's pairs with their samples, as many at a time as memory holds."""
        ends = np.cumsum([0, *(len(following) for _, following in pairs)])
        each = self.method.settings.negatives
        drawn = self._negatives.draw(int(ends[-1]) * each, self._seed()).view(-1, each)
        local = self._group.slice(len(pairs))
        size = self._settings.micro_batch or max(1, len(pairs))
        for start in range(local.start, local.stop, size):
            stop = min(start + size, local.stop)
            texts, followings = zip(*pairs[start:stop], strict=True)
            yield list(texts), list(followings), drawn[ends[start] : ends[stop]]

    def _seed(self) -> int:
        """Return the first worker's seed of this step, on all of them."""
        own = torch.initial_seed() if self._group.is_first else 0
        return int(self._group.all_reduce_sum(torch.tensor(own, device=self._group.device)))
