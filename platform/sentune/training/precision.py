"""What a device computes in, and how much of it at once."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from sentune.errors import InvalidValue
from sentune.training.settings import Precision


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raise ``InvalidValue`` for bfloat16 on a CUDA device that would only emulate it."""
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
