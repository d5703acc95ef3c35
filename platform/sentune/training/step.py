"""One step of training: embed, loss, gradient, update. The same for one worker and for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sentune.encoders import Chunk, length_sorted_chunks
from sentune.errors import TrialFailed
from sentune.methods import SentenceMethod
from sentune.training.gradcache import cached_backward
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.settings import TrainingSettings

Rows = Sequence[np.ndarray]


def make_optimizer(method: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW; weight matrices decay, biases and layer norms do not."""
    trained = [p for p in method.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


class Step(NamedTuple):
    """What a step found: the global batch's mean loss, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float


class Stepper:
    """Takes steps on a method.

    With ``micro_batch`` below the local share of the batch the gradients are cached, so memory is
    bounded by the micro-batch; without it one autograd graph holds all sentences. Either way
    sentences of like length are embedded together, which changes no loss, only the padding.
    """

    def __init__(
        self,
        method: SentenceMethod,
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        group: Group,
        pad_id: int,
    ) -> None:
        self.method, self.optimizer = method, optimizer
        self._settings, self._group, self._pad_id = settings, group, pad_id
        self._parallel = _parallel(method, group)

    def step(
        self, columns: Mapping[str, Rows], *, learning_rate: float, seed: Iterable[int]
    ) -> Step:
        """One update on a global batch; every worker gets the same answer.

        Args:
            columns: column -> token ids of all the batch's rows; this worker takes its slice.
            learning_rate: of this step.
            seed: numbers that tell this step's dropout from any other's.

        Raises:
            TrialFailed: loss or gradient is not finite; the weights are as they were.
        """
        torch.manual_seed(_mix([*seed, self._group.rank]))
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._backward(columns)
        norm = self._clip().item()
        mean = self._group.all_reduce_mean(loss).item()
        if not (math.isfinite(mean) and math.isfinite(norm)):
            raise TrialFailed(f"loss {mean:.4g} with a gradient of norm {norm:.4g}")
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        return Step(mean, norm)

    def _backward(self, columns: Mapping[str, Rows]) -> Tensor:
        total = len(next(iter(columns.values())))
        local = self._group.slice(total)
        roles = self.method.roles
        rows = [row for column in roles.values() for row in columns[column][local]]
        count = len(rows) // len(roles)
        micro = self._settings.micro_batch
        cached = micro is not None and micro < count
        size = micro * len(roles) if cached and micro else sentences_at_a_time(self._group.device)
        chunks, restore = length_sorted_chunks(rows, size, self._pad_id)
        loss = partial(self._loss, restore=restore.to(self._group.device), total=total)
        if cached:
            return self._cached(chunks, loss)
        value = loss(torch.cat([self._embed(chunk) for chunk in chunks]))
        value.backward()
        return value.detach()

    def _cached(self, chunks: Sequence[Chunk], loss: Callable[[Tensor], Tensor]) -> Tensor:
        parallel = self._parallel
        no_sync = parallel.no_sync if isinstance(parallel, DistributedDataParallel) else nullcontext
        return cached_backward(self._embed, chunks, loss, no_sync=no_sync)

    def _embed(self, chunk: Chunk) -> Tensor:
        with autocast(self._settings.precision, self._group.device):
            return self._parallel(*chunk.to(self._group.device))

    def _loss(self, embeddings: Tensor, *, restore: Tensor, total: int) -> Tensor:
        """Local part of the mean loss, times the world size that averaging gradients divides by."""
        parts = embeddings[restore].chunk(len(self.method.roles))
        value = self.method.loss(
            dict(zip(self.method.roles, parts, strict=True)),
            partial(self._group.gather, rows=total),
            self._group.offset(total),
        )
        return value * (self._group.world_size / total)

    def _clip(self) -> Tensor:
        """Norm of the whole gradient before clipping."""
        limit = self._settings.clip_norm or float("inf")
        return nn.utils.clip_grad_norm_(self.method.parameters(), limit)


def _parallel(method: SentenceMethod, group: Group) -> nn.Module:
    if group.world_size == 1:
        return method
    devices = [group.device] if group.device.type == "cuda" else None
    return DistributedDataParallel(method, device_ids=devices, broadcast_buffers=False)


def _mix(numbers: Sequence[int]) -> int:
    """One 63-bit seed out of several numbers, unrelated for neighbours."""
    entropy = [number % 2**64 for number in numbers]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
