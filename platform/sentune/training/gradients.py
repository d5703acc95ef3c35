"""Gradients of a batch that is spread over workers or does not fit into memory.

GradCache (Gao et al., 2021) computes the exact gradient of a contrastive loss, which needs the
embeddings of the whole batch but not the activations behind them. It embeds micro-batches without
gradients, computes the gradient of the loss with respect to the embeddings, then embeds each
micro-batch again and backpropagates its part of that gradient. Memory depends on the micro-batch
only, not on the batch size.
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
    """Gather slices of unequal sizes from all workers.

    The backward pass sums the gradients over the workers and returns those of the local slice.
    """

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
    """Replace sparse gradients, such as those of an embedding's rows, by dense ones."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


@dataclass(frozen=True)
class RandomState:
    """State of torch's generators on the CPU and, if CUDA is in use, on the current device."""

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

    The random state of each micro-batch is replayed, so that dropout draws the same masks in both
    passes. Afterwards the generators are in the state that a plain backward pass leaves. Parameters
    of the loss itself get their gradients together with the last micro-batch, when a data-parallel
    module averages gradients.

    Args:
        embed: function from a micro-batch to embeddings [n, D].
        inputs: at least one micro-batch.
        loss: function from [B, D] to a scalar, called once. If the scalar requires no gradient,
            ``loss`` must have run the backward pass itself.
        no_sync: returns a context in which a data-parallel module does not average gradients
            (``no_sync`` of DDP); used for all micro-batches but the last.

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
    """Return whether a value also has a gradient with respect to a leaf other than ``leaf``."""
    nodes, seen = [value.grad_fn], set[Any]()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if getattr(node, "variable", leaf) is not leaf:
                return True
            nodes += [before for before, _ in node.next_functions]
    return False
