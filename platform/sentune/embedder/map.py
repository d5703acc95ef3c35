"""Embeddings on paper: a map of many sentences, and boxes and Gaussians of a few pairs.

Legend: S = sentences, D = packed width, d = dimensions of the space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sentune.embedder.embedder import Embedder
from sentune.geometry import gaussians
from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.geometry.gaussians import Gaussians


def flat_map(
    model: Embedder, pairs: Sequence[tuple[str, str]], kinds: Sequence[str]
) -> dict[str, Any]:
    """Return the two principal components of the centres of pairs of sentences.

    ``pairs`` has for each its kind, both sentences and their places; ``explained`` is the share of
    the variance along each axis.

    Args:
        kinds: of each pair, a word.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    centres = middle(model.geometry, model.embed_known(texts)).double().cpu()
    centred = centres - centres.mean(0)
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    flat = torch.zeros(len(texts), 2, dtype=torch.float64)
    width = min(2, len(axes))
    flat[:, :width] = centred @ axes[:width].T
    share = spread.square() / spread.square().sum().clamp(min=1e-30)
    place = dict(zip(texts, _rounded(flat), strict=True))
    return {
        "explained": _rounded(share[:2]),
        "pairs": [
            {"kind": kind, "first": a, "second": b, "places": [place[a], place[b]]}
            for kind, (a, b) in zip(kinds, pairs, strict=True)
        ],
    }


def shapes(model: Embedder, pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return boxes or Gaussians of pairs in two dimensions of the space; none for points.

    The dimensions are the two in which the pair's regions differ most, measured in their own
    sizes. A region's projection on them is exact: ``centre``, and ``reach`` to each side of it, the
    half-side of a box or the standard deviation of a Gaussian.

    Args:
        pairs: with ``first`` and ``second``; whatever else they have is kept.
    """
    if not isinstance(model.geometry, Boxes | Gaussians):
        return []
    found = []
    for pair in pairs:
        packed = model.embed_known([pair["first"], pair["second"]])
        centres, reach = (part.double().cpu() for part in region(model.geometry, packed))
        apart = (centres[0] - centres[1]).abs() / reach.sum(0)
        chosen = apart.topk(min(2, len(apart))).indices.sort().values
        found.append(
            {
                **pair,
                "shape": "box" if isinstance(model.geometry, Boxes) else "Gaussian",
                "dimensions": (chosen + 1).tolist(),
                "centre": _rounded(centres[:, chosen]),
                "reach": _rounded(reach[:, chosen]),
            }
        )
    return found


def middle(geometry: Geometry, packed: Tensor) -> Tensor:
    """[S, D] -> [S, d] centres of boxes, means of Gaussians, points as they are."""
    known = isinstance(geometry, Boxes | Gaussians)
    return region(geometry, packed)[0] if known else packed


def region(geometry: Geometry, packed: Tensor) -> tuple[Tensor, Tensor]:
    """[S, D] of boxes or Gaussians -> centres and half-sides or standard deviations, [S, d]."""
    if isinstance(geometry, Boxes):
        box = geometry.corners(packed)
        return (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    mean, log_sigma = gaussians.unpack(packed)
    return mean, log_sigma.exp()


def _rounded(values: Tensor) -> Any:
    """Return nested lists of numbers to five digits."""
    if values.ndim == 0:
        return float(f"{float(values):.5g}")
    return [_rounded(part) for part in values]
