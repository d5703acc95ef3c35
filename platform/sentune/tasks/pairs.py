"""Sentence pairs as rows of a table of distinct sentences, and comparisons of their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.geometry.base import Geometry

CHUNK = 8192  # pairs per call; 8192 Gaussians of 768 dimensions take 50 MB per side
Compare = Callable[[Tensor, Tensor], Tensor]


class Pairs:
    """N sentence pairs over S distinct sentences, in order of first appearance.

    Attributes:
        rows: indices into ``sentences`` of the first and second sides, [N] each.
    """

    def __init__(self, first: tuple[str, ...], second: tuple[str, ...]) -> None:
        self.first, self.second = first, second
        both = (sentence for pair in zip(first, second, strict=True) for sentence in pair)
        row = {sentence: i for i, sentence in enumerate(dict.fromkeys(both))}
        self.sentences = tuple(row)
        firsts, seconds = (np.array([row[s] for s in side], np.int64) for side in (first, second))
        self.rows = firsts, seconds

    def __len__(self) -> int:
        return len(self.first)

    def compare(self, embeddings: Tensor, compare: Compare) -> NDArray[np.float64]:
        """Return ``compare(first, second)`` of each pair, [N], given ``sentences``' [S, D]."""
        first, second = (torch.from_numpy(rows).to(embeddings.device) for rows in self.rows)
        parts = [
            compare(embeddings[i], embeddings[j])
            for i, j in zip(torch.split(first, CHUNK), torch.split(second, CHUNK), strict=True)
        ]
        return torch.cat(parts).double().cpu().numpy()


def symmetric_similarity(geometry: Geometry) -> Compare:
    """Return a function of two [N, D] that gives the mean entailment of both directions, [N]."""
    if geometry.symmetric:
        return geometry.entails
    return lambda a, b: (geometry.entails(a, b) + geometry.entails(b, a)) / 2


def extent_direction(geometry: Geometry) -> Compare:
    """Return a function of two [N, D] that gives the signed difference of extents, [N].

    It is positive if the first entails the second. The extent is the variance for Gaussians
    (GaussCSE section 3.1) and the log-volume for boxes.
    """
    sign = 1 if geometry.entailing_is_larger() else -1
    return lambda a, b: sign * (geometry.extent(a) - geometry.extent(b))


def half_ties(margins: NDArray[np.float64] | Sequence[float]) -> NDArray[np.float64]:
    """Return 1 for each positive margin, 0 for a negative one and 1/2 for zero."""
    return (np.sign(np.asarray(margins, dtype=np.float64)) + 1) / 2
