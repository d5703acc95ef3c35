"""The recurrence of a GRU over packed sentences on a CPU, with its gradient.

torch cuts its packed input into time steps, and the gradient of each cut is a table as large as the
whole input: with batches of 256 sentences from books that was 60 % of a training step. Here every
step writes into its own rows, and the weights' gradient is one product over all steps.

Legend: N = sentences, longest first, T = words of all, time step by time step, H = width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class GruRecurrence(torch.autograd.Function):
    """Last hidden states of one direction, the first ones being zero."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], backward: bool
    ) -> Tensor:
        """[N, H].

        Args:
            inputs: [T, 3 H] what the words add to reset gate, update gate and candidate.
            weight, bias: [3 H, H], [3 H] of the hidden state, in the same order.
            sizes: sentences that have a word at each time step; they fall.
            backward: from each sentence's last word to its first.
        """
        width = weight.shape[1]
        state = inputs.new_zeros(sizes[0], width)
        before, hidden = inputs.new_empty(len(inputs), width), torch.empty_like(inputs)
        gates = torch.empty_like(inputs)
        for rows, count in _steps(sizes, backward):
            old = before[rows].copy_(state[:count])
            own, gate = hidden[rows], gates[rows]
            torch.addmm(bias, old, weight.T, out=own)
            torch.add(inputs[rows], own, out=gate)
            reset_update, candidate = gate[:, : 2 * width].sigmoid_(), gate[:, 2 * width :]
            reset, update = reset_update.split(width, dim=1)
            torch.addcmul(inputs[rows, 2 * width :], reset, own[:, 2 * width :], out=candidate)
            torch.lerp(candidate.tanh_(), old, update, out=state[:count])
        # of the hidden state's own part only that of the candidate is needed again
        ctx.save_for_backward(weight, before, gates, hidden[:, 2 * width :])
        ctx.sizes, ctx.backward_in_time = sizes, backward
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Back through the steps, in the opposite order."""
        weight, before, gates, own = ctx.saved_tensors
        width = weight.shape[1]
        state = gradient.clone()
        reset, update, candidate = gates.split(width, dim=1)
        # what the steps multiply by does not hang on their gradients: all words at once
        to_candidate = (1 - update) * (1 - candidate**2)
        to_update = (before - candidate) * update * (1 - update)
        to_reset = own * reset * (1 - reset)
        inputs, hidden = torch.empty_like(gates), torch.empty_like(gates)
        for rows, count in _steps(ctx.sizes, not ctx.backward_in_time):
            here, first = state[:count], slice(width)
            found = inputs[rows]
            moved = torch.mul(here, to_candidate[rows], out=found[:, 2 * width :])
            torch.mul(here, to_update[rows], out=found[:, width : 2 * width])
            torch.mul(moved, to_reset[rows], out=found[:, first])
            hidden[rows, : 2 * width] = found[:, : 2 * width]
            torch.mul(moved, reset[rows], out=hidden[rows, 2 * width :])
            here.mul_(update[rows]).addmm_(hidden[rows], weight)
        return inputs, hidden.T @ before, hidden.sum(0), None, None


def _steps(sizes: Sequence[int], backward: bool) -> Iterator[tuple[slice, int]]:
    """Rows of each time step among all T, and how many they are."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    steps = [(slice(end - size, end), size) for end, size in zip(ends, sizes, strict=True)]
    yield from reversed(steps) if backward else steps
