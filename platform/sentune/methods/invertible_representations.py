"""Representations of sentences by an invertible model.

A sentence vector pools one vector for each word of the sentence (Tang and de Sa, section 4.6).

Legend: N = sentences, L = words of the longest one, S = sentences of all chunks, n = width of a
word vector, d_z = width of a sentence vector, D = any width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from sentune.beats import beat
from sentune.encoders.words.gru import carry
from sentune.errors import InvalidValue
from sentune.methods.invertible import PARTS, ComponentFrom, Ids, Invertible


class Representations:
    """Computes the representations of sentences by a method.

    Args:
        method: model to use in its current state.
        max_length: number of known words of a sentence that are used, from its beginning.
        size: number of sentences in a chunk.
    """

    def __init__(self, method: Invertible, *, max_length: int, size: int) -> None:
        self.method, self._max_length, self._size = method, max_length, size

    def __call__(
        self, sentences: Sequence[str], component_from: ComponentFrom = "corpus"
    ) -> dict[str, Tensor]:
        """Return every representation by name, [S, d_z] or [S, n]; see ``Postprocessing.forward``.

        A sentence without known words is represented by zeros.

        Args:
            component_from: ``corpus`` removes the stored components; ``task`` fits components on
                these sentences.

        Raises:
            InvalidValue: ``component_from`` is neither.
        """
        if component_from not in (known := get_args(ComponentFrom)):
            raise InvalidValue("component_from", component_from, f"use {' or '.join(known)}")
        parts = self.mean_parts(self._rows(sentences))
        stored = self.method.postprocessing
        removal = stored if component_from == "corpus" else deepcopy(stored).fit(parts)
        found: dict[str, Tensor] = removal(parts)
        return found

    def features(self, sentences: Sequence[str], *, representation: str = "ensemble") -> Tensor:
        """Return features for a linear classifier, [S, 6 d_z]; see ``three_pools``.

        Args:
            representation: ``ensemble``; ``z_en`` or ``z_de`` for [S, 3 d_z] of one encoder.

        Raises:
            InvalidValue: ``representation`` has another value.
        """
        found = self.three_pools(self._rows(sentences))
        z_en, z_de = found.chunk(2, dim=1)
        parts = {"ensemble": found, "z_en": z_en, "z_de": z_de}
        if representation not in parts:
            fix = f"choose among {', '.join(parts)}"
            raise InvalidValue("readout features", representation, fix)
        return parts[representation]

    def fit(self, rows: Ids) -> None:
        """Fit the stored components on sentences given as rows of the word table."""
        self.method.postprocessing.fit(self.mean_parts(rows))

    def _rows(self, sentences: Sequence[str]) -> list[np.ndarray]:
        found = self.method.vectors.table.ids(sentences, self._max_length)
        return [found.ids[start:end] for start, end in pairwise(found.offsets)]

    def mean_parts(self, rows: Ids) -> dict[str, Tensor]:
        """Return the means over the words of S sentences by name, zeros for those without words.

        ``z_en`` [S, d_z] is the mean of the hidden states, ``z_de`` [S, d_z] that of the inverse
        decoder on the word vectors, ``x`` [S, n] that of the decoder on the hidden states, and
        ``words`` [S, n] that of the word vectors.
        """
        widths = [self.method.postprocessing.widths[part] for part in PARTS]
        found = self._in_chunks(rows, sum(widths), self._means)
        return dict(zip(PARTS, torch.split(found, widths, dim=1), strict=True))

    def three_pools(self, rows: Ids) -> Tensor:
        """Return maximum, minimum and mean of the encoder's, then the inverse decoder's, vectors.

        They are features for a linear classifier (section 4.6), [S, 6 d_z]. No component is
        removed, because a classifier can learn to ignore a direction.
        """
        return self._in_chunks(rows, 6 * self.method.encoder.width, self._extremes)

    def _means(self, words: PackedSequence, states: PackedSequence) -> Tensor:
        decoder = self.method.decoder
        uncoupled = carry(words, decoder.uncouple(words.data))
        packed = (states, uncoupled, carry(states, decoder(states.data)), words)
        encoded, inverse, decoded, own = map(_mean, packed)
        # the mean of W^T (u - b) is computed from that of u, which is narrower
        return torch.cat((encoded, decoder.raise_to_sentence(inverse), decoded, own), dim=1)

    def _extremes(self, words: PackedSequence, states: PackedSequence) -> Tensor:
        inverse = carry(words, self.method.decoder.inverse(words.data))
        return torch.cat([pool(x) for x in (states, inverse) for pool in (_range, _mean)], dim=1)

    @torch.no_grad()
    def _in_chunks(
        self, rows: Ids, width: int, pool: Callable[[PackedSequence, PackedSequence], Tensor]
    ) -> Tensor:
        """Pool sentences in chunks of similar length, [S, width]; decode without autocast."""
        method = self.method
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        order = np.argsort(-lengths, kind="stable")[: int((lengths > 0).sum())]
        found = torch.zeros(len(rows), width, dtype=method.dtype, device=method.device)
        for part in np.array_split(order, -(-len(order) // self._size)) if len(order) else ():
            beat()
            words = method.words([rows[i] for i in part])
            states = method.encoder.states(words)
            with torch.autocast(method.device.type, enabled=False):
                pooled = pool(words, carry(states, states.data.to(method.dtype)))
            found[torch.from_numpy(part).to(method.device)] = pooled
        return found


def _mean(packed: PackedSequence) -> Tensor:
    """Return the means over the words, [N, D]."""
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    return padded.sum(1) / lengths[:, None].to(padded)


def _range(packed: PackedSequence) -> Tensor:
    """Return the maximum and the minimum over the words, [N, 2 D]."""
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    places = torch.arange(padded.shape[1], device=padded.device)
    padding = (places >= lengths[:, None].to(padded.device))[:, :, None]
    largest = padded.masked_fill(padding, -torch.inf).amax(1)
    return torch.cat((largest, padded.masked_fill(padding, torch.inf).amin(1)), dim=1)
