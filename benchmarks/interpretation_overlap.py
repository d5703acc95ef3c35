"""Extremes of P over all pairs of interpretations, against the broadcast as the paper writes it.

python benchmarks/interpretation_overlap.py
"""

from __future__ import annotations

from functools import partial

import torch
from box_overlap import broadcast_table
from measure import Work, measure, options, report
from torch import Tensor

from sentune.geometry import Boxes, Corners
from sentune.geometry.interpretations.bounded_search import Side, every_entry, smallest
from sentune.geometry.interpretations.groups import Groups

# Numbers of one [rows, |U_h|, d] temporary of the broadcast: 64 MB, of which it holds about six.
SLICE = 2**24


def interpretations(boxes: Boxes, sentence: Corners, count: int, cells: int, prefixes: int) -> Side:
    """References around a sentence that cover more than half of it, by coverage and prefix."""
    width = len(sentence.lower)
    center, half = (sentence.lower + sentence.upper) / 2, (sentence.upper - sentence.lower) / 2
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    while sum(len(part[0]) for part in found) < count:
        shift = torch.randn(4 * count, width) * torch.rand(4 * count, 1) * 0.8 * (16 / width) ** 0.5
        sides = half * torch.exp(0.35 + 0.2 * torch.randn(4 * count, width))
        other = Corners(center + shift - sides, center + shift + sides)
        both = boxes.intersect(Corners(*(corner[None] for corner in sentence)), other)
        coverage = (boxes.log_volume(both) - boxes.log_volume(sentence)).exp()
        keep = coverage > 0.5
        found.append((both.lower[keep], both.upper[keep], coverage[keep]))
    lower, upper, coverage = (torch.cat(side)[:count] for side in zip(*found, strict=True))
    edges = torch.linspace(0.5, 1, cells + 1)[1:-1]
    prefix = (torch.rand(count).clamp(min=1e-9).log2() + prefixes).clamp(0, prefixes - 1).long()
    groups = Groups(cells, prefixes).of(torch.bucketize(coverage, edges), prefix)
    order = groups.argsort(stable=True)
    return Side(Corners(lower[order], upper[order]), groups[order])


def work(way: str, count: int, width: int, temperature: float, groups: Groups) -> Work:
    """Sides of about forty temperatures at T = 0.05, and a hypothesis some way off."""
    torch.manual_seed(0)
    boxes = Boxes(temperature)
    center, half = torch.randn(width) * 0.5, 1 + torch.rand(2, width)
    centers = (center, center + 0.2 * torch.randn(width))
    first, second = (
        interpretations(boxes, Corners(c - h, c + h), count, groups.cells, groups.prefixes)
        for c, h in zip(centers, half, strict=True)
    )
    if way == BROADCAST:
        return partial(broadcast, boxes, first, second)
    return partial(ours, boxes, first, second, groups, way != EVERYTHING)


def broadcast(boxes: Boxes, first: Side, second: Side) -> list[float]:
    """Slices of rows with tensors of [rows, |U_h|, d]; the smallest and the largest of all."""
    rows = max(1, SLICE // second.corners.lower.numel())
    volumes = boxes.log_volume(first.corners)
    low, high = [], []
    for start in range(0, len(first), rows):
        part = slice(start, start + rows)
        sides = (*first.take(part).corners, *second.corners)
        table = broadcast_table(*sides, boxes.intersection_temperature) - volumes[part, None]
        low.append(float(table.amin()))
        high.append(float(table.amax()))
    return [min(low), max(high)]


@torch.no_grad()
def ours(boxes: Boxes, first: Side, second: Side, groups: Groups, skip: bool) -> list[float]:
    """The same for every set of the groups."""
    if not skip:
        low, high = every_entry(boxes, first, second, groups)
        return [float(low.amin()), -float(high.amin())]
    tables = (smallest(boxes, first, second, groups, sign=sign) for sign in (1, -1))
    return [sign * float(table.amin()) for sign, table in zip((1, -1), tables, strict=True)]


BROADCAST = "rows x |U_h| x d broadcast"
EVERYTHING = "sentune, every entry"
SETS = "sentune, all sets"
ONE = "sentune"


def main() -> None:
    o = options(__doc__, count=5000, dimensions=[16, 64], temperature=0.05, repeats=3)
    for width in o.dimensions:
        rows = []
        for way in (BROADCAST, EVERYTHING, SETS, ONE):
            groups = Groups(5, 5) if way == SETS else Groups(1, 1)
            make = partial(work, way, o.count, width, o.temperature, groups)
            repeats = 1 if way == BROADCAST else o.repeats
            rows.append((way, measure(make, repeats=repeats, threads=o.threads)))
        title = f"Smallest and largest P of {o.count} x {o.count} interpretations, d = {width}"
        report(f"{title}, T = {o.temperature}, float32", rows, o.threads)


if __name__ == "__main__":
    main()
