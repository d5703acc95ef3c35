"""From pairs of sentences to the ranges of P over their interpretations, block by block.

GumbelCSE Eq. 13 and 14. Legend: N = pairs, S = sentences, R = references, D = packed width, F = n's
(prefixes of the references), A = allowed pairs of alphas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.interpretations.coverage import Kept, covered
from sentune.geometry.interpretations.extremes import Interpretations, extremes
from sentune.geometry.interpretations.groups import Groups
from sentune.readouts.cells import Cells

Rows = NDArray[np.int64]
Floats = NDArray[np.float32] | NDArray[np.float64]

# Pairs of a sentence and a reference that a block may keep, 12 bytes each, and numbers of its table
# by groups.
KEPT = 2**24
TABLE = 2**21
LARGEST_BLOCK = 256


@dataclass(frozen=True)
class Block:
    """Some pairs under one intersection."""

    intersection: Literal["gumbel", "hard"]
    pairs: Rows


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """What a block found.

    Attributes:
        low, high: [F, A, pairs] smallest and largest log P over U_p x U_h, in the dtype of the
            embeddings.
        sentences: the distinct ones of the block.
        members: [sentences, F, A] |U|.
        largest: [sentences] largest coverage by a reference; 0 if none exceeds the smallest alpha.
        own: [sentences] P(b | b).
    """

    low: Floats
    high: Floats
    sentences: Rows
    members: NDArray[np.int32]
    largest: Floats
    own: Floats


@dataclass(frozen=True, kw_only=True)
class RangeFinder:
    """Finds the ranges of a block of pairs for all n and all pairs of alphas at once.

    Everything is computed in the dtype of the embeddings, float32 as encoders give them. It moves a
    coverage by about 1e-6 of itself, and so it moves about one reference in a million across an
    alpha; float64 would double the time.

    Attributes:
        sentences: [S, D] and references: [R, D] packed embeddings.
        premises, hypotheses: [N] rows of ``sentences``.
        sizes: [F] references of each n, increasing.
        alphas: the allowed pairs.
    """

    boxes: Boxes
    sentences: Tensor
    references: Tensor
    premises: Rows
    hypotheses: Rows
    sizes: tuple[int, ...]
    alphas: Sequence[tuple[float, float]]

    @cached_property
    def cells(self) -> Cells:
        return Cells([alpha for both in self.alphas for alpha in both])

    @cached_property
    def groups(self) -> Groups:
        return Groups(self.cells.count, len(self.sizes))

    @property
    def smallest_alpha(self) -> float:
        return min(alpha_1 for alpha_1, _ in self.alphas)

    def blocks(self, intersection: Literal["gumbel", "hard"]) -> list[Block]:
        """All pairs, those of a premise together, so that most blocks look at it once."""
        order = np.lexsort((self.hypotheses, self.premises))
        by_kept = KEPT // (2 * max(1, len(self.references)))
        by_table = TABLE // self.groups.count**2
        step = max(1, min(by_kept, by_table, LARGEST_BLOCK))
        starts = range(0, len(order), step)
        return [Block(intersection, order[start : start + step]) for start in starts]

    @torch.no_grad()
    def __call__(self, block: Block) -> Ranges:
        boxes = replace(self.boxes, intersection=block.intersection)
        sides = self.premises[block.pairs], self.hypotheses[block.pairs]
        used, places = np.unique(np.stack(sides), return_inverse=True)
        some = self.sentences[torch.from_numpy(used).to(self.sentences.device)]
        kept = list(covered(boxes, some, self.references, self.smallest_alpha))
        corners = boxes.corners(some)
        found = Interpretations.of(
            corners, boxes.corners(self.references), kept, self._group, self.groups.own
        )
        premises, hypotheses = torch.from_numpy(places.reshape(2, -1)).to(some.device)
        tables = extremes(boxes, found, premises, hypotheses, self.groups)
        members = self._members(found)
        low = self._of_sets(tables.low, members, premises, hypotheses)
        high = -self._of_sets(-tables.high, members, premises, hypotheses)
        largest = [float(k.coverage.max()) if len(k.coverage) else 0.0 for k in kept]
        return Ranges(
            low=low.cpu().numpy(),
            high=high.cpu().numpy(),
            sentences=used,
            members=members.cpu().numpy().astype(np.int32),
            largest=np.array(largest),
            own=boxes.entails(some, some).cpu().numpy(),
        )

    def _group(self, kept: Kept) -> Tensor:
        cell = torch.from_numpy(self.cells.of(kept.coverage.cpu().numpy())).to(kept.rows.device)
        sizes = torch.tensor(self.sizes, device=kept.rows.device)
        return self.groups.of(cell, torch.bucketize(kept.rows, sizes, right=True))

    @cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        """First and last cell of each pair of alphas."""
        spans = [self.cells.between(*both) for both in self.alphas]
        return [span.start for span in spans], [span.stop - 1 for span in spans]

    def _members(self, found: Interpretations) -> Tensor:
        """[sentences, F, A]: |U|."""
        first, last = self._spans
        return self.groups.sizes(found.sizes(self.groups.count))[..., first, last]

    def _of_sets(
        self, table: Tensor, members: Tensor, premises: Tensor, hypotheses: Tensor
    ) -> Tensor:
        """[pairs, G, G] -> [F, A, pairs]: the minima over U_p x U_h, own boxes for empty sets."""
        first, last = self._spans
        minima = self.groups.minima(table)[..., first, last]
        empty = (members == 0).long()
        pair = torch.arange(len(table), device=table.device)[:, None, None]
        prefix, alpha = (torch.arange(n, device=table.device) for n in members.shape[1:])
        sides = empty[premises], empty[hypotheses]
        return minima[pair, *sides, prefix[:, None], alpha].movedim(0, -1)
