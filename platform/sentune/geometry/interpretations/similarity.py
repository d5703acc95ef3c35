"""The symmetric similarity of boxes that are given by their corners (GumbelCSE Eq. 16).

An interpretation is an intersection and has no packed embedding. Logarithms, since the volumes of
intersections underflow. Legend: N, M = boxes, d = dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners


def log_similarity(boxes: Boxes, first: Corners, second: Corners) -> Tensor:
    """[N, d], [N, d] -> [N]: log of (P(x | y) + P(y | x)) / 2, at most 0."""
    overlap = boxes.log_overlap(first, second)
    return _log_mean(overlap, boxes.log_volume(first), boxes.log_volume(second))


def log_similarity_table(boxes: Boxes, first: Corners, second: Corners) -> Tensor:
    """[N, d], [M, d] -> [N, M]: the same for each of N boxes with each of M."""
    overlap = boxes.log_overlap_table(first, second)
    return _log_mean(overlap, boxes.log_volume(first)[:, None], boxes.log_volume(second))


def _log_mean(overlap: Tensor, first: Tensor, second: Tensor) -> Tensor:
    one, other = ((overlap - volume).clamp(max=0) for volume in (first, second))
    return torch.logaddexp(one, other) - math.log(2)
