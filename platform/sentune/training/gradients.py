"""Gradients of a batch that is spread over workers, or does not fit into memory.

GradCache (Gao et al., 2021), exact: a contrastive loss needs the embeddings of the whole batch at
once, not the activations behind them: embed in micro-batches without gradients, take the loss's
gradient with respect to the embeddings, then embed each micro-batch again and hand it its part of
that gradient. Batch size becomes a hyperparameter of the loss and is no longer one of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.autograd.function import once_differentiable


class Gather(torch.autograd.Function):
    """all_gather of unequal slices, padded to the longest; backward sums and takes the own part."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.start, ctx.rows = sum(sizes[:rank]), sizes[rank]
        padded = local.new_zeros(max(sizes), *local.shape[1:])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.start : ctx.start + ctx.rows], None, None


def densify_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace sparse gradients, as those of an embedding's rows, by dense ones."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


@dataclass(frozen=True)
class RandomState:
    """State of torch's generators: the CPU's and, where used, the current CUDA device's."""

    cpu: Tensor
    cuda: Tensor | None

    @classmethod
    def capture(cls) -> RandomState:
        used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if used else None)

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


def cached_backward(
    embed: Callable[[Any], Tensor],
    inputs: Sequence[Any],
    loss: Callable[[Tensor], Tensor],
    *,
    no_sync: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Tensor:
    """Add the gradient of ``loss(cat(embed(x) for x in inputs))`` to the parameters' ``.grad``.

    Dropout draws the same masks both times, since each micro-batch's random state is replayed;
    afterwards the generators stand where a plain backward would have left them. The gradient of
    parameters that the loss has of its own is taken together with the last micro-batch's, as a
    data-parallel module averages gradients then.

    Args:
        embed: one micro-batch -> [n, D].
        inputs: at least one micro-batch.
        loss: [B, D] -> scalar, called once; one without gradient has run its own backward pass.
        no_sync: makes a context in which a data-parallel module does not average gradients (DDP's
            ``no_sync``); entered for all micro-batches but the last.

    Returns:
        The loss, detached.
    """
    embeddings, states = [], []
    with torch.no_grad():
        for micro_batch in inputs:
            states.append(RandomState.capture())
            embeddings.append(embed(micro_batch))
    leaf = torch.cat(embeddings).requires_grad_()
    value = loss(leaf)
    learns = _has_others(value, leaf)
    if value.requires_grad:
        torch.autograd.backward(value, inputs=[leaf] if learns else None, retain_graph=learns)
    gradient, leaf.grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad, None
    after = RandomState.capture()
    parts = torch.split(gradient, [len(part) for part in embeddings])
    last = len(inputs) - 1
    for index, (micro_batch, state, part) in enumerate(zip(inputs, states, parts, strict=True)):
        state.restore()
        with nullcontext() if index == last else no_sync():
            own = [value] if learns and index == last else []
            torch.autograd.backward([embed(micro_batch), *own], [part, *map(torch.ones_like, own)])
    after.restore()
    return value.detach()


def _has_others(value: Tensor, leaf: Tensor) -> bool:
    """Return whether a value has a gradient with respect to another leaf, too."""
    nodes, seen = [value.grad_fn], set[Any]()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if getattr(node, "variable", leaf) is not leaf:
                return True
            nodes += [before for before, _ in node.next_functions]
    return False
