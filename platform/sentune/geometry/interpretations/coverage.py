"""Coverage of sentences by references: the condition of GumbelCSE Eq. 13.

The coverage is Vol(b_s and b_t) / Vol(b_s), which intersects b_s once. Eq. 13 taken literally
intersects b_s twice by Eq. 1, and each Gumbel intersection shrinks a box, even one with itself:
P(b | b) is 0.07 in 16 dimensions for sides of ten temperatures. On a trained model the literal
coverage was 0.59 of this one on average (docs/results.md).

A Gumbel intersection is always smaller than the box, so alpha_2 = 1.0 excludes nothing. If a
reference is much larger than the sentence, the coverage may round to 1; it is then set to the
largest number below 1. With hard intersections the coverage can be exactly 1.

Legend: S = sentences, R = references, D = packed width, d = D/2, m = references that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sentune.beats import beat
from sentune.geometry.boxes import Boxes
from sentune.geometry.chunks import rows_at_once
from sentune.geometry.corners import Corners

# Pairs of one block, which has at least one sentence with all references. A block keeps at most
# this many rows and coverages, 12 bytes a pair: 200 MB.
PAIRS = 2**24
# Pairs of one table of overlaps: 4 MB of float32.
TABLE = 2**20


@dataclass(frozen=True)
class Kept:
    """The references whose coverage of one sentence is above a threshold.

    Attributes:
        rows: [m] int64, increasing rows of the references.
        coverage: [m] Vol(b_s and b_t) / Vol(b_s), in the dtype of the boxes, in [0, 1]; below 1
            with Gumbel intersections.
    """

    rows: Tensor
    coverage: Tensor


def covered(boxes: Boxes, sentences: Tensor, references: Tensor, above: float) -> Iterator[Kept]:
    """Yield for each sentence, in order, the references whose coverage exceeds ``above``.

    Args:
        sentences: [S, D] packed embeddings.
        references: [R, D] packed embeddings.
        above: strict lower bound, rounded to the dtype of the boxes as ``Cells`` rounds its edges.

    Raises:
        InvalidValue: the packed width is odd.
    """
    some, others = (_corners(boxes, rows) for rows in (sentences, references))
    dtype = torch.promote_types(sentences.dtype, torch.float32)
    step = rows_at_once(PAIRS, len(references), 1)
    for start in range(0, len(sentences), step):
        beat()
        yield from _of_block(boxes, some.take(slice(start, start + step)), others, above, dtype)


@torch.no_grad()
def _corners(boxes: Boxes, embeddings: Tensor) -> Corners:
    """Return the corners of boxes, in float64 for hard intersections.

    In float32 the coverage of a box inside another is 1 - 6e-8 or 1, depending on how a table is
    vectorised, and alpha_2 = 1.0 is a strict bound. In float64 it rounds to exactly 1; it takes
    twice the time.
    """
    return boxes.corners(embeddings if boxes.intersection == "gumbel" else embeddings.double())


@torch.no_grad()
def _of_block(
    boxes: Boxes, some: Corners, others: Corners, above: float, dtype: torch.dtype
) -> list[Kept]:
    """Return what each sentence of a block keeps, computed over blocks of references."""
    largest = 1.0 if boxes.intersection == "hard" else 1 - torch.finfo(dtype).eps / 2
    volumes, step = boxes.log_volume(some)[:, None], rows_at_once(TABLE, len(some.lower), 1)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, max(1, len(others.lower)), step):
        overlaps = boxes.log_overlap_table(some, others.take(slice(start, start + step)))
        table = (overlaps - volumes).exp_().to(dtype).clamp_(max=largest)
        sentence, row = (table > above).nonzero(as_tuple=True)
        parts.append((sentence, row + start, table[sentence, row]))
    return _by_sentence(parts, len(volumes))


def _by_sentence(parts: list[tuple[Tensor, Tensor, Tensor]], count: int) -> list[Kept]:
    """Regroup (sentence, row, coverage) of blocks of references by sentence, rows increasing."""
    sentence, row, coverage = (torch.cat(column) for column in zip(*parts, strict=True))
    order = sentence.argsort(stable=True)
    counts = sentence.bincount(minlength=count).tolist()
    both = zip(*(torch.split(column[order], counts) for column in (row, coverage)), strict=True)
    return [Kept(rows, values) for rows, values in both]
