"""The GRU's own recurrence against torch's, forwards and backwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from sentune.encoders.words.gru import BidirectionalGru, carry, pack
from tests.rounding import rounding

CPU = torch.device("cpu")


def packed(lengths: list[int], width: int) -> PackedSequence:
    rng = np.random.default_rng(0)
    ids = pack([rng.integers(0, 30, length) for length in lengths], CPU)
    torch.manual_seed(1)
    return carry(ids, torch.randn(30, width, dtype=torch.float64)[ids.data])


def gradients(gru: BidirectionalGru, last: Tensor) -> dict[str, Tensor]:
    gru.zero_grad()
    weights = torch.linspace(-1, 2, last.numel(), dtype=last.dtype).view_as(last)
    ((last**2) * weights).sum().backward()
    return {name: p.grad.clone() for name, p in gru.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("lengths", [[3, 7, 1, 7, 4], [1], [5, 5], [1, 2, 9]])
def test_last_states_and_gradients_are_those_of_torch(lengths: list[int]) -> None:
    torch.manual_seed(0)
    gru, words = BidirectionalGru(4, 6).double(), packed(lengths, 4)
    theirs = gru.gru(words)[1].transpose(0, 1).flatten(1)
    # each word 4 + 6 products and six functions, of numbers up to 4 before they are squashed
    error = rounding(16 * max(lengths), 4)
    ours = gru.last(words)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=error)
    with torch.no_grad():
        torch.testing.assert_close(gru.last(words), theirs, rtol=0, atol=error)
    expected, found = gradients(gru, theirs), gradients(gru, ours)
    assert found.keys() == expected.keys()
    assert len(found) == 8
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=12 * sum(lengths) * error)


def test_states_hold_the_last_ones_and_padding_is_zero() -> None:
    gru, words = BidirectionalGru(4, 6).double(), packed([3, 7, 1], 4)
    with torch.no_grad():
        states, lengths = pad_packed_sequence(gru.states(words), batch_first=True)
        last = gru.last(words)
    assert lengths.tolist() == [3, 7, 1]
    for row, length in enumerate(lengths.tolist()):
        ends = torch.cat((states[row, length - 1, :6], states[row, 0, 6:]))
        torch.testing.assert_close(ends, last[row])
        assert not states[row, length:].any()
