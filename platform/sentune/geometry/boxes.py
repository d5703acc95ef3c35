"""Sentences as Gumbel boxes, compared by conditional probability (GumbelCSE, section 3.1).

A packed embedding is ``[center | offset]``; the offset is made positive here, so a linear layer's
output can be used as it is. Legend: N, M = sentences, D = packed width, d = D/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from sentune.errors import InvalidValue
from sentune.geometry.base import full_precision
from sentune.geometry.box_overlap import log_overlap_table
from sentune.geometry.chunks import chunk_size, table_by_rows
from sentune.geometry.corners import Corners, gumbel_intersection, hard_intersection, log_volume

# Keeps the log-volume's side away from zero when a raw offset runs off to -inf.
OFFSET_FLOOR = 1e-4


@dataclass(frozen=True)
class Boxes:
    """P(b_h | b_p) = Vol(b_h and b_p) / Vol(b_p) (Eq. 1); the entailing sentence is smaller.

    Attributes:
        intersection_temperature: scale of the Gumbel distributions of the corners.
        volume_temperature: of the volume's softplus; ``None`` ties it to the intersection's.
            Tied temperatures make the table of overlaps twice as fast.
        intersection: ``gumbel`` as trained, or ``hard``: idempotent, with P(b | b) = 1, where
            the Gumbel one gives 0.07 in 16 dimensions for sides of ten temperatures. Its gradient
            reaches one of two corners only.
        chunk: numbers in one temporary of a table; ``None`` suits the device.
    """

    intersection_temperature: float
    volume_temperature: float | None = None
    intersection: Literal["gumbel", "hard"] = "gumbel"
    chunk: int | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        for name in ("intersection_temperature", "volume_temperature"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise InvalidValue(name, value, "it must be a positive number")
        if self.intersection not in ("gumbel", "hard"):
            raise InvalidValue("intersection", self.intersection, "it must be 'gumbel' or 'hard'")

    @property
    def temperatures(self) -> tuple[float, float]:
        """Of the intersection and of the volume."""
        tied = self.intersection_temperature
        return tied, tied if self.volume_temperature is None else self.volume_temperature

    @full_precision
    def corners(self, embeddings: Tensor) -> Corners:
        """[N, D] -> corners of [N, d]: center -+ (softplus(offset + 1) + a floor).

        The paper is silent on the activation. This one starts near a half-side of 1.3, so that
        boxes overlap at the start: disjoint ones have P, and P's gradient, underflow to zero.
        """
        if embeddings.shape[-1] % 2:
            width = embeddings.shape[-1]
            raise InvalidValue("embedding width", width, "it must be even: center | offset")
        center, raw = embeddings.chunk(2, dim=-1)
        offset = F.softplus(raw + 1) + OFFSET_FLOOR
        return Corners(center - offset, center + offset)

    def intersect(self, first: Corners, second: Corners) -> Corners:
        """Corners of the intersections, with broadcasting."""
        if self.intersection == "hard":
            return hard_intersection(first, second)
        return gumbel_intersection(first, second, self.intersection_temperature)

    def log_volume(self, box: Corners) -> Tensor:
        """[..., d] -> [...]: natural logarithm of the volume."""
        return log_volume(box, *self.temperatures)

    def log_overlap_table(self, first: Corners, second: Corners) -> Tensor:
        """[N, d], [M, d] -> [N, M]: log-volume of the intersection of first_i and second_j."""
        chunk = chunk_size(self.chunk, first.lower.device)
        if self.intersection == "hard":
            return table_by_rows(self._overlap_entries, first, second, chunk)
        return log_overlap_table(first, second, self.temperatures, chunk)

    def _overlap_entries(self, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> Tensor:
        return self.log_volume(self.intersect(Corners(*rows), Corners(*columns)))

    def log_overlap(self, first: Corners, second: Corners) -> Tensor:
        """[N, d], [N, d] -> [N]: log-volume of the intersection of first_i and second_i."""
        return self.log_volume(self.intersect(first, second))

    @full_precision
    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [M, D] -> [N, M]: P(b_h_j | b_p_i), in [0, 1]."""
        first = self.corners(premises)
        overlap = self.log_overlap_table(first, self.corners(hypotheses))
        return _probability(overlap, self.log_volume(first)[:, None])

    @full_precision
    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """[N, M] twice: first_i entails second_j, and second_j entails first_i.

        Both are of the same intersections, which are computed once.
        """
        x, y = self.corners(first), self.corners(second)
        overlap = self.log_overlap_table(x, y)
        forward = _probability(overlap, self.log_volume(x)[:, None])
        return forward, _probability(overlap, self.log_volume(y)[None, :])

    @full_precision
    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N]: P(b_h | b_p), in [0, 1]."""
        return self.log_entails(premises, hypotheses).exp()

    @full_precision
    def log_entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N]: log P(b_h | b_p), at most 0; it does not underflow."""
        first = self.corners(premises)
        overlap = self.log_overlap(first, self.corners(hypotheses))
        return (overlap - self.log_volume(first)).clamp(max=0)

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """[N]: log P(second | first) - log P(first | second), positive: first entails second.

        The intersection cancels out: what remains is the difference of the log-volumes.
        """
        return self.extent(second) - self.extent(first)

    def extent(self, embeddings: Tensor) -> Tensor:
        """[N]: log-volume."""
        return self.log_volume(self.corners(embeddings))

    def entailing_is_larger(self) -> bool:
        return False


def _probability(log_overlap: Tensor, log_volumes: Tensor) -> Tensor:
    """Rounding may leave a logarithm of 1e-6 above zero, hence the clamp."""
    return (log_overlap - log_volumes).clamp(max=0).exp()
