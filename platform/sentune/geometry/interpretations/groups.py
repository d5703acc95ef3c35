"""Groups of interpretations, so that one table serves every (alpha_1, alpha_2, n).

A group is a cell of coverage and the first prefix of the reference list that has the reference. A
set U (GumbelCSE Eq. 13) is an interval of cells in the prefixes up to some n. One more group
contains the sentence's own box, which replaces an empty U; the paper does not say what does.

Legend: C = cells, F = prefixes, G = C F + 1 groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """The groups of C cells by F prefixes, and of the sentence's own box as the last group."""

    cells: int
    prefixes: int

    @property
    def own(self) -> int:
        """The group of the sentence's own box."""
        return self.cells * self.prefixes

    @property
    def _shape(self) -> tuple[int, int]:
        return self.cells, self.prefixes

    @property
    def count(self) -> int:
        """G, the number of groups."""
        return self.own + 1

    def of(self, cell: Tensor, prefix: Tensor) -> Tensor:
        """Return the group of each cell and prefix, [m]; groups are sorted by cell first."""
        return cell.long() * self.prefixes + prefix.long()

    def sizes(self, members: Tensor) -> Tensor:
        """Return the number of members in cells a to b of the prefixes up to f, [..., F, C, C].

        Args:
            members: [..., G] number of members of each group.
        """
        split = torch.unflatten(members[..., :-1], -1, self._shape)
        upto = split.cumsum(-1).transpose(-1, -2).cumsum(-1)
        before = torch.nn.functional.pad(upto[..., :-1], (1, 0))
        return (upto[..., None, :] - before[..., :, None]).triu()

    def minima(self, table: Tensor) -> Tensor:
        """Return the minima over sets from minima by groups, [..., G, G] -> [..., 2, 2, F, C, C].

        The axes of length 2 say whether U_p and U_h are empty (1). The last three, f, a and b,
        select the cells a to b of the prefixes up to f of both sentences. Infinite if a > b.
        """
        both = self._both(table)
        by_row, by_column = (self._own(side) for side in (table[..., :-1, -1], table[..., -1, :-1]))
        alone = table[..., -1, -1, None, None, None].expand(both.shape)
        first = torch.stack([both, by_row], dim=-4)
        return torch.stack([first, torch.stack([by_column, alone], dim=-4)], dim=-5)

    def _both(self, table: Tensor) -> Tensor:
        """Return the minima if neither set is empty, [..., G, G] -> [..., F, C, C]."""
        both = torch.unflatten(table[..., :-1, :-1], -2, self._shape)
        both = torch.unflatten(both, -1, self._shape)
        both = both.cummin(-1).values.cummin(-3).values
        return _intervals(both.diagonal(dim1=-3, dim2=-1).movedim(-1, -3))

    def _own(self, side: Tensor) -> Tensor:
        """Return the minima against the other's own box, [..., C F] -> [..., F, C, C]."""
        values = torch.unflatten(side, -1, self._shape).cummin(-1).values
        shape = (*values.shape[:-2], self.prefixes, self.cells, self.cells)
        table = values.new_full(shape, torch.inf)
        table.diagonal(dim1=-2, dim2=-1).copy_(values.transpose(-1, -2))
        return _intervals(table)

    def thresholds(self, table: Tensor) -> Tensor:
        """Return the value below which an entry lowers some minimum over sets, [G, G] -> [G, G].

        Every pair of sets with an entry of groups (c, f) and (c', f') contains all cells from
        min(c, c') to max(c, c') of the prefixes up to max(f, f'). An entry that is not below the
        minimum of that smallest pair of sets cannot be the minimum of a larger one.
        """
        latest, low, high = self._smallest_sets(table.device)
        found = torch.empty_like(table)
        found[:-1, :-1] = self._both(table)[latest, low, high]
        for side, kept in ((table[:-1, -1], found[:-1, -1]), (table[-1, :-1], found[-1, :-1])):
            kept.copy_(torch.unflatten(side, 0, self._shape).cummin(-1).values.flatten())
        found[-1, -1] = table[-1, -1]
        return found

    def _smallest_sets(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return prefix, first and last cell of the smallest set with both groups, [C F, C F]."""
        group = torch.arange(self.own, device=device)
        cell, prefix = group // self.prefixes, group % self.prefixes
        pairs = (cell[:, None], cell)
        return torch.maximum(prefix[:, None], prefix), torch.minimum(*pairs), torch.maximum(*pairs)


def _intervals(table: Tensor) -> Tensor:
    """Return the minimum over the square of cells a to b for a <= b, [..., C, C]."""
    above = torch.ones_like(table, dtype=torch.bool).triu()
    both = torch.minimum(table, table.transpose(-1, -2)).masked_fill(~above, torch.inf)
    # the minimum over c from a to b of entry (c, b), then over b
    return both.flip(-2).cummin(-2).values.flip(-2).cummin(-1).values
