"""Minima and maxima of log P(b_(h,t_j) | b_(p,t_i)) over interpretations (GumbelCSE Eq. 14).

Legend: S = sentences, R = references, M = members of all sets together, P = pairs of sentences,
G = groups, d = dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations.bounded_search import (
    Side,
    every_entry,
    lower,
    overlaps,
    smallest,
)
from sentune.geometry.interpretations.coverage import Kept
from sentune.geometry.interpretations.groups import Groups

# Entries of one call of ``overlaps``; temporaries have d times as many elements, 4 MB at d = 16.
ENTRIES = 2**16
# Pairs of up to FEW entries share a call, those of up to MANY get a table, larger ones a search by
# bounds. At d = 16 a table takes 80 ns an entry and a search at least 20 ms.
FEW, MANY = 2**13, 2**18
OWN = -1


@dataclass(frozen=True)
class Interpretations:
    """The interpretation boxes of S sentences, stored as rows of references.

    Attributes:
        sentences: [S, d] corners.
        references: [R, d] corners.
        rows: [M] row of the reference of each member, ``OWN`` for the sentence's own box; the
            members of a sentence are adjacent and sorted by group.
        groups: [M] group of each member.
        starts: [S + 1] place of each sentence's first member.
    """

    sentences: Corners
    references: Corners
    rows: Tensor
    groups: Tensor
    starts: Tensor

    @classmethod
    def of(
        cls,
        sentences: Corners,
        references: Corners,
        kept: Sequence[Kept],
        group: Callable[[Kept], Tensor],
        own: int,
    ) -> Interpretations:
        """Return the interpretations by the kept references, and each own box in group ``own``."""
        device = sentences.lower.device
        alone, last = torch.tensor([[OWN], [own]], device=device)
        rows = torch.cat([part for k in kept for part in (k.rows, alone)])
        groups = torch.cat([part for k in kept for part in (group(k), last)])
        sizes = torch.tensor([0, *(len(k.rows) + 1 for k in kept)])
        starts = sizes.cumsum(0).to(device)
        owner = torch.repeat_interleave(starts.diff())
        order = (owner * (own + 1) + groups).argsort(stable=True)
        return cls(sentences, references, rows[order], groups[order], starts)

    def sizes(self, groups: int) -> Tensor:
        """Return the number of members of each sentence and group, [S, G]."""
        owner = torch.repeat_interleave(self.starts.diff())
        places = owner * groups + self.groups
        return places.bincount(minlength=len(self.sentences.lower) * groups).view(-1, groups)

    def side(self, boxes: Boxes, sentences: Tensor) -> tuple[Side, Tensor]:
        """Return the boxes of these sentences, and the place in ``sentences`` of each box.

        b_(s,t) = b_s and b_t. Gumbel intersections are associative, so the intersection of two
        interpretations can be computed from their corners.
        """
        place, member = ragged(self.starts[sentences], self.starts.diff()[sentences])
        owner, row = sentences[place], self.rows[member]
        inside = (row != OWN).nonzero()[:, 0]
        whole = self.sentences.take(owner)
        both = boxes.intersect(whole.take(inside), self.references.take(row[inside]))
        parts = zip(whole, both, strict=True)
        corners = Corners(*(all_of.index_copy(0, inside, part) for all_of, part in parts))
        return Side(corners, self.groups[member]), place


def extremes(
    boxes: Boxes,
    interpretations: Interpretations,
    premises: Tensor,
    hypotheses: Tensor,
    groups: Groups,
) -> tuple[Tensor, Tensor]:
    """Return smallest and largest log P, at most 0, over all interpretations of P pairs.

    Small pairs of sentences are computed together and larger ones one by one; for the largest,
    bounds exclude entries that cannot be an extreme. The memory is bounded.

    Args:
        premises, hypotheses: [P] indices of sentences in ``interpretations``.

    Returns:
        [P, G, G] each, by groups of premise and hypothesis; infinite without an entry. Entries that
        are not the extreme of any set of ``groups`` may be missing; ``Groups.minima`` is exact.
    """
    device = interpretations.rows.device
    shape = (2, len(premises), groups.count, groups.count)
    found = torch.full(shape, torch.inf, dtype=interpretations.sentences.lower.dtype, device=device)
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        sizes = interpretations.starts.diff()
        entries = (sizes[premises] * sizes[hypotheses]).tolist()
        for run in _runs(entries):
            first = interpretations.side(boxes, premises[run])
            second = interpretations.side(boxes, hypotheses[run])
            if entries[run.start] <= FEW:
                _compute_all(boxes, first, second, found[:, run])
            elif entries[run.start] <= MANY:
                found[:, run.start] = every_entry(boxes, first[0], second[0], groups)
            else:
                for sign, table in zip((1, -1), found[:, run.start], strict=True):
                    table.copy_(smallest(boxes, first[0], second[0], groups, sign=sign))
    return found[0].clamp_(max=0), found[1].neg_().clamp_(max=0)


def ragged(starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the concatenated ranges start, ..., start + size - 1, and the range of each number."""
    owner = torch.repeat_interleave(sizes)
    before = sizes.cumsum(0) - sizes
    return owner, torch.arange(len(owner), device=owner.device) + (starts - before)[owner]


def _runs(entries: Sequence[int]) -> Iterator[slice]:
    """Yield runs of small pairs with at most ``ENTRIES`` together, or of one larger pair."""
    start = total = 0
    for pair, count in enumerate(entries):
        if pair > start and (total + count > ENTRIES or max(count, entries[start]) > FEW):
            yield slice(start, pair)
            start, total = pair, 0
        total += count
    if entries:
        yield slice(start, len(entries))


def _compute_all(
    boxes: Boxes, first: tuple[Side, Tensor], second: tuple[Side, Tensor], found: Tensor
) -> None:
    """Lower ``found`` [2, pairs, G, G] by every entry of each pair of a run."""
    (x, in_x), (y, in_y) = first, second
    pairs, groups = found.shape[1:3]
    n, m = in_x.bincount(minlength=pairs), in_y.bincount(minlength=pairs)
    pair, entry = ragged(torch.zeros_like(n), n * m)
    row = (n.cumsum(0) - n)[pair] + entry // m[pair]
    column = (m.cumsum(0) - m)[pair] + entry % m[pair]
    rows, columns = x.take(row), y.take(column)
    values = overlaps(boxes, rows, columns)
    places = (pair * groups + rows.groups) * groups + columns.groups
    for sign, table in zip((1, -1), found, strict=True):
        lower(table, places, sign * values)
