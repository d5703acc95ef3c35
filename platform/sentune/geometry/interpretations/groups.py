"""Groups of interpretations, so that one table serves every (alpha_1, alpha_2, n).

A group is a cell of coverage and the first prefix of the reference list that holds the reference.
A set U (GumbelCSE Eq. 13) is an interval of cells in the prefixes up to some n. One more group
holds the sentence's own box, which stands in for an empty U: the paper is silent about it.

Legend: C = cells, F = prefixes, G = C F + 1 groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """C cells by F prefixes, and the sentence's own box as the last group."""

    cells: int
    prefixes: int

    @property
    def own(self) -> int:
        """The group of the sentence's own box."""
        return self.cells * self.prefixes

    @property
    def count(self) -> int:
        """G."""
        return self.own + 1

    def of(self, cell: Tensor, prefix: Tensor) -> Tensor:
        """[m] cells and prefixes -> [m] groups, cells first: alike coverages lie together."""
        return cell.long() * self.prefixes + prefix.long()

    def sizes(self, members: Tensor) -> Tensor:
        """[..., G] members by group -> [..., F, C, C]: members of cells a to b, both included, in
        the prefixes up to f."""
        split = members[..., :-1].unflatten(-1, (self.cells, self.prefixes))
        upto = split.cumsum(-1).transpose(-1, -2).cumsum(-1)
        before = torch.nn.functional.pad(upto[..., :-1], (1, 0))
        return (upto[..., None, :] - before[..., :, None]).triu()

    def minima(self, table: Tensor) -> Tensor:
        """[..., G, G] minima by groups -> [..., 2, 2, F, C, C] minima over sets.

        The first two axes say whether U_p and U_h are empty (1); f, a, b stand for the cells a to b
        of prefixes up to f, of both sentences. Below the diagonal (a > b) nothing is meant.
        """
        shape = (self.cells, self.prefixes)
        both = table[..., :-1, :-1].unflatten(-2, shape).unflatten(-1, shape)
        both = both.cummin(-1).values.cummin(-3).values
        both = both.diagonal(dim1=-3, dim2=-1).movedim(-1, -3)
        by_row, by_column = (self._own(side) for side in (table[..., :-1, -1], table[..., -1, :-1]))
        alone = table[..., -1, -1, None, None, None].expand(both.shape)
        first = torch.stack([_intervals(both), by_row], dim=-4)
        return torch.stack([first, torch.stack([by_column, alone], dim=-4)], dim=-5)

    def _own(self, side: Tensor) -> Tensor:
        """[..., C F] -> [..., F, C, C]: against the other sentence's own box."""
        values = side.unflatten(-1, (self.cells, self.prefixes)).cummin(-1).values
        table = values.new_full(
            (*values.shape[:-2], self.prefixes, self.cells, self.cells), torch.inf
        )
        table.diagonal(dim1=-2, dim2=-1).copy_(values.transpose(-1, -2))
        return _intervals(table)

    def thresholds(self, table: Tensor) -> Tensor:
        """[G, G] -> [G, G]: what an entry must go below to lower any minimum over sets.

        Every pair of sets that holds an entry of groups (c, f) and (c', f') holds all cells from
        min(c, c') to max(c, c') of the prefixes up to max(f, f'). An entry that is not below the
        minimum of these cannot be the minimum of a larger one.
        """
        sets = self.minima(table)
        group = torch.arange(self.own, device=table.device)
        cell, prefix = group // self.prefixes, group % self.prefixes
        latest = torch.maximum(prefix[:, None], prefix)
        low, high = torch.minimum(cell[:, None], cell), torch.maximum(cell[:, None], cell)
        found = torch.empty_like(table)
        found[:-1, :-1] = sets[0, 0, latest, low, high]
        found[:-1, -1] = sets[0, 1, prefix, cell, cell]
        found[-1, :-1] = sets[1, 0, prefix, cell, cell]
        found[-1, -1] = table[-1, -1]
        return found


def _intervals(table: Tensor) -> Tensor:
    """[..., C, C] -> [..., C, C]: at a <= b, the minimum over the square of a to b."""
    found = table.clone()
    for width in range(1, table.shape[-1]):
        found.diagonal(width, -2, -1).copy_(
            torch.stack(
                [
                    table.diagonal(width, -2, -1),
                    table.diagonal(-width, -2, -1),
                    found.diagonal(width - 1, -2, -1)[..., :-1],
                    found.diagonal(width - 1, -2, -1)[..., 1:],
                ]
            ).amin(0)
        )
    return found
