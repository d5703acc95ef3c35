"""The representations of sentences that an invertible model offers, from text.

One vector of a sentence comes from a vector at each of its words (Tang and de Sa, section 4.6).

Legend: N = sentences, L = words of the longest one, S = sentences of all chunks, n = width of a
word vector, d_z = of a sentence vector, D = any width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sentune.beats import beat
from sentune.encoders.words.gru import carry, unpack
from sentune.errors import InvalidValue
from sentune.methods.invertible import PARTS, ComponentFrom, Ids, Invertible


class Representations:
    """Text to representations, with the method as it stands.

    Of a sentence the first ``max_length`` known words are used; ``size`` sentences go through the
    model together.
    """

    def __init__(self, method: Invertible, *, max_length: int, size: int) -> None:
        self.method, self._max_length, self._size = method, max_length, size

    def __call__(
        self, sentences: Sequence[str], component_from: ComponentFrom = "corpus"
    ) -> dict[str, Tensor]:
        """Every representation by its name, [S, d_z] or [S, n]; see ``Postprocessing.forward``.

        A sentence without a known word is zero in each.

        Args:
            component_from: ``task`` fits the removed components on these sentences.

        Raises:
            InvalidValue: it is neither.
        """
        if component_from not in (known := get_args(ComponentFrom)):
            raise InvalidValue("component_from", component_from, f"give {' or '.join(known)}")
        parts = mean_parts(self.method, self._rows(sentences), self._size)
        stored = self.method.postprocessing
        removal = stored if component_from == "corpus" else stored.fitted(parts)
        found: dict[str, Tensor] = removal(parts)
        return found

    def features(self, sentences: Sequence[str], *, representation: str = "ensemble") -> Tensor:
        """[S, 6 d_z] for a linear classifier on top; see ``three_pools``.

        Args:
            representation: ``z_en`` or ``z_de`` for [S, 3 d_z] of one encoder alone.

        Raises:
            InvalidValue: another name.
        """
        found = three_pools(self.method, self._rows(sentences), self._size)
        halves = dict(zip(("z_en", "z_de"), found.chunk(2, dim=1), strict=True))
        parts = {"ensemble": found, **halves}
        if representation not in parts:
            fix = f"choose among {', '.join(parts)}"
            raise InvalidValue("readout features", representation, fix)
        return parts[representation]

    def fit(self, rows: Ids) -> None:
        """Fit the stored components on sentences, as rows of the word table."""
        self.method.postprocessing.fit(mean_parts(self.method, rows, self._size))

    def _rows(self, sentences: Sequence[str]) -> list[np.ndarray]:
        found = self.method.vectors.table.ids(sentences, self._max_length)
        return [found.ids[start:end] for start, end in pairwise(found.offsets)]


def mean_parts(method: Invertible, rows: Ids, size: int) -> dict[str, Tensor]:
    """Means over the words of S sentences; zero for a sentence without words.

    ``z_en`` [S, d_z] of the hidden states, ``z_de`` [S, d_z] of the inverse decoder on the word
    vectors, ``x`` [S, n] of the decoder on the hidden states, ``words`` [S, n] of the word vectors.
    """
    widths = [method.postprocessing.widths[part] for part in PARTS]
    found = _in_chunks(method, rows, size, sum(widths), _means)
    return dict(zip(PARTS, torch.split(found, widths, dim=1), strict=True))


def three_pools(method: Invertible, rows: Ids, size: int) -> Tensor:
    """[S, 6 d_z] maximum, minimum and mean of the encoder's vectors, then of the inverse decoder's.

    For a linear classifier on top (section 4.6); no component is removed, since a classifier can
    do without a direction by itself.
    """
    return _in_chunks(method, rows, size, 6 * method.encoder.width, _extremes)


def means(padded: Tensor, lengths: Tensor) -> Tensor:
    """[N, L, D], zero behind each sentence's end -> [N, D]."""
    return padded.sum(1) / lengths[:, None].to(padded)


def extremes(padded: Tensor, lengths: Tensor) -> Tensor:
    """[N, L, D] -> [N, 2 D] the largest and the smallest of each number over a sentence's words."""
    places = torch.arange(padded.shape[1], device=padded.device)
    behind = (places >= lengths[:, None].to(padded.device))[:, :, None]
    largest = padded.masked_fill(behind, -torch.inf).amax(1)
    return torch.cat((largest, padded.masked_fill(behind, torch.inf).amin(1)), dim=1)


def _means(method: Invertible, words: PackedSequence, states: PackedSequence) -> Tensor:
    """The mean of ``W^T (u - b)`` is taken as that of u, which is narrower."""
    back, lengths = unpack(carry(words, method.decoder.uncouple(words.data)))
    ahead, _ = unpack(carry(states, method.decoder(states.data)))
    encoded, own = unpack(states)[0], unpack(words)[0]
    z_de = method.decoder.raise_to_sentence(means(back, lengths))
    parts = (means(encoded, lengths), z_de, means(ahead, lengths), means(own, lengths))
    return torch.cat(parts, dim=1)


def _extremes(method: Invertible, words: PackedSequence, states: PackedSequence) -> Tensor:
    inverse = carry(words, method.decoder.inverse(words.data))
    pools = []
    for packed in (states, inverse):
        padded, lengths = unpack(packed)
        pools += [extremes(padded, lengths), means(padded, lengths)]
    return torch.cat(pools, dim=1)


@torch.no_grad()
def _in_chunks(
    method: Invertible,
    rows: Ids,
    size: int,
    width: int,
    pool: Callable[[Invertible, PackedSequence, PackedSequence], Tensor],
) -> Tensor:
    """[S, width] of sentences of like length together; the decoder computes in full precision."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    order = np.argsort(-lengths, kind="stable")[: int((lengths > 0).sum())]
    found = torch.zeros(len(rows), width, dtype=method.dtype, device=method.device)
    for part in np.array_split(order, -(-len(order) // size)) if len(order) else ():
        beat()
        words = method.words([rows[i] for i in part])
        states = method.encoder.states(words)
        with torch.autocast(method.device.type, enabled=False):
            pooled = pool(method, words, carry(states, states.data.to(method.dtype)))
        found[torch.from_numpy(part).to(method.device)] = pooled
    return found
