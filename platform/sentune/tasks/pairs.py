"""Pairs of sentences, stored as rows of a table of distinct sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.geometry.base import Geometry

CHUNK = 8192  # pairs per call: 8192 Gaussians of 768 dimensions are 50 MB a side
Compare = Callable[[Tensor, Tensor], Tensor]


class Pairs:
    """N sentence pairs over S distinct sentences, which are in order of first appearance."""

    def __init__(self, first: tuple[str, ...], second: tuple[str, ...]) -> None:
        self.first, self.second = first, second
        both = (sentence for pair in zip(first, second, strict=True) for sentence in pair)
        row = {sentence: i for i, sentence in enumerate(dict.fromkeys(both))}
        self.sentences = tuple(row)
        self._rows = tuple(torch.tensor([row[s] for s in side]) for side in (first, second))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[N] twice: the rows of ``sentences`` that the pairs' sides are."""
        first, second = self._rows
        return first.numpy(), second.numpy()

    def compare(self, embeddings: Tensor, compare: Compare) -> NDArray[np.float64]:
        """[S, D] embeddings of the distinct sentences -> [N] ``compare(first, second)``."""
        first, second = (rows.to(embeddings.device) for rows in self._rows)
        parts = [
            compare(embeddings[i], embeddings[j])
            for i, j in zip(torch.split(first, CHUNK), torch.split(second, CHUNK), strict=True)
        ]
        return torch.cat(parts).double().cpu().numpy()


def symmetric_similarity(geometry: Geometry) -> Compare:
    """[N, D], [N, D] -> [N]: the mean of both directions of entailment."""
    if geometry.symmetric:
        return geometry.entails
    return lambda a, b: (geometry.entails(a, b) + geometry.entails(b, a)) / 2


def extent_direction(geometry: Geometry) -> Compare:
    """[N, D], [N, D] -> [N]: positive where the first entails the second by extent.

    By variance for Gaussians (GaussCSE section 3.1), by log-volume for boxes.
    """
    sign = 1 if geometry.entailing_is_larger() else -1
    return lambda a, b: sign * (geometry.extent(a) - geometry.extent(b))


def half_ties(margins: NDArray[np.float64] | Sequence[float]) -> NDArray[np.float64]:
    """1 for a positive margin, 0 for a negative one, 1/2 for none at all."""
    return (np.sign(np.asarray(margins, dtype=np.float64)) + 1) / 2
