"""Padded tensors from lists of token ids, with as little padding as possible.

Legend: N = sentences, L = tokens of the longest sentence of a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Chunk(NamedTuple):
    """Sentences that go through the encoder together.

    Attributes:
        input_ids: [N, L] token ids, padded on the right.
        attention_mask: [N, L], 1 on tokens and 0 on padding.
    """

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Chunk:
        """Return the same chunk on another device."""
        return Chunk(self.input_ids.to(device), self.attention_mask.to(device))


def pad(rows: Sequence[np.ndarray], pad_id: int) -> Chunk:
    """One chunk from token ids of any lengths."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    mask = np.arange(lengths.max())[None, :] < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return Chunk(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def length_sorted_chunks(
    rows: Sequence[np.ndarray], size: int, pad_id: int
) -> tuple[list[Chunk], Tensor]:
    """Chunks of sentences of like length, and the way back.

    Args:
        rows: token ids of every sentence.
        size: most sentences in a chunk; the chunks are as equal in number as they can be.
        pad_id: id of the padding token.

    Returns:
        The chunks, and ``restore``: ``torch.cat(outputs)[restore]`` is in the order of ``rows``.
    """
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    # longest first: what does not fit into memory fails at once and not at the last chunk
    order = np.argsort(-lengths, kind="stable")
    parts = np.array_split(order, -(-len(rows) // size)) if len(rows) else []
    chunks = [pad([rows[i] for i in part], pad_id) for part in parts]
    return chunks, torch.from_numpy(np.argsort(order, kind="stable"))
