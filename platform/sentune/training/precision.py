"""What a device computes in, and how much of it at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from sentune.encoders import length_sorted_chunks
from sentune.errors import InvalidValue
from sentune.training.settings import Precision


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuse what the device would only emulate.

    Raises:
        InvalidValue: bfloat16 on a CUDA device without it.
    """
    if precision != "bfloat16" or device.type != "cuda":
        return
    with torch.cuda.device(device):
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise InvalidValue("precision", precision, "this GPU has no bfloat16; use float32")


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Context in which an encoder computes."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def sentences_at_a_time(device: torch.device) -> int:
    """Sentences of like length that go through the encoder together.

    On a CPU smaller parts pad less and stay in the cache; a GPU wants fewer, larger kernels.
    """
    return 64 if device.type == "cpu" else 512


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
