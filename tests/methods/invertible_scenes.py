"""A small table of words and models on it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from sentune.encoders.words import WordTable
from sentune.encoders.words.vectors import FixedVectors
from sentune.methods.invertible import Invertible, InvertibleSettings

WIDTH = 8


@cache
def table(count: int = 40) -> WordTable:
    """Words w0, w1, ... with random vectors."""
    vectors = np.random.default_rng(5).normal(size=(count, WIDTH)).astype(np.float32)
    words = tuple(f"w{i}" for i in range(count))
    return WordTable(words, vectors, np.zeros(count), fingerprint="scene")


def model(seed: int = 0, **settings: object) -> Invertible:
    """In float64, new weights; coupling layers away from the identity."""
    torch.manual_seed(seed)
    chosen = {"hidden_size": 6, "coupling_width": 5, **settings}
    made = Invertible(FixedVectors(table()), InvertibleSettings.model_validate(chosen)).double()
    for parameter in made.decoder.couplings.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return made


def sentences(count: int, seed: int = 0, longest: int = 9) -> list[np.ndarray]:
    """Rows of words, from one to ``longest``."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    return [rng.integers(0, 40, length).astype(np.int32) for length in lengths]
