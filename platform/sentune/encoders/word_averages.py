"""Sentences as averages of the input embeddings of their tokens: an encoder without its layers.

Legend: N = sentences, H = width of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from sentune.encoders.tokenizing import load_tokenizer
from sentune.encoders.transformer import load, read_config


def word_averages(path: str) -> Callable[[Sequence[str]], Tensor] | None:
    """Return a function from N sentences to [N, H] averages; special tokens are left out.

    A sentence without a token is a zero vector. None where the encoder at ``path`` has no weights:
    it is trained from scratch.
    """
    if not read_config(path, "--encoder")[1]:
        return None
    encoder, tokenizer = load(path), load_tokenizer(path)
    vectors: Tensor = encoder.model.get_input_embeddings().weight.detach()

    def average(sentences: Sequence[str]) -> Tensor:
        ids = tokenizer.encode(sentences, encoder.max_length, special=False)
        ends = torch.tensor([0, *map(len, ids)]).cumsum(0)
        tokens = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *ids]))
        return embedding_bag(tokens, vectors, ends[:-1], mode="mean")

    return average
