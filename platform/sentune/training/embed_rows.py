"""Tokenised sentences to embeddings, as a validation needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from sentune.encoders import length_sorted_chunks
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import Precision


def embed_rows(
    embed: Callable[[Tensor, Tensor], Tensor],
    rows: Sequence[np.ndarray],
    *,
    pad_id: int,
    precision: Precision,
    device: torch.device,
) -> Tensor:
    """Token ids of S sentences -> [S, D] in their order; those of like length go together.

    Args:
        embed: ids and mask [N, L] -> [N, D].
    """
    chunks, restore = length_sorted_chunks(rows, sentences_at_a_time(device), pad_id)
    with autocast(precision, device):
        parts = [embed(*chunk.to(device)) for chunk in chunks]
    return torch.cat(parts)[restore.to(device)]
