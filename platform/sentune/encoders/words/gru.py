"""A bidirectional GRU over word vectors, without padding.

Legend: N = sentences, L = words of the longest one, T = words of all, n = width of a word vector,
d_z = twice the width of a direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sentune.encoders.padding import pad
from sentune.encoders.words.recurrence import GruRecurrence


class BidirectionalGru(nn.Module):
    """Gated recurrent units in both directions (Chung et al. 2014).

    Sentences of any lengths go through it packed, time step by time step, so that padding costs
    nothing and the backward direction starts at each sentence's own last word.

    Args:
        inputs: n.
        hidden: width of a direction.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def last(self, words: PackedSequence) -> Tensor:
        """[N, d_z] last hidden states: after the last word forward, after the first backward."""
        if words.data.device.type == "cpu" and torch.is_grad_enabled():
            return self._last(words)
        hidden: Tensor = self.gru(words)[1]
        return hidden.transpose(0, 1).flatten(1)

    def states(self, words: PackedSequence) -> PackedSequence:
        """[T, d_z] hidden states at every word, forward beside backward, packed as the words."""
        states: PackedSequence = self.gru(words)[0]
        return states

    def _last(self, words: PackedSequence) -> Tensor:
        """``last`` with a faster gradient on a CPU; in the weights' precision."""
        sizes = words.batch_sizes.tolist()
        found = []
        with torch.autocast("cpu", enabled=False):
            for backward, suffix in ((False, ""), (True, "_reverse")):
                inner, weight, bias_inner, bias = (
                    self.gru.get_parameter(f"{name}_l0{suffix}")
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                inputs = linear(words.data, inner, bias_inner)
                found.append(GruRecurrence.apply(inputs, weight, bias, sizes, backward))
        return torch.cat(found, dim=1)[words.unsorted_indices]


def pack(rows: Sequence[np.ndarray], device: torch.device) -> PackedSequence:
    """Rows of a word table for each sentence, none empty, as one packed sequence of [T] ids."""
    ids, mask = pad(rows, 0)
    lengths = mask.sum(1)  # stays on the CPU: packing reads it there
    return pack_padded_sequence(ids.to(device), lengths, batch_first=True, enforce_sorted=False)


def carry(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """Other values, [T, ...], at the places of a packed sequence."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def unpack(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """[N, L, ...] with zeros after a sentence's end, and the [N] lengths (on the CPU)."""
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    return padded, lengths
