"""Small corpora of transfer tasks, and a model that has learnt their sentences by heart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.geometry import Points
from sentune.tasks.base import Model


def corpus(kind: Kind, rows: Sequence[tuple]) -> Corpus:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMAS[kind], strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SCHEMAS[kind])
    return Corpus(spec="made:by-hand", kind=kind, table=table, fingerprint="")


class Memory:
    """Gives each sentence a random embedding that depends on its number; counts its calls.

    Sentences are ``s<number>`` and any words; ``shift`` moves the sentences of a class.
    """

    def __init__(self, width: int, shifts: dict[str, float] | None = None) -> None:
        self.width, self.shifts = width, shifts or {}
        self.calls: list[list[str]] = []

    def embed(self, sentences: list[str]) -> Tensor:
        self.calls.append(sentences)
        return torch.tensor(np.array([self.vector(s) for s in sentences]))

    def vector(self, sentence: str) -> np.ndarray:
        number = int(sentence.split()[0][1:])
        noise = np.random.default_rng(number).normal(size=self.width)
        scale = np.geomspace(3, 0.1, self.width)
        return (noise * scale + self.shifts.get(sentence, 0.0) * scale[::-1]).astype(np.float32)

    def model(self) -> Model:
        return Model(embed=self.embed, geometry=Points())


def sentences(count: int, start: int = 0) -> list[str]:
    """Of 1 to 4 words, so that SentEval's order is not that of the corpus."""
    return [f"s{n}" + " word" * (n * 7 % 4) for n in range(start, start + count)]
