"""A bidirectional GRU over packed word vectors, with a fast gradient on CPUs.

Legend: N = sentences, L = words of the longest one, T = words of all, n = width of a word vector,
H = width of a direction, d_z = 2 H. Packed words are ordered by time step, and within it by length
of the sentence, longest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from sentune.encoders.tokenizing import pad


class BidirectionalGru(nn.Module):
    """A bidirectional layer of gated recurrent units (Chung et al. 2014).

    Sentences are packed, so that padding costs nothing and the backward direction starts at each
    sentence's last word. ``inputs`` is n and ``hidden`` is H.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def last(self, words: PackedSequence) -> Tensor:
        """Return the last hidden states of both directions side by side, [N, d_z]."""
        if words.data.device.type == "cpu" and torch.is_grad_enabled():
            return self._last(words)
        hidden: Tensor = self.gru(words)[1]
        return hidden.transpose(0, 1).flatten(1)

    def states(self, words: PackedSequence) -> PackedSequence:
        """Return the hidden states of both directions side by side, packed [T, d_z]."""
        states: PackedSequence = self.gru(words)[0]
        return states

    def _last(self, words: PackedSequence) -> Tensor:
        """Do as ``last``, with a faster gradient on a CPU, in the weights' precision."""
        sizes, found = words.batch_sizes.tolist(), []
        recurrence: Callable[..., Tensor] = _Recurrence.apply
        with torch.autocast("cpu", enabled=False):
            for backward, suffix in ((False, ""), (True, "_reverse")):
                inner, weight, bias_inner, bias = (
                    self.gru.get_parameter(f"{name}_l0{suffix}")
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                inputs = linear(words.data, inner, bias_inner)
                found.append(recurrence(inputs, weight, bias, sizes, backward))
        return torch.cat(found, dim=1)[words.unsorted_indices]


def pack(rows: Sequence[np.ndarray], device: torch.device) -> PackedSequence:
    """Pack the word rows of sentences, none of which is empty, as a sequence of ids [T]."""
    ids, mask = pad(rows, 0)
    lengths = mask.sum(1)  # on the CPU, where packing reads it
    return pack_padded_sequence(ids.to(device), lengths, batch_first=True, enforce_sorted=False)


def carry(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """Return a packed sequence with the structure of ``packed`` and other values, [T, ...]."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


class _Recurrence(torch.autograd.Function):
    """Computes the last hidden states of one direction on a CPU, from zero initial states.

    torch slices its packed input into time steps, and the gradient of each slice is as large as the
    whole input. With batches of 256 sentences from books that was 60 % of a training step. Here,
    every step writes into its own rows, and the weights' gradient is one product over all steps.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], backward: bool
    ) -> Tensor:
        """Return the last hidden states, [N, H].

        Args:
            inputs: [T, 3 H] contributions of the words to reset gate, update gate and candidate.
            weight, bias: [3 H, H] and [3 H] parameters of the hidden state, in the same order.
            sizes: number of sentences with a word at each time step, not increasing.
            backward: whether to go from each sentence's last word to its first.
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
            gate[:, : 2 * width].sigmoid_()
            reset, update = gate[:, :width], gate[:, width : 2 * width]
            candidate = gate[:, 2 * width :]
            torch.addcmul(inputs[rows, 2 * width :], reset, own[:, 2 * width :], out=candidate)
            torch.lerp(candidate.tanh_(), old, update, out=state[:count])
        # of the hidden state's contributions, backward needs only the candidate's
        ctx.save_for_backward(weight, before, gates, hidden[:, 2 * width :])
        ctx.sizes, ctx.backward_in_time = sizes, backward
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Return the gradients of ``inputs``, ``weight`` and ``bias``."""
        weight, before, gates, own = ctx.saved_tensors
        width = weight.shape[1]
        state = gradient.clone()
        reset, update, candidate = gates.split(width, dim=1)
        # these factors do not depend on the gradients, so compute them for all words at once
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
    """Yield the slice of each time step among all T words, and its number of words."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    steps = [(slice(end - size, end), size) for end, size in zip(ends, sizes, strict=True)]
    yield from reversed(steps) if backward else steps
