"""Precision of computations, and batch size of inference, by device."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from sentune.errors import InvalidValue
from sentune.training.settings import Precision


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raise ``InvalidValue`` for bfloat16 on a CUDA device without native support."""
    if precision != "bfloat16" or device.type != "cuda":
        return
    with torch.cuda.device(device):
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise InvalidValue("precision", precision, "this GPU only emulates it; use float32")


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return the autocast context of a precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def sentences_at_a_time(device: torch.device) -> int:
    """Return the batch size of inference, with sentences sorted by length.

    On a CPU, small batches need less padding and stay in the cache; on a GPU, large kernels are
    faster.
    """
    return 64 if device.type == "cpu" else 512
