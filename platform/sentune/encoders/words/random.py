"""Random sentence encoders over word vectors, which are never trained.

Wieting and Kiela: No Training Required: Exploring Random Encoders for Sentence Classification,
2019. A sentence's vector is the maximum of each dimension over the words.

Legend: N = sentences, L = words of the longest one, n = width of a word vector, D = width of a
sentence vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, log, sqrt

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentune.encoders.transformer import pool

SPECTRAL_RADIUS = 0.8
"""Spectral radius of the echo state network's recurrent matrix. This and the next two constants are
fixed here, but tuned in the paper."""

SPARSITY = 0.5
"""Share of zeros in the recurrent matrix."""

INPUT_SCALE = 0.1
"""Maximum input weight of the echo state network."""


class RandomEncoder(nn.Module, ABC):
    """Base of random encoders: max pooling over a state for each word.

    ``inputs`` is n and ``width`` is D; ``generator`` draws the weights.
    """

    layer: nn.RNNBase

    def __init__(self, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width = width
        self.draw(inputs, width, generator)
        self.requires_grad_(False)

    @abstractmethod
    def draw(self, inputs: int, width: int, generator: torch.Generator) -> None:
        """Draw the weights."""

    def states(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Return the states [N, L, D] of word vectors [N, L, n]; ``lengths`` [N] counts words.

        The default runs ``layer``.
        """
        return recurrent_states(self.layer, words, lengths)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return sentence vectors [N, D] of word vectors [N, L, n]; ``mask`` [N, L] marks words."""
        return pool(self.states(words, mask.sum(1)), mask, "max")


class Borep(RandomEncoder):
    """Bag of random embedding projections: one matrix for all word vectors.

    Weights are drawn from U(-1/sqrt(n), 1/sqrt(n)).
    """

    def draw(self, inputs: int, width: int, generator: torch.Generator) -> None:
        self.weight = nn.Parameter(_uniform((inputs, width), 1 / sqrt(inputs), generator))

    def states(self, words: Tensor, lengths: Tensor) -> Tensor:
        del lengths
        return words @ self.weight


class RandomLstm(RandomEncoder):
    """A bidirectional LSTM with D / 2 units per direction.

    Weights are drawn from U(-1/sqrt(D/2), 1/sqrt(D/2)).
    """

    def draw(self, inputs: int, width: int, generator: torch.Generator) -> None:
        self.layer = nn.LSTM(inputs, width // 2, batch_first=True, bidirectional=True)
        for parameter in self.layer.parameters():
            parameter.data = _uniform(tuple(parameter.shape), 1 / sqrt(width // 2), generator)


class EchoState(RandomEncoder):
    """A bidirectional echo state network with D / 2 units per direction, without leak.

    h_t = tanh(W_i e_t + W_h h_(t-1)), where W_h is sparse and scaled to ``SPECTRAL_RADIUS``.
    """

    def draw(self, inputs: int, width: int, generator: torch.Generator) -> None:
        half = width // 2
        inner = _uniform((2, inputs, half), INPUT_SCALE, generator)
        recurrent = _uniform((2, half, half), 1.0, generator)
        kept = torch.rand((2, half, half), generator=generator) >= SPARSITY
        recurrent = torch.stack([_scaled(one) for one in recurrent * kept])
        self.layer = nn.RNN(inputs, half, bias=False, batch_first=True, bidirectional=True)
        for part, drawn in (("ih", inner), ("hh", recurrent)):
            for suffix, matrix in zip(("", "_reverse"), drawn, strict=True):
                self.layer.get_parameter(f"weight_{part}_l0{suffix}").data = matrix.T.contiguous()


def recurrent_states(layer: nn.RNNBase, words: Tensor, lengths: Tensor) -> Tensor:
    """Return the states [N, L, D] of a bidirectional layer, with zeros on padding.

    ``words`` are vectors, [N, L, n], and ``lengths`` the words of each sentence, [N], at least 1.
    """
    packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer(packed)[0], True, total_length=words.shape[1])[0]


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def _scaled(matrix: Tensor) -> Tensor:
    """Scale a square matrix to ``SPECTRAL_RADIUS``.

    The radius is estimated without a decomposition: over many products of a vector with the matrix,
    the mean logarithm of its growth tends to that of the radius, also for complex eigenvalues.
    """
    vector, growth, steps = torch.ones(matrix.shape[0]), 0.0, 100
    for _ in range(steps):
        vector = vector / vector.norm() @ matrix
        if not vector.any():  # a small matrix may be nilpotent: its radius is 0
            return matrix
        growth += log(float(vector.norm())) / steps
    return matrix * (SPECTRAL_RADIUS / exp(growth))


KINDS: dict[str, type[RandomEncoder]] = {"borep": Borep, "lstm": RandomLstm, "esn": EchoState}
